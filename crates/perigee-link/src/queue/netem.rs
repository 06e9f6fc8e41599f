//! The limit of Linux's netem.

use std::collections::VecDeque;

use perigee_units::Time;

/// The packets that netem holds: one until its delay is over, not until its service ends.
pub(super) struct Netem {
    most: usize,
    /// When each packet is delivered, in order.
    until: VecDeque<Time>,
}

impl Netem {
    pub(super) fn new(packets: u32) -> Self {
        Self { most: packets as usize, until: VecDeque::new() }
    }

    /// Holds a packet until it is delivered.
    pub(super) fn hold(&mut self, until: Time) {
        self.until.push_back(until);
    }

    /// Whether it holds as many packets as it may at `now`.
    pub(super) fn is_full(&mut self, now: Time) -> bool {
        while self.until.front().is_some_and(|until| *until <= now) {
            self.until.pop_front();
        }
        self.until.len() >= self.most
    }
}
