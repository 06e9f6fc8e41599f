//! Probes of a real path: datagrams at a constant rate, and a server that sends, receives and answers them.
//!
//! The protocol has neither sockets nor a clock: the driver of a [`Server`] or [`Client`] passes in datagrams and time,
//! and sends what they write. [`serve`] and [`probe`] drive them over a UDP socket on the machine's clock.

mod bucket;
mod client;
mod code;
mod protocol;
mod receiver;
mod sender;
mod server;
mod socket;

pub use client::{Client, Failure, Outcome, ProbeSpec};
pub use code::Token;
pub use protocol::{Direction, Refusal, Sent, MOST_BYTES};
pub use receiver::{Block, Receiver, Report};
pub use sender::ProbeSender;
pub use server::{Limits, Server};
pub use socket::{probe, serve, ProbeError};
