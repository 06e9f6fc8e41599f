//! The packets that a link has accepted and that have not left.

use std::collections::VecDeque;

use perigee_units::Time;

use crate::clock::{work, RunEnd};

/// Packets that were accepted and have not left yet: those in service or with a departure fixed, as runs, and those that a
/// discipline keeps, as their number.
///
/// What has left is forgotten when somebody asks: the counts are those of the last [`Backlog::release`], and more than the
/// packets that are there until the next one. Of the packets that take the fast path only the number is kept: they have one
/// size, and each leaves as soon as the one before it has, so that the clock of the last one tells which of them are still there.
#[derive(Default)]
pub(crate) struct Backlog {
    runs: VecDeque<Run>,
    /// Packets of these runs, and their bytes.
    packets: usize,
    bytes: u64,
    /// Packets that a discipline keeps, and their bytes.
    waiting: usize,
    waiting_bytes: u64,
    last: Time,
}

/// Packets of one size that leave one behind the other at one rate.
#[derive(Clone, Copy)]
struct Run {
    end: RunEnd,
    size: u32,
    /// How many of them are there, as far as is known.
    packets: u64,
}

impl Run {
    /// How many of its packets leave after `now`, before which the last one does not.
    fn after(&self, now: Time) -> u64 {
        if self.packets == 1 {
            return 1;
        }
        // Up to the beginning of the next nanosecond, in which those that leave after `now` do.
        let past =
            u128::from((self.end.at - now).as_nanos() - 1) * u128::from(self.end.rate) + u128::from(self.end.rest);
        let others = past / u128::from(work(self.size));
        u64::try_from(others + 1).unwrap_or(u64::MAX).min(self.packets)
    }
}

impl Backlog {
    /// All packets with a departure have left.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        (self.packets, self.bytes) = (0, 0);
    }

    /// Adds packets of `size` bytes that leave one behind the other, the last one at the end.
    #[inline]
    pub(crate) fn add_run(&mut self, size: u32, packets: u64, end: RunEnd) {
        self.add(Run { end, size, packets });
    }

    #[inline]
    fn add(&mut self, run: Run) {
        self.packets += run.packets as usize;
        self.bytes += run.packets * u64::from(run.size);
        self.runs.push_back(run);
    }

    /// Forgets what has left by `now`.
    #[inline]
    pub(crate) fn release(&mut self, now: Time) {
        while let Some(run) = self.runs.front_mut() {
            let left = if run.end.at <= now { run.packets } else { run.packets - run.after(now) };
            run.packets -= left;
            self.packets -= left as usize;
            self.bytes -= left * u64::from(run.size);
            if run.packets > 0 {
                break;
            }
            self.runs.pop_front();
        }
    }

    /// Adds a packet that goes into service, or in line for it, at `now`; one that leaves at once never waits.
    #[inline]
    pub(crate) fn push(&mut self, now: Time, departure: Time, size: u32) {
        self.last = departure;
        if departure > now {
            self.add(Run { end: RunEnd { at: departure, rest: 0, rate: 0 }, size, packets: 1 });
        }
    }

    /// Adds a packet that a discipline keeps.
    pub(crate) fn keep(&mut self, size: u32) {
        self.waiting_bytes += u64::from(size);
        self.waiting += 1;
    }

    /// Takes away a packet that the discipline has given out or dropped.
    pub(crate) fn take(&mut self, size: u32) {
        self.waiting_bytes -= u64::from(size);
        self.waiting -= 1;
    }

    /// Packets that a discipline keeps.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of all of them, with the link's overhead.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.waiting_bytes
    }

    /// All of them.
    #[inline]
    pub(crate) fn packets(&self) -> usize {
        self.packets + self.waiting
    }

    /// When the last packet that got a departure leaves.
    #[inline]
    pub(super) fn last(&self) -> Time {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_clock_of_the_last_packet_tells_which_of_a_run_are_still_there(
            size in 1u32..10_000, rate in 1u64..20_000_000_000, rest in any::<u64>(), packets in 1u64..60, at in any::<prop::sample::Index>(),
        ) {
            // What a server has done of all packets, bit-ns/s, when each has left; a packet leaves within a whole nanosecond.
            let first = u128::from(rest % rate);
            let departures: Vec<u128> =
                (1..=packets).map(|n| (first + u128::from(work(size)) * u128::from(n)) / u128::from(rate)).collect();
            let rest = (first + u128::from(work(size)) * u128::from(packets)) % u128::from(rate);
            let end = |packets: u64| RunEnd {
                at: Time::from_nanos(departures[packets as usize - 1] as u64), rest: rest as u64, rate,
            };
            let last = departures[departures.len() - 1] as usize;
            let now = at.index(last + 2) as u64;
            let mut backlog = Backlog::default();
            backlog.add_run(size, packets, end(packets));
            backlog.release(Time::from_nanos(now));
            let there = departures.iter().filter(|at| **at > u128::from(now)).count();
            prop_assert_eq!((backlog.packets(), backlog.bytes()), (there, there as u64 * u64::from(size)));
        }
    }
}
