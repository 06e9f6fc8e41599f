//! Weighted max-min fairness with floors and ceilings: one amount, filled to one level.

use std::cmp::Ordering;

/// One who shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) weight: u64,
    /// At most `cap`.
    pub(crate) floor: u64,
    pub(crate) cap: u64,
}

/// Where a claim starts to grow with the level, or stops: at the level `at / weight`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bend {
    at: u64,
    weight: u64,
    is_start: bool,
}

/// How much each claim gets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fill {
    /// Its cap: there is enough.
    All,
    /// `floor * amount / floors`: there is not even enough for all floors.
    OfFloors { amount: u128, floors: u128 },
    /// `weight * amount / weights`, within its floor and its cap.
    ToLevel { amount: u128, weights: u128 },
}

impl Bend {
    fn by_level(&self, other: &Self) -> Ordering {
        let across = |one: &Self, weight: u64| u128::from(one.at) * u128::from(weight);
        across(self, other.weight).cmp(&across(other, self.weight))
    }
}

impl Fill {
    /// Finds the level at which the claims add up to `amount`. Integers throughout, so that it does not depend on their order.
    pub(crate) fn of(amount: u64, claims: &[Claim], bends: &mut Vec<Bend>) -> Self {
        let amount = u128::from(amount);
        let sum = |part: fn(&Claim) -> u64| claims.iter().map(|claim| u128::from(part(claim))).sum::<u128>();
        if sum(|claim| claim.cap) <= amount {
            return Self::All;
        }
        let floors = sum(|claim| claim.floor);
        if floors >= amount {
            return Self::OfFloors { amount, floors: floors.max(1) };
        }
        bends.clear();
        for claim in claims.iter().filter(|claim| claim.cap > claim.floor) {
            bends.push(Bend { at: claim.floor, weight: claim.weight, is_start: true });
            bends.push(Bend { at: claim.cap, weight: claim.weight, is_start: false });
        }
        bends.sort_unstable_by(Bend::by_level);
        // Claims that do not grow at this level, and the weights of those that do.
        let (mut fixed, mut weights) = (floors, 0);
        for bend in &*bends {
            let (at, weight) = (u128::from(bend.at), u128::from(bend.weight));
            if weights > 0 && (amount - fixed) * weight <= weights * at {
                break;
            }
            if bend.is_start {
                (fixed, weights) = (fixed - at, weights + weight);
            } else {
                (fixed, weights) = (fixed + at, weights - weight);
            }
        }
        Self::ToLevel { amount: amount - fixed, weights: weights.max(1) }
    }

    pub(crate) fn share(self, claim: &Claim) -> u64 {
        match self {
            Self::All => claim.cap,
            Self::OfFloors { amount, floors } => (u128::from(claim.floor) * amount / floors) as u64,
            Self::ToLevel { amount, weights } => {
                let even = u128::from(claim.weight) * amount / weights;
                even.clamp(u128::from(claim.floor), u128::from(claim.cap)) as u64
            }
        }
    }
}
