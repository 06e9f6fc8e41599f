//! Propagation delay of a link.

use std::sync::Arc;

use perigee_units::{encode_enum, encode_struct, Rate, Ratio, Stream, Time};

use crate::body::{above, Body};
use crate::slots::{OrbitalDelay, SlottedDelay};
use crate::steps::Cursor;
use crate::wander::Wander;
use crate::{OrbitDelay, SlotDelay, Steps};

/// Propagation delay of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum DelaySpec {
    /// Constant delay.
    Constant(Time),
    /// Recorded one-way delay.
    Trace(Arc<Steps<Time>>),
    /// Time-varying delay with a heavy tail.
    Jitter(Jitter),
    /// One delay per slot of a constellation.
    Slots(Arc<SlotDelay>),
    /// Delay of a path computed from satellite orbits.
    Orbit(Arc<OrbitDelay>),
    /// Drawn per packet, uniform from zero to this value: processing time in a host.
    PerPacket(Time),
}

impl DelaySpec {
    /// The delay of most packets: the constant, the base of a jitter, or the mean of a recording, of slots, of a path or of a distribution
    /// per packet.
    ///
    /// ```
    /// use perigee_link::DelaySpec;
    /// use perigee_units::Time;
    /// assert_eq!(DelaySpec::Constant(Time::from_millis(300)).typical(), Time::from_millis(300));
    /// ```
    pub fn typical(&self) -> Time {
        match self {
            Self::Constant(delay) => *delay,
            Self::Jitter(jitter) => jitter.base,
            Self::Slots(slots) => slots.mean,
            Self::Orbit(orbit) => orbit.path.typical() + orbit.extra,
            Self::PerPacket(most) => Time::from_nanos(most.as_nanos() / 2),
            Self::Trace(steps) => mean_step(steps),
        }
    }
}

/// Mean over the steps.
fn mean_step(steps: &Steps<Time>) -> Time {
    let (count, sum) =
        steps.iter().fold((0, 0_u128), |(count, sum), (_, delay)| (count + 1, sum + u128::from(delay.as_nanos())));
    Time::from_nanos((sum / u128::from(count.max(1_u64))) as u64)
}

/// A delay that varies over time: a body around `base`, and occasionally an additional delay from a heavy tail.
///
/// The delay is a function of time, drawn once per interval, not per packet: with FIFO order and thousands of packets per second,
/// independent draws per packet would reduce to their running maximum.
#[derive(Clone, Debug, PartialEq)]
pub struct Jitter {
    /// Centre of a normal body, minimum of the others.
    pub base: Time,
    /// Distribution of the body.
    pub body: Body,
    /// Minimum of base plus body.
    pub min: Time,
    /// Maximum of base plus body.
    pub max: Time,
    /// Interval between values of the body.
    pub every: Time,
    /// Time after which the body's autocorrelation is 1/e; zero for independent values.
    pub memory: Time,
    /// Interpolates linearly between values of the body, instead of in steps.
    pub linear: bool,
    /// The heavy tail.
    pub tail: Option<Tail>,
}

/// The heavy tail of a jitter: additional delay in some intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// Share of the intervals with additional delay.
    pub share: Ratio,
    /// Length of an interval.
    pub every: Time,
    /// Distribution of the additional delay.
    pub shape: TailShape,
    /// Maximum of the additional delay.
    pub max: Time,
}

/// Distribution of the additional delay of a heavy tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TailShape {
    /// Pareto.
    Pareto {
        /// Minimum.
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

/// Additional delay under load, as on a return channel that allocates slots on request.
///
/// The link is loaded if arrivals in the current window or in the previous one exceed `above`.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Arrival rate above which the link is loaded.
    pub above: Rate,
    /// Window over which arrivals are counted.
    pub window: Time,
    /// Mean of the additional delay.
    pub delay: Time,
    /// Standard deviation of the additional delay; the sum is never negative.
    pub sd: Time,
    /// Interval between values.
    pub every: Time,
    /// Time after which the autocorrelation is 1/e; zero for independent values.
    pub memory: Time,
}

encode_enum!(DelaySpec {
    Constant(delay),
    Trace(steps),
    Jitter(jitter),
    Slots(slots),
    Orbit(orbit),
    PerPacket(most),
});
encode_struct!(Jitter { base, body, min, max, every, memory, linear, tail });
encode_struct!(Tail { share, every, shape, max });
encode_enum!(TailShape { Pareto { min, shape }, LogNormal { median, sigma } });
encode_struct!(Loaded { above, window, delay, sd, every, memory });

/// The delay of a link as a function of the departure time from its queue.
pub(crate) enum Delay {
    Constant(Time),
    Steps { steps: Arc<Steps<Time>>, cursor: Cursor, value: Time, until: Time },
    Jitter(Box<JitterDelay>),
    Slots(Box<SlottedDelay>),
    Orbit(Box<OrbitalDelay>),
    PerPacket(Box<PacketDelay>),
}

impl Delay {
    pub(crate) fn new(spec: &DelaySpec, seed: u64, name: &str) -> Self {
        match spec {
            DelaySpec::Constant(delay) => Self::Constant(*delay),
            DelaySpec::Trace(steps) => {
                Self::Steps { steps: steps.clone(), cursor: Cursor::default(), value: Time::ZERO, until: Time::ZERO }
            }
            DelaySpec::Jitter(jitter) => Self::Jitter(Box::new(JitterDelay::new(jitter, seed, name))),
            DelaySpec::Slots(slots) => Self::Slots(Box::new(SlottedDelay::new(slots, seed, name))),
            DelaySpec::Orbit(orbit) => Self::Orbit(Box::new(OrbitalDelay::new(orbit, seed, name))),
            DelaySpec::PerPacket(most) => {
                let stream = Stream::new(seed, &format!("{name}/delay"));
                Self::PerPacket(Box::new(PacketDelay { most: *most, stream }))
            }
        }
    }

    /// The delay of a packet that leaves at `t`, which must not decrease; `None` without a path.
    #[inline(always)]
    pub(crate) fn at(&mut self, t: Time) -> Option<Time> {
        Some(match self {
            Self::Constant(delay) => *delay,
            Self::Steps { steps, cursor, value, until } => {
                if t >= *until {
                    (*value, *until) = steps.segment(cursor, t);
                }
                *value
            }
            Self::Jitter(jitter) => jitter.at(t),
            Self::Slots(slots) => slots.at(t),
            Self::Orbit(orbit) => return orbit.at(t),
            Self::PerPacket(delay) => delay.draw(),
        })
    }

    /// Whether a path exists at `t`, and a lower bound of how long that holds.
    pub(crate) fn has_path(&self, t: Time) -> (bool, Time) {
        match self {
            Self::Orbit(orbit) => orbit.has_path(t),
            _ => (true, Time::MAX),
        }
    }

    /// Lower bound of how long the most recently returned delay holds.
    pub(crate) fn holds_until(&self) -> Time {
        match self {
            Self::Constant(_) => Time::MAX,
            Self::Steps { until, .. } => *until,
            Self::Jitter(jitter) => jitter.holds_until(),
            Self::Slots(_) | Self::Orbit(_) | Self::PerPacket(_) => Time::ZERO,
        }
    }
}

/// A delay drawn per packet; see [`DelaySpec::PerPacket`].
pub(crate) struct PacketDelay {
    most: Time,
    stream: Stream,
}

impl PacketDelay {
    fn draw(&mut self) -> Time {
        Time::from_nanos(self.stream.below(self.most.as_nanos() + 1))
    }
}

/// A time-varying delay; see [`Jitter`].
pub(crate) struct JitterDelay {
    spec: Jitter,
    body: Wander,
    tail: Option<TailDelay>,
    /// Start of the body's current interval, and the values at its start and its end.
    start: Time,
    until: Time,
    from: Time,
    to: Time,
}

impl JitterDelay {
    fn new(spec: &Jitter, seed: u64, name: &str) -> Self {
        Self {
            body: Wander::new(seed, format!("{name}/delay"), spec.every, spec.memory),
            tail: spec.tail.map(|tail| TailDelay::new(tail, seed, name)),
            spec: spec.clone(),
            start: Time::ZERO,
            until: Time::ZERO,
            from: Time::ZERO,
            to: Time::ZERO,
        }
    }

    fn at(&mut self, t: Time) -> Time {
        if t >= self.until {
            let interval = self.body.interval(t);
            (self.start, self.until) = (self.body.start(interval), self.body.start(interval + 1));
            self.from = self.body_delay(interval);
            self.to = if self.spec.linear { self.body_delay(interval + 1) } else { self.from };
        }
        let mut delay = self.from;
        if self.spec.linear {
            let part = (t - self.start).as_nanos() as f64 / self.spec.every.as_nanos() as f64;
            let (from, to) = (self.from.as_nanos() as f64, self.to.as_nanos() as f64);
            delay = Time::from_nanos((from + (to - from) * part).round() as u64);
        }
        match &mut self.tail {
            None => delay,
            Some(tail) => delay + tail.at(t),
        }
    }

    fn holds_until(&self) -> Time {
        match &self.tail {
            _ if self.spec.linear => Time::ZERO,
            None => self.until,
            Some(tail) => self.until.min(tail.until),
        }
    }

    fn body_delay(&mut self, interval: u64) -> Time {
        let g = self.body.value(interval);
        Time::from_secs_f64(self.spec.base.as_secs_f64() + self.spec.body.value(g))
            .max(self.spec.min)
            .min(self.spec.max)
    }
}

/// The heavy tail of a jitter: one process selects the intervals, another one draws the delay.
struct TailDelay {
    spec: Tail,
    when: Wander,
    size: Wander,
    until: Time,
    extra: Time,
}

impl TailDelay {
    fn new(spec: Tail, seed: u64, name: &str) -> Self {
        Self {
            when: Wander::new(seed, format!("{name}/delay/tail"), spec.every, Time::ZERO),
            size: Wander::new(seed, format!("{name}/delay/tail/size"), spec.every, Time::ZERO),
            spec,
            until: Time::ZERO,
            extra: Time::ZERO,
        }
    }

    fn at(&mut self, t: Time) -> Time {
        if t >= self.until {
            let interval = self.when.interval(t);
            self.until = self.when.start(interval + 1);
            let has_it = above(self.when.value(interval)) < self.spec.share.as_f64();
            self.extra = if has_it { self.draw(interval) } else { Time::ZERO };
        }
        self.extra
    }

    fn draw(&mut self, interval: u64) -> Time {
        let g = self.size.value(interval);
        let seconds = match self.spec.shape {
            TailShape::Pareto { min, shape } => min.as_secs_f64() / libm::pow(above(g), 1.0 / shape),
            TailShape::LogNormal { median, sigma } => median.as_secs_f64() * libm::exp(sigma * g),
        };
        Time::from_secs_f64(seconds).min(self.spec.max)
    }
}

/// Additional delay under load; see [`Loaded`].
pub(crate) struct LoadedDelay {
    spec: Loaded,
    wander: Wander,
    /// Maximum bytes per window that do not load the link.
    allowed: u64,
    /// End of the current window.
    window_end: Time,
    /// Bytes that arrived in the current window and in the previous one.
    bytes: [u64; 2],
    until: Time,
    extra: Time,
}

impl LoadedDelay {
    pub(crate) fn new(spec: &Loaded, seed: u64, name: &str) -> Self {
        Self {
            wander: Wander::new(seed, format!("{name}/loaded"), spec.every, spec.memory),
            allowed: spec.above.bytes_in(spec.window).as_u64(),
            spec: spec.clone(),
            window_end: Time::ZERO,
            bytes: [0; 2],
            until: Time::ZERO,
            extra: Time::ZERO,
        }
    }

    /// Counts an arrival of `size` bytes at `now`.
    pub(crate) fn arrival(&mut self, now: Time, size: u32) {
        if now >= self.window_end {
            let next = now < self.window_end + self.spec.window;
            self.bytes = [0, if next { self.bytes[0] } else { 0 }];
            let window = now.as_nanos() / self.spec.window.as_nanos().max(1);
            self.window_end = self.spec.window * (window + 1);
        }
        self.bytes[0] += u64::from(size);
    }

    /// The additional delay of a packet that leaves at `t`.
    pub(crate) fn at(&mut self, t: Time) -> Time {
        if self.bytes.iter().all(|b| *b <= self.allowed) {
            return Time::ZERO;
        }
        if t >= self.until {
            let interval = self.wander.interval(t);
            self.until = self.wander.start(interval + 1);
            let g = self.wander.value(interval);
            self.extra = Time::from_secs_f64(self.spec.delay.as_secs_f64() + g * self.spec.sd.as_secs_f64());
        }
        self.extra
    }
}
