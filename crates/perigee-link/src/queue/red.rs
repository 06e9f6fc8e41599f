//! Random early detection: S. Floyd, V. Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM
//! Transactions on Networking 1993, in bytes, with the gentle slope above the upper threshold. Marks as of RFC 3168.

use perigee_units::{Bytes, Ratio, Stream, Time};

use super::backlog::Backlog;
use crate::packet::Ecn;
use crate::server::Server;

/// The average backlog and the hits so far.
pub(super) struct Red {
    min: f64,
    max: f64,
    max_probability: f64,
    weight: f64,
    ecn: bool,
    average: f64,
    /// Packets since the last hit; `None` while the average is below the lower threshold.
    since: Option<u32>,
}

impl Red {
    /// Thresholds of the average, the probability at `max`, the weight of a sample, and whether hits mark.
    pub(super) fn new([min, max]: [Bytes; 2], max_probability: Ratio, weight: Ratio, ecn: bool) -> Self {
        Self {
            min: min.as_u64() as f64,
            max: max.as_u64() as f64,
            max_probability: max_probability.as_f64(),
            weight: weight.as_f64(),
            ecn,
            average: 0.0,
            since: None,
        }
    }

    /// Whether an arrival is dropped; where it can be marked, and the average is below twice `max`, it is marked instead.
    pub(super) fn drops(
        &mut self,
        now: Time,
        size: u32,
        backlog: &Backlog,
        server: &Server,
        ecn: &mut Ecn,
        draws: &mut Stream,
    ) -> bool {
        self.observe(now, size, backlog, server);
        let hit = self.hits(draws);
        let marks = hit && self.ecn && *ecn != Ecn::NotCapable && self.average < 2.0 * self.max;
        if marks {
            *ecn = Ecn::Marked;
        }
        hit && !marks
    }

    /// Updates the average backlog. After an idle time it has decayed as if packets of this size had found an empty queue.
    fn observe(&mut self, now: Time, size: u32, backlog: &Backlog, server: &Server) {
        if backlog.bytes() == 0 {
            let packet = server.rate_at(now).time_to_send(Bytes::new(u64::from(size))).as_secs_f64();
            let idle = (now - backlog.last()).as_secs_f64() / packet.max(1e-9);
            self.average *= libm::pow(1.0 - self.weight, idle);
        }
        self.average += self.weight * (backlog.bytes() as f64 - self.average);
    }

    /// Drop or mark with p / (1 - n p), n packets after the last hit, which spreads the hits evenly;
    /// p = `max_probability` (avg - min) / (max - min), and on to one at twice max.
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
