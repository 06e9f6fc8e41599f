//! A link as a packet now and then sees it.

use perigee_units::{Rate, Time};

use crate::{Ecn, Exit, Link, LinkSpec, Packet};

/// What a link does at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its mean rate until the next sample.
    pub rate: Rate,
    /// How long a small packet takes that arrives at the instant; `None`: it is lost.
    pub delay: Option<Time>,
}

/// An otherwise idle link over time: `count` samples, one each `every`, the first at the beginning.
///
/// The link is crossed by one packet of 40 bytes per sample and by nothing else, so that no queue of its own making is
/// in the delays; what a link does only under load is not in them either. `seed` and `name` as in [`Link::new`].
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
        // A packet that is dropped at once has no delay, like one that is dropped later.
        let _ =
            link.offer(instant(number), Packet { bytes: PACKET_BYTES, flow: 0, ecn: Ecn::NotCapable, token: number });
        deliver(&mut link, instant(number), &mut samples, instant);
    }
    while let Some(next) = link.next_event() {
        deliver(&mut link, next, &mut samples, instant);
    }
    samples
}

/// Notes the delays of the packets that have left the link by `now`.
fn deliver(link: &mut Link<usize>, now: Time, samples: &mut [Sample], instant: impl Fn(usize) -> Time) {
    while let Some(exit) = link.poll(now) {
        let Exit::Delivered(delivery) = exit else { continue };
        // A link that never sends again delivers at the end of time.
        if delivery.at < Time::MAX {
            let number = delivery.packet.token;
            samples[number].delay = Some(delivery.at - instant(number));
        }
    }
}

/// An IP and a TCP header.
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
    fn packets_that_come_faster_than_they_are_sent_wait() {
        let slow = LinkSpec::constant(Rate::from_bps(320), Time::ZERO);
        let delays: Vec<_> = sample(&slow, 1, "down", Time::from_millis(500), 3).iter().map(|s| s.delay).collect();
        // Each takes a second to send.
        assert_eq!(delays, [1000, 1500, 2000].map(|ms| Some(Time::from_millis(ms))));
    }
}
