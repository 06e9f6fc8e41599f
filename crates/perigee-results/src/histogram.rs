//! Distributions of durations in bins of equal width: exact mean, minimum and count, percentiles within a bin.

use perigee_units::Time;

/// A distribution of durations: samples per bin, and their exact sum, minimum and maximum.
#[derive(Clone, Debug)]
pub struct Histogram {
    width_ns: u64,
    counts: Vec<u32>,
    samples: u64,
    sum_ns: u128,
    min: Time,
    max: Time,
}

impl Histogram {
    /// A distribution without samples, in bins of `width` (at least 1 ns).
    pub fn new(width: Time) -> Self {
        let width_ns = width.as_nanos().max(1);
        Self { width_ns, counts: Vec::new(), samples: 0, sum_ns: 0, min: Time::MAX, max: Time::ZERO }
    }

    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, sample: Time) {
        let bin = (sample.as_nanos() / self.width_ns).min(LAST_BIN) as usize;
        if bin >= self.counts.len() {
            self.grow(bin);
        }
        self.counts[bin] += 1;
        self.samples += 1;
        self.sum_ns += u128::from(sample.as_nanos());
        self.min = self.min.min(sample);
        self.max = self.max.max(sample);
    }

    /// Adds all samples of `other`, which has the same width.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own += more;
        }
        self.samples += other.samples;
        self.sum_ns += other.sum_ns;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.samples
    }

    /// The largest sample, exact.
    pub fn max(&self) -> Option<Time> {
        (self.samples > 0).then_some(self.max)
    }

    /// The smallest sample, exact.
    pub fn min(&self) -> Option<Time> {
        (self.samples > 0).then_some(self.min)
    }

    /// Mean in ms, exact; `None` without samples.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum_ns as f64 / self.samples as f64 / 1e6)
    }

    /// The value that a share of the samples does not exceed, in ms: linear within its bin, inside the samples' range.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        if self.samples == 0 {
            return None;
        }
        let rank = share * self.samples as f64;
        let mut below = 0.0;
        for (bin, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= rank {
                let within = ((rank - below) / count).clamp(0.0, 1.0);
                let ns = (bin as f64 + within) * self.width_ns as f64;
                return Some(ns.clamp(self.min.as_nanos() as f64, self.max.as_nanos() as f64) / 1e6);
            }
            below += count;
        }
        Some(self.max.as_millis_f64())
    }

    /// Lower edge in ms and count of each bin that has samples, growing.
    pub fn bins(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let width_ns = self.width_ns;
        let edge_ms = move |bin: usize| Time::from_nanos(bin as u64 * width_ns).as_millis_f64();
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(move |(bin, count)| (edge_ms(bin), u64::from(*count)))
    }

    #[cold]
    fn grow(&mut self, bin: usize) {
        self.counts.resize(bin + 1, 0);
    }
}

/// Samples beyond this bin are counted in it: memory stays bounded at 4 MiB, whatever the width.
const LAST_BIN: u64 = (1 << 20) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn of_millis(samples: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new(Time::from_micros(100));
        samples.into_iter().for_each(|ms| histogram.add(Time::from_millis(ms)));
        histogram
    }

    #[test]
    fn mean_and_minimum_are_exact() {
        let mut histogram = Histogram::new(Time::from_millis(10));
        for ns in [1, 2, 6] {
            histogram.add(Time::from_nanos(ns));
        }
        assert_eq!(histogram.mean_ms(), Some(3e-6));
        assert_eq!(histogram.min(), Some(Time::from_nanos(1)));
    }

    #[test]
    fn quantiles_are_within_a_bin_of_the_exact_ones() {
        let histogram = of_millis(1..=1000);
        for (share, exact) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0), (0.0, 1.0), (1.0, 1000.0)] {
            let got = histogram.quantile_ms(share).expect("has samples");
            assert!((got - exact).abs() <= 0.1 + 1e-9, "{share}: {got} against {exact}");
        }
    }

    #[test]
    fn an_empty_distribution_has_no_mean_and_no_quantile() {
        let empty = of_millis([]);
        assert_eq!((empty.mean_ms(), empty.quantile_ms(0.5), empty.min()), (None, None, None));
    }

    #[test]
    fn merging_is_as_adding_all_samples_to_one() {
        let mut merged = of_millis([5, 700]);
        merged.merge(&of_millis([600, 5, 9]));
        let all = of_millis([5, 700, 600, 5, 9]);
        assert_eq!(merged.bins().collect::<Vec<_>>(), all.bins().collect::<Vec<_>>());
        assert_eq!((merged.mean_ms(), merged.quantile_ms(0.5)), (all.mean_ms(), all.quantile_ms(0.5)));
    }

    #[test]
    fn a_sample_beyond_the_last_bin_costs_no_memory() {
        let mut histogram = Histogram::new(Time::from_nanos(1));
        histogram.add(Time::MAX);
        assert_eq!(histogram.bins().count(), 1);
    }
}
