//! The lock of the interception within a network namespace, which ends with the process.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};

use rustix::net::{connect, socket_with, sockopt, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;

use crate::config::Config;
use crate::error::ServiceError;
use crate::host::confinement::user;
use crate::shared::log::Log;

/// Locks the interception in this network namespace by an abstract socket; addresses need no lock: they are bound. `None`: nothing is
/// intercepted, or a program of another user holds the name. Anybody may, so it locks nothing, and the log says who has it.
///
/// # Errors
/// If another service has it.
pub(crate) fn lock_interception(config: &Config, log: &Log) -> Result<Option<UnixListener>, ServiceError> {
    if config.transparent.is_none() {
        return Ok(None);
    }
    let address = UnixAddress::from_abstract_name(NAME).map_err(ServiceError::system(NAME))?;
    match UnixListener::bind_addr(&address) {
        Ok(bound) => Ok(Some(bound)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let holder = holder(NAME);
            if holder.is_service {
                return Err(ServiceError::Taken("interception".to_owned()));
            }
            log.line(format!("lock name=\"{NAME}\" reason=\"{} has it: it locks nothing\"", holder.words));
            Ok(None)
        }
        Err(error) => Err(ServiceError::system(NAME)(error)),
    }
}

/// Whether a service intercepts connections in this network namespace, or another program has its name.
pub(crate) fn is_locked() -> bool {
    let own = format!(" @{NAME}");
    fs::read_to_string("/proc/net/unix").is_ok_and(|all| all.lines().any(|line| line.ends_with(&own)))
}

/// Who has the name.
struct Holder {
    /// Whether it may be another service: its user is root, the one of this process, or the one that services change to.
    is_service: bool,
    words: String,
}

/// Asks the kernel who listens at the name.
fn holder(name: &str) -> Holder {
    let asked = || -> rustix::io::Result<_> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        sockopt::socket_peercred(&socket)
    };
    match asked() {
        Ok(credentials) => Holder {
            is_service: credentials.uid.is_root() || [geteuid(), user().0].contains(&credentials.uid),
            words: format!("process {} of user {}", credentials.pid.as_raw_nonzero(), credentials.uid.as_raw()),
        },
        // A service listens, and nobody connects to it.
        Err(error) => Holder { is_service: false, words: format!("a program that does not answer ({error})") },
    }
}

/// Name of the lock.
const NAME: &str = "perigee-pep interception";

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use rustix::process::Uid;
    use rustix::thread::set_thread_uid;

    #[test]
    fn a_service_of_root_knows_one_that_the_unit_has_started() {
        if !geteuid().is_root() {
            println!("skipped: changing the user needs root");
            return;
        }
        for (holds, is_service) in [(user().0, true), (Uid::from_raw(65_534), false)] {
            let name = format!("perigee-pep test {}", std::process::id());
            let address = UnixAddress::from_abstract_name(&name).unwrap();
            // The user of this short-lived thread alone.
            let bind = move || set_thread_uid(holds).map(|()| UnixListener::bind_addr(&address).unwrap());
            let _held = thread::spawn(bind).join().unwrap().unwrap();
            assert_eq!(holder(&name).is_service, is_service, "{holds:?}");
        }
    }
}
