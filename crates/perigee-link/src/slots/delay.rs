//! The delay of a slotted link.

use perigee_units::{encode_struct, Time};

use super::overlay::Overlay;
use super::{draws, of_both_directions, SlotClock, SlotJitter, Slots, Spike};
use crate::wander::Wander;

/// A delay drawn per slot, with jitter within the slot and spikes around its start.
///
/// Both directions of a link share the path, so they have the same slots, slot delays and spikes; the jitter is independent per direction.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotDelay {
    /// Start times of slots.
    pub clock: SlotClock,
    /// Mean over slots, before the limits `min` and `max`.
    pub mean: Time,
    /// Standard deviation between slots.
    pub sd: Time,
    /// Minimum delay of a slot.
    pub min: Time,
    /// Maximum delay of a slot.
    pub max: Time,
    /// Time after which the autocorrelation between slots is 1/e; zero for independent slots.
    pub memory: Time,
    /// Jitter within a slot.
    pub jitter: Option<SlotJitter>,
    /// Delay spikes around the start of a slot.
    pub spikes: Vec<Spike>,
}

encode_struct!(SlotDelay { clock, mean, sd, min, max, memory, jitter, spikes });

/// The delay of a slotted link over time; see [`SlotDelay`].
pub(crate) struct SlottedDelay {
    spec: SlotDelay,
    slots: Slots,
    mean: Wander,
    overlay: Overlay,
    /// The current delay, and the instants between which it holds.
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

    /// Draws the delay at `t`, and determines how long it holds.
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
