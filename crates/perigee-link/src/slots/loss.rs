//! The losses of a slotted link.

use perigee_units::{encode_struct, Ratio, Time};

use super::{draws, of_both_directions, SlotClock, Slots};
use crate::body::above;
use crate::wander::Wander;

/// Losses around the start of a slot, while the path changes; both directions of a link lose in the same slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotLoss {
    /// Start times of slots.
    pub clock: SlotClock,
    /// Their start, before the start of a slot.
    pub before: Time,
    /// Their end, after the start of a slot.
    pub after: Time,
    /// Share of the slots with losses.
    pub share: Ratio,
    /// Loss probability per packet during them.
    pub loss: Ratio,
}

encode_struct!(SlotLoss { clock, before, after, share, loss });

/// The losses of a slotted link over time; see [`SlotLoss`].
pub(crate) struct SlottedLoss {
    spec: SlotLoss,
    slots: Slots,
    has_them: Wander,
    /// The slot of the latest query, and whether it has losses.
    last: Option<(u64, bool)>,
}

impl SlottedLoss {
    pub(crate) fn new(spec: &SlotLoss, seed: u64, name: &str) -> Self {
        let slots = Slots::new(&spec.clock, seed);
        let has_them = draws(seed, format!("{}/loss/slots", of_both_directions(name)), slots.period, Time::ZERO);
        Self { spec: *spec, slots, has_them, last: None }
    }

    /// The loss at an instant.
    #[inline]
    pub(crate) fn loss_at(&mut self, t: Time) -> f64 {
        let (slot, passed) = self.slots.at(t);
        if passed < self.spec.after.as_nanos() {
            self.loss_around(slot)
        } else if self.slots.period - passed <= self.spec.before.as_nanos() {
            self.loss_around(slot + 1)
        } else {
            0.0
        }
    }

    /// The loss during the change to this slot.
    fn loss_around(&mut self, slot: u64) -> f64 {
        let has_them = match self.last {
            Some((last, has_them)) if last == slot => has_them,
            _ => above(self.has_them.value(slot)) < self.spec.share.as_f64(),
        };
        self.last = Some((slot, has_them));
        if has_them {
            self.spec.loss.as_f64()
        } else {
            0.0
        }
    }
}
