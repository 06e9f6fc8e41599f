//! Flows over QUIC: the flow and the stack of the simulator, over UDP sockets of the kernel and on the wall clock.
//!
//! One thread has both ends of a flow's connections. What is measured is what the ends see: their datagrams have secrets on the way.
//!
//! The flow's time is that of its events, as in the simulator: the instant at which the kernel had a datagram, or for which a timer was set,
//! in their order. Where the thread comes late to them, so does what the ends send then, as if the path had kept it; but no round trip and no
//! pause begins or ends with the thread's own turn.

mod keys;
mod sockets;
mod timers;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use perigee_quic::Ecn;
use perigee_results::{FlowId, Outcome, Tables};
use perigee_sim::quic::{logs, start, Carrier, Place, QuicFlow, Wake};
use perigee_sim::Logged;
use perigee_study::{FlowSpec, Opener, Quic, Run};
use perigee_traffic::End;
use perigee_units::Time;

use crate::link::histogram::Histogram;
use crate::os::clock::{wake_precisely, RunClock};
use crate::run::releases::release_row;
use crate::run::sockets::{FlowEnd, PRIORITY};

pub(crate) use keys::RealKeys;
use sockets::{Arrival, Arrived, Sockets};
use timers::Timers;

/// The application of a flow over QUIC, before its start.
pub(crate) struct QuicApplication<'a> {
    run: &'a Run,
    number: u32,
    sockets: Sockets<'a>,
    keys: Arc<RealKeys>,
    report: Arc<QuicReport>,
}

/// Reports of a flow to the run's observer.
#[derive(Default)]
pub(crate) struct QuicReport {
    has_ended: AtomicBool,
    /// Progress, as the bits of a number from 0 to 1.
    progress: AtomicU64,
    received: AtomicU64,
    /// Its tables and logs, after the run; `None` of a flow that has not started.
    measured: Mutex<Option<(Tables, Vec<Logged>)>>,
}

impl<'a> QuicApplication<'a> {
    /// Sockets of the flow of this number, between the places of `from` and `to`.
    pub(crate) fn new(
        run: &'a Run,
        (number, quic): (u32, &Quic),
        [from, to]: [FlowEnd<'a>; 2],
        keys: Arc<RealKeys>,
    ) -> io::Result<Self> {
        let (client, ends) = match quic.opened_by {
            Opener::Sender => (End::From, [from, to]),
            Opener::Receiver => (End::To, [to, from]),
        };
        Ok(Self { run, number, sockets: Sockets::new(number, client, ends)?, keys, report: Arc::default() })
    }

    /// The report for the observer.
    pub(crate) fn report(&self) -> Arc<QuicReport> {
        self.report.clone()
    }

    /// Carries the flow until stopped.
    pub(crate) fn carry(self, clock: RunClock, stop: &AtomicBool) -> io::Result<()> {
        let spec = &self.run.scenario.flows[self.number as usize];
        let begins = spec.start_in(self.run.seed);
        if !clock.sleep_until(begins, stop) {
            return Ok(());
        }
        self.sockets.join_clients()?;
        wake_precisely(PRIORITY);
        let flow = start(begins, self.run, self.number, Some(&*self.keys));
        let flow = flow.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let host = Host { sockets: self.sockets, timers: Timers::default(), trouble: None };
        let interval = self.run.scenario.measure.series.filter(|interval| *interval > Time::ZERO);
        let series = Series { next: interval.unwrap_or(Time::MAX), interval, is_whole: false };
        let carried = Carried {
            run: self.run,
            spec,
            flow,
            host,
            clock,
            latest: begins,
            lateness: Histogram::new(),
            arrived: Arrived::default(),
            series,
            tables: Tables::default(),
            report: &self.report,
        };
        carried.carry(stop, self.number)
    }
}

impl QuicReport {
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    pub(crate) fn progress(&self) -> f64 {
        f64::from_bits(self.progress.load(Ordering::Relaxed))
    }

    /// Bytes received by the flow.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Takes what the flow has measured.
    pub(crate) fn take(&self) -> Option<(Tables, Vec<Logged>)> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A flow under way.
struct Carried<'a> {
    run: &'a Run,
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
    report: &'a QuicReport,
}

/// The rows of the series that are due.
struct Series {
    next: Time,
    interval: Option<Time>,
    /// The last row is written.
    is_whole: bool,
}

impl Carried<'_> {
    fn carry(mut self, stop: &AtomicBool, number: u32) -> io::Result<()> {
        self.flow.on_instant(self.latest, &mut self.host);
        while !stop.load(Ordering::Relaxed) {
            // Before what is read: all datagrams of that time are then among it.
            let now = self.clock.now();
            self.take_in()?;
            self.pass(now);
            self.tell(now);
            if let Some(error) = self.host.trouble.take() {
                return Err(error);
            }
            let wake = self.next().min(now + LOOK);
            self.host.sockets.wait(wake.checked_sub(self.clock.now()).unwrap_or_default())?;
        }
        let end = self.clock.now().min(self.run.scenario.time_limit);
        self.flow.cut_off(end, Outcome::TimeLimit);
        self.sample(end);
        let qlogs = logs(&mut *self.flow, self.run, number);
        self.flow.write(self.run.flow_row("emu", self.spec), end, &mut self.tables);
        let late = [0.5, 0.99, 1.0].map(|share| Time::from_nanos(self.lateness.quantile(share)));
        self.tables.releases.push(release_row(self.run, &self.spec.name, self.lateness.count(), late));
        self.tell(end);
        *self.report.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.tables, qlogs));
        Ok(())
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

    fn tell(&self, now: Time) {
        self.report.progress.store(self.flow.progress(now).to_bits(), Ordering::Relaxed);
        self.report.received.store(self.flow.meter().received(), Ordering::Relaxed);
        self.report.has_ended.store(self.flow.meter().end().is_some(), Ordering::Release);
    }
}

/// Sockets and timers as the carrier of a flow.
struct Host<'a> {
    sockets: Sockets<'a>,
    timers: Timers,
    /// Why this machine cannot carry the flow any further.
    trouble: Option<io::Error>,
}

impl Carrier for Host<'_> {
    fn add_connection(&mut self, number: u32) {
        self.trouble = self.trouble.take().or(self.sockets.add_client(number).err());
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
const LOOK: Time = Time::from_millis(100);
