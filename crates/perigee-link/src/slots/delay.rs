//! The delay of a slotted link.

use perigee_units::{encode_struct, Ratio, Time};

use super::{draws, of_both_directions, LogNormal, SlotClock, Slots};
use crate::body::{above, Body};
use crate::wander::Wander;

/// A delay that is drawn anew for each slot, moves within it, and is longer around its begin.
///
/// Both directions of a link share the path, so they have the same slots, the same delay of a slot and the same spikes; what moves
/// within a slot is of each direction alone.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotDelay {
    /// When slots begin.
    pub clock: SlotClock,
    /// Mean over slots, before `min` and `max` cut it.
    pub mean: Time,
    /// Standard deviation between slots.
    pub sd: Time,
    /// A slot's delay is never shorter.
    pub min: Time,
    /// A slot's delay is never longer.
    pub max: Time,
    /// Time in which the autocorrelation from slot to slot falls to 1/e; zero: each slot is independent.
    pub memory: Time,
    /// What moves within a slot.
    pub jitter: Option<SlotJitter>,
    /// Longer delays around the begin of a slot.
    pub spikes: Vec<Spike>,
}

/// What moves within a slot: it is added to the slot's delay, which never gets below `floor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotJitter {
    /// Distribution of what is added.
    pub body: Body,
    /// Interval between new values, from the begin of a slot on.
    pub every: Time,
    /// Time in which the autocorrelation falls to 1/e; zero: each value is independent.
    pub memory: Time,
    /// The delay is never shorter.
    pub floor: Time,
}

/// A longer delay near the begin of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spike {
    /// Its begin before that of the slot; zero where it begins `after` it.
    pub before: Time,
    /// Its begin after that of the slot.
    pub after: Time,
    /// Share of the slots that have it.
    pub share: Ratio,
    /// How long, drawn per slot.
    pub length: LogNormal,
    /// How much is added, drawn per slot.
    pub height: LogNormal,
}

encode_struct!(SlotDelay { clock, mean, sd, min, max, memory, jitter, spikes });
encode_struct!(SlotJitter { body, every, memory, floor });
encode_struct!(Spike { before, after, share, length, height });

/// The delay of a slotted link over time; see [`SlotDelay`].
pub(crate) struct SlottedDelay {
    spec: SlotDelay,
    slots: Slots,
    mean: Wander,
    jitter: Option<Moving>,
    spikes: Vec<SpikeDraws>,
    /// The delay that holds, since when and until when.
    value: Time,
    pub(super) from: Time,
    pub(super) until: Time,
}

struct Moving {
    wander: Wander,
    steps_per_slot: u64,
}

struct SpikeDraws {
    spike: Spike,
    has_it: Wander,
    length: Wander,
    height: Wander,
}

/// A spike of one slot: from and to when, in ns of a time that is never negative, and how much.
#[derive(Clone, Copy)]
struct Extra {
    from: u64,
    to: u64,
    height: Time,
}

impl SlottedDelay {
    pub(crate) fn new(spec: &SlotDelay, seed: u64, name: &str) -> Self {
        let slots = Slots::new(&spec.clock, seed);
        let both = of_both_directions(name);
        let jitter = spec.jitter.map(|jitter| Moving {
            wander: draws(seed, format!("{name}/delay/jitter"), jitter.every.as_nanos(), jitter.memory),
            steps_per_slot: slots.period.div_ceil(jitter.every.as_nanos().max(1)),
        });
        let spikes = spec.spikes.iter().enumerate().map(|(i, spike)| {
            let of = |what: &str| draws(seed, format!("{both}/delay/spike/{i}{what}"), slots.period, Time::ZERO);
            SpikeDraws { spike: *spike, has_it: of(""), length: of("/length"), height: of("/height") }
        });
        Self {
            mean: draws(seed, format!("{both}/delay/slot"), slots.period, spec.memory),
            spikes: spikes.collect(),
            spec: spec.clone(),
            slots,
            jitter,
            value: Time::ZERO,
            from: Time::ZERO,
            until: Time::ZERO,
        }
    }

    /// The delay of a packet that leaves at `t`.
    #[inline]
    pub(crate) fn at(&mut self, t: Time) -> Time {
        if t >= self.until || t < self.from {
            self.draw(t);
        }
        self.value
    }

    /// Draws what holds at `t`, and finds out until when.
    fn draw(&mut self, t: Time) {
        let (slot, passed) = self.slots.at(t);
        let (mut from, mut until) = (0, self.slots.period);
        let spec = &self.spec;
        let of_slot = spec.mean.as_secs_f64() + self.mean.value(slot) * spec.sd.as_secs_f64();
        let of_slot = of_slot.clamp(spec.min.as_secs_f64(), spec.max.as_secs_f64());
        let mut delay = match (&mut self.jitter, &spec.jitter) {
            (Some(moving), Some(jitter)) => {
                let every = jitter.every.as_nanos().max(1);
                let step = passed / every;
                (from, until) = (step * every, until.min((step + 1) * every));
                let g = moving.wander.value(slot * moving.steps_per_slot + step);
                Time::from_secs_f64(of_slot + jitter.body.value(g)).max(jitter.floor)
            }
            _ => Time::from_secs_f64(of_slot),
        };
        // One slot later than it is, so that a spike before the begin of slot 0 is not before all time.
        let now = self.slots.period + passed;
        (from, until) = (from + self.slots.period, until + self.slots.period);
        for draws in &mut self.spikes {
            for extra in [draws.of(slot, self.slots.period), draws.of(slot + 1, 2 * self.slots.period)] {
                let Some(extra) = extra else { continue };
                if now < extra.from {
                    until = until.min(extra.from);
                } else if now < extra.to {
                    (from, until) = (from.max(extra.from), until.min(extra.to));
                    delay += extra.height;
                } else {
                    from = from.max(extra.to);
                }
            }
        }
        self.value = delay;
        self.from = self.slots.instant(slot, from - self.slots.period);
        self.until = self.slots.instant(slot, until - self.slots.period);
    }
}

impl SpikeDraws {
    /// The spike of a slot that begins at `begin`, if it has one.
    fn of(&mut self, slot: u64, begin: u64) -> Option<Extra> {
        let spike = &self.spike;
        if above(self.has_it.value(slot)) >= spike.share.as_f64() {
            return None;
        }
        let from = (begin + spike.after.as_nanos()).saturating_sub(spike.before.as_nanos());
        let to = from + spike.length.value(self.length.value(slot)).as_nanos();
        Some(Extra { from, to, height: spike.height.value(self.height.value(slot)) })
    }
}
