//! Packets in flight, with what they remember of their departure.

use std::collections::VecDeque;

use perigee_cc::Departure;

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
        self.packets.push_back(Packet { pn, bytes, order, departure, is_gone: false });
    }

    /// Takes out the packet of this number, which left at this time.
    pub(super) fn take_acked(&mut self, pn: u64, sent_us: u64) -> Option<Packet> {
        let begin = self.packets.partition_point(|packet| packet.departure.sent_us < sent_us);
        self.take_from(begin, pn)
    }

    /// Takes out the oldest packet of this number. In a handshake it may be of another space than the one meant, sent as long ago.
    pub(super) fn take_lost(&mut self, pn: u64) -> Option<Packet> {
        self.take_from(0, pn)
    }

    /// Takes out the oldest packet if more bytes are here than in flight: the stack forgets packets of a space with its keys, and says
    /// so to nobody.
    pub(super) fn take_forgotten(&mut self, in_flight: u64) -> Option<Packet> {
        if self.bytes <= in_flight {
            return None;
        }
        let at = self.packets.iter().position(|packet| !packet.is_gone)?;
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

    fn take_from(&mut self, begin: usize, pn: u64) -> Option<Packet> {
        let at = self.packets.range(begin..).position(|packet| packet.pn == pn && !packet.is_gone)?;
        Some(self.take_at(begin + at))
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
