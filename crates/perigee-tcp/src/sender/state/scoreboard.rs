//! What the receiver has reported of the queue (RFC 6675): SACKed ranges, and the entries deemed lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queue::{mark, SendQueue};
use crate::segment::{Segment, MAX_SACK_BLOCKS};

/// What SACK has reported, beside the marks of the queue's entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    /// End of the highest SACKed segment; stale where nothing is SACKed.
    pub(crate) highest: u64,
    /// SACK blocks of the previous ACK, sorted: what they cover is marked already.
    known: [(u64, u64); MAX_BLOCKS],
    /// The same blocks as they came, the newest first; none where one of them was a duplicate report.
    reported: [(u32, u32); MAX_SACK_BLOCKS],
    reported_count: u8,
    /// Cursor of RFC 6675's rule, where RACK is off.
    pub(crate) head: HeadCursor,
    /// Where an entry ends that was marked by the last blocks, and the number of the one behind it.
    marked: (u64, u64),
    /// Duplicates reported so far, segments.
    duplicates: u64,
}

/// Entries below `entry` were judged; `sacked` of those that are still in the queue are SACKed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadCursor {
    pub(crate) entry: u64,
    pub(crate) sacked: u32,
}

impl Scoreboard {
    /// The first part of `start..end` that the previous ACK did not report; `None`: it reported all of it.
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

    /// The blocks of an ACK, sorted, are marked.
    pub(crate) fn remember(&mut self, blocks: &[(u64, u64)], segment: &Segment) {
        self.known = [(0, 0); MAX_BLOCKS];
        self.known[..blocks.len()].copy_from_slice(blocks);
        let is_whole = blocks.len() == usize::from(segment.sack_count);
        (self.reported, self.reported_count) = (segment.sack, if is_whole { segment.sack_count } else { 0 });
    }

    /// Where the newest block began, ended on the previous ACK and ends now, if nothing else has changed since, as on most ACKs
    /// while a gap is open.
    #[inline]
    pub(crate) fn grown_block(&self, segment: &Segment) -> Option<(u32, u32, u32)> {
        let count = usize::from(segment.sack_count);
        if count == 0 || segment.sack_count != self.reported_count || segment.sack[1..count] != self.reported[1..count]
        {
            return None;
        }
        let ((start, before), (start_now, end)) = (self.reported[0], segment.sack[0]);
        let has_grown = start == start_now && (end.wrapping_sub(before) as i32) > 0;
        has_grown.then_some((start, before, end))
    }

    /// The newest block ends at `end` now, in place of `before`, and is marked.
    pub(crate) fn grow(&mut self, before: u64, end: u64, segment: &Segment) {
        self.reported[0] = segment.sack[0];
        if let Some(known) = self.known.iter_mut().find(|known| known.1 == before) {
            known.1 = end;
        }
    }

    /// The number of the entry that begins at `position`, where the last one marked ends there.
    #[inline]
    pub(crate) fn entry_at(&self, position: u64) -> Option<u64> {
        (self.marked.0 == position).then_some(self.marked.1)
    }

    /// The entry before `number`, which ends at `position`, is marked.
    #[inline]
    pub(crate) fn note_marked(&mut self, position: u64, number: u64) {
        self.marked = (position, number);
    }

    /// The receiver has dropped what it reported: nothing is SACKed any more, from the queue's first entry on.
    pub(crate) fn forget(&mut self, first: u64) {
        self.known = [(0, 0); MAX_BLOCKS];
        self.reported_count = 0;
        self.head = HeadCursor { entry: first, sacked: 0 };
    }

    /// Counts duplicates that were reported; how many there are now.
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

/// Entries to retransmit, lowest first. Those whose marks have changed since are skipped.
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

    /// The lowest entry of the queue that is lost and not on its way again.
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

/// Blocks of one segment: three beside timestamps, and room for one more.
pub(crate) const MAX_BLOCKS: usize = 4;
