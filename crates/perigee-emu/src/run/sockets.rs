//! TCP connections over the kernel's sockets: establishment, writing and reading.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr, set_tcp_congestion, socket_error};
use rustix::net::{
    bind, connect, listen, recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};

use crate::os::clock::monotonic;
use crate::os::namespace::Namespace;
use crate::os::rcvlowat::LowWater;
use crate::os::tcp_info::{limit_segments, pace, TcpInfo};
use crate::run::tcp_report::TcpReport;

/// The two sockets of a connection before it is established.
pub(crate) struct SocketPair {
    /// The socket at the node with the data.
    pub(crate) from: PendingSocket,
    /// The socket at the receiving node.
    pub(crate) to: PendingSocket,
}

/// A socket before its connection is established.
pub(crate) enum PendingSocket {
    /// Connects to this address.
    Connects(OwnedFd, SocketAddr),
    /// Waits for the other one to connect.
    Listens(TcpListener),
}

/// The place of a flow's end: a node, and the flow's address and port there.
#[derive(Clone, Copy)]
pub(crate) struct FlowEnd<'a> {
    pub(crate) node: &'a Namespace,
    pub(crate) address: SocketAddr,
}

impl FlowEnd<'_> {
    /// Binds a socket of the calling thread's namespace to the place.
    pub(crate) fn bind(self, socket: &OwnedFd) -> io::Result<()> {
        bind_to(socket, self.address)
    }
}

/// Binds a socket to an address, which an error names.
pub(crate) fn bind_to(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    bind(socket, &address).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("{address}: {error}"))
    })
}

/// The options of a connection's sockets.
#[derive(Clone, Copy)]
pub(crate) struct SocketOptions<'a> {
    /// The congestion control.
    pub(crate) cc: &'a str,
    /// Whether TCP paces the connection.
    pub(crate) paced: bool,
    /// The largest segment, if the devices' packets would hold larger ones.
    pub(crate) mss: Option<u16>,
}

impl SocketPair {
    /// Sockets at the places of `from` and `to`; one listens, the other will connect to it.
    pub(crate) fn new(
        [from, to]: [FlowEnd<'_>; 2],
        sender_opens: bool,
        options: SocketOptions<'_>,
    ) -> io::Result<Self> {
        let (opener, other) = if sender_opens { (from, to) } else { (to, from) };
        let socket = |place: FlowEnd<'_>| {
            let socket = tcp_socket(place.address.ip(), options)?;
            place.bind(&socket)?;
            Ok(socket)
        };
        let listener = other.node.enter(|| {
            let socket = socket(other)?;
            listen(&socket, 1)?;
            Ok(socket)
        })?;
        let opener = opener.node.enter(|| socket(opener))?;
        let (opens, listens) =
            (PendingSocket::Connects(opener, other.address), PendingSocket::Listens(listener.into()));
        let (from, to) = if sender_opens { (opens, listens) } else { (listens, opens) };
        Ok(Self { from, to })
    }
}

impl PendingSocket {
    /// Waits until the connection is established at this end; `None` if stopped before.
    pub(crate) fn connected(self, report: &TcpReport, stop: &AtomicBool) -> io::Result<Option<TcpStream>> {
        let stream = match self {
            Self::Connects(socket, to) => {
                match connect(&socket, &to) {
                    Ok(()) | Err(Errno::INPROGRESS) => {}
                    Err(error) => return Err(report.cannot_connect(&socket, error.into())),
                }
                if !ready(&socket, PollFlags::OUT, Time::MAX, stop)? {
                    return Ok(None);
                }
                socket_error(&socket)?.map_err(|error| report.cannot_connect(&socket, error.into()))?;
                TcpStream::from(socket)
            }
            Self::Listens(listener) => {
                if !ready(&listener, PollFlags::IN, Time::MAX, stop)? {
                    return Ok(None);
                }
                listener.accept()?.0
            }
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Some(stream))
    }
}

/// The error of a flow with a thread that panicked.
pub(crate) fn panicked() -> io::Error {
    io::Error::other("its thread panicked")
}

/// The address family of an address.
pub(crate) fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    }
}

/// A non-blocking socket of the calling thread's namespace.
pub(crate) fn tcp_socket(address: IpAddr, options: SocketOptions<'_>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family(address), SocketType::STREAM, flags, None)?;
    set_tcp_congestion(&socket, options.cc).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("congestion control `{}`: {error}", options.cc))
    })?;
    // Abort on close (SO_LINGER 0): the kernel would otherwise keep the connection, its namespace and its congestion
    // control while it retransmits the remaining data.
    set_socket_linger(&socket, Some(Duration::ZERO))?;
    // A connection in TIME_WAIT does not hinder another at the same port.
    set_socket_reuseaddr(&socket, true)?;
    if options.paced {
        pace(&socket)?;
    }
    if let Some(mss) = options.mss {
        limit_segments(&socket, mss)?;
    }
    Ok(socket)
}

/// Waits until a socket is ready; false if not by this time, or if stopped before.
fn ready(socket: &impl std::os::fd::AsFd, what: PollFlags, end: Time, stop: &AtomicBool) -> io::Result<bool> {
    let tenth = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !stop.load(Ordering::Relaxed) && monotonic() < end {
        match poll(&mut [PollFd::new(socket, what)], Some(&tenth)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Writes `left` bytes, until a time or until stopped; returns whether all were written. A write holds whole segments, since Nagle's
/// algorithm would keep the rest of another in the send buffer: the next write may fill that without regard to the limit, and how many
/// writes do so depends on the speed of the processor.
pub(crate) fn write(stream: &TcpStream, mut left: u64, end: Time, stop: &AtomicBool) -> io::Result<bool> {
    let mss = TcpInfo::of(stream)?.mss.max(1) as usize;
    let chunk = vec![0; (CHUNK / mss).max(1) * mss];
    while left > 0 && !stop.load(Ordering::Relaxed) && monotonic() < end {
        let next = &chunk[..chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        match send(stream, next, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(written) => left -= written as u64,
            Err(Errno::AGAIN | Errno::INTR) => _ = ready(stream, PollFlags::OUT, end, stop)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(left == 0)
}

/// Reads and discards `left` bytes; false if the stream ends before, or if stopped.
pub(crate) fn take(stream: &TcpStream, mut left: u64, stop: &AtomicBool) -> io::Result<bool> {
    // The kernel discards the bytes and copies nothing (tcp(7), MSG_TRUNC).
    let mut nothing = vec![0; MOST_READ.min(usize::try_from(left).unwrap_or(MOST_READ))];
    // A reader that waits for a count of bytes is woken by each packet.
    let mut low = (left == u64::MAX).then(|| LowWater::new(monotonic()));
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let most = nothing.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let taken = match recv(stream.as_fd(), &mut nothing[..most], RecvFlags::TRUNC) {
            Ok((_, 0)) => break,
            Ok((_, taken)) => taken as u64,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        left -= taken;
        if let Some(low) = &mut low {
            low.read(monotonic(), taken, stream);
        }
    }
    Ok(left == 0)
}

/// Most bytes that an application writes at a time, as in the simulator.
const CHUNK: usize = 1 << 18;
/// Bytes that it reads at a time.
const MOST_READ: usize = 1 << 20;
/// Priority of readers, below the threads that move packets and send datagrams. The simulator's applications read at
/// once, and the kernel acknowledges less often while there is unread data.
pub(crate) const PRIORITY: i32 = 8;
/// How long a call on a socket blocks before a check whether to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// Headers without options.
pub(crate) const IP_AND_TCP: u32 = 40;
