//! A browser over QUIC: connections that are opened, carry requests and responses, and close.
//!
//! Each connection has a slot, which is used again once both ends are gone and none of its datagrams is in the network.

use std::iter::once;

use perigee_quic::Ecn;
use perigee_results::{FlowId, FlowRow, Measure, Meter, Outcome, SeriesRow, Tables};
use perigee_traffic::{End, Ledger, OpenTransaction, Population, Script, SenderTotals, Visit, Visits};
use perigee_units::{Stream, Time};

use super::carrier::{Carrier, Place, QuicFlow, Wake};
use super::connection::{OfFlow, QuicColumns, QuicConnection};
use crate::application::{act, Socket as _, Wait};

pub(crate) struct QuicBrowser<'a> {
    of: OfFlow<'a>,
    seeds: Stream,
    ledger: Ledger,
    visits: Visits,
    slots: Vec<Option<Box<Open>>>,
    free: Vec<u32>,
    /// Time of the first handshake.
    established: Option<Time>,
    /// All connections that are over.
    closed: Option<QuicColumns>,
    /// Connections that were opened.
    opened: u32,
    qlogs: Vec<(End, String, Vec<u8>)>,
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
    pub(crate) fn start(now: Time, of: OfFlow<'a>, population: &Population, seed: u64, measure: &Measure) -> Self {
        let (visits, ledger) = of.spec.visits(population, now, seed, measure);
        Self {
            of,
            seeds: of.spec.stream(seed, "quic"),
            ledger,
            visits,
            slots: Vec::new(),
            free: Vec::new(),
            established: None,
            closed: None,
            opened: 0,
            qlogs: Vec::new(),
        }
    }

    /// Opens a connection.
    fn open(&mut self, now: Time, visit: &Visit, carrier: &mut dyn Carrier) {
        let number = self.free.pop().unwrap_or_else(|| {
            let number = self.slots.len() as u32;
            carrier.add_connection(number);
            self.slots.push(None);
            number
        });
        let seeds = Stream::new(self.seeds.next_u64(), "connection");
        let mut connection = QuicConnection::new(self.of, number, seeds, self.of.quic.stream_per_response);
        connection.open(now);
        self.opened += 1;
        let transaction = Some(self.ledger.begin(now, visit));
        let script = self.visits.script(visit, now);
        self.slots[number as usize] = Some(Box::new(Open {
            connection,
            script,
            waits: [Wait::NOTHING; 2],
            opened: now,
            place: self.opened,
            transaction,
        }));
        self.turn_of(now, number, carrier);
    }

    /// After something has happened to a connection: measures it, lets its applications act, and sends.
    fn turn_of(&mut self, now: Time, number: u32, carrier: &mut dyn Carrier) {
        let Some(open) = self.slots[number as usize].as_deref_mut() else { return };
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
        let Some(open) = self.slots[number as usize].as_deref_mut() else { return };
        if open.transaction.is_some() {
            open.attend(now);
            open.connection.close_if_done(now);
        }
        for end in [End::To, End::From] {
            open.connection.transmit(now, end, carrier);
        }
        let wait = open.waits[0].until.min(open.waits[1].until);
        carrier.wake(Wake::Wait(number), if open.transaction.is_some() { wait } else { Time::MAX });
        if open.transaction.is_some() && open.connection.ends.iter().any(|end| end.closed().is_some()) {
            self.close(now, number);
        }
        self.reclaim(now, number);
    }

    /// The visit of a connection is over.
    fn close(&mut self, now: Time, number: u32) {
        let Some(open) = self.slots[number as usize].as_deref_mut() else { return };
        let Some(transaction) = open.transaction.take() else { return };
        let has_failed = !open.connection.client().has_closed;
        self.ledger.close(&transaction, SenderTotals::default(), has_failed);
        self.visits.ended(now, transaction.number());
    }

    /// Frees a slot whose connection is gone.
    fn reclaim(&mut self, now: Time, number: u32) {
        let slot = &mut self.slots[number as usize];
        let is_over = |open: &mut Box<Open>| open.transaction.is_none() && open.connection.is_over();
        if let Some(mut open) = slot.take_if(is_over) {
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
    fn react(&mut self, now: Time, carrier: &mut dyn Carrier) {
        while !self.ledger.has_ended() {
            if let Some(woken) = self.visits.woken() {
                let is_woken = |slot: &Option<Box<Open>>| {
                    let transaction = slot.as_ref().and_then(|open| open.transaction.as_ref());
                    transaction.is_some_and(|transaction| transaction.number() == woken)
                };
                if let Some(number) = self.slots.iter().position(is_woken) {
                    self.turn_of(now, number as u32, carrier);
                }
            } else if let Some(visit) = self.visits.open(now) {
                self.open(now, &visit, carrier);
            } else {
                break;
            }
        }
        carrier.wake(Wake::Instant, self.next_instant());
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
            let Some(open) = self.slots[number].as_deref_mut() else { continue };
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

impl QuicFlow for QuicBrowser<'_> {
    fn arrived(&mut self, now: Time, at: Place, datagram: &[u8], ecn: Ecn) {
        if let Some(open) = self.slots[at.leg as usize].as_deref_mut() {
            open.connection.arrived(now, at.end, datagram, ecn);
        }
    }

    fn turn(&mut self, now: Time, at: Place, carrier: &mut dyn Carrier) {
        self.turn_of(now, at.leg, carrier);
        self.react(now, carrier);
    }

    fn dropped(&mut self, now: Time, connection: u32) {
        if let Some(open) = self.slots[connection as usize].as_deref_mut() {
            open.connection.dropped();
        }
        self.reclaim(now, connection);
    }

    fn on_timer(&mut self, now: Time, at: Place, carrier: &mut dyn Carrier) {
        if let Some(open) = self.slots[at.leg as usize].as_deref_mut() {
            open.connection.on_timer(now, at.end);
        }
        self.turn(now, at, carrier);
    }

    fn on_wait(&mut self, now: Time, connection: u32, carrier: &mut dyn Carrier) {
        self.turn_of(now, connection, carrier);
        self.react(now, carrier);
    }

    fn on_instant(&mut self, now: Time, carrier: &mut dyn Carrier) {
        let sent = sent_by_all(self.closed.as_ref(), &mut self.slots);
        self.ledger.on_instant(now, once(sent));
        if now >= self.ledger.end() && !self.ledger.has_ended() {
            self.finish(now, Outcome::Completed);
            for number in 0..self.slots.len() {
                if let Some(open) = self.slots[number].as_deref_mut() {
                    open.connection.client().endpoint.close(now, 0);
                }
                self.turn_of(now, number as u32, carrier);
            }
            carrier.flow_ended(now);
        }
        self.react(now, carrier);
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
        self.slots.iter().flatten().map(|open| u64::from(open.connection.outstanding)).sum()
    }

    fn missed_timer(&self, due: &dyn Fn(Place) -> Option<Time>) -> Option<Time> {
        self.slots.iter().flatten().find_map(|open| open.connection.missed_timer(due))
    }

    fn take_qlogs(&mut self) -> Vec<(End, String, Vec<u8>)> {
        let open: Vec<_> = self.slots.iter_mut().flatten().flat_map(|open| open.take_qlogs()).collect();
        std::mem::take(&mut self.qlogs).into_iter().chain(open).collect()
    }

    fn write(&mut self, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        if let Some(closed) = &self.closed {
            closed.fill(&mut row);
        }
        row.transport = "quic".into();
        row.passed_proxies = Some(self.of.quic.passed);
        row.handshake_ms = self.established.map(Time::as_millis_f64);
        let sent = self.closed.as_ref().map(QuicColumns::counts).unwrap_or_default();
        self.ledger.write_counted(row, sent, stop, tables);
    }
}

/// Packets that the servers of all connections have sent.
fn sent_by_all(closed: Option<&QuicColumns>, slots: &mut [Option<Box<Open>>]) -> SenderTotals {
    let open: u64 = slots.iter_mut().flatten().filter_map(|open| open.connection.counts().packets).sum();
    let closed = closed.and_then(|closed| closed.counts().packets).unwrap_or_default();
    SenderTotals { packets: open + closed, retransmitted: 0, timeouts: 0 }
}
