//! The queue before the server: limits, refused arrivals, and departures.
//!
//! Queue management comes in two kinds. One decides on arrival, from the backlog that a packet finds ([`Admission`]), so the packet's fate
//! is known at once. The other decides on departure ([`Discipline`]): it stores packets until the server is free, and may then mark, drop
//! or reorder them.

mod backlog;
mod classes;
mod codel;
mod discipline;
mod drop_front;
mod dualpi2;
mod fq_codel;
mod netem;
mod pie;
mod red;
mod room;
mod spec;
mod waiting;

use std::sync::Arc;

use perigee_units::{Bytes, Stream, Time};

use crate::packet::{DropReason, Ecn};
use crate::server::Server;
use crate::steps::{Cursor, Steps};
use netem::Netem;
use pie::Pie;
use red::Red;

pub(crate) use backlog::Backlog;
pub(crate) use discipline::Discipline;
pub(crate) use room::Room;
pub use spec::{red_weight, AqmSpec, CodelSpec, DualPi2Spec, Full, PieSpec, QueueSpec, RedSpec, RedThresholds};
pub(crate) use waiting::Waiting;

/// Decides which arrivals are accepted.
pub(crate) struct Admission {
    bytes: u64,
    packets: usize,
    /// Arrivals that fit into this many bytes are accepted without a random draw.
    free_bytes: u64,
    time: Option<Time>,
    over_time: Option<(Arc<Steps<Bytes>>, Cursor)>,
    aqm: ArrivalAqm,
    draws: Stream,
}

/// Queue management on arrival.
enum ArrivalAqm {
    None,
    /// Arrivals that find more than `threshold` bytes are dropped with probability `drop`.
    Viasat2 {
        threshold: u64,
        drop: f64,
    },
    Red(Red),
    Pie(Box<Pie>),
    Netem(Netem),
}

impl Admission {
    /// `on_departure`: a discipline stores the packets.
    pub(crate) fn new(spec: &QueueSpec, on_departure: bool, seed: u64, name: &str) -> Self {
        let bytes = spec.bytes.map_or(u64::MAX, Bytes::as_u64);
        let aqm = match &spec.aqm {
            AqmSpec::None | AqmSpec::Codel(_) | AqmSpec::FqCodel { .. } | AqmSpec::DualPi2(_) => ArrivalAqm::None,
            AqmSpec::Viasat2 { threshold, drop } => ArrivalAqm::Viasat2 {
                threshold: (bytes as f64 * threshold.as_f64()).round() as u64,
                drop: drop.as_f64(),
            },
            AqmSpec::Red(red) => ArrivalAqm::Red(Red::new(red)),
            AqmSpec::Pie(pie) => ArrivalAqm::Pie(Box::new(Pie::new(pie))),
            AqmSpec::Netem { packets } => ArrivalAqm::Netem(Netem::new(*packets)),
        };
        let free_bytes = match aqm {
            ArrivalAqm::Viasat2 { threshold, .. } => bytes.min(threshold),
            _ => bytes,
        };
        Self {
            bytes,
            free_bytes,
            packets: spec.packets.map_or(usize::MAX, |p| p as usize),
            time: spec.time.filter(|_| !on_departure),
            over_time: spec.bytes_over_time.clone().map(|steps| (steps, Cursor::default())),
            aqm,
            draws: Stream::new(seed, &format!("{name}/queue")),
        }
    }

    /// The room in which arrivals are accepted without a random draw; none if more than the backlog matters.
    pub(crate) fn room(&self) -> Room {
        let by_backlog = matches!(self.aqm, ArrivalAqm::None | ArrivalAqm::Viasat2 { .. });
        if self.time.is_none() && self.over_time.is_none() && by_backlog {
            Room { bytes: self.free_bytes, packets: self.packets }
        } else {
            Room::default()
        }
    }

    /// Whether the limits certainly allow an arrival after which at most these bytes and packets wait.
    pub(crate) fn holds(&self, bytes: u64, packets: usize) -> bool {
        bytes <= self.bytes && packets <= self.packets && self.over_time.is_none()
    }

    /// Whether an arrival of `size` bytes would fit into an empty queue.
    pub(crate) fn could_hold(&self, size: u32) -> bool {
        u64::from(size) <= self.bytes && self.packets > 0
    }

    /// Why an arrival of `size` bytes is refused, if it is; it may be marked instead.
    pub(crate) fn refuses(
        &mut self,
        now: Time,
        size: u32,
        backlog: &Backlog,
        server: &Server,
        ecn: &mut Ecn,
    ) -> Option<DropReason> {
        if self.is_full(now, size, backlog, server) {
            if let ArrivalAqm::Pie(pie) = &mut self.aqm {
                pie.on_full();
            }
            return Some(DropReason::QueueFull);
        }
        let drops = match &mut self.aqm {
            ArrivalAqm::None => false,
            ArrivalAqm::Viasat2 { threshold, drop } => backlog.bytes() > *threshold && self.draws.chance(*drop),
            ArrivalAqm::Red(red) => red.drops(now, size, backlog, server, ecn, &mut self.draws),
            ArrivalAqm::Pie(pie) => pie.drops(now, backlog, server, ecn, &mut self.draws),
            ArrivalAqm::Netem(netem) => return netem.is_full(now).then_some(DropReason::QueueFull),
        };
        drops.then_some(DropReason::Aqm)
    }

    /// Notes that an admitted packet will be delivered at `at`.
    #[inline]
    pub(crate) fn delivers(&mut self, at: Time) {
        if let ArrivalAqm::Netem(netem) = &mut self.aqm {
            netem.hold(at);
        }
    }

    /// Whether an arrival of `size` bytes lacks room.
    pub(crate) fn is_full(&mut self, now: Time, size: u32, backlog: &Backlog, server: &Server) -> bool {
        self.is_full_with(now, size, (backlog.bytes(), backlog.packets()), server)
    }

    /// Whether an arrival of `size` bytes lacks room beside these bytes and packets.
    #[inline]
    pub(crate) fn is_full_with(
        &mut self,
        now: Time,
        size: u32,
        (bytes, packets): (u64, usize),
        server: &Server,
    ) -> bool {
        let after = bytes + u64::from(size);
        after > self.bytes || packets >= self.packets || self.over_other_limits(now, after, server)
    }

    fn over_other_limits(&mut self, now: Time, after: u64, server: &Server) -> bool {
        let waits_too_long = self.time.is_some_and(|limit| server.busy_until() - now > limit);
        let over = self.over_time.as_mut().is_some_and(|(steps, at)| after > steps.segment(at, now).0.as_u64());
        waits_too_long || over
    }
}
