//! Logs a link per interval, by the link's own instants.
//!
//! The first use of the link after the end of an interval (or the end of the run) closes it, so the log is the same whether
//! the driver offers packets at their arrival or ahead of time. An event at the end of an interval belongs to it.

use perigee_units::{Rate, Time};

use crate::{LinkRow, Name, Tables};

/// The intervals of one link so far.
pub struct LinkLog {
    link: Name,
    interval: Time,
    /// End of the current interval.
    edge: Time,
    before: LinkCounters,
    samples: Vec<LinkSample>,
}

/// Counters of a link since the run began; sizes are those of the IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets offered.
    pub offered_packets: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Packets delivered or in flight.
    pub delivered_packets: u64,
    /// Bytes delivered or in flight.
    pub delivered_bytes: u64,
    /// Packets dropped by a full queue.
    pub dropped_queue_full_packets: u64,
    /// Packets dropped by the active queue management.
    pub dropped_aqm_packets: u64,
    /// Packets lost on the air.
    pub lost_packets: u64,
}

/// The state of a link at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkReading {
    /// Counters since the run began.
    pub counters: LinkCounters,
    /// Backlog at the end of the interval, the packet in service included.
    pub queue_bytes: u64,
    /// Service rate, mean over the interval.
    pub rate: Rate,
}

/// One interval of a link.
struct LinkSample {
    end: Time,
    /// The packets of the interval.
    counts: LinkCounters,
    queue_bytes: u64,
    rate: Rate,
}

impl LinkLog {
    /// The log of a link and direction, in intervals of this length; `None`: without intervals.
    pub fn new(link: Name, interval: Option<Time>) -> Self {
        let interval = interval.filter(|length| *length > Time::ZERO).unwrap_or(Time::MAX);
        Self { link, interval, edge: interval, before: LinkCounters::default(), samples: Vec::new() }
    }

    /// The name of the link, with its direction.
    pub fn link(&self) -> &Name {
        &self.link
    }

    /// The instant before which [`LinkLog::advance`] has nothing to close.
    pub fn quiet_until(&self) -> Time {
        self.edge + Time::from_nanos(1)
    }

    /// Closes the intervals that end before `now`; called before the link is offered a packet or polled then. `read`
    /// reads the link at the end of an interval, given its beginning and its end.
    #[inline]
    pub fn advance(&mut self, now: Time, mut read: impl FnMut(Time, Time) -> LinkReading) {
        while now > self.edge {
            self.close(&mut read);
        }
    }

    /// Closes the intervals that end at or before `end`, the end of the log: a link that was used ahead of time may have closed
    /// later ones. `read` as in [`LinkLog::advance`].
    pub fn close_until(&mut self, end: Time, mut read: impl FnMut(Time, Time) -> LinkReading) {
        while end >= self.edge && self.edge < Time::MAX {
            self.close(&mut read);
        }
        self.samples.retain(|sample| sample.end <= end);
    }

    /// The rows of the closed intervals that end after `after` and at or before `until`.
    pub fn rows(&self, run: u32, after: Time, until: Time) -> impl Iterator<Item = LinkRow> {
        let first = self.samples.partition_point(|sample| sample.end <= after);
        let samples = self.samples[first..].iter().take_while(move |sample| sample.end <= until);
        samples.map(move |sample| link_row(run, self.link.clone(), sample))
    }

    #[cold]
    fn close(&mut self, read: &mut impl FnMut(Time, Time) -> LinkReading) {
        let LinkReading { counters, queue_bytes, rate } = read(self.edge - self.interval, self.edge);
        self.samples.push(LinkSample { end: self.edge, counts: counters.since(&self.before), queue_bytes, rate });
        self.before = counters;
        self.edge += self.interval;
    }
}

impl LinkCounters {
    /// The counts since an earlier reading.
    fn since(&self, before: &Self) -> Self {
        Self {
            offered_packets: self.offered_packets - before.offered_packets,
            offered_bytes: self.offered_bytes - before.offered_bytes,
            delivered_packets: self.delivered_packets - before.delivered_packets,
            delivered_bytes: self.delivered_bytes - before.delivered_bytes,
            dropped_queue_full_packets: self.dropped_queue_full_packets - before.dropped_queue_full_packets,
            dropped_aqm_packets: self.dropped_aqm_packets - before.dropped_aqm_packets,
            lost_packets: self.lost_packets - before.lost_packets,
        }
    }

    /// Packets dropped or lost, by the names of the reasons in results.
    fn dropped(&self) -> [(&'static str, u64); 3] {
        [
            ("queue_full", self.dropped_queue_full_packets),
            ("aqm", self.dropped_aqm_packets),
            ("loss", self.lost_packets),
        ]
    }
}

/// Writes the intervals of links in the order of time, then of links.
pub fn write_links(run: u32, logs: &[LinkLog], tables: &mut Tables) {
    let intervals = logs.iter().map(|log| log.samples.len()).max().unwrap_or(0);
    for interval in 0..intervals {
        for log in logs {
            let Some(sample) = log.samples.get(interval) else { continue };
            tables.links.push(link_row(run, log.link.clone(), sample));
        }
    }
}

fn link_row(run: u32, link: Name, sample: &LinkSample) -> LinkRow {
    let counts = &sample.counts;
    let dropped = counts.dropped();
    // Reversed, since `max_by_key` takes the last of equals and the first is wanted.
    let most = dropped.into_iter().rev().max_by_key(|(_, packets)| *packets).filter(|(_, packets)| *packets > 0);
    LinkRow {
        run,
        link,
        t_s: sample.end.as_secs_f64(),
        offered_packets: counts.offered_packets,
        offered_bytes: counts.offered_bytes,
        delivered_packets: counts.delivered_packets,
        delivered_bytes: counts.delivered_bytes,
        dropped_packets: dropped.iter().map(|(_, packets)| packets).sum(),
        drop_reason: most.map_or("", |(reason, _)| reason).into(),
        dropped_queue_full_packets: counts.dropped_queue_full_packets,
        dropped_aqm_packets: counts.dropped_aqm_packets,
        lost_packets: counts.lost_packets,
        queue_bytes: sample.queue_bytes,
        rate_mbps: sample.rate.as_mbps(),
    }
}
