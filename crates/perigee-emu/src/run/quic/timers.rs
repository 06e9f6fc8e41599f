//! When a flow is to be woken, and why.

use std::collections::{BTreeMap, BTreeSet};

use perigee_sim::quic::Wake;
use perigee_units::Time;

#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeMap<Wake, Time>,
    order: BTreeSet<(Time, Wake)>,
}

impl Timers {
    /// Sets when this is due, in place of the time before; [`Time::MAX`]: never.
    pub(crate) fn set(&mut self, what: Wake, at: Time) {
        let before = if at == Time::MAX { self.due.remove(&what) } else { self.due.insert(what, at) };
        if let Some(before) = before {
            self.order.remove(&(before, what));
        }
        if at < Time::MAX {
            self.order.insert((at, what));
        }
    }

    /// When the next one is due; [`Time::MAX`] without any.
    pub(crate) fn next(&self) -> Time {
        self.order.first().map_or(Time::MAX, |(at, _)| *at)
    }

    /// Takes the first one that is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Wake> {
        let (at, what) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.set(what, Time::MAX);
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order_each_at_the_time_that_was_set_last() {
        let (ms, mut timers) = (Time::from_millis, Timers::default());
        timers.set(Wake::Wait(1), ms(5));
        timers.set(Wake::Instant, ms(3));
        timers.set(Wake::Wait(1), ms(2));
        timers.set(Wake::Wait(2), ms(1));
        timers.set(Wake::Wait(2), Time::MAX);
        assert_eq!((timers.next(), timers.take_due(ms(1))), (ms(2), None));
        let taken: Vec<_> = std::iter::from_fn(|| timers.take_due(ms(9))).collect();
        assert_eq!((taken, timers.next()), (vec![Wake::Wait(1), Wake::Instant], Time::MAX));
    }
}
