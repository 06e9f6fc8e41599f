//! The wall clock, for records and deadlines.

#![allow(clippy::disallowed_methods, reason = "a loader acts on the machine, in the machine's time")]

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(crate) fn pause(length: Duration) {
    thread::sleep(length);
}

/// A deadline; `None` if it is beyond the range of the clock.
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(length: Duration) -> Self {
        Self(Instant::now().checked_add(length))
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.0.is_some_and(|instant| Instant::now() >= instant)
    }
}
