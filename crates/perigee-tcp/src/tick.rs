//! The tick of a host's kernel: clocks in jiffies, and the timer wheel of Linux 4.8 and later.

use perigee_units::Time;

/// The tick of a host, or exact clocks and timers. Jiffies are counted from the begin of the run, at all hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tick {
    /// Its length; 0: exact.
    ns: u64,
}

impl Tick {
    pub(crate) fn new(length: Time) -> Self {
        Self { ns: length.as_nanos() }
    }

    #[inline(always)]
    pub(crate) fn is_exact(self) -> bool {
        self.ns == 0
    }

    /// Whole ticks before an instant, or in a span.
    #[inline(always)]
    pub(crate) fn floor(self, at: Time) -> Time {
        if self.is_exact() {
            return at;
        }
        Time::from_nanos(at.as_nanos() / self.ns * self.ns)
    }

    /// A span in whole ticks, rounded up (`usecs_to_jiffies`), us.
    #[inline(always)]
    pub(crate) fn whole_us(self, us: u64) -> u64 {
        if self.is_exact() {
            return us;
        }
        self.jiffies(us * 1000) * self.ns / 1000
    }

    /// Ticks of a span, rounded up. A tick that is no whole number of nanoseconds (300 Hz) is given a fraction short, and a remainder of at
    /// most a nanosecond for each tick is none.
    #[inline(always)]
    fn jiffies(self, span_ns: u64) -> u64 {
        let whole = span_ns / self.ns;
        whole + u64::from(span_ns % self.ns > whole)
    }

    /// The time between two instants by a clock that shows ticks.
    #[inline(always)]
    pub(crate) fn between(self, earlier: Time, later: Time) -> Time {
        self.floor(later) - self.floor(earlier)
    }

    /// When a timer fires that is set at `now`, and by an exact clock would fire at `at`. A timer is set for a number of jiffies, one at
    /// the least, and waits in a bucket of the wheel, which is as long as 8 of those of the level below: the further off it is,
    /// the later it may fire, and never early (`calc_wheel_index`).
    #[inline(always)]
    pub(crate) fn expiry(self, now: Time, at: Time) -> Time {
        if self.is_exact() {
            at
        } else {
            self.bucket_of(now, at)
        }
    }

    #[cold]
    fn bucket_of(self, now: Time, at: Time) -> Time {
        if at == Time::MAX {
            return at;
        }
        let wait = self.jiffies(at.as_nanos().saturating_sub(now.as_nanos())).max(1);
        let shift = LEVEL_SHIFT * (wait / FIRST_LEVEL).checked_ilog(1 << LEVEL_SHIFT).map_or(0, |level| level + 1);
        let expires = now.as_nanos() / self.ns + wait;
        Time::from_nanos((((expires >> shift) + 1) << shift).saturating_mul(self.ns))
    }
}

/// Jiffies from which a timer waits on the second level of the wheel (`LVL_START(1)`).
const FIRST_LEVEL: u64 = 63;
/// Each level's buckets are 2^3 times as long as those of the level below (`LVL_CLK_SHIFT`).
const LEVEL_SHIFT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    #[test]
    fn timers_fire_at_the_buckets_of_the_wheel() {
        let tick = Tick::new(MS(4));
        // 40 ms are ten jiffies, and the eleventh is the first at which they have certainly passed.
        assert_eq!(tick.expiry(MS(0), MS(40)), MS(44));
        assert_eq!(tick.expiry(Time::from_micros(3_999), Time::from_micros(43_999)), MS(44));
        assert_eq!(tick.expiry(MS(4), MS(44)), MS(48));
        // A second is 250 jiffies, on the second level: multiples of 8.
        assert_eq!(tick.expiry(MS(0), MS(1000)), MS(1024));
        assert_eq!(tick.expiry(MS(20), MS(1020)), MS(1024));
        assert_eq!(tick.expiry(MS(24), MS(1024)), MS(1056));
        // 63 and 504 jiffies are the first of their levels.
        assert_eq!(tick.expiry(MS(0), MS(62 * 4)), MS(63 * 4));
        assert_eq!(tick.expiry(MS(0), MS(63 * 4)), MS(64 * 4));
        assert_eq!(tick.expiry(MS(0), MS(503 * 4)), MS(504 * 4));
        assert_eq!(tick.expiry(MS(0), MS(504 * 4)), MS(512 * 4));
    }

    #[test]
    fn a_timer_is_never_early_and_at_most_an_eighth_and_two_ticks_late() {
        for ms in [1, 4, 10] {
            let tick = Tick::new(MS(ms));
            for (phase, wait) in (0..500).map(|step| (step * 7_919, step * step * 13_577)) {
                let (now, at) = (Time::from_micros(phase), Time::from_micros(phase + wait));
                let fires = tick.expiry(now, at);
                let late = fires - at;
                assert!(
                    fires >= at && late <= Time::from_micros(wait / 7) + MS(2 * ms),
                    "{ms} ms: {now:?}, {at:?}: {late:?}"
                );
            }
        }
    }

    #[test]
    fn of_300_hz_a_fifth_of_a_second_is_60_ticks() {
        let tick = Tick::new(Time::from_nanos(3_333_333));
        assert_eq!(tick.whole_us(200_000), 60 * 3_333_333 / 1000);
        assert_eq!(tick.whole_us(200_001), 61 * 3_333_333 / 1000);
        assert_eq!(tick.expiry(MS(0), MS(40)), Time::from_nanos(13 * 3_333_333));
    }

    #[test]
    fn without_a_tick_all_is_exact() {
        let (exact, now, at) = (Tick::default(), Time::from_nanos(12_345), Time::from_nanos(67_891));
        assert_eq!((exact.expiry(now, at), exact.floor(at), exact.whole_us(3)), (at, at, 3));
        assert_eq!(exact.between(now, at), at - now);
    }

    #[test]
    fn spans_are_whole_ticks_rounded_up_and_clocks_rounded_down() {
        let tick = Tick::new(MS(10));
        assert_eq!((tick.whole_us(1), tick.whole_us(10_000), tick.whole_us(10_001)), (10_000, 10_000, 20_000));
        assert_eq!((tick.floor(MS(19)), tick.between(MS(9), MS(10))), (MS(10), MS(10)));
    }
}
