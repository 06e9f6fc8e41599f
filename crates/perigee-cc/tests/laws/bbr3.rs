//! BBR version 3 over paths: what draft-ietf-ccwg-bbr promises, and what sets it apart from version 1.

use crate::path::{run, Path};
use crate::rates::{alone, geostationary, GOODPUT_MBPS};
use perigee_cc::Selected;

/// A probe lasts until three rounds bring nothing: up to 0.24 bandwidth-delay products queue in each of them.
#[test]
fn bbr3_fills_the_pipe_and_a_part_of_the_queue() {
    let outcome = alone("bbr3", &[], &geostationary(), 60.0);
    let (mbps, rtt_ms) = (outcome.mbps(20.0, 60.0), outcome.rtt_ms(20.0, 60.0));
    println!("{mbps:.1} Mbit/s, {rtt_ms:.0} ms");
    assert!(mbps > 0.85 * GOODPUT_MBPS, "{mbps} Mbit/s");
    assert!((600.0..750.0).contains(&rtt_ms), "{rtt_ms} ms");
}

/// Section 5.3.4: every 5 s, for at least 200 ms, half of the bandwidth-delay product.
#[test]
fn bbr3_halves_its_flight_every_five_seconds() {
    let outcome = alone("bbr3", &[], &Path::new(20.0, 40, 200_000), 60.0);
    let half = (20e6 * 0.04 / 8.0 / 1500.0 / 2.0_f64).round() as u32;
    let low = |cwnd: u32| cwnd.abs_diff(half) <= 2;
    let dips: Vec<_> =
        (100..outcome.cwnd.len()).filter(|i| low(outcome.cwnd[*i]) && !low(outcome.cwnd[i - 1])).collect();
    assert!((9..=10).contains(&dips.len()), "from 10 s to 60 s: {dips:?}");
    for pair in dips.windows(2) {
        assert!((51..=54).contains(&(pair[1] - pair[0])), "tenths of a second: {dips:?}");
    }
}

/// Losses of 1 % that it does not cause are no signal. Of its own it has few, where version 1 fills a shallow queue again and again.
#[test]
fn bbr3_bears_random_losses_and_avoids_its_own() {
    let lossy = Path { loss: 0.01, ..Path::new(20.0, 100, 250_000) };
    let mbps = alone("bbr3", &[], &lossy, 60.0).mbps(20.0, 60.0);
    assert!(mbps > 0.8 * 20.0, "{mbps}");
    for queue in [6_000, 15_000] {
        let [first, third] = ["bbr", "bbr3"].map(|name| alone(name, &[], &Path::new(20.0, 60, queue), 60.0));
        assert!(third.mbps(10.0, 60.0) > 0.8 * 20.0, "{queue} bytes: {}", third.mbps(10.0, 60.0));
        let lost = [&first, &third].map(super::path::Outcome::lost_share);
        assert!(lost[0] > 0.02 && lost[1] < 0.01, "{queue} bytes: {lost:?}");
    }
}

/// Over 600 ms STARTUP takes longer than the 5 s after which `PROBE_RTT` halves the flight.
#[test]
fn a_probe_of_the_round_trip_interrupts_a_geostationary_start() {
    let at = |interval| alone("bbr3", &[("probe_rtt_interval", interval)], &geostationary(), 30.0).time_of(50_000_000);
    let (draft, longer) = (at("5 s"), at("60 s"));
    println!("50 MB after {draft} s, and after {longer} s with a longer interval");
    assert!((0.6..=2.4).contains(&(draft - longer)), "50 MB after {draft} s, and {longer} s");
}

/// A wait of at most 3 s or 63 rounds, then 12 rounds of 1.25 x 0.99; downwards, two cycles forget the rate before.
#[test]
fn bbr3_follows_a_tenfold_rise_and_fall() {
    let step = |from: f64, to: f64| {
        let path = Path { rate_step: Some((20.0, (to * 1e6) as u64)), ..Path::new(from, 50, 150_000) };
        alone("bbr3", &[], &path, 60.0)
    };
    let risen = step(10.0, 100.0).mbps(24.0, 26.0);
    assert!(risen > 0.85 * 100.0, "{risen} Mbit/s from 4 s on");
    let fallen = step(100.0, 10.0);
    assert!((8.5..=10.0).contains(&fallen.mbps(27.0, 60.0)), "{} Mbit/s", fallen.mbps(27.0, 60.0));
    assert!(fallen.lost_share() < 0.02, "{}", fallen.lost_share());
}

/// With a queue of one bandwidth-delay product version 1 leaves CUBIC an eighth; version 3 shares.
#[test]
fn bbr3_leaves_cubic_its_share_of_a_shallow_queue() {
    let share = |name| {
        let ccs = ["cubic", name].map(|name| Selected::parse(name, &[]).expect("the test names what there is"));
        let outcomes = run(&Path::new(20.0, 40, 100_000), &[(&ccs[0], 0.0), (&ccs[1], 5.0)], 120.0);
        let [cubic, other] = [0, 1].map(|flow| outcomes[flow].mbps(30.0, 120.0));
        cubic / (cubic + other)
    };
    let (first, third) = (share("bbr"), share("bbr3"));
    assert!(first < 0.2, "{first} beside version 1");
    assert!((0.35..0.65).contains(&third), "{third} beside version 3");
}
