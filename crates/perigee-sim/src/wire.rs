//! Packets as bytes: Ethernet, IPv4 or IPv6, and TCP with its options or UDP, with right lengths and checksums.
//!
//! Payloads are zeros: the simulator counts bytes and carries none. Node n has the addresses 10.x.y.z and
//! `fd00::x.y.z` with x.y.z = n + 1, and 02:00:00:00:y:z; flow f has port 5201 + f / 16384 at its first node and 49152 + f % 16384 at its second.

use perigee_link::Ecn;
use perigee_study::IpVersion;
use perigee_tcp::{Flags, Segment};

use crate::packet::{Datagram, NetPacket, Payload, UDP_HEADER};

/// Where a packet comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// Number of the sending node.
    pub(crate) source: u32,
    /// Number of the receiving node.
    pub(crate) destination: u32,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) ip: IpVersion,
}

impl Addresses {
    /// Those of the way back.
    pub(crate) fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ip: self.ip,
        }
    }
}

/// The ports of a flow at its first and second node.
pub(crate) fn ports(flow: u32) -> (u16, u16) {
    (FIRST_PORT.wrapping_add((flow / EPHEMERAL_PORTS) as u16), EPHEMERAL_PORT + (flow % EPHEMERAL_PORTS) as u16)
}

/// The headers of a packet, Ethernet first.
pub(crate) struct Headers {
    bytes: [u8; MAX_HEADERS],
    len: usize,
    checksum_at: usize,
}

impl Headers {
    /// Encodes the headers of `packet`; `window_shift` is the window scale its sender announced, 0 for none.
    pub(crate) fn encode(packet: &NetPacket, addresses: Addresses, window_shift: u8) -> Self {
        let mut headers = Self { bytes: [0; MAX_HEADERS], len: 0, checksum_at: 0 };
        headers.put(&mac(addresses.destination));
        headers.put(&mac(addresses.source));
        match addresses.ip {
            IpVersion::V4 => headers.ipv4(packet, addresses),
            IpVersion::V6 => headers.ipv6(packet, addresses),
        }
        headers.put(&addresses.source_port.to_be_bytes());
        headers.put(&addresses.destination_port.to_be_bytes());
        match &packet.payload {
            Payload::Tcp(segment) => headers.tcp(segment, window_shift),
            Payload::Udp(datagram) => headers.udp(*datagram),
        }
        headers.transport_checksum(packet, addresses);
        headers
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn ipv4(&mut self, packet: &NetPacket, addresses: Addresses) {
        self.put(&ETHERTYPE_IPV4.to_be_bytes());
        let start = self.len;
        self.put(&[0x45, ecn_bits(packet)]);
        self.put(&packet.bytes.to_be_bytes());
        self.put(&[0, 0, 0x40, 0, TTL, protocol(packet), 0, 0]);
        self.put(&ip(addresses.source));
        self.put(&ip(addresses.destination));
        let sum = checksum(&self.bytes[start..self.len], 0);
        self.bytes[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    }

    fn ipv6(&mut self, packet: &NetPacket, addresses: Addresses) {
        self.put(&ETHERTYPE_IPV6.to_be_bytes());
        // The traffic class is across two bytes; no flow label.
        self.put(&[0x60, ecn_bits(packet) << 4, 0, 0]);
        self.put(&(packet.bytes - IpVersion::V6.header_bytes()).to_be_bytes());
        self.put(&[protocol(packet), TTL]);
        self.put(&ipv6(addresses.source));
        self.put(&ipv6(addresses.destination));
    }

    fn tcp(&mut self, segment: &Segment, window_shift: u8) {
        let syn = segment.flags.has(Flags::SYN);
        // RFC 7323, 2.2: the window of a SYN is never scaled.
        let window = if syn { segment.window } else { segment.window >> window_shift }.min(u32::from(u16::MAX));
        let header = segment.header_bytes();
        self.put(&segment.seq.to_be_bytes());
        self.put(&segment.ack.to_be_bytes());
        self.put(&[((header / 4) << 4) as u8, segment.flags.0]);
        self.put(&(window as u16).to_be_bytes());
        self.checksum_at = self.len;
        self.put(&[0, 0, 0, 0]);
        let options_end = self.len + header as usize - 20;
        if syn {
            self.put(&[OPTION_MSS, 4]);
            self.put(&segment.mss.to_be_bytes());
            let sack = if segment.sack_permitted { [OPTION_SACK_PERMITTED, 2] } else { [NOP, NOP] };
            self.put(&[NOP, NOP]);
            self.put(&sack);
            self.put(&[NOP, OPTION_WINDOW_SCALE, 3, segment.window_scale]);
        }
        if segment.timestamps {
            self.put(&[NOP, NOP, OPTION_TIMESTAMPS, 10]);
            self.put(&segment.tsval.to_be_bytes());
            self.put(&segment.tsecr.to_be_bytes());
        }
        let blocks = segment.sack.iter().take(usize::from(segment.sack_count));
        if blocks.len() > 0 {
            self.put(&[NOP, NOP, OPTION_SACK, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                self.put(&start.to_be_bytes());
                self.put(&end.to_be_bytes());
            }
        }
        debug_assert_eq!(self.len, options_end, "the segment's header length is that of its options");
    }

    fn udp(&mut self, datagram: Datagram) {
        self.put(&(datagram.len + UDP_HEADER).to_be_bytes());
        self.checksum_at = self.len;
        self.put(&[0, 0]);
    }

    /// RFC 9293, 3.1 and RFC 768: the sum over the pseudo header (of IPv6: RFC 8200, 8.1, whose zeros add nothing), the
    /// transport header and the payload, which is zeros.
    fn transport_checksum(&mut self, packet: &NetPacket, addresses: Addresses) {
        let header = addresses.ip.header_bytes();
        let start = ETHERNET_HEADER + usize::from(header);
        let length = packet.bytes - header;
        let pseudo = match addresses.ip {
            IpVersion::V4 => [ip(addresses.source), ip(addresses.destination)].map(|address| partial_sum(&address)),
            IpVersion::V6 => [ipv6(addresses.source), ipv6(addresses.destination)].map(|address| partial_sum(&address)),
        };
        let pseudo = pseudo[0] + pseudo[1] + u32::from(protocol(packet)) + u32::from(length);
        let mut sum = checksum(&self.bytes[start..self.len], pseudo);
        if protocol(packet) == PROTOCOL_UDP && sum == 0 {
            sum = 0xffff;
        }
        self.bytes[self.checksum_at..self.checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

fn protocol(packet: &NetPacket) -> u8 {
    if matches!(packet.payload, Payload::Tcp(_)) {
        PROTOCOL_TCP
    } else {
        PROTOCOL_UDP
    }
}

fn ecn_bits(packet: &NetPacket) -> u8 {
    match packet.ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 2,
        Ecn::Marked => 3,
    }
}

/// A unique local address (RFC 4193).
fn ipv6(node: u32) -> [u8; 16] {
    let mut address = [0; 16];
    address[0] = 0xfd;
    address[12..].copy_from_slice(&(node + 1).to_be_bytes());
    address
}

fn ip(node: u32) -> [u8; 4] {
    let [_, a, b, c] = (node + 1).to_be_bytes();
    [10, a, b, c]
}

fn mac(node: u32) -> [u8; 6] {
    let [_, _, b, c] = (node + 1).to_be_bytes();
    [2, 0, 0, 0, b, c]
}

/// Sum of 16-bit words, not yet folded.
fn partial_sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0))).sum()
}

/// The Internet checksum (RFC 1071) of `bytes` and what is already summed.
fn checksum(bytes: &[u8], before: u32) -> u16 {
    let mut sum = partial_sum(bytes) + before;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

const ETHERNET_HEADER: usize = 14;
const MAX_HEADERS: usize = ETHERNET_HEADER + 40 + 60;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const TTL: u8 = 64;
const NOP: u8 = 1;
const OPTION_MSS: u8 = 2;
const OPTION_WINDOW_SCALE: u8 = 3;
const OPTION_SACK_PERMITTED: u8 = 4;
const OPTION_SACK: u8 = 5;
const OPTION_TIMESTAMPS: u8 = 8;
const FIRST_PORT: u16 = 5201;
const EPHEMERAL_PORT: u16 = 49_152;
const EPHEMERAL_PORTS: u32 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071s_example() {
        // RFC 1071, 3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0), !0xddf2);
    }

    #[test]
    fn flows_between_two_nodes_have_ports_of_their_own() {
        assert_ne!(ports(0), ports(1));
        assert_ne!(ports(0), ports(EPHEMERAL_PORTS));
    }
}
