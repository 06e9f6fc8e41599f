//! The rate algorithms over a bottleneck, and properties of all algorithms there.

use crate::near;
use crate::path::{run, Outcome, Path};
use perigee_cc::{algorithms, Selected};

pub(crate) fn alone(name: &str, settings: &[(&str, &str)], path: &Path, seconds: f64) -> Outcome {
    let cc = Selected::parse(name, settings).expect("the test names what there is");
    run(path, &[(&cc, 0.0)], seconds).remove(0)
}

/// A geostationary path: 144 Mbit/s, 600 ms; payload is 1448 of 1500 bytes.
pub(crate) fn geostationary() -> Path {
    Path::new(144.0, 600, 18_000_000)
}
pub(crate) const GOODPUT_MBPS: f64 = 144.0 * 1448.0 / 1500.0;

#[test]
fn every_algorithm_fills_a_clean_path() {
    for algorithm in algorithms() {
        let outcome = alone(algorithm.name(), &[], &Path::new(20.0, 40, 100_000), 60.0);
        let share = outcome.mbps(20.0, 60.0) / (20.0 * 1448.0 / 1500.0);
        assert!(share > 0.85 && share < 1.001, "{} gets {share}", algorithm.name());
    }
}

// ---- BBR ----

#[test]
fn bbr_fills_the_pipe_without_filling_the_queue() {
    let outcome = alone("bbr", &[], &geostationary(), 60.0);
    assert!(outcome.mbps(20.0, 60.0) > 0.8 * GOODPUT_MBPS, "{}", outcome.mbps(20.0, 60.0));
    assert!(outcome.rtt_ms(20.0, 60.0) < 660.0, "{}", outcome.rtt_ms(20.0, 60.0));
}

#[test]
fn bbr_holds_four_packets_for_200_ms_every_ten_seconds() {
    let outcome = alone("bbr", &[], &Path::new(20.0, 40, 200_000), 60.0);
    let floors: Vec<_> =
        (1..outcome.cwnd.len()).filter(|i| outcome.cwnd[*i] == 4 && outcome.cwnd[i - 1] != 4).collect();
    assert!((4..=6).contains(&floors.len()), "in 60 s: {floors:?}");
    for pair in floors.windows(2) {
        assert!((98..=106).contains(&(pair[1] - pair[0])), "tenths of a second: {floors:?}");
    }
}

#[test]
fn random_loss_slows_reno_and_not_bbr() {
    let lossy = Path { loss: 0.01, ..Path::new(20.0, 100, 250_000) };
    assert!(alone("bbr", &[], &lossy, 60.0).mbps(20.0, 60.0) > 15.0);
    assert!(alone("reno", &[], &lossy, 60.0).mbps(20.0, 60.0) < 4.0);
}

#[test]
fn bbr_over_a_lossy_geostationary_path_has_what_probe_rtt_pacing_and_losses_leave() {
    bbr_has_what_is_left_of_the_rate(&[0.01]);
}

#[test]
#[ignore = "long: make torture"]
fn bbr_over_geostationary_paths_has_what_probe_rtt_pacing_and_losses_leave() {
    bbr_has_what_is_left_of_the_rate(&[0.0, 0.01, 0.02]);
}

fn bbr_has_what_is_left_of_the_rate(losses: &[f64]) {
    let clean = Path::new(20.0, 600, 1_500_000);
    let goodput = |path: &Path, interval: &str| {
        let settings = [("probe_rtt_interval", interval)];
        let of_one = |seed| alone("bbr", &settings, &Path { seed, ..path.clone() }, 300.0).mbps(40.0, 300.0);
        (1..=3).map(of_one).sum::<f64>() / 3.0
    };
    println!("| lost | no PROBE_RTT, lost in front | no PROBE_RTT | BBR | share of the payload's rate |\n|---|---:|---:|---:|---:|");
    for &loss in losses {
        let path = Path { loss, ..clean.clone() };
        let in_front = goodput(&Path { loses_in_front: true, ..path.clone() }, "600 s");
        let [steady, probing] = ["600 s", "10 s"].map(|interval| goodput(&path, interval));
        let most = 20.0 * 1448.0 / 1500.0;
        let percent = 100.0 * probing / most;
        println!("| {:.0} % | {in_front:.2} | {steady:.2} | {probing:.2} | {percent:.1} % |", 100.0 * loss);
        // The rate is paced 1 % below the model; lost packets take the rate twice.
        near(in_front, most * (1.0 - loss) * 0.99, 0.7);
        // Bandwidth samples lack the packets that are lost behind the bottleneck. The maximum is of the samples with the fewest.
        assert!(
            (in_front * (1.0 - loss) * 0.999..in_front * 1.001).contains(&steady),
            "{steady} behind, {in_front} in front"
        );
        // Four packets are in flight for a round trip in which the path drains and one that is measured, 10 s apart.
        near(probing, steady * 10.0 / (10.0 + 2.0 * 0.6), 1.0);
    }
}

#[test]
fn bbr_settles_at_a_policers_rate() {
    // With hardly any queue, packets above the rate are lost.
    let policed = Path::new(20.0, 60, 6_000);
    let outcome = alone("bbr", &[], &policed, 60.0);
    assert!(outcome.mbps(10.0, 60.0) > 0.8 * 20.0, "{}", outcome.mbps(10.0, 60.0));
    assert!(outcome.lost_share() < 0.15, "{}", outcome.lost_share());
}

// ---- Vivace ----

/// Delays like a geostationary terminal's: sd 17 ms, redrawn every `redraw_us`.
fn noisy(redraw_us: u64, seed: u64) -> Path {
    Path { jitter: Some((17_000.0, redraw_us)), seed, ..geostationary() }
}

#[test]
fn vivace_ramps_up_in_seconds_over_a_geostationary_path() {
    let outcome = alone("vivace", &[], &geostationary(), 30.0);
    let times = [1_000_000, 5_000_000].map(|bytes| outcome.time_of(bytes));
    assert!(times[0] < 5.0 && times[1] < 8.0, "1 MB and 5 MB took {times:?} s");
}

#[test]
fn vivace_keeps_the_queue_short_once_it_has_found_the_rate() {
    let outcome = alone("vivace", &[], &geostationary(), 120.0);
    assert!(outcome.mbps(40.0, 120.0) > 0.75 * GOODPUT_MBPS, "{}", outcome.mbps(40.0, 120.0));
    // The queue could hold a second of packets at this rate.
    assert!(outcome.rtt_ms(40.0, 120.0) < 750.0, "{}", outcome.rtt_ms(40.0, 120.0));
}

#[test]
fn delay_noise_does_not_make_vivace_collapse() {
    for redraw_us in [1_000, 100_000, 400_000] {
        let outcome = alone("vivace", &[], &noisy(redraw_us, 1), 120.0);
        let (mbps, rtt) = (outcome.mbps(40.0, 120.0), outcome.rtt_ms(40.0, 120.0));
        assert!(mbps > 0.7 * GOODPUT_MBPS, "redraw {redraw_us} us: {mbps} Mbit/s");
        assert!(rtt < 950.0, "redraw {redraw_us} us: {rtt} ms");
    }
}

#[test]
fn vivace_tolerates_one_percent_of_random_loss() {
    let lossy = Path { loss: 0.01, ..Path::new(20.0, 100, 250_000) };
    let mbps = alone("vivace", &[], &lossy, 60.0).mbps(20.0, 60.0);
    assert!(mbps > 0.75 * 20.0, "{mbps}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let path = noisy(100_000, 7);
    for name in ["bbr", "vivace"] {
        let [a, b] = [0, 1].map(|_| alone(name, &[], &path, 20.0));
        assert_eq!(a.delivered, b.delivered, "{name}");
    }
}
