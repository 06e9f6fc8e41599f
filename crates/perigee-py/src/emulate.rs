//! Programs behind emulated links.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use perigee_emu::{Exec, ExecError, ExecObserver, Leftover, LiveSample, Process, Reachability};
use perigee_link::DropReason;
use perigee_study::profile::{self, Profile};
use perigee_text::{parse, parse_value, Node, Origin, StrictError};
use perigee_units::Time;
use pyo3::prelude::*;

use crate::callback::Callback;
use crate::errors::{input_or_root_error, run_error, study_error, InputError};
use crate::files::load;

/// A process that was ended.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
pub(crate) struct EndedProcess {
    pid: u32,
    command: String,
}

/// Undelivered data: unacknowledged bytes with their number of connections, and packets on the link.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
pub(crate) struct Undelivered {
    connections: u64,
    bytes: u64,
    packets: u64,
}

/// The traffic of a link in one direction; `dropped` has the packets by reason.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
pub(crate) struct LinkReport {
    packets: u64,
    bytes: u64,
    dropped: BTreeMap<&'static str, u64>,
    largest_queue_bytes: u64,
    delay_mean_ms: f64,
    delay_p95_ms: f64,
    lateness_p50_us: f64,
    lateness_p99_us: f64,
    lateness_max_us: f64,
}

/// Counters of one direction of a link since the program began; the largest queue is that since the sample before.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
pub(crate) struct DirectionSample {
    released_bytes: u64,
    dropped: u64,
    largest_queue_bytes: u64,
}

/// A program that ran behind a link. An exit code of 128 and more is the signal that ended it; `ended` are the processes
/// that it had left running.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct ProgramReport {
    exit_code: i32,
    duration_s: f64,
    ended: Vec<EndedProcess>,
    undelivered: Undelivered,
    down: LinkReport,
    up: LinkReport,
}

/// Runs a program behind a link: one profile's `down`, another's `up`, each given as its text and its file, and settings
/// over both. Recordings are looked for in the folders of `search`.
///
/// After the program's end the link is driven until what was sent has arrived, for `drain_s` at the most.
///
/// `begun` is called with our address at the link, and why only this host can be reached, or `None`; `draining` with what
/// has not arrived a second after the program's end; `live`, where it is given, once a second with the seconds since the
/// program began and what each direction has done so far.
#[pyfunction]
#[pyo3(signature = (command, down, up, settings, search, seed, mtu, drain_s, begun, draining, live))]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments, reason = "called by Python, with owned values")]
pub(crate) fn run_behind(
    py: Python<'_>,
    command: Vec<String>,
    down: (String, String),
    up: (String, String),
    settings: Vec<(String, String)>,
    search: Vec<PathBuf>,
    seed: u64,
    mtu: u32,
    drain_s: f64,
    begun: Py<PyAny>,
    draining: Py<PyAny>,
    live: Option<Py<PyAny>>,
) -> PyResult<ProgramReport> {
    let link = link(&down, &up, &settings, &search).map_err(study_error)?;
    let (program, arguments) =
        command.split_first().ok_or_else(|| InputError::new_err("there is no command to run"))?;
    let exec = Exec { down: link.down, up: link.up, seed, mtu, drain: Time::from_secs_f64(drain_s) };
    let mut caller =
        Caller { begun: Callback::new(begun), draining: Callback::new(draining), live: live.map(Callback::new) };
    let outcome = py.detach(|| exec.run(Command::new(program).args(arguments), &mut caller));
    caller.begun.finish()?;
    caller.draining.finish()?;
    caller.live.map_or(Ok(()), Callback::finish)?;
    let outcome = outcome.map_err(|error| match error {
        ExecError::System { .. } => run_error(&error),
        _ => input_or_root_error(&error, matches!(error, ExecError::NotPermitted)),
    })?;
    Ok(ProgramReport {
        exit_code: exit_code(outcome.status),
        duration_s: outcome.duration.as_secs_f64(),
        ended: outcome.ended.into_iter().map(EndedProcess::from).collect(),
        undelivered: (&outcome.undelivered).into(),
        down: (&outcome.down).into(),
        up: (&outcome.up).into(),
    })
}

/// Capacity of a link of profiles and settings, as [`run_behind`] takes them: its mean rates down and up in bit/s, and its
/// round trip without queues in s.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "called by Python, with owned values")]
pub(crate) fn link_size(
    down: (String, String),
    up: (String, String),
    settings: Vec<(String, String)>,
    search: Vec<PathBuf>,
) -> PyResult<(f64, f64, f64)> {
    let link = link(&down, &up, &settings, &search).map_err(study_error)?;
    let rtt = link.down.delay.typical() + link.up.delay.typical();
    Ok((link.down.rate.mean_bps(), link.up.rate.mean_bps(), rtt.as_secs_f64()))
}

/// Ends what emulators that were killed have left: the processes that were ended, and the folders that were removed.
#[pyfunction]
pub(crate) fn emu_clean() -> PyResult<(Vec<EndedProcess>, Vec<PathBuf>)> {
    let (mut processes, mut folders) = (Vec::new(), Vec::new());
    for left in perigee_emu::clean().map_err(|error| run_error(&error))? {
        match left {
            Leftover::Process(ended) => processes.push(ended.into()),
            Leftover::Folder(folder) => folders.push(folder),
        }
    }
    Ok((processes, folders))
}

/// How names of folders of temporary files begin that are removed once this process is gone, by `emu_clean` and by who makes
/// the next one; `kind` has letters only.
#[pyfunction]
pub(crate) fn scratch_prefix(kind: &str) -> PyResult<String> {
    perigee_cc_load::sweep()?;
    Ok(perigee_cc_load::scratch_prefix(kind)?)
}

/// Python's side of a run.
struct Caller {
    begun: Callback,
    draining: Callback,
    live: Option<Callback>,
}

impl ExecObserver for Caller {
    fn begun(&mut self, surroundings: &Reachability) {
        let closed = surroundings.closed.as_ref().map(ToString::to_string);
        self.begun.tell((surroundings.near.to_string(), closed));
    }

    fn go_on(&mut self) -> bool {
        [Some(&self.begun), Some(&self.draining), self.live.as_ref()].into_iter().flatten().all(Callback::is_well)
    }

    fn live(&mut self, sample: &LiveSample) {
        if let Some(live) = &mut self.live {
            let [down, up] = [&sample.down, &sample.up].map(DirectionSample::from);
            live.tell((sample.elapsed.as_secs_f64(), down, up));
        }
    }

    fn draining(&mut self, left: &perigee_emu::Undelivered) {
        self.draining.tell((Undelivered::from(left),));
    }
}

/// One profile's way down, another's way up, and settings over both.
pub(crate) fn link(
    down: &(String, String),
    up: &(String, String),
    settings: &[(String, String)],
    search: &[PathBuf],
) -> Result<Profile, StrictError> {
    let tree = |(text, file): &(String, String)| profile::split(parse(text, file)?);
    let (mut link, other) = (tree(down)?, tree(up)?);
    if let Some(way) = other.get("up") {
        link.set(&["up"], way.clone());
    }
    for (key, value) in settings {
        let path: Vec<&str> = key.split('.').collect();
        profile::set(&mut link, &path, setting(key, value));
    }
    profile::read(&link, &mut |name| load(name, search))
}

fn setting(key: &str, value: &str) -> Node {
    parse_value(value, &Origin::place(&format!("--set {key}={value}")))
}

/// As a shell has it: 128 and the number of the signal where one ended the program.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

impl From<Process> for EndedProcess {
    fn from(Process { pid, command }: Process) -> Self {
        Self { pid, command }
    }
}

impl From<&perigee_emu::Undelivered> for Undelivered {
    fn from(left: &perigee_emu::Undelivered) -> Self {
        Self { connections: left.connections, bytes: left.bytes, packets: left.packets }
    }
}

impl From<&perigee_emu::DirectionSample> for DirectionSample {
    fn from(sample: &perigee_emu::DirectionSample) -> Self {
        Self {
            released_bytes: sample.released_bytes,
            dropped: sample.dropped,
            largest_queue_bytes: sample.largest_queue,
        }
    }
}

impl From<&perigee_emu::LinkReport> for LinkReport {
    fn from(report: &perigee_emu::LinkReport) -> Self {
        let counters = &report.counters;
        let dropped = DropReason::ALL.iter().map(|reason| (reason.as_str(), counters.dropped_by(*reason)));
        Self {
            packets: counters.offered_packets,
            bytes: counters.offered_bytes,
            dropped: dropped.collect(),
            largest_queue_bytes: report.largest_queue,
            delay_mean_ms: report.delay_mean.as_millis_f64(),
            delay_p95_ms: report.delay_p95.as_millis_f64(),
            lateness_p50_us: report.lateness_p50.as_nanos() as f64 * 1e-3,
            lateness_p99_us: report.lateness_p99.as_nanos() as f64 * 1e-3,
            lateness_max_us: report.lateness_max.as_nanos() as f64 * 1e-3,
        }
    }
}
