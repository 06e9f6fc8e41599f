//! Runs a program behind an emulated link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::thread;

use perigee_link::LinkSpec;
use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fchmod, open, Mode, OFlags};
use rustix::io::write;
use rustix::mount::{mount, mount_bind, mount_change, unmount, MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, set_parent_process_death_signal, Pid, PidfdFlags, Signal};
use rustix::thread::{move_into_link_name_space, unshare_unsafe, LinkNameSpaceType, UnshareFlags};
use thiserror::Error;

use crate::clean::{mark, Process};
use crate::clock::monotonic;
use crate::driver::{Driver, Report, Way};
use crate::ending::{drain, end_processes, Progress, Undelivered};
use crate::endpoint::Endpoint;
use crate::names::{Names, RESOLV_CONF};
use crate::namespace::Namespace;
use crate::outside::{Closed, Translation};
use crate::signals::Signals;
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
    /// How long, at the most, the link is driven on after the program's end, so that what it has sent arrives.
    pub drain: Time,
}

/// What is known before the program runs.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Our address at the near end of the link: the program reaches this host there.
    pub near: Ipv4Addr,
    /// Why the program reaches this host only; `None`: it reaches what this host reaches.
    pub closed: Option<Closed>,
}

/// Is told what happens while a program runs.
pub trait Watcher {
    /// The program is about to start.
    fn begun(&mut self, _surroundings: &Surroundings) {}

    /// Asked ten times a second; where it says no, the program is killed.
    fn go_on(&mut self) -> bool {
        true
    }

    /// The program has ended a second ago, and this has not arrived yet.
    fn draining(&mut self, _left: &Undelivered) {}
}

/// Is not told.
impl Watcher for () {}

/// What a program did behind a link.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// From its start to its end.
    pub duration: Time,
    /// Processes that it left running, and that were ended.
    pub ended: Vec<Process>,
    /// What had not arrived when the link was given up: nothing, unless that took longer than [`Exec::drain`], or a signal
    /// ended it.
    pub undelivered: Undelivered,
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
    /// SIGHUP, SIGINT and SIGTERM that a process sends to us meanwhile are the program's. After its end the processes that it left are ended, and the link is driven until what was sent has
    /// arrived; a signal ends that at once.
    ///
    /// All that was made is gone when this returns, and also when this process is killed: devices, addresses, the
    /// namespace and the translation of addresses have no names that outlive us.
    ///
    /// # Errors
    /// Where the process may not do so, or the program does not start.
    pub fn run(&self, command: &mut Command, watcher: &mut impl Watcher) -> Result<Outcome, ExecError> {
        let mut signals = Signals::new().map_err(failed("receiving signals"))?;
        let outer = Namespace::current().map_err(failed("looking for our namespace"))?;
        let inner = Namespace::new().map_err(failed("making a namespace"))?;
        let (network, _claim) = claim_network()?;
        let devices = self.devices(network, &outer, &inner)?;
        let [near, far] = [NEAR, FAR].map(|host| Ipv4Addr::from(u32::from(network) + host));
        let translation = Translation::new(&outer, network);
        let names = Names::new(devices.0.name(), near, far).map_err(failed("passing on names"))?;
        watcher.begun(&Surroundings { near, closed: translation.as_ref().err().cloned() });
        let progress = Progress::default();
        thread::scope(|scope| {
            if let Some(names) = &names {
                scope.spawn(|| names.serve(scope, &progress.stop));
            }
            let driving = scope.spawn(|| self.drive(devices, &progress));
            let begun = monotonic();
            let ended = start(command, &inner, names.as_ref().map(Names::resolv_conf)).and_then(|child| {
                let status = wait(child, &mut signals, watcher)?;
                let duration = monotonic().checked_sub(begun).unwrap_or_default();
                let left = self.finish(&inner, &progress, &mut signals, watcher).map_err(failed("ending"));
                Ok((status, duration, left?))
            });
            progress.stop.store(true, Ordering::Relaxed);
            let Ok((reports, done)) = driving.join() else { unreachable!("the driver does not panic") };
            let (status, duration, (ended, undelivered)) = ended?;
            done.map_err(failed("moving packets"))?;
            Ok(Outcome { status, duration, ended, undelivered, down: reports[0], up: reports[1] })
        })
    }

    /// After the program's end: ends the processes that it left, and lets what was sent arrive.
    fn finish(
        &self,
        inner: &Namespace,
        progress: &Progress,
        signals: &mut Signals,
        watcher: &mut impl Watcher,
    ) -> io::Result<(Vec<Process>, Undelivered)> {
        let (ended, is_hurried) = end_processes(inner, signals)?;
        let bound = if is_hurried { Time::ZERO } else { self.drain };
        let undelivered = drain(inner, progress, signals, bound, &mut |left| watcher.draining(left))?;
        Ok((ended, undelivered))
    }

    fn drive(&self, (ours, theirs): (Tun, Tun), mut progress: &Progress) -> (Vec<Report>, io::Result<()>) {
        let down = Way { from: 0, to: 1, spec: &self.down, name: "exec.down" };
        let up = Way { from: 1, to: 0, spec: &self.up, name: "exec.up" };
        let mut driver = Driver::new(&[down, up], self.seed, self.mtu as usize);
        let mut wire = TunWire::new(vec![ours, theirs], monotonic());
        let done = driver.run(&mut wire, &mut progress);
        (driver.reports(), done)
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
        let theirs = end("link", FAR, everything).create(inner).map_err(failed("making a device in the namespace"))?;
        Ok((ours, theirs))
    }
}

/// Starts the program in the namespace, with this `resolv.conf`. It ends with us, whatever ends us.
fn start(command: &mut Command, inner: &Namespace, resolv_conf: Option<&str>) -> Result<Child, ExecError> {
    let namespace = inner.descriptor().try_clone_to_owned().map_err(failed("keeping the namespace"))?;
    let resolv_conf = resolv_conf.map(str::to_owned);
    let prepare = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        if let Some(text) = &resolv_conf {
            replace_resolv_conf(text)?;
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

/// Mounts another `resolv.conf` for the calling process and what it starts. The file is in memory, in a file system that
/// is mounted nowhere else: nothing is left of it, whenever the process ends.
fn replace_resolv_conf(text: &str) -> io::Result<()> {
    // SAFETY: only this process, which has one thread, changes what it sees mounted.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    // A folder that is always there, and that a `resolv.conf` which is a symbolic link does not lead to; only for a moment.
    mount("perigee", "/proc", "tmpfs", MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOSUID, None)?;
    let file =
        open("/proc/resolv.conf", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        rest = &rest[write(&file, rest)?..];
    }
    // The process's umask may have taken the right to read from others.
    fchmod(&file, Mode::from_raw_mode(0o644))?;
    mount_bind("/proc/resolv.conf", RESOLV_CONF)?;
    unmount("/proc", UnmountFlags::DETACH)?;
    Ok(())
}

/// Waits for the program's end. Signals that a process sent to us are passed on to it.
fn wait(mut child: Child, signals: &mut Signals, watcher: &mut impl Watcher) -> Result<ExitStatus, ExecError> {
    let pid = Pid::from_child(&child);
    let descriptor =
        pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed("waiting for the program")(error.into()))?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed("waiting for the program"))? {
            // Those that came before its end are not for what follows.
            signals.arrived();
            return Ok(status);
        }
        if !watcher.go_on() {
            // It may have ended just now.
            let _ = child.kill();
        }
        let tenth = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        // Early or interrupted: the loop looks again.
        let _ = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&tenth));
        for arrived in signals.arrived().into_iter().filter(|arrived| arrived.is_from_process) {
            // As above.
            let _ = pidfd_send_signal(&descriptor, arrived.signal);
        }
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

/// Of the four addresses of a link's network, those of its ends.
const NEAR: u32 = 1;
const FAR: u32 = 2;

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
