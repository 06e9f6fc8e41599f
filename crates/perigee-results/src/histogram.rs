//! Distributions of durations in bins of equal width: exact mean, minimum and count, percentiles within a bin.

use std::collections::BTreeMap;

use perigee_units::Time;

/// A distribution of durations: samples per bin, and their exact sum, minimum and maximum.
///
/// Only pages with samples take memory: a flow whose round trips spread over a minute would otherwise take megabytes.
#[derive(Clone, Debug)]
pub struct Histogram {
    width_ns: u64,
    /// For each group of [`PAGE`] bins, the number of its page in `pages`, from 1; 0: no samples.
    places: Vec<u32>,
    /// Numbers of the pages of groups from [`LISTED`] on, which have samples in few distributions.
    far: BTreeMap<u64, u32>,
    /// Samples per bin.
    pages: Vec<[u32; PAGE]>,
    /// The bin of the last sample, into which most next samples fall.
    last: Place,
    samples: u64,
    sum_ns: u128,
    min: Time,
    max: Time,
}

/// Position of a bin.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its lower edge.
    from_ns: u64,
    /// Its width; 0 before the first sample.
    width_ns: u64,
    page: usize,
    /// Its number in the page.
    bin: usize,
}

impl Histogram {
    /// A distribution without samples, in bins of `width` (at least 1 ns).
    pub fn new(width: Time) -> Self {
        let width_ns = width.as_nanos().max(1);
        Self {
            width_ns,
            places: Vec::new(),
            far: BTreeMap::new(),
            pages: Vec::new(),
            last: Place { from_ns: 0, width_ns: 0, page: 0, bin: 0 },
            samples: 0,
            sum_ns: 0,
            min: Time::MAX,
            max: Time::ZERO,
        }
    }

    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, sample: Time) {
        if sample.as_nanos().wrapping_sub(self.last.from_ns) >= self.last.width_ns {
            self.last = self.place_of(sample);
        }
        self.pages[self.last.page][self.last.bin] += 1;
        self.samples += 1;
        self.sum_ns += u128::from(sample.as_nanos());
        self.min = self.min.min(sample);
        self.max = self.max.max(sample);
    }

    /// Adds all samples of `other`, which has the same width.
    pub fn merge(&mut self, other: &Self) {
        for (number, theirs) in other.used() {
            let page = self.page(number);
            self.pages[page].iter_mut().zip(theirs).for_each(|(own, more)| *own += more);
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

    /// A quantile in ms: linear within its bin, inside the samples' range.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        if self.samples == 0 {
            return None;
        }
        let rank = share * self.samples as f64;
        let mut below = 0.0;
        for (bin, count) in self.counts() {
            let count = f64::from(count);
            if below + count >= rank {
                let within = ((rank - below) / count).clamp(0.0, 1.0);
                let ns = (bin as f64 + within) * self.width_ns as f64;
                return Some(ns.clamp(self.min.as_nanos() as f64, self.max.as_nanos() as f64) / 1e6);
            }
            below += count;
        }
        Some(self.max.as_millis_f64())
    }

    /// Mean in ms of the largest samples, which are `share` of all; those of a bin count as spread evenly over it.
    ///
    /// Unlike a quantile it moves little with one sample where the distribution has a gap.
    pub fn mean_of_largest_ms(&self, share: f64) -> Option<f64> {
        let (largest, min, max) = (share * self.samples as f64, self.min()?, self.max()?);
        let (mut below, mut sum_ns) = (0.0, 0.0);
        for (bin, count) in self.counts() {
            let count = f64::from(count);
            below += count;
            let taken = (below + largest - self.samples as f64).clamp(0.0, count);
            let middle_ns = (bin as f64 + 1.0 - taken / count / 2.0) * self.width_ns as f64;
            sum_ns += taken * middle_ns.clamp(min.as_nanos() as f64, max.as_nanos() as f64);
        }
        Some(sum_ns / largest / 1e6)
    }

    /// Lower edge in ms and count of each bin with samples, in ascending order.
    pub fn bins(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let width_ns = self.width_ns;
        let edge_ms = move |bin: u64| Time::from_nanos(bin * width_ns).as_millis_f64();
        self.counts().map(move |(bin, count)| (edge_ms(bin), u64::from(count)))
    }

    /// Number and count of each bin with samples, in ascending order.
    fn counts(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let with_page = |(number, page)| std::iter::repeat(number).zip::<&[u32; PAGE]>(page).zip(0..);
        let bins = self.used().flat_map(with_page).filter(|((_, count), _)| **count > 0);
        bins.map(|((number, count), bin): ((u64, _), u64)| (number * PAGE as u64 + bin, *count))
    }

    /// The pages with samples and their numbers, in ascending order.
    fn used(&self) -> impl Iterator<Item = (u64, &[u32; PAGE])> + '_ {
        let listed = (0..).zip(&self.places).filter(|(_, place)| **place > 0);
        let far = self.far.iter().map(|(number, place)| (*number, place));
        listed.chain(far).map(|(number, place)| (number, &self.pages[*place as usize - 1]))
    }

    /// The bin of a sample; creates its page if necessary.
    #[inline(never)]
    fn place_of(&mut self, sample: Time) -> Place {
        let number = sample.as_nanos() / self.width_ns;
        let page = self.page(number / PAGE as u64);
        let bin = (number % PAGE as u64) as usize;
        Place { from_ns: number * self.width_ns, width_ns: self.width_ns, page, bin }
    }

    /// The position of a page; creates it if necessary.
    #[inline]
    fn page(&mut self, number: u64) -> usize {
        let place = if number < LISTED { self.places.get(number as usize) } else { self.far.get(&number) };
        let place = match place {
            Some(place) if *place > 0 => *place,
            _ => self.add_page(number),
        };
        place as usize - 1
    }

    #[cold]
    fn add_page(&mut self, number: u64) -> u32 {
        self.pages.push([0; PAGE]);
        let place = self.pages.len() as u32;
        if number >= LISTED {
            self.far.insert(number, place);
            return place;
        }
        let number = number as usize;
        if number >= self.places.len() {
            self.places.resize(number + 1, 0);
        }
        self.places[number] = place;
        place
    }
}

/// Bins of a page: the page is 256 bytes long.
const PAGE: usize = 64;

/// Groups of bins whose pages are found in a list, of 64 KiB at the most: all round trips below 1 s in bins of 1 us.
const LISTED: u64 = 1 << 14;

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
    fn the_mean_of_the_largest_is_within_a_bin_of_the_exact_one() {
        let (many, single) = (of_millis(1..=1000), of_millis([7]));
        for (samples, share, exact) in
            [(&many, 0.1, 950.5), (&many, 0.0005, 1000.0), (&many, 1.0, 500.5), (&single, 0.1, 7.0)]
        {
            let got = samples.mean_of_largest_ms(share).expect("has samples");
            assert!((got - exact).abs() <= 0.1 + 1e-9, "{share}: {got} against {exact}");
        }
        let middle = single.mean_of_largest_ms(0.1).expect("has a sample");
        assert!((middle - 7.0).abs() < 1e-9, "a single sample is its own: {middle}");
    }

    #[test]
    fn an_empty_distribution_has_no_mean_and_no_quantile() {
        let empty = of_millis([]);
        let quantiles = (empty.quantile_ms(0.5), empty.mean_of_largest_ms(0.1));
        assert_eq!((empty.mean_ms(), quantiles, empty.min()), (None, (None, None), None));
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
    fn bins_far_apart_are_counted_where_they_are() {
        let histogram = of_millis([90_000, 6, 90_000, 700]);
        assert_eq!(histogram.bins().collect::<Vec<_>>(), [(6.0, 1), (700.0, 1), (90_000.0, 2)]);
    }

    #[test]
    fn samples_far_apart_take_pages_of_their_own_only() {
        let histogram = of_millis([6, 700, 90_000, 90_000, 90_001]);
        assert_eq!(histogram.pages.len(), 3);
    }

    #[test]
    fn a_sample_far_from_all_others_costs_no_memory() {
        let mut histogram = Histogram::new(Time::from_nanos(1));
        histogram.add(Time::MAX);
        assert_eq!((histogram.bins().count(), histogram.pages.len(), histogram.places.len()), (1, 1, 0));
    }

    #[test]
    fn percentiles_of_seconds_in_bins_of_a_microsecond_are_those_in_bins_of_a_millisecond() {
        let [mut fine, mut coarse] = [Time::from_micros(1), Time::from_millis(1)].map(Histogram::new);
        for ms in (300..9000).rev() {
            fine.add(Time::from_millis(ms));
            coarse.add(Time::from_millis(ms));
        }
        for share in [0.05, 0.5, 0.95] {
            let [fine, coarse] = [&fine, &coarse].map(|one| one.quantile_ms(share).expect("has samples"));
            assert!((fine - coarse).abs() <= 1.0, "{share}: {fine} and {coarse} ms");
        }
        assert!(fine.bins().map(|(edge_ms, _)| edge_ms).is_sorted());
    }
}
