//! Periods in which a link carries nothing, as a router that monitors it would see them.

use perigee_units::Time;

use crate::delay::Delay;
use crate::loss::Loss;
use crate::server::RateOverTime;
use crate::spec::LinkSpec;
use crate::states::StatesOverTime;

impl LinkSpec {
    /// The periods before `until` in which every packet is lost: zero rate, outages and states, fixed or recorded losses of 100 %, and
    /// slots without a satellite. They depend on the seed and the name, not on traffic. Losses around slot boundaries and gaps between
    /// grants do not count, because they last milliseconds.
    ///
    /// ```
    /// use perigee_link::{LinkSpec, LossSpec};
    /// use perigee_units::{Rate, Ratio, Time};
    /// let second = Time::from_secs;
    /// let mut spec = LinkSpec::constant(Rate::from_mbps(10.0), Time::ZERO);
    /// let loss = Ratio::new(1.0).unwrap();
    /// spec.loss.push(LossSpec::Periodic { period: second(60), phase: second(12), length: second(5), loss });
    /// assert_eq!(spec.dark_times(1, "down", second(100)), [(second(12), second(17)), (second(72), second(77))]);
    /// ```
    pub fn dark_times(&self, seed: u64, name: &str, until: Time) -> Vec<(Time, Time)> {
        let name = format!("link/{name}");
        let mut rate = RateOverTime::without_bursts(&self.rate, seed, &name);
        let mut losses = Loss::all(&self.loss, seed, &name);
        let mut states = self.states.as_ref().map(|states| StatesOverTime::new(states, seed, &name));
        let delay = Delay::new(&self.delay, seed, &name);
        let (mut now, mut times) = (Time::ZERO, Vec::<(Time, Time)>::new());
        while now < until {
            let (rate, rate_until) = rate.segment(now);
            let (has_path, path_until) = delay.has_path(now);
            let (mut is_dark, mut next) = (rate.as_bps() == 0 || !has_path, rate_until.min(path_until));
            for loss in &mut losses {
                let (loses_all, holds_until) = loss.loses_all(now);
                is_dark |= loses_all;
                next = next.min(holds_until);
            }
            if let Some(states) = &mut states {
                let (state, holds_until) = states.at(now);
                is_dark |= state.loss.as_f64() >= 1.0;
                next = next.min(holds_until);
            }
            let next = next.max(now + Time::from_nanos(1)).min(until);
            match times.last_mut().filter(|(_, end)| *end == now) {
                Some((_, end)) if is_dark => *end = next,
                _ if is_dark => times.push((now, next)),
                _ => {}
            }
            now = next;
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, Link, LossSpec, Offered, Packet, RateSpec, Steps};
    use perigee_units::{Rate, Ratio};
    use proptest::prelude::*;

    #[test]
    fn a_recorded_rate_of_zero_is_dark_and_merges_with_what_follows() {
        let ms = Time::from_millis;
        let steps = [(0, 5.0), (100, 0.0), (300, 5.0)].map(|(at, mbps)| (ms(at), Rate::from_mbps(mbps)));
        let mut spec = LinkSpec::constant(Rate::from_mbps(1.0), Time::ZERO);
        spec.rate = RateSpec::Trace(Steps::new(steps, Some(ms(400))).unwrap().into());
        let loss = Ratio::new(1.0).unwrap();
        spec.loss.push(LossSpec::Periodic { period: ms(1000), phase: ms(250), length: ms(100), loss });
        let expected = [(100, 350), (500, 700), (900, 1000)].map(|(from, to)| (ms(from), ms(to)));
        assert_eq!(spec.dark_times(1, "l", ms(1000)), expected);
    }

    proptest! {
        #[test]
        fn packets_are_lost_in_dark_times_and_only_then(seed in any::<u64>(), gap in 50u64..2000, length in 20u64..2000) {
            let ms = Time::from_millis;
            let mut spec = LinkSpec::constant(Rate::UNLIMITED, Time::ZERO);
            let loss = Ratio::new(1.0).unwrap();
            spec.loss.push(LossSpec::Outages { gap: ms(gap), length: ms(length), loss, both: false });
            let dark = spec.dark_times(seed, "l", ms(20_000));
            let mut link = Link::new(&spec, seed, "l");
            for at in (0..20_000).map(ms) {
                let packet = Packet { bytes: 100, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: () };
                let is_lost = link.offer(at, packet) != Offered::Queued;
                prop_assert_eq!(is_lost, dark.iter().any(|(from, to)| (*from..*to).contains(&at)), "at {:?}", at);
            }
        }
    }
}
