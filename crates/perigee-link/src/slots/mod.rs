//! Slots of a constellation that reassigns its paths at fixed times: each slot has its own rate and delay.
//!
//! Starlink assigns satellites to terminals every 15 s, at seconds 12, 27, 42 and 57 of each minute (H. B. Tanveer, M. Puchol, R. Singh, A.
//! Bianchi, R. Nithyanand, "Making sense of constellations: methodologies for understanding Starlink's scheduling algorithms", `CoNEXT`
//! Companion 2023). All terminals change at the same instants, so all slotted processes of a run share the time of day.
//!
//! Every value is drawn by the number of its slot, or of its step within a slot: it depends only on the seed and the name, not on traffic
//! or on earlier queries.
//!
//! Units: nanoseconds since the start of the run; slots are numbered from the run's first day, and slot 0 started before the run.

mod delay;
mod grants;
mod loss;
mod orbit;
mod overlay;
mod rate;

use perigee_units::{encode_struct, Stream, Time};

use crate::wander::Wander;

pub use delay::SlotDelay;
pub use grants::Grants;
pub use loss::SlotLoss;
pub use orbit::OrbitDelay;
pub use overlay::{SlotJitter, Spike};
pub use rate::{BusyHours, Shaping, SlotOutage, SlotRate};

pub(crate) use delay::SlottedDelay;
pub(crate) use loss::SlottedLoss;
pub(crate) use orbit::OrbitalDelay;
pub(crate) use rate::SlottedRate;

/// Start times of slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotClock {
    /// Slot length; a divisor of a minute or, in whole minutes, of an hour.
    pub period: Time,
    /// Offset of slot starts within a minute, or within an hour if slots are longer.
    pub phase: Time,
    /// Time of day at which the run starts; `None` draws it per run, identically for all links.
    pub time_of_day: Option<Time>,
}

/// A value drawn per slot from a log-normal distribution; constant if `sigma` is zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// Median.
    pub median: Time,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// Maximum.
    pub max: Time,
}

encode_struct!(SlotClock { period, phase, time_of_day });
encode_struct!(LogNormal { median, sigma, max });

impl LogNormal {
    /// Returns one value for all slots.
    ///
    /// ```
    /// use perigee_link::LogNormal;
    /// use perigee_units::Time;
    /// assert_eq!(LogNormal::constant(Time::from_millis(9)).max, Time::from_millis(9));
    /// ```
    pub const fn constant(value: Time) -> Self {
        Self { median: value, sigma: 0.0, max: value }
    }

    /// The value for a standard normal draw.
    fn value(&self, g: f64) -> Time {
        Time::from_secs_f64(self.median.as_secs_f64() * libm::exp(self.sigma * g)).min(self.max)
    }
}

#[derive(Clone, Copy, Debug)]
struct Slots {
    /// Slot length, ns.
    period: u64,
    /// Elapsed part of slot 0 at the start of the run, ns.
    elapsed: u64,
    /// Time of day at the start of the run, ns.
    time_of_day: u64,
}

impl Slots {
    fn new(clock: &SlotClock, seed: u64) -> Self {
        let drawn = || Stream::new(seed, "slots/time of day").below(DAY.as_nanos());
        let time_of_day = clock.time_of_day.map_or_else(drawn, Time::as_nanos);
        let period = clock.period.as_nanos().max(1);
        let phase = clock.phase.as_nanos() % period;
        Self { period, elapsed: (time_of_day % period + period - phase) % period, time_of_day }
    }

    /// The slot at an instant, and its elapsed part, ns.
    #[inline]
    fn at(&self, t: Time) -> (u64, u64) {
        let since = t.as_nanos().saturating_add(self.elapsed);
        (since / self.period, since % self.period)
    }

    /// The instant at which `passed` ns of a slot have elapsed, or the start of the run if that is later.
    fn instant(&self, slot: u64, passed: u64) -> Time {
        Time::from_nanos(slot.saturating_mul(self.period).saturating_add(passed).saturating_sub(self.elapsed))
    }

    /// The time of day at an instant, ns.
    fn time_of_day(&self, t: Time) -> u64 {
        self.time_of_day.saturating_add(t.as_nanos()) % DAY.as_nanos()
    }
}

/// Standard normal values by the number of a slot or step; `memory` is the time after which their autocorrelation is 1/e.
fn draws(seed: u64, name: String, every: u64, memory: Time) -> Wander {
    Wander::new(seed, name, Time::from_nanos(every), memory)
}

/// Standard normal values of the changes of the path at the begin of slots: how long a change takes for all that it affects.
fn draws_of_changes(seed: u64, name: &str, slots: &Slots) -> Wander {
    draws(seed, format!("{}/change", of_both_directions(name)), slots.period, Time::ZERO)
}

/// The name of a link without its direction: `link/NAME` for `link/NAME.down`.
pub(crate) fn of_both_directions(name: &str) -> &str {
    name.rsplit_once(['.', '/']).map_or(name, |(link, _)| link)
}

const DAY: Time = Time::from_secs(86_400);

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
