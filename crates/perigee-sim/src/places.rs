//! Packets stored by a link itself, which identifies each by the number of its place here.

use perigee_link::Packet;

use crate::compact::{Arrived, Compact, Parcel, RareOptions};

/// Packets in numbered places, which are reused.
#[derive(Debug, Default)]
pub(crate) struct Places {
    packets: Vec<Compact>,
    /// Rare options by place, up to the last place that had any.
    options: Vec<RareOptions>,
    free: Vec<u32>,
}

impl Places {
    /// Stores a packet; returns it in the link's form.
    #[inline]
    pub(crate) fn put(&mut self, packet: &impl Parcel) -> Packet<u32> {
        let compact = packet.compact();
        let place = if let Some(place) = self.free.pop() {
            self.packets[place as usize] = compact;
            place
        } else {
            self.packets.push(compact);
            self.packets.len() as u32 - 1
        };
        if let Some(options) = packet.options() {
            let place = place as usize;
            if self.options.len() <= place {
                self.options.resize(place + 1, RareOptions::default());
            }
            self.options[place] = options;
        }
        Packet { bytes: u32::from(compact.bytes), flow: compact.way, ecn: compact.ecn, token: place }
    }

    /// Number of packets.
    pub(crate) fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// The ways of the packets.
    pub(crate) fn ways(&self) -> impl Iterator<Item = u32> {
        let mut is_free = vec![false; self.packets.len()];
        self.free.iter().for_each(|place| is_free[*place as usize] = true);
        self.packets.iter().zip(is_free).filter(|(_, is_free)| !is_free).map(|(packet, _)| packet.way)
    }

    /// Frees the place of a packet that a link returns; returns the packet without rare options.
    #[inline]
    pub(crate) fn give_up(&mut self, kept: Packet<u32>) -> &Compact {
        self.free.push(kept.token);
        &self.packets[kept.token as usize]
    }

    /// Moves a packet that a link returns into `place`.
    #[inline]
    pub(crate) fn take(&mut self, kept: Packet<u32>, place: &mut Arrived) {
        place.packet = *self.give_up(kept);
        place.packet.ecn = kept.ecn;
        if place.packet.has_options() {
            place.options = self.options[kept.token as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::tests::packets;
    use crate::packet::NetPacket;
    use proptest::prelude::*;

    fn back(places: &mut Places, token: Packet<u32>) -> NetPacket {
        let mut place = Arrived::default();
        places.take(token, &mut place);
        place.whole()
    }

    proptest! {
        #[test]
        fn packets_are_returned_unchanged_in_any_order(
            sent in prop::collection::vec((packets(), any::<prop::sample::Index>(), any::<bool>()), 0..60),
        ) {
            let (mut places, mut kept) = (Places::default(), Vec::new());
            for (packet, which, comes_back) in &sent {
                kept.push((places.put(packet), packet));
                if *comes_back {
                    let (token, packet) = kept.swap_remove(which.index(kept.len()));
                    prop_assert_eq!(format!("{packet:?}"), format!("{:?}", back(&mut places, token)));
                }
            }
            for (token, packet) in kept {
                prop_assert_eq!(format!("{packet:?}"), format!("{:?}", back(&mut places, token)));
            }
        }
    }
}
