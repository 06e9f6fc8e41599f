//! Why the service does not run.

use std::io;
use std::path::PathBuf;

use perigee_text::StrictError;
use thiserror::Error;

/// Why the service does not run.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The configuration cannot be read.
    #[error("{}: {error}; name a readable file", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file of keys or certificates is not what the configuration calls it.
    #[error("{}: {what}", path.display())]
    Pem {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it, and the fix.
        what: String,
    },
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] StrictError),
    /// The command line is wrong, or asks for what the configuration does not allow.
    #[error("{0}")]
    Input(String),
    /// A transfer has failed.
    #[error("{0}")]
    Transfer(String),
    /// Another service has the address.
    #[error("{0}: another perigee-pep has it in this network namespace; stop that one first")]
    Taken(String),
    /// The system refuses.
    #[error("{what}: {error}")]
    System {
        /// What was attempted.
        what: String,
        /// What the system says.
        error: io::Error,
    },
}

impl ServiceError {
    /// For an operation of the system, to map its error.
    pub(crate) fn system(what: &str) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_owned();
        move |error| Self::System { what, error }
    }
}
