//! What a link did in each interval, counted by its own arrivals.
//!
//! An interval is closed by the first arrival after its end (or the end of the run), so the log is the same whether
//! the link is asked at the instant of an arrival or ahead of it. An arrival at the end of an interval belongs to it.

use perigee_link::{Counters, DropReason, Link};
use perigee_study::results::{LinkRow, Name, Tables};
use perigee_study::Scenario;
use perigee_units::{Rate, Time};

/// The intervals of one link so far.
pub struct LinkLog {
    interval: Time,
    /// End of the interval under way.
    edge: Time,
    before: Counters,
    samples: Vec<LinkSample>,
}

/// One interval of a link.
struct LinkSample {
    end: Time,
    /// What happened in the interval.
    counts: Counters,
    /// Backlog at its end.
    queue_bytes: u64,
    /// Mean service rate.
    rate: Rate,
}

impl LinkLog {
    /// Intervals of this length, or none at all.
    pub fn new(interval: Option<Time>) -> Self {
        let interval = interval.filter(|length| *length > Time::ZERO).unwrap_or(Time::MAX);
        Self { interval, edge: interval, before: Counters::default(), samples: Vec::new() }
    }

    /// Closes the intervals that end before `now`; to be called before the link is offered a packet or polled then.
    #[inline]
    pub fn arrival<T: Copy>(&mut self, now: Time, link: &mut Link<T>) {
        while now > self.edge {
            self.close(link);
        }
    }

    /// Closes the intervals that end at or before `end`.
    pub fn close_until<T: Copy>(&mut self, end: Time, link: &mut Link<T>) {
        while end >= self.edge && self.edge < Time::MAX {
            self.close(link);
        }
    }

    #[cold]
    fn close<T: Copy>(&mut self, link: &mut Link<T>) {
        let total = link.counters();
        let (queue_bytes, rate) = (link.queue_bytes(self.edge), link.mean_rate(self.edge - self.interval, self.edge));
        self.samples.push(LinkSample { end: self.edge, counts: difference(&total, &self.before), queue_bytes, rate });
        self.before = total;
        self.edge += self.interval;
    }
}

/// Writes the links' intervals in the order of time.
pub fn write_links(run: u32, scenario: &Scenario, logs: &[LinkLog], tables: &mut Tables) {
    let intervals = logs.iter().map(|log| log.samples.len()).max().unwrap_or(0);
    for interval in 0..intervals {
        for (link, log) in scenario.links.iter().zip(logs) {
            let Some(sample) = log.samples.get(interval) else { continue };
            tables.links.push(link_row(run, link.name.clone(), sample));
        }
    }
}

fn link_row(run: u32, link: Name, sample: &LinkSample) -> LinkRow {
    let counts = &sample.counts;
    // Of equals the first: `max_by_key` would take the last.
    let most = DropReason::ALL.into_iter().rev().max_by_key(|reason| counts.dropped_by(*reason));
    let most = most.filter(|reason| counts.dropped_by(*reason) > 0);
    LinkRow {
        run,
        link,
        t_s: sample.end.as_secs_f64(),
        offered_packets: counts.offered_packets,
        offered_bytes: counts.offered_bytes,
        delivered_packets: counts.delivered_packets,
        delivered_bytes: counts.delivered_bytes,
        dropped_packets: counts.dropped.iter().sum(),
        drop_reason: most.map_or("", DropReason::as_str).into(),
        dropped_queue_full_packets: counts.dropped_by(DropReason::QueueFull),
        dropped_aqm_packets: counts.dropped_by(DropReason::Aqm),
        lost_packets: counts.dropped_by(DropReason::Loss),
        queue_bytes: sample.queue_bytes,
        rate_mbps: sample.rate.as_mbps(),
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
