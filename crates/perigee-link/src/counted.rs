//! Losses by a script that counts packets.

use perigee_units::{encode_enum, encode_struct, Bytes, Time};

/// An entry of a script: every `every`-th of the packets in a span is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedDrop {
    /// Where the entry holds.
    pub span: CountedSpan,
    /// The packets `every`, 2 `every` and so on of the span are lost, counted from 1.
    pub every: u64,
}

/// Packets in succession.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedSpan {
    /// Packets by number, counted from 1 in the order in which they leave.
    Numbers {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// Packets by the time at which they leave.
    Times {
        /// From this instant on.
        from: Time,
        /// Before this one.
        to: Time,
    },
}

encode_struct!(CountedDrop { span, every });
encode_enum!(CountedSpan { Numbers { first, last }, Times { from, to } });

/// The script at work.
pub(crate) struct Counted {
    /// Smallest packet that counts, bytes.
    least: u64,
    /// Packets so far.
    count: u64,
    entries: Vec<Entry>,
}

struct Entry {
    drop: CountedDrop,
    /// Packets of its span so far.
    inside: u64,
}

impl Counted {
    pub(crate) fn new(least: Bytes, drops: &[CountedDrop]) -> Self {
        let entries = drops.iter().map(|drop| Entry { drop: *drop, inside: 0 }).collect();
        Self { least: least.as_u64(), count: 0, entries }
    }

    /// Counts a packet of `size` bytes that leaves at `at`; returns whether it is lost.
    pub(crate) fn loses(&mut self, at: Time, size: u32) -> bool {
        if u64::from(size) < self.least {
            return false;
        }
        self.count += 1;
        let mut is_lost = false;
        for Entry { drop, inside } in &mut self.entries {
            let is_inside = match drop.span {
                CountedSpan::Numbers { first, last } => (first..=last).contains(&self.count),
                CountedSpan::Times { from, to } => from <= at && at < to,
            };
            *inside += u64::from(is_inside);
            is_lost |= is_inside && *inside % drop.every == 0;
        }
        is_lost
    }

    /// Until when packets neither are lost nor have to be counted, after one at `t`.
    pub(crate) fn idle_until(&self, t: Time) -> Time {
        let until = |entry: &Entry| match entry.drop.span {
            CountedSpan::Numbers { last, .. } if self.count >= last => Time::MAX,
            CountedSpan::Times { to, .. } if to <= t => Time::MAX,
            CountedSpan::Times { from, .. } if t < from => from,
            _ => Time::ZERO,
        };
        self.entries.iter().map(until).min().unwrap_or(Time::MAX)
    }
}
