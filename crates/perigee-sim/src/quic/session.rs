//! A flow of one QUIC connection: what its applications exchange is its traffic, and what it measures is the flow's.

use perigee_cc::Watched;
use perigee_quic::Closed;
use perigee_results::{FlowId, FlowRow, Meter, Outcome, SeriesRow, Tables};
use perigee_study::{FlowSpec, Quic};
use perigee_traffic::{App, End, Script};
use perigee_units::Time;

use super::connection::{QuicColumns, QuicConnection};
use crate::application::{act, Socket as _, Wait};
use crate::connection::Sources;
use crate::flow::OverQuic;
use crate::packet::{NetPacket, Stored};
use crate::queue::EventQueue;
use crate::state_log::StateLog;
use crate::world::{FlowStart, LegEnd, World};

pub(crate) struct QuicFlow {
    connection: QuicConnection,
    script: Script,
    /// The wait of each end's application, and what it has seen of its connection.
    waits: [Wait; 2],
    seen: [(bool, bool); 2],
    /// Event source of [`OverQuic::on_instant`].
    instant: u32,
    meter: Meter,
    opener: End,
    /// Time of the handshake's end at the opener.
    established: Option<Time>,
    outcome: Outcome,
    /// Proxies on its way.
    passed: u32,
    /// States of the sender's congestion control, if they are asked for, and its watched values.
    states: Option<Box<StateLog>>,
    watched: &'static [Watched],
    /// State when the flow ended.
    ended: Option<Box<QuicColumns>>,
}

impl QuicFlow {
    pub(crate) fn start(
        start: FlowStart<'_>,
        (quic, app): (&Quic, &App),
        stream_window: u64,
        logged: &[u32],
        world: &World,
    ) -> Self {
        let FlowStart { now, number, instants, timers, spec, seed, measure } = start;
        let sources = Sources { way: 2 * number, timers: timers + 2 * number };
        // A transfer is one message, however its application writes it.
        let per_message = quic.stream_per_response && !matches!(app, App::Bulk(_));
        let seeds = spec.stream(seed, "quic");
        let mut connection = QuicConnection::new((spec, quic), sources, seeds, stream_window, per_message, logged);
        connection.open(now);
        let opener = connection.opener;
        if opener == End::To && matches!(app, App::Bulk(_)) {
            connection.client().ask();
        }
        debug_assert_eq!(world.connections_of(number).count(), 1, "no proxy splits it");
        Self {
            connection,
            script: spec.script(app, now, seed),
            waits: [Wait::NOTHING; 2],
            seen: [(false, false); 2],
            instant: instants,
            meter: Meter::new(now, measure, Some(app.amount())),
            opener,
            established: None,
            outcome: Outcome::TimeLimit,
            passed: quic.passed,
            states: measure.states.map(|of| Box::new(StateLog::new(of))),
            watched: quic.cc.algorithm().watched(),
            ended: None,
        }
    }

    /// After something has happened at an end: measures it, lets the applications act, and sends.
    fn turn(&mut self, now: Time, end: End, world: &mut World) {
        self.measure(now, end, world);
        let acts = self.meter.end().is_none() && self.is_due(now);
        if acts {
            self.attend(now);
            // Their new waits may be reached already.
            self.measure(now, End::To, world);
        }
        self.connection.transmit(now, end, world);
        if acts {
            self.connection.transmit(now, other(end), world);
        }
        self.fail_if_closed(now, world);
        self.set_instant(world);
    }

    /// Takes what an end has measured and received into account.
    fn measure(&mut self, now: Time, end: End, world: &mut World) {
        if self.meter.end().is_some() {
            return;
        }
        let host = &mut self.connection.ends[end as usize];
        if self.established.is_none() && end == self.opener && host.endpoint.is_connected() {
            self.established = Some(now);
        }
        if end == End::From {
            let rtt = host.endpoint.take_rtt();
            if let Some(rtt) = rtt {
                self.meter.round_trip(rtt);
            }
            if let Some(states) = &mut self.states {
                states.look_at_quic(now, rtt, &mut host.endpoint, self.watched);
            }
            return;
        }
        let received = host.received();
        let passed = received != self.meter.received() && self.meter.deliver(now, received, received);
        if passed || received >= self.waits[End::To as usize].bytes {
            let counts = self.connection.counts();
            self.meter.record_progress(now, counts);
            if self.script.delivered(now, received) {
                self.finish(now, Outcome::Completed, world);
            }
        }
    }

    /// Whether an application has something to do.
    fn is_due(&self, now: Time) -> bool {
        [End::From, End::To].into_iter().any(|end| {
            let (host, wait) = (&self.connection.ends[end as usize], &self.waits[end as usize]);
            let seen = (host.is_established(), host.peer_closed());
            seen != self.seen[end as usize] || host.received() >= wait.bytes || now >= wait.until
        })
    }

    /// The applications at connected ends do what is next.
    fn attend(&mut self, now: Time) {
        for end in [End::To, End::From] {
            let host = &mut self.connection.ends[end as usize];
            if host.is_established() {
                self.waits[end as usize] = act(now, end, host, &mut self.script);
            }
            self.seen[end as usize] = (host.is_established(), host.peer_closed());
        }
    }

    /// Ends the flow if its connection has ended before it.
    fn fail_if_closed(&mut self, now: Time, world: &mut World) {
        if self.meter.end().is_some() {
            return;
        }
        let closed = [self.opener, other(self.opener)].map(|end| self.connection.ends[end as usize].closed());
        let outcome = match closed[0].or(closed[1]) {
            None => return,
            Some(Closed::TimedOut) => Outcome::TimedOut,
            Some(Closed::VersionMismatch) => Outcome::Refused,
            Some(Closed::ByPeer(_) | Closed::Reset) => Outcome::Reset,
            Some(Closed::Here | Closed::Error(_)) => Outcome::Stopped,
        };
        self.finish(now, outcome, world);
    }

    /// The flow ends, and its client closes the connection.
    fn finish(&mut self, now: Time, outcome: Outcome, world: &mut World) {
        self.end(now, outcome);
        world.flow_ended(now);
        self.connection.client().endpoint.close(now, 0);
        self.connection.transmit(now, self.opener, world);
    }

    /// Measurements of the flow stop.
    fn end(&mut self, now: Time, outcome: Outcome) {
        self.ended = Some(Box::new(self.connection.columns(now)));
        self.outcome = outcome;
        self.meter.finish(now);
    }

    /// Sets the event of the next instant of applications and meter.
    fn set_instant(&self, world: &mut World) {
        let next = match self.meter.end() {
            Some(_) => Time::MAX,
            None => self.waits[0].until.min(self.waits[1].until).min(self.script.ends_at()),
        };
        let next = next.min(self.meter.next_instant());
        if next == Time::MAX {
            world.network.queue.remove(self.instant);
        } else {
            world.network.queue.set(self.instant, next);
        }
    }
}

impl OverQuic for QuicFlow {
    fn on_packet(&mut self, now: Time, at: LegEnd, packet: &NetPacket, world: &mut World) {
        self.connection.on_packet(now, at.end, packet, world);
        self.turn(now, at.end, world);
    }

    fn dropped(&mut self, _now: Time, _leg: u32, packet: &Stored, world: &mut World) {
        self.connection.dropped(packet, world);
    }

    fn on_timer(&mut self, now: Time, at: LegEnd, world: &mut World) {
        self.connection.on_timer(now, at.end, world);
        self.turn(now, at.end, world);
    }

    fn on_instant(&mut self, now: Time, world: &mut World) {
        if self.meter.next_instant() <= now {
            let counts = self.connection.counts();
            self.meter.record_progress(now, counts);
        }
        if self.meter.end().is_none() && self.script.ends_at() <= now {
            let outcome = if self.established.is_some() { Outcome::Completed } else { Outcome::Unconnected };
            self.finish(now, outcome, world);
        }
        self.turn(now, self.opener, world);
    }

    fn series_row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        let (counts, state) = (self.connection.counts(), self.connection.state(self.meter.received()));
        self.meter.series_row(now, id, counts, state)
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn cut_off(&mut self, now: Time, outcome: Outcome) {
        if self.meter.end().is_none() {
            self.end(now, outcome);
        }
    }

    fn progress(&self, now: Time) -> f64 {
        if self.meter.end().is_some() {
            1.0
        } else {
            self.script.progress(now, self.meter.received())
        }
    }

    fn outstanding(&self) -> u64 {
        self.connection.outstanding.into()
    }

    fn missed_timer(&self, queue: &EventQueue) -> Option<String> {
        self.connection.missed_timer(queue)
    }

    fn take_qlogs(&mut self) -> Vec<(End, String, Vec<u8>)> {
        self.connection.take_qlogs().map(|(end, qlog)| (end, String::new(), qlog)).collect()
    }

    fn write(&mut self, _spec: &FlowSpec, mut row: FlowRow, stop: Time, tables: &mut Tables) {
        let columns = self.ended.take().unwrap_or_else(|| Box::new(self.connection.columns(stop)));
        self.meter.fill(&mut row, stop, columns.counts());
        columns.fill(&mut row);
        columns.fill_limits(&mut row);
        row.set_outcome(self.outcome);
        row.passed_proxies = Some(self.passed);
        row.handshake_ms = self.established.map(|at| (at - self.meter.start()).as_millis_f64());
        self.script.write(FlowId::of(&row), self.meter.end().unwrap_or(stop), tables);
        if let Some(states) = self.states.take() {
            states.write(FlowId::of(&row), self.watched, &mut tables.states);
        }
        self.meter.write_flow(row, tables);
    }
}

fn other(end: End) -> End {
    if end == End::From {
        End::To
    } else {
        End::From
    }
}
