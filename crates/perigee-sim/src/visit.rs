//! The visit of a user of a population: a session while it is open, its transaction, and what of it needs a look.

use perigee_tcp::{Endpoint, Flags};
use perigee_traffic::{End, OpenTransaction, SenderTotals};
use perigee_units::Time;

use crate::connection::Connection;
use crate::leg_meters::PopulationMeter;
use crate::packet::NetPacket;
use crate::session::Session;
use crate::world::{LegEnd, World};

/// An open session.
pub(crate) struct Visit {
    pub(crate) session: Session,
    pub(crate) transaction: OpenTransaction,
    /// Whether the applications look at each segment: while the connection opens or closes.
    attentive: bool,
    /// The view of each end's application.
    seen: [Seen; 2],
    /// Whether each end may have something to send, or another deadline.
    needs_service: [bool; 2],
    /// Whether each end is closed.
    is_closed: [bool; 2],
    /// The server's totals by now, as far as the population has counted them.
    counted: SenderTotals,
}

/// An application's view of its end of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Seen {
    is_established: bool,
    has_peer_closed: bool,
    received: u64,
}

impl Seen {
    #[inline]
    fn of(host: &Endpoint) -> Self {
        Self { is_established: host.is_established(), has_peer_closed: host.peer_closed(), received: host.received() }
    }
}

impl Visit {
    /// A visit whose session has been opened.
    pub(crate) fn new(session: Session, transaction: OpenTransaction) -> Self {
        Self {
            session,
            transaction,
            attentive: true,
            seen: [Seen::default(); 2],
            needs_service: [true; 2],
            is_closed: [false; 2],
            counted: SenderTotals::default(),
        }
    }

    /// Whether an end may have something to send, or another deadline, since [`Visit::rest`].
    #[inline]
    pub(crate) fn needs_service(&self, end: End) -> bool {
        self.needs_service[end as usize]
    }

    /// All is sent, and the events of all deadlines are set.
    #[inline]
    pub(crate) fn rest(&mut self) {
        self.needs_service = [false; 2];
    }

    /// Processes a packet at an end of a leg. Returns true if the end is one of the session's.
    #[inline]
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        at: LegEnd,
        packet: &NetPacket,
        meter: &mut PopulationMeter<'_>,
        world: &mut World,
    ) -> bool {
        let is_own = self.session.on_packet(now, at, packet, meter, world);
        if is_own {
            self.needs_service[at.end as usize] = true;
            self.attentive |= packet.stored.header.flags.0 & (Flags::RST | Flags::FIN) != 0;
        }
        is_own
    }

    /// Runs the timer of an end of a leg, which may be early. Returns true if the end is one of the session's and something was due.
    pub(crate) fn on_timer(
        &mut self,
        now: Time,
        at: LegEnd,
        meter: &mut PopulationMeter<'_>,
        world: &mut World,
    ) -> bool {
        let is_own = self.session.on_timer(now, at, meter, world);
        self.needs_service[at.end as usize] |= is_own;
        is_own
    }

    /// Whether the applications have something to do, now that an end has processed a segment or a timer.
    #[inline]
    pub(crate) fn is_due(&mut self, now: Time, end: End) -> bool {
        let sees = self.session.host(end).map_or(Seen::default(), Seen::of);
        if sees.received >= self.session.waits[end as usize].bytes {
            return true;
        }
        if !self.attentive {
            return false;
        }
        let is_due = sees != self.seen[end as usize] || now >= self.session.next_instant();
        if !is_due {
            self.attentive = self.opens_or_closes();
        }
        is_due
    }

    /// The applications do what is next.
    pub(crate) fn attend(&mut self, now: Time) {
        self.needs_service = [true; 2];
        if self.session.host(End::To).is_some_and(Endpoint::is_established) {
            // The applications write at once.
            self.transaction.establish(now);
            self.transaction.ask(now);
        }
        self.session.act(now, End::To);
        self.session.act(now, End::From);
        self.seen = [End::From, End::To].map(|end| self.session.host(end).map_or(Seen::default(), Seen::of));
        self.attentive = self.opens_or_closes();
    }

    /// Whether the connection opens or closes, as far as its applications have seen.
    fn opens_or_closes(&self) -> bool {
        self.seen.iter().any(|seen| !seen.is_established || seen.has_peer_closed)
    }

    /// The response has been delivered: the applications do what is next.
    pub(crate) fn complete(&mut self, now: Time) {
        self.session.script.delivered(now, self.transaction.received());
        self.attend(now);
    }

    /// Whether the connection is gone, and if so, whether it has failed.
    #[inline]
    pub(crate) fn has_failed(&mut self) -> Option<bool> {
        for end in [End::From, End::To] {
            if self.needs_service(end) {
                self.is_closed[end as usize] = self.session.host(end).is_none_or(Endpoint::is_closed);
            }
        }
        if self.is_closed == [false; 2] {
            return None;
        }
        let ends = [End::From, End::To].map(|end| self.session.host(end));
        let has_failed = ends.into_iter().flatten().any(|end| end.failure().is_some());
        (has_failed || self.is_closed == [true; 2]).then_some(has_failed)
    }

    /// The server's totals.
    pub(crate) fn sender(&self) -> SenderTotals {
        sender(&self.session.first)
    }

    /// Counts what the server has sent since the last time, as part of `total`.
    #[inline]
    pub(crate) fn count_sent(&mut self, total: &mut SenderTotals) {
        let sent = self.sender();
        total.replace(std::mem::replace(&mut self.counted, sent), sent);
    }

    /// Takes what has been counted out of `total`.
    pub(crate) fn discount_sent(&self, total: &mut SenderTotals) {
        total.replace(self.counted, SenderTotals::default());
    }

    /// Totals of each leg's sender.
    pub(crate) fn senders(&self) -> impl Iterator<Item = SenderTotals> {
        self.session.legs().map(sender)
    }
}

/// Totals of a connection's sender.
fn sender(connection: &Connection) -> SenderTotals {
    let Some(sender) = connection.sender() else { return SenderTotals::default() };
    let [packets, retransmitted, timeouts] = sender.sent();
    SenderTotals { packets, retransmitted, timeouts }
}
