//! Probes of a real path: datagrams at a constant rate, answered or received by a server of the same program.
//!
//! The protocol is without sockets and clock: [`Server`] and [`Client`] are told what arrived and when, and say what to
//! send and when. [`serve`] and [`probe`] drive them over a UDP socket on the machine's clock.

mod bucket;
mod client;
mod code;
mod ping;
mod ping_sessions;
mod receiver;
mod sender;
mod server;
mod socket;
mod wire;

pub use client::{Client, Failure, Outcome, Plan};
pub use code::Token;
pub use ping::{PingReply, Pinger, PING_LEAST, PING_MOST};
pub use receiver::{Block, Receiver, Report};
pub use sender::{Sender, Sent};
pub use server::{Limits, Server};
pub use socket::{probe, serve, ProbeError};
pub use wire::{Direction, Refusal, MOST_BYTES};
