//! Receive offload: consecutive segments that arrive within a short time are delivered as one, as Linux's GRO does (`tcp_gro_receive`).

use perigee_units::Time;

use crate::segment::{Flags, Segment};

/// Segments being aggregated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregate {
    /// How long the first segment waits for others.
    pub(crate) delay: Time,
    /// Latest instant of delivery; [`Time::MAX`] if no segment waits.
    pub(crate) until: Time,
    /// The first segment, with the payload of all.
    pub(crate) segment: Segment,
    /// Payload of the first segment, which the others may not exceed.
    pub(crate) unit: u16,
    /// Congestion mark, the same on all.
    pub(crate) marked: bool,
}

impl Aggregate {
    pub(crate) fn new(delay: Time) -> Self {
        Self { delay, until: Time::MAX, segment: Segment::EMPTY, unit: 0, marked: false }
    }

    /// Whether `next` continues the aggregate: the next sequence number, and otherwise the same header.
    pub(crate) fn is_continued_by(&self, next: &Segment, marked: bool) -> bool {
        let held = &self.segment;
        self.until < Time::MAX
            && next.seq == held.seq.wrapping_add(u32::from(held.len))
            && (next.ack, next.window, next.tsval, next.tsecr) == (held.ack, held.window, held.tsval, held.tsecr)
            && next.flags.0 | Flags::PSH == held.flags.0 | Flags::PSH
            && next.sack_count == 0
            && (1..=self.unit).contains(&next.len)
            && held.len.checked_add(next.len).is_some()
            && marked == self.marked
    }

    /// Whether the aggregate is complete: no further segment can join it.
    pub(crate) fn is_closed(&self, last: &Segment) -> bool {
        last.len < self.unit || last.flags.has(Flags::PSH) || self.segment.len.checked_add(self.unit).is_none()
    }
}
