//! Requests for a backlog and by the growth of a queue, and the demand of other terminals.

use perigee_link::{Follows, Offered, Requests, TdmaSpec, TerminalOf};
use perigee_units::{Bytes, Rate, Time};

use crate::tdma::{delivered, departures, echoes, link, ms, offer, shared, steady};

fn alone(follows: Follows) -> TdmaSpec {
    TdmaSpec { terminal_of: TerminalOf::Link, follows, ..shared() }
}

#[test]
fn a_request_by_growth_keeps_its_rate_until_the_queue_is_empty() {
    let waiting = |follows| {
        let mut link = link(&alone(follows));
        // 192 kbit/s are 12 units, plus an initial backlog of 40 kB.
        (0..40).for_each(|i| assert_eq!(offer(&mut link, i, (ms(4_000), 0, 1_000)), Offered::Queued));
        for (i, arrival) in steady(0, 240, ms(4_000), ms(10), 2_000).into_iter().enumerate() {
            offer(&mut link, 40 + i, arrival);
        }
        link.queue_bytes(ms(23_990))
    };
    assert!(waiting(Follows::Growth) < 10_000, "{}", waiting(Follows::Growth));
    assert!(waiting(Follows::Arrivals) > 30_000, "{}", waiting(Follows::Arrivals));
}

#[test]
fn a_sparse_terminal_waits_as_long_as_without_a_slower_carrier_and_one_that_begins_waits_for_its_grant() {
    // 64 bytes a slot, four slots a second, beside 750.
    let slow = |slow_payload| TdmaSpec { slow_payload, ..alone(Follows::Arrivals) };
    let of = |slow_payload, every| departures(&slow(slow_payload), &steady(0, 60, ms(3), every, 200));
    let narrow = Some(Bytes::new(64));
    assert_eq!(of(None, ms(500)), of(narrow, ms(500)), "two packets a second have a slot each");
    // 32 packets a second, of which four fit before the first grant.
    let longest = |slow_payload, range: std::ops::Range<usize>| {
        let waits =
            of(slow_payload, ms(31)).into_iter().map(|(packet, _, _, at)| at - (ms(3) + ms(31) * packet as u64));
        waits.skip(range.start).take(range.len()).max().unwrap()
    };
    assert!(longest(None, 0..200) < ms(300), "{}", longest(None, 0..200));
    let grant = slow(narrow).allocation_delay();
    assert!(longest(narrow, 0..60) > grant, "{} before the first grant", longest(narrow, 0..60));
    assert!(longest(narrow, 150..200) < ms(300), "{} with one", longest(narrow, 150..200));
}

#[test]
fn a_constant_rate_is_granted_exactly_whichever_a_request_follows() {
    let of = |follows| departures(&alone(follows), &steady(0, 1000, ms(3), ms(125), 400));
    assert_eq!(of(Follows::Arrivals), of(Follows::Growth));
}

#[test]
fn what_others_request_in_their_busy_times_is_missing_on_average() {
    // Seven others request two units beside their fixed one, half of the time: of 33 units 7 are missing.
    let units_with = |busy, idle| {
        let tdma = TdmaSpec { background: Rate::from_bps(48_000), busy: ms(busy), idle: ms(idle), ..shared() };
        let mut link = link(&tdma);
        for (number, arrival) in steady(0, 1000, ms(1), ms(14), 30_000).into_iter().enumerate() {
            offer(&mut link, number, arrival);
        }
        delivered(&mut link, Time::from_secs(400)).len() as f64 / 800.0
    };
    assert!((18.8..19.1).contains(&units_with(0, 0)), "they never pause");
    for busy in [1_000, 5_000] {
        let units = units_with(busy, busy);
        assert!((25.0..27.0).contains(&units), "{units} units, busy for {busy} ms");
    }
    let units = units_with(2_000, 6_000);
    assert!((28.5..30.5).contains(&units), "{units} units, busy for a quarter of the time");
}

#[test]
fn slots_that_move_widen_the_spread_of_round_trips_by_that_much_each_way() {
    let sent: Vec<_> = (0..400u64).map(|i| ms(2_000 + 1_003 * i)).collect();
    let spread = |moves| {
        let end = |place| TdmaSpec { place, moves, clock: Some("mesh".to_owned()), ..alone(Follows::Arrivals) };
        let trips = echoes(&end(0), &end(7), &sent, 3);
        *trips.iter().max().unwrap() - *trips.iter().min().unwrap()
    };
    // A slot takes 6.25 ms, a multi-frame 250 ms.
    assert!(spread(0) < ms(250));
    assert!(spread(2) > ms(252) && spread(2) < ms(276), "{}", spread(2));
}

#[test]
fn volume_requests_drain_a_backlog_without_a_spare_unit() {
    let tdma = TdmaSpec { terminal_of: TerminalOf::Link, requests: Requests::Volume, ..shared() };
    let mut link = link(&tdma);
    for i in 0..100 {
        offer(&mut link, i, (ms(10_000), 0, 1_000));
    }
    let found = delivered(&mut link, ms(60_000));
    assert_eq!(found.len(), 100);
    // 100 kB are 100 units; a super-frame has at most 33, and the first grant comes within 1.25 s.
    assert!(found.last().unwrap().3 <= ms(10_000 + 1_250 + 3 * 500 + 250), "{:?}", found.last());
    assert_eq!(link.rate_at(ms(15_000)), tdma.unit(), "only the fixed unit remains");
}

#[test]
fn a_rate_request_that_drains_empties_a_standing_backlog_and_one_that_does_not_keeps_it() {
    let waiting = |drain| {
        let mut link = link(&TdmaSpec { terminal_of: TerminalOf::Link, drain, ..shared() });
        // 192 kbit/s are 12 units, plus an initial backlog of 40 kB.
        (0..40).for_each(|i| assert_eq!(offer(&mut link, i, (ms(4_000), 0, 1_000)), Offered::Queued));
        for (i, arrival) in steady(0, 240, ms(4_000), ms(10), 2_000).into_iter().enumerate() {
            offer(&mut link, 40 + i, arrival);
        }
        link.queue_bytes(ms(23_990))
    };
    // Arrivals of a multi-frame, plus the remainder from rounding the drain.
    assert!(waiting(Some(ms(1_500))) < 10_000, "{}", waiting(Some(ms(1_500))));
    assert!(waiting(None) > 30_000, "{}", waiting(None));
}
