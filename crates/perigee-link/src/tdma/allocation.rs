//! Who gets how many units of a super-frame.
//!
//! The fixed parts are always there. What is left goes to the rate requests, what those leave to the volume requests, and
//! what those leave, where it is shared freely, to all terminals: the order of the capacity categories of DVB-RCS2
//! (ETSI EN 301 545-2, section 9: CRA, RBDC, VBDC, FCA). Within a category it is fair (max-min): nobody gets more than asked for, and
//! nobody who wants more has less than another.

/// What a terminal requests in a super-frame, in units beside its fixed part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) rate: u32,
    /// Beside `rate`.
    pub(super) volume: u32,
}

/// The units of each terminal, into `granted`: at most `slots` in all and `most` for each. Where units do not go up evenly, the
/// terminals from number `turn` on are served first.
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

/// Shares `left` units fairly among those who have fewer than they `want`, by its number.
fn share(left: &mut u32, turn: usize, granted: &mut [u32], want: impl Fn(usize) -> u32) {
    loop {
        let wanting = (0..granted.len()).filter(|i| granted[*i] < want(*i)).count() as u32;
        if wanting == 0 || *left == 0 {
            return;
        }
        // Less than one for each: one for as many as there are, in turn.
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
        assert_eq!(granted(&[(6, 0), (0, 2)], 0, 48, true, 10, 0), [7, 3], "two are free");
        assert_eq!(granted(&[(6, 0), (0, 2)], 0, 48, false, 10, 0), [6, 2]);
        assert_eq!(granted(&[(9, 9)], 1, 4, true, 10, 0), [4], "no more than the most");
    }
}
