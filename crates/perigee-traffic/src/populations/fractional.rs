//! Fractional sum-difference processes: Gaussian noise with long-range dependence, plus white noise.
//!
//! z(j) = (1 - theta)^(1/2) s(j) + theta^(1/2) n(j), where n is white and (1 - B)^d s = (1 + B) e, both with variance 1
//! (Cao, Cleveland, Sun, "Fractional sum-difference models for open-loop generation of Internet packet traffic", 2004). The
//! fractional noise is the autoregression of Hosking, "Modeling persistence in hydrological time series using fractional differencing",
//! Water Resources Research 20, 1984, cut off at order 999.

use perigee_units::Stream;

/// Normal deviates with the dependence of a fractional sum-difference process.
#[derive(Clone, Debug)]
pub(crate) struct Fractional {
    random: Stream,
    /// Weights of the fractional part and of the white part.
    weights: [f64; 2],
    /// Coefficients of the autoregression, that of the oldest value first.
    coefficients: Box<[f64; ORDER]>,
    /// Standard deviation of the innovation, given the earlier values.
    innovation: f64,
    /// Earlier values, stored twice, so that the latest ones are always contiguous.
    values: Vec<f64>,
    next: usize,
    before: f64,
}

impl Fractional {
    /// The process with fractional order `d` and share `white` of white noise in its variance, started in its steady state.
    pub(crate) fn new(d: f64, white: f64, mut random: Stream) -> Self {
        // Variance of fractional noise with innovations of variance 1: Gamma(1 - 2 d) / Gamma(1 - d)^2.
        let variance = libm::tgamma(1.0 - 2.0 * d) / (libm::tgamma(1.0 - d) * libm::tgamma(1.0 - d));
        // Variance of the sum of two successive values, whose correlation is d / (1 - d).
        let of_sum = variance * (2.0 + 2.0 * d / (1.0 - d));
        let weights = [((1.0 - white) / of_sum).sqrt(), white.sqrt()];
        let (mut phi, mut left, mut values) = (Vec::with_capacity(ORDER), variance, Vec::with_capacity(2 * ORDER));
        values.push(random.normal() * left.sqrt());
        // Durbin-Levinson: the coefficients of order t from those of order t - 1, the latest value's first.
        for t in 1..=ORDER {
            let last = d / (t as f64 - d);
            lengthen(&mut phi, last);
            left *= 1.0 - last * last;
            if t < ORDER {
                let mean: f64 = phi.iter().zip(values.iter().rev()).map(|(phi, value)| phi * value).sum();
                values.push(mean + random.normal() * left.sqrt());
            }
        }
        phi.reverse();
        let before = values[ORDER - 1];
        values.extend_from_within(..);
        let coefficients = phi.try_into().expect("an autoregression has a coefficient for each order");
        Self { random, weights, coefficients, innovation: left.sqrt(), values, next: 0, before }
    }

    /// The next value.
    pub(crate) fn next(&mut self) -> f64 {
        let values = self.values[self.next..].first_chunk().expect("the latest values are contiguous");
        let mean = dot(&self.coefficients, values);
        let value = mean + self.random.normal() * self.innovation;
        self.values[self.next] = value;
        self.values[self.next + ORDER] = value;
        self.next = (self.next + 1) % ORDER;
        let sum = value + std::mem::replace(&mut self.before, value);
        sum * self.weights[0] + self.random.normal() * self.weights[1]
    }
}

/// The coefficients of the next order from these, the latest value's first, and the last one of that order.
fn lengthen(phi: &mut Vec<f64>, last: f64) {
    let half = phi.len() / 2;
    let (before, after) = phi.split_at_mut(half);
    for (a, b) in before.iter_mut().zip(after.iter_mut().rev()) {
        (*a, *b) = (*a - last * *b, *b - last * *a);
    }
    if before.len() < after.len() {
        after[0] -= last * after[0];
    }
    phi.push(last);
}

/// The dot product, in eight parts of fixed order, which the processor adds in parallel: the same sums with registers of any width.
fn dot(a: &[f64; ORDER], b: &[f64; ORDER]) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX.
        return unsafe { dot_by_avx(a, b) };
    }
    dot_in_parts(a, b)
}

/// [`dot`] with registers for four numbers. A product is rounded before it is added, as everywhere: AVX has no fused operation.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn dot_by_avx(a: &[f64; ORDER], b: &[f64; ORDER]) -> f64 {
    dot_in_parts(a, b)
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for each set of instructions")]
fn dot_in_parts(a: &[f64; ORDER], b: &[f64; ORDER]) -> f64 {
    let mut sums = [0.0; PARTS];
    let mut at = 0;
    while at < ORDER {
        for part in 0..PARTS {
            sums[part] += a[at + part] * b[at + part];
        }
        at += PARTS;
    }
    sums.iter().sum()
}

/// The tail probability of the standard normal distribution above `z`.
pub(crate) fn above(z: f64) -> f64 {
    0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2)
}

/// The order of the autoregression: a multiple of the parts.
const ORDER: usize = 1000;
const PARTS: usize = 8;
const _: () = assert!(ORDER % PARTS == 0);
