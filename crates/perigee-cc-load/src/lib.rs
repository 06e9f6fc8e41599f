//! Takes an author's C file into the running process: compiled by the host's compiler, loaded, and from then on an
//! algorithm like those that are built in.
//!
//! The code is trusted: it runs in the process, with all the rights of its user.
//!
//! ```no_run
//! use std::path::Path;
//! let mut loader = perigee_cc_load::Loader::new(Path::new("algorithms").into());
//! let algorithm = loader.load(Path::new("mycc.c"), "mycc.c")?;
//! let selected = perigee_cc::Selected::of(algorithm, &[("beta", "70 %")]);
//! # Ok::<(), perigee_cc_load::LoadError>(())
//! ```

mod check;
mod scratch;

use std::ffi::{c_void, CStr};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use perigee_cc::{Algorithm, File, Refused};
use perigee_cc_build::BuildError;
use thiserror::Error;

pub use check::{check, Checked, ForKernel};
pub use scratch::{scratch, scratch_prefix, started, sweep};

/// Loads files, each once.
#[derive(Debug)]
pub struct Loader {
    headers: PathBuf,
    loaded: Vec<&'static Algorithm>,
    warnings: String,
}

/// Why a file is no algorithm; prints what is wrong, `; `, and what to do.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("cannot be read: {error}; check the path `{}`", path.display())]
    Unreadable {
        /// Where it was looked for.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The compiler refuses it.
    #[error("does not compile; correct what the compiler says:\n{0}")]
    Compile(String),
    /// The compiler is missing, or cannot be run.
    #[error("cannot be compiled: {0}")]
    Compiler(BuildError),
    /// There is no room for what the compiler makes.
    #[error("cannot be compiled: no temporary folder: {0}; make room there, or name another in TMPDIR")]
    Temporary(io::Error),
    /// It has memory that no socket owns.
    #[error(
        "keeps state in `{0}`, which all flows of all runs would share; keep it in the socket (CC_STATE, CC_STORAGE), or make it const"
    )]
    Global(String),
    /// The system does not load what the compiler made.
    #[error("cannot be loaded: {0}; where temporary files may not be executed, name another folder in TMPDIR")]
    Library(libloading::Error),
    /// The host does not take it.
    #[error("cannot be run: {0}")]
    Refused(Refused),
}

impl Loader {
    /// A loader for files that include the `tcp.h` of this folder.
    pub fn new(headers: PathBuf) -> Self {
        Self { headers, loaded: Vec::new(), warnings: String::new() }
    }

    /// The algorithm of the file at `path`, which the user wrote as `shown`.
    ///
    /// Results call it by the name it registers; where a built-in algorithm or another file has that name already, by
    /// `NAME (SHOWN)`. The same path gives the same algorithm, even where the file has changed since.
    ///
    /// # Errors
    /// Where it does not compile, or registers no algorithm that this host can run.
    pub fn load(&mut self, path: &Path, shown: &str) -> Result<&'static Algorithm, LoadError> {
        let unreadable = |error| LoadError::Unreadable { path: path.to_owned(), error };
        let real = path.canonicalize().map_err(unreadable)?;
        if let Some(known) = self.loaded.iter().find(|known| known.file().is_some_and(|file| file.path == real)) {
            return Ok(known);
        }
        let source = fs::read(&real).map_err(unreadable)?;
        let folder = scratch().map_err(LoadError::Temporary)?;
        let object = folder.path().join("algorithm.so");
        self.warnings +=
            &perigee_cc_build::shared_library(path, &self.headers, &object).map_err(|error| match error {
                BuildError::Compile { messages, .. } => LoadError::Compile(messages.trim_end().to_owned()),
                other => LoadError::Compiler(other),
            })?;
        let library = fs::read(&object).map_err(LoadError::Temporary)?;
        if let Some(name) = global(&library) {
            return Err(LoadError::Global(name));
        }
        let algorithm = open(&object)?;
        let name = algorithm.name();
        let taken = perigee_cc::find(name).is_some() || self.loaded.iter().any(|other| other.name() == name);
        let name = if taken { format!("{name} ({shown})") } else { name.to_owned() };
        // Headers of the author's own are in the library only, comments in the source only.
        let digest = digest(&[&source, &library]);
        let file = File { path: real, headers: self.headers.clone(), source, kernel: OnceLock::new() };
        let algorithm: &'static Algorithm = Box::leak(Box::new(algorithm.from_file(name, digest, file)));
        self.loaded.push(algorithm);
        Ok(algorithm)
    }

    /// What results call each algorithm so far, and the text of its file.
    pub fn sources(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        self.loaded.iter().filter_map(|one| Some((one.name(), &*one.file()?.source)))
    }

    /// What the compiler warned of so far; empty where it had nothing to say.
    pub fn warnings(&self) -> &str {
        &self.warnings
    }
}

/// Loads a library for good.
fn open(object: &Path) -> Result<Algorithm, LoadError> {
    // SAFETY: the author's code is trusted, see the head of this file.
    let library = unsafe { Library::open(Some(object), RTLD_NOW | RTLD_LOCAL) }.map_err(LoadError::Library)?;
    let symbol = |name: &CStr| {
        // SAFETY: only the address is taken.
        let symbol = unsafe { library.get::<*const c_void>(name.to_bytes_with_nul()) };
        symbol.ok().map(|symbol| symbol.into_raw().cast_const())
    };
    // SAFETY: compiled with CC_LIBRARY; the library is kept loaded below, where anything of it is used.
    let algorithm = unsafe { perigee_cc::admit(&symbol) }.map_err(LoadError::Refused)?;
    std::mem::forget(library);
    Ok(algorithm)
}

/// A variable of the library that is not constant: runs go at the same time, and must give the same each time.
fn global(library: &[u8]) -> Option<String> {
    let file = object::File::parse(library).ok()?;
    let name = file.symbols().find_map(|symbol| {
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        let is_variable = matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Tls) && symbol.size() > 0;
        // Tables of addresses are written once, by the loader, and are constant from then on.
        let may_change = WRITABLE.iter().any(|start| section.name().is_ok_and(|name| name.starts_with(start)))
            && section.name().is_ok_and(|name| !name.starts_with(".data.rel.ro"));
        let name = symbol.name().ok().filter(|name| is_variable && may_change && !OF_THE_COMPILER.contains(name))?;
        // A static variable of a function has a number after its name.
        Some(name.split('.').next().unwrap_or(name).to_owned())
    });
    name
}

/// Sections whose content may change.
const WRITABLE: [&str; 4] = [".data", ".bss", ".tdata", ".tbss"];
/// What every shared library has there, from the compiler's own start-up code.
const OF_THE_COMPILER: [&str; 3] = ["completed.0", "__dso_handle", "__TMC_END__"];

/// 64-bit FNV-1a.
fn digest(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
