//! A FIFO ring buffer of small values that grows and never shrinks, so that it stops allocating once it is large enough.

/// A FIFO of `Copy` values in a power-of-two buffer.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: Vec<T>,
    /// Number of values removed so far; modulo the size, the slot of the front.
    taken: usize,
    /// Number of values added so far.
    put: usize,
}

impl<T: Copy + Default> Ring<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), taken: 0, put: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.put
    }

    pub(crate) fn len(&self) -> usize {
        self.put.wrapping_sub(self.taken)
    }

    /// The values, from the front.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mask = self.slots.len().wrapping_sub(1);
        (0..self.len()).map(move |behind| &self.slots[self.taken.wrapping_add(behind) & mask])
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        if self.taken == self.put {
            return None;
        }
        self.slots.get(self.taken & self.slots.len().wrapping_sub(1))
    }

    /// Adds a value at the back; returns its slot, which contains an old value.
    #[inline(always)]
    pub(crate) fn push_slot(&mut self) -> &mut T {
        if self.put.wrapping_sub(self.taken) == self.slots.len() {
            self.grow();
        }
        let (mask, at) = (self.slots.len() - 1, self.put);
        self.put = at.wrapping_add(1);
        self.fetch(self.put.wrapping_add(AHEAD) & mask);
        &mut self.slots[at & mask]
    }

    /// Removes the first values; the ring must have as many.
    #[inline]
    pub(crate) fn drop_front(&mut self, values: usize) {
        debug_assert!(self.len() >= values, "the ring has fewer values");
        self.taken = self.taken.wrapping_add(values);
        self.fetch(self.taken.wrapping_add(AHEAD) & (self.slots.len() - 1));
    }

    /// Prefetches a slot that will be used soon: a long ring exceeds the inner caches, and other work hides the memory latency.
    #[inline]
    fn fetch(&self, slot: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(slot) = self.slots.get(slot) {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            // SAFETY: a prefetch is a hint; it reads nothing and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(slot).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = slot;
    }

    /// Doubles the buffer, moving the front to its start.
    #[cold]
    fn grow(&mut self) {
        let old = self.slots.len();
        self.slots.rotate_left(if old == 0 { 0 } else { self.taken & (old - 1) });
        self.slots.resize((old * 2).max(FIRST_SIZE), T::default());
        (self.taken, self.put) = (0, old);
    }
}

const FIRST_SIZE: usize = 16;
/// Prefetch distance, slots.
const AHEAD: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn values_leave_in_the_order_they_came(pushes in prop::collection::vec((0usize..40, 0usize..40), 0..30)) {
            let (mut ring, mut model, mut next) = (Ring::new(), VecDeque::new(), 0);
            for (put, take) in pushes {
                for _ in 0..put {
                    *ring.push_slot() = next;
                    model.push_back(next);
                    next += 1;
                }
                for _ in 0..take {
                    prop_assert_eq!(ring.front(), model.front());
                    if model.pop_front().is_some() {
                        ring.drop_front(1);
                    }
                }
                prop_assert_eq!(ring.front().is_none(), model.is_empty());
            }
        }
    }
}
