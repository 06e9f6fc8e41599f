//! A transfer and what it could use of the link, in virtual time.

use perigee_share::{Policy, Segment, Sender, Transfer};
use perigee_units::{Bytes, Rate, Time};

const INTERVAL: Time = Time::from_millis(20);
const ROUND_TRIP: Time = Time::from_millis(600);
/// Intervals in a round trip.
const TURN: u64 = 30;

fn look(transfer: &mut Transfer, moved: u64, sender: Option<Sender>) -> Rate {
    transfer.look(&Policy::default(), Bytes::new(moved), INTERVAL, ROUND_TRIP, sender)
}

fn sender(has_more: bool, is_slow_start: bool) -> Sender {
    Sender { window: Bytes::new(150_000), is_slow_start, has_more }
}

#[test]
fn a_sender_could_use_its_window_if_bytes_wait_and_else_what_it_sent_of_late_and_a_little_more() {
    let mut transfer = Transfer::default();
    assert_eq!(look(&mut transfer, 0, Some(sender(true, false))), Rate::from_bps(2_000_000));
    assert_eq!(look(&mut transfer, 0, Some(sender(true, true))), Rate::from_bps(4_000_000));
    // An eighth of 1 Mbit/s, and a quarter of that.
    assert_eq!(look(&mut transfer, 2_500, Some(sender(false, false))), Rate::from_bps(156_250));
    // However much it sends, no more than the window.
    for _ in 0..100 {
        look(&mut transfer, 10_000, Some(sender(false, false)));
    }
    assert_eq!(look(&mut transfer, 10_000, Some(sender(false, false))), Rate::from_bps(2_000_000));
}

#[test]
fn a_transfer_that_its_window_holds_is_not_let_go_between_two_bursts() {
    let (share, mut transfer) = (Rate::from_bps(5_000_000), Transfer::default());
    let burst = share.bytes_in(ROUND_TRIP).as_u64();
    let mut demands = (0..TURN * 8).map(|at| look(&mut transfer, if at % TURN == 0 { burst } else { 0 }, None));
    let settled = demands.by_ref().skip((TURN * 4) as usize);
    assert!(settled.into_iter().all(|demand| demand > share));
    // It ends, and others have most of its share within four round trips.
    let ended = (0..TURN * 4).map(|_| look(&mut transfer, 0, None)).last();
    assert!(ended < Some(Rate::from_bps(2_000_000)), "{ended:?}");
}

#[test]
fn no_more_is_kept_for_requests_than_twice_what_they_are() {
    let mut transfer = Transfer::default();
    // 500 bytes each second.
    let kept: u64 = (0..1000).map(|at| look(&mut transfer, if at % 50 == 0 { 500 } else { 0 }, None).as_bps()).sum();
    assert!((7_000..=8_000).contains(&(kept / 1000)), "{} bit/s are kept for 4000", kept / 1000);
}

#[test]
fn what_gets_all_that_it_could_use_has_no_bound_until_it_gets_less() {
    let (mut transfer, segment) = (Transfer::default(), Segment { payload: 1_400, headers: 100 });
    let [share, link] = [1_500_000, 15_000_000].map(Rate::from_bps);
    assert_eq!(transfer.pace(share, share, link, segment, false), None);
    assert_eq!(transfer.pace(share, link, link, segment, false), Some(175_000));
    assert!(transfer.is_held);
    assert_eq!(transfer.pace(share, share, link, segment, true), Some(1_750_000));
    assert!(!transfer.is_held);
    assert_eq!(transfer.pace(Rate::ZERO, link, link, segment, true), Some(2_000), "a pause is not for seconds");
    assert_eq!(segment.on_link(segment.payload_of(share)), share);
}
