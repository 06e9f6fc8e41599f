//! Bandwidth on demand: terminals share a TDMA channel and send in the slots allocated to them.
//!
//! A [`TdmaSpec`] describes the channel. The `Channel` stores the packets of its terminals, makes the burst time plan of each super-frame
//! from their requests, and sends the packets in the slots of the plan.

mod allocation;
mod channel;
mod demand;
mod plan;
mod spec;

pub(crate) use channel::Channel;
pub use spec::{Follows, Requests, TdmaSpec, TerminalOf};
