//! The machine's clock.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perigee_units::Time;
use rustix::thread::set_current_timer_slack;
use rustix::time::{clock_gettime, ClockId, Timespec};

/// Time since some instant in the past; it does not jump.
pub fn monotonic() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * NANOS + now.tv_nsec as u64)
}

/// Waits until an instant; false: told to stop before, which is looked at ten times a second.
pub(crate) fn sleep_until(instant: Time, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let now = monotonic();
        if now >= instant {
            return true;
        }
        // A signal, too, ends it.
        let at = timespec(instant.min(now + Time::from_millis(100)));
        let _ = rustix::thread::clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &at);
    }
    false
}

/// Time of day, since 1970.
pub(crate) fn since_1970() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Waits so long; less where a signal comes.
pub(crate) fn sleep(length: Time) {
    let _ = rustix::thread::nanosleep(&timespec(length));
}

pub(crate) fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: (time.as_nanos() / NANOS) as i64, tv_nsec: (time.as_nanos() % NANOS) as _ }
}

/// Asks the kernel to wake the calling thread precisely, and before threads that compute; of two such threads, the one
/// of the higher priority first. Where either is refused, the thread is later.
pub(crate) fn wake_precisely(priority: i32) {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let priority = libc::sched_param { sched_priority: priority };
    // SAFETY: the calling thread, and a parameter that lives for the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority) };
}

const NANOS: u64 = 1_000_000_000;
