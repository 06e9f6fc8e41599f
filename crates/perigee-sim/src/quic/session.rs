//! A flow of one QUIC connection: what its applications exchange is its traffic, and what it measures is the flow's.

use perigee_cc::Watched;
use perigee_quic::{Closed, Ecn};
use perigee_results::{FlowId, FlowRow, Measure, Meter, Outcome, SeriesRow, Tables};
use perigee_traffic::{App, End, Script};
use perigee_units::Time;

use super::carrier::{Carrier, Place, QuicFlow, Wake};
use super::connection::{OfFlow, QuicColumns, QuicConnection};
use crate::application::{act, Socket as _, Wait};
use crate::state_log::StateLog;

pub(crate) struct QuicSession {
    connection: QuicConnection,
    script: Script,
    /// The wait of each end's application, and what it has seen of its connection.
    waits: [Wait; 2],
    seen: [(bool, bool); 2],
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

impl QuicSession {
    pub(crate) fn start(now: Time, of: OfFlow<'_>, app: &App, seed: u64, measure: &Measure) -> Self {
        let OfFlow { spec, quic, .. } = of;
        // A transfer is one message, however its application writes it.
        let per_message = quic.stream_per_response && !matches!(app, App::Bulk(_));
        let mut connection = QuicConnection::new(of, 0, spec.stream(seed, "quic"), per_message);
        connection.open(now);
        let opener = connection.opener;
        if opener == End::To && matches!(app, App::Bulk(_)) {
            connection.client().ask();
        }
        Self {
            connection,
            script: spec.script(app, now, seed),
            waits: [Wait::NOTHING; 2],
            seen: [(false, false); 2],
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
    fn turn_at(&mut self, now: Time, end: End, carrier: &mut dyn Carrier) {
        self.measure(now, end, carrier);
        let acts = self.meter.end().is_none() && self.is_due(now);
        if acts {
            self.attend(now);
            // Their new waits may be reached already.
            self.measure(now, End::To, carrier);
        }
        self.connection.transmit(now, end, carrier);
        if acts {
            self.connection.transmit(now, other(end), carrier);
        }
        self.fail_if_closed(now, carrier);
        self.set_instant(carrier);
    }

    /// Takes what an end has measured and received into account.
    fn measure(&mut self, now: Time, end: End, carrier: &mut dyn Carrier) {
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
                self.finish(now, Outcome::Completed, carrier);
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
    fn fail_if_closed(&mut self, now: Time, carrier: &mut dyn Carrier) {
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
        self.finish(now, outcome, carrier);
    }

    /// The flow ends, and its client closes the connection.
    fn finish(&mut self, now: Time, outcome: Outcome, carrier: &mut dyn Carrier) {
        self.end(now, outcome);
        carrier.flow_ended(now);
        self.connection.client().endpoint.close(now, 0);
        self.connection.transmit(now, self.opener, carrier);
    }

    /// Measurements of the flow stop.
    fn end(&mut self, now: Time, outcome: Outcome) {
        self.ended = Some(Box::new(self.connection.columns(now)));
        self.outcome = outcome;
        self.meter.finish(now);
    }

    /// Sets the event of the next instant of applications and meter.
    fn set_instant(&self, carrier: &mut dyn Carrier) {
        let next = match self.meter.end() {
            Some(_) => Time::MAX,
            None => self.waits[0].until.min(self.waits[1].until).min(self.script.ends_at()),
        };
        let next = next.min(self.meter.next_instant());
        carrier.wake(Wake::Instant, next);
    }
}

impl QuicFlow for QuicSession {
    fn arrived(&mut self, now: Time, at: Place, datagram: &[u8], ecn: Ecn) {
        self.connection.arrived(now, at.end, datagram, ecn);
    }

    fn turn(&mut self, now: Time, at: Place, carrier: &mut dyn Carrier) {
        self.turn_at(now, at.end, carrier);
    }

    fn dropped(&mut self, _now: Time, _connection: u32) {
        self.connection.dropped();
    }

    fn on_timer(&mut self, now: Time, at: Place, carrier: &mut dyn Carrier) {
        self.connection.on_timer(now, at.end);
        self.turn_at(now, at.end, carrier);
    }

    fn on_instant(&mut self, now: Time, carrier: &mut dyn Carrier) {
        if self.meter.next_instant() <= now {
            let counts = self.connection.counts();
            self.meter.record_progress(now, counts);
        }
        if self.meter.end().is_none() && self.script.ends_at() <= now {
            let outcome = if self.established.is_some() { Outcome::Completed } else { Outcome::Unconnected };
            self.finish(now, outcome, carrier);
        }
        self.turn_at(now, self.opener, carrier);
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

    fn missed_timer(&self, due: &dyn Fn(Place) -> Option<Time>) -> Option<Time> {
        self.connection.missed_timer(due)
    }

    fn take_qlogs(&mut self) -> Vec<(End, String, Vec<u8>)> {
        self.connection.take_qlogs().map(|(end, qlog)| (end, String::new(), qlog)).collect()
    }

    fn write(&mut self, mut row: FlowRow, stop: Time, tables: &mut Tables) {
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
