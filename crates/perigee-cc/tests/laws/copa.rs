//! Laws of Copa: sections 2 and 3 of the paper.

use crate::path::{run, Path};
use crate::rates::alone;
use perigee_cc::Selected;

/// Section 2.2: a flow's queue oscillates around 1 / delta packets, up to 2.5 / delta.
#[test]
fn a_few_packets_wait_whatever_the_path() {
    for (mbps, rtt_ms, packets) in [(20.0, 40, 2), (20.0, 100, 2), (5.0, 20, 2), (20.0, 40, 10)] {
        let path = Path::new(mbps, rtt_ms, 10_000_000);
        let outcome = alone("copa", &[("packets", &packets.to_string())], &path, 100.0);
        let transmission_ms = 12.0 / mbps;
        let waiting = (outcome.rtt_ms(40.0, 100.0) - rtt_ms as f64) / transmission_ms - 1.0;
        let most = 2.5 * f64::from(packets);
        assert!((1.0..most).contains(&waiting), "{waiting} packets at {mbps} Mbit/s, {rtt_ms} ms, {packets}");
        let share = outcome.mbps(40.0, 100.0) / (mbps * 1448.0 / 1500.0);
        assert!(share > 0.97, "{share} of {mbps} Mbit/s");
        assert_eq!(outcome.lost_packets, 0);
    }
}

/// Section 2.2, with trains and delayed acknowledgements: paths with a reason to think that somebody else fills the
/// queue. Two segments arrive at once, the path holds less than the least window, and to drain what slow start queued
/// takes longer than ten seconds.
#[test]
fn a_flow_alone_does_not_take_its_own_queue_for_that_of_others() {
    for (mbps, rtt_ms) in [(10.0, 30), (15.0, 10), (1.0, 10), (20.0, 600)] {
        let path = Path { offload: true, delayed_acks: true, ..Path::new(mbps, rtt_ms, 5_000_000) };
        let outcome = alone("copa", &[], &path, 120.0);
        let waiting = (outcome.rtt_ms(60.0, 120.0) - rtt_ms as f64) * mbps / 12.0 - 1.0;
        // The packets that the pacing's twofold rate sends in a millisecond leave at once.
        let train = 2.0 * mbps * 1024.0 / (1514.0 * 8.0);
        assert!(waiting < 2.5 * 2.0 + train / 2.0, "{waiting} packets at {mbps} Mbit/s, {rtt_ms} ms");
        let share = outcome.mbps(60.0, 120.0) / (mbps * 1448.0 / 1500.0);
        assert!(share > 0.97, "{share} of {mbps} Mbit/s, {rtt_ms} ms");
    }
}

#[test]
fn losses_that_it_does_not_cause_are_no_signal() {
    let lossy = Path { loss: 0.01, ..Path::new(20.0, 100, 250_000) };
    let mbps = alone("copa", &[], &lossy, 60.0).mbps(20.0, 60.0);
    assert!(mbps > 0.95 * 20.0 * 1448.0 / 1500.0, "{mbps}");
}

/// Section 2.2: who fills the queue gets a Copa that lets more wait; without that mode it is left what Vegas is.
#[test]
fn beside_reno_it_lets_more_wait() {
    let share = |settings: &[(&str, &str)]| {
        let ccs = [Selected::parse("reno", &[]), Selected::parse("copa", settings)].map(|cc| cc.expect("a choice"));
        let outcomes = run(&Path::new(20.0, 40, 100_000), &[(&ccs[0], 0.0), (&ccs[1], 20.0)], 200.0);
        let rates = [0, 1].map(|flow: usize| outcomes[flow].mbps(60.0, 200.0));
        rates[1] / (rates[0] + rates[1])
    };
    let (competitive, meek) = (share(&[]), share(&[("competitive", "off")]));
    assert!((0.3..0.7).contains(&competitive), "{competitive}");
    assert!(meek < 0.15, "{meek} without its competitive mode");
}

#[test]
fn two_share_a_path() {
    let copa = Selected::parse("copa", &[]).expect("a choice");
    let outcomes = run(&Path::new(20.0, 40, 400_000), &[(&copa, 0.0), (&copa, 20.0)], 200.0);
    let rates = [0, 1].map(|flow: usize| outcomes[flow].mbps(60.0, 200.0));
    assert!((0.4..0.6).contains(&(rates[0] / (rates[0] + rates[1]))), "{rates:?}");
}

/// The queue of slow start at 600 ms takes more than ten seconds to drain, and does not count as the path's own round trip meanwhile.
#[test]
fn a_geostationary_round_trip_is_remembered_until_the_queue_is_empty() {
    let rtt_ms = alone("copa", &[], &Path::new(144.0, 600, 10_000_000), 100.0).rtt_ms(60.0, 100.0);
    assert!(rtt_ms < 610.0, "{rtt_ms} ms");
}
