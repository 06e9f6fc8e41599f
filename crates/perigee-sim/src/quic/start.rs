//! The start of a flow over QUIC, what it cannot be started with, and the logs that it leaves.

use perigee_study::{QuicLoad, Run, Traffic};
use perigee_traffic::End;
use perigee_units::Time;

use super::browser::QuicBrowser;
use super::carrier::{MakeKeys, QuicFlow};
use super::connection::OfFlow;
use super::session::QuicSession;
use crate::result::{Logged, SimError};

/// Refuses flows whose algorithms QUIC cannot have.
///
/// # Errors
/// [`SimError::NotOverQuic`], with the reason.
pub fn check(run: &Run) -> Result<(), SimError> {
    for flow in &run.scenario.flows {
        let Traffic::Quic { quic, .. } = &flow.traffic else { continue };
        if let Some(why) = perigee_quic::refusal(&quic.cc, quic.ecn) {
            return Err(SimError::NotOverQuic { flow: flow.name.to_string(), why });
        }
    }
    Ok(())
}

/// The flow of this number in a run, which starts now; `None` if it is not over QUIC. Without `keys` they cost nothing and keep nothing
/// secret.
pub fn start<'a>(
    now: Time,
    run: &'a Run,
    number: u32,
    keys: Option<&'a (dyn MakeKeys + Sync)>,
) -> Option<Box<dyn QuicFlow + 'a>> {
    let spec = &run.scenario.flows[number as usize];
    let Traffic::Quic { quic, load } = &spec.traffic else { return None };
    let measure = &run.scenario.measure;
    let of_flow = OfFlow {
        spec,
        quic,
        stream_window: run.scenario.stream_window(spec, quic.stream_window),
        logged: &measure.qlog,
        keys,
    };
    Some(match load {
        QuicLoad::App(app) => Box::new(QuicSession::start(now, of_flow, app, run.seed, measure)),
        QuicLoad::Population(users) => Box::new(QuicBrowser::start(now, of_flow, users, run.seed, measure)),
    })
}

/// The logs of a flow's ends, as files of a run.
pub fn logs(flow: &mut dyn QuicFlow, run: &Run, number: u32) -> Vec<Logged> {
    let spec = &run.scenario.flows[number as usize];
    let file = |(end, connection, qlog): (End, String, Vec<u8>)| {
        let node = &run.scenario.nodes[if end == End::From { spec.from } else { spec.to } as usize];
        Logged { name: format!("{node}-{}{connection}.sqlog", spec.name), qlog }
    };
    flow.take_qlogs().into_iter().map(file).collect()
}
