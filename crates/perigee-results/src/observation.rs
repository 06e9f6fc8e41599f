//! Measures a flow that another program observed, from its counts per interval: iperf3's own.
//!
//! Payload and retransmissions are spread evenly over their interval, so that phases, bins and milestones are those of every
//! engine, as exact as the intervals are short. Columns that the program does not report stay empty.

use perigee_units::Time;

use crate::meter::{FlowId, Meter, SenderCounts, SenderState};
use crate::{Amount, FlowRow, Measure, SeriesRow, Tables};

/// The observation of one flow. Times count from the flow's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// When it began, in the run's time.
    pub start: Time,
    /// How long it took.
    pub duration: Time,
    /// Its extent; `None` if unknown, so that the flow has no steady phase.
    pub amount: Option<Amount>,
    /// Payload that had arrived by an instant, in ascending order. The last is the total.
    pub arrivals: Vec<(Time, u64)>,
    /// The reports of its sender at the ends of intervals, in order.
    pub samples: Vec<SenderSample>,
    /// Payload of a full packet; `None` if packets are not counted.
    pub segment: Option<u64>,
    /// Packets sent, if they were counted.
    pub sent_packets: Option<u64>,
    /// Retransmissions of the whole flow.
    pub retransmitted_packets: Option<u64>,
}

/// The report of a sender at the end of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderSample {
    /// The end of the interval.
    pub at: Time,
    /// Retransmissions since the flow began.
    pub retransmitted: Option<u64>,
    /// Congestion window.
    pub cwnd_packets: Option<u32>,
    /// Smoothed round trip.
    pub srtt: Option<Time>,
}

/// Adds the rows of an observed flow to the tables; `row` has its description, and keeps columns that are not measured here.
pub fn write_observation(mut row: FlowRow, observation: &Observation, measure: &Measure, tables: &mut Tables) {
    let start = observation.start;
    let mut replay = Replay {
        meter: Meter::new(start, measure, observation.amount),
        observation,
        counts_retransmissions: observation.samples.iter().any(|sample| sample.retransmitted.is_some()),
        end: start + observation.duration,
        tick: measure.series,
        next_tick: Time::MAX,
        next_sample: 0,
        state: SenderSample::default(),
    };
    replay.next_tick = replay.tick_after(start);
    while let Some(series) = replay.step(FlowId::of(&row)) {
        tables.series.push(series);
    }
    let (sent, meter) = (replay.sent_by(observation.duration), replay.meter);
    meter.fill(&mut row, replay.end, sent);
    // The packets in flight at the end of startup have not arrived, so arrivals do not count them.
    row.startup_sent_packets = None;
    row.retransmitted_packets = observation.retransmitted_packets;
    let full = observation.segment.zip(observation.retransmitted_packets);
    let counted = full.map(|(segment, again)| meter.received().div_ceil(segment.max(1)) + again);
    row.sent_packets = observation.sent_packets.or(counted);
    meter.write_flow(row, tables);
}

impl Observation {
    /// Payload that had arrived at a time after the start.
    fn arrived_by(&self, at: Time) -> u64 {
        let next = self.arrivals.partition_point(|(end, _)| *end <= at);
        let before = next.checked_sub(1).map_or((Time::ZERO, 0), |last| self.arrivals[last]);
        evenly(before, self.arrivals.get(next).copied(), at)
    }

    /// Full packets and retransmissions at a time after the start.
    fn sent_by(&self, at: Time) -> SenderCounts {
        let count = |sample: &SenderSample| (sample.at, sample.retransmitted.unwrap_or_default());
        let next = self.samples.partition_point(|sample| sample.at <= at);
        let before = next.checked_sub(1).map_or((Time::ZERO, 0), |last| count(&self.samples[last]));
        let retransmitted = evenly(before, self.samples.get(next).map(count), at);
        let packets = self.segment.map(|segment| self.arrived_by(at).div_ceil(segment.max(1)) + retransmitted);
        SenderCounts { packets, retransmitted: Some(retransmitted) }
    }

    /// When `size` bytes had arrived; `None` if they never did.
    fn time_of(&self, size: u64) -> Option<Time> {
        let next = self.arrivals.partition_point(|(_, arrived)| *arrived < size);
        let (end, arrived) = *self.arrivals.get(next)?;
        let before = next.checked_sub(1).map_or((Time::ZERO, 0), |last| self.arrivals[last]);
        let part = u128::from((end - before.0).as_nanos()) * u128::from(size - before.1);
        Some(before.0 + Time::from_nanos(part.div_ceil(u128::from(arrived - before.1).max(1)) as u64))
    }
}

/// A count interpolated between two others.
fn evenly(before: (Time, u64), after: Option<(Time, u64)>, at: Time) -> u64 {
    let Some(after) = after.filter(|after| after.0 > before.0) else { return before.1 };
    let part = u128::from(after.1.saturating_sub(before.1)) * u128::from((at - before.0).as_nanos());
    before.1 + (part / u128::from((after.0 - before.0).as_nanos())) as u64
}

/// Replays an observation into a meter, in the order of time.
struct Replay<'a> {
    meter: Meter,
    observation: &'a Observation,
    /// Whether its sender reported retransmissions over time.
    counts_retransmissions: bool,
    end: Time,
    tick: Option<Time>,
    next_tick: Time,
    next_sample: usize,
    state: SenderSample,
}

impl Replay<'_> {
    /// Advances to the end of the next row of the series; `None` at the end.
    fn step(&mut self, id: FlowId<'_>) -> Option<SeriesRow> {
        while self.meter.end().is_none() {
            let (start, sample) = (self.meter.start(), self.sample());
            let marked = self.observation.time_of(self.meter.next_size()).map_or(Time::MAX, |at| start + at);
            let instants = [self.meter.next_instant(), self.meter.bin_end(), marked, self.next_tick, self.end];
            let now = instants.into_iter().chain(sample.map(|(at, _)| at)).min().unwrap_or(self.end).min(self.end);
            if let Some((_, state)) = sample.filter(|(at, _)| *at <= now) {
                self.next_sample += 1;
                self.state = state;
                if let Some(round_trip) = state.srtt {
                    self.meter.round_trip(round_trip);
                }
                continue;
            }
            self.arrive(now, marked);
            if now == self.end {
                self.meter.finish(now);
            }
            if now == self.end || now == self.next_tick {
                self.next_tick = self.tick_after(now);
                if self.tick.is_some() {
                    return self.row(now, id);
                }
            }
        }
        None
    }

    /// Counts arrivals up to `now`, or just before: an arrival at the end of a bin belongs to the bin.
    fn arrive(&mut self, now: Time, marked: Time) {
        let (observation, start) = (self.observation, self.meter.start());
        let arrived = observation.arrived_by(now - start);
        self.meter.deliver(now.checked_sub(Time::from_nanos(1)).unwrap_or(start).max(start), arrived, arrived);
        if now == self.meter.bin_end() {
            self.meter.deliver(now, arrived, arrived);
        }
        if now == marked || now >= self.meter.next_instant() {
            let sent = self.sent_by(now - start);
            self.meter.record_progress(now, sent);
        }
    }

    /// The next sample and its instant; a slightly late one belongs to the row that ended.
    fn sample(&self) -> Option<(Time, SenderSample)> {
        let sample = self.observation.samples.get(self.next_sample)?;
        let at = self.meter.start() + sample.at;
        let late = self.tick.map_or(Time::ZERO, |tick| Time::from_nanos(tick.as_nanos() / LATE));
        let at = if at > self.next_tick && at <= self.next_tick + late { self.next_tick } else { at };
        Some((at.min(self.end), *sample))
    }

    /// The packets sent at a time after the start; unknown if retransmissions are not reported.
    fn sent_by(&self, at: Time) -> SenderCounts {
        if self.counts_retransmissions {
            self.observation.sent_by(at)
        } else {
            SenderCounts::default()
        }
    }

    fn tick_after(&self, now: Time) -> Time {
        let Some(tick) = self.tick.filter(|tick| *tick > Time::ZERO) else { return Time::MAX };
        tick * (now.as_nanos() / tick.as_nanos() + 1)
    }

    fn row(&mut self, now: Time, id: FlowId<'_>) -> Option<SeriesRow> {
        let by = now - self.meter.start();
        let state = SenderState {
            acked_bytes: self.observation.arrived_by(by),
            cwnd_packets: self.state.cwnd_packets,
            srtt_ms: self.state.srtt.map(Time::as_millis_f64),
            ..SenderState::default()
        };
        let sent = self.sent_by(by);
        let mut row = self.meter.series_row(now, id, sent, state)?;
        row.sent_packets = None;
        row.retransmitted_packets = self.state.retransmitted.and(row.retransmitted_packets);
        Some(row)
    }
}

/// A sample belongs to the row before it if it is late by at most this part of an interval.
const LATE: u64 = 10;

#[cfg(test)]
mod tests;
