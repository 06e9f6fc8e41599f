//! Files and algorithms that a study names, which the caller of the plan provides.

use perigee_cc::Algorithm;

/// Provides the files of a study. A function that returns the bytes of a file is one, without files of algorithms.
pub trait Outside {
    /// The bytes of a profile or recording by its name: a profile `viasat2` is `profiles/viasat2.toml`, a recording is as it
    /// is written. A name that ends in `/` requests the names of the files in that folder, a line each.
    ///
    /// # Errors
    /// The reason, if it cannot be read.
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String>;

    /// The congestion control of an author's file, written as `path` by `place`.
    ///
    /// # Errors
    /// If it is not usable.
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

/// The place at which a path is written, which determines its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the study, relative to the folder of its file.
    Study,
    /// In a setting, relative to the working directory.
    Setting,
}

/// Why the file of an algorithm is not usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The problem, as the end of a sentence about the file: `does not compile`.
    pub message: String,
    /// The fix; may have many lines, from a compiler.
    pub fix: String,
}

/// Whether `cc` names a file instead of an algorithm.
pub(crate) fn is_path(cc: &str) -> bool {
    cc.contains('/') || cc.strip_suffix(".c").is_some()
}
