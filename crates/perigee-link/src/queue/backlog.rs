//! The packets that a link has accepted and that have not left.

use std::collections::VecDeque;

use perigee_units::Time;

/// Packets that were accepted and have not left yet: those in service or with a departure fixed, as its instant, and those
/// that a discipline keeps, as their number.
#[derive(Default)]
pub(crate) struct Backlog {
    departures: VecDeque<(Time, u32)>,
    waiting: usize,
    /// Of both.
    bytes: u64,
    last: Time,
}

impl Backlog {
    /// Forgets what has left by `now`.
    #[inline]
    pub(crate) fn release(&mut self, now: Time) {
        while let Some((departure, size)) = self.departures.front() {
            if *departure > now {
                break;
            }
            self.bytes -= u64::from(*size);
            self.departures.pop_front();
        }
    }

    /// Adds a packet that goes into service, or in line for it, at `now`; one that leaves at once never waits.
    #[inline]
    pub(crate) fn push(&mut self, now: Time, departure: Time, size: u32) {
        self.last = departure;
        if departure > now {
            self.bytes += u64::from(size);
            self.departures.push_back((departure, size));
        }
    }

    /// Adds a packet that a discipline keeps.
    pub(crate) fn keep(&mut self, size: u32) {
        self.bytes += u64::from(size);
        self.waiting += 1;
    }

    /// Takes away a packet that the discipline has given out or dropped.
    pub(crate) fn take(&mut self, size: u32) {
        self.bytes -= u64::from(size);
        self.waiting -= 1;
    }

    /// Packets that a discipline keeps.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of all of them, with the link's overhead.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of them.
    #[inline]
    pub(super) fn packets(&self) -> usize {
        self.departures.len() + self.waiting
    }

    /// When the last packet that got a departure leaves.
    #[inline]
    pub(super) fn last(&self) -> Time {
        self.last
    }
}
