//! A TCP connection between two nodes: endpoints and events. The script of the flow's application says what its ends do.
//!
//! The data goes from `from` to `to`; either opens the connection.

use perigee_link::Ecn;
use perigee_results::{
    EventRow, FlowId, FlowRow, Measure, Meter, Outcome, SenderCounts, SenderState, SeriesRow, Tables,
};
use perigee_study::{FlowSpec, Opener, Tcp};
use perigee_tcp::{Config, Endpoint, Failure, Flags, Info, Segment};
use perigee_traffic::{Action, App, End, Facts, Script};
use perigee_units::Time;

use crate::event_log::EventLog;
use crate::packet::{NetPacket, Payload};
use crate::world::World;

/// One TCP flow.
pub(crate) struct TcpFlow {
    /// By end: its endpoint; gone once the connection is closed.
    ends: [Option<Box<Endpoint>>; 2],
    sources: Sources,
    /// Bytes of its packets' IP headers.
    ip_header: u16,
    pub(crate) meter: Meter,
    script: Script,
    /// By end: the count of bytes delivered there at which its application has something to do.
    awaited: [u64; 2],
    /// By end: the instant at which its application has something to do.
    due: [Time; 2],
    /// Whether the applications look at each segment: while the connection opens or closes.
    attentive: bool,
    /// An end has closed its half.
    closing: bool,
    opener: End,
    /// When the handshake ended at the opener.
    established: Option<Time>,
    outcome: Outcome,
    /// Of a connection that failed before it was established: the opener's timeouts.
    opener_timeouts: u64,
    /// What the endpoint at `from` had done when the flow ended.
    last: Option<Info>,
    log: Option<Box<EventLog>>,
}

/// Where a flow's numbers begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources {
    /// The way of the packets that `from` sends; the next number is the way back.
    pub(crate) way: u32,
    /// Event source of the timer at `from`; the next number is that at `to`.
    pub(crate) timers: u32,
    /// Event source of [`TcpFlow::on_instant`].
    pub(crate) instant: u32,
}

impl TcpFlow {
    /// A flow that begins now.
    pub(crate) fn start(
        now: Time,
        sources: Sources,
        spec: &FlowSpec,
        (tcp, app): (&Tcp, &App),
        seed: u64,
        measure: &Measure,
    ) -> Self {
        let opener = match tcp.opened_by {
            Opener::Sender => End::From,
            Opener::Receiver => End::To,
        };
        let seed_of = |end: &str| spec.stream(seed, end).next_u64();
        let endpoint = |end: End, config| {
            let seed = seed_of(if end == End::From { "from" } else { "to" });
            if end == opener {
                let mut client = Endpoint::client(config, &tcp.cc, seed);
                client.open(now);
                client
            } else {
                Endpoint::server(config, &tcp.cc, seed)
            }
        };
        let fitted = |config: &Config| Config { mss: spec.segment(config.mss), ..config.clone() };
        let (from, to) = (endpoint(End::From, &fitted(&tcp.from)), endpoint(End::To, &fitted(&tcp.to)));
        Self {
            ends: [Some(Box::new(from)), Some(Box::new(to))],
            sources,
            ip_header: spec.ip.header_bytes(),
            meter: Meter::new(now, measure, Some(app.amount())),
            script: spec.script(app, now, seed),
            awaited: [u64::MAX; 2],
            due: [Time::MAX; 2],
            attentive: true,
            closing: false,
            opener,
            established: None,
            outcome: Outcome::TimeLimit,
            opener_timeouts: 0,
            last: None,
            log: measure.events.then(Box::default),
        }
    }

    /// A segment arrives at an end.
    #[inline]
    pub(crate) fn on_segment(&mut self, now: Time, end: End, segment: &Segment, marked: bool, world: &mut World) {
        let Some(host) = self.ends[end as usize].as_deref_mut() else { return };
        host.on_segment(now, segment, marked);
        if end == End::From {
            if let Some(rtt) = host.take_rtt() {
                self.meter.round_trip(rtt);
            }
            if let Some(log) = &mut self.log {
                log.acknowledged(now, segment, host);
            }
            let received = host.received();
            self.transmit(now, end, world);
            if received >= self.awaited[End::From as usize] {
                self.attend(now, world);
            }
        } else {
            let (received, arrived) = (host.received(), host.arrived());
            self.transmit(now, end, world);
            if arrived != self.meter.arrived() {
                let passed = self.meter.deliver(now, received, arrived);
                if passed || received >= self.awaited[End::To as usize] {
                    self.delivered(now, world);
                }
            }
        }
        if segment.flags.0 & (Flags::RST | Flags::FIN) != 0 && self.closed(now, end, segment, world) {
            return;
        }
        if self.attentive {
            self.attend(now, world);
        }
        self.schedule(end, world);
    }

    /// The timer of an end fires; it may be early.
    pub(crate) fn on_timer(&mut self, now: Time, end: End, world: &mut World) {
        world.queue.remove(self.sources.timers + end as u32);
        let Some(host) = self.ends[end as usize].as_deref_mut() else { return };
        if host.next_timer().is_some_and(|at| at <= now) {
            host.on_timer(now);
            if let (End::From, Some(log)) = (end, &mut self.log) {
                log.timer(now, host);
            }
            if host.failure().is_some() && self.failed(now, end, world) {
                return;
            }
            self.transmit(now, end, world);
            if self.attentive {
                self.attend(now, world);
            }
        }
        self.schedule(end, world);
    }

    /// The flow has begun, or an instant has come that an application or the meter waits for.
    pub(crate) fn on_instant(&mut self, now: Time, world: &mut World) {
        if self.meter.next_instant() <= now {
            self.meter.record_progress(now, self.sent());
        }
        if self.meter.end().is_none() && self.script.ends_at() <= now {
            // A connection that was not established by then has carried nothing of what was asked for.
            let established = self.sender_info().is_some();
            self.finish(now, if established { Outcome::Completed } else { Outcome::TimeLimit }, world);
        } else if self.due.iter().any(|at| *at <= now) {
            self.attend(now, world);
        }
        self.transmit(now, End::From, world);
        self.transmit(now, End::To, world);
        self.schedule_all(world);
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        let info = self.info();
        let state = info.as_ref().map_or_else(SenderState::default, state);
        self.meter.series_row(now, id, sent(info.as_ref()), state)
    }

    /// The run ends, and the flow with it, not completed.
    pub(crate) fn cut_off(&mut self, now: Time, outcome: Outcome) {
        if self.meter.end().is_none() {
            self.last = self.sender_info();
            self.outcome = outcome;
            self.meter.finish(now);
        }
    }

    /// The other end has closed its half, or reset the connection; whether the flow ends with it.
    #[cold]
    fn closed(&mut self, now: Time, end: End, segment: &Segment, world: &mut World) -> bool {
        if segment.flags.has(Flags::RST) {
            return self.failed(now, end, world);
        }
        self.closing = true;
        self.attentive = true;
        false
    }

    /// The connection has failed at an end; whether the flow ends with it. Both ends are gone then.
    #[cold]
    fn failed(&mut self, now: Time, end: End, world: &mut World) -> bool {
        let failure = self.ends[end as usize].as_deref().and_then(Endpoint::failure);
        let Some(failure) = failure.filter(|_| self.meter.end().is_none()) else { return false };
        let outcome = match failure {
            Failure::Refused => Outcome::Refused,
            Failure::Reset => Outcome::Reset,
            Failure::TimedOut => Outcome::TimedOut,
        };
        self.opener_timeouts = self.opener_timeouts();
        self.finish(now, outcome, world);
        self.ends = [None, None];
        for source in [self.sources.timers, self.sources.timers + 1, self.sources.instant] {
            world.queue.remove(source);
        }
        true
    }

    /// What the sender has done so far, or had when the flow ended.
    fn sent(&self) -> SenderCounts {
        sent(self.info().as_ref())
    }

    /// How far it is, from 0 to 1.
    pub(crate) fn progress(&self, now: Time) -> f64 {
        if self.meter.end().is_some() {
            1.0
        } else {
            self.script.progress(now, self.meter.received())
        }
    }

    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends there.
    pub(crate) fn write(&mut self, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        self.meter.fill(&mut row, stop, self.sent());
        row.set_outcome(self.outcome);
        row.rto_count = Some(self.info().map_or(self.opener_timeouts(), |info| info.rto_count) as u32);
        row.handshake_ms = self.established.map(|at| (at - self.meter.start()).as_millis_f64());
        let id = FlowId { run: row.run, flow: &row.flow };
        self.script.write_exchanges(id, &mut tables.exchanges);
        for event in self.log.take().map_or_else(Vec::new, |log| log.into_rows()) {
            tables.events.push(EventRow { run: id.run, flow: id.flow.clone(), ..event });
        }
        self.meter.write_flow(row, tables);
    }

    /// The sender's state: now, or when the flow ended.
    fn info(&self) -> Option<Info> {
        self.last.clone().or_else(|| self.sender_info())
    }

    fn sender_info(&self) -> Option<Info> {
        // What the handshake takes is not the flow's data.
        self.ends[End::From as usize].as_deref().filter(|from| from.was_established()).map(Endpoint::info)
    }

    fn opener_timeouts(&self) -> u64 {
        self.ends[self.opener as usize].as_deref().map_or(self.opener_timeouts, |opener| opener.info().rto_count)
    }

    /// Sends all that an end has to send.
    #[inline]
    fn transmit(&mut self, now: Time, end: End, world: &mut World) {
        let Some(host) = self.ends[end as usize].as_deref_mut() else { return };
        while let Some(segment) = host.poll_transmit(now) {
            if let (End::From, Some(log)) = (end, &mut self.log) {
                log.sent(now, &segment, host);
            }
            let ecn = if segment.ect { Ecn::Capable } else { Ecn::NotCapable };
            let way = self.sources.way + end as u32;
            let bytes = self.ip_header + (segment.header_bytes() as u16) + segment.len;
            world.send(now, NetPacket { way, bytes, ecn, payload: Payload::Tcp(segment) });
        }
    }

    /// Moves the event of an end's timer only where it would come too late: most deadlines move on before they are due.
    #[inline]
    fn schedule(&mut self, end: End, world: &mut World) {
        let Some(host) = self.ends[end as usize].as_deref() else { return };
        let source = self.sources.timers + end as u32;
        if let Some(at) = host.next_timer() {
            if world.queue.due(source).is_none_or(|due| at < due) {
                world.queue.set(source, at);
            }
        }
    }

    /// As [`TcpFlow::schedule`] for both ends, and the next instant that an application or the meter waits for.
    fn schedule_all(&mut self, world: &mut World) {
        self.schedule(End::From, world);
        self.schedule(End::To, world);
        let app = match self.due {
            _ if self.meter.end().is_some() => Time::MAX,
            [from, to] => from.min(to).min(self.script.ends_at()),
        };
        let next = app.min(self.meter.next_instant());
        if next == Time::MAX {
            world.queue.remove(self.sources.instant);
        } else {
            world.queue.set(self.sources.instant, next);
        }
    }

    /// The bytes delivered at `to` have reached a count that the meter or the application waits for.
    #[cold]
    fn delivered(&mut self, now: Time, world: &mut World) {
        self.meter.record_progress(now, self.sent());
        let received = self.meter.received();
        if received < self.awaited[End::To as usize] || self.meter.end().is_some() {
            return;
        }
        if self.script.delivered(now, received) {
            self.finish(now, Outcome::Completed, world);
        }
        self.attend(now, world);
    }

    /// The applications look at their ends: while the connection opens or closes, and where one has something to do.
    #[cold]
    fn attend(&mut self, now: Time, world: &mut World) {
        let [Some(from), Some(to)] = &self.ends else { return self.release(world) };
        let opener = if self.opener == End::From { from } else { to };
        if self.established.is_none() && opener.is_established() {
            self.established = Some(now);
        }
        if self.meter.end().is_none() {
            self.attentive = self.closing || !(from.is_established() && to.is_established());
            self.act(now, End::To);
            self.act(now, End::From);
        } else {
            self.release(world);
        }
        self.transmit(now, End::From, world);
        self.transmit(now, End::To, world);
        self.schedule_all(world);
    }

    /// The application at an end that is connected does what is next there.
    fn act(&mut self, now: Time, end: End) {
        let Some(host) = self.ends[end as usize].as_deref_mut().filter(|host| host.is_established()) else { return };
        let (mut awaited, mut due) = (u64::MAX, Time::MAX);
        loop {
            let facts = Facts { now, received: host.received(), closed: host.peer_closed() };
            match self.script.next(end, facts) {
                Action::Write(bytes) => host.write(bytes),
                Action::Fill { .. } => host.write(ENDLESS),
                Action::HalfClose => host.close(),
                Action::Stop => host.stop(),
                Action::Await(bytes) => {
                    awaited = bytes;
                    break;
                }
                Action::Wait(at) => {
                    due = at;
                    break;
                }
                Action::AwaitClose | Action::Done => break,
            }
        }
        if end == End::To {
            self.script.request_sent(now, host.written());
            awaited = awaited.min(self.script.awaited());
        }
        (self.awaited[end as usize], self.due[end as usize]) = (awaited, due);
    }

    /// The flow ends; the connection closes after it.
    fn finish(&mut self, now: Time, outcome: Outcome, world: &mut World) {
        self.last = self.sender_info();
        self.meter.finish(now);
        world.flow_ended(now);
        self.outcome = outcome;
        self.awaited = [u64::MAX; 2];
        self.attentive = true;
        for end in self.ends.iter_mut().flatten() {
            end.close();
        }
    }

    /// Gives up the memory of ends that are closed.
    fn release(&mut self, world: &mut World) {
        for (end, source) in self.ends.iter_mut().zip(self.sources.timers..) {
            if end.as_deref().is_some_and(Endpoint::is_closed) {
                *end = None;
                world.queue.remove(source);
            }
        }
    }
}

/// The packets of a sender so far.
fn sent(info: Option<&Info>) -> SenderCounts {
    info.map_or(SenderCounts::counted(0, 0), |info| {
        SenderCounts::counted(info.sent_packets, info.retransmitted_packets)
    })
}

/// A sender's state for a row of the series.
fn state(info: &Info) -> SenderState {
    SenderState {
        acked_bytes: info.snd_una,
        cwnd_packets: Some(info.cwnd),
        ssthresh_packets: info.ssthresh,
        srtt_ms: (info.srtt > Time::ZERO).then(|| info.srtt.as_millis_f64()),
        inflight_packets: Some(info.inflight),
        pacing_mbps: info.pacing_rate_bps.map(|bps| bps as f64 / 1e6),
    }
}

/// What an application writes that fills the connection.
const ENDLESS: u64 = u64::MAX / 2;
