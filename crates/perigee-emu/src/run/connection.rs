//! Observes a TCP connection at the ends of its links, and the exchanges of its application.

use std::sync::Arc;

use perigee_results::{FlowId, Measure, Meter, Outcome, SenderCounts, SenderState, SeriesRow, Tables};
use perigee_study::{FlowSpec, Run, Tcp};
use perigee_traffic::App;
use perigee_units::Time;
use perigee_wire::{ReceiverView, SenderView, Tcp as Segment};

use crate::os::tcp_info::TcpInfo;
use crate::run::legs::Legs;
use crate::run::limits::Limits;
use crate::run::tcp_report::TcpReport;

/// The observer of a connection.
pub(crate) struct ConnectionObserver {
    pub(crate) meter: Meter,
    /// For an application with exchanges: the requests sent by `to`.
    requests: Option<ReceiverView>,
    /// When the flow is complete, regardless of the data delivered.
    ends_at: Time,
    /// Whether TCP paces it.
    paced: bool,
    sender: SenderView,
    receiver: ReceiverView,
    report: Arc<TcpReport>,
    /// The socket's state when the flow ended.
    last: Option<TcpInfo>,
    limits: Limits,
    sent_by_end: Option<SenderCounts>,
    opened: Option<Time>,
    handshake: Option<Time>,
    outcome: Outcome,
    /// Its legs if proxies split it: packets are then not counted from end to end.
    pub(crate) legs: Legs,
}

impl ConnectionObserver {
    /// The observer of a flow that begins at `start`.
    pub(crate) fn new(
        start: Time,
        (tcp, app): (&Tcp, &App),
        measure: &Measure,
        report: Arc<TcpReport>,
        legs: Legs,
    ) -> Self {
        let ends_at = report.script().ends_at();
        Self {
            meter: Meter::new(start, measure, Some(app.amount())),
            requests: (app.exchanges() > 0).then(ReceiverView::default),
            ends_at,
            paced: tcp.from.pacing || tcp.cc.algorithm().has_cong_control(),
            sender: SenderView::default(),
            receiver: ReceiverView::default(),
            report,
            last: None,
            limits: Limits::default(),
            sent_by_end: None,
            opened: None,
            handshake: None,
            outcome: Outcome::TimeLimit,
            legs,
        }
    }

    /// A segment enters its first link, in the direction of the data or back.
    pub(crate) fn offered(&mut self, now: Time, forward: bool, segment: &Segment) {
        if segment.syn && segment.acknowledgement.is_none() {
            self.opened.get_or_insert(now);
        }
        if forward {
            self.sender.sent(now, segment);
        } else if let Some(requests) = &mut self.requests {
            requests.segment(segment);
            self.report.script().request_sent(now, requests.received());
        }
    }

    /// A segment leaves its last link.
    pub(crate) fn released(&mut self, now: Time, forward: bool, segment: &Segment) {
        let ends_handshake = segment.syn && segment.acknowledgement.is_some() && self.meter.end().is_none();
        if let (true, Some(opened), None) = (ends_handshake, self.opened, self.handshake) {
            self.handshake = now.checked_sub(opened);
        }
        if !forward {
            let handshake = self.sender.handshake(now, segment);
            let round_trip = self.sender.received(now, segment).or(handshake);
            if let Some(round_trip) = round_trip.filter(|_| !self.legs.is_split()) {
                self.meter.round_trip(round_trip);
            }
            return;
        }
        self.receiver.segment(segment);
        if segment.payload > 0 {
            self.arrival(now);
        }
    }

    /// Data has arrived.
    fn arrival(&mut self, now: Time) {
        let received = self.receiver.received();
        if self.meter.deliver(now, received, self.receiver.arrived()) {
            let sent = self.sent();
            self.meter.record_progress(now, sent);
        }
        if self.meter.end().is_none() && self.report.script().delivered(now, received) {
            self.outcome = Outcome::Completed;
            self.finish(now);
        }
    }

    /// Handles what is due of a flow that has not ended; returns the time of the next call.
    pub(crate) fn step(&mut self, now: Time) -> Time {
        if now >= self.ends_at {
            let established = self.report.sender.get().is_some();
            self.outcome = if established { Outcome::Completed } else { Outcome::Unconnected };
            self.finish(self.ends_at);
            return Time::MAX;
        }
        if let Some(failure) = self.report.failure.get() {
            self.outcome = failure.outcome;
            self.finish(now);
            return Time::MAX;
        }
        if self.meter.next_instant() <= now {
            let (at, sent) = (self.meter.next_instant(), self.sent());
            self.meter.record_progress(at, sent);
        }
        self.ends_at.min(self.meter.next_instant()).min(self.legs.step(now)).min(self.sample(now))
    }

    /// Ends the flow.
    pub(crate) fn finish(&mut self, now: Time) {
        self.last = self.report.info();
        self.limits.add(now, self.last);
        self.sent_by_end = Some(self.sent());
        self.meter.finish(now);
        self.legs.finish(now);
    }

    /// Adds the rows of the series that end at `now`: of the flow, then of its legs.
    pub(crate) fn write_series(&mut self, now: Time, id: FlowId<'_>, rows: &mut Vec<SeriesRow>) {
        let info = self.last.or_else(|| self.report.info()).unwrap_or_default();
        let state = if self.legs.is_split() { SenderState::default() } else { info.state(self.paced) };
        let state = SenderState { acked_bytes: self.sender.acknowledged(), ..state };
        rows.extend(self.meter.series_row(now, id, self.sent(), state));
        self.legs.write_series(now, id, rows);
    }

    /// Progress from 0 to 1.
    pub(crate) fn share_done(&self, now: Time) -> f64 {
        self.report.script().progress(now, self.meter.received())
    }

    /// Adds the flow and its legs to the tables. A flow that has not ended by `stop` ends there.
    pub(crate) fn write(&self, run: &Run, spec: &FlowSpec, stop: Time, tables: &mut Tables) {
        let mut row = run.flow_row("emu", spec);
        self.meter.fill(&mut row, stop, self.sent());
        row.set_outcome(self.outcome);
        row.handshake_ms = self.handshake.map(Time::as_millis_f64);
        let of_syn = self.report.failure.get().and_then(|failure| failure.syn_timeouts);
        row.rto_count = self.last.map(|info| info.rto_count).or(of_syn).filter(|_| !self.legs.is_split());
        row.set_limits(&self.limits.at_end(self.last.filter(|_| !self.legs.is_split())));
        let id = FlowId::of(&row);
        self.report.script().write(id, self.meter.end().unwrap_or(stop), tables);
        self.meter.write_flow(row, tables);
        self.legs.write(run, spec, self.outcome, stop, tables);
    }

    fn sent(&self) -> SenderCounts {
        if self.legs.is_split() {
            return SenderCounts::default();
        }
        let now = SenderCounts::counted(self.sender.packets(), self.sender.retransmitted());
        self.sent_by_end.unwrap_or(now)
    }

    /// Samples the socket of a flow that is not split; returns the time of the next sample.
    fn sample(&mut self, now: Time) -> Time {
        if self.legs.is_split() {
            return Time::MAX;
        }
        let report = &self.report;
        self.limits.step(now, || report.info())
    }
}
