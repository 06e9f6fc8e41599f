//! Errors of the commands.

use std::fmt::Display;

use thiserror::Error;

use crate::object::ObjectError;
use crate::requirements::{self, Missing};
use crate::sockets::SocketUse;

/// A system call failed that should succeed for root.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot {doing}: {reason}")]
pub struct SystemError {
    doing: String,
    reason: String,
}

impl SystemError {
    pub(crate) fn new(doing: impl Into<String>, error: impl Display) -> Self {
        // The alternate form of libbpf's errors includes their causes.
        Self { doing: doing.into(), reason: format!("{error:#}") }
    }
}

/// Why a load failed.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The kernel or the process lacks a requirement.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The name is invalid.
    #[error("`{name}` cannot name a congestion control: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// The reason and the fix.
        reason: String,
    },
    /// The name belongs to an algorithm that Perigee did not load.
    #[error("the kernel has a `{name}` already that perigee did not load; choose another name: --as p_{name}")]
    NameOfTheKernel {
        /// The name.
        name: String,
    },
    /// The name belongs to a different loaded algorithm.
    #[error(
        "`{name}` is loaded already, and is the algorithm `{algorithm}`; unload it first, or choose another name: --as"
    )]
    NameOfAnother {
        /// The name.
        name: String,
        /// Description of that algorithm.
        algorithm: String,
    },
    /// It was to remember paths, and its slow start uses none.
    #[error("`{name}` remembers paths for Careful Resume only; add --set slow_start=careful, or leave out --remember")]
    NotCareful {
        /// The algorithm.
        name: String,
    },
    /// It was to remember paths, and has no slow start that uses them.
    #[error("`{name}` has no Careful Resume, and remembers no paths; leave out --remember, or load cubic or reno")]
    NoMemory {
        /// The algorithm.
        name: String,
    },
    /// The object is malformed, or the kernel refused it.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// It could not become the default, and was unloaded again.
    #[error("`{name}` cannot be the system's default: {reason}; it was unloaded again")]
    Default {
        /// The name.
        name: String,
        /// The kernel's error.
        reason: String,
    },
    /// Another step failed.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl LoadError {
    /// True if the request is invalid or this machine cannot serve it; false if the kernel failed.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            Self::Missing(_)
            | Self::BadName { .. }
            | Self::NameOfTheKernel { .. }
            | Self::NameOfAnother { .. }
            | Self::NotCareful { .. }
            | Self::NoMemory { .. } => true,
            Self::Object(error) => matches!(error, ObjectError::Foreign { .. }),
            Self::Default { .. } | Self::System(_) => false,
        }
    }

    /// True if root could load it.
    pub fn needs_root(&self) -> bool {
        matches!(self, Self::Missing(missing) if missing.needs_root())
    }

    /// The whole log of the kernel, if it refused the object.
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::Object(ObjectError::Refused { log, .. }) => Some(log),
            _ => None,
        }
    }
}

/// Why an unload failed.
#[derive(Debug, Error)]
pub enum UnloadError {
    /// The process lacks a requirement.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Perigee has loaded nothing under the name.
    #[error("`{name}` was not loaded by perigee; {known}")]
    NotLoaded {
        /// The name.
        name: String,
        /// The names that are loaded.
        known: String,
    },
    /// Sockets use the algorithm.
    #[error(
        "`{name}` is in use by {}give --wait SECONDS to wait for their end, or --force to unload it and leave them working",
        in_words(sockets)
    )]
    InUse {
        /// The name.
        name: String,
        /// The sockets.
        sockets: Vec<SocketUse>,
    },
    /// Another step failed.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl UnloadError {
    /// True if the request is invalid or beyond this process's rights; false if the machine failed.
    pub fn is_wrong_input(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::NotLoaded { .. })
    }

    /// True if root could unload it.
    pub fn needs_root(&self) -> bool {
        matches!(self, Self::Missing(missing) if missing.needs_root())
    }
}

/// Why the status could not be read.
#[derive(Debug, Error)]
pub enum StatusError {
    /// The process lacks a requirement.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The request does not fit what is loaded.
    #[error("{0}")]
    Unfit(String),
    /// A step failed.
    #[error(transparent)]
    System(SystemError),
}

impl From<SystemError> for StatusError {
    fn from(error: SystemError) -> Self {
        // A step that failed for lack of rights is better reported as the missing right.
        requirements::check_process().err().map_or(Self::System(error), Self::Missing)
    }
}

fn in_words(sockets: &[SocketUse]) -> String {
    let shown: Vec<_> = sockets.iter().take(SHOWN).map(|socket| format!("\n  {socket}")).collect();
    let more = sockets.len().saturating_sub(SHOWN);
    let rest = if more == 0 { String::new() } else { format!("\n  and {more} more (`perigee cc status`)") };
    let plural = if sockets.len() == 1 { "socket" } else { "sockets" };
    format!("{} {plural}:{}{rest}\n", sockets.len(), shown.concat())
}

const SHOWN: usize = 20;
