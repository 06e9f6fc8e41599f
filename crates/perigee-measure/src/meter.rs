//! What is measured of one flow: payload over time, phases, milestones, round trips.
//!
//! Rates over time (the series, and the bins whose percentiles a row has) count the payload that arrives, each byte
//! once, as a capture at the receiver shows it. What an application gets in order stands still behind a gap and then
//! leaps: that counts for phases, milestones and the end.
//!
//! Phases are spans of the run's time: startup from the flow's beginning until so many bytes are delivered (or so much
//! time has passed), steady from the instant where the last share of its bytes (or of its time) begins, to its end.
//! Whatever is measured in a span counts for it: bytes at the receiver, packets and round trips at the sender.

use perigee_study::results::{FlowRow, MilestoneRow, Name, Rtt, RttRow, SeriesRow};
use perigee_study::{Measure, Startup};
use perigee_units::{Bytes, Time};

use crate::histogram::Histogram;

/// The measurements of one flow.
pub struct Meter {
    start: Time,
    /// When it ended; known ahead where the last packet's fate is.
    end: Option<Time>,
    /// Payload delivered in order.
    received: u64,
    /// Payload arrived, each byte counted once.
    arrived: u64,
    /// The next count of delivered bytes at which something is to be noted.
    mark: u64,
    bin: Bin,
    startup: Option<Phase>,
    steady: Option<Phase>,
    /// Sizes still to be reached, the next one last.
    sizes: Vec<u64>,
    milestones: Vec<(u64, Time)>,
    /// Round trips by the phases they fell in: bit 0 startup, bit 1 steady.
    rtt: [Histogram; 4],
    phase_bits: usize,
    rtt_width: Time,
    has_rtt_table: bool,
    sample: Sample,
}

/// What the sender has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Data packets, retransmissions among them.
    pub packets: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
}

/// When a steady phase begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyBegin {
    /// When so many bytes are delivered.
    Bytes(u64),
    /// At this instant.
    Time(Time),
}

/// Arrived bytes in bins of equal length from the flow's beginning.
struct Bin {
    length: Time,
    end: Time,
    /// Arrived before the bin under way.
    before: u64,
    done: Vec<u64>,
}

/// A span of time and the counts at its ends.
struct Phase {
    /// Count of bytes at which its open end is; `u64::MAX` where an instant decides.
    bytes: u64,
    /// Instant at which its open end is; `Time::MAX` where a count decides.
    at: Time,
    /// The counts when its open end was passed.
    passed: Option<Passed>,
}

#[derive(Clone, Copy)]
struct Passed {
    at: Time,
    received: u64,
    sent: Sent,
}

/// What the last row of the series said.
struct Sample {
    at: Time,
    arrived: u64,
    sent: Sent,
    rtt_sum_ns: u64,
    rtt_count: u64,
}

/// What a row belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Of<'a> {
    /// Number of the run.
    pub run: u32,
    /// Name of the flow.
    pub flow: &'a Name,
}

/// The part of a series row that the transport knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Payload acknowledged since the flow began.
    pub acked_bytes: u64,
    /// Congestion window.
    pub cwnd_packets: Option<u32>,
    /// Slow start threshold; `None` while there is none.
    pub ssthresh_packets: Option<u32>,
    /// Smoothed round trip; `None` before a sample.
    pub srtt_ms: Option<f64>,
    /// Packets in flight as the sender counts them.
    pub inflight_packets: u32,
    /// Pacing rate; `None` where the sender does not pace.
    pub pacing_mbps: Option<f64>,
}

impl Meter {
    /// Of a flow that begins at `start`.
    pub fn new(start: Time, measure: &Measure, steady: Option<SteadyBegin>) -> Self {
        let startup = measure.startup.map(|end| match end {
            Startup::Bytes(bytes) => Phase::by_bytes(bytes.as_u64()),
            Startup::Time(length) => Phase::by_time(start + length),
        });
        let steady = steady.map(|begin| match begin {
            SteadyBegin::Bytes(bytes) => Phase::by_bytes(bytes),
            SteadyBegin::Time(at) => Phase::by_time(at),
        });
        let width = measure.rtt_bin.unwrap_or(DEFAULT_RTT_BIN);
        let mut meter = Self {
            start,
            end: None,
            received: 0,
            arrived: 0,
            mark: 0,
            bin: Bin { length: measure.goodput_bin, end: start + measure.goodput_bin, before: 0, done: Vec::new() },
            phase_bits: 0,
            startup,
            steady,
            sizes: measure.milestones.iter().rev().map(|size| size.as_u64()).collect(),
            milestones: Vec::new(),
            rtt: std::array::from_fn(|_| Histogram::new(width)),
            rtt_width: width,
            has_rtt_table: measure.rtt_bin.is_some(),
            sample: Sample { at: start, arrived: 0, sent: Sent::default(), rtt_sum_ns: 0, rtt_count: 0 },
        };
        meter.pass(start, Sent::default());
        meter
    }

    /// When the flow began.
    pub fn start(&self) -> Time {
        self.start
    }

    /// When the flow ended, as far as known.
    pub fn end(&self) -> Option<Time> {
        self.end
    }

    /// Payload delivered in order.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Payload arrived, each byte counted once.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The receiver has got `arrived` bytes so far, of them `received` in order. True where [`Meter::pass`] is to be
    /// called.
    #[inline]
    pub fn deliver(&mut self, now: Time, received: u64, arrived: u64) -> bool {
        if self.end.is_some() {
            return false;
        }
        if now >= self.bin.end {
            self.bin.close_until(now, self.arrived);
        }
        self.arrived = arrived;
        self.received = received;
        received >= self.mark
    }

    /// Notes what has been passed by `now`: milestones and ends of phases.
    #[cold]
    pub fn pass(&mut self, now: Time, sent: Sent) {
        if self.end.is_some() {
            return;
        }
        while let Some(size) = self.sizes.last().copied().filter(|size| *size <= self.received) {
            self.sizes.pop();
            self.milestones.push((size, now));
        }
        let here = Passed { at: now, received: self.received, sent };
        let mut bits = 0;
        self.mark = self.sizes.last().copied().unwrap_or(u64::MAX);
        for (phase, bit, while_passed) in [(&mut self.startup, STARTUP, false), (&mut self.steady, STEADY, true)] {
            let Some(phase) = phase else { continue };
            if phase.passed.is_none() && (self.received >= phase.bytes || now >= phase.at) {
                phase.passed = Some(here);
            }
            if phase.passed.is_some() == while_passed {
                bits |= bit;
            }
            if phase.passed.is_none() {
                self.mark = self.mark.min(phase.bytes);
            }
        }
        self.phase_bits = bits;
    }

    /// The next instant at which [`Meter::pass`] is to be called.
    pub fn next_instant(&self) -> Time {
        let open = |phase: &Option<Phase>| phase.as_ref().filter(|p| p.passed.is_none()).map_or(Time::MAX, |p| p.at);
        if self.end.is_some() {
            Time::MAX
        } else {
            open(&self.startup).min(open(&self.steady))
        }
    }

    /// The next count of delivered bytes at which [`Meter::pass`] is to be called; `u64::MAX` where there is none.
    pub fn next_size(&self) -> u64 {
        self.mark
    }

    /// When the bin under way ends; [`Time::MAX`] where there are no bins.
    pub fn bin_end(&self) -> Time {
        if self.bin.length > Time::ZERO {
            self.bin.end
        } else {
            Time::MAX
        }
    }

    /// The sender has measured a round trip.
    #[inline]
    pub fn round_trip(&mut self, rtt: Time) {
        if self.end.is_none() {
            self.rtt[self.phase_bits].add(rtt);
            self.sample.rtt_sum_ns += rtt.as_nanos();
            self.sample.rtt_count += 1;
        }
    }

    /// The flow ends at `end`.
    pub fn finish(&mut self, end: Time) {
        self.bin.close_until(end, self.arrived);
        self.end = Some(end);
    }

    /// The row of the series that ends at `now`; `None` where nothing is new since the flow's end.
    pub fn series_row(&mut self, now: Time, of: Of<'_>, sent: Sent, state: State) -> Option<SeriesRow> {
        let now = self.end.map_or(now, |end| end.min(now));
        let length = now.checked_sub(self.sample.at).filter(|length| *length > Time::ZERO)?;
        let before = &self.sample;
        let row = SeriesRow {
            run: of.run,
            flow: of.flow.clone(),
            t_s: now.as_secs_f64(),
            goodput_mbps: mbps(self.arrived - before.arrived, length),
            acked_bytes: state.acked_bytes,
            cwnd_packets: state.cwnd_packets,
            ssthresh_packets: state.ssthresh_packets,
            srtt_ms: state.srtt_ms,
            rtt_mean_ms: (before.rtt_count > 0).then(|| before.rtt_sum_ns as f64 / before.rtt_count as f64 / 1e6),
            inflight_packets: Some(state.inflight_packets),
            sent_packets: Some(sent.packets - before.sent.packets),
            retransmitted_packets: Some(sent.retransmitted - before.sent.retransmitted),
            pacing_mbps: state.pacing_mbps,
        };
        self.sample = Sample { at: now, arrived: self.arrived, sent, rtt_sum_ns: 0, rtt_count: 0 };
        Some(row)
    }

    /// Fills in what is measured here of the flow's row; `end` is its end or the run's, `sent` as of then.
    pub fn fill(&self, row: &mut FlowRow, end: Time, sent: Sent) {
        let duration = end - self.start;
        row.bytes = self.received;
        row.received_bytes = self.received;
        row.start_s = self.start.as_secs_f64();
        row.duration_s = duration.as_secs_f64();
        row.goodput_mbps = mbps(self.received, duration);
        let mut bins = self.bin.done.clone();
        bins.sort_unstable();
        let percentile = |share| quantile(&bins, share).map(|bytes| bytes * 8e3 / self.bin.length.as_nanos() as f64);
        row.goodput_p10_mbps = percentile(0.1);
        row.goodput_p50_mbps = percentile(0.5);
        row.goodput_p90_mbps = percentile(0.9);
        row.sent_packets = Some(sent.packets);
        row.retransmitted_packets = Some(sent.retransmitted);
        if let Some(startup) = self.startup.as_ref().and_then(|phase| phase.passed) {
            row.startup_s = Some((startup.at - self.start).as_secs_f64());
            row.startup_goodput_mbps = Some(mbps(startup.received, startup.at - self.start));
            row.startup_rtt_mean_ms = self.round_trips_of(STARTUP).mean_ms();
            row.startup_sent_packets = Some(startup.sent.packets);
            row.startup_retransmitted_packets = Some(startup.sent.retransmitted);
        }
        if let Some(steady) = self.steady.as_ref().and_then(|phase| phase.passed).filter(|steady| steady.at < end) {
            row.steady_s = Some((end - steady.at).as_secs_f64());
            row.steady_goodput_mbps = Some(mbps(self.received - steady.received, end - steady.at));
            row.steady_rtt_mean_ms = self.round_trips_of(STEADY).mean_ms();
            row.steady_sent_packets = Some(sent.packets - steady.sent.packets);
            row.steady_retransmitted_packets = Some(sent.retransmitted - steady.sent.retransmitted);
        }
        let all = self.round_trips_of(ALL);
        row.rtt_min_ms = all.least().map(Time::as_millis_f64);
        row.rtt_mean_ms = all.mean_ms();
        row.rtt_p50_ms = all.quantile_ms(0.5);
        row.rtt_p95_ms = all.quantile_ms(0.95);
        row.rtt_p99_ms = all.quantile_ms(0.99);
    }

    /// Adds the flow's distributions of round trips.
    pub fn write_round_trips(&self, run: u32, flow: &Name, table: &mut Rtt) {
        if !self.has_rtt_table {
            return;
        }
        for (bits, phase) in [(ALL, "all"), (STARTUP, "startup"), (STEADY, "steady")] {
            let phase: Name = phase.into();
            for (rtt_ms, count) in self.round_trips_of(bits).bins() {
                table.push(RttRow { run, flow: flow.clone(), phase: phase.clone(), rtt_ms, count });
            }
        }
    }

    /// The milestones reached.
    pub fn milestones<'a>(&'a self, run: u32, flow: &'a Name) -> impl Iterator<Item = MilestoneRow> + 'a {
        self.milestones.iter().map(move |(bytes, at)| {
            let t_s = (*at - self.start).as_secs_f64();
            MilestoneRow { run, flow: flow.clone(), bytes: *bytes, t_s }
        })
    }

    /// The round trips of one phase (by its bit), or of the whole flow ([`ALL`]).
    fn round_trips_of(&self, phase: usize) -> Histogram {
        let mut merged = Histogram::new(self.rtt_width);
        for (bits, histogram) in self.rtt.iter().enumerate() {
            if phase == ALL || bits & phase != 0 {
                merged.merge(histogram);
            }
        }
        merged
    }
}

impl Bin {
    #[cold]
    fn close_until(&mut self, now: Time, arrived: u64) {
        while now >= self.end && self.length > Time::ZERO {
            self.done.push(arrived - self.before);
            self.before = arrived;
            self.end += self.length;
        }
    }
}

impl Phase {
    const fn by_bytes(bytes: u64) -> Self {
        Self { bytes, at: Time::MAX, passed: None }
    }

    const fn by_time(at: Time) -> Self {
        Self { bytes: u64::MAX, at, passed: None }
    }
}

/// Where the steady phase begins that is the last `share` of `size`.
pub fn steady_of_size(size: Bytes, share: f64) -> SteadyBegin {
    SteadyBegin::Bytes((size.as_u64() as f64 * (1.0 - share)).round() as u64)
}

/// Where the steady phase begins that is the last `share` of the time from `start` over `length`.
pub fn steady_of_time(start: Time, length: Time, share: f64) -> SteadyBegin {
    SteadyBegin::Time(start + Time::from_nanos((length.as_nanos() as f64 * (1.0 - share)).round() as u64))
}

/// Megabits per second of so many bytes in that time; zero in no time.
pub fn mbps(bytes: u64, time: Time) -> f64 {
    if time == Time::ZERO {
        0.0
    } else {
        bytes as f64 * 8e3 / time.as_nanos() as f64
    }
}

/// The quantile of sorted values, linear between neighbours.
fn quantile(sorted: &[u64], share: f64) -> Option<f64> {
    let rank = share * sorted.len().checked_sub(1)? as f64;
    let below = rank.floor();
    let low = *sorted.get(below as usize)? as f64;
    let high = sorted.get(below as usize + 1).map_or(low, |value| *value as f64);
    Some(low + (high - low) * (rank - below))
}

/// Fine enough for percentiles where no table asks for a width.
const DEFAULT_RTT_BIN: Time = Time::from_micros(100);
const STARTUP: usize = 1;
const STEADY: usize = 2;
const ALL: usize = STARTUP | STEADY;
