//! The legs of a population's connections: what each leg carries in all of them.

use perigee_results::{FlowId, Measure, Outcome, SeriesRow, Tables};
use perigee_study::{FlowSpec, Run};
use perigee_tcp::Endpoint;
use perigee_traffic::{Carried, Delivered, End, SenderTotals};
use perigee_units::Time;

use crate::chain::LegMeter;
use crate::connection::Connection;

/// What the legs of all connections carry, by leg.
pub(crate) struct PopulationLegs {
    legs: Vec<Carried>,
}

/// Measures the legs of one open connection.
pub(crate) struct VisitMeter<'a> {
    pub(crate) legs: &'a mut PopulationLegs,
    /// By leg: what its receiver has accepted.
    pub(crate) delivered: &'a mut [Delivered],
}

impl PopulationLegs {
    /// The legs of a flow that begins now; none if it is not split.
    pub(crate) fn new(now: Time, spec: &FlowSpec, measure: &Measure) -> Self {
        let (legs, amount) = (spec.traffic.tcp().map_or(0, |tcp| tcp.legs.len()), spec.traffic.amount());
        Self { legs: (0..legs).map(|_| Carried::new(now, amount, measure, true)).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.legs.len()
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

impl LegMeter for VisitMeter<'_> {
    fn opened(&mut self, _now: Time, _leg: usize) {}

    fn opener_acted(&mut self, _now: Time, _leg: usize, _host: &Endpoint) {}

    fn round_trip(&mut self, leg: usize, rtt: Time) {
        self.legs.legs[leg].round_trip(rtt);
    }

    fn took(&mut self, now: Time, leg: usize, connection: &Connection) {
        let Some(host) = connection.ends[End::To as usize].as_deref() else { return };
        let after = Delivered { received: host.received(), arrived: host.arrived() };
        self.legs.legs[leg].deliver(now, &mut self.delivered[leg], after);
    }
}
