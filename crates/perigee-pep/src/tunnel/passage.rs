//! One connection through the tunnel, at one of its two boxes.

use perigee_quic::stack::{Connection, ConnectionHandle, PathId, StreamId};
use perigee_units::Time;

use super::carrier::{Ends, StreamCarrier};
use super::record::{Failure, Head};
use crate::event_loop::{Readiness, Turn};
use crate::host::sys::{unacknowledged, TcpInfo};
use crate::legs::socket::{close_in_order, fatal_error};
use crate::relay::{Carrier as _, Progress, Relay, Side};
use crate::shared::account::{in_words, Account, Legs, Outcome};
use crate::shared::counts::End;
use crate::shared::waits::Look;
use crate::shared::Shared;

/// A connection with its socket at this box and its stream.
#[derive(Debug)]
pub(crate) struct Passage {
    pub(crate) ends: Ends,
    /// The QUIC connection of the stream, until it is lost: its handle may then be reused.
    peer: Option<ConnectionHandle>,
    relay: Relay,
    phase: PassagePhase,
    pub(crate) account: Account,
    /// Whether the other box has acknowledged all bytes of the stream.
    is_delivered: bool,
    /// Bytes acknowledged by the reader at its last progress, and the time of that.
    read: (u64, Time),
    /// Its bytes in the gauge of the service.
    pub(crate) gauged: usize,
    interval: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassagePhase {
    /// The gateway has dialled the server.
    Connecting,
    Open,
    /// Both directions have ended; socket and stream still deliver the last bytes.
    Closing,
    /// The other side has failed; this one learns it after the bytes that came before.
    Failing(Side),
}

impl Passage {
    pub(crate) fn new(ends: Ends, peer: ConnectionHandle, account: Account) -> Self {
        let mut relay = Relay::default();
        relay.on_ready(ends.side.opposite(), true, true);
        // The terminal's client is connected already, and its bytes need not wait for the server.
        let phase = if ends.side == Side::Server { PassagePhase::Connecting } else { PassagePhase::Open };
        Self {
            ends,
            peer: Some(peer),
            relay,
            phase,
            read: (0, account.began),
            account,
            is_delivered: false,
            gauged: 0,
            interval: FIRST_LOOK,
        }
    }

    /// An event of the socket.
    pub(crate) fn on_socket(&mut self, event: Readiness, now: Time) {
        let side = self.ends.side;
        self.relay.on_ready(side, event.is_readable, event.is_writable);
        if event.has_failed
            && self.phase != PassagePhase::Closing
            && let Some((_, error)) = fatal_error([self.ends.socket()])
        {
            self.relay.on_failure(side, &error);
        }
        if self.phase == PassagePhase::Connecting && event.is_writable && self.relay.failure(side).is_none() {
            self.phase = PassagePhase::Open;
            self.account.connect(now);
        }
    }

    /// Handles a stream that is readable or writable.
    pub(crate) fn on_stream(&mut self) {
        self.relay.on_ready(self.ends.side.opposite(), true, true);
    }

    /// Handles a stop by the other box.
    pub(crate) fn on_stopped(&mut self, why: Failure) {
        self.relay.on_failure(self.ends.side.opposite(), &why.kind().into());
    }

    /// Handles the acknowledgement of the whole stream.
    pub(crate) fn on_delivered(&mut self) {
        self.is_delivered = true;
    }

    /// Its QUIC connection and stream.
    pub(crate) fn place(&self) -> Option<(ConnectionHandle, StreamId)> {
        self.peer.map(|peer| (peer, self.ends.stream))
    }

    /// How long the reader at the socket has read less than [`STEP`], if it is so far behind that the other box may fill the stream's
    /// window. Acknowledgements show its progress: the socket becomes writable only once a third of its buffer is free, which takes
    /// seconds with a slow reader.
    pub(crate) fn silence(&mut self, now: Time) -> Option<Time> {
        if !self.ends.is_behind() {
            return None;
        }
        let unacknowledged = unacknowledged(self.ends.socket()).unwrap_or_default() as u64;
        let read = self.relay.passed(self.ends.side.opposite()).saturating_sub(unacknowledged);
        if read >= self.read.0 + STEP {
            self.read = (read, now);
        }
        Some(now - self.read.1)
    }

    /// Handles the loss of the tunnel and thus of the stream.
    pub(crate) fn on_lost(&mut self) {
        self.peer = None;
        self.on_stopped(Failure::TimedOut);
    }

    /// Does all work that is possible now. `Err` if the connection has ended.
    pub(crate) fn advance(
        &mut self,
        tunnel: Option<&mut Connection>,
        budget: usize,
        now: Time,
    ) -> Result<Turn, Outcome> {
        if self.account.is_due(now) {
            self.sample(tunnel.as_deref(), now);
        }
        let mut carrier = StreamCarrier { ends: &mut self.ends, tunnel };
        let side = carrier.ends.side;
        match self.phase {
            PassagePhase::Connecting => {
                let deadline = self.account.began + self.account.rule.connect_timeout;
                if now >= deadline {
                    self.relay.on_failure(side, &std::io::ErrorKind::TimedOut.into());
                }
                carrier.read_ahead();
                let Some(kind) = self.relay.failure(side) else {
                    return Ok(Turn::Wait(Some(deadline)));
                };
                tell(&mut carrier, Failure::of_kind(kind));
                self.phase = PassagePhase::Failing(side.opposite());
            }
            PassagePhase::Open => {
                let progress = self.relay.advance(&mut carrier, budget);
                if progress == Progress::Waiting {
                    carrier.read_ahead();
                }
                match progress {
                    Progress::Complete => {
                        close_in_order(carrier.ends.socket());
                        self.phase = PassagePhase::Closing;
                    }
                    Progress::Reset(to) => {
                        if let Some(kind) = self.relay.failure(side).filter(|_| to != side) {
                            tell(&mut carrier, Failure::of_kind(kind));
                        }
                        self.phase = PassagePhase::Failing(to);
                    }
                    Progress::Lost => {
                        let kind = self.relay.failure(side);
                        carrier.abandon(kind.map_or(Failure::Other, Failure::of_kind));
                        self.account.count(&self.relay, [0; 2], now);
                        return Err(self.failed(side));
                    }
                    Progress::Waiting | Progress::OutOfBudget => {
                        let held = [carrier.held(Side::Client), carrier.held(Side::Server)];
                        self.account.count(&self.relay, held, now);
                        let is_over = progress == Progress::OutOfBudget;
                        return Ok(if is_over { Turn::Again } else { Turn::Wait(self.account.next_look()) });
                    }
                }
                self.account.count(&self.relay, [0; 2], now);
            }
            // A failure shows itself in how the stream ends.
            PassagePhase::Closing | PassagePhase::Failing(_) => drop(carrier.flush()),
        }
        self.settle(now)
    }

    /// Ends the connection, which the log and the accounts then have.
    pub(crate) fn close(&mut self, outcome: &Outcome, tunnel: Option<&Connection>, shared: &Shared, now: Time) {
        self.account.count(&self.relay, [0; 2], now);
        let (info, round_trip_us) = self.sample(tunnel, now);
        let sockets = &[(self.ends.side, info)];
        shared.close(&self.account, outcome, Legs { sockets, tunnel_us: Some(round_trip_us) }, now);
    }

    /// Samples the kernel's state of the socket, and the round trip of the tunnel, which is the other leg.
    fn sample(&mut self, tunnel: Option<&Connection>, now: Time) -> (TcpInfo, u32) {
        let info = TcpInfo::of(self.ends.socket()).unwrap_or_default();
        let round_trip_us = tunnel.and_then(|tunnel| tunnel.rtt(PathId::ZERO)).map_or(0, |rtt| rtt.as_micros() as u32);
        self.account.sample(self.ends.side, info.rtt_us, info.retransmitted);
        self.account.sample(self.ends.side.opposite(), round_trip_us, 0);
        let outgoing = self.ends.outgoing();
        let mut looks = [Look::default(); 2];
        looks[self.ends.side as usize] = info.into();
        looks[self.ends.side.opposite() as usize].unsent = outgoing as u64;
        self.account.look(looks, self.ends.held() - outgoing, now);
        (info, round_trip_us)
    }

    /// Ends the connection once all is delivered; otherwise schedules another check.
    fn settle(&mut self, now: Time) -> Result<Turn, Outcome> {
        let socket = self.ends.socket();
        let is_acknowledged = TcpInfo::of(socket).is_ok_and(|info| info.is_settled);
        let side = self.ends.side;
        let has_failed = self.relay.failure(side.opposite()).is_some();
        match self.phase {
            PassagePhase::Closing if has_failed && !self.is_delivered => return Err(self.failed(side.opposite())),
            PassagePhase::Closing if is_acknowledged && self.is_delivered => {
                return Err(match fatal_error([socket]) {
                    Some((_, error)) => Outcome::failed(side, error.kind()),
                    None => Outcome { end: End::Complete, reason: "complete".to_owned() },
                });
            }
            PassagePhase::Failing(to) if to == side && is_acknowledged => return Err(self.failed(to.opposite())),
            PassagePhase::Failing(to) if to != side && (has_failed || self.is_delivered) => {
                return Err(self.failed(side))
            }
            _ => {}
        }
        let timer = now + self.interval;
        self.interval = (self.interval * 2).min(LAST_LOOK);
        Ok(Turn::Wait(Some(timer)))
    }

    /// Outcome after a failure of a side.
    fn failed(&self, side: Side) -> Outcome {
        let kind = self.relay.failure(side).unwrap_or(std::io::ErrorKind::Other);
        let was_reached = match self.ends.side {
            Side::Server => self.account.is_connected(),
            Side::Client => {
                !matches!(Failure::of_kind(kind), Failure::Refused | Failure::Unreachable | Failure::NotServed)
            }
        };
        if side == Side::Server && !was_reached {
            return Outcome { end: End::Unreached, reason: format!("server {}", in_words(kind)) };
        }
        Outcome::failed(side, kind)
    }
}

/// Reports a failure to the other box, and stops its direction.
fn tell(carrier: &mut StreamCarrier<'_>, why: Failure) {
    if carrier.say_last(Head::Failed(why)).is_err() {
        carrier.abandon(why);
    }
    carrier.stop(why);
}

/// Time to the first check of unacknowledged bytes; it doubles up to [`LAST_LOOK`].
const FIRST_LOOK: Time = Time::from_millis(2);
const LAST_LOOK: Time = Time::from_secs(1);
/// Progress by which a reader that is behind counts as reading, bytes.
const STEP: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use bytes::Bytes;
    use perigee_quic::stack::{Dir, Side as QuicSide};

    use super::*;
    use crate::shared::stats::Stats;
    use crate::tunnel::record::MOST;

    #[test]
    fn a_reader_that_reads_is_not_silent_though_its_socket_asks_for_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        near.set_nonblocking(true).unwrap();
        let record = [&Head::Data(MOST).encode()[..], &[7; MOST]].concat();
        let arrived = Bytes::from(record.repeat((32 << 20) / MOST));
        let stream = StreamId::new(QuicSide::Client, Dir::Bi, 0);
        let stats = Arc::new(Stats::default());
        let ends = Ends::new((near.into(), Side::Client), stream, Vec::new(), arrived, &stats);
        let addresses = ["10.0.0.1:5", "10.0.0.2:80"].map(|address| address.parse().unwrap());
        let account = Account::open(addresses, Arc::default(), Arc::default(), Time::ZERO, None);
        let mut passage = Passage::new(ends, ConnectionHandle(0), account);
        passage.on_socket(Readiness { is_writable: true, ..Readiness::default() }, Time::ZERO);
        while passage.advance(None, 1 << 20, Time::ZERO).unwrap() == Turn::Again {}
        let taken = |passage: &Passage| {
            passage.relay.passed(Side::Server) - u64::from(unacknowledged(passage.ends.socket()).unwrap())
        };
        assert!(passage.silence(Time::from_secs(10)).is_some());
        let before = taken(&passage);
        while taken(&passage) < before + STEP {
            client.read_exact(&mut [0; 4096]).unwrap();
        }
        assert_eq!(passage.silence(Time::from_secs(30)), Some(Time::ZERO));
    }
}
