//! Carries out a run of a study in virtual time, packet by packet.
//!
//! [`run`] takes one [`Run`] and returns the tables of `perigee_results`. The same run gives the same
//! tables on any machine and in any build: events have a total order, quantities are integers, and random numbers come
//! from named streams. See `docs/models/simulator.md` for what is modelled and what is not.

mod application;
mod calendar;
mod capture;
mod captures;
mod carriage;
mod checks;
mod compact;
mod connection;
mod datagram_flow;
mod engine;
mod event_log;
mod feeders;
mod flow;
mod hop;
mod link_account;
mod lookahead;
mod network;
mod packet;
mod places;
mod population_flow;
mod processing;
mod proxy;
mod queue;
mod result;
mod ring;
mod routes;
mod split;
mod tcp_flow;
#[cfg(test)]
mod tests;
mod visit;
mod wire;
mod world;

use std::ops::ControlFlow;

use perigee_results::Standing;
use perigee_study::Run;

pub use queue::EventQueue;
pub use result::{Captured, RunResult, SimError};

/// Carries out one run.
///
/// `progress` is called every few milliseconds of work; it may cancel the run.
///
/// # Errors
/// [`SimError::Cancelled`] where `progress` says so; [`SimError::NoWay`] where a flow cannot reach its other end, [`SimError::NotLoaded`]
/// where its congestion control is only described; [`SimError::Fault`] where the run has broken a law of the simulator.
pub fn run(run: &Run, progress: &mut dyn FnMut(&Standing) -> ControlFlow<()>) -> Result<RunResult, SimError> {
    engine::Engine::new(run, carriage::Carriage::of(&run.scenario))?.run(progress)
}
