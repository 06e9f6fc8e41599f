//! Laws of highspeed, from the formulas of RFC 3649.

use crate::rounds::Rounds;

/// RFC 3649, section 7: b falls from 0.5 at 38 packets to 0.1 at 83000, linear in log w.
pub(crate) fn b(w: f64) -> f64 {
    (0.1 - 0.5) * (w.ln() - 38f64.ln()) / (83_000f64.ln() - 38f64.ln()) + 0.5
}

/// RFC 3649, section 7: a = w^2 p 2 b / (2 - b) with p = 0.078 / w^1.2; the RFC's program for the table has 1 / 12.8 for 0.078.
pub(crate) fn a(w: f64) -> f64 {
    w * w * (1.0 / 12.8 / w.powf(1.2)) * 2.0 * b(w) / (2.0 - b(w))
}

/// RFC 3649, appendix B: one row for each whole value of a.
pub(crate) fn table() -> Vec<u32> {
    let (mut rows, mut last) = (vec![38], 1.0);
    for w in 38..90_000 {
        let next = a(f64::from(w));
        if next > last + 1.0 {
            rows.push(w);
            last = next;
        }
    }
    rows
}

#[test]
fn the_window_grows_by_a_and_shrinks_by_b_of_the_table() {
    let rows = table();
    assert_eq!((rows.len(), rows[1], rows[9], rows[71]), (72, 118, 1529, 89_053));
    for (row, w) in rows.into_iter().enumerate() {
        let mut path = Rounds::new("highspeed", &[], 100_000).avoiding(w);
        path.ack(100_000);
        let given_up = f64::from(w - path.lose()) / f64::from(w);
        // b is in parts of 256, and windows are whole packets.
        let b = b(f64::from(w));
        assert!((b - 1.0 / 256.0 - 1.0 / f64::from(w)..=b).contains(&given_up), "{given_up} of {w}, b is {b}");
        let grown = Rounds::new("highspeed", &[], 100_000).avoiding(w - 2).round() - (w - 2);
        let expected = row as u32 + 1;
        assert!(grown.abs_diff(expected) <= 1, "{w} grew by {grown}, a is {expected}");
    }
}

#[test]
fn between_the_rows_the_window_grows_by_the_next_whole_a() {
    for w in [150, 1_000, 3_500, 20_000, 60_000u32] {
        let grown = f64::from(Rounds::new("highspeed", &[], 100_000).avoiding(w).rounds(10) - w) / 10.0;
        let a = a(f64::from(w));
        assert!(grown > a - 0.1 && grown < a + 1.2, "{w} grew by {grown} per round trip, a is {a}");
    }
}

#[test]
fn up_to_38_packets_highspeed_is_reno() {
    for w in [4, 20, 37] {
        let [mut here, mut reno] = ["highspeed", "reno"].map(|name| Rounds::new(name, &[], 100_000).avoiding(w));
        let grown = [&mut here, &mut reno].map(|path| path.rounds((39 - w).min(10)));
        assert!(grown[0].abs_diff(grown[1]) <= 1, "{grown:?}");
        assert_eq!(Rounds::new("highspeed", &[], 100_000).avoiding(w).lose(), w / 2 + w % 2);
    }
}

#[test]
fn slow_start_doubles_to_the_threshold_and_a_loss_in_it_halves() {
    let mut path = Rounds::new("highspeed", &[], 600_000);
    path.socket.snd_ssthresh = 1_000;
    // In the last round 280 ACKs are left in avoidance, with a = 8.
    assert_eq!((0..7).map(|_| path.round()).collect::<Vec<_>>(), [20, 40, 80, 160, 320, 640, 1_002]);
    let mut path = Rounds::new("highspeed", &[], 600_000);
    path.rounds(6);
    assert_eq!(path.lose(), 320);
}

#[test]
fn a_spurious_reduction_is_undone_and_a_small_window_keeps_two_packets() {
    let mut path = Rounds::new("highspeed", &[], 100_000).avoiding(5_000);
    path.lose();
    assert_eq!(path.socket.undo_cwnd(), 5_000);
    assert_eq!(Rounds::new("highspeed", &[], 100_000).avoiding(2).lose(), 2);
}
