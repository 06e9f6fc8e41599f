//! Extension headers between an IPv6 header and that of a transport (RFC 8200, section 4).

/// The extension headers behind an IPv6 header (RFC 8200, section 4), at most [`MOST_EXTENSIONS`].
pub(crate) struct Extensions {
    /// The number of the header that follows them: of an extension header where the transport belongs to another packet
    /// or destination, or is too deep.
    pub(crate) next: u8,
    /// Their size.
    pub(crate) bytes: usize,
    /// Size of all that follows the IPv6 header, where it exceeds that header's field (RFC 2675): Linux writes
    /// it into packets that a device is to cut into many (BIG TCP).
    pub(crate) jumbo: Option<u32>,
}

impl Extensions {
    /// Reads them, of which the first has the number `next`; `None`: cut off.
    pub(crate) fn read(next: u8, bytes: &[u8]) -> Option<Self> {
        let mut found = Self { next, bytes: 0, jumbo: None };
        for _ in 0..MOST_EXTENSIONS {
            let rest = bytes.get(found.bytes..)?;
            let length = match found.next {
                HOP_BY_HOP | DESTINATION_OPTIONS => 8 * (usize::from(*rest.get(1)?) + 1),
                // Without a further stop on its way.
                ROUTING if *rest.get(3)? == 0 => 8 * (usize::from(*rest.get(1)?) + 1),
                // The only fragment of its packet (RFC 6946).
                FRAGMENT if rest.get(2..4)?[0] == 0 && rest[3] & 0xf9 == 0 => 8,
                // RFC 4302, section 2.2.
                AUTHENTICATION => 4 * (usize::from(*rest.get(1)?) + 2),
                _ => break,
            };
            let header = rest.get(..length)?;
            if found.next == HOP_BY_HOP {
                found.jumbo = found.jumbo.or(jumbo(&header[2..]));
            }
            (found.next, found.bytes) = (header[0], found.bytes + length);
        }
        Some(found)
    }
}

/// The jumbo length among hop-by-hop options.
fn jumbo(mut options: &[u8]) -> Option<u32> {
    while let [kind, after @ ..] = options {
        if *kind == PAD_1 {
            options = after;
            continue;
        }
        let [length, value @ ..] = after else { break };
        if let (JUMBO, Some(four)) = (*kind, value.first_chunk().filter(|_| *length == 4)) {
            return Some(u32::from_be_bytes(*four));
        }
        options = value.get(usize::from(*length)..).unwrap_or_default();
    }
    None
}

/// Most extension headers of a packet that are passed over: each kind once and destination options twice (RFC 8200, section 4.1).
const MOST_EXTENSIONS: usize = 6;
/// Extension headers that a segment may follow.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
/// Hop-by-hop options.
const PAD_1: u8 = 0;
const JUMBO: u8 = 0xc2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Packet, Transport};

    /// A segment without data behind extension headers, the first of which has the number `next`.
    fn behind(next: u8, extensions: &[u8], payload: u16) -> Option<Packet> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(payload.to_be_bytes());
        packet.extend([next, 64]);
        packet.extend([9; 32]);
        packet.extend(extensions);
        packet.extend([0, 80, 0x23, 0x28, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        Packet::read(&packet)
    }

    #[test]
    fn what_follows_hop_by_hop_options_is_read_and_a_jumbo_length_is_believed() {
        let read = |options: &[u8], payload: u16| {
            let read = behind(HOP_BY_HOP, options, payload)?;
            let Transport::Tcp(tcp) = read.transport else { panic!("{:?}", read.transport) };
            Some((read.bytes, tcp.payload))
        };
        assert_eq!(read(&[6, 0, 1, 4, 0, 0, 0, 0], 28 + 100), Some((168, 100)));
        assert_eq!(read(&[6, 0, 0xc2, 4, 0, 1, 0x48, 0x3c], 0), Some((84_068, 84_000)));
        assert_eq!(read(&[6, 0, 0, 0, 0, 0, 0, 0], 28), Some((68, 0)));
        assert_eq!(read(&[6, 9, 0, 0, 0, 0, 0, 0], 28), None);
    }

    #[test]
    fn extension_headers_are_passed_over_as_far_as_the_segment_is_whole_and_for_its_destination() {
        let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
        let ports = |first: u8, headers: &[[u8; 8]]| {
            let read = behind(first, headers.as_flattened(), 20 + 8 * headers.len() as u16).expect("a packet");
            match read.transport {
                Transport::Tcp(tcp) => Some((tcp.source_port, tcp.destination_port, tcp.payload)),
                other => {
                    assert_eq!(other, Transport::Other);
                    None
                }
            }
        };
        let segment = Some((80, 9000, 0));
        assert_eq!(ports(60, &[options(6)]), segment);
        let all = [options(60), options(43), [44, 0, 4, 0, 0, 0, 0, 0], [60, 0, 0, 0, 0, 0, 0, 9], options(6)];
        assert_eq!(ports(0, &all), segment);
        assert_eq!(ports(51, &[[6, 0, 0, 0, 0, 0, 0, 1]]), segment);
        // A stop on its way, a fragment of two, its second, encrypted, and more headers than a packet may have.
        assert_eq!(ports(43, &[[6, 0, 4, 1, 0, 0, 0, 0]]), None);
        assert_eq!(ports(44, &[[6, 0, 0, 1, 0, 0, 0, 9]]), None);
        assert_eq!(ports(44, &[[6, 0, 0, 8, 0, 0, 0, 9]]), None);
        assert_eq!(ports(50, &[options(6)]), None);
        assert_eq!(ports(60, &[[60, 0, 1, 4, 0, 0, 0, 0]; 7]), None);
        assert!(behind(60, &[6, 40, 0, 0, 0, 0, 0, 0], 28).is_none());
    }
}
