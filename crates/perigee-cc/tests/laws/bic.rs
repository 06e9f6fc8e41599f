//! Laws of BIC: the search for the maximum, against the paper's rules in floats.

use crate::rounds::Rounds;

const S_MAX: f64 = 16.0;
/// The search covers a quarter of the distance per round trip; next to the maximum a packet takes 20 quarters.
const SEARCH: f64 = 4.0;
const SMOOTH: f64 = 20.0 / 4.0;
/// Packets per ACK as Linux counts them when each ACK covers one packet: the average starts at two and stops at 31/16, since it is
/// kept in whole sixteenths.
const PACKETS_PER_ACK: f64 = 31.0 / 16.0;
const BETA: f64 = 819.0 / 1024.0;

/// Packets per round trip at this window.
fn increment(w: f64, w_max: f64) -> f64 {
    let distance = (w - w_max).abs();
    PACKETS_PER_ACK
        * if w < w_max {
            match distance / SEARCH {
                step if step < 2.0 => 1.0 / SMOOTH,
                step => step.min(S_MAX),
            }
        } else {
            match distance {
                near if near < SEARCH => 1.0 / SMOOTH,
                far => (far / (SEARCH - 1.0)).min(S_MAX),
            }
        }
}

/// Windows after each round trip of the rule, from `w`.
fn rule(mut w: f64, w_max: f64, rounds: usize) -> Vec<f64> {
    let round = |w: &mut f64| {
        for _ in 0..w.round() as u32 {
            *w += increment(*w, w_max) / *w;
        }
        *w
    };
    (0..rounds).map(|_| round(&mut w)).collect()
}

#[track_caller]
fn follows(path: &mut Rounds, w_max: f64, rounds: usize, most: f64) {
    let expected = rule(f64::from(path.socket.snd_cwnd), w_max, rounds);
    for (round, expected) in expected.into_iter().enumerate() {
        let cwnd = f64::from(path.round());
        assert!((cwnd - expected).abs() <= most, "round {round}: {cwnd}, the rule gives {expected}");
    }
}

#[test]
fn after_a_loss_it_searches_for_the_maximum_and_then_probes_beyond_it() {
    for w_max in [1_000, 3_000, 10_000u32] {
        let mut path = Rounds::new("bic", &[], 100_000).avoiding(w_max);
        path.lose();
        // During the search: at most S_max per round trip, then a quarter of the distance. The distance and the ACKs per packet
        // are whole numbers.
        let linear = f64::from(w_max) * (1.0 - BETA) / S_MAX / PACKETS_PER_ACK;
        follows(&mut path, f64::from(w_max), linear as usize + 10, 4.0 + f64::from(w_max) * 0.002);
        let left = w_max - path.socket.snd_cwnd;
        assert!((1..20).contains(&left), "{left} packets below the maximum");
        path.socket.snd_cwnd = w_max;
        // Five round trips per packet at first, then faster and faster.
        let slow = (3.0 * SMOOTH / PACKETS_PER_ACK) as u32;
        assert!((w_max + 2..=w_max + 4).contains(&path.rounds(slow)), "{}", path.socket.snd_cwnd);
        path.socket.snd_cwnd = w_max + 8;
        follows(&mut path, f64::from(w_max), 12, 12.0 + f64::from(w_max) * 0.002);
    }
}

#[test]
fn while_the_maximum_is_unknown_it_grows_by_a_twentieth_for_each_packet_an_ack_covers() {
    // Whole counts: 20 x 16 / 31 = 10 ACKs per packet.
    let mut path = Rounds::new("bic", &[], 100_000).avoiding(1_000);
    let grown = f64::from(path.rounds(5)) / 1_000.0;
    assert!((grown / 1.1f64.powi(5) - 1.0).abs() < 0.02, "{grown}");
}

#[test]
fn a_loss_keeps_four_fifths_and_at_14_packets_half() {
    for w in [15, 100, 1_000, 8_000_000u32] {
        let kept = f64::from(Rounds::new("bic", &[], 100_000).avoiding(w).lose());
        assert!((0.0..1.0).contains(&(f64::from(w) * BETA - kept)), "{kept} of {w}");
    }
    assert_eq!([14, 5, 3].map(|w| Rounds::new("bic", &[], 100_000).avoiding(w).lose()), [7, 2, 2]);
    assert_eq!(Rounds::new("bic", &[("low_window", "100 packets")], 100_000).avoiding(100).lose(), 50);
}

#[test]
fn up_to_the_low_window_it_adds_one_packet_per_round_trip() {
    assert_eq!(Rounds::new("bic", &[], 100_000).avoiding(4).rounds(5), 9);
}

#[test]
fn fast_convergence_lowers_a_shrinking_maximum_further() {
    // After losses at 1000 and 799 packets the maximum is 799, or 799 (1 + beta) / 2 = 719 with fast convergence.
    for (setting, w_max) in [("on", 799.0 * (1.0 + BETA) / 2.0), ("off", 799.0)] {
        let mut path = Rounds::new("bic", &[("fast_convergence", setting)], 100_000).avoiding(1_000);
        path.lose();
        path.lose();
        let begin = f64::from(path.socket.snd_cwnd);
        follows(&mut path, w_max, ((w_max - begin) / 31.0) as usize + 8, 6.0);
    }
}

#[test]
fn a_timeout_forgets_the_maximum_and_an_undo_gives_the_window_back() {
    let mut path = Rounds::new("bic", &[], 100_000).avoiding(1_000);
    path.time_out();
    assert_eq!((path.socket.snd_cwnd, path.socket.snd_ssthresh), (1, 799));
    path.rounds(9);
    // The window is at the threshold and grows as without a maximum.
    let w = path.round();
    assert!(path.round() > w + w / 12, "{w}");
    let mut path = Rounds::new("bic", &[], 100_000).avoiding(1_000);
    path.lose();
    assert_eq!(path.socket.undo_cwnd(), 1_000);
}

#[test]
fn slow_start_ends_at_the_initial_threshold_where_one_is_set() {
    assert_eq!(Rounds::new("bic", &[], 100_000).socket.snd_ssthresh, perigee_cc::INFINITE_SSTHRESH);
    let mut path = Rounds::new("bic", &[("initial_ssthresh", "100 packets")], 100_000);
    assert_eq!([path.round(), path.round(), path.round()], [20, 40, 80]);
    // Twenty ACKs reach the threshold; the other sixty add S_max per round trip, in whole ACKs per packet: 100 / 16 x 16 / 31 = 3.
    assert!((118..=121).contains(&path.round()), "{}", path.socket.snd_cwnd);
}
