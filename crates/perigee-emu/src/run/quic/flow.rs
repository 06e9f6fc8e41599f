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
use super::sockets::Sockets;
use super::timers::Timers;
use crate::os::clock::{sleep, RunClock};

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
    let carried = Carried { run, number, spec, flow, host, series, tables: Tables::default() };
    carried.carry(begins, clock).map(Some)
}

/// A flow under way.
struct Carried<'a> {
    run: &'a Run,
    number: u32,
    spec: &'a FlowSpec,
    flow: Box<dyn QuicFlow + 'a>,
    host: Host<'a>,
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
    fn carry(mut self, begins: Time, clock: RunClock) -> io::Result<Measured> {
        self.flow.on_instant(begins, &mut self.host);
        loop {
            let now = clock.now();
            while let Some(what) = self.host.timers.take_due(now) {
                match what {
                    Wake::Timer(place) => self.flow.on_timer(now, place, &mut self.host),
                    Wake::Wait(connection) => self.flow.on_wait(now, connection, &mut self.host),
                    Wake::Instant => self.flow.on_instant(now, &mut self.host),
                }
            }
            while self.series.next <= now {
                let at = self.series.next;
                self.sample(at);
                self.series.next += self.series.interval.unwrap_or(Time::MAX);
            }
            let standing = self.standing(now);
            if !self.host.home.hear(now, standing) {
                break;
            }
            let wake = self.host.timers.next().min(self.series.next).min(now + LOOK);
            self.receive(wake, clock)?;
            match self.host.trouble.take() {
                // The run ended while a connection asked for a socket.
                Some(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Some(error) => return Err(error),
                None => {}
            }
        }
        let end = clock.now().min(self.run.scenario.time_limit);
        self.flow.cut_off(end, Outcome::TimeLimit);
        self.sample(end);
        let qlogs = logs(&mut *self.flow, self.run, self.number);
        self.flow.write(self.run.flow_row("emu", self.spec), end, &mut self.tables);
        Ok((self.tables, qlogs))
    }

    /// Waits for datagrams until `wake`, and takes in what has arrived.
    fn receive(&mut self, wake: Time, clock: RunClock) -> io::Result<()> {
        self.host.sockets.wait(wake.checked_sub(clock.now()).unwrap_or_default())?;
        while let Some(socket) = self.host.sockets.take_ready() {
            while self.host.sockets.receive(socket)? {
                while let Some((place, ecn)) = self.host.sockets.next_datagram() {
                    let now = clock.now();
                    self.flow.arrived(now, place, self.host.sockets.datagram(), ecn);
                    self.flow.turn(now, place, &mut self.host);
                }
            }
        }
        Ok(())
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
        if !self.sockets.has_client(number) {
            let added = self.home.client(number).and_then(|socket| self.sockets.add_client(socket));
            self.trouble = self.trouble.take().or(added.err());
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

/// Interval of checks whether to stop.
pub(super) const LOOK: Time = Time::from_millis(100);
