//! Observes a population: all its connections together, and the transaction of each.

use std::sync::mpsc::Receiver;

use perigee_results::{
    Amount, FlowId, FlowRow, Measure, Meter, Outcome, ResponseLog, SenderCounts, SenderState, SeriesRow, Tables,
    Transaction,
};
use perigee_traffic::{Population, Visit, Visits};
use perigee_units::Time;
use perigee_wire::{Ports, ReceiverView, SenderView, Tcp as Segment};

use crate::run::population_report::{PopulationReport, UserSegment};

/// The observer of a population.
pub(crate) struct PopulationObserver {
    pub(crate) meter: Meter,
    log: ResponseLog,
    /// Measurements of a browser, if the population is one.
    browser: Option<Visits>,
    reports: Receiver<PopulationReport>,
    /// Whether users are behind access delays: their packets are then reported, not observed at the links.
    has_access: bool,
    /// By place: the open connections.
    connections: Vec<Option<Box<OpenConnection>>>,
    end: Time,
    is_over: bool,
    totals: Totals,
    outcome: Outcome,
}

/// An open connection.
struct OpenConnection {
    transaction: Transaction,
    sender: SenderView,
    receiver: ReceiverView,
    is_complete: bool,
}

/// Sums over all connections.
#[derive(Clone, Copy, Default)]
struct Totals {
    received: u64,
    arrived: u64,
    sent: u64,
    retransmitted: u64,
    timeouts: u32,
}

impl PopulationObserver {
    /// The observer of a population whose flow begins at `start`.
    pub(crate) fn new(
        start: Time,
        population: &Population,
        (log, browser): (ResponseLog, Option<Visits>),
        measure: &Measure,
        reports: Receiver<PopulationReport>,
    ) -> Self {
        Self {
            meter: Meter::new(start, measure, Some(Amount::Duration(population.duration))),
            log,
            browser,
            reports,
            has_access: population.has_access_delays(),
            connections: (0..Ports::DISTINCT).map(|_| None).collect(),
            end: start + population.duration,
            is_over: false,
            totals: Totals::default(),
            outcome: Outcome::TimeLimit,
        }
    }

    /// A segment enters its first link, in the direction of the responses or back.
    pub(crate) fn offered(&mut self, now: Time, forward: bool, place: u32, segment: &Segment) {
        self.listen();
        if forward {
            let Some(connection) = connection(&mut self.connections, place) else { return };
            let sender = &mut connection.sender;
            let before = (sender.packets(), sender.retransmitted());
            sender.sent(now, segment);
            if now < self.end {
                self.totals.sent += sender.packets() - before.0;
                self.totals.retransmitted += sender.retransmitted() - before.1;
            }
        } else if !self.has_access {
            self.at_user(now, &UserSegment { place, is_arriving: false, segment: *segment });
        }
    }

    /// A segment leaves its last link.
    pub(crate) fn released(&mut self, now: Time, forward: bool, place: u32, segment: &Segment) {
        self.listen();
        if forward {
            if !self.has_access {
                self.at_user(now, &UserSegment { place, is_arriving: true, segment: *segment });
            }
        } else if let Some(connection) = connection(&mut self.connections, place) {
            if let Some(round_trip) = connection.sender.received(now, segment) {
                self.meter.round_trip(round_trip);
            }
        }
    }

    /// A user sends or receives a segment.
    fn at_user(&mut self, now: Time, UserSegment { place, is_arriving, segment }: &UserSegment) {
        let Some(connection) = connection(&mut self.connections, *place) else { return };
        if now >= self.end || self.meter.end().is_some() {
            return;
        }
        let transaction = &mut connection.transaction;
        if !is_arriving {
            if segment.payload > 0 {
                transaction.asked.get_or_insert(now);
            }
            return;
        }
        if segment.syn {
            transaction.established.get_or_insert(now);
        }
        let receiver = &mut connection.receiver;
        let before = (receiver.received(), receiver.arrived());
        receiver.segment(segment);
        self.totals.received += receiver.received() - before.0;
        self.totals.arrived += receiver.arrived() - before.1;
        if receiver.arrived() == before.1 {
            return;
        }
        if !connection.is_complete && receiver.received() >= transaction.response {
            connection.is_complete = true;
            self.log.complete(now, transaction);
        }
        if self.meter.deliver(now, self.totals.received, self.totals.arrived) {
            self.meter.record_progress(now, self.sent());
        }
    }

    /// Takes the reports up to now.
    fn listen(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            match report {
                PopulationReport::Opened { at, place, visit } => self.open(at, place, &visit),
                PopulationReport::Segment { at, segment } => self.at_user(at, &segment),
                PopulationReport::Ended { place, has_failed, timeouts } => {
                    self.totals.timeouts += timeouts;
                    let ended =
                        self.connections[place as usize].take().filter(|ended| has_failed && !ended.is_complete);
                    if let Some(failed) = ended {
                        self.log.fail(&failed.transaction);
                    }
                }
                PopulationReport::Over { timeouts } => {
                    self.totals.timeouts += timeouts;
                    self.is_over = true;
                }
            }
        }
    }

    fn open(&mut self, at: Time, place: u32, visit: &Visit) {
        self.log.begin(at, visit.response);
        let transaction = Transaction {
            number: visit.number,
            request: visit.request,
            response: visit.response,
            opened: at,
            established: None,
            asked: None,
        };
        self.connections[place as usize] = Some(Box::new(OpenConnection {
            transaction,
            sender: SenderView::default(),
            receiver: ReceiverView::default(),
            is_complete: false,
        }));
    }

    /// Handles what is due of a flow that has not ended; returns the time of the next call.
    pub(crate) fn step(&mut self, now: Time) -> Time {
        self.listen();
        if self.is_over {
            self.leave();
            self.outcome = Outcome::Completed;
            self.meter.finish(self.end);
            return Time::MAX;
        }
        if self.meter.next_instant() <= now {
            let at = self.meter.next_instant();
            self.meter.record_progress(at, self.sent());
        }
        // After its end, it waits for the last report.
        let end = if now < self.end { self.end } else { Time::MAX };
        end.min(self.meter.next_instant())
    }

    /// Leaves open connections unfinished.
    fn leave(&mut self) {
        for left in self.connections.iter_mut().filter_map(Option::take).filter(|left| !left.is_complete) {
            self.log.leave(&left.transaction);
        }
    }

    /// Ends the flow at the run's time limit.
    pub(crate) fn cut_off(&mut self, now: Time) {
        self.leave();
        self.meter.finish(now);
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        let state = SenderState { acked_bytes: self.totals.received, ..SenderState::default() };
        self.meter.series_row(now, id, self.sent(), state)
    }

    /// Progress from 0 to 1.
    pub(crate) fn share_done(&self, now: Time) -> f64 {
        let length = (self.end - self.meter.start()).as_secs_f64();
        let spent = now.checked_sub(self.meter.start()).unwrap_or_default().as_secs_f64();
        (spent / length.max(1e-9)).min(1.0)
    }

    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends there.
    pub(crate) fn write(&self, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        self.meter.fill(&mut row, stop, self.sent());
        row.set_outcome(self.outcome);
        row.rto_count = Some(self.totals.timeouts);
        self.log.write(FlowId::of(&row), tables);
        if let Some(browser) = &self.browser {
            browser.write(FlowId::of(&row), tables);
        }
        self.meter.write_flow(row, tables);
    }

    fn sent(&self) -> SenderCounts {
        SenderCounts::counted(self.totals.sent, self.totals.retransmitted)
    }
}

fn connection(connections: &mut [Option<Box<OpenConnection>>], place: u32) -> Option<&mut OpenConnection> {
    connections.get_mut(place as usize)?.as_deref_mut()
}
