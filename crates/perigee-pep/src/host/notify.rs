//! Messages to the service manager (`sd_notify(3)`): the socket that `NOTIFY_SOCKET` names.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// The connection to the service manager, if there is one.
#[derive(Debug)]
pub(crate) struct Manager(Option<UnixDatagram>);

impl Manager {
    /// Connects to the socket of the environment, if it names one.
    pub(crate) fn new() -> Self {
        let connected = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let address = match name.as_bytes().split_first() {
                Some((b'@', rest)) => SocketAddr::from_abstract_name(rest),
                _ => SocketAddr::from_pathname(Path::new(&name)),
            };
            let socket = UnixDatagram::unbound().ok()?;
            socket.connect_addr(&address.ok()?).ok()?;
            Some(socket)
        });
        Self(connected)
    }

    /// Sends a message such as `READY=1`.
    pub(crate) fn tell(&self, message: &str) {
        if let Some(socket) = &self.0 {
            // An error means that the manager has gone.
            let _ = socket.send(message.as_bytes());
        }
    }

    /// Tells it nothing more: another process does.
    pub(crate) fn leave(&mut self) {
        self.0 = None;
    }
}
