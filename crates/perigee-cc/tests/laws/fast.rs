//! Laws of FAST: section III of the paper of 2006.

use crate::path::{run, Path};
use crate::rates::alone;
use crate::rounds::Rounds;
use perigee_cc::Selected;

/// Equation (5): in equilibrium `alpha` packets of the flow wait, whatever the path; nothing is lost and the link is full.
#[test]
fn alpha_packets_wait_whatever_the_path() {
    for (mbps, rtt_ms, alpha) in [(20.0, 40, 20), (144.0, 600, 200), (50.0, 100, 100)] {
        let path = Path::new(mbps, rtt_ms, 40_000_000);
        let outcome = alone("fast", &[("alpha", &alpha.to_string())], &path, 120.0);
        let waiting = (outcome.rtt_ms(60.0, 120.0) - rtt_ms as f64) * mbps / 12.0;
        let share = waiting / f64::from(alpha);
        assert!((0.9..1.1).contains(&share), "{waiting} packets for {alpha} at {mbps} Mbit/s, {rtt_ms} ms");
        let full = outcome.mbps(60.0, 120.0) / (mbps * 1448.0 / 1500.0);
        assert!(full > 0.99, "{full} of {mbps} Mbit/s");
        assert_eq!(outcome.lost_packets, 0);
    }
}

/// Theorem 1: rates are proportional to `alpha` where all know the same base round trip, here but for the 3 ms that the first packets wait
/// for each other.
#[test]
fn who_keeps_twice_as_many_packets_gets_twice_the_rate() {
    let few = Selected::parse("fast", &[("alpha", "200")]).expect("a choice");
    let many = Selected::parse("fast", &[("alpha", "400")]).expect("a choice");
    let outcomes = run(&Path::new(40.0, 100, 4_000_000), &[(&few, 0.0), (&many, 0.0)], 200.0);
    let rates = [0, 1].map(|flow: usize| outcomes[flow].mbps(100.0, 200.0));
    assert!((1.9..2.1).contains(&(rates[1] / rates[0])), "{rates:?}");
}

/// Section VI: a flow that comes later takes the queue of the first for a part of the path, and gets more.
#[test]
fn who_comes_later_gets_more() {
    let fast = Selected::parse("fast", &[("alpha", "100")]).expect("a choice");
    let outcomes = run(&Path::new(40.0, 100, 4_000_000), &[(&fast, 0.0), (&fast, 50.0)], 200.0);
    let rates = [0, 1].map(|flow: usize| outcomes[flow].mbps(100.0, 200.0));
    assert!(rates[1] > 1.3 * rates[0], "{rates:?}");
}

#[test]
fn a_timeout_ends_the_step_of_its_round() {
    // Nothing waits, so the step goes up by half of `alpha`; the timeout comes in the middle of it.
    let mut path = Rounds::new("fast", &[], 100_000).avoiding(1_000);
    path.round();
    path.round();
    let begin = path.socket.snd_cwnd;
    path.socket.snd_nxt = path.socket.snd_una.wrapping_add(1448 * begin);
    path.ack(100_000);
    path.time_out();
    for _ in 0..begin {
        path.ack(100_000);
        assert!(path.socket.snd_cwnd <= begin / 2 + 1, "{} after a timeout at {begin}", path.socket.snd_cwnd);
    }
}
