//! Plays the script of a flow's application over the sockets of a connection, with a thread at each end.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use perigee_results::Outcome;
use perigee_traffic::{Action, End, Facts, Script};
use perigee_units::Time;
use rustix::net::sockopt::set_tcp_nodelay;

use crate::os::clock::{wake_precisely, RunClock};
use crate::os::tcp_info::TcpInfo;
use crate::run::sockets::{panicked, take, write, PendingSocket, SocketPair, PRIORITY};

/// The application of a flow over TCP, with a connection that is not made yet.
pub(crate) struct TcpApplication {
    /// When it begins.
    pub(crate) start: Time,
    pub(crate) sockets: SocketPair,
    pub(crate) report: Arc<TcpReport>,
}

impl TcpApplication {
    /// Plays the script at both ends, until it is complete or stopped.
    pub(crate) fn carry(self, clock: RunClock, stop: &AtomicBool) -> io::Result<()> {
        if !clock.sleep_until(self.start, stop) {
            return Ok(());
        }
        let SocketPair { from, to } = self.sockets;
        let (report, player) = (&*self.report, Player { report: &self.report, clock, stop });
        thread::scope(|scope| {
            let receiver = scope.spawn(|| report.end(player.play(End::To, to)));
            let sender = report.end(player.play(End::From, from));
            receiver.join().unwrap_or_else(|_| Err(panicked())).and(sender)
        })
    }
}

/// The state of a connection's application that its observer shares.
pub(crate) struct TcpReport {
    /// Both ends play it, and it takes the observer's observations.
    pub(crate) script: Mutex<Script>,
    /// The socket at `from`, once it is connected; open until the run ends.
    pub(crate) sender: OnceLock<TcpStream>,
    /// The socket at `to`, likewise.
    pub(crate) receiver: OnceLock<TcpStream>,
    /// How the connection failed, once it has.
    pub(crate) failure: OnceLock<Failure>,
}

/// How a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    /// Timeouts of its SYN, where it was never established.
    pub(crate) syn_timeouts: Option<u32>,
}

impl TcpReport {
    pub(crate) fn new(script: Script) -> Self {
        let (sender, receiver, failure) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { script: Mutex::new(script), sender, receiver, failure }
    }

    /// The script, for a moment.
    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the failure of the connection as the outcome of its flow. Any other error is this machine's, and stays
    /// one.
    pub(crate) fn end(&self, done: io::Result<()>) -> io::Result<()> {
        let Err(error) = done else { return Ok(()) };
        let outcome = outcome_of(&error).ok_or(error)?;
        let _ = self.failure.set(Failure { outcome, syn_timeouts: None });
        Ok(())
    }

    /// Keeps why the socket at the opener could not connect.
    pub(crate) fn cannot_connect(&self, socket: &OwnedFd, error: io::Error) -> io::Error {
        if let Some(outcome) = outcome_of(&error) {
            let syn_timeouts = TcpInfo::of(socket).ok().map(|info| info.rto_count);
            let _ = self.failure.set(Failure { outcome, syn_timeouts });
        }
        error
    }
}

/// Plays one end; both ends of a flow have the same.
struct Player<'a> {
    report: &'a TcpReport,
    clock: RunClock,
    stop: &'a AtomicBool,
}

impl Player<'_> {
    /// The application at one end: connects, and does what the script says.
    fn play(&self, end: End, side: PendingSocket) -> io::Result<()> {
        let Some(stream) = side.connected(self.report, self.stop)? else { return Ok(()) };
        let is_interactive = self.report.script().is_interactive();
        let kept = match end {
            End::From => &self.report.sender,
            End::To => &self.report.receiver,
        };
        let _ = kept.set(stream.try_clone()?);
        // As in the simulator: what comes is read at once, and a script that takes turns sends at once what it writes.
        if end == End::To || is_interactive {
            wake_precisely(PRIORITY);
        }
        set_tcp_nodelay(&stream, is_interactive)?;
        let done = self.act(end, &stream);
        let _ = stream.shutdown(Shutdown::Write);
        done
    }

    fn act(&self, end: End, stream: &TcpStream) -> io::Result<()> {
        let mut facts = Facts::default();
        loop {
            facts.now = self.clock.now();
            let action = self.report.script().next(end, facts);
            let goes_on = match action {
                Action::Write(bytes) => write(stream, bytes, Time::MAX, self.stop)?,
                Action::Fill { until } => {
                    write(stream, u64::MAX, self.clock.origin + until, self.stop)?;
                    true
                }
                Action::HalfClose => {
                    let _ = stream.shutdown(Shutdown::Write);
                    true
                }
                Action::Stop => {
                    for socket in [self.report.sender.get(), self.report.receiver.get()].into_iter().flatten() {
                        let _ = socket.shutdown(Shutdown::Both);
                    }
                    true
                }
                Action::Await(total) => {
                    let missing = total - facts.received;
                    facts.received = total;
                    take(stream, missing, self.stop)?
                }
                Action::AwaitClose => {
                    take(stream, u64::MAX, self.stop)?;
                    facts.closed = true;
                    !self.stop.load(Ordering::Relaxed)
                }
                Action::Wait(instant) => self.clock.sleep_until(instant, self.stop),
                Action::Done => false,
            };
            if !goes_on {
                return Ok(());
            }
        }
    }
}

/// The outcome of a flow with this error of a socket; `None`: the connection has not failed.
fn outcome_of(error: &io::Error) -> Option<Outcome> {
    match error.kind() {
        io::ErrorKind::TimedOut => Some(Outcome::TimedOut),
        io::ErrorKind::ConnectionRefused => Some(Outcome::Refused),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Some(Outcome::Reset),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Outcome::Unreachable),
        _ => None,
    }
}
