//! A TCP endpoint without IO: its host reports events (`on_*`) and asks for work (`poll_*`, `next_timer`).
//!
//! The endpoint behaves as today's Linux does. It owns no clock, no random numbers and no payload: streams are counted.

mod endpoint;
mod gathered;
mod info;
mod receiver;
mod segment;
mod sender;

pub use endpoint::{Batch, Endpoint, Failure};
pub use info::Info;
pub use segment::{Flags, Header, Segment, MAX_SACK_BLOCKS};
