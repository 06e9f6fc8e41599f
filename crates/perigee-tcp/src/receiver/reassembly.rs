//! Reassembly of in-order and out-of-order data.

use std::collections::VecDeque;

use super::reports::SackReports;

/// The received stream. Positions are bytes since the peer's initial sequence number.
#[derive(Clone, Debug)]
pub(crate) struct Reassembly {
    /// Position of the next byte expected (RCV.NXT).
    next: u64,
    /// Out-of-order ranges: sorted, disjoint, beyond `next`.
    ranges: VecDeque<(u64, u64)>,
    held_bytes: u64,
    pub(crate) reports: SackReports,
}

impl Reassembly {
    pub(super) fn new(sack: bool, dsack: bool) -> Self {
        Self { next: 0, ranges: VecDeque::new(), held_bytes: 0, reports: SackReports::new(sack, dsack) }
    }

    /// Consumes the peer's SYN, which occupies position 0.
    pub(super) fn on_syn(&mut self) {
        self.next = 1;
    }

    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes received behind a gap.
    #[inline]
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    #[inline]
    pub(crate) fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// End of the out-of-order data.
    #[inline]
    pub(super) fn newest(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.1)
    }

    /// Appends `bytes` of in-order data when there is no gap; returns the new `next`.
    #[inline]
    pub(super) fn extend(&mut self, bytes: u16) -> u64 {
        self.next += u64::from(bytes);
        self.next
    }

    /// Whether data that continue the last range only extend it: it is also the one reported first.
    pub(crate) fn extends_newest_range(&self) -> bool {
        self.ranges.back().is_some_and(|last| self.reports.is_first(*last))
    }

    /// Appends `bytes` to the last range, valid while [`Reassembly::extends_newest_range`]; returns its end.
    #[inline]
    pub(super) fn extend_newest_range(&mut self, bytes: u16) -> u64 {
        let Some(last) = self.ranges.back_mut() else { return self.next };
        last.1 += u64::from(bytes);
        self.held_bytes += u64::from(bytes);
        self.reports.extend_first(*last);
        last.1
    }

    /// Adds `start..end`, which begins at or before `next` and ends after it.
    #[inline]
    pub(super) fn append(&mut self, start: u64, end: u64) {
        if start < self.next {
            self.reports.note_duplicate(start, self.next);
        }
        self.next = end;
        while let Some(&(start, end)) = self.ranges.front() {
            if start > self.next {
                break;
            }
            self.held_bytes -= end - start;
            self.next = self.next.max(end);
            self.ranges.pop_front();
        }
        self.reports.forget_below(self.next);
    }

    /// Counts everything before the newest data as received, and reports nothing; returns the bytes that are missing.
    pub(super) fn skip_gaps(&mut self) -> u64 {
        let Some(newest) = self.newest() else { return 0 };
        let missing = newest - self.next - self.held_bytes;
        (self.next, self.held_bytes) = (newest, 0);
        self.ranges.clear();
        self.reports.forget_below(newest);
        missing
    }

    /// Adds `start..end`, which begins beyond `next`. Most arrivals extend the last range.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        let merged = match self.ranges.back_mut() {
            Some(last) if start == last.1 => {
                last.1 = end;
                self.held_bytes += end - start;
                let merged = *last;
                // Common case: the range reported first has grown, and nothing else changes.
                if self.reports.extend_first(merged) {
                    return;
                }
                merged
            }
            last if last.as_ref().is_none_or(|last| start > last.1) => {
                self.ranges.push_back((start, end));
                self.held_bytes += end - start;
                (start, end)
            }
            _ => match self.insert_within(start, end) {
                Some(merged) => merged,
                None => return,
            },
        };
        self.reports.put_first(merged);
    }

    /// Adds a range other than the last; `None` if all of it was received before.
    fn insert_within(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let mut merged = (start, end);
        let mut past = first;
        while let Some(&(s, e)) = self.ranges.get(past) {
            if s > end {
                break;
            }
            if s <= start && end <= e {
                self.reports.note_duplicate(start, end);
                self.reports.put_first((s, e));
                return None;
            }
            merged = (merged.0.min(s), merged.1.max(e));
            self.held_bytes -= e - s;
            past += 1;
        }
        self.held_bytes += merged.1 - merged.0;
        if past == first {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..past);
        }
        Some(merged)
    }
}
