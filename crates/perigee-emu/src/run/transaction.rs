//! Plays the script of one connection of a population over its two non-blocking sockets.

use std::io;
use std::os::fd::OwnedFd;

use perigee_traffic::{Action, End, Facts, Script};
use perigee_units::Time;
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{recv, send, shutdown, RecvFlags, SendFlags, Shutdown};

use crate::os::tcp_info::TcpInfo;

/// An open connection.
pub(crate) struct TransactionSockets {
    /// Its number in the population.
    pub(crate) number: u32,
    script: Script,
    ends: [Option<Host>; 2],
}

/// One end.
struct Host {
    socket: OwnedFd,
    is_connected: bool,
    facts: Facts,
    /// Bytes still to be written before anything else is done.
    left: u64,
    /// The shutdown after they are written.
    shut: Option<Shutdown>,
    is_done: bool,
}

/// State of an end after an advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits for its socket.
    Socket,
    /// It waits for this instant.
    Until(Time),
}

impl TransactionSockets {
    /// A connection that the user's socket will open.
    pub(crate) fn new(number: u32, script: Script, user: OwnedFd) -> Self {
        Self { number, script, ends: [None, Some(Host::new(user, false))] }
    }

    /// The server's socket; `None` before the server has accepted.
    pub(crate) fn server(&self) -> Option<&OwnedFd> {
        self.ends[End::From as usize].as_ref().map(|host| &host.socket)
    }

    /// Adds the server's socket.
    pub(crate) fn accepted(&mut self, socket: OwnedFd) {
        self.ends[End::From as usize] = Some(Host::new(socket, true));
    }

    /// Advances an end as far as possible now.
    ///
    /// # Errors
    /// If its connection has failed.
    pub(crate) fn attend(&mut self, end: End, now: Time, buffer: &mut [u8]) -> io::Result<Step> {
        let Some(host) = &mut self.ends[end as usize] else { return Ok(Step::Socket) };
        if !host.is_connected {
            socket_error(&host.socket)??;
            host.is_connected = true;
        }
        host.read(buffer)?;
        host.facts.now = now;
        loop {
            if !host.write(buffer)? {
                return Ok(Step::Socket);
            }
            // Writes of one instant leave together, in full segments, as in the simulator.
            let action = loop {
                match self.script.next(end, host.facts) {
                    Action::Write(bytes) => host.left += bytes,
                    action => break action,
                }
            };
            match action {
                Action::HalfClose => host.shut = Some(Shutdown::Write),
                Action::Stop => host.shut = Some(Shutdown::Both),
                Action::Done => host.is_done = true,
                // Filling and withdrawing are for transfers that end at an instant, which no connection of a population does.
                Action::Wait(_)
                | Action::Write(_)
                | Action::Fill { .. }
                | Action::Withdraw
                | Action::Await(_)
                | Action::AwaitClose => {}
            }
            let is_written = host.write(buffer)?;
            match action {
                Action::Wait(instant) => return Ok(Step::Until(instant)),
                Action::HalfClose | Action::Stop if is_written => {}
                _ => return Ok(Step::Socket),
            }
        }
    }

    /// Whether both ends and the kernel have closed it.
    pub(crate) fn is_closed(&self) -> bool {
        let closed = |end: &Option<Host>| end.as_ref().is_some_and(|host| host.is_done && host.is_closed());
        self.ends.iter().all(closed)
    }

    /// Timeouts of the server.
    pub(crate) fn timeouts(&self) -> u32 {
        self.server().and_then(|socket| TcpInfo::of(socket).ok()).map_or(0, |info| info.rto_count)
    }
}

impl Host {
    fn new(socket: OwnedFd, is_connected: bool) -> Self {
        Self { socket, is_connected, facts: Facts::default(), left: 0, shut: None, is_done: false }
    }

    /// Reads and discards all arrived bytes.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        while !self.facts.closed {
            // The kernel discards the bytes and copies nothing (tcp(7), MSG_TRUNC).
            match recv(&self.socket, &mut *buffer, RecvFlags::TRUNC) {
                Ok((_, 0)) => self.facts.closed = true,
                Ok((_, size)) => self.facts.received += size as u64,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes the remaining bytes, and then shuts down if asked; returns whether all are written.
    fn write(&mut self, buffer: &[u8]) -> io::Result<bool> {
        while self.left > 0 {
            let size = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            match send(&self.socket, &buffer[..size], SendFlags::NOSIGNAL) {
                Ok(written) => self.left -= written as u64,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(how) = self.shut.take() {
            // The other end may have gone.
            let _ = shutdown(&self.socket, how);
        }
        Ok(true)
    }

    fn is_closed(&self) -> bool {
        TcpInfo::of(&self.socket).is_ok_and(|info| info.is_closed())
    }
}
