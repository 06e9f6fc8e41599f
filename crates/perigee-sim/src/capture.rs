//! The packets at a node as a pcapng file in memory.
//!
//! Each link at the node is an interface of the file. A packet is recorded when it arrives over a link and when it is offered to one
//! (before its queue), so a router shows it twice, on two interfaces. The file contains the headers, the number of a datagram and the
//! original length, without the zeros of the payload.

use std::time::Duration;

use perigee_units::Time;
use perigee_wire::{CaptureWriter, Direction, LinkType, ETHERNET_HEADER_BYTES};

use crate::packet::NetPacket;
use crate::wire::Endpoints;

pub(crate) struct Capture {
    writer: CaptureWriter<Vec<u8>>,
    /// Payload bytes recorded per packet.
    payload: usize,
}

impl Capture {
    /// An empty capture with one interface per name that records `payload` bytes of each packet's payload.
    pub(crate) fn new<'a>(interfaces: impl IntoIterator<Item = &'a str>, payload: usize) -> Self {
        let writer = CaptureWriter::new(Vec::new(), LinkType::Ethernet, interfaces, None).expect(IN_MEMORY);
        Self { writer, payload }
    }

    /// Records a packet at an interface.
    pub(crate) fn packet(
        &mut self,
        now: Time,
        interface: u32,
        direction: Direction,
        packet: &NetPacket,
        endpoints: Endpoints,
        window_shift: u8,
    ) {
        let original_len = u32::from(packet.stored.bytes) + ETHERNET_HEADER_BYTES as u32;
        let mut data = endpoints.headers(packet, window_shift);
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
