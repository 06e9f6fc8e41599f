//! The clock of a server: the instant at which its work is done.

use perigee_units::Time;

use crate::steps::Cursor;

/// The instant at which the work is done, and the remaining work of the started nanosecond.
///
/// Work is measured in bit-ns/s: a packet of b bits is b x 1e9, and a rate of r bit/s does r per nanosecond.
///
/// Most packets of a direction have the size of the one before them, and begin and end at the same rate. The clock therefore caches the
/// rate and the service time of the latest size.
#[derive(Clone, Copy, Default)]
pub(crate) struct Clock {
    pub(crate) at: Time,
    /// Remaining work, below `rate`.
    pub(crate) rest: u64,
    pub(crate) cursor: Cursor,
    /// The rate in bit/s; 0 if unlimited.
    pub(crate) rate: u64,
    /// How long that rate holds.
    pub(crate) rate_until: Time,
    last: Service,
    /// Caching is disabled.
    forgets: bool,
}

/// The cached service of a packet size at a rate.
#[derive(Clone, Copy, Default)]
struct Service {
    size: u32,
    /// A packet whose service begins before this instant also ends at that rate.
    begins_before: Time,
    quotient: u64,
    remainder: u64,
    /// `rate` minus the remainder.
    short_of_rate: u64,
}

/// Service time of a packet size, and how long it is valid.
#[derive(Clone, Copy)]
pub(crate) struct KnownSize {
    /// Bytes on the link; 0 if nothing is cached.
    pub(crate) size: u32,
    /// Maximum service time.
    pub(crate) longest: Time,
    /// Valid for service that begins before this instant.
    pub(crate) begins_before: Time,
}

/// State of the clock when the last packet of a run leaves.
#[derive(Clone, Copy)]
pub(crate) struct RunEnd {
    pub(crate) at: Time,
    /// Remaining work of the started nanosecond, bit-ns/s; below `rate`.
    pub(crate) rest: u64,
    /// bit/s.
    pub(crate) rate: u64,
}

impl Clock {
    /// Advances by a packet of the latest size that ends at the same rate.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        // Remaining work and remainder are both below the rate, so a subtraction replaces the division.
        let (rest, is_below) = self.rest.overflowing_sub(self.last.short_of_rate);
        self.rest = if is_below { rest.wrapping_add(self.rate) } else { rest };
        self.at = Time::from_nanos(self.at.as_nanos() + self.last.quotient + u64::from(!is_below));
    }

    /// [`Clock::advance`] of an idle server, from `begin` on.
    #[inline(always)]
    pub(crate) fn begin(&mut self, begin: Time) {
        self.rest = self.last.remainder;
        self.at = Time::from_nanos(begin.as_nanos() + self.last.quotient);
    }

    /// Advances by a packet if it has the latest size and ends at the same rate; returns whether it did.
    pub(crate) fn advance_by(&mut self, size: u32) -> bool {
        let is_known = size == self.last.size && self.at < self.last.begins_before;
        if is_known {
            self.advance();
        }
        is_known
    }

    /// Makes any size the latest one, at the current rate; returns false if that is unknown.
    pub(crate) fn turns_to(&mut self, size: u32) -> bool {
        if self.last.size != size {
            self.remember(size);
        }
        self.last.size == size
    }

    /// Caches the service of a size at the current rate.
    pub(crate) fn remember(&mut self, size: u32) {
        let Some(quotient) = work(size).checked_div(self.rate).filter(|_| !self.forgets) else { return };
        // A remainder that is carried may end it in the nanosecond after the quotient, which the rate must still cover.
        let (remainder, begins_before) = (work(size) % self.rate, self.rate_until - Time::from_nanos(quotient + 1));
        self.last = Service { size, begins_before, quotient, remainder, short_of_rate: self.rate - remainder };
    }

    /// Disables caching: each packet divides, as the reference.
    pub(crate) fn disable_cache(&mut self) {
        self.forgets = true;
    }

    pub(crate) fn known_size(&self) -> KnownSize {
        let Service { size, begins_before, quotient, .. } = self.last;
        KnownSize { size, longest: Time::from_nanos(quotient + 1), begins_before }
    }

    /// The state for a run that ends now.
    pub(crate) fn run_end(&self) -> RunEnd {
        RunEnd { at: self.at, rest: self.rest, rate: self.rate }
    }
}

/// Work of a packet, bit-ns/s; sizes above 2^31 bytes count as 2^31.
#[inline]
pub(crate) fn work(size: u32) -> u64 {
    u64::from(size.min(1 << 31)) * 8_000_000_000
}
