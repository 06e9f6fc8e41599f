//! Samples of a link over time.

use perigee_units::{Rate, Time};

use crate::delay::Delay;
use crate::states::StatesOverTime;
use crate::{Ecn, Exit, Link, LinkSpec, Packet, RateSpec};

/// State of a link at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Mean rate until the next sample.
    pub rate: Rate,
    /// Transit time of a small packet that arrives at the instant; `None` if it is lost.
    pub delay: Option<Time>,
}

/// Samples of an otherwise idle link: `count` of them, one per `every`, the first at the start.
///
/// One packet of 40 bytes per sample crosses the link, so the delays include neither queuing nor effects of load. `seed` and `name` as in
/// [`Link::new`].
///
/// ```
/// use perigee_link::{sample, LinkSpec};
/// use perigee_units::{Rate, Time};
/// let geo = LinkSpec::constant(Rate::from_mbps(100.0), Time::from_millis(300));
/// let samples = sample(&geo, 1, "down", Time::from_secs(1), 3);
/// assert_eq!(samples.len(), 3);
/// assert_eq!(samples[2].rate, Rate::from_mbps(100.0));
/// assert_eq!(samples[2].delay, Some(Time::from_nanos(300_003_200)));
/// ```
pub fn sample(spec: &LinkSpec, seed: u64, name: &str, every: Time, count: usize) -> Vec<Sample> {
    let mut link: Link<usize> = Link::new(spec, seed, name);
    let instant = |number: usize| every * number as u64;
    let mut samples = Vec::with_capacity(count);
    for number in 0..count {
        let rate = link.mean_rate(instant(number), instant(number + 1));
        samples.push(Sample { rate, delay: None });
        // A packet dropped on arrival has no delay, like one dropped later.
        let _ = link.offer(
            instant(number),
            Packet { bytes: PACKET_BYTES, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: number },
        );
        deliver(&mut link, instant(number), &mut samples, instant);
    }
    while let Some(next) = link.next_event() {
        deliver(&mut link, next, &mut samples, instant);
    }
    samples
}

/// Rate and propagation delay of a link over time, without traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Mean rate of each interval of rates.
    pub rates: Vec<Rate>,
    /// Delay behind the server at the begin of each interval of delays; `None` without a path.
    pub delays: Vec<Option<Time>>,
}

impl Course {
    /// The course of a link for `length`, in whole intervals; `None` for a TDMA channel, whose rate follows requests. Delays are those
    /// of packets that wait for nothing, without the delay under load. `seed` and `name` as in [`Link::new`].
    ///
    /// ```
    /// use perigee_link::{Course, LinkSpec};
    /// use perigee_units::{Rate, Time};
    /// let geo = LinkSpec::constant(Rate::from_mbps(100.0), Time::from_millis(300));
    /// let course = Course::new(&geo, 1, "down", [Time::from_millis(1), Time::from_millis(10)], Time::from_secs(1)).unwrap();
    /// assert_eq!((course.rates.len(), course.delays.len()), (1000, 100));
    /// assert_eq!(course.delays[99], Some(Time::from_millis(300)));
    /// ```
    pub fn new(spec: &LinkSpec, seed: u64, name: &str, intervals: [Time; 2], length: Time) -> Option<Self> {
        if let RateSpec::Tdma(_) = spec.rate {
            return None;
        }
        let [begins, instants] = intervals.map(|every| {
            let count = length.as_nanos() / every.as_nanos().max(1);
            (0..count).map(move |number| every * number)
        });
        let mut link = Link::<()>::new(spec, seed, name);
        let name = format!("link/{name}");
        let mut delay = Delay::new(&spec.delay, seed, &name);
        let mut states = spec.any_states().map(|states| StatesOverTime::new(states, seed, &name));
        let mut added = |at| states.as_mut().map_or(Time::ZERO, |states| states.at(at).0.delay);
        Some(Self {
            rates: begins.map(|from| link.mean_rate(from, from + intervals[0])).collect(),
            delays: instants.map(|at| Some(delay.at(at)? + added(at))).collect(),
        })
    }
}

/// Records the delays of the packets delivered by `now`.
fn deliver(link: &mut Link<usize>, now: Time, samples: &mut [Sample], instant: impl Fn(usize) -> Time) {
    while let Some(exit) = link.poll(now) {
        let Exit::Delivered(delivery) = exit else { continue };
        // `Time::MAX`: the link never sends again.
        if delivery.at < Time::MAX {
            let number = delivery.packet.token;
            samples[number].delay = Some(delivery.at - instant(number));
        }
    }
}

/// IP and TCP header.
const PACKET_BYTES: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossSpec;
    use perigee_units::Ratio;

    fn spec() -> LinkSpec {
        LinkSpec::constant(Rate::from_mbps(10.0), Time::from_millis(20))
    }

    #[test]
    fn the_share_of_lost_samples_is_the_links() {
        let spec = LinkSpec { loss: vec![LossSpec::Bernoulli(Ratio::new(0.1).expect("a share"))], ..spec() };
        let samples = sample(&spec, 7, "down", Time::from_millis(10), 20_000);
        let lost = samples.iter().filter(|sample| sample.delay.is_none()).count();
        // 2000 are expected; the standard deviation is 42.
        assert!((1800..2200).contains(&lost), "{lost} of 20000");
    }

    #[test]
    fn the_same_seed_gives_the_same_samples_and_another_does_not() {
        let spec = LinkSpec { loss: vec![LossSpec::Bernoulli(Ratio::new(0.5).expect("a share"))], ..spec() };
        let of = |seed| sample(&spec, seed, "down", Time::from_millis(10), 100);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn packets_wait_if_they_arrive_faster_than_they_are_sent() {
        let slow = LinkSpec::constant(Rate::from_bps(320), Time::ZERO);
        let delays: Vec<_> = sample(&slow, 1, "down", Time::from_millis(500), 3).iter().map(|s| s.delay).collect();
        // Each takes a second to send.
        assert_eq!(delays, [1000, 1500, 2000].map(|ms| Some(Time::from_millis(ms))));
    }
}
