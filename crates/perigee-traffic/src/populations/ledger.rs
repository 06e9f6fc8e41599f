//! The ledger of a population: what all its connections carry together, and the transaction of each. Every engine fills the same
//! one, and keeps only its endpoints or sockets.

use perigee_results::{
    Amount, FlowId, FlowRow, Measure, Meter, Outcome, ResponseLog, SenderCounts, SenderState, SeriesRow, Tables,
    Transaction,
};
use perigee_units::{Stream, Time};

use super::source::Visit;
use super::visits::Visits;
use super::{Population, Visitors};
use crate::script::share_of_time;

/// The ledger of one population.
pub struct Ledger {
    meter: Meter,
    log: ResponseLog,
    /// Writes the rows specific to this kind of population; `None` without any.
    visits: Option<Visits>,
    /// When the population ends by itself.
    end: Time,
    /// Senders of closed connections.
    closed: SenderTotals,
    outcome: Outcome,
}

/// The transaction of an open connection, and the payload that its user has received.
#[derive(Clone, Copy, Debug)]
pub struct OpenTransaction {
    transaction: Transaction,
    received: u64,
    arrived: u64,
    is_complete: bool,
}

/// Counts of the sender of a connection since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderTotals {
    /// Data packets, retransmissions included.
    pub packets: u64,
    /// Retransmissions.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

impl Population {
    /// The visits of a flow that starts at `start`, and its ledger, which draws the sample of transactions from `sample`; equal
    /// streams make equal visits.
    pub fn begin(&self, start: Time, [random, sample]: [Stream; 2], measure: &Measure) -> (Visits, Ledger) {
        let visits = self.visits(start, random);
        let ledger = Ledger {
            meter: Meter::new(start, measure, Some(Amount::Duration(self.duration))),
            log: self.log(start + self.warmup, sample),
            visits: visits.share(),
            end: start + self.duration,
            closed: SenderTotals::default(),
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
        &self.meter
    }

    /// When the population ends by itself.
    pub fn end(&self) -> Time {
        self.end
    }

    /// Whether the flow has ended.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.meter.end().is_some()
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
        self.end.min(self.meter.next_instant())
    }

    /// Enters a connection that is opened now.
    pub fn begin(&mut self, now: Time, visit: &Visit) -> OpenTransaction {
        self.log.begin(now, visit.response);
        let Visit { number, request, response, .. } = *visit;
        let transaction = Transaction { number, request, response, opened: now, established: None, asked: None };
        OpenTransaction { transaction, received: 0, arrived: 0, is_complete: false }
    }

    /// Adds a round trip that a sender has measured.
    #[inline]
    pub fn round_trip(&mut self, round_trip: Time) {
        self.meter.round_trip(round_trip);
    }

    /// Adds the payload at a user: `received` bytes in order so far, of `arrived` in all. True if [`Ledger::record_progress`] is
    /// due.
    #[inline]
    pub fn deliver(&mut self, now: Time, open: &mut OpenTransaction, received: u64, arrived: u64) -> bool {
        if arrived == open.arrived && received == open.received {
            return false;
        }
        let received_in_all = self.meter.received() + received - open.received;
        let arrived_in_all = self.meter.arrived() + arrived - open.arrived;
        (open.received, open.arrived) = (received, arrived);
        self.meter.deliver(now, received_in_all, arrived_in_all)
    }

    /// Logs a response of which the last byte has been delivered. True if this has completed the transaction.
    #[inline]
    pub fn complete(&mut self, now: Time, open: &mut OpenTransaction) -> bool {
        let completes = !open.is_complete && open.received >= open.transaction.response;
        if completes {
            open.is_complete = true;
            self.log.complete(now, &open.transaction);
        }
        completes
    }

    /// Records what the delivered bytes have reached; `open` are the senders of all open connections.
    #[cold]
    pub fn record_progress(&mut self, now: Time, open: impl Iterator<Item = SenderTotals>) {
        self.meter.record_progress(now, self.sent(open));
    }

    /// Records the boundaries of phases that are due by now.
    pub fn on_instant(&mut self, now: Time, open: impl Iterator<Item = SenderTotals>) {
        let at = self.meter.next_instant();
        if at <= now {
            self.record_progress(at, open);
        }
    }

    /// Enters that a connection is closed at both ends, or has failed.
    pub fn close(&mut self, open: &OpenTransaction, sender: SenderTotals, has_failed: bool) {
        self.closed.add(sender);
        if has_failed && !open.is_complete {
            self.log.fail(&open.transaction);
        }
    }

    /// Ends the flow at `end`, with the connections that are still open.
    pub fn finish(&mut self, end: Time, outcome: Outcome, open: impl Iterator<Item = (OpenTransaction, SenderTotals)>) {
        for (open, sender) in open {
            self.closed.add(sender);
            if !open.is_complete {
                self.log.leave(&open.transaction);
            }
        }
        self.outcome = outcome;
        self.meter.finish(end);
    }

    /// The row of the series that ends at `now`.
    pub fn series_row(
        &mut self,
        now: Time,
        id: FlowId<'_>,
        open: impl Iterator<Item = SenderTotals>,
    ) -> Option<SeriesRow> {
        let state = SenderState { acked_bytes: self.meter.received(), ..SenderState::default() };
        self.meter.series_row(now, id, self.sent(open), state)
    }

    /// Progress from 0 to 1.
    pub fn progress(&self, now: Time) -> f64 {
        let start = self.meter.start();
        share_of_time(now.max(start), start, self.end)
    }

    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends there.
    pub fn write(&self, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        self.meter.fill(&mut row, stop, self.closed.counts());
        row.set_outcome(self.outcome);
        row.rto_count = Some(self.closed.timeouts as u32);
        self.log.write(FlowId::of(&row), tables);
        if let Some(visits) = &self.visits {
            visits.write(FlowId::of(&row), tables);
        }
        self.meter.write_flow(row, tables);
    }

    /// The packets of all connections so far.
    fn sent(&self, open: impl Iterator<Item = SenderTotals>) -> SenderCounts {
        let mut totals = self.closed;
        open.for_each(|sender| totals.add(sender));
        totals.counts()
    }
}

impl OpenTransaction {
    /// Its number in the population.
    pub fn number(&self) -> u32 {
        self.transaction.number
    }

    /// Payload that its user has received in order.
    pub fn received(&self) -> u64 {
        self.received
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

impl SenderTotals {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
    }

    fn counts(self) -> SenderCounts {
        SenderCounts::counted(self.packets, self.retransmitted)
    }
}
