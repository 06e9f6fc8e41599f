//! The packets of a link that decides on departure, which knows each by its number here.

use perigee_link::Packet;

use crate::packet::{NetPacket, Parcel, RareOptions, Stored};

/// Packets by number; numbers are reused.
#[derive(Debug, Default)]
pub(crate) struct PacketStore {
    packets: Vec<Stored>,
    /// Rare options by number, up to the last one that had any.
    options: Vec<RareOptions>,
    free: Vec<u32>,
}

impl PacketStore {
    /// Stores a packet; returns it in the link's form.
    #[inline]
    pub(crate) fn put(&mut self, packet: &impl Parcel) -> Packet<u32> {
        let stored = packet.stored();
        let number = if let Some(number) = self.free.pop() {
            self.packets[number as usize] = stored;
            number
        } else {
            self.packets.push(stored);
            self.packets.len() as u32 - 1
        };
        if let Some(options) = packet.options() {
            let number = number as usize;
            if self.options.len() <= number {
                self.options.resize(number + 1, RareOptions::default());
            }
            self.options[number] = options;
        }
        Packet {
            bytes: u32::from(stored.bytes),
            flow: stored.way,
            ecn: stored.ecn,
            is_low: stored.is_low(),
            token: number,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    pub(crate) fn ways(&self) -> impl Iterator<Item = u32> {
        let mut is_free = vec![false; self.packets.len()];
        self.free.iter().for_each(|number| is_free[*number as usize] = true);
        self.packets.iter().zip(is_free).filter(|(_, is_free)| !is_free).map(|(packet, _)| packet.way)
    }

    /// Frees the number of a packet that a link returns; returns the packet without rare options.
    #[inline]
    pub(crate) fn give_up(&mut self, kept: Packet<u32>) -> &Stored {
        self.free.push(kept.token);
        &self.packets[kept.token as usize]
    }

    /// Moves a packet that a link returns into `buffer`.
    #[inline]
    pub(crate) fn take(&mut self, kept: Packet<u32>, buffer: &mut NetPacket) {
        buffer.stored = *self.give_up(kept);
        buffer.stored.ecn = kept.ecn;
        if buffer.stored.has_options() {
            buffer.options = self.options[kept.token as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::packets;
    use proptest::prelude::*;

    fn back(store: &mut PacketStore, token: Packet<u32>) -> NetPacket {
        let mut buffer = NetPacket::default();
        store.take(token, &mut buffer);
        buffer.whole()
    }

    proptest! {
        #[test]
        fn packets_are_returned_unchanged_in_any_order(
            sent in prop::collection::vec((packets(), any::<prop::sample::Index>(), any::<bool>()), 0..60),
        ) {
            let (mut store, mut kept) = (PacketStore::default(), Vec::new());
            for (packet, which, comes_back) in &sent {
                kept.push((store.put(packet), packet));
                if *comes_back {
                    let (token, packet) = kept.swap_remove(which.index(kept.len()));
                    prop_assert_eq!(format!("{packet:?}"), format!("{:?}", back(&mut store, token)));
                }
            }
            for (token, packet) in kept {
                prop_assert_eq!(format!("{packet:?}"), format!("{:?}", back(&mut store, token)));
            }
        }
    }
}
