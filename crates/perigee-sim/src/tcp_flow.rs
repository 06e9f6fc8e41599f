//! A flow over TCP: a connection between two nodes, or its legs between proxies, and the script of its application at both ends.
//!
//! The data goes from `from` to `to`; either end opens the connection.

use perigee_cc::Selected;
use perigee_results::{FlowId, FlowRow, Meter, Outcome, SenderCounts, SenderState, SeriesRow, Tables};
use perigee_settings::Config;
use perigee_study::{FlowSpec, Leg, Opener, Run, Tcp};
use perigee_tcp::{Endpoint, Failure, Flags, Header, Info, Segment};
use perigee_traffic::{App, End, Script};
use perigee_units::Time;

use crate::application::act;
use crate::connection::{sent, state, Account, Connection, Side, Sources};
use crate::split::Split;
use crate::world::{FlowStart, World};

pub(crate) struct TcpFlow {
    /// The connection; in a split flow, its first leg.
    pub(crate) connection: Connection,
    /// The further legs, and the proxies between them.
    split: Option<Box<Split>>,
    /// Event source of [`TcpFlow::on_instant`].
    instant: u32,
    /// Time of its event; [`Time::MAX`] if none is set.
    pub(crate) next_instant: Time,
    /// The link that delivers the data, if the receiver has lookahead.
    pub(crate) last_link: Option<u32>,
    pub(crate) meter: Meter,
    script: Script,
    /// By end: the byte count at which its application acts.
    pub(crate) awaited: [u64; 2],
    /// By end: the time at which its application acts.
    due: [Time; 2],
    /// Whether applications check each segment, which they do while the connection opens or closes.
    pub(crate) attentive: bool,
    /// An end has closed its half.
    closing: bool,
    opener: End,
    /// Time of the handshake's end at the opener, from the start of the flow.
    established: Option<Time>,
    outcome: Outcome,
    /// State of the connection, or of the first leg, when the flow ended.
    ended: Option<Account>,
}

impl TcpFlow {
    pub(crate) fn start(start: FlowStart<'_>, tcp: &Tcp, app: &App, world: &World) -> Self {
        let FlowStart { now, instants: instant, spec, seed, measure, .. } = start;
        let opener = match tcp.opened_by {
            Opener::Sender => End::From,
            Opener::Receiver => End::To,
        };
        let mut connections = connections(start, tcp, opener, world).into_iter();
        let connection = connections.next().expect("a flow has a connection");
        let rest: Vec<_> = connections.collect();
        let split =
            (!rest.is_empty()).then(|| Box::new(Split::new(rest, &tcp.legs, opener, instant, (app.amount(), measure))));
        let mut flow = Self {
            connection,
            split,
            instant,
            next_instant: Time::MAX,
            last_link: None,
            meter: Meter::new(now, measure, Some(app.amount())),
            script: spec.script(app, now, seed),
            awaited: [u64::MAX; 2],
            due: [Time::MAX; 2],
            attentive: true,
            closing: false,
            opener,
            established: None,
            outcome: Outcome::TimeLimit,
            ended: None,
        };
        if let Some(host) = flow.host_mut(opener) {
            host.open(now);
        }
        // Aggregated segments count when they are delivered.
        let counts_at_once = tcp.to.receive_offload == Time::ZERO;
        if flow.split.is_none() && counts_at_once && flow.connection.log.is_none() {
            flow.last_link = world.network.lookahead_of(flow.connection.sources.way);
        }
        if let Some(split) = &mut flow.split {
            split.begin(now, &mut flow.connection);
        }
        flow
    }

    /// Processes a segment at an end of a leg; an unsplit connection has leg 0 only.
    #[inline]
    pub(crate) fn on_segment(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        segment: &Segment,
        marked: bool,
        world: &mut World,
    ) {
        if self.split.is_some() {
            return self.on_segment_of_leg(now, (leg, end), segment, marked, world);
        }
        let Some(host) = self.connection.ends[end as usize].as_deref_mut() else { return };
        host.on_segment(now, segment, marked);
        self.after_segment(now, end, segment, world);
        if segment.flags.0 & (Flags::RST | Flags::FIN) != 0 && self.closed(now, end, segment, world) {
            return;
        }
        self.end_turn(now, end, world);
    }

    /// Fast path of [`TcpFlow::on_segment`] for a header without rare options and congestion mark. Returns `false`, with no effect, if the
    /// end does not expect it.
    #[inline(always)]
    pub(crate) fn on_header(&mut self, now: Time, (leg, end): (u32, End), header: &Header, world: &mut World) -> bool {
        if self.split.is_some() {
            return self.on_header_of_leg(now, (leg, end), header, world);
        }
        let Some(host) = self.connection.ends[end as usize].as_deref_mut() else { return false };
        if !host.on_expected(now, header) {
            return false;
        }
        self.after_segment(now, end, header, world);
        if self.attentive {
            self.attend(now, world);
        }
        self.connection.schedule(end, world);
        true
    }

    /// After a segment at an end of an unsplit connection: measures, and sends what follows.
    #[inline(always)]
    fn after_segment(&mut self, now: Time, end: End, header: &Header, world: &mut World) {
        let Some(host) = self.connection.ends[end as usize].as_deref_mut() else { return };
        let received = host.received();
        if end == End::From {
            let rtt = host.take_rtt();
            if let Some(rtt) = rtt {
                self.meter.round_trip(rtt);
            }
            self.connection.log_acknowledged(now, header, rtt);
            self.transmit(now, end, world);
            if received >= self.awaited[End::From as usize] {
                self.attend(now, world);
            }
        } else {
            let arrived = host.arrived();
            self.connection.transmit(now, end, world);
            self.arrived(now, received, arrived, world);
            if self.last_link.is_some() {
                self.process_waiting(world);
            }
        }
    }

    /// After an end of the flow has processed arrivals and sent what followed.
    #[inline]
    fn end_turn(&mut self, now: Time, end: End, world: &mut World) {
        if self.attentive {
            self.attend(now, world);
        }
        self.schedule(end, world);
    }

    /// `received` bytes in order, and `arrived` bytes in total, have arrived at `to`.
    #[inline]
    fn arrived(&mut self, now: Time, received: u64, arrived: u64, world: &mut World) {
        if arrived != self.meter.arrived() {
            let passed = self.meter.deliver(now, received, arrived);
            if passed || received >= self.awaited[End::To as usize] {
                self.delivered(now, world);
            }
        }
    }

    /// Processes a segment at an end of a leg of a split flow.
    #[inline(never)]
    fn on_segment_of_leg(
        &mut self,
        now: Time,
        (leg, end): (u32, End),
        segment: &Segment,
        marked: bool,
        world: &mut World,
    ) {
        let Some(split) = &mut self.split else { return };
        if !split.on_segment(now, (leg, end), (segment, marked), &mut self.connection, world) {
            return;
        }
        // The end is one of the flow's.
        self.transmit(now, end, world);
        self.took(now, end, world);
        if segment.flags.0 & (Flags::RST | Flags::FIN) != 0 && self.closed(now, end, segment, world) {
            return;
        }
        self.end_turn(now, end, world);
    }

    /// [`TcpFlow::on_header`] at an end of a leg of a split flow.
    #[inline(never)]
    fn on_header_of_leg(&mut self, now: Time, (leg, end): (u32, End), header: &Header, world: &mut World) -> bool {
        let Some(split) = &mut self.split else { return false };
        let is_own = split.on_header(now, (leg, end), header, &mut self.connection, world);
        if is_own == Some(true) {
            self.transmit(now, end, world);
            self.took(now, end, world);
            self.end_turn(now, end, world);
        }
        is_own.is_some()
    }

    /// Runs the timer of an end of a leg, which may be early.
    pub(crate) fn on_timer(&mut self, now: Time, (leg, end): (u32, End), world: &mut World) {
        if let Some(split) = &mut self.split {
            if !split.on_timer(now, (leg, end), &mut self.connection, world) {
                return;
            }
        } else if !self.connection.on_timer(now, end, world) {
            return self.connection.schedule(end, world);
        }
        if self.host(end).is_some_and(|host| host.failure().is_some()) && self.failed(now, end, world) {
            return;
        }
        self.transmit(now, end, world);
        self.took(now, end, world);
        self.end_turn(now, end, world);
    }

    /// An end of the flow may have accepted in-order payload.
    #[inline]
    fn took(&mut self, now: Time, end: End, world: &mut World) {
        let Some(host) = self.host(end) else { return };
        let (received, arrived) = (host.received(), host.arrived());
        if end == End::To {
            self.arrived(now, received, arrived, world);
        } else if received >= self.awaited[End::From as usize] {
            self.attend(now, world);
        }
    }

    /// The flow starts, or an instant has come that an application, the meter or a proxy waits for.
    pub(crate) fn on_instant(&mut self, now: Time, world: &mut World) {
        if self.meter.next_instant() <= now {
            self.meter.record_progress(now, self.sent());
        }
        if let Some(split) = &mut self.split {
            split.on_instant(now, &mut self.connection, world);
        }
        if self.meter.end().is_none() && self.script.ends_at() <= now {
            let established = self.connection.sender_info().is_some();
            self.finish(now, if established { Outcome::Completed } else { Outcome::Unconnected }, world);
        } else if self.due.iter().any(|at| *at <= now) {
            self.attend(now, world);
        }
        self.transmit(now, End::From, world);
        self.transmit(now, End::To, world);
        self.schedule_all(world);
    }

    /// The connection, or the connections of its legs.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Connection> {
        std::iter::once(&self.connection).chain(self.split.iter().flat_map(|split| split.rest()))
    }

    /// The series rows for the interval that ends at `now`: the flow, then its legs.
    pub(crate) fn write_series(&mut self, now: Time, id: FlowId<'_>, rows: &mut impl FnMut(SeriesRow)) {
        let info = self.info().filter(|_| self.split.is_none());
        let state = info.as_ref().map_or_else(SenderState::default, state);
        let counts = if self.split.is_none() { sent(info.as_ref()) } else { SenderCounts::default() };
        let state = SenderState { acked_bytes: self.acked(), ..state };
        self.meter.series_row(now, id, counts, state).map(&mut *rows);
        if let Some(split) = &mut self.split {
            split.write_series(now, id, &self.connection, rows);
        }
    }

    /// Adds the flow's connections and unread bytes to the proxies' states.
    pub(crate) fn add_to(&self, proxies: &mut [(u32, u64)]) {
        if let Some(split) = &self.split {
            split.add_to(&self.connection, proxies);
        }
    }

    /// Payload acknowledged to the sender, by the receiver or by the first proxy.
    fn acked(&self) -> u64 {
        self.info().map_or(0, |info| info.acked)
    }

    /// State of the sender, now or when the flow ended.
    fn info(&self) -> Option<Info> {
        self.ended.as_ref().map_or_else(|| self.connection.sender_info(), |ended| ended.sender.clone())
    }

    /// The run ends, and the flow with it, incomplete.
    pub(crate) fn cut_off(&mut self, now: Time, outcome: Outcome) {
        if self.meter.end().is_none() {
            self.end(now, outcome);
        }
    }

    /// The other end closed its half or reset the connection; returns whether that ends the flow.
    #[cold]
    fn closed(&mut self, now: Time, end: End, segment: &Segment, world: &mut World) -> bool {
        if segment.flags.has(Flags::RST) {
            return self.failed(now, end, world);
        }
        self.closing = true;
        self.attentive = true;
        false
    }

    /// The connection failed at an end; returns whether that ends the flow. Both ends of an unsplit flow are removed then; those of a
    /// split flow close.
    #[cold]
    fn failed(&mut self, now: Time, end: End, world: &mut World) -> bool {
        let failure = self.host(end).and_then(Endpoint::failure);
        let Some(failure) = failure.filter(|_| self.meter.end().is_none()) else { return false };
        let outcome = match failure {
            Failure::Refused => Outcome::Refused,
            Failure::Reset | Failure::Aborted => Outcome::Reset,
            Failure::TimedOut => Outcome::TimedOut,
        };
        self.finish(now, outcome, world);
        if self.split.is_none() {
            self.connection.ends = [None, None];
            self.connection.unschedule(End::From, world);
            self.connection.unschedule(End::To, world);
            world.network.queue.remove(self.instant);
        } else {
            for end in [End::From, End::To] {
                self.transmit(now, end, world);
                self.schedule(end, world);
            }
        }
        true
    }

    /// Packets sent until now or until the flow ended. A split flow has no end-to-end counts.
    fn sent(&self) -> SenderCounts {
        if self.split.is_some() {
            return SenderCounts::default();
        }
        sent(self.info().as_ref())
    }

    /// Progress, from 0 to 1.
    pub(crate) fn progress(&self, now: Time) -> f64 {
        if self.meter.end().is_some() {
            1.0
        } else {
            self.script.progress(now, self.received_by_now())
        }
    }

    /// Payload delivered by now; with lookahead, payload acknowledged to the sender.
    pub(crate) fn received_by_now(&self) -> u64 {
        if self.has_lookahead() {
            self.acked()
        } else {
            self.meter.received()
        }
    }

    /// Adds the flow and its legs to the tables; `row` has its description. A flow that has not ended by `stop` ends then.
    pub(crate) fn write(&mut self, run: &Run, spec: &FlowSpec, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        self.meter.fill(&mut row, stop, self.sent());
        row.set_outcome(self.outcome);
        let is_split = self.split.is_some();
        let ended = self.ended.as_ref().filter(|_| !is_split);
        row.rto_count = ended.map(|ended| ended.timeouts as u32);
        row.set_limits(&ended.map(|ended| ended.limits).unwrap_or_default());
        row.handshake_ms = self.established.map(|at| (at - self.meter.start()).as_millis_f64());
        let id = FlowId::of(&row);
        self.script.write(id, self.meter.end().unwrap_or(stop), tables);
        let leg = is_split.then_some(1);
        if let Some(log) = self.connection.log.take() {
            log.write(FlowId { leg, ..id }, tables);
        }
        self.meter.write_flow(row, tables);
        if let Some(split) = &mut self.split {
            split.write(run, spec, self.outcome, stop, tables);
        }
    }

    #[inline]
    fn host(&self, end: End) -> Option<&Endpoint> {
        match (&self.split, end) {
            (Some(split), End::To) => split.last().ends[end as usize].as_deref(),
            _ => self.connection.ends[end as usize].as_deref(),
        }
    }

    #[inline]
    fn host_mut(&mut self, end: End) -> Option<&mut Endpoint> {
        self.of_end(end).ends[end as usize].as_deref_mut()
    }

    #[inline]
    fn of_end(&mut self, end: End) -> &mut Connection {
        match (&mut self.split, end) {
            (Some(split), End::To) => split.last_mut(),
            _ => &mut self.connection,
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, end: End, world: &mut World) {
        if end == End::From && self.has_lookahead() {
            if self.connection.has_output(end) {
                self.transmit_with_lookahead(now, world);
            }
        } else {
            self.of_end(end).transmit(now, end, world);
        }
    }

    #[inline]
    fn schedule(&mut self, end: End, world: &mut World) {
        self.of_end(end).schedule(end, world);
    }

    /// Schedules the timers of both ends, and the next instant of applications and meter.
    fn schedule_all(&mut self, world: &mut World) {
        self.schedule(End::From, world);
        self.schedule(End::To, world);
        let app = match self.due {
            _ if self.meter.end().is_some() => Time::MAX,
            [from, to] => from.min(to).min(self.script.ends_at()),
        };
        let legs = self.split.as_ref().map_or(Time::MAX, |split| split.next_instant());
        let next = app.min(self.meter.next_instant()).min(legs);
        self.next_instant = next;
        if next == Time::MAX {
            world.network.queue.remove(self.instant);
        } else {
            world.network.queue.set(self.instant, next);
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

    /// The applications check their ends: while the connection opens or closes, and when one has something to do.
    #[cold]
    fn attend(&mut self, now: Time, world: &mut World) {
        let (Some(from), Some(to)) = (self.host(End::From), self.host(End::To)) else { return self.release(world) };
        let opener = if self.opener == End::From { from } else { to };
        let (is_open, both) = (opener.is_established(), from.is_established() && to.is_established());
        if self.established.is_none() && is_open && self.meter.end().is_none() {
            self.established = Some(now);
        }
        if self.meter.end().is_none() {
            self.attentive = self.closing || !both;
            self.act(now, End::To);
            self.act(now, End::From);
            // The segment that completed the handshake may have brought all that the receiver waits for.
            if self.meter.received() >= self.awaited[End::To as usize] {
                return self.delivered(now, world);
            }
        } else {
            self.release(world);
        }
        self.transmit(now, End::From, world);
        self.transmit(now, End::To, world);
        self.schedule_all(world);
    }

    fn act(&mut self, now: Time, end: End) {
        let Some(host) = (match (&mut self.split, end) {
            (Some(split), End::To) => split.last_mut().ends[end as usize].as_deref_mut(),
            _ => self.connection.ends[end as usize].as_deref_mut(),
        })
        .filter(|host| host.is_established()) else {
            return;
        };
        let wait = act(now, end, host, &mut self.script);
        (self.awaited[end as usize], self.due[end as usize]) = (wait.bytes, wait.until);
    }

    /// The flow ends; its connection closes after it.
    fn finish(&mut self, now: Time, outcome: Outcome, world: &mut World) {
        self.end(now, outcome);
        world.flow_ended(now);
        self.awaited = [u64::MAX; 2];
        self.attentive = true;
        for end in [End::From, End::To] {
            if let Some(host) = self.host_mut(end) {
                host.close();
            }
        }
    }

    /// Measurements of the flow stop.
    fn end(&mut self, now: Time, outcome: Outcome) {
        self.ended = Some(self.connection.account(now, self.opener));
        self.outcome = outcome;
        self.meter.finish(now);
        if let Some(split) = &mut self.split {
            split.finish(now, &self.connection);
        }
    }

    fn release(&mut self, world: &mut World) {
        if self.split.is_none() {
            self.connection.release(world);
        }
    }
}

/// The connections of a flow, one per leg.
fn connections(start: FlowStart<'_>, tcp: &Tcp, opener: End, world: &World) -> Vec<Connection> {
    let FlowStart { number, timers, spec, seed, measure, .. } = start;
    let fast_path = world.has_fast_paths();
    let endpoint = |config: &Config, cc: &Selected, name: &str, end: End| {
        let (seed, mss) = (spec.stream(seed, name).next_u64(), spec.segment(config.mss));
        Side { config, cc, seed, mss, fast_path }.endpoint(opener == end)
    };
    let mut legs = tcp.legs.iter();
    let ends = |(number, leg): (usize, Option<&Leg>)| match leg {
        None => [endpoint(&tcp.from, &tcp.cc, "from", End::From), endpoint(&tcp.to, &tcp.cc, "to", End::To)],
        Some(leg) => {
            let name = |own: bool, end: &str| if own { end.to_owned() } else { format!("leg/{number}/{end}") };
            [
                endpoint(&leg.sender.config, &leg.sender.cc, &name(number == 0, "from"), End::From),
                endpoint(&leg.receiver.config, &leg.receiver.cc, &name(leg.proxy.is_none(), "to"), End::To),
            ]
        }
    };
    let connection = |(leg, connection): (usize, u32)| {
        let sources = Sources { way: 2 * connection, timers: timers + 2 * connection };
        Connection::new(ends((leg, legs.next())), sources, spec.ip.header_bytes()).logged(measure)
    };
    world.connections_of(number).enumerate().map(connection).collect()
}
