//! Rates over bins of time.

use perigee_units::Time;

/// Arrived bytes in bins of equal length.
#[derive(Clone)]
pub(crate) struct Bins {
    length: Time,
    end: Time,
    /// Bytes that arrived before the current bin.
    before: u64,
    done: Vec<u64>,
}

impl Bins {
    /// Bins of this length, the first of which ends at `end`.
    pub(crate) fn new(length: Time, end: Time) -> Self {
        Self { length, end, before: 0, done: Vec::new() }
    }

    /// End of the current bin.
    #[inline]
    pub(crate) fn end(&self) -> Time {
        self.end
    }

    pub(crate) fn length(&self) -> Time {
        self.length
    }

    /// Leaves out some of the first bins, and some of the last.
    pub(crate) fn trim(&mut self, first: usize, last: usize) {
        self.done.truncate(self.done.len().saturating_sub(last));
        self.done.drain(..first.min(self.done.len()));
    }

    /// The 10th, 50th and 90th percentile of the rate in the bins that have ended; `None` without one.
    pub(crate) fn percentiles_mbps(mut self) -> (Option<f64>, Option<f64>, Option<f64>) {
        self.done.sort_unstable();
        let percentile = |share| quantile(&self.done, share).map(|bytes| bytes * 8e3 / self.length.as_nanos() as f64);
        (percentile(0.1), percentile(0.5), percentile(0.9))
    }

    #[cold]
    pub(crate) fn close_until(&mut self, now: Time, arrived: u64) {
        while now >= self.end && self.length > Time::ZERO {
            self.done.push(arrived - self.before);
            self.before = arrived;
            self.end += self.length;
        }
    }
}

/// Bytes in a time as Mbit/s; `None` for no time.
pub(crate) fn mbps(bytes: u64, time: Time) -> Option<f64> {
    (time > Time::ZERO).then(|| bytes as f64 * 8e3 / time.as_nanos() as f64)
}

/// The quantile of sorted values, linear between neighbours.
fn quantile(sorted: &[u64], share: f64) -> Option<f64> {
    let rank = share * sorted.len().checked_sub(1)? as f64;
    let below = rank.floor();
    let low = *sorted.get(below as usize)? as f64;
    let high = sorted.get(below as usize + 1).map_or(low, |value| *value as f64);
    Some(low + (high - low) * (rank - below))
}
