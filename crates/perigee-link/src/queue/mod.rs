//! What waits for the server: the limits, the arrivals refused, and the packets that leave.
//!
//! Two kinds of queue management stand here. One decides on arrival, by the backlog that a packet finds ([`Admission`]);
//! what becomes of the packet is then known at once. The other decides on departure ([`Discipline`]): it keeps the packets
//! until the server is free, and may mark, drop or reorder them then.

mod codel;
mod red;

use std::collections::VecDeque;
use std::sync::Arc;

use perigee_units::{encode_enum, encode_struct, Bytes, Ratio, Stream, Time};

use crate::link::{DropReason, Ecn, Packet};
use crate::server::Server;
use crate::steps::Cursor;
use crate::Steps;
use codel::CodelQueue;
use red::Red;

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

/// Packets that were accepted and have not left yet: those in service or with a departure fixed, as its instant, and those
/// that a discipline keeps, as their number.
#[derive(Default)]
pub(crate) struct Backlog {
    departures: VecDeque<(Time, u32)>,
    waiting: usize,
    /// Of both.
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

    /// Adds a packet that goes into service, or in line for it, at `now`; one that leaves at once never waits.
    #[inline]
    pub(crate) fn push(&mut self, now: Time, departure: Time, size: u32) {
        self.last = departure;
        if departure > now {
            self.bytes += u64::from(size);
            self.departures.push_back((departure, size));
        }
    }

    /// Adds a packet that a discipline keeps.
    pub(crate) fn keep(&mut self, size: u32) {
        self.bytes += u64::from(size);
        self.waiting += 1;
    }

    /// Takes away a packet that the discipline has given out or dropped.
    pub(crate) fn take(&mut self, size: u32) {
        self.bytes -= u64::from(size);
        self.waiting -= 1;
    }

    /// Packets that a discipline keeps.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    fn packets(&self) -> usize {
        self.departures.len() + self.waiting
    }
}

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
        let after = backlog.bytes + u64::from(size);
        if after > self.bytes || backlog.packets() >= self.packets || self.over_other_limits(now, after, server) {
            return Some(DropReason::QueueFull);
        }
        let drops = match &mut self.aqm {
            ArrivalAqm::None => false,
            ArrivalAqm::Viasat2 { threshold, drop } => backlog.bytes > *threshold && self.draws.chance(*drop),
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

/// Queue management that decides on departure: it keeps the packets that were admitted, in as many queues as it wants, and
/// says which of them goes into service next. How long each has waited, it knows by [`Waiting::arrived`].
pub(crate) trait Discipline<T> {
    /// Keeps a packet that was admitted; may mark it.
    fn enqueue(&mut self, packet: Waiting<T>);

    /// Takes out the packet that goes into service at `now`, perhaps marked; gives to `drop` those that it drops instead.
    /// `None` only where no packet is left.
    fn dequeue(&mut self, now: Time, drop: &mut dyn FnMut(Waiting<T>)) -> Option<Waiting<T>>;
}

/// A packet that waits for a decision on its departure.
pub(crate) struct Waiting<T> {
    pub(crate) packet: Packet<T>,
    /// Bytes, with the link's overhead.
    pub(crate) size: u32,
    /// When it was admitted.
    pub(crate) arrived: Time,
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
