//! The applications of a study's flows, over the kernel's sockets.

use std::io::{self, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use perigee_units::Time;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion, socket_error};
use rustix::net::{bind, connect, listen, recv, socket_with, AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::clock::{monotonic, sleep};
use crate::hosts::address;
use crate::low_water::LowWater;
use crate::namespace::Namespace;

/// A bulk transfer to be carried.
pub(crate) struct Bulk {
    /// When it begins, on the machine's clock.
    pub(crate) start: Time,
    /// Bytes to send; `None`: until the end.
    pub(crate) bytes: Option<u64>,
    /// When the sender stops, on the machine's clock.
    pub(crate) end: Time,
    /// The node that has the data is the one that opens the connection.
    pub(crate) sender_opens: bool,
    pub(crate) ends: Ends,
}

/// Sockets of a connection that is not made yet: the opener's, and one that listens in the other node's namespace.
pub(crate) struct Ends {
    listener: TcpListener,
    opener: OwnedFd,
    to: SocketAddr,
}

impl Ends {
    /// Sockets with a congestion control; where `paced`, TCP paces them by itself.
    pub(crate) fn new(
        opener: &Namespace,
        (node, other): (u32, &Namespace),
        port: u16,
        cc: &str,
        paced: bool,
    ) -> io::Result<Self> {
        let to = SocketAddr::new(IpAddr::V4(address(node)), port);
        let listener = other.enter(|| {
            let socket = tcp_socket(cc, paced)?;
            bind(&socket, &to)?;
            listen(&socket, 1)?;
            Ok(socket)
        })?;
        let opener = opener.enter(|| tcp_socket(cc, paced))?;
        Ok(Self { listener: TcpListener::from(listener), opener, to })
    }

    /// Makes the connection; the opener's stream and the other's. `None`: told to stop before.
    fn connect(self, stop: &AtomicBool) -> io::Result<Option<(TcpStream, TcpStream)>> {
        match connect(&self.opener, &self.to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let opener = TcpStream::from(self.opener);
        if !ready(&opener, PollFlags::OUT, stop)? {
            return Ok(None);
        }
        socket_error(&opener)??;
        if !ready(&self.listener, PollFlags::IN, stop)? {
            return Ok(None);
        }
        let (other, _) = self.listener.accept()?;
        for stream in [&opener, &other] {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(LOOK))?;
            stream.set_write_timeout(Some(LOOK))?;
        }
        Ok(Some((opener, other)))
    }
}

impl Bulk {
    /// Carries the transfer; `sender` gets the sender's socket, to be looked at.
    pub(crate) fn carry(self, sender: &OnceLock<TcpStream>, stop: &AtomicBool) -> io::Result<()> {
        while let Some(left) = self.start.checked_sub(monotonic()).filter(|left| *left > Time::ZERO) {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            sleep(left.min(Time::from_millis(100)));
        }
        let Some((opener, other)) = self.ends.connect(stop)? else { return Ok(()) };
        let (from, to) = if self.sender_opens { (opener, other) } else { (other, opener) };
        let _ = sender.set(from.try_clone()?);
        thread::scope(|scope| {
            let reading = scope.spawn(|| discard(&to, stop));
            let written = write(&from, self.bytes.unwrap_or(u64::MAX), self.end, stop);
            if self.bytes.is_none() {
                // What is not sent yet shall not be.
                let _ = set_socket_linger(&from, Some(Duration::ZERO));
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
            } else {
                let _ = from.shutdown(Shutdown::Write);
            }
            reading.join().unwrap_or_else(|_| Err(panicked())).and(written)
        })
    }
}

/// A thread of a flow has ended in a way that is a fault of this program.
pub(crate) fn panicked() -> io::Error {
    io::Error::other("its thread panicked")
}

/// A socket of the calling thread's namespace, which does not block.
fn tcp_socket(cc: &str, paced: bool) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    set_tcp_congestion(&socket, cc).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("congestion control `{cc}`: {error}"))
    })?;
    if paced {
        crate::tcp_info::pace(&socket)?;
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

/// Writes so many bytes, until an instant, or until told to stop.
fn write(mut stream: &TcpStream, mut left: u64, end: Time, stop: &AtomicBool) -> io::Result<()> {
    let chunk = vec![0; CHUNK];
    while left > 0 && !stop.load(Ordering::Relaxed) && monotonic() < end {
        match stream.write(&chunk[..chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX))]) {
            Ok(written) => left -= written as u64,
            Err(error) if is_timeout(&error) => {}
            // The other end has had enough.
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads all that comes, as an application does that looks at none of it.
fn discard(stream: &TcpStream, stop: &AtomicBool) -> io::Result<()> {
    // The kernel counts it off and copies nothing (tcp(7), MSG_TRUNC).
    let mut nothing = vec![0; MOST_READ];
    let mut low = LowWater::new(monotonic());
    while !stop.load(Ordering::Relaxed) {
        match recv(stream.as_fd(), &mut nothing[..], RecvFlags::TRUNC) {
            // The end, or as good as that.
            Ok((_, 0)) | Err(Errno::CONNRESET) => break,
            Ok((_, read)) => low.read(monotonic(), read as u64, stream),
            Err(Errno::AGAIN | Errno::INTR) => low.read(monotonic(), 0, stream),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// What an application hands to the kernel at a time.
const CHUNK: usize = 1 << 18;
/// What it takes at a time.
const MOST_READ: usize = 1 << 20;
/// How long a socket waits before it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(100);
