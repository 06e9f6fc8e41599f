//! The delay of a slotted link.

use perigee_units::{encode_struct, Time};

use super::overlay::Overlay;
use super::{draws, of_both_directions, SlotClock, SlotJitter, Slots, Spike};
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

encode_struct!(SlotDelay { clock, mean, sd, min, max, memory, jitter, spikes });

/// The delay of a slotted link over time; see [`SlotDelay`].
pub(crate) struct SlottedDelay {
    spec: SlotDelay,
    slots: Slots,
    mean: Wander,
    overlay: Overlay,
    /// The delay that holds, since when and until when.
    value: Time,
    pub(super) from: Time,
    pub(super) until: Time,
}

impl SlottedDelay {
    pub(crate) fn new(spec: &SlotDelay, seed: u64, name: &str) -> Self {
        let slots = Slots::new(&spec.clock, seed);
        let both = of_both_directions(name);
        Self {
            mean: draws(seed, format!("{both}/delay/slot"), slots.period, spec.memory),
            overlay: Overlay::new(spec.jitter, &spec.spikes, &slots, seed, name),
            spec: spec.clone(),
            slots,
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
        let spec = &self.spec;
        let of_slot = spec.mean.as_secs_f64() + self.mean.value(slot) * spec.sd.as_secs_f64();
        let of_slot = of_slot.clamp(spec.min.as_secs_f64(), spec.max.as_secs_f64());
        let added = self.overlay.at(slot, passed);
        let floor = spec.jitter.map_or(Time::ZERO, |jitter| jitter.floor);
        self.value = Time::from_secs_f64(of_slot + added.jitter.unwrap_or(0.0)).max(floor) + added.spikes;
        self.from = self.slots.instant(slot, added.from);
        self.until = self.slots.instant(slot, added.until);
    }
}
