//! One link and several processes of the service: after an upgrade the older ones still send, and the newest divides the link between all.
//!
//! Each look at the other processes an older one says what it could use ([`Claim`]), and learns its part. Parts follow from the
//! weights of the subscribers with something to send, as within one process.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use perigee_share::{Allocator, Connection, Policy, Subscriber};
use perigee_units::{Bytes, Rate, Time};

/// Rates of both directions: what is sent, and what is received. A direction without one is not limited.
pub(crate) type Parts = [Option<Rate>; 2];

/// A process's demand on the link, of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Sum of the weights of subscribers with something to send.
    pub(super) weights: [u32; 2],
    pub(super) demands: [Rate; 2],
    /// Rates of its data of late, bit/s.
    pub(super) used: [u64; 2],
}

/// The part of a process among others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// No other process sends.
    #[default]
    Alone,
    /// The newest, with the claims of those that it has replaced.
    First(Vec<Claim>),
    /// A replaced one, with the parts that it heard last, and when.
    Replaced(Option<(Parts, Time)>),
}

/// Between the thread that divides the link and the one that speaks with other processes.
#[derive(Debug, Default)]
pub(crate) struct Joint(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    role: Role,
    own: Claim,
    /// One for each older process, in their order.
    parts: Vec<Parts>,
}

impl Joint {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the claims of older processes; returns the parts to tell them, in their order.
    pub(crate) fn lead(&self, claims: Vec<Claim>) -> Vec<Parts> {
        let mut state = self.state();
        let is_of_these = state.parts.len() == claims.len();
        state.role = if claims.is_empty() { Role::Alone } else { Role::First(claims) };
        if is_of_these {
            state.parts.clone()
        } else {
            Vec::new()
        }
    }

    /// Takes the parts that the newest process has told; returns the claim to make.
    pub(crate) fn follow(&self, told: Option<(Parts, Time)>) -> Claim {
        let mut state = self.state();
        state.role = Role::Replaced(told);
        state.own
    }

    pub(super) fn role(&self) -> Role {
        self.state().role.clone()
    }

    /// Keeps the findings of the division.
    pub(super) fn put(&self, own: Claim, parts: Vec<Parts>) {
        let mut state = self.state();
        (state.own, state.parts) = (own, parts);
    }
}

impl Role {
    /// The parts that hold for a replaced process. Without the newest one, it is by itself again.
    pub(super) fn told(&self, now: Time) -> Option<Parts> {
        match self {
            Self::Replaced(Some((parts, at))) if now < *at + HOLDS => Some(*parts),
            _ => None,
        }
    }

    pub(super) fn older(&self) -> &[Claim] {
        if let Self::First(claims) = self {
            claims
        } else {
            &[]
        }
    }
}

/// Divides a direction between this process and older ones; returns its own part, and theirs. What one leaves, each other may have.
pub(super) fn between(rate: Rate, own: &Claim, older: &[Claim], way: usize) -> Vec<Rate> {
    let claims = || [own].into_iter().chain(older);
    let of_weight = |claim: &Claim| Subscriber {
        weight: claim.weights[way],
        floor: Rate::ZERO,
        ceiling: Rate::UNLIMITED,
        saved: Bytes::ZERO,
    };
    let of_demand = |(at, claim): (usize, &Claim)| Connection {
        subscriber: at as u32,
        spent: Bytes::ZERO,
        demand: claim.demands[way],
    };
    let mut subscribers: Vec<_> = claims().map(of_weight).collect();
    let connections: Vec<_> = claims().enumerate().map(of_demand).collect();
    let mut allocator = Allocator::new(Policy { savings: Bytes::ZERO, ..Policy::default() });
    let shares = allocator.allocate(rate, HOLDS, &mut subscribers, &connections);
    let left = rate.as_bps() - shares.iter().map(|share| share.as_bps()).sum::<u64>().min(rate.as_bps());
    shares.iter().map(|share| Rate::from_bps(share.as_bps() + left)).collect()
}

impl fmt::Display for Claim {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { weights, demands, used } = self;
        let all = [0, 1].map(|way| format!("{} {} {}", weights[way], demands[way].as_bps(), used[way]));
        write!(out, "{CLAIM} {}", all.join(" "))
    }
}

impl Claim {
    /// Reads the message of an older process; `None` if it is another one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<u64> =
            text.strip_prefix(CLAIM)?.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [weights, demands, used] = [0, 1, 2].map(|at| [numbers.get(at), numbers.get(at + 3)]);
        let both = |pair: [Option<&u64>; 2]| Some([*pair[0]?, *pair[1]?]);
        let weights = both(weights)?.map(|weight| u32::try_from(weight).unwrap_or(u32::MAX));
        Some(Self { weights, demands: both(demands)?.map(Rate::from_bps), used: both(used)? })
    }
}

/// The message that tells an older process its parts.
pub(crate) fn say(parts: Parts) -> String {
    format!("{PARTS} {}", parts.map(|rate| rate.map_or("-".to_owned(), |rate| rate.as_bps().to_string())).join(" "))
}

/// Reads [`say`]; `None` if it is another message.
pub(crate) fn understand(text: &str) -> Option<Parts> {
    let mut words = text.strip_prefix(PARTS)?.split_whitespace();
    let mut next = || match words.next()? {
        "-" => Some(None),
        word => word.parse().ok().map(Rate::from_bps).map(Some),
    };
    Some([next()?, next()?])
}

/// Messages between the processes begin with these.
const CLAIM: &str = "claim";
const PARTS: &str = "parts";
/// How long a part holds that is not told again: several looks at the other processes.
const HOLDS: Time = Time::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(weight: u32, demand: u64) -> Claim {
        Claim { weights: [weight, 0], demands: [Rate::from_bps(demand), Rate::ZERO], used: [0; 2] }
    }

    fn parts(own: Claim, older: &[Claim]) -> Vec<u64> {
        between(Rate::from_bps(12_000_000), &own, older, 0).iter().map(|rate| rate.as_bps()).collect()
    }

    #[test]
    fn processes_share_by_the_weights_of_their_subscribers_and_never_more_than_the_rate() {
        let bulk = claim(2, 100_000_000);
        assert_eq!(parts(bulk, &[bulk, bulk]), [4_000_000; 3]);
        assert_eq!(parts(claim(1, 100_000_000), &[bulk, claim(3, 100_000_000)]), [2_000_000, 4_000_000, 6_000_000]);
        // One that uses less leaves it to others.
        assert_eq!(parts(claim(1, 1_000_000), &[bulk]), [1_000_000, 11_000_000]);
        // While no one has enough to send, nobody is held back.
        assert_eq!(parts(claim(1, 1_000_000), &[claim(1, 2_000_000)]), [10_000_000, 11_000_000]);
        assert_eq!(parts(claim(0, 0), &[]), [12_000_000]);
        // Demands are windows, and may be without bounds.
        assert_eq!(parts(claim(1, u64::MAX), &[claim(1, u64::MAX)]), [6_000_000; 2]);
    }

    #[test]
    fn processes_understand_each_other_and_a_silent_newest_one_is_no_longer_followed() {
        let own = Claim { weights: [1, 2], demands: [3, 4].map(Rate::from_bps), used: [5, 6] };
        assert_eq!(Claim::parse(&own.to_string()), Some(own));
        let told = [None, Some(Rate::from_bps(7))];
        assert_eq!(understand(&say(told)), Some(told));
        for other in ["stop", "parts 1", "claim 1 2 3 4 5", ""] {
            assert!(understand(other).is_none() && Claim::parse(other).is_none(), "{other}");
        }
        let joint = Joint::default();
        joint.put(own, Vec::new());
        assert_eq!(joint.follow(Some((told, Time::ZERO))), own);
        assert_eq!(
            (joint.role().told(Time::from_millis(1999)), joint.role().told(Time::from_secs(2))),
            (Some(told), None)
        );
        // Parts are of as many processes as there are.
        joint.put(own, vec![told, told]);
        assert!(joint.lead(vec![own]).is_empty());
        joint.put(own, vec![told]);
        assert_eq!(joint.lead(vec![own]), [told]);
        assert_eq!(joint.role().older(), [own]);
        joint.lead(Vec::new());
        assert_eq!(joint.role(), Role::Alone);
    }
}
