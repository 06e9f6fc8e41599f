//! Executes a run of a study on the kernel's TCP: nodes, flows, observers, recordings.

mod access;
pub(crate) mod capacity;
pub(crate) mod captures;
mod classifier;
mod connection;
mod controls;
mod datagrams;
mod duration;
mod error;
mod event_log;
mod flows;
mod hosts;
mod legs;
mod limits;
mod observers;
mod population;
mod population_observer;
mod population_report;
mod probes;
mod proxies;
mod quic;
mod releases;
mod routes;
mod settings;
mod sockets;
mod tcp_application;
mod tcp_report;
mod transaction;

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder, ScopedJoinHandle};

use perigee_bpf::TcpLog;
use perigee_cc::Selected;
use perigee_results::{Standing, Tables};
use perigee_sim::Logged;
use perigee_study::{read_link, Run};
use perigee_units::Time;

use crate::exec::ExecError;
use crate::link::driver::{DirectedLink, Driver, ObserverPair};
use crate::link::wire::TunWire;
use crate::os::clock::{monotonic, since_1970, RunClock};
use crate::os::namespace::Namespace;
use crate::os::tun::Tun;
use crate::run::access::AccessWire;
use crate::run::captures::{CaptureFiles, Recorder};
use crate::run::controls::Controls;
use crate::run::error::failed;
use crate::run::flows::{impossible, Application, Flows};
use crate::run::hosts::{ends, sysctls_of_nodes, Hosts};
use crate::run::observers::RunObserver;
use crate::run::proxies::Proxies;
use crate::run::releases::write_releases;
use crate::run::routes::Routes;
use crate::run::settings::{settings, HostSettings};
use crate::run::sockets::panicked;

pub use error::RunError;
pub use hosts::HostSysctls;
pub use quic::{apart, carry_apart, hurry, MOST_SOCKETS};

/// Executes a run in real time: nodes are namespaces, links connect TUN devices, and flows use the kernel's sockets
/// with the study's congestion controls.
///
/// Captures go to `captures`; logs of ends of QUIC connections are returned with the tables. `progress` is called about twenty
/// times a second, and may cancel the run.
///
/// # Errors
/// If the kernel does not support the study, the process lacks privileges, or a capture cannot be written.
pub fn run(
    run: &Run,
    captures: &CaptureFiles<'_>,
    progress: &mut dyn FnMut(&Standing) -> ControlFlow<()>,
) -> Result<(Tables, Vec<Logged>), RunError> {
    run_beside(run, captures, BTreeMap::new(), progress)
}

/// Executes a run as [`run()`] does, beside processes that carry some of its flows: for each flow of [`apart()`] a channel, a socket
/// pair that keeps the limits of messages, to the one that calls [`carry_apart`], which has the flow's tables and logs.
///
/// # Errors
/// As [`run()`], and if such a process is missing or ends.
pub fn run_beside(
    run: &Run,
    captures: &CaptureFiles<'_>,
    apart: BTreeMap<u32, OwnedFd>,
    progress: &mut dyn FnMut(&Standing) -> ControlFlow<()>,
) -> Result<(Tables, Vec<Logged>), RunError> {
    let scenario = &*run.scenario;
    let settings = supported(run)?;
    if quic::apart(run).iter().any(|number| !apart.contains_key(number)) {
        let message = "an author's file is the congestion control of a flow over QUIC, which no process carries";
        return Err(RunError::Impossible(message.to_owned()));
    }
    let mtu = settings.mtu;
    let controls = Controls::new(chosen(run))?;
    let routes = Routes::new(scenario, &settings, run.seed);
    let hosts = Hosts::new(scenario, &settings.configs, &routes, mtu).map_err(failed("making hosts and links"))?;
    let mut driver = links(run, mtu);
    driver.change_queues(routes.queue_changes());
    let Hosts { namespaces, devices } = hosts;
    let log = if scenario.measure.events { Some(event_log::start(run, &namespaces)?) } else { None };
    let mut proxies = Proxies::start(run, &namespaces, mtu, &controls)?;
    let Flows { applications, observers, users } =
        flows::make(run, &namespaces, mtu, &controls, &proxies, apart).map_err(failed("making sockets"))?;
    // Time starts after everything is created.
    let (origin, since_1970) = (monotonic(), since_1970());
    let clock = RunClock { origin };
    let mut recorder = Recorder::new(scenario, captures, since_1970)?;
    let broken = AtomicBool::new(false);
    let mut watch = RunObserver::new(run, observers, &mut proxies, &broken, progress);
    let nodes = scenario.links.chunks(2).flat_map(|pair| [pair[0].from, pair[0].to]).collect();
    let mut wire = AccessWire::new(TunWire::new(devices, origin), users, nodes);
    let drive = || match &mut recorder {
        Some(recorder) => driver.run(&mut wire, &mut ObserverPair(&mut watch, recorder)),
        None => driver.run(&mut wire, &mut watch),
    };
    let follow = |stop: &AtomicBool| routes.follow(&namespaces, clock, stop);
    let (driven, carried, followed) = carry(applications, clock, &broken, follow, drive);
    driven.map_err(failed("moving packets"))?;
    if let Some(error) = recorder.take_if(|recorder| recorder.is_broken()).and_then(Recorder::error) {
        return Err(error.into());
    }
    if watch.cancelled {
        return Err(RunError::Cancelled);
    }
    carried.map_err(failed("carrying a flow"))?;
    followed.map_err(failed("changing a route"))?;
    if let Some(what) = watch.trouble() {
        return Err(RunError::Impossible(what));
    }
    let end = (monotonic() - origin).min(scenario.time_limit);
    // As in the simulator, the last interval is completed, without further arrivals.
    let whole = scenario.measure.series.map_or(end, |interval| whole_intervals(end, interval));
    let (mut tables, qlogs) = watch
        .finish(end, |direction, log| log.close_until(whole, |from, to| read_link(driver.link(direction), from, to)));
    write_releases(run, &driver.reports(), &mut tables);
    let (events, unlogged) = log.map(|log| event_log::finish(run, log, origin)).unwrap_or_default();
    tables.events = events;
    let uncaptured = recorder.map_or(Ok(Vec::new()), |recorder| recorder.finish(run.index))?;
    for gap in unlogged.into_iter().chain(uncaptured) {
        tables.gaps.push(gap);
    }
    Ok((tables, qlogs))
}

/// The settings of a run that the emulator supports.
fn supported(run: &Run) -> Result<HostSettings, RunError> {
    match impossible(run) {
        Some(what) => Err(RunError::Impossible(what)),
        None => settings(&run.scenario).map_err(RunError::Impossible),
    }
}

/// The driver of a run's links, with room for its flows.
fn links(run: &Run, mtu: u32) -> Driver {
    let directions = (0..).zip(&run.scenario.links).map(|(number, link)| {
        let (from, to) = ends(number);
        let gives_up_waiting = run.scenario.gives_up_waiting(number as u32);
        DirectedLink { from, to, spec: &link.spec, name: &link.name, gives_up_waiting }
    });
    let driver = Driver::new(&directions.collect::<Vec<_>>(), run.seed, mtu as usize);
    driver.prepare(duration::least(run));
    driver
}

/// A thread of [`carry`].
type Carrying<'scope> = ScopedJoinHandle<'scope, io::Result<()>>;

/// Runs each application and `follow` in threads of their own until `drive` returns. Returns the results of `drive`, the
/// applications and `follow`; an application that fails sets `broken`.
fn carry(
    applications: Vec<Application<'_>>,
    clock: RunClock,
    broken: &AtomicBool,
    follow: impl FnOnce(&AtomicBool) -> io::Result<()> + Send,
    drive: impl FnOnce() -> io::Result<()>,
) -> (io::Result<()>, io::Result<()>, io::Result<()>) {
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let following = Builder::new().spawn_scoped(scope, || follow(stop));
        let carry = |application: Application<'_>| {
            let done = application.carry(clock, stop);
            broken.fetch_or(done.is_err(), Ordering::Relaxed);
            done
        };
        let start = |application| {
            let started = Builder::new().spawn_scoped(scope, move || carry(application));
            broken.fetch_or(started.is_err(), Ordering::Relaxed);
            started
        };
        let carrying: Vec<_> = applications.into_iter().map(start).collect();
        let driven = drive();
        stop.store(true, Ordering::Relaxed);
        let end = |started: io::Result<Carrying<'_>>| started?.join().unwrap_or_else(|_| Err(panicked()));
        (driven, carrying.into_iter().try_for_each(end), end(following))
    })
}

/// Checks before a run that it can be executed here.
///
/// # Errors
/// If the kernel does not support the study, or this machine cannot emulate.
pub fn check(run: &Run) -> Result<(), RunError> {
    let settings = supported(run)?;
    let has_tcp = run.scenario.flows.iter().any(|flow| flow.traffic.tcp().is_some());
    if run.scenario.measure.states.is_some() && has_tcp {
        let message = "`measure.states`: the kernel does not show what a congestion control knows; leave it out, or \
                       use --engine sim";
        return Err(RunError::Impossible(message.to_owned()));
    }
    if run.scenario.measure.events {
        TcpLog::check().map_err(RunError::Log)?;
    }
    let probe = Namespace::new().and_then(|namespace| namespace.enter(|| Tun::new("probe", false)));
    probe.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => RunError::Machine(ExecError::NotPermitted),
        io::ErrorKind::NotFound => RunError::Machine(ExecError::NoTun),
        _ => failed("making a device")(error),
    })?;
    controls::check(chosen(run))?;
    proxies::check(run, settings.mtu)
}

/// The sysctls of each node where TCP flows end, as read back from the kernel.
///
/// # Errors
/// If the kernel does not support the study, or this process may not create namespaces.
pub fn host_sysctls(run: &Run) -> Result<Vec<HostSysctls>, RunError> {
    let settings = settings(&run.scenario).map_err(RunError::Impossible)?;
    sysctls_of_nodes(&run.scenario, &settings.configs).map_err(failed("reading the settings of namespaces"))
}

/// The first end of an interval at or after `at`.
fn whole_intervals(at: Time, interval: Time) -> Time {
    let length = interval.as_nanos().max(1);
    Time::from_nanos(at.as_nanos().div_ceil(length).saturating_mul(length))
}

/// The congestion controls of a run's flows and of their legs.
fn chosen(run: &Run) -> impl Iterator<Item = &Selected> {
    run.scenario.flows.iter().filter_map(|flow| flow.traffic.tcp()).flat_map(|tcp| {
        let legs = tcp.legs.iter().flat_map(|leg| [&leg.sender.cc, &leg.receiver.cc]);
        std::iter::once(&tcp.cc).chain(legs)
    })
}
