//! Listening sockets of workers.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::getsockname;

use crate::config::Config;
use crate::error::ServiceError;
use crate::host::intercept::listening_addresses;
use crate::legs::socket::{begin, listening};

/// A listening socket, shared by the thread that accepts and the one that may hand it over.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) address: SocketAddr,
    /// Whether it receives intercepted connections to other hosts.
    pub(crate) is_transparent: bool,
}

impl Listener {
    /// Opens a socket for each address and worker. Those that an older process has handed over are used first, all of them: in the
    /// queue of each may be connections. Of addresses that are not listed they are closed.
    pub(crate) fn open_all(
        addresses: &[(SocketAddr, bool)],
        workers: usize,
        mut inherited: Vec<OwnedFd>,
    ) -> Result<Vec<Vec<Self>>, ServiceError> {
        let mut of_workers: Vec<Vec<Self>> = (0..workers).map(|_| Vec::new()).collect();
        for &(address, is_transparent) in addresses {
            let what = format!("listening at {address}");
            let of_older = inherited.extract_if(.., |socket| is_bound(socket, address));
            let mut sockets: Vec<_> = of_older.map(Arc::new).collect();
            for socket in &sockets {
                begin(socket).map_err(ServiceError::system(&what))?;
            }
            for at in sockets.len()..workers {
                match listening(address, is_transparent, at == 0) {
                    Ok(socket) => sockets.push(Arc::new(socket)),
                    // The kernel lets only the user of the others add one (`SO_REUSEPORT`). Two workers can have the same.
                    Err(error) if at > 0 && error.kind() == ErrorKind::AddrInUse => sockets.push(sockets[0].clone()),
                    Err(error) => return Err(ServiceError::system(&what)(error)),
                }
            }
            for (at, socket) in sockets.into_iter().enumerate() {
                of_workers[at % workers].push(Self { socket, address, is_transparent });
            }
        }
        Ok(of_workers)
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

/// Whether a socket is bound to an address.
fn is_bound(socket: &OwnedFd, address: SocketAddr) -> bool {
    getsockname(socket).and_then(SocketAddr::try_from).is_ok_and(|bound| bound == address)
}

/// Listening addresses of a configuration, and whether each gets intercepted connections.
pub(crate) fn addresses(config: &Config) -> Vec<(SocketAddr, bool)> {
    let forwards = config.forwards.iter().map(|forward| (forward.listen, false));
    let ports = config.transparent.iter().map(|transparent| transparent.port);
    let intercepted = ports
        .flat_map(|port| listening_addresses().into_iter().map(move |address| (SocketAddr::new(address, port), true)));
    forwards.chain(intercepted).collect()
}
