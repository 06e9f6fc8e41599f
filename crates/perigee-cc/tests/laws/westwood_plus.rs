//! Laws of Westwood+, from the formulas of its papers.

use crate::near;
use crate::path::{run, Path};
use crate::rounds::Rounds;
use perigee_cc::{CaState, Selected};

const MSS: u32 = 1448;

/// A round at this window.
fn at(path: &mut Rounds, cwnd: u32) {
    path.socket.snd_cwnd = cwnd;
    path.round();
    path.socket.snd_cwnd = cwnd;
}

/// A connection that has measured its least round trip, after rounds at this window and this round trip.
fn settled(cwnd: u32, rtt_min_us: u64, rtt_us: u64) -> Rounds {
    let mut path = Rounds::new("westwood_plus", &[], rtt_min_us).avoiding(cwnd);
    at(&mut path, cwnd);
    path.rtt_us = rtt_us;
    (0..100).for_each(|_| at(&mut path, cwnd));
    path
}

#[test]
fn after_a_loss_the_window_is_the_bandwidth_times_the_least_round_trip() {
    // The rate is W / RTT, so the window is W RTTmin / RTT: a random loss costs nothing, a loss by overflow the queue.
    for (cwnd, rtt_min_us, rtt_us) in [
        (100u32, 100_000u64, 100_000u64),
        (5_000, 600_000, 600_000),
        (150, 100_000, 150_000),
        (1_000, 600_000, 900_000),
        (200, 40_000, 80_000),
    ] {
        let kept = f64::from(settled(cwnd, rtt_min_us, rtt_us).lose());
        // A sample spans one ACK more than a round trip.
        near(kept, f64::from(cwnd) * rtt_min_us as f64 / rtt_us as f64, 2.0);
    }
}

#[test]
fn the_estimate_is_filtered_twice_once_per_round_trip() {
    for after in [1, 5, 10, 20, 40u32] {
        let mut path = settled(1_000, 200_000, 200_000);
        (0..after).for_each(|_| at(&mut path, 300));
        // The change comes after 101 rounds. A sample is longer than a round trip: 201 ms.
        let (change, end) = (101.0 * 200.0, (101.0 + f64::from(after)) * 200.0);
        let (mut stage, mut bandwidth, mut begin) = (1_000.0, 1_000.0, 0.0);
        while begin + 201.0 <= end {
            let before = (change - begin).clamp(0.0, 201.0);
            let sample = (before * 1_000.0 + (201.0 - before) * 300.0) / 201.0;
            stage = 7.0 / 8.0 * stage + sample / 8.0;
            bandwidth = 7.0 / 8.0 * bandwidth + stage / 8.0;
            begin += 201.0;
        }
        near(f64::from(path.lose()), bandwidth, 1.0);
    }
}

#[test]
fn samples_are_at_least_50_ms_apart() {
    // At 10 ms a sample spans five round trips: five rounds of 300 packets are one step of the filter, not five.
    let mut path = settled(1_000, 10_000, 10_000);
    (0..6).for_each(|_| at(&mut path, 300));
    let kept = f64::from(path.lose());
    assert!(kept > 900.0, "{kept}");
}

#[test]
fn a_timeout_sets_the_threshold_and_begins_a_new_least_round_trip() {
    let mut path = settled(1_000, 600_000, 900_000);
    path.time_out();
    near(f64::from(path.socket.snd_ssthresh), 1_000.0 * 600.0 / 900.0, 2.0);
    assert_eq!(path.socket.snd_cwnd, 1);
    // The round trip is 900 ms from now on.
    (0..100).for_each(|_| at(&mut path, 1_000));
    near(f64::from(path.lose()), 1_000.0, 2.0);
}

#[test]
fn packets_counted_by_duplicate_acks_are_not_counted_again() {
    let rounds_with = |hole: bool| {
        let mut path = settled(100, 100_000, 100_000);
        for _ in 0..100 {
            for i in 1..=100u32 {
                path.socket.tcp_mstamp += 1_000;
                // Behind a hole of 20 packets: duplicate ACKs, then an ACK of all of them.
                let moves = if !hole || i <= 80 {
                    1
                } else if i < 100 {
                    0
                } else {
                    20
                };
                path.socket.snd_una = path.socket.snd_una.wrapping_add(moves * MSS);
                path.socket.in_ack_event(u32::from(hole && i > 80));
            }
        }
        path.lose()
    };
    near(f64::from(rounds_with(true)), f64::from(rounds_with(false)), 2.0);
}

#[test]
fn without_an_estimate_two_packets_are_left_and_an_undo_restores_the_window() {
    let mut path = Rounds::new("westwood_plus", &[], 100_000).avoiding(50);
    assert_eq!(path.lose(), 2);
    assert_eq!(path.socket.undo_cwnd(), 50);
}

#[test]
fn westwood_plus_grows_as_reno() {
    for (cwnd, rtt_us) in [(20, 10_000), (1_000, 600_000)] {
        let grown = Rounds::new("westwood_plus", &[], rtt_us).avoiding(cwnd).rounds(10) - cwnd;
        assert!((9..=10).contains(&grown), "{cwnd} grew by {grown}");
    }
    let mut path = Rounds::new("westwood_plus", &[], 100_000);
    assert_eq!([path.round(), path.round(), path.round()], [20, 40, 80]);
}

#[test]
fn random_losses_cost_westwood_plus_less_than_reno() {
    let path = Path { loss: 0.001, ..Path::new(20.0, 100, 250_000) };
    let rate_of = |name: &str| {
        let outcome = run(&path, &[(&Selected::parse(name, &[]).unwrap(), 0.0)], 120.0).remove(0);
        outcome.mbps(20.0, 120.0)
    };
    let (westwood_plus, reno) = (rate_of("westwood_plus"), rate_of("reno"));
    assert!(westwood_plus > 0.8 * 20.0 && reno < 0.4 * 20.0, "{westwood_plus} and {reno} Mbit/s");
}

#[test]
fn the_least_smoothed_round_trip_is_longer_than_the_least_sample() {
    let kept = |rtt: &str| {
        let mut path = Rounds::new("westwood_plus", &[("rtt", rtt)], 100_000).avoiding(100);
        path.socket.srtt_us = 150_000 << 3;
        at(&mut path, 100);
        path.rtt_us = 200_000;
        (0..100).for_each(|_| at(&mut path, 100));
        f64::from(path.lose())
    };
    near(kept("sample"), 100.0 * 100.0 / 200.0, 2.0);
    near(kept("smoothed"), 100.0 * 150.0 / 200.0, 2.0);
}

#[test]
fn the_estimate_bounds_the_window_from_the_loss_on() {
    let threshold = |reduction: &str| {
        let mut path = Rounds::new("westwood_plus", &[("reduction", reduction)], 600_000).avoiding(1_000);
        at(&mut path, 1_000);
        path.rtt_us = 900_000;
        (0..100).for_each(|_| at(&mut path, 1_000));
        let first = path.socket.ssthresh();
        path.socket.snd_ssthresh = first;
        path.socket.set_state(CaState::Recovery);
        // A round trip of recovery in which a tenth arrives: the estimate falls, and with it the bound.
        path.socket.snd_nxt = path.socket.snd_una.wrapping_add(1_000 * MSS);
        for _ in 0..200 {
            path.socket.tcp_mstamp += 9_000;
            path.socket.snd_una = path.socket.snd_una.wrapping_add(MSS);
            path.socket.in_ack_event(0);
        }
        (first, path.socket.snd_ssthresh)
    };
    assert_eq!(threshold("half"), (500, 500));
    let (first, later) = threshold("estimate");
    near(f64::from(first), 1_000.0 * 600.0 / 900.0, 2.0);
    assert!(later < first - 5 && later > first / 2, "{first}, then {later}");
}
