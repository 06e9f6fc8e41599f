//! What flows carry, without sockets and without events: applications over TCP, populations of short connections, and sources of
//! datagrams.
//!
//! [`App`], [`Population`] and [`Datagrams`] describe them, as a study declares them. A [`Script`] plays an application at both ends of its
//! connection: a driver reports instants and counts of bytes, and carries out the [`Action`]s that the script answers with. The
//! script also keeps the exchanges, the progress and the completion, so that a transaction has one definition. A
//! [`Schedule`] says when datagrams are due. The simulator drives both by events, the emulator by threads that block in
//! sockets; neither can tell which.
//!
//! Nothing here reads a clock. Instants are those of the run, counts are payload bytes.

mod apps;
mod conversation;
mod datagrams;
mod exchanges;
mod populations;
mod script;

pub use apps::*;
pub use conversation::{Action, End, Facts, Goal};
pub use datagrams::*;
pub use populations::*;
pub use script::Script;
