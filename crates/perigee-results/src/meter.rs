//! Measures one flow: payload over time, phases, milestones, round trips.
//!
//! Rates over time (the series, the bins whose percentiles a row has, and the steady phase) count the payload that arrives, each byte
//! once, as a capture at the receiver shows it, so that none exceeds what the path carries. Boundaries of phases, milestones and
//! the end of a flow count the payload that an application can read, which stands still behind a gap and then leaps.
//!
//! Phases are spans of the run's time. Startup lasts from the start of the flow until a number of bytes is delivered or
//! a time has passed. Steady lasts from the start of the last share of the flow's bytes (or of its time) to the end of
//! the flow. A phase counts everything that happens in its span: bytes at the receiver, packets and round trips at the
//! sender.

use std::collections::VecDeque;

use perigee_units::{Ratio, Time};

use crate::bins::{mbps, Bins};
use crate::histogram::Histogram;
use crate::receiver_capture::ReceiverCapture;
use crate::{Amount, FlowRow, Measure, MilestoneRow, Name, Rtt, RttRow, SeriesRow, Startup, Tables};

/// The measurements of one flow.
pub struct Meter {
    start: Time,
    /// When it ended; known ahead of time if the last packet's delivery is.
    end: Option<Time>,
    /// Payload delivered in order.
    received: u64,
    /// Payload arrived, each byte counted once.
    arrived: u64,
    /// The next count of delivered bytes at which a milestone or a phase is reached.
    mark: u64,
    bins: Bins,
    edges: Edges,
    /// The earliest end of a bin or of an interval of the series.
    edge: Time,
    startup: Option<Phase>,
    steady: Option<Phase>,
    capture: Option<Box<ReceiverCapture>>,
    /// Milestones still to be reached, the next one last.
    sizes: Vec<u64>,
    milestones: Vec<(u64, Time)>,
    /// Round trips by phase: bit 0 startup, bit 1 steady.
    rtt: [Histogram; 4],
    phase_bits: usize,
    rtt_width: Time,
    has_rtt_table: bool,
    sample: Sample,
}

/// The data packets of a sender since its flow began; `None` if not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Packets sent, retransmissions included.
    pub packets: Option<u64>,
    /// Retransmissions.
    pub retransmitted: Option<u64>,
}

/// The columns of a series row that come from the sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderState {
    /// Payload acknowledged since the flow began.
    pub acked_bytes: u64,
    /// Payload above it that SACK reports; `None` if unknown.
    pub sacked_bytes: Option<u64>,
    /// Congestion window.
    pub cwnd_packets: Option<u32>,
    /// Slow start threshold; `None` while there is none.
    pub ssthresh_packets: Option<u32>,
    /// Smoothed round trip; `None` before a sample.
    pub srtt_ms: Option<f64>,
    /// Packets in flight as the sender counts them; `None` if unknown.
    pub inflight_packets: Option<u32>,
    /// Pacing rate; `None` if the sender does not pace.
    pub pacing_mbps: Option<f64>,
}

/// The run and the flow that a row belongs to.
#[derive(Clone, Copy, Debug)]
pub struct FlowId<'a> {
    /// Number of the run.
    pub run: u32,
    /// Name of the flow.
    pub flow: &'a Name,
    /// Number of the leg; `None`: the flow itself.
    pub leg: Option<u32>,
}

impl<'a> FlowId<'a> {
    /// The flow or leg that a row describes.
    pub fn of(row: &'a FlowRow) -> Self {
        Self { run: row.run, flow: &row.flow, leg: row.leg }
    }
}

/// The intervals of the series, which start with the run: bytes that had arrived by the end of each one before the last arrival.
struct Edges {
    /// Length of an interval; [`Time::MAX`] without a series.
    interval: Time,
    /// End of the current interval.
    next: Time,
    /// Ends of past intervals whose rows are not written yet, and the bytes by then.
    passed: VecDeque<(Time, u64)>,
}

/// A phase by its boundary: the end of startup, or the start of steady.
struct Phase {
    /// Delivered bytes at the boundary; `u64::MAX` if an instant decides.
    bytes: u64,
    /// Instant of the boundary; `Time::MAX` if a count decides.
    at: Time,
    /// The counts at the boundary, once it is reached.
    boundary: Option<Boundary>,
}

/// The counts of a flow at the boundary of a phase.
#[derive(Clone, Copy)]
struct Boundary {
    at: Time,
    received: u64,
    arrived: u64,
    sent: SenderCounts,
}

/// The counts of a flow at the last row of its series.
struct Sample {
    at: Time,
    arrived: u64,
    sent: SenderCounts,
    rtt_sum_ns: u64,
    rtt_count: u64,
}

impl Meter {
    /// The meter of a flow that begins at `start` and carries `amount`; without an amount it has no steady phase.
    pub fn new(start: Time, measure: &Measure, amount: Option<Amount>) -> Self {
        let startup = measure.startup.map(|end| Phase::startup(start, end));
        let steady = measure.steady.zip(amount).map(|(share, amount)| Phase::steady(start, amount, share));
        let width = measure.rtt_bin.unwrap_or(DEFAULT_RTT_BIN);
        let mut meter = Self {
            start,
            end: None,
            received: 0,
            arrived: 0,
            mark: 0,
            bins: Bins::new(measure.goodput_bin, start + measure.goodput_bin),
            edges: Edges::new(start, measure.series),
            edge: Time::ZERO,
            phase_bits: 0,
            startup,
            steady,
            capture: measure.capture.as_ref().map(|rules| Box::new(ReceiverCapture::new(rules, start))),
            sizes: measure.milestones.iter().rev().map(|size| size.as_u64()).collect(),
            milestones: Vec::new(),
            rtt: std::array::from_fn(|_| Histogram::new(width)),
            rtt_width: width,
            has_rtt_table: measure.rtt_bin.is_some(),
            sample: Sample { at: start, arrived: 0, sent: SenderCounts::default(), rtt_sum_ns: 0, rtt_count: 0 },
        };
        meter.record_progress(start, SenderCounts::default());
        meter
    }

    /// When the flow began.
    pub fn start(&self) -> Time {
        self.start
    }

    /// When the flow ended, if known.
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

    /// Counts `arrived` bytes at the receiver so far, `received` of them in order. True if
    /// [`Meter::record_progress`] is due.
    ///
    /// `now` may lie ahead of the rows of the series, which count bytes that had arrived by their ends, but not ahead of other
    /// calls.
    #[inline]
    pub fn deliver(&mut self, now: Time, received: u64, arrived: u64) -> bool {
        if self.end.is_some() {
            return false;
        }
        if now >= self.edge {
            self.pass_edges(now, arrived);
        }
        self.arrived = arrived;
        self.received = received;
        received >= self.mark
    }

    /// Closes the bins and intervals that end before an arrival at `now`, with which `arrived` bytes are there.
    #[cold]
    fn pass_edges(&mut self, now: Time, arrived: u64) {
        if now >= self.bins.end() {
            self.bins.close_until(now, self.arrived);
        }
        self.edges.pass(now, self.arrived);
        if let Some(capture) = &mut self.capture {
            if arrived == 0 {
                // The next call may be the first arrival.
                return;
            }
            capture.pass(now, self.arrived);
        }
        // An arrival at the end of an interval belongs to it.
        let series = if self.edges.next == Time::MAX { Time::MAX } else { self.edges.next + Time::from_nanos(1) };
        self.edge = self.bin_end().min(series);
    }

    /// Records the milestones and boundaries of phases reached by `now`.
    #[cold]
    pub fn record_progress(&mut self, now: Time, sent: SenderCounts) {
        if self.end.is_some_and(|end| end <= now) {
            return;
        }
        while let Some(size) = self.sizes.last().copied().filter(|size| *size <= self.received) {
            self.sizes.pop();
            self.milestones.push((size, now));
        }
        let here = Boundary { at: now, received: self.received, arrived: self.arrived, sent };
        let mut bits = 0;
        self.mark = self.sizes.last().copied().unwrap_or(u64::MAX);
        if let Some(capture) = &mut self.capture {
            capture.reach(now, self.received);
            self.mark = self.mark.min(capture.next_mark());
        }
        for (phase, bit, counts_after) in [(&mut self.startup, STARTUP, false), (&mut self.steady, STEADY, true)] {
            let Some(phase) = phase else { continue };
            if phase.boundary.is_none() && (self.received >= phase.bytes || now >= phase.at) {
                phase.boundary = Some(here);
            }
            if phase.boundary.is_some() == counts_after {
                bits |= bit;
            }
            if phase.boundary.is_none() {
                self.mark = self.mark.min(phase.bytes);
            }
        }
        self.phase_bits = bits;
    }

    /// The next instant at which [`Meter::record_progress`] is due.
    pub fn next_instant(&self) -> Time {
        let open = |phase: &Option<Phase>| phase.as_ref().filter(|p| p.boundary.is_none()).map_or(Time::MAX, |p| p.at);
        let next = open(&self.startup).min(open(&self.steady));
        // An end that is known ahead of time leaves earlier instants.
        if self.end.is_some_and(|end| end <= next) {
            Time::MAX
        } else {
            next
        }
    }

    /// Arrivals before this instant may be counted together: no bin and no interval of the series ends.
    #[inline]
    pub fn edge(&self) -> Time {
        self.edge
    }

    /// The next count of delivered bytes at which [`Meter::record_progress`] is due; `u64::MAX`: none.
    pub fn next_size(&self) -> u64 {
        self.mark
    }

    /// When the current bin, or the current second of a capture, ends; [`Time::MAX`] without either.
    pub fn bin_end(&self) -> Time {
        let second = self.capture.as_ref().map_or(Time::MAX, |capture| capture.second_end());
        if self.bins.length() > Time::ZERO {
            self.bins.end().min(second)
        } else {
            second
        }
    }

    /// Adds a round trip measured by the sender.
    #[inline]
    pub fn round_trip(&mut self, rtt: Time) {
        if self.end.is_none() {
            self.rtt[self.phase_bits & ALL].add(rtt);
            self.sample.rtt_sum_ns += rtt.as_nanos();
            self.sample.rtt_count += 1;
        }
    }

    /// Ends the flow at `end`, which may lie ahead; later arrivals are ignored. A later call with an earlier end cuts it off there.
    pub fn finish(&mut self, end: Time) {
        self.end = Some(end);
    }

    /// The row of the series that ends at `now`; `None` if the flow ended before the last row.
    pub fn series_row(
        &mut self,
        now: Time,
        id: FlowId<'_>,
        sent: SenderCounts,
        state: SenderState,
    ) -> Option<SeriesRow> {
        let now = self.end.map_or(now, |end| end.min(now));
        let length = now.checked_sub(self.sample.at)?;
        let arrived = self.edges.arrived_by(now).unwrap_or(self.arrived);
        let before = &self.sample;
        let in_interval = sent.since(before.sent);
        let row = SeriesRow {
            run: id.run,
            flow: id.flow.clone(),
            leg: id.leg,
            t_s: now.as_secs_f64(),
            goodput_mbps: mbps(arrived - before.arrived, length)?,
            acked_bytes: state.acked_bytes,
            sacked_bytes: state.sacked_bytes,
            cwnd_packets: state.cwnd_packets,
            ssthresh_packets: state.ssthresh_packets,
            srtt_ms: state.srtt_ms,
            rtt_mean_ms: (before.rtt_count > 0).then(|| before.rtt_sum_ns as f64 / before.rtt_count as f64 / 1e6),
            inflight_packets: state.inflight_packets,
            sent_packets: in_interval.packets,
            retransmitted_packets: in_interval.retransmitted,
            pacing_mbps: state.pacing_mbps,
        };
        self.sample = Sample { at: now, arrived, sent, rtt_sum_ns: 0, rtt_count: 0 };
        Some(row)
    }

    /// Fills in the measured columns of the flow's row. A flow that has not ended by `stop` ends there; `sent` are the counts at its
    /// end.
    pub fn fill(&self, row: &mut FlowRow, stop: Time, sent: SenderCounts) {
        let end = self.end.unwrap_or(stop).min(stop);
        let duration = end - self.start;
        row.bytes = self.received;
        row.received_bytes = self.received;
        row.start_s = self.start.as_secs_f64();
        row.duration_s = duration.as_secs_f64();
        row.goodput_mbps = mbps(self.received, duration);
        (row.goodput_p10_mbps, row.goodput_p50_mbps, row.goodput_p90_mbps) = self.percentiles_mbps(end);
        (row.sent_packets, row.retransmitted_packets) = (sent.packets, sent.retransmitted);
        if let Some(startup) = self.startup.as_ref().and_then(|phase| phase.boundary) {
            let length = startup.at - self.start;
            let sent = startup.sent.where_counted(sent);
            row.startup_s = Some(length.as_secs_f64());
            row.startup_goodput_mbps = mbps(startup.received, length);
            row.startup_rtt_mean_ms = self.round_trips_of(STARTUP).mean_ms();
            (row.startup_sent_packets, row.startup_retransmitted_packets) = (sent.packets, sent.retransmitted);
        }
        if let Some(steady) = self.steady.as_ref().and_then(|phase| phase.boundary).filter(|steady| steady.at < end) {
            let length = end - steady.at;
            let sent = sent.since(steady.sent);
            row.steady_s = Some(length.as_secs_f64());
            row.steady_goodput_mbps = mbps(self.arrived - steady.arrived, length);
            row.steady_rtt_mean_ms = self.round_trips_of(STEADY).mean_ms();
            (row.steady_sent_packets, row.steady_retransmitted_packets) = (sent.packets, sent.retransmitted);
        }
        let all = self.round_trips_of(ALL);
        row.rtt_min_ms = all.min().map(Time::as_millis_f64);
        row.rtt_mean_ms = all.mean_ms();
        row.rtt_p50_ms = all.quantile_ms(0.5);
        row.rtt_p95_ms = all.quantile_ms(0.95);
        row.rtt_p99_ms = all.quantile_ms(0.99);
    }

    /// Fills in the columns of a capture at the receiver, which begins with a packet of the handshake, as long before the first data as
    /// the `handshake` took. A flow that has not ended by `stop` ends there.
    pub fn fill_capture(&self, row: &mut FlowRow, stop: Time, handshake: Time) {
        let end = self.end.unwrap_or(stop).min(stop);
        if let Some(capture) = &self.capture {
            capture.fill(row, handshake, end, (self.received, self.arrived));
        }
    }

    /// The 10th, 50th and 90th percentile of the rate in the whole bins up to `end`; `None` without one.
    fn percentiles_mbps(&self, end: Time) -> (Option<f64>, Option<f64>, Option<f64>) {
        let mut bins = self.bins.clone();
        bins.close_until(end, self.arrived);
        bins.percentiles_mbps()
    }

    /// Adds the flow to the tables: `row`, which [`Meter::fill`] has filled, its distributions of round trips, and the
    /// milestones that it has reached.
    pub fn write_flow(&self, row: FlowRow, tables: &mut Tables) {
        self.write_round_trips(FlowId::of(&row), &mut tables.rtt);
        for (bytes, at) in &self.milestones {
            let t_s = (*at - self.start).as_secs_f64();
            tables.milestones.push(MilestoneRow {
                run: row.run,
                flow: row.flow.clone(),
                leg: row.leg,
                bytes: *bytes,
                t_s,
            });
        }
        tables.flows.push(row);
    }

    fn write_round_trips(&self, FlowId { run, flow, leg }: FlowId<'_>, table: &mut Rtt) {
        if !self.has_rtt_table {
            return;
        }
        for (bits, phase) in [(ALL, "all"), (STARTUP, "startup"), (STEADY, "steady")] {
            let phase: Name = phase.into();
            for (rtt_ms, count) in self.round_trips_of(bits).bins() {
                table.push(RttRow { run, flow: flow.clone(), leg, phase: phase.clone(), rtt_ms, count });
            }
        }
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

impl SenderCounts {
    /// Counts of packets sent and retransmitted, if both are known.
    pub const fn counted(packets: u64, retransmitted: u64) -> Self {
        Self { packets: Some(packets), retransmitted: Some(retransmitted) }
    }

    /// The packets since `before`, where unknown counts are zero.
    fn since(self, before: Self) -> Self {
        let since = |now: Option<u64>, before: Option<u64>| now.map(|now| now - before.unwrap_or_default());
        Self {
            packets: since(self.packets, before.packets),
            retransmitted: since(self.retransmitted, before.retransmitted),
        }
    }

    /// These counts, but unknown where those at the end of the flow are.
    fn where_counted(self, end: Self) -> Self {
        let known = |now: Option<u64>, end: Option<u64>| end.map(|_| now.unwrap_or_default());
        Self { packets: known(self.packets, end.packets), retransmitted: known(self.retransmitted, end.retransmitted) }
    }
}

impl Edges {
    fn new(start: Time, interval: Option<Time>) -> Self {
        let interval = interval.filter(|length| *length > Time::ZERO).unwrap_or(Time::MAX);
        let next = start.as_nanos().div_ceil(interval.as_nanos()).max(1).saturating_mul(interval.as_nanos());
        Self { interval, next: Time::from_nanos(next), passed: VecDeque::new() }
    }

    /// Passes intervals that end before an arrival at `now`; `arrived` bytes had arrived before it.
    fn pass(&mut self, now: Time, arrived: u64) {
        while now > self.next {
            self.passed.push_back((self.next, arrived));
            self.next += self.interval;
        }
    }

    /// Bytes that had arrived by the end of an interval, if others have arrived since.
    fn arrived_by(&mut self, end: Time) -> Option<u64> {
        while self.passed.front().is_some_and(|(at, _)| *at < end) {
            self.passed.pop_front();
        }
        self.passed.front().filter(|(at, _)| *at == end).map(|(_, arrived)| *arrived)
    }
}

impl Phase {
    /// Startup ends after a number of delivered bytes, or a time after the start of the flow.
    fn startup(start: Time, end: Startup) -> Self {
        match end {
            Startup::Bytes(bytes) => Self::by_bytes(bytes.as_u64()),
            Startup::Time(length) => Self::by_time(start + length),
        }
    }

    /// Steady is the last `share` of the flow's bytes, or of its time.
    fn steady(start: Time, amount: Amount, share: Ratio) -> Self {
        let before = |whole: u64| (whole as f64 * (1.0 - share.as_f64())).round() as u64;
        match amount {
            Amount::Size(size) => Self::by_bytes(before(size.as_u64())),
            Amount::Duration(length) => Self::by_time(start + Time::from_nanos(before(length.as_nanos()))),
        }
    }

    const fn by_bytes(bytes: u64) -> Self {
        Self { bytes, at: Time::MAX, boundary: None }
    }

    const fn by_time(at: Time) -> Self {
        Self { bytes: u64::MAX, at, boundary: None }
    }
}

/// Fine enough for percentiles if no table asks for a width.
const DEFAULT_RTT_BIN: Time = Time::from_micros(100);
const STARTUP: usize = 1;
const STEADY: usize = 2;
const ALL: usize = STARTUP | STEADY;
