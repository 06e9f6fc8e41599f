//! Compiles authors' files, and describes or loads what comes of them.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind};
use perigee_cc::{Algorithm, File, ProgressNote};
use perigee_cc_build::{BuildError, GoOn};
use perigee_units::fnv1a;

use crate::confined::{self, Compiled};
use crate::error::{LoadError, MOST_SOURCE_BYTES};
use crate::image;
use crate::kept::{self, Built, Key};
use crate::outside;
use crate::scratch::scratch;

/// Loads files, each once.
#[derive(Debug)]
pub struct Loader {
    headers: PathBuf,
    loaded: Vec<&'static Algorithm>,
    warnings: String,
    /// In a process that is to run them: the compiled files, and where calls are noted if they are loaded at once.
    given: Option<(Vec<Compiled>, Option<&'static ProgressNote>)>,
}

impl Loader {
    /// A loader for files that include the `tcp.h` of this folder. It compiles them; nothing of them is executed.
    pub fn new(headers: PathBuf) -> Self {
        Self { headers, loaded: Vec::new(), warnings: String::new(), given: None }
    }

    /// A loader of files that another process has compiled, which loads them into this one: only for a process that was
    /// made for it, see [`crate::confine`]. What the algorithms do is noted there.
    pub fn confined(compiled: Vec<Compiled>, note: &'static ProgressNote) -> Self {
        Self { given: Some((compiled, Some(note))), ..Self::new(PathBuf::new()) }
    }

    /// A loader of files that another process has compiled, which describes them: [`load_described`] loads them later.
    pub fn given(compiled: Vec<Compiled>) -> Self {
        Self { given: Some((compiled, None)), ..Self::new(PathBuf::new()) }
    }

    /// The algorithm of the file at `path`, which the user wrote as `shown`: described, or loaded where the loader is
    /// [`Loader::confined`].
    ///
    /// Results call it by the name it registers; where a built-in algorithm or another file has that name already, by
    /// `NAME (SHOWN)`. The same path gives the same algorithm, even where the file has changed since.
    ///
    /// # Errors
    /// If it does not compile, `go_on` says no meanwhile, or it registers no algorithm that this host can run.
    pub fn load(&mut self, path: &Path, shown: &str, go_on: &mut GoOn<'_>) -> Result<&'static Algorithm, LoadError> {
        let real = path.canonicalize().map_err(|error| LoadError::Unreadable { path: path.to_owned(), error })?;
        if let Some(known) = self.loaded.iter().find(|known| known.file().is_some_and(|file| file.path == real)) {
            return Ok(known);
        }
        let (compiled, algorithm) = match &self.given {
            None => {
                let compiled = self.compile(path, real, go_on)?;
                let outside = outside::outside(&compiled.library);
                self.warnings += &outside::messages(&outside, "warning", path, &compiled.source);
                let described = describe(&compiled.library)?;
                (compiled, described)
            }
            Some((files, note)) => {
                let number = files.iter().position(|file| file.path == real).ok_or(LoadError::Changed)?;
                let compiled = files[number].clone();
                let algorithm = match note {
                    Some(note) => confined::open(&compiled.library, number)?.noted(note),
                    None => describe(&compiled.library)?,
                };
                (compiled, algorithm)
            }
        };
        let name = algorithm.name();
        let taken = perigee_cc::find(name).is_some() || self.loaded.iter().any(|other| other.name() == name);
        let name = if taken { format!("{name} ({shown})") } else { name.to_owned() };
        let Compiled { path, source, library } = compiled;
        // Headers of the author's own are in the library only, comments in the source only.
        let digest = fnv1a(source.iter().copied().chain(loadable(&library)));
        let file = File { path, headers: self.headers.clone(), source, library, kernel: OnceLock::new() };
        let algorithm: &'static Algorithm = Box::leak(Box::new(algorithm.from_file(name, digest, file)));
        self.loaded.push(algorithm);
        Ok(algorithm)
    }

    /// Compiles a file, if this process has not done so yet.
    fn compile(&mut self, path: &Path, real: PathBuf, go_on: &mut GoOn<'_>) -> Result<Compiled, LoadError> {
        let source = source_of(path)?;
        if !perigee_cc_build::is_enforced() && !self.warnings.contains(UNCONFINED) {
            self.warnings += UNCONFINED;
        }
        let folder = scratch().map_err(LoadError::Temporary)?;
        let key = Key::of(path, &self.headers, &source, folder.path(), go_on).map_err(refused)?;
        if let Some(Built { library, warnings }) = key.as_ref().and_then(kept::find) {
            self.warnings += &warnings;
            return Ok(Compiled { path: real, source, library });
        }
        let object = folder.path().join("algorithm.so");
        let warnings = perigee_cc_build::shared_library(path, &self.headers, &object, go_on).map_err(refused)?;
        self.warnings += &warnings;
        let library = fs::read(&object).map_err(LoadError::Temporary)?;
        if let Some(name) = global(&library) {
            return Err(LoadError::Global(name));
        }
        if let Some(key) = key {
            kept::keep(key, Built { library: library.clone(), warnings });
        }
        Ok(Compiled { path: real, source, library })
    }

    /// The files so far, as a process that is to run them takes them.
    pub fn compiled(&self) -> Vec<Compiled> {
        let files = self.loaded.iter().filter_map(|one| one.file());
        let copy = |file: &File| Compiled {
            path: file.path.clone(),
            source: file.source.clone(),
            library: file.library.clone(),
        };
        files.map(copy).collect()
    }

    /// Returns each algorithm so far by its name in results, with the text of its file.
    pub fn sources(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        self.loaded.iter().filter_map(|one| Some((one.name(), &*one.file()?.source)))
    }

    /// Returns the compiler's warnings so far; empty if it had none.
    pub fn warnings(&self) -> &str {
        &self.warnings
    }
}

/// Loads what a [`Loader`] of files that are [`Loader::given`] has described: only in a process that was made for it, see
/// [`crate::confine`]. What it does is noted there; `number` is the file's place among those given.
///
/// # Errors
/// As [`Loader::load`].
pub fn load_described(
    described: &Algorithm,
    number: usize,
    note: &'static ProgressNote,
) -> Result<&'static Algorithm, LoadError> {
    let file = described.file().ok_or(LoadError::NoFile)?;
    let loaded = confined::open(&file.library, number)?.noted(note);
    Ok(Box::leak(Box::new(loaded.in_place_of(described))))
}

/// Why a file was not compiled.
pub(crate) fn refused(error: BuildError) -> LoadError {
    match error {
        BuildError::Compile { messages, .. } => LoadError::Compile(messages.trim_end().to_owned()),
        BuildError::Stopped => LoadError::Stopped,
        other => LoadError::Compiler(other),
    }
}

/// The text of an author's file.
fn source_of(path: &Path) -> Result<Vec<u8>, LoadError> {
    let unreadable = |error| LoadError::Unreadable { path: path.to_owned(), error };
    // A pipe would be waited for, and a device has no end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(LoadError::NoFile);
    }
    let mut source = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MOST_SOURCE_BYTES + 1).read_to_end(&mut source).map_err(unreadable)?;
    if source.len() as u64 > MOST_SOURCE_BYTES {
        return Err(LoadError::TooLarge);
    }
    Ok(source)
}

/// The algorithm of a library, which is not loaded.
fn describe(library: &[u8]) -> Result<Algorithm, LoadError> {
    let image = image::Elf::new(library).ok_or(LoadError::NoLibrary)?;
    perigee_cc::describe(&image).map_err(LoadError::Refused)
}

/// The bytes of a library that a process has in memory. Debug information is none of them: it names the folder in which the
/// compiler ran, and the same file is the same everywhere.
fn loadable(library: &[u8]) -> Vec<u8> {
    let Ok(file) = object::File::parse(library) else { return library.to_vec() };
    let sections = file.sections().filter(|section| match section.flags() {
        SectionFlags::Elf { sh_flags } => sh_flags & u64::from(object::elf::SHF_ALLOC) != 0,
        _ => true,
    });
    sections.filter_map(|section| section.data().ok()).flatten().copied().collect()
}

/// A variable of the library that is not constant: runs go at the same time, and must give the same each time.
fn global(library: &[u8]) -> Option<String> {
    let file = object::File::parse(library).ok()?;

    file.symbols().find_map(|symbol| {
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        let is_variable = matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Tls) && symbol.size() > 0;
        // Tables of addresses are written once, by the loader, and are constant from then on.
        let may_change = WRITABLE.iter().any(|start| section.name().is_ok_and(|name| name.starts_with(start)))
            && section.name().is_ok_and(|name| !name.starts_with(".data.rel.ro"));
        let name = symbol.name().ok().filter(|name| is_variable && may_change && !OF_THE_COMPILER.contains(name))?;
        // A static variable of a function has a number after its name.
        Some(name.split('.').next().unwrap_or(name).to_owned())
    })
}

/// A warning on kernels that cannot confine compilers.
const UNCONFINED: &str =
    "warning: this kernel has no Landlock, so the compiler can read every file that you can, and the \
                          text can name them: compile only what you have read\n";
/// Sections whose content may change.
const WRITABLE: [&str; 4] = [".data", ".bss", ".tdata", ".tbss"];
/// Symbols that every shared library has there, from the compiler's own start-up code.
const OF_THE_COMPILER: [&str; 3] = ["completed.0", "__dso_handle", "__TMC_END__"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_file_is_the_same_wherever_it_is_compiled() {
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../algorithms");
        let source = fs::read(headers.join("reno.c")).expect("the file is there");
        let library = |folder: &str| {
            let desk = tempfile::tempdir().expect("a temporary folder");
            let path = desk.path().join(folder).join("reno.c");
            fs::create_dir(desk.path().join(folder)).expect("the folder is ours");
            fs::write(&path, &source).expect("the folder is ours");
            let mut loader = Loader::new(headers.clone());
            loader.load(&path, "reno.c", &mut || true).expect("it compiles");
            loader.compiled().remove(0).library
        };
        let libraries = [library("here"), library("elsewhere")];
        assert_ne!(libraries[0], libraries[1], "or else this test proves nothing: lines have other files");
        assert!(loadable(&libraries[0]) == loadable(&libraries[1]));
        assert!(!loadable(&libraries[0]).is_empty());
    }
}
