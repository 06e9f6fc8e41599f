//! Reassembly: what was received in order, and what waits behind a gap.

use std::collections::VecDeque;

use super::reports::SackReports;

/// The stream as received. Positions are bytes since the peer's initial sequence number.
#[derive(Clone, Debug)]
pub(super) struct Reassembly {
    /// Next position expected (RCV.NXT).
    next: u64,
    /// Data received out of order: sorted, disjoint, all beyond `next`.
    ranges: VecDeque<(u64, u64)>,
    /// Bytes of these ranges.
    held_bytes: u64,
    pub(super) reports: SackReports,
}

impl Reassembly {
    pub(super) fn new(sack: bool, dsack: bool) -> Self {
        Self { next: 0, ranges: VecDeque::new(), held_bytes: 0, reports: SackReports::new(sack, dsack) }
    }

    /// The peer's SYN takes position 0.
    pub(super) fn on_syn(&mut self) {
        self.next = 1;
    }

    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that wait behind a gap.
    #[inline]
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    #[inline]
    pub(super) fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Where the data behind gaps end.
    #[inline]
    pub(super) fn newest(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.1)
    }

    /// Takes so many bytes in that begin at the position expected, where there is no gap; answers with the next one.
    #[inline]
    pub(super) fn extend(&mut self, bytes: u16) -> u64 {
        self.next += u64::from(bytes);
        self.next
    }

    /// Whether the last range is the one reported first.
    pub(super) fn is_growing(&self) -> bool {
        self.ranges.back().is_some_and(|last| self.reports.is_first(*last))
    }

    /// Takes so many bytes in behind the last range, of one that [`Reassembly::is_growing`]; answers where it ends.
    #[inline]
    pub(super) fn grow(&mut self, bytes: u16) -> u64 {
        let Some(last) = self.ranges.back_mut() else { return self.next };
        last.1 += u64::from(bytes);
        self.held_bytes += u64::from(bytes);
        self.reports.extend_first(*last);
        last.1
    }

    /// Takes `start..end` in, which begins at or before the position expected and ends after it.
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

    /// Takes `start..end` in, which begins beyond the position expected. Most arrivals extend the last range.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        let merged = match self.ranges.back_mut() {
            Some(last) if start == last.1 => {
                last.1 = end;
                self.held_bytes += end - start;
                let merged = *last;
                // The range reported first only grew: the common case touches nothing else.
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

    /// Adds a range that is not the last; `None` where all of it was there already.
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
