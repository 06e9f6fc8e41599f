//! Fields of a packet that a link reads and changes at each hop.

use std::net::IpAddr;

use etherparse::checksum::Sum16BitWords;
use perigee_units::fnv1a;

/// The fields of an IPv4 or IPv6 packet that a queue decides by.
///
/// The fields are read at their fixed places, by hand: every packet of an emulated link passes here, often twice. etherparse
/// would check each header and its extensions, and return them in structures of hundreds of bytes, for two bits and a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopFields {
    /// Congestion notification (RFC 3168, section 5): 0 not capable, 1 or 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// It has the lower-effort DSCP (RFC 8622).
    pub is_low: bool,
    /// A TCP segment that asks for ECN: a SYN with ECE and CWR (RFC 3168, section 6.1.1).
    pub asks_for_ecn: bool,
    /// A hash of addresses, protocol and ports: the same for all packets of one direction of a connection.
    pub flow_hash: u32,
}

/// The destination of an IP packet; `None`: not one.
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => <[u8; 4]>::try_from(packet.get(16..20)?).ok().map(IpAddr::from),
        6 => <[u8; 16]>::try_from(packet.get(24..40)?).ok().map(IpAddr::from),
        _ => None,
    }
}

impl HopFields {
    /// Reads the fields; `None`: not an IP packet.
    #[inline]
    pub fn read(packet: &[u8]) -> Option<Self> {
        let (class, addresses, protocol, length) = match packet.first()? >> 4 {
            4 => (*packet.get(1)?, packet.get(12..20)?, *packet.get(9)?, usize::from(packet[0] & 15) * 4),
            6 if packet.len() >= IPV6_HEADER => {
                (packet[0] << 4 | packet[1] >> 4, &packet[8..40], packet[6], IPV6_HEADER)
            }
            _ => return None,
        };
        let ports =
            if matches!(protocol, TCP | UDP) { packet.get(length..length + 4).unwrap_or_default() } else { &[] };
        // The flags without FIN, PSH and URG.
        let asks_for_ecn =
            protocol == TCP && packet.get(length + 13).is_some_and(|flags| flags & 0b1101_0110 == 0b1100_0010);
        let hash = fnv1a(addresses.iter().chain([&protocol]).chain(ports).copied());
        // The low bits of the hash depend on the low bits of the bytes alone; the high ones on all.
        let is_low = class >> 2 == LOWER_EFFORT;
        Some(Self { ecn: class & ECN_BITS, is_low, asks_for_ecn, flow_hash: ((hash >> 32) ^ hash) as u32 })
    }
}

/// Writes the two bits of congestion notification, see [`HopFields::ecn`].
///
/// # Panics
/// Where [`HopFields::read`] reads nothing.
pub fn write_ecn(packet: &mut [u8], ecn: u8) {
    write_class(packet, ECN_BITS, ecn);
}

/// Writes the DSCP of low priority, see [`HopFields::is_low`].
///
/// # Panics
/// Where [`HopFields::read`] reads nothing.
pub fn write_lower_effort(packet: &mut [u8]) {
    write_class(packet, !ECN_BITS, LOWER_EFFORT << 2);
}

/// Writes these bits of TOS or traffic class.
#[inline]
fn write_class(packet: &mut [u8], which: u8, bits: u8) {
    let bits = bits & which;
    if packet[0] >> 4 == 6 {
        packet[0] = packet[0] & !(which >> 4) | bits >> 4;
        packet[1] = packet[1] & !(which << 4) | bits << 4;
        return;
    }
    let before = [packet[0], packet[1]];
    packet[1] = packet[1] & !which | bits;
    // HC' = ~(~HC + ~m + m') (RFC 1624, equation 3).
    let sum = Sum16BitWords::new().add_2bytes([!packet[10], !packet[11]]).add_2bytes(before.map(|byte| !byte));
    let checksum = sum.add_2bytes([packet[0], packet[1]]).ones_complement();
    // The sum is of words as they lie in memory, and so is the checksum.
    packet[10..12].copy_from_slice(&checksum.to_ne_bytes());
}

/// The DSCP of the lower-effort behaviour (RFC 8622, section 4): packets of low priority.
pub const LOWER_EFFORT: u8 = 1;

const IPV6_HEADER: usize = 40;
const ECN_BITS: u8 = 3;
const TCP: u8 = 6;
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(tos: u8, port: u16) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 44, 1, 2, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = !sum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(port.to_be_bytes());
        packet.extend([0; 22]);
        packet
    }

    fn sum(header: &[u8]) -> u16 {
        let sum: u32 = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn marking_and_clearing_keep_the_header_checksum_right() {
        for (tos, ecn) in [(1, 3), (2, 3), (0xb9, 3), (1, 0), (2, 0), (0xbb, 0)] {
            let mut packet = ipv4(tos, 80);
            write_ecn(&mut packet, ecn);
            assert_eq!(HopFields::read(&packet).map(|fields| fields.ecn), Some(ecn));
            assert_eq!((packet[1] & !ECN_BITS, sum(&packet[..20])), (tos & !ECN_BITS, 0xffff), "tos {tos}");
        }
    }

    #[test]
    fn lower_effort_replaces_a_dscp_and_keeps_the_rest() {
        for (tos, written) in [(0, 4), (2, 6), (0xbb, 7)] {
            let mut packet = ipv4(tos, 80);
            write_lower_effort(&mut packet);
            assert_eq!((packet[1], sum(&packet[..20])), (written, 0xffff), "tos {tos}");
            let mut packet = vec![0x60 | tos >> 4, tos << 4 | 9, 8];
            write_lower_effort(&mut packet);
            assert_eq!(packet, [0x60, written << 4 | 9, 8], "traffic class {tos}, and the flow label");
        }
    }

    #[test]
    fn a_syn_with_ece_and_cwr_asks_for_ecn() {
        // RST, SYN-ACK, ECE alone and CWR alone do not.
        for (flags, asks) in [(0xc2, true), (0xca, true), (0xc4, false), (0xd2, false), (0x42, false), (0x82, false)] {
            let mut packet = ipv4(0, 80);
            packet[20 + 13] = flags;
            assert_eq!(HopFields::read(&packet).map(|fields| fields.asks_for_ecn), Some(asks), "{flags:#x}");
        }
    }

    #[test]
    fn the_lower_effort_dscp_is_low_priority_beside_any_ecn_field() {
        let is_low = |packet: &[u8]| HopFields::read(packet).map(|fields| fields.is_low);
        for (tos, low) in [(0, false), (4, true), (7, true), (8, false), (0xb8, false)] {
            assert_eq!(is_low(&ipv4(tos, 80)), Some(low), "tos {tos}");
            let mut packet = vec![0; 60];
            packet[..2].copy_from_slice(&[0x60 | tos >> 4, tos << 4]);
            assert_eq!(is_low(&packet), Some(low), "traffic class {tos}");
        }
    }

    #[test]
    fn ipv6_carries_the_bits_across_two_bytes() {
        let ecn = |packet: &[u8]| HopFields::read(packet).map(|fields| fields.ecn);
        let mut packet = vec![0; 60];
        packet[..2].copy_from_slice(&[0x60, 0x20]);
        assert_eq!(ecn(&packet), Some(2));
        write_ecn(&mut packet, 3);
        assert_eq!((ecn(&packet), packet[1]), (Some(3), 0x30));
        write_ecn(&mut packet, 0);
        assert_eq!((ecn(&packet), packet[..2].to_vec()), (Some(0), vec![0x60, 0]));
    }

    #[test]
    fn connections_differ_and_fragments_of_headers_are_refused() {
        let flow = |port| HopFields::read(&ipv4(0, port)).map(|fields| fields.flow_hash);
        assert_eq!(flow(80), flow(80));
        assert_ne!(flow(80), flow(81));
        assert_eq!(HopFields::read(&[0x45, 0, 0]), None);
        assert_eq!(HopFields::read(&[0x60; 20]), None);
        assert_eq!(HopFields::read(&[]), None);
    }
}
