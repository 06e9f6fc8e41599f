//! Packets of IPv4 that were cut into fragments (RFC 791, section 3.2), as on the way into a tunnel with a smaller MTU, put together again.

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
struct Id([u8; 8], u16, u8);

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
    /// fragments it came in. Those of IPv6 are not put together.
    pub(crate) fn take(&mut self, packet: &[u8]) -> Option<(Vec<u8>, u64)> {
        let header: &[u8; 20] = packet.first_chunk().filter(|header| header[0] >> 4 == 4)?;
        let header_bytes = u64::from(header[0] & 15) * 4;
        let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let start = u64::from(short(6) & 0x1fff) * 8;
        let end = start + u64::from(short(2)).checked_sub(header_bytes)?;
        let id = Id(header[12..20].try_into().ok()?, short(4), header[9]);
        let parts = self.open.entry(id).or_insert_with(|| {
            self.order.push_back(id);
            Parts::default()
        });
        parts.count += 1;
        parts.there.add(start, end, |_, _| {});
        if start == 0 {
            parts.head = Some(packet[..packet.len().min(HEAD)].to_vec());
        }
        if short(6) & MORE == 0 {
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

impl Parts {
    fn whole(&mut self) -> Option<(Vec<u8>, u64)> {
        let bytes = self.bytes.filter(|bytes| self.there.bytes() == *bytes)?;
        let mut head = self.head.take()?;
        let total = u16::try_from(bytes + u64::from(head[0] & 15) * 4).ok()?;
        head[2..4].copy_from_slice(&total.to_be_bytes());
        head[6..8].copy_from_slice(&[0, 0]);
        Some((head, self.count))
    }
}

const MORE: u16 = 0x2000;
/// The header of IPv6 before a fragment (RFC 8200, section 4.5).
const FRAGMENT_HEADER: u8 = 44;
/// Bytes of a packet that are kept: the headers of IP and TCP with all options.
const HEAD: usize = 60 + 60;
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
