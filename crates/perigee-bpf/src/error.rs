//! Why a command did not do what was asked.

use std::fmt::Display;

use thiserror::Error;

use crate::object::ObjectError;
use crate::requirements::{self, Missing};
use crate::sockets::SocketUse;

/// The system refused a step that should always work for root.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot {doing}: {reason}")]
pub struct SystemError {
    doing: String,
    reason: String,
}

impl SystemError {
    pub(crate) fn new(doing: impl Into<String>, error: impl Display) -> Self {
        // The alternate form of libbpf's errors names their causes.
        Self { doing: doing.into(), reason: format!("{error:#}") }
    }
}

/// Why nothing was loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The kernel or the process lacks something.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The name cannot be one.
    #[error("`{name}` cannot name a congestion control: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong and what to write.
        reason: String,
    },
    /// The name belongs to an algorithm that was not loaded by us.
    #[error("the kernel has a `{name}` already that perigee did not load; choose another name: --as p_{name}")]
    NameOfTheKernel {
        /// The name.
        name: String,
    },
    /// Another algorithm was loaded under the name.
    #[error(
        "`{name}` is loaded already, and is the algorithm `{algorithm}`; unload it first, or choose another name: --as"
    )]
    NameOfAnother {
        /// The name.
        name: String,
        /// What it is.
        algorithm: String,
    },
    /// The object is not right, or the kernel says so.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// It could not be made the default; it was taken out again.
    #[error("`{name}` cannot be the system's default: {reason}; it was unloaded again")]
    Default {
        /// The name.
        name: String,
        /// What the kernel said.
        reason: String,
    },
    /// Another step failed.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl LoadError {
    /// What was asked for is wrong or cannot be done on this machine; otherwise the kernel did not do it.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            Self::Missing(_) | Self::BadName { .. } | Self::NameOfTheKernel { .. } | Self::NameOfAnother { .. } => true,
            Self::Object(error) => matches!(error, ObjectError::Foreign { .. }),
            Self::Default { .. } | Self::System(_) => false,
        }
    }

    /// All that the kernel said, where it refused the object.
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::Object(ObjectError::Refused { log, .. }) => Some(log),
            _ => None,
        }
    }
}

/// Why nothing was unloaded.
#[derive(Debug, Error)]
pub enum UnloadError {
    /// The process lacks something.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Nothing of ours has the name.
    #[error("`{name}` was not loaded by perigee; {known}")]
    NotLoaded {
        /// The name.
        name: String,
        /// What was.
        known: String,
    },
    /// Sockets use it.
    #[error(
        "`{name}` is in use by {}; --wait SECONDS waits for their end, --force unloads and leaves them working",
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
    /// What was asked for is wrong or cannot be done by this process; otherwise the machine stands in the way.
    pub fn is_wrong_input(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::NotLoaded { .. })
    }
}

/// Why the machine could not be looked at.
#[derive(Debug, Error)]
pub enum StatusError {
    /// The process lacks something.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A step failed.
    #[error(transparent)]
    System(SystemError),
}

impl From<SystemError> for StatusError {
    fn from(error: SystemError) -> Self {
        // What fails for want of rights is better told by the rights.
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
