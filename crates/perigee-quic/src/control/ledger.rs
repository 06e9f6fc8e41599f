//! Packets in flight, with what they remember of their departure.

use std::collections::VecDeque;

use perigee_cc::Departure;

use crate::qlog::Kind;

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Its number, which packets of the handshake share with others.
    pub(super) pn: u64,
    pub(super) bytes: u16,
    /// Its place in the order of departure.
    pub(super) order: u32,
    /// Its departure, for rate samples.
    pub(super) departure: Departure,
    kind: Kind,
    is_gone: bool,
}

/// Packets in flight in the order of their departure.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    packets: VecDeque<Packet>,
    bytes: u64,
}

impl Ledger {
    pub(super) fn push(&mut self, pn: u64, bytes: u16, order: u32, departure: Departure) {
        self.bytes += u64::from(bytes);
        self.packets.push_back(Packet { pn, bytes, order, departure, kind: Kind::Data, is_gone: false });
    }

    /// Says of which kinds the packets are that have left from this place in the order of departure on: those of their datagram, with
    /// their lengths. Packets that ask for no acknowledgement are not here.
    pub(super) fn set_kinds(&mut self, since: u32, mut kinds: impl Iterator<Item = (Kind, usize)>) {
        let begin = self.packets.partition_point(|packet| (packet.order.wrapping_sub(since) as i32) < 0);
        for packet in self.packets.range_mut(begin..) {
            packet.kind =
                kinds.find(|(_, length)| *length == usize::from(packet.bytes)).map_or(packet.kind, |(kind, _)| kind);
        }
    }

    /// Takes out the packet of this number, which left at this time.
    pub(super) fn take_acked(&mut self, pn: u64, sent_us: u64) -> Option<Packet> {
        let begin = self.packets.partition_point(|packet| packet.departure.sent_us < sent_us);
        let sent_then = self.packets.range(begin..).take_while(|packet| packet.departure.sent_us == sent_us);
        let at = begin + position(sent_then, pn)?;
        Some(self.take_at(at))
    }

    /// Takes out the oldest packet of this number. In a handshake it may be of another space than the one meant, sent as long ago.
    pub(super) fn take_lost(&mut self, pn: u64) -> Option<Packet> {
        let at = position(self.packets.iter(), pn)?;
        Some(self.take_at(at))
    }

    /// Takes out a packet if more bytes are here than in flight, the oldest one of the earliest kind: the stack forgets packets with their
    /// keys, those of the first messages first, and early data that are refused, and says so to nobody.
    pub(super) fn take_forgotten(&mut self, in_flight: u64) -> Option<Packet> {
        if self.bytes <= in_flight {
            return None;
        }
        let left = (0..self.packets.len()).filter(|at| !self.packets[*at].is_gone);
        let at = left.min_by_key(|at| self.packets[*at].kind)?;
        Some(self.take_at(at))
    }

    /// Place in the order of departure of the oldest packet in flight.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.packets.front().map(|packet| packet.order)
    }

    /// Bytes of memory, for one connection.
    pub(super) fn memory(&self) -> usize {
        self.packets.capacity() * size_of::<Packet>()
    }

    fn take_at(&mut self, at: usize) -> Packet {
        let packet = self.packets[at];
        self.packets[at].is_gone = true;
        self.bytes -= u64::from(packet.bytes);
        while self.packets.front().is_some_and(|packet| packet.is_gone) {
            self.packets.pop_front();
        }
        packet
    }
}

/// Place among these of the packet of this number.
fn position<'a>(mut packets: impl Iterator<Item = &'a Packet>, pn: u64) -> Option<usize> {
    packets.position(|packet| packet.pn == pn && !packet.is_gone)
}
