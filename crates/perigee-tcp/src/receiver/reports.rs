//! SACK blocks for the next ACKs: the newest range first (RFC 2018), and duplicates (RFC 2883).

use crate::segment::{Segment, MAX_SACK_BLOCKS};

#[derive(Clone, Debug)]
pub(crate) struct SackReports {
    /// Whether SACK is negotiated, and whether D-SACK is enabled.
    sack: bool,
    dsack: bool,
    /// Disjoint ranges, the newest first.
    ranges: [(u64, u64); REPORTS],
    count: usize,
    duplicate: Option<(u64, u64)>,
}

impl SackReports {
    pub(super) fn new(sack: bool, dsack: bool) -> Self {
        Self { sack, dsack, ranges: [(0, 0); REPORTS], count: 0, duplicate: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.duplicate.is_none()
    }

    pub(super) fn set_sack(&mut self, on: bool) {
        self.sack = on;
        self.dsack &= on;
    }

    /// Records that `start..end` was received twice.
    pub(super) fn note_duplicate(&mut self, start: u64, end: u64) {
        if self.dsack {
            self.duplicate = Some((start, end));
        }
    }

    pub(super) fn is_first(&self, range: (u64, u64)) -> bool {
        self.count > 0 && self.ranges[0] == range
    }

    /// Replaces the first range if `range` extends it at its end; returns `false` otherwise, and [`SackReports::put_first`] must follow.
    #[inline]
    pub(super) fn extend_first(&mut self, range: (u64, u64)) -> bool {
        let is_first = self.count > 0 && self.ranges[0].0 == range.0;
        if is_first {
            self.ranges[0] = range;
        }
        is_first
    }

    /// Puts the newest range first and removes the ranges it covers.
    pub(super) fn put_first(&mut self, range: (u64, u64)) {
        self.retain(|(start, end)| end < range.0 || start > range.1);
        let kept = self.count.min(REPORTS - 1);
        self.ranges.copy_within(..kept, 1);
        self.ranges[0] = range;
        self.count = kept + 1;
    }

    /// Drops what lies below `next`, since it is acknowledged cumulatively.
    #[inline]
    pub(super) fn forget_below(&mut self, next: u64) {
        if self.count > 0 {
            self.retain(|(_, end)| end > next);
        }
    }

    /// Writes the SACK blocks of a segment, the duplicate first. A duplicate is reported once.
    #[inline]
    pub(super) fn fill(&mut self, segment: &mut Segment, to_wire: impl Fn(u64) -> u32) {
        if !self.sack || (self.count == 0 && self.duplicate.is_none()) {
            return;
        }
        let duplicates = usize::from(self.duplicate.is_some());
        if let Some((start, end)) = self.duplicate.take() {
            segment.sack[0] = (to_wire(start), to_wire(end));
        }
        let count = (duplicates + self.count).min(MAX_SACK_BLOCKS);
        for (block, (start, end)) in segment.sack[duplicates..count].iter_mut().zip(&self.ranges) {
            *block = (to_wire(*start), to_wire(*end));
        }
        segment.sack_count = count as u8;
    }

    fn retain(&mut self, keep: impl Fn((u64, u64)) -> bool) {
        let mut kept = 0;
        for at in 0..self.count {
            if keep(self.ranges[at]) {
                self.ranges[kept] = self.ranges[at];
                kept += 1;
            }
        }
        self.count = kept;
    }
}

/// Number of ranges to remember: one more than fits beside timestamps.
const REPORTS: usize = MAX_SACK_BLOCKS + 1;
