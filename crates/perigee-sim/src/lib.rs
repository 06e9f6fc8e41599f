//! Carries out a run of a study in virtual time, packet by packet.
//!
//! [`run`] takes one [`Run`] and answers with the tables of `perigee_results`. The same run gives the same
//! tables on any machine and in any build: events have a total order, quantities are integers, and random numbers come
//! from named streams. See `docs/models/simulator.md` for what is modelled and what is not.

mod calendar;
mod capture;
mod captures;
mod datagram_flow;
mod engine;
mod event_log;
mod network;
mod packet;
mod queue;
mod ring;
mod rows;
mod tcp_flow;
#[cfg(test)]
mod tests;
mod wire;
mod world;

use std::ops::ControlFlow;

use perigee_results::{Name, Tables};
use perigee_study::Run;

pub use queue::EventQueue;

/// What a run answers with.
#[derive(Clone, Debug, Default)]
pub struct RunResult {
    /// The tables, with this run's rows only.
    pub tables: Tables,
    /// Captures of the nodes that the study names, in its order.
    pub captures: Vec<Captured>,
    /// Events carried out: a measure of the work.
    pub events: u64,
}

/// The packets a node has seen.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Name of the node.
    pub node: Name,
    /// A pcapng file.
    pub pcapng: Vec<u8>,
}

/// Why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The progress callback asked to stop.
    #[error("the run was cancelled")]
    Cancelled,
    /// A flow's path is empty or does not lead where it should.
    #[error("flow `{flow}` has no way from `{from}` to `{to}`; connect them by links or correct the routes")]
    NoWay {
        /// Name of the flow.
        flow: String,
        /// Name of the node where the way begins.
        from: String,
        /// Name of the node where it should end.
        to: String,
    },
    /// A flow's congestion control is an author's, and this process has only its description.
    #[error("flow `{flow}`: `{cc}` is not loaded; its code runs in a process of its own")]
    NotLoaded {
        /// Name of the flow.
        flow: String,
        /// Name of the algorithm.
        cc: String,
    },
}

/// Carries out one run.
///
/// `progress` is called with the share done, from 0 to 1, every few milliseconds of work; it may cancel the run.
///
/// # Errors
/// [`SimError::Cancelled`] where `progress` says so; [`SimError::NoWay`] where a flow cannot reach its other end, [`SimError::NotLoaded`]
/// where its congestion control is only described.
pub fn run(run: &Run, progress: &mut dyn FnMut(f64) -> ControlFlow<()>) -> Result<RunResult, SimError> {
    engine::Engine::new(run, network::Carriage::default())?.run(progress)
}
