//! Streams of random numbers with names, so that adding one process moves no other's draws.
//!
//! Generator: xoshiro256++ 1.0 (Blackman, Vigna, "Scrambled Linear Pseudorandom Number Generators", ACM TOMS 2021),
//! seeded by `SplitMix64` from the study's seed and the FNV-1a hash of the stream's name. This is version 1 of the scheme;
//! results name it. Logarithms come from the `libm` crate, so draws are the same on every platform.

use crate::{fnv1a, Time};

/// A deterministic stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    state: [u64; 4],
}

impl Stream {
    /// The version of the seeding scheme and generator; a change of either changes it.
    pub const VERSION: u32 = 1;

    /// The stream of this name under this seed.
    ///
    /// ```
    /// use perigee_units::Stream;
    /// let (mut a, mut b) = (Stream::new(1, "link/loss"), Stream::new(1, "link/delay"));
    /// assert_ne!(a.next_u64(), b.next_u64());
    /// ```
    #[inline]
    pub fn new(seed: u64, name: &str) -> Self {
        let mut mixer = seed ^ fnv1a(name.bytes());
        Self { state: std::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `[0, 1)`, with 53 bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..bound`; zero where `bound` is zero. The bias is below 2^-32 for bounds below 2^32.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.uniform())
    }

    /// Exponential length of time with the given mean.
    pub fn exponential_time(&mut self, mean: Time) -> Time {
        Time::from_secs_f64(self.exponential(mean.as_secs_f64()))
    }

    /// Standard normal (Box-Muller, the cosine half).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log1p(-self.uniform()));
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }

    /// Log-normal with the given median and the standard deviation `sigma` of its logarithm.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * libm::exp(sigma * self.normal())
    }

    /// Pareto with the given minimum and shape: P(X > x) = (minimum / x)^shape.
    pub fn pareto(&mut self, minimum: f64, shape: f64) -> f64 {
        minimum / libm::pow(1.0 - self.uniform(), 1.0 / shape)
    }
}

/// Random numbers by position: any of them in one step, in any order.
///
/// Generator: `SplitMix64` (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), whose
/// state at a position is a multiplication away. Part of version 1 of the scheme.
#[derive(Clone, Copy, Debug)]
pub struct Positions {
    start: u64,
}

impl Positions {
    /// The numbers of this name under this seed.
    ///
    /// ```
    /// use perigee_units::Positions;
    /// let draws = Positions::new(1, "link/rate/grants");
    /// assert_eq!(draws.below(7, 100), draws.below(7, 100));
    /// assert_ne!(draws.below(7, u64::MAX), draws.below(8, u64::MAX));
    /// ```
    pub fn new(seed: u64, name: &str) -> Self {
        Self { start: Stream::new(seed, name).next_u64() }
    }

    /// Uniform in `0..bound` at a position; zero where `bound` is zero. The bias is below 2^-32 for bounds below 2^32.
    #[inline]
    pub fn below(&self, position: u64, bound: u64) -> u64 {
        let mut state = self.start.wrapping_add(position.wrapping_mul(STEP));
        ((u128::from(split_mix(&mut state)) * u128::from(bound)) >> 64) as u64
    }
}

/// The number that `SplitMix64` adds to its state per number: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_draws_never_change() {
        let mut stream = Stream::new(1, "link/loss");
        let draws: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        assert_eq!(draws, GOLDEN, "a new generator needs a new Stream::VERSION");
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut stream = Stream::new(7, "moments");
        let n = 200_000;
        let mean =
            |f: &mut dyn FnMut(&mut Stream) -> f64, s: &mut Stream| (0..n).map(|_| f(s)).sum::<f64>() / f64::from(n);
        assert!((mean(&mut Stream::uniform, &mut stream) - 0.5).abs() < 0.005);
        assert!((mean(&mut |s| s.exponential(2.0), &mut stream) - 2.0).abs() < 0.02);
        assert!(mean(&mut Stream::normal, &mut stream).abs() < 0.01);
        assert!((mean(&mut |s| s.normal().powi(2), &mut stream) - 1.0).abs() < 0.02);
        assert!((mean(&mut |s| s.pareto(1.0, 3.0), &mut stream) - 1.5).abs() < 0.02);
    }

    #[test]
    fn numbers_by_position_are_uniform_and_those_of_neighbours_independent() {
        let draws = Positions::new(7, "positions");
        let values: Vec<f64> = (0..200_000).map(|k| draws.below(k, 1 << 40) as f64 / 2f64.powi(40) - 0.5).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| v * v).sum::<f64>() / n;
        let neighbours = values.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / n / variance;
        assert!(mean.abs() < 0.003 && neighbours.abs() < 0.01, "mean {mean}, neighbours {neighbours}");
        assert!((variance * 12.0 - 1.0).abs() < 0.01, "variance {variance}");
    }

    const GOLDEN: [u64; 3] = [16_839_164_498_789_099_377, 6_190_935_931_980_715_383, 1_917_519_665_504_174_639];
}
