//! Laws of Vegas, from the rules of its papers.

use crate::path::{run, Path};
use crate::rounds::Rounds;
use perigee_cc::{CaEvent, CaState, Selected};

/// The change of the window after a round at the base round trip and one at another, at the end of which Vegas decides.
fn decide(settings: &[(&str, &str)], cwnd: u32, base_us: u64, rtt_us: u64) -> i64 {
    let mut path = Rounds::new("vegas", settings, base_us).avoiding(cwnd);
    path.round();
    path.rtt_us = rtt_us;
    path.round();
    path.socket.snd_cwnd = cwnd;
    // The decision falls on the first ACK of the next round.
    path.socket.snd_nxt = path.socket.snd_una.wrapping_add(1448 * cwnd);
    path.ack(rtt_us);
    i64::from(path.socket.snd_cwnd) - i64::from(cwnd)
}

#[test]
fn the_window_follows_the_backlog_by_one_packet_per_round_trip() {
    for (cwnd, base_us, rtt_us) in [
        (100, 100_000, 101_000),
        (100, 100_000, 103_500),
        (100, 100_000, 105_100),
        (1_000, 600_000, 600_900),
        (1_000, 600_000, 601_900),
        (1_000, 600_000, 603_100),
        (10, 40_000, 62_000),
        // The product needs more than 32 bits.
        (20_000, 1_000_000, 1_800_000),
    ] {
        // The backlog in packets, relative to the base round trip.
        let backlog = f64::from(cwnd) * (rtt_us as f64 / base_us as f64 - 1.0);
        let expected = if backlog < 2.0 {
            1
        } else if backlog >= 5.0 {
            -1
        } else {
            0
        };
        assert_eq!(decide(&[], cwnd, base_us, rtt_us), expected, "{backlog} packets of {cwnd}");
    }
    assert_eq!(decide(&[("alpha", "6"), ("beta", "8")], 100, 100_000, 105_000), 1);
    assert_eq!(decide(&[("alpha", "1"), ("beta", "3")], 100, 100_000, 104_500), -1);
}

#[test]
fn on_a_fixed_path_the_queue_holds_alpha_to_beta_packets() {
    for (mbps, rtt_ms) in [(10.0, 40), (20.0, 100), (2.0, 600), (50.0, 20)] {
        let path = Path::new(mbps, rtt_ms, 10_000_000);
        // Long enough for the queue that slow start left, which shrinks by a packet per round trip.
        let seconds = 2.4 * rtt_ms as f64;
        let outcome = run(&path, &[(&Selected::parse("vegas", &[]).unwrap(), 0.0)], seconds).remove(0);
        // The round trip of a single packet has its own transmission besides the delay.
        let transmission_ms = 12.0 / mbps;
        let queue_ms = outcome.rtt_ms(seconds / 2.0, seconds) - rtt_ms as f64 - transmission_ms;
        let backlog = queue_ms / transmission_ms;
        assert!(backlog > 1.5 && backlog < 5.5, "{backlog} packets at {mbps} Mbit/s, {rtt_ms} ms");
        let full = mbps * 1448.0 / 1500.0;
        assert!(outcome.mbps(seconds / 2.0, seconds) > 0.99 * full, "{mbps} Mbit/s, {rtt_ms} ms");
        assert_eq!(outcome.lost_packets, 0);
    }
}

/// Window and threshold after a decision in slow start at this round trip.
fn slow_start_decision(settings: &[(&str, &str)], rtt_us: u64) -> (u32, u32) {
    let mut path = Rounds::new("vegas", settings, 100_000);
    path.round();
    path.rtt_us = rtt_us;
    path.round();
    path.socket.snd_cwnd = 40;
    path.socket.snd_nxt = path.socket.snd_una.wrapping_add(1448 * 40);
    path.ack(rtt_us);
    (path.socket.snd_cwnd, path.socket.snd_ssthresh)
}

#[test]
fn slow_start_ends_where_the_backlog_exceeds_gamma() {
    // 40 packets at 104 ms have a backlog of 1.6, which in whole packets is not above one; at 106 ms 2.4, and 37.7 of 40 packets fit.
    assert_eq!(slow_start_decision(&[], 104_000), (41, perigee_cc::INFINITE_SSTHRESH));
    assert_eq!(slow_start_decision(&[], 106_000), (38, 38));
    assert_eq!(slow_start_decision(&[("gamma", "3")], 106_000), (41, perigee_cc::INFINITE_SSTHRESH));
}

#[test]
fn slow_start_doubles_each_round_trip_or_every_other_one_as_in_the_paper() {
    let mut path = Rounds::new("vegas", &[], 100_000);
    assert_eq!([path.round(), path.round(), path.round()], [20, 40, 80]);
    let mut path = Rounds::new("vegas", &[("alternate", "on")], 100_000);
    let windows: Vec<u32> = (0..8).map(|_| path.round()).collect();
    let doubled: Vec<bool> = windows.windows(2).map(|w| w[1] > w[0] + w[0] / 2).collect();
    assert!(doubled.windows(2).all(|d| d[0] != d[1]), "{windows:?}");
    assert!((120..=200).contains(&windows[7]), "{windows:?}");
}

#[test]
fn a_round_of_two_samples_and_all_rounds_outside_the_open_state_are_renos() {
    // A backlog of one packet in two would hold the window at two for ever.
    let mut path = Rounds::new("vegas", &[], 100_000).avoiding(2);
    path.rtt_us = 400_000;
    assert!(path.rounds(3) > 2);
    let mut path = Rounds::new("vegas", &[], 100_000).avoiding(100);
    path.socket.set_state(CaState::Disorder);
    path.round();
    path.rtt_us = 200_000;
    assert_eq!(path.rounds(9), 110);
}

#[test]
fn a_loss_halves_a_timeout_begins_with_one_packet_and_an_undo_gives_the_window_back() {
    let mut path = Rounds::new("vegas", &[], 100_000).avoiding(100);
    assert_eq!(path.lose(), 50);
    assert_eq!(path.socket.undo_cwnd(), 100);
    let mut path = Rounds::new("vegas", &[], 100_000).avoiding(100);
    path.time_out();
    assert_eq!((path.socket.snd_cwnd, path.socket.snd_ssthresh), (1, 50));
    assert!((50..=52).contains(&path.rounds(7)), "{}", path.socket.snd_cwnd);
}

#[test]
fn the_window_follows_the_backlog_whether_or_not_it_was_used_up() {
    let mut path = Rounds::new("vegas", &[], 100_000).avoiding(50);
    path.socket.is_cwnd_limited = 0;
    assert!((59..=60).contains(&path.rounds(10)), "{}", path.socket.snd_cwnd);
}

#[test]
fn idle_time_discards_the_base_round_trip() {
    // The path became longer: with the old base round trip 50 ms would count as a queue.
    let mut path = Rounds::new("vegas", &[], 100_000).avoiding(100);
    path.rounds(3);
    path.rtt_us = 150_000;
    path.socket.cwnd_event(CaEvent::TxStart);
    let begin = path.socket.snd_cwnd;
    assert!(path.rounds(10) >= begin + 8);
}

#[test]
fn the_backlog_of_what_was_sent_is_smaller_by_the_share_of_the_queue() {
    // 100 packets at 104.7 ms over 100: 4.7 by the window, 4.5 of those sent, in halves of a packet.
    let sent = ("backlog", "sent");
    assert_eq!(decide(&[("alpha", "1"), ("beta", "4")], 100, 100_000, 104_700), 0, "4.7 in whole packets are 4");
    assert_eq!(decide(&[sent, ("alpha", "1"), ("beta", "4")], 100, 100_000, 104_700), -1);
    // A round trip of twice the base: all of the window by the first, half of it by the second.
    assert_eq!(decide(&[("beta", "60")], 100, 100_000, 200_000), -1);
    assert_eq!(decide(&[sent, ("beta", "60")], 100, 100_000, 200_000), 0);
}

#[test]
fn a_slow_start_that_ends_for_good_leaves_a_threshold_of_two() {
    let after = |settings: &[(&str, &str)]| {
        let mut path = Rounds::new("vegas", settings, 100_000);
        path.round();
        path.rtt_us = 150_000;
        path.rounds(2);
        path.socket.snd_ssthresh
    };
    assert_eq!(after(&[("slow_start_end", "final")]), 2);
    let kept = after(&[]);
    assert!((5..100).contains(&kept), "{kept}: three quarters of the window");
}
