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

    /// Takes the first one, with the time at which it is due.
    pub(crate) fn take_first(&mut self) -> Option<(Time, Wake)> {
        let (at, what) = *self.order.first()?;
        self.set(what, Time::MAX);
        Some((at, what))
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
        assert_eq!(timers.next(), ms(2));
        let taken: Vec<_> = std::iter::from_fn(|| timers.take_first()).collect();
        assert_eq!((taken, timers.next()), (vec![(ms(2), Wake::Wait(1)), (ms(3), Wake::Instant)], Time::MAX));
    }
}
