//! The time of a capture: from its first packet on, never backwards.

use perigee_units::Time;

/// Converts times of packets into times since the first packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    first_ns: Option<u64>,
    last: Time,
    /// Added to what the clock says, for its jumps.
    shift_ns: i64,
    /// Jumps of the clock: backwards, or forwards by more than a month.
    pub(crate) jumps: u64,
    /// Packets that stand behind later ones: several interfaces in one file.
    pub(crate) disordered: u64,
}

impl Clock {
    /// The time of a packet; a packet of unknown time has that of the one before it.
    #[inline]
    pub(crate) fn time(&mut self, at_ns: Option<u64>) -> Time {
        let Some(at_ns) = at_ns else { return self.last };
        let first_ns = *self.first_ns.get_or_insert(at_ns);
        let since = i128::from(at_ns) - i128::from(first_ns) + i128::from(self.shift_ns);
        let ahead = since - i128::from(self.last.as_nanos());
        if !(0..=AHEAD_NS).contains(&ahead) {
            self.strange(ahead);
            return self.last;
        }
        self.last = Time::from_nanos(since as u64);
        self.last
    }

    /// The first packet's time, nanoseconds since 1970.
    pub(crate) fn first_ns(&self) -> u64 {
        self.first_ns.unwrap_or_default()
    }

    /// The last packet's time.
    pub(crate) fn last(&self) -> Time {
        self.last
    }

    #[cold]
    fn strange(&mut self, ahead: i128) {
        if (-BACK_NS..0).contains(&ahead) {
            self.disordered += 1;
            return;
        }
        self.jumps += 1;
        let ahead = ahead.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        self.shift_ns = self.shift_ns.saturating_sub(ahead);
    }
}

/// Largest disorder between the interfaces of one file; a larger step back is a jump of the clock.
const BACK_NS: i128 = 1_000_000_000;
/// A month without a packet: the clock was set.
const AHEAD_NS: i128 = 30 * 86_400 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_where_the_clock_was_set_back_or_far_ahead() {
        let mut clock = Clock::default();
        let second = 1_000_000_000;
        let base = 1_700_000_000 * second;
        let seen = [base, base + 5 * second, base - 3600 * second, base - 3598 * second, base + (40 << 40) * 1000];
        let times = seen.map(|at| clock.time(Some(at)).as_nanos() / second);
        assert_eq!(times, [0, 5, 5, 7, 7]);
        assert_eq!((clock.jumps, clock.disordered), (2, 0));
    }

    #[test]
    fn a_packet_that_stands_behind_a_later_one_has_its_time() {
        let mut clock = Clock::default();
        assert_eq!(
            [Some(5_000_000), Some(5_000_900), Some(5_000_100), None, Some(5_000_901)]
                .map(|at| clock.time(at).as_nanos()),
            [0, 900, 900, 900, 901]
        );
        assert_eq!((clock.jumps, clock.disordered), (0, 1));
    }
}
