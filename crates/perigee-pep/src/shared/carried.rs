//! A handle to a connection that the service carries.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Weak;

/// A connection that a service carries.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The client.
    pub source: SocketAddr,
    /// The server.
    pub destination: SocketAddr,
    sockets: Weak<[OwnedFd; 2]>,
}

impl Carried {
    pub(crate) fn new([source, destination]: [SocketAddr; 2], sockets: Weak<[OwnedFd; 2]>) -> Self {
        Self { source, destination, sockets }
    }

    /// Whether the connection is still open.
    pub fn is_open(&self) -> bool {
        self.sockets.strong_count() > 0
    }

    /// The result of `look` at the sockets towards client and server; `None`: the connection has ended.
    pub fn with<T>(&self, look: impl FnOnce([BorrowedFd<'_>; 2]) -> T) -> Option<T> {
        let sockets = self.sockets.upgrade()?;
        Some(look([sockets[0].as_fd(), sockets[1].as_fd()]))
    }
}
