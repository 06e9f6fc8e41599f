//! Which addresses are this host's, remembered for a moment.

use std::net::IpAddr;

use perigee_units::Time;

use crate::host::sys;

/// Answers of the kernel for the destinations of the last second: asking takes four system calls, and clients of a proxy ask for
/// the same servers again.
#[derive(Debug)]
pub(crate) struct OwnAddresses {
    answers: Box<[Option<Answer>]>,
}

impl Default for OwnAddresses {
    fn default() -> Self {
        Self { answers: vec![None; ANSWERS].into() }
    }
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    address: IpAddr,
    is_own: bool,
    until: Time,
}

impl OwnAddresses {
    /// Whether an address is this host's, as [`sys::is_own`] said within the last second.
    pub(crate) fn contain(&mut self, address: IpAddr, now: Time) -> bool {
        self.ask(address, now, sys::is_own)
    }

    fn ask(&mut self, address: IpAddr, now: Time, kernel: impl FnOnce(IpAddr) -> bool) -> bool {
        let place = match address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(address) => address.octets()[15],
        };
        let answer = &mut self.answers[usize::from(place) % ANSWERS];
        match *answer {
            Some(answer) if answer.address == address && now < answer.until => answer.is_own,
            _ => {
                let is_own = kernel(address);
                *answer = Some(Answer { address, is_own, until: now + LIFETIME });
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
        let mut own = OwnAddresses::default();
        let [here, there] = ["10.0.0.7", "10.0.1.7"].map(|text| text.parse().unwrap());
        assert!(own.ask(here, Time::from_millis(100), |_| true));
        assert!(own.ask(here, Time::from_millis(1099), |_| unreachable!("it is remembered")));
        assert!(!own.ask(here, Time::from_millis(1100), |_| false));
        assert!(own.ask(there, Time::from_millis(1101), |_| true), "both have one place");
        assert!(own.ask(here, Time::from_millis(1102), |_| true));
    }
}
