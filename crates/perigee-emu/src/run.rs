//! Carries a run of a study out on the real kernel.

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use perigee_bpf::{LoadError, ProgramError, TcpLog, TcpLogError};
use perigee_cc::Selected;
use perigee_study::results::{ReleaseRow, Tables};
use perigee_study::{Run, Traffic};
use perigee_units::Time;
use thiserror::Error;

use crate::apps::{panicked, Told};
use crate::clock::{monotonic, since_1970};
use crate::controls::{self, Controls};
use crate::driver::{Both, Driver, Way};
use crate::event_log::{self, EventLogError};
use crate::exec::ExecError;
use crate::flows::{applications, impossible};
use crate::hosts::{ends, settings, Hosts};
use crate::namespace::Namespace;
use crate::record::{CaptureError, CaptureFiles, Recorder};
use crate::tun::Tun;
use crate::watch::Watch;
use crate::wire::TunWire;

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum RunError {
    /// The progress callback asked to stop.
    #[error("the run was cancelled")]
    Cancelled,
    /// The study asks for what real hosts cannot do.
    #[error("{0}")]
    Impossible(String),
    /// This machine or process cannot emulate.
    #[error(transparent)]
    Machine(ExecError),
    /// A congestion control has no form that the kernel takes.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The kernel does not take a congestion control.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel's TCP cannot be logged.
    #[error("`measure.events`: {0}; leave it out, or use --engine sim")]
    Log(TcpLogError),
    /// A capture could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The kernel refused something else.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

/// Carries out one run in real time: its nodes are namespaces, its links are between TUN devices, its flows go over the
/// kernel's sockets with the study's congestion controls.
///
/// Captures that the study asks for are written to `captures`. `progress` is called with the share done some twenty times a
/// second; it may cancel the run.
///
/// # Errors
/// Where the study asks for what the kernel cannot do, the process may not do it, or a capture cannot be written.
pub fn run(
    run: &Run,
    captures: &CaptureFiles<'_>,
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<Tables, RunError> {
    let scenario = &*run.scenario;
    if let Some(what) = impossible(run) {
        return Err(RunError::Impossible(what));
    }
    let (configs, mtu) = settings(scenario).map_err(RunError::Impossible)?;
    let controls = Controls::new(chosen(run))?;
    let hosts = Hosts::new(scenario, &configs, mtu).map_err(failed("making hosts and links"))?;
    let ways = (0..).zip(&scenario.links).map(|(number, link)| {
        let (from, to) = ends(number);
        Way { from, to, spec: &link.spec, name: &link.name }
    });
    let mut driver = Driver::new(&ways.collect::<Vec<_>>(), run.seed, mtu as usize);
    let Hosts { namespaces, devices } = hosts;
    let log = if scenario.measure.events { Some(event_log::start(run, &namespaces)?) } else { None };
    let mut applications = applications(run, &namespaces, mtu, &controls).map_err(failed("making sockets"))?;
    // Time begins once all is made.
    let (origin, since_1970) = (monotonic(), since_1970());
    for application in &mut applications {
        application.begin_at(origin);
    }
    let mut recorder = Recorder::new(scenario, captures, since_1970)?;
    let told: Vec<Told> = applications.iter().map(|_| Told::default()).collect();
    let broken = AtomicBool::new(false);
    let mut watch = Watch::new(run, &told, &broken, progress);
    let stop = AtomicBool::new(false);
    let (driven, carried) = thread::scope(|scope| {
        let carrying: Vec<_> = applications
            .into_iter()
            .zip(&told)
            .map(|(application, told)| {
                let (stop, broken) = (&stop, &broken);
                scope.spawn(move || {
                    let done = application.carry(told, stop);
                    broken.fetch_or(done.is_err(), Ordering::Relaxed);
                    done
                })
            })
            .collect();
        let mut wire = TunWire::new(devices, origin);
        let driven = match &mut recorder {
            Some(recorder) => driver.run(&mut wire, &mut Both(&mut watch, recorder)),
            None => driver.run(&mut wire, &mut watch),
        };
        stop.store(true, Ordering::Relaxed);
        let joined = carrying.into_iter().map(|flow| flow.join().unwrap_or_else(|_| Err(panicked())));
        let carried: io::Result<Vec<()>> = joined.collect();
        (driven, carried)
    });
    driven.map_err(failed("moving packets"))?;
    if let Some(error) = recorder.take_if(|recorder| recorder.is_broken()).and_then(Recorder::error) {
        return Err(error.into());
    }
    if watch.cancelled {
        return Err(RunError::Cancelled);
    }
    carried.map_err(failed("carrying a flow"))?;
    let end = (monotonic() - origin).min(scenario.time_limit);
    // As in the simulator, the last interval is a whole one: nothing more comes in it.
    let whole = scenario.measure.series.map_or(end, |interval| whole_intervals(end, interval));
    let mut tables = watch.finish(end, |way, log| log.close_until(whole, driver.link(way)));
    for (link, report) in scenario.links.iter().zip(driver.reports()) {
        let us = |time: Time| time.as_nanos() as f64 * 1e-3;
        tables.releases.push(ReleaseRow {
            run: run.index,
            link: link.name.clone(),
            released_packets: report.released,
            late_p50_us: us(report.lateness_p50),
            late_p99_us: us(report.lateness_p99),
            late_max_us: us(report.lateness_max),
        });
    }
    if let Some(log) = log {
        let (events, gap) = event_log::finish(run, log, origin);
        tables.events = events;
        if let Some(gap) = gap {
            tables.gaps.push(gap);
        }
    }
    for gap in recorder.map_or(Ok(Vec::new()), |recorder| recorder.finish(run.index))? {
        tables.gaps.push(gap);
    }
    Ok(tables)
}

/// Whether a run can be carried out here, before any of it is.
///
/// # Errors
/// Where the study asks for what the kernel cannot do, or this machine cannot emulate.
pub fn check(run: &Run) -> Result<(), RunError> {
    if let Some(what) = impossible(run) {
        return Err(RunError::Impossible(what));
    }
    settings(&run.scenario).map_err(RunError::Impossible)?;
    if run.scenario.measure.events {
        TcpLog::check().map_err(RunError::Log)?;
    }
    let probe = Namespace::new().and_then(|namespace| namespace.enter(|| Tun::new("probe")));
    probe.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => RunError::Machine(ExecError::NotPermitted),
        io::ErrorKind::NotFound => RunError::Machine(ExecError::NoTun),
        _ => failed("making a device")(error),
    })?;
    controls::check(chosen(run))
}

impl From<EventLogError> for RunError {
    fn from(error: EventLogError) -> Self {
        match error {
            EventLogError::Log(error) => Self::Log(error),
            EventLogError::Namespace(error) => failed("looking at a namespace")(error),
        }
    }
}

impl RunError {
    /// What was asked for is wrong or cannot be done on this machine.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            Self::Impossible(_) | Self::Machine(_) | Self::Program(_) | Self::Log(_) => true,
            Self::Load(error) => error.is_wrong_input(),
            Self::Cancelled | Self::Capture(_) | Self::System { .. } => false,
        }
    }
}

/// The first end of an interval at or after `at`.
fn whole_intervals(at: Time, interval: Time) -> Time {
    let length = interval.as_nanos().max(1);
    Time::from_nanos(at.as_nanos().div_ceil(length).saturating_mul(length))
}

/// The congestion controls of a run's flows.
fn chosen(run: &Run) -> impl Iterator<Item = &Selected> {
    run.scenario.flows.iter().filter_map(|flow| match &flow.traffic {
        Traffic::Tcp { tcp, .. } => Some(&tcp.cc),
        Traffic::Udp { .. } | Traffic::Ping { .. } => None,
    })
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |error| RunError::System { what, error }
}
