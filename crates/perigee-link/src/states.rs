//! States of a link that change rate, delay and loss together, such as clear sky and rain, or a free view and trees before it.
//!
//! Packets are lost while round trips are long, because both have one cause. A process of its own for each would lose packets at one time
//! and delay them at another.
//!
//! Both directions of a link are in the same state, where both have the same states.

use std::sync::Arc;

use perigee_units::{encode_struct, Rate, Ratio, Stream, Time};

use crate::chain::{shares, Chain, Stay};
use crate::slots::of_both_directions;

/// A state of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkState {
    /// Mean of its exponential duration.
    pub stay: Time,
    /// Weight in the choice of the state that follows another one.
    pub weight: f64,
    /// Share of the link's rate that is left.
    pub rate: Ratio,
    /// Delay that it adds.
    pub delay: Time,
    /// Probability that a packet is lost.
    pub loss: Ratio,
}

encode_struct!(LinkState { stay, weight, rate, delay, loss });

impl LinkState {
    /// The share of the time that a link is in each of its states; all of it in one alone.
    ///
    /// ```
    /// use perigee_link::LinkState;
    /// use perigee_units::{Ratio, Time};
    /// let clear = LinkState { stay: Time::from_secs(9), weight: 1.0, rate: Ratio::ONE, delay: Time::ZERO, loss: Ratio::ZERO };
    /// let shares = LinkState::shares(&[clear, LinkState { stay: Time::from_secs(1), ..clear }]);
    /// assert!((shares[0] - 0.9).abs() < 1e-12);
    /// ```
    pub fn shares(states: &[Self]) -> Vec<f64> {
        shares(&stays(states))
    }

    /// The rate of the link in this state.
    fn of(&self, rate: Rate) -> Rate {
        if rate == Rate::UNLIMITED || self.rate == Ratio::ONE {
            return rate;
        }
        let least = rate.as_bps().min(1);
        Rate::from_bps(((rate.as_bps() as f64 * self.rate.as_f64()).round() as u64).max(least))
    }
}

/// The states of a link over time.
#[derive(Clone)]
pub(crate) struct StatesOverTime {
    states: Arc<Vec<LinkState>>,
    chain: Chain,
}

impl StatesOverTime {
    /// `states` are one or more; `name` is that of the link with its direction.
    pub(crate) fn new(states: &Arc<Vec<LinkState>>, seed: u64, name: &str) -> Self {
        let chain = Chain::new(stays(states), seed, format!("{}/state", of_both_directions(name)));
        Self { states: states.clone(), chain }
    }

    /// The state at an instant, and a lower bound of how long it holds.
    #[inline]
    pub(crate) fn at(&mut self, t: Time) -> (LinkState, Time) {
        (self.states[self.chain.at(t)], self.chain.until())
    }

    /// A rate that holds from `t` until `until`, in the state of `t`, and how long that holds. A link that never sends again stays so.
    pub(crate) fn modulate(&mut self, t: Time, (rate, until): (Rate, Time)) -> (Rate, Time) {
        if rate == Rate::ZERO {
            return (rate, until);
        }
        let (state, state_until) = self.at(t);
        (state.of(rate), until.min(state_until))
    }
}

/// Loss and delay of the states, for the packets that leave the server.
pub(crate) struct StatedPath {
    states: StatesOverTime,
    draws: Stream,
    /// Until when no packet is lost and the delay is that of the latest packet.
    steady_until: Time,
}

impl StatedPath {
    pub(crate) fn new(states: &Arc<Vec<LinkState>>, seed: u64, name: &str) -> Self {
        let draws = Stream::new(seed, &format!("{name}/states/loss"));
        Self { states: StatesOverTime::new(states, seed, name), draws, steady_until: Time::ZERO }
    }

    /// The delay that is added to a packet that leaves at `t`; `None` if it is lost.
    pub(crate) fn carry(&mut self, t: Time) -> Option<Time> {
        let (state, until) = self.states.at(t);
        let loss = state.loss.as_f64();
        self.steady_until = if loss > 0.0 { Time::ZERO } else { until };
        (loss <= 0.0 || !self.draws.chance(loss)).then_some(state.delay)
    }

    /// Lower bound of the time without losses, draws and changes of the delay, after the latest packet.
    pub(crate) fn steady_until(&self) -> Time {
        self.steady_until
    }
}

fn stays(states: &[LinkState]) -> Vec<Stay> {
    states.iter().map(|state| Stay { mean: state.stay, weight: state.weight }).collect()
}
