//! Why a file is no algorithm.

use std::fmt;
use std::io;
use std::path::PathBuf;

use perigee_cc::Refusal;
use perigee_cc_build::BuildError;

/// Why a file is no algorithm; prints what is wrong, `; `, and what to do.
#[derive(Debug)]
pub enum LoadError {
    /// It cannot be read.
    Unreadable {
        /// Where it was looked for.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is too large for a source file.
    TooLarge,
    /// It is a folder, a device or a pipe.
    NoFile,
    /// The compiler refuses it.
    Compile(String),
    /// The compiler is missing, or cannot be run.
    Compiler(BuildError),
    /// There is no room for what the compiler makes.
    Temporary(io::Error),
    /// It has memory that no socket owns.
    Global(String),
    /// The caller asked for an end.
    Stopped,
    /// It is not among the files that were compiled for this process.
    Changed,
    /// The compiler's output is no library.
    NoLibrary,
    /// The system does not load what the compiler made.
    Library(libloading::Error),
    /// The host does not take it.
    Refused(Refusal),
}

impl LoadError {
    fn parts(&self) -> (String, String) {
        const AGAIN: &str = "give the same command again";
        let (message, fix): (_, &str) = match self {
            Self::Unreadable { path, error } => {
                return (format!("cannot be read: {error}"), format!("check the path `{}`", path.display()));
            }
            Self::Compile(messages) => {
                return ("does not compile".to_owned(), format!("correct what the compiler says:\n{messages}"));
            }
            Self::Compiler(error) => {
                let fix = error.fix().unwrap_or_else(|| "correct it".to_owned());
                return (format!("cannot be compiled: {}", error.message()), fix);
            }
            Self::Refused(refused) => return (format!("cannot be run: {}", refused.message()), refused.fix()),
            Self::TooLarge => (format!("is larger than {} MiB", MOST_SOURCE_BYTES >> 20), "name a C file"),
            Self::NoFile => ("is no regular file".to_owned(), "name a C file"),
            Self::Temporary(error) => (
                format!("cannot be compiled: no temporary folder: {error}"),
                "make room there, or name another in TMPDIR",
            ),
            Self::Global(name) => (
                format!("keeps state in `{name}`, which all flows of all runs would share"),
                "keep it in the socket (CC_STATE, CC_STORAGE), or make it const",
            ),
            Self::Stopped => ("was not compiled: it was stopped".to_owned(), AGAIN),
            Self::Changed => ("is another file than when it was compiled".to_owned(), AGAIN),
            Self::NoLibrary => (
                "cannot be run: what the compiler made is no ELF library".to_owned(),
                "name another compiler in the variable CC",
            ),
            Self::Library(error) => (format!("cannot be loaded: {error}"), "correct what it says"),
        };
        (message, fix.to_owned())
    }

    /// Returns a description of the error without the fix.
    pub fn message(&self) -> String {
        self.parts().0
    }

    /// Returns the fix.
    pub fn fix(&self) -> String {
        self.parts().1
    }
}

/// `message; fix`.
impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, fix) = self.parts();
        write!(f, "{message}; {fix}")
    }
}

impl std::error::Error for LoadError {}

/// Largest source file: more than any algorithm has.
pub(crate) const MOST_SOURCE_BYTES: u64 = 16 << 20;
