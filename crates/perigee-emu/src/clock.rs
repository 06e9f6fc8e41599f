//! The machine's clock.

use perigee_units::Time;
use rustix::time::{clock_gettime, ClockId, Timespec};

/// Time since some instant in the past; it does not jump.
pub fn monotonic() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * NANOS + now.tv_nsec as u64)
}

/// Waits so long; less where a signal comes.
pub(crate) fn sleep(length: Time) {
    let _ = rustix::thread::nanosleep(&timespec(length));
}

pub(crate) fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: (time.as_nanos() / NANOS) as i64, tv_nsec: (time.as_nanos() % NANOS) as _ }
}

const NANOS: u64 = 1_000_000_000;
