//! The send queue: one entry per segment in flight, in sequence order.
//!
//! Entries are numbered from the start of the connection and stored in a ring at their number modulo its capacity. Positions are bytes
//! since the initial sequence number, as 64-bit integers that do not wrap.

use perigee_cc::Departure;

/// A segment that was sent and is not yet acknowledged cumulatively.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueEntry {
    /// Position of its first byte.
    pub(crate) start: u64,
    /// Latest send time, us.
    pub(crate) sent_us: u64,
    /// Rate sampling: start of the send interval, us.
    pub(crate) first_tx_us: u64,
    /// Rate sampling: time of the latest delivery when this was sent, us; 0 once this delivery has been counted.
    pub(crate) delivered_us: u64,
    /// Rate sampling: packets delivered when this was sent.
    pub(crate) delivered: u32,
    pub(crate) len: u16,
    pub(crate) marks: u8,
}

/// Bits of [`QueueEntry::marks`].
pub(crate) mod mark {
    pub(crate) const SACKED: u8 = 1;
    /// Deemed lost.
    pub(crate) const LOST: u8 = 2;
    /// Its retransmission is in flight.
    pub(crate) const RETRANS: u8 = 4;
    /// Retransmitted at least once.
    pub(crate) const EVER_RETRANS: u8 = 8;
    /// Sent while limited by the application.
    pub(crate) const APP_LIMITED: u8 = 16;
    pub(crate) const SYN: u8 = 32;
    pub(crate) const FIN: u8 = 64;
}

impl QueueEntry {
    #[inline]
    pub(crate) fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    /// Position after its last byte; SYN and FIN occupy one.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len) + u64::from(self.has(mark::SYN | mark::FIN))
    }

    /// Its departure, for rate samples.
    #[inline(always)]
    pub(crate) fn departure(&self) -> Departure {
        Departure {
            sent_us: self.sent_us,
            first_tx_us: self.first_tx_us,
            delivered_us: self.delivered_us,
            delivered: self.delivered,
            is_app_limited: self.has(mark::APP_LIMITED),
            is_retransmission: self.has(mark::EVER_RETRANS),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Popped {
    /// Send time of the first, us.
    pub(crate) first_sent_us: u64,
    /// Number of the last; [`SendQueue::popped`] returns it.
    pub(crate) last: u64,
    pub(crate) packets: u32,
}

/// The ring of entries `first()..next()`.
#[derive(Clone, Debug)]
pub(crate) struct SendQueue {
    ring: Vec<QueueEntry>,
    first: u64,
    next: u64,
    /// Position from which on no entry was retransmitted, and none is the SYN.
    retransmitted_below: u64,
}

impl Default for SendQueue {
    fn default() -> Self {
        Self { ring: Vec::new(), first: 0, next: 0, retransmitted_below: 1 }
    }
}

impl SendQueue {
    /// An empty queue, in the same memory unless that is much.
    pub(crate) fn emptied(mut self) -> Self {
        if self.ring.len() > MOST_KEPT {
            self.ring = Vec::new();
        }
        Self { ring: self.ring, ..Self::default() }
    }

    /// Position from which on no entry was retransmitted, and none is the SYN.
    #[inline]
    pub(crate) fn retransmitted_below(&self) -> u64 {
        self.retransmitted_below
    }

    /// Records the retransmission of an entry.
    pub(crate) fn note_retransmission(&mut self, number: u64) {
        self.retransmitted_below = self.retransmitted_below.max(self.get(number).end());
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
    pub(crate) fn get(&self, number: u64) -> &QueueEntry {
        debug_assert!((self.first..self.next).contains(&number));
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> &mut QueueEntry {
        debug_assert!((self.first..self.next).contains(&number));
        let mask = self.ring.len() - 1;
        &mut self.ring[number as usize & mask]
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<&QueueEntry> {
        (!self.is_empty()).then(|| self.get(self.first))
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: QueueEntry) {
        if (self.next - self.first) as usize == self.ring.len() {
            self.grow();
        }
        let mask = self.ring.len() - 1;
        self.ring[self.next as usize & mask] = entry;
        self.next += 1;
    }

    /// Pushes `entries` of one size: `first`, and those that follow it in sequence.
    #[inline(always)]
    pub(crate) fn push_all(&mut self, first: QueueEntry, entries: u32) {
        while self.next - self.first + u64::from(entries) > self.ring.len() as u64 {
            self.grow();
        }
        let mask = self.ring.len() - 1;
        let mut entry = first;
        for _ in 0..entries {
            self.ring[self.next as usize & mask] = entry;
            entry.start += u64::from(entry.len);
            self.next += 1;
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) {
        debug_assert!(!self.is_empty());
        self.first += 1;
    }

    /// Pops the entries that end at or below `position`, provided that the first one begins at `una` and at least one entry remains.
    /// Returns `None`, with no effect, if there is none to pop.
    #[inline(always)]
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
        // The entry before `next` contains `position` or begins there, so it stays.
        let packets = (next - 1 - self.first) as u32;
        if packets == 0 {
            return None;
        }
        let first_sent_us = head.sent_us;
        self.first = next - 1;
        Some(Popped { first_sent_us, last: next - 2, packets })
    }

    /// An entry that was popped; valid until the next push.
    #[inline]
    pub(crate) fn popped(&self, number: u64) -> &QueueEntry {
        debug_assert!(number < self.first);
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    /// Number of the first entry that ends after `position`, or `next()`.
    ///
    /// Segments of bulk transfers have one size, so the guess by division is nearly always right.
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
        let capacity = (self.ring.len() * 2).max(FIRST_CAPACITY);
        let mut ring = vec![QueueEntry::default(); capacity];
        for number in self.first..self.next {
            ring[number as usize & (capacity - 1)] = *self.get(number);
        }
        self.ring = ring;
    }
}

/// The smallest ring: a user who only asks has one segment in flight.
const FIRST_CAPACITY: usize = 4;
/// The largest ring that another queue uses again: most are smaller, and the others would add up.
const MOST_KEPT: usize = 16;

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
                queue.push(QueueEntry { start, len: *len, ..QueueEntry::default() });
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
