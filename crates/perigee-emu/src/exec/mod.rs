//! Runs a program behind an emulated link.

pub mod dns;
mod dns_forwarder;
pub(crate) mod leftovers;
pub(crate) mod nat;
mod progress;
pub(crate) mod shutdown;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::thread::{self, Builder};

use perigee_link::LinkSpec;
use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fchmod, open, Mode, OFlags};
use rustix::io::write;
use rustix::mount::{mount, mount_bind, mount_change, unmount, MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, set_parent_process_death_signal, Pid, PidfdFlags, Signal};
use rustix::thread::{move_into_link_name_space, unshare_unsafe, LinkNameSpaceType, UnshareFlags};
use thiserror::Error;

use crate::exec::dns_forwarder::{DnsForwarder, RESOLV_CONF};
use crate::exec::leftovers::{mark, Process};
use crate::exec::nat::{Isolation, Nat};
use crate::exec::progress::Progress;
use crate::exec::shutdown::{drain, end_processes, Undelivered};
use crate::link::driver::{DirectedLink, Driver, LinkReport};
use crate::link::endpoint::Endpoint;
use crate::link::wire::TunWire;
use crate::os::clock::monotonic;
use crate::os::namespace::Namespace;
use crate::os::signals::Signals;
use crate::os::tun::Tun;

pub use crate::exec::progress::{DirectionSample, LiveSample};

/// A link for a program.
#[derive(Clone, Debug)]
pub struct Exec {
    /// Towards the program.
    pub down: LinkSpec,
    /// Away from it.
    pub up: LinkSpec,
    /// Seed of the link's random streams.
    pub seed: u64,
    /// Largest packet, bytes.
    pub mtu: u32,
    /// Longest time to drain the link after the program's end, so that sent data arrives.
    pub drain: Time,
}

/// Destinations that the program can reach, known before it runs.
#[derive(Clone, Debug)]
pub struct Reachability {
    /// This host's address at the near end of the link.
    pub near: Ipv4Addr,
    /// Why the program reaches this host only; `None` if it reaches the network beyond.
    pub closed: Option<Isolation>,
}

/// Observer of a program behind a link.
pub trait ExecObserver {
    /// The program is about to start.
    fn begun(&mut self, _surroundings: &Reachability) {}

    /// Called ten times a second; the program is killed if it returns false.
    fn go_on(&mut self) -> bool {
        true
    }

    /// Called once a second while the program runs, with counts of the link so far.
    fn live(&mut self, _sample: &LiveSample) {}

    /// The program ended a second ago, and this data is still in flight.
    fn draining(&mut self, _left: &Undelivered) {}
}

/// Observes nothing.
impl ExecObserver for () {}

/// Result of a program behind a link.
#[derive(Clone, Debug)]
pub struct ExecReport {
    /// How it ended.
    pub status: ExitStatus,
    /// From the program's start to its end.
    pub duration: Time,
    /// Processes that it left behind, and that were terminated.
    pub ended: Vec<Process>,
    /// Data in flight when draining stopped: none, unless draining exceeded [`Exec::drain`] or a signal
    /// stopped it.
    pub undelivered: Undelivered,
    /// The link's report towards the program.
    pub down: LinkReport,
    /// The link's report away from it.
    pub up: LinkReport,
}

/// Why a program did not run behind a link.
#[derive(Debug, Error)]
pub enum ExecError {
    /// Namespaces and devices need root.
    #[error("emulated links need root (CAP_SYS_ADMIN and CAP_NET_ADMIN); run the command as root")]
    NotPermitted,
    /// The kernel has no TUN devices.
    #[error(
        "there is no /dev/net/tun; load the kernel module `tun` (modprobe tun), or give the container that device"
    )]
    NoTun,
    /// All networks reserved for links are in use.
    #[error("all of 100.64.0.0/10 is routed here; free a network of four addresses in it")]
    NoAddresses,
    /// The program cannot be started.
    #[error("`{command}` does not start: {error}")]
    Command {
        /// Its name.
        command: String,
        /// The reason.
        error: io::Error,
    },
    /// Another system call failed.
    #[error("{what}: {error}")]
    System {
        /// The failed step.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

impl Exec {
    /// Runs a program in a network namespace of its own, connected to this host by the link only. The program
    /// shares our terminal.
    ///
    /// SIGHUP, SIGINT and SIGTERM from other processes are forwarded to the program. After its end, processes that it
    /// left behind are terminated, and the link runs until sent data has arrived; a signal stops that at once.
    ///
    /// Everything is gone when this returns, and also if this process is killed: devices, addresses, namespace and
    /// address translation have no names that outlive it.
    ///
    /// # Errors
    /// If the process lacks the rights, or the program cannot be started.
    pub fn run(&self, command: &mut Command, watcher: &mut impl ExecObserver) -> Result<ExecReport, ExecError> {
        let mut signals = Signals::new().map_err(failed("receiving signals"))?;
        let outer = Namespace::current().map_err(failed("looking for our namespace"))?;
        let inner = Namespace::new().map_err(failed("making a namespace"))?;
        copy_buffers(&inner).map_err(failed("giving the namespace this host's socket buffers"))?;
        let (network, _claim) = claim_network()?;
        let devices = self.devices(network, &outer, &inner)?;
        let [near, far] = [NEAR, FAR].map(|host| Ipv4Addr::from(u32::from(network) + host));
        let translation = Nat::new(&outer, network);
        let names = DnsForwarder::new(devices.0.name(), near, far).map_err(failed("passing on names"))?;
        watcher.begun(&Reachability { near, closed: translation.as_ref().err().cloned() });
        let progress = Progress::default();
        thread::scope(|scope| {
            let unstarted = |error| {
                progress.stop.store(true, Ordering::Relaxed);
                failed("starting a thread")(error)
            };
            if let Some(names) = &names {
                Builder::new().spawn_scoped(scope, || names.serve(scope, &progress.stop)).map_err(unstarted)?;
            }
            let driving = Builder::new().spawn_scoped(scope, || self.drive(devices, &progress)).map_err(unstarted)?;
            let begun = monotonic();
            let ended = start(command, &inner, names.as_ref().map(DnsForwarder::resolv_conf)).and_then(|child| {
                let status = wait(child, &mut signals, watcher, &progress)?;
                let duration = monotonic().checked_sub(begun).unwrap_or_default();
                let left = self.finish(&inner, &progress, &mut signals, watcher).map_err(failed("ending"));
                Ok((status, duration, left?))
            });
            progress.stop.store(true, Ordering::Relaxed);
            let Ok((reports, done)) = driving.join() else { unreachable!("the driver does not panic") };
            let (status, duration, (ended, undelivered)) = ended?;
            done.map_err(failed("moving packets"))?;
            Ok(ExecReport { status, duration, ended, undelivered, down: reports[0], up: reports[1] })
        })
    }

    /// Ends processes that the program left behind, and drains the link.
    fn finish(
        &self,
        inner: &Namespace,
        progress: &Progress,
        signals: &mut Signals,
        watcher: &mut impl ExecObserver,
    ) -> io::Result<(Vec<Process>, Undelivered)> {
        let (ended, is_hurried) = end_processes(inner, signals)?;
        let bound = if is_hurried { Time::ZERO } else { self.drain };
        let undelivered = drain(inner, progress, signals, bound, &mut |left| watcher.draining(left))?;
        Ok((ended, undelivered))
    }

    fn drive(&self, (ours, theirs): (Tun, Tun), mut progress: &Progress) -> (Vec<LinkReport>, io::Result<()>) {
        let down = DirectedLink { from: 0, to: 1, spec: &self.down, name: "exec.down", gives_up_waiting: false };
        let up = DirectedLink { from: 1, to: 0, spec: &self.up, name: "exec.up", gives_up_waiting: false };
        let mut driver = Driver::new(&[down, up], self.seed, self.mtu as usize);
        let mut wire = TunWire::new(vec![ours, theirs], monotonic());
        let done = driver.run(&mut wire, &mut progress);
        (driver.reports(), done)
    }

    /// Creates both devices, with the addresses of a network.
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

/// Starts the program in the namespace, with this `resolv.conf`. The kernel kills it when this process dies.
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

/// Mounts another `resolv.conf` for the calling process and its children. The file is in a memory file system mounted
/// nowhere else, so nothing is left when the process ends.
fn replace_resolv_conf(text: &str) -> io::Result<()> {
    // SAFETY: only this process, which has one thread, gets a new mount namespace.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    // A folder that always exists, and that no symbolic link of `resolv.conf` leads to; used for a moment only.
    mount("perigee", "/proc", "tmpfs", MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOSUID, None)?;
    let file =
        open("/proc/resolv.conf", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        rest = &rest[write(&file, rest)?..];
    }
    // The umask may have removed read permission for others.
    fchmod(&file, Mode::from_raw_mode(0o644))?;
    mount_bind("/proc/resolv.conf", RESOLV_CONF)?;
    unmount("/proc", UnmountFlags::DETACH)?;
    Ok(())
}

/// Waits for the program's end, and forwards signals of other processes to it.
fn wait(
    mut child: Child,
    signals: &mut Signals,
    watcher: &mut impl ExecObserver,
    progress: &Progress,
) -> Result<ExitStatus, ExecError> {
    let (begun, mut told) = (monotonic(), Time::ZERO);
    let pid = Pid::from_child(&child);
    let descriptor =
        pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed("waiting for the program")(error.into()))?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed("waiting for the program"))? {
            // Signals before its end do not stop draining.
            signals.arrived();
            return Ok(status);
        }
        if !watcher.go_on() {
            // It may have ended just now.
            let _ = child.kill();
        }
        let elapsed = monotonic().checked_sub(begun).unwrap_or_default();
        if elapsed.checked_sub(told).unwrap_or_default() >= LIVE {
            told = elapsed;
            watcher.live(&progress.sample(elapsed));
        }
        let tenth = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        // Early and interrupted returns are checked again by the loop.
        let _ = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&tenth));
        for arrived in signals.arrived().into_iter().filter(|arrived| arrived.is_from_process) {
            // As above.
            let _ = pidfd_send_signal(&descriptor, arrived.signal);
        }
    }
}

/// Copies the limits of socket buffers from the current namespace to a new one: the kernel copies those of the initial
/// namespace, which differ in a container.
fn copy_buffers(inner: &Namespace) -> io::Result<()> {
    for name in ["tcp_rmem", "tcp_wmem"] {
        let path = format!("/proc/sys/net/ipv4/{name}");
        let own = fs::read_to_string(&path)?;
        inner.enter(|| match fs::write(&path, own.trim_end()) {
            // A container may refuse it; the program then has the limits of the initial namespace.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            done => done,
        })?;
    }
    Ok(())
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> ExecError {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied => ExecError::NotPermitted,
        io::ErrorKind::NotFound if what.starts_with("making a device") => ExecError::NoTun,
        _ => ExecError::System { what, error },
    }
}

/// IPv4 networks with a route on this host: first address and mask.
fn routed_networks() -> io::Result<Vec<(u32, u32)>> {
    let text = std::fs::read_to_string("/proc/thread-self/net/route")?;
    let number = |field: Option<&str>| field.and_then(|f| u32::from_str_radix(f, 16).ok()).map(u32::swap_bytes);
    let row = |line: &str| {
        let mut fields = line.split_whitespace();
        Some((number(fields.nth(1))?, number(fields.nth(5))?))
    };
    Ok(text.lines().skip(1).filter_map(row).filter(|(_, mask)| *mask != 0).collect())
}

/// A network without a route, claimed until dropped by binding an abstract socket of its name, which only one process
/// of a namespace can do.
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

/// The networks of four addresses in 100.64.0.0/10, shared address space (RFC 6598), that have no
/// route.
fn free_networks(routed: &[(u32, u32)]) -> impl Iterator<Item = Ipv4Addr> + '_ {
    let (first, size) = (u32::from(Ipv4Addr::new(100, 64, 0, 0)), 1u32 << 22);
    let taken = move |network: u32| routed.iter().any(|(other, mask)| (network ^ other) & mask & !3 == 0);
    (0..size / 4).map(move |n| first + 4 * n).filter(move |network| !taken(*network)).map(Ipv4Addr::from)
}

/// The unique local IPv6 network (RFC 4193) of an IPv4 network.
fn unique_local(network: Ipv4Addr) -> Ipv6Addr {
    let [_, b, c, d] = network.octets();
    Ipv6Addr::new(0xfd70, 0x6572, 0x6967, u16::from(b) << 8 | u16::from(c), u16::from(d) << 8, 0, 0, 0)
}

/// Interval of the samples for an observer.
const LIVE: Time = Time::from_secs(1);
/// The addresses of a link's two ends, of the four in its network.
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
