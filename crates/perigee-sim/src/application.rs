//! Runs the application at one end of a connection.

use perigee_tcp::Endpoint;
use perigee_traffic::{Action, End, Facts, Script};
use perigee_units::Time;

/// What an end of a connection waits for; [`u64::MAX`] and [`Time::MAX`] if for nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Number of bytes received.
    pub(crate) bytes: u64,
    pub(crate) until: Time,
}

/// Runs the application at a connected end as far as possible.
pub(crate) fn act(now: Time, end: End, host: &mut Endpoint, script: &mut Script) -> Wait {
    let mut wait = Wait { bytes: u64::MAX, until: Time::MAX };
    loop {
        let facts = Facts { now, received: host.received(), closed: host.peer_closed() };
        match script.next(end, facts) {
            Action::Write(bytes) => host.write(bytes),
            Action::Fill { .. } => host.write(ENDLESS),
            Action::Withdraw => host.withdraw(),
            Action::HalfClose => host.close(),
            Action::Stop => host.stop(),
            Action::Await(bytes) => {
                wait.bytes = bytes;
                break;
            }
            Action::Wait(at) => {
                wait.until = at;
                break;
            }
            Action::AwaitClose | Action::Done => break,
        }
    }
    if end == End::To {
        script.request_sent(now, host.written());
        wait.bytes = wait.bytes.min(script.awaited());
    }
    wait
}

/// Bytes written by an application that fills the connection.
const ENDLESS: u64 = u64::MAX / 2;
