//! Jitter within a slot, and delay spikes around its start.

use std::ops::Range;

use perigee_units::{encode_struct, Ratio, Time};

use super::{draws, draws_of_changes, of_both_directions, LogNormal, Slots};
use crate::body::{above, Body};
use crate::wander::Wander;

/// Jitter within a slot, added to the slot's delay; the sum is at least `floor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotJitter {
    /// Distribution of the jitter.
    pub body: Body,
    /// Interval between values, from the start of the slot.
    pub every: Time,
    /// Time after which the autocorrelation is 1/e; zero for independent values.
    pub memory: Time,
    /// Minimum delay.
    pub floor: Time,
}

/// A delay spike near the start of a slot: from its start, the delay changes along a straight line to the height at the peak, and along
/// another to nothing at the end. With both shares at one, it has its height throughout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spike {
    /// Its start before that of the slot; zero if it starts `after` it.
    pub before: Time,
    /// Its start after that of the slot, drawn per slot.
    pub after: LogNormal,
    /// Share of the slots with a spike.
    pub share: Ratio,
    /// Its length, drawn per slot.
    pub length: LogNormal,
    /// Its height at the peak, drawn per slot.
    pub height: LogNormal,
    /// Share of the height at its start.
    pub begin: Ratio,
    /// Share of its length before the peak.
    pub peak: Ratio,
    /// Its place, length and height follow the length of the slot's outage, if that is of both directions: they have the same normal draw.
    pub with_outage: bool,
}

encode_struct!(SlotJitter { body, every, memory, floor });
encode_struct!(Spike { before, after, share, length, height, begin, peak, with_outage });

/// Jitter and spikes of a slotted link over time. The jitter is independent per direction; the spikes are shared.
pub(super) struct Overlay {
    period: u64,
    jitter: Option<Moving>,
    spikes: Vec<SpikeDraws>,
}

/// The additional delay at an instant, and the part of the slot in which it holds, ns.
pub(super) struct Added {
    /// The draw of the jitter, s.
    pub(super) jitter: Option<f64>,
    pub(super) spikes: Time,
    pub(super) from: u64,
    pub(super) until: u64,
}

struct Moving {
    spec: SlotJitter,
    wander: Wander,
    steps_per_slot: u64,
}

struct SpikeDraws {
    spike: Spike,
    has_it: Wander,
    after: Wander,
    length: Wander,
    height: Wander,
}

/// The spike of a slot: start and end, in ns of a non-negative time, and height.
#[derive(Clone, Copy)]
struct Extra {
    from: u64,
    to: u64,
    height: Time,
}

impl Overlay {
    pub(super) fn new(jitter: Option<SlotJitter>, spikes: &[Spike], slots: &Slots, seed: u64, name: &str) -> Self {
        let both = of_both_directions(name);
        let jitter = jitter.map(|spec| Moving {
            spec,
            wander: draws(seed, format!("{name}/delay/jitter"), spec.every.as_nanos(), spec.memory),
            steps_per_slot: slots.period.div_ceil(spec.every.as_nanos().max(1)),
        });
        let spikes = spikes.iter().enumerate().map(|(i, spike)| {
            let own = |what: &str| draws(seed, format!("{both}/delay/spike/{i}{what}"), slots.period, Time::ZERO);
            let of = |what: &str| if spike.with_outage { draws_of_changes(seed, name, slots) } else { own(what) };
            SpikeDraws {
                spike: *spike,
                has_it: own(""),
                after: of("/after"),
                length: of("/length"),
                height: of("/height"),
            }
        });
        Self { period: slots.period, jitter, spikes: spikes.collect() }
    }

    /// The additional delay after `passed` ns of a slot.
    pub(super) fn at(&mut self, slot: u64, passed: u64) -> Added {
        let (mut from, mut until) = (0, self.period);
        let jitter = self.jitter.as_mut().map(|moving| {
            let every = moving.spec.every.as_nanos().max(1);
            let step = passed / every;
            (from, until) = (step * every, until.min((step + 1) * every));
            let g = moving.wander.value(slot * moving.steps_per_slot + step);
            moving.spec.body.value(g)
        });
        // Shifted by one slot, so that a spike before the start of slot 0 has a non-negative time.
        let now = self.period + passed;
        (from, until) = (from + self.period, until + self.period);
        let mut spikes = Time::ZERO;
        for draws in &mut self.spikes {
            for extra in [draws.of(slot, self.period), draws.of(slot + 1, 2 * self.period)] {
                let Some(extra) = extra else { continue };
                if now < extra.from {
                    until = until.min(extra.from);
                } else if now < extra.to {
                    let (height, step) = extra.at(now, &draws.spike);
                    (from, until) = (from.max(step.start), until.min(step.end));
                    spikes += height;
                } else {
                    from = from.max(extra.to);
                }
            }
        }
        Added { jitter, spikes, from: from - self.period, until: until - self.period }
    }
}

impl Extra {
    /// The height at an instant within the spike, and how long it holds: straight lines are staircases.
    fn at(&self, now: u64, spike: &Spike) -> (Time, Range<u64>) {
        let (begin, peak) = (spike.begin.as_f64(), spike.peak.as_f64());
        if begin >= 1.0 && peak >= 1.0 {
            return (self.height, self.from..self.to);
        }
        let from = now - (now - self.from) % STAIR;
        let to = (from + STAIR).min(self.to);
        let middle = (u64::midpoint(from, to) - self.from) as f64 / (self.to - self.from) as f64;
        let share = if middle < peak { begin + (1.0 - begin) * middle / peak } else { (1.0 - middle) / (1.0 - peak) };
        (Time::from_secs_f64(share * self.height.as_secs_f64()), from..to)
    }
}

impl SpikeDraws {
    fn of(&mut self, slot: u64, begin: u64) -> Option<Extra> {
        let spike = &self.spike;
        if above(self.has_it.value(slot)) >= spike.share.as_f64() {
            return None;
        }
        let after = spike.after.value(self.after.value(slot)).as_nanos();
        let from = (begin + after).saturating_sub(spike.before.as_nanos());
        let to = from + spike.length.value(self.length.value(slot)).as_nanos();
        Some(Extra { from, to, height: spike.height.value(self.height.value(slot)) })
    }
}

/// Length of a step of a spike that rises or falls, ns.
const STAIR: u64 = 1_000_000;
