//! PIE: R. Pan, P. Natarajan, F. Baker, G. White, "Proportional integral controller enhanced", RFC 8033, 2017.
//!
//! Arrivals are dropped with a probability that a controller updates at fixed instants, from how far the wait is from its target
//! and how much it has changed. In a FIFO whose departures are known an arrival's wait at any instant is known too, and does not
//! change between two arrivals other than by the time that passes: the updates that have come due are made up for at the next
//! arrival, each with the wait of its own instant, and the link stays feed-forward.
//!
//! Differences from the RFC
//! - The wait is exact in place of an estimate (section 5.2).
//! - The controller is always active; it is not switched off while the queue is short (section 5.3, optional).
//! - The probability decays while no packet waits, as in section 4.2 and appendix A; in appendix B it decays already while
//!   waits are below half of the target.
//! - The probability does not depend on the size of the packet (section 4.1, optional). The mean packet has 1500 bytes.
//!
//! Units: seconds within the controller; bytes with the link's overhead.

use perigee_units::{Stream, Time};

use super::backlog::Backlog;
use super::spec::{PieSpec, MEAN_PACKET};
use crate::packet::Ecn;
use crate::server::Server;

/// The controller and what it knows of the last update and the last drop.
pub(super) struct Pie {
    spec: PieSpec,
    probability: f64,
    /// Wait at the last update.
    previous: Time,
    next_update: Time,
    /// For how long arrivals are let through, whatever the probability.
    burst_left: Time,
    /// Sum of the probabilities of the arrivals since the last drop.
    accumulated: f64,
}

impl Pie {
    /// A controller of a queue that is empty.
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

    /// Whether an arrival is dropped; where it can be marked, and the probability is low, it is marked instead.
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
        let marks = self.spec.ecn && *ecn != Ecn::NotCapable && self.probability < self.spec.mark_below.as_f64();
        if marks {
            *ecn = Ecn::Marked;
        }
        !marks
    }

    /// An arrival was refused because the queue is full: the sum of the probabilities begins anew, as after any drop
    /// (section 5.4, appendix B).
    pub(super) fn on_full(&mut self) {
        self.accumulated = 0.0;
    }

    /// Makes the updates that are due by `now`, of a server that is busy until `busy`.
    fn catch_up(&mut self, now: Time, busy: Time) {
        while self.next_update <= now {
            let wait = busy - self.next_update;
            if wait == Time::ZERO && self.is_at_rest() {
                // Nothing changes until the next arrival: the updates up to it are skipped.
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

    /// One step of the controller (section 4.2), with the cap of section 5.5, the decay of an empty queue and the burst
    /// allowance of section 4.4: p += alpha (wait - target) + beta (wait - previous wait), scaled by [`gain`].
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

    /// Whether an arrival is chosen (section 4.1), spread by the sum of the probabilities since the last one (section 5.4).
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

/// By how much a step is scaled at a drop probability: small probabilities change in small steps (section 4.2).
fn gain(probability: f64) -> f64 {
    let step = GAINS.iter().find(|(below, _)| probability < *below);
    step.map_or(1.0, |(_, divisor)| 1.0 / divisor)
}

/// Probabilities below which a step is divided (section 4.2).
const GAINS: [(f64, f64); 6] = [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
/// Probability from which on a step is at most [`CAP`] (section 5.5).
const CAP_FROM: f64 = 0.1;
const CAP: f64 = 0.02;
/// What an update leaves of the probability of an empty queue (section 4.2).
const IDLE_DECAY: f64 = 0.98;
/// Probability below which a short wait lets all arrivals through (section 4.1).
const CALM_BELOW: f64 = 0.2;
/// Sums of probabilities between which chance decides (section 5.4).
const LEAST_SUM: f64 = 0.85;
const MOST_SUM: f64 = 8.5;

#[cfg(test)]
#[path = "pie_tests.rs"]
mod tests;
