//! A flow of one session: what its applications exchange is its traffic, from `from` to `to`, and what it measures is the flow's.
//!
//! Either end opens the connection, which may have legs between proxies.

use perigee_cc::Selected;
use perigee_results::{FlowId, FlowRow, Meter, Outcome, SenderCounts, SenderState, SeriesRow, Tables};
use perigee_settings::Config;
use perigee_study::{FlowSpec, Leg, Opener, Run, Tcp};
use perigee_tcp::{Failure, Flags, Info};
use perigee_traffic::{App, End};
use perigee_units::Time;

use crate::application::{Socket, Stream};
use crate::connection::{sent, state, Account, Connection, Side, Sources};
use crate::leg_meters::{FlowMeter, LegRecords};
use crate::packet::NetPacket;
use crate::remembered::Route;
use crate::session::Session;
use crate::world::{FlowStart, LegEnd, World};

pub(crate) struct SessionFlow {
    pub(crate) session: Session,
    /// Measurements of the legs between proxies.
    legs: Option<Box<LegRecords>>,
    /// Event source of [`SessionFlow::on_instant`].
    instant: u32,
    /// Time of its event; [`Time::MAX`] if none is set.
    pub(crate) next_instant: Time,
    /// The link that delivers the data, if the receiver has lookahead.
    pub(crate) last_link: Option<u32>,
    pub(crate) meter: Meter,
    opener: End,
    /// Time of the handshake's end at the opener, from the start of the flow.
    established: Option<Time>,
    outcome: Outcome,
    /// The route of each connection, of hosts that remember it.
    routes: Vec<Option<Route>>,
    /// State of the connection, or of the first leg, when the flow ended.
    ended: Option<Box<Account>>,
}

impl SessionFlow {
    pub(crate) fn start(start: FlowStart<'_>, tcp: &Tcp, app: &App, world: &World) -> Self {
        let FlowStart { now, instants: instant, spec, seed, measure, .. } = start;
        let routes = routes(spec, tcp);
        let opener = match tcp.opened_by {
            Opener::Sender => End::From,
            Opener::Receiver => End::To,
        };
        let mut connections = connections(start, tcp, opener, (world, &routes)).into_iter();
        let first = connections.next().expect("a flow has a connection");
        let rest: Vec<_> = connections.collect();
        let legs = (!rest.is_empty()).then(|| Box::new(LegRecords::new(tcp.legs.len(), opener, app.amount(), measure)));
        let mut flow = Self {
            session: Session::new(first, rest, &tcp.legs, opener, instant, spec.script(app, now, seed)),
            legs,
            instant,
            next_instant: Time::MAX,
            last_link: None,
            meter: Meter::new(now, measure, Some(app.amount())),
            opener,
            established: None,
            outcome: Outcome::TimeLimit,
            routes,
            ended: None,
        };
        // Aggregated segments count when they are delivered.
        let counts_at_once = tcp.to.receive_offload == Time::ZERO;
        let may_look_ahead = flow.session.first.log.as_ref().is_none_or(|log| log.is_capture());
        if !flow.session.is_split() && counts_at_once && may_look_ahead {
            flow.last_link = world.network.lookahead_of(flow.session.first.sources.way);
        }
        let mut meter = FlowMeter { meter: &mut flow.meter, legs: flow.legs.as_deref_mut() };
        flow.session.open(now, opener, &mut meter);
        flow
    }

    /// Processes a packet at an end of a leg.
    #[inline]
    pub(crate) fn on_packet(&mut self, now: Time, at: LegEnd, packet: &NetPacket, world: &mut World) {
        let mut meter = FlowMeter { meter: &mut self.meter, legs: self.legs.as_deref_mut() };
        if !self.session.on_packet(now, at, packet, &mut meter, world) {
            return;
        }
        self.serve(now, at.end, world);
        if at.end == End::To && self.last_link.is_some() {
            self.process_waiting(world);
        }
        let flags = packet.stored.header.flags;
        if flags.0 & (Flags::RST | Flags::FIN) != 0 && self.closed(now, at.end, flags, world) {
            return;
        }
        self.end_turn(now, at.end, world);
    }

    /// Runs the timer of an end of a leg, which may be early.
    pub(crate) fn on_timer(&mut self, now: Time, at: LegEnd, world: &mut World) {
        let mut meter = FlowMeter { meter: &mut self.meter, legs: self.legs.as_deref_mut() };
        if !self.session.on_timer(now, at, &mut meter, world) {
            return;
        }
        let has_failed = self.session.host(at.end).is_some_and(|host| host.failure().is_some());
        if has_failed && self.failed(now, at.end, world) {
            return;
        }
        self.serve(now, at.end, world);
        self.end_turn(now, at.end, world);
    }

    /// An end of the session has processed something: it sends, and the meter and its application learn what it has accepted.
    #[inline]
    fn serve(&mut self, now: Time, end: End, world: &mut World) {
        self.transmit(now, end, world);
        let Some(host) = self.session.host(end) else { return };
        let (received, arrived) = (host.received(), host.arrived());
        let awaited = self.session.waits[end as usize].bytes;
        if end == End::From {
            if received >= awaited {
                self.attend(now, world);
            }
        } else if arrived != self.meter.arrived() {
            let passed = self.meter.deliver(now, received, arrived);
            if passed || received >= awaited {
                self.delivered(now, world);
            }
        }
    }

    /// After an end of the session has been served.
    #[inline]
    fn end_turn(&mut self, now: Time, end: End, world: &mut World) {
        if self.session.attentive {
            self.attend(now, world);
        }
        self.schedule(end, world);
    }

    /// The flow starts, or an instant has come that an application, the meter or a proxy waits for.
    pub(crate) fn on_instant(&mut self, now: Time, world: &mut World) {
        if self.meter.next_instant() <= now {
            self.meter.record_progress(now, self.sent());
        }
        if let Some(legs) = &mut self.legs {
            legs.on_instant(now, self.session.legs());
            let mut meter = FlowMeter { meter: &mut self.meter, legs: Some(legs) };
            self.session.on_memory(now, &mut meter, world);
        }
        if self.meter.end().is_none() && self.session.script.ends_at() <= now {
            let established = self.session.first.sender_info().is_some();
            self.finish(now, if established { Outcome::Completed } else { Outcome::Unconnected }, world);
        } else if self.session.next_instant() <= now {
            self.attend(now, world);
        }
        self.transmit(now, End::From, world);
        self.transmit(now, End::To, world);
        self.schedule_all(world);
    }

    /// The series rows for the interval that ends at `now`: the flow, then its legs.
    pub(crate) fn write_series(&mut self, now: Time, id: FlowId<'_>, rows: &mut impl FnMut(SeriesRow)) {
        let info = self.info().filter(|_| !self.session.is_split());
        let state = info.as_ref().map_or_else(SenderState::default, state);
        let counts = if self.session.is_split() { SenderCounts::default() } else { sent(info.as_ref()) };
        let state = SenderState { acked_bytes: self.acked(), ..state };
        self.meter.series_row(now, id, counts, state).map(&mut *rows);
        if let Some(legs) = &mut self.legs {
            legs.write_series(now, id, self.session.legs(), rows);
        }
    }

    /// Payload acknowledged to the sender, by the receiver or by the first proxy.
    fn acked(&self) -> u64 {
        self.info().map_or(0, |info| info.acked)
    }

    /// State of the sender, now or when the flow ended.
    fn info(&self) -> Option<Info> {
        self.ended.as_ref().map_or_else(|| self.session.first.sender_info(), |ended| ended.sender.clone())
    }

    /// The run ends, and the flow with it, incomplete.
    pub(crate) fn cut_off(&mut self, now: Time, outcome: Outcome) {
        if self.meter.end().is_none() {
            self.end(now, outcome);
        }
    }

    /// The other end closed its half or reset the connection; returns whether that ends the flow.
    #[cold]
    fn closed(&mut self, now: Time, end: End, flags: Flags, world: &mut World) -> bool {
        if flags.has(Flags::RST) {
            return self.failed(now, end, world);
        }
        self.session.begin_closing();
        false
    }

    /// The connection failed at an end; returns whether that ends the flow. Both ends of an unsplit flow are removed then; those of a
    /// split flow close.
    #[cold]
    fn failed(&mut self, now: Time, end: End, world: &mut World) -> bool {
        let failure = self.session.host(end).and_then(Stream::failure);
        let Some(failure) = failure.filter(|_| self.meter.end().is_none()) else { return false };
        let outcome = match failure {
            Failure::Refused => Outcome::Refused,
            Failure::Reset | Failure::Aborted => Outcome::Reset,
            Failure::TimedOut => Outcome::TimedOut,
        };
        self.finish(now, outcome, world);
        for end in [End::From, End::To] {
            if self.session.is_split() {
                self.transmit(now, end, world);
                self.schedule(end, world);
            } else {
                self.session.first.remove(end, world);
            }
        }
        if !self.session.is_split() {
            world.network.queue.remove(self.instant);
        }
        true
    }

    /// Packets sent until now or until the flow ended. A split flow has no end-to-end counts.
    fn sent(&self) -> SenderCounts {
        if self.session.is_split() {
            return SenderCounts::default();
        }
        sent(self.info().as_ref())
    }

    /// Progress, from 0 to 1.
    pub(crate) fn progress(&self, now: Time) -> f64 {
        if self.meter.end().is_some() {
            1.0
        } else {
            self.session.script.progress(now, self.received_by_now())
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
        let is_split = self.session.is_split();
        let ended = self.ended.as_ref().filter(|_| !is_split);
        row.rto_count = ended.map(|ended| ended.timeouts as u32);
        row.set_limits(&ended.map(|ended| ended.limits).unwrap_or_default());
        row.handshake_ms = self.established.map(|at| (at - self.meter.start()).as_millis_f64());
        if let Some(log) = self.session.first.log.as_mut().filter(|_| !is_split) {
            log.fill(&mut row);
            let handshake = self.established.map_or(Time::ZERO, |at| at - self.meter.start());
            self.meter.fill_capture(&mut row, stop, handshake);
        }
        let id = FlowId::of(&row);
        self.session.script.write(id, self.meter.end().unwrap_or(stop), tables);
        let id = FlowId { run: id.run, flow: &spec.name, leg: None };
        self.meter.write_flow(row, tables);
        if let Some(legs) = &mut self.legs {
            legs.write(run, spec, self.outcome, stop, tables);
        }
        for (number, connection) in (1..).zip(self.session.legs_mut()) {
            if let Some(log) = connection.log.take() {
                log.write(FlowId { leg: is_split.then_some(number), ..id }, tables);
            }
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, end: End, world: &mut World) {
        if end == End::From && self.has_lookahead() {
            if self.session.first.has_output(end) {
                self.transmit_with_lookahead(now, world);
            }
        } else {
            self.session.leg_at(end).transmit(now, end, world);
        }
    }

    #[inline]
    fn schedule(&mut self, end: End, world: &mut World) {
        self.session.leg_at(end).schedule(end, world);
    }

    /// Schedules the timers of both ends, and the next instant of applications and meter.
    fn schedule_all(&mut self, world: &mut World) {
        self.schedule(End::From, world);
        self.schedule(End::To, world);
        let app = match self.meter.end() {
            Some(_) => Time::MAX,
            None => self.session.next_instant().min(self.session.script.ends_at()),
        };
        let legs = self.legs.as_ref().map_or(Time::MAX, |legs| legs.next_instant());
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
        if received < self.session.waits[End::To as usize].bytes || self.meter.end().is_some() {
            return;
        }
        if self.session.script.delivered(now, received) {
            self.finish(now, Outcome::Completed, world);
        }
        self.attend(now, world);
    }

    /// The applications check their ends: while the connection opens or closes, and when one has something to do.
    #[cold]
    fn attend(&mut self, now: Time, world: &mut World) {
        let [Some(from), Some(to)] = [End::From, End::To].map(|end| self.session.host(end)) else {
            return self.release(world);
        };
        let opener = if self.opener == End::From { from } else { to };
        if self.established.is_none() && opener.is_established() && self.meter.end().is_none() {
            self.established = Some(now);
        }
        if self.meter.end().is_none() {
            self.session.attend(now);
            // The segment that completed the handshake may have brought all that the receiver waits for.
            if self.meter.received() >= self.session.waits[End::To as usize].bytes {
                return self.delivered(now, world);
            }
        } else {
            self.release(world);
        }
        self.transmit(now, End::From, world);
        self.transmit(now, End::To, world);
        self.schedule_all(world);
    }

    /// The flow ends; its connection closes after it.
    fn finish(&mut self, now: Time, outcome: Outcome, world: &mut World) {
        self.end(now, outcome);
        for (route, connection) in self.routes.iter().zip(self.session.legs()) {
            if let (Some(route), Some(sender)) = (route, connection.sender()) {
                world.remembered.note(*route, sender);
            }
        }
        world.flow_ended(now);
        self.session.waits.iter_mut().for_each(|wait| wait.bytes = u64::MAX);
        self.session.attentive = true;
        // The connection of a split flow goes on until its proxies have passed on what they hold: its sender adds nothing more.
        let is_split = self.session.is_split();
        for end in [End::From, End::To] {
            match self.session.host_mut(end) {
                Some(host) if is_split => host.stop(),
                Some(host) => host.close(),
                None => {}
            }
        }
    }

    /// Measurements of the flow stop.
    fn end(&mut self, now: Time, outcome: Outcome) {
        self.ended = Some(Box::new(self.session.first.account(now, self.opener)));
        self.outcome = outcome;
        self.meter.finish(now);
        if let Some(legs) = &mut self.legs {
            legs.finish(now, self.session.legs());
        }
    }

    fn release(&mut self, world: &mut World) {
        if !self.session.is_split() {
            self.session.first.release(world);
        }
    }
}

/// The route of each connection of a flow whose sender remembers what has ended on it.
fn routes(spec: &FlowSpec, tcp: &Tcp) -> Vec<Option<Route>> {
    let of = |config: &Config, route| config.route_metrics.then_some(route);
    if tcp.legs.is_empty() {
        return vec![of(&tcp.from, (spec.from, spec.to))];
    }
    tcp.legs.iter().map(|leg| of(&leg.sender.config, (leg.from, leg.to))).collect()
}

/// The connections of a flow, one per leg.
fn connections(
    start: FlowStart<'_>,
    tcp: &Tcp,
    opener: End,
    (world, routes): (&World, &[Option<Route>]),
) -> Vec<Connection> {
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
        let [mut from, to] = ends((leg, legs.next()));
        if let Some(route) = routes[leg] {
            from = Box::new(from.remembering(world.remembered.of(route)));
        }
        Connection::new([from, to], sources, spec.ip.header_bytes()).logged(measure, !tcp.legs.is_empty())
    };
    world.connections_of(number).enumerate().map(connection).collect()
}
