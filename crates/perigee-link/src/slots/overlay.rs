//! Jitter within a slot, and delay spikes around its start.

use perigee_units::{encode_struct, Ratio, Time};

use super::{draws, of_both_directions, LogNormal, Slots};
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

/// A delay spike near the start of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spike {
    /// Its start before that of the slot; zero if it starts `after` it.
    pub before: Time,
    /// Its start after that of the slot.
    pub after: Time,
    /// Share of the slots with a spike.
    pub share: Ratio,
    /// Its length, drawn per slot.
    pub length: LogNormal,
    /// Its height, drawn per slot.
    pub height: LogNormal,
}

encode_struct!(SlotJitter { body, every, memory, floor });
encode_struct!(Spike { before, after, share, length, height });

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
            let of = |what: &str| draws(seed, format!("{both}/delay/spike/{i}{what}"), slots.period, Time::ZERO);
            SpikeDraws { spike: *spike, has_it: of(""), length: of("/length"), height: of("/height") }
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
                    (from, until) = (from.max(extra.from), until.min(extra.to));
                    spikes += extra.height;
                } else {
                    from = from.max(extra.to);
                }
            }
        }
        Added { jitter, spikes, from: from - self.period, until: until - self.period }
    }
}

impl SpikeDraws {
    /// The spike of the slot that starts at `begin`, if it has one.
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
