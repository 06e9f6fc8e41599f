//! Receive offload: what arrives passes by the segments that wait to be taken as one.

use perigee_units::Time;

use super::{Endpoint, State};
use crate::gathered::Gathered;
use crate::segment::{Flags, Segment};

impl Endpoint {
    /// Takes a segment that has arrived, or lets it wait for those that follow it.
    #[inline(never)]
    pub(super) fn gather(&mut self, segment: &Segment, marked: bool) {
        let now = self.sender.now;
        let Some(gathered) = self.gathered.as_deref_mut() else { return };
        if gathered.is_continued_by(segment, marked) {
            gathered.segment.len += segment.len;
            gathered.segment.flags.0 |= segment.flags.0;
            if gathered.is_closed(segment) {
                self.take_gathered();
            }
            return;
        }
        self.take_gathered();
        let waits = self.state == State::Established
            && segment.flags == Flags(Flags::ACK)
            && segment.len > 0
            && segment.sack_count == 0;
        match self.gathered.as_deref_mut() {
            Some(gathered) if waits => {
                let until = now + gathered.delay;
                *gathered = Gathered { until, segment: *segment, unit: segment.len, marked, ..*gathered };
            }
            _ => self.take(segment, marked, segment.len),
        }
    }

    /// Takes what waits.
    pub(super) fn take_gathered(&mut self) {
        let Some(gathered) = self.gathered.as_deref_mut() else { return };
        if gathered.until < Time::MAX {
            let Gathered { segment, marked, unit, .. } = *gathered;
            gathered.until = Time::MAX;
            self.take(&segment, marked, unit);
        }
    }
}
