//! Measurements of the legs of sessions: of each leg of a flow's session, and of each leg in all sessions of a population.

use perigee_results::{Amount, FlowId, Measure, Meter, Outcome, SeriesRow, Tables};
use perigee_study::{FlowSpec, Run};
use perigee_traffic::{Carried, Delivered, End, Ledger, SenderTotals};
use perigee_units::Time;

use crate::application::{Socket as _, Stream};
use crate::connection::{sent, state, Account, Connection};

/// Measures the legs of a session; a leg's number counts from 0.
pub(crate) trait LegMeter {
    /// A leg is opened.
    fn opened(&mut self, now: Time, leg: usize);
    /// The end that opens a leg, one of several, has processed a segment.
    fn opener_acted(&mut self, now: Time, leg: usize, host: &impl Stream);
    /// The sender of a leg has measured a round trip.
    fn round_trip(&mut self, leg: usize, rtt: Time);
    /// The receiver of a leg, one of several, may have accepted payload since it had accepted `before`.
    fn took(&mut self, now: Time, leg: usize, before: &mut Delivered, connection: &Connection);
}

/// Measures a flow of one session.
pub(crate) struct FlowMeter<'a> {
    pub(crate) meter: &'a mut Meter,
    /// With proxies, which measure round trips leg by leg.
    pub(crate) legs: Option<&'a mut LegRecords>,
}

impl LegMeter for FlowMeter<'_> {
    fn opened(&mut self, now: Time, leg: usize) {
        if let Some(legs) = self.legs.as_mut().filter(|legs| !legs.is_over) {
            legs.legs[leg].meter = Some(Box::new(Meter::new(now, &legs.measure, Some(legs.amount))));
        }
    }

    #[cold]
    fn opener_acted(&mut self, now: Time, leg: usize, host: &impl Stream) {
        let Some(record) = self.legs.as_mut().map(|legs| &mut legs.legs[leg]) else { return };
        if record.established.is_none() && record.ended.is_none() && host.is_established() {
            record.established = Some(now);
        }
    }

    #[inline]
    fn round_trip(&mut self, leg: usize, rtt: Time) {
        match &mut self.legs {
            None => self.meter.round_trip(rtt),
            Some(legs) => legs.legs[leg].meter.iter_mut().for_each(|meter| meter.round_trip(rtt)),
        }
    }

    #[inline(always)]
    fn took(&mut self, now: Time, leg: usize, _before: &mut Delivered, connection: &Connection) {
        if let Some(legs) = &mut self.legs {
            legs.legs[leg].took(now, legs.opener, connection);
        }
    }
}

/// Measurements of the legs of a flow.
pub(crate) struct LegRecords {
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

impl LegRecords {
    pub(crate) fn new(legs: usize, opener: End, amount: Amount, measure: &Measure) -> Self {
        let legs = (0..legs).map(|_| LegRecord::default()).collect();
        Self { legs, opener, amount, measure: measure.clone(), is_over: false }
    }

    /// An instant that a leg's meter waits for may have come.
    pub(crate) fn on_instant<'a>(&mut self, now: Time, legs: impl Iterator<Item = &'a Connection>) {
        for (record, connection) in self.legs.iter_mut().zip(legs) {
            if let Some(meter) = record.meter.as_mut().filter(|meter| meter.next_instant() <= now) {
                meter.record_progress(now, sent(connection.sender_info().as_ref()));
            }
        }
    }

    /// The next instant that a leg's meter waits for.
    pub(crate) fn next_instant(&self) -> Time {
        let meters = self.legs.iter().filter_map(|record| record.meter.as_ref());
        meters.map(|meter| meter.next_instant()).min().unwrap_or(Time::MAX)
    }

    /// The series rows of the legs for the interval that ends at `now`.
    pub(crate) fn write_series<'a>(
        &mut self,
        now: Time,
        id: FlowId<'_>,
        legs: impl Iterator<Item = &'a Connection>,
        rows: &mut impl FnMut(SeriesRow),
    ) {
        for ((number, record), connection) in (1..).zip(&mut self.legs).zip(legs) {
            let info = record.ended.as_ref().map_or_else(|| connection.sender_info(), |ended| ended.sender.clone());
            let (counts, state) = (sent(info.as_ref()), info.as_ref().map(state).unwrap_or_default());
            if let Some(meter) = &mut record.meter {
                let id = FlowId { leg: Some(number), ..id };
                meter.series_row(now, id, counts, state).map(&mut *rows);
            }
        }
    }

    /// The flow ended: measurements of its legs stop.
    pub(crate) fn finish<'a>(&mut self, now: Time, legs: impl Iterator<Item = &'a Connection>) {
        self.is_over = true;
        for (record, connection) in self.legs.iter_mut().zip(legs) {
            record.end(now, None, self.opener, connection);
        }
    }

    /// Adds the legs to the tables. A leg without an outcome of its own has that of the flow, `outcome`.
    pub(crate) fn write(&mut self, run: &Run, spec: &FlowSpec, outcome: Outcome, stop: Time, tables: &mut Tables) {
        let legs = spec.traffic.tcp().map_or(&[][..], |tcp| &tcp.legs);
        for (number, (leg, record)) in legs.iter().zip(&mut self.legs).enumerate() {
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
    }
}

impl LegRecord {
    /// The end of the leg that receives the data may have accepted payload.
    #[inline(always)]
    fn took(&mut self, now: Time, opener: End, connection: &Connection) {
        let Some(host) = connection.host(End::To) else { return };
        let (received, arrived, is_whole) = (host.received(), host.arrived(), host.peer_closed());
        if let Some(meter) = self.meter.as_mut()
            && meter.deliver(now, received, arrived)
        {
            meter.record_progress(now, sent(connection.sender_info().as_ref()));
        }
        if is_whole {
            self.end(now, Some(Outcome::Completed), opener, connection);
        }
    }

    /// The leg ended, or the flow did.
    #[cold]
    fn end(&mut self, now: Time, outcome: Option<Outcome>, opener: End, connection: &Connection) {
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.end().is_none()) else { return };
        meter.finish(now);
        self.outcome = outcome;
        self.ended = Some(connection.account(now, opener));
    }
}

/// Measures a session of a population.
pub(crate) struct PopulationMeter<'a> {
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) legs: &'a mut PopulationLegs,
}

impl LegMeter for PopulationMeter<'_> {
    fn opened(&mut self, _now: Time, _leg: usize) {}

    fn opener_acted(&mut self, _now: Time, _leg: usize, _host: &impl Stream) {}

    #[inline]
    fn round_trip(&mut self, leg: usize, rtt: Time) {
        if self.legs.legs.is_empty() {
            self.ledger.round_trip(rtt);
        } else {
            self.legs.legs[leg].round_trip(rtt);
        }
    }

    fn took(&mut self, now: Time, leg: usize, before: &mut Delivered, connection: &Connection) {
        let Some(host) = connection.host(End::To) else { return };
        let after = Delivered { received: host.received(), arrived: host.arrived() };
        self.legs.legs[leg].deliver(now, before, after);
    }
}

/// Traffic of each leg in all sessions of a population; empty without proxies.
pub(crate) struct PopulationLegs {
    legs: Vec<Carried>,
}

impl PopulationLegs {
    /// The legs of a flow that begins now; none if it is not split.
    pub(crate) fn new(now: Time, spec: &FlowSpec, measure: &Measure) -> Self {
        let (legs, amount) = (spec.traffic.tcp().map_or(0, |tcp| tcp.legs.len()), spec.traffic.amount());
        Self { legs: (0..legs).map(|_| Carried::new(now, amount, measure, true)).collect() }
    }

    /// Whether a leg has reached what is to be recorded with the counts of its open senders.
    pub(crate) fn is_due(&self) -> bool {
        self.legs.iter().any(Carried::is_due)
    }

    pub(crate) fn record_progress(&mut self, now: Time, open: impl Fn(usize) -> Vec<SenderTotals>) {
        for (number, leg) in self.legs.iter_mut().enumerate().filter(|(_, leg)| leg.is_due()) {
            leg.record_progress(now, open(number).into_iter());
        }
    }

    /// Records the boundaries of phases that are due by now.
    pub(crate) fn on_instant(&mut self, now: Time, open: impl Fn(usize) -> Vec<SenderTotals>) {
        for (number, leg) in self.legs.iter_mut().enumerate().filter(|(_, leg)| leg.meter().next_instant() <= now) {
            leg.on_instant(now, open(number).into_iter());
        }
    }

    /// The next instant for [`PopulationLegs::on_instant`].
    pub(crate) fn next_instant(&self) -> Time {
        self.legs.iter().map(|leg| leg.meter().next_instant()).min().unwrap_or(Time::MAX)
    }

    /// Adds the senders of a connection that is closed, by leg.
    pub(crate) fn close(&mut self, senders: impl Iterator<Item = SenderTotals>) {
        self.legs.iter_mut().zip(senders).for_each(|(leg, sender)| leg.close(sender));
    }

    pub(crate) fn finish(&mut self, now: Time) {
        self.legs.iter_mut().for_each(|leg| leg.finish(now));
    }

    /// The series rows of the legs for the interval that ends at `now`.
    pub(crate) fn write_series(
        &mut self,
        now: Time,
        id: FlowId<'_>,
        open: impl Fn(usize) -> Vec<SenderTotals>,
        rows: &mut impl FnMut(SeriesRow),
    ) {
        for (number, leg) in self.legs.iter_mut().enumerate() {
            let id = FlowId { leg: Some(number as u32 + 1), ..id };
            leg.series_row(now, id, open(number).into_iter()).map(&mut *rows);
        }
    }

    /// Adds the legs to the tables; the flow has this outcome.
    pub(crate) fn write(&self, run: &Run, spec: &FlowSpec, outcome: Outcome, stop: Time, tables: &mut Tables) {
        let legs = spec.traffic.tcp().map_or(&[][..], |tcp| &tcp.legs);
        for ((number, leg), carried) in (0..).zip(legs).zip(&self.legs) {
            let mut row = run.leg_row("sim", spec, number, leg);
            row.set_outcome(outcome);
            carried.write_leg(row, stop, tables);
        }
    }
}
