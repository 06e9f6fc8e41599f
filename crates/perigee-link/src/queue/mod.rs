//! What waits for the server: the limits, the arrivals refused, and the packets that leave.
//!
//! Two kinds of queue management stand here. One decides on arrival, by the backlog that a packet finds ([`Admission`]);
//! what becomes of the packet is then known at once. The other decides on departure ([`Discipline`]): it keeps the packets
//! until the server is free, and may mark, drop or reorder them then.

mod backlog;
mod codel;
mod discipline;
mod red;

use std::sync::Arc;

use perigee_units::{encode_enum, encode_struct, Bytes, Ratio, Stream, Time};

use crate::packet::{DropReason, Ecn};
use crate::server::Server;
use crate::steps::{Cursor, Steps};
use codel::CodelQueue;
use red::Red;

pub(crate) use backlog::Backlog;
pub(crate) use discipline::{Discipline, Waiting};

/// How much may wait, the packet in service counted, and which arrivals are refused before that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueSpec {
    /// Limit in bytes (overhead counted).
    pub bytes: Option<Bytes>,
    /// Limit in packets.
    pub packets: Option<u32>,
    /// Limit on the time an arrival would wait before its own service begins. Without effect where the queue decides on
    /// departure: how long an arrival will wait is not known there.
    pub time: Option<Time>,
    /// A limit in bytes that changes over time, beside the others.
    pub bytes_over_time: Option<Arc<Steps<Bytes>>>,
    /// Active queue management.
    pub aqm: AqmSpec,
}

/// Active queue management: dropping or marking packets before the queue is full.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AqmSpec {
    /// Drop-tail.
    #[default]
    None,
    /// The gateway queue of Viasat-2 as Claypool et al. (2021) describe it: once the backlog is over a share of the
    /// byte limit, arrivals are dropped at random.
    Viasat2 {
        /// Share of the byte limit from which on packets are dropped (published: one half).
        threshold: Ratio,
        /// Probability that an arrival is then dropped (published: 25 %).
        drop: Ratio,
    },
    /// Random early detection (Floyd and Jacobson 1993) in bytes, with the gentle slope above the upper threshold.
    Red {
        /// Average backlog from which on packets are dropped.
        min: Bytes,
        /// Average backlog at which the probability has reached `max_probability`.
        max: Bytes,
        /// Drop probability at `max`; it rises to one at twice `max`.
        max_probability: Ratio,
        /// Weight of a new sample in the average.
        weight: Ratio,
        /// Mark packets that can be marked instead of dropping them (RFC 3168).
        ecn: bool,
    },
    /// Controlled delay (RFC 8289): drops on departure, by how long packets have waited.
    Codel {
        /// Wait that is acceptable as a standing one (RFC 8289: 5 ms).
        target: Time,
        /// Time for which waits may stay above the target before packets are dropped; about the largest usual round trip
        /// (RFC 8289: 100 ms).
        interval: Time,
        /// Mark packets that can be marked instead of dropping them (RFC 3168).
        ecn: bool,
    },
}

encode_struct!(QueueSpec { bytes, packets, time, bytes_over_time, aqm });
encode_enum!(AqmSpec {
    None,
    Viasat2 { threshold, drop },
    Red { min, max, max_probability, weight, ecn },
    Codel { target, interval, ecn },
});

/// Decides which arrivals may wait.
pub(crate) struct Admission {
    bytes: u64,
    packets: usize,
    time: Option<Time>,
    over_time: Option<(Arc<Steps<Bytes>>, Cursor)>,
    aqm: ArrivalAqm,
    draws: Stream,
}

/// Queue management that decides on arrival.
enum ArrivalAqm {
    None,
    /// Arrivals that find more than `threshold` bytes are dropped with probability `drop`.
    Viasat2 {
        threshold: u64,
        drop: f64,
    },
    Red(Red),
}

impl Admission {
    /// `on_departure`: a discipline keeps the packets.
    pub(crate) fn new(spec: &QueueSpec, on_departure: bool, seed: u64, name: &str) -> Self {
        let bytes = spec.bytes.map_or(u64::MAX, Bytes::as_u64);
        let aqm = match spec.aqm {
            AqmSpec::None | AqmSpec::Codel { .. } => ArrivalAqm::None,
            AqmSpec::Viasat2 { threshold, drop } => ArrivalAqm::Viasat2 {
                threshold: (bytes as f64 * threshold.as_f64()).round() as u64,
                drop: drop.as_f64(),
            },
            AqmSpec::Red { min, max, max_probability, weight, ecn } => {
                ArrivalAqm::Red(Red::new([min, max], max_probability, weight, ecn))
            }
        };
        Self {
            bytes,
            packets: spec.packets.map_or(usize::MAX, |p| p as usize),
            time: spec.time.filter(|_| !on_departure),
            over_time: spec.bytes_over_time.clone().map(|steps| (steps, Cursor::default())),
            aqm,
            draws: Stream::new(seed, &format!("{name}/queue")),
        }
    }

    /// Why an arrival of `size` bytes is refused, if it is; it may be marked instead.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a feed-forward link")]
    pub(crate) fn refuses(
        &mut self,
        now: Time,
        size: u32,
        backlog: &Backlog,
        server: &Server,
        ecn: &mut Ecn,
    ) -> Option<DropReason> {
        let after = backlog.bytes() + u64::from(size);
        if after > self.bytes || backlog.packets() >= self.packets || self.over_other_limits(now, after, server) {
            return Some(DropReason::QueueFull);
        }
        let drops = match &mut self.aqm {
            ArrivalAqm::None => false,
            ArrivalAqm::Viasat2 { threshold, drop } => backlog.bytes() > *threshold && self.draws.chance(*drop),
            ArrivalAqm::Red(red) => red.drops(now, size, backlog, server, ecn, &mut self.draws),
        };
        drops.then_some(DropReason::Aqm)
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a feed-forward link")]
    fn over_other_limits(&mut self, now: Time, after: u64, server: &Server) -> bool {
        let waits_too_long = self.time.is_some_and(|limit| server.busy_until() - now > limit);
        let over = self.over_time.as_mut().is_some_and(|(steps, at)| after > steps.segment(at, now).0.as_u64());
        waits_too_long || over
    }
}

impl AqmSpec {
    /// The discipline that keeps the packets; `None` where all is decided on arrival.
    pub(crate) fn discipline<T: Send + 'static>(&self) -> Option<Box<dyn Discipline<T> + Send>> {
        match *self {
            Self::None | Self::Viasat2 { .. } | Self::Red { .. } => None,
            Self::Codel { target, interval, ecn } => Some(Box::new(CodelQueue::new(target, interval, ecn))),
        }
    }
}
