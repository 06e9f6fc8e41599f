//! What a queue is made of, as data.

use std::sync::Arc;

use perigee_units::{encode_enum, encode_struct, Bytes, Rate, Ratio, Time};

use crate::Steps;

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
    /// Random early detection (Floyd and Jacobson 1993), with the gentle slope above the upper threshold.
    Red(RedSpec),
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(PieSpec),
    /// Controlled delay (RFC 8289): drops on departure, by how long packets have waited.
    Codel(CodelSpec),
    /// Flow queues with controlled delay in each (RFC 8290).
    FqCodel {
        /// Number of queues that flows are hashed into (RFC 8290: 1024).
        queues: u32,
        /// Bytes that a queue may send before it is another's turn (RFC 8290: the MTU).
        quantum: u32,
        /// The controlled delay of each queue.
        codel: CodelSpec,
    },
    /// The coupled dual queue of L4S (RFC 9332): one queue for packets that carry ECT(1), one for all others.
    DualPi2(DualPi2Spec),
}

/// Random early detection.
#[derive(Clone, Debug, PartialEq)]
pub struct RedSpec {
    /// Averages between which the drop probability rises.
    pub thresholds: RedThresholds,
    /// Drop probability at the upper threshold; it rises to one at twice that threshold.
    pub max_probability: Ratio,
    /// Weight of a new sample in the average.
    pub weight: Ratio,
    /// Adapt `max_probability` so that the average stays in the middle fifth between the thresholds (Floyd, Gummadi,
    /// Shenker 2001).
    pub adaptive: bool,
    /// Mark packets that can be marked instead of dropping them (RFC 3168).
    pub ecn: bool,
}

/// The thresholds of random early detection, lower and upper, which say also what is averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RedThresholds {
    /// The average backlog in bytes.
    Bytes {
        /// Average from which on packets are dropped.
        min: Bytes,
        /// Average at which the probability has reached its `max_probability`.
        max: Bytes,
    },
    /// The average backlog in packets, whatever their size.
    Packets {
        /// Average from which on packets are dropped.
        min: u32,
        /// Average at which the probability has reached its `max_probability`.
        max: u32,
    },
}

impl RedThresholds {
    /// Thresholds of a link of this rate, in packets of 1500 bytes, that keep the average delay at `target`: the lower one is half
    /// of the target but at least five packets, the upper one three times as much (Floyd, Gummadi, Shenker 2001, section 4).
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

/// The weight of a sample with which the average of a link of this rate has a time constant of one second:
/// 1 - exp(-1 / C), C the rate in packets of 1500 bytes per second (Floyd, Gummadi, Shenker 2001, section 4).
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

/// The packet in which rates and backlogs are counted, bytes.
pub(super) const MEAN_PACKET: u64 = 1500;

/// Proportional integral controller enhanced; the defaults are those of RFC 8033.
#[derive(Clone, Debug, PartialEq)]
pub struct PieSpec {
    /// Wait that it aims at (15 ms).
    pub target: Time,
    /// Time between two updates of the drop probability (15 ms).
    pub update: Time,
    /// Time for which a burst is let through after a quiet time (150 ms).
    pub burst: Time,
    /// Gain on the distance of the wait from the target, 1/s (1/8).
    pub alpha: f64,
    /// Gain on the change of the wait, 1/s (1 1/4).
    pub beta: f64,
    /// Mark packets that can be marked instead of dropping them (RFC 3168).
    pub ecn: bool,
    /// Drop probability from which on packets are dropped even if they can be marked (10 %).
    pub mark_below: Ratio,
}

/// The coupled dual queue of L4S; the defaults are those of RFC 9332, appendix A.
#[derive(Clone, Debug, PartialEq)]
pub struct DualPi2Spec {
    /// Wait that the classic queue aims at (15 ms).
    pub target: Time,
    /// Time between two updates of the base probability (15 ms).
    pub update: Time,
    /// Gain on the distance of the wait from the target, 1/s (0.15).
    pub alpha: f64,
    /// Gain on the change of the wait, 1/s (3).
    pub beta: f64,
    /// By how much more the low-latency queue marks than the base probability (2).
    pub coupling: f64,
    /// Wait of a low-latency packet from which on it may be marked (800 us).
    pub ramp_from: Time,
    /// From there to the wait at which every one is marked (400 us); zero: a step.
    pub ramp_width: Time,
    /// Share of the bytes that the classic queue has while both are busy (1/16, the example of section 4.2.2 and appendix A.2).
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
    /// Wait that is acceptable as a standing one (RFC 8289: 5 ms).
    pub target: Time,
    /// Time for which waits may stay above the target before packets are dropped; about the largest usual round trip
    /// (RFC 8289: 100 ms).
    pub interval: Time,
    /// Mark packets that can be marked instead of dropping them (RFC 3168).
    pub ecn: bool,
}

encode_struct!(QueueSpec { bytes, packets, time, bytes_over_time, aqm });
encode_enum!(AqmSpec {
    None,
    Viasat2 { threshold, drop },
    Red(red),
    Pie(pie),
    Codel(codel),
    FqCodel { queues, quantum, codel },
    DualPi2(dual),
});
encode_struct!(RedSpec { thresholds, max_probability, weight, adaptive, ecn });
encode_enum!(RedThresholds { Bytes { min, max }, Packets { min, max } });
encode_struct!(PieSpec { target, update, burst, alpha, beta, ecn, mark_below });
encode_struct!(DualPi2Spec { target, update, alpha, beta, coupling, ramp_from, ramp_width, classic_share });
encode_struct!(CodelSpec { target, interval, ecn });
