//! Which addresses are this host's, remembered for a moment.

use std::net::IpAddr;

use perigee_units::Time;

use crate::host::sys::Probe;

/// Answers of the kernel for the destinations of the last second: asking takes three system calls, and clients of a proxy ask for
/// the same servers again.
#[derive(Debug)]
pub(crate) struct OwnAddresses {
    probe: Probe,
    answers: Box<[Option<Answer>]>,
}

impl Default for OwnAddresses {
    fn default() -> Self {
        Self { probe: Probe::open(), answers: vec![None; ANSWERS].into() }
    }
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    address: IpAddr,
    is_own: bool,
    until: Time,
}

impl OwnAddresses {
    /// Whether an address is this host's, as [`Probe::is_own`] said within the last second.
    pub(crate) fn contain(&mut self, address: IpAddr, now: Time) -> bool {
        let probe = &self.probe;
        Answer::of(&mut self.answers, address, now, |address| probe.is_own(address))
    }
}

impl Answer {
    /// The answer of the last second, or else the kernel's.
    fn of(answers: &mut [Option<Self>], address: IpAddr, now: Time, kernel: impl FnOnce(IpAddr) -> bool) -> bool {
        let place = match address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(address) => address.octets()[15],
        };
        let answer = &mut answers[usize::from(place) % ANSWERS];
        match *answer {
            Some(answer) if answer.address == address && now < answer.until => answer.is_own,
            _ => {
                let is_own = kernel(address);
                *answer = Some(Self { address, is_own, until: now + LIFETIME });
                is_own
            }
        }
    }
}

const ANSWERS: usize = 64;
/// How long an address may have been added before it counts as this host's.
const LIFETIME: Time = Time::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_of_the_last_second_and_of_this_address() {
        let mut answers = [None; ANSWERS];
        let mut ask =
            |address, ms, kernel: fn(IpAddr) -> bool| Answer::of(&mut answers, address, Time::from_millis(ms), kernel);
        let [here, there] = ["10.0.0.7", "10.0.1.7"].map(|text| text.parse().unwrap());
        assert!(ask(here, 100, |_| true));
        assert!(ask(here, 1099, |_| unreachable!("it is remembered")));
        assert!(!ask(here, 1100, |_| false));
        assert!(ask(there, 1101, |_| true), "both have one place");
        assert!(ask(here, 1102, |_| true));
    }
}
