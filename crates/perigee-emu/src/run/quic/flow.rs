//! A flow under way: the event loop over its sockets and timers, with both its ends.

use std::io;
use std::net::UdpSocket;

use perigee_quic::Ecn;
use perigee_results::{FlowId, Outcome, Tables};
use perigee_sim::quic::{logs, start, Carrier, Place, QuicFlow, Wake};
use perigee_study::{FlowSpec, Run};
use perigee_units::Time;

use super::keys::RealKeys;
use super::report::{FlowStanding, Measured};
use super::sockets::{Arrival, Arrived, Sockets};
use super::timers::Timers;
use crate::link::histogram::Histogram;
use crate::os::clock::{sleep, RunClock};
use crate::run::releases::release_row;

/// The run, as a flow under way sees it.
pub(crate) trait Home {
    /// A socket for the client of this connection.
    fn client(&mut self, connection: u32) -> io::Result<UdpSocket>;

    /// Hears how far the flow is; false: the flow is to end.
    fn hear(&mut self, now: Time, standing: FlowStanding) -> bool;
}

/// Carries a flow until its home ends it: what it has measured; `None` if it has not started.
pub(super) fn carry(
    run: &Run,
    number: u32,
    sockets: Sockets,
    keys: &RealKeys,
    clock: RunClock,
    home: &mut dyn Home,
) -> io::Result<Option<Measured>> {
    let spec = &run.scenario.flows[number as usize];
    let begins = spec.start_in(run.seed);
    while let Some(left) = begins.checked_sub(clock.now()).filter(|left| *left > Time::ZERO) {
        if !home.hear(clock.now(), FlowStanding::default()) {
            return Ok(None);
        }
        sleep(left.min(LOOK));
    }
    let flow = start(begins, run, number, Some(keys));
    let flow = flow.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    let host = Host { sockets, timers: Timers::default(), home, trouble: None };
    let interval = run.scenario.measure.series.filter(|interval| *interval > Time::ZERO);
    let series = Series { next: interval.unwrap_or(Time::MAX), interval, is_whole: false };
    let carried = Carried {
        run,
        number,
        spec,
        flow,
        host,
        clock,
        latest: begins,
        lateness: Histogram::new(),
        arrived: Arrived::default(),
        series,
        tables: Tables::default(),
    };
    carried.carry().map(Some)
}

/// A flow under way.
struct Carried<'a> {
    run: &'a Run,
    number: u32,
    spec: &'a FlowSpec,
    flow: Box<dyn QuicFlow + 'a>,
    host: Host<'a>,
    clock: RunClock,
    /// The instant of the latest event: time never goes back.
    latest: Time,
    /// How long after their instants events are taken up, ns.
    lateness: Histogram,
    arrived: Arrived,
    series: Series,
    tables: Tables,
}

/// The rows of the series that are due.
struct Series {
    next: Time,
    interval: Option<Time>,
    /// The last row is written.
    is_whole: bool,
}

impl Carried<'_> {
    fn carry(mut self) -> io::Result<Measured> {
        self.flow.on_instant(self.latest, &mut self.host);
        loop {
            // Before what is read: all datagrams of that time are then among it.
            let now = self.clock.now();
            self.take_in()?;
            self.pass(now);
            let standing = self.standing(now);
            if !self.host.home.hear(now, standing) {
                break;
            }
            match self.host.trouble.take() {
                // The run ended while a connection asked for a socket.
                Some(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Some(error) => return Err(error),
                None => {}
            }
            let wake = self.next().min(now + LOOK);
            self.host.sockets.wait(wake.checked_sub(self.clock.now()).unwrap_or_default())?;
        }
        let end = self.clock.now().min(self.run.scenario.time_limit);
        self.flow.cut_off(end, Outcome::TimeLimit);
        self.sample(end);
        pause();
        let qlogs = logs(&mut *self.flow, self.run, self.number);
        pause();
        self.flow.write(self.run.flow_row("emu", self.spec), end, &mut self.tables);
        let late = [0.5, 0.99, 1.0].map(|share| Time::from_nanos(self.lateness.quantile(share)));
        self.tables.releases.push(release_row(self.run, &self.spec.name, self.lateness.count(), late));
        Ok((self.tables, qlogs))
    }

    /// Takes in what has arrived, each datagram at its instant.
    fn take_in(&mut self) -> io::Result<()> {
        let mut arrived = std::mem::take(&mut self.arrived);
        self.host.sockets.read(self.clock, &mut arrived)?;
        for (&Arrival { at, place, ecn, .. }, datagram) in arrived.each() {
            self.pass(at);
            let now = self.advance(at);
            self.flow.arrived(now, place, datagram, ecn);
            self.flow.turn(now, place, &mut self.host);
        }
        self.arrived = arrived;
        Ok(())
    }

    /// Fires the timers that are due by then, and writes the rows, each at its instant.
    fn pass(&mut self, until: Time) {
        while self.next() <= until {
            if self.series.next <= self.host.timers.next() {
                let at = self.series.next;
                self.sample(at);
                self.series.next += self.series.interval.unwrap_or(Time::MAX);
            } else if let Some((at, what)) = self.host.timers.take_first() {
                let now = self.advance(at);
                match what {
                    Wake::Timer(place) => self.flow.on_timer(now, place, &mut self.host),
                    Wake::Wait(connection) => self.flow.on_wait(now, connection, &mut self.host),
                    Wake::Instant => self.flow.on_instant(now, &mut self.host),
                }
            }
        }
    }

    /// When the next timer or row is due.
    fn next(&self) -> Time {
        self.host.timers.next().min(self.series.next)
    }

    /// Goes on to an event, and returns its instant.
    fn advance(&mut self, to: Time) -> Time {
        let late = self.clock.now().checked_sub(to).unwrap_or_default();
        self.lateness.record(late.as_nanos());
        self.latest = self.latest.max(to);
        self.latest
    }

    fn sample(&mut self, at: Time) {
        if self.series.is_whole {
            return;
        }
        self.series.is_whole = self.flow.meter().end().is_some();
        let id = FlowId { run: self.run.index, flow: &self.spec.name, leg: None };
        if let Some(row) = self.flow.series_row(at, id) {
            self.tables.series.push(row);
        }
    }

    fn standing(&self, now: Time) -> FlowStanding {
        let meter = self.flow.meter();
        FlowStanding { progress: self.flow.progress(now), received: meter.received(), has_ended: meter.end().is_some() }
    }
}

/// Sockets and timers as the carrier of a flow.
struct Host<'a> {
    sockets: Sockets,
    timers: Timers,
    home: &'a mut dyn Home,
    /// Why this machine cannot carry the flow any further.
    trouble: Option<io::Error>,
}

impl Carrier for Host<'_> {
    fn add_connection(&mut self, number: u32) {
        if self.trouble.is_none() && !self.sockets.has_client(number) {
            let added = self.home.client(number).and_then(|socket| self.sockets.add_client(socket));
            self.trouble = added.err();
        }
    }

    /// How many are under way is not known: a link drops some.
    fn send(&mut self, _now: Time, from: Place, datagram: &[u8], ecn: Ecn) -> bool {
        self.trouble = self.trouble.take().or(self.sockets.send(from, datagram, ecn).err());
        false
    }

    fn wake(&mut self, what: Wake, at: Time) {
        self.timers.set(what, at);
    }

    fn flow_ended(&mut self, _now: Time) {}
}

/// Blocks for a moment: the kernel limits how long a process of real-time priority goes on without.
pub(super) fn pause() {
    sleep(PAUSE);
}

const PAUSE: Time = Time::from_micros(50);
/// Interval of checks whether to stop.
pub(super) const LOOK: Time = Time::from_millis(100);
