//! CoDel compared with the pseudo-code of RFC 8289, section 5, and with drop times calculated by hand.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use std::collections::VecDeque;

use perigee_link::{AqmSpec, CodelSpec, DropReason, Ecn, Exit, Link, LinkSpec, Offered, Packet, QueueSpec};
use perigee_units::{Bytes, Rate, Time};
use proptest::prelude::*;

/// A link of 8 Mbit/s, one byte per microsecond, without delay: packets are delivered on departure.
fn link(aqm: AqmSpec, limit: Option<u64>) -> Link<usize> {
    let queue = QueueSpec { bytes: limit.map(Bytes::new), aqm, ..QueueSpec::default() };
    Link::new(&LinkSpec { queue, ..LinkSpec::constant(Rate::from_mbps(8.0), Time::ZERO) }, 1, "codel")
}

fn codel(target_ms: u64, interval_ms: u64, ecn: bool) -> AqmSpec {
    let (target, interval) = (Time::from_millis(target_ms), Time::from_millis(interval_ms));
    AqmSpec::Codel(CodelSpec { target, interval, ecn, ce_threshold: None })
}

/// A queue that marks from this sojourn time on, and whose control law never acts.
fn step(threshold_us: u64) -> AqmSpec {
    let ce_threshold = Some(Time::from_micros(threshold_us));
    AqmSpec::Codel(CodelSpec { target: Time::MAX, interval: Time::from_millis(100), ecn: false, ce_threshold })
}

/// The fate of a packet: its number, the instant, us, and whether it was delivered, marked or dropped.
type Fate = (usize, u64, &'static str);

/// The fates of packets that arrive at these microseconds.
fn fates(aqm: AqmSpec, arrivals: &[(u64, u32)], ecn: Ecn) -> Vec<Fate> {
    let mut link = link(aqm, None);
    for (i, (at, bytes)) in arrivals.iter().enumerate() {
        let packet = Packet { bytes: *bytes, flow: 0, ecn, is_low: false, token: i };
        assert_eq!(link.offer(Time::from_micros(*at), packet), Offered::Queued);
    }
    let exits = std::iter::from_fn(|| link.poll(Time::from_secs(1 << 30)));
    let mut fates: Vec<Fate> = exits
        .map(|exit| match exit {
            Exit::Delivered(d) if d.packet.ecn == Ecn::Marked => (d.packet.token, d.at.as_micros(), "marked"),
            Exit::Delivered(d) => (d.packet.token, d.at.as_micros(), "delivered"),
            Exit::Dropped(d) => {
                assert_eq!(d.reason, DropReason::Aqm);
                (d.packet.token, d.at.as_micros(), "dropped")
            }
        })
        .collect();
    fates.sort_unstable();
    fates
}

/// An independent implementation with the routines and names of the RFC; times in nanoseconds, sizes in bytes.
#[derive(Default)]
struct Oracle {
    target: u64,
    interval: u64,
    queue: VecDeque<(usize, u64, u32)>,
    max_packet: u64,
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
    drops: Vec<usize>,
}

impl Oracle {
    fn bytes(&self) -> u64 {
        self.queue.iter().map(|(_, _, size)| u64::from(*size)).sum()
    }

    fn enqueue(&mut self, packet: usize, now: u64, size: u32) {
        self.max_packet = self.max_packet.max(u64::from(size));
        self.queue.push_back((packet, now, size));
    }

    fn control_law(&self, t: u64, count: u32) -> u64 {
        t + (self.interval as f64 / f64::from(count).sqrt()).round() as u64
    }

    /// A packet, and whether it may be dropped.
    fn do_dequeue(&mut self, now: u64) -> (Option<(usize, u64, u32)>, bool) {
        let mut ok_to_drop = false;
        let packet = self.queue.pop_front();
        match packet {
            None => self.first_above_time = 0,
            Some((_, timestamp, _)) => {
                if now - timestamp < self.target || self.bytes() <= self.max_packet {
                    self.first_above_time = 0;
                } else if self.first_above_time == 0 {
                    self.first_above_time = now + self.interval;
                } else if now >= self.first_above_time {
                    ok_to_drop = true;
                }
            }
        }
        (packet, ok_to_drop)
    }

    fn dequeue(&mut self, now: u64) -> Option<(usize, u64, u32)> {
        let (mut packet, mut ok_to_drop) = self.do_dequeue(now);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.drops.extend(packet.map(|packet| packet.0));
                self.count += 1;
                (packet, ok_to_drop) = self.do_dequeue(now);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            self.drops.extend(packet.map(|packet| packet.0));
            (packet, _) = self.do_dequeue(now);
            self.dropping = true;
            let delta = self.count - self.last_count;
            self.count = 1;
            if delta > 1 && (now as i64 - self.drop_next as i64) < 16 * self.interval as i64 {
                self.count = delta;
            }
            self.drop_next = self.control_law(now, self.count);
            self.last_count = self.count;
        }
        packet
    }
}

/// The fates by the pseudo-code at one byte per microsecond.
fn fates_by_the_rfc(target_ms: u64, interval_ms: u64, arrivals: &[(u64, u32)]) -> Vec<Fate> {
    let mut oracle = Oracle { target: target_ms * 1_000_000, interval: interval_ms * 1_000_000, ..Oracle::default() };
    let (mut fates, mut free, mut next) = (Vec::new(), 0, 0);
    while next < arrivals.len() || !oracle.queue.is_empty() {
        let arrival = arrivals.get(next).map_or(u64::MAX, |arrival| arrival.0);
        let decision = if oracle.queue.is_empty() { u64::MAX } else { free };
        // The server takes a packet before another one arrives at the same instant.
        if decision <= arrival {
            let packet = oracle.dequeue(decision * 1000);
            fates.extend(oracle.drops.drain(..).map(|packet| (packet, decision, "dropped")));
            if let Some((packet, _, size)) = packet {
                free = decision + u64::from(size);
                fates.push((packet, free, "delivered"));
            }
        } else {
            oracle.enqueue(next, arrival * 1000, arrivals[next].1);
            free = free.max(arrival);
            next += 1;
        }
    }
    fates.sort_unstable();
    fates
}

/// Bursts, idle periods and constant overload, so that dropping states begin, end and resume.
fn traffic() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let phase = (1usize..600, 100u64..3_000, 40u32..1501, 0u64..400_000);
    prop::collection::vec(phase, 1..6).prop_map(|phases| {
        let (mut at, mut arrivals) = (0, Vec::new());
        for (packets, gap, bytes, silence) in phases {
            for i in 0..packets {
                at += gap;
                // Sizes also differ within a phase.
                arrivals.push((at, if i % 7 == 3 { 40 } else { bytes }));
            }
            at += silence;
        }
        arrivals
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_has_its_fate_of_the_pseudo_code(
        target_ms in 1u64..20, interval_ms in 1u64..120, arrivals in traffic(),
    ) {
        let by_the_rfc = fates_by_the_rfc(target_ms, interval_ms, &arrivals);
        prop_assert_eq!(fates(codel(target_ms, interval_ms, false), &arrivals, Ecn::Capable), by_the_rfc);
    }
}

/// 1000 bytes take a millisecond; two packets arrive in each, from 0 on.
fn overload(packets: u64) -> Vec<(u64, u32)> {
    (0..packets).map(|i| (i * 500, 1000)).collect()
}

fn instants(fates: &[Fate], what: &str) -> Vec<u64> {
    let mut instants: Vec<u64> = fates.iter().filter(|fate| fate.2 == what).map(|fate| fate.1).collect();
    instants.sort_unstable();
    instants
}

#[test]
fn drops_under_overload_come_at_intervals_over_the_square_root_of_their_number() {
    // The packet served at k ms has waited k / 2 ms: 5 ms at 10 ms, and the first drop comes 100 ms later. The next are due at 210, + 100 /
    // sqrt(2) = 280.71, + 100 / sqrt(3) = 338.45, + 50 = 388.45, + 44.72 = 433.17, + 40.82 = 473.99; the server takes packets at whole
    // milliseconds.
    let fates = fates(codel(5, 100, false), &overload(1_000), Ecn::NotCapable);
    let first: Vec<u64> = instants(&fates, "dropped").into_iter().take(8).collect();
    assert_eq!(first, [110, 210, 281, 339, 389, 434, 474, 512].map(|ms| ms * 1000));
}

#[test]
fn a_queue_below_the_target_or_of_one_packet_has_no_drops() {
    // Ten packets that arrive at once wait at most 9 ms, less than an interval.
    let burst: Vec<_> = (0..10).map(|_| (0, 1000)).collect();
    assert!(instants(&fates(codel(5, 100, false), &burst, Ecn::NotCapable), "dropped").is_empty());
    // Each packet waits for a whole one, which takes longer than the target, with one more behind it.
    let steady: Vec<_> = [(0, 1000), (0, 1000)].into_iter().chain((0..2_000).map(|i| (i * 1000 + 1, 1000))).collect();
    assert!(instants(&fates(codel(1, 10, false), &steady, Ecn::NotCapable), "dropped").is_empty());
}

#[test]
fn a_dropping_state_that_follows_soon_resumes_at_the_rate_of_the_last_one() {
    // Two overloads, between which the queue empties.
    let gap_of_first_two = |silence_us: u64| {
        let mut arrivals = overload(1_000);
        arrivals.extend(overload(1_000).into_iter().map(|(at, bytes)| (at + silence_us, bytes)));
        let fates = fates(codel(5, 100, false), &arrivals, Ecn::NotCapable);
        let later: Vec<u64> = instants(&fates, "dropped").into_iter().filter(|at| *at > silence_us).collect();
        later[1] - later[0]
    };
    let (soon, late) = (gap_of_first_two(2_000_000), gap_of_first_two(9_000_000));
    assert_eq!(late, 100_000, "a whole interval after the first drop");
    assert!(soon < 40_000, "{soon} us between the first two drops");
}

#[test]
fn packets_that_can_be_marked_are_marked_at_the_same_instants_and_none_is_lost() {
    let marking = |ecn| fates(codel(5, 100, true), &overload(600), ecn);
    let marks = instants(&marking(Ecn::Capable), "marked");
    // A marked packet enters service at the decision and is delivered a millisecond later.
    assert_eq!(&marks[..4], [111, 211, 282, 340].map(|ms| ms * 1000));
    assert!(instants(&marking(Ecn::Capable), "dropped").is_empty());
    assert!(instants(&marking(Ecn::NotCapable), "marked").is_empty());
    assert!(!instants(&marking(Ecn::NotCapable), "dropped").is_empty());
}

#[test]
fn a_step_marks_each_packet_that_waited_longer_and_no_other() {
    // The packet served at k ms has waited k / 2 ms.
    let numbers = |ecn, threshold_us| {
        let fates = fates(step(threshold_us), &overload(40), ecn);
        assert_eq!(instants(&fates, "dropped"), [0; 0]);
        fates.into_iter().filter(|fate| fate.2 == "marked").map(|fate| fate.0).collect::<Vec<_>>()
    };
    assert_eq!(numbers(Ecn::Capable, 5_000), (11..40).collect::<Vec<_>>(), "the one of 5 ms is not above the step");
    assert_eq!(numbers(Ecn::L4s, 4_999), (10..40).collect::<Vec<_>>());
    assert_eq!(numbers(Ecn::Capable, 0), (1..40).collect::<Vec<_>>(), "a step at zero marks what waits at all");
    assert_eq!(numbers(Ecn::NotCapable, 0), [0; 0]);
}

#[test]
fn a_step_marks_beside_the_control_law_and_changes_no_instant() {
    let (target, interval) = (Time::from_millis(5), Time::from_millis(100));
    let with = |ecn, ce_threshold| {
        fates(AqmSpec::Codel(CodelSpec { target, interval, ecn, ce_threshold }), &overload(600), Ecn::Capable)
    };
    let [plain, stepped] = [None, Some(Time::from_millis(2))].map(|step| with(false, step));
    assert_eq!(instants(&stepped, "dropped"), instants(&plain, "dropped"), "drops stay: ecn = false");
    assert!(!instants(&stepped, "dropped").is_empty());
    assert!(instants(&plain, "marked").is_empty());
    assert_eq!(
        instants(&stepped, "marked").len(),
        instants(&plain, "delivered").len() - 5,
        "all but those within 2 ms"
    );
}

#[test]
fn a_full_queue_refuses_arrivals_before_codel_sees_them() {
    let mut link = link(codel(5, 100, false), Some(3_000));
    let mut offer =
        |i| link.offer(Time::ZERO, Packet { bytes: 1000, flow: 0, ecn: Ecn::Capable, is_low: false, token: i });
    assert_eq!([offer(0), offer(1), offer(2)], [Offered::Queued; 3]);
    assert_eq!(offer(3), Offered::Dropped(DropReason::QueueFull));
    assert_eq!((link.queue_bytes(Time::ZERO), link.in_flight()), (3_000, 3));
    assert_eq!(link.queue_bytes(Time::from_millis(1)), 2_000);
}
