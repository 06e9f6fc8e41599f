//! Slots of a constellation that assigns its paths anew at fixed times: each has a rate and a delay of its own.
//!
//! Starlink assigns satellites to terminals every 15 s, at seconds 12, 27, 42 and 57 of each minute (H. B. Tanveer, M. Puchol,
//! R. Singh, A. Bianchi, R. Nithyanand, "Making sense of constellations: methodologies for understanding Starlink's scheduling
//! algorithms", `CoNEXT` Companion 2023). All terminals change at the same instants, so all slotted processes of a run have the
//! same place in the day.
//!
//! Every value is drawn per slot, or per step within a slot, by its number: it depends on the seed and the name alone, not
//! on what passed the link or who asked before.
//!
//! Units: nanoseconds since the run began; slots are numbered by the day of the run, so that slot 0 began before the run did.

mod delay;
mod loss;
mod orbit;
mod overlay;
mod rate;

use perigee_units::{encode_struct, Stream, Time};

use crate::wander::Wander;

pub use delay::SlotDelay;
pub use loss::SlotLoss;
pub use orbit::OrbitDelay;
pub use overlay::{SlotJitter, Spike};
pub use rate::{BusyHours, Shaping, SlotOutage, SlotRate};

pub(crate) use delay::SlottedDelay;
pub(crate) use loss::SlottedLoss;
pub(crate) use orbit::OrbitalDelay;
pub(crate) use rate::SlottedRate;

/// When slots begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotClock {
    /// Length of a slot; a minute has a whole number of them.
    pub period: Time,
    /// Where in a minute one of them begins.
    pub phase: Time,
    /// The time of day at which the run begins; `None`: drawn per run, the same for all links.
    pub time_of_day: Option<Time>,
}

/// A value drawn per slot from a log-normal distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// Median.
    pub median: Time,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// Never more.
    pub max: Time,
}

encode_struct!(SlotClock { period, phase, time_of_day });
encode_struct!(LogNormal { median, sigma, max });

impl LogNormal {
    /// The value for a standard normal draw.
    fn value(&self, g: f64) -> Time {
        Time::from_secs_f64(self.median.as_secs_f64() * libm::exp(self.sigma * g)).min(self.max)
    }
}

/// The slots of a run.
#[derive(Clone, Copy, Debug)]
struct Slots {
    /// Length of a slot, ns.
    period: u64,
    /// How much of slot 0 had passed when the run began, ns.
    elapsed: u64,
    /// The time of day at which the run began, ns.
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

    /// The slot in which an instant lies, and how much of it has passed by then, ns.
    #[inline]
    fn at(&self, t: Time) -> (u64, u64) {
        let since = t.as_nanos().saturating_add(self.elapsed);
        (since / self.period, since % self.period)
    }

    /// The instant at which so much of a slot has passed, or the begin of the run if that was before.
    fn instant(&self, slot: u64, passed: u64) -> Time {
        Time::from_nanos(slot.saturating_mul(self.period).saturating_add(passed).saturating_sub(self.elapsed))
    }

    /// The time of day at an instant, ns.
    fn time_of_day(&self, t: Time) -> u64 {
        self.time_of_day.saturating_add(t.as_nanos()) % DAY.as_nanos()
    }
}

/// Standard normal values by the number of a slot or of a step; `memory` is the time in which their autocorrelation falls to 1/e.
fn draws(seed: u64, name: String, every: u64, memory: Time) -> Wander {
    Wander::new(seed, name, Time::from_nanos(every), memory)
}

/// What both directions of a link share: the name of a direction, `link/NAME.down`, without its last part.
fn of_both_directions(name: &str) -> &str {
    name.rsplit_once(['.', '/']).map_or(name, |(link, _)| link)
}

const DAY: Time = Time::from_secs(86_400);

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
