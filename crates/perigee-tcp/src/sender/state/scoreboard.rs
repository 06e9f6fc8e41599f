//! The SACK scoreboard (RFC 6675) and the set of lost entries.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queue::{mark, SendQueue};
use crate::segment::{Segment, MAX_SACK_BLOCKS};

/// SACK state beside the marks of the queue's entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    /// End of the highest SACKed segment; stale if none is SACKed.
    pub(crate) highest: u64,
    /// Sorted SACK blocks of the previous ACK; what they cover is already marked.
    known: [(u64, u64); MAX_BLOCKS],
    /// Blocks of the previous ACK in their original order, the newest first; none if one of them was a D-SACK.
    reported: [(u32, u32); MAX_SACK_BLOCKS],
    reported_count: u8,
    /// Cursor of RFC 6675's loss rule, used without RACK.
    pub(crate) head: HeadCursor,
    /// End of the entry marked last, and the number of the next one.
    marked: (u64, u64),
    /// Segments reported by D-SACK.
    duplicates: u64,
}

/// Entries below `entry` have been examined; `sacked` of those still in the queue are SACKed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadCursor {
    pub(crate) entry: u64,
    pub(crate) sacked: u32,
}

impl Scoreboard {
    /// The first part of `start..end` that the previous ACK did not report; `None` if it reported everything.
    pub(crate) fn unknown_part(&self, mut start: u64, end: u64) -> Option<(u64, u64)> {
        while start < end {
            let Some(covering) = self.known.iter().find(|known| known.0 <= start && start < known.1) else {
                let next = self.known.iter().map(|known| known.0).filter(|at| *at > start).min().unwrap_or(end);
                return Some((start, end.min(next)));
            };
            start = covering.1;
        }
        None
    }

    /// Records that the sorted blocks of an ACK are marked.
    pub(crate) fn remember(&mut self, blocks: &[(u64, u64)], segment: &Segment) {
        self.known = [(0, 0); MAX_BLOCKS];
        self.known[..blocks.len()].copy_from_slice(blocks);
        let is_whole = blocks.len() == usize::from(segment.sack_count);
        (self.reported, self.reported_count) = (segment.sack, if is_whole { segment.sack_count } else { 0 });
    }

    /// Start, previous end and new end of the newest block, if nothing else has changed since the previous ACK. This is the usual ACK
    /// behind a gap.
    #[inline]
    pub(crate) fn advanced_block(&self, segment: &Segment) -> Option<(u32, u32, u32)> {
        let ([(start, before), known @ ..], [(start_now, end), others @ ..]) = (&self.reported, &segment.sack);
        if segment.sack_count == 0 || segment.sack_count != self.reported_count || others != known {
            return None;
        }
        let has_advanced = start == start_now && (end.wrapping_sub(*before) as i32) > 0;
        has_advanced.then_some((*start, *before, *end))
    }

    /// Records that the newest block, which ended at `before`, is marked up to `end`, whose sequence number is `end_seq`.
    pub(crate) fn advance(&mut self, before: u64, end: u64, end_seq: u32) {
        self.reported[0].1 = end_seq;
        if let Some(known) = self.known.iter_mut().find(|known| known.1 == before) {
            known.1 = end;
        }
    }

    /// Number of the entry that begins at `position`, if the last marked entry ends there.
    #[inline]
    pub(crate) fn entry_at(&self, position: u64) -> Option<u64> {
        (self.marked.0 == position).then_some(self.marked.1)
    }

    /// Records that the entry before `number`, which ends at `position`, is marked.
    #[inline]
    pub(crate) fn note_marked(&mut self, position: u64, number: u64) {
        self.marked = (position, number);
    }

    /// SACK reneging: nothing is SACKed any more; `first` is the queue's first entry.
    pub(crate) fn forget(&mut self, first: u64) {
        self.known = [(0, 0); MAX_BLOCKS];
        self.reported_count = 0;
        self.head = HeadCursor { entry: first, sacked: 0 };
    }

    /// Counts segments reported by D-SACK; returns the total.
    pub(crate) fn count_duplicates(&mut self, segments: u64) -> u64 {
        self.duplicates += segments;
        self.duplicates
    }
}

impl HeadCursor {
    /// Entries below `first` have left the queue.
    pub(crate) fn skip_to(&mut self, first: u64) {
        if self.entry < first {
            *self = Self { entry: first, sacked: 0 };
        }
    }

    /// An entry was SACKed.
    #[inline]
    pub(crate) fn on_sacked(&mut self, number: u64) {
        if number < self.entry {
            self.sacked += 1;
        }
    }

    /// An entry leaves the queue.
    #[inline]
    pub(crate) fn on_removed(&mut self, number: u64, was_sacked: bool) {
        if number < self.entry {
            self.sacked -= u32::from(was_sacked);
        }
    }
}

/// Entries to retransmit, lowest first. Entries whose marks have changed since are skipped.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostEntries {
    heap: BinaryHeap<Reverse<u64>>,
}

impl LostEntries {
    pub(crate) fn push(&mut self, number: u64) {
        self.heap.push(Reverse(number));
    }

    pub(crate) fn pop(&mut self) {
        self.heap.pop();
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }

    /// The lowest entry of the queue that is lost and not retransmitted.
    pub(crate) fn first(&mut self, queue: &SendQueue) -> Option<u64> {
        loop {
            let Reverse(number) = *self.heap.peek()?;
            if number >= queue.first() {
                let entry = queue.get(number);
                if entry.has(mark::LOST) && !entry.has(mark::SACKED | mark::RETRANS) {
                    return Some(number);
                }
            }
            self.heap.pop();
        }
    }
}

/// SACK blocks per segment: three beside timestamps, plus one.
pub(crate) const MAX_BLOCKS: usize = 4;
