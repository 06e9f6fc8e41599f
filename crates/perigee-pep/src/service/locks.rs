//! Locks within a network namespace, which end with the process.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};

use rustix::net::{connect, socket_with, sockopt, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;

use crate::config::{Config, Tunnel};
use crate::error::ServiceError;
use crate::shared::log::Log;

/// An abstract socket for each listening address and for the interception.
///
/// Anybody may have an abstract name. One that a program of another user holds locks nothing: the service goes on without it, and the
/// log says who has it.
#[derive(Debug, Default)]
pub(crate) struct Locks(BTreeMap<String, Option<UnixListener>>);

impl Locks {
    /// Locks what a configuration needs, beside what is locked already.
    ///
    /// # Errors
    /// If another service has one of them.
    pub(crate) fn add(&mut self, config: &Config, log: &Log) -> Result<(), ServiceError> {
        for name in names(config) {
            if self.0.contains_key(&name) {
                continue;
            }
            let address = UnixAddress::from_abstract_name(&name).map_err(ServiceError::system(&name))?;
            let lock = match UnixListener::bind_addr(&address) {
                Ok(bound) => Some(bound),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    let holder = holder(&name);
                    if holder.is_service {
                        return Err(ServiceError::Taken(name.trim_start_matches(PREFIX).to_owned()));
                    }
                    log.line(format!("lock name=\"{name}\" reason=\"{} has it: it locks nothing\"", holder.words));
                    None
                }
                Err(error) => return Err(ServiceError::system(&name)(error)),
            };
            self.0.insert(name, lock);
        }
        Ok(())
    }

    /// Releases what a configuration does not need.
    pub(crate) fn keep(&mut self, config: &Config) {
        let kept = names(config);
        self.0.retain(|name, _| kept.contains(name));
    }
}

/// Who has a name.
struct Holder {
    /// Whether it may be another service: its user is root or the one of this process.
    is_service: bool,
    words: String,
}

/// Asks the kernel who listens at a name.
fn holder(name: &str) -> Holder {
    let asked = || -> rustix::io::Result<_> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        sockopt::socket_peercred(&socket)
    };
    match asked() {
        Ok(credentials) => Holder {
            is_service: credentials.uid.is_root() || credentials.uid == geteuid(),
            words: format!("process {} of user {}", credentials.pid.as_raw_nonzero(), credentials.uid.as_raw()),
        },
        // A service listens, and nobody connects to it.
        Err(error) => Holder { is_service: false, words: format!("a program that does not answer ({error})") },
    }
}

fn names(config: &Config) -> Vec<String> {
    let listens = config.tunnel.iter().filter_map(Tunnel::listens);
    let forwards =
        config.forwards.iter().map(|forward| forward.listen).chain(listens).map(|at| format!("{PREFIX}{at}"));
    forwards.chain(config.transparent.iter().map(|_| format!("{PREFIX}interception"))).collect()
}

/// Prefix of the names of locks.
const PREFIX: &str = "perigee-pep ";
