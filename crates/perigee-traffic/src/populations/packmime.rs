//! The distributions of the connection-based model of web traffic, at a mean rate of new connections.
//!
//! J. Cao, W. S. Cleveland, Y. Gao, K. Jeffay, F. D. Smith, M. C. Weigle, "Stochastic models for generating synthetic
//! HTTP source traffic", IEEE INFOCOM 2004, with one request per connection. Parameters and quantiles are those that
//! the authors published with PackMime-HTTP for ns-2 (release 2.35); a rate enters as log2 of new connections per
//! second.
//!
//! Differences from PackMime-HTTP:
//! - Autoregressions end at order 999 for request sizes too (there 4999).
//! - Quantiles are interpolated between fewer points.
//! - A response has at most 1 GiB, a request at least 1 byte.

use perigee_units::{Stream, Time};

use super::fractional::{above, Fractional};
use super::quantiles::{CACHED, DOWNLOADED, LARGE_REQUESTS, SMALL_REQUESTS};
use super::source::LARGEST;

/// Gaps between new connections, s: Weibull, with the dependence of a fractional sum-difference process.
pub(crate) struct Arrivals {
    noise: Fractional,
    weibull: Weibull,
}

/// Sizes of requests, bytes: quantiles, with the dependence of a fractional sum-difference process.
pub(crate) struct Requests(Fractional);

/// Sizes of responses, bytes: alternating runs of documents and of answers that a cached copy is still valid.
pub(crate) struct Responses {
    random: Stream,
    /// Lengths of the runs, of cached copies and of documents.
    runs: [Weibull; 2],
    is_document: bool,
    left: u64,
}

/// Delays of servers: the reciprocal of a Weibull variable, at most 0.1 s.
pub(crate) struct ServerDelays {
    random: Stream,
}

/// P(X > x) = exp(-(x / scale)^shape)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weibull {
    shape: f64,
    scale: f64,
}

impl Arrivals {
    pub(crate) fn new(rate: f64, random: Stream) -> Self {
        let noise = Fractional::new(0.33, of_rate(0.333, 0.414, rate), random);
        Self { noise, weibull: Self::gaps(rate) }
    }

    /// The marginal distribution, whose mean is the reciprocal of the rate.
    pub(crate) fn gaps(rate: f64) -> Weibull {
        let shape = of_rate(0.352, 0.388, rate);
        Weibull { shape, scale: 1.0 / (rate * libm::tgamma(1.0 + 1.0 / shape)) }
    }
}

impl Iterator for Arrivals {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        Some(self.weibull.exceeded_by(above(self.noise.next())))
    }
}

impl Requests {
    pub(crate) fn new(rate: f64, random: Stream) -> Self {
        Self(Fractional::new(0.31, of_rate(0.123, 0.494, rate), random))
    }

    /// The size that a share of all requests exceeds.
    pub(crate) fn exceeded_by(share: f64) -> u64 {
        let size = if share < 0.5 { LARGE_REQUESTS.power(2.0 * share) } else { SMALL_REQUESTS.at(2.0 * (1.0 - share)) };
        (size as u64).clamp(1, LARGEST.as_u64())
    }
}

impl Iterator for Requests {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(Self::exceeded_by(above(self.0.next())))
    }
}

impl Responses {
    pub(crate) fn new(rate: f64, random: Stream) -> Self {
        let cached = Weibull { shape: of_rate(0.718, 0.357, rate), scale: 0.775 };
        let documents = Weibull { shape: of_rate(1.293, 0.316, rate), scale: 3.11 };
        Self { random, runs: [cached, documents], is_document: false, left: 0 }
    }

    /// The size of a document that a share of them exceeds.
    pub(crate) fn document_exceeded_by(share: f64) -> u64 {
        (DOWNLOADED.power(share) as u64).clamp(1, LARGEST.as_u64())
    }

    /// The size that such a share of the answers about cached copies has at the most.
    pub(crate) fn cached_up_to(share: f64) -> u64 {
        (CACHED.at(share) as u64).max(1)
    }
}

impl Iterator for Responses {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.left == 0 {
            self.is_document = !self.is_document;
            let run = self.runs[usize::from(self.is_document)];
            self.left = (run.draw(&mut self.random).ceil() as u64).max(1);
        }
        self.left -= 1;
        let share = self.random.uniform();
        Some(if self.is_document { Self::document_exceeded_by(1.0 - share) } else { Self::cached_up_to(share) })
    }
}

impl ServerDelays {
    pub(crate) fn new(random: Stream) -> Self {
        Self { random }
    }
}

impl Iterator for ServerDelays {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let per_second = Weibull { shape: 0.63, scale: 305.0 }.draw(&mut self.random);
        Some(Time::from_secs_f64(1.0 / per_second.max(10.0)))
    }
}

impl Weibull {
    /// The value that a share of the distribution exceeds.
    pub(crate) fn exceeded_by(self, share: f64) -> f64 {
        self.scale * libm::pow(-libm::log(share.max(f64::MIN_POSITIVE)), 1.0 / self.shape)
    }

    /// The tail probability above a value.
    #[cfg(test)]
    pub(crate) fn above(self, value: f64) -> f64 {
        libm::exp(-libm::pow(value / self.scale, self.shape))
    }

    fn draw(self, random: &mut Stream) -> f64 {
        self.exceeded_by(1.0 - random.uniform())
    }
}

/// The inverse logit of a + b log2(rate).
fn of_rate(a: f64, b: f64, rate: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-(a + b * libm::log2(rate))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest distance between the distribution of a sample and the one whose share above a value is given, times the
    /// root of the sample's size: the statistic of Kolmogorov and Smirnov, which exceeds 1.95 once in a thousand independent samples.
    fn distance(mut sample: Vec<f64>, above: impl Fn(f64) -> f64) -> f64 {
        sample.sort_by(f64::total_cmp);
        let n = sample.len() as f64;
        let at = |(rank, value): (usize, &f64)| {
            let expected = 1.0 - above(*value);
            (expected - rank as f64 / n).abs().max((expected - (rank + 1) as f64 / n).abs())
        };
        sample.iter().enumerate().map(at).fold(0.0, f64::max) * n.sqrt()
    }

    /// Spreads values in steps of one byte over their step.
    fn spread(sizes: impl Iterator<Item = u64>) -> Vec<f64> {
        let mut random = Stream::new(5, "spread");
        sizes.map(|size| size as f64 + random.uniform()).collect()
    }

    /// The share of sizes above a value, from the size that each share exceeds.
    fn share_above(value: f64, exceeded_by: impl Fn(f64) -> f64) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if exceeded_by(middle) > value {
                low = middle;
            } else {
                high = middle;
            }
        }
        0.5 * (low + high)
    }

    #[test]
    fn gaps_between_connections_have_their_weibull_distribution() {
        for (rate, seed) in [(200.0, 1), (800.0, 2)] {
            let arrivals = Arrivals::new(rate, Stream::new(seed, "arrivals"));
            let gaps: Vec<f64> = arrivals.take(20_000).collect();
            let mean = gaps.iter().sum::<f64>() / 20_000.0;
            assert!((mean * rate - 1.0).abs() < 0.03, "{mean}");
            let found = distance(gaps, |gap| Arrivals::gaps(rate).above(gap));
            assert!(found < 1.95, "{rate} per second: {found}");
        }
    }

    #[test]
    fn sizes_of_requests_have_their_distribution() {
        let sizes = spread(Requests::new(800.0, Stream::new(3, "requests")).take(20_000));
        let size = |share: f64| {
            if share < 0.5 {
                LARGE_REQUESTS.power(2.0 * share)
            } else {
                SMALL_REQUESTS.at(2.0 * (1.0 - share))
            }
        };
        let found = distance(sizes, |value| share_above(value, size));
        assert!(found < 1.95, "{found}");
    }

    #[test]
    fn sizes_of_documents_and_of_cached_answers_have_theirs() {
        let mut random = Stream::new(4, "sizes");
        let documents = spread((0..20_000).map(|_| Responses::document_exceeded_by(1.0 - random.uniform())));
        let found = distance(documents, |value| share_above(value, |share| DOWNLOADED.power(share)));
        assert!(found < 1.95, "documents: {found}");
        let cached = spread((0..20_000).map(|_| Responses::cached_up_to(random.uniform())));
        let found = distance(cached, |value| share_above(value, |share| CACHED.at(1.0 - share)));
        assert!(found < 1.95, "cached: {found}");
    }

    #[test]
    fn documents_and_cached_answers_come_in_runs() {
        let mut responses = Responses::new(800.0, Stream::new(6, "responses"));
        let (mut runs, mut documents, mut was_document) = ([0u32; 2], 0u32, false);
        for _ in 0..40_000 {
            responses.next();
            documents += u32::from(responses.is_document);
            runs[usize::from(responses.is_document)] += u32::from(responses.is_document != was_document);
            was_document = responses.is_document;
        }
        // The mean of ceil(X) is the sum of P(X > k) over k = 0, 1, ...
        let mean = |run: Weibull| (0..400).map(|k| run.above(f64::from(k))).sum::<f64>();
        let lengths = [f64::from(40_000 - documents) / f64::from(runs[0]), f64::from(documents) / f64::from(runs[1])];
        for (length, run) in lengths.into_iter().zip(responses.runs) {
            assert!((length / mean(run) - 1.0).abs() < 0.05, "{length} against {}", mean(run));
        }
    }

    #[test]
    fn servers_take_a_tenth_of_a_second_at_the_most() {
        let delays: Vec<f64> = ServerDelays::new(Stream::new(7, "d")).take(20_000).map(Time::as_secs_f64).collect();
        assert!(delays.iter().all(|delay| *delay <= 0.1));
        // The longest possible delay stands for all beyond it: P(X < 10) of the Weibull variable.
        let (slowest, expected) =
            (delays.iter().filter(|delay| **delay > 0.0999).count(), 1.0 - (-libm::pow(10.0 / 305.0, 0.63)).exp());
        assert!((slowest as f64 / 20_000.0 - expected).abs() < 0.01, "{slowest}, {expected}");
        let rates = delays.into_iter().filter(|delay| *delay < 0.0999).map(|delay| 1.0 / delay).collect();
        let weibull = Weibull { shape: 0.63, scale: 305.0 };
        let found = distance(rates, |rate| weibull.above(rate) / weibull.above(10.01));
        assert!(found < 1.95, "{found}");
    }

    #[test]
    fn fractional_noise_has_variance_one_and_the_correlation_of_its_order() {
        let mut noise = Fractional::new(0.33, 0.0, Stream::new(8, "noise"));
        let values: Vec<f64> = (0..200_000).map(|_| noise.next()).collect();
        let product = |lag: usize| values.iter().zip(&values[lag..]).map(|(a, b)| a * b).sum::<f64>() / 200_000.0;
        assert!((product(0) - 1.0).abs() < 0.05, "{}", product(0));
        // Correlation of fractional noise: r(1) = d / (1 - d), r(k) = r(k - 1) (k - 1 + d) / (k - d); of sums of successive pairs
        // (2 r(k) + r(k - 1) + r(k + 1)) / (2 + 2 r(1)).
        let mut r = vec![1.0];
        for k in 1..=21 {
            let k = f64::from(k);
            r.push(r[r.len() - 1] * (k - 1.0 + 0.33) / (k - 0.33));
        }
        for lag in [1, 5, 20] {
            let expected = (2.0 * r[lag] + r[lag - 1] + r[lag + 1]) / (2.0 + 2.0 * r[1]);
            assert!((product(lag) - expected).abs() < 0.05, "lag {lag}: {} against {expected}", product(lag));
        }
    }
}
