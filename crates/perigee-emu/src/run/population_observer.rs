//! Observes a population: all its connections together, and the transaction of each.

use std::sync::mpsc::Receiver;

use perigee_results::{FlowId, Outcome, SeriesRow};
use perigee_traffic::{Ledger, OpenTransaction, Population, SenderTotals};
use perigee_units::Time;
use perigee_wire::{Ports, ReceiverView, SenderView, Tcp as Segment};

use crate::run::population_report::{PopulationReport, UserSegment};

/// The observer of a population.
pub(crate) struct PopulationObserver {
    pub(crate) ledger: Ledger,
    reports: Receiver<PopulationReport>,
    /// Whether users are behind access delays: their packets are then reported, not observed at the links.
    has_access: bool,
    /// Whether proxies split its connections: round trips are then those of one leg, and not measured.
    is_split: bool,
    /// The open connections, indexed by place.
    connections: Vec<Option<Box<OpenConnection>>>,
    is_over: bool,
}

/// An open connection.
struct OpenConnection {
    transaction: OpenTransaction,
    sender: SenderView,
    receiver: ReceiverView,
    timeouts: u64,
}

impl PopulationObserver {
    /// The observer of a population with this ledger.
    pub(crate) fn new(
        population: &Population,
        is_split: bool,
        ledger: Ledger,
        reports: Receiver<PopulationReport>,
    ) -> Self {
        let connections = (0..Ports::DISTINCT).map(|_| None).collect();
        Self { ledger, reports, has_access: population.has_access_delays(), is_split, connections, is_over: false }
    }

    /// A segment enters its first link, in the direction of the responses or back.
    pub(crate) fn offered(&mut self, now: Time, forward: bool, place: u32, segment: &Segment) {
        self.listen();
        if !forward && !self.has_access {
            self.at_user(now, &UserSegment { place, is_arriving: false, segment: *segment });
        } else if let Some(open) = counted(&mut self.connections, &self.ledger, now, place).filter(|_| forward) {
            open.sender.sent(now, segment);
        }
    }

    /// A segment leaves its last link.
    pub(crate) fn released(&mut self, now: Time, forward: bool, place: u32, segment: &Segment) {
        self.listen();
        if forward && !self.has_access {
            self.at_user(now, &UserSegment { place, is_arriving: true, segment: *segment });
        } else if let Some(open) = counted(&mut self.connections, &self.ledger, now, place).filter(|_| !forward) {
            let handshake = open.sender.handshake(now, segment);
            let round_trip = open.sender.received(now, segment).or(handshake);
            if let Some(round_trip) = round_trip.filter(|_| !self.is_split) {
                self.ledger.round_trip(round_trip);
            }
        }
    }

    /// A user sends or receives a segment.
    fn at_user(&mut self, now: Time, UserSegment { place, is_arriving, segment }: &UserSegment) {
        let Some(open) = counted(&mut self.connections, &self.ledger, now, *place) else { return };
        if !is_arriving {
            if segment.payload > 0 {
                open.transaction.ask(now);
            }
            return;
        }
        if segment.syn {
            open.transaction.establish(now);
        }
        let (transaction, receiver) = (&mut open.transaction, &mut open.receiver);
        receiver.segment(segment);
        let is_due = self.ledger.deliver(now, transaction, receiver.received(), receiver.arrived());
        self.ledger.complete(now, transaction);
        if is_due {
            self.ledger.record_progress(now, senders(&self.connections));
        }
    }

    /// Takes the reports up to now.
    fn listen(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            match report {
                PopulationReport::Opened { at, place, visit } => {
                    self.connections[place as usize] = Some(Box::new(OpenConnection {
                        transaction: self.ledger.begin(at, &visit),
                        sender: SenderView::default(),
                        receiver: ReceiverView::default(),
                        timeouts: 0,
                    }));
                }
                PopulationReport::Segment { at, segment } => self.at_user(at, &segment),
                PopulationReport::Timeouts { place, timeouts } => {
                    if let Some(open) = &mut self.connections[place as usize] {
                        open.timeouts = u64::from(timeouts);
                    }
                }
                PopulationReport::Ended { place, has_failed } => {
                    if let Some(ended) = self.connections[place as usize].take() {
                        self.ledger.close(&ended.transaction, ended.totals(), has_failed);
                    }
                }
                PopulationReport::Over => self.is_over = true,
            }
        }
    }

    /// Handles what is due of a flow that has not ended; returns the time of the next call.
    pub(crate) fn step(&mut self, now: Time) -> Time {
        self.listen();
        if self.is_over {
            self.finish(self.ledger.end(), Outcome::Completed);
        } else {
            self.ledger.on_instant(now, senders(&self.connections));
        }
        // After its end, it waits for the last report.
        if now < self.ledger.end() {
            self.ledger.next_instant()
        } else {
            Time::MAX
        }
    }

    /// Ends the flow, and leaves open connections unfinished.
    pub(crate) fn finish(&mut self, end: Time, outcome: Outcome) {
        let open = self.connections.iter_mut().filter_map(Option::take);
        self.ledger.finish(end, outcome, open.map(|open| (open.transaction, open.totals())));
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        self.ledger.series_row(now, id, senders(&self.connections))
    }
}

impl OpenConnection {
    fn totals(&self) -> SenderTotals {
        let (packets, retransmitted) = (self.sender.packets(), self.sender.retransmitted());
        SenderTotals { packets, retransmitted, timeouts: self.timeouts }
    }
}

/// The senders of open connections.
fn senders(connections: &[Option<Box<OpenConnection>>]) -> impl Iterator<Item = SenderTotals> + '_ {
    connections.iter().flatten().map(|open| open.totals())
}

/// The connection at a place, if the ledger counts its packets at `now`.
fn counted<'c>(
    connections: &'c mut [Option<Box<OpenConnection>>],
    ledger: &Ledger,
    now: Time,
    place: u32,
) -> Option<&'c mut OpenConnection> {
    connections.get_mut(place as usize)?.as_deref_mut().filter(|_| ledger.counts(now))
}
