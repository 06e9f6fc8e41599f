//! Programs behind emulated links.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use perigee_emu::{Exec, ExecError, Leftover, Process, Report, Surroundings, Undelivered, Watcher};
use perigee_link::profile::{self, Profile};
use perigee_link::strict::{parse, parse_value, Node, Origin, StrictError};
use perigee_link::DropReason;
use perigee_units::Time;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::{json, Value};

use crate::files::load;

create_exception!(_core, LinkError, PyValueError, "A link or a command is wrong, or this machine cannot emulate.");
create_exception!(_core, EmulationError, PyRuntimeError, "An emulation failed.");

/// Runs a program behind a link: one profile's `down`, another's `up`, each given as its text and its file, and settings
/// over both. Recordings are looked for in the folders of `search`.
///
/// After the program's end the link is driven until what was sent has arrived, for `drain_s` at the most.
///
/// `begun` is called with our address at the link, and why only this host can be reached, or `None`; `draining` with what
/// has not arrived a second after the program's end. JSON: `exit_code`, `duration_s`, processes `ended` after the program, what
/// was `undelivered`, and what the link did `down` and `up`.
#[pyfunction]
#[pyo3(signature = (command, down, up, settings, search, seed, mtu, drain_s, begun, draining))]
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
) -> PyResult<String> {
    let link = link(&down, &up, &settings, &search).map_err(|error| LinkError::new_err(error.to_string()))?;
    let (program, arguments) = command.split_first().ok_or_else(|| LinkError::new_err("there is no command to run"))?;
    let exec = Exec { down: link.down, up: link.up, seed, mtu, drain: Time::from_secs_f64(drain_s) };
    let mut caller = Caller { begun, draining, raised: None };
    let outcome = py.detach(|| exec.run(Command::new(program).args(arguments), &mut caller));
    if let Some(error) = caller.raised {
        return Err(error);
    }
    let outcome = outcome.map_err(|error| match error {
        ExecError::System { .. } => EmulationError::new_err(error.to_string()),
        _ => LinkError::new_err(error.to_string()),
    })?;
    let done = json!({
        "exit_code": exit_code(outcome.status),
        "duration_s": outcome.duration.as_secs_f64(),
        "ended": outcome.ended.iter().map(process).collect::<Vec<_>>(),
        "undelivered": undelivered(&outcome.undelivered),
        "down": report(&outcome.down),
        "up": report(&outcome.up),
    });
    Ok(done.to_string())
}

/// Ends what emulators that were killed have left; JSON: each process's `pid` and `command`, each removed `folder`.
#[pyfunction]
pub(crate) fn emu_clean() -> PyResult<String> {
    let ended = perigee_emu::clean().map_err(|error| EmulationError::new_err(error.to_string()))?;
    let ended = ended.into_iter().map(|left| match left {
        Leftover::Process(ended) => process(&ended),
        Leftover::Folder(folder) => json!({"folder": folder}),
    });
    Ok(Value::Array(ended.collect()).to_string())
}

/// How names of folders of temporary files begin that `emu_clean` removes once this process is gone; `kind` has letters only.
#[pyfunction]
pub(crate) fn scratch_prefix(kind: &str) -> PyResult<String> {
    Ok(perigee_cc_load::scratch_prefix(kind)?)
}

/// Python's side of a run.
struct Caller {
    begun: Py<PyAny>,
    draining: Py<PyAny>,
    raised: Option<PyErr>,
}

impl Watcher for Caller {
    fn begun(&mut self, surroundings: &Surroundings) {
        let closed = surroundings.closed.as_ref().map(ToString::to_string);
        let told = Python::attach(|py| self.begun.call1(py, (surroundings.near.to_string(), closed)).map(drop));
        self.raised = told.err();
    }

    fn go_on(&mut self) -> bool {
        self.raised.is_none()
    }

    fn draining(&mut self, left: &Undelivered) {
        let left = undelivered(left).to_string();
        let told = Python::attach(|py| self.draining.call1(py, (left,)).map(drop));
        self.raised = self.raised.take().or(told.err());
    }
}

/// One profile's way down, another's way up, and settings over both.
fn link(
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
        link.set(&path, setting(key, value));
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

fn process(process: &Process) -> Value {
    json!({"pid": process.pid, "command": process.command})
}

fn undelivered(left: &Undelivered) -> Value {
    json!({"connections": left.connections, "bytes": left.bytes, "packets": left.packets})
}

fn report(report: &Report) -> Value {
    let counters = &report.counters;
    let dropped =
        DropReason::ALL.iter().map(|reason| (reason.as_str().to_owned(), counters.dropped_by(*reason).into()));
    json!({
        "packets": counters.offered_packets,
        "bytes": counters.offered_bytes,
        "dropped": Value::Object(dropped.collect()),
        "largest_queue_bytes": report.largest_queue,
        "delay_mean_ms": report.delay_mean.as_millis_f64(),
        "delay_p95_ms": report.delay_p95.as_millis_f64(),
        "lateness_p50_us": report.lateness_p50.as_nanos() as f64 * 1e-3,
        "lateness_p99_us": report.lateness_p99.as_nanos() as f64 * 1e-3,
        "lateness_max_us": report.lateness_max.as_nanos() as f64 * 1e-3,
    })
}
