//! A TCP endpoint without I/O: the host reports events (`on_*`) and asks for work (`poll_*`, `next_timer`).
//!
//! The endpoint behaves like a current Linux kernel. It owns no clock and no random numbers, and counts payload instead of storing it.

#![allow(clippy::inline_always, reason = "each is on the path of every packet, whose instructions are counted")]

mod aggregate;
mod endpoint;
mod info;
mod receiver;
mod segment;
mod sender;

pub use endpoint::{Batch, Endpoint, Failure};
pub use info::Info;
pub use segment::{Flags, Header, SackBlocks, Segment, Train, MAX_SACK_BLOCKS};
