//! A flow's connection in legs, each with its own measurements.

use perigee_results::{Amount, FlowId, Measure, Meter, Outcome, SeriesRow, Tables};
use perigee_study::{FlowSpec, Leg, Run};
use perigee_tcp::{Endpoint, Header, Segment};
use perigee_traffic::End;
use perigee_units::Time;

use crate::chain::{Chain, LegMeter};
use crate::connection::{sent, state, Account, Connection};
use crate::world::World;

/// The further legs of a flow with the proxies between them, and the measurements of all legs.
pub(crate) struct Split {
    chain: Chain,
    records: LegRecords,
}

/// Measurements of each leg, including the first.
struct LegRecords {
    legs: Vec<LegRecord>,
    opener: End,
    amount: Amount,
    measure: Measure,
    is_over: bool,
}

#[derive(Default)]
struct LegRecord {
    /// Starts when the leg is opened.
    meter: Option<Box<Meter>>,
    established: Option<Time>,
    outcome: Option<Outcome>,
    ended: Option<Account>,
}

impl Split {
    /// The legs `rest` after the first.
    pub(crate) fn new(
        rest: Vec<Connection>,
        legs: &[Leg],
        opener: End,
        instant: u32,
        (amount, measure): (Amount, &Measure),
    ) -> Self {
        let records = LegRecords {
            legs: legs.iter().map(|_| LegRecord::default()).collect(),
            opener,
            amount,
            measure: measure.clone(),
            is_over: false,
        };
        Self { chain: Chain::new(rest, legs, opener, instant), records }
    }

    /// Opens the leg of the flow's opener.
    pub(crate) fn begin(&mut self, now: Time, first: &mut Connection) {
        self.chain.begin(now, first, &mut self.records);
    }

    pub(crate) fn rest(&self) -> &[Connection] {
        self.chain.rest()
    }

    pub(crate) fn last(&self) -> &Connection {
        self.chain.last()
    }

    pub(crate) fn last_mut(&mut self) -> &mut Connection {
        self.chain.last_mut()
    }

    /// Processes a segment at an end of a leg. Returns true if the end is one of the flow's, which then sends.
    pub(crate) fn on_segment(
        &mut self,
        now: Time,
        at: (u32, End),
        segment: (&Segment, bool),
        first: &mut Connection,
        world: &mut World,
    ) -> bool {
        self.chain.on_segment(now, at, segment, first, &mut self.records, world)
    }

    /// [`Chain::on_header`] at an end of a leg.
    #[inline]
    pub(crate) fn on_header(
        &mut self,
        now: Time,
        at: (u32, End),
        header: &Header,
        first: &mut Connection,
        world: &mut World,
    ) -> Option<bool> {
        self.chain.on_header(now, at, header, first, &mut self.records, world)
    }

    /// Runs the timer of an end of a leg, which may be early. Returns true if the end is one of the flow's and something was due.
    pub(crate) fn on_timer(&mut self, now: Time, at: (u32, End), first: &mut Connection, world: &mut World) -> bool {
        self.chain.on_timer(now, at, first, &mut self.records, world)
    }

    /// An instant that a leg's meter waits for has come, or a proxy has memory again.
    pub(crate) fn on_instant(&mut self, now: Time, first: &mut Connection, world: &mut World) {
        for (record, connection) in self.records.legs.iter_mut().zip(self.chain.legs(first)) {
            if let Some(meter) = record.meter.as_mut().filter(|meter| meter.next_instant() <= now) {
                meter.record_progress(now, sent(connection.sender_info().as_ref()));
            }
        }
        self.chain.on_instant(now, first, &mut self.records, world);
    }

    /// The next instant that a leg's meter waits for.
    pub(crate) fn next_instant(&self) -> Time {
        let meters = self.records.legs.iter().filter_map(|record| record.meter.as_ref());
        meters.map(|meter| meter.next_instant()).min().unwrap_or(Time::MAX)
    }

    /// The series rows of the legs for the interval that ends at `now`.
    pub(crate) fn write_series(
        &mut self,
        now: Time,
        id: FlowId<'_>,
        first: &Connection,
        rows: &mut impl FnMut(SeriesRow),
    ) {
        for ((number, record), connection) in (1..).zip(&mut self.records.legs).zip(self.chain.legs(first)) {
            let info = record.ended.as_ref().map_or_else(|| connection.sender_info(), |ended| ended.sender.clone());
            let (counts, state) = (sent(info.as_ref()), info.as_ref().map(state).unwrap_or_default());
            if let Some(meter) = &mut record.meter {
                let id = FlowId { leg: Some(number), ..id };
                meter.series_row(now, id, counts, state).map(&mut *rows);
            }
        }
    }

    /// Adds the flow's connections and unread bytes to the proxies' states.
    pub(crate) fn add_to(&self, first: &Connection, proxies: &mut [(u32, u64)]) {
        self.chain.add_to(first, proxies);
    }

    /// The flow ended: measurements of its legs stop.
    pub(crate) fn finish(&mut self, now: Time, first: &Connection) {
        self.records.is_over = true;
        for (record, connection) in self.records.legs.iter_mut().zip(self.chain.legs(first)) {
            record.end(now, None, self.records.opener, connection);
        }
    }

    /// Adds the legs to the tables. A leg without an outcome of its own has that of the flow, `outcome`.
    pub(crate) fn write(&mut self, run: &Run, spec: &FlowSpec, outcome: Outcome, stop: Time, tables: &mut Tables) {
        let legs = spec.traffic.tcp().map_or(&[][..], |tcp| &tcp.legs);
        for (number, (leg, record)) in legs.iter().zip(&mut self.records.legs).enumerate() {
            let mut row = run.leg_row("sim", spec, number as u32, leg);
            row.set_outcome(record.outcome.unwrap_or(outcome));
            row.rto_count = Some(record.ended.as_ref().map_or(0, |ended| ended.timeouts as u32));
            row.set_limits(&record.ended.as_ref().map(|ended| ended.limits).unwrap_or_default());
            let Some(meter) = record.meter.take() else {
                tables.flows.push(row);
                continue;
            };
            meter.fill(&mut row, stop, sent(record.ended.as_ref().and_then(|ended| ended.sender.as_ref())));
            row.handshake_ms = record.established.map(|at| (at - meter.start()).as_millis_f64());
            meter.write_flow(row, tables);
        }
        for (number, connection) in (2..).zip(self.chain.rest_mut()) {
            if let Some(log) = connection.log.take() {
                log.write(FlowId { run: run.index, flow: &spec.name, leg: Some(number) }, tables);
            }
        }
    }
}

impl LegMeter for LegRecords {
    fn opened(&mut self, now: Time, leg: usize) {
        if !self.is_over {
            self.legs[leg].meter = Some(Box::new(Meter::new(now, &self.measure, Some(self.amount))));
        }
    }

    fn opener_acted(&mut self, now: Time, leg: usize, host: &Endpoint) {
        let record = &mut self.legs[leg];
        if record.established.is_none() && record.ended.is_none() && host.is_established() {
            record.established = Some(now);
        }
    }

    fn round_trip(&mut self, leg: usize, rtt: Time) {
        if let Some(meter) = self.legs[leg].meter.as_mut() {
            meter.round_trip(rtt);
        }
    }

    fn took(&mut self, now: Time, leg: usize, connection: &Connection) {
        self.legs[leg].took(now, self.opener, connection);
    }
}

impl LegRecord {
    /// The end of the leg that receives the data may have accepted payload.
    fn took(&mut self, now: Time, opener: End, connection: &Connection) {
        let Some(host) = connection.ends[End::To as usize].as_deref() else { return };
        let (received, arrived, is_whole) = (host.received(), host.arrived(), host.peer_closed());
        if let Some(meter) = self.meter.as_mut() {
            if meter.deliver(now, received, arrived) {
                meter.record_progress(now, sent(connection.sender_info().as_ref()));
            }
        }
        if is_whole {
            self.end(now, Some(Outcome::Completed), opener, connection);
        }
    }

    /// The leg ended, or the flow did.
    fn end(&mut self, now: Time, outcome: Option<Outcome>, opener: End, connection: &Connection) {
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.end().is_none()) else { return };
        meter.finish(now);
        self.outcome = outcome;
        self.ended = Some(connection.account(now, opener));
    }
}
