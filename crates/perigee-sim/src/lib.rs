//! Simulates a run of a study packet by packet, in virtual time.
//!
//! [`run`] takes one [`Run`] and returns the tables of `perigee_results`; [`Simulation`] does so in pieces, for a driver that shows
//! them meanwhile. The same run gives the same tables on any machine and in any
//! build: events are totally ordered, quantities are integers, and random numbers come from named streams. `docs/models/simulator.md`
//! describes what is modelled and what is not.

#![allow(clippy::inline_always, reason = "each is on the path of every packet, whose instructions are counted")]

mod access;
mod answers;
mod application;
mod calendar;
mod captures;
mod carriage;
mod checks;
mod connection;
mod datagram_flow;
mod engine;
mod event_log;
mod flow;
mod hop;
mod leg_meters;
mod log;
mod lookahead;
mod network;
mod packet;
mod payloads;
mod population_flow;
mod processing;
mod proxy;
mod queue;
#[cfg(feature = "quic")]
pub mod quic;
mod relay;
mod remembered;
mod result;
mod ring;
mod routes;
mod session;
mod session_flow;
mod shaper;
mod simulation;
mod state_log;
mod store;
#[cfg(test)]
mod tests;
mod visit;
mod wire;
mod world;

use std::ops::ControlFlow;

use perigee_results::Standing;
use perigee_study::Run;

pub use engine::EVENTS_PER_PROGRESS;
pub use queue::EventQueue;
pub use result::{Captured, Logged, RunResult, SimError};
pub use simulation::Simulation;

/// Simulates one run.
///
/// `progress` is called every few milliseconds of work and may cancel the run.
///
/// # Errors
/// [`SimError::Cancelled`] if `progress` cancels; [`SimError::NoWay`] if a flow cannot reach its other end; [`SimError::NotLoaded`] if its
/// congestion control is only described; [`SimError::Fault`] if the run broke a law of the simulator.
pub fn run(run: &Run, progress: &mut dyn FnMut(&Standing) -> ControlFlow<()>) -> Result<RunResult, SimError> {
    engine::Engine::new(run, carriage::Carriage::of(&run.scenario))?.run(progress)
}
