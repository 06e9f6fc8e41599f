//! Frames of the link types that captures have: where the IP packet in them begins, and what is passed on the way to it.

use crate::carriers::{Carrier, Carriers};

/// An IP packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside<'a> {
    /// From its first byte on.
    pub(crate) packet: &'a [u8],
    /// Bytes of the frame before it.
    pub(crate) before: u32,
    /// Which of several views of one host it is: the device's number or direction in a cooked capture, otherwise 0.
    pub(crate) view: u32,
    /// Labels and tags before it.
    pub(crate) carriers: Carriers,
}

/// The IP packet in a frame; `Err` if the link type is unknown, `None` if it is not IP.
#[inline]
pub(crate) fn inside(link: u16, frame: &[u8]) -> Result<Option<Inside<'_>>, u16> {
    let (kind, at, view) = match link {
        ETHERNET => (short(frame, 12), 14, 0),
        // Loopback: a family, in the byte order of the host that captured.
        NULL | LOOP => (family(frame), 4, 0),
        RAW | RAW_BSD | RAW_OPENBSD | IPV4 | IPV6 => (version(frame), 0, 0),
        // The first word says whether it came in or went out.
        COOKED => (short(frame, 14), 16, u32::from(short(frame, 0) == Some(OUTGOING))),
        COOKED_2 => {
            let device = frame.get(4..8).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
            let outgoing = frame.get(10).is_some_and(|kind| u16::from(*kind) == OUTGOING);
            (short(frame, 0), 20, device.wrapping_mul(2) | u32::from(outgoing))
        }
        PPP | PPP_SERIAL => (Some(TYPE_PPP), 0, 0),
        WIFI => (Some(TYPE_WIFI), 0, 0),
        // A header of its own length, lowest byte first, before the frame of the air.
        RADIOTAP => (Some(TYPE_WIFI), short(frame, 2).map_or(0, |length| usize::from(length.swap_bytes())), 0),
        unknown => return Err(unknown),
    };
    Ok(kind.and_then(|kind| beyond(frame, kind, at)).map(|found| Inside { view, ..found }))
}

/// Passes labels, tags and headers of links that are stacked before an IP packet, from one of this type on.
pub(crate) fn beyond(frame: &[u8], mut kind: u16, mut at: usize) -> Option<Inside<'_>> {
    let mut carriers = Carriers::default();
    for number in 0..=MOST_TAGS {
        (kind, at) = match kind {
            TYPE_IPV4 | TYPE_IPV6 => {
                return Some(Inside { packet: frame.get(at..)?, before: at as u32, view: 0, carriers });
            }
            VLAN | QINQ | QINQ_OLD => {
                // One tag is what every port of a switch has.
                if number > 0 {
                    carriers.add(Carrier::Vlans);
                }
                (short(frame, at + 2)?, at + 4)
            }
            PPPOE => {
                carriers.add(Carrier::Pppoe);
                (TYPE_PPP, at + 6)
            }
            MPLS | MPLS_MULTICAST => {
                carriers.add(Carrier::Mpls);
                beyond_labels(frame, at)?
            }
            TYPE_PPP => ppp(frame, at)?,
            TYPE_WIFI => wifi(frame, at)?,
            TYPE_ETHERNET => (short(frame, at + 12)?, at + 14),
            _ => return None,
        };
    }
    None
}

/// Passes MPLS labels (RFC 3032); what is below tells itself by its first bits (RFC 4928, section 3).
fn beyond_labels(frame: &[u8], mut at: usize) -> Option<(u16, usize)> {
    while frame.get(at + 2)? & 1 == 0 {
        at += 4;
    }
    at += 4;
    match frame.get(at)? >> 4 {
        4 => Some((TYPE_IPV4, at)),
        6 => Some((TYPE_IPV6, at)),
        // The control word of a line that carries Ethernet (RFC 4448).
        0 => Some((TYPE_ETHERNET, at + 4)),
        _ => None,
    }
}

/// Passes a header of PPP (RFC 1662), whose first two bytes and first zero may be left out.
fn ppp(frame: &[u8], mut at: usize) -> Option<(u16, usize)> {
    if frame.get(at..at + 2)? == [0xff, 3] {
        at += 2;
    }
    let first = u16::from(*frame.get(at)?);
    let (protocol, at) = if first & 1 == 1 { (first, at + 1) } else { (short(frame, at)?, at + 2) };
    let kind = match protocol {
        0x0021 => TYPE_IPV4,
        0x0057 => TYPE_IPV6,
        0x0281 => MPLS,
        _ => return None,
    };
    Some((kind, at))
}

/// Passes the header of a Wi-Fi frame with data that are not encrypted (IEEE 802.11, section 9.2).
fn wifi(frame: &[u8], at: usize) -> Option<(u16, usize)> {
    let [control, flags] = *frame.get(at..)?.first_chunk()?;
    let (is_data, is_empty, has_quality) = (control & 0x0c == 8, control & 0x40 != 0, control & 0x80 != 0);
    let (is_relayed, is_encrypted, has_more) = (flags & 3 == 3, flags & 0x40 != 0, flags & 0x80 != 0);
    let header = 24
        + if is_relayed { 6 } else { 0 }
        + if has_quality { 2 } else { 0 }
        + if has_quality && has_more { 4 } else { 0 };
    let after = at + header;
    let is_readable = is_data && !is_empty && !is_encrypted && frame.get(after..after + 3)? == LLC_SNAP;
    is_readable.then(|| Some((short(frame, after + 6)?, after + 8))).flatten()
}

/// Names of link types that cannot be read.
pub(crate) fn link_name(link: u16) -> &'static str {
    match link {
        6 => "token ring",
        7 => "ARCnet",
        10 => "FDDI",
        104 => "Cisco HDLC",
        107 => "frame relay",
        119 => "Wi-Fi behind a Prism header",
        147..=162 => "a user's own",
        163 => "Wi-Fi behind an AVS header",
        187 | 201 => "Bluetooth",
        189 | 220 | 249 => "USB",
        192 => "Wi-Fi behind a PPI header",
        195 | 215 | 230 | 283 => "IEEE 802.15.4",
        197 => "ERF of a capture card",
        227 => "CAN",
        239 => "nflog",
        253 => "netlink",
        _ => "not known here",
    }
}

fn short(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

fn version(frame: &[u8]) -> Option<u16> {
    match frame.first()? >> 4 {
        4 => Some(TYPE_IPV4),
        6 => Some(TYPE_IPV6),
        _ => None,
    }
}

/// `AF_INET` is 2 everywhere, `AF_INET6` is not; what the packet says of itself decides.
fn family(frame: &[u8]) -> Option<u16> {
    let family: [u8; 4] = frame.get(..4)?.try_into().ok()?;
    let family = u32::from_le_bytes(family).min(u32::from_be_bytes(family));
    matches!(family, 2 | 10 | 24 | 28 | 30).then(|| version(&frame[4..])).flatten()
}

/// More than anybody stacks.
const MOST_TAGS: usize = 6;
const OUTGOING: u16 = 4;
/// The header of IEEE 802.2 before a protocol's type.
const LLC_SNAP: [u8; 3] = [0xaa, 0xaa, 3];
// Link types: https://www.tcpdump.org/linktypes.html
const NULL: u16 = 0;
const ETHERNET: u16 = 1;
const PPP: u16 = 9;
const RAW_BSD: u16 = 12;
const RAW_OPENBSD: u16 = 14;
const PPP_SERIAL: u16 = 50;
const RAW: u16 = 101;
const WIFI: u16 = 105;
const LOOP: u16 = 108;
const COOKED: u16 = 113;
const RADIOTAP: u16 = 127;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const COOKED_2: u16 = 276;
// EtherTypes, the first two of our own.
const TYPE_PPP: u16 = 1;
const TYPE_WIFI: u16 = 2;
const TYPE_IPV4: u16 = 0x0800;
/// Transparent Ethernet bridging.
pub(crate) const TYPE_ETHERNET: u16 = 0x6558;
const VLAN: u16 = 0x8100;
const TYPE_IPV6: u16 = 0x86dd;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const PPPOE: u16 = 0x8864;
const QINQ: u16 = 0x88a8;
const QINQ_OLD: u16 = 0x9100;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(link: u16, header: &[u8]) -> Option<(u32, u32)> {
        let frame = [header, &[0x45, 1, 2, 3]].concat();
        let found = inside(link, &frame).expect("a known link");
        found.inspect(|i| assert_eq!(i.packet, [0x45, 1, 2, 3])).map(|i| (i.before, i.view))
    }

    #[test]
    fn the_packet_begins_behind_the_header_of_each_link() {
        let ethernet = |tail: &[u8]| [&[7; 12][..], tail].concat();
        assert_eq!(at(ETHERNET, &ethernet(&[8, 0])), Some((14, 0)));
        assert_eq!(at(ETHERNET, &ethernet(&[0x81, 0, 0, 5, 8, 0])), Some((18, 0)));
        assert_eq!(at(ETHERNET, &ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 9, 8, 0])), Some((22, 0)));
        assert_eq!(at(ETHERNET, &ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x21])), Some((22, 0)));
        for link in [RAW, RAW_BSD, RAW_OPENBSD, IPV4] {
            assert_eq!(at(link, &[]), Some((0, 0)));
        }
        assert_eq!(at(NULL, &[2, 0, 0, 0]), Some((4, 0)));
        assert_eq!(at(LOOP, &[0, 0, 0, 2]), Some((4, 0)));
        assert_eq!(at(COOKED, &[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0]), Some((16, 1)));
        assert_eq!(at(COOKED_2, &[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0]), Some((20, 6)));
        for header in [&[0xff, 3, 0, 0x21][..], &[0, 0x21], &[0x21]] {
            assert_eq!(at(PPP, header), Some((header.len() as u32, 0)));
        }
        let quality = [&[0x88, 1][..], &[7; 24], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
        assert_eq!(at(WIFI, &quality), Some((34, 0)));
        assert_eq!(at(RADIOTAP, &[&[0, 0, 9, 0, 1, 2, 3, 4, 5][..], &quality].concat()), Some((43, 0)));
    }

    #[test]
    fn labels_and_stacked_tags_are_named() {
        let named = |tail: &[u8]| {
            let frame = [&[7; 12][..], tail, &[0x45]].concat();
            let found = inside(ETHERNET, &frame).expect("a known link").expect("a packet");
            found.carriers.names().collect::<Vec<_>>()
        };
        assert_eq!(named(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]), ["MPLS"]);
        let line = [&[0x88, 0x47, 0, 1, 1, 64, 0, 0, 0, 9][..], &[7; 12], &[8, 0]].concat();
        assert_eq!(named(&line), ["MPLS"]);
        assert_eq!(named(&[0x81, 0, 0, 5, 8, 0]), [""; 0]);
        assert_eq!(named(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 5, 8, 0]), ["VLANs"]);
        assert_eq!(named(&[0x81, 0, 0, 5, 0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x21]), ["PPPoE"]);
    }

    #[test]
    fn what_is_not_ip_is_nothing_and_an_unknown_link_is_named() {
        assert_eq!(inside(ETHERNET, &[&[7; 12][..], &[8, 6, 1, 2]].concat()), Ok(None));
        assert_eq!(inside(ETHERNET, &[1, 2, 3]), Ok(None));
        assert_eq!(inside(NULL, &[9, 0, 0, 0, 0x45]), Ok(None));
        assert_eq!(inside(104, &[0; 40]), Err(104));
        assert_eq!(link_name(104), "Cisco HDLC");
        // Encrypted.
        assert_eq!(inside(WIFI, &[&[8, 0x41][..], &[7; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45]].concat()), Ok(None));
    }
}
