//! A population: connections that are opened, carry what their users do and close, many at a time.
//!
//! Open connections are in slots. A slot is used again once its connection is closed at both ends and none of its packets is left
//! in the network, which the flow counts; so a late packet never meets another connection, and memory follows the
//! connections that are open at a time, not those that ever were.
//!
//! Behind proxies, a connection has legs. The legs of all slots are numbered: the slot times the legs of a
//! connection, plus that of the leg. Without proxies, the number is the slot's.

use std::iter::once;

use perigee_cc::Selected;
use perigee_results::{FlowId, FlowRow, Outcome, SeriesRow, Tables};
use perigee_settings::Config;
use perigee_study::{FlowSpec, Run, Tcp};
use perigee_tcp::{Endpoint, Flags};
use perigee_traffic::{End, Ledger, Population, SenderTotals, Visits};
use perigee_units::{Stream, Time};

use crate::access::Access;
use crate::application::{Socket as _, Stream as _};
use crate::connection::{Connection, Side};
use crate::leg_meters::{PopulationLegs, PopulationMeter};
use crate::network::Fate;
use crate::packet::{NetPacket, Parcel as _};
use crate::proxy::ProxyState;
use crate::session::{Ending, Session};
use crate::visit::{Slot, Visit};
use crate::world::{FlowStart, LegEnd, LegOf, World};

/// One population.
pub(crate) struct PopulationFlow<'a> {
    /// Its number among the flows.
    number: u32,
    spec: &'a FlowSpec,
    tcp: &'a Tcp,
    /// Unused endpoints of each leg's ends, of which connections have copies.
    unused: Vec<[Box<Endpoint>; 2]>,
    /// Endpoints of each end of first legs, no longer used.
    #[allow(clippy::vec_box, reason = "an endpoint stays where it is: it has kilobytes")]
    used: [Vec<Box<Endpoint>>; 2],
    pub(crate) ledger: Ledger,
    outcome: Outcome,
    /// Measurements of the legs behind proxies; none if the flow is not split.
    legs: PopulationLegs,
    /// The flow's own connections, one per leg, whose links its connections take.
    own: Vec<u32>,
    visits: Visits,
    /// Its event source for [`PopulationFlow::on_instant`].
    instants: u32,
    /// Seeds of endpoints.
    seeds: Stream,
    /// Sender totals of the open connections' servers.
    sent: SenderTotals,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Lines between the users and the node `to`.
    access: Access,
}

/// A leg of a slot's connection.
#[derive(Clone, Copy)]
struct SlotLeg {
    slot: u32,
    leg: u32,
}

impl<'a> PopulationFlow<'a> {
    /// A population whose flow begins now.
    pub(crate) fn start(start: FlowStart<'a>, tcp: &'a Tcp, population: &'a Population, world: &mut World) -> Self {
        let FlowStart { now, number, instants, spec, seed, measure, .. } = start;
        let (visits, ledger) = spec.visits(population, now, seed, measure);
        let own: Vec<u32> = world.connections_of(number).collect();
        let access = Access::new(population, number, &own, world);
        Self {
            number,
            spec,
            tcp,
            unused: unused_endpoints(spec, tcp, world.has_fast_paths()),
            used: Default::default(),
            ledger,
            outcome: Outcome::TimeLimit,
            legs: PopulationLegs::new(now, spec, measure),
            own,
            visits,
            instants,
            seeds: spec.stream(seed, "connections"),
            sent: SenderTotals::default(),
            slots: Vec::new(),
            free: Vec::new(),
            access,
        }
    }

    /// The next instant for [`PopulationFlow::on_instant`]; [`Time::MAX`] where there is none.
    pub(crate) fn next_instant(&self) -> Time {
        if self.ledger.has_ended() {
            return Time::MAX;
        }
        self.visits.next_at().min(self.ledger.next_instant()).min(self.legs.next_instant())
    }

    /// An instant it asked for: somebody comes, a phase begins, or the flow ends.
    pub(crate) fn on_instant(&mut self, now: Time, world: &mut World) {
        self.ledger.on_instant(now, once(self.sent));
        self.legs.on_instant(now, |leg| senders_of_leg(&self.slots, leg));
        if self.ledger.counts(now) {
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
            self.slots.push(Slot::new(self.number, self.slots.len() as u32, &self.own, self.spec, world));
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[number as usize];
        slot.access = visit.access;
        let (header, seeds, used) = (self.spec.ip.header_bytes(), &mut self.seeds, &mut self.used);
        let mut connection = |(leg, unused): (usize, &[Box<Endpoint>; 2])| {
            let ends = [End::From, End::To].map(|end| {
                let (unused, seed) = (&unused[end as usize], seeds.next_u64());
                let spare = if leg == 0 { used[end as usize].pop() } else { None };
                let Some(mut host) = spare else { return unused.another(seed) };
                unused.replace(&mut host, seed);
                host
            });
            Connection::new(ends, slot.sources_of(leg), header)
        };
        let [first, rest @ ..] = &self.unused[..] else { return };
        let first = connection((0, first));
        let rest: Vec<Connection> = (1..).zip(rest).map(connection).collect();
        let transaction = self.ledger.begin(now, visit);
        let script = self.visits.script(visit, now);
        let mut session = Session::new(first, rest, &self.tcp.legs, End::To, slot.memory_source(), script);
        session.open(now, End::To, &mut PopulationMeter { ledger: &mut self.ledger, legs: &mut self.legs });
        slot.visit = Some(Box::new(Visit::new(session, transaction)));
        self.serve(now, number, false, world);
    }

    /// The slot of a leg, and the leg's number in its connection.
    #[inline]
    fn slot_and_leg(&self, number: u32) -> SlotLeg {
        match self.own.len() as u32 {
            1 => SlotLeg { slot: number, leg: 0 },
            legs => SlotLeg { slot: number / legs, leg: number % legs },
        }
    }

    /// A packet arrives at the node where its path ends. Users are behind their access.
    #[inline]
    pub(crate) fn on_packet(&mut self, now: Time, at: LegEnd, packet: &NetPacket, world: &mut World) {
        let SlotLeg { slot, leg } = self.slot_and_leg(at.leg);
        if at.end == End::To && self.access.has_lines() && leg + 1 == self.own.len() as u32 {
            return self.access.enter(now, self.slots[slot as usize].access, packet, world);
        }
        self.deliver(now, slot, LegEnd { leg, end: at.end }, packet, world);
    }

    /// The first packet on a line is at its other end.
    pub(crate) fn on_line(&mut self, now: Time, packet: &mut NetPacket, world: &mut World) {
        let Some(end) = self.access.take(packet, world) else { return };
        let LegOf { leg, .. } = world.connection(packet.way() / 2);
        if end == End::To {
            let SlotLeg { slot, leg } = self.slot_and_leg(leg);
            self.deliver(now, slot, LegEnd { leg, end }, packet, world);
        } else if let Fate::Dropped(_) = world.network.send(now, packet) {
            self.dropped(leg);
        }
    }

    /// A packet of a leg has been dropped.
    pub(crate) fn dropped(&mut self, leg: u32) {
        let SlotLeg { slot, .. } = self.slot_and_leg(leg);
        self.slots[slot as usize].in_flight -= 1;
        self.reclaim(slot);
    }

    /// A packet arrives at an end of a leg of its connection.
    #[inline]
    fn deliver(&mut self, now: Time, number: u32, at: LegEnd, packet: &NetPacket, world: &mut World) {
        let slot = &mut self.slots[number as usize];
        slot.in_flight -= 1;
        if slot.visit.is_none() {
            return self.reclaim(number);
        }
        let take = |session: &mut Session, meter: &mut PopulationMeter<'_>, world: &mut World| {
            let is_own = session.on_packet(now, at, packet, meter, world);
            if is_own && packet.stored.header.flags.0 & (Flags::RST | Flags::FIN) != 0 {
                session.begin_closing();
            }
            is_own
        };
        if self.on_leg(now, number, take, world) {
            self.acted(now, number, at.end, world);
        }
    }

    /// An end of the connection has acted.
    #[inline]
    fn acted(&mut self, now: Time, number: u32, end: End, world: &mut World) {
        let slot = &mut self.slots[number as usize];
        let Some(visit) = slot.visit.as_deref_mut() else { return };
        let user = visit.session.host(end).filter(|_| end == End::To);
        if let Some((received, arrived)) = user.map(|user| (user.received(), user.arrived()))
            && self.ledger.deliver(now, &mut visit.transaction, received, arrived)
        {
            self.ledger.record_progress(now, once(self.sent));
        }
        let is_due = visit.session.is_due(now, end);
        self.serve(now, number, is_due, world);
        self.react(now, world);
    }

    /// Something happens at an end of a leg, which `act` processes; returns what it returns. What proxies send meanwhile counts.
    #[inline(always)]
    fn on_leg(
        &mut self,
        now: Time,
        number: u32,
        act: impl FnOnce(&mut Session, &mut PopulationMeter<'_>, &mut World) -> bool,
        world: &mut World,
    ) -> bool {
        let slot = &mut self.slots[number as usize];
        let Some(visit) = slot.visit.as_deref_mut() else { return false };
        let before = world.network.packets_sent();
        let is_own =
            act(&mut visit.session, &mut PopulationMeter { ledger: &mut self.ledger, legs: &mut self.legs }, world);
        if self.own.len() > 1 {
            slot.in_flight += (world.network.packets_sent() - before) as u32;
            if self.legs.is_due() {
                self.legs.record_progress(now, |leg| senders_of_leg(&self.slots, leg));
            }
        }
        is_own
    }

    /// Proxies of a connection may have memory again.
    pub(crate) fn on_memory(&mut self, now: Time, number: u32, source: u32, world: &mut World) {
        world.network.queue.remove(source);
        let relay = |session: &mut Session, meter: &mut PopulationMeter<'_>, world: &mut World| {
            session.on_memory(now, meter, world);
            false
        };
        self.on_leg(now, number, relay, world);
    }

    /// The timer of an end of a leg fires; it may be early.
    pub(crate) fn on_timer(&mut self, now: Time, at: LegEnd, world: &mut World) {
        let SlotLeg { slot, leg } = self.slot_and_leg(at.leg);
        let run = |session: &mut Session, meter: &mut PopulationMeter<'_>, world: &mut World| {
            session.on_timer(now, LegEnd { leg, end: at.end }, meter, world)
        };
        if self.on_leg(now, slot, run, world) {
            self.acted(now, slot, at.end, world);
        }
    }

    /// An application has something to do.
    pub(crate) fn on_wait(&mut self, now: Time, number: u32, world: &mut World) {
        world.network.queue.remove(self.slots[number as usize].wait_source());
        self.attend(now, number, world);
        self.react(now, world);
    }

    /// Lets what has happened on one connection wake others, and open new ones.
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
                if let Some(number) = self.slots.iter().position(is_woken) {
                    self.attend(now, number as u32, world);
                }
            } else if let Some(visit) = self.visits.open(now) {
                self.open(now, &visit, world);
            } else {
                break;
            }
        }
        if self.next_instant() < Time::MAX {
            world.network.queue.set(self.instants, self.next_instant());
        }
    }

    /// The applications of a connection do what is next.
    #[inline(never)]
    fn attend(&mut self, now: Time, number: u32, world: &mut World) {
        if let Some(visit) = self.slots[number as usize].visit.as_deref_mut() {
            visit.attend(now);
            self.serve(now, number, false, world);
        }
    }

    /// Sends what a connection has to send, and closes it where it has come to its end. What an end answers leaves before the
    /// applications, which it may have woken (`is_due`), write.
    #[inline(never)]
    fn serve(&mut self, now: Time, number: u32, mut is_due: bool, world: &mut World) {
        let slot = &mut self.slots[number as usize];
        let Some(visit) = slot.visit.as_deref_mut() else { return };
        let mut completes = false;
        loop {
            slot.in_flight += visit.transmit(now, slot.access, &mut self.access, world);
            if std::mem::take(&mut is_due) {
                visit.attend(now);
            } else if self.ledger.complete(now, &mut visit.transaction) {
                completes = true;
                visit.complete(now);
            } else {
                break;
            }
        }
        match visit.session.ending() {
            Some(ending) if !completes => self.close(now, number, ending, world),
            _ => visit.end_turn(&mut self.sent, world),
        }
    }

    /// A connection is gone.
    #[inline(never)]
    fn close(&mut self, now: Time, number: u32, ending: Ending, world: &mut World) {
        if let Some(visit) = self.slots[number as usize].take(now, world) {
            visit.discount_sent(&mut self.sent);
            self.ledger.close(&visit.transaction, visit.sender(), ending == Ending::Failed);
            self.legs.close(visit.senders());
            self.visits.ended(now, visit.transaction.number());
            self.used.iter_mut().zip(visit.session.first.ends).for_each(|(used, end)| used.extend(end));
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
        let (ledger, legs) = (&mut self.ledger, &mut self.legs);
        let open = self.slots.iter_mut().filter_map(|slot| slot.take(now, world)).map(|visit| {
            legs.close(visit.senders());
            (visit.transaction, visit.sender())
        });
        ledger.finish(now, outcome, open);
        self.sent = SenderTotals::default();
        legs.finish(now);
        self.outcome = outcome;
    }

    /// The run ends, and the flow with it, not completed.
    pub(crate) fn cut_off(&mut self, now: Time, outcome: Outcome, world: &mut World) {
        if !self.ledger.has_ended() {
            self.finish(now, outcome, world);
        }
    }

    /// The connections that are open.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().filter_map(|slot| slot.visit.as_ref()).flat_map(|visit| visit.session.legs())
    }

    /// The open sessions.
    pub(crate) fn sessions(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots.iter_mut().filter_map(|slot| slot.visit.as_mut()).map(|visit| &mut visit.session)
    }

    /// Packets that are in the network.
    pub(crate) fn outstanding(&self) -> u64 {
        let on_lines = self.access.packets();
        self.slots.iter().map(|slot| u64::from(slot.in_flight)).sum::<u64>().saturating_sub(on_lines as u64)
    }

    /// The series rows for the interval that ends at `now`: the flow, then its legs.
    pub(crate) fn write_series(&mut self, now: Time, id: FlowId<'_>, rows: &mut impl FnMut(SeriesRow)) {
        self.ledger.series_row(now, id, once(self.sent)).map(&mut *rows);
        self.legs.write_series(now, id, |leg| senders_of_leg(&self.slots, leg), rows);
    }

    /// Adds the flow's connections and unread bytes to the proxies' states.
    pub(crate) fn add_to(&self, proxies: &mut [ProxyState]) {
        self.slots.iter().filter_map(|slot| slot.visit.as_ref()).for_each(|visit| visit.session.add_to(proxies));
    }

    /// Adds the flow and its legs to the tables; `row` has its description.
    pub(crate) fn write(&self, run: &Run, row: FlowRow, stop: Time, tables: &mut Tables) {
        self.ledger.write(row, stop, tables);
        self.legs.write(run, self.spec, self.outcome, stop, tables);
    }
}

/// An unused endpoint of each end of each leg.
fn unused_endpoints(spec: &FlowSpec, tcp: &Tcp, fast_path: bool) -> Vec<[Box<Endpoint>; 2]> {
    let endpoint = |(config, cc): (&Config, &Selected), opens| {
        Side { config, cc, seed: 0, mss: spec.segment(config.mss), fast_path }.endpoint(opens)
    };
    let ends = |[from, to]: [(&Config, &Selected); 2]| [endpoint(from, false), endpoint(to, true)];
    if tcp.legs.is_empty() {
        return vec![ends([(&tcp.from, &tcp.cc), (&tcp.to, &tcp.cc)])];
    }
    tcp.legs.iter().map(|leg| ends([&leg.sender, &leg.receiver].map(|end| (&end.config, &end.cc)))).collect()
}

/// The senders of a leg of open connections.
fn senders_of_leg(slots: &[Slot], leg: usize) -> Vec<SenderTotals> {
    slots.iter().filter_map(|slot| slot.visit.as_deref()).filter_map(|visit| visit.senders().nth(leg)).collect()
}
