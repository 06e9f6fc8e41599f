//! Segments of payload that arrive within a short time and are taken as one, as Linux's GRO hands them up (`tcp_gro_receive`).

use perigee_units::Time;

use crate::segment::{Flags, Segment};

/// Segments that wait to be taken as one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    /// How long the first one waits.
    pub(crate) delay: Time,
    /// When they are taken at the latest; [`Time::MAX`]: there are none.
    pub(crate) until: Time,
    /// The first of them, with the payload of all.
    pub(crate) segment: Segment,
    /// Payload of the first: the others have no more.
    pub(crate) unit: u16,
    /// Whether the network has marked them all, or none.
    pub(crate) marked: bool,
}

impl Gathered {
    pub(crate) fn new(delay: Time) -> Self {
        Self { delay, until: Time::MAX, segment: Segment::EMPTY, unit: 0, marked: false }
    }

    /// Whether a segment goes on where those that wait end, with the same header otherwise.
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

    /// Whether no further one can join them.
    pub(crate) fn is_closed(&self, last: &Segment) -> bool {
        last.len < self.unit || last.flags.has(Flags::PSH) || self.segment.len.checked_add(self.unit).is_none()
    }
}
