//! Specification of a queue.

use std::sync::Arc;

use perigee_units::{encode_enum, encode_struct, Bytes, Rate, Ratio, Time};

use crate::Steps;

/// Limits of a queue, including the packet in service, and its active queue management.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueSpec {
    /// Limit in bytes, with overhead.
    pub bytes: Option<Bytes>,
    /// Limit in packets.
    pub packets: Option<u32>,
    /// Limit of the queuing delay: of an arrival with [`Full::DropTail`], of the packet that enters service with
    /// [`Full::DropFront`]. Has no effect with queue management that decides on departure, and with [`Full::DropLow`].
    pub time: Option<Time>,
    /// A time-varying limit in bytes, in addition to the others.
    pub bytes_over_time: Option<Arc<Steps<Bytes>>>,
    /// The packet that a full queue drops.
    pub full: Full,
    /// Active queue management.
    pub aqm: AqmSpec,
}

/// The packet that a full queue drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// The arrival; with FQ-CoDel, the head of the longest queue.
    #[default]
    DropTail,
    /// The head. Without queue management, or with CoDel.
    DropFront,
    /// The newest packet of low priority, for an arrival of normal priority; or else the arrival. Packets of low priority are served last.
    /// Without queue management.
    DropLow,
}

/// Active queue management: drops or marks packets before the queue is full.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AqmSpec {
    /// Drops only when it is full.
    #[default]
    None,
    /// The gateway queue of Viasat-2 as described by Claypool et al. (2021): above a share of the byte limit, arrivals are dropped at
    /// random.
    Viasat2 {
        /// Share of the byte limit above which packets are dropped (published: one half).
        threshold: Ratio,
        /// Drop probability above it (published: 25 %).
        drop: Ratio,
    },
    /// Random early detection (Floyd and Jacobson 1993), gentle above the upper threshold.
    Red(RedSpec),
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(PieSpec),
    /// Controlled delay (RFC 8289): drops on departure, based on sojourn times.
    Codel(CodelSpec),
    /// Flow queues, each with controlled delay (RFC 8290).
    FqCodel {
        /// Number of queues that flows are hashed into (RFC 8290: 1024).
        queues: u32,
        /// Bytes per turn of a queue (RFC 8290: the MTU).
        quantum: u32,
        /// The controlled delay of each queue.
        codel: CodelSpec,
    },
    /// The coupled dual queue of L4S (RFC 9332): one queue for packets with ECT(1), one for all others.
    DualPi2(DualPi2Spec),
    /// The limit of Linux's netem, which holds a packet until its delay is over: waiting packets count, and those in the air.
    Netem {
        /// Packets that it holds (tc-netem(8): 1000).
        packets: u32,
    },
}

/// Random early detection.
#[derive(Clone, Debug, PartialEq)]
pub struct RedSpec {
    /// Thresholds of the average.
    pub thresholds: RedThresholds,
    /// Drop probability at the upper threshold; it rises to one at twice that threshold.
    pub max_probability: Ratio,
    /// Weight of a new sample in the average.
    pub weight: Ratio,
    /// Adapts `max_probability` so that the average stays in the middle fifth between the thresholds (Floyd, Gummadi, Shenker 2001).
    pub adaptive: bool,
    /// Mark packets that can be marked instead of dropping them (RFC 3168).
    pub ecn: bool,
}

/// Lower and upper threshold of random early detection, and the quantity that is averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RedThresholds {
    /// The average backlog in bytes.
    Bytes {
        /// Average above which packets are dropped.
        min: Bytes,
        /// Average at which the probability reaches `max_probability`.
        max: Bytes,
    },
    /// The average backlog in packets of any size.
    Packets {
        /// Average above which packets are dropped.
        min: u32,
        /// Average at which the probability reaches `max_probability`.
        max: u32,
    },
}

impl RedThresholds {
    /// Thresholds, in packets of 1500 bytes, that keep the average delay of a link at `target`: the lower one is half of the target and at
    /// least five packets, the upper one is three times as large (Floyd, Gummadi, Shenker 2001, section 4).
    ///
    /// ```
    /// use perigee_link::RedThresholds;
    /// use perigee_units::{Rate, Time};
    /// let packets = |mbps, ms| RedThresholds::automatic(Rate::from_mbps(mbps), Time::from_millis(ms));
    /// // 10 Mbit/s send 4.2 packets in 5 ms, 240 Mbit/s send 100.
    /// assert_eq!(packets(10.0, 5), RedThresholds::Packets { min: 5, max: 15 });
    /// assert_eq!(packets(240.0, 5), RedThresholds::Packets { min: 50, max: 150 });
    /// ```
    pub fn automatic(rate: Rate, target: Time) -> Self {
        let waiting = target.as_secs_f64() * packets_per_second(rate);
        let min = (waiting / 2.0).round().max(5.0) as u32;
        Self::Packets { min, max: min.saturating_mul(3) }
    }
}

/// Weight of a sample that gives the average a time constant of one second: 1 - exp(-1 / C), with C the rate in packets of 1500 bytes per
/// second (Floyd, Gummadi, Shenker 2001, section 4).
///
/// ```
/// let weight = perigee_link::red_weight(perigee_units::Rate::from_mbps(12.0));
/// assert!((weight.as_f64() - 0.001).abs() < 1e-6, "{weight}");
/// ```
pub fn red_weight(rate: Rate) -> Ratio {
    let weight = -libm::expm1(-1.0 / packets_per_second(rate).max(1e-3));
    Ratio::new(weight).unwrap_or(Ratio::ONE)
}

fn packets_per_second(rate: Rate) -> f64 {
    rate.as_bps() as f64 / (8.0 * MEAN_PACKET as f64)
}

/// Size of the packet in which rates and backlogs are counted, bytes.
pub(super) const MEAN_PACKET: u64 = 1500;

/// Proportional integral controller enhanced; the defaults are those of RFC 8033.
#[derive(Clone, Debug, PartialEq)]
pub struct PieSpec {
    /// Target queuing delay (15 ms).
    pub target: Time,
    /// Interval between updates of the drop probability (15 ms).
    pub update: Time,
    /// Time for which a burst is accepted after an idle period (150 ms).
    pub burst: Time,
    /// Gain on the delay's distance from the target, 1/s (1/8).
    pub alpha: f64,
    /// Gain on the delay's change, 1/s (1 1/4).
    pub beta: f64,
    /// Mark packets that can be marked instead of dropping them (RFC 3168).
    pub ecn: bool,
    /// Drop probability above which even packets that can be marked are dropped (10 %).
    pub mark_below: Ratio,
}

/// The coupled dual queue of L4S; the defaults are those of RFC 9332, appendix A.
#[derive(Clone, Debug, PartialEq)]
pub struct DualPi2Spec {
    /// Target delay of the classic queue (15 ms).
    pub target: Time,
    /// Interval between updates of the base probability (15 ms).
    pub update: Time,
    /// Gain on the delay's distance from the target, 1/s (0.15).
    pub alpha: f64,
    /// Gain on the delay's change, 1/s (3).
    pub beta: f64,
    /// Coupling factor k between the base probability and the marking of the low-latency queue (2).
    pub coupling: f64,
    /// Sojourn time above which low-latency packets may be marked (800 us).
    pub ramp_from: Time,
    /// Further sojourn time until every one is marked (400 us); zero for a step.
    pub ramp_width: Time,
    /// Share of the bytes of the classic queue while both are busy (1/16, the example of section 4.2.2 and appendix A.2).
    pub classic_share: Ratio,
}

impl Default for DualPi2Spec {
    fn default() -> Self {
        Self {
            target: Time::from_millis(15),
            update: Time::from_millis(15),
            alpha: 0.15,
            beta: 3.0,
            coupling: 2.0,
            ramp_from: Time::from_micros(800),
            ramp_width: Time::from_micros(400),
            classic_share: Ratio::new(1.0 / 16.0).unwrap_or(Ratio::ONE),
        }
    }
}

/// Controlled delay.
#[derive(Clone, Debug, PartialEq)]
pub struct CodelSpec {
    /// Acceptable standing delay (RFC 8289: 5 ms).
    pub target: Time,
    /// Time for which sojourn times may exceed the target before packets are dropped; about the largest common round-trip time (RFC 8289:
    /// 100 ms).
    pub interval: Time,
    /// Mark packets that can be marked instead of dropping them (RFC 3168).
    pub ecn: bool,
    /// Sojourn time above which every packet that can be marked is marked, with `ecn` or without (Linux's `ce_threshold`); for congestion
    /// controls that answer the share of marks, as DCTCP (RFC 8257).
    pub ce_threshold: Option<Time>,
}

impl QueueSpec {
    /// Whether waiting packets can be withdrawn ([`Link::withdraw`](crate::Link::withdraw)): one FIFO, whose limits do not depend on when
    /// its packets will leave.
    pub fn can_be_withdrawn(&self) -> bool {
        match self.aqm {
            AqmSpec::None if self.full == Full::DropLow => false,
            AqmSpec::None => self.time.is_none() || self.full == Full::DropFront,
            AqmSpec::Codel(_) => true,
            _ => false,
        }
    }
}

encode_struct!(QueueSpec { bytes, packets, time, bytes_over_time, full, aqm });
encode_enum!(Full { DropTail, DropFront, DropLow });
encode_enum!(AqmSpec {
    None,
    Viasat2 { threshold, drop },
    Red(red),
    Pie(pie),
    Codel(codel),
    FqCodel { queues, quantum, codel },
    DualPi2(dual),
    Netem { packets },
});
encode_struct!(RedSpec { thresholds, max_probability, weight, adaptive, ecn });
encode_enum!(RedThresholds { Bytes { min, max }, Packets { min, max } });
encode_struct!(PieSpec { target, update, burst, alpha, beta, ecn, mark_below });
encode_struct!(DualPi2Spec { target, update, alpha, beta, coupling, ramp_from, ramp_width, classic_share });
encode_struct!(CodelSpec { target, interval, ecn, ce_threshold });
