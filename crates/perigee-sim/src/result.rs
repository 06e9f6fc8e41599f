//! The result of a run, or why there is none.

use perigee_results::{Name, Tables};
use perigee_units::Time;

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct RunResult {
    /// The tables, with this run's rows only.
    pub tables: Tables,
    /// Captures of the nodes that the study names, in its order.
    pub captures: Vec<Captured>,
    /// Logs of ends of QUIC connections at the nodes that the study names.
    pub qlogs: Vec<Logged>,
    /// Number of events processed, a measure of the work.
    pub events: u64,
}

/// The capture of a node.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Name of the node.
    pub node: Name,
    /// A pcapng file.
    pub pcapng: Vec<u8>,
}

/// The log of an end of a QUIC connection.
#[derive(Clone, Debug)]
pub struct Logged {
    /// Name of the file: node, flow and ending.
    pub name: String,
    /// A qlog file.
    pub qlog: Vec<u8>,
}

/// Why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The progress callback cancelled it.
    #[error("the run was cancelled")]
    Cancelled,
    /// A flow's path is empty or does not lead where it should.
    #[error("flow `{flow}` has no path from `{from}` to `{to}`; connect them by links or correct the routes")]
    NoWay {
        /// Name of the flow.
        flow: String,
        /// Name of the node at its start.
        from: String,
        /// Name of its destination.
        to: String,
    },
    /// A flow's congestion control is user-provided, and this process has only its description.
    #[error("flow `{flow}`: `{cc}` is not loaded; its code runs in a process of its own")]
    NotLoaded {
        /// Name of the flow.
        flow: String,
        /// Name of the algorithm.
        cc: String,
    },
    /// A flow is over QUIC, which cannot have its congestion control.
    #[error("flow `{flow}`: {why}")]
    NotOverQuic {
        /// Name of the flow.
        flow: String,
        /// The reason, and what to do.
        why: String,
    },
    /// A flow is over QUIC, which this build of the simulator has not.
    #[error("flow `{0}` is over QUIC, which is not simulated in a browser; run the study with `perigee run`")]
    NoQuic(String),
    /// The run broke a law of the simulator, so its tables are not valid.
    #[error("{broken}, {} s into the run: a fault of the simulator, so this run has no results; please report it \
        with the study", .at.as_secs_f64())]
    Fault {
        /// The law, and how it was broken.
        broken: String,
        /// Time of the last event.
        at: Time,
    },
}
