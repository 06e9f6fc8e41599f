//! State shared by the application of a connection and its observer: the script, the sockets, and a failure.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use perigee_results::Outcome;
use perigee_traffic::Script;

use crate::os::tcp_info::TcpInfo;

/// The state of a connection's application that its observer shares.
pub(crate) struct TcpReport {
    /// The script, which both ends play, and which takes the observer's observations.
    pub(crate) script: Mutex<Script>,
    /// The socket at `from`, once it is connected; open until the run ends.
    pub(crate) sender: OnceLock<TcpStream>,
    /// The socket at `to`, likewise.
    pub(crate) receiver: OnceLock<TcpStream>,
    /// How the connection failed, once it has.
    pub(crate) failure: OnceLock<Failure>,
}

/// How a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    /// Timeouts of its SYN, if it was never established.
    pub(crate) syn_timeouts: Option<u32>,
}

impl TcpReport {
    pub(crate) fn new(script: Script) -> Self {
        let (sender, receiver, failure) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { script: Mutex::new(script), sender, receiver, failure }
    }

    /// The state of the socket at `from`; `None` before it is connected.
    pub(crate) fn info(&self) -> Option<TcpInfo> {
        self.sender.get().and_then(|socket| TcpInfo::of(socket).ok())
    }

    /// Locks the script.
    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a failure of the connection as the outcome of its flow, and returns any other error, which is this machine's.
    pub(crate) fn end(&self, done: io::Result<()>) -> io::Result<()> {
        let Err(error) = done else { return Ok(()) };
        let outcome = outcome_of(&error).ok_or(error)?;
        let _ = self.failure.set(Failure { outcome, syn_timeouts: None });
        Ok(())
    }

    /// Keeps the failure of the opener's socket to connect.
    pub(crate) fn cannot_connect(&self, socket: &OwnedFd, error: io::Error) -> io::Error {
        if let Some(outcome) = outcome_of(&error) {
            let syn_timeouts = TcpInfo::of(socket).ok().map(|info| info.rto_count);
            let _ = self.failure.set(Failure { outcome, syn_timeouts });
        }
        error
    }
}

/// The outcome of a flow with this error of a socket; `None`: the connection has not failed.
pub(crate) fn outcome_of(error: &io::Error) -> Option<Outcome> {
    match error.kind() {
        io::ErrorKind::TimedOut => Some(Outcome::TimedOut),
        io::ErrorKind::ConnectionRefused => Some(Outcome::Refused),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Some(Outcome::Reset),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Outcome::Unreachable),
        _ => None,
    }
}
