//! The calendar of a link: the packets that it will deliver, in the order of delivery.
//!
//! Rare options stand in a ring of their own, in the same order.

use perigee_tcp::Header;
use perigee_units::Time;

use crate::compact::{Compact, RareOptions};
use crate::packet::NetPacket;
use crate::ring::Ring;

/// Packets with their instants of delivery, first in, first out.
#[derive(Debug)]
pub(crate) struct Calendar {
    packets: Ring<Due>,
    options: Ring<RareOptions>,
}

/// A packet and the instant of its delivery.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    at: Time,
    packet: Compact,
}

/// A segment taken out of a calendar.
#[derive(Clone, Copy)]
pub(crate) enum Taken {
    /// It has no rare options and no congestion mark: this is all of it.
    Header(Header),
    /// It is in the place for a packet that was given for it.
    InPlace,
}

impl Calendar {
    pub(crate) const fn new() -> Self {
        Self { packets: Ring::new(), options: Ring::new() }
    }

    /// Whether no packet waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// How many packets wait.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// The ways of the packets that wait.
    pub(crate) fn ways(&self) -> impl Iterator<Item = u32> {
        self.packets.iter().map(|due| due.packet.way)
    }

    /// When the first packet is due.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.packets.front().map(|due| due.at)
    }

    /// Adds a packet that is due no earlier than the last one.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn push(&mut self, at: Time, packet: &NetPacket) {
        let compact = Compact::of(packet);
        if compact.has_options() {
            *self.options.place() = RareOptions::of(packet);
        }
        self.push_plain(at, compact);
    }

    /// [`Calendar::push`] of a packet that has no rare options.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn push_plain(&mut self, at: Time, packet: Compact) {
        *self.packets.place() = Due { at, packet };
    }

    /// The first packet, if it is one without rare options and without a congestion mark, and its instant.
    #[inline]
    pub(crate) fn first_plain(&self) -> Option<(Time, &Compact)> {
        let first = self.packets.front()?;
        first.packet.is_plain().then_some((first.at, &first.packet))
    }

    /// Takes the first packet away, which is one of [`Calendar::first_plain`].
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        self.packets.drop_front();
    }

    /// Takes the first packet, if it is an acknowledgement of a way; `segment` and `packet` are places for it. Whether it is one.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn take_acknowledgement(&mut self, way: u32, segment: &mut Taken, packet: &mut NetPacket) -> bool {
        let Some(Due { packet: first, .. }) = self.packets.front() else { return false };
        if first.way != way || !first.is_acknowledgement() {
            return false;
        }
        if first.is_plain() {
            *segment = Taken::Header(first.header);
            self.packets.drop_front();
        } else {
            *segment = Taken::InPlace;
            self.pop(packet);
        }
        true
    }

    /// Takes the first packet, and puts it into `packet`; whether there is one.
    #[inline]
    pub(crate) fn pop(&mut self, packet: &mut NetPacket) -> bool {
        let Some(Due { packet: first, .. }) = self.packets.front() else { return false };
        match self.options.front() {
            Some(options) if first.has_options() => {
                first.put_with(options, packet);
                self.options.drop_front();
            }
            _ => first.put_into(packet),
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
        fn packets_come_back_as_they_were(sent in prop::collection::vec(packets(), 0..60), early in 0usize..60) {
            let mut calendar = Calendar::new();
            let (mut back, mut taken) = (Vec::new(), NetPacket::NONE);
            for (at, packet) in (0..).zip(&sent) {
                calendar.push(Time::from_nanos(at), packet);
                // Some are taken while others are still put.
                if back.len() < early && at % 2 == 1 {
                    prop_assert_eq!(calendar.next(), Some(Time::from_nanos(back.len() as u64)));
                    prop_assert!(calendar.pop(&mut taken));
                    back.push(taken);
                }
            }
            while calendar.pop(&mut taken) {
                back.push(taken);
            }
            prop_assert_eq!(format!("{sent:?}"), format!("{back:?}"));
        }
    }
}
