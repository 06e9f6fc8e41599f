//! Response functions: the mean window at a loss rate, against the formulas of the algorithms' sources.

use crate::near;
use crate::path::{run, Path};
use crate::rounds::Rounds;
use perigee_cc::Selected;
use perigee_units::Stream;

/// Mean window over `losses` losses, after as many that are not counted, where every 1/p-th packet is lost; the first loss comes at the
/// window `begin`.
pub(crate) fn with_periodic_loss(
    name: &str,
    settings: &[(&str, &str)],
    p: f64,
    rtt_us: u64,
    begin: f64,
    losses: u32,
) -> f64 {
    let mut path = Rounds::new(name, settings, rtt_us).avoiding(begin as u32);
    path.lose();
    let (mut since, mut lost, mut windows, mut rounds) = (0.0, 0, 0.0, 0.0);
    while lost < 2 * losses {
        let cwnd = f64::from(path.round());
        since += cwnd;
        if lost >= losses {
            windows += cwnd;
            rounds += 1.0;
        }
        if since >= 1.0 / p {
            since -= 1.0 / p;
            lost += 1;
            path.socket.tcp_mstamp -= rtt_us; // recovery takes one round trip, which `lose` adds
            path.lose();
        }
    }
    windows / rounds
}

#[test]
fn reno_follows_the_square_root_law() {
    for p in [1e-3, 1e-4, 1e-5_f64] {
        let mean = (1.5_f64 / p).sqrt();
        near(with_periodic_loss("reno", &[], p, 100_000, 2.0 * mean, 30), mean, 3.0);
    }
}

/// RFC 9438, equation 6: C (3 + beta) / (4 (1 - beta)) RTT^3 / p^3, its fourth root.
fn cubic_mean(p: f64, rtt_s: f64) -> f64 {
    let (c, beta) = (0.4, 0.7);
    (c * (3.0 + beta) / (4.0 * (1.0 - beta)) * (rtt_s / p).powi(3)).powf(0.25)
}

#[test]
fn cubic_follows_the_response_function_of_rfc_9438() {
    let cubic = [("fast_convergence", "off"), ("tcp_friendliness", "off")];
    for (p, rtt_us) in [(1e-4, 100_000), (1e-5, 100_000), (1e-6, 100_000), (1e-4, 600_000), (1e-5, 600_000)] {
        // The window at a loss is 4 / (3 + beta) of the mean.
        let mean = cubic_mean(p, rtt_us as f64 / 1e6);
        near(with_periodic_loss("cubic", &cubic, p, rtt_us, mean * 4.0 / 3.7, 20), mean, 2.0);
    }
}

#[test]
fn the_response_function_gives_the_windows_of_tables_1_2_and_3_of_rfc_9438() {
    for (p, rtt_s, window) in [
        (1e-4, 0.1, 187.0),
        (1e-5, 0.1, 1_054.0),
        (1e-6, 0.1, 5_926.0),
        (1e-7, 0.1, 33_325.0),
        (1e-8, 0.1, 187_400.0),
        (1e-7, 0.01, 5_926.0),
        (1e-8, 0.01, 33_325.0),
    ] {
        // Whole packets, with the constant in four digits.
        assert!((cubic_mean(p, rtt_s) - window).abs() < 0.5 + 1e-4 * window, "{} for {window}", cubic_mean(p, rtt_s));
    }
    // Table 3: the loss rate, in two digits, that 100 Mbit/s, 1 and 10 Gbit/s need.
    for (p, window) in [(1.4e-5, 833.3), (6.3e-7, 8_333.3), (2.9e-8, 83_333.3)] {
        near(cubic_mean(p, 0.1), window, 3.0);
    }
}

#[test]
fn in_the_friendly_region_cubic_has_the_windows_of_reno_in_table_2_of_rfc_9438() {
    // Reno's 1.2 / sqrt(p), at 10 ms.
    for (p, window) in [(1e-3, 38.0), (1e-4, 120.0), (1e-5, 379.0)] {
        near(
            with_periodic_loss("cubic", &[("fast_convergence", "off")], p, 10_000, window * 4.0 / 3.4, 40),
            window,
            6.0,
        );
    }
}

/// Tan et al. 2006: dW/dt = alpha W^k per round trip from (1 - beta) W to W, 1/p packets apart.
fn compound_mean(p: f64) -> f64 {
    let (alpha, beta, k) = (0.125, 0.5, 0.75);
    let kept: f64 = 1.0 - beta;
    let w = (alpha * (2.0 - k) / ((1.0 - kept.powf(2.0 - k)) * p)).powf(1.0 / (2.0 - k));
    let rounds = w.powf(1.0 - k) * (1.0 - kept.powf(1.0 - k)) / (alpha * (1.0 - k));
    1.0 / p / rounds
}

#[test]
fn compound_follows_its_response_function() {
    for p in [1e-4, 1e-5, 1e-6] {
        compound_has_its_mean(p, 20);
    }
}

/// A cycle has ten million packets.
#[test]
#[ignore = "long: make torture"]
fn compound_follows_its_response_function_where_losses_are_rarest() {
    compound_has_its_mean(1e-7, 5);
}

/// Losses at equal distances repeat the same cycle.
fn compound_has_its_mean(p: f64, losses: u32) {
    let mean = compound_mean(p);
    near(with_periodic_loss("compound", &[], p, 100_000, 2.0 * mean, losses), mean, 3.0);
}

/// Mean window of a law under random losses, from the formulas alone: `grow(w_max, begin, t)` is the window t seconds
/// after a loss at `w_max` that left `begin`; the repair of a loss takes one round trip.
fn with_random_loss(grow: impl Fn(f64, f64, f64) -> f64, kept: f64, p: f64, rtt_s: f64, losses: u32) -> f64 {
    let mut random = Stream::new(5, "losses");
    let (mut begin, mut w_max) = (1.0 / p.sqrt(), 1.0 / p.sqrt());
    let (mut windows, mut rounds) = (0.0, 0.0);
    for loss in 0..losses {
        // The number of packets until the next loss is geometric.
        let mut packets = (1.0 - random.uniform()).ln() / (1.0 - p).ln() - begin;
        let (mut t, mut w) = (0.0, begin);
        while packets > 0.0 {
            packets -= w;
            t += rtt_s;
            w = grow(w_max, begin, t);
            if loss > losses / 10 {
                windows += w;
                rounds += 1.0;
            }
        }
        (w_max, begin) = (w, (w * kept).max(2.0));
        // Recovery takes one round trip.
        windows += begin;
        rounds += 1.0;
    }
    windows / rounds
}

/// Mean window over a path with random losses and without a queue; the mean of two runs, since one has only some 350 losses at 1e-4.
fn over_a_path(name: &str, settings: &[(&str, &str)], p: f64, rtt_ms: u64, seconds: f64) -> f64 {
    (1..=2).map(|seed| of_one_run(name, settings, p, rtt_ms, seconds, seed)).sum::<f64>() / 2.0
}

fn of_one_run(name: &str, settings: &[(&str, &str)], p: f64, rtt_ms: u64, seconds: f64, seed: u64) -> f64 {
    let path = Path { loss: p, seed, ..Path::new(20_000.0, rtt_ms, 1 << 40) };
    let cc = Selected::parse(name, settings).expect("the test names what there is");
    let outcome = run(&path, &[(&cc, 0.0)], seconds).remove(0);
    let cwnd = &outcome.cwnd[outcome.cwnd.len() / 10..];
    assert!(outcome.rtt_ms(seconds / 10.0, seconds) < rtt_ms as f64 * 1.05 && outcome.mbps(0.0, seconds) > 0.0);
    assert!(outcome.time_of(1_000_000) < seconds && outcome.lost_share() < 2.0 * p + 0.01);
    cwnd.iter().map(|w| f64::from(*w)).sum::<f64>() / cwnd.len() as f64
}

#[test]
#[ignore = "long: make torture"]
fn the_mean_window_under_random_losses_is_that_of_the_laws() {
    let rtt = 0.1;
    let cubic = |w_max: f64, begin: f64, t: f64| 0.4 * (t - ((w_max - begin) / 0.4).cbrt()).powi(3) + w_max;
    let compound = |_: f64, begin: f64, t: f64| (begin.powf(0.25) + 0.25 * 0.125 * t / rtt).powi(4);
    let reno = |_: f64, begin: f64, t: f64| begin + t / rtt;
    let plain = [("slow_start", "classic"), ("fast_convergence", "off"), ("tcp_friendliness", "off")];
    let near = |name: &str, settings: &[(&str, &str)], p: f64, mean: f64| {
        near(over_a_path(name, settings, p, 100, 1_500.0), mean, 8.0);
    };
    near("reno", &[], 1e-3, with_random_loss(reno, 0.5, 1e-3, rtt, 20_000));
    near("cubic", &plain, 1e-4, with_random_loss(cubic, 0.7, 1e-4, rtt, 20_000));
    // The window is above 41 packets, where Compound differs from Reno.
    near("compound", &[], 1e-4, with_random_loss(compound, 0.5, 1e-4, rtt, 20_000));
}
