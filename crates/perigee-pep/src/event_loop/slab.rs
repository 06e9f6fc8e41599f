//! A table of connections whose keys are not reused while an event of an earlier connection may still arrive.

/// A table of values with keys that differ from those of removed values.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// The key of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    slot: u32,
    generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.value = Some(value);
        Key { slot, generation: place.generation }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        slot.value.as_mut().filter(|_| slot.generation == key.generation)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1) & GENERATIONS;
        self.free.push(key.slot);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let key = |(slot, each): (usize, &Slot<T>)| {
            each.value.is_some().then_some(Key { slot: slot as u32, generation: each.generation })
        };
        self.slots.iter().enumerate().filter_map(key).collect()
    }
}

impl Key {
    /// Encodes the key and one bit as data of an event.
    pub(crate) fn with_bit(self, bit: bool) -> u64 {
        u64::from(self.generation) << 33 | u64::from(self.slot) << 1 | u64::from(bit)
    }

    /// Decodes [`Key::with_bit`].
    pub(crate) fn from_data(data: u64) -> (Self, bool) {
        (Self { slot: (data >> 1) as u32, generation: (data >> 33) as u32 & GENERATIONS }, data & 1 == 1)
    }
}

/// Generations fit beside slot and bit, below the highest bit of the data of an event.
const GENERATIONS: u32 = (1 << 30) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_its_own_value_only() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        let c = slab.insert('c');
        assert!(slab.get_mut(a).is_none() && slab.remove(a).is_none());
        assert_eq!((slab.get_mut(b).copied(), slab.get_mut(c).copied()), (Some('b'), Some('c')));
        assert_eq!((slab.len(), slab.keys()), (2, vec![c, b]));
        for bit in [false, true] {
            assert_eq!(Key::from_data(c.with_bit(bit)), (c, bit));
            assert!(c.with_bit(bit) < 1 << 63);
        }
    }
}
