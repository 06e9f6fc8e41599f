//! Virtual time in the stack's types.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use noq_proto::TimeSource;
use perigee_units::Time;

/// The stack's name of a virtual time.
pub(crate) fn instant(time: Time) -> Instant {
    epoch() + Duration::from_nanos(time.as_nanos())
}

/// The virtual time of an instant, which [`instant`] made.
pub(crate) fn time(instant: Instant) -> Time {
    Time::from_nanos(instant.saturating_duration_since(epoch()).as_nanos() as u64)
}

/// Virtual time of an interval.
pub(crate) fn span(duration: Duration) -> Time {
    Time::from_nanos(duration.as_nanos() as u64)
}

/// An interval of virtual time.
pub(crate) fn duration(time: Time) -> Duration {
    Duration::from_nanos(time.as_nanos())
}

/// An instant that stands for time 0. An `Instant` has no other constructor than `now`; only differences from this one are ever seen.
#[allow(clippy::disallowed_methods, reason = "an opaque origin: no result depends on which instant it is")]
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// The calendar of an endpoint, by which it dates tokens: virtual time since 1970.
#[derive(Debug, Default)]
pub(crate) struct Calendar(AtomicU64);

impl Calendar {
    pub(crate) fn set(&self, now: Time) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl TimeSource for Calendar {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}
