//! Reads packets, and follows TCP connections by them.
//!
//! [`Packet::read`] takes an IP packet apart. A [`Sender`] follows one direction of a connection where its data are
//! sent: what is new, what is sent again, and the round trips. A [`Receiver`] follows it where they arrive.
//! A [`Writer`] writes packets as pcapng.

mod follow;
mod packet;
mod spans;
mod write;

pub use follow::{Position, Receiver, Sender};
pub use packet::{Opening, Packet, Sack, Tcp, Transport};
pub use spans::Spans;
pub use write::{Direction, LinkType, Writer};
