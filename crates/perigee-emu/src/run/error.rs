//! Why a run has no result.

use std::io;

use perigee_bpf::{LoadError, ProgramError, TcpLogError};
use thiserror::Error;

use crate::exec::ExecError;
use crate::run::captures::CaptureError;
use crate::run::event_log::EventLogError;

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum RunError {
    /// The progress callback cancelled it.
    #[error("the run was cancelled")]
    Cancelled,
    /// The kernel does not support the study.
    #[error("{0}")]
    Impossible(String),
    /// This machine or process cannot emulate.
    #[error(transparent)]
    Machine(ExecError),
    /// A congestion control cannot be compiled for the kernel.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The kernel refused a congestion control.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel's TCP cannot be logged.
    #[error("`measure.events`: {0}; leave it out, or use --engine sim")]
    Log(TcpLogError),
    /// A capture could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Another system call failed.
    #[error("{what}: {error}")]
    System {
        /// The failed step.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

impl From<EventLogError> for RunError {
    fn from(error: EventLogError) -> Self {
        match error {
            EventLogError::Log(error) => Self::Log(error),
            EventLogError::Namespace(error) => failed("looking at a namespace")(error),
        }
    }
}

impl RunError {
    /// Whether the request is invalid, or impossible on this machine.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            Self::Impossible(_) | Self::Machine(_) | Self::Program(_) | Self::Log(_) => true,
            Self::Load(error) => error.is_wrong_input(),
            Self::Cancelled | Self::Capture(_) | Self::System { .. } => false,
        }
    }
}

/// The error of a failed step.
pub(crate) fn failed(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |error| RunError::System { what, error }
}
