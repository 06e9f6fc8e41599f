//! The sending part of a link: packets leave one after the other as fast as the rate allows.

use std::sync::Arc;

use perigee_units::{encode_enum, encode_struct, Bytes, Rate, Stream, Time};

use crate::clock::{work, Clock};
use crate::slots::SlottedRate;
use crate::steps::Cursor;
use crate::tdma::TdmaSpec;
use crate::wander::Wander;
use crate::{SlotRate, Steps};

/// How fast a link sends.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// Always the same.
    Constant(Rate),
    /// A recorded rate.
    Trace(Arc<Steps<Rate>>),
    /// A rate that wanders around a mean.
    Fluctuating(Fluctuation),
    /// A rate of its own in each slot of a constellation.
    Slots(Arc<SlotRate>),
    /// Slots of a TDMA channel, granted on demand.
    Tdma(Arc<TdmaSpec>),
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
            Self::Slots(slots) => slots.peak_bps(),
            Self::Tdma(tdma) => tdma.most_rate().as_bps() as f64,
            Self::Trace(steps) => seconds(steps).into_iter().fold(0.0, f64::max),
        }
    }

    /// The rate over a long time, bit/s; of slots on demand, what can be had by those who always ask.
    pub fn mean_bps(&self) -> f64 {
        match self {
            Self::Constant(rate) => rate.as_bps() as f64,
            Self::Fluctuating(f) => f.mean.as_bps() as f64,
            Self::Slots(slots) => slots.mean_bps(),
            Self::Tdma(tdma) => tdma.most_rate().as_bps() as f64,
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
/// plus an offset drawn once per run (`mood`).
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

encode_enum!(RateSpec { Constant(rate), Trace(steps), Fluctuating(fluctuation), Slots(slots), Tdma(tdma) });
encode_struct!(Fluctuation { mean, sd, min, max, every, memory, mood });

/// Serves packets at a rate, optionally through a token bucket.
///
/// All sums are whole numbers and what is left of a nanosecond is carried, so departures do not drift at any rate.
pub(crate) struct Server {
    source: Source,
    /// When everything accepted so far would be sent if there were no bucket.
    pub(crate) clock: Clock,
    bucket: Option<Bucket>,
    /// A second copy of the rate process, for queries about the past while `source` is ahead.
    mirror: RateOverTime,
}

/// A token bucket. A packet leaves when all work up to it, less the bucket's size, is done: `ahead` runs over the same
/// work as the server's clock but is given the bucket's size for free when the link has been idle.
struct Bucket {
    size: u64,
    free: u64,
    ahead: Clock,
}

enum Source {
    Constant(Rate),
    Steps { steps: Arc<Steps<Rate>>, per_period: u128 },
    Fluctuating(Fluctuating),
    Slots(Box<SlottedRate>),
}

struct Fluctuating {
    spec: Fluctuation,
    /// Mean of this run in bit/s, mood included.
    mean: f64,
    wander: Wander,
}

impl Server {
    pub(crate) fn new(spec: &RateSpec, burst: Bytes, seed: u64, name: &str) -> Self {
        let (source, mirror) = (Source::new(spec, seed, name), RateOverTime::new(spec, seed, name));
        let size = work(u32::try_from(burst.as_u64()).unwrap_or(u32::MAX));
        let bucket = (size > 0).then(|| Bucket { size, free: size, ahead: Clock::default() });
        Self { source, clock: Clock::default(), bucket, mirror }
    }

    /// Divides for each packet, as a reference for the sizes that are remembered else.
    pub(crate) fn forget_sizes(&mut self) {
        self.clock.forget_sizes();
        if let Some(bucket) = &mut self.bucket {
            bucket.ahead.forget_sizes();
        }
    }

    /// Whether a bucket lets packets go ahead of the rate.
    pub(crate) fn has_bucket(&self) -> bool {
        self.bucket.is_some()
    }

    /// Accepts a packet of `size` bytes (at most 2^31) at `now`; the instant at which it leaves.
    pub(crate) fn serve(&mut self, now: Time, size: u32) -> Time {
        if now > self.clock.at {
            (self.clock.at, self.clock.rest) = (now, 0);
            if let Some(bucket) = &mut self.bucket {
                bucket.free = bucket.size;
                bucket.ahead = self.clock;
            }
        }
        self.source.advance(&mut self.clock, size);
        let at_rate = self.clock.at;
        let Some(bucket) = &mut self.bucket else { return at_rate };
        if bucket.free == 0 {
            self.source.advance(&mut bucket.ahead, size);
        } else {
            let given = bucket.free.min(work(size));
            bucket.free -= given;
            self.source.work_off(&mut bucket.ahead, work(size) - given);
        }
        bucket.ahead.at.max(now)
    }

    /// The instant at which the service of a packet that arrives now would begin, if it lies ahead.
    pub(crate) fn busy_until(&self) -> Time {
        self.bucket.as_ref().map_or(self.clock.at, |bucket| bucket.ahead.at)
    }

    /// The mean rate between two instants; cheap where successive calls go forward in time.
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

    /// The rate at an instant.
    pub(crate) fn rate_at(&self, t: Time) -> Rate {
        match &self.source {
            Source::Constant(rate) => *rate,
            Source::Steps { steps, .. } => steps.at(t),
            Source::Fluctuating(f) => {
                let interval = f.wander.interval(t);
                let g = f.wander.kept(interval).unwrap_or_else(|| f.wander.clone().value(interval));
                f.rate(g)
            }
            Source::Slots(slots) => slots.rate_at(t),
        }
    }
}

/// The rate of a link without packets.
pub(crate) struct RateOverTime {
    source: Source,
    cursor: Cursor,
}

impl RateOverTime {
    pub(crate) fn new(spec: &RateSpec, seed: u64, name: &str) -> Self {
        Self { source: Source::new(spec, seed, name), cursor: Cursor::default() }
    }

    /// The rate at an instant, and the instant until which it holds.
    pub(crate) fn segment(&mut self, t: Time) -> (Rate, Time) {
        self.source.segment(&mut self.cursor, t)
    }
}

impl Source {
    fn new(spec: &RateSpec, seed: u64, name: &str) -> Self {
        match spec {
            RateSpec::Constant(rate) => Self::Constant(*rate),
            RateSpec::Trace(steps) => Self::Steps { steps: steps.clone(), per_period: per_period(steps) },
            // Nothing of such a link comes to its server.
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

    /// The rate at an instant, and the instant until which it holds.
    fn segment(&mut self, cursor: &mut Cursor, t: Time) -> (Rate, Time) {
        match self {
            Self::Constant(rate) => (*rate, Time::MAX),
            Self::Steps { steps, .. } => steps.segment(cursor, t),
            Self::Fluctuating(f) => f.segment(t),
            Self::Slots(slots) => slots.segment(t),
        }
    }

    /// Moves the clock on by a packet.
    fn advance(&mut self, clock: &mut Clock, size: u32) {
        if !clock.advance_by(size) {
            self.advance_by_division(clock, size);
        }
    }

    #[cold]
    fn advance_by_division(&mut self, clock: &mut Clock, size: u32) {
        let until = self.work_off(clock, work(size));
        clock.remember(size, until);
    }

    /// Moves the clock on by an amount of work; until when the rate holds that it works at then.
    fn work_off(&mut self, clock: &mut Clock, amount: u64) -> Time {
        let mut left = amount.saturating_add(clock.rest);
        clock.rest = 0;
        loop {
            let (rate, until) = self.segment(&mut clock.cursor, clock.at);
            clock.rate = if rate == Rate::UNLIMITED { 0 } else { rate.as_bps() };
            if rate == Rate::UNLIMITED {
                return until;
            }
            let capacity = rate.as_bps().saturating_mul((until - clock.at).as_nanos());
            if left < capacity {
                clock.at += Time::from_nanos(left / rate.as_bps());
                clock.rest = left % rate.as_bps();
                return until;
            }
            clock.at = until;
            left -= capacity;
            if left == 0 || until == Time::MAX {
                return until;
            }
            if let Self::Steps { steps, per_period } = self {
                skip_periods(steps, *per_period, clock, &mut left);
            }
        }
    }
}

/// Work that takes longer than a period of a recording passes whole periods at once; a recording without any capacity
/// never gets it done.
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
