//! What is seen of a study's flows at the ends of its links.

use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use perigee_capture::{Packet, Receiver, Sender, Tcp as Segment, Transport};
use perigee_link::Link;
use perigee_measure::{blank_row, steady_of_size, steady_of_time, LinkLog, Meter, Of, Sent, State};
use perigee_study::results::Tables;
use perigee_study::{Amount, FlowSpec, Run};
use perigee_units::{Ratio, Time};

use crate::driver::{Observer, Under};
use crate::hosts::node_of;
use crate::tcp_info::TcpInfo;

/// The observer of a run.
pub(crate) struct Watch<'a> {
    run: &'a Run,
    flows: Vec<Flow<'a>>,
    logs: Vec<LinkLog>,
    pub(crate) tables: Tables,
    next_sample: Time,
    /// A flow cannot be carried: what the others do is of no use.
    broken: &'a AtomicBool,
    progress: &'a mut dyn FnMut(f64) -> ControlFlow<()>,
    next_progress: Time,
    pub(crate) cancelled: bool,
}

/// One flow.
struct Flow<'a> {
    spec: &'a FlowSpec,
    amount: Amount,
    /// TCP paces it.
    paced: bool,
    start: Time,
    meter: Meter,
    sender: Sender,
    receiver: Receiver,
    /// The sender's socket, once it is connected.
    socket: &'a OnceLock<TcpStream>,
    /// Of the socket, when the flow ended.
    last: Option<TcpInfo>,
    opened: Option<Time>,
    handshake: Option<Time>,
    completed: bool,
    /// The last row of its series is written.
    told: bool,
}

impl<'a> Watch<'a> {
    /// Of a run's flows, each with its amount, whether TCP paces it, and the place where its sender's socket will be.
    pub(crate) fn new(
        run: &'a Run,
        amounts: &[(Amount, bool)],
        sockets: &'a [OnceLock<TcpStream>],
        broken: &'a AtomicBool,
        progress: &'a mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Self {
        let measure = &run.scenario.measure;
        let flows = run.scenario.flows.iter().zip(amounts).zip(sockets).map(|((spec, (amount, paced)), socket)| {
            let start = spec.start_in(run.seed);
            let steady = measure.steady.map(Ratio::as_f64).map(|share| match amount {
                Amount::Size(size) => steady_of_size(*size, share),
                Amount::Duration(length) => steady_of_time(start, *length, share),
            });
            Flow {
                spec,
                amount: *amount,
                paced: *paced,
                start,
                meter: Meter::new(start, measure, steady),
                sender: Sender::default(),
                receiver: Receiver::default(),
                socket,
                last: None,
                opened: None,
                handshake: None,
                completed: false,
                told: false,
            }
        });
        let next_sample = measure.series.filter(|interval| *interval > Time::ZERO).unwrap_or(Time::MAX);
        Self {
            run,
            flows: flows.collect(),
            logs: run.scenario.links.iter().map(|_| LinkLog::new(measure.series)).collect(),
            tables: Tables::default(),
            next_sample,
            broken,
            progress,
            next_progress: Time::ZERO,
            cancelled: false,
        }
    }

    /// Writes what is left to write; the run ended at `end`.
    pub(crate) fn finish(mut self, end: Time, mut link: impl FnMut(usize, &mut LinkLog)) -> Tables {
        for (way, log) in self.logs.iter_mut().enumerate() {
            link(way, log);
        }
        for flow in &self.flows {
            let mut row = blank_row("emu", self.run, flow.spec);
            let until = flow.meter.end().unwrap_or(end);
            flow.meter.fill(&mut row, until, flow.sent());
            row.completed = flow.completed;
            row.handshake_ms = flow.handshake.map(Time::as_millis_f64);
            row.rto_count = flow.last.map(|info| info.rto_count);
            flow.meter.write_round_trips(self.run.index, &flow.spec.name, &mut self.tables.rtt);
            for milestone in flow.meter.milestones(self.run.index, &flow.spec.name) {
                self.tables.milestones.push(milestone);
            }
            self.tables.flows.push(row);
        }
        perigee_measure::write_links(self.run.index, &self.run.scenario, &self.logs, &mut self.tables);
        self.tables
    }

    /// The flow of a packet, and whether it goes the way of the data.
    fn flow_of(&mut self, packet: &Packet) -> Option<(&mut Flow<'a>, Segment, bool)> {
        let Transport::Tcp(segment) = packet.transport else { return None };
        let number = segment.source_port.checked_sub(FIRST_PORT).filter(|n| usize::from(*n) < self.flows.len());
        let number = number.or_else(|| segment.destination_port.checked_sub(FIRST_PORT))?;
        let flow = self.flows.get_mut(usize::from(number))?;
        let forward = node_of(packet.source) == Some(flow.spec.from);
        Some((flow, segment, forward))
    }

    fn sample(&mut self, now: Time) {
        for flow in &mut self.flows {
            if flow.start >= now || flow.told {
                continue;
            }
            let of = Of { run: self.run.index, flow: &flow.spec.name };
            let info = flow.last.or_else(|| flow.ask()).unwrap_or_default();
            flow.told = flow.meter.end().is_some();
            let sent = flow.sent();
            let state = State { acked_bytes: flow.sender.acknowledged(), ..info.state(flow.paced) };
            if let Some(row) = flow.meter.series_row(now, of, sent, state) {
                self.tables.series.push(row);
            }
        }
    }

    /// How far the run is: the mean of its flows.
    fn share_done(&self, now: Time) -> f64 {
        let share = |flow: &Flow<'_>| match flow.amount {
            _ if flow.meter.end().is_some() => 1.0,
            Amount::Size(size) => flow.meter.received() as f64 / size.as_u64().max(1) as f64,
            Amount::Duration(length) => {
                now.checked_sub(flow.start).unwrap_or_default().as_secs_f64() / length.as_secs_f64().max(1e-9)
            }
        };
        (self.flows.iter().map(share).sum::<f64>() / self.flows.len().max(1) as f64).clamp(0.0, 1.0)
    }
}

impl Observer for Watch<'_> {
    fn before(&mut self, way: usize, now: Time, link: &mut Link<Under>) {
        self.logs[way].arrival(now, link);
    }

    fn offered(&mut self, way: usize, now: Time, packet: &[u8]) {
        let Some(packet) = Packet::read(packet) else { return };
        let Some((flow, segment, forward)) = self.flow_of(&packet) else { return };
        let path = if forward { &flow.spec.forward } else { &flow.spec.back };
        if path.first() != Some(&(way as u32)) {
            return;
        }
        if segment.syn && segment.acknowledgement.is_none() {
            flow.opened.get_or_insert(now);
        }
        if forward {
            flow.sender.sent(now, &segment);
        }
    }

    fn released(&mut self, way: usize, now: Time, packet: &[u8]) {
        let Some(packet) = Packet::read(packet) else { return };
        let Some((flow, segment, forward)) = self.flow_of(&packet) else { return };
        let path = if forward { &flow.spec.forward } else { &flow.spec.back };
        if path.last() != Some(&(way as u32)) {
            return;
        }
        if let (true, Some(_), Some(opened), None) = (segment.syn, segment.acknowledgement, flow.opened, flow.handshake)
        {
            flow.handshake = now.checked_sub(opened);
        }
        if !forward {
            if let Some(round_trip) = flow.sender.received(now, &segment) {
                flow.meter.round_trip(round_trip);
            }
            return;
        }
        flow.receiver.segment(&segment);
        if segment.payload > 0 {
            flow.arrival(now);
        }
    }

    fn turn(&mut self, now: Time) -> ControlFlow<(), Option<Time>> {
        let mut wake = self.next_sample.min(self.run.scenario.time_limit);
        for flow in &mut self.flows {
            if flow.meter.end().is_none() {
                wake = wake.min(flow.step(now));
            }
        }
        if now >= self.next_sample {
            let at = self.next_sample;
            self.sample(at);
            self.next_sample += self.run.scenario.measure.series.unwrap_or(Time::MAX);
        }
        if self.broken.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        if now >= self.next_progress {
            self.next_progress = now + PROGRESS;
            let share = self.share_done(now);
            if (self.progress)(share).is_break() {
                self.cancelled = true;
                return ControlFlow::Break(());
            }
        }
        let all_ended = self.flows.iter().all(|flow| flow.meter.end().is_some());
        if all_ended || now >= self.run.scenario.time_limit {
            for flow in &mut self.flows {
                flow.cut_off(now.min(self.run.scenario.time_limit));
            }
            self.sample(now);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(Some(wake.min(self.next_progress)))
    }
}

impl Flow<'_> {
    fn sent(&self) -> Sent {
        Sent { packets: self.sender.packets(), retransmitted: self.sender.retransmitted() }
    }

    fn ask(&self) -> Option<TcpInfo> {
        self.socket.get().and_then(|socket| TcpInfo::of(socket).ok())
    }

    /// Data have arrived.
    fn arrival(&mut self, now: Time) {
        if self.meter.deliver(now, self.receiver.received(), self.receiver.arrived()) {
            let sent = self.sent();
            self.meter.pass(now, sent);
        }
        if let Amount::Size(size) = self.amount {
            if self.receiver.received() >= size.as_u64() && self.meter.end().is_none() {
                self.completed = true;
                self.end(now);
            }
        }
    }

    /// What is due of a flow that has not ended; when it has to be looked at again.
    fn step(&mut self, now: Time) -> Time {
        let end = match self.amount {
            Amount::Duration(length) => self.start + length,
            Amount::Size(_) => Time::MAX,
        };
        if now >= end {
            self.completed = true;
            self.end(end);
            return Time::MAX;
        }
        if self.meter.next_instant() <= now {
            let (at, sent) = (self.meter.next_instant(), self.sent());
            self.meter.pass(at, sent);
        }
        end.min(self.meter.next_instant())
    }

    fn cut_off(&mut self, now: Time) {
        if self.meter.end().is_none() && now > self.start {
            self.end(now);
        }
    }

    fn end(&mut self, now: Time) {
        self.last = self.ask();
        self.meter.finish(now);
    }
}

/// The node that listens for the first flow does so here; that for the second at the next port.
pub(crate) const FIRST_PORT: u16 = 10_000;
/// How often it is asked whether to go on.
const PROGRESS: Time = Time::from_millis(50);
