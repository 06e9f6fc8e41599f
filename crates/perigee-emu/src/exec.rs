//! Runs a program behind an emulated link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use perigee_link::LinkSpec;
use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::mount::{mount_bind, mount_change, unmount, MountPropagationFlags, UnmountFlags};
use rustix::process::{pidfd_open, set_parent_process_death_signal, Pid, PidfdFlags, Signal};
use rustix::thread::{move_into_link_name_space, unshare_unsafe, LinkNameSpaceType, UnshareFlags};
use thiserror::Error;

use crate::clean::mark;
use crate::clock::monotonic;
use crate::driver::{Driver, Report, Way, Wire as _};
use crate::endpoint::Endpoint;
use crate::names::{Names, RESOLV_CONF};
use crate::namespace::Namespace;
use crate::outside::{Closed, Translation};
use crate::tun::Tun;
use crate::wire::TunWire;

/// A link to put a program behind.
#[derive(Clone, Debug)]
pub struct Exec {
    /// Towards the program.
    pub down: LinkSpec,
    /// Away from it.
    pub up: LinkSpec,
    /// Of the link's random streams.
    pub seed: u64,
    /// Largest packet, bytes.
    pub mtu: u32,
}

/// What is known before the program runs.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Our address at the near end of the link: the program reaches this host there.
    pub near: Ipv4Addr,
    /// Why the program reaches this host only; `None`: it reaches what this host reaches.
    pub closed: Option<Closed>,
}

/// Who looks on while a program runs.
pub trait Watcher {
    /// The program is about to start.
    fn begun(&mut self, _surroundings: &Surroundings) {}

    /// Asked ten times a second; where it says no, the program is killed.
    fn go_on(&mut self) -> bool {
        true
    }
}

/// Nobody looks on.
impl Watcher for () {}

/// What a program did behind a link.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// From its start to its end.
    pub duration: Time,
    /// What the link did towards it.
    pub down: Report,
    /// What the link did away from it.
    pub up: Report,
}

/// Why a program did not run behind a link.
#[derive(Debug, Error)]
pub enum ExecError {
    /// Namespaces and devices are root's.
    #[error("emulated links need root (CAP_SYS_ADMIN and CAP_NET_ADMIN); run it with sudo")]
    NotPermitted,
    /// The kernel has no TUN devices.
    #[error(
        "there is no /dev/net/tun; load the kernel module `tun` (modprobe tun), or give the container that device"
    )]
    NoTun,
    /// All networks that are used for links are taken.
    #[error("all of 100.64.0.0/10 is routed here; free a network of four addresses in it")]
    NoAddresses,
    /// The program does not start.
    #[error("`{command}` does not start: {error}")]
    Command {
        /// Its name.
        command: String,
        /// Why.
        error: io::Error,
    },
    /// Anything else that the kernel refused.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl Exec {
    /// Runs a program in a network namespace of its own, whose only way out is the link to where we are. The program
    /// shares our terminal.
    ///
    /// All that was made is gone when this returns, and also when this process is killed: devices, addresses, the
    /// namespace and the translation of addresses have no names that outlive us.
    ///
    /// # Errors
    /// Where the process may not do so, or the program does not start.
    pub fn run(&self, command: &mut Command, watcher: &mut impl Watcher) -> Result<Outcome, ExecError> {
        let outer = Namespace::current().map_err(failed("looking for our namespace"))?;
        let inner = Namespace::new().map_err(failed("making a namespace"))?;
        let (network, _claim) = claim_network()?;
        let devices = self.devices(network, &outer, &inner)?;
        let near = Ipv4Addr::from(u32::from(network) + NEAR);
        let translation = Translation::new(&outer, network);
        let names = Names::new(near).map_err(failed("passing on names"))?;
        watcher.begun(&Surroundings { near, closed: translation.as_ref().err().cloned() });
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            if let Some(names) = &names {
                scope.spawn(|| names.serve(scope, &stop));
            }
            let driving = scope.spawn(|| self.drive(devices, &stop));
            let child = start(command, &inner, names.as_ref().map(Names::file));
            if let Some(names) = &names {
                names.unlink();
            }
            let ended = child.and_then(|child| wait(child, watcher));
            stop.store(true, Ordering::Relaxed);
            let Ok((duration, reports, done)) = driving.join() else { unreachable!("the driver does not panic") };
            let status = ended?;
            done.map_err(failed("moving packets"))?;
            Ok(Outcome { status, duration, down: reports[0], up: reports[1] })
        })
    }

    fn drive(&self, (ours, theirs): (Tun, Tun), stop: &AtomicBool) -> (Time, Vec<Report>, io::Result<()>) {
        let down = Way { from: 0, to: 1, spec: &self.down, name: "exec.down" };
        let up = Way { from: 1, to: 0, spec: &self.up, name: "exec.up" };
        let mut driver = Driver::new(&[down, up], self.seed, self.mtu as usize);
        let mut wire = TunWire::new(vec![ours, theirs], monotonic());
        let done = driver.run(&mut wire, &mut || !stop.load(Ordering::Relaxed));
        (wire.now(), driver.reports(), done)
    }

    /// The two devices, with the addresses of a network.
    fn devices(&self, network: Ipv4Addr, outer: &Namespace, inner: &Namespace) -> Result<(Tun, Tun), ExecError> {
        let (v4, v6) = (u32::from(network), unique_local(network));
        let addresses = |host: u32| {
            let v6 = Ipv6Addr::from(u128::from(v6) + u128::from(host));
            vec![(IpAddr::V4(Ipv4Addr::from(v4 + host)), 30), (IpAddr::V6(v6), 64)]
        };
        let everything = vec![(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)];
        let end = |name: &str, host, routes| Endpoint {
            name: name.into(),
            addresses: addresses(host),
            routes,
            mtu: self.mtu,
        };
        let ours = end("perigee%d", NEAR, Vec::new()).create(outer).map_err(failed("making a device"))?;
        let theirs =
            end("link", NEAR + 1, everything).create(inner).map_err(failed("making a device in the namespace"))?;
        Ok((ours, theirs))
    }
}

/// Starts the program in the namespace, with names resolved as `names` says. It ends with us, whatever ends us.
fn start(command: &mut Command, inner: &Namespace, names: Option<&Path>) -> Result<Child, ExecError> {
    let namespace = inner.descriptor().try_clone_to_owned().map_err(failed("keeping the namespace"))?;
    let names = names.map(Path::to_owned);
    let prepare = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        if let Some(names) = &names {
            // SAFETY: only this process, which has one thread, changes what it sees mounted.
            unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
            mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
            match mount_bind(names, RESOLV_CONF) {
                // Behind another link that link's file is mounted there, which has no name and takes no mount any more.
                Err(Errno::NOENT) => {
                    unmount(RESOLV_CONF, UnmountFlags::DETACH)?;
                    mount_bind(names, RESOLV_CONF)?;
                }
                done => done?,
            }
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(())
    };
    let (mark, value) = mark().map_err(failed("marking the program"))?;
    command.env(mark, value);
    // SAFETY: between fork and exec only system calls are made; the paths are short and take no memory.
    unsafe { command.pre_exec(prepare) };
    command.spawn().map_err(|error| {
        let command = command.get_program().to_string_lossy().into_owned();
        ExecError::Command { command, error }
    })
}

/// Waits for the program's end.
fn wait(mut child: Child, watcher: &mut impl Watcher) -> Result<ExitStatus, ExecError> {
    let pid = Pid::from_child(&child);
    let descriptor =
        pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed("waiting for the program")(error.into()))?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed("waiting for the program"))? {
            return Ok(status);
        }
        if !watcher.go_on() {
            // It may have ended just now.
            let _ = child.kill();
        }
        let tenth = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        // Early or interrupted: the loop looks again.
        let _ = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&tenth));
    }
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> ExecError {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied => ExecError::NotPermitted,
        io::ErrorKind::NotFound if what.starts_with("making a device") => ExecError::NoTun,
        _ => ExecError::System { what, error },
    }
}

/// The IPv4 networks that have a route of their own here: first address and mask.
fn routed_networks() -> io::Result<Vec<(u32, u32)>> {
    let text = std::fs::read_to_string("/proc/thread-self/net/route")?;
    let number = |field: Option<&str>| field.and_then(|f| u32::from_str_radix(f, 16).ok()).map(u32::swap_bytes);
    let row = |line: &str| {
        let mut fields = line.split_whitespace();
        Some((number(fields.nth(1))?, number(fields.nth(5))?))
    };
    Ok(text.lines().skip(1).filter_map(row).filter(|(_, mask)| *mask != 0).collect())
}

/// A network that no route leads into, and that is ours until the claim is dropped: a socket of that name, which only
/// one process of a namespace can have.
fn claim_network() -> Result<(Ipv4Addr, UnixDatagram), ExecError> {
    let routed = routed_networks().map_err(failed("reading /proc/net/route"))?;
    for network in free_networks(&routed) {
        let name = SocketAddr::from_abstract_name(format!("perigee/{network}")).map_err(failed("naming a network"))?;
        match UnixDatagram::bind_addr(&name) {
            Ok(claim) => return Ok((network, claim)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(failed("claiming a network")(error)),
        }
    }
    Err(ExecError::NoAddresses)
}

/// The networks of four addresses in 100.64.0.0/10, the range between a provider and its customers (RFC 6598), that no
/// route leads into.
fn free_networks(routed: &[(u32, u32)]) -> impl Iterator<Item = Ipv4Addr> + '_ {
    let (first, size) = (u32::from(Ipv4Addr::new(100, 64, 0, 0)), 1u32 << 22);
    let taken = move |network: u32| routed.iter().any(|(other, mask)| (network ^ other) & mask & !3 == 0);
    (0..size / 4).map(move |n| first + 4 * n).filter(move |network| !taken(*network)).map(Ipv4Addr::from)
}

/// A unique local IPv6 network (RFC 4193) that goes with an IPv4 one.
fn unique_local(network: Ipv4Addr) -> Ipv6Addr {
    let [_, b, c, d] = network.octets();
    Ipv6Addr::new(0xfd70, 0x6572, 0x6967, u16::from(b) << 8 | u16::from(c), u16::from(d) << 8, 0, 0, 0)
}

/// Of the four addresses of a link's network, the near end's; the far end's follows.
const NEAR: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_routed_here_is_not_used() {
        let first = Ipv4Addr::new(100, 64, 0, 0);
        assert_eq!(free_networks(&[]).next(), Some(first));
        let wide = (u32::from(first), 0xffff_0000);
        assert_eq!(free_networks(&[wide]).next(), Some(Ipv4Addr::new(100, 65, 0, 0)));
        let host = (u32::from(Ipv4Addr::new(100, 64, 0, 2)), u32::MAX);
        assert_eq!(free_networks(&[host]).next(), Some(Ipv4Addr::new(100, 64, 0, 4)));
        assert_eq!(free_networks(&[(0x6440_0000, 0xffc0_0000)]).next(), None);
    }
}
