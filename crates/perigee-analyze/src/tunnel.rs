//! Packets that others carry: IP in IP, in GRE, in VXLAN and GENEVE, and the labels and tags of links.
//!
//! GRE (RFC 2784, 2890; of PPTP RFC 2637), IP in IP (RFC 2003, 2473), 6in4 (RFC 4213), VXLAN (RFC 7348) and GENEVE (RFC 8926), the last two
//! told by the port and the header behind it.

use crate::carriers::Carrier;
use crate::frame::{beyond, Inside, TYPE_ETHERNET};

/// The packet that another one carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried<'a> {
    /// From its first byte on.
    Packet(Inside<'a>),
    /// The capture has too little of it.
    CutOff,
}

/// Returns what the IP packet that begins at `bytes`, of which `size` bytes passed, carries; `None`: it is no tunnel's.
#[inline]
pub(crate) fn carried(bytes: &[u8], size: u32) -> Option<Carried<'_>> {
    let (protocol, at) = above(bytes)?;
    let (carrier, kind, at) = match protocol {
        UDP => in_datagram(bytes, at)?,
        GRE => gre(bytes, at)?,
        IPV4 => (Carrier::IpInIp, 0x0800, at),
        IPV6 if bytes[0] >> 4 == 4 => (Carrier::SixInFour, 0x86dd, at),
        IPV6 => (Carrier::IpInIp, 0x86dd, at),
        _ => return None,
    };
    let Some(mut inside) = beyond(bytes, kind, at) else {
        return (bytes.len() < at + LEAST_FRAME && size as usize >= at + LEAST_FRAME).then_some(Carried::CutOff);
    };
    inside.carriers.add(carrier);
    Some(Carried::Packet(inside))
}

/// The protocol above IP, and where it begins; `None` where it is behind headers that no tunnel has.
#[inline]
fn above(bytes: &[u8]) -> Option<(u8, usize)> {
    if bytes.first()? >> 4 == 4 {
        return Some((*bytes.get(9)?, usize::from(bytes[0] & 15) * 4));
    }
    let (mut next, mut at) = (*bytes.get(6)?, IPV6_HEADER);
    // Linux writes how often it may be put into a tunnel once more there (RFC 2473, section 4.1.1).
    while matches!(next, HOP_BY_HOP | DESTINATION_OPTIONS) {
        (next, at) = (*bytes.get(at)?, at + 8 * (usize::from(*bytes.get(at + 1)?) + 1));
    }
    Some((next, at))
}

fn in_datagram(bytes: &[u8], at: usize) -> Option<(Carrier, u16, usize)> {
    let port = u16::from_be_bytes(*bytes.get(at + 2..)?.first_chunk()?);
    let at = at + UDP_HEADER;
    match port {
        VXLAN | VXLAN_OF_LINUX => {
            let header: &[u8; 8] = bytes.get(at..)?.first_chunk()?;
            // A network's number is given, and what is reserved is 0.
            let is_vxlan = header[..4] == [8, 0, 0, 0] && header[7] == 0;
            is_vxlan.then_some((Carrier::Vxlan, TYPE_ETHERNET, at + 8))
        }
        GENEVE => {
            let header: &[u8; 8] = bytes.get(at..)?.first_chunk()?;
            let options = usize::from(header[0] & 0x3f) * 4;
            let kind = u16::from_be_bytes([header[2], header[3]]);
            let is_geneve = header[0] >> 6 == 0 && header[7] == 0;
            is_geneve.then_some((Carrier::Geneve, kind, at + 8 + options))
        }
        _ => None,
    }
}

fn gre(bytes: &[u8], at: usize) -> Option<(Carrier, u16, usize)> {
    let [flags, version, high, low] = *bytes.get(at..)?.first_chunk()?;
    // A checksum, a key, a number, and of PPTP what is acknowledged.
    let fields = [flags & 0x80, flags & 0x20, flags & 0x10, version & 0x80].iter().filter(|flag| **flag != 0).count();
    let kind = match u16::from_be_bytes([high, low]) {
        PPP_IN_GRE => 1,
        kind => kind,
    };
    (version & 7 <= 1).then_some((Carrier::Gre, kind, at + 4 + 4 * fields))
}

const HOP_BY_HOP: u8 = 0;
const IPV4: u8 = 4;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const DESTINATION_OPTIONS: u8 = 60;
const PPP_IN_GRE: u16 = 0x880b;
const VXLAN: u16 = 4789;
/// Linux's before the port was assigned, still the default of `ip link add type vxlan`.
const VXLAN_OF_LINUX: u16 = 8472;
const GENEVE: u16 = 6081;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
/// An Ethernet header.
const LEAST_FRAME: usize = 14;

#[cfg(test)]
mod tests {
    use perigee_wire::{Packet, Transport};

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

    fn found(bytes: &[u8], size: usize) -> Option<Result<u32, ()>> {
        carried(bytes, size as u32).map(|carried| match carried {
            Carried::Packet(inside) => match Packet::read(inside.packet).map(|inner| inner.transport) {
                Some(Transport::Tcp(tcp)) => Ok(tcp.payload),
                Some(other) => panic!("{other:?}"),
                None => Err(()),
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
            assert_eq!(found(&whole, whole.len()), Some(Ok(100)), "{port}");
            assert_eq!(found(&whole[..70], whole.len()), Some(Err(())), "{port}, cut off");
            assert_eq!(found(&whole[..44], whole.len()), Some(Err(())), "{port}, cut off");
        }
    }

    #[test]
    fn the_packet_inside_is_found_in_ip_and_behind_each_form_of_gre() {
        let frame = segment();
        let ip = &frame[14..];
        let over_4 = |protocol: u8, payload: &[u8]| {
            let mut bytes = datagram(0, &[]);
            (bytes[9], bytes[3]) = (protocol, (20 + payload.len()) as u8);
            [&bytes[..20], payload].concat()
        };
        let over_6 = |payload: &[u8]| {
            let header = [&[0x60, 0, 0, 0, 0, (8 + payload.len()) as u8, 60, 64][..], &[7; 32]].concat();
            [&header[..], &[4, 0, 4, 1, 4, 1, 0, 0], payload].concat()
        };
        let keyed = [&[0x20, 0, 8, 0, 0, 0, 0, 9][..], ip].concat();
        let bridged = [&[0, 0, 0x65, 0x58][..], &frame].concat();
        let of_pptp =
            [&[0x30, 0x81, 0x88, 0x0b, 0, 144, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 3, 0, 0x21][..], ip].concat();
        let tunnels = [
            (over_4(4, ip), "IP in IP"),
            (over_6(ip), "IP in IP"),
            (over_4(47, &[&[0, 0, 8, 0], ip].concat()), "GRE"),
            (over_4(47, &keyed), "GRE"),
            (over_4(47, &bridged), "GRE"),
            (over_4(47, &of_pptp), "GRE"),
        ];
        for (bytes, name) in tunnels {
            assert_eq!(found(&bytes, bytes.len()), Some(Ok(100)), "{name}");
            let Some(Carried::Packet(inside)) = carried(&bytes, 0) else { panic!("{name}") };
            assert_eq!(inside.carriers.names().collect::<Vec<_>>(), [name]);
        }
        let over_6 = [&[0x60, 0, 0, 0, 0, 0, 6, 64][..], &[7; 52]].concat();
        let bytes = over_4(41, &over_6);
        let Some(Carried::Packet(inside)) = carried(&bytes, 0) else { panic!("6in4") };
        assert_eq!(inside.carriers.names().collect::<Vec<_>>(), ["6in4"]);
    }

    #[test]
    fn other_datagrams_and_frames_of_other_protocols_are_no_tunnels_packets() {
        let plain = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &segment()].concat();
        assert_eq!(carried(&datagram(4790, &plain), 500), None);
        assert_eq!(carried(&datagram(4789, &[&[0; 8][..], &segment()].concat()), 500), None);
        let arp = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &[2; 12], &[8, 6], &[0; 28]].concat();
        assert_eq!(carried(&datagram(4789, &arp), 500), None);
    }
}
