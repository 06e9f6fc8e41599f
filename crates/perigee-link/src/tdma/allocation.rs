//! Allocation of the units of a super-frame.
//!
//! Fixed units are always allocated. The rest goes to rate requests, then to volume requests, then, if enabled, freely to all terminals:
//! the order of the capacity categories in DVB-RCS2 (ETSI EN 301 545-2, section 9: CRA, RBDC, VBDC, FCA). Within a category the allocation
//! is max-min fair: no terminal gets more than it requested, and none that wants more has less than another.

/// A terminal's request for a super-frame, in units beyond its fixed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) rate: u32,
    /// In addition to `rate`.
    pub(super) volume: u32,
}

/// Allocates the units of each terminal into `granted`: at most `slots` in total and `most` each. If units do not divide evenly, terminals
/// are served in turn, starting with number `turn`.
pub(super) fn allocate(
    requests: &[Request],
    (fixed, most, free): (u32, u32, bool),
    slots: u32,
    turn: usize,
    granted: &mut Vec<u32>,
) {
    granted.clear();
    granted.resize(requests.len(), fixed);
    let mut left = slots.saturating_sub(fixed.saturating_mul(requests.len() as u32));
    let up_to = |units: u32| units.min(most);
    share(&mut left, turn, granted, |i| up_to(fixed.saturating_add(requests[i].rate)));
    share(&mut left, turn, granted, |i| {
        up_to(fixed.saturating_add(requests[i].rate).saturating_add(requests[i].volume))
    });
    if free {
        share(&mut left, turn, granted, |_| most);
    }
}

/// Shares `left` units fairly among the terminals with fewer than they `want`.
fn share(left: &mut u32, turn: usize, granted: &mut [u32], want: impl Fn(usize) -> u32) {
    loop {
        let wanting = (0..granted.len()).filter(|i| granted[*i] < want(*i)).count() as u32;
        if wanting == 0 || *left == 0 {
            return;
        }
        // With less than one unit each, one unit each in turn while they last.
        let each = (*left / wanting).max(1);
        let terminals = granted.len();
        for i in (0..terminals).map(|i| (turn + i) % terminals) {
            let more = want(i).saturating_sub(granted[i]).min(each).min(*left);
            granted[i] += more;
            *left -= more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(requests: &[(u32, u32)], fixed: u32, most: u32, free: bool, slots: u32, turn: usize) -> Vec<u32> {
        let requests: Vec<_> = requests.iter().map(|(rate, volume)| Request { rate: *rate, volume: *volume }).collect();
        let mut granted = Vec::new();
        allocate(&requests, (fixed, most, free), slots, turn, &mut granted);
        granted
    }

    #[test]
    fn the_fixed_part_is_always_there() {
        assert_eq!(granted(&[(0, 0), (99, 99)], 2, 48, false, 10, 0), [2, 8]);
    }

    #[test]
    fn a_request_below_the_fair_share_is_granted_and_the_others_share_the_rest() {
        assert_eq!(
            granted(&[(1, 0), (9, 0), (5, 0)], 0, 48, false, 10, 0),
            [1, 5, 4],
            "one more for the first in turn"
        );
        assert_eq!(granted(&[(1, 0), (9, 0), (5, 0)], 0, 48, false, 10, 2), [1, 4, 5]);
    }

    #[test]
    fn rates_come_before_volumes_and_volumes_before_what_is_free() {
        assert_eq!(granted(&[(6, 0), (0, 9)], 0, 48, true, 10, 0), [6, 4]);
        assert_eq!(granted(&[(6, 0), (0, 2)], 0, 48, true, 10, 0), [7, 3], "two units are free");
        assert_eq!(granted(&[(6, 0), (0, 2)], 0, 48, false, 10, 0), [6, 2]);
        assert_eq!(granted(&[(9, 9)], 1, 4, true, 10, 0), [4], "limited to the maximum");
    }
}
