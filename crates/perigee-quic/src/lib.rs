//! A QUIC endpoint without I/O, whose congestion control is a C file of `algorithms/`.
//!
//! The protocol is the stack noq-proto's, as published: packets, streams, flow control, loss detection. This crate gives it virtual time,
//! seeds and keys that cost nothing, and fills the socket that algorithms see from the stack's events (`docs/models/quic.md`).

mod cids;
mod clock;
mod config;
mod control;
mod endpoint;
mod events;
mod info;
mod null;
mod qlog;
mod setup;
mod streams;

pub use config::{AckFrequency, AddressValidation, Config, Control, EarlyData, Keys, StackControl};
pub use control::{refusal, Counters, Shared};
pub use endpoint::Endpoint;
pub use events::{Closed, Ecn, Event, StreamId};
pub use info::{Info, Limit, Limits};
/// The stack itself, for drivers of their own, so that all have one release of it.
pub use noq_proto as stack;
#[cfg(feature = "tls")]
pub use noq_proto::rustls;
pub use null::Ticket;
