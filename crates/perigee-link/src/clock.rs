//! The clock of a server: the instant up to which its work is done.

use perigee_units::Time;

use crate::steps::Cursor;

/// An instant up to which work is done, and the work of the started nanosecond that is still to do.
///
/// Work is counted in bit-ns/s: a packet of b bits is b x 1e9, and a rate of r bit/s does r per nanosecond.
///
/// Nearly all packets of a direction are of one size or of a few (data, acknowledgements and those with SACK blocks), and most begin
/// and end under the same rate; so the clock remembers the rate it last worked at, and what the sizes it saw last come to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Clock {
    pub(crate) at: Time,
    /// Below `rate`.
    pub(crate) rest: u64,
    pub(crate) cursor: Cursor,
    /// The rate in bit/s; 0 where there is no limit.
    pub(crate) rate: u64,
    /// The last size.
    last: Service,
    /// Sizes before it.
    others: [Service; OTHERS],
    /// It remembers no size.
    forgets: bool,
}

/// What a packet size comes to at a rate.
#[derive(Clone, Copy, Default)]
struct Service {
    size: u32,
    /// A packet whose service begins before this instant begins and ends under that rate.
    begins_before: Time,
    quotient: u64,
    remainder: u64,
    /// The rate less the remainder.
    short_of_rate: u64,
}

/// How long packets of a size take, and for how long that is so.
#[derive(Clone, Copy)]
pub(crate) struct KnownSize {
    /// Bytes on the link; 0 where the clock remembers no size.
    pub(crate) size: u32,
    /// What a packet takes at most.
    pub(crate) longest: Time,
    /// The service of a packet begins before this instant.
    pub(crate) begins_before: Time,
}

/// Where a clock stands when the last packet of a run leaves.
#[derive(Clone, Copy)]
pub(crate) struct RunEnd {
    pub(crate) at: Time,
    /// Work of the started nanosecond, bit-ns/s; below `rate`.
    pub(crate) rest: u64,
    /// bit/s.
    pub(crate) rate: u64,
}

impl Clock {
    /// Moves on by a packet of the last size, that ends under the same rate.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a link")]
    pub(crate) fn advance(&mut self) {
        // The rest and the remainder are both below the rate, so one subtraction replaces the division.
        let (rest, is_below) = self.rest.overflowing_sub(self.last.short_of_rate);
        self.rest = if is_below { rest.wrapping_add(self.rate) } else { rest };
        self.at = Time::from_nanos(self.at.as_nanos() + self.last.quotient + u64::from(!is_below));
    }

    /// [`Clock::advance`] from `begin` on, at which no rest is left.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a link")]
    pub(crate) fn begin(&mut self, begin: Time) {
        self.rest = self.last.remainder;
        self.at = Time::from_nanos(begin.as_nanos() + self.last.quotient);
    }

    /// Moves on by a packet of a size that is remembered, if it is one and ends under the same rate; whether it is.
    pub(crate) fn advance_by(&mut self, size: u32) -> bool {
        let is_known = self.recalls(size) && self.at < self.last.begins_before;
        if is_known {
            self.advance();
        }
        is_known
    }

    /// Makes a size that is remembered the last one; whether it is remembered.
    pub(crate) fn recalls(&mut self, size: u32) -> bool {
        if size == self.last.size {
            return true;
        }
        let other = self.others.iter_mut().find(|other| other.size == size);
        other.map(|other| std::mem::swap(&mut self.last, other)).is_some()
    }

    /// Remembers a size, which was worked off at a rate that holds `until` then.
    pub(crate) fn remember(&mut self, size: u32, until: Time) {
        let Some(quotient) = work(size).checked_div(self.rate).filter(|_| !self.forgets) else { return };
        let (remainder, begins_before) = (work(size) % self.rate, until - Time::from_nanos(quotient));
        let service = Service { size, begins_before, quotient, remainder, short_of_rate: self.rate - remainder };
        let before = std::mem::replace(&mut self.last, service);
        if before.size != size {
            self.others.rotate_right(1);
            self.others[0] = before;
        }
    }

    /// Divides for each packet, as a reference for the sizes that are remembered else.
    pub(crate) fn forget_sizes(&mut self) {
        self.forgets = true;
    }

    /// The last size.
    pub(crate) fn known_size(&self) -> KnownSize {
        let Service { size, begins_before, quotient, .. } = self.last;
        KnownSize { size, longest: Time::from_nanos(quotient + 1), begins_before }
    }

    /// Where it stands.
    pub(crate) fn run_end(&self) -> RunEnd {
        RunEnd { at: self.at, rest: self.rest, rate: self.rate }
    }
}

/// Sizes that are remembered beside the last one: acknowledgements may have any number of SACK blocks up to three.
const OTHERS: usize = 4;

/// Work of a packet, bit-ns/s; sizes over 2^31 bytes count as that.
#[inline]
pub(crate) fn work(size: u32) -> u64 {
    u64::from(size.min(1 << 31)) * 8_000_000_000
}
