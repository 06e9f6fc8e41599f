//! The packets that a link keeps itself: it knows each by the number of its place here.

use perigee_link::Packet;

use crate::compact::{Compact, RareOptions};
use crate::packet::NetPacket;

/// Packets in numbered places; one that is left is given to another packet.
#[derive(Debug, Default)]
pub(crate) struct Places {
    packets: Vec<Compact>,
    /// Rare options, by place, up to the last place that had any.
    options: Vec<RareOptions>,
    free: Vec<u32>,
}

impl Places {
    /// Puts a packet into a place; the packet as the link takes it.
    pub(crate) fn put(&mut self, packet: &NetPacket) -> Packet<u32> {
        let compact = Compact::of(packet);
        let kept = self.put_plain(compact);
        if compact.has_options() {
            let place = kept.token as usize;
            if self.options.len() <= place {
                self.options.resize(place + 1, RareOptions::default());
            }
            self.options[place] = RareOptions::of(packet);
        }
        kept
    }

    /// How many packets there are.
    pub(crate) fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// The ways of the packets.
    pub(crate) fn ways(&self) -> impl Iterator<Item = u32> {
        let mut is_free = vec![false; self.packets.len()];
        self.free.iter().for_each(|place| is_free[*place as usize] = true);
        self.packets.iter().zip(is_free).filter(|(_, is_free)| !is_free).map(|(packet, _)| packet.way)
    }

    /// [`Places::put`] of a packet that has no rare options.
    #[inline]
    pub(crate) fn put_plain(&mut self, packet: Compact) -> Packet<u32> {
        let place = if let Some(place) = self.free.pop() {
            self.packets[place as usize] = packet;
            place
        } else {
            self.packets.push(packet);
            self.packets.len() as u32 - 1
        };
        Packet { bytes: u32::from(packet.bytes), flow: packet.way, ecn: packet.ecn, token: place }
    }

    /// The packet in the place of one that a link gives back, without its rare options. It stays there until the place is given away.
    #[inline]
    pub(crate) fn take(&mut self, kept: Packet<u32>) -> &Compact {
        self.free.push(kept.token);
        let packet = &mut self.packets[kept.token as usize];
        packet.ecn = kept.ecn;
        packet
    }

    /// A packet that was just taken, without its rare options.
    #[inline]
    pub(crate) fn taken(&self, place: u32) -> Compact {
        self.packets[place as usize]
    }

    /// All of a packet that was just taken.
    pub(crate) fn taken_whole(&self, place: u32) -> NetPacket {
        let (mut packet, compact) = (NetPacket::NONE, &self.packets[place as usize]);
        if compact.has_options() {
            compact.put_with(&self.options[place as usize], &mut packet);
        } else {
            compact.put_into(&mut packet);
        }
        packet
    }

    /// [`Places::take`] of a whole packet.
    pub(crate) fn take_whole(&mut self, kept: Packet<u32>) -> NetPacket {
        self.take(kept);
        self.taken_whole(kept.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::tests::packets;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_come_back_as_they_were_in_any_order(
            sent in prop::collection::vec((packets(), any::<prop::sample::Index>(), any::<bool>()), 0..60),
        ) {
            let (mut places, mut kept) = (Places::default(), Vec::new());
            for (packet, which, comes_back) in &sent {
                kept.push((places.put(packet), packet));
                if *comes_back {
                    let (token, packet) = kept.swap_remove(which.index(kept.len()));
                    prop_assert_eq!(format!("{packet:?}"), format!("{:?}", places.take_whole(token)));
                }
            }
            for (token, packet) in kept {
                prop_assert_eq!(format!("{packet:?}"), format!("{:?}", places.take_whole(token)));
            }
        }
    }
}
