//! A TCP connection between two nodes and the applications at its ends.
//!
//! The data goes from `from` to `to`; either opens the connection.

use perigee_link::Ecn;
use perigee_measure::{steady_of_size, steady_of_time, Meter, Of, Sent, State};
use perigee_study::results::{EventRow, ExchangeRow, Exchanges, FlowRow, Outcome, SeriesRow};
use perigee_study::{Amount, App, FlowSpec, Measure, Opener, Tcp};
use perigee_tcp::{Config, Endpoint, Failure, Flags, Info, Segment};
use perigee_units::{Bytes, Ratio, Stream, Time};

use crate::event_log::EventLog;
use crate::packet::{NetPacket, Payload};
use crate::world::World;

/// One TCP flow.
pub(crate) struct TcpFlow {
    /// The endpoints at `from` and at `to`; gone once the connection is closed.
    ends: [Option<Box<Endpoint>>; 2],
    sources: Sources,
    /// Bytes of its packets' IP headers.
    ip_header: u16,
    pub(crate) meter: Meter,
    app: Application,
    /// Delivered bytes at `to` that the application waits for.
    awaited: u64,
    /// Whether arrivals are of interest to the applications beyond the awaited bytes.
    attentive: bool,
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

/// What goes on above the connection.
enum Application {
    /// `from` writes this much once the connection stands, until the stop.
    Bulk {
        bytes: Option<Bytes>,
        stop: Time,
        written: bool,
    },
    Request(Requests),
}

/// Requests of `to`, answered by `from`.
struct Requests {
    request: u64,
    response: u64,
    think: Time,
    count: u32,
    /// Requests written by `to`.
    asked: u32,
    /// Responses written by `from`.
    answered: u32,
    /// When the next request is due, while none is under way.
    next: Option<Time>,
    /// Start and length of each exchange so far.
    exchanges: Vec<(Time, Option<Time>)>,
}

/// An end of a connection; the numbers are places in [`TcpFlow::ends`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    From = 0,
    To = 1,
}

impl TcpFlow {
    /// A flow that begins now.
    pub(crate) fn start(
        now: Time,
        sources: Sources,
        spec: &FlowSpec,
        (tcp, app): (&Tcp, App),
        seed: u64,
        measure: &Measure,
    ) -> Self {
        let opener = match tcp.opened_by {
            Opener::Sender => End::From,
            Opener::Receiver => End::To,
        };
        let seed_of = |end: &str| Stream::new(seed, &format!("flow/{}/{end}", spec.name)).next_u64();
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
        let share = measure.steady.map(Ratio::as_f64);
        let (application, total) = match app {
            App::Bulk(Amount::Size(size)) => (Application::bulk(Some(size), Time::MAX), Ok(size)),
            App::Bulk(Amount::Duration(length)) => (Application::bulk(None, now + length), Err(length)),
            App::Request { request, response, think, count } => {
                let total = Bytes::new(response.as_u64().saturating_mul(u64::from(count)));
                (Application::Request(Requests::new(now, request, response, think, count)), Ok(total))
            }
        };
        let steady = share.map(|share| match total {
            Ok(size) => steady_of_size(size, share),
            Err(length) => steady_of_time(now, length, share),
        });
        let awaited = match &application {
            Application::Bulk { bytes, .. } => bytes.map_or(u64::MAX, Bytes::as_u64),
            Application::Request(requests) => requests.response,
        };
        Self {
            ends: [Some(Box::new(from)), Some(Box::new(to))],
            sources,
            ip_header: spec.ip.header_bytes(),
            meter: Meter::new(now, measure, steady),
            app: application,
            awaited,
            attentive: true,
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
            self.transmit(now, end, world);
        } else {
            let (received, arrived) = (host.received(), host.arrived());
            self.transmit(now, end, world);
            if arrived != self.meter.arrived() {
                let passed = self.meter.deliver(now, received, arrived);
                if passed || received >= self.awaited {
                    self.delivered(now, world);
                }
            }
        }
        if segment.flags.has(Flags::RST) && self.failed(now, end, world) {
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
            self.meter.pass(now, self.sent());
        }
        match &mut self.app {
            Application::Bulk { stop, .. } if *stop <= now && self.meter.end().is_none() => {
                // A connection that was not established by then has carried nothing of what was asked for.
                let established = self.sender_info().is_some();
                self.finish(now, if established { Outcome::Completed } else { Outcome::TimeLimit }, world);
                if let Some(from) = self.ends[End::From as usize].as_deref_mut() {
                    from.stop();
                }
            }
            Application::Bulk { .. } => {}
            Application::Request(_) => self.attend(now, world),
        }
        self.transmit(now, End::From, world);
        self.transmit(now, End::To, world);
        self.schedule_all(world);
    }

    /// The row of the series that ends at `now`.
    pub(crate) fn series_row(&mut self, now: Time, of: Of<'_>) -> Option<SeriesRow> {
        let info = self.info();
        let state = info.as_ref().map_or_else(State::default, state);
        self.meter.series_row(now, of, sent(info.as_ref()), state)
    }

    /// The run ends, and the flow with it, not completed.
    pub(crate) fn cut_off(&mut self, now: Time, outcome: Outcome) {
        if self.meter.end().is_none() {
            self.last = self.sender_info();
            self.outcome = outcome;
            self.meter.finish(now);
        }
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
    fn sent(&self) -> Sent {
        sent(self.info().as_ref())
    }

    /// How far it is, from 0 to 1.
    pub(crate) fn progress(&self, now: Time) -> f64 {
        match &self.app {
            _ if self.meter.end().is_some() => 1.0,
            Application::Bulk { bytes: Some(bytes), .. } => self.meter.received() as f64 / bytes.as_u64().max(1) as f64,
            Application::Bulk { stop, .. } => {
                let (start, stop) = (self.meter.start().as_secs_f64(), stop.as_secs_f64());
                (now.as_secs_f64() - start) / (stop - start)
            }
            Application::Request(requests) => requests.exchanges.len() as f64 / f64::from(requests.count.max(1)),
        }
    }

    /// Fills in its row of the results; `end` is its end or the run's.
    pub(crate) fn fill(&self, row: &mut FlowRow, end: Time) {
        self.meter.fill(row, end, self.sent());
        row.set_outcome(self.outcome);
        row.rto_count = Some(self.info().map_or(self.opener_timeouts(), |info| info.rto_count) as u32);
        row.handshake_ms = self.established.map(|at| (at - self.meter.start()).as_millis_f64());
    }

    /// Its exchanges, where it has requests; `blank` names the run and the flow.
    pub(crate) fn write_exchanges(&self, blank: &ExchangeRow, table: &mut Exchanges) {
        let Application::Request(requests) = &self.app else { return };
        for (number, (start, length)) in (0..).zip(&requests.exchanges) {
            table.push(ExchangeRow {
                number,
                start_s: start.as_secs_f64(),
                request_bytes: requests.request,
                response_bytes: requests.response,
                duration_ms: length.map(Time::as_millis_f64),
                ..blank.clone()
            });
        }
    }

    /// Takes the rows of its event log.
    pub(crate) fn take_events(&mut self) -> Vec<EventRow> {
        self.log.take().map_or_else(Vec::new, |log| log.into_rows())
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
        let app = match &self.app {
            _ if self.meter.end().is_some() => Time::MAX,
            Application::Bulk { stop, .. } => *stop,
            // Before the connection stands, its establishment is what the request waits for.
            Application::Request(requests) => requests.next.filter(|_| self.established.is_some()).unwrap_or(Time::MAX),
        };
        let next = app.min(self.meter.next_instant());
        if next == Time::MAX {
            world.queue.remove(self.sources.instant);
        } else {
            world.queue.set(self.sources.instant, next);
        }
    }

    /// The receiver has passed a count of bytes that someone waits for.
    #[cold]
    fn delivered(&mut self, now: Time, world: &mut World) {
        self.meter.pass(now, self.sent());
        if self.meter.received() < self.awaited || self.meter.end().is_some() {
            return;
        }
        let finished = match &mut self.app {
            Application::Bulk { .. } => true,
            Application::Request(requests) => {
                requests.complete(now);
                self.awaited = requests.response * (requests.exchanges.len() as u64 + 1);
                requests.exchanges.len() as u32 >= requests.count
            }
        };
        if finished {
            self.finish(now, Outcome::Completed, world);
        }
        self.transmit(now, End::From, world);
        self.transmit(now, End::To, world);
        self.schedule_all(world);
    }

    /// The applications look at their ends: while the connection opens or closes, and with requests.
    #[cold]
    fn attend(&mut self, now: Time, world: &mut World) {
        let [Some(from), Some(to)] = &mut self.ends else { return self.release(world) };
        let opener = if self.opener == End::From { &*from } else { &*to };
        if self.established.is_none() && opener.is_established() {
            self.established = Some(now);
        }
        if self.meter.end().is_some() {
            return self.release(world);
        }
        match &mut self.app {
            Application::Bulk { bytes, written, .. } => {
                if !*written && from.is_established() {
                    *written = true;
                    from.write(bytes.map_or(ENDLESS, Bytes::as_u64));
                    if bytes.is_some() {
                        from.close();
                    }
                }
                self.attentive = !(*written && self.established.is_some());
            }
            Application::Request(requests) => requests.step(now, from, to),
        }
        self.transmit(now, End::From, world);
        self.transmit(now, End::To, world);
        self.schedule_all(world);
    }

    /// The flow ends; the connection closes after it.
    fn finish(&mut self, now: Time, outcome: Outcome, world: &mut World) {
        self.last = self.sender_info();
        self.meter.finish(now);
        world.flow_ended(now);
        self.outcome = outcome;
        self.awaited = u64::MAX;
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

impl Application {
    const fn bulk(bytes: Option<Bytes>, stop: Time) -> Self {
        Self::Bulk { bytes, stop, written: false }
    }
}

impl Requests {
    fn new(now: Time, request: Bytes, response: Bytes, think: Time, count: u32) -> Self {
        let (request, response) = (request.as_u64(), response.as_u64());
        Self { request, response, think, count, asked: 0, answered: 0, next: Some(now), exchanges: Vec::new() }
    }

    /// Writes what is due at either end.
    fn step(&mut self, now: Time, from: &mut Endpoint, to: &mut Endpoint) {
        if to.is_established() && self.asked < self.count && self.next.is_some_and(|at| at <= now) {
            self.next = None;
            self.asked += 1;
            self.exchanges.push((now, None));
            to.write(self.request);
        }
        while self.answered < self.asked && from.received() >= self.request * (u64::from(self.answered) + 1) {
            self.answered += 1;
            from.write(self.response);
        }
    }

    /// The response under way has arrived.
    fn complete(&mut self, now: Time) {
        if let Some((start, length)) = self.exchanges.last_mut() {
            *length = Some(now - *start);
        }
        self.next = Some(now + self.think);
    }
}

/// What a sender has done.
fn sent(info: Option<&Info>) -> Sent {
    info.map_or_else(Sent::default, |info| Sent {
        packets: info.sent_packets,
        retransmitted: info.retransmitted_packets,
    })
}

/// A sender's state for a row of the series.
fn state(info: &Info) -> State {
    State {
        acked_bytes: info.snd_una,
        cwnd_packets: Some(info.cwnd),
        ssthresh_packets: info.ssthresh,
        srtt_ms: (info.srtt > Time::ZERO).then(|| info.srtt.as_millis_f64()),
        inflight_packets: info.inflight,
        pacing_mbps: info.pacing_rate_bps.map(|bps| bps as f64 / 1e6),
    }
}

/// What an endless bulk flow writes.
const ENDLESS: u64 = u64::MAX / 2;
