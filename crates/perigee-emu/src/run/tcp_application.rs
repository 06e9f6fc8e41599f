//! Plays the script of a flow's application over the sockets of a connection, with a thread at each end.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, Builder};

use perigee_traffic::{Action, End, Facts};
use perigee_units::Time;
use rustix::net::sockopt::set_tcp_nodelay;

use crate::os::clock::{wake_precisely, RunClock};
use crate::run::sockets::{panicked, take, write, PendingSocket, SocketPair, PRIORITY};
use crate::run::tcp_report::TcpReport;

/// The application of a flow over TCP, before its connection is established.
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
            let receiver = Builder::new().spawn_scoped(scope, || report.end(player.play(End::To, to)))?;
            let sender = report.end(player.play(End::From, from));
            receiver.join().unwrap_or_else(|_| Err(panicked())).and(sender)
        })
    }
}

/// Plays one end, with what both ends of a flow share.
struct Player<'a> {
    report: &'a TcpReport,
    clock: RunClock,
    stop: &'a AtomicBool,
}

impl Player<'_> {
    /// Connects one end, and plays the script there.
    fn play(&self, end: End, side: PendingSocket) -> io::Result<()> {
        let Some(stream) = side.connected(self.report, self.stop)? else { return Ok(()) };
        let is_interactive = self.report.script().is_interactive();
        let kept = match end {
            End::From => &self.report.sender,
            End::To => &self.report.receiver,
        };
        let _ = kept.set(stream.try_clone()?);
        // As in the simulator, arrivals are read at once, and a script that takes turns sends its writes at once.
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
                // Filling has ended at its instant, and the script writes a little at a time: nothing is left to take back.
                Action::Withdraw => true,
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
