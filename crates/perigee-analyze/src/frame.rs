//! Frames of the link types that captures have: where the IP packet in them begins.

/// An IP packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside<'a> {
    /// From its first byte on.
    pub(crate) packet: &'a [u8],
    /// Bytes of the frame before it.
    pub(crate) before: u32,
    /// Which of several views of one host it is: the device's number or direction in a cooked capture, otherwise 0.
    pub(crate) view: u32,
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
        unknown => return Err(unknown),
    };
    Ok(beyond_tags(frame, kind, at, view))
}

/// The IP packet in an Ethernet frame that a tunnel carries.
pub(crate) fn inside_ethernet(frame: &[u8]) -> Option<Inside<'_>> {
    beyond_tags(frame, short(frame, 12), 14, 0)
}

/// Passes VLAN tags, stacked ones too, and the header of PPP over Ethernet.
fn beyond_tags(frame: &[u8], kind: Option<u16>, mut at: usize, view: u32) -> Option<Inside<'_>> {
    let mut kind = kind?;
    for _ in 0..=MOST_TAGS {
        match kind {
            TYPE_IPV4 | TYPE_IPV6 => return Some(Inside { packet: frame.get(at..)?, before: at as u32, view }),
            VLAN | QINQ | QINQ_OLD => (kind, at) = (short(frame, at + 2)?, at + 4),
            PPPOE => {
                let protocol = short(frame, at + 6)?;
                (kind, at) = (if protocol == PPP_IPV6 { TYPE_IPV6 } else { TYPE_IPV4 }, at + 8);
                if !matches!(protocol, PPP_IPV4 | PPP_IPV6) {
                    return None;
                }
            }
            _ => return None,
        }
    }
    None
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
const MOST_TAGS: usize = 4;
const OUTGOING: u16 = 4;
// Link types: https://www.tcpdump.org/linktypes.html
const NULL: u16 = 0;
const ETHERNET: u16 = 1;
const RAW_BSD: u16 = 12;
const RAW_OPENBSD: u16 = 14;
const RAW: u16 = 101;
const LOOP: u16 = 108;
const COOKED: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const COOKED_2: u16 = 276;
// EtherTypes.
const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;
const QINQ_OLD: u16 = 0x9100;
const PPPOE: u16 = 0x8864;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

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
    }

    #[test]
    fn what_is_not_ip_is_nothing_and_an_unknown_link_is_named() {
        assert_eq!(inside(ETHERNET, &[&[7; 12][..], &[8, 6, 1, 2]].concat()), Ok(None));
        assert_eq!(inside(ETHERNET, &[1, 2, 3]), Ok(None));
        assert_eq!(inside(NULL, &[9, 0, 0, 0, 0x45]), Ok(None));
        assert_eq!(inside(105, &[0; 40]), Err(105));
    }
}
