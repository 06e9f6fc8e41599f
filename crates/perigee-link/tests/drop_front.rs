//! A queue that drops from its front, compared with a second implementation and with fates calculated by hand.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use std::collections::VecDeque;

use perigee_link::{AqmSpec, CodelSpec, DropReason, Ecn, Exit, Full, Link, LinkSpec, Offered, Packet, QueueSpec};
use perigee_units::{Bytes, Rate, Time};
use proptest::prelude::*;

/// The fate of a packet: its number, the instant, us, and whether it was delivered.
type Fate = (usize, u64, bool);

/// The fates of packets that arrive at these microseconds at a link of one byte per microsecond without delay.
fn fates(queue: QueueSpec, arrivals: &[(u64, u32)]) -> Vec<Fate> {
    let spec = LinkSpec { queue, ..LinkSpec::constant(Rate::from_mbps(8.0), Time::ZERO) };
    let mut link = Link::new(&spec, 1, "front");
    let mut fates = Vec::new();
    for (i, (at, bytes)) in arrivals.iter().enumerate() {
        let packet = Packet { bytes: *bytes, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: i };
        if let Offered::Dropped(reason) = link.offer(Time::from_micros(*at), packet) {
            assert_eq!(reason, DropReason::QueueFull);
            fates.push((i, *at, false));
        }
    }
    while let Some(exit) = link.poll(Time::from_secs(1 << 30)) {
        match exit {
            Exit::Delivered(d) => fates.push((d.packet.token, d.at.as_micros(), true)),
            Exit::Dropped(d) => {
                assert_eq!(d.reason, DropReason::QueueFull);
                fates.push((d.packet.token, d.at.as_micros(), false));
            }
        }
    }
    fates.sort_unstable();
    fates
}

fn front(bytes: Option<u64>, packets: Option<u32>, time: Option<u64>) -> QueueSpec {
    let time = time.map(Time::from_micros);
    QueueSpec { bytes: bytes.map(Bytes::new), packets, time, full: Full::DropFront, ..QueueSpec::default() }
}

/// Computes the fates by a list of packets with the first in service.
fn fates_by_a_list(bytes: Option<u64>, packets: Option<u32>, time: Option<u64>, arrivals: &[(u64, u32)]) -> Vec<Fate> {
    let (most_bytes, most_packets) = (bytes.unwrap_or(u64::MAX), packets.map_or(usize::MAX, |p| p as usize));
    let (mut waiting, mut fates) = (VecDeque::<(usize, u64, u32)>::new(), Vec::new());
    // Number and end of the packet in service.
    let mut service: Option<(u32, u64)> = None;
    let mut next = 0;
    loop {
        let arrival = arrivals.get(next).map_or(u64::MAX, |arrival| arrival.0);
        if let Some((_, end)) = service.filter(|(_, end)| *end <= arrival) {
            service = None;
            while let Some((packet, arrived, size)) = waiting.pop_front() {
                if time.is_some_and(|time| end - arrived > time) {
                    fates.push((packet, end, false));
                } else {
                    fates.push((packet, end + u64::from(size), true));
                    service = Some((size, end + u64::from(size)));
                    break;
                }
            }
            continue;
        }
        let Some((at, size)) = arrivals.get(next).copied() else { break };
        if service.is_none() {
            if u64::from(size) > most_bytes {
                fates.push((next, at, false));
            } else {
                fates.push((next, at + u64::from(size), true));
                service = Some((size, at + u64::from(size)));
            }
            next += 1;
            continue;
        }
        let in_service = service.map_or(0, |(size, _)| u64::from(size));
        let is_full = |waiting: &VecDeque<(usize, u64, u32)>| {
            let stored: u64 = waiting.iter().map(|(_, _, size)| u64::from(*size)).sum();
            in_service + stored + u64::from(size) > most_bytes || waiting.len() + 2 > most_packets
        };
        while u64::from(size) <= most_bytes && is_full(&waiting) {
            let Some((packet, _, _)) = waiting.pop_front() else { break };
            fates.push((packet, at, false));
        }
        if is_full(&waiting) {
            fates.push((next, at, false));
        } else {
            waiting.push_back((next, at, size));
        }
        next += 1;
    }
    fates.sort_unstable();
    fates
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((0u64..1_500, 40u32..1_501), 1..300).prop_map(|gaps| {
        let mut at = 0;
        gaps.into_iter()
            .map(|(gap, size)| {
                at += gap;
                (at, size)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_packet_has_its_fate_of_a_second_implementation(
        bytes in prop::option::of(1_000u64..20_000), packets in prop::option::of(1u32..20),
        time in prop::option::of(0u64..20_000), arrivals in arrivals(),
    ) {
        let by_a_list = fates_by_a_list(bytes, packets, time, &arrivals);
        prop_assert_eq!(fates(front(bytes, packets, time), &arrivals), by_a_list);
    }
}

#[test]
fn a_burst_into_a_full_queue_leaves_the_packet_in_service_and_the_newest() {
    // Ten packets of 1 ms arrive at once; the first enters service, and four are stored.
    let burst: Vec<_> = (0..10).map(|_| (0, 1000)).collect();
    let fates = fates(front(None, Some(5), None), &burst);
    let delivered: Vec<_> = fates.iter().filter(|fate| fate.2).map(|fate| (fate.0, fate.1)).collect();
    assert_eq!(delivered, [(0, 1000), (6, 2000), (7, 3000), (8, 4000), (9, 5000)]);
    assert!(fates.iter().filter(|fate| !fate.2).all(|fate| fate.1 == 0), "dropped as the others arrive");
}

#[test]
fn a_packet_that_has_waited_too_long_is_dropped_when_its_service_could_begin() {
    let burst: Vec<_> = (0..4).map(|_| (0, 1000)).collect();
    let fates = fates(front(None, None, Some(1_500)), &burst);
    assert_eq!(fates, [(0, 1000, true), (1, 2000, true), (2, 2000, false), (3, 2000, false)]);
}

#[test]
fn an_arrival_that_would_not_fit_into_an_empty_queue_drops_no_other() {
    let fates = fates(front(Some(2_500), None, None), &[(0, 1000), (0, 1000), (10, 3000)]);
    assert_eq!(fates, [(0, 1000, true), (1, 2000, true), (2, 10, false)]);
}

#[test]
fn codel_at_its_limit_drops_the_head_or_the_arrival() {
    let codel =
        CodelSpec { target: Time::from_millis(5), interval: Time::from_millis(100), ecn: false, ce_threshold: None };
    let burst: Vec<_> = (0..10).map(|_| (0, 1000)).collect();
    let delivered = |full| {
        let queue = QueueSpec { packets: Some(3), full, aqm: AqmSpec::Codel(codel.clone()), ..QueueSpec::default() };
        fates(queue, &burst).into_iter().filter(|fate| fate.2).map(|fate| fate.0).collect::<Vec<_>>()
    };
    assert_eq!(delivered(Full::DropFront), [0, 8, 9]);
    assert_eq!(delivered(Full::DropTail), [0, 1, 2]);
}
