//! By what a packet on a link is known: its flow's port, and what its flow wants to know of it.

use std::net::IpAddr;

use perigee_capture::{Packet, Tcp as Segment, Transport};

use crate::probes::Mark;

/// What a packet says of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) source: IpAddr,
    /// One of them is the flow's; of a ping, its identifier.
    pub(crate) ports: [u16; 2],
    pub(crate) content: Content,
}

/// What is of interest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Segment(Segment),
    Probe(Mark),
}

impl Label {
    /// Reads a packet; `None`: of no flow.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let packet = Packet::read(bytes)?;
        let (header, protocol) = match bytes.first()? >> 4 {
            4 => (usize::from(bytes[0] & 15) * 4, *bytes.get(9)?),
            _ => (40, *bytes.get(6)?),
        };
        let inside = bytes.get(header..)?;
        let word = |at: usize| Some(u16::from_be_bytes(inside.get(at..at + 2)?.try_into().ok()?));
        let (ports, content) = match packet.transport {
            Transport::Tcp(segment) => ([segment.source_port, segment.destination_port], Content::Segment(segment)),
            Transport::Udp { source_port, destination_port, .. } => {
                let number = u32::from(word(8)?) << 16 | u32::from(word(10)?);
                ([source_port, destination_port], Content::Probe(Mark::Whole(number)))
            }
            Transport::Other => {
                let is_echo = ECHOES.contains(&(protocol, *inside.first()?));
                let identifier = word(4).filter(|_| is_echo)?;
                ([identifier; 2], Content::Probe(Mark::Low(word(6)?)))
            }
        };
        Some(Self { source: packet.source, ports, content })
    }
}

/// Protocol and type of echoes and their answers (RFC 792, RFC 4443).
const ECHOES: [(u8, u8); 4] = [(1, 8), (1, 0), (58, 128), (58, 129)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_and_datagrams_are_known_by_their_numbers() {
        let ipv4 = |protocol: u8, inside: &[u8]| {
            let mut packet = vec![0x45, 0, 0, 20 + inside.len() as u8, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            packet.extend([10, 71, 0, 1, 10, 71, 0, 2]);
            packet.extend(inside);
            Label::read(&packet)
        };
        let ping = ipv4(1, &[8, 0, 0, 0, 0x27, 0x10, 1, 2]).expect("an echo");
        assert_eq!((ping.ports, ping.content), ([10_000; 2], Content::Probe(Mark::Low(258))));
        assert_eq!(ping.source, IpAddr::from([10, 71, 0, 1]));
        let datagram = ipv4(17, &[0x27, 0x11, 0x27, 0x11, 0, 12, 0, 0, 0, 1, 0, 2]).expect("a datagram");
        assert_eq!((datagram.ports, datagram.content), ([10_001; 2], Content::Probe(Mark::Whole(65_538))));
        // What a kernel says of unreachable ports is no flow's.
        assert_eq!(ipv4(1, &[3, 3, 0, 0, 0x27, 0x10, 1, 2]), None);
        let mut ipv6 = vec![0x60, 0, 0, 0, 0, 8, 58, 64];
        ipv6.extend([7; 32]);
        ipv6.extend([129, 0, 0, 0, 0x27, 0x10, 0, 9]);
        assert_eq!(Label::read(&ipv6).map(|label| label.content), Some(Content::Probe(Mark::Low(9))));
    }
}
