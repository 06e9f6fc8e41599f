//! The calendar of a link: the packets to be delivered, in order of delivery.
//!
//! Rare options have their own ring, in the same order.

use perigee_tcp::Header;
use perigee_units::Time;

use crate::compact::{Arrived, Compact, Parcel, RareOptions};
use crate::ring::Ring;

/// Packets with their delivery times, first in, first out.
#[derive(Debug)]
pub(crate) struct Calendar {
    packets: Ring<Due>,
    options: Ring<RareOptions>,
}

/// A packet and its delivery time.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    at: Time,
    packet: Compact,
}

impl Calendar {
    pub(crate) const fn new() -> Self {
        Self { packets: Ring::new(), options: Ring::new() }
    }

    /// Whether the calendar is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Number of packets.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// The ways of the packets.
    pub(crate) fn ways(&self) -> impl Iterator<Item = u32> {
        self.packets.iter().map(|due| due.packet.way)
    }

    /// Delivery time of the first packet.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.packets.front().map(|due| due.at)
    }

    /// Adds a packet that is delivered no earlier than the last one.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn push(&mut self, at: Time, packet: &impl Parcel) {
        if let Some(options) = packet.options() {
            *self.options.place() = options;
        }
        *self.packets.place() = Due { at, packet: packet.compact() };
    }

    /// Delivery time and header of the first packet if it is a segment of `way` without rare options and congestion mark.
    #[inline]
    pub(crate) fn first_header(&self, way: u32) -> Option<(Time, Header)> {
        let Due { at, packet } = self.packets.front()?;
        (packet.way == way && packet.is_header()).then_some((*at, packet.header))
    }

    /// Removes the first packet, which [`Calendar::first_header`] returned.
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        self.packets.drop_front();
    }

    /// Moves the first packet into `place` if it is an ACK of `way`; returns whether it is.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn pop_acknowledgement(&mut self, way: u32, place: &mut Arrived) -> bool {
        let first = self.packets.front().map(|due| &due.packet);
        first.is_some_and(|first| first.way == way && first.is_acknowledgement()) && self.pop(place)
    }

    /// Moves the first packet into `place`; returns whether there was one.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn pop(&mut self, place: &mut Arrived) -> bool {
        let Some(first) = self.packets.front() else { return false };
        place.packet = first.packet;
        if let (true, Some(options)) = (first.packet.has_options(), self.options.front()) {
            place.options = *options;
            self.options.drop_front();
        }
        self.packets.drop_front();
        true
    }
}

const _: () = assert!(size_of::<Due>() <= 40);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::tests::packets;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_are_returned_unchanged(sent in prop::collection::vec(packets(), 0..60), early in 0usize..60) {
            let mut calendar = Calendar::new();
            let (mut back, mut taken) = (Vec::new(), Arrived::default());
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
}
