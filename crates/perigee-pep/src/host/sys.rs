//! System calls that rustix does not have: the only unsafe code of the crate.
#![allow(unsafe_code, reason = "calls into libc; each says why it is sound")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::net::{connect, connect_unspec, getsockname, socket_with, AddressFamily, SocketFlags, SocketType};

/// The fields of the kernel's state of a connection that are read (`struct tcp_info` in `linux/tcp.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Whether the connection is closed.
    pub(crate) is_closed: bool,
    /// Whether the other end has acknowledged all that was written, the end of the stream included, or the connection is closed.
    pub(crate) is_settled: bool,
    /// Whether only the acknowledgement of our FIN is missing, after the peer's FIN (LAST-ACK).
    pub(crate) is_last_acknowledgement: bool,
    /// Smoothed round-trip time.
    pub(crate) rtt_us: u32,
    /// Retransmitted segments.
    pub(crate) retransmitted: u32,
    /// Shortest round trip of late; 0 if it is not known.
    pub(crate) least_rtt_us: u32,
    /// Bytes that were written and not sent yet.
    pub(crate) unsent: u32,
    /// Time so far that the peer's window was closed while bytes waited.
    pub(crate) closed_us: u64,
    /// Segments that arrived out of order; 0 before Linux 5.4, which does not count them.
    pub(crate) out_of_order: u32,
}

impl TcpInfo {
    /// Reads that of a socket.
    pub(crate) fn of(socket: impl AsFd) -> io::Result<Self> {
        let (bytes, _) = tcp_info(socket)?;
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (is_closed, is_last_acknowledgement) = (bytes[0] == TCP_CLOSE, bytes[0] == TCP_LAST_ACK);
        let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let (in_flight, unsent) = (word(24), word(144));
        Ok(Self {
            is_closed,
            is_settled: is_closed || (in_flight == 0 && unsent == 0),
            is_last_acknowledgement,
            rtt_us: word(68),
            retransmitted: word(100),
            // The kernel's word for a round trip that it has not seen.
            least_rtt_us: if word(148) == u32::MAX { 0 } else { word(148) },
            unsent,
            closed_us: long(176),
            out_of_order: word(224),
        })
    }
}

/// The kernel's state of a connection, `struct tcp_info`, and how many bytes of it this kernel has: the others are zero.
pub(crate) fn tcp_info(socket: impl AsFd) -> io::Result<([u8; 232], usize)> {
    let mut bytes = [0; 232];
    let known = get(socket, (libc::IPPROTO_TCP, libc::TCP_INFO), &mut bytes)?;
    Ok((bytes, known))
}

/// Properties of the first packet of an accepted connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The index of its interface; 0 if unknown.
    pub(crate) interface: u32,
    /// Differentiated services code point, 0 to 63.
    pub(crate) dscp: u8,
}

impl Arrival {
    /// Reads that of a socket from a listener with [`report_arrival`].
    pub(crate) fn of(socket: impl AsFd, is_ipv6: bool) -> io::Result<Self> {
        // The kernel writes control messages, each aligned as `cmsghdr`.
        let mut buffer = [0u64; 32];
        let option = if is_ipv6 {
            (libc::IPPROTO_IPV6, libc::IPV6_2292PKTOPTIONS)
        } else {
            (libc::IPPROTO_IP, libc::IP_PKTOPTIONS)
        };
        let length = get(socket, option, &mut buffer)?;
        let mut bytes = [0; 256];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(buffer) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(Self::parse(&bytes[..length]))
    }

    /// Reads control messages.
    fn parse(mut bytes: &[u8]) -> Self {
        let word = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes)
        };
        let head = size_of::<libc::cmsghdr>();
        let mut arrival = Self::default();
        while bytes.len() >= head {
            // `size_t` length first, then level and type.
            let length = bytes[..size_of::<usize>()].try_into().map_or(0, usize::from_ne_bytes);
            if length < head || length > bytes.len() {
                break;
            }
            let at = |at| word(bytes, at).map_or(-1, |word| word as i32);
            let data = &bytes[head..length];
            match (at(head - 8), at(head - 4)) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => arrival.interface = word(data, 0).unwrap_or(0),
                // `struct in6_pktinfo`: an address, then the index.
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO | libc::IPV6_2292PKTINFO) => {
                    arrival.interface = word(data, 16).unwrap_or(0);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => arrival.dscp = data.first().map_or(0, |tos| tos >> 2),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => arrival.dscp = word(data, 0).map_or(0, |tos| tos as u8 >> 2),
                _ => {}
            }
            bytes = &bytes[length.next_multiple_of(size_of::<usize>()).min(bytes.len())..];
        }
        arrival
    }
}

/// Makes the kernel keep [`Arrival`] of each connection that a listener accepts.
pub(crate) fn report_arrival(listener: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    report(listener, is_ipv6, 1)
}

/// Undoes that for an accepted connection over IPv6, which would copy the headers of all its packets; IPv4 copies those of the
/// first packet only.
pub(crate) fn stop_reporting_arrival(socket: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    if is_ipv6 {
        report(socket, is_ipv6, 0)
    } else {
        Ok(())
    }
}

fn report(socket: impl AsFd, is_ipv6: bool, value: i32) -> io::Result<()> {
    let options: &[(i32, i32)] = if is_ipv6 {
        &[
            (libc::IPPROTO_IPV6, libc::IPV6_2292PKTINFO),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
        ]
    } else {
        &[(libc::IPPROTO_IP, libc::IP_PKTINFO), (libc::IPPROTO_IP, libc::IP_RECVTOS)]
    };
    options.iter().try_for_each(|option| set(&socket, *option, value))
}

/// Lets a socket use addresses of other hosts; needs `CAP_NET_ADMIN` or `CAP_NET_RAW`.
pub(crate) fn make_transparent(socket: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    let option =
        if is_ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT) } else { (libc::IPPROTO_IP, libc::IP_TRANSPARENT) };
    set(socket, option, 1)
}

/// Gives all packets of a socket a firewall mark; needs `CAP_NET_ADMIN`.
pub(crate) fn mark(socket: impl AsFd, mark: u32) -> io::Result<()> {
    set(socket, (libc::SOL_SOCKET, libc::SO_MARK), mark as i32)
}

/// Limits the unsent bytes of a socket.
pub(crate) fn limit_unsent(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), bytes as i32)
}

/// The limit of [`limit_unsent`]; 0: as the kernel is set.
pub(crate) fn unsent_limit(socket: impl AsFd) -> io::Result<u32> {
    let mut bytes = [0];
    get(socket, (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), &mut bytes)?;
    Ok(bytes[0])
}

/// The buffers of a socket whose sizes are fixed: [`RECEIVE_BUFFER`] and the send buffer. Since Linux 5.15.
pub(crate) fn buffer_locks(socket: impl AsFd) -> io::Result<i32> {
    let mut locks = [0];
    get(socket, (libc::SOL_SOCKET, SO_BUF_LOCK), &mut locks)?;
    Ok(locks[0])
}

/// Fixes buffers of a socket at the sizes that they have, or lets the kernel change them again.
pub(crate) fn lock_buffers(socket: impl AsFd, locks: i32) -> io::Result<()> {
    set(socket, (libc::SOL_SOCKET, SO_BUF_LOCK), locks)
}

/// Limits what a socket sends, payload in bytes per second; `u64::MAX`: not at all. Without the queueing discipline `fq` TCP itself
/// keeps to it.
pub(crate) fn limit_rate(socket: impl AsFd, bytes_per_s: u64) -> io::Result<()> {
    set(socket, (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE), bytes_per_s)
}

/// Limits the window that a socket offers, bytes; what it has offered stays.
pub(crate) fn limit_window(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP), bytes as i32)
}

/// Limits the segments of both directions, bytes of payload.
pub(crate) fn limit_segments(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    set(socket, (libc::IPPROTO_TCP, libc::TCP_MAXSEG), i32::from(bytes))
}

/// Written but unacknowledged bytes of a socket, the end of the stream included.
pub(crate) fn unacknowledged(socket: impl AsFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ writes an int to its argument, which lives for the call.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    checked(done).map(|_| bytes as u32)
}

/// A descriptor that becomes readable when one of the signals arrives. They are blocked in this thread and in those that it
/// starts.
pub(crate) fn signal_descriptor(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before anything reads it; the others change or read it only. The
    // descriptor is new and owned by nobody else.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        if blocked != 0 {
            return Err(io::Error::from_raw_os_error(blocked));
        }
        let descriptor = checked(libc::signalfd(-1, set.as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// A TUN device of this thread's network namespace, without offloads; it ends with the file. Needs `CAP_NET_ADMIN`.
pub(crate) fn tun(name: &str) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut open = std::fs::OpenOptions::new();
    let file = open.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open("/dev/net/tun")?;
    // `struct ifreq` is larger than name and flags; the kernel reads and writes all 40 bytes of it.
    let mut request = [0u8; size_of::<libc::ifreq>()];
    request[..name.len()].copy_from_slice(name.as_bytes());
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as u16;
    request[libc::IFNAMSIZ..libc::IFNAMSIZ + 2].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, whose size the request has; it lives for the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, request.as_mut_ptr()) })?;
    Ok(file)
}

/// Gives free memory back to the system. The allocator of glibc keeps what a peak of small pieces has left; others give it back
/// themselves.
pub(crate) fn return_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and the locks of the allocator.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The next signal of a [`signal_descriptor`], if one has arrived.
pub(crate) fn next_signal(descriptor: impl AsFd) -> Option<libc::c_int> {
    // A `signalfd_siginfo`, which starts with the number of the signal.
    let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(descriptor, &mut bytes) {
        Ok(length) if length == bytes.len() => Some(i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        _ => None,
    }
}

/// Unblocks all signals in a child between `fork` and `exec`: children must not inherit the service's blocked signals.
fn unblock_signals() -> io::Result<()> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before it is read; both calls are async-signal-safe.
    let done = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut())
    };
    checked(done).map(drop)
}

/// Starts a command with no signal blocked.
pub(crate) fn with_default_signals(command: &mut std::process::Command) -> &mut std::process::Command {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: between `fork` and `exec` the closure makes async-signal-safe calls only, and allocates nothing.
    unsafe { command.pre_exec(unblock_signals) }
}

/// Starts a command whose process has no parent here: the child of this process forks again, and ends. Its number is that of
/// the group of the process.
pub(crate) fn detached(command: &mut std::process::Command) -> &mut std::process::Command {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: between `fork` and `exec` the closure makes async-signal-safe calls only, and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            checked(libc::setsid())?;
            match checked(libc::fork())? {
                0 => Ok(()),
                _ => libc::_exit(0),
            }
        })
    }
}

/// The number of a socket's network namespace.
pub(crate) fn network_cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = [0];
    get(socket, (libc::SOL_SOCKET, SO_NETNS_COOKIE), &mut cookie)?;
    Ok(cookie[0])
}

/// Starts a command with no signal blocked, and without the rights that the service's own programs have. It is killed when the thread
/// that has started it ends, which may be by a kill of this process.
pub(crate) fn for_others(command: &mut std::process::Command) -> &mut std::process::Command {
    use std::os::unix::process::CommandExt as _;
    let without_rights = || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        Ok(rustix::thread::clear_ambient_capability_set()?)
    };
    // SAFETY: between `fork` and `exec` the closure makes two system calls, and allocates nothing.
    unsafe { with_default_signals(command).pre_exec(without_rights) }
}

/// Sockets of both versions of IP that tell which addresses are this host's, also while no descriptor is left.
#[derive(Debug)]
pub(crate) struct Probe([Option<OwnedFd>; 2]);

impl Probe {
    pub(crate) fn open() -> Self {
        let socket = |family| socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok();
        Self([AddressFamily::INET, AddressFamily::INET6].map(socket))
    }

    /// Whether an address is this host's: the kernel then chooses the same address as the source. True if that is unknown.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        let Some(socket) = &self.0[usize::from(address.is_ipv6())] else { return true };
        // Connecting a datagram socket sends nothing. No route: not this host.
        if connect(socket, &SocketAddr::new(address, DISCARD_PORT)).is_err() {
            return false;
        }
        let chosen = getsockname(socket).and_then(SocketAddr::try_from);
        // Its address is chosen anew the next time.
        let _ = connect_unspec(socket);
        chosen.map_or(true, |chosen| chosen.ip() == address)
    }
}

/// Whether an address is this host's, as [`Probe::is_own`].
pub(crate) fn is_own(address: IpAddr) -> bool {
    Probe::open().is_own(address)
}

/// Passes to a socket only what a program of classic BPF does (socket(7), `SO_ATTACH_FILTER`).
pub(super) fn filter(socket: impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set(socket, (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER), program)
}

fn set<T: Copy>(socket: impl AsFd, (level, name): (i32, i32), value: T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes of the value, and what a pointer in it is to: both live for the call.
    let done = unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), size) };
    checked(done).map(drop)
}

/// Fills the start of `value`; returns the number of bytes written.
fn get<T: Copy, const N: usize>(socket: impl AsFd, (level, name): (i32, i32), value: &mut [T; N]) -> io::Result<usize> {
    let mut size = size_of_val(value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to plain integers, and how many it wrote to `size`.
    let done =
        unsafe { libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut size) };
    checked(done).map(|_| size as usize)
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// States of `net/tcp_states.h`.
const TCP_CLOSE: u8 = 7;
const TCP_LAST_ACK: u8 = 9;
/// From `asm-generic/socket.h`, since Linux 5.14.
const SO_NETNS_COOKIE: i32 = 71;
/// From `asm-generic/socket.h`, since Linux 5.15, and its bit of `linux/socket.h`.
const SO_BUF_LOCK: i32 = 72;
pub(crate) const RECEIVE_BUFFER: i32 = 2;
/// Any port: nothing is sent to it.
const DISCARD_PORT: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn own_addresses_are_recognised() {
        let probe = Probe::open();
        for _ in 0..2 {
            assert!(probe.is_own(Ipv4Addr::LOCALHOST.into()));
            assert!(!probe.is_own(Ipv4Addr::new(192, 0, 2, 77).into()));
        }
    }

    #[test]
    fn interface_and_code_point_of_a_connection_are_known() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                println!("skipped: no {address} here");
                continue;
            };
            let at = listener.local_addr().unwrap();
            report_arrival(&listener, at.is_ipv6()).unwrap();
            let client = if at.is_ipv6() {
                rustix::net::socket(rustix::net::AddressFamily::INET6, rustix::net::SocketType::STREAM, None).unwrap()
            } else {
                rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap()
            };
            if at.is_ipv6() {
                rustix::net::sockopt::set_ipv6_tclass(&client, 46 << 2).unwrap();
            } else {
                rustix::net::sockopt::set_ip_tos(&client, 46 << 2).unwrap();
            }
            rustix::net::connect(&client, &at).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            let arrival = Arrival::of(&accepted, at.is_ipv6()).unwrap();
            assert!(arrival.interface > 0, "{address}: {arrival:?}");
            assert_eq!(arrival.dscp, 46, "{address}");
        }
    }

    #[test]
    fn what_a_peer_has_acknowledged_is_no_longer_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(unacknowledged(&client).unwrap(), 0);
        let info = TcpInfo::of(&client).unwrap();
        assert!(info.rtt_us > 0 && info.is_settled && !info.is_closed);
        // The reader's window is full before so much has left.
        client.set_nonblocking(true).unwrap();
        let bytes = vec![0; 1 << 16];
        while (&client).write(&bytes).is_ok() {}
        assert!(unacknowledged(&client).unwrap() > 0);
        assert!(!TcpInfo::of(&client).unwrap().is_settled);
    }
}
