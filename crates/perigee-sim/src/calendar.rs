//! The calendar of a link: the packets to be delivered, in order of delivery, with one pending event for the first.
//!
//! Rare options have their own ring, in the same order.

use perigee_tcp::{Flags, Header, Train};
use perigee_units::Time;

use crate::packet::{NetPacket, Parcel, RareOptions, Stored};
use crate::queue::EventQueue;
use crate::ring::Ring;

/// Packets with their delivery times, first in, first out.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Its event source.
    source: u32,
    packets: Ring<Due>,
    options: Ring<RareOptions>,
}

/// A packet and its delivery time.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    at: Time,
    packet: Stored,
}

impl Calendar {
    pub(crate) const fn new(source: u32) -> Self {
        Self { source, packets: Ring::new(), options: Ring::new() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn ways(&self) -> impl Iterator<Item = u32> {
        self.packets.iter().map(|due| due.packet.way)
    }

    /// Delivery time of the first packet.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.packets.front().map(|due| due.at)
    }

    /// Stores a packet until its delivery, which is no earlier than that of the last one.
    #[inline(always)]
    pub(crate) fn keep(&mut self, at: Time, packet: &impl Parcel, queue: &mut EventQueue) {
        if self.is_empty() {
            queue.set(self.source, at);
        }
        self.push(at, packet);
    }

    /// Moves the packet of the current event, which is the calendar's, into `buffer`; returns whether there was one.
    #[inline(always)]
    pub(crate) fn take_first(&mut self, buffer: &mut NetPacket, queue: &mut EventQueue) -> bool {
        if !self.pop(buffer) {
            return false;
        }
        let current = queue.first().map(|(_, source)| source);
        debug_assert_eq!(current, Some(self.source), "the current event is the first one");
        match self.next() {
            Some(at) => queue.move_first(at),
            None => queue.remove(self.source),
        }
        true
    }

    /// The first packets as a train, if they are segments of `way` without rare options and congestion mark: as many as
    /// there are in sequence with the same header, at most as many as `times`, which become their delivery times.
    #[inline]
    pub(crate) fn first_train(&self, way: u32, times: &mut [Time]) -> Option<Train> {
        let is_header = |due: &&Due| due.packet.way == way && due.packet.is_header();
        let mut waiting = self.packets.iter().take_while(is_header);
        let Due { at, packet } = waiting.next()?;
        let mut train = Train::of(packet.header);
        times[0] = *at;
        if train.first.flags.0 != Flags::ACK || train.first.len == 0 {
            return Some(train);
        }
        let mut next = train.first;
        for (time, Due { at, packet }) in times[1..].iter_mut().zip(waiting) {
            next.seq = next.seq.wrapping_add(u32::from(next.len));
            let flags = packet.header.flags;
            if packet.header != (Header { flags, ..next }) || flags.0 & !Flags::PSH != Flags::ACK {
                break;
            }
            (*time, train.segments) = (*at, train.segments + 1);
            train.is_pushed = flags.has(Flags::PSH);
            if train.is_pushed {
                break;
            }
        }
        Some(train)
    }

    /// Removes the first packets, which [`Calendar::first_train`] returned.
    #[inline]
    pub(crate) fn drop_first(&mut self, packets: u32) {
        self.packets.drop_front(packets as usize);
    }

    /// Moves the first packet into `buffer` if it is an ACK of `way`; returns whether it is. The calendar's event must be set afterwards.
    #[inline(always)]
    pub(crate) fn pop_acknowledgement(&mut self, way: u32, buffer: &mut NetPacket) -> bool {
        let first = self.packets.front().map(|due| &due.packet);
        first.is_some_and(|first| first.way == way && first.is_acknowledgement()) && self.pop(buffer)
    }

    #[inline(always)]
    fn push(&mut self, at: Time, packet: &impl Parcel) {
        if let Some(options) = packet.options() {
            *self.options.push_slot() = options;
        }
        *self.packets.push_slot() = Due { at, packet: packet.stored() };
    }

    #[inline(always)]
    fn pop(&mut self, buffer: &mut NetPacket) -> bool {
        let Some(first) = self.packets.front() else { return false };
        buffer.stored = first.packet;
        if let (true, Some(options)) = (first.packet.has_options(), self.options.front()) {
            buffer.options = *options;
            self.options.drop_front(1);
        }
        self.packets.drop_front(1);
        true
    }
}

const _: () = assert!(size_of::<Due>() <= 40);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::packets;
    use crate::packet::Outlet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_are_returned_unchanged(sent in prop::collection::vec(packets(), 0..60), early in 0usize..60) {
            let mut calendar = Calendar::new(0);
            let (mut back, mut taken) = (Vec::new(), NetPacket::default());
            for (at, packet) in (0..).zip(&sent) {
                calendar.push(Time::from_nanos(at), packet);
                // Packets are also removed while others are being added.
                if back.len() < early && at % 2 == 1 {
                    prop_assert_eq!(calendar.next(), Some(Time::from_nanos(back.len() as u64)));
                    prop_assert!(calendar.pop(&mut taken));
                    back.push(taken.whole());
                }
            }
            while calendar.pop(&mut taken) {
                back.push(taken.whole());
            }
            prop_assert_eq!(format!("{sent:?}"), format!("{back:?}"));
        }
    }

    proptest! {
        #[test]
        fn trains_have_the_times_and_headers_of_their_packets(kinds in prop::collection::vec(0u8..12, 0..60), most in 1usize..20) {
            let (mut calendar, mut sent) = (Calendar::new(0), Vec::new());
            let mut header = Header { flags: Flags(Flags::ACK), len: 100, ..Header::default() };
            for (at, kind) in (0..).map(Time::from_nanos).zip(kinds) {
                let kind_flags = match kind {
                    0 => Flags::PSH,
                    1 => Flags::FIN,
                    _ => 0,
                };
                match kind {
                    2 => header.tsval += 1,
                    3 => header.seq += 7,
                    4 => header.len = 300 - header.len,
                    _ => {}
                }
                let of_train = Header { flags: Flags(Flags::ACK | kind_flags), ..header };
                calendar.push(at, &Outlet { way: 6, ip_header: 20 }.packet(&of_train));
                sent.push((at, of_train));
                header.seq += u32::from(header.len);
            }
            let (mut times, mut back, mut trains) = (vec![Time::ZERO; most], Vec::new(), 0);
            prop_assert!(calendar.first_train(7, &mut times).is_none());
            while let Some(train) = calendar.first_train(6, &mut times) {
                back.extend(times.iter().copied().zip(train.headers()));
                calendar.drop_first(train.segments);
                trains += 1;
            }
            // No train could have been longer.
            let is_next = |pair: &[(Time, Header)]| {
                let [(_, before), (_, after)] = pair else { return false };
                let seq = before.seq.wrapping_add(u32::from(before.len));
                let is_plain = after.flags.0 & !Flags::PSH == Flags::ACK;
                before.flags.0 == Flags::ACK && is_plain && Header { seq, flags: after.flags, ..*before } == *after
            };
            let breaks = sent.windows(2).filter(|pair| !is_next(pair)).count();
            prop_assert!(trains <= breaks + 1 + sent.len() / most);
            prop_assert_eq!(sent, back);
        }
    }
}
