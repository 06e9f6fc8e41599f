//! Probes of real paths, over sockets that Python has opened.

use std::net::UdpSocket;
use std::os::fd::{BorrowedFd, RawFd};

use perigee_probe::{Direction, Failure, Limits, Outcome, ProbeError, ProbeSpec, Report, Server, Token};
use perigee_units::{Rate, Time};
use pyo3::prelude::*;
use serde_json::{json, Value};

use crate::callback::Callback;
use crate::json::values;

/// Carries one probe out over a socket, given by its descriptor, that is connected to the server and does not block.
///
/// Returns `sent`, `report` and `rtt_s`; or `failure` (a name, or a name with a limit) and `said`. `go_on` is called ten
/// times a second with the share that is done.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments, reason = "called by Python, with owned values")]
pub(crate) fn probe_once(
    py: Python<'_>,
    socket: RawFd,
    token: Vec<u8>,
    name: u64,
    down: bool,
    rate_bps: u64,
    packet: u16,
    headers: u8,
    time_s: f64,
    block_s: f64,
    go_on: Py<PyAny>,
) -> PyResult<Bound<'_, PyAny>> {
    let socket = opened(socket)?;
    let spec = ProbeSpec {
        direction: if down { Direction::Down } else { Direction::Up },
        rate: Rate::from_bps(rate_bps),
        packet,
        headers,
        time: Time::from_secs_f64(time_s),
        block: Time::from_secs_f64(block_s),
    };
    let mut callback = Callback::new(go_on);
    let outcome = py
        .detach(|| perigee_probe::probe(&socket, Token::new(&token), &spec, name, &mut |share| callback.ask((share,))));
    callback.finish()?;
    let told = match outcome {
        Ok(Outcome { sent, report, rtt }) => json!({
            "sent": sent,
            "report": described(&report),
            "rtt_s": rtt.as_secs_f64(),
        }),
        Err(error) => failed(&error),
    };
    values(py, &told.to_string())
}

/// Answers probes at a socket, given by its descriptor, that does not block. `go_on` is called ten times a second.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments, reason = "called by Python, with owned values")]
pub(crate) fn probe_serve(
    py: Python<'_>,
    socket: RawFd,
    token: Vec<u8>,
    secret: [u8; 32],
    rate_bps: u64,
    total_bps: u64,
    time_s: f64,
    clients: usize,
    go_on: Py<PyAny>,
) -> PyResult<()> {
    let socket = opened(socket)?;
    let limits = Limits {
        rate: Rate::from_bps(rate_bps),
        total: Rate::from_bps(total_bps),
        time: Time::from_secs_f64(time_s),
        clients,
    };
    let mut server = Server::new(Token::new(&token), secret, limits);
    let mut callback = Callback::new(go_on);
    let served = py.detach(|| perigee_probe::serve(&socket, &mut server, &mut || callback.ask(())));
    callback.finish()?;
    Ok(served?)
}

/// A socket of Python's, for as long as a call takes.
fn opened(socket: RawFd) -> PyResult<UdpSocket> {
    // SAFETY: Python keeps its socket open during the call; here it is only duplicated.
    let borrowed = unsafe { BorrowedFd::borrow_raw(socket) };
    Ok(UdpSocket::from(borrowed.try_clone_to_owned()?))
}

/// A report; a block that nothing arrived of has no delays.
fn described(report: &Report) -> Value {
    let column = |value: fn(&perigee_probe::Block) -> i32| -> Vec<Option<i32>> {
        report.blocks.iter().map(|block| (block.received > 0).then(|| value(block))).collect()
    };
    let mut described = json!(report);
    described["blocks"] = json!({
        "received": report.blocks.iter().map(|block| block.received).collect::<Vec<_>>(),
        "least_us": column(|block| block.least_us),
        "mean_us": column(|block| block.mean_us),
        "most_us": column(|block| block.most_us),
    });
    described
}

/// The failure: its name, or its name and the limit that was in the way.
fn failed(error: &ProbeError) -> Value {
    let failure = match error {
        ProbeError::Cancelled => json!("cancelled"),
        ProbeError::NobodyListens => json!("nobody_listens"),
        ProbeError::Failed(Failure::Refused(refusal) | Failure::Ended(refusal)) => json!(refusal),
        ProbeError::Failed(failure) => json!(failure),
        ProbeError::Network(_) => json!("network"),
    };
    json!({"failure": failure, "said": error.to_string()})
}
