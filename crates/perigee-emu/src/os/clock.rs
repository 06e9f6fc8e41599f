//! The machine's clock.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perigee_units::Time;
use rustix::thread::set_current_timer_slack;
use rustix::time::{clock_gettime, ClockId, Timespec};

/// Monotonic time.
pub fn monotonic() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * NANOS + now.tv_nsec as u64)
}

/// The clock of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    /// The monotonic time at which the run's time is zero.
    pub(crate) origin: Time,
}

impl RunClock {
    /// The run's time.
    pub(crate) fn now(self) -> Time {
        monotonic() - self.origin
    }

    /// The run's time at an instant since 1970 of the recent past. Should this thread lose the core in between, it is too late, as if that
    /// instant had been noticed late.
    pub(crate) fn at(self, instant: Duration) -> Time {
        let ago = since_1970().saturating_sub(instant);
        self.now().checked_sub(Time::from_nanos(ago.as_nanos() as u64)).unwrap_or_default()
    }

    /// Sleeps until a time of the run; false if stopped before.
    pub(crate) fn sleep_until(self, instant: Time, stop: &AtomicBool) -> bool {
        sleep_until(self.origin + instant, stop)
    }
}

/// Sleeps until `until`, checking `stop` ten times a second; false if stopped before.
pub(crate) fn sleep_until(instant: Time, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let now = monotonic();
        if now >= instant {
            return true;
        }
        // A signal interrupts the sleep.
        let at = timespec(instant.min(now + Time::from_millis(100)));
        let _ = rustix::thread::clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &at);
    }
    false
}

/// Wall-clock time since 1970.
pub(crate) fn since_1970() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Sleeps for a time, or until a signal.
pub(crate) fn sleep(length: Time) {
    let _ = rustix::thread::nanosleep(&timespec(length));
}

pub(crate) fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: (time.as_nanos() / NANOS) as i64, tv_nsec: (time.as_nanos() % NANOS) as _ }
}

/// Asks the kernel for precise wake-ups and real-time priority of the calling thread; of two such threads, the higher
/// priority runs first. If either is refused, the thread is late.
pub(crate) fn wake_precisely(priority: i32) {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let priority = libc::sched_param { sched_priority: priority };
    // SAFETY: acts on the calling thread, and the parameter lives for the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority) };
}

const NANOS: u64 = 1_000_000_000;
