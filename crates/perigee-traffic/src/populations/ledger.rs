//! The ledger of a population: what all its connections carry together, and the transaction of each. Every engine fills the same
//! one, and keeps only its endpoints or sockets.

use perigee_results::{
    Amount, FlowId, FlowRow, Measure, Meter, Outcome, ResponseLog, SenderCounts, SeriesRow, Tables, Transaction,
};
use perigee_units::{Stream, Time};

use super::carried::{Carried, Delivered, SenderTotals};
use super::source::Visit;
use super::visits::Visits;
use super::{Population, Visitors};
use crate::script::share_of_time;

/// The ledger of one population.
pub struct Ledger {
    carried: Carried,
    log: ResponseLog,
    /// Writes the rows specific to this kind of population; `None` without any.
    visits: Option<Visits>,
    /// When the population ends by itself.
    end: Time,
    outcome: Outcome,
}

/// The transaction of an open connection, and the payload that its user has received.
#[derive(Clone, Copy, Debug)]
pub struct OpenTransaction {
    transaction: Transaction,
    delivered: Delivered,
    is_complete: bool,
}

impl Population {
    /// The visits of a flow that starts at `start`, and its ledger, which draws the sample of transactions from `sample`; equal
    /// streams make equal visits. `is_split`: proxies split the connections.
    pub fn begin(
        &self,
        start: Time,
        [random, sample]: [Stream; 2],
        measure: &Measure,
        is_split: bool,
    ) -> (Visits, Ledger) {
        let visits = self.visits(start, random);
        let ledger = Ledger {
            carried: Carried::new(start, Amount::Duration(self.duration), measure, !is_split),
            log: self.log(start + self.warmup, sample),
            visits: visits.share(),
            end: start + self.duration,
            outcome: Outcome::TimeLimit,
        };
        (visits, ledger)
    }

    fn log(&self, from: Time, sample: Stream) -> ResponseLog {
        match self.source {
            Visitors::Pages(_) => ResponseLog::of_none(),
            Visitors::Transactions(_) => ResponseLog::of_all(self.classes(), from),
            Visitors::Web(_) => ResponseLog::of_a_sample(self.classes(), from, sample),
        }
    }
}

impl Ledger {
    /// The flow's meter.
    pub fn meter(&self) -> &Meter {
        self.carried.meter()
    }

    /// When the population ends by itself.
    pub fn end(&self) -> Time {
        self.end
    }

    /// Whether the flow has ended.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.meter().end().is_some()
    }

    /// Whether what happens at `now` belongs to the flow.
    #[inline]
    pub fn counts(&self, now: Time) -> bool {
        now < self.end && !self.has_ended()
    }

    /// The next instant at which [`Ledger::on_instant`] or [`Ledger::finish`] is due; [`Time::MAX`] after the end.
    pub fn next_instant(&self) -> Time {
        if self.has_ended() {
            return Time::MAX;
        }
        self.end.min(self.meter().next_instant())
    }

    /// Enters a connection that is opened now.
    pub fn begin(&mut self, now: Time, visit: &Visit) -> OpenTransaction {
        self.log.begin(now, visit.response);
        let Visit { number, request, response, .. } = *visit;
        let transaction = Transaction { number, request, response, opened: now, established: None, asked: None };
        OpenTransaction { transaction, delivered: Delivered::default(), is_complete: false }
    }

    /// Adds a round trip that a sender has measured.
    #[inline]
    pub fn round_trip(&mut self, round_trip: Time) {
        self.carried.round_trip(round_trip);
    }

    /// Adds the payload at a user: `received` bytes in order so far, of `arrived` in all. True if [`Ledger::record_progress`] is
    /// due.
    #[inline]
    pub fn deliver(&mut self, now: Time, open: &mut OpenTransaction, received: u64, arrived: u64) -> bool {
        self.carried.deliver(now, &mut open.delivered, Delivered { received, arrived });
        self.carried.is_due()
    }

    /// Logs a response of which the last byte has been delivered. True if this has completed the transaction.
    #[inline]
    pub fn complete(&mut self, now: Time, open: &mut OpenTransaction) -> bool {
        let completes = !open.is_complete && open.delivered.received >= open.transaction.response;
        if completes {
            open.is_complete = true;
            self.log.complete(now, &open.transaction);
        }
        completes
    }

    /// Records what the delivered bytes have reached; `open` are the senders of all open connections.
    #[cold]
    pub fn record_progress(&mut self, now: Time, open: impl Iterator<Item = SenderTotals>) {
        self.carried.record_progress(now, open);
    }

    /// Records the boundaries of phases that are due by now.
    pub fn on_instant(&mut self, now: Time, open: impl Iterator<Item = SenderTotals>) {
        self.carried.on_instant(now, open);
    }

    /// Enters that a connection is closed at both ends, or has failed.
    pub fn close(&mut self, open: &OpenTransaction, sender: SenderTotals, has_failed: bool) {
        self.carried.close(sender);
        if has_failed && !open.is_complete {
            self.log.fail(&open.transaction);
        }
    }

    /// Ends the flow at `end`, with the connections that are still open.
    pub fn finish(&mut self, end: Time, outcome: Outcome, open: impl Iterator<Item = (OpenTransaction, SenderTotals)>) {
        for (open, sender) in open {
            self.carried.close(sender);
            if !open.is_complete {
                self.log.leave(&open.transaction);
            }
        }
        self.outcome = outcome;
        self.carried.finish(end);
    }

    /// The row of the series that ends at `now`.
    pub fn series_row(
        &mut self,
        now: Time,
        id: FlowId<'_>,
        open: impl Iterator<Item = SenderTotals>,
    ) -> Option<SeriesRow> {
        self.carried.series_row(now, id, open)
    }

    /// Progress from 0 to 1.
    pub fn progress(&self, now: Time) -> f64 {
        let start = self.meter().start();
        share_of_time(now.max(start), start, self.end)
    }

    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends there.
    pub fn write(&self, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        self.carried.fill(&mut row, stop);
        self.write_rows(row, tables);
    }

    /// Adds a flow to the tables whose senders have counted these packets themselves; `row` has the columns of its connections too.
    pub fn write_counted(&self, mut row: FlowRow, sent: SenderCounts, stop: Time, tables: &mut Tables) {
        self.meter().fill(&mut row, stop, sent);
        self.write_rows(row, tables);
    }

    fn write_rows(&self, mut row: FlowRow, tables: &mut Tables) {
        row.set_outcome(self.outcome);
        self.log.write(FlowId::of(&row), tables);
        if let Some(visits) = &self.visits {
            visits.write(FlowId::of(&row), tables);
        }
        self.meter().write_flow(row, tables);
    }
}

impl OpenTransaction {
    /// Its number in the population.
    pub fn number(&self) -> u32 {
        self.transaction.number
    }

    /// Payload that its user has received in order.
    pub fn received(&self) -> u64 {
        self.delivered.received
    }

    /// The handshake has ended at the user; later calls change nothing.
    pub fn establish(&mut self, now: Time) {
        self.transaction.established.get_or_insert(now);
    }

    /// The user sends the request; later calls change nothing.
    pub fn ask(&mut self, now: Time) {
        self.transaction.asked.get_or_insert(now);
    }
}
