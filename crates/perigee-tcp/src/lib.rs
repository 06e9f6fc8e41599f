//! A TCP endpoint without IO: it is told what happened (`on_*`) and asked for work (`poll_*`, `next_timer`).
//!
//! It behaves as today's Linux does. It owns no clock, no random numbers and no payload bytes; streams are counted.

mod config;
mod segment;

pub use config::Config;
pub use segment::{Flags, Segment, MAX_SACK_BLOCKS};
