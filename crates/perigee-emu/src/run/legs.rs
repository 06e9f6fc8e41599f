//! Observes the legs of a flow that proxies split, at the ends of their links.
//!
//! All legs have the addresses and ports of the flow: the link says which leg a segment belongs to.

use std::sync::Arc;

use perigee_results::{Amount, FlowId, FlowRow, Measure, Meter, Outcome, SenderCounts, SenderState, SeriesRow, Tables};
use perigee_study::{FlowSpec, Leg, Run};
use perigee_units::Time;
use perigee_wire::{Position, ReceiverView, SenderView, Tcp as Segment};

use crate::os::tcp_info::TcpInfo;
use crate::run::limits::Limits;
use crate::run::proxies::ProxySocket;
use crate::run::tcp_report::TcpReport;

/// The observers of a flow's legs, in the direction of the data; empty if the flow is not split.
pub(crate) struct Legs(Vec<LegConnection>);

/// The observer of one leg.
struct LegConnection {
    /// The nodes where the data begin and end.
    ends: [u32; 2],
    socket: SenderSocket,
    /// Whether TCP paces it.
    paced: bool,
    measure: Measure,
    amount: Amount,
    /// The meter, from the SYN on.
    meter: Option<Meter>,
    sender: SenderView,
    receiver: ReceiverView,
    /// Positions of the data, and the end of the stream once its FIN has arrived.
    position: Position,
    stream_end: Option<u64>,
    opened: Option<Time>,
    handshake: Option<Time>,
    /// The last state of the sender's socket that was read.
    last: Option<TcpInfo>,
    limits: Limits,
    sent_by_end: Option<SenderCounts>,
    outcome: Option<Outcome>,
    /// Whether the leg or the flow has ended.
    is_over: bool,
}

/// The socket that sends the data of a leg.
pub(crate) enum SenderSocket {
    /// The flow's own.
    Flow(Arc<TcpReport>),
    /// A proxy's.
    Proxy(ProxySocket),
}

impl Legs {
    /// The observers of legs, each with the socket that sends its data.
    pub(crate) fn new(legs: &[Leg], sockets: Vec<SenderSocket>, amount: Amount, measure: &Measure) -> Self {
        let observer = |(leg, socket): (&Leg, SenderSocket)| LegConnection {
            ends: [leg.from, leg.to],
            socket,
            paced: leg.sender.config.pacing || leg.sender.cc.algorithm().has_cong_control(),
            measure: measure.clone(),
            amount,
            meter: None,
            sender: SenderView::default(),
            receiver: ReceiverView::default(),
            position: Position::default(),
            stream_end: None,
            opened: None,
            handshake: None,
            last: None,
            limits: Limits::default(),
            sent_by_end: None,
            outcome: None,
            is_over: false,
        };
        Self(legs.iter().zip(sockets).map(observer).collect())
    }

    /// Whether the flow is split.
    pub(crate) fn is_split(&self) -> bool {
        !self.0.is_empty()
    }

    /// A segment enters a link at `node`, in the direction of the data or back.
    pub(crate) fn offered(&mut self, node: u32, now: Time, forward: bool, segment: &Segment) {
        for leg in &mut self.0 {
            if leg.way(forward)[0] == node {
                leg.offered(now, forward, segment);
            }
        }
    }

    /// A segment leaves a link at `node`.
    pub(crate) fn released(&mut self, node: u32, now: Time, forward: bool, segment: &Segment) {
        for leg in &mut self.0 {
            if leg.way(forward)[1] == node {
                leg.released(now, forward, segment);
            }
        }
    }

    /// Handles what is due; returns the time of the next call.
    pub(crate) fn step(&mut self, now: Time) -> Time {
        let mut next = Time::MAX;
        for leg in &mut self.0 {
            let sent = leg.sent();
            if let Some(meter) = leg.meter.as_mut().filter(|meter| meter.end().is_none()) {
                if meter.next_instant() <= now {
                    meter.record_progress(meter.next_instant(), sent);
                }
                let socket = &mut leg.socket;
                next = next.min(meter.next_instant()).min(leg.limits.step(now, || socket.info()));
            }
        }
        next
    }

    /// Ends all legs with the flow.
    pub(crate) fn finish(&mut self, now: Time) {
        for leg in &mut self.0 {
            leg.finish(now, None);
        }
    }

    /// The rows of the series that end at `now`.
    pub(crate) fn write_series(&mut self, now: Time, id: FlowId<'_>, rows: &mut Vec<SeriesRow>) {
        for (number, leg) in (1..).zip(&mut self.0) {
            leg.ask();
            let info = leg.last.unwrap_or_default();
            let state = SenderState { acked_bytes: leg.sender.acknowledged(), ..info.state(leg.paced) };
            let sent = leg.sent();
            let row =
                leg.meter.as_mut().and_then(|m| m.series_row(now, FlowId { leg: Some(number), ..id }, sent, state));
            rows.extend(row);
        }
    }

    /// Adds the legs to the tables; a leg without an outcome of its own has the flow's, `outcome`.
    pub(crate) fn write(&self, run: &Run, spec: &FlowSpec, outcome: Outcome, stop: Time, tables: &mut Tables) {
        let legs = spec.traffic.tcp().map_or(&[][..], |tcp| &tcp.legs);
        for (number, (spec_of_leg, leg)) in (0..).zip(legs.iter().zip(&self.0)) {
            let mut row: FlowRow = run.leg_row("emu", spec, number, spec_of_leg);
            row.set_outcome(leg.outcome.unwrap_or(outcome));
            row.rto_count = leg.last.map(|info| info.rto_count);
            row.set_limits(&leg.limits.at_end(leg.last));
            let Some(meter) = &leg.meter else {
                tables.flows.push(row);
                continue;
            };
            meter.fill(&mut row, stop, leg.sent());
            row.handshake_ms = leg.handshake.map(Time::as_millis_f64);
            meter.write_flow(row, tables);
        }
    }
}

impl LegConnection {
    /// The nodes where segments of a direction begin and end.
    fn way(&self, forward: bool) -> [u32; 2] {
        let [from, to] = self.ends;
        if forward {
            [from, to]
        } else {
            [to, from]
        }
    }

    fn offered(&mut self, now: Time, forward: bool, segment: &Segment) {
        if segment.syn && segment.acknowledgement.is_none() && !self.is_over {
            self.opened.get_or_insert(now);
            let (measure, amount) = (&self.measure, self.amount);
            self.meter.get_or_insert_with(|| Meter::new(now, measure, Some(amount)));
        }
        if forward {
            self.sender.sent(now, segment);
        }
    }

    fn released(&mut self, now: Time, forward: bool, segment: &Segment) {
        let ends_handshake = segment.syn && segment.acknowledgement.is_some() && !self.is_over;
        if let (true, Some(opened), None) = (ends_handshake, self.opened, self.handshake) {
            self.handshake = now.checked_sub(opened);
        }
        if !forward {
            let handshake = self.sender.handshake(now, segment);
            let round_trip = self.sender.received(now, segment).or(handshake);
            if let Some((round_trip, meter)) = round_trip.zip(self.meter.as_mut()) {
                meter.round_trip(round_trip);
            }
            return;
        }
        if segment.syn {
            self.position.begin(segment.sequence.wrapping_add(1));
        }
        let at = self.position.of(segment.sequence);
        if segment.fin {
            self.stream_end = Some(at + u64::from(segment.payload));
        }
        self.receiver.segment(segment);
        let (received, arrived, sent) = (self.receiver.received(), self.receiver.arrived(), self.sent());
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.end().is_none()) else { return };
        if segment.payload > 0 && meter.deliver(now, received, arrived) {
            meter.record_progress(now, sent);
        }
        if self.stream_end.is_some_and(|end| received >= end) {
            self.finish(now, Some(Outcome::Completed));
        }
    }

    /// Ends the leg.
    fn finish(&mut self, now: Time, outcome: Option<Outcome>) {
        if !self.is_over {
            self.ask();
            self.limits.add(now, self.last);
        }
        self.is_over = true;
        let sent = self.sent();
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.end().is_none()) else { return };
        meter.finish(now);
        self.sent_by_end = Some(sent);
        self.outcome = outcome;
    }

    fn sent(&self) -> SenderCounts {
        let now = SenderCounts::counted(self.sender.packets(), self.sender.retransmitted());
        self.sent_by_end.unwrap_or(now)
    }

    /// Reads the state of the sender's socket, unless the leg has ended.
    fn ask(&mut self) {
        if self.sent_by_end.is_none() {
            self.last = self.socket.info().or(self.last);
        }
    }
}

impl SenderSocket {
    fn info(&mut self) -> Option<TcpInfo> {
        match self {
            Self::Flow(report) => report.info(),
            Self::Proxy(socket) => socket.info(),
        }
    }
}
