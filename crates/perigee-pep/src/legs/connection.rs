//! One connection through the proxy.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use perigee_units::Time;

use super::carrier::{Memory, SocketCarrier, Sockets};
use super::socket::{close_in_order, fatal_error};
use crate::event_loop::{Readiness, Turn};
use crate::host::sys::{unacknowledged, TcpInfo};
use crate::relay::{Carrier as _, Progress, Relay, Side};
use crate::shared::account::{in_words, Account, Legs, Outcome};
use crate::shared::counts::End;
use crate::shared::tap::Tap;
use crate::shared::Shared;

/// Both legs of a connection and the relay between them. Until both streams have ended, closing a socket resets its leg: neither
/// an error nor the end of this process looks like the end of a stream.
#[derive(Debug)]
pub(crate) struct SplitConnection {
    pub(crate) sockets: Sockets,
    pub(crate) relay: Relay,
    pub(crate) phase: Phase,
    pub(crate) account: Account,
    /// The view of the thread that divides the link, if it crosses one.
    pub(crate) tap: Option<Arc<Tap>>,
    /// Time to the next check of unacknowledged bytes.
    interval_ms: u16,
    /// Whether closing the sockets no longer resets their connections.
    is_in_order: bool,
    /// Both legs as they were when it ended.
    last: Option<Box<[TcpInfo; 2]>>,
}

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The server was dialled.
    Connecting,
    /// Bytes pass.
    Open,
    /// Both streams have ended; the kernel still delivers the last bytes. The sockets stay open: the kernel gives closed ones
    /// up early when their reader is slow.
    Closing,
    /// The other side has failed; this one is reset once it has acknowledged all data.
    Resetting(Side),
}

impl SplitConnection {
    pub(crate) fn new([client, server]: [OwnedFd; 2], account: Account) -> Self {
        Self {
            sockets: Sockets::new(client, server),
            relay: Relay::default(),
            phase: Phase::Connecting,
            account,
            tap: None,
            interval_ms: FIRST_LOOK_MS,
            is_in_order: false,
            last: None,
        }
    }

    /// A connection whose server answered, at `connected`, before the client's handshake.
    pub(crate) fn answered(sockets: [OwnedFd; 2], account: Account, connected: Time) -> Self {
        let mut connection = Self { phase: Phase::Open, ..Self::new(sockets, account) };
        connection.account.connect(connected);
        connection
    }

    /// Handles an event of a socket. `Err` if the connection has ended.
    pub(crate) fn on_event(&mut self, side: Side, event: Readiness, now: Time) -> Result<(), Outcome> {
        self.relay.on_ready(side, event.is_readable, event.is_writable);
        if event.has_failed
            && self.phase != Phase::Closing
            && let Some((_, error)) = fatal_error([self.sockets.of(side)])
        {
            self.relay.on_failure(side, &error);
        }
        if self.phase != Phase::Connecting {
            return Ok(());
        }
        if let Some(kind) = self.relay.failure(side) {
            return Err(match side {
                Side::Client => Outcome::failed(Side::Client, kind),
                Side::Server => Outcome { end: End::Unreached, reason: format!("server {}", in_words(kind)) },
            });
        }
        if side == Side::Server && event.is_writable {
            self.phase = Phase::Open;
            self.account.connect(now);
        }
        Ok(())
    }

    /// Does all work that is possible now. `Err` if the connection has ended.
    pub(crate) fn advance(&mut self, memory: &mut Memory, budget: usize, now: Time) -> Result<Turn, Outcome> {
        match self.phase {
            Phase::Connecting => self.await_server(now),
            Phase::Open => {
                if let Some(tap) = &self.tap {
                    self.sockets.write_at_a_time(tap.crossing.leg, tap.piece());
                }
                let mut carrier = SocketCarrier { sockets: &mut self.sockets, memory };
                let progress = self.relay.advance(&mut carrier, budget);
                let held = [carrier.held(Side::Client), carrier.held(Side::Server)];
                self.account.count(&self.relay, held, now);
                if let Some(tap) = &self.tap {
                    tap.touch();
                }
                if self.account.is_due(now) {
                    self.sample(held[0] + held[1], now);
                }
                match progress {
                    Progress::Complete => self.phase = Phase::Closing,
                    Progress::Reset(side) => self.phase = Phase::Resetting(side),
                    Progress::Lost => {
                        let side =
                            [Side::Client, Side::Server].into_iter().find(|side| self.relay.failure(*side).is_some());
                        return Err(self.failed(side.unwrap_or(Side::Client)));
                    }
                    Progress::OutOfBudget => return Ok(Turn::Again),
                    Progress::Waiting => return Ok(Turn::Wait(self.account.next_look())),
                }
                self.settle(now)
            }
            Phase::Closing | Phase::Resetting(_) => self.settle(now),
        }
    }

    /// If only the server's acknowledgement of the end of the stream is missing: how long that may take.
    pub(crate) fn awaits_last_acknowledgement(&self) -> Option<Time> {
        let info = TcpInfo::of(self.sockets.of(Side::Server)).ok()?;
        let is_last = self.phase == Phase::Closing && info.is_last_acknowledgement;
        let is_all = unacknowledged(self.sockets.of(Side::Server)).is_ok_and(|bytes| bytes <= 1);
        (is_last && is_all).then(|| LAST_ACKNOWLEDGEMENT.max(Time::from_micros(u64::from(info.rtt_us)) * 3))
    }

    /// Ends the connection, which the log and the accounts then have.
    pub(crate) fn close(&mut self, outcome: &Outcome, shared: &Shared, now: Time) {
        self.account.count(&self.relay, [0; 2], now);
        let [client, server] = self.sample(0, now);
        let sockets = &[(Side::Client, client), (Side::Server, server)];
        shared.close(&self.account, outcome, Legs { sockets, tunnel_us: None }, now);
    }

    /// Samples the kernel's state of both legs, while `held` bytes are between them.
    fn sample(&mut self, held: usize, now: Time) -> [TcpInfo; 2] {
        let legs = self.last.take().map_or_else(|| self.legs(), |legs| *legs);
        for (side, info) in [Side::Client, Side::Server].into_iter().zip(&legs) {
            self.account.sample(side, info.rtt_us, info.retransmitted);
        }
        self.account.look(legs.map(Into::into), held, now);
        legs
    }

    /// The kernel's state of both legs.
    fn legs(&self) -> [TcpInfo; 2] {
        [Side::Client, Side::Server].map(|side| TcpInfo::of(self.sockets.of(side)).unwrap_or_default())
    }

    fn await_server(&self, now: Time) -> Result<Turn, Outcome> {
        let deadline = self.account.began + self.account.rule.connect_timeout;
        if now < deadline {
            return Ok(Turn::Wait(Some(deadline)));
        }
        let reason = format!("server did not answer within {}", self.account.rule.connect_timeout);
        Err(Outcome { end: End::Unreached, reason })
    }

    /// Ends the connection once nothing is unacknowledged; otherwise schedules another check.
    fn settle(&mut self, now: Time) -> Result<Turn, Outcome> {
        let legs = self.legs();
        self.account.look(legs.map(Into::into), 0, now);
        if self.phase == Phase::Closing && !self.is_in_order {
            for (side, _) in [Side::Client, Side::Server].into_iter().zip(legs).filter(|(_, info)| !info.is_closed) {
                close_in_order(self.sockets.of(side));
            }
            self.is_in_order = true;
        }
        match self.phase {
            Phase::Closing if legs.iter().all(|info| info.is_settled) => {
                self.last = Some(Box::new(legs));
                let sides = [Side::Client, Side::Server];
                if let Some((at, error)) = fatal_error(sides.map(|side| self.sockets.of(side))) {
                    return Err(Outcome::failed(sides[at], error.kind()));
                }
                Err(Outcome { end: End::Complete, reason: "complete".to_owned() })
            }
            Phase::Resetting(side) if legs[side as usize].is_settled => {
                self.last = Some(Box::new(legs));
                Err(self.failed(side.opposite()))
            }
            _ => {
                let timer = now + Time::from_millis(self.interval_ms.into());
                self.interval_ms = (self.interval_ms * 2).min(LAST_LOOK_MS);
                Ok(Turn::Wait(Some(timer)))
            }
        }
    }

    fn failed(&self, side: Side) -> Outcome {
        Outcome::failed(side, self.relay.failure(side).unwrap_or(io::ErrorKind::Other))
    }
}

/// Time to the first check of unacknowledged bytes; it doubles up to [`LAST_LOOK_MS`].
const FIRST_LOOK_MS: u16 = 2;
const LAST_LOOK_MS: u16 = 1000;
/// Minimum time for the end of a stream to be acknowledged: its first timeout and a round trip, if that is unknown.
const LAST_ACKNOWLEDGEMENT: Time = Time::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_takes_less_than_half_a_kilobyte() {
        // Beside it: the table's own words, the counted pair of descriptors, and its client among the counts.
        assert!(size_of::<SplitConnection>() <= 416, "{} bytes", size_of::<SplitConnection>());
    }
}
