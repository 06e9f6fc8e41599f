//! What is behind a link's server: losses, then the delay.
//!
//! Most of the time it is steady: until an outage begins or the delay moves, nothing is lost and the delay is the same, and its
//! processes are not asked. Those that draw for each packet are never steady.

use perigee_units::Time;

use crate::delay::{Delay, LoadedDelay};
use crate::loss::Loss;
use crate::spec::LinkSpec;
use crate::{DelaySpec, LossSpec};

/// What is behind the server: loss, then delay.
pub(crate) struct Air {
    steady: Steady,
    /// The processes are asked for each packet.
    asks_always: bool,
    loss: Vec<Loss>,
    delay: Delay,
    loaded: Option<LoadedDelay>,
    last_delivery: Time,
}

/// Packets that are not lost, and whose delay is the same, load aside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steady {
    /// They leave the server before this instant.
    pub(crate) until: Time,
    /// So many: a lone process of independent losses has drawn for them.
    pub(crate) packets: u64,
    pub(crate) delay: Time,
}

impl Steady {
    /// No packets.
    const NEVER: Self = Self { until: Time::ZERO, packets: 0, delay: Time::ZERO };
}

impl Air {
    pub(crate) fn new(spec: &LinkSpec, seed: u64, name: &str) -> Self {
        let nothing_is_lost = spec.loss.iter().all(LossSpec::is_nothing);
        let steady = match spec.delay {
            DelaySpec::Constant(delay) if nothing_is_lost => Steady { until: Time::MAX, packets: u64::MAX, delay },
            _ => Steady { packets: if nothing_is_lost { u64::MAX } else { 0 }, ..Steady::NEVER },
        };
        Self {
            steady,
            asks_always: false,
            loss: Loss::all(&spec.loss, seed, name),
            delay: Delay::new(&spec.delay, seed, name),
            loaded: spec.loaded.as_ref().map(|l| LoadedDelay::new(l, seed, name)),
            last_delivery: Time::ZERO,
        }
    }

    /// Asks the processes for each packet, as a reference for steady times.
    pub(crate) fn ask_for_each_packet(&mut self) {
        (self.steady, self.asks_always) = (Steady::NEVER, true);
    }

    /// Whether the delay grows with the load.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// Computes what a computed path needs until an instant.
    pub(crate) fn prepare(&self, until: Time) {
        if let Delay::Orbit(orbit) = &self.delay {
            orbit.prepare(until);
        }
    }

    /// A packet of `size` bytes arrives at the link.
    #[inline]
    pub(crate) fn arrival(&mut self, now: Time, size: u32) {
        if let Some(loaded) = &mut self.loaded {
            loaded.arrival(now, size);
        }
    }

    /// When a packet that leaves the server at `departure` is delivered; `None`: it is lost.
    #[inline]
    pub(crate) fn carry(&mut self, departure: Time) -> Option<Time> {
        let mut delay = if departure < self.steady.until && self.steady.packets > 0 {
            self.steady.packets -= 1;
            self.steady.delay
        } else {
            self.ask(departure)?
        };
        if let Some(loaded) = &mut self.loaded {
            delay += loaded.at(departure);
        }
        self.last_delivery = self.last_delivery.max(departure + delay);
        Some(self.last_delivery)
    }

    /// Which packets that leave the server after one that left at `departure` are steady, where the delay does not grow with the load:
    /// none while one before them, for which the delay was longer, holds them up.
    pub(crate) fn steady_after(&self, departure: Time) -> Steady {
        let Steady { until, packets, delay } = self.steady;
        if departure + delay < self.last_delivery || packets == 0 {
            return Steady { until: Time::ZERO, ..self.steady };
        }
        Steady { until: until.min(Time::MAX - delay), ..self.steady }
    }

    /// So many steady packets, at least one, were carried, the last of which left the server at `departure`.
    pub(crate) fn carried(&mut self, packets: u64, departure: Time) {
        self.steady.packets -= packets;
        self.last_delivery = departure + self.steady.delay;
    }

    /// The delay of a packet that leaves the server at `departure`, load aside, after each process was asked; `None`: it is lost.
    #[inline(never)]
    fn ask(&mut self, departure: Time) -> Option<Time> {
        if let [lone] = &mut self.loss[..] {
            lone.give_back(self.steady.packets);
        }
        self.steady.packets = 0;
        // No short-cut between loss processes: each makes its draws for each packet.
        let mut lost = false;
        for process in &mut self.loss {
            lost |= process.takes(departure);
        }
        if lost {
            return None;
        }
        let delay = self.delay.at(departure)?;
        if self.asks_always {
            return Some(delay);
        }
        let drawn = if let [lone] = &mut self.loss[..] { lone.look_ahead() } else { None };
        let lossless_until = match drawn {
            Some(_) => Time::MAX,
            None => self.loss.iter().map(|process| process.lossless_until(departure)).min().unwrap_or(Time::MAX),
        };
        let until = lossless_until.min(self.delay.holds_until());
        self.steady = Steady { until, packets: drawn.unwrap_or(u64::MAX), delay };
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use perigee_units::{Rate, Ratio, Stream};
    use proptest::prelude::*;

    use super::*;
    use crate::{Body, Jitter, Tail, TailShape};

    /// A short jitter with a tail, and losses of three kinds.
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
                LossSpec::Outages { gap: ms * 10, length: ms * 2, loss: half },
                LossSpec::Periodic { period: ms * 15, phase: us * 3_500, length: ms, loss: half },
                LossSpec::Outages { gap: ms * 40, length: ms * 4, loss: Ratio::new(1.0).unwrap() },
            ],
            ..LinkSpec::constant(Rate::from_mbps(10.0), Time::ZERO)
        }
    }

    #[test]
    fn independent_losses_are_those_of_a_draw_for_each_packet_however_they_are_drawn() {
        for share in [0.001, 0.02, 0.5, 1.0] {
            let loss = vec![LossSpec::Bernoulli(Ratio::new(share).unwrap())];
            let spec =
                LinkSpec { loss: loss.clone(), ..LinkSpec::constant(Rate::from_mbps(10.0), Time::from_millis(1)) };
            let (mut air, mut draws) = (Air::new(&spec, 7, "link"), Stream::new(7, "link/loss/0"));
            for packet in 0..20_000 {
                let is_lost = air.carry(Time::from_micros(packet)).is_none();
                assert_eq!(is_lost, draws.chance(share), "packet {packet} of {share}");
            }
        }
    }

    #[test]
    fn losses_of_nothing_are_not_asked_for() {
        let loss = |share| LossSpec::Bernoulli(Ratio::new(share).unwrap());
        let link =
            |loss| LinkSpec { loss: vec![loss], ..LinkSpec::constant(Rate::from_mbps(10.0), Time::from_millis(1)) };
        let always = Steady { until: Time::MAX, packets: u64::MAX, delay: Time::from_millis(1) };
        assert_eq!(Air::new(&link(loss(0.0)), 1, "link").steady, always);
        assert_eq!(Air::new(&link(loss(0.001)), 1, "link").steady, Steady::NEVER);
    }

    proptest! {
        #[test]
        fn steady_times_give_what_the_processes_would(seed in any::<u64>(), gaps in prop::collection::vec(0u64..3_000, 1..400)) {
            let spec = restless();
            let (mut steady, mut asked) = (Air::new(&spec, seed, "link"), Air::new(&spec, seed, "link"));
            let mut t = Time::ZERO;
            for gap in gaps {
                t += Time::from_micros(gap);
                asked.steady.until = Time::ZERO;
                prop_assert_eq!(steady.carry(t), asked.carry(t));
            }
        }
    }
}
