//! Adaptive coding and modulation compared with timelines calculated by hand; rain compared with its distribution.

use super::*;

fn s(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn acm(margin_db: f64, hysteresis_db: f64, delay: Time) -> Acm {
    Acm { symbols_per_s: 1e6, extended: false, margin_db, hysteresis_db, delay }
}

fn signal(points: &[(u64, f64)]) -> Steps<f64> {
    Steps::new(points.iter().map(|(at, db)| (s(*at), *db)), None).expect("the points ascend from zero")
}

/// Rate, kbit/s, and loss, per cent, at these instants, s.
fn followed(acm: &Acm, points: &[(u64, f64)], instants: &[u64]) -> Vec<(u64, u64)> {
    let (rate, loss) = acm.follow(&signal(points));
    let at = |at: &u64| (rate.at(s(*at)).as_bps() / 1000, (loss.at(s(*at)).as_f64() * 100.0) as u64);
    instants.iter().map(at).collect()
}

#[test]
fn the_modcod_follows_the_signal_after_the_delay_and_packets_are_lost_while_it_is_too_fast() {
    // 16APSK 3/4 needs 10.21 dB, QPSK 1/2 1 dB. A fade lasts from 10 to 20 s; the delay is 2 s.
    let fade = [(0, 10.5), (10, 1.5), (20, 10.5)];
    let given = followed(&acm(0.0, 0.0, s(2)), &fade, &[0, 9, 10, 11, 12, 19, 20, 21, 22]);
    let (fast, slow) = (2_966, 988);
    let expected =
        [(fast, 0), (fast, 0), (fast, 100), (fast, 100), (slow, 0), (slow, 0), (slow, 0), (slow, 0), (fast, 0)];
    assert_eq!(given, expected);
}

#[test]
fn modems_of_dvb_s2x_go_above_and_below_those_of_dvb_s2() {
    let extended = Acm { extended: true, ..acm(0.0, 0.0, s(1)) };
    // 256APSK 3/4 at 20 dB, where DVB-S2 ends with 32APSK 9/10; QPSK 2/9 at -2.5 dB, where DVB-S2 loses all.
    let fade = [(0, 20.0), (10, -2.5)];
    assert_eq!(followed(&extended, &fade, &[5, 12]), [(5_900, 0), (434, 0)]);
    assert_eq!(followed(&acm(0.0, 0.0, s(1)), &fade, &[5, 12]), [(4_453, 0), (490, 100)]);
}

#[test]
fn a_margin_keeps_small_fades_free_of_loss() {
    // With a margin of 1 dB, 16APSK 2/3 (8.97 dB) is chosen at 10.5 dB.
    let fade = [(0, 10.5), (10, 9.0)];
    assert_eq!(
        followed(&acm(1.0, 0.0, s(2)), &fade, &[9, 10, 11, 12]),
        [(2_637, 0), (2_637, 0), (2_637, 0), (2_228, 0)]
    );
    assert_eq!(
        followed(&acm(0.0, 0.0, s(2)), &fade, &[9, 10, 11, 12]),
        [(2_966, 0), (2_966, 100), (2_966, 100), (2_637, 0)]
    );
}

#[test]
fn a_signal_that_varies_within_the_hysteresis_changes_the_modcod_once() {
    // The signal oscillates around the 10.21 dB of 16APSK 3/4.
    let trembling: Vec<(u64, f64)> = (0..100).map(|i| (i, if i % 2 == 0 { 10.3 } else { 10.1 })).collect();
    let changes =
        |hysteresis_db: f64| acm(0.0, hysteresis_db, Time::ZERO).follow(&signal(&trembling)).0.iter().count() - 1;
    assert_eq!((changes(0.0), changes(0.3)), (99, 1));
}

#[test]
fn below_the_most_robust_modcod_everything_is_lost() {
    assert_eq!(followed(&acm(0.0, 0.0, s(1)), &[(0, 5.0), (10, -3.0)], &[5, 12]), [(1_587, 0), (490, 100)]);
}

#[test]
fn the_table_is_that_of_the_standard() {
    // A frame of 64800 coded bits has 64800 / (bits per symbol) symbols plus 90 of header; it carries 32208 bits at 1/2, 58192 at 9/10.
    let efficiency = |bits: f64, per_symbol: f64| (bits - 80.0) / (64_800.0 / per_symbol + 90.0);
    for (name, bits, per_symbol) in
        [("QPSK 1/2", 32_208.0, 2.0), ("8PSK 3/4", 48_408.0, 3.0), ("32APSK 9/10", 58_192.0, 5.0)]
    {
        let modcod = DVB_S2.iter().find(|modcod| modcod.name == name).expect("the table has the MODCOD");
        assert!((modcod.efficiency - efficiency(bits, per_symbol)).abs() < 1e-6, "{name}: {}", modcod.efficiency);
    }
    // Table 20a of DVB-S2X prints these.
    for (name, printed) in [
        ("QPSK 13/45", 0.567_805),
        ("16APSK 2/3-L", 2.635_236),
        ("32APSK 2/3-L", 3.291_954),
        ("64APSK 5/6", 4.936_639),
        ("128APSK 3/4", 5.163_248),
        ("256APSK 3/4", 5.900_855),
    ] {
        let modcod = DVB_S2X.iter().find(|modcod| modcod.name == name).expect("the table has the MODCOD");
        assert!((modcod.efficiency - printed).abs() < 1e-6, "{name}: {}", modcod.efficiency);
    }
    // Every MODCOD is below the Shannon limit.
    for Modcod { name, efficiency, threshold_db } in DVB_S2.iter().chain(&DVB_S2X) {
        let bound = libm::log2(1.0 + libm::pow(10.0, threshold_db / 10.0));
        assert!(*efficiency < bound, "{name}: {efficiency} of {bound}");
    }
}

#[test]
fn rain_has_its_share_of_the_time_and_its_distribution_and_depends_on_the_seed() {
    let rain = Ratio::new(0.1).expect("a share");
    let fade = RainFade { median_db: 0.5, sigma: 1.2, rain, memory: s(20) };
    let values = |seed| -> Vec<f64> {
        let steps = fade.attenuation_db(seed, s(200_000));
        (0..200_000).map(|second| steps.at(s(second))).collect()
    };
    let one = values(1);
    let share = |above: f64| one.iter().filter(|db| **db > above).count() as f64 / 200_000.0;
    assert!((share(0.0) - 0.1).abs() < 0.012, "{}", share(0.0));
    // Exceeded for 1 % of the time: 0.5 exp(1.2 x 2.3263) - 0.5 exp(1.2 x 1.2816) = 5.83 dB.
    assert!((share(5.83) - 0.01).abs() < 0.003, "{}", share(5.83));
    assert_eq!(one, values(1));
    assert_ne!(one, values(2));
}
