//! Laws of the window algorithms: their windows against the formulas of the papers.

use crate::near;
use crate::rounds::Rounds;

// ---- Reno: RFC 5681 ----

#[test]
fn reno_doubles_each_round_trip_in_slow_start_and_stops_at_the_threshold() {
    let mut path = Rounds::new("reno", &[], 100_000);
    path.socket.snd_ssthresh = 100;
    assert_eq!([path.round(), path.round(), path.round()], [20, 40, 80]);
    // Twenty ACKs reach the threshold; the remaining ones count for avoidance.
    assert_eq!(path.round(), 100);
    assert_eq!(path.round(), 101);
}

#[test]
fn reno_adds_one_packet_per_round_trip_whatever_the_window_and_round_trip() {
    for (cwnd, rtt_us) in [(10, 10_000), (1000, 600_000), (20_000, 60_000)] {
        let mut path = Rounds::new("reno", &[], rtt_us).avoiding(cwnd);
        let grown = path.rounds(10) - cwnd;
        assert!((9..=10).contains(&grown), "{cwnd} grew by {grown}");
    }
}

#[test]
fn reno_halves_on_a_loss_and_undoes_to_the_window_before() {
    let mut path = Rounds::new("reno", &[], 100_000).avoiding(101);
    assert_eq!(path.lose(), 50);
    assert_eq!(path.socket.undo_cwnd(), 101);
    let mut small = Rounds::new("reno", &[], 100_000).avoiding(3);
    assert_eq!(small.lose(), 2);
}

#[test]
fn a_window_that_is_not_used_up_does_not_grow() {
    for name in ["reno", "cubic", "hybla", "highspeed", "bic", "htcp", "westwood_plus"] {
        let mut path = Rounds::new(name, &[], 100_000).avoiding(50);
        path.socket.is_cwnd_limited = 0;
        assert_eq!(path.rounds(20), 50, "{name}");
    }
}

#[test]
fn no_window_passes_the_clamp() {
    for algorithm in perigee_cc::algorithms() {
        let mut path = Rounds::new(algorithm.name(), &[], 100_000);
        path.socket.snd_cwnd_clamp = 60;
        assert!(path.rounds(30) <= 60, "{}: {}", algorithm.name(), path.socket.snd_cwnd);
    }
}

#[test]
fn after_a_timeout_slow_start_leads_back_to_the_reduced_window() {
    // CUBIC without HyStart, which would leave slow start on the dense ACKs of this path.
    let without_hystart = [("slow_start", "classic")];
    for (name, settings, kept) in [
        ("reno", &[][..], 50),
        ("cubic", &without_hystart, 70),
        ("hybla", &[], 50),
        ("highspeed", &[], 50),
        ("bic", &[], 79),
        ("htcp", &[], 50),
        ("vegas", &[], 50),
    ] {
        let mut path = Rounds::new(name, settings, 25_000).avoiding(100);
        path.time_out();
        assert_eq!((path.socket.snd_ssthresh, path.socket.snd_cwnd), (kept, 1), "{name}");
        path.rounds(6);
        assert!(path.socket.snd_cwnd >= kept.min(64), "{name} is at {}", path.socket.snd_cwnd);
    }
}

// ---- CUBIC: RFC 9438 ----

const C: f64 = 0.4;
const BETA: f64 = 0.7;

/// RFC 9438, figures 1 and 2.
fn w_cubic(w_max: f64, t: f64) -> f64 {
    let k = (w_max * (1.0 - BETA) / C).cbrt();
    C * (t - k).powi(3) + w_max
}

#[test]
fn cubic_keeps_seven_tenths_of_the_window() {
    for cwnd in [10, 100, 1000, 100_000, 8_000_000] {
        let kept = Rounds::new("cubic", &[], 100_000).avoiding(cwnd).lose();
        near(f64::from(kept), f64::from(cwnd) * BETA, 0.1 + 100.0 / f64::from(cwnd));
    }
}

#[test]
fn cubic_follows_its_function_before_and_after_the_plateau() {
    for (w_max, rtt_us) in [(10_000u32, 100_000u64), (10_000, 600_000), (2_000, 40_000)] {
        let settings = [("tcp_friendliness", "off")];
        let mut path = Rounds::new("cubic", &settings, rtt_us).avoiding(w_max);
        path.lose();
        let begin = path.socket.tcp_mstamp;
        let k = (f64::from(w_max) * (1.0 - BETA) / C).cbrt();
        let mut checked = 0;
        loop {
            let cwnd = path.round();
            let t = (path.socket.tcp_mstamp - begin) as f64 / 1e6;
            if t > 1.5 * k {
                break;
            }
            if t > 2.0 {
                // The window lies between the function one round trip ago and one round trip ahead.
                let rtt = rtt_us as f64 / 1e6;
                let (low, high) = (w_cubic(f64::from(w_max), t - rtt), w_cubic(f64::from(w_max), t + rtt));
                let cwnd = f64::from(cwnd);
                assert!(cwnd > low * 0.99 && cwnd < high * 1.01, "{cwnd} at {t} is outside {low}..{high}");
                checked += 1;
            }
        }
        assert!(checked > 20);
    }
}

#[test]
fn cubic_releases_bandwidth_when_the_maximum_shrinks() {
    let plateau = |fast: &str| {
        let settings = [("fast_convergence", fast), ("tcp_friendliness", "off")];
        let mut path = Rounds::new("cubic", &settings, 100_000).avoiding(1000);
        path.lose();
        path.lose();
        // The second loss comes at 700 packets: W_max is 700, or 700 (1 + beta) / 2 = 595 with fast convergence.
        let w_max: f64 = if fast == "on" { 595.0 } else { 700.0 };
        let k = ((w_max - 490.0) / C).cbrt();
        path.rounds((k * 10.0).round() as u32);
        (f64::from(path.socket.snd_cwnd), w_max)
    };
    for fast in ["on", "off"] {
        let (cwnd, w_max) = plateau(fast);
        near(cwnd, w_max, 1.5);
    }
}

#[test]
fn cubic_is_never_slower_than_the_friendly_window() {
    // RFC 9438, 4.3: alpha = 3 (1 - beta) / (1 + beta) packets per round trip. At 10 ms the cubic function is slower.
    let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
    let mut path = Rounds::new("cubic", &[], 10_000).avoiding(20);
    let begin = path.lose();
    let rounds = 100;
    near(f64::from(path.rounds(rounds) - begin), alpha * f64::from(rounds), 12.0);
}

#[test]
fn the_cubic_of_2005_grows_beyond_its_plateau_by_160_packets_per_second_at_most() {
    // Rhee, Xu 2005: 16 packets per 0.1 s. A window of 1000 keeps 800 and is back after (200 / 0.4)^(1/3) = 7.9 s;
    // 12 s later the function alone grows by 3 x 0.4 x 12^2 = 173 packets per second, and then ever faster.
    let rate = |limit: &str, rtt_us: u64| {
        let settings = [("beta", "80 %"), ("growth_limit", limit), ("tcp_friendliness", "off")];
        let mut path = Rounds::new("cubic", &settings, rtt_us).avoiding(1000);
        path.round();
        path.lose();
        path.rounds((25_000_000 / rtt_us) as u32);
        let begin = path.socket.snd_cwnd;
        f64::from(path.rounds((10_000_000 / rtt_us) as u32) - begin) / 10.0
    };
    for rtt_us in [100_000, 1_000_000] {
        near(rate("160 packets", rtt_us), 160.0, 4.0);
        near(rate("40 packets", rtt_us), 40.0, 4.0);
        assert!(rate("0 packets", rtt_us) > 250.0);
    }
    // Below the plateau it does not hold: 10,000 packets keep 8000, and grow by 3 x 0.4 x 17.1^2 = 351 packets per second at first.
    let mut path = Rounds::new("cubic", &[("beta", "80 %"), ("growth_limit", "40 packets")], 100_000).avoiding(10_000);
    let kept = path.lose();
    assert!(path.rounds(20) - kept > 400);
}

#[test]
fn while_no_loss_has_shown_the_maximum_cubic_grows_by_first_growth_per_round_trip() {
    for (settings, growth) in [(&[][..], 1.05), (&[("first_growth", "2 %")], 1.02), (&[("first_growth", "10 %")], 1.1)]
    {
        let mut path = Rounds::new("cubic", settings, 10_000).avoiding(1000);
        path.round();
        let begin = path.socket.snd_cwnd;
        near(f64::from(path.rounds(10)) / f64::from(begin), f64::powi(growth, 10), 3.0);
    }
    let mut path = Rounds::new("cubic", &[("slow_start", "classic"), ("initial_ssthresh", "100 packets")], 100_000);
    assert_eq!([path.round(), path.round(), path.round()], [20, 40, 80]);
    assert!((100..106).contains(&path.round()), "{}", path.socket.snd_cwnd);
}

#[test]
fn cubic_does_not_grow_over_an_idle_time() {
    let grown_after = |idle_us: u64| {
        let mut path = Rounds::new("cubic", &[], 100_000).avoiding(1000);
        path.lose();
        path.rounds(20);
        path.socket.lsndtime = (path.socket.tcp_mstamp / 1000) as u32;
        path.socket.tcp_mstamp += idle_us;
        path.socket.cwnd_event(perigee_cc::CaEvent::TxStart);
        path.rounds(5)
    };
    assert_eq!(grown_after(0), grown_after(60_000_000));
}

/// The window at which slow start ended, if it ended within the rounds.
fn hystart_exit(settings: &[(&str, &str)], spread: f64, rtt_at_round: impl Fn(u32) -> u64) -> Option<u32> {
    let mut path = Rounds::new("cubic", settings, 100_000);
    path.spread = spread;
    for round in 0..8 {
        path.rtt_us = rtt_at_round(round);
        path.round();
        if path.socket.snd_ssthresh < perigee_cc::INFINITE_SSTHRESH {
            return Some(path.socket.snd_ssthresh);
        }
    }
    None
}

#[test]
fn hystart_leaves_slow_start_when_the_round_trip_grew_by_an_eighth_within_4_and_16_ms() {
    let only_delay = [("ack_train", "off")];
    // 100 ms / 8 = 12.5 ms: 12 is noise, 13 is a queue.
    let grows = |by_us: u64| move |round: u32| 100_000 + if round >= 3 { by_us } else { 0 };
    assert_eq!(hystart_exit(&only_delay, 1.0, grows(12_400)), None);
    let exit = hystart_exit(&only_delay, 1.0, grows(12_600));
    assert!(exit.is_some_and(|cwnd| (80..160).contains(&cwnd)), "{exit:?}");
    assert_eq!(hystart_exit(&[("ack_train", "off"), ("delay", "off")], 1.0, grows(50_000)), None);
    assert_eq!(hystart_exit(&[("slow_start", "classic")], 0.9, grows(50_000)), None);
}

#[test]
fn hystart_leaves_slow_start_when_a_train_of_acks_is_half_a_round_trip_long() {
    let only_train = [("delay", "off")];
    let constant = |_| 100_000;
    // ACKs within a third of the round trip are no train of half of it; within 0.7 of it they are, once they are 2 ms apart.
    assert_eq!(hystart_exit(&only_train, 0.33, constant), None);
    let exit = hystart_exit(&only_train, 0.7, constant);
    assert!(exit.is_some_and(|cwnd| (40..200).contains(&cwnd)), "{exit:?}");
}

#[test]
fn hystart_does_not_exit_below_its_low_window() {
    let settings = [("low_window", "1000 packets")];
    let exit = hystart_exit(&settings, 0.9, |round| 100_000 + 10_000 * u64::from(round.min(5)));
    assert!(exit.is_some_and(|cwnd| (1000..1100).contains(&cwnd)), "{exit:?}");
}

// ---- Hybla: Caini, Firrincieli 2004 ----

#[test]
fn hybla_adds_two_to_the_rho_less_one_per_ack_in_slow_start() {
    // rho = RTT / 25 ms, in eighths; 2^(1/8) is tabulated to 1/128.
    for (rtt_us, rho) in [(25_000, 1.0), (50_000, 2.0), (62_500, 2.5), (100_000, 4.0), (190_625, 7.625)] {
        let mut path = Rounds::new("hybla", &[], rtt_us);
        path.socket.snd_cwnd = 100;
        for _ in 0..64 {
            path.ack(rtt_us);
        }
        near(f64::from(path.socket.snd_cwnd - 100) / 64.0, 2f64.powf(rho) - 1.0, 1.5);
    }
}

#[test]
fn hybla_adds_rho_squared_over_the_window_per_ack_in_avoidance() {
    for (rtt_us, rho, begin) in [(25_000, 1.0, 20), (50_000, 2.0, 40), (100_000, 4.0, 100), (600_000, 24.0f64, 2000)] {
        let mut path = Rounds::new("hybla", &[], rtt_us).avoiding(begin);
        let mut expected = f64::from(begin);
        for _ in 0..5 {
            for _ in 0..path.socket.snd_cwnd {
                expected += rho * rho / expected;
            }
            path.round();
        }
        // Increments are rounded down to 1/128 packet; here they are 4.8 to 36 of these.
        let (grown, due) = (f64::from(path.socket.snd_cwnd - begin), expected - f64::from(begin));
        assert!(grown > due * 0.8 && grown <= due + 1.0, "{grown} of {due} at rho {rho}");
    }
}

#[test]
fn hyblas_rate_grows_alike_at_any_round_trip() {
    // dB/dt = rho^2 / RTT^2 = 1 / RTT0^2: 1600 packets/s per s, here for 1.2 s from 1600 packets/s. The window
    // grows within a round trip, so that the last ACKs count less, and increments are rounded down to 1/128 packet.
    let rate_after = |rtt_us: u64| {
        let mut path = Rounds::new("hybla", &[], rtt_us).avoiding((rtt_us / 25_000) as u32 * 40);
        path.rounds((1_200_000 / rtt_us) as u32);
        f64::from(path.socket.snd_cwnd) / (rtt_us as f64 / 1e6)
    };
    let terrestrial = 40.0 / 0.025 + 1.2 / (0.025 * 0.025);
    for rtt_us in [100_000, 300_000, 600_000] {
        near(rate_after(rtt_us), terrestrial, 11.0);
    }
}

#[test]
fn hybla_begins_with_rho_packets_and_ends_at_65535() {
    for (rtt_us, first) in [(600_000, 24), (650_000, 26), (10_000, 1)] {
        assert_eq!(Rounds::new("hybla", &[], rtt_us).socket.snd_cwnd, first);
    }
    assert_eq!(Rounds::new("hybla", &[("rtt0", "100 ms")], 600_000).socket.snd_cwnd, 6);
    assert_eq!(Rounds::new("hybla", &[], 600_000).rounds(3), 65_535);
}

#[test]
fn hybla_grows_as_reno_outside_the_open_state() {
    let mut path = Rounds::new("hybla", &[], 600_000).avoiding(100);
    path.socket.set_state(perigee_cc::CaState::Disorder);
    assert_eq!(path.rounds(1), 101);
}

#[test]
fn the_complete_hybla_measures_its_first_threshold_and_then_paces() {
    let settings = [("estimate", "on"), ("pacing", "on")];
    let mut path = Rounds::new("hybla", &settings, 600_000);
    assert_eq!(path.socket.inet_conn.sk.sk_pacing_status, perigee_cc::pacing::NONE);
    // 24 packets back to back leave a 10 Mbit/s bottleneck 1.2 ms apart: 833 packets/s x 600 ms = 500.
    let first = path.socket.snd_cwnd;
    path.spread = f64::from(first) * 0.0012 / 0.6;
    path.round();
    near(f64::from(path.socket.snd_ssthresh), 500.0, 5.0);
    assert_eq!(path.socket.inet_conn.sk.sk_pacing_status, perigee_cc::pacing::NEEDED);
    path.spread = 1.0;
    path.round();
    assert!(path.socket.snd_cwnd >= 495, "slow start goes to the threshold");
    assert!(path.socket.snd_cwnd < 2000, "and not beyond it: {}", path.socket.snd_cwnd);
}
