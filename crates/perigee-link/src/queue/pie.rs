//! PIE: R. Pan, P. Natarajan, F. Baker, G. White, "Proportional integral controller enhanced", RFC 8033, 2017.
//!
//! Arrivals are dropped with a probability that a controller updates at fixed instants, from the distance of the queuing delay to its
//! target and from the delay's change. In a FIFO with known departures the delay at any instant is known, and between two arrivals changes
//! only with time. Updates that became due are therefore made at the next arrival, each with the delay of its own instant, and the link
//! remains feed-forward.
//!
//! Differences from the RFC
//! - The delay is exact instead of estimated (section 5.2).
//! - The controller is always active, even while the queue is short (section 5.3, optional).
//! - The probability decays while no packet waits, as in section 4.2 and appendix A; in appendix B it already decays while delays are below
//!   half of the target.
//! - The probability does not depend on the packet size (section 4.1, optional). The mean packet has 1500 bytes.
//!
//! Units: seconds within the controller; bytes with the link's overhead.

use perigee_units::{Stream, Time};

use super::backlog::Backlog;
use super::spec::{PieSpec, MEAN_PACKET};
use crate::packet::Ecn;
use crate::server::Server;

/// The controller, with its state at the last update and the last drop.
pub(super) struct Pie {
    spec: PieSpec,
    probability: f64,
    /// Queuing delay at the last update.
    previous: Time,
    next_update: Time,
    /// Remaining time in which all arrivals are accepted.
    burst_left: Time,
    /// Sum of the probabilities of the arrivals since the last drop.
    accumulated: f64,
}

impl Pie {
    pub(super) fn new(spec: &PieSpec) -> Self {
        Self {
            spec: spec.clone(),
            probability: 0.0,
            previous: Time::ZERO,
            next_update: spec.update,
            burst_left: spec.burst,
            accumulated: 0.0,
        }
    }

    /// Whether an arrival is dropped; at a low probability it is marked instead, if possible.
    pub(super) fn drops(
        &mut self,
        now: Time,
        backlog: &Backlog,
        server: &Server,
        ecn: &mut Ecn,
        draws: &mut Stream,
    ) -> bool {
        self.catch_up(now, server.busy_until());
        let hit = self.burst_left == Time::ZERO && self.hits(backlog.bytes(), draws);
        if !hit {
            return false;
        }
        self.accumulated = 0.0;
        let marks = self.spec.ecn && ecn.is_capable() && self.probability < self.spec.mark_below.as_f64();
        if marks {
            *ecn = Ecn::Marked;
        }
        !marks
    }

    /// An arrival was refused by a full queue: the sum of the probabilities restarts, as after any drop (section 5.4, appendix B).
    pub(super) fn on_full(&mut self) {
        self.accumulated = 0.0;
    }

    /// Makes the updates due by `now`; the server is busy until `busy`.
    fn catch_up(&mut self, now: Time, busy: Time) {
        while self.next_update <= now {
            let wait = busy - self.next_update;
            if wait == Time::ZERO && self.is_at_rest() {
                // Nothing changes until the next arrival, so the updates in between are skipped.
                let missed = (now - self.next_update).as_nanos() / self.spec.update.as_nanos().max(1);
                self.next_update += self.spec.update * (missed + 1);
                return;
            }
            self.update(wait);
            self.next_update += self.spec.update;
        }
    }

    fn is_at_rest(&self) -> bool {
        self.probability == 0.0 && self.previous == Time::ZERO && self.burst_left == self.spec.burst
    }

    /// One update (section 4.2), with the cap of section 5.5, the decay of an empty queue and the burst allowance of section 4.4: p +=
    /// alpha (delay - target) + beta (delay - previous delay), scaled by [`gain`].
    fn update(&mut self, wait: Time) {
        let [wait_s, target_s, previous_s] = [wait, self.spec.target, self.previous].map(Time::as_secs_f64);
        let p = self.spec.alpha * (wait_s - target_s) + self.spec.beta * (wait_s - previous_s);
        let mut step = p * gain(self.probability);
        if self.probability >= CAP_FROM {
            step = step.min(CAP);
        }
        self.probability += step;
        if wait == Time::ZERO && self.previous == Time::ZERO {
            self.probability *= IDLE_DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst_left -= self.spec.update;
        let low = |wait: Time| wait * 2 < self.spec.target;
        if self.probability == 0.0 && low(wait) && low(self.previous) {
            self.burst_left = self.spec.burst;
        }
        self.previous = wait;
    }

    /// Whether an arrival is selected (section 4.1), spaced by the sum of the probabilities since the last one (section 5.4).
    fn hits(&mut self, backlog: u64, draws: &mut Stream) -> bool {
        let calm = self.previous * 2 < self.spec.target && self.probability < CALM_BELOW;
        if calm || backlog <= 2 * MEAN_PACKET {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated < LEAST_SUM {
            return false;
        }
        self.accumulated >= MOST_SUM || draws.chance(self.probability)
    }
}

/// Scale of an update: small probabilities change in small steps (section 4.2).
fn gain(probability: f64) -> f64 {
    let step = GAINS.iter().find(|(below, _)| probability < *below);
    step.map_or(1.0, |(_, divisor)| 1.0 / divisor)
}

/// Divisors of an update below these probabilities (section 4.2).
const GAINS: [(f64, f64); 6] = [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
/// Probability from which an update is limited to [`CAP`] (section 5.5).
const CAP_FROM: f64 = 0.1;
const CAP: f64 = 0.02;
/// Factor of the probability per update of an empty queue (section 4.2).
const IDLE_DECAY: f64 = 0.98;
/// Probability below which a short delay lets all arrivals through (section 4.1).
const CALM_BELOW: f64 = 0.2;
/// Bounds of the sum of probabilities between which a random draw decides (section 5.4).
const LEAST_SUM: f64 = 0.85;
const MOST_SUM: f64 = 8.5;

#[cfg(test)]
#[path = "pie_tests.rs"]
mod tests;
