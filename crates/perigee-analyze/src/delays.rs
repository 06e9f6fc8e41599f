//! The times that packets take between two captures whose clocks differ.

/// A sample of times, of bounded size: each one at first, then every second, fourth and so on.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    kept_ns: Vec<i64>,
    every: u64,
    count: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self { kept_ns: Vec::new(), every: 1, count: 0 }
    }
}

impl Delays {
    pub(crate) fn add(&mut self, time_ns: i64) {
        self.count += 1;
        if !self.count.is_multiple_of(self.every) {
            return;
        }
        self.kept_ns.push(time_ns);
        if self.kept_ns.len() >= MOST {
            let mut number = 0;
            self.kept_ns.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.every *= 2;
        }
    }

    /// The 5th percentile; `None` without times.
    pub(crate) fn low(&self) -> Option<i64> {
        let mut kept = self.kept_ns.clone();
        kept.sort_unstable();
        kept.get(kept.len() / 20).copied()
    }
}

const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stays_small_and_keeps_its_low_end() {
        let mut delays = Delays::default();
        assert_eq!(delays.low(), None);
        (0..1_000_000).for_each(|time| delays.add(time));
        assert!(delays.kept_ns.len() < MOST);
        let low = delays.low().expect("times");
        assert!((49_000..51_000).contains(&low), "{low}");
    }
}
