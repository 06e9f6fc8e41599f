//! The path behind a link's server: losses, then delay.
//!
//! It is steady most of the time: until an outage begins or the delay changes, no packet is lost and all have the same delay, so the
//! processes need not be evaluated. Processes that draw for each packet are never steady.

use perigee_units::Time;

use crate::delay::{Delay, LoadedDelay};
use crate::loss::{Drawn, Leaving, Loss};
use crate::spec::LinkSpec;
use crate::states::StatedPath;
use crate::{DelaySpec, LossSpec};

/// The path behind the server: loss, then delay.
pub(crate) struct Air {
    steady: Steady,
    /// Evaluates the processes for each packet.
    evaluates_always: bool,
    loss: Vec<Loss>,
    delay: Delay,
    loaded: Option<LoadedDelay>,
    states: Option<StatedPath>,
    last_delivery: Time,
}

/// Packets that are not lost and have the same delay (without the delay under load).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steady {
    /// They leave the server before this instant.
    pub(crate) until: Time,
    /// Packets that a sole process of independent losses or bit errors has drawn to pass.
    pub(crate) drawn: Drawn,
    pub(crate) delay: Time,
}

impl Steady {
    const NEVER: Self = Self { until: Time::ZERO, drawn: Drawn::NONE, delay: Time::ZERO };
}

impl Air {
    pub(crate) fn new(spec: &LinkSpec, seed: u64, name: &str) -> Self {
        let nothing_is_lost = spec.loss.iter().all(LossSpec::never_loses);
        let steady = match spec.delay {
            DelaySpec::Constant(delay) if nothing_is_lost && spec.any_states().is_none() => {
                Steady { until: Time::MAX, drawn: Drawn::ALL, delay }
            }
            _ => Steady { drawn: if nothing_is_lost { Drawn::ALL } else { Drawn::NONE }, ..Steady::NEVER },
        };
        Self {
            steady,
            evaluates_always: false,
            loss: Loss::all(&spec.loss, seed, name),
            delay: Delay::new(&spec.delay, seed, name),
            loaded: spec.loaded.as_ref().map(|l| LoadedDelay::new(l, seed, name)),
            states: spec.any_states().map(|states| StatedPath::new(states, seed, name)),
            last_delivery: Time::ZERO,
        }
    }

    /// Evaluates the processes for each packet, as the reference for steady periods.
    pub(crate) fn evaluate_each_packet(&mut self) {
        (self.steady, self.evaluates_always) = (Steady::NEVER, true);
    }

    /// Whether the delay depends on the load.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// Computes satellite paths up to `until`.
    pub(crate) fn prepare(&self, until: Time) {
        if let Delay::Orbit(orbit) = &self.delay {
            orbit.prepare(until);
        }
    }

    /// Counts a packet of `size` bytes that arrives at the link.
    #[inline]
    pub(crate) fn arrival(&mut self, now: Time, size: u32) {
        if let Some(loaded) = &mut self.loaded {
            loaded.arrival(now, size);
        }
    }

    /// Delivery time of a packet that leaves the server; `None` if it is lost.
    #[inline]
    pub(crate) fn carry(&mut self, packet: Leaving) -> Option<Time> {
        let departure = packet.at;
        let mut delay = if departure < self.steady.until && self.steady.drawn.take(packet.size) {
            self.steady.delay
        } else {
            self.evaluate(packet)?
        };
        if let Some(loaded) = &mut self.loaded {
            delay += loaded.at(departure);
        }
        self.last_delivery = self.last_delivery.max(departure + delay);
        Some(self.last_delivery)
    }

    /// The steady packets of `size` that follow a departure at `departure`, if the delay does not depend on the load. None are steady
    /// while an earlier packet with a longer delay holds them up.
    pub(crate) fn steady_after(&self, departure: Time, size: u32) -> Steady {
        let Steady { until, drawn, delay } = self.steady;
        if departure + delay < self.last_delivery || drawn.packets(size) == 0 {
            return Steady { until: Time::ZERO, ..self.steady };
        }
        Steady { until: until.min(Time::MAX - delay), ..self.steady }
    }

    /// Records `packets` steady packets of `size`, at least one, the last of which left the server at `departure`.
    pub(crate) fn carried(&mut self, packets: u64, size: u32, departure: Time) {
        self.steady.drawn.spend(packets, size);
        self.last_delivery = departure + self.steady.delay;
    }

    /// Evaluates every process: the delay (without the delay under load) of a packet that leaves the server; `None` if it is lost.
    #[inline(never)]
    fn evaluate(&mut self, packet: Leaving) -> Option<Time> {
        let departure = packet.at;
        if let [lone] = &mut self.loss[..] {
            lone.take_back(self.steady.drawn);
        }
        self.steady.drawn = Drawn::NONE;
        // Evaluate all loss processes, because each draws for each packet.
        let mut lost = false;
        for process in &mut self.loss {
            lost |= process.loses(packet);
        }
        let added = self.states.as_mut().map_or(Some(Time::ZERO), |states| states.carry(departure));
        if lost {
            return None;
        }
        let added = added?;
        let delay = self.delay.at(departure)? + added;
        if self.evaluates_always {
            return Some(delay);
        }
        let drawn = if let [lone] = &mut self.loss[..] { lone.draw_passing() } else { None };
        let lossless_until = match drawn {
            Some(_) => Time::MAX,
            None => self.loss.iter().map(|process| process.lossless_until(departure)).min().unwrap_or(Time::MAX),
        };
        let states_until = self.states.as_ref().map_or(Time::MAX, StatedPath::steady_until);
        let until = lossless_until.min(self.delay.holds_until()).min(states_until);
        self.steady = Steady { until, drawn: drawn.unwrap_or(Drawn::ALL), delay };
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use perigee_units::{Bytes, Rate, Ratio, Stream};
    use proptest::prelude::*;

    use super::*;
    use crate::{Body, Jitter, Tail, TailShape};

    /// A short jitter with a tail, and three loss processes.
    fn restless() -> LinkSpec {
        let [ms, us] = [Time::from_millis, Time::from_micros].map(|of: fn(u64) -> Time| of(1));
        let shape = TailShape::LogNormal { median: ms * 5, sigma: 1.0 };
        let jitter = Jitter {
            base: ms * 20,
            body: Body::Uniform { width: ms * 6 },
            min: Time::ZERO,
            max: ms * 100,
            every: ms * 3,
            memory: ms * 9,
            linear: false,
            tail: Some(Tail { share: Ratio::new(0.2).unwrap(), every: ms * 7, shape, max: ms * 50 }),
        };
        let half = Ratio::new(0.5).unwrap();
        LinkSpec {
            delay: DelaySpec::Jitter(jitter),
            loss: vec![
                LossSpec::Outages { gap: ms * 10, length: ms * 2, loss: half, both: false },
                LossSpec::Periodic { period: ms * 15, phase: us * 3_500, length: ms, loss: half },
                LossSpec::Outages { gap: ms * 40, length: ms * 4, loss: Ratio::new(1.0).unwrap(), both: false },
            ],
            ..LinkSpec::constant(Rate::from_mbps(10.0), Time::ZERO)
        }
    }

    fn leaving(at: Time) -> Leaving {
        Leaving { at, size: 1500, after_idle: true }
    }

    #[test]
    fn independent_losses_are_the_same_drawn_in_advance_or_per_packet() {
        for share in [0.001, 0.02, 0.5, 1.0] {
            let loss = vec![LossSpec::Bernoulli(Ratio::new(share).unwrap())];
            let spec =
                LinkSpec { loss: loss.clone(), ..LinkSpec::constant(Rate::from_mbps(10.0), Time::from_millis(1)) };
            let (mut air, mut draws) = (Air::new(&spec, 7, "link"), Stream::new(7, "link/loss/0"));
            for packet in 0..20_000 {
                let is_lost = air.carry(leaving(Time::from_micros(packet))).is_none();
                assert_eq!(is_lost, draws.chance(share), "packet {packet} of {share}");
            }
        }
    }

    #[test]
    fn bit_errors_are_the_same_drawn_in_advance_or_per_packet() {
        for share in [0.001, 0.02, 0.5, 1.0] {
            let loss = vec![LossSpec::BitErrors { loss: Ratio::new(share).unwrap(), size: Bytes::new(1_500) }];
            let spec = LinkSpec { loss, ..LinkSpec::constant(Rate::from_mbps(10.0), Time::from_millis(1)) };
            let (mut in_advance, mut each) = (Air::new(&spec, 7, "link"), Air::new(&spec, 7, "link"));
            each.evaluate_each_packet();
            let mut lost = 0;
            for packet in 0..20_000 {
                let size = [40, 1500, 576][packet as usize / 7 % 3];
                let packet = Leaving { size, ..leaving(Time::from_micros(packet)) };
                let fate = in_advance.carry(packet);
                assert_eq!(fate, each.carry(packet), "a packet at {} of {share}", packet.at);
                lost += u32::from(fate.is_none());
            }
            assert!(lost > 0, "{share}");
        }
    }

    #[test]
    fn losses_of_probability_zero_are_not_evaluated() {
        let loss = |share| LossSpec::Bernoulli(Ratio::new(share).unwrap());
        let link =
            |loss| LinkSpec { loss: vec![loss], ..LinkSpec::constant(Rate::from_mbps(10.0), Time::from_millis(1)) };
        let always = Steady { until: Time::MAX, drawn: Drawn::ALL, delay: Time::from_millis(1) };
        assert_eq!(Air::new(&link(loss(0.0)), 1, "link").steady, always);
        assert_eq!(Air::new(&link(loss(0.001)), 1, "link").steady, Steady::NEVER);
    }

    proptest! {
        #[test]
        fn steady_periods_match_the_processes(seed in any::<u64>(), gaps in prop::collection::vec(0u64..3_000, 1..400)) {
            let spec = restless();
            let (mut steady, mut asked) = (Air::new(&spec, seed, "link"), Air::new(&spec, seed, "link"));
            let mut t = Time::ZERO;
            for gap in gaps {
                t += Time::from_micros(gap);
                asked.steady.until = Time::ZERO;
                prop_assert_eq!(steady.carry(leaving(t)), asked.carry(leaving(t)));
            }
        }
    }
}
