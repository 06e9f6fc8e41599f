//! A TCP endpoint without IO: it is told what happened (`on_*`) and asked for work (`poll_*`, `next_timer`).
//!
//! It behaves as today's Linux does. It owns no clock, no random numbers and no payload bytes; streams are counted.

mod ack;
mod config;
mod endpoint;
mod output;
mod queue;
mod rack;
mod receiver;
mod recovery;
mod rtt;
mod sack;
mod segment;
mod sender;

pub use config::{Config, WindowShare};
pub use endpoint::{Endpoint, Failure, Info};
pub use segment::{Flags, Segment, MAX_SACK_BLOCKS};
