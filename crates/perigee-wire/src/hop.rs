//! What a link reads and changes of a packet at each hop.

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
        let hash = fnv1a(addresses.iter().chain([&protocol]).chain(ports).copied());
        // The low bits of the hash depend on the low bits of the bytes alone; the high ones on all.
        Some(Self { ecn: class & ECN_BITS, flow_hash: ((hash >> 32) ^ hash) as u32 })
    }
}

/// Marks a packet of an ECN-capable sender: congestion experienced (RFC 3168, section 5).
///
/// # Panics
/// Where [`HopFields::read`] reads nothing.
pub fn mark_congestion(packet: &mut [u8]) {
    if packet[0] >> 4 == 6 {
        packet[1] |= ECN_BITS << 4;
        return;
    }
    let before = [packet[0], packet[1]];
    packet[1] |= ECN_BITS;
    // HC' = ~(~HC + ~m + m') (RFC 1624, equation 3).
    let sum = Sum16BitWords::new().add_2bytes([!packet[10], !packet[11]]).add_2bytes(before.map(|byte| !byte));
    let checksum = sum.add_2bytes([packet[0], packet[1]]).ones_complement();
    // The sum is of words as they lie in memory, and so is the checksum.
    packet[10..12].copy_from_slice(&checksum.to_ne_bytes());
}

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
    fn marking_keeps_the_header_checksum_right() {
        for tos in [1, 2, 0xb9] {
            let mut packet = ipv4(tos, 80);
            mark_congestion(&mut packet);
            assert_eq!(HopFields::read(&packet).map(|fields| fields.ecn), Some(3));
            assert_eq!(sum(&packet[..20]), 0xffff, "tos {tos}");
        }
    }

    #[test]
    fn ipv6_carries_the_bits_across_two_bytes() {
        let ecn = |packet: &[u8]| HopFields::read(packet).map(|fields| fields.ecn);
        let mut packet = vec![0; 60];
        packet[..2].copy_from_slice(&[0x60, 0x20]);
        assert_eq!(ecn(&packet), Some(2));
        mark_congestion(&mut packet);
        assert_eq!((ecn(&packet), packet[1]), (Some(3), 0x30));
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
