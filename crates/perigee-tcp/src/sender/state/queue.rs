//! The send queue: one entry for each segment sent and not yet cumulatively acknowledged, in sequence order.
//!
//! Entries are numbered from the start of the connection; an entry lives in a ring at its number modulo the capacity.
//! Positions are bytes since the initial sequence number, in 64 bits, so that nothing here wraps.

/// One segment in the network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// Position of its first byte.
    pub(crate) start: u64,
    /// When it was last sent, us.
    pub(crate) sent_us: u64,
    /// Rate sampling: start of the send window it belongs to, us.
    pub(crate) first_tx_us: u64,
    /// Rate sampling: time of the newest delivery when it was sent, us; 0 once its delivery was counted.
    pub(crate) delivered_us: u64,
    /// Rate sampling: packets delivered when it was sent.
    pub(crate) delivered: u32,
    /// Payload bytes.
    pub(crate) len: u16,
    pub(crate) marks: u8,
}

/// Bits of [`Entry::marks`].
pub(crate) mod mark {
    /// The receiver has it (SACK).
    pub(crate) const SACKED: u8 = 1;
    /// Deemed lost.
    pub(crate) const LOST: u8 = 2;
    /// A retransmission of it is in flight.
    pub(crate) const RETRANS: u8 = 4;
    /// It was retransmitted at least once.
    pub(crate) const EVER_RETRANS: u8 = 8;
    /// Sent while the application was the limit.
    pub(crate) const APP_LIMITED: u8 = 16;
    pub(crate) const SYN: u8 = 32;
    pub(crate) const FIN: u8 = 64;
}

impl Entry {
    #[inline]
    pub(crate) fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    /// Position after its last byte; SYN and FIN count one.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len) + u64::from(self.has(mark::SYN | mark::FIN))
    }
}

/// Entries that were taken off the queue together.
#[derive(Clone, Copy)]
pub(crate) struct Popped {
    /// When the first of them was sent, us.
    pub(crate) first_sent_us: u64,
    /// Number of the [last](SendQueue::taken) of them.
    pub(crate) last: u64,
    pub(crate) packets: u32,
}

/// The ring of entries `first()..next()`.
#[derive(Clone, Debug)]
pub(crate) struct SendQueue {
    ring: Vec<Entry>,
    first: u64,
    next: u64,
    /// Position after the SYN, and after all entries that were ever sent again.
    repeated_until: u64,
}

impl Default for SendQueue {
    fn default() -> Self {
        Self { ring: Vec::new(), first: 0, next: 0, repeated_until: 1 }
    }
}

impl SendQueue {
    /// Position from which on no entry was ever sent again, and none is the SYN.
    #[inline]
    pub(crate) fn repeated_until(&self) -> u64 {
        self.repeated_until
    }

    /// An entry is sent again.
    pub(crate) fn note_repeated(&mut self, number: u64) {
        self.repeated_until = self.repeated_until.max(self.get(number).end());
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.next
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> &Entry {
        debug_assert!((self.first..self.next).contains(&number));
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> &mut Entry {
        debug_assert!((self.first..self.next).contains(&number));
        let mask = self.ring.len() - 1;
        &mut self.ring[number as usize & mask]
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<&Entry> {
        (!self.is_empty()).then(|| self.get(self.first))
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        if (self.next - self.first) as usize == self.ring.len() {
            self.grow();
        }
        let mask = self.ring.len() - 1;
        self.ring[self.next as usize & mask] = entry;
        self.next += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) {
        debug_assert!(!self.is_empty());
        self.first += 1;
    }

    /// Takes away the entries that end at or before `position`, the first of which begins at `una`, while others stay. `None`: there are
    /// no such, and nothing has happened.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn pop_until(&mut self, una: u64, position: u64) -> Option<Popped> {
        let mask = self.ring.len().wrapping_sub(1);
        let head = self.ring.get(self.first as usize & mask)?;
        if head.start != una {
            return None;
        }
        // An entry ends where the next one begins.
        let mut next = self.first + 1;
        while next < self.next && self.ring[next as usize & mask].start <= position {
            next += 1;
        }
        // The one at `next` is that with the position in it, or begins after it.
        let packets = (next - 1 - self.first) as u32;
        if packets == 0 {
            return None;
        }
        let first_sent_us = head.sent_us;
        self.first = next - 1;
        Some(Popped { first_sent_us, last: next - 2, packets })
    }

    /// An entry that was taken away, before another one is added.
    #[inline]
    pub(crate) fn taken(&self, number: u64) -> &Entry {
        debug_assert!(number < self.first);
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    /// Number of the first entry that ends after `position`; `next()` where there is none.
    ///
    /// Bulk segments are of one size, so the first guess by division is almost always right.
    #[inline]
    pub(crate) fn find(&self, position: u64, mss: u32) -> u64 {
        let Some(head) = self.head() else { return self.next };
        if position < head.end() {
            return self.first;
        }
        let guess = (self.first + (position - head.start) / u64::from(mss)).min(self.next - 1);
        let entry = self.get(guess);
        if entry.start <= position && position < entry.end() {
            return guess;
        }
        let (mut low, mut high) = (self.first, self.next);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).end() <= position {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn grow(&mut self) {
        let capacity = (self.ring.len() * 2).max(16);
        let mut ring = vec![Entry::default(); capacity];
        for number in self.first..self.next {
            ring[number as usize & (capacity - 1)] = *self.get(number);
        }
        self.ring = ring;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn find_returns_the_first_entry_that_ends_later(
            lens in prop::collection::vec(1u16..1449, 1..100), popped in 0usize..50, at in 0u64..200_000,
        ) {
            let (mut queue, mut start) = (SendQueue::default(), 0);
            for len in &lens {
                queue.push(Entry { start, len: *len, ..Entry::default() });
                start += u64::from(*len);
            }
            for _ in 0..popped.min(lens.len() - 1) {
                queue.pop();
            }
            let expected = (queue.first()..queue.next()).find(|n| queue.get(*n).end() > at).unwrap_or(queue.next());
            prop_assert_eq!(queue.find(at, 1448), expected);
        }
    }
}
