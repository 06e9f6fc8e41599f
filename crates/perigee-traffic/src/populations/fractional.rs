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
    /// Parts of the next dot products, without the latest values: those of a block, of which some are used up.
    block: [[f64; PARTS]; BLOCK],
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
        let block = [[0.0; PARTS]; BLOCK];
        Self { random, weights, coefficients, innovation: left.sqrt(), values, next: 0, block, before }
    }

    /// The next value.
    pub(crate) fn next(&mut self) -> f64 {
        let at = self.next % BLOCK;
        if at == 0 {
            let known = self.values[self.next..].first_chunk().expect("the latest values are contiguous");
            self.block = begin_dots(&self.coefficients, known);
        }
        let latest = self.coefficients[KNOWN..].iter().zip(&self.values[self.next + KNOWN..]);
        let mean: f64 = self.block[at].iter().zip(latest).map(|(sum, (a, b))| sum + a * b).sum();
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

/// The dot products of `a` with a block of windows of `b`, the first of which begins with it, as far as all their values are known: in
/// eight parts of fixed order, which the processor adds in parallel. The same sums with registers of any width, alone or in a block.
fn begin_dots(a: &[f64; ORDER], b: &[f64; KNOWN + BLOCK]) -> [[f64; PARTS]; BLOCK] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX.
        return unsafe { begin_dots_by_avx(a, b) };
    }
    begin_dots_in_parts(a, b)
}

/// [`begin_dots`] with registers for four numbers. A product is rounded before it is added, as everywhere: AVX has no fused operation.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn begin_dots_by_avx(a: &[f64; ORDER], b: &[f64; KNOWN + BLOCK]) -> [[f64; PARTS]; BLOCK] {
    begin_dots_in_parts(a, b)
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for each set of instructions")]
fn begin_dots_in_parts(a: &[f64; ORDER], b: &[f64; KNOWN + BLOCK]) -> [[f64; PARTS]; BLOCK] {
    let mut sums = [[0.0; PARTS]; BLOCK];
    let mut at = 0;
    while at < KNOWN {
        for first in 0..BLOCK {
            for part in 0..PARTS {
                sums[first][part] += a[at + part] * b[first + at + part];
            }
        }
        at += PARTS;
    }
    sums
}

/// The tail probability of the standard normal distribution above `z`.
pub(crate) fn above(z: f64) -> f64 {
    0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2)
}

/// The order of the autoregression: a multiple of the parts and of the block.
const ORDER: usize = 1000;
const PARTS: usize = 8;
/// Number of values of which the dot products are begun together.
const BLOCK: usize = 4;
/// Products of a window whose values are known when a block begins.
const KNOWN: usize = ORDER - PARTS;
const _: () = assert!(ORDER.is_multiple_of(PARTS) && ORDER.is_multiple_of(BLOCK) && BLOCK <= PARTS);

#[cfg(test)]
mod tests {
    use super::*;

    /// The dot product with all values at once, in the same parts.
    fn dot(process: &Fractional) -> f64 {
        let mut sums = [0.0; PARTS];
        for (at, a) in process.coefficients.iter().enumerate() {
            sums[at % PARTS] += a * process.values[process.next + at];
        }
        sums.iter().sum()
    }

    #[test]
    fn values_begun_in_blocks_are_those_of_whole_dot_products_to_the_last_bit() {
        let mut process = Fractional::new(0.33, 0.2, Stream::new(1, "noise"));
        for _ in 0..=(ORDER + 2 * BLOCK) {
            let (mean, innovation) = (dot(&process), process.random.clone().normal() * process.innovation);
            process.next();
            assert_eq!(process.before.to_bits(), (mean + innovation).to_bits());
        }
    }
}
