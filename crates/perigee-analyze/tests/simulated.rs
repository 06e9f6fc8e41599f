//! Captures of simulated runs, compared with the tables of the simulator.

use std::sync::OnceLock;

use crate::common::{capture, of_bytes, simulated, simulated_behind};

const FLOW: &str = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"20 MB\"\n";

/// Links and settings: without loss, with losses of single packets, with a queue that overflows, and without options of TCP. Runs
/// end with a second; none of the flows ends so late in one that the last acknowledgement is cut off.
const RUNS: [(&str, &str); 6] = [
    ("rate = \"20 Mbit/s\"\ndelay = \"100 ms\"", ""),
    ("rate = \"20 Mbit/s\"\ndelay = \"100 ms\"\nloss = \"0.5 %\"", ""),
    ("rate = \"20 Mbit/s\"\ndelay = \"70 ms\"\nloss = \"0.5 %\"", "[hosts]\ntimestamps = false"),
    ("rate = \"20 Mbit/s\"\ndelay = \"95 ms\"\nloss = \"0.3 %\"", "[hosts]\nsack = false"),
    ("rate = \"20 Mbit/s\"\ndelay = \"300 ms\"\nqueue = \"100 kB\"", ""),
    ("rate = \"50 Mbit/s\"\ndelay = \"24 ms\"\nloss = \"5 %\"", ""),
];

/// The run of a setup of [`RUNS`], which the tests share.
fn run(setup: (&str, &str)) -> &'static perigee_sim::RunResult {
    static MADE: [OnceLock<perigee_sim::RunResult>; RUNS.len()] = [const { OnceLock::new() }; RUNS.len()];
    let number = RUNS.iter().position(|one| *one == setup).expect("a setup of RUNS");
    MADE[number].get_or_init(|| simulated(setup.0, &format!("{}\n{FLOW}", setup.1)))
}

fn near(found: f64, expected: f64, share: f64) -> bool {
    (found - expected).abs() <= share * expected.abs()
}

#[test]
fn at_the_sender_packets_are_counted_exactly_and_the_rest_is_within_a_percent() {
    for setup in RUNS {
        let result = run(setup);
        let found = of_bytes(capture(result, "a")).expect("a capture");
        let (sim, flows, seen) = (&result.tables.flows, &found.tables.flows, &found.captured.connections);
        assert_eq!(
            (&*seen.side[0], &*seen.rtt_by[0], &*seen.ended_by[0]),
            ("sender", "acknowledgements", "fin"),
            "{setup:?}"
        );
        assert_eq!(flows.sent_packets, sim.sent_packets, "{setup:?}");
        assert_eq!(flows.retransmitted_packets, sim.retransmitted_packets, "{setup:?}");
        assert_eq!((flows.received_bytes[0], flows.completed[0]), (20_000_000, true), "{setup:?}");
        let counted = [seen.reordered_packets[0], seen.lost_before_packets[0], seen.unseen_packets[0]];
        assert_eq!(counted, [Some(0); 3]);
        assert!(
            near(flows.goodput_mbps[0].expect("has one"), sim.goodput_mbps[0].expect("has one"), 0.001),
            "{setup:?}"
        );
        assert!(near(flows.handshake_ms[0].expect("has one"), sim.handshake_ms[0].expect("has one"), 0.001));
        for (found, expected) in [
            (flows.rtt_mean_ms[0], sim.rtt_mean_ms[0]),
            (flows.rtt_p50_ms[0], sim.rtt_p50_ms[0]),
            (flows.rtt_min_ms[0], sim.rtt_min_ms[0]),
            (flows.steady_rtt_mean_ms[0], sim.steady_rtt_mean_ms[0]),
            (flows.steady_goodput_mbps[0], sim.steady_goodput_mbps[0]),
        ] {
            let (found, expected) = (found.expect("measured"), expected.expect("measured"));
            assert!(near(found, expected, 0.01), "{setup:?}: {found} for {expected}");
        }
    }
}

#[test]
fn at_the_receiver_goodput_is_the_simulators_own_in_every_interval() {
    for setup in RUNS {
        let result = run(setup);
        let found = of_bytes(capture(result, "b")).expect("a capture");
        let (sim, flows) = (&result.tables.flows, &found.tables.flows);
        assert_eq!(&*found.captured.connections.side[0], "receiver");
        assert_eq!(flows.duration_s, sim.duration_s, "{setup:?}");
        assert_eq!(flows.handshake_ms, sim.handshake_ms, "{setup:?}");
        assert_eq!(found.tables.series.t_s, result.tables.series.t_s, "{setup:?}");
        assert_eq!(found.tables.series.goodput_mbps, result.tables.series.goodput_mbps, "{setup:?}");
        for (found, expected) in [
            (flows.goodput_p10_mbps[0], sim.goodput_p10_mbps[0]),
            (flows.goodput_p90_mbps[0], sim.goodput_p90_mbps[0]),
            (flows.steady_goodput_mbps[0], sim.steady_goodput_mbps[0]),
        ] {
            assert_eq!(found, expected, "{setup:?}");
        }
    }
}

#[test]
fn at_the_receiver_every_loss_is_a_gap_and_what_fills_it_was_sent_again() {
    for setup in RUNS {
        let result = run(setup);
        let found = of_bytes(capture(result, "b")).expect("a capture");
        let (flows, seen) = (&found.tables.flows, &found.captured.connections);
        let again = flows.retransmitted_packets[0].expect("counted");
        let truth = result.tables.flows.retransmitted_packets[0].expect("counted");
        // Lost retransmissions leave no trace here, and neither do those of the last data.
        let is_many = setup.0.contains("5 %\"") && !setup.0.contains("0.5 %");
        assert!(again <= truth && (is_many || near(again as f64, truth as f64, 0.02)), "{setup:?}: {again} of {truth}");
        // New data and a sending again within one tick of the sender's clock, and the new data first: without numbers of
        // packets, which the simulator does not give, it looks like reordering. Once among 700 losses here.
        let reordered = seen.reordered_packets[0].expect("its data are there");
        assert!(reordered <= u64::from(is_many), "{setup:?}: {reordered} reordered");
        let lost: u64 = found.captured.losses.packets.iter().map(|packets| u64::from(*packets)).sum();
        assert_eq!(Some(lost), seen.lost_before_packets[0], "{setup:?}");
        assert_eq!(Some(found.captured.losses.run.len() as u64), seen.loss_events[0], "{setup:?}");
    }
}

#[test]
fn at_the_receiver_round_trips_come_from_the_echoes_of_its_clock() {
    // Only where acknowledgements are hardly delayed: the sender's samples include that delay, those of the capture do not.
    for setup in [RUNS[1], RUNS[4]] {
        let result = run(setup);
        let found = of_bytes(capture(result, "b")).expect("a capture");
        assert_eq!(&*found.captured.connections.rtt_by[0], "timestamps");
        let (found, sim) = (&found.tables.flows, &result.tables.flows);
        let (mean, truth) = (found.rtt_mean_ms[0].expect("measured"), sim.rtt_mean_ms[0].expect("measured"));
        assert!(near(mean, truth, 0.02), "{setup:?}: {mean} for {truth}");
    }
    let found = of_bytes(capture(run(RUNS[2]), "b")).expect("a capture");
    assert_eq!(&*found.captured.connections.rtt_by[0], "handshake");
    assert_eq!(found.tables.flows.rtt_mean_ms, found.tables.flows.handshake_ms);
}

#[test]
fn a_router_that_shows_every_packet_twice_counts_it_once() {
    let result = run(RUNS[1]);
    let found = of_bytes(capture(result, "r")).expect("a capture");
    assert_eq!(found.tables.flows.sent_packets, result.tables.flows.sent_packets);
    assert_eq!(found.tables.flows.retransmitted_packets, result.tables.flows.retransmitted_packets);
}

#[test]
fn between_the_ends_a_round_trip_is_the_sum_of_both_halves() {
    let link = "rate = \"20 Mbit/s\"\ndelay = \"60 ms\"\nloss = \"0.5 %\"";
    let result = simulated_behind("40 ms", link, FLOW);
    let found = of_bytes(capture(&result, "r")).expect("a capture");
    let seen = &found.captured.connections;
    assert_eq!((&*seen.side[0], &*seen.rtt_by[0]), ("between", "both"));
    let parts = (seen.handshake_from_ms[0].expect("one part"), seen.handshake_to_ms[0].expect("the other"));
    assert!(near(parts.0, 80.0, 0.01) && near(parts.1, 120.0, 0.01), "{parts:?}");
    let (flows, sim) = (&found.tables.flows, &result.tables.flows);
    assert_eq!(
        (flows.sent_packets[0], flows.retransmitted_packets[0]),
        (sim.sent_packets[0], sim.retransmitted_packets[0])
    );
    assert!(near(flows.goodput_mbps[0].expect("has one"), sim.goodput_mbps[0].expect("has one"), 0.01));
    for (found, expected) in [(flows.rtt_min_ms[0], sim.rtt_min_ms[0]), (flows.rtt_mean_ms[0], sim.rtt_mean_ms[0])] {
        let (found, expected) = (found.expect("measured"), expected.expect("measured"));
        assert!(near(found, expected, 0.02), "{found} for {expected}");
    }
}
