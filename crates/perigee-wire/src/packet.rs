//! IP packets, read and written: Ethernet, IPv4, IPv6, TCP, UDP and ICMP's echoes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    EtherType, Ethernet2Header, IcmpEchoHeader, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpEcn, IpNumber,
    Ipv4Header, Ipv6Header, UdpHeader,
};

use crate::extensions::Extensions;
use crate::tcp::{Tcp, MIN_HEADER};

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

perigee_units::encode_enum!(IpVersion { V4, V6 });

impl IpVersion {
    /// Size of a packet's header, without options, bytes.
    pub const fn header_bytes(self) -> u16 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    /// Largest packet that every link has to carry, bytes (RFC 791, section 3.2; RFC 8200, section 5).
    pub const fn least_mtu(self) -> u16 {
        match self {
            Self::V4 => 68,
            Self::V6 => 1280,
        }
    }

    /// The largest segment of a host with this `mss`: its packets are no larger than those of IPv4.
    pub const fn segment(self, mss: u16) -> u16 {
        mss.saturating_sub(self.header_bytes() - Self::V4.header_bytes())
    }
}

/// The headers of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Size of the whole packet as its header says, bytes.
    pub bytes: u32,
    /// Congestion notification (RFC 3168, section 5): 0 not capable, 1 or 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// The packet's number among those of its sender (RFC 791); 0 where there is none, as in IPv6.
    pub identification: u16,
    /// The protocol above IP.
    pub transport: Transport,
}

/// The protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A segment.
    Tcp(Tcp),
    /// A datagram (RFC 768).
    Udp {
        /// Port of the sender.
        source_port: u16,
        /// Port of the receiver.
        destination_port: u16,
        /// Size of the payload, bytes.
        payload: u32,
        /// The payload's first four bytes, if it has them: flows number their datagrams there.
        number: Option<u32>,
    },
    /// An ICMP echo (RFC 792; RFC 4443, section 4).
    Echo {
        /// A reply; otherwise a request.
        is_reply: bool,
        /// Identifier of the program that asks.
        identifier: u16,
        /// The echo's number.
        sequence: u16,
        /// Size of the payload, bytes.
        payload: u32,
    },
    /// Anything else, fragments among it.
    Other,
}

impl Packet {
    /// Reads a packet that may have been cut off behind its headers; `None`: not IP, or cut off within them.
    ///
    /// This is not etherparse's reader, which takes packets that are cut off, or lack their length, for broken; captures
    /// are full of them.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Self::read_of_length(bytes, 0)
    }

    /// Reads a packet with the known number of `bytes_on_wire`, for packets whose header has a length of 0: a device was to cut
    /// them into several, and the length was too large for the field or not known yet.
    pub fn read_of_length(bytes: &[u8], bytes_on_wire: u32) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::read_v4(bytes, bytes_on_wire),
            6 => Self::read_v6(bytes, bytes_on_wire),
            _ => None,
        }
    }

    fn read_v4(bytes: &[u8], bytes_on_wire: u32) -> Option<Self> {
        let header = bytes.get(..20)?;
        let length = usize::from(header[0] & 15) * 4;
        let total = match u16::from_be_bytes([header[2], header[3]]) {
            0 => bytes_on_wire,
            total => total.into(),
        };
        // All but the first fragment lack the header above; the first one's length is not the datagram's.
        let fragmented = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let inside = total.checked_sub(length as u32).filter(|_| length >= 20 && !fragmented);
        let transport =
            inside.map_or(Some(Transport::Other), |inside| transport(header[9], bytes.get(length..)?, inside))?;
        let identification = u16::from_be_bytes([header[4], header[5]]);
        let (source, destination) = (address(12).into(), address(16).into());
        Some(Self { source, destination, bytes: total, ecn: header[1] & 3, identification, transport })
    }

    fn read_v6(bytes: &[u8], bytes_on_wire: u32) -> Option<Self> {
        let header = bytes.get(..Ipv6Header::LEN)?;
        let Extensions { next, bytes: before, jumbo } = Extensions::read(header[6], &bytes[Ipv6Header::LEN..])?;
        let inside = match (u16::from_be_bytes([header[4], header[5]]), jumbo) {
            (0, Some(jumbo)) => jumbo,
            (0, None) => bytes_on_wire.saturating_sub(Ipv6Header::LEN as u32),
            (inside, _) => inside.into(),
        };
        let address = |at: usize| {
            let octets: [u8; 16] = header[at..at + 16].try_into().unwrap_or_default();
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        let (source, destination) = (address(8), address(24));
        let above = bytes.get(Ipv6Header::LEN + before..)?;
        let transport = transport(next, above, inside.saturating_sub(before as u32))?;
        let bytes = inside.saturating_add(Ipv6Header::LEN as u32);
        Some(Self { source, destination, bytes, ecn: header[1] >> 4 & 3, identification: 0, transport })
    }

    /// Appends the headers, with the checksums of a payload of zeros. A datagram's number follows its header.
    ///
    /// [`Transport::Other`] has an IP header alone, with no next header (RFC 8200, section 4.7).
    ///
    /// ```
    /// # use perigee_wire::{address, IpVersion, Packet, Transport};
    /// let ip = IpVersion::V4;
    /// let transport = Transport::Echo { is_reply: false, identifier: 49_152, sequence: 1, payload: 56 };
    /// let (source, destination) = (address(0, ip), address(1, ip));
    /// let packet = Packet { source, destination, bytes: 84, ecn: 0, identification: 0, transport };
    /// let mut bytes = Vec::new();
    /// packet.write(&mut bytes);
    /// assert_eq!(Packet::read(&bytes), Some(packet));
    /// ```
    pub fn write(&self, out: &mut Vec<u8>) {
        let protocol = self.protocol();
        let (ip_bytes, pseudo) = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => self.write_v4(source, destination, protocol, out),
            (source, destination) => self.write_v6(v6(source), v6(destination), protocol, out),
        };
        let start = out.len();
        let length = self.bytes.saturating_sub(ip_bytes);
        let (checksum_at, pseudo) = match self.transport {
            Transport::Tcp(tcp) => {
                out.extend(tcp.header(length.saturating_sub(tcp.payload).max(MIN_HEADER)).to_bytes());
                (16, pseudo)
            }
            Transport::Udp { source_port, destination_port, number, .. } => {
                let header = UdpHeader { source_port, destination_port, length: length as u16, checksum: 0 };
                out.extend(header.to_bytes());
                out.extend(number.into_iter().flat_map(u32::to_be_bytes));
                (6, pseudo)
            }
            Transport::Echo { is_reply, identifier, sequence, .. } => {
                let ip = if protocol == IpNumber::ICMP { IpVersion::V4 } else { IpVersion::V6 };
                out.extend(echo_header(ip, is_reply, identifier, sequence));
                // The checksum of ICMPv6 covers the addresses, as TCP's and UDP's do; that of ICMP does not.
                (2, if ip == IpVersion::V4 { Sum16BitWords::new() } else { pseudo })
            }
            Transport::Other => return,
        };
        let header = &mut out[start..];
        header[checksum_at..checksum_at + 2].fill(0);
        let sum = pseudo.add_slice(header);
        // 0 says that a datagram has no checksum.
        let is_udp = protocol == IpNumber::UDP;
        let checksum = if is_udp { sum.to_ones_complement_with_no_zero() } else { sum.ones_complement() };
        header[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_ne_bytes());
    }

    fn write_v4(
        &self,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: IpNumber,
        out: &mut Vec<u8>,
    ) -> (u32, Sum16BitWords) {
        let mut header = Ipv4Header {
            ecn: IpEcn::try_new(self.ecn).unwrap_or_default(),
            total_len: self.bytes as u16,
            identification: self.identification,
            dont_fragment: true,
            time_to_live: HOP_LIMIT,
            protocol,
            source: source.octets(),
            destination: destination.octets(),
            ..Ipv4Header::default()
        };
        header.header_checksum = header.calc_header_checksum();
        out.extend(header.to_bytes());
        let addresses = Sum16BitWords::new().add_slice(&header.source).add_slice(&header.destination);
        (Ipv4Header::MIN_LEN as u32, self.pseudo_header(addresses, Ipv4Header::MIN_LEN, protocol))
    }

    fn write_v6(
        &self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: IpNumber,
        out: &mut Vec<u8>,
    ) -> (u32, Sum16BitWords) {
        let header = Ipv6Header {
            traffic_class: self.ecn,
            payload_length: self.bytes.saturating_sub(Ipv6Header::LEN as u32) as u16,
            next_header: protocol,
            hop_limit: HOP_LIMIT,
            source: source.octets(),
            destination: destination.octets(),
            ..Ipv6Header::default()
        };
        out.extend(header.to_bytes());
        let addresses = Sum16BitWords::new().add_slice(&header.source).add_slice(&header.destination);
        (Ipv6Header::LEN as u32, self.pseudo_header(addresses, Ipv6Header::LEN, protocol))
    }

    /// Returns the sum that checksums cover besides header and payload (RFC 9293, section 3.1; RFC 8200, section 8.1, with more zeros).
    fn pseudo_header(&self, addresses: Sum16BitWords, ip_bytes: usize, protocol: IpNumber) -> Sum16BitWords {
        let length = self.bytes.saturating_sub(ip_bytes as u32) as u16;
        addresses.add_2bytes([0, protocol.0]).add_2bytes(length.to_be_bytes())
    }

    fn protocol(&self) -> IpNumber {
        match self.transport {
            Transport::Tcp(_) => IpNumber::TCP,
            Transport::Udp { .. } => IpNumber::UDP,
            Transport::Echo { .. } if self.source.is_ipv4() => IpNumber::ICMP,
            Transport::Echo { .. } => IpNumber::IPV6_ICMP,
            Transport::Other => IpNumber::IPV6_NO_NEXT_HEADER,
        }
    }
}

/// Appends the payload of a datagram to its headers (Ethernet's or IP's, without a number), and takes it into the checksum.
pub fn append_payload(headers: &mut Vec<u8>, payload: &[u8]) {
    let at = headers.len() - size_of::<u16>();
    let sum = Sum16BitWords::new().add_2bytes([!headers[at], !headers[at + 1]]).add_slice(payload);
    headers[at..].copy_from_slice(&sum.to_ones_complement_with_no_zero().to_ne_bytes());
    headers.extend_from_slice(payload);
}

/// The ICMP message that tells the sender of a packet that its destination cannot be reached (RFC 792; RFC 4443, section 3.1):
/// its host, or its whole network. Over IPv6 its checksum, which covers the addresses, is 0.
pub fn unreachable(original: &[u8], is_network: bool) -> Vec<u8> {
    let is_ipv6 = original.first().is_some_and(|first| first >> 4 == 6);
    // Type, and the codes of a network without route and of a host that does not answer.
    let (kind, code) = match (is_ipv6, is_network) {
        (false, true) => (3, 0),
        (false, false) => (3, 1),
        (true, true) => (1, 0),
        (true, false) => (1, 3),
    };
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message.extend(original.iter().take(QUOTED_BYTES));
    if !is_ipv6 {
        let checksum = Sum16BitWords::new().add_slice(&message).ones_complement();
        message[2..4].copy_from_slice(&checksum.to_ne_bytes());
    }
    message
}

/// The header of an ICMP echo with a payload of zeros. Over IPv6 its checksum, which covers the addresses, is 0.
pub fn echo_header(ip: IpVersion, is_reply: bool, identifier: u16, sequence: u16) -> [u8; 8] {
    let echo = IcmpEchoHeader { id: identifier, seq: sequence };
    let bytes = match (ip, is_reply) {
        (IpVersion::V4, false) => Icmpv4Header::with_checksum(Icmpv4Type::EchoRequest(echo), &[]).to_bytes().to_vec(),
        (IpVersion::V4, true) => Icmpv4Header::with_checksum(Icmpv4Type::EchoReply(echo), &[]).to_bytes().to_vec(),
        (IpVersion::V6, false) => Icmpv6Header::new(Icmpv6Type::EchoRequest(echo)).to_bytes().to_vec(),
        (IpVersion::V6, true) => Icmpv6Header::new(Icmpv6Type::EchoReply(echo)).to_bytes().to_vec(),
    };
    bytes.first_chunk().copied().unwrap_or_default()
}

/// An Ethernet header in front of an IP packet.
pub fn ethernet_header(source: [u8; 6], destination: [u8; 6], ip: IpVersion) -> [u8; ETHERNET_HEADER_BYTES] {
    let ether_type = if ip == IpVersion::V4 { EtherType::IPV4 } else { EtherType::IPV6 };
    Ethernet2Header { source, destination, ether_type }.to_bytes()
}

/// Bytes of an Ethernet header without tags.
pub const ETHERNET_HEADER_BYTES: usize = Ethernet2Header::LEN;

/// Reads what is inside of IP, `length` bytes on the wire.
fn transport(protocol: u8, bytes: &[u8], length: u32) -> Option<Transport> {
    let short = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    match IpNumber(protocol) {
        IpNumber::TCP => {
            // Cut off within the fields that every header has.
            bytes.get(..16)?;
            Some(Tcp::read(bytes, length).map_or(Transport::Other, Transport::Tcp))
        }
        IpNumber::UDP => {
            let payload = length.saturating_sub(UdpHeader::LEN as u32);
            let number = bytes.get(8..12).filter(|_| payload >= 4).and_then(|four| four.try_into().ok());
            Some(Transport::Udp {
                source_port: short(0)?,
                destination_port: short(2)?,
                payload,
                number: number.map(u32::from_be_bytes),
            })
        }
        IpNumber::ICMP | IpNumber::IPV6_ICMP => Some(echo(protocol, bytes, length).unwrap_or(Transport::Other)),
        _ => Some(Transport::Other),
    }
}

/// Reads an ICMP message, `length` bytes on the wire; `None`: no echo, or cut off within its header.
fn echo(protocol: u8, bytes: &[u8], length: u32) -> Option<Transport> {
    let header: &[u8; 8] = bytes.first_chunk()?;
    let is_reply = match (IpNumber(protocol), header[0]) {
        (IpNumber::ICMP, 8) | (IpNumber::IPV6_ICMP, 128) => false,
        (IpNumber::ICMP, 0) | (IpNumber::IPV6_ICMP, 129) => true,
        _ => return None,
    };
    let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    Some(Transport::Echo { is_reply, identifier: short(4), sequence: short(6), payload: length.saturating_sub(8) })
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Quoted bytes of a packet in an error message: with its headers it fits every link (RFC 1812, section 4.3.2.3).
const QUOTED_BYTES: usize = 548;
/// Linux's.
const HOP_LIMIT: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Opening, Sack};
    use proptest::prelude::*;

    /// A segment of 100 bytes with 12 bytes of options: 1.2.3.4:80 to 5.6.7.8:9000.
    fn segment() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 152, 0, 0, 0x40, 0, 64, 6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        packet.extend([0, 80, 0x23, 0x28, 0, 0, 1, 0, 0, 0, 2, 0, 0x80, 0x11, 0, 0, 0, 0, 0, 0]);
        packet.extend([1; 112]);
        packet
    }

    #[test]
    fn a_segment_is_read_even_where_it_is_cut_off_behind_its_header() {
        let whole = segment();
        let read = Packet::read(&whole).expect("a packet");
        let Transport::Tcp(tcp) = read.transport else { panic!("a segment") };
        assert_eq!((read.bytes, tcp.payload, tcp.sequence, tcp.acknowledgement), (152, 100, 256, Some(512)));
        assert_eq!((tcp.source_port, tcp.destination_port, tcp.fin, tcp.syn), (80, 9000, true, false));
        assert_eq!(Packet::read(&whole[..40]), Some(read));
        assert_eq!(Packet::read(&whole[..33]), None);
    }

    #[test]
    fn a_length_that_the_header_lacks_is_that_on_the_wire() {
        let mut packet = segment();
        packet[2..4].copy_from_slice(&[0, 0]);
        let read = Packet::read_of_length(&packet, 64_052).expect("a packet");
        let Transport::Tcp(tcp) = read.transport else { panic!("a segment") };
        assert_eq!((read.bytes, tcp.payload), (64_052, 64_000));
    }

    #[test]
    fn fragments_and_nonsense_are_no_segments() {
        let mut fragment = segment();
        fragment[6] = 0x20;
        assert_eq!(Packet::read(&fragment).map(|p| p.transport), Some(Transport::Other));
        let mut short = segment();
        short[32] = 0x10;
        assert_eq!(Packet::read(&short).map(|p| p.transport), Some(Transport::Other));
        assert_eq!(Packet::read(&[]), None);
        assert_eq!(Packet::read(&[0; 60]), None);
    }

    #[test]
    fn a_datagram_over_ipv6_is_read() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 28, 17, 64];
        packet.extend([9; 32]);
        packet.extend([0, 53, 1, 0, 0, 28, 0, 0]);
        packet.extend([1; 20]);
        let read = Packet::read(&packet).expect("a packet");
        let transport =
            Transport::Udp { source_port: 53, destination_port: 256, payload: 20, number: Some(0x0101_0101) };
        assert_eq!(read.transport, transport);
        assert_eq!((read.bytes, read.source), (68, IpAddr::V6(Ipv6Addr::from([9; 16]))));
    }

    #[test]
    fn echoes_are_read_and_other_messages_are_not() {
        let message = |protocol: u8, kind: u8, kept: usize| {
            let mut packet = vec![0x45, 0, 0, 84, 0, 0, 0x40, 0, 64, protocol, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            packet.extend([kind, 0, 0, 0, 0x27, 0x10, 1, 2]);
            Packet::read(&packet[..20 + kept]).map(|read| read.transport)
        };
        let echo = |is_reply| Transport::Echo { is_reply, identifier: 10_000, sequence: 258, payload: 56 };
        assert_eq!([8, 0].map(|kind| message(1, kind, 8)), [Some(echo(false)), Some(echo(true))]);
        assert_eq!([128, 129].map(|kind| message(58, kind, 8)), [Some(echo(false)), Some(echo(true))]);
        // A port that is unreachable; an echo that is cut off.
        assert_eq!([message(1, 3, 8), message(1, 8, 7)], [Some(Transport::Other); 2]);
    }

    /// The one's complement sum of 16-bit words: 0xffff where a checksum among them is right.
    fn sum(bytes: &[u8]) -> u32 {
        let sum: u32 =
            bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        (folded & 0xffff) + (folded >> 16)
    }

    fn segments() -> impl Strategy<Value = Transport> {
        let openings = (any::<u16>(), 0u8..15, any::<bool>()).prop_map(|(mss, scale, sack_permitted)| Opening {
            mss: Some(mss),
            window_scale: Some(scale),
            sack_permitted,
        });
        let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..4);
        let options = prop_oneof![
            openings.prop_map(|opening| (opening, Sack::default())),
            blocks.prop_map(|blocks| (Opening::default(), Sack::of(&blocks))),
        ];
        let numbers = (any::<[u16; 3]>(), any::<u32>(), any::<Option<u32>>(), any::<Option<(u32, u32)>>());
        (numbers, any::<[bool; 6]>(), options, 0u32..1500).prop_map(
            |((ports, sequence, acknowledgement, timestamps), flags, (opening, sack), payload)| {
                let [source_port, destination_port, window] = ports;
                let [syn, fin, rst, psh, ece, cwr] = flags;
                Transport::Tcp(Tcp {
                    source_port,
                    destination_port,
                    sequence,
                    acknowledgement,
                    syn,
                    fin,
                    rst,
                    psh,
                    ece,
                    cwr,
                    payload,
                    window,
                    opening,
                    sack,
                    timestamps,
                })
            },
        )
    }

    fn messages() -> impl Strategy<Value = Transport> {
        let udp =
            (any::<[u16; 2]>(), 4u32..1500, any::<u32>()).prop_map(|([source_port, destination_port], payload, n)| {
                Transport::Udp { source_port, destination_port, payload, number: Some(n) }
            });
        let echo =
            (any::<bool>(), any::<[u16; 2]>(), 0u32..1500).prop_map(|(is_reply, [identifier, sequence], payload)| {
                Transport::Echo { is_reply, identifier, sequence, payload }
            });
        prop_oneof![segments(), udp, echo]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_its_checksums_are_right(
            transport in messages(), v6 in any::<bool>(), ecn in 0u8..4, identification in any::<u16>(),
        ) {
            let ip = if v6 { IpVersion::V6 } else { IpVersion::V4 };
            let (source, destination) = (crate::address(7, ip), crate::address(300, ip));
            let identification = if v6 { 0 } else { identification };
            let (header, payload) = match transport {
                Transport::Tcp(tcp) => (tcp.header(0).header_len() as u32, tcp.payload),
                Transport::Udp { payload, .. } | Transport::Echo { payload, .. } => (8, payload),
                Transport::Other => unreachable!(),
            };
            let bytes = u32::from(ip.header_bytes()) + header + payload;
            let packet = Packet { source, destination, bytes, ecn, identification, transport };
            let mut written = Vec::new();
            packet.write(&mut written);
            prop_assert_eq!(Packet::read(&written), Some(packet));
            written.resize(bytes as usize, 0);
            let (addresses, protocol, inside) = match ip {
                IpVersion::V4 => (12..20, written[9], 20),
                IpVersion::V6 => (8..40, written[6], 40),
            };
            prop_assert!(v6 || sum(&written[..20]) == 0xffff);
            let mut covered = if protocol == 1 { Vec::new() } else { written[addresses].to_vec() };
            if protocol != 1 {
                covered.extend([0, protocol]);
                covered.extend((written.len() as u16 - inside).to_be_bytes());
            }
            covered.extend(&written[usize::from(inside)..]);
            prop_assert_eq!(sum(&covered), 0xffff);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = Packet::read(&bytes);
        }
    }
}
