//! The machine's clock.

use std::time::Instant;

use perigee_units::Time;
use rustix::time::{clock_gettime, ClockId};

/// Monotonic time.
pub(crate) fn monotonic() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Seconds since 1970, UTC.
pub(crate) fn seconds_since_1970() -> u64 {
    clock_gettime(ClockId::Realtime).tv_sec.max(0) as u64
}

/// Returns the time of this clock, as QUIC takes it.
#[expect(clippy::disallowed_methods, reason = "the service runs in real time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
