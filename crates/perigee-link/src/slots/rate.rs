//! The rate of a slotted link.

use perigee_units::{encode_struct, Rate, Ratio, Time};

use super::grants::Frames;
use super::{draws, draws_of_changes, of_both_directions, Grants, LogNormal, SlotClock, Slots, DAY};
use crate::wander::Wander;

/// A rate drawn per slot, with the effects of path changes.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotRate {
    /// Start times of slots.
    pub clock: SlotClock,
    /// Mean over slots, before the limits `min` and `max`.
    pub mean: Rate,
    /// Standard deviation between slots.
    pub sd: Rate,
    /// Minimum rate of a slot.
    pub min: Rate,
    /// Maximum rate of a slot.
    pub max: Rate,
    /// Time after which the autocorrelation between slots is 1/e; zero for independent slots.
    pub memory: Time,
    /// Length of a step of constant rate.
    pub every: Time,
    /// Standard deviation between steps, as a share of the slot's rate; independent normal values, limited to zero.
    pub ripple: Ratio,
    /// Outage at the start of a slot.
    pub outage: Option<SlotOutage>,
    /// Bursts that carry the capacity; `None` if it is continuous.
    pub grants: Option<Grants>,
    /// Standard deviation of the hours' means, as a share of `mean`: each full hour has a value, straight lines join them. Both directions
    /// of a link have the same.
    pub mood: Ratio,
    /// Hours of the day with less capacity.
    pub busy: Option<BusyHours>,
    /// A part of the run with reduced capacity.
    pub shaping: Option<Shaping>,
}

/// Outage at the start of a slot, while the path changes; packets wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotOutage {
    /// Its length, drawn per slot.
    pub length: LogNormal,
    /// Time of the linear rise to the slot's rate after it.
    pub rise: Time,
    /// Both directions of a link have the same length.
    pub both: bool,
}

/// Hours of the day in which more users share the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusyHours {
    /// Start, time of day.
    pub from: Time,
    /// End, time of day; if before the start, on the next day.
    pub to: Time,
    /// Remaining share of the capacity.
    pub share: Ratio,
    /// Length of the ramps, centred on the start and on the end.
    pub ramp: Time,
}

/// A part of the run with reduced capacity, as if sustained traffic were shaped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shaping {
    /// Start, from the start of the run or of a repetition.
    pub after: Time,
    /// Length.
    pub length: Time,
    /// Remaining share of the capacity.
    pub share: Ratio,
    /// Time after which it begins anew, as with the next transfer of a campaign; `None` for once in a run.
    pub every: Option<Time>,
}

encode_struct!(SlotRate { clock, mean, sd, min, max, memory, every, ripple, outage, grants, mood, busy, shaping });
encode_struct!(SlotOutage { length, rise, both });
encode_struct!(BusyHours { from, to, share, ramp });
encode_struct!(Shaping { after, length, share, every });

impl SlotRate {
    /// The long-term rate, including outages of median length, without busy hours and shaping.
    pub(crate) fn mean_bps(&self) -> f64 {
        let lost = self.outage.map_or(0.0, |outage| {
            outage.length.median.min(outage.length.max).as_secs_f64() + outage.rise.as_secs_f64() / 2.0
        });
        self.mean.as_bps() as f64 * (1.0 - (lost / self.clock.period.as_secs_f64()).min(1.0))
    }

    /// The rate of a fast slot.
    pub(crate) fn peak_bps(&self) -> f64 {
        (self.mean.as_bps() + 3 * self.sd.as_bps()).min(self.max.as_bps()) as f64
    }
}

impl Shaping {
    /// Whether it holds at an instant of the run.
    fn holds_at(&self, t: Time) -> bool {
        let since = self.every.map_or(t, |every| Time::from_nanos(t.as_nanos() % every.as_nanos().max(1)));
        (self.after..self.after + self.length).contains(&since)
    }
}

impl BusyHours {
    /// Remaining share of the capacity at a time of day (ns).
    fn share_at(&self, time_of_day: u64) -> f64 {
        let (from, to) = (self.from.as_nanos(), self.to.as_nanos());
        let day = DAY.as_nanos();
        let length = (to + day - from) % day;
        let half = self.ramp.as_nanos() / 2;
        // Time since the first ramp started; negative before it.
        let since = (time_of_day + day - from + half) % day;
        let inside = since.min((length + 2 * half).saturating_sub(since));
        let part = match 2 * half {
            0 if since < length => 1.0,
            0 => 0.0,
            ramp => (inside as f64 / ramp as f64).min(1.0),
        };
        1.0 - part * (1.0 - self.share.as_f64())
    }
}

/// The rate of a slotted link over time; see [`SlotRate`].
#[derive(Clone, Debug)]
pub(crate) struct SlottedRate {
    spec: SlotRate,
    slots: Slots,
    steps_per_slot: u64,
    mean: Wander,
    outage: Wander,
    ripple: Wander,
    hours: Wander,
    frames: Option<Frames>,
    /// The slot of the latest query.
    current: Option<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    bps: f64,
    /// Outage from its start, ns.
    outage: u64,
}

/// A step within a slot, ns since the slot's start.
struct Step {
    number: u64,
    begin: u64,
    end: u64,
}

impl SlottedRate {
    pub(crate) fn new(spec: &SlotRate, seed: u64, name: &str) -> Self {
        let slots = Slots::new(&spec.clock, seed);
        let every = spec.every.as_nanos().max(1);
        Self {
            steps_per_slot: slots.period.div_ceil(every),
            mean: draws(seed, format!("{name}/rate/slot"), slots.period, spec.memory),
            outage: match spec.outage {
                Some(SlotOutage { both: true, .. }) => draws_of_changes(seed, name, &slots),
                _ => draws(seed, format!("{name}/rate/outage"), slots.period, Time::ZERO),
            },
            ripple: draws(seed, format!("{name}/rate/ripple"), every, Time::ZERO),
            hours: draws(seed, format!("{}/rate/hour", of_both_directions(name)), HOUR, Time::ZERO),
            frames: spec.grants.map(|grants| Frames::new(grants, slots.period, seed, name)),
            slots,
            spec: spec.clone(),
            current: None,
        }
    }

    /// The rate at an instant, and how long it holds.
    pub(crate) fn segment(&mut self, t: Time) -> (Rate, Time) {
        let (number, passed) = self.slots.at(t);
        let slot = self.slot(number);
        if passed < slot.outage {
            return (Rate::ZERO, self.slots.instant(number, slot.outage));
        }
        let Some(frames) = &self.frames else {
            let step = self.step(passed);
            return (self.rate_of_step(&slot, &step), self.slots.instant(number, step.end));
        };
        let frame = frames.at(number, slot.outage, passed);
        let (mut rate, until) = (Rate::ZERO, frame.segment_end(passed));
        if frame.burst.contains(&passed) {
            let step = self.step(frame.begin);
            rate = frame.concentrated(self.rate_of_step(&slot, &step));
        }
        (rate, self.slots.instant(number, until))
    }

    /// The rate of the step at an instant, whether or not a burst carries it then; cheap near the latest query of a segment.
    pub(crate) fn rate_at(&self, t: Time) -> Rate {
        let (number, passed) = self.slots.at(t);
        let step = self.step(passed);
        match (self.current, self.ripple.kept(number * self.steps_per_slot + step.number)) {
            (Some(slot), _) if slot.number == number && passed < slot.outage => Rate::ZERO,
            (Some(slot), Some(g)) if slot.number == number => self.rate(&slot, &step, g),
            _ => {
                let mut other = self.clone();
                let slot = other.slot(number);
                if passed < slot.outage {
                    return Rate::ZERO;
                }
                other.rate_of_step(&slot, &step)
            }
        }
    }

    fn step(&self, passed: u64) -> Step {
        let every = self.spec.every.as_nanos().max(1);
        let number = passed / every;
        Step { number, begin: number * every, end: ((number + 1) * every).min(self.slots.period) }
    }

    fn rate_of_step(&mut self, slot: &Slot, step: &Step) -> Rate {
        let g = self.ripple.value(slot.number * self.steps_per_slot + step.number);
        self.rate(slot, step, g)
    }

    /// The rate of a step, after the outage.
    fn rate(&self, slot: &Slot, step: &Step, g: f64) -> Rate {
        let mut bps = slot.bps * (1.0 + self.spec.ripple.as_f64() * g).max(0.0) * self.risen(slot, step);
        if let Some(shaping) = &self.spec.shaping {
            // The time of day at the step's start determines its rate.
            let begin = self.slots.instant(slot.number, step.begin);
            if shaping.holds_at(begin) {
                bps *= shaping.share.as_f64();
            }
        }
        Rate::from_bps((bps.round() as u64).max(LEAST_BPS))
    }

    /// Share of the slot's rate in the middle of a step, after the outage.
    fn risen(&self, slot: &Slot, step: &Step) -> f64 {
        let rise = self.spec.outage.map_or(0, |outage| outage.rise.as_nanos());
        let since = u64::midpoint(step.begin.max(slot.outage), step.end) - slot.outage;
        if since >= rise {
            return 1.0;
        }
        since as f64 / rise as f64
    }

    /// The standard normal value of the hours at the start of a slot.
    fn hour(&mut self, number: u64) -> f64 {
        let since = self.slots.time_of_day + self.slots.instant(number, 0).as_nanos();
        let (hour, part) = (since / HOUR, (since % HOUR) as f64 / HOUR as f64);
        (1.0 - part) * self.hours.value(hour) + part * self.hours.value(hour + 1)
    }

    fn slot(&mut self, number: u64) -> Slot {
        if let Some(slot) = self.current.filter(|slot| slot.number == number) {
            return slot;
        }
        let hourly = 1.0 + self.spec.mood.as_f64() * self.hour(number);
        let SlotRate { mean, sd, min, max, .. } = &self.spec;
        let bps = mean.as_bps() as f64 * hourly + self.mean.value(number) * sd.as_bps() as f64;
        let mut bps = bps.clamp(min.as_bps() as f64, max.as_bps() as f64);
        if let Some(busy) = &self.spec.busy {
            bps *= busy.share_at(self.slots.time_of_day(self.slots.instant(number, 0)));
        }
        let outage = match &self.spec.outage {
            Some(outage) => outage.length.value(self.outage.value(number)).as_nanos(),
            None => 0,
        };
        let slot = Slot { number, bps, outage };
        self.current = Some(slot);
        slot
    }
}

/// Minimum rate outside outages, bit/s, so that waiting packets leave eventually.
const LEAST_BPS: u64 = 1_000;

/// An hour, ns.
const HOUR: u64 = DAY.as_nanos() / 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_hours_go_over_midnight_and_begin_in_a_ramp() {
        let hours = |h: f64| (h * 3.6e12) as u64;
        let busy = |from: f64, to: f64, ramp: f64| BusyHours {
            from: Time::from_nanos(hours(from)),
            to: Time::from_nanos(hours(to)),
            share: Ratio::new(0.5).unwrap(),
            ramp: Time::from_nanos(hours(ramp)),
        };
        let shares = |busy: BusyHours, at: &[f64]| -> Vec<f64> {
            at.iter().map(|h| (busy.share_at(hours(*h)) * 1000.0).round() / 1000.0).collect()
        };
        assert_eq!(shares(busy(18.0, 23.0, 0.0), &[0.0, 17.9, 18.0, 22.9, 23.0]), [1.0, 1.0, 0.5, 0.5, 1.0]);
        assert_eq!(
            shares(busy(18.0, 23.0, 1.0), &[17.5, 17.75, 18.0, 18.5, 22.5, 23.0, 23.5, 12.0]),
            [1.0, 0.875, 0.75, 0.5, 0.5, 0.75, 1.0, 1.0]
        );
        assert_eq!(shares(busy(23.0, 1.0, 0.0), &[22.9, 23.0, 0.5, 1.0]), [1.0, 0.5, 0.5, 1.0]);
        assert_eq!(shares(busy(0.0, 2.0, 1.0), &[23.5, 23.75, 0.0, 0.5, 2.0]), [1.0, 0.875, 0.75, 0.5, 0.75]);
    }
}
