//! Distributions of delays and lateness, to two significant digits.

/// Counts of values in bins, 128 per power of two, so that their width is below 1 % of the values.
pub(crate) struct Histogram {
    bins: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { bins: Vec::new(), count: 0, sum: 0, max: 0 }
    }

    pub(crate) fn record(&mut self, value: u64) {
        let bin = bin(value);
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The mean; zero without values.
    pub(crate) fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The largest value; zero without values.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The largest value of the bin that contains a quantile; zero without values.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let wanted = ((share * self.count as f64).ceil() as u64).max(1);
        let mut so_far = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            so_far += count;
            if so_far >= wanted {
                return last(bin).min(self.max);
            }
        }
        0
    }
}

/// The bin of a value: its own below 128, then the seven bits after the leading one.
fn bin(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

/// The largest value of a bin.
fn last(bin: usize) -> u64 {
    let shift = ((bin as u64) >> BITS).saturating_sub(1);
    let lead = bin as u64 - (shift << BITS);
    ((lead + 1) << shift).wrapping_sub(1)
}

const BITS: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_ends_where_the_next_begins_and_is_narrower_than_a_hundredth() {
        for value in (0..5_000).chain((7..63).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (3 << bits) / 2])) {
            let end = last(bin(value));
            assert!(value <= end && end - value <= value / 100, "{value} to {end}");
            assert_eq!(bin(end + 1), bin(value) + 1, "{value}");
        }
        assert_eq!(last(bin(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut histogram = Histogram::new();
        assert_eq!((histogram.quantile(0.5), histogram.mean(), histogram.max()), (0, 0.0, 0));
        (1..=100).for_each(|value| histogram.record(value));
        assert_eq!([0.0, 0.5, 0.95, 0.99, 1.0].map(|share| histogram.quantile(share)), [1, 50, 95, 99, 100]);
        assert!((histogram.mean() - 50.5).abs() < 1e-12);
        assert_eq!((histogram.count(), histogram.max()), (100, 100));
        histogram.record(60_000_000_001);
        assert_eq!(histogram.quantile(1.0), 60_000_000_001);
    }
}
