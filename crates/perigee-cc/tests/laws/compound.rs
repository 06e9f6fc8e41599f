//! Laws of Compound: growth, decrease, reduction and tuning, from the formulas of its draft.

use crate::near;
use crate::rounds::Rounds;

const ALPHA: f64 = 0.125;
const K: f64 = 0.75;
const GAMMA: f64 = 30.0;

/// A connection at this window, with dwnd zero, on a path of this round trip without a queue.
fn avoiding(settings: &[(&str, &str)], cwnd: u32, rtt_us: u64) -> Rounds {
    let mut path = Rounds::new("compound", settings, rtt_us);
    path.ack(rtt_us);
    path.avoiding(cwnd)
}

#[test]
fn without_a_queue_the_window_grows_by_alpha_w_to_the_k_per_round_trip() {
    for (cwnd, rtt_us) in [(50, 100_000), (1_000, 600_000), (10_000, 600_000), (200_000, 10_000)] {
        let mut path = avoiding(&[], cwnd, rtt_us);
        path.round();
        let (begin, rounds) = (path.socket.snd_cwnd, 30);
        // cwnd grows by one and dwnd by alpha W^k - 1.
        let expected = (0..rounds).fold(f64::from(begin), |w, _| w + ALPHA * w.powf(K));
        let grown = f64::from(path.rounds(rounds) - begin);
        near(grown, expected - f64::from(begin), 2.0);
    }
}

#[test]
fn below_the_low_window_it_is_reno() {
    for (settings, begin) in [(&[][..], 20), (&[("low_window", "1000 packets")], 500)] {
        let mut path = avoiding(settings, begin, 100_000);
        let reno = Rounds::new("reno", &[], 100_000).avoiding(begin).rounds(15);
        assert_eq!(path.rounds(15), reno);
    }
}

#[test]
fn slow_start_doubles_and_has_no_delay_window() {
    let mut path = Rounds::new("compound", &[], 100_000);
    assert_eq!([path.round(), path.round(), path.round(), path.round()], [20, 40, 80, 160]);
    // dwnd is zero: a loss halves the window in either case.
    assert_eq!(path.lose(), 80);
}

/// The windows of a connection with a dwnd before and after some rounds with this queueing delay.
fn queue(settings: &[(&str, &str)], delay_us: u64, rounds: u32) -> (f64, f64) {
    let mut path = avoiding(settings, 1_000, 100_000);
    path.rounds(12);
    let before = f64::from(path.socket.snd_cwnd);
    path.rtt_us += delay_us;
    (before, f64::from(path.rounds(rounds)))
}

#[test]
fn from_gamma_packets_in_the_queue_on_the_delay_window_shrinks_by_as_many() {
    // diff = W (RTT - baseRTT) / RTT: below and above 30 packets.
    let (before, after) = queue(&[], 1_000, 1);
    assert!(before * 1.0 / 101.0 < GAMMA);
    near(after - before, ALPHA * before.powf(K), 3.0);
    let (before, after) = queue(&[], 5_000, 1);
    let diff = before * 5.0 / 105.0;
    assert!(diff > GAMMA);
    near(before + 1.0 - after, diff, 3.0);
    let (before, after) = queue(&[("zeta", "50 %")], 5_000, 1);
    near(before + 1.0 - after, diff / 2.0, 4.0);
}

#[test]
fn the_delay_window_shrinks_to_zero_and_leaves_renos_window() {
    let mut path = avoiding(&[], 1_000, 100_000);
    path.rounds(12);
    let rounds = 60;
    path.rtt_us = 200_000;
    // Reno's window grows by one per round trip from 1000.
    let after = path.rounds(rounds);
    near(f64::from(after), 1_000.0 + 12.0 + f64::from(rounds), 0.3);
}

#[test]
fn a_loss_takes_beta_of_the_sum_and_half_of_cwnd() {
    for (beta, kept) in [("50 %", 0.5), ("25 %", 0.75)] {
        let mut path = avoiding(&[("beta", beta)], 2_000, 100_000);
        let before = path.rounds(20);
        near(f64::from(path.lose()), f64::from(before) * kept, 0.1);
        // cwnd keeps half of its 2020 packets; the rest is dwnd, which a queue reduces to zero.
        path.rtt_us = 1_000_000;
        near(f64::from(path.rounds(40)), 2_020.0 / 2.0 + 40.0, 0.5);
    }
    assert_eq!(avoiding(&[], 3, 100_000).lose(), 2);
}

#[test]
fn an_undo_restores_both_windows() {
    let mut path = avoiding(&[], 2_000, 100_000);
    let before = path.rounds(20);
    path.lose();
    path.socket.snd_cwnd = path.socket.undo_cwnd();
    assert_eq!(path.socket.snd_cwnd, before);
    // A queue reduces dwnd to zero again, which shows that it was restored.
    path.rtt_us = 1_000_000;
    near(f64::from(path.rounds(40)), 2_020.0 + 40.0, 0.3);
}

#[test]
fn a_timeout_resets_the_delay_window() {
    let mut path = avoiding(&[], 2_000, 100_000);
    let before = path.rounds(20);
    path.time_out();
    assert_eq!((path.socket.snd_ssthresh, path.socket.snd_cwnd), (before / 2, 1));
    path.rounds(14);
    assert!(path.socket.snd_cwnd >= before / 2);
}

#[test]
fn a_window_that_is_not_used_up_does_not_grow() {
    let mut path = avoiding(&[], 500, 100_000);
    path.socket.is_cwnd_limited = 0;
    assert_eq!(path.rounds(20), 500);
}

#[test]
fn gamma_follows_renos_backlog_where_tuning_is_on() {
    // Reno's 200 packets have 200 x 10 / 110 = 18.2 in the queue: gamma = 0.2 x 30 + 0.8 x 3/4 x 18.2 = 16.9 after a loss.
    let tuned = |settings: &[(&str, &str)], delay_us: u64| {
        let mut path = avoiding(settings, 200, 100_000);
        path.rtt_us += delay_us;
        path.rounds(3);
        path.lose();
        // gamma is found by the delay below which dwnd still grows.
        let grows = |gamma: f64| {
            let mut path = path.socket.clone();
            let mut probe = Rounds::new("compound", settings, 100_000);
            (path.snd_cwnd, path.snd_ssthresh) = (1_000, 2);
            probe.socket = path;
            probe.rtt_us = (100_000.0 * 1_000.0 / (1_000.0 - gamma)) as u64;
            probe.rounds(2);
            probe.rounds(2) > 1_000 + 10
        };
        (1..60).rev().map(|half| f64::from(half) / 2.0).find(|gamma| grows(*gamma)).unwrap_or(0.0)
    };
    let on = [("tuning", "on")];
    near(tuned(&on, 10_000), 0.2 * GAMMA + 0.8 * 0.75 * 200.0 * 10.0 / 110.0, 10.0);
    // gamma stays within 5 and 30.
    near(tuned(&[("tuning", "on"), ("lambda", "100 %")], 1_000), 5.0, 20.0);
    near(tuned(&on, 300_000), GAMMA, 5.0);
    near(tuned(&[], 10_000), GAMMA, 5.0);
}

const MODULE: [(&str, &str); 1] = [("form", "module")];

#[test]
fn a_loss_leaves_the_module_half_the_window_and_no_dwnd() {
    let kept_by_a_queue = |settings: &[(&str, &str)]| {
        let mut path = avoiding(settings, 2_000, 100_000);
        let before = path.rounds(20);
        near(f64::from(path.lose()), f64::from(before) / 2.0, 0.1);
        // A long queue takes all of dwnd: what is left is Reno's window, which grew by 40.
        path.rtt_us = 1_000_000;
        (f64::from(before), f64::from(path.rounds(40)))
    };
    let (before, after) = kept_by_a_queue(&MODULE);
    near(after, before / 2.0 + 40.0, 0.5);
    // The draft's dwnd has what the window is above half of Reno's 2020 packets.
    let (before, after) = kept_by_a_queue(&[]);
    assert!(before > 2.0 * 1_100.0 && after < 1_060.0, "{before} {after}");
}

#[test]
fn the_module_takes_the_least_round_trip_of_a_round_so_that_jitter_is_no_queue() {
    // Every second ACK is 10 ms late: 5 ms in the mean are 48 packets of 1000, above gamma; the least is no queue.
    let grown = |settings: &[(&str, &str)]| {
        let mut path = avoiding(settings, 1_000, 100_000);
        for _ in 0..20 {
            let window = path.socket.snd_cwnd;
            path.socket.snd_nxt = path.socket.snd_una.wrapping_add(window * 1448);
            for number in 0..window {
                path.ack(if number % 2 == 0 { 100_000 } else { 110_000 });
            }
        }
        path.socket.snd_cwnd - 1_000
    };
    near(f64::from(grown(&[])), 20.0, 10.0);
    assert!(grown(&MODULE) > 300);
}

#[test]
fn in_slow_start_the_module_has_a_dwnd_and_giving_way_leaves_the_threshold() {
    let mut path = Rounds::new("compound", &MODULE, 100_000);
    path.rounds(4);
    assert!(path.round() > 320, "{}", path.socket.snd_cwnd);
    let mut path = avoiding(&MODULE, 1_000, 100_000);
    path.rounds(12);
    path.socket.snd_ssthresh = 900;
    path.rtt_us = 200_000;
    path.rounds(3);
    assert_eq!(path.socket.snd_ssthresh, 900);
}
