//! Reads packets, and follows TCP connections by them.
//!
//! [`Packet::read`] takes an IP packet apart. A [`Sender`] follows one direction of a connection where its data are
//! sent: what is new, what is sent again, and the round trips. A [`Receiver`] follows it where they arrive.

mod follow;
mod packet;

pub use follow::{Receiver, Sender};
pub use packet::{Packet, Sack, Tcp, Transport};
