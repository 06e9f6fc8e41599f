//! Autocorrelated standard normal values over time, one per interval: the random part of rates and delays.

use perigee_units::{Stream, Time};

/// A first-order autoregression: g(k) = rho g(k-1) + sqrt(1 - rho^2) e(k), with standard normal e and rho = exp(-every / memory).
///
/// The value of an interval depends only on the seed, the name and the interval's number, not on earlier queries: draws are made for every
/// interval. To make long idle periods cheap, the sequence restarts from its stationary distribution, with a new stream, at each multiple
/// of [`BLOCK`] intervals.
#[derive(Clone, Debug)]
pub(crate) struct Wander {
    seed: u64,
    name: String,
    every: u64,
    rho: f64,
    kick: f64,
    /// The interval of the latest draw; `None` before the first.
    newest: Option<u64>,
    stream: Stream,
    /// Values of the latest intervals of this block, by number modulo the length.
    recent: Box<[f64; RECENT as usize]>,
}

impl Wander {
    pub(crate) fn new(seed: u64, name: String, every: Time, memory: Time) -> Self {
        let rho = if memory == Time::ZERO { 0.0 } else { libm::exp(-every.as_secs_f64() / memory.as_secs_f64()) };
        Self {
            seed,
            every: every.as_nanos().max(1),
            rho,
            kick: (1.0 - rho * rho).sqrt(),
            newest: None,
            stream: Stream::new(seed, &name),
            name,
            recent: Box::new([0.0; RECENT as usize]),
        }
    }

    /// The interval in which `t` lies.
    pub(crate) fn interval(&self, t: Time) -> u64 {
        t.as_nanos() / self.every
    }

    /// Start of an interval.
    pub(crate) fn start(&self, interval: u64) -> Time {
        Time::from_nanos(interval.saturating_mul(self.every))
    }

    /// The value of an interval.
    pub(crate) fn value(&mut self, interval: u64) -> f64 {
        let block = interval / BLOCK * BLOCK;
        let mut next = match self.newest {
            Some(newest) if newest >= block && newest < block + BLOCK => {
                if interval <= newest && newest - interval < RECENT {
                    return self.recent[(interval % RECENT) as usize];
                }
                newest + 1
            }
            _ => block,
        };
        if next > interval {
            // The value is no longer stored: draw the block again from its start.
            next = block;
        }
        let mut g = self.recent[(next.wrapping_sub(1) % RECENT) as usize];
        if next == block {
            self.stream = Stream::new(self.seed, &format!("{}/{}", self.name, block / BLOCK));
            g = self.stream.normal();
            self.recent[(next % RECENT) as usize] = g;
            next += 1;
        }
        while next <= interval {
            g = self.rho * g + self.kick * self.stream.normal();
            self.recent[(next % RECENT) as usize] = g;
            next += 1;
        }
        self.newest = Some(interval);
        g
    }

    /// The value of an interval if it is stored.
    pub(crate) fn kept(&self, interval: u64) -> Option<f64> {
        let newest = self.newest?;
        let same_block = newest / BLOCK == interval / BLOCK;
        (same_block && interval <= newest && newest - interval < RECENT)
            .then(|| self.recent[(interval % RECENT) as usize])
    }
}

/// Intervals after which the sequence restarts.
const BLOCK: u64 = 4096;

/// Number of stored values.
const RECENT: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wander(memory_ms: u64) -> Wander {
        Wander::new(3, "w".into(), Time::from_millis(10), Time::from_millis(memory_ms))
    }

    #[test]
    fn values_are_standard_normal_with_the_given_autocorrelation() {
        let mut w = wander(100);
        let values: Vec<f64> = (0..200_000).map(|k| w.value(k)).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let lag = values.windows(11).map(|v| v[0] * v[10]).sum::<f64>() / n / variance;
        assert!(mean.abs() < 0.05, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.05, "variance {variance}");
        assert!((lag - (-1.0f64).exp()).abs() < 0.05, "autocorrelation after the memory {lag}");
    }

    proptest! {
        #[test]
        fn the_value_of_an_interval_does_not_depend_on_earlier_queries(asked in prop::collection::vec(0u64..20_000, 1..40)) {
            let mut w = wander(50);
            for interval in asked {
                prop_assert_eq!(w.value(interval).to_bits(), wander(50).value(interval).to_bits());
                prop_assert!(w.kept(interval).is_some());
            }
        }
    }
}
