//! A Markov chain in time: states with exponential durations.

use perigee_units::{Stream, Time};

/// States that follow each other, each for an exponential time. The next state is drawn from the others by their weights.
///
/// The state at an instant depends only on seed and name, not on traffic. To make long idle periods cheap, the chain restarts from its
/// stationary distribution, with a new stream, at each multiple of [`CYCLES`] mean cycles.
#[derive(Clone)]
pub(crate) struct Chain {
    seed: u64,
    name: String,
    states: Vec<Stay>,
    block: Option<u64>,
    stream: Stream,
    state: usize,
    /// The time of the current state, as far as it is known.
    from: Time,
    until: Time,
}

/// A state of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stay {
    /// Mean duration.
    pub(crate) mean: Time,
    /// Weight in the choice of the state that follows another one.
    pub(crate) weight: f64,
}

impl Chain {
    pub(crate) fn new(states: Vec<Stay>, seed: u64, name: String) -> Self {
        let stream = Stream::new(seed, &name);
        Self { seed, name, states, block: None, stream, state: 0, from: Time::ZERO, until: Time::ZERO }
    }

    /// The number of the state at an instant.
    #[inline]
    pub(crate) fn at(&mut self, t: Time) -> usize {
        if t >= self.until || t < self.from {
            self.go_to(t);
        }
        self.state
    }

    /// The state returned last.
    pub(crate) fn at_last(&self) -> usize {
        self.state
    }

    /// Lower bound of how long the state returned last holds.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Goes through state changes up to `t`.
    fn go_to(&mut self, t: Time) {
        let length = cycle(&self.states).max(Time::from_nanos(1)) * CYCLES;
        let block = t.as_nanos() / length.as_nanos();
        let (begin, end) = (length * block, length * (block + 1));
        if self.block != Some(block) || t < self.from {
            self.block = Some(block);
            self.stream = Stream::new(self.seed, &format!("{}/{block}", self.name));
            self.state = self.choose(&shares(&self.states));
            (self.from, self.until) = (begin, begin + self.stay());
        }
        while self.until <= t {
            self.from = self.until;
            self.state = self.next();
            let stay = self.stay();
            self.until += stay;
        }
        self.until = self.until.min(end);
    }

    fn next(&mut self) -> usize {
        if let [_, _] = self.states[..] {
            return 1 - self.state;
        }
        let others = |(number, state): (usize, &Stay)| if number == self.state { 0.0 } else { state.weight };
        let weights: Vec<f64> = self.states.iter().enumerate().map(others).collect();
        self.choose(&weights)
    }

    /// Draws a state by weights, of which one is above zero.
    fn choose(&mut self, weights: &[f64]) -> usize {
        let mut left = self.stream.uniform() * weights.iter().sum::<f64>();
        for (number, weight) in weights.iter().enumerate().rev() {
            if left < *weight {
                return number;
            }
            left -= weight;
        }
        weights.iter().position(|weight| *weight > 0.0).unwrap_or(0)
    }

    fn stay(&mut self) -> Time {
        self.stream.exponential_time(self.states[self.state].mean).max(Time::from_nanos(1))
    }
}

/// Share of the time that a chain is in each of its states. From state i it goes to state j with the probability w(j) / (W - w(i)), with
/// W the sum of the weights; that is reversible, so that states are entered in proportion to w(i) (W - w(i)).
pub(crate) fn shares(states: &[Stay]) -> Vec<f64> {
    if let [_] = states {
        return vec![1.0];
    }
    let sum: f64 = states.iter().map(|state| state.weight).sum();
    let times = states.iter().map(|state| state.weight * (sum - state.weight) * state.mean.as_secs_f64());
    let total: f64 = times.clone().sum();
    times.map(|time| time / total).collect()
}

/// Mean durations of all states, added up.
fn cycle(states: &[Stay]) -> Time {
    states.iter().map(|state| state.mean).fold(Time::ZERO, |sum, mean| sum + mean)
}

/// Mean cycles after which a chain restarts.
const CYCLES: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chain() -> Chain {
        let stay = |ms, weight| Stay { mean: Time::from_millis(ms), weight };
        Chain::new(vec![stay(400, 4.0), stay(100, 2.0), stay(200, 1.0)], 5, "chain".to_owned())
    }

    #[test]
    fn a_chain_is_in_each_state_for_its_share_of_the_time() {
        let mut chain = chain();
        // Weights of 4, 2 and 1: entered in proportion to 12, 10 and 6, for 400, 100 and 200 ms.
        let wanted = [12.0 * 400.0, 10.0 * 100.0, 6.0 * 200.0].map(|time| time / 7_000.0);
        let (mut time, count) = ([0.0; 3], 2_000_000);
        (0..count).for_each(|ms| time[chain.at(Time::from_millis(ms))] += 1.0 / count as f64);
        for (share, (found, wanted)) in shares(&chain.states).into_iter().zip(time.into_iter().zip(wanted)) {
            assert!((share - wanted).abs() < 1e-12 && (found - wanted).abs() < 0.02, "{share}, {found}, {wanted}");
        }
    }

    proptest! {
        #[test]
        fn the_state_at_an_instant_does_not_depend_on_earlier_queries(asked in prop::collection::vec(0u64..2_000_000, 1..40)) {
            let mut one = chain();
            for t in asked.into_iter().map(Time::from_millis) {
                let mut fresh = chain();
                prop_assert_eq!(one.at(t), fresh.at(t));
                prop_assert_eq!(one.until(), fresh.until());
            }
        }
    }
}
