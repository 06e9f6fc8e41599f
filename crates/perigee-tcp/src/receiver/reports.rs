//! What the next acknowledgements report: SACK blocks, the newest range first (RFC 2018), and duplicates (RFC 2883).

use crate::segment::{Segment, MAX_SACK_BLOCKS};

/// Ranges to report.
#[derive(Clone, Debug)]
pub(super) struct SackReports {
    /// Whether the connection has SACK, and duplicate reports with it.
    sack: bool,
    dsack: bool,
    /// The newest first; disjoint.
    ranges: [(u64, u64); REPORTS],
    count: usize,
    duplicate: Option<(u64, u64)>,
}

impl SackReports {
    pub(super) fn new(sack: bool, dsack: bool) -> Self {
        Self { sack, dsack, ranges: [(0, 0); REPORTS], count: 0, duplicate: None }
    }

    /// Whether there is nothing to report.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.duplicate.is_none()
    }

    /// What the handshake agreed on.
    pub(super) fn set_sack(&mut self, on: bool) {
        self.sack = on;
        self.dsack &= on;
    }

    /// `start..end` was received before.
    pub(super) fn note_duplicate(&mut self, start: u64, end: u64) {
        if self.dsack {
            self.duplicate = Some((start, end));
        }
    }

    /// Whether a range is the one reported first.
    pub(super) fn is_first(&self, range: (u64, u64)) -> bool {
        self.count > 0 && self.ranges[0] == range
    }

    /// A range that grew at its end is first; `false`: it was not, and [`SackReports::put_first`] is due.
    #[inline]
    pub(super) fn extend_first(&mut self, range: (u64, u64)) -> bool {
        let is_first = self.count > 0 && self.ranges[0].0 == range.0;
        if is_first {
            self.ranges[0] = range;
        }
        is_first
    }

    /// A range is the newest; it replaces those that it has swallowed.
    pub(super) fn put_first(&mut self, range: (u64, u64)) {
        self.retain(|(start, end)| end < range.0 || start > range.1);
        let kept = self.count.min(REPORTS - 1);
        self.ranges.copy_within(..kept, 1);
        self.ranges[0] = range;
        self.count = kept + 1;
    }

    /// What lies below `next` is acknowledged, and not reported any more.
    #[inline]
    pub(super) fn forget_below(&mut self, next: u64) {
        if self.count > 0 {
            self.retain(|(_, end)| end > next);
        }
    }

    /// Fills the SACK blocks of a segment, the duplicate first. A duplicate is reported once.
    #[inline]
    pub(super) fn fill(&mut self, segment: &mut Segment, to_wire: impl Fn(u64) -> u32) {
        if !self.sack || (self.count == 0 && self.duplicate.is_none()) {
            return;
        }
        let mut count = 0;
        let ranges = self.duplicate.take().into_iter().chain(self.ranges[..self.count].iter().copied());
        for (start, end) in ranges.take(MAX_SACK_BLOCKS) {
            segment.sack[count] = (to_wire(start), to_wire(end));
            count += 1;
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

/// Ranges remembered: one more than fits beside timestamps.
const REPORTS: usize = MAX_SACK_BLOCKS + 1;
