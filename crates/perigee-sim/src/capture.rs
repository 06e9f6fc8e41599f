//! What a node sees of its packets, as a pcapng file in memory.
//!
//! Each link at the node is an interface of the file. A packet is written when it arrives over a link and when it is
//! given to one (before its queue), so a router shows it twice, on two interfaces. Only headers are kept: the original
//! length is there, the zeros of the payload are not.

use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness};
use perigee_units::Time;

use crate::packet::NetPacket;
use crate::wire::{Addresses, Headers};

/// The capture of one node.
pub(crate) struct Capture {
    writer: PcapNgWriter<Vec<u8>>,
    /// Payload bytes kept of each packet.
    payload: usize,
}

/// Which way a packet passes a node's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Inbound = 1,
    Outbound = 2,
}

impl Capture {
    /// An empty capture with one interface per name, that keeps `payload` bytes of each packet's payload.
    pub(crate) fn new<'a>(interfaces: impl IntoIterator<Item = &'a str>, payload: usize) -> Self {
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), Endianness::Little).expect(IN_MEMORY);
        for name in interfaces {
            let name = InterfaceDescriptionOption::IfName(name.to_owned().into());
            let options = vec![name, InterfaceDescriptionOption::IfTsResol(NANOSECONDS)];
            let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
            writer.write_block(&block.into_block()).expect(IN_MEMORY);
        }
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
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: Duration::from_nanos(now.as_nanos()),
            original_len,
            data: data.into(),
            options: vec![EnhancedPacketOption::Flags(direction as u32)],
        };
        self.writer.write_block(&block.into_block()).expect(IN_MEMORY);
    }

    /// The file.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.writer.into_inner()
    }
}

const IN_MEMORY: &str = "writing to memory cannot fail, and every interface was described";
const ETHERNET_HEADER: u32 = 14;
/// `if_tsresol`: ten to the minus nine.
const NANOSECONDS: u8 = 9;
