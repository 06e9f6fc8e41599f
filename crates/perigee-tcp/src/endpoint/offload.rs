//! Receive offload at the endpoint: aggregates arriving segments before they are processed.

use perigee_units::Time;

use super::{Endpoint, State};
use crate::aggregate::Aggregate;
use crate::segment::{Flags, Segment};

impl Endpoint {
    /// Aggregates an arriving segment, or processes it together with those that waited.
    #[inline(never)]
    pub(super) fn aggregate_segment(&mut self, segment: &Segment, marked: bool) {
        let now = self.sender.now;
        let Some(aggregate) = self.aggregate.as_deref_mut() else { return };
        if aggregate.is_continued_by(segment, marked) {
            aggregate.segment.len += segment.len;
            aggregate.segment.flags.0 |= segment.flags.0;
            if aggregate.is_closed(segment) {
                self.take_aggregate();
            }
            return;
        }
        self.take_aggregate();
        let waits = self.state == State::Established
            && segment.flags == Flags(Flags::ACK)
            && segment.len > 0
            && segment.sack_count == 0;
        match self.aggregate.as_deref_mut() {
            Some(aggregate) if waits => {
                let until = now + aggregate.delay;
                *aggregate = Aggregate { until, segment: *segment, unit: segment.len, marked, ..*aggregate };
            }
            _ => self.take(segment, marked, segment.len),
        }
    }

    /// Processes the aggregated segments.
    pub(super) fn take_aggregate(&mut self) {
        let Some(aggregate) = self.aggregate.as_deref_mut() else { return };
        if aggregate.until < Time::MAX {
            let Aggregate { segment, marked, unit, .. } = *aggregate;
            aggregate.until = Time::MAX;
            self.take(&segment, marked, unit);
        }
    }
}
