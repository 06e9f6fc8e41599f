//! The delay of a path computed from satellite orbits.

use std::sync::Arc;

use perigee_orbit::{Path, Route};
use perigee_units::{encode_struct, Time};

use super::overlay::{Added, Overlay};
use super::{SlotClock, SlotJitter, Slots, Spike};

/// The delay of a path between user and gateway whose satellites are selected per slot: the speed-of-light delay plus additions.
///
/// Both directions of a link share the path, and equal spikes; the jitter is independent per direction. A packet keeps the path on which it
/// left. Packets that leave in a slot without a path are lost.
#[derive(Clone, Debug, PartialEq)]
pub struct OrbitDelay {
    /// Start times of slots, the same as those of the path.
    pub clock: SlotClock,
    /// The path.
    pub path: Arc<Path>,
    /// Constant addition to the speed-of-light delay: processing, and the route beyond the gateway.
    pub extra: Time,
    /// Jitter within a slot; `extra` plus jitter is never negative.
    pub jitter: Option<SlotJitter>,
    /// Delay spikes around the start of a slot.
    pub spikes: Vec<Spike>,
}

encode_struct!(OrbitDelay { clock, path, extra, jitter, spikes });

impl OrbitDelay {
    /// The number of slots without a path in a run with this seed, and of all slots that start before `until`.
    pub fn slots_without_path(&self, seed: u64, until: Time) -> (u64, u64) {
        let delay = OrbitalDelay::new(self, seed, "");
        let last = delay.slots.at(until - Time::from_nanos(1)).0;
        let without = (0..=last).filter(|slot| !delay.has_route(*slot)).count();
        (without as u64, last + 1)
    }
}

/// The delay of a computed path over time; see [`OrbitDelay`].
pub(crate) struct OrbitalDelay {
    spec: OrbitDelay,
    slots: Slots,
    /// The path's number of slot 0 of the run.
    first: i64,
    overlay: Overlay,
    /// The path of the current slot, the addition to its delay, and the instants between which it holds.
    route: Option<Arc<Route>>,
    begin: u64,
    added: Added,
    from: Time,
    until: Time,
}

impl OrbitalDelay {
    pub(crate) fn new(spec: &OrbitDelay, seed: u64, name: &str) -> Self {
        let slots = Slots::new(&spec.clock, seed);
        let date = spec.path.spec().date;
        Self {
            first: spec.path.slot_at(date.plus_nanos(slots.time_of_day as i64)),
            overlay: Overlay::new(spec.jitter, &spec.spikes, &slots, seed, name),
            spec: spec.clone(),
            slots,
            route: None,
            begin: 0,
            added: Added { jitter: None, spikes: Time::ZERO, from: 0, until: 0 },
            from: Time::ZERO,
            until: Time::ZERO,
        }
    }

    /// The delay of a packet that leaves at `t`; `None` without a path.
    pub(crate) fn at(&mut self, t: Time) -> Option<Time> {
        if t >= self.until || t < self.from {
            self.look_up(t);
        }
        let route = self.route.as_ref()?;
        let since_begin = t.as_nanos().saturating_add(self.slots.elapsed).saturating_sub(self.begin);
        let light = route.delay(Time::from_nanos(since_begin));
        let moved = Time::from_secs_f64(self.spec.extra.as_secs_f64() + self.added.jitter.unwrap_or(0.0));
        let floor = self.spec.jitter.map_or(Time::ZERO, |jitter| jitter.floor);
        Some((light + moved).max(floor) + self.added.spikes)
    }

    /// Computes the paths of all slots up to `until`, so that packets need not wait for that.
    pub(crate) fn prepare(&self, until: Time) {
        for slot in 0..=self.slots.at(until).0 {
            self.spec.path.route(self.number(slot));
        }
    }

    /// Whether a path exists at `t`, and a lower bound of how long that holds: the end of the slot.
    pub(crate) fn has_path(&self, t: Time) -> (bool, Time) {
        let slot = self.slots.at(t).0;
        (self.has_route(slot), self.slots.instant(slot + 1, 0))
    }

    fn has_route(&self, slot: u64) -> bool {
        self.spec.path.route(self.number(slot)).is_some()
    }

    fn look_up(&mut self, t: Time) {
        let (slot, passed) = self.slots.at(t);
        let begin = slot.saturating_mul(self.slots.period);
        if self.until == Time::ZERO || begin != self.begin {
            (self.route, self.begin) = (self.spec.path.route(self.number(slot)), begin);
        }
        self.added = self.overlay.at(slot, passed);
        self.from = self.slots.instant(slot, self.added.from);
        self.until = self.slots.instant(slot, self.added.until);
    }

    /// The path's number of a slot of the run.
    fn number(&self, slot: u64) -> i64 {
        self.first.saturating_add(i64::try_from(slot).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
#[path = "orbit_tests.rs"]
mod tests;
