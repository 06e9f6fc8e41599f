//! Observes a TCP connection at the ends of its links, and the exchanges of its application.

use std::sync::Arc;

use perigee_results::{FlowId, FlowRow, Measure, Meter, Outcome, SenderCounts, SenderState, SeriesRow, Tables};
use perigee_study::Tcp;
use perigee_traffic::App;
use perigee_units::Time;
use perigee_wire::{ReceiverView, SenderView, Tcp as Segment};

use crate::os::tcp_info::TcpInfo;
use crate::run::tcp_report::TcpReport;

/// The observer of a connection.
pub(crate) struct Connection {
    pub(crate) meter: Meter,
    /// For an application with exchanges: the requests sent by `to`.
    requests: Option<ReceiverView>,
    /// When the flow is complete, whatever has been delivered.
    ends_at: Time,
    /// TCP paces it.
    paced: bool,
    sender: SenderView,
    receiver: ReceiverView,
    report: Arc<TcpReport>,
    /// The socket's state when the flow ended.
    last: Option<TcpInfo>,
    sent_by_end: Option<SenderCounts>,
    opened: Option<Time>,
    handshake: Option<Time>,
    outcome: Outcome,
}

impl Connection {
    /// The observer of a flow that begins at `start`.
    pub(crate) fn new(start: Time, (tcp, app): (&Tcp, &App), measure: &Measure, report: Arc<TcpReport>) -> Self {
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
            sent_by_end: None,
            opened: None,
            handshake: None,
            outcome: Outcome::TimeLimit,
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
        if let (true, Some(_), Some(opened), None) = (segment.syn, segment.acknowledgement, self.opened, self.handshake)
        {
            self.handshake = now.checked_sub(opened);
        }
        if !forward {
            if let Some(round_trip) = self.sender.received(now, segment) {
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
            // A connection that was not established by then has carried nothing of what was asked for.
            let established = self.report.sender.get().is_some();
            self.outcome = if established { Outcome::Completed } else { Outcome::TimeLimit };
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
        self.ends_at.min(self.meter.next_instant())
    }

    /// Ends the flow.
    pub(crate) fn finish(&mut self, now: Time) {
        self.last = self.ask();
        self.sent_by_end = Some(self.sent());
        self.meter.finish(now);
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        let info = self.last.or_else(|| self.ask()).unwrap_or_default();
        let state = SenderState { acked_bytes: self.sender.acknowledged(), ..info.state(self.paced) };
        self.meter.series_row(now, id, self.sent(), state)
    }

    /// Progress from 0 to 1.
    pub(crate) fn share_done(&self, now: Time) -> f64 {
        self.report.script().progress(now, self.meter.received())
    }

    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends there.
    pub(crate) fn write(&self, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        self.meter.fill(&mut row, stop, self.sent());
        row.set_outcome(self.outcome);
        row.handshake_ms = self.handshake.map(Time::as_millis_f64);
        let of_syn = self.report.failure.get().and_then(|failure| failure.syn_timeouts);
        row.rto_count = self.last.map(|info| info.rto_count).or(of_syn);
        let id = FlowId::of(&row);
        self.report.script().write(id, self.meter.end().unwrap_or(stop), tables);
        self.meter.write_flow(row, tables);
    }

    fn sent(&self) -> SenderCounts {
        let now = SenderCounts::counted(self.sender.packets(), self.sender.retransmitted());
        self.sent_by_end.unwrap_or(now)
    }

    fn ask(&self) -> Option<TcpInfo> {
        self.report.sender.get().and_then(|socket| TcpInfo::of(socket).ok())
    }
}
