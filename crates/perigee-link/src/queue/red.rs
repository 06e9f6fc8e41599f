//! Random early detection: S. Floyd, V. Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM
//! Transactions on Networking 1993, in bytes or in packets, with the gentle slope above the upper threshold. Marks as of RFC 3168.
//! Adaptive: S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED: an algorithm for increasing the robustness of RED's active queue
//! management", 2001.
//!
//! Differences from the papers
//! - The probability adapts at the first arrival after each half second, as in ns-2, not by a timer.
//!
//! Units: bytes with the link's overhead, or packets; seconds.

use perigee_units::{Bytes, Stream, Time};

use super::backlog::Backlog;
use super::spec::{RedSpec, RedThresholds};
use crate::packet::Ecn;
use crate::server::Server;

/// The average backlog and the counts since the last selected packet.
pub(super) struct Red {
    in_packets: bool,
    min: f64,
    max: f64,
    max_probability: f64,
    weight: f64,
    ecn: bool,
    average: f64,
    /// Packets since the last selected one; `None` while the average is below the lower threshold.
    since: Option<u32>,
    /// Time of the next adaptation of `max_probability`; `None` without adaptation.
    next_adaptation: Option<Time>,
}

impl Red {
    pub(super) fn new(spec: &RedSpec) -> Self {
        let (in_packets, min, max) = match spec.thresholds {
            RedThresholds::Bytes { min, max } => (false, min.as_u64() as f64, max.as_u64() as f64),
            RedThresholds::Packets { min, max } => (true, f64::from(min), f64::from(max)),
        };
        Self {
            in_packets,
            min,
            max,
            max_probability: spec.max_probability.as_f64(),
            weight: spec.weight.as_f64(),
            ecn: spec.ecn,
            average: 0.0,
            since: None,
            next_adaptation: spec.adaptive.then_some(ADAPTATION),
        }
    }

    /// Whether an arrival is dropped; while the average is below twice `max`, it is marked instead if possible.
    pub(super) fn drops(
        &mut self,
        now: Time,
        size: u32,
        backlog: &Backlog,
        server: &Server,
        ecn: &mut Ecn,
        draws: &mut Stream,
    ) -> bool {
        if backlog.bytes() == 0 {
            let packet = server.rate_at(now).time_to_send(Bytes::new(u64::from(size))).as_secs_f64();
            self.decay((now - backlog.last()).as_secs_f64() / packet.max(1e-9));
        }
        self.observe(if self.in_packets { backlog.packets() as f64 } else { backlog.bytes() as f64 });
        if self.next_adaptation.is_some_and(|at| now >= at) {
            self.adapt();
            self.next_adaptation = Some(now + ADAPTATION);
        }
        let hit = self.hits(draws);
        let marks = hit && self.ecn && ecn.is_capable() && self.average < 2.0 * self.max;
        if marks {
            *ecn = Ecn::Marked;
        }
        hit && !marks
    }

    /// Lowers the average as if `packets` arrivals had found an empty queue.
    fn decay(&mut self, packets: f64) {
        self.average *= libm::pow(1.0 - self.weight, packets);
    }

    /// Updates the average: avg + w (backlog - avg).
    fn observe(&mut self, backlog: f64) {
        self.average += self.weight * (backlog - self.average);
    }

    /// Adapts `max_probability`: a constant increase while the average is above its target range, a multiplicative decrease while it is
    /// below (2001, figure 1).
    fn adapt(&mut self) {
        let [low, high] = TARGET.map(|share| self.min + share * (self.max - self.min));
        if self.average > high && self.max_probability < MOST_PROBABILITY {
            self.max_probability += INCREASE.min(self.max_probability / 4.0);
        } else if self.average < low && self.max_probability > LEAST_PROBABILITY {
            self.max_probability *= DECREASE;
        }
    }

    /// Whether an arrival is selected, with probability p / (1 - n p), n packets after the last one, which spaces them evenly; p =
    /// `max_probability` (avg - min) / (max - min), then rising to one at twice max.
    fn hits(&mut self, draws: &mut Stream) -> bool {
        if self.average < self.min {
            self.since = None;
            return false;
        }
        let p = if self.average < self.max {
            self.max_probability * (self.average - self.min) / (self.max - self.min)
        } else {
            self.max_probability + (1.0 - self.max_probability) * (self.average - self.max) / self.max
        };
        let n = self.since.map_or(0, |n| n + 1);
        let hit = draws.chance(p / (1.0 - f64::from(n) * p).max(p.max(1e-9)));
        self.since = Some(if hit { 0 } else { n });
        hit
    }
}

/// Interval between adaptations (2001, figure 1).
const ADAPTATION: Time = Time::from_millis(500);
/// Target range between the thresholds (2001, figure 1).
const TARGET: [f64; 2] = [0.4, 0.6];
/// Maximum increase of the probability, and factor of its decrease (2001, figure 1).
const INCREASE: f64 = 0.01;
const DECREASE: f64 = 0.9;
/// Bounds of the adapted probability (2001, figure 1).
const LEAST_PROBABILITY: f64 = 0.01;
const MOST_PROBABILITY: f64 = 0.5;

#[cfg(test)]
#[path = "red_tests.rs"]
mod tests;
