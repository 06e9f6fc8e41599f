//! The sender's present limit, and the time spent in each.

use perigee_units::Time;

/// The limit that ended the last output turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Limit {
    /// The handshake.
    #[default]
    Handshake,
    /// All data are acknowledged.
    Idle,
    /// All data are sent, and the congestion window has space.
    Application,
    /// The congestion window is full, the pacer holds a segment back, or a train waits to grow.
    Network,
    /// The peer's window is full.
    PeerWindow,
    /// All that the send buffer held is sent, and the application cannot write more.
    SendBuffer,
}

/// The limit in force, and the time spent under each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chronograph {
    pub(crate) limit: Limit,
    since: Time,
    /// The time spent in each [`Limit`], until `since`.
    elapsed: [Time; Limit::SendBuffer as usize + 1],
}

impl Chronograph {
    /// Another limit is in force from `now` on.
    #[inline(never)]
    pub(crate) fn switch(&mut self, limit: Limit, now: Time) {
        self.elapsed[self.limit as usize] = self.under(self.limit, now);
        (self.limit, self.since) = (limit, now);
    }

    /// Time spent under a limit until `now`.
    pub(crate) fn under(&self, limit: Limit, now: Time) -> Time {
        let running = if limit == self.limit { now.checked_sub(self.since).unwrap_or(Time::ZERO) } else { Time::ZERO };
        self.elapsed[limit as usize] + running
    }
}
