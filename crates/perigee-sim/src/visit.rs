//! One connection of a population while it is open: its endpoints, those of its legs between proxies, and what its application does.

use perigee_link::Ecn;
use perigee_tcp::{Endpoint, Flags, Segment};
use perigee_traffic::{Delivered, End, OpenTransaction, Script, SenderTotals};
use perigee_units::Time;

use crate::application::{act, Wait};
use crate::chain::Chain;
use crate::compact::{Arrived, Parcel};
use crate::connection::Connection;
use crate::packet::Payload;
use crate::population_legs::{PopulationLegs, VisitMeter};
use crate::world::World;

/// An open connection.
pub(crate) struct Visit {
    /// The connection; behind proxies, its first leg.
    pub(crate) connection: Connection,
    further: Option<Box<FurtherLegs>>,
    pub(crate) transaction: OpenTransaction,
    script: Script,
    /// By end: what its application waits for.
    waits: [Wait; 2],
    /// Whether the applications look at each segment: while the connection opens or closes.
    attentive: bool,
    /// By end: what its application has seen.
    seen: [Seen; 2],
    /// By end: whether it may have something to send, or another deadline.
    needs_service: [bool; 2],
    /// By end: whether it is closed.
    is_closed: [bool; 2],
    /// What the server has sent by now, as far as the population has counted it.
    counted: SenderTotals,
}

/// What an application sees of its end of the connection.
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

/// The legs after the first.
struct FurtherLegs {
    chain: Chain,
    /// By leg, the first included: what its receiver has accepted.
    delivered: Vec<Delivered>,
}

impl Visit {
    /// A visit whose connection is opened now, with the legs after the first.
    pub(crate) fn open(
        now: Time,
        (connection, further): (Connection, Option<Chain>),
        transaction: OpenTransaction,
        script: Script,
        legs: &mut PopulationLegs,
    ) -> Self {
        let waits = [Wait { bytes: u64::MAX, until: Time::MAX }; 2];
        let further =
            further.map(|chain| Box::new(FurtherLegs { chain, delivered: vec![Delivered::default(); legs.len()] }));
        let mut visit = Self {
            connection,
            further,
            transaction,
            script,
            waits,
            attentive: true,
            seen: [Seen::default(); 2],
            needs_service: [true; 2],
            is_closed: [false; 2],
            counted: SenderTotals::default(),
        };
        if let Some(FurtherLegs { chain, delivered }) = visit.further.as_deref_mut() {
            chain.begin(now, &mut visit.connection, &mut VisitMeter { legs, delivered });
        }
        if let Some(user) = visit.of_end(End::To).ends[End::To as usize].as_deref_mut() {
            user.open(now);
        }
        visit
    }

    /// The connection at an end of the visit.
    #[inline]
    pub(crate) fn of_end(&mut self, end: End) -> &mut Connection {
        match (&mut self.further, end) {
            (Some(further), End::To) => further.chain.last_mut(),
            _ => &mut self.connection,
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

    /// The endpoints of the visit.
    #[inline]
    pub(crate) fn ends(&self) -> [Option<&Endpoint>; 2] {
        let last = self.further.as_ref().map_or(&self.connection, |further| further.chain.last());
        [self.connection.ends[End::From as usize].as_deref(), last.ends[End::To as usize].as_deref()]
    }

    /// The connections of all legs.
    pub(crate) fn legs(&self) -> impl Iterator<Item = &Connection> {
        let rest = self.further.as_ref().map_or(&[][..], |further| further.chain.rest());
        std::iter::once(&self.connection).chain(rest)
    }

    /// Processes a segment at an end of a leg. Returns true if the end is one of the visit's.
    pub(crate) fn on_segment_of_leg(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        segment: (&Segment, bool),
        legs: &mut PopulationLegs,
        world: &mut World,
    ) -> bool {
        let Some(FurtherLegs { chain, delivered }) = self.further.as_deref_mut() else { return false };
        let meter = &mut VisitMeter { legs, delivered };
        let is_own = chain.on_segment(now, (leg, end), segment, &mut self.connection, meter, world);
        if is_own {
            self.processed(end, segment.0.flags);
        }
        is_own
    }

    /// Runs the timer of an end of a leg, which may be early. Returns true if the end is one of the visit's and something was due.
    pub(crate) fn on_timer_of_leg(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        legs: &mut PopulationLegs,
        world: &mut World,
    ) -> bool {
        let Some(FurtherLegs { chain, delivered }) = self.further.as_deref_mut() else { return false };
        let meter = &mut VisitMeter { legs, delivered };
        let is_own = chain.on_timer(now, (leg, end), &mut self.connection, meter, world);
        self.needs_service[end as usize] |= is_own;
        is_own
    }

    /// A proxy may have memory again.
    pub(crate) fn on_memory(&mut self, now: Time, legs: &mut PopulationLegs, world: &mut World) {
        if let Some(FurtherLegs { chain, delivered }) = self.further.as_deref_mut() {
            chain.on_instant(now, &mut self.connection, &mut VisitMeter { legs, delivered }, world);
        }
    }

    /// Adds its connections and unread bytes to the proxies' states.
    pub(crate) fn add_to(&self, proxies: &mut [(u32, u64)]) {
        if let Some(further) = &self.further {
            further.chain.add_to(&self.connection, proxies);
        }
    }

    /// The visit is over: proxies release what they hold of it.
    pub(crate) fn abandon(&mut self, now: Time, world: &mut World) {
        if let Some(further) = &mut self.further {
            further.chain.abandon(now, world);
        }
    }

    /// A packet arrives at an end. Answers with the round trip that the server has measured with it, if any.
    #[inline]
    pub(crate) fn on_packet(&mut self, now: Time, end: End, packet: &Arrived) -> Option<Time> {
        let host = self.connection.ends[end as usize].as_deref_mut()?;
        match packet.header() {
            Some(header) => host.on_plain_segment(now, header),
            None => on_whole(host, now, packet),
        }
        let rtt = if end == End::From { host.take_rtt() } else { None };
        self.processed(end, packet.packet.header.flags);
        rtt
    }

    /// An end has processed a segment.
    #[inline]
    fn processed(&mut self, end: End, flags: Flags) {
        self.needs_service[end as usize] = true;
        self.attentive |= flags.0 & (Flags::RST | Flags::FIN) != 0;
    }

    /// Whether the applications have something to do, now that an end has processed a segment or a timer.
    #[inline]
    pub(crate) fn is_due(&mut self, now: Time, end: End) -> bool {
        let sees = self.ends()[end as usize].map_or(Seen::default(), Seen::of);
        if sees.received >= self.waits[end as usize].bytes {
            return true;
        }
        if !self.attentive {
            return false;
        }
        let is_due = sees != self.seen[end as usize] || now >= self.next_instant();
        if !is_due {
            self.attentive = self.opens_or_closes();
        }
        is_due
    }

    /// Runs the timer of an end, which may be early. Returns true if something was due.
    pub(crate) fn on_timer(&mut self, now: Time, end: End, world: &mut World) -> bool {
        let was_due = self.connection.on_timer(now, end, world);
        self.needs_service[end as usize] |= was_due;
        was_due
    }

    /// The applications do what is next.
    pub(crate) fn attend(&mut self, now: Time) {
        self.needs_service = [true; 2];
        let [from, to] = &mut self.connection.ends;
        let to = match &mut self.further {
            Some(further) => &mut further.chain.last_mut().ends[End::To as usize],
            None => to,
        };
        let (Some(from), Some(to)) = (from, to) else { return };
        if to.is_established() {
            // The applications write at once.
            self.transaction.establish(now);
            self.transaction.ask(now);
        }
        for (end, host) in [(End::To, &mut *to), (End::From, &mut *from)] {
            if host.is_established() {
                self.waits[end as usize] = act(now, end, host, &mut self.script);
            }
        }
        self.seen = [Seen::of(from), Seen::of(to)];
        self.attentive = self.opens_or_closes();
    }

    /// Whether the connection opens or closes, as far as its applications have seen.
    fn opens_or_closes(&self) -> bool {
        self.seen.iter().any(|seen| !seen.is_established || seen.has_peer_closed)
    }

    /// The response has been delivered: the applications do what is next.
    pub(crate) fn complete(&mut self, now: Time) {
        self.script.delivered(now, self.transaction.received());
        self.attend(now);
    }

    /// Whether the connection is gone, and if so, whether it has failed.
    #[inline]
    pub(crate) fn has_failed(&mut self) -> Option<bool> {
        for end in [End::From, End::To] {
            if self.needs_service(end) {
                self.is_closed[end as usize] = self.ends()[end as usize].is_none_or(Endpoint::is_closed);
            }
        }
        if self.is_closed == [false; 2] {
            return None;
        }
        let has_failed = self.ends().into_iter().flatten().any(|end| end.failure().is_some());
        (has_failed || self.is_closed == [true; 2]).then_some(has_failed)
    }

    /// The next instant at which an application has something to do.
    pub(crate) fn next_instant(&self) -> Time {
        self.waits[0].until.min(self.waits[1].until)
    }

    /// What the server has sent.
    pub(crate) fn sender(&self) -> SenderTotals {
        sender(&self.connection)
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

    /// What the sender of a leg has sent; none of a leg that is not there.
    pub(crate) fn sender_of_leg(&self, leg: usize) -> SenderTotals {
        self.legs().nth(leg).map_or(SenderTotals::default(), sender)
    }
}

/// Processes a packet with rare options or a congestion mark.
#[inline(never)]
fn on_whole(host: &mut Endpoint, now: Time, packet: &Arrived) {
    let packet = packet.whole();
    // A connection carries nothing else.
    let Payload::Tcp(segment) = &packet.payload else { return };
    host.on_segment(now, segment, packet.ecn == Ecn::Marked);
}

/// What the sender of a connection has sent.
fn sender(connection: &Connection) -> SenderTotals {
    let Some(sender) = connection.sender() else { return SenderTotals::default() };
    let [packets, retransmitted, timeouts] = sender.sent();
    SenderTotals { packets, retransmitted, timeouts }
}
