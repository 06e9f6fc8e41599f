//! Laws of Westwood with adaptive bandwidth share estimation, from the formulas of its papers.

use crate::near;
use crate::path::{run, Path};
use crate::rounds::Rounds;
use perigee_cc::{AckSample, Selected, INFINITE_SSTHRESH};

/// A connection that has measured its least round trip, after 20 rounds at this window and this round trip.
fn settled(cwnd: u32, rtt_min_us: u64, rtt_us: u64) -> Rounds {
    let mut path = Rounds::new("westwood", &[("adaptive_start", "off")], rtt_min_us).avoiding(cwnd);
    path.rtt_us = rtt_us;
    for _ in 0..20 {
        path.round();
        path.socket.snd_cwnd = cwnd;
    }
    path
}

#[test]
fn a_random_loss_costs_nothing_and_a_loss_by_overflow_costs_the_queue() {
    // Rate W / RTT, thus ssthresh = W RTTmin / RTT.
    for (cwnd, rtt_min_us, rtt_us) in [
        (100u32, 100_000u64, 100_000u64),
        (5_000, 600_000, 600_000),
        (150, 100_000, 150_000),
        (1_000, 600_000, 900_000),
        (20_000, 40_000, 100_000),
    ] {
        let mut path = settled(cwnd, rtt_min_us, rtt_us);
        near(f64::from(path.lose()), f64::from(cwnd) * rtt_min_us as f64 / rtt_us as f64, 2.0);
    }
}

#[test]
fn a_timeout_keeps_the_share_as_threshold_and_begins_with_one_packet() {
    let mut path = settled(1_000, 600_000, 900_000);
    path.time_out();
    near(f64::from(path.socket.snd_ssthresh), 1_000.0 * 600.0 / 900.0, 2.0);
    assert_eq!(path.socket.snd_cwnd, 1);
}

#[test]
fn an_undo_restores_the_window() {
    let mut path = settled(1_000, 600_000, 900_000);
    path.lose();
    assert_eq!(path.socket.undo_cwnd(), 1_000);
}

#[test]
fn without_an_estimate_a_loss_halves() {
    let mut path = Rounds::new("westwood", &[], 100_000).avoiding(50);
    assert_eq!(path.lose(), 25);
}

#[test]
fn avoidance_adds_one_packet_per_round_trip() {
    for (cwnd, rtt_us) in [(20, 10_000), (1_000, 600_000)] {
        let mut path = Rounds::new("westwood", &[("adaptive_start", "off")], rtt_us).avoiding(cwnd);
        let grown = path.rounds(10) - cwnd;
        assert!((9..=10).contains(&grown), "{cwnd} grew by {grown}");
    }
}

#[test]
fn a_window_that_is_not_used_up_does_not_grow() {
    let mut path = Rounds::new("westwood", &[], 100_000).avoiding(50);
    path.socket.is_cwnd_limited = 0;
    assert_eq!(path.rounds(20), 50);
}

/// Globecom 2002, in floats: constant intervals of T, samples in packets/s.
fn abse(samples: &[f64], t: f64, rtt: f64) -> f64 {
    let (mut estimate, mut last, mut u, mut history) = (samples[0], samples[0], 0.0f64, Vec::new());
    for s in samples {
        u = 0.6 * u + 0.4 * (s - last).abs();
        last = *s;
        history.push(u);
        let most = history.iter().rev().take(10).fold(0.0f64, |a, b| a.max(*b));
        let tau = rtt + if most > 0.0 { 10.0 * rtt * u / most } else { 0.0 };
        let a = (2.0 * tau - t) / (2.0 * tau + t);
        estimate = a * estimate + (1.0 - a) * s;
    }
    estimate
}

#[test]
fn the_estimate_follows_a_change_of_the_rate_as_the_filter_does() {
    // Half of a round trip of 200 ms is queue: T = 100 ms. An ACK per 100 us, then per 400 us.
    for after in [3, 10, 20, 60] {
        let mut path = Rounds::new("westwood", &[("adaptive_start", "off")], 100_000).avoiding(1_000_000);
        path.socket.snd_nxt = u32::MAX / 2;
        let ack = |path: &mut Rounds, spacing_us: u64| {
            let sk = &mut path.socket;
            sk.tcp_mstamp += spacing_us;
            sk.delivered += 1;
            sk.snd_una = sk.snd_una.wrapping_add(1448);
            sk.pkts_acked(&AckSample { pkts_acked: 1, rtt_us: 200_000, in_flight: 200 });
        };
        let fast = 20_000;
        (0..=fast).for_each(|_| ack(&mut path, 100));
        (0..after * 250).for_each(|_| ack(&mut path, 400));
        let mut samples = vec![10_000.0; fast as usize / 1000];
        samples.extend(std::iter::repeat_n(2_500.0, after as usize));
        let expected = abse(&samples, 0.1, 0.2) * 0.1;
        near(f64::from(path.socket.ssthresh()), expected, 1.0);
    }
}

#[test]
fn slow_start_ends_at_the_bandwidth_delay_product_without_a_loss() {
    for (mbps, rtt_ms) in [(20.0, 40), (10.0, 100), (10.0, 600), (100.0, 600)] {
        let bdp = mbps * 1e6 * f64::from(rtt_ms) / 1e3 / 12_000.0;
        let path = Path::new(mbps, u64::try_from(rtt_ms).unwrap(), (bdp * 1500.0 * 2.0) as u64);
        let cc = Selected::parse("westwood", &[]).unwrap();
        let seconds = 25.0 * f64::from(rtt_ms) / 1e3;
        let outcome = run(&path, &[(&cc, 0.0)], seconds).remove(0);
        assert_eq!(outcome.lost_packets, 0, "{mbps} Mbit/s, {rtt_ms} ms");
        // Doubling stops: two round trips after 95 % of the product the window is at its final size.
        let end = outcome.cwnd.iter().position(|cwnd| f64::from(*cwnd) > 0.95 * bdp).unwrap();
        near(f64::from(outcome.cwnd[end + rtt_ms as usize / 50]), bdp, 4.0);
        let full = mbps * 1448.0 / 1500.0;
        assert!(outcome.mbps(0.6 * seconds, seconds) > 0.95 * full, "{mbps} Mbit/s, {rtt_ms} ms");
        assert!(outcome.rtt_ms(0.6 * seconds, seconds) < 1.3 * f64::from(rtt_ms));
        assert!(outcome.time_of(1_000_000) < seconds);
    }
}

#[test]
fn a_first_estimate_that_noise_made_too_low_is_corrected() {
    // Jumps of the delay spread the first window's ACKs, so that the first samples are small. 5 MB are 3,450 packets. The
    // handshake and each doubling take a round trip; the base round trip is the least of noisy ones.
    let doublings = (3_450.0_f64 / 10.0 + 1.0).log2();
    let took_of = |seed| {
        let path = Path { jitter: Some((30_000.0, 10_000)), seed, ..Path::new(144.0, 600, 36_000_000) };
        let cc = Selected::parse("westwood", &[]).unwrap();
        run(&path, &[(&cc, 0.0)], 25.0).remove(0).time_of(5_000_000)
    };
    let mut took: Vec<f64> = (1..=10).map(took_of).collect();
    took.sort_by(f64::total_cmp);
    assert!(took[6] < 0.6 + (doublings + 4.0) * 0.63, "seven of ten: {took:?} s");
    // Growth by a packet per round trip needs sqrt(2 x 3,450) round trips: 50 s.
    let linear = (2.0 * 3_450.0_f64).sqrt() * 0.6;
    assert!(took[9] < linear / 2.0, "{took:?} s of {linear}");
}

#[test]
fn adaptive_start_can_be_switched_off() {
    let mut path = Rounds::new("westwood", &[("adaptive_start", "off")], 100_000);
    assert_eq!([path.round(), path.round(), path.round()], [20, 40, 80]);
    assert_eq!(path.socket.snd_ssthresh, INFINITE_SSTHRESH);
}

#[test]
fn one_percent_of_random_loss_leaves_most_of_the_rate() {
    let path = Path { loss: 0.01, ..Path::new(10.0, 100, 125_000) };
    let rate_of = |name: &str| {
        let outcome = run(&path, &[(&Selected::parse(name, &[]).unwrap(), 0.0)], 60.0).remove(0);
        assert!(outcome.lost_share() > 0.005);
        outcome.mbps(20.0, 60.0)
    };
    let (westwood, reno) = (rate_of("westwood"), rate_of("reno"));
    assert!(westwood > 0.85 * 10.0 && reno < 0.2 * 10.0, "{westwood} and {reno} Mbit/s");
}
