//! The parts of the sender's state. Each keeps one invariant, and none depends on `Sender`.

pub(crate) mod limits;
pub(crate) mod output;
pub(crate) mod pacing;
pub(crate) mod queue;
pub(crate) mod rack;
pub(crate) mod recovery;
pub(crate) mod rtt;
pub(crate) mod scoreboard;
pub(crate) mod stream;
pub(crate) mod timer;
pub(crate) mod usage;
