//! Network namespaces that live as long as somebody holds them.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::{fs, io, thread};

use rustix::process::{pidfd_open, Pid, PidfdFlags};
use rustix::thread::{move_into_link_name_space, unshare_unsafe, LinkNameSpaceType, UnshareFlags};

use crate::clean::Process;
use crate::netlink::{index, Netlink};

/// A network namespace without a name: it is gone when this is, and the last process in it.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// A new one, whose loopback device is up, and which forwards packets between the devices that it will have.
    ///
    /// # Errors
    /// Where the process may not, for lack of `CAP_SYS_ADMIN`.
    pub fn new() -> io::Result<Self> {
        in_thread(|| {
            // SAFETY: descriptors stay shared; only this short-lived thread changes its network.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET)? };
            Netlink::new()?.up(index("lo")?, None)?;
            for version in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                match fs::write(format!("/proc/sys/net/{version}"), "1") {
                    // A kernel without IPv6.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    done => done?,
                }
            }
            current()
        })
    }

    /// The one that the calling thread is in.
    ///
    /// # Errors
    /// Where `/proc` is not mounted.
    pub fn current() -> io::Result<Self> {
        current()
    }

    /// Does something in it: in a thread of its own, so that the caller stays where it is.
    ///
    /// # Errors
    /// Those of `work`, or where the process may not enter.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        in_thread(|| {
            self.join()?;
            work()
        })
    }

    /// Moves the calling thread into it for good.
    ///
    /// # Errors
    /// Where the process may not.
    pub fn join(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.descriptor(), Some(LinkNameSpaceType::Network))?)
    }

    /// Its number, by which BPF programs know it: the inode of its file.
    pub(crate) fn number(&self) -> io::Result<u32> {
        Ok(self.0.metadata()?.ino() as u32)
    }

    /// The processes in it, held so that a number cannot pass to another process meanwhile. One that has ended and that
    /// its parent has not waited for is in no namespace.
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
        let joined = scope.spawn(work).join();
        joined.unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}
