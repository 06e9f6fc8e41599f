//! Keeps what this process has compiled: a file that many studies name, such as an evaluation's, is compiled once.
//!
//! A library depends on what the preprocessor makes of the file, with the files and lines that it comes from, on the compiler,
//! and on the folder in which it runs. Preprocessing takes a twentieth of the time of compiling.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use perigee_cc_build::{preprocessed, BuildError, GoOn};

/// The inputs of a compilation.
#[derive(PartialEq, Eq)]
pub(crate) struct Key {
    /// The author's text: some of its warnings depend on comments.
    source: Vec<u8>,
    preprocessed: Vec<u8>,
    compiler: Option<OsString>,
    folder: PathBuf,
}

/// The output of a compilation.
#[derive(Clone)]
pub(crate) struct Built {
    pub(crate) library: Vec<u8>,
    pub(crate) warnings: String,
}

impl Key {
    /// The key of a file with this text; `scratch` is a folder for the preprocessor. `None`: the file has errors, which the compiler will
    /// name.
    pub(crate) fn of(
        path: &Path,
        headers: &Path,
        source: &[u8],
        scratch: &Path,
        go_on: &mut GoOn<'_>,
    ) -> Result<Option<Self>, BuildError> {
        let text = scratch.join("algorithm.i");
        match preprocessed(path, headers, &text, go_on) {
            Err(BuildError::Compile { .. }) => return Ok(None),
            done => done?,
        }
        let (Ok(preprocessed), Ok(folder)) = (fs::read(&text), std::env::current_dir()) else { return Ok(None) };
        Ok(Some(Self { source: source.to_vec(), preprocessed, compiler: std::env::var_os("CC"), folder }))
    }
}

/// Returns the output of the compilation with this key.
pub(crate) fn find(key: &Key) -> Option<Built> {
    entries().iter().find(|(kept, _)| kept == key).map(|(_, built)| built.clone())
}

/// Keeps it, in the place of the oldest one where there are [`MOST`].
pub(crate) fn keep(key: Key, built: Built) {
    let mut entries = entries();
    if entries.len() == MOST {
        entries.pop_front();
    }
    entries.push_back((key, built));
}

fn entries() -> MutexGuard<'static, VecDeque<(Key, Built)>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

static ENTRIES: Mutex<VecDeque<(Key, Built)>> = Mutex::new(VecDeque::new());
/// Some 100 kB each.
const MOST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loader;

    #[test]
    fn a_file_is_compiled_again_only_where_its_text_or_a_header_has_changed() {
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../algorithms");
        let desk = tempfile::tempdir().expect("a temporary folder");
        let [path, header] = ["mine.c", "mine.h"].map(|name| desk.path().join(name));
        let reno = fs::read_to_string(headers.join("reno.c")).expect("the file is there");
        fs::write(&path, format!("#include \"mine.h\"\n{reno}")).expect("the folder is ours");
        fs::write(&header, "static const int mine = 1;\n").expect("the folder is ours");
        let is_kept = || {
            let source = fs::read(&path).expect("it was written");
            let key = Key::of(&path, &headers, &source, desk.path(), &mut || true).expect("a compiler");
            find(&key.expect("the file has no errors")).is_some()
        };
        let load = || {
            let mut loader = Loader::new(headers.clone());
            loader.load(&path, "mine.c", &mut || true).expect("it compiles");
            (loader.compiled().remove(0).library, loader.warnings().to_owned())
        };
        assert!(!is_kept());
        let first = load();
        assert!(is_kept());
        assert!(load() == first);
        fs::write(&header, "static const int mine = 2; /* unused */\n").expect("the folder is ours");
        assert!(!is_kept());
        load();
        fs::write(&path, format!("#include \"mine.h\"\n// Mine.\n{reno}")).expect("the folder is ours");
        assert!(!is_kept());
        fs::write(&path, "#include \"no such file\"\n").expect("the folder is ours");
        let wrong = Key::of(&path, &headers, b"", desk.path(), &mut || true).expect("a compiler");
        assert!(wrong.is_none());
    }
}
