//! Flows over QUIC (`docs/models/quic.md`): their datagrams share the links with all other packets, and the network keeps their
//! bytes.

mod browser;
mod connection;
mod end;
mod session;

use perigee_study::{Quic, QuicLoad, Run, Traffic};

use crate::flow::OverQuic;
use crate::result::SimError;
use crate::world::{FlowStart, World};

/// Refuses flows whose algorithms QUIC cannot have.
pub(crate) fn check(run: &Run) -> Result<(), SimError> {
    for flow in &run.scenario.flows {
        let Traffic::Quic { quic, .. } = &flow.traffic else { continue };
        if let Some(why) = perigee_quic::refusal(&quic.cc, quic.ecn) {
            return Err(SimError::NotOverQuic { flow: flow.name.to_string(), why });
        }
    }
    Ok(())
}

/// A flow over QUIC that starts.
pub(crate) fn start<'a>(
    start: FlowStart<'a>,
    (quic, load): (&'a Quic, &'a QuicLoad),
    run: &'a Run,
    world: &mut World,
) -> Box<dyn OverQuic + 'a> {
    let window = run.scenario.stream_window(start.spec, quic.stream_window);
    let logged = &run.scenario.measure.qlog[..];
    match load {
        QuicLoad::App(app) => Box::new(session::QuicFlow::start(start, (quic, app), window, logged, world)),
        QuicLoad::Population(users) => {
            Box::new(browser::QuicBrowser::start(start, (quic, users), window, logged, world))
        }
    }
}
