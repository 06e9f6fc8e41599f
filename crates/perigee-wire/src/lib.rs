//! Packets as they are on a wire.
//!
//! A [`Packet`] is read from bytes and written as bytes. [`address`], [`mac`] and [`Ports`] are the plan by which every
//! engine numbers its nodes and flows. A [`SenderView`] follows one direction of a TCP connection where its data are sent:
//! new data, retransmissions, round trips; a [`ReceiverView`] follows it where the data arrive. A [`CaptureWriter`] writes
//! packets as pcapng. [`Departing`] and [`Joined`] are a device's segmentation and receive offload.

mod extensions;
mod follow;
mod hop;
mod offload;
mod packet;
mod pcapng;
mod plan;
mod spans;
mod tcp;

pub use follow::{Position, ReceiverView, SenderView};
pub use hop::{destination, write_ecn, write_lower_effort, HopFields, LOWER_EFFORT};
pub use offload::{Departing, Joined, Offload};
pub use packet::{
    append_payload, echo_header, ethernet_header, unreachable, IpVersion, Packet, Transport, ETHERNET_HEADER_BYTES,
};
pub use pcapng::{CaptureWriter, Direction, LinkType};
pub use plan::{address, mac, Ports};
pub use spans::Spans;
pub use tcp::{Opening, Sack, Tcp};
