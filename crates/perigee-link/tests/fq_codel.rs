//! FQ-CoDel: turns, sparse flows and the longest queue calculated by hand from RFC 8290, and CoDel within a queue.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use perigee_link::{AqmSpec, CodelSpec, DropReason, Ecn, Exit, Link, LinkSpec, Offered, Packet, QueueSpec};
use perigee_units::{Rate, Time};
use proptest::prelude::*;

/// A CoDel that never drops, so that only the turns matter.
fn patient() -> CodelSpec {
    CodelSpec { target: Time::MAX, interval: Time::from_millis(100), ecn: false, ce_threshold: None }
}

fn fq_codel(queues: u32, quantum: u32, codel: CodelSpec) -> AqmSpec {
    AqmSpec::FqCodel { queues, quantum, codel }
}

/// A link of 8 Mbit/s, one byte per microsecond, without delay: packets are delivered on departure.
fn link(aqm: AqmSpec, packets: Option<u32>) -> Link<usize> {
    let queue = QueueSpec { packets, aqm, ..QueueSpec::default() };
    Link::new(&LinkSpec { queue, ..LinkSpec::constant(Rate::from_mbps(8.0), Time::ZERO) }, 1, "fq")
}

/// Offers packets of (instant us, flow, bytes); returns their exits in order.
fn exits(link: &mut Link<usize>, arrivals: &[(u64, u32, u32)]) -> Vec<Exit<usize>> {
    for (i, (at, flow, bytes)) in arrivals.iter().enumerate() {
        let packet = Packet { bytes: *bytes, flow: *flow, ecn: Ecn::NotCapable, is_low: false, token: i };
        assert_eq!(link.offer(Time::from_micros(*at), packet), Offered::Queued);
    }
    std::iter::from_fn(|| link.poll(Time::from_secs(1 << 30))).collect()
}

/// The flows of the delivered packets, in order.
fn flows_served(link: &mut Link<usize>, arrivals: &[(u64, u32, u32)]) -> Vec<u32> {
    let delivered = exits(link, arrivals).into_iter().filter_map(|exit| match exit {
        Exit::Delivered(delivery) => Some(delivery.packet.flow),
        Exit::Dropped(_) => None,
    });
    delivered.collect()
}

#[test]
fn queues_take_turns_by_bytes() {
    // The first packet enters service at once. Flow 1 has packets of 1000 bytes and flow 2 of 250; a turn is 1000 bytes. New queues come
    // first: flow 1 has used up its first turn, so flow 2 is next with four packets; from then on one packet of flow 1 alternates with four
    // of flow 2.
    let mut arrivals = vec![(0, 1, 1000)];
    arrivals.extend((0..4).map(|_| (0, 1, 1000)));
    arrivals.extend((0..16).map(|_| (0, 2, 250)));
    let served = flows_served(&mut link(fq_codel(1024, 1000, patient()), None), &arrivals);
    assert_eq!(served, [1, 2, 2, 2, 2, 1, 2, 2, 2, 2, 1, 2, 2, 2, 2, 1, 2, 2, 2, 2, 1]);
}

#[test]
fn busy_flows_have_equal_shares_whatever_they_offer() {
    // Three flows offer 1, 2 and 4 times the rate, with different packet sizes, for two seconds.
    let mut arrivals: Vec<(u64, u32, u32)> = Vec::new();
    for (flow, bytes, gap) in [(1, 1500, 1500), (2, 400, 200), (3, 1000, 250)] {
        arrivals.extend((0..2_000_000 / gap).map(|i| (i * gap, flow, bytes)));
    }
    arrivals.sort_unstable();
    let mut link = link(fq_codel(1024, 1514, patient()), None);
    let mut bytes = [0u64; 4];
    for exit in exits(&mut link, &arrivals) {
        let Exit::Delivered(delivery) = exit else { panic!("a packet was dropped without a limit") };
        if delivery.at <= Time::from_secs(2) {
            bytes[delivery.packet.flow as usize] += u64::from(delivery.packet.bytes);
        }
    }
    let (least, most) = (bytes[1..].iter().min().unwrap(), bytes[1..].iter().max().unwrap());
    assert!(most - least <= 2 * 1514, "{bytes:?}");
}

#[test]
fn a_sparse_flow_is_served_ahead_of_a_backlog() {
    // 200 packets wait; a packet of another flow arrives at 2.5 ms, while the third is in service.
    let mut arrivals: Vec<_> = (0..200).map(|_| (0, 7, 1000)).collect();
    arrivals.push((2_500, 9, 100));
    let exits = exits(&mut link(fq_codel(1024, 1000, patient()), None), &arrivals);
    let sparse = exits.iter().find_map(|exit| match exit {
        Exit::Delivered(delivery) if delivery.packet.flow == 9 => Some(delivery.at),
        _ => None,
    });
    assert_eq!(sparse, Some(Time::from_micros(3_100)));
}

#[test]
fn a_flow_of_single_packets_is_not_always_first() {
    // Flow 2 always has another packet of 500 bytes when one leaves: if its queue were new each time, flow 1 would starve.
    let mut arrivals: Vec<_> = (0..100).map(|_| (0, 1, 1000)).collect();
    arrivals.extend((0..200).map(|i| (i * 500 + 1, 2, 500)));
    arrivals.sort_unstable();
    let served = flows_served(&mut link(fq_codel(1024, 1000, patient()), None), &arrivals);
    let first = &served[..60];
    let bytes = |flow, each| first.iter().filter(|served| **served == flow).count() * each;
    assert!(bytes(1, 1000).abs_diff(bytes(2, 500)) <= 2000, "{first:?}");
}

#[test]
fn over_the_limit_half_of_the_longest_queue_is_dropped_from_its_head_but_at_most_64_packets() {
    // One packet is in service, so 99 of flow 1 wait under a limit of 100; ten of flow 2 follow.
    let drops = |limit: u32, flood: usize| -> (Vec<usize>, usize) {
        let mut arrivals: Vec<_> = (0..flood).map(|_| (0, 1, 1000)).collect();
        arrivals.extend((0..10).map(|_| (0, 2, 1000)));
        let exits = exits(&mut link(fq_codel(1024, 1514, patient()), Some(limit)), &arrivals);
        let dropped = exits.iter().filter_map(|exit| match exit {
            Exit::Dropped(drop) => {
                assert_eq!((drop.reason, drop.packet.flow, drop.at), (DropReason::QueueFull, 1, Time::ZERO));
                Some(drop.packet.token)
            }
            Exit::Delivered(_) => None,
        });
        let dropped: Vec<_> = dropped.collect();
        let delivered = exits.len() - dropped.len();
        (dropped, delivered)
    };
    // 99 wait: 50 are dropped, which leaves at most half of the bytes.
    assert_eq!(drops(100, 100), ((1..51).collect(), 60));
    // 299 wait: half would be 150.
    assert_eq!(drops(300, 300), ((1..65).collect(), 246));
}

#[test]
fn a_packet_that_never_fits_is_refused() {
    let queue =
        QueueSpec { bytes: Some("1 kB".parse().unwrap()), aqm: fq_codel(8, 1514, patient()), ..QueueSpec::default() };
    let spec = LinkSpec { queue, ..LinkSpec::constant(Rate::from_mbps(8.0), Time::ZERO) };
    let mut link = Link::new(&spec, 1, "fq");
    let packet = |bytes| Packet { bytes, flow: 1, ecn: Ecn::NotCapable, is_low: false, token: 0 };
    assert_eq!(link.offer(Time::ZERO, packet(1500)), Offered::Dropped(DropReason::QueueFull));
    assert_eq!(link.offer(Time::ZERO, packet(1000)), Offered::Queued);
}

#[test]
fn the_hash_spreads_flows_over_the_queues() {
    // Each of 64 flows sends two packets at once, behind a packet of another flow in service. Flows with separate queues send one
    // packet per turn; two flows in one queue send theirs together.
    let mut arrivals = vec![(0, 1_000_000, 1000)];
    arrivals.extend((0..2).flat_map(|_| (0..64).map(|flow| (0, 2 * flow, 1000))));
    let turns = |queues| {
        let served = flows_served(&mut link(fq_codel(queues, 1000, patient()), None), &arrivals);
        let mut first: Vec<u32> = served[1..65].to_vec();
        first.sort_unstable();
        first.dedup();
        first.len()
    };
    // 64 flows in 1024 queues: 62 distinct queues on average, with a standard deviation of 1.3.
    assert!((58..=64).contains(&turns(1024)), "{}", turns(1024));
    // In 64 queues: 40.6, with a standard deviation of 2.5; queues with several flows send more of the first 64 packets.
    assert!(turns(64) < 64, "{}", turns(64));
}

proptest! {
    #[test]
    fn a_single_flow_is_treated_as_by_codel(
        target_ms in 1u64..20, interval_ms in 1u64..100, step_ms in prop::option::of(0u64..30),
        gaps in prop::collection::vec((1u64..2_000, 40u32..1501), 1..800),
    ) {
        let (target, interval) = (Time::from_millis(target_ms), Time::from_millis(interval_ms));
        let codel = CodelSpec { target, interval, ecn: true, ce_threshold: step_ms.map(Time::from_millis) };
        let mut at = 0;
        let arrival = |(gap, bytes): (u64, u32)| {
            at += gap;
            (at, 5, bytes)
        };
        let arrivals: Vec<_> = gaps.into_iter().map(arrival).collect();
        let alone = exits(&mut link(AqmSpec::Codel(codel.clone()), None), &arrivals);
        prop_assert_eq!(exits(&mut link(fq_codel(16, 1514, codel), None), &arrivals), alone);
    }
}
