//! The queue of two classes: fates and instants, worked out by hand.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use std::sync::Arc;

use perigee_link::{DropReason, Ecn, Exit, Full, Link, LinkSpec, Offered, Packet, QueueSpec, Steps};
use perigee_units::{Bytes, Rate, Time};

use crate::links::ms;

/// Packets of 1000 bytes take a millisecond; `limit` packets of them have room.
fn link(limit: u64) -> Link<u32> {
    let queue = QueueSpec { bytes: Some(Bytes::new(1_000 * limit)), full: Full::DropLow, ..QueueSpec::default() };
    Link::new(&LinkSpec { queue, ..LinkSpec::constant(Rate::from_mbps(8.0), Time::ZERO) }, 1, "classes")
}

fn offer(link: &mut Link<u32>, at: Time, token: u32, is_low: bool) -> Offered {
    offer_bytes(link, at, (token, 1_000), is_low)
}

fn offer_bytes(link: &mut Link<u32>, at: Time, (token, bytes): (u32, u32), is_low: bool) -> Offered {
    link.offer(at, Packet { bytes, flow: 0, ecn: Ecn::NotCapable, is_low, token })
}

/// The number of each packet that leaves the link, when, and whether it is delivered.
fn exits(link: &mut Link<u32>) -> Vec<(u32, Time, bool)> {
    let exits = std::iter::from_fn(|| link.poll(Time::from_secs(100)));
    let told = |exit| match exit {
        Exit::Delivered(delivery) => (delivery.packet.token, delivery.at, true),
        Exit::Dropped(drop) => {
            assert_eq!(drop.reason, DropReason::QueueFull);
            (drop.packet.token, drop.at, false)
        }
    };
    exits.map(told).collect()
}

#[test]
fn packets_of_low_priority_are_served_last() {
    let mut link = link(100);
    // The first is in service when the others arrive, and is not interrupted.
    for (token, is_low) in [(0, true), (1, true), (2, false), (3, true), (4, false)] {
        assert_eq!(offer(&mut link, Time::ZERO, token, is_low), Offered::Queued);
    }
    let order = [(0, ms(1), true), (2, ms(2), true), (4, ms(3), true), (1, ms(4), true), (3, ms(5), true)];
    assert_eq!(exits(&mut link), order);
}

#[test]
fn a_full_queue_drops_the_newest_packet_of_low_priority_for_one_of_normal_priority() {
    let mut link = link(3);
    for (token, is_low) in [(0, false), (1, true), (2, true)] {
        assert_eq!(offer(&mut link, Time::ZERO, token, is_low), Offered::Queued);
    }
    assert_eq!(
        offer(&mut link, Time::ZERO, 3, true),
        Offered::Dropped(DropReason::QueueFull),
        "no class drops its own"
    );
    assert_eq!(offer(&mut link, Time::ZERO, 4, false), Offered::Queued);
    assert_eq!(offer(&mut link, Time::ZERO, 5, false), Offered::Queued);
    assert_eq!(offer(&mut link, Time::ZERO, 6, false), Offered::Dropped(DropReason::QueueFull), "no low one is left");
    let wanted = [(2, Time::ZERO, false), (1, Time::ZERO, false), (0, ms(1), true), (4, ms(2), true), (5, ms(3), true)];
    assert_eq!(exits(&mut link), wanted);
}

#[test]
fn nothing_is_dropped_for_an_arrival_that_would_not_fit_all_the_same() {
    const FULL: Offered = Offered::Dropped(DropReason::QueueFull);
    let offers = |limits: QueueSpec, packets: &[(u32, u32, bool, Offered)]| {
        let queue = QueueSpec { full: Full::DropLow, ..limits };
        let spec = LinkSpec { queue, ..LinkSpec::constant(Rate::from_mbps(8.0), Time::ZERO) };
        let mut link = Link::new(&spec, 1, "classes");
        for (token, bytes, is_low, fate) in packets {
            // All but the first arrive a millisecond later, while it is in service and when a limit over time has shrunk.
            let at = if *token == 0 { Time::ZERO } else { ms(1) };
            assert_eq!(offer_bytes(&mut link, at, (*token, *bytes), *is_low), *fate, "{token}");
        }
        exits(&mut link).into_iter().map(|(token, _, delivered)| (token, delivered)).collect::<Vec<_>>()
    };
    let held = |token, bytes, is_low| (token, bytes, is_low, Offered::Queued);
    let bytes = || QueueSpec { bytes: Some(Bytes::new(4_000)), ..QueueSpec::default() };
    // Beside 3000 bytes of normal priority 1200 never fit; 1000 do without both of the low ones, 600 without the last.
    let low = [held(0, 2_000, false), held(1, 1_000, false), held(2, 400, true), held(3, 500, true)];
    let with = |arrival| [&low[..], &[arrival]].concat();
    assert_eq!(offers(bytes(), &with((4, 1_200, false, FULL))), [0, 1, 2, 3].map(|token| (token, true)));
    let without = |dropped: &[u32]| [3, 2, 0, 1, 4].map(|token| (token, !dropped.contains(&token)));
    assert_eq!(offers(bytes(), &with(held(4, 1_000, false))), without(&[2, 3]));
    assert_eq!(offers(bytes(), &with(held(4, 600, false)))[0], (3, false));
    // The one in service is not dropped either.
    let served = [held(0, 2_000, true), held(1, 400, true), (2, 2_200, false, FULL)];
    assert_eq!(offers(bytes(), &served), [(0, true), (1, true)]);
    let shrinks = Steps::new([(Time::ZERO, Bytes::new(4_000)), (ms(1), Bytes::new(2_100))], None).unwrap();
    let shrunk = || QueueSpec { bytes_over_time: Some(Arc::new(shrinks.clone())), ..QueueSpec::default() };
    assert_eq!(
        offers(shrunk(), &[held(0, 2_000, false), held(1, 100, true), (2, 200, false, FULL)]),
        [(0, true), (1, true)]
    );
    assert_eq!(
        offers(shrunk(), &[held(0, 2_000, false), held(1, 100, true), held(2, 100, false)]),
        [(1, false), (0, true), (2, true)]
    );
}

#[test]
fn packets_of_low_priority_change_nothing_for_the_others_but_one_packet_in_service() {
    // Normal packets every 2 ms, low ones three times as many: each normal one waits for at most one packet.
    let mut link = link(8);
    for number in 0..1_000_u32 {
        let at = ms(2) * u64::from(number);
        for low in 0..3 {
            offer(&mut link, at, 10_000 + 3 * number + low, true);
        }
        assert_eq!(offer(&mut link, at, number, false), Offered::Queued);
    }
    let exits = exits(&mut link);
    let normal: Vec<_> = exits.iter().filter(|(token, ..)| *token < 10_000).collect();
    assert_eq!(normal.len(), 1_000);
    for (token, at, delivered) in normal {
        let took = *at - ms(2) * u64::from(*token);
        assert!(*delivered && took >= ms(1) && took <= ms(2), "{token}: {took}");
    }
    let low = exits.iter().filter(|(token, _, delivered)| *token >= 10_000 && *delivered).count();
    assert!((1_000..=1_010).contains(&low), "every second service is theirs: {low}");
}
