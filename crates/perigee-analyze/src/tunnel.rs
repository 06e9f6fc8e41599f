//! Packets that others carry: Ethernet in UDP, as clouds and Kubernetes connect hosts with it.
//!
//! VXLAN (RFC 7348) and GENEVE (RFC 8926), told by the port and the header behind it. One tunnel in another is not followed.

use perigee_wire::{Packet, Transport};

use crate::frame::inside_ethernet;

/// The content of a tunnel's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// This packet.
    Packet(Packet),
    /// The capture has too little of it.
    CutOff,
}

/// Returns the content of a tunnel's datagram that begins at `bytes`; `None`: it is no tunnel's.
#[inline]
pub(crate) fn carried(packet: &Packet, bytes: &[u8]) -> Option<Carried> {
    match packet.transport {
        Transport::Udp { destination_port: VXLAN | VXLAN_OF_LINUX, payload, .. } => vxlan(bytes, payload),
        Transport::Udp { destination_port: GENEVE, payload, .. } => geneve(bytes, payload),
        _ => None,
    }
}

fn vxlan(bytes: &[u8], payload: u32) -> Option<Carried> {
    let at = payload_at(bytes)?;
    let header: &[u8; 8] = bytes.get(at..)?.first_chunk()?;
    // A network's number is given, and what is reserved is 0.
    let is_vxlan = header[..4] == [8, 0, 0, 0] && header[7] == 0;
    is_vxlan.then(|| frame(bytes, at + 8, payload.saturating_sub(8))).flatten()
}

fn geneve(bytes: &[u8], payload: u32) -> Option<Carried> {
    let at = payload_at(bytes)?;
    let header: &[u8; 8] = bytes.get(at..)?.first_chunk()?;
    let options = usize::from(header[0] & 0x3f) * 4;
    let is_of_ethernet = header[0] >> 6 == 0 && header[2..4] == ETHERNET && header[7] == 0;
    is_of_ethernet.then(|| frame(bytes, at + 8 + options, payload.saturating_sub(8 + options as u32))).flatten()
}

/// The packet in the frame of `size` bytes at a place; `None` where the frame is of something else.
fn frame(bytes: &[u8], at: usize, size: u32) -> Option<Carried> {
    let Some(found) = bytes.get(at..).and_then(inside_ethernet) else {
        return (bytes.len() < at + LEAST_FRAME && size >= LEAST_FRAME as u32).then_some(Carried::CutOff);
    };
    let inner = Packet::read_of_length(found.packet, size.saturating_sub(found.before));
    Some(inner.map_or(Carried::CutOff, Carried::Packet))
}

/// Where a datagram's payload begins.
fn payload_at(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    Some(if first >> 4 == 4 { usize::from(first & 15) * 4 } else { IPV6_HEADER } + UDP_HEADER)
}

const VXLAN: u16 = 4789;
/// Linux's before the port was assigned, still the default of `ip link add type vxlan`.
const VXLAN_OF_LINUX: u16 = 8472;
const GENEVE: u16 = 6081;
/// Transparent Ethernet bridging.
const ETHERNET: [u8; 2] = [0x65, 0x58];
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
/// An Ethernet header.
const LEAST_FRAME: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram over IPv4 to a port, with this payload.
    fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0];
        bytes.extend((28 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0xc0, 0]);
        bytes.extend(port.to_be_bytes());
        bytes.extend((8 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(payload);
        bytes
    }

    /// A frame with a segment of 100 bytes, of which the headers are there.
    fn segment() -> Vec<u8> {
        let mut bytes = [&[2; 12][..], &[8, 0, 0x45, 0, 0, 140, 0, 0, 0x40, 0, 64, 6, 0, 0]].concat();
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 0x23, 0x28, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, 0x10]);
        bytes.extend([0; 6 + 100]);
        bytes
    }

    fn found(bytes: &[u8]) -> Option<Result<u32, ()>> {
        let outer = Packet::read(bytes).expect("a datagram");
        carried(&outer, bytes).map(|carried| match carried {
            Carried::Packet(inner) => match inner.transport {
                Transport::Tcp(tcp) => Ok(tcp.payload),
                other => panic!("{other:?}"),
            },
            Carried::CutOff => Err(()),
        })
    }

    #[test]
    fn the_packet_inside_is_found_behind_the_header_of_each_tunnel() {
        let vxlan = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &segment()].concat();
        let geneve = [&[1, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 4][..], &segment()].concat();
        for (port, payload) in [(4789, &vxlan), (8472, &vxlan), (6081, &geneve)] {
            let whole = datagram(port, payload);
            assert_eq!(found(&whole), Some(Ok(100)), "{port}");
            assert_eq!(found(&whole[..70]), Some(Err(())), "{port}, cut off");
        }
    }

    #[test]
    fn other_datagrams_and_frames_of_other_protocols_are_no_tunnels_packets() {
        let plain = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &segment()].concat();
        assert_eq!(found(&datagram(4790, &plain)), None);
        assert_eq!(found(&datagram(4789, &[&[0; 8][..], &segment()].concat())), None);
        let arp = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &[2; 12], &[8, 6], &[0; 28]].concat();
        assert_eq!(found(&datagram(4789, &arp)), None);
    }
}
