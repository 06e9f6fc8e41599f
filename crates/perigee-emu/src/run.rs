//! Carries a run of a study out on the real kernel.

use std::io;
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::thread;

use perigee_bpf::{hold, Held, LoadError, Program, ProgramError};
use perigee_cc::Selected;
use perigee_study::results::{ReleaseRow, Tables};
use perigee_study::{Amount, App, FlowSpec, Opener, Run, Tcp, Traffic};
use perigee_units::Time;
use thiserror::Error;

use crate::apps::{panicked, Bulk, Ends};
use crate::clock::monotonic;
use crate::driver::{Driver, Way};
use crate::exec::ExecError;
use crate::hosts::{ends, settings, Hosts};
use crate::namespace::Namespace;
use crate::tun::Tun;
use crate::watch::{Watch, FIRST_PORT};
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
/// `progress` is called with the share done some twenty times a second; it may cancel the run.
///
/// # Errors
/// Where the study asks for what the kernel cannot do, or the process may not do it.
pub fn run(run: &Run, progress: &mut dyn FnMut(f64) -> ControlFlow<()>) -> Result<Tables, RunError> {
    let scenario = &*run.scenario;
    let flows = scenario.flows.iter().map(bulk_of).collect::<Result<Vec<_>, _>>()?;
    let (configs, mtu) = settings(scenario).map_err(RunError::Impossible)?;
    let controls = Controls::new(flows.iter().map(|(tcp, _)| &tcp.cc))?;
    let hosts = Hosts::new(scenario, &configs, mtu).map_err(failed("making hosts and links"))?;
    let ways = (0..).zip(&scenario.links).map(|(number, link)| {
        let (from, to) = ends(number);
        Way { from, to, spec: &link.spec, name: &link.name }
    });
    let mut driver = Driver::new(&ways.collect::<Vec<_>>(), run.seed, mtu as usize);
    let Hosts { namespaces, devices } = hosts;
    let origin = monotonic();
    let mut transfers = Vec::with_capacity(flows.len());
    for ((spec, (tcp, amount)), port) in scenario.flows.iter().zip(&flows).zip(FIRST_PORT..) {
        let sender_opens = tcp.opened_by == Opener::Sender;
        let (opener, other) = if sender_opens { (spec.from, spec.to) } else { (spec.to, spec.from) };
        let (opener, far) = (&namespaces[opener as usize], &namespaces[other as usize]);
        let cc = controls.name_of(&tcp.cc);
        let ends = Ends::new(opener, (other, far), port, cc, tcp.from.pacing).map_err(failed("making sockets"))?;
        let start = origin + spec.start_in(run.seed);
        let (bytes, end) = match amount {
            Amount::Size(size) => (Some(size.as_u64()), Time::MAX),
            Amount::Duration(length) => (None, start + *length),
        };
        transfers.push(Bulk { start, bytes, end, sender_opens, ends });
    }
    let sockets: Vec<OnceLock<TcpStream>> = flows.iter().map(|_| OnceLock::new()).collect();
    let paced = |tcp: &Tcp| tcp.from.pacing || tcp.cc.algorithm().has_cong_control();
    let amounts: Vec<_> = flows.iter().map(|(tcp, amount)| (*amount, paced(tcp))).collect();
    let broken = AtomicBool::new(false);
    let mut watch = Watch::new(run, &amounts, &sockets, &broken, progress);
    let stop = AtomicBool::new(false);
    let (driven, carried) = thread::scope(|scope| {
        let carrying: Vec<_> = transfers
            .into_iter()
            .zip(&sockets)
            .map(|(transfer, socket)| {
                let (stop, broken) = (&stop, &broken);
                scope.spawn(move || {
                    let done = transfer.carry(socket, stop);
                    broken.fetch_or(done.is_err(), Ordering::Relaxed);
                    done
                })
            })
            .collect();
        let mut wire = TunWire::new(devices, origin);
        let driven = driver.run(&mut wire, &mut watch);
        stop.store(true, Ordering::Relaxed);
        let joined = carrying.into_iter().map(|flow| flow.join().unwrap_or_else(|_| Err(panicked())));
        let carried: io::Result<Vec<()>> = joined.collect();
        (driven, carried)
    });
    driven.map_err(failed("moving packets"))?;
    if watch.cancelled {
        return Err(RunError::Cancelled);
    }
    carried.map_err(failed("carrying a flow"))?;
    let end = (monotonic() - origin).min(scenario.time_limit);
    let mut tables = watch.finish(end, |way, log| log.close_until(end, driver.link(way)));
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
    Ok(tables)
}

/// Whether a run can be carried out here, before any of it is.
///
/// # Errors
/// Where the study asks for what the kernel cannot do, or this machine cannot emulate.
pub fn check(run: &Run) -> Result<(), RunError> {
    run.scenario.flows.iter().try_for_each(|flow| bulk_of(flow).map(drop))?;
    settings(&run.scenario).map_err(RunError::Impossible)?;
    let measure = &run.scenario.measure;
    if measure.events || !measure.pcap.is_empty() {
        let what = if measure.events { "events" } else { "pcap" };
        return Err(RunError::Impossible(format!(
            "`measure.{what}` is written by --engine sim only so far; leave it out"
        )));
    }
    let probe = Namespace::new().and_then(|namespace| namespace.enter(|| Tun::new("probe")));
    probe.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => RunError::Machine(ExecError::NotPermitted),
        io::ErrorKind::NotFound => RunError::Machine(ExecError::NoTun),
        _ => failed("making a device")(error),
    })
}

/// The congestion controls of a run, as the kernel knows them.
struct Controls {
    /// By the algorithm and its values: the name that sockets ask for.
    names: Vec<(String, Vec<u64>, String)>,
    /// What had to be loaded.
    held: Vec<Held>,
}

impl RunError {
    /// What was asked for is wrong or cannot be done on this machine.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            Self::Impossible(_) | Self::Machine(_) | Self::Program(_) => true,
            Self::Load(error) => error.is_wrong_input(),
            Self::Cancelled | Self::System { .. } => false,
        }
    }
}

impl Controls {
    /// Those that the kernel has itself stay its own, where nothing of them is set; the others are loaded as long as this lives.
    fn new<'a>(chosen: impl Iterator<Item = &'a Selected>) -> Result<Self, RunError> {
        let mut controls = Self { names: Vec::new(), held: Vec::new() };
        let own = perigee_bpf::kernel::registered().unwrap_or_default();
        for selected in chosen {
            let name = selected.algorithm().name();
            if controls.names.iter().any(|known| known.0 == name && known.1 == selected.values()) {
                continue;
            }
            let kernels = KERNELS.contains(&name) && own.iter().any(|known| known == name);
            let asked = if kernels && selected.describe().is_empty() {
                name.to_owned()
            } else {
                let program = Program::of(selected.clone())?;
                let asked = format!("e{}_{}", std::process::id() % 1_000_000, controls.names.len());
                controls.held.push(hold(&program, &asked)?);
                asked
            };
            controls.names.push((name.to_owned(), selected.values().to_vec(), asked));
        }
        Ok(controls)
    }

    /// What sockets ask for.
    fn name_of(&self, selected: &Selected) -> &str {
        let name = selected.algorithm().name();
        let same = self.names.iter().find(|known| known.0 == name && known.1 == selected.values());
        same.map_or(name, |known| &known.2)
    }
}

/// The connection of a flow, and how much it carries.
fn bulk_of(flow: &FlowSpec) -> Result<(&Tcp, Amount), RunError> {
    match &flow.traffic {
        Traffic::Tcp { tcp, .. } if !is_built_in(&tcp.cc) => Err(RunError::Impossible(format!(
            "flow `{}` has an author's file for `cc`, which only --engine sim runs so far",
            flow.name
        ))),
        Traffic::Tcp { tcp, app: App::Bulk(amount) } => Ok((tcp, *amount)),
        other => {
            let (name, kind) = (&flow.name, other.kind());
            Err(RunError::Impossible(format!(
                "flow `{name}` is of kind `{kind}`, which only --engine sim carries so far"
            )))
        }
    }
}

/// Whether an algorithm is one of Perigee's own, of which there is an object for the kernel.
fn is_built_in(selected: &Selected) -> bool {
    perigee_cc::algorithms().iter().any(|algorithm| std::ptr::eq(algorithm, selected.algorithm()))
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |error| RunError::System { what, error }
}

/// Linux's own algorithms whose decisions ours are (docs/models/tcp.md).
const KERNELS: [&str; 3] = ["reno", "cubic", "bbr"];
