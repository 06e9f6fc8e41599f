//! What moves within a slot, and the longer delays around its begin.

use perigee_units::{encode_struct, Ratio, Time};

use super::{draws, of_both_directions, LogNormal, Slots};
use crate::body::{above, Body};
use crate::wander::Wander;

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

encode_struct!(SlotJitter { body, every, memory, floor });
encode_struct!(Spike { before, after, share, length, height });

/// Jitter and spikes of a slotted link over time: jitter is of one direction, spikes are of both.
pub(super) struct Overlay {
    period: u64,
    jitter: Option<Moving>,
    spikes: Vec<SpikeDraws>,
}

/// What is added at an instant, and from when until when in its slot, ns.
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

/// A spike of one slot: from and to when, in ns of a time that is never negative, and how much.
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

    /// What is added once so much of a slot has passed, ns.
    pub(super) fn at(&mut self, slot: u64, passed: u64) -> Added {
        let (mut from, mut until) = (0, self.period);
        let jitter = self.jitter.as_mut().map(|moving| {
            let every = moving.spec.every.as_nanos().max(1);
            let step = passed / every;
            (from, until) = (step * every, until.min((step + 1) * every));
            let g = moving.wander.value(slot * moving.steps_per_slot + step);
            moving.spec.body.value(g)
        });
        // One slot later than it is, so that a spike before the begin of slot 0 is not before all time.
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
