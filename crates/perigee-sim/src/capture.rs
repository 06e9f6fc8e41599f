//! What a node sees of its packets, as a pcapng file in memory.
//!
//! Each link at the node is an interface of the file. A packet is written when it arrives over a link and when it is
//! given to one (before its queue), so a router shows it twice, on two interfaces. Only headers are kept: the original
//! length is there, the zeros of the payload are not.

use std::time::Duration;

use perigee_capture::{Direction, LinkType, Writer};
use perigee_units::Time;

use crate::packet::NetPacket;
use crate::wire::{Addresses, Headers};

/// The capture of one node.
pub(crate) struct Capture {
    writer: Writer<Vec<u8>>,
    /// Payload bytes kept of each packet.
    payload: usize,
}

impl Capture {
    /// An empty capture with one interface per name, that keeps `payload` bytes of each packet's payload.
    pub(crate) fn new<'a>(interfaces: impl IntoIterator<Item = &'a str>, payload: usize) -> Self {
        let writer = Writer::new(Vec::new(), LinkType::Ethernet, interfaces, None).expect(IN_MEMORY);
        Self { writer, payload }
    }

    /// Writes a packet that passes the interface of this number.
    pub(crate) fn packet(
        &mut self,
        now: Time,
        interface: u32,
        direction: Direction,
        packet: &NetPacket,
        addresses: Addresses,
        window_shift: u8,
    ) {
        let headers = Headers::encode(packet, addresses, window_shift);
        let original_len = u32::from(packet.bytes) + ETHERNET_HEADER;
        let mut data = headers.as_bytes().to_vec();
        data.resize((data.len() + self.payload).min(original_len as usize), 0);
        let at = Duration::from_nanos(now.as_nanos());
        self.writer.packet(at, interface, direction, original_len, &data).expect(IN_MEMORY);
    }

    /// The file.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.writer.into_inner()
    }
}

const IN_MEMORY: &str = "writing to memory cannot fail, and every interface was described";
const ETHERNET_HEADER: u32 = 14;
