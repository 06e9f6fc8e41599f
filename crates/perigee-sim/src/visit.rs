//! The visit of a user of a population: a session, its transaction, and what of it the population has counted; and the slots of a
//! population, each with room for one visit at a time.

use perigee_study::FlowSpec;
use perigee_tcp::Segment;
use perigee_traffic::{End, OpenTransaction, SenderTotals};
use perigee_units::Time;

use crate::access::Access;
use crate::application::Socket;
use crate::connection::{Connection, Sources};
use crate::session::Session;
use crate::world::{LegEnd, PopulationEvent, World, WAIT};

/// An open session.
pub(crate) struct Visit {
    pub(crate) session: Session,
    pub(crate) transaction: OpenTransaction,
    /// The server's totals by now, as far as the population has counted them.
    counted: SenderTotals,
}

impl Visit {
    /// A visit whose session has been opened.
    pub(crate) fn new(session: Session, transaction: OpenTransaction) -> Self {
        Self { session, transaction, counted: SenderTotals::default() }
    }

    /// The applications do what is next.
    pub(crate) fn attend(&mut self, now: Time) {
        if self.session.host(End::To).is_some_and(Socket::is_established) {
            // The applications write at once.
            self.transaction.establish(now);
            self.transaction.ask(now);
        }
        self.session.attend(now);
    }

    /// The response has been delivered: the applications do what is next.
    pub(crate) fn complete(&mut self, now: Time) {
        self.session.script.delivered(now, self.transaction.received());
        self.attend(now);
    }

    /// The server's totals.
    pub(crate) fn sender(&self) -> SenderTotals {
        sender(&self.session.first)
    }

    /// Sends all that the ends that need service have to send, a user of access level `level`; returns the number of packets that
    /// are on their way.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, level: u32, access: &mut Access, world: &mut World) -> u32 {
        let mut sent = 0;
        for end in [End::To, End::From] {
            if self.session.needs_service(end) && self.session.leg_at(end).has_output(end) {
                sent += send_from(now, end, self.session.leg_at(end), level, access, world);
            }
        }
        sent
    }

    /// After all has been sent: sets the events of timers and applications, and counts in `total` what the server has sent.
    #[inline]
    pub(crate) fn end_turn(&mut self, total: &mut SenderTotals, world: &mut World) {
        for end in [End::From, End::To] {
            if self.session.needs_service(end) {
                self.session.leg_at(end).schedule(end, world);
            }
        }
        if self.session.needs_service(End::From) {
            self.count_sent(total);
        }
        if self.session.note_served() {
            let at = self.session.next_instant();
            if at < Time::MAX {
                world.network.queue.set(self.session.first.sources.timers + WAIT, at);
            }
        }
    }

    /// Counts what the server has sent since the last time, as part of `total`.
    #[inline]
    fn count_sent(&mut self, total: &mut SenderTotals) {
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

/// Room for a visit.
pub(crate) struct Slot {
    pub(crate) visit: Option<Box<Visit>>,
    /// Level of the access delay of its user, or of the last one.
    pub(crate) access: u32,
    /// Packets that have been sent, and have neither arrived nor been dropped.
    pub(crate) in_flight: u32,
    /// Sources of the connection, or of its first leg.
    sources: Sources,
    /// Number of event sources from the first timer on: timers, applications, timers of further legs, and memory of proxies.
    events: u32,
}

impl Slot {
    /// A slot of a flow, with connections like the flow's own ones.
    pub(crate) fn new(flow: u32, number: u32, own: &[u32], spec: &FlowSpec, world: &mut World) -> Self {
        let legs = own.len() as u32;
        let first = number * legs;
        let way = world.add_connections(flow, first, own, spec);
        let timers = world.add_source(flow, PopulationEvent::Timer(LegEnd { leg: first, end: End::From }));
        world.add_source(flow, PopulationEvent::Timer(LegEnd { leg: first, end: End::To }));
        let mut last = world.add_source(flow, PopulationEvent::Wait(number));
        for leg in first + 1..first + legs {
            world.add_source(flow, PopulationEvent::Timer(LegEnd { leg, end: End::From }));
            world.add_source(flow, PopulationEvent::Timer(LegEnd { leg, end: End::To }));
        }
        if legs > 1 {
            last = world.add_source(flow, PopulationEvent::Memory(number));
        }
        Self { visit: None, access: 0, in_flight: 0, sources: Sources { way, timers }, events: last + 1 - timers }
    }

    /// The sources of a leg's connection.
    pub(crate) fn sources_of(&self, leg: usize) -> Sources {
        let Sources { way, timers } = self.sources;
        let leg = leg as u32;
        Sources { way: way + 2 * leg, timers: if leg == 0 { timers } else { timers + WAIT + 2 * leg - 1 } }
    }

    /// Event source of its applications.
    pub(crate) fn wait_source(&self) -> u32 {
        self.sources.timers + WAIT
    }

    /// Event source of its proxies that wait for memory. Without proxies, that of the applications, which nothing wakes.
    pub(crate) fn memory_source(&self) -> u32 {
        self.sources.timers + self.events - 1
    }

    /// Takes its connection away, with the events of its timers, applications and proxies.
    pub(crate) fn take(&mut self, now: Time, world: &mut World) -> Option<Box<Visit>> {
        let mut visit = self.visit.take()?;
        visit.session.abandon(now, world);
        (0..self.events).for_each(|source| world.network.queue.remove(self.sources.timers + source));
        Some(visit)
    }
}

/// Totals of a connection's sender.
fn sender(connection: &Connection) -> SenderTotals {
    let Some(sender) = connection.sender() else { return SenderTotals::default() };
    let [packets, retransmitted, timeouts] = sender.sent();
    SenderTotals { packets, retransmitted, timeouts }
}

/// Sends all that an end of a connection has to send; returns the number of packets that are on their way.
#[inline(never)]
fn send_from(
    now: Time,
    end: End,
    connection: &mut Connection,
    level: u32,
    access: &mut Access,
    world: &mut World,
) -> u32 {
    let mut sent = 0;
    let outlet = connection.outlet(end);
    let Some(host) = connection.ends[end as usize].as_deref_mut() else { return 0 };
    host.transmit_predicted(now, |header| {
        sent += u32::from(access.send(now, end, level, outlet.packet(header), world));
    });
    if host.has_output() {
        let mut segment = Segment::EMPTY;
        while host.transmit_into(now, &mut segment) {
            sent += u32::from(access.send(now, end, level, &mut outlet.packet_of(&segment, host), world));
        }
    }
    sent
}
