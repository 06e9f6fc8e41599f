//! Laws of Illinois: equations 1 to 6 and section 3.3 of the paper of 2008.

use crate::near;
use crate::path::Path;
use crate::rates::alone;
use crate::rounds::Rounds;

const BASE_US: u64 = 100_000;
/// The largest queueing delay of the tests, us.
const DM_US: u64 = 50_000;
const CWND: u32 = 2000;

/// A connection that has seen the shortest and the longest round trip, and then `rounds` at a queueing delay.
fn after(delay_us: u64, rounds: u32) -> Rounds {
    let mut path = Rounds::new("illinois", &[], BASE_US).avoiding(CWND);
    path.round();
    path.rtt_us = BASE_US + DM_US;
    path.round();
    path.rtt_us = BASE_US + delay_us;
    path.rounds(rounds);
    path
}

/// Packets that a round trip adds, from a window of `CWND`.
fn alpha(path: &mut Rounds) -> f64 {
    path.socket.snd_cwnd = CWND;
    path.socket.snd_cwnd_cnt = 0;
    // Whole packets: three hundred rounds show a three-hundredth of one.
    f64::from(path.rounds(300) - CWND) / 300.0
}

#[test]
fn growth_falls_with_the_delay_as_the_hyperbola_says() {
    let (least, most, d1, dm) = (0.3, 10.0, DM_US as f64 / 100.0, DM_US as f64);
    for delay_us in [1_000_u64, 2_500, 10_000, 25_000, 40_000, 50_000] {
        let d = delay_us as f64;
        let k1 = (dm - d1) * least * most / (most - least);
        let k2 = (dm - d1) * least / (most - least) - d1;
        near(alpha(&mut after(delay_us, 3)), k1 / (k2 + d), 3.0);
    }
}

#[test]
fn the_largest_growth_returns_after_five_round_trips_without_a_queue() {
    let slow = |rounds| alpha_of_one(&mut after(0, rounds));
    assert!(slow(4) < 1.0, "{} after four", slow(4));
    near(slow(7), 10.0, 11.0);
}

/// Packets that the next round trip adds.
fn alpha_of_one(path: &mut Rounds) -> f64 {
    path.socket.snd_cwnd = CWND;
    path.socket.snd_cwnd_cnt = 0;
    f64::from(path.round() - CWND)
}

#[test]
fn a_loss_costs_an_eighth_at_short_delays_and_half_at_long_ones() {
    for (delay_us, beta) in [
        (0, 0.125),
        (5_000, 0.125),
        (22_500, 0.3125),
        (30_000, 0.125 + 0.375 * 25.0 / 35.0),
        (40_000, 0.5),
        (50_000, 0.5),
    ] {
        let mut path = after(delay_us, 3);
        path.socket.snd_cwnd = CWND;
        near(f64::from(path.lose()) / f64::from(CWND), 1.0 - beta, 0.3);
    }
}

#[test]
fn small_windows_and_timeouts_are_renos() {
    let mut path = after(0, 10);
    path.socket.snd_cwnd = CWND;
    path.time_out();
    path.socket.snd_cwnd = CWND;
    assert_eq!(path.lose(), CWND / 2, "no round trip has had a mean since the timeout");
    let mut small = Rounds::new("illinois", &[], BASE_US).avoiding(6);
    small.rounds(2);
    small.socket.snd_cwnd = 8;
    assert_eq!(small.lose(), 4);
}

#[test]
fn illinois_fills_a_long_path_faster_than_reno_after_a_loss() {
    // A queue of a tenth of the bandwidth-delay product: Reno halves below the path's own product.
    let path = Path::new(50.0, 200, 125_000);
    let [reno, illinois] = ["reno", "illinois"].map(|name| alone(name, &[], &path, 200.0).mbps(40.0, 200.0));
    assert!(illinois > 1.1 * reno, "{illinois} against {reno} Mbit/s");
}
