//! What a link has to know of an IP packet, and the one thing it changes.

use perigee_link::Ecn;

/// Headers of an IPv4 or IPv6 packet, as far as a link looks at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    /// Congestion notification (RFC 3168, section 5).
    pub(crate) ecn: Ecn,
    /// The same for all packets of a connection's direction: addresses, protocol and ports, mixed.
    pub(crate) flow: u32,
}

/// Reads the headers; `None`: not an IP packet.
pub(crate) fn headers(packet: &[u8]) -> Option<Headers> {
    let (class, addresses, protocol, length) = match packet.first()? >> 4 {
        4 => (*packet.get(1)?, packet.get(12..20)?, *packet.get(9)?, usize::from(packet[0] & 15) * 4),
        6 if packet.len() >= IPV6_HEADER => (packet[0] << 4 | packet[1] >> 4, &packet[8..40], packet[6], IPV6_HEADER),
        _ => return None,
    };
    let ports = if matches!(protocol, TCP | UDP) { packet.get(length..length + 4).unwrap_or_default() } else { &[] };
    // FNV-1a, 32 bits (Fowler, Noll, Vo): spreads flows over buckets, no more is asked of it.
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let flow = addresses.iter().chain([&protocol]).chain(ports).fold(0x811c_9dc5, mix);
    let ecn = match class & ECN_BITS {
        0 => Ecn::NotCapable,
        ECN_BITS => Ecn::Marked,
        _ => Ecn::Capable,
    };
    Some(Headers { ecn, flow })
}

/// Marks a packet of an ECN-capable sender: congestion experienced.
pub(crate) fn mark(packet: &mut [u8]) {
    if packet[0] >> 4 == 6 {
        packet[1] |= ECN_BITS << 4;
        return;
    }
    let before = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] |= ECN_BITS;
    let after = u16::from_be_bytes([packet[0], packet[1]]);
    let checksum = u16::from_be_bytes([packet[10], packet[11]]);
    packet[10..12].copy_from_slice(&updated(checksum, before, after).to_be_bytes());
}

/// The checksum after one word changed: HC' = ~(~HC + ~m + m') (RFC 1624, equation 3).
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
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
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(port.to_be_bytes());
        packet.extend([0; 22]);
        packet
    }

    fn checksum(header: &[u8]) -> u16 {
        let sum: u32 = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        !((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn marking_keeps_the_header_checksum_right() {
        for tos in [1, 2, 0xb9] {
            let mut packet = ipv4(tos, 80);
            mark(&mut packet);
            assert_eq!(headers(&packet).map(|h| h.ecn), Some(Ecn::Marked));
            assert_eq!(checksum(&packet[..20]), 0, "tos {tos}");
        }
    }

    #[test]
    fn ipv6_carries_the_bits_across_two_bytes() {
        let mut packet = vec![0; 60];
        packet[..2].copy_from_slice(&[0x60, 0x20]);
        assert_eq!(headers(&packet).map(|h| h.ecn), Some(Ecn::Capable));
        mark(&mut packet);
        assert_eq!((headers(&packet).map(|h| h.ecn), packet[1]), (Some(Ecn::Marked), 0x30));
    }

    #[test]
    fn connections_differ_and_fragments_of_headers_are_refused() {
        let flow = |port| headers(&ipv4(0, port)).map(|h| h.flow);
        assert_eq!(flow(80), flow(80));
        assert_ne!(flow(80), flow(81));
        assert_eq!(headers(&[0x45, 0, 0]), None);
        assert_eq!(headers(&[0x60; 20]), None);
        assert_eq!(headers(&[]), None);
    }
}
