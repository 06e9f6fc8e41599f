//! The losses of a slotted link.

use perigee_units::{encode_struct, Ratio, Time};

use super::{draws, SlotClock, Slots};
use crate::body::above;
use crate::wander::Wander;

/// Losses around the begin of a slot, while the path changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotLoss {
    /// When slots begin.
    pub clock: SlotClock,
    /// How long before the begin of a slot they begin.
    pub before: Time,
    /// How long after it they end.
    pub after: Time,
    /// Share of the slots that have them.
    pub share: Ratio,
    /// Loss during one, of each packet by itself.
    pub loss: Ratio,
}

encode_struct!(SlotLoss { clock, before, after, share, loss });

/// The losses of a slotted link over time; see [`SlotLoss`].
pub(crate) struct SlottedLoss {
    spec: SlotLoss,
    slots: Slots,
    has_them: Wander,
    /// The slot asked about last, and whether it has them.
    last: Option<(u64, bool)>,
}

impl SlottedLoss {
    pub(crate) fn new(spec: &SlotLoss, seed: u64, name: &str) -> Self {
        let slots = Slots::new(&spec.clock, seed);
        let has_them = draws(seed, format!("{name}/slots"), slots.period, Time::ZERO);
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

    /// The loss while slots change from the one before to this one.
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
