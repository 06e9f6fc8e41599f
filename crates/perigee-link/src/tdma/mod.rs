//! Bandwidth on demand: terminals that share a TDMA channel and send in the slots that they were granted.
//!
//! A [`TdmaSpec`] describes the channel. The `Channel` keeps the packets of its terminals, makes the burst time plan of
//! each super-frame from what the terminals requested, and sends the packets in the slots of the plan.

mod allocation;
mod channel;
mod plan;
mod spec;

pub(crate) use channel::Channel;
pub use spec::{Requests, TdmaSpec, TerminalOf};
