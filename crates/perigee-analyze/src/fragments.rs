//! IP packets that were cut into fragments (RFC 791, section 3.2; RFC 8200, section 4.5), as on the way into a tunnel with a smaller MTU,
//! put together again.

use std::collections::VecDeque;

use perigee_wire::Spans;
use rustc_hash::FxHashMap;

/// Packets of which fragments are still to come.
#[derive(Default)]
pub(crate) struct Fragments {
    open: FxHashMap<Id, Parts>,
    /// In the order in which their first fragments came.
    order: VecDeque<Id>,
}

/// Fields that the fragments of a packet have in common: addresses, identification and protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Id([u8; 32], u32, u8);

#[derive(Default)]
struct Parts {
    /// Headers, and as much behind them as was captured, once the first fragment has come.
    head: Option<Vec<u8>>,
    /// Bytes behind the header that have come, and how many there are once the last fragment has come.
    there: Spans,
    bytes: Option<u64>,
    count: u64,
}

impl Fragments {
    /// Whether a packet is a fragment.
    #[inline]
    pub(crate) fn has(packet: &[u8]) -> bool {
        match packet {
            [first, _, _, _, _, _, high, low, ..] if first >> 4 == 4 => high & 0x3f != 0 || *low != 0,
            [first, _, _, _, _, _, next, ..] => first >> 4 == 6 && *next == FRAGMENT_HEADER,
            _ => false,
        }
    }

    /// Takes a fragment; once all of its packet has come, returns the packet's beginning, as if it had never been cut, and how many
    /// fragments it came in.
    pub(crate) fn take(&mut self, packet: &[u8]) -> Option<(Vec<u8>, u64)> {
        let Fragment { id, start, end, is_last, head } =
            if packet.first()? >> 4 == 4 { Fragment::of_4(packet)? } else { Fragment::of_6(packet)? };
        let parts = self.open.entry(id).or_insert_with(|| {
            self.order.push_back(id);
            Parts::default()
        });
        parts.count += 1;
        parts.there.add(start, end, |_, _| {});
        if start == 0 {
            parts.head = Some(head);
        }
        if is_last {
            parts.bytes = Some(end);
        }
        let whole = parts.whole();
        if whole.is_some() {
            self.open.remove(&id);
            self.order.retain(|other| *other != id);
        } else if self.order.len() > MOST {
            // The rest was lost.
            if let Some(oldest) = self.order.pop_front() {
                self.open.remove(&oldest);
            }
        }
        whole
    }
}

/// A fragment: its place behind the headers, and the headers with what follows them.
struct Fragment {
    id: Id,
    start: u64,
    end: u64,
    is_last: bool,
    head: Vec<u8>,
}

impl Fragment {
    fn of_4(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = packet.first_chunk()?;
        let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let start = u64::from(short(6) & 0x1fff) * 8;
        let end = start + u64::from(short(2)).checked_sub(u64::from(header[0] & 15) * 4)?;
        let mut addresses = [0; 32];
        addresses[..8].copy_from_slice(&header[12..20]);
        let mut head = packet[..packet.len().min(HEAD)].to_vec();
        head[6..8].copy_from_slice(&[0, 0]);
        Some(Self { id: Id(addresses, short(4).into(), header[9]), start, end, is_last: short(6) & MORE == 0, head })
    }

    fn of_6(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 48] = packet.first_chunk()?;
        let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let start = u64::from(short(42) & 0xfff8);
        let end = start + u64::from(short(4)).checked_sub(8)?;
        let number = u32::from_be_bytes(*header.last_chunk()?);
        let id = Id(*header[8..].first_chunk()?, number, header[40]);
        // Its header goes, and the one before it names what followed it.
        let mut head = [&header[..40], &packet[48..packet.len().min(HEAD)]].concat();
        head[6] = header[40];
        Some(Self { id, start, end, is_last: header[43] & 1 == 0, head })
    }
}

impl Parts {
    fn whole(&mut self) -> Option<(Vec<u8>, u64)> {
        let bytes = self.bytes.filter(|bytes| self.there.bytes() == *bytes)?;
        let mut head = self.head.take()?;
        let is_4 = head[0] >> 4 == 4;
        let (at, total) = if is_4 { (2, bytes + u64::from(head[0] & 15) * 4) } else { (4, bytes) };
        head[at..at + 2].copy_from_slice(&u16::try_from(total).ok()?.to_be_bytes());
        Some((head, self.count))
    }
}

const MORE: u16 = 0x2000;
/// The header of IPv6 before a fragment (RFC 8200, section 4.5).
const FRAGMENT_HEADER: u8 = 44;
/// Bytes of a packet that are kept: the headers of a tunnel, and of IP and TCP in it.
const HEAD: usize = 256;
/// Packets under way between two hosts whose rest may still come.
const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use perigee_wire::{Packet, Transport};

    use super::*;

    /// A fragment of a segment of 1400 bytes: its place in the packet, its bytes, and whether more follow.
    fn fragment(start: u16, bytes: u16, more: bool) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend((20 + bytes).to_be_bytes());
        packet.extend([0, 7]);
        packet.extend((start / 8 + if more { MORE } else { 0 }).to_be_bytes());
        packet.extend([64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        if start == 0 {
            packet.extend([0, 80, 0x23, 0x28, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        }
        packet
    }

    #[test]
    fn a_packet_is_whole_when_its_last_missing_fragment_comes_in_any_order_and_once() {
        let mut fragments = Fragments::default();
        let [first, second, last] = [fragment(0, 800, true), fragment(800, 400, true), fragment(1200, 220, false)];
        for part in [&first, &second, &last] {
            assert!(Fragments::has(part));
        }
        for order in [[&first, &second, &second, &last], [&last, &first, &first, &second]] {
            let whole: Vec<_> = order.into_iter().map(|part| fragments.take(part)).collect();
            assert_eq!(whole[..3], [None, None, None]);
            let (head, count) = whole[3].as_ref().expect("all of it");
            let packet = Packet::read(head).expect("a packet");
            let Transport::Tcp(tcp) = packet.transport else { panic!("{packet:?}") };
            assert_eq!((packet.bytes, tcp.payload, *count), (1440, 1400, 4));
        }
    }

    #[test]
    fn fragments_of_ipv6_are_put_together_too() {
        let fragment = |start: u16, bytes: u16, more: u16| {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((8 + bytes).to_be_bytes());
            packet.extend([FRAGMENT_HEADER, 64]);
            packet.extend([9; 32]);
            packet.extend([6, 0]);
            packet.extend((start | more).to_be_bytes());
            packet.extend([0, 0, 0, 7, 0, 80, 0x23, 0x28, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
            packet
        };
        let mut fragments = Fragments::default();
        assert!(Fragments::has(&fragment(0, 800, 1)));
        assert_eq!(fragments.take(&fragment(0, 800, 1)), None);
        let (head, count) = fragments.take(&fragment(800, 620, 0)).expect("all of it");
        let packet = Packet::read(&head).expect("a packet");
        let Transport::Tcp(tcp) = packet.transport else { panic!("{packet:?}") };
        assert_eq!((packet.bytes, tcp.payload, tcp.source_port, count), (1460, 1400, 80, 2));
    }

    #[test]
    fn packets_whose_rest_was_lost_take_bounded_room() {
        let mut fragments = Fragments::default();
        for number in 0..5000u16 {
            let mut first = fragment(0, 800, true);
            first[4..6].copy_from_slice(&number.to_be_bytes());
            assert_eq!(fragments.take(&first), None);
        }
        assert!(fragments.open.len() <= MOST && fragments.order.len() <= MOST);
        assert!(!Fragments::has(&[0x45, 0, 0, 40, 0, 0, 0x40, 0]));
    }
}
