//! The server of a link: packets leave back to back at the link's rate.

use std::sync::Arc;

use perigee_units::{encode_enum, encode_struct, Bytes, Rate, Stream, Time};

use crate::clock::{work, Clock};
use crate::slots::SlottedRate;
use crate::states::StatesOverTime;
use crate::steps::Cursor;
use crate::tdma::TdmaSpec;
use crate::wander::Wander;
use crate::{SlotRate, Steps};

/// The rate of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// Constant rate.
    Constant(Rate),
    /// A recorded rate.
    Trace(Arc<Steps<Rate>>),
    /// A rate that fluctuates around a mean.
    Fluctuating(Fluctuation),
    /// One rate per slot of a constellation.
    Slots(Arc<SlotRate>),
    /// Slots of a TDMA channel, allocated on demand.
    Tdma(Arc<TdmaSpec>),
}

impl RateSpec {
    /// The rate that the link can sustain for a second, bit/s.
    pub fn peak_bps(&self) -> f64 {
        match self {
            Self::Constant(rate) => rate.as_bps() as f64,
            Self::Fluctuating(f) => {
                let wide = f.mean.as_bps() + 3 * (f.sd.as_bps() + f.mood.as_bps());
                wide.min(f.max.as_bps()) as f64
            }
            Self::Slots(slots) => slots.peak_bps(),
            Self::Tdma(tdma) => tdma.most_rate().as_bps() as f64,
            Self::Trace(steps) => seconds(steps).into_iter().fold(0.0, f64::max),
        }
    }

    /// The long-term rate, bit/s; for slots on demand, the rate of terminals that always request.
    pub fn mean_bps(&self) -> f64 {
        match self {
            Self::Constant(rate) => rate.as_bps() as f64,
            Self::Fluctuating(f) => f.mean.as_bps() as f64,
            Self::Slots(slots) => slots.mean_bps(),
            Self::Tdma(tdma) => tdma.most_rate().as_bps() as f64,
            Self::Trace(steps) => mean(&seconds(steps)),
        }
    }
}

fn mean(seconds: &[f64]) -> f64 {
    seconds.iter().sum::<f64>() / seconds.len().max(1) as f64
}

/// Mean rate of each whole second of a recording, and of the remainder of a recording shorter than that. The last value of a recording that
/// does not repeat counts for a second, unless it is zero.
fn seconds(steps: &Steps<Rate>) -> Vec<f64> {
    let points: Vec<_> = steps.iter().map(|(at, rate)| (at.as_secs_f64(), rate.as_bps() as f64)).collect();
    let last = points.last().map_or(0.0, |(at, bps)| if *bps > 0.0 { at + 1.0 } else { *at });
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

/// A rate that fluctuates around its mean: a new value per `every`, autocorrelated (a first-order autoregression), plus an offset drawn
/// once per run (`mood`).
#[derive(Clone, Debug, PartialEq)]
pub struct Fluctuation {
    /// Mean, before the limits `min` and `max`.
    pub mean: Rate,
    /// Standard deviation within a run.
    pub sd: Rate,
    /// Minimum.
    pub min: Rate,
    /// Maximum.
    pub max: Rate,
    /// Interval between values.
    pub every: Time,
    /// Time after which the autocorrelation is 1/e; zero for independent values.
    pub memory: Time,
    /// Standard deviation of the mean between runs.
    pub mood: Rate,
}

encode_enum!(RateSpec { Constant(rate), Trace(steps), Fluctuating(fluctuation), Slots(slots), Tdma(tdma) });
encode_struct!(Fluctuation { mean, sd, min, max, every, memory, mood });

/// Serves packets at a rate, optionally through a token bucket.
///
/// All sums are integers, and fractions of a nanosecond are carried, so departures do not drift at any rate.
pub(crate) struct Server {
    source: Source,
    /// When everything accepted so far would be sent without a bucket.
    pub(crate) clock: Clock,
    bucket: Option<Bucket>,
    /// A second copy of the rate process, for queries about the past while `source` is ahead.
    mirror: RateOverTime,
}

/// A token bucket. A packet leaves when all work before it, less the bucket's size, is done: `with_credit` counts the same work as the
/// server's clock but gets the bucket's size for free after an idle period.
struct Bucket {
    size: u64,
    free: u64,
    with_credit: Clock,
}

enum Source {
    Constant(Rate),
    Steps {
        steps: Arc<Steps<Rate>>,
        per_period: u128,
    },
    Fluctuating(Fluctuating),
    Slots(Box<SlottedRate>),
    /// A rate that the states of the link change.
    Stated(Box<(Source, StatesOverTime)>),
}

struct Fluctuating {
    spec: Fluctuation,
    /// Mean of this run in bit/s, including `mood`.
    mean: f64,
    wander: Wander,
}

impl Server {
    pub(crate) fn new(spec: &RateSpec, burst: Bytes, seed: u64, name: &str) -> Self {
        let (source, mirror) = (Source::new(spec, seed, name), RateOverTime::new(spec, seed, name));
        let size = work(u32::try_from(burst.as_u64()).unwrap_or(u32::MAX));
        let bucket = (size > 0).then(|| Bucket { size, free: size, with_credit: Clock::default() });
        Self { source, clock: Clock::default(), bucket, mirror }
    }

    /// Changes the rate with the states of the link.
    #[must_use]
    pub(crate) fn in_states(self, states: &StatesOverTime) -> Self {
        let mirror = RateOverTime { source: self.mirror.source.in_states(states), ..self.mirror };
        Self { source: self.source.in_states(states), mirror, ..self }
    }

    /// Disables the cache of packet sizes: each packet divides, as the reference.
    pub(crate) fn disable_cache(&mut self) {
        self.clock.disable_cache();
        if let Some(bucket) = &mut self.bucket {
            bucket.with_credit.disable_cache();
        }
    }

    /// Whether a token bucket lets packets exceed the rate.
    pub(crate) fn has_bucket(&self) -> bool {
        self.bucket.is_some()
    }

    /// Accepts a packet of `size` bytes (at most 2^31) at `now`; returns its departure.
    pub(crate) fn serve(&mut self, now: Time, size: u32) -> Time {
        if now > self.clock.at {
            (self.clock.at, self.clock.rest) = (now, 0);
            if let Some(bucket) = &mut self.bucket {
                bucket.free = bucket.size;
                bucket.with_credit = self.clock;
            }
        }
        self.source.advance(&mut self.clock, size);
        let at_rate = self.clock.at;
        let Some(bucket) = &mut self.bucket else { return at_rate };
        if bucket.free == 0 {
            self.source.advance(&mut bucket.with_credit, size);
        } else {
            let given = bucket.free.min(work(size));
            bucket.free -= given;
            self.source.work_off(&mut bucket.with_credit, work(size) - given);
        }
        bucket.with_credit.at.max(now)
    }

    /// When the server is free.
    pub(crate) fn busy_until(&self) -> Time {
        self.bucket.as_ref().map_or(self.clock.at, |bucket| bucket.with_credit.at)
    }

    /// The mean rate between two instants; cheap if successive calls advance in time.
    pub(crate) fn mean_rate(&mut self, from: Time, to: Time) -> Rate {
        let (mut at, mut work) = (from, 0u128);
        while at < to {
            let (rate, until) = self.mirror.segment(at);
            if rate == Rate::UNLIMITED {
                return rate;
            }
            let end = until.min(to);
            work += u128::from(rate.as_bps()) * u128::from((end - at).as_nanos());
            at = end;
        }
        match u128::from((to - from).as_nanos()) {
            0 => self.rate_at(from),
            length => Rate::from_bps((work / length) as u64),
        }
    }

    /// The rate at an instant; that of the step where bursts carry it.
    pub(crate) fn rate_at(&self, t: Time) -> Rate {
        self.source.rate_at(t)
    }
}

impl Source {
    fn rate_at(&self, t: Time) -> Rate {
        match self {
            Source::Constant(rate) => *rate,
            Source::Steps { steps, .. } => steps.at(t),
            Source::Fluctuating(f) => {
                let interval = f.wander.interval(t);
                let g = f.wander.kept(interval).unwrap_or_else(|| f.wander.clone().value(interval));
                f.rate(g)
            }
            Source::Slots(slots) => slots.rate_at(t),
            Source::Stated(stated) => stated.1.clone().modulate(t, (stated.0.rate_at(t), Time::MAX)).0,
        }
    }
}

/// The rate of a link over time, independent of packets.
pub(crate) struct RateOverTime {
    source: Source,
    cursor: Cursor,
}

impl RateOverTime {
    pub(crate) fn new(spec: &RateSpec, seed: u64, name: &str) -> Self {
        Self { source: Source::new(spec, seed, name), cursor: Cursor::default() }
    }

    /// Returns the server with the capacity of a slot spread over the gaps between its bursts.
    pub(crate) fn without_bursts(spec: &RateSpec, seed: u64, name: &str) -> Self {
        match spec {
            RateSpec::Slots(slots) => {
                let slots = SlotRate { grants: None, ..(**slots).clone() };
                Self::new(&RateSpec::Slots(Arc::new(slots)), seed, name)
            }
            _ => Self::new(spec, seed, name),
        }
    }

    /// The rate at an instant, and how long it holds.
    pub(crate) fn segment(&mut self, t: Time) -> (Rate, Time) {
        self.source.segment(&mut self.cursor, t)
    }
}

impl Source {
    fn new(spec: &RateSpec, seed: u64, name: &str) -> Self {
        match spec {
            RateSpec::Constant(rate) => Self::Constant(*rate),
            RateSpec::Trace(steps) => Self::Steps { steps: steps.clone(), per_period: per_period(steps) },
            // The channel serves the packets of such a link, not its server.
            RateSpec::Tdma(tdma) => Self::Constant(tdma.most_rate()),
            RateSpec::Slots(slots) => Self::Slots(Box::new(SlottedRate::new(slots, seed, name))),
            RateSpec::Fluctuating(spec) => {
                let mood = Stream::new(seed, &format!("{name}/rate/mood")).normal();
                Self::Fluctuating(Fluctuating {
                    mean: spec.mean.as_bps() as f64 + mood * spec.mood.as_bps() as f64,
                    wander: Wander::new(seed, format!("{name}/rate"), spec.every, spec.memory),
                    spec: spec.clone(),
                })
            }
        }
    }

    /// A recording without capacity never does its work, whatever its state.
    fn in_states(self, states: &StatesOverTime) -> Self {
        match self {
            Self::Steps { per_period: 0, steps } if steps.period().is_some() => Self::Steps { steps, per_period: 0 },
            source => Self::Stated(Box::new((source, states.clone()))),
        }
    }

    /// The rate at an instant, and how long it holds.
    fn segment(&mut self, cursor: &mut Cursor, t: Time) -> (Rate, Time) {
        match self {
            Self::Constant(rate) => (*rate, Time::MAX),
            Self::Steps { steps, .. } => steps.segment(cursor, t),
            Self::Fluctuating(f) => f.segment(t),
            Self::Slots(slots) => slots.segment(t),
            Self::Stated(stated) => {
                let (source, states) = &mut **stated;
                states.modulate(t, source.segment(cursor, t))
            }
        }
    }

    /// Advances the clock by a packet.
    fn advance(&mut self, clock: &mut Clock, size: u32) {
        if !clock.advance_by(size) {
            self.advance_by_division(clock, size);
        }
    }

    #[cold]
    fn advance_by_division(&mut self, clock: &mut Clock, size: u32) {
        self.work_off(clock, work(size));
        clock.remember(size);
    }

    /// Advances the clock by an amount of work.
    fn work_off(&mut self, clock: &mut Clock, amount: u64) {
        let mut left = amount.saturating_add(clock.rest);
        clock.rest = 0;
        loop {
            let (rate, until) = self.segment(&mut clock.cursor, clock.at);
            clock.rate = if rate == Rate::UNLIMITED { 0 } else { rate.as_bps() };
            clock.rate_until = until;
            if rate == Rate::UNLIMITED {
                return;
            }
            let capacity = rate.as_bps().saturating_mul((until - clock.at).as_nanos());
            if left < capacity {
                clock.at += Time::from_nanos(left / rate.as_bps());
                clock.rest = left % rate.as_bps();
                return;
            }
            clock.at = until;
            left -= capacity;
            if left == 0 || until == Time::MAX {
                return;
            }
            if let Self::Steps { steps, per_period } = self {
                skip_periods(steps, *per_period, clock, &mut left);
            }
        }
    }
}

/// Skips whole periods of a recording at once. Work on a recording without capacity is never done.
fn skip_periods(steps: &Steps<Rate>, per_period: u128, clock: &mut Clock, left: &mut u64) {
    let Some(period) = steps.period() else { return };
    if per_period == 0 {
        clock.at = Time::MAX;
        return;
    }
    let periods = u64::try_from(u128::from(*left - 1) / per_period).unwrap_or(u64::MAX);
    *left -= (u128::from(periods) * per_period) as u64;
    clock.at += period * periods;
}

/// Work that one period of a recording does.
fn per_period(steps: &Steps<Rate>) -> u128 {
    let Some(period) = steps.period() else { return 0 };
    let ends = steps.iter().skip(1).map(|(start, _)| start).chain([period]);
    steps.iter().zip(ends).map(|((start, r), end)| u128::from(r.as_bps()) * u128::from((end - start).as_nanos())).sum()
}

impl Fluctuating {
    fn segment(&mut self, t: Time) -> (Rate, Time) {
        let interval = self.wander.interval(t);
        let g = self.wander.value(interval);
        (self.rate(g), self.wander.start(interval + 1))
    }

    fn rate(&self, g: f64) -> Rate {
        let bps = self.mean + g * self.spec.sd.as_bps() as f64;
        Rate::from_bps(bps.round().max(0.0) as u64).clamp(self.spec.min, self.spec.max)
    }
}
