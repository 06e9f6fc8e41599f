//! The content of flows, without sockets and without events: applications over TCP, populations of short connections, and sources
//! of datagrams.
//!
//! [`App`], [`Population`] and [`Datagrams`] describe them as a study declares them. A [`Script`] plays an application at both ends of
//! its connection: a driver reports instants and counts of bytes, and executes the [`Action`]s that the script returns. The script
//! also keeps the exchanges, the progress and the completion, so that a transaction has one definition. A [`Schedule`] has the
//! due times of datagrams. The simulator drives both by events, the emulator by threads that block in sockets; they behave the
//! same.
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
