//! Laws of H-TCP, from the formulas of draft-leith-tcp-htcp.

use crate::near;
use crate::rounds::Rounds;

/// Draft, section 2: f(Delta), Delta in seconds.
fn f(delta: f64) -> f64 {
    if delta <= 1.0 {
        1.0
    } else {
        1.0 + 10.0 * (delta - 1.0) + ((delta - 1.0) / 2.0).powi(2)
    }
}

const ONLY_ALPHA: [(&str, &str); 2] = [("rtt_scaling", "off"), ("bandwidth_switch", "off")];

/// Growth in packets per round trip, this long after recovery from a loss ended.
fn growth(settings: &[(&str, &str)], rtt_us: u64, cwnd: u32, delta_s: f64) -> f64 {
    let mut path = Rounds::new("htcp", settings, rtt_us).avoiding(cwnd);
    path.rounds(2);
    path.lose();
    path.socket.snd_cwnd = cwnd;
    // Two rounds earlier, since alpha is updated as the window grows.
    path.socket.tcp_mstamp += (delta_s * 1e6) as u64 - 2 * rtt_us;
    path.round();
    path.socket.snd_cwnd = cwnd;
    f64::from(path.round() - cwnd)
}

#[test]
fn growth_accelerates_with_the_time_since_the_last_loss() {
    // One ACK of each increment is not counted, which is little at a large window.
    for delta in [0.1, 0.9, 2.0, 5.0, 10.0, 30.0] {
        let grown = growth(&ONLY_ALPHA, 10_000, 400_000, delta);
        // The code rounds f to a whole number.
        let error = (grown - f(delta)).abs();
        assert!(error <= 1.0 + 0.005 * f(delta), "{grown} after {delta} s, f is {}", f(delta));
    }
}

#[test]
fn growth_begins_to_accelerate_after_delta_l() {
    let settings = [ONLY_ALPHA[0], ONLY_ALPHA[1], ("delta_l", "5 s")];
    assert!(growth(&settings, 10_000, 40_000, 4.9) <= 1.0);
    near(growth(&settings, 10_000, 40_000, 9.0), f(5.0), 3.0);
}

#[test]
fn rtt_scaling_makes_growth_proportional_to_the_round_trip_within_a_tenth_and_two() {
    let scaled = [("bandwidth_switch", "off")];
    for (rtt_us, scale) in
        [(5_000u64, 0.1), (20_000, 0.2), (50_000, 0.5), (100_000, 1.0), (150_000, 1.6), (600_000, 2.0)]
    {
        // 800 / 150 ms in whole eighths is five: a scale of 1.6 instead of 1.5.
        near(growth(&scaled, rtt_us, 40_000, 10.0), f(10.0) * scale, 10.0);
    }
}

/// A path whose queue has raised the round trip to `max_us`, by 20 ms at most per round.
fn queued(settings: &[(&str, &str)], cwnd: u32, min_us: u64, max_us: u64) -> Rounds {
    let mut path = Rounds::new("htcp", settings, min_us).avoiding(cwnd);
    path.rounds(3);
    while path.rtt_us < max_us {
        path.rtt_us = (path.rtt_us + 15_000).min(max_us);
        path.round();
        path.socket.snd_cwnd = cwnd;
    }
    path
}

/// The share that the second loss keeps: beta adapts from it on.
fn kept_by_second_loss(settings: &[(&str, &str)], min_us: u64, max_us: u64) -> (f64, Rounds) {
    let mut path = queued(settings, 10_000, min_us, max_us);
    near(f64::from(path.lose()), 5_000.0, 0.1);
    path.rounds(2);
    path.socket.snd_cwnd = 10_000;
    let kept = f64::from(path.lose()) / 10_000.0;
    (kept, path)
}

#[test]
fn a_loss_keeps_the_ratio_of_least_to_largest_round_trip_within_a_half_and_four_fifths() {
    for (min_us, max_us) in
        [(100_000, 130_000), (600_000, 900_000), (600_000, 620_000), (40_000, 55_000), (100_000, 300_000)]
    {
        let (kept, _) = kept_by_second_loss(&ONLY_ALPHA, min_us, max_us);
        let share = min_us as f64 / max_us as f64;
        // In parts of 128, at most 102 of them.
        assert!((kept - share.clamp(0.5, 0.8)).abs() < 1.5 / 128.0, "{kept} at {share}");
    }
    // Round trips of up to 10 ms leave beta at a half.
    near(kept_by_second_loss(&ONLY_ALPHA, 10_000, 13_000).0, 0.5, 0.1);
}

#[test]
fn growth_makes_up_for_a_smaller_reduction() {
    // alpha = 2 (1 - beta): within the first second, at beta = 0.77, less than half a packet per round trip.
    let (_, mut path) = kept_by_second_loss(&ONLY_ALPHA, 100_000, 130_000);
    (path.socket.snd_cwnd, path.socket.snd_ssthresh) = (1_000, 2);
    let begin = path.socket.tcp_mstamp;
    let grown = path.rounds(7) - 1_000;
    assert!(path.socket.tcp_mstamp - begin < 1_000_000);
    assert!((2..=4).contains(&grown), "{grown} of 7 x 2 x 0.23 packets");
}

#[test]
fn a_loss_after_a_change_of_the_throughput_halves() {
    let settings = [("rtt_scaling", "off")];
    // Three losses at the same throughput, of which the third adapts; then the throughput changes by this factor.
    for (factor, adapts) in [(1.0, true), (0.9, true), (1.1, true), (0.7, false), (1.4, false)] {
        let mut path = queued(&settings, 10_000, 100_000, 130_000);
        for _ in 0..3 {
            for _ in 0..30 {
                path.socket.snd_cwnd = 10_000;
                path.round();
            }
            path.socket.snd_cwnd = 10_000;
            path.lose();
        }
        let cwnd = (10_000.0 * factor) as u32;
        for _ in 0..30 {
            path.socket.snd_cwnd = cwnd;
            path.round();
        }
        path.socket.snd_cwnd = cwnd;
        let kept = f64::from(path.lose()) / f64::from(cwnd);
        near(kept, if adapts { 100.0 / 130.0 } else { 0.5 }, 1.5);
    }
}

#[test]
fn an_undone_reduction_leaves_the_clock_as_it_was() {
    let mut path = Rounds::new("htcp", &ONLY_ALPHA, 10_000).avoiding(40_000);
    path.socket.tcp_mstamp += 10_000_000;
    path.socket.prior_cwnd = 40_000;
    path.socket.snd_ssthresh = path.socket.ssthresh();
    path.socket.set_state(perigee_cc::CaState::Recovery);
    assert_eq!(path.socket.undo_cwnd(), 40_000);
    path.socket.set_state(perigee_cc::CaState::Open);
    path.socket.snd_cwnd = 40_000;
    path.round();
    path.socket.snd_cwnd = 40_000;
    near(f64::from(path.round() - 40_000), f(10.0), 5.0);
}

#[test]
fn a_timeout_halves_and_slow_start_leads_back() {
    let mut path = Rounds::new("htcp", &[], 100_000).avoiding(1_000);
    path.time_out();
    assert_eq!((path.socket.snd_cwnd, path.socket.snd_ssthresh), (1, 500));
    assert_eq!(path.rounds(9), 500);
}

#[test]
fn smoothed_round_trips_decide_what_a_loss_keeps_where_asked() {
    // Samples of 100 ms, of which a smoothed round trip of 130 ms is left: RTTmin / RTTmax is one, at most 0.8, or 100/130.
    let kept = |smoothed: &str| {
        let mut path =
            Rounds::new("htcp", &[ONLY_ALPHA[0], ONLY_ALPHA[1], ("smoothed", smoothed)], 100_000).avoiding(10_000);
        path.rounds(2);
        let mut lose = || {
            for srtt_us in [115_000, 130_000] {
                (path.socket.srtt_us, path.socket.snd_cwnd) = (srtt_us << 3, 10_000);
                path.round();
            }
            path.socket.snd_cwnd = 10_000;
            f64::from(path.lose()) / 10_000.0
        };
        // beta adapts from the second loss on.
        near(lose(), 0.5, 0.1);
        lose()
    };
    near(kept("off"), 102.0 / 128.0, 0.1);
    near(kept("on"), 100.0 / 130.0, 1.5);
}
