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
        /// The system's error.
        error: io::Error,
    },
    /// A file of keys or certificates is unusable.
    #[error("{}: {what}", path.display())]
    Pem {
        /// Its path.
        path: PathBuf,
        /// The problem and the fix.
        what: String,
    },
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] StrictError),
    /// The command line is wrong, or contradicts the configuration.
    #[error("{0}")]
    Input(String),
    /// A transfer has failed.
    #[error("{0}")]
    Transfer(String),
    /// A new process does not take over from the one that runs.
    #[error("{0}")]
    Upgrade(String),
    /// No service runs.
    #[error("{0}")]
    Silent(String),
    /// Another service has the address.
    #[error("{0}: another perigee-pep has it in this network namespace; stop that one first")]
    Taken(String),
    /// The system refuses.
    #[error("{what}: {error}")]
    System {
        /// The operation attempted.
        what: String,
        /// The system's error.
        error: io::Error,
    },
}

impl ServiceError {
    /// Returns a function that wraps the error of a system operation.
    pub(crate) fn system(what: &str) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_owned();
        move |error| Self::System { what, error }
    }
}
