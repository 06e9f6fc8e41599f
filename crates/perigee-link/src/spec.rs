//! What a link is made of, as data: one direction of a link, process by process.

use std::sync::Arc;

use perigee_units::{Bytes, Rate, Ratio, Time};

use crate::Steps;

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// What waits and what is refused.
    pub queue: QueueSpec,
    /// How fast it sends.
    pub rate: RateSpec,
    /// How long the air takes.
    pub delay: DelaySpec,
    /// Delay that is added while the link is loaded.
    pub loaded: Option<Loaded>,
    /// Loss processes of the air; a packet is lost where any of them takes it. It has used queue and rate by then.
    /// Each has a stream of its own by its place: a further one leaves the draws of those before it as they are.
    pub loss: Vec<LossSpec>,
    /// Token bucket: that many bytes leave at once after an idle time. Zero: each packet takes its time at the rate.
    pub burst: Bytes,
    /// Bytes each packet has on this link beyond its IP size (14 for Ethernet); they count in rate, queue and burst.
    pub overhead: u32,
}

impl LinkSpec {
    /// A link of constant rate and delay, with a queue without limit and no loss.
    ///
    /// ```
    /// use perigee_link::LinkSpec;
    /// use perigee_units::{Rate, Time};
    /// let spec = LinkSpec::constant(Rate::from_mbps(100.0), Time::from_millis(300));
    /// assert!(spec.loss.is_empty());
    /// ```
    pub fn constant(rate: Rate, delay: Time) -> Self {
        Self {
            queue: QueueSpec::default(),
            rate: RateSpec::Constant(rate),
            delay: DelaySpec::Constant(delay),
            loaded: None,
            loss: Vec::new(),
            burst: Bytes::ZERO,
            overhead: 0,
        }
    }
}

/// How much may wait, the packet in service counted, and which arrivals are refused before that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueSpec {
    /// Limit in bytes (overhead counted).
    pub bytes: Option<Bytes>,
    /// Limit in packets.
    pub packets: Option<u32>,
    /// Limit on the time an arrival would wait before its own service begins.
    pub time: Option<Time>,
    /// A limit in bytes that changes over time, beside the others.
    pub bytes_over_time: Option<Arc<Steps<Bytes>>>,
    /// Active queue management.
    pub aqm: AqmSpec,
}

/// Active queue management: refusing arrivals before the queue is full.
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
}

/// How fast a link sends.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// Always the same.
    Constant(Rate),
    /// A recorded rate.
    Trace(Arc<Steps<Rate>>),
    /// A rate that wanders around a mean.
    Fluctuating(Fluctuation),
}

impl RateSpec {
    /// The rate that it can hold for a second, bit/s.
    pub fn peak_bps(&self) -> f64 {
        match self {
            Self::Constant(rate) => rate.as_bps() as f64,
            Self::Fluctuating(f) => {
                let wide = f.mean.as_bps() + 3 * (f.sd.as_bps() + f.mood.as_bps());
                wide.min(f.max.as_bps()) as f64
            }
            Self::Trace(steps) => seconds(steps).into_iter().fold(0.0, f64::max),
        }
    }

    /// The rate over a long time, bit/s.
    pub fn mean_bps(&self) -> f64 {
        match self {
            Self::Constant(rate) => rate.as_bps() as f64,
            Self::Fluctuating(f) => f.mean.as_bps() as f64,
            Self::Trace(steps) => {
                let seconds = seconds(steps);
                seconds.iter().sum::<f64>() / seconds.len().max(1) as f64
            }
        }
    }
}

/// The mean rate of each whole second of a recording, and of what is left if there is none.
fn seconds(steps: &Steps<Rate>) -> Vec<f64> {
    let points: Vec<_> = steps.iter().map(|(at, rate)| (at.as_secs_f64(), rate.as_bps() as f64)).collect();
    let last = points.last().map_or(0.0, |point| point.0 + 1.0);
    let end = steps.period().map_or(last, Time::as_secs_f64);
    let mut bits = vec![0.0; (end.floor() as usize).max(1)];
    let ends = points.iter().skip(1).map(|point| point.0).chain([end]);
    for ((start, rate), end) in points.iter().zip(ends) {
        let mut from = *start;
        while from < end {
            let until = (from.floor() + 1.0).min(end);
            if let Some(bits) = bits.get_mut(from as usize) {
                *bits += rate * (until - from);
            }
            from = until;
        }
    }
    if end < 1.0 {
        bits[0] /= end.max(1e-9);
    }
    bits
}

/// A rate that wanders around its mean: a new value each `every`, autocorrelated (a first-order autoregression),
/// plus an offset drawn once per run, the link's mood of the day.
#[derive(Clone, Debug, PartialEq)]
pub struct Fluctuation {
    /// Mean, before `min` and `max` cut it.
    pub mean: Rate,
    /// Standard deviation within a run.
    pub sd: Rate,
    /// Never lower.
    pub min: Rate,
    /// Never higher.
    pub max: Rate,
    /// Interval between new values.
    pub every: Time,
    /// Time in which the autocorrelation falls to 1/e; zero: each value is independent.
    pub memory: Time,
    /// Standard deviation between runs of the mean of a run.
    pub mood: Rate,
}

/// How long a packet is in the air.
#[derive(Clone, Debug, PartialEq)]
pub enum DelaySpec {
    /// Always the same.
    Constant(Time),
    /// A recorded one-way delay.
    Trace(Arc<Steps<Time>>),
    /// A delay that moves, with a heavy tail.
    Jitter(Jitter),
}

/// A delay that moves over time: a body around `base`, and now and then a delay out of a heavy tail on top.
///
/// The delay is a function of time, drawn anew once per interval and not once per packet: with FIFO order and
/// thousands of packets per second, independent draws per packet would leave nothing but their running maximum.
#[derive(Clone, Debug, PartialEq)]
pub struct Jitter {
    /// Centre of a normal body, floor of the others.
    pub base: Time,
    /// Distribution of the body.
    pub body: Body,
    /// Base and body together are never shorter.
    pub min: Time,
    /// Base and body together are never longer.
    pub max: Time,
    /// Interval between new values of the body.
    pub every: Time,
    /// Time in which the body's autocorrelation falls to 1/e; zero: each value is independent.
    pub memory: Time,
    /// Between two values of the body: a step, or a straight line.
    pub linear: bool,
    /// The heavy tail.
    pub tail: Option<Tail>,
}

/// Distribution of the body of a jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Body {
    /// Normal around the base.
    Normal {
        /// Standard deviation.
        sd: Time,
    },
    /// Uniform from the base upwards, as the wait for a slot that comes round at a fixed time.
    Uniform {
        /// Largest value that is added.
        width: Time,
    },
    /// Symmetric triangle from the base upwards: the sum of two such waits.
    Triangular {
        /// Largest value that is added.
        width: Time,
    },
    /// Log-normal, added to the base.
    LogNormal {
        /// Median of what is added.
        median: Time,
        /// Standard deviation of its logarithm.
        sigma: f64,
    },
}

/// The heavy tail of a jitter: in some intervals, more delay is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// Share of the intervals that have it.
    pub share: Ratio,
    /// Length of an interval.
    pub every: Time,
    /// Distribution of what is added.
    pub shape: TailShape,
    /// Never more is added.
    pub max: Time,
}

/// Distribution of what a heavy tail adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TailShape {
    /// Pareto.
    Pareto {
        /// Smallest value.
        min: Time,
        /// Shape: P(X > x) = (min / x)^shape.
        shape: f64,
    },
    /// Log-normal.
    LogNormal {
        /// Median.
        median: Time,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// Delay that is added while a link is loaded, as on a return channel whose slots are asked for.
///
/// The link is loaded when, in the running window of time or the one before it, more arrived than `above` allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Loaded above this rate of arrivals.
    pub above: Rate,
    /// Window over which arrivals are counted.
    pub window: Time,
    /// Mean of what is added.
    pub delay: Time,
    /// Standard deviation of what is added; never below zero in sum.
    pub sd: Time,
    /// Interval between new values.
    pub every: Time,
    /// Time in which the autocorrelation falls to 1/e; zero: each value is independent.
    pub memory: Time,
}

/// A process that loses packets in the air.
#[derive(Clone, Debug, PartialEq)]
pub enum LossSpec {
    /// Each packet with the same probability.
    Bernoulli(Ratio),
    /// Packets that follow each other at the same instant, up to so many, share one fate: a loss element that stands
    /// where the sending host still hands several segments down as one (generic segmentation offload).
    Trains {
        /// Probability that a train is lost.
        loss: Ratio,
        /// Longest train, packets.
        packets: u32,
    },
    /// Gilbert-Elliott: a good and a bad state that change from packet to packet.
    GilbertElliott {
        /// Probability that the state turns bad before a packet.
        good_to_bad: Ratio,
        /// Probability that the state turns good before a packet.
        bad_to_good: Ratio,
        /// Loss in the good state.
        good_loss: Ratio,
        /// Loss in the bad state.
        bad_loss: Ratio,
    },
    /// A good and a bad state that change over time, whatever the traffic: both last exponential times.
    Outages {
        /// Mean time between the end of one and the start of the next.
        gap: Time,
        /// Mean length.
        length: Time,
        /// Loss during an outage.
        loss: Ratio,
    },
    /// Outages at fixed times, such as handovers of a constellation that schedules its paths anew.
    Periodic {
        /// From the start of one to the start of the next.
        period: Time,
        /// Start of the first.
        phase: Time,
        /// Length of each, less than the period.
        length: Time,
        /// Loss during one.
        loss: Ratio,
    },
    /// A recorded loss rate.
    Trace(Arc<Steps<Ratio>>),
}
