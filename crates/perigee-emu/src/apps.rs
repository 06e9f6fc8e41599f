//! The applications of a study's flows, over the kernel's sockets: what they share, and bulk transfers.

use std::io::{self, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use perigee_study::results::Outcome;
use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion, socket_error};
use rustix::net::{bind, connect, listen, recv, socket_with, AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::clock::{monotonic, sleep_until, wake_precisely};
use crate::datagrams::Datagrams;
use crate::low_water::LowWater;
use crate::namespace::Namespace;
use crate::requests::Requests;
use crate::tcp_info::{limit_segments, pace, TcpInfo};

/// A flow that is about to be carried.
pub(crate) enum Application {
    Bulk(Bulk),
    Requests(Requests),
    Datagrams(Datagrams),
}

/// What a flow's application tells those who look on.
#[derive(Default)]
pub(crate) struct Told {
    /// The socket at `from`, once it is connected. It is open until the run ends, as is that at `to`.
    pub(crate) socket: OnceLock<TcpStream>,
    pub(crate) far: OnceLock<TcpStream>,
    /// How the connection failed, once it has.
    pub(crate) failure: OnceLock<Failure>,
    /// Of datagrams: how many are sent, once the last one is.
    pub(crate) sent: OnceLock<u32>,
    /// Where they arrive; open until all of them have, lest they are answered.
    pub(crate) sink: OnceLock<OwnedFd>,
}

/// How a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    /// Timeouts of its SYN, where it was never established.
    pub(crate) syn_timeouts: Option<u32>,
}

impl Told {
    /// Keeps the failure of a connection as the outcome of its flow. Any other error stays one: it is of this machine.
    pub(crate) fn end(&self, done: io::Result<()>) -> io::Result<()> {
        let Err(error) = done else { return Ok(()) };
        let outcome = outcome_of(&error).ok_or(error)?;
        let _ = self.failure.set(Failure { outcome, syn_timeouts: None });
        Ok(())
    }

    /// Keeps why the socket at the opener could not connect.
    fn cannot_connect(&self, socket: &OwnedFd, error: io::Error) -> io::Error {
        if let Some(outcome) = outcome_of(&error) {
            let syn_timeouts = TcpInfo::of(socket).ok().map(|info| info.rto_count);
            let _ = self.failure.set(Failure { outcome, syn_timeouts });
        }
        error
    }
}

/// The outcome of a flow of which a socket says this; `None`: it is not the connection that failed.
fn outcome_of(error: &io::Error) -> Option<Outcome> {
    match error.kind() {
        io::ErrorKind::TimedOut => Some(Outcome::TimedOut),
        io::ErrorKind::ConnectionRefused => Some(Outcome::Refused),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Some(Outcome::Reset),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Outcome::Unreachable),
        _ => None,
    }
}

impl Application {
    /// The run's time, in which it was made, begins at this instant of the machine's clock.
    pub(crate) fn begin_at(&mut self, origin: Time) {
        match self {
            Self::Bulk(bulk) => {
                bulk.start += origin;
                if let Amount::Until(end) = &mut bulk.amount {
                    *end += origin;
                }
            }
            Self::Requests(requests) => requests.start += origin,
            Self::Datagrams(datagrams) => datagrams.start += origin,
        }
    }

    /// Carries the flow, until it is done or told to stop.
    pub(crate) fn carry(self, told: &Told, stop: &AtomicBool) -> io::Result<()> {
        match self {
            Self::Bulk(bulk) => bulk.carry(told, stop),
            Self::Requests(requests) => requests.carry(told, stop),
            Self::Datagrams(datagrams) => datagrams.carry(told, stop),
        }
    }
}

/// A bulk transfer to be carried.
pub(crate) struct Bulk {
    /// When it begins.
    pub(crate) start: Time,
    pub(crate) amount: Amount,
    pub(crate) ends: Ends,
}

/// How much a bulk transfer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    Bytes(u64),
    /// As much as there is room for, until this instant.
    Until(Time),
}

/// Sockets of a connection that is not made yet.
pub(crate) struct Ends {
    /// At the node that has the data.
    pub(crate) from: Side,
    /// At the node that gets them.
    pub(crate) to: Side,
}

/// One of them.
pub(crate) enum Side {
    /// Connects to this address.
    Opens(OwnedFd, SocketAddr),
    /// Waits for that, in the other node's namespace.
    Listens(TcpListener),
}

/// What a connection's sockets are asked to be.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The congestion control.
    pub(crate) cc: &'a str,
    /// TCP paces them by itself.
    pub(crate) paced: bool,
    /// The largest segment, where the devices' packets would hold larger ones.
    pub(crate) mss: Option<u16>,
}

impl Ends {
    /// Sockets at two nodes; one listens at an address of its node, the other will connect to it.
    pub(crate) fn new(
        opener: &Namespace,
        (address, other): (IpAddr, &Namespace),
        port: u16,
        sender_opens: bool,
        wanted: Wanted<'_>,
    ) -> io::Result<Self> {
        let there = SocketAddr::new(address, port);
        let listener = other.enter(|| {
            let socket = tcp_socket(address, wanted)?;
            bind(&socket, &there)?;
            listen(&socket, 1)?;
            Ok(socket)
        })?;
        let opener = opener.enter(|| tcp_socket(address, wanted))?;
        let (opens, listens) = (Side::Opens(opener, there), Side::Listens(listener.into()));
        let (from, to) = if sender_opens { (opens, listens) } else { (listens, opens) };
        Ok(Self { from, to })
    }
}

impl Side {
    /// Waits until the connection stands at this side. `None`: told to stop before.
    pub(crate) fn connected(self, told: &Told, stop: &AtomicBool) -> io::Result<Option<TcpStream>> {
        let stream = match self {
            Self::Opens(socket, to) => {
                match connect(&socket, &to) {
                    Ok(()) | Err(Errno::INPROGRESS) => {}
                    Err(error) => return Err(told.cannot_connect(&socket, error.into())),
                }
                if !ready(&socket, PollFlags::OUT, stop)? {
                    return Ok(None);
                }
                socket_error(&socket)?.map_err(|error| told.cannot_connect(&socket, error.into()))?;
                TcpStream::from(socket)
            }
            Self::Listens(listener) => {
                if !ready(&listener, PollFlags::IN, stop)? {
                    return Ok(None);
                }
                listener.accept()?.0
            }
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(LOOK))?;
        Ok(Some(stream))
    }
}

impl Bulk {
    /// Carries the transfer.
    fn carry(self, told: &Told, stop: &AtomicBool) -> io::Result<()> {
        if !sleep_until(self.start, stop) {
            return Ok(());
        }
        let Ends { from, to } = self.ends;
        thread::scope(|scope| {
            let reading = scope.spawn(|| told.end(read(to, told, stop)));
            let written = told.end(self.amount.write(from, told, stop));
            reading.join().unwrap_or_else(|_| Err(panicked())).and(written)
        })
    }
}

/// The application at `to`.
fn read(to: Side, told: &Told, stop: &AtomicBool) -> io::Result<()> {
    let Some(to) = to.connected(told, stop)? else { return Ok(()) };
    let _ = told.far.set(to.try_clone()?);
    wake_precisely(PRIORITY);
    let taken = take(&to, u64::MAX, stop);
    let _ = to.shutdown(Shutdown::Write);
    taken.map(drop)
}

impl Amount {
    /// The application at `from`.
    fn write(self, from: Side, told: &Told, stop: &AtomicBool) -> io::Result<()> {
        let Some(from) = from.connected(told, stop)? else { return Ok(()) };
        let _ = told.socket.set(from.try_clone()?);
        match self {
            Self::Bytes(bytes) => {
                write(&from, bytes, Time::MAX, stop)?;
                let _ = from.shutdown(Shutdown::Write);
                // Until the other end has read all, and closes; or the kernel gives up.
                take(&from, 1, stop).map(drop)
            }
            Self::Until(end) => {
                let written = write(&from, u64::MAX, end, stop);
                let _ = from.shutdown(Shutdown::Both);
                let _ = told.far.get().map(|to| to.shutdown(Shutdown::Both));
                written.map(drop)
            }
        }
    }
}

/// A thread of a flow has ended in a way that is a fault of this program.
pub(crate) fn panicked() -> io::Error {
    io::Error::other("its thread panicked")
}

/// The protocols that go with an address.
pub(crate) fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    }
}

/// A socket of the calling thread's namespace, which does not block.
fn tcp_socket(address: IpAddr, wanted: Wanted<'_>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family(address), SocketType::STREAM, flags, None)?;
    set_tcp_congestion(&socket, wanted.cc).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("congestion control `{}`: {error}", wanted.cc))
    })?;
    // Closed, whoever closes it, it is gone at once: the kernel would else keep it, its namespace and its congestion
    // control for as long as it tries to send what is left.
    set_socket_linger(&socket, Some(Duration::ZERO))?;
    if wanted.paced {
        pace(&socket)?;
    }
    if let Some(mss) = wanted.mss {
        limit_segments(&socket, mss)?;
    }
    Ok(socket)
}

/// Waits until something can be done with a socket; false: told to stop.
fn ready(socket: &impl std::os::fd::AsFd, what: PollFlags, stop: &AtomicBool) -> io::Result<bool> {
    let tenth = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !stop.load(Ordering::Relaxed) {
        match poll(&mut [PollFd::new(socket, what)], Some(&tenth)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Writes so many bytes, until an instant, or until told to stop; whether all of it was written.
pub(crate) fn write(mut stream: &TcpStream, mut left: u64, end: Time, stop: &AtomicBool) -> io::Result<bool> {
    let chunk = vec![0; CHUNK.min(usize::try_from(left).unwrap_or(CHUNK))];
    while left > 0 && !stop.load(Ordering::Relaxed) && monotonic() < end {
        match stream.write(&chunk[..chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX))]) {
            Ok(written) => left -= written as u64,
            Err(error) if is_look(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(left == 0)
}

/// Reads so many bytes, as an application does that looks at none of them; false where they end before, or told to stop.
pub(crate) fn take(stream: &TcpStream, mut left: u64, stop: &AtomicBool) -> io::Result<bool> {
    // The kernel counts it off and copies nothing (tcp(7), MSG_TRUNC).
    let mut nothing = vec![0; MOST_READ.min(usize::try_from(left).unwrap_or(MOST_READ))];
    // Who waits for some bytes and no more is woken for each of them.
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

/// Whether it is only time to look whether to stop: nothing was written for [`LOOK`].
fn is_look(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What an application hands to the kernel at a time.
const CHUNK: usize = 1 << 18;
/// What it takes at a time.
const MOST_READ: usize = 1 << 20;
/// Of those who read, below the threads that move packets and send datagrams. The simulator's applications read at once;
/// the kernel acknowledges less often while there is unread data.
pub(crate) const PRIORITY: i32 = 8;
/// How long a socket waits before it is looked whether to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
