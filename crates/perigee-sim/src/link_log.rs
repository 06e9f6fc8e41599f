//! What a link did in each interval, counted by its own arrivals.
//!
//! An interval is closed by the first arrival after its end (or the end of the run), so the log is the same whether
//! the link is asked at the instant of an arrival or ahead of it. An arrival at the end of an interval belongs to it.

use perigee_link::{Counters, Link};
use perigee_units::{Rate, Time};

use crate::packet::Payload;

/// The intervals of one link so far.
pub(crate) struct LinkLog {
    interval: Time,
    /// End of the interval under way.
    edge: Time,
    before: Counters,
    pub(crate) samples: Vec<LinkSample>,
}

/// One interval of a link.
pub(crate) struct LinkSample {
    pub(crate) end: Time,
    /// What happened in the interval.
    pub(crate) counts: Counters,
    /// Backlog at its end.
    pub(crate) queue_bytes: u64,
    /// Mean service rate.
    pub(crate) rate: Rate,
}

impl LinkLog {
    /// Intervals of this length, or none at all.
    pub(crate) fn new(interval: Option<Time>) -> Self {
        let interval = interval.filter(|length| *length > Time::ZERO).unwrap_or(Time::MAX);
        Self { interval, edge: interval, before: Counters::default(), samples: Vec::new() }
    }

    /// Closes the intervals that end before `now`; to be called before the link is offered a packet or polled then.
    #[inline]
    pub(crate) fn arrival(&mut self, now: Time, link: &mut Link<Payload>) {
        while now > self.edge {
            self.close(link);
        }
    }

    /// Closes the intervals that end at or before `end`.
    pub(crate) fn close_until(&mut self, end: Time, link: &mut Link<Payload>) {
        while end >= self.edge && self.edge < Time::MAX {
            self.close(link);
        }
    }

    #[cold]
    fn close(&mut self, link: &mut Link<Payload>) {
        let total = link.counters();
        let (queue_bytes, rate) = (link.queue_bytes(self.edge), link.mean_rate(self.edge - self.interval, self.edge));
        self.samples.push(LinkSample { end: self.edge, counts: difference(&total, &self.before), queue_bytes, rate });
        self.before = total;
        self.edge += self.interval;
    }
}

/// What has happened between two readings.
fn difference(now: &Counters, before: &Counters) -> Counters {
    let each = |now: [u64; 3], before: [u64; 3]| std::array::from_fn(|reason| now[reason] - before[reason]);
    Counters {
        offered_packets: now.offered_packets - before.offered_packets,
        offered_bytes: now.offered_bytes - before.offered_bytes,
        delivered_packets: now.delivered_packets - before.delivered_packets,
        delivered_bytes: now.delivered_bytes - before.delivered_bytes,
        dropped: each(now.dropped, before.dropped),
        dropped_bytes: each(now.dropped_bytes, before.dropped_bytes),
    }
}
