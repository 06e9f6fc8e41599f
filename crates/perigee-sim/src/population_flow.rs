//! A population: connections that are opened, carry what their users do and close, many at a time.
//!
//! Open connections are in slots. A slot is used again once its connection is closed at both ends and none of its packets is left
//! in the network, which the flow counts; so a late packet never meets another connection, and memory follows the
//! connections that are open at a time, not those that ever were.

use perigee_results::{FlowId, Measure, Outcome, SeriesRow};
use perigee_study::{FlowSpec, Tcp};
use perigee_traffic::{End, Ledger, Population, SenderTotals, Visits};
use perigee_units::{Stream, Time};

use crate::calendar::Calendar;
use crate::compact::{Arrived, Parcel};
use crate::connection::{next_packet, Connection, Side, Sources};
use crate::network::Fate;
use crate::packet::{NetPacket, Payload};
use crate::visit::Visit;
use crate::world::{Dynamic, World};

/// One population.
pub(crate) struct PopulationFlow<'a> {
    /// Its number among the flows.
    number: u32,
    spec: &'a FlowSpec,
    tcp: &'a Tcp,
    pub(crate) ledger: Ledger,
    visits: Visits,
    /// Its event source for [`PopulationFlow::on_instant`].
    instants: u32,
    /// Seeds of endpoints.
    seeds: Stream,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Lines between the users and the node `to`, by access level, up and then down; none without access delays.
    lines: Vec<Line>,
}

/// A place for a connection.
struct Slot {
    visit: Option<Box<Visit>>,
    /// Packets that have been sent, and have neither arrived nor been dropped.
    in_flight: u32,
    sources: Sources,
}

/// The packets on their way from or to users of one access level.
struct Line {
    delay: Time,
    source: u32,
    packets: Calendar,
}

impl<'a> PopulationFlow<'a> {
    /// A population whose flow begins now.
    pub(crate) fn start(
        now: Time,
        (number, instants): (u32, u32),
        (spec, tcp, population): (&'a FlowSpec, &'a Tcp, &'a Population),
        seed: u64,
        measure: &Measure,
        world: &mut World,
    ) -> Self {
        let access = population.access;
        let line = |index: u32| Line {
            delay: access.delay(index / 2),
            source: world.add_source(number, Dynamic::Line(index)),
            packets: Calendar::new(),
        };
        let lines = (0..if population.has_access_delays() { 2 * access.levels() } else { 0 }).map(line).collect();
        let (visits, ledger) = spec.visits(population, now, seed, measure);
        Self {
            number,
            spec,
            tcp,
            ledger,
            visits,
            instants,
            seeds: spec.stream(seed, "connections"),
            slots: Vec::new(),
            free: Vec::new(),
            lines,
        }
    }

    /// The next instant for [`PopulationFlow::on_instant`]; [`Time::MAX`] where there is none.
    pub(crate) fn next_instant(&self) -> Time {
        if self.ledger.has_ended() {
            return Time::MAX;
        }
        self.visits.next_at().min(self.ledger.next_instant())
    }

    /// An instant it asked for: somebody comes, a phase begins, or the flow ends.
    pub(crate) fn on_instant(&mut self, now: Time, world: &mut World) {
        self.ledger.on_instant(now, senders(&self.slots));
        if now < self.ledger.end() {
            while let Some(visit) = self.visits.open(now) {
                self.open(now, &visit, world);
            }
            self.react(now, world);
        }
        if now >= self.ledger.end() && !self.ledger.has_ended() {
            self.finish(now, Outcome::Completed, world);
            world.flow_ended(now);
        }
    }

    /// Opens a connection.
    fn open(&mut self, now: Time, visit: &perigee_traffic::Visit, world: &mut World) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new(self.number, self.slots.len() as u32, self.spec, world));
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[number as usize];
        let mss = |config: &perigee_settings::Config| self.spec.segment(config.mss);
        let mut side = |config, opens| {
            let (cc, seed) = (&self.tcp.cc, self.seeds.next_u64());
            Side { config, cc, seed, mss: mss(config), fast_path: world.fast_paths }.endpoint(opens)
        };
        let ends = [side(&self.tcp.from, false), side(&self.tcp.to, true)];
        let connection = Connection::new(ends, slot.sources, self.spec.ip.header_bytes(), false);
        let transaction = self.ledger.begin(now, visit);
        let script = self.visits.script(visit, now);
        slot.visit = Some(Box::new(Visit::open(now, connection, transaction, script, visit.access)));
        self.after(now, number, world);
    }

    /// A packet arrives at the node where its path ends. Users are behind their access.
    #[inline]
    pub(crate) fn on_packet(&mut self, now: Time, slot: u32, packet: &NetPacket, world: &mut World) {
        let end = if packet.way % 2 == 0 { End::To } else { End::From };
        if end == End::To && !self.lines.is_empty() {
            let level = self.slots[slot as usize].visit.as_ref().map_or(0, |visit| visit.access);
            return self.lines[2 * level as usize + DOWN].push(now, packet, world);
        }
        self.deliver(now, (slot, end), packet, world);
    }

    /// The first packet on a line is at its other end.
    pub(crate) fn on_line(&mut self, now: Time, line: u32, world: &mut World) {
        let mut packet = Arrived::default();
        if !self.lines[line as usize].pop(&mut packet, world) {
            return;
        }
        let (_, slot) = world.connection(packet.way() / 2);
        if line as usize % 2 == DOWN {
            self.deliver(now, (slot, End::To), &packet.whole(), world);
        } else if let Fate::Gone(_) = world.send(now, &mut packet) {
            self.gone(slot);
        }
    }

    /// A packet has been dropped.
    pub(crate) fn gone(&mut self, slot: u32) {
        self.slots[slot as usize].in_flight -= 1;
        self.reclaim(slot);
    }

    /// A packet arrives at an end of its connection.
    #[inline]
    fn deliver(&mut self, now: Time, (number, end): (u32, End), packet: &NetPacket, world: &mut World) {
        let slot = &mut self.slots[number as usize];
        slot.in_flight -= 1;
        let Some(visit) = slot.visit.as_deref_mut() else { return self.reclaim(number) };
        // A connection carries nothing else.
        let Payload::Tcp(segment) = &packet.payload else { return };
        if let Some(rtt) = visit.on_segment(now, end, segment, packet.ecn == perigee_link::Ecn::Marked) {
            self.ledger.round_trip(rtt);
        }
        if end == End::To {
            self.count(now, number);
        }
        self.after(now, number, world);
        self.react(now, world);
    }

    /// Counts what has arrived at a user.
    #[inline]
    fn count(&mut self, now: Time, number: u32) {
        let Some(visit) = self.slots[number as usize].visit.as_deref_mut() else { return };
        let Some(user) = visit.connection.ends[End::To as usize].as_deref() else { return };
        if self.ledger.deliver(now, &mut visit.transaction, user.received(), user.arrived()) {
            self.ledger.record_progress(now, senders(&self.slots));
        }
    }

    /// The timer of an end fires; it may be early.
    pub(crate) fn on_timer(&mut self, now: Time, (number, end): (u32, End), world: &mut World) {
        let slot = &mut self.slots[number as usize];
        if let Some(visit) = slot.visit.as_deref_mut() {
            visit.connection.unschedule(end, world);
            visit.on_timer(now, end);
            if end == End::To {
                self.count(now, number);
            }
            self.after(now, number, world);
            self.react(now, world);
        }
    }

    /// An application has something to do.
    pub(crate) fn on_wait(&mut self, now: Time, number: u32, world: &mut World) {
        let slot = &mut self.slots[number as usize];
        world.queue.remove(slot.sources.timers + WAIT);
        if let Some(visit) = slot.visit.as_deref_mut() {
            visit.attend(now);
            self.after(now, number, world);
            self.react(now, world);
        }
    }

    /// What has happened on one connection may have effects on others, and on what is opened.
    #[inline]
    fn react(&mut self, now: Time, world: &mut World) {
        if self.visits.reacts() && !self.ledger.has_ended() {
            self.react_now(now, world);
        }
    }

    #[inline(never)]
    fn react_now(&mut self, now: Time, world: &mut World) {
        loop {
            if let Some(woken) = self.visits.woken() {
                let is_woken =
                    |slot: &Slot| slot.visit.as_ref().is_some_and(|visit| visit.transaction.number() == woken);
                if let Some(slot) = self.slots.iter().position(is_woken) {
                    if let Some(visit) = self.slots[slot].visit.as_deref_mut() {
                        visit.attend(now);
                    }
                    self.after(now, slot as u32, world);
                }
            } else if let Some(visit) = self.visits.open(now) {
                self.open(now, &visit, world);
            } else {
                break;
            }
        }
        if self.next_instant() < Time::MAX {
            world.queue.set(self.instants, self.next_instant());
        }
    }

    /// Sends what a connection has to send, and closes it where it has come to its end.
    #[inline]
    fn after(&mut self, now: Time, number: u32, world: &mut World) {
        self.transmit(now, number, world);
        let slot = &mut self.slots[number as usize];
        let Some(visit) = slot.visit.as_deref_mut() else { return };
        if self.ledger.complete(now, &mut visit.transaction) {
            visit.complete(now);
            self.transmit(now, number, world);
        } else if let Some(has_failed) = visit.has_failed() {
            return self.close(now, number, has_failed, world);
        }
        let slot = &mut self.slots[number as usize];
        if let Some(visit) = slot.visit.as_deref_mut() {
            visit.connection.schedule(End::From, world);
            visit.connection.schedule(End::To, world);
            let at = visit.next_instant();
            if at < Time::MAX {
                world.queue.set(slot.sources.timers + WAIT, at);
            }
        }
    }

    /// Sends all that both ends of a connection have to send.
    #[inline]
    fn transmit(&mut self, now: Time, number: u32, world: &mut World) {
        let slot = &mut self.slots[number as usize];
        let Some(visit) = slot.visit.as_deref_mut() else { return };
        for end in [End::To, End::From] {
            if !visit.connection.has_output(end) {
                continue;
            }
            let has_line = end == End::To && !self.lines.is_empty();
            let mut line = if has_line { self.lines.get_mut(2 * visit.access as usize + UP) } else { None };
            let outlet = visit.connection.outlet(end);
            let Some(host) = visit.connection.ends[end as usize].as_deref_mut() else { continue };
            let mut packet = NetPacket::SEGMENT;
            let mut send = |packet: &mut NetPacket| {
                slot.in_flight += 1;
                if let Some(line) = &mut line {
                    line.push(now, packet, world);
                } else if let Fate::Gone(_) = world.send(now, packet) {
                    slot.in_flight -= 1;
                }
            };
            host.transmit_predicted(now, |header| send(&mut outlet.packet(header).whole()));
            while next_packet(host, now, outlet, &mut packet) {
                send(&mut packet);
            }
        }
    }

    /// A connection is gone.
    fn close(&mut self, now: Time, number: u32, has_failed: bool, world: &mut World) {
        if let Some(visit) = self.slots[number as usize].take(world) {
            self.ledger.close(&visit.transaction, visit.sender(), has_failed);
            self.visits.ended(now, visit.transaction.number());
        }
        self.reclaim(number);
    }

    /// A slot without connection and without packets is free.
    fn reclaim(&mut self, number: u32) {
        let slot = &self.slots[number as usize];
        if slot.visit.is_none() && slot.in_flight == 0 && !self.ledger.has_ended() {
            self.free.push(number);
        }
    }

    /// The flow ends, and with it all connections.
    fn finish(&mut self, now: Time, outcome: Outcome, world: &mut World) {
        let open = self.slots.iter_mut().filter_map(|slot| slot.take(world));
        self.ledger.finish(now, outcome, open.map(|visit| (visit.transaction, visit.sender())));
    }

    /// The run ends, and the flow with it, not completed.
    pub(crate) fn cut_off(&mut self, now: Time, outcome: Outcome, world: &mut World) {
        if !self.ledger.has_ended() {
            self.finish(now, outcome, world);
        }
    }

    /// The connections that are open.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().filter_map(|slot| slot.visit.as_ref()).map(|visit| &visit.connection)
    }

    /// Packets that are in the network.
    pub(crate) fn outstanding(&self) -> u64 {
        let on_lines: usize = self.lines.iter().map(|line| line.packets.len()).sum();
        self.slots.iter().map(|slot| u64::from(slot.in_flight)).sum::<u64>().saturating_sub(on_lines as u64)
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        self.ledger.series_row(now, id, senders(&self.slots))
    }
}

impl Slot {
    fn new(flow: u32, number: u32, spec: &FlowSpec, world: &mut World) -> Self {
        let way = world.add_connection(flow, number, spec);
        let timers = world.add_source(flow, Dynamic::Timer(number, End::From));
        world.add_source(flow, Dynamic::Timer(number, End::To));
        world.add_source(flow, Dynamic::Wait(number));
        Self { visit: None, in_flight: 0, sources: Sources { way, timers } }
    }

    /// Takes its connection away, with the events of its timers and applications.
    fn take(&mut self, world: &mut World) -> Option<Box<Visit>> {
        let visit = self.visit.take()?;
        (0..=WAIT).for_each(|source| world.queue.remove(self.sources.timers + source));
        Some(visit)
    }
}

impl Line {
    fn push(&mut self, now: Time, packet: &NetPacket, world: &mut World) {
        let at = now + self.delay;
        if self.packets.next().is_none() {
            world.queue.set(self.source, at);
        }
        self.packets.push(at, packet);
    }

    /// Puts the first packet into `place`; whether there is one.
    fn pop(&mut self, place: &mut Arrived, world: &mut World) -> bool {
        let is_there = self.packets.pop(place);
        match self.packets.next() {
            Some(at) => world.queue.set(self.source, at),
            None => world.queue.remove(self.source),
        }
        is_there
    }
}

/// The senders of open connections.
fn senders(slots: &[Slot]) -> impl Iterator<Item = SenderTotals> + '_ {
    slots.iter().filter_map(|slot| slot.visit.as_deref()).map(Visit::sender)
}

/// The two lines of an access level: from the users, and to them.
const UP: usize = 0;
const DOWN: usize = 1;
/// Index of the applications among the event sources of a slot, after the timers of both ends.
const WAIT: u32 = 2;
