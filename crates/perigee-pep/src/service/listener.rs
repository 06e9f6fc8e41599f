//! Listening sockets of workers.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use crate::config::Config;
use crate::error::ServiceError;
use crate::host::intercept::listening_addresses;
use crate::legs::socket::listening;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
    /// Whether it receives intercepted connections to other hosts.
    pub(crate) is_transparent: bool,
}

impl Listener {
    /// Opens a socket for each address and worker.
    pub(crate) fn open_all(addresses: &[(SocketAddr, bool)], workers: usize) -> Result<Vec<Vec<Self>>, ServiceError> {
        let open = |&(address, is_transparent): &(SocketAddr, bool), is_first| {
            let socket = listening(address, is_transparent, is_first);
            let socket = socket.map_err(ServiceError::system(&format!("listening at {address}")))?;
            Ok(Self { socket, address, is_transparent })
        };
        (0..workers).map(|worker| addresses.iter().map(|each| open(each, worker == 0)).collect()).collect()
    }

    /// Whether a configuration has its address.
    pub(crate) fn is_of(&self, config: &Config) -> bool {
        if self.is_transparent {
            config.transparent.as_ref().is_some_and(|one| one.port == self.address.port())
        } else {
            config.forwards.iter().any(|forward| forward.listen == self.address)
        }
    }
}

/// Listening addresses of a configuration, and whether each gets intercepted connections.
pub(crate) fn addresses(config: &Config) -> Vec<(SocketAddr, bool)> {
    let forwards = config.forwards.iter().map(|forward| (forward.listen, false));
    let ports = config.transparent.iter().map(|transparent| transparent.port);
    let intercepted = ports
        .flat_map(|port| listening_addresses().into_iter().map(move |address| (SocketAddr::new(address, port), true)));
    forwards.chain(intercepted).collect()
}
