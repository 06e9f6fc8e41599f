//! Flows over QUIC: the flow and the stack of the simulator, over UDP sockets of the kernel and on the wall clock.
//!
//! One thread has both ends of a flow's connections. What is measured is what the ends see: their datagrams have secrets on the way.

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

use crate::os::clock::{wake_precisely, RunClock};
use crate::run::sockets::{FlowEnd, PRIORITY};

pub(crate) use keys::RealKeys;
use sockets::Sockets;
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
        let carried =
            Carried { run: self.run, spec, flow, host, series, tables: Tables::default(), report: &self.report };
        carried.carry(begins, clock, stop, self.number)
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
    fn carry(mut self, begins: Time, clock: RunClock, stop: &AtomicBool, number: u32) -> io::Result<()> {
        self.flow.on_instant(begins, &mut self.host);
        while !stop.load(Ordering::Relaxed) {
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
            self.tell(now);
            let wake = self.host.timers.next().min(self.series.next).min(now + LOOK);
            self.receive(wake, clock)?;
            if let Some(error) = self.host.trouble.take() {
                return Err(error);
            }
        }
        let end = clock.now().min(self.run.scenario.time_limit);
        self.flow.cut_off(end, Outcome::TimeLimit);
        self.sample(end);
        let qlogs = logs(&mut *self.flow, self.run, number);
        self.flow.write(self.run.flow_row("emu", self.spec), end, &mut self.tables);
        self.tell(end);
        *self.report.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.tables, qlogs));
        Ok(())
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
