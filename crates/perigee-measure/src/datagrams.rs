//! Datagrams: one-way delays and jitter of a stream, round trips of pings one by one.

use perigee_study::results::{ExchangeRow, Exchanges, FlowRow};
use perigee_units::Time;

/// Delays of the datagrams of a stream, in the order in which they arrive.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    count: u64,
    sum_ns: u64,
    before: Option<Time>,
    jitter_sum_ns: u64,
}

impl Delays {
    /// One has arrived, so long after it was sent.
    pub fn arrived(&mut self, delay: Time) {
        self.count += 1;
        self.sum_ns += delay.as_nanos();
        if let Some(before) = self.before.replace(delay) {
            self.jitter_sum_ns += delay.as_nanos().abs_diff(before.as_nanos());
        }
    }

    /// Fills in the mean delay, and the jitter: the mean difference between one delay and the next (as RFC 3550 takes it,
    /// unsmoothed). Empty where there are too few.
    pub fn fill(&self, row: &mut FlowRow) {
        let mean_ms = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64 / 1e6);
        row.delay_mean_ms = mean_ms(self.sum_ns, self.count);
        row.jitter_ms = mean_ms(self.jitter_sum_ns, self.count.saturating_sub(1));
    }
}

/// Round trips of pings, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Answers(Vec<Option<Time>>);

impl Answers {
    /// So many have been sent by now.
    pub fn sent(&mut self, count: u32) {
        self.0.resize(count as usize, None);
    }

    /// The answer to one has come, so long after it was sent.
    pub fn arrived(&mut self, number: u32, round_trip: Time) {
        if let Some(answer) = self.0.get_mut(number as usize) {
            *answer = Some(round_trip);
        }
    }

    /// Writes a row for each that was sent: one each `interval` from `start` on, of `bytes` there and back; `blank` names
    /// the run and the flow.
    pub fn write(&self, (start, interval): (Time, Time), bytes: u64, blank: &ExchangeRow, table: &mut Exchanges) {
        for (number, answer) in (0u32..).zip(&self.0) {
            table.push(ExchangeRow {
                number,
                start_s: (start + interval * u64::from(number)).as_secs_f64(),
                request_bytes: bytes,
                response_bytes: bytes,
                duration_ms: answer.map(Time::as_millis_f64),
                ..blank.clone()
            });
        }
    }
}
