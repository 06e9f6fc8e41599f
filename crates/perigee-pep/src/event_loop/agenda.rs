//! The connections whose turn it is in an event loop, at once or at a given time.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::AsFd;

use perigee_units::Time;
use rustix::event::{epoll, Timespec};
use rustix::io::Errno;

use super::slab::Key;

/// Connections of an event loop that are due without an event.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    ready: VecDeque<Key>,
    timers: BTreeSet<(Time, Key)>,
}

impl Agenda {
    /// A connection has its turn in the next round; `is_queued` keeps it from having two.
    pub(crate) fn queue(&mut self, key: Key, is_queued: &mut bool) {
        if !std::mem::replace(is_queued, true) {
            self.ready.push_back(key);
        }
    }

    /// The number of connections in this round. Those queued meanwhile belong to the next.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes the next connection of this round.
    pub(crate) fn pop_ready(&mut self) -> Option<Key> {
        self.ready.pop_front()
    }

    /// A connection's timer, which was `before`, is now `after`.
    pub(crate) fn move_timer(&mut self, key: Key, before: Option<Time>, after: Option<Time>) {
        if before != after {
            before.map(|at| self.timers.remove(&(at, key)));
            after.map(|at| self.timers.insert((at, key)));
        }
    }

    /// Takes the first timer that is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Key> {
        self.timers.first().filter(|(at, _)| *at <= now)?;
        self.timers.pop_first().map(|(_, key)| key)
    }

    /// When the first timer is due.
    pub(crate) fn first_timer(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }
}

/// Waits for events, for at most `timeout`.
pub(crate) fn wait(epoll: impl AsFd, events: &mut Vec<epoll::Event>, timeout: Option<Time>) -> io::Result<()> {
    let timeout = timeout
        .map(|time| Timespec { tv_sec: (time.as_nanos() / NANOS) as i64, tv_nsec: (time.as_nanos() % NANOS) as _ });
    events.clear();
    match epoll::wait(epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

const NANOS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::slab::Slab;

    #[test]
    fn turns_come_once_a_round_and_timers_in_order() {
        let mut slab = Slab::default();
        let keys = [(); 2].map(|()| slab.insert(()));
        let mut agenda = Agenda::default();
        assert_eq!((agenda.ready(), agenda.first_timer()), (0, None));
        let mut is_queued = false;
        agenda.queue(keys[0], &mut is_queued);
        agenda.queue(keys[0], &mut is_queued);
        assert_eq!((agenda.ready(), agenda.pop_ready(), agenda.pop_ready()), (1, Some(keys[0]), None));
        agenda.move_timer(keys[0], None, Some(Time::from_millis(5)));
        agenda.move_timer(keys[1], None, Some(Time::from_millis(3)));
        agenda.move_timer(keys[0], Some(Time::from_millis(5)), Some(Time::from_millis(2)));
        assert_eq!(agenda.first_timer(), Some(Time::from_millis(2)));
        assert_eq!(agenda.pop_due(Time::from_millis(1)), None);
        let due: Vec<_> = std::iter::from_fn(|| agenda.pop_due(Time::from_millis(4))).collect();
        assert_eq!((due, agenda.first_timer()), (vec![keys[0], keys[1]], None));
    }
}
