//! The traffic of all connections of a population together, or of one leg of each of them.

use perigee_results::{Amount, FlowId, FlowRow, Measure, Meter, SenderCounts, SenderState, SeriesRow, Tables};
use perigee_units::Time;

/// Payload and packets of many connections, open and closed.
pub struct Carried {
    meter: Meter,
    /// Senders of closed connections; `None` if proxies split the connections, which then have no sender from end to end.
    closed: Option<SenderTotals>,
    /// Whether [`Carried::record_progress`] is due.
    is_due: bool,
}

/// Payload that the receiver of one open connection has accepted, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivered {
    /// In order.
    pub received: u64,
    /// In all.
    pub arrived: u64,
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

impl Carried {
    /// Nothing yet of a flow that starts at `start`; `has_senders` if each connection has one sender.
    pub fn new(start: Time, amount: Amount, measure: &Measure, has_senders: bool) -> Self {
        let closed = has_senders.then(SenderTotals::default);
        Self { meter: Meter::new(start, measure, Some(amount)), closed, is_due: false }
    }

    /// The meter.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Adds a round trip that a sender has measured.
    #[inline]
    pub fn round_trip(&mut self, round_trip: Time) {
        if self.closed.is_some() {
            self.meter.round_trip(round_trip);
        }
    }

    /// Adds the payload at a receiver, which `before` keeps.
    #[inline]
    pub fn deliver(&mut self, now: Time, before: &mut Delivered, after: Delivered) {
        if after.arrived == before.arrived && after.received == before.received {
            return;
        }
        let received = self.meter.received() + after.received - before.received;
        let arrived = self.meter.arrived() + after.arrived - before.arrived;
        *before = after;
        self.is_due |= self.meter.deliver(now, received, arrived);
    }

    /// Whether [`Carried::record_progress`] is due.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Records what the delivered bytes have reached; `open` are the senders of all open connections.
    #[cold]
    pub fn record_progress(&mut self, now: Time, open: impl Iterator<Item = SenderTotals>) {
        self.is_due = false;
        self.meter.record_progress(now, self.sent(open));
    }

    /// Records the boundaries of phases that are due by now.
    pub fn on_instant(&mut self, now: Time, open: impl Iterator<Item = SenderTotals>) {
        let at = self.meter.next_instant();
        if at <= now {
            self.record_progress(at, open);
        }
    }

    /// Adds the sender of a connection that is closed.
    pub fn close(&mut self, sender: SenderTotals) {
        if let Some(closed) = &mut self.closed {
            closed.add(sender);
        }
    }

    /// Measurements stop at `end`.
    pub fn finish(&mut self, end: Time) {
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

    /// Writes the columns of what was carried by `stop` to a row of flows.
    pub(super) fn fill(&self, row: &mut FlowRow, stop: Time) {
        self.meter.fill(row, stop, counts(self.closed));
        row.rto_count = self.closed.map(|closed| closed.timeouts as u32);
    }

    /// Adds one leg of each connection to the tables; `row` has its description.
    pub fn write_leg(&self, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        self.fill(&mut row, stop);
        self.meter.write_flow(row, tables);
    }

    /// The packets of all connections so far.
    fn sent(&self, open: impl Iterator<Item = SenderTotals>) -> SenderCounts {
        let mut totals = self.closed;
        if let Some(totals) = &mut totals {
            open.for_each(|sender| totals.add(sender));
        }
        counts(totals)
    }
}

impl SenderTotals {
    fn add(&mut self, other: Self) {
        self.replace(Self::default(), other);
    }

    /// Counts `now` in the place of `before`, which is part of this sum.
    #[inline]
    pub fn replace(&mut self, before: Self, now: Self) {
        self.packets = self.packets + now.packets - before.packets;
        self.retransmitted = self.retransmitted + now.retransmitted - before.retransmitted;
        self.timeouts = self.timeouts + now.timeouts - before.timeouts;
    }
}

fn counts(totals: Option<SenderTotals>) -> SenderCounts {
    totals.map_or(SenderCounts::default(), |totals| SenderCounts::counted(totals.packets, totals.retransmitted))
}
