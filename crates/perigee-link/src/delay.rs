//! How long a packet is in the air.

use std::sync::Arc;

use perigee_units::{encode_enum, encode_struct, Rate, Ratio, Stream, Time};

use crate::body::{above, Body};
use crate::slots::{OrbitalDelay, SlottedDelay};
use crate::steps::Cursor;
use crate::wander::Wander;
use crate::{OrbitDelay, SlotDelay, Steps};

/// How long a packet is in the air.
#[derive(Clone, Debug, PartialEq)]
pub enum DelaySpec {
    /// Always the same.
    Constant(Time),
    /// A recorded one-way delay.
    Trace(Arc<Steps<Time>>),
    /// A delay that moves, with a heavy tail.
    Jitter(Jitter),
    /// A delay of its own in each slot of a constellation.
    Slots(Arc<SlotDelay>),
    /// The delay of a path over satellites whose places are computed.
    Orbit(Arc<OrbitDelay>),
    /// Drawn for each packet, uniform from zero to this: what a host takes for a packet.
    PerPacket(Time),
}

impl DelaySpec {
    /// The delay of most packets: the constant, the mean of a recording, of slots or of a path, the base of a jitter, the mean of
    /// what is drawn for each packet.
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
            Self::Trace(steps) => {
                let (count, sum) = steps
                    .iter()
                    .fold((0, 0_u128), |(count, sum), (_, delay)| (count + 1, sum + u128::from(delay.as_nanos())));
                Time::from_nanos((sum / u128::from(count.max(1_u64))) as u64)
            }
        }
    }
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

encode_enum!(DelaySpec { Constant(delay), Trace(steps), Jitter(jitter), Slots(slots), Orbit(orbit), PerPacket(most) });
encode_struct!(Jitter { base, body, min, max, every, memory, linear, tail });
encode_struct!(Tail { share, every, shape, max });
encode_enum!(TailShape { Pareto { min, shape }, LogNormal { median, sigma } });
encode_struct!(Loaded { above, window, delay, sd, every, memory });

/// The delay of a link as a function of the instant at which a packet leaves its queue.
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

    /// The delay of a packet that leaves at `t`, which never goes back; `None`: it has no way to the end of the link.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a feed-forward link")]
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

    /// Whether a packet that leaves at `t` has a way to the end of the link, and until when at least that holds.
    pub(crate) fn has_path(&self, t: Time) -> (bool, Time) {
        match self {
            Self::Orbit(orbit) => orbit.has_path(t),
            _ => (true, Time::MAX),
        }
    }

    /// Until when the last delay that was asked for holds, as far as is known.
    pub(crate) fn holds_until(&self) -> Time {
        match self {
            Self::Constant(_) => Time::MAX,
            Self::Steps { until, .. } => *until,
            Self::Jitter(jitter) => jitter.holds_until(),
            Self::Slots(_) | Self::Orbit(_) | Self::PerPacket(_) => Time::ZERO,
        }
    }
}

/// A delay of each packet by itself; see [`DelaySpec::PerPacket`].
pub(crate) struct PacketDelay {
    most: Time,
    stream: Stream,
}

impl PacketDelay {
    fn draw(&mut self) -> Time {
        Time::from_nanos(self.stream.below(self.most.as_nanos() + 1))
    }
}

/// A delay that moves; see [`Jitter`].
pub(crate) struct JitterDelay {
    spec: Jitter,
    body: Wander,
    tail: Option<TailDelay>,
    /// The running interval of the body, and its values there and in the next one.
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

/// The heavy tail of a jitter: one process says which intervals have it, another how much.
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

/// Delay that is added while the link is loaded; see [`Loaded`].
pub(crate) struct LoadedDelay {
    spec: Loaded,
    wander: Wander,
    /// Bytes that may arrive in a window without loading the link.
    allowed: u64,
    /// End of the running window.
    window_end: Time,
    /// Bytes that arrived in the running window and in the one before it.
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

    /// What is added to the delay of a packet that leaves at `t`.
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
