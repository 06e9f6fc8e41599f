//! The packets that a link has accepted and that have not left.

use std::collections::VecDeque;

use perigee_units::Time;

use crate::clock::{work, RunEnd};

/// Accepted packets that have not left yet: runs of packets with known departures, and the number of packets stored by a discipline.
///
/// Departed packets are removed on request: the counts are those of the last [`Backlog::release`], an upper bound until the next one. For
/// packets on the fast path, only their number is stored: they have one size and leave back to back, so the departure of the last one
/// determines which of them are still there.
#[derive(Default)]
pub(crate) struct Backlog {
    runs: VecDeque<Run>,
    /// Packets in these runs, and their bytes.
    packets: usize,
    bytes: u64,
    /// Packets stored by a discipline, and their bytes.
    waiting: usize,
    waiting_bytes: u64,
    last: Time,
}

/// Packets of one size that leave back to back at one rate.
#[derive(Clone, Copy)]
struct Run {
    end: RunEnd,
    size: u32,
    /// Packets not removed yet.
    packets: u64,
}

impl Run {
    /// Number of packets that leave after `now`, given that the last one does.
    fn after(&self, now: Time) -> u64 {
        if self.packets == 1 {
            return 1;
        }
        // Work up to the start of the next nanosecond, in which the departures after `now` begin.
        let past =
            u128::from((self.end.at - now).as_nanos() - 1) * u128::from(self.end.rate) + u128::from(self.end.rest);
        let others = past / u128::from(work(self.size));
        u64::try_from(others + 1).unwrap_or(u64::MAX).min(self.packets)
    }
}

impl Backlog {
    /// All packets with a known departure have left.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        (self.packets, self.bytes) = (0, 0);
    }

    /// Adds packets of `size` bytes that leave back to back, the last one at the end.
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

    /// Removes packets that left by `now`.
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

    /// Adds a packet with this departure; one that departs at once never waits.
    #[inline]
    pub(crate) fn push(&mut self, now: Time, departure: Time, size: u32) {
        self.last = departure;
        if departure > now {
            self.add(Run { end: RunEnd { at: departure, rest: 0, rate: 0 }, size, packets: 1 });
        }
    }

    /// Adds a packet stored by a discipline.
    pub(crate) fn keep(&mut self, size: u32) {
        self.waiting_bytes += u64::from(size);
        self.waiting += 1;
    }

    /// Removes a packet that the discipline served or dropped.
    pub(crate) fn take(&mut self, size: u32) {
        self.waiting_bytes -= u64::from(size);
        self.waiting -= 1;
    }

    /// Packets stored by a discipline.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of all packets, with the link's overhead.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.waiting_bytes
    }

    /// All packets.
    #[inline]
    pub(crate) fn packets(&self) -> usize {
        self.packets + self.waiting
    }

    /// Departure of the last packet with a known one.
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
        fn the_last_departure_determines_which_packets_of_a_run_remain(
            size in 1u32..10_000, rate in 1u64..20_000_000_000, rest in any::<u64>(), packets in 1u64..60,
            at in any::<prop::sample::Index>(),
        ) {
            // Cumulative work of the server at each departure, bit-ns/s; a packet leaves within a whole nanosecond.
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
