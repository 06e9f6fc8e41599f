//! Probes of real paths, over sockets that Python has opened.

use std::net::UdpSocket;
use std::os::fd::{BorrowedFd, RawFd};

use perigee_probe::{
    Direction, Failure, Limits, Outcome, ProbeError, ProbeSpec, Refusal, Report, Server, Token, PING_MOST,
};
use perigee_units::{Rate, Time};
use pyo3::prelude::*;
use serde_json::{json, Value};

use crate::callback::Callback;
use crate::json::values;

/// Carries one probe out over a socket, given by its descriptor, that is connected to the server and does not block.
///
/// Returns `sent`, `report` and `rtt_s`; or `failure` and, where a limit was in the way, `limit`. `go_on` is called ten
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
            "sent": {
                "packets": sent.packets, "first_ns": sent.first_ns, "last_ns": sent.last_ns, "refused": sent.refused,
                "slips": sent.slips, "slipped_ns": sent.slipped_ns, "late_max_ns": sent.late_max_ns,
            },
            "report": described(&report),
            "rtt_s": rtt.as_secs_f64(),
        }),
        Err(error) => failed(&error),
    };
    values(py, &told.to_string())
}

/// A client's messages of one session of pings, and the meaning of the server's answers; it has no socket.
#[pyclass(frozen, module = "perigee._core")]
pub(crate) struct Pinger(perigee_probe::Pinger);

#[pymethods]
impl Pinger {
    /// `session` is random, `key` the secret of both ends.
    #[new]
    #[allow(clippy::needless_pass_by_value, reason = "called by Python, with owned values")]
    fn new(session: u32, key: Vec<u8>) -> Self {
        Self(perigee_probe::Pinger::new(session, Token::new(&key)))
    }

    /// The question for a challenge.
    fn hello(&self) -> Vec<u8> {
        written(|out| self.0.hello(out))
    }

    /// Returns the message that opens the session, with the challenge that came and the number of the next ping.
    fn open(&self, challenge: [u8; 16], first: u32) -> Vec<u8> {
        written(|out| self.0.open(challenge, first, out))
    }

    /// A ping of `size` bytes.
    fn ask(&self, number: u32, size: usize) -> Vec<u8> {
        written(|out| self.0.ask(number, size, out))
    }

    /// The meaning of a datagram of the server; `None`: it is nothing of ours.
    #[allow(clippy::needless_pass_by_value, reason = "called by Python, with owned values")]
    fn read(&self, datagram: Vec<u8>) -> Option<PingReply> {
        let reply = |kind, number| PingReply { kind, number, challenge: Vec::new() };
        Some(match self.0.read(&datagram)? {
            perigee_probe::PingReply::Challenge(challenge) => {
                PingReply { challenge: challenge.to_vec(), ..reply("challenge", 0) }
            }
            perigee_probe::PingReply::Welcome(pings) => reply("welcome", pings.into()),
            perigee_probe::PingReply::Answer(at) => reply("answer", at.into()),
            perigee_probe::PingReply::TooMany(at) => reply("too_many", at.into()),
            perigee_probe::PingReply::Refused(Refusal::TooMany(limit)) => reply("too_many_sessions", limit),
            perigee_probe::PingReply::Refused(_) => reply("busy", 0),
        })
    }
}

/// A datagram of a server of pings. `kind` is `challenge` (with its bytes), `welcome` (`number`: the pings that are answered
/// in a second), `answer` or `too_many` (the ping's number), `too_many_sessions` (the limit), or `busy`.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct PingReply {
    kind: &'static str,
    number: u64,
    challenge: Vec<u8>,
}

fn written(write: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut out = vec![0; PING_MOST];
    let length = write(&mut out);
    out.truncate(length);
    out
}

/// Answers probes and pings at a socket, given by its descriptor, that does not block. `go_on` is called ten times a second
/// with the pings answered so far, the clients at a probe, and the last address that spoke an older version, if any.
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
    pings: u32,
    go_on: Py<PyAny>,
) -> PyResult<()> {
    let socket = opened(socket)?;
    let limits = Limits {
        rate: Rate::from_bps(rate_bps),
        total: Rate::from_bps(total_bps),
        time: Time::from_secs_f64(time_s),
        clients,
        pings,
    };
    let mut server = Server::new(Token::new(&token), secret, limits);
    let mut callback = Callback::new(go_on);
    let served = py.detach(|| {
        perigee_probe::serve(&socket, &mut server, &mut |server| {
            callback.ask((server.answered(), server.clients(), server.older().map(|older| older.ip().to_string())))
        })
    });
    callback.finish()?;
    Ok(served?)
}

/// A socket of Python's, for as long as a call takes.
fn opened(socket: RawFd) -> PyResult<UdpSocket> {
    // SAFETY: Python keeps its socket open during the call; here it is only duplicated.
    let borrowed = unsafe { BorrowedFd::borrow_raw(socket) };
    Ok(UdpSocket::from(borrowed.try_clone_to_owned()?))
}

fn described(report: &Report) -> Value {
    let column = |value: fn(&perigee_probe::Block) -> i64| -> Vec<Option<i64>> {
        report.blocks.iter().map(|block| (block.received > 0).then(|| value(block))).collect()
    };
    json!({
        "received": report.received, "lost": report.lost, "duplicates": report.duplicates,
        "reordered": report.reordered, "reordered_by": report.reordered_by,
        "first_ns": report.first_ns, "last_ns": report.last_ns, "delay_ns": report.delay_ns,
        "per_block": report.per_block,
        "runs": report.runs,
        "blocks": {
            "received": report.blocks.iter().map(|block| block.received).collect::<Vec<_>>(),
            "least_us": column(|block| i64::from(block.least_us)),
            "mean_us": column(|block| i64::from(block.mean_us)),
            "most_us": column(|block| i64::from(block.most_us)),
        },
        "arrivals": report.arrivals,
    })
}

fn failed(error: &ProbeError) -> Value {
    let (failure, limit) = match error {
        ProbeError::Cancelled => ("cancelled", 0),
        ProbeError::NobodyListens => ("nobody_listens", 0),
        ProbeError::Failed(Failure::NoAnswer) => ("no_answer", 0),
        ProbeError::Failed(Failure::FellSilent) => ("fell_silent", 0),
        ProbeError::Failed(Failure::Damaged) => ("damaged", 0),
        ProbeError::Failed(Failure::TooLarge) => ("too_large", 0),
        ProbeError::Failed(Failure::Refused(refusal) | Failure::Ended(refusal)) => refused(*refusal),
        ProbeError::Network(_) => ("network", 0),
    };
    json!({"failure": failure, "limit": limit, "said": error.to_string()})
}

/// A refusal's name, and the limit that was in the way.
fn refused(refusal: Refusal) -> (&'static str, u64) {
    match refusal {
        Refusal::RateOfOne(limit) => ("rate_of_one", limit),
        Refusal::RateOfAll(limit) => ("rate_of_all", limit),
        Refusal::Time(limit) => ("time", limit),
        Refusal::AnotherSession => ("another_session", 0),
        Refusal::Busy => ("busy", 0),
        Refusal::TooLarge => ("too_large_there", 0),
        Refusal::Silence => ("silence", 0),
        Refusal::Unknown => ("forgotten", 0),
        Refusal::Malformed => ("malformed", 0),
        Refusal::TooMany(limit) => ("too_many", limit),
    }
}
