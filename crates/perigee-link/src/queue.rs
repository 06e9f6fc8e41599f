//! What waits to be sent, and which arrivals are refused.

use std::collections::VecDeque;
use std::sync::Arc;

use perigee_units::{Bytes, Stream, Time};

use crate::link::{DropReason, Ecn};
use crate::server::Server;
use crate::spec::{AqmSpec, QueueSpec};
use crate::steps::Cursor;
use crate::Steps;

/// Packets that were accepted and have not left yet, as their instants of departure.
#[derive(Default)]
pub(crate) struct Backlog {
    departures: VecDeque<(Time, u32)>,
    bytes: u64,
    last: Time,
}

impl Backlog {
    /// Forgets what has left by `now`.
    #[inline]
    pub(crate) fn release(&mut self, now: Time) {
        while let Some((departure, size)) = self.departures.front() {
            if *departure > now {
                break;
            }
            self.bytes -= u64::from(*size);
            self.departures.pop_front();
        }
    }

    /// Adds a packet that was accepted at `now`; one that leaves at once never waits.
    #[inline]
    pub(crate) fn push(&mut self, now: Time, departure: Time, size: u32) {
        self.last = departure;
        if departure > now {
            self.bytes += u64::from(size);
            self.departures.push_back((departure, size));
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Decides which arrivals may wait.
pub(crate) struct Admission {
    bytes: u64,
    packets: usize,
    time: Option<Time>,
    over_time: Option<(Arc<Steps<Bytes>>, Cursor)>,
    aqm: Aqm,
    draws: Stream,
}

enum Aqm {
    None,
    /// Arrivals that find more than `threshold` bytes are dropped with probability `drop`.
    Viasat2 {
        threshold: u64,
        drop: f64,
    },
    Red(Red),
}

struct Red {
    min: f64,
    max: f64,
    max_probability: f64,
    weight: f64,
    ecn: bool,
    average: f64,
    /// Packets since the last drop; `None` while the average is below the lower threshold.
    since: Option<u32>,
}

impl Admission {
    pub(crate) fn new(spec: &QueueSpec, seed: u64, name: &str) -> Self {
        let bytes = spec.bytes.map_or(u64::MAX, Bytes::as_u64);
        let aqm = match spec.aqm {
            AqmSpec::None => Aqm::None,
            AqmSpec::Viasat2 { threshold, drop } => {
                Aqm::Viasat2 { threshold: (bytes as f64 * threshold.as_f64()).round() as u64, drop: drop.as_f64() }
            }
            AqmSpec::Red { min, max, max_probability, weight, ecn } => Aqm::Red(Red {
                min: min.as_u64() as f64,
                max: max.as_u64() as f64,
                max_probability: max_probability.as_f64(),
                weight: weight.as_f64(),
                ecn,
                average: 0.0,
                since: None,
            }),
        };
        Self {
            bytes,
            packets: spec.packets.map_or(usize::MAX, |p| p as usize),
            time: spec.time,
            over_time: spec.bytes_over_time.clone().map(|steps| (steps, Cursor::default())),
            aqm,
            draws: Stream::new(seed, &format!("{name}/queue")),
        }
    }

    /// Why an arrival of `size` bytes is refused, if it is; it may be marked instead.
    #[inline]
    pub(crate) fn refuses(
        &mut self,
        now: Time,
        size: u32,
        backlog: &Backlog,
        server: &Server,
        ecn: &mut Ecn,
    ) -> Option<DropReason> {
        let after = backlog.bytes + u64::from(size);
        if after > self.bytes || backlog.departures.len() >= self.packets || self.over_other_limits(now, after, server)
        {
            return Some(DropReason::QueueFull);
        }
        let drops = match &mut self.aqm {
            Aqm::None => false,
            Aqm::Viasat2 { threshold, drop } => backlog.bytes > *threshold && self.draws.chance(*drop),
            Aqm::Red(red) => {
                red.observe(now, size, backlog, server);
                let hit = red.hits(&mut self.draws);
                if hit && red.ecn && *ecn != Ecn::NotCapable && red.average < 2.0 * red.max {
                    *ecn = Ecn::Marked;
                    false
                } else {
                    hit
                }
            }
        };
        drops.then_some(DropReason::Aqm)
    }

    fn over_other_limits(&mut self, now: Time, after: u64, server: &Server) -> bool {
        let waits_too_long = self.time.is_some_and(|limit| server.busy_until() - now > limit);
        let over = self.over_time.as_mut().is_some_and(|(steps, at)| after > steps.segment(at, now).0.as_u64());
        waits_too_long || over
    }
}

impl Red {
    /// The average backlog. After an idle time it has decayed as if packets of this size had found an empty queue.
    fn observe(&mut self, now: Time, size: u32, backlog: &Backlog, server: &Server) {
        if backlog.bytes == 0 {
            let packet = server.rate_at(now).time_to_send(Bytes::new(u64::from(size))).as_secs_f64();
            let idle = (now - backlog.last).as_secs_f64() / packet.max(1e-9);
            self.average *= libm::pow(1.0 - self.weight, idle);
        }
        self.average += self.weight * (backlog.bytes as f64 - self.average);
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
