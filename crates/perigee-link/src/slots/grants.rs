//! Bursts of a slotted link: the MAC grants the capacity in milliseconds of sending with gaps between them.

use std::ops::Range;

use perigee_units::{encode_struct, Positions, Rate, Time};

/// One burst per frame, at a uniform place within it, that carries the capacity of the frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grants {
    /// Length of a frame. Frames begin at the end of the outage; the end of a slot cuts its last one.
    pub every: Time,
    /// Length of a burst, at most that of a frame.
    pub burst: Time,
}

encode_struct!(Grants { every, burst });

/// The frames of a slotted link over time. The place of a burst depends on the number of its frame, the seed and the name.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    /// ns.
    every: u64,
    /// ns.
    burst: u64,
    /// Slot length, ns.
    period: u64,
    per_slot: u64,
    places: Positions,
}

/// A frame, ns since the start of its slot.
pub(super) struct Frame {
    pub(super) begin: u64,
    end: u64,
    pub(super) burst: Range<u64>,
}

impl Frames {
    pub(super) fn new(grants: Grants, period: u64, seed: u64, name: &str) -> Self {
        let every = grants.every.as_nanos().max(1);
        Self {
            every,
            burst: grants.burst.as_nanos().clamp(1, every),
            period,
            per_slot: period.div_ceil(every),
            places: Positions::new(seed, &format!("{name}/rate/grants")),
        }
    }

    /// The frame after `passed` ns of a slot that begins with an outage of `outage` ns, which is over.
    pub(super) fn at(&self, slot: u64, outage: u64, passed: u64) -> Frame {
        let number = (passed - outage) / self.every;
        let begin = outage + number * self.every;
        let end = (begin + self.every).min(self.period);
        let length = end - begin;
        // A frame that is cut has the same share of bursts.
        let burst = (u128::from(self.burst) * u128::from(length) / u128::from(self.every)).max(1) as u64;
        let from = begin + self.places.below(slot * self.per_slot + number, length - burst + 1);
        Frame { begin, end, burst: from..from + burst }
    }
}

impl Frame {
    /// End of the burst, or of the gap before or after it, after `passed` ns of the slot.
    pub(super) fn segment_end(&self, passed: u64) -> u64 {
        if passed < self.burst.start {
            self.burst.start
        } else if passed < self.burst.end {
            self.burst.end
        } else {
            self.end
        }
    }

    /// The rate at which the burst does the work of the frame.
    pub(super) fn concentrated(&self, rate: Rate) -> Rate {
        let work = u128::from(rate.as_bps()) * u128::from(self.end - self.begin);
        Rate::from_bps((work / u128::from(self.burst.end - self.burst.start)).min(u128::from(MOST_BPS)) as u64)
    }
}

/// Maximum rate of a burst, bit/s, below that of an unlimited link.
const MOST_BPS: u64 = 1 << 53;
