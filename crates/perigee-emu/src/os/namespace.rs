//! Anonymous network namespaces.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::thread::{self, Builder};
use std::{fs, io};

use rustix::process::{pidfd_open, Pid, PidfdFlags};
use rustix::thread::{move_into_link_name_space, unshare_unsafe, LinkNameSpaceType, UnshareFlags};

use crate::exec::leftovers::Process;
use crate::os::netlink::{index, Netlink};

/// A network namespace without a name: it ends with this handle and the last process in it.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// A new namespace with its loopback device up and forwarding enabled.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN`.
    pub fn new() -> io::Result<Self> {
        in_thread(|| {
            // SAFETY: descriptors stay shared; only this short-lived thread changes its network.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET)? };
            Netlink::new()?.up(index("lo")?, None)?;
            for version in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                match fs::write(format!("/proc/sys/net/{version}"), "1") {
                    // The kernel has no IPv6.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    done => done?,
                }
            }
            current()
        })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub fn current() -> io::Result<Self> {
        current()
    }

    /// Runs `work` in the namespace, in a thread of its own.
    ///
    /// # Errors
    /// Those of `work`, or if the process may not enter.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        in_thread(|| {
            self.join()?;
            work()
        })
    }

    /// Moves the calling thread into the namespace for good.
    ///
    /// # Errors
    /// If the process may not.
    pub fn join(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.descriptor(), Some(LinkNameSpaceType::Network))?)
    }

    /// The inode of the namespace, which BPF programs see.
    pub(crate) fn number(&self) -> io::Result<u32> {
        Ok(self.0.metadata()?.ino() as u32)
    }

    /// The processes in the namespace, held by descriptors so that their numbers cannot be reused. A zombie is in no
    /// namespace.
    pub(crate) fn processes(&self) -> io::Result<Vec<(OwnedFd, Process)>> {
        let own = self.0.metadata()?;
        let is_inside = |pid: u32| {
            fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|other| (other.dev(), other.ino()) == (own.dev(), own.ino()))
        };
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let Some(held) = Pid::from_raw(pid as i32).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
                continue;
            };
            match held {
                Ok(held) if pid != std::process::id() && is_inside(pid) => found.push((held, Process::of(pid))),
                // It has ended.
                _ => {}
            }
        }
        Ok(found)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn current() -> io::Result<Namespace> {
    Ok(Namespace(File::open("/proc/thread-self/ns/net")?))
}

fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let joined = Builder::new().spawn_scoped(scope, work)?.join();
        joined.unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}
