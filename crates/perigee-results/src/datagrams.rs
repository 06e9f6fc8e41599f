//! Measures a flow of datagrams: one-way delays and jitter of a stream, quality of voice and of video calls, or the round trips of
//! datagrams that are answered.

use perigee_units::{Bytes, Time};

use crate::call::{CallMeter, Frames};
use crate::exchanges::ExchangeLog;
use crate::meter::{FlowId, Meter, SenderCounts, SenderState};
use crate::voice::{Talk, VoiceMeter};
use crate::{Amount, FlowRow, Measure, Outcome, SeriesRow, Tables};

/// The measurements of a flow of datagrams.
pub struct DatagramMeter {
    meter: Meter,
    measurements: Measurements,
    /// Datagrams sent, without answers.
    sent: u32,
    /// Datagrams that arrived, or answers to them.
    arrived: u64,
}

/// The kind of measurements of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// The delays of a stream in one direction.
    Stream,
    /// The delays of speech, and its quality.
    Voice(Talk),
    /// The delays of a video call, and its frames.
    Call(Frames),
    /// The round trips of packets that the far node answers.
    Answered,
}

enum Measurements {
    Stream(Delays),
    Voice(Delays, Box<VoiceMeter>),
    Call(Delays, Box<CallMeter>),
    Answered(ExchangeLog),
}

/// One-way delays, in the order of arrival.
#[derive(Default)]
struct Delays {
    count: u64,
    sum_ns: u64,
    before: Option<Time>,
    jitter_sum_ns: u64,
}

impl DatagramMeter {
    /// The meter of a flow of `length` from `start` on.
    pub fn new(start: Time, length: Time, measured: Measured, measure: &Measure) -> Self {
        let meter = Meter::new(start, measure, Some(Amount::Duration(length)));
        let measurements = match measured {
            Measured::Stream => Measurements::Stream(Delays::default()),
            Measured::Voice(talk) => Measurements::Voice(Delays::default(), Box::new(VoiceMeter::new(start, talk))),
            Measured::Call(frames) => Measurements::Call(Delays::default(), Box::new(CallMeter::new(frames))),
            Measured::Answered => Measurements::Answered(ExchangeLog::default()),
        };
        Self { meter, measurements, sent: 0, arrived: 0 }
    }

    /// The flow's meter.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Datagrams sent.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Counts the next datagram, which was due at `at`. If it is answered, it begins an exchange then.
    pub fn send(&mut self, at: Time, packet: Bytes) {
        match &mut self.measurements {
            Measurements::Stream(_) => {}
            Measurements::Voice(_, voice) => voice.send(at),
            Measurements::Call(_, call) => call.send(self.sent),
            Measurements::Answered(answers) => answers.begin(at, packet.as_u64(), packet.as_u64()),
        }
        self.sent += 1;
    }

    /// Counts the arrival of datagram `number` or of its answer, `delay` after it was sent.
    pub fn deliver(&mut self, now: Time, number: u32, delay: Time, payload_bytes: u64) {
        match &mut self.measurements {
            Measurements::Stream(delays) => delays.add(delay),
            Measurements::Voice(delays, voice) => {
                delays.add(delay);
                voice.deliver(now, number, delay);
            }
            Measurements::Call(delays, call) => {
                delays.add(delay);
                call.deliver(number, delay);
            }
            Measurements::Answered(answers) => {
                self.meter.round_trip(delay);
                answers.complete(number, delay);
            }
        }
        self.arrived += 1;
        let total = self.meter.received() + payload_bytes;
        if self.meter.deliver(now, total, total) {
            self.record_progress(now);
        }
    }

    /// Records the boundaries of phases reached by `now`, as [`Meter::record_progress`] does.
    pub fn record_progress(&mut self, now: Time) {
        self.meter.record_progress(now, self.counts());
    }

    /// Ends the flow at `end`.
    pub fn finish(&mut self, end: Time) {
        self.meter.finish(end);
    }

    /// The row of the series that ends at `now`.
    pub fn series_row(&mut self, now: Time, id: FlowId<'_>, inflight_packets: u32) -> Option<SeriesRow> {
        let state = SenderState { inflight_packets: Some(inflight_packets), ..SenderState::default() };
        self.meter.series_row(now, id, self.counts(), state)
    }

    /// Adds the flow to the tables; `row` has its description. A flow that has not ended by `stop` ends there.
    pub fn write_flow(&self, mut row: FlowRow, stop: Time, outcome: Outcome, tables: &mut Tables) {
        self.meter.fill(&mut row, stop, self.counts());
        row.set_outcome(outcome);
        row.rto_count = Some(0);
        row.lost_packets = Some(u64::from(self.sent) - self.arrived);
        match &self.measurements {
            Measurements::Stream(delays) => delays.fill(&mut row),
            Measurements::Voice(delays, voice) => {
                delays.fill(&mut row);
                voice.write(FlowId::of(&row), tables);
            }
            Measurements::Call(delays, call) => {
                delays.fill(&mut row);
                call.write(FlowId::of(&row), tables);
            }
            Measurements::Answered(answers) => {
                answers.write(FlowId::of(&row), &mut tables.exchanges);
            }
        }
        self.meter.write_flow(row, tables);
    }

    fn counts(&self) -> SenderCounts {
        SenderCounts::counted(u64::from(self.sent), 0)
    }
}

impl Delays {
    fn add(&mut self, delay: Time) {
        self.count += 1;
        self.sum_ns += delay.as_nanos();
        if let Some(before) = self.before.replace(delay) {
            self.jitter_sum_ns += delay.as_nanos().abs_diff(before.as_nanos());
        }
    }

    fn fill(&self, row: &mut FlowRow) {
        (row.delay_mean_ms, row.jitter_ms) = (self.mean_ms(), self.jitter_ms());
    }

    /// Mean delay; `None` without one.
    fn mean_ms(&self) -> Option<f64> {
        mean_ms(self.sum_ns, self.count)
    }

    /// Mean difference between one delay and the next (RFC 3550, 6.4.1, unsmoothed); `None` below two.
    fn jitter_ms(&self) -> Option<f64> {
        mean_ms(self.jitter_sum_ns, self.count.saturating_sub(1))
    }
}

fn mean_ms(sum_ns: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum_ns as f64 / count as f64 / 1e6)
}
