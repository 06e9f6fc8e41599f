//! Laws of LEDBAT++: alone it fills the path and the queue up to its target; to all others it yields.

use crate::near;
use crate::path::{run, Path};
use crate::rates::alone;
use perigee_cc::Selected;

/// A queue of 200 ms.
fn path() -> Path {
    Path::new(20.0, 40, 500_000)
}

/// The share of the second of two flows, from 60 s on; it begins after 20 s.
fn share_of_second(names: [&str; 2]) -> f64 {
    let ccs = names.map(|name| Selected::parse(name, &[]).expect("the test names what there is"));
    let outcomes = run(&path(), &[(&ccs[0], 0.0), (&ccs[1], 20.0)], 200.0);
    let rates = [0, 1].map(|flow: usize| outcomes[flow].mbps(60.0, 200.0));
    rates[1] / (rates[0] + rates[1])
}

#[test]
fn it_begins_with_two_packets() {
    let outcome = alone("ledbat_pp", &[], &Path::new(20.0, 600, 500_000), 2.0);
    assert_eq!(outcome.cwnd.iter().find(|window| **window > 0), Some(&2));
}

#[test]
fn alone_it_fills_the_path_and_the_queue_up_to_its_target() {
    for target_ms in [20, 60] {
        let outcome = alone("ledbat_pp", &[("target", &format!("{target_ms} ms"))], &path(), 200.0);
        assert!(outcome.mbps(60.0, 200.0) > 0.9 * 20.0, "{}", outcome.mbps(60.0, 200.0));
        // Between slowdowns the window is the path's, with the transmission of a packet, and the target's together.
        let window = f64::from(*outcome.cwnd[600..].iter().max().expect("a run of 200 s"));
        near(window * 12_000.0 / 20e6 * 1e3, 40.6 + f64::from(target_ms), 3.0);
        assert_eq!(outcome.lost_packets, 0);
    }
}

#[test]
fn it_yields_to_reno_and_to_cubic_whoever_comes_first() {
    for name in ["reno", "cubic"] {
        let (later, earlier) = (share_of_second([name, "ledbat_pp"]), 1.0 - share_of_second(["ledbat_pp", name]));
        assert!(later < 0.03 && earlier < 0.03, "beside {name}: {later} as the second, {earlier} as the first");
    }
}

#[test]
fn slowdowns_show_a_newcomer_the_base_delay() {
    let share = share_of_second(["ledbat_pp", "ledbat_pp"]);
    assert!((0.4..0.6).contains(&share), "{share}");
}

#[test]
fn a_slowdown_comes_after_nine_lengths_of_the_last() {
    let outcome = alone("ledbat_pp", &[], &path(), 100.0);
    let low = |i: usize| outcome.cwnd[i] <= 4;
    let begins: Vec<_> = (1..outcome.cwnd.len()).filter(|i| low(*i) && !low(i - 1)).collect();
    assert!(begins.len() > 5, "{begins:?}");
    for pair in begins[1..].windows(2) {
        // It is over when the window is back at what it was.
        let most = outcome.cwnd[pair[0] - 1];
        let back = (pair[0]..outcome.cwnd.len()).find(|i| outcome.cwnd[*i] + 1 >= most);
        let length = back.expect("it comes back") - pair[0];
        near((pair[1] - pair[0]) as f64, 10.0 * length as f64, 15.0);
    }
}
