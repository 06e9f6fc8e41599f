//! A browser over QUIC: connections that are opened, carry requests and responses, and close.
//!
//! Each connection has a slot, which is used again once both ends are gone and none of its datagrams is in the network.

use std::iter::once;

use perigee_results::{FlowId, FlowRow, Meter, Outcome, SeriesRow, Tables};
use perigee_study::{FlowSpec, Quic};
use perigee_traffic::{End, Ledger, OpenTransaction, Population, Script, SenderTotals, Visit, Visits};
use perigee_units::{Stream, Time};

use super::connection::{QuicColumns, QuicConnection};
use crate::application::{act, Socket as _, Wait};
use crate::connection::Sources;
use crate::flow::OverQuic;
use crate::packet::{NetPacket, Stored};
use crate::queue::EventQueue;
use crate::world::{FlowStart, LegEnd, PopulationEvent, World, WAIT};

pub(crate) struct QuicBrowser<'a> {
    number: u32,
    spec: &'a FlowSpec,
    quic: &'a Quic,
    stream_window: u64,
    seeds: Stream,
    own: Vec<u32>,
    /// Event source of [`OverQuic::on_instant`].
    instants: u32,
    ledger: Ledger,
    visits: Visits,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Time of the first handshake.
    established: Option<Time>,
    /// All connections that are over.
    closed: Option<QuicColumns>,
    /// The nodes at which ends keep a log.
    logged: &'a [u32],
    /// Connections that were opened.
    opened: u32,
    qlogs: Vec<(End, String, Vec<u8>)>,
}

/// Room for a connection.
struct Slot {
    sources: Sources,
    open: Option<Box<Open>>,
}

/// A connection and what its ends do.
struct Open {
    connection: QuicConnection,
    script: Script,
    waits: [Wait; 2],
    opened: Time,
    /// Its number among those of the flow, from 1.
    place: u32,
    /// `None`: the visit is over, and the connection closes.
    transaction: Option<OpenTransaction>,
}

impl<'a> QuicBrowser<'a> {
    pub(crate) fn start(
        start: FlowStart<'a>,
        (quic, population): (&'a Quic, &Population),
        stream_window: u64,
        logged: &'a [u32],
        world: &World,
    ) -> Self {
        let FlowStart { now, number, instants, spec, seed, measure, .. } = start;
        let (visits, ledger) = spec.visits(population, now, seed, measure);
        Self {
            number,
            spec,
            quic,
            stream_window,
            seeds: spec.stream(seed, "quic"),
            own: world.connections_of(number).collect(),
            instants,
            ledger,
            visits,
            slots: Vec::new(),
            free: Vec::new(),
            established: None,
            closed: None,
            logged,
            opened: 0,
            qlogs: Vec::new(),
        }
    }

    /// Opens a connection.
    fn open(&mut self, now: Time, visit: &Visit, world: &mut World) {
        let number = self.free.pop().unwrap_or_else(|| {
            let number = self.slots.len() as u32;
            let way = world.add_connections(self.number, number, &self.own, self.spec);
            let timer = |end| PopulationEvent::Timer(LegEnd { leg: number, end });
            let timers = world.add_source(self.number, timer(End::From));
            world.add_source(self.number, timer(End::To));
            world.add_source(self.number, PopulationEvent::Wait(number));
            self.slots.push(Slot { sources: Sources { way, timers }, open: None });
            number
        });
        let slot = &mut self.slots[number as usize];
        let seeds = Stream::new(self.seeds.next_u64(), "connection");
        let per_message = self.quic.stream_per_response;
        let spec = (self.spec, self.quic);
        let mut connection =
            QuicConnection::new(spec, slot.sources, seeds, self.stream_window, per_message, self.logged);
        connection.open(now);
        self.opened += 1;
        let transaction = Some(self.ledger.begin(now, visit));
        let script = self.visits.script(visit, now);
        slot.open = Some(Box::new(Open {
            connection,
            script,
            waits: [Wait::NOTHING; 2],
            opened: now,
            place: self.opened,
            transaction,
        }));
        self.turn(now, number, world);
    }

    /// After something has happened to a connection: measures it, lets its applications act, and sends.
    fn turn(&mut self, now: Time, number: u32, world: &mut World) {
        let slot = &mut self.slots[number as usize];
        let Some(open) = slot.open.as_deref_mut() else { return };
        if let Some(transaction) = &mut open.transaction {
            if let Some(rtt) = open.connection.ends[End::From as usize].endpoint.take_rtt() {
                self.ledger.round_trip(rtt);
            }
            let client = &mut open.connection.ends[End::To as usize];
            if client.endpoint.is_connected() {
                self.established.get_or_insert(now - open.opened);
                transaction.establish(now);
            }
            let received = client.received();
            if self.ledger.deliver(now, transaction, received, received) {
                let sent = sent_by_all(self.closed.as_ref(), &mut self.slots);
                self.ledger.record_progress(now, once(sent));
            }
        }
        let slot = &mut self.slots[number as usize];
        let Some(open) = slot.open.as_deref_mut() else { return };
        if open.transaction.is_some() {
            open.attend(now);
            open.connection.close_if_done(now);
        }
        for end in [End::To, End::From] {
            open.connection.transmit(now, end, world);
        }
        let wait = open.waits[0].until.min(open.waits[1].until);
        let source = slot.sources.timers + WAIT;
        if wait < Time::MAX && open.transaction.is_some() {
            world.network.queue.set(source, wait);
        } else {
            world.network.queue.remove(source);
        }
        if open.transaction.is_some() && open.connection.ends.iter().any(|end| end.closed().is_some()) {
            self.close(now, number);
        }
        self.reclaim(now, number);
    }

    /// The visit of a connection is over.
    fn close(&mut self, now: Time, number: u32) {
        let Some(open) = self.slots[number as usize].open.as_deref_mut() else { return };
        let Some(transaction) = open.transaction.take() else { return };
        let has_failed = !open.connection.client().has_closed;
        self.ledger.close(&transaction, SenderTotals::default(), has_failed);
        self.visits.ended(now, transaction.number());
    }

    /// Frees a slot whose connection is gone.
    fn reclaim(&mut self, now: Time, number: u32) {
        let slot = &mut self.slots[number as usize];
        let is_over = |open: &mut Box<Open>| open.transaction.is_none() && open.connection.is_over();
        if let Some(mut open) = slot.open.take_if(is_over) {
            // The flow's end has counted those that were open.
            if !self.ledger.has_ended() {
                let columns = open.connection.columns(now);
                self.closed = Some(columns.joined(self.closed.take()));
            }
            self.qlogs.extend(open.take_qlogs());
            self.free.push(number);
        }
    }

    /// Lets what has happened on one connection wake others, and open new ones.
    fn react(&mut self, now: Time, world: &mut World) {
        while !self.ledger.has_ended() {
            if let Some(woken) = self.visits.woken() {
                let is_woken = |slot: &Slot| {
                    let transaction = slot.open.as_ref().and_then(|open| open.transaction.as_ref());
                    transaction.is_some_and(|transaction| transaction.number() == woken)
                };
                if let Some(number) = self.slots.iter().position(is_woken) {
                    self.turn(now, number as u32, world);
                }
            } else if let Some(visit) = self.visits.open(now) {
                self.open(now, &visit, world);
            } else {
                break;
            }
        }
        let next = self.next_instant();
        if next < Time::MAX {
            world.network.queue.set(self.instants, next);
        } else {
            world.network.queue.remove(self.instants);
        }
    }

    fn next_instant(&self) -> Time {
        if self.ledger.has_ended() {
            return Time::MAX;
        }
        self.visits.next_at().min(self.ledger.next_instant())
    }

    /// The flow ends: nothing of its connections is measured any more.
    fn finish(&mut self, now: Time, outcome: Outcome) {
        for number in 0..self.slots.len() {
            let Some(open) = self.slots[number].open.as_deref_mut() else { continue };
            if let Some(transaction) = open.transaction.take() {
                self.ledger.close(&transaction, SenderTotals::default(), false);
            }
            let columns = open.connection.columns(now);
            self.closed = Some(columns.joined(self.closed.take()));
        }
        self.ledger.finish(now, outcome, std::iter::empty());
    }
}

impl Open {
    /// The logs of its connection, with its number.
    fn take_qlogs(&mut self) -> Vec<(End, String, Vec<u8>)> {
        let place = self.place;
        self.connection.take_qlogs().map(|(end, qlog)| (end, format!(".{place}"), qlog)).collect()
    }

    /// The applications at connected ends do what is next.
    fn attend(&mut self, now: Time) {
        for end in [End::To, End::From] {
            let host = &mut self.connection.ends[end as usize];
            while let Some(stream) = host.take_arrived() {
                self.script.message_arrived(end, stream);
            }
            if host.is_established() {
                self.waits[end as usize] = act(now, end, host, &mut self.script);
            }
        }
    }
}

impl OverQuic for QuicBrowser<'_> {
    fn on_packet(&mut self, now: Time, at: LegEnd, packet: &NetPacket, world: &mut World) {
        if let Some(open) = self.slots[at.leg as usize].open.as_deref_mut() {
            open.connection.on_packet(now, at.end, packet, world);
        }
        self.turn(now, at.leg, world);
        self.react(now, world);
    }

    fn dropped(&mut self, now: Time, leg: u32, packet: &Stored, world: &mut World) {
        if let Some(open) = self.slots[leg as usize].open.as_deref_mut() {
            open.connection.dropped(packet, world);
        }
        self.reclaim(now, leg);
    }

    fn on_timer(&mut self, now: Time, at: LegEnd, world: &mut World) {
        if let Some(open) = self.slots[at.leg as usize].open.as_deref_mut() {
            open.connection.on_timer(now, at.end, world);
        }
        self.turn(now, at.leg, world);
        self.react(now, world);
    }

    fn on_wait(&mut self, now: Time, leg: u32, world: &mut World) {
        self.turn(now, leg, world);
        self.react(now, world);
    }

    fn on_instant(&mut self, now: Time, world: &mut World) {
        let sent = sent_by_all(self.closed.as_ref(), &mut self.slots);
        self.ledger.on_instant(now, once(sent));
        if now >= self.ledger.end() && !self.ledger.has_ended() {
            self.finish(now, Outcome::Completed);
            for number in 0..self.slots.len() {
                if let Some(open) = self.slots[number].open.as_deref_mut() {
                    open.connection.client().endpoint.close(now, 0);
                }
                self.turn(now, number as u32, world);
            }
            world.flow_ended(now);
        }
        self.react(now, world);
    }

    fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        let sent = sent_by_all(self.closed.as_ref(), &mut self.slots);
        let row = self.ledger.series_row(now, id, once(sent))?;
        Some(SeriesRow { retransmitted_packets: None, ..row })
    }

    fn meter(&self) -> &Meter {
        self.ledger.meter()
    }

    fn cut_off(&mut self, now: Time, outcome: Outcome) {
        if !self.ledger.has_ended() {
            self.finish(now, outcome);
        }
    }

    fn progress(&self, now: Time) -> f64 {
        self.ledger.progress(now)
    }

    fn outstanding(&self) -> u64 {
        self.slots.iter().filter_map(|slot| slot.open.as_ref()).map(|open| u64::from(open.connection.outstanding)).sum()
    }

    fn missed_timer(&self, queue: &EventQueue) -> Option<String> {
        self.slots.iter().filter_map(|slot| slot.open.as_ref()).find_map(|open| open.connection.missed_timer(queue))
    }

    fn take_qlogs(&mut self) -> Vec<(End, String, Vec<u8>)> {
        let open = self.slots.iter_mut().filter_map(|slot| slot.open.as_deref_mut());
        let open: Vec<_> = open.flat_map(Open::take_qlogs).collect();
        std::mem::take(&mut self.qlogs).into_iter().chain(open).collect()
    }

    fn write(&mut self, _spec: &FlowSpec, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        if let Some(closed) = &self.closed {
            closed.fill(&mut row);
        }
        row.transport = "quic".into();
        row.passed_proxies = Some(self.quic.passed);
        row.handshake_ms = self.established.map(Time::as_millis_f64);
        let sent = self.closed.as_ref().map(QuicColumns::counts).unwrap_or_default();
        self.ledger.write_counted(row, sent, stop, tables);
    }
}

/// Packets that the servers of all connections have sent.
fn sent_by_all(closed: Option<&QuicColumns>, slots: &mut [Slot]) -> SenderTotals {
    let open = slots.iter_mut().filter_map(|slot| slot.open.as_deref_mut());
    let open: u64 = open.filter_map(|open| open.connection.counts().packets).sum();
    let closed = closed.and_then(|closed| closed.counts().packets).unwrap_or_default();
    SenderTotals { packets: open + closed, retransmitted: 0, timeouts: 0 }
}
