//! Files and algorithms that a study names: the caller of the plan provides them.

use perigee_cc::Algorithm;

/// What lies outside of a study. A function that gives the bytes of a file is one, without files of algorithms.
pub trait Outside {
    /// The bytes of a profile or recording, by the name that the study has for it: a profile `viasat2` is
    /// `profiles/viasat2.toml`, a recording is as it is written. A name that ends in `/` asks for the names of the files
    /// in that folder, a line each.
    ///
    /// # Errors
    /// If it cannot be read; says why.
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String>;

    /// The congestion control of an author's file, written as `path` by `place`.
    ///
    /// # Errors
    /// If there is none.
    fn algorithm(&mut self, path: &str, place: Place) -> Result<&'static Algorithm, Unusable> {
        let _ = (path, place);
        let message = "is a file, and this program has no compiler for it".to_owned();
        Err(Unusable { message, fix: "name one of those that are built in".to_owned() })
    }
}

impl<F: FnMut(&str) -> Result<Vec<u8>, String>> Outside for F {
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String> {
        self(name)
    }
}

/// The place at which a path is written, which decides what the path is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the study: relative to the folder of its file.
    Study,
    /// In a setting: relative to where the command is given.
    Setting,
}

/// Why the file of an algorithm is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// What is wrong, as the end of a sentence about the file: `does not compile`.
    pub message: String,
    /// What to do; may be many lines, of a compiler.
    pub fix: String,
}

/// Whether `cc` names a file and not an algorithm.
pub(crate) fn is_path(cc: &str) -> bool {
    cc.contains('/') || cc.strip_suffix(".c").is_some()
}
