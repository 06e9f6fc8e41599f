//! Captures on paths with delays below the reaction times of hosts: side, round trips, and time sequence.

use std::ops::ControlFlow;

use crate::common::{capture, of_bytes, of_files, simulated, simulated_behind, Folder};
use perigee_analyze::{analyze, Analysis, Options, Part, Source};
use perigee_sim::RunResult;

/// A download over a path of 0.1 ms with a queue of some 16 ms.
fn queued(size: &str, hosts: &str) -> RunResult {
    let flow = format!("{hosts}\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"{size}\"\n");
    simulated_behind("20 us", "rate = \"20 Mbit/s\"\ndelay = \"30 us\"\nqueue = \"40 kB\"", &flow)
}

fn side(found: &Analysis) -> (&str, &str) {
    let seen = &found.captured.connections;
    (&seen.side[0], &seen.rtt_by[0])
}

#[test]
fn a_queue_on_a_short_path_tells_the_sides_apart() {
    let result = queued("4 MB", "");
    let truth = result.tables.flows.rtt_mean_ms[0].expect("round trips");
    assert!(truth > 5.0, "the queue is most of it: {truth} ms");
    let sender = of_bytes(capture(&result, "a")).expect("a capture");
    assert_eq!(side(&sender), ("sender", "acknowledgements"));
    let mean = sender.tables.flows.rtt_mean_ms[0].expect("round trips");
    assert!((mean / truth - 1.0).abs() < 0.01, "{mean} ms for {truth} ms");
    let receiver = of_bytes(capture(&result, "b")).expect("a capture");
    assert_eq!(side(&receiver), ("receiver", "timestamps"));
    let mean = receiver.tables.flows.rtt_mean_ms[0].expect("round trips");
    assert!((mean - truth).abs() < 2.0, "{mean} ms for {truth} ms, by a clock of milliseconds");
    let goodput = [&sender, &receiver].map(|found| found.tables.flows.goodput_mbps[0].expect("a goodput"));
    assert!((goodput[0] / goodput[1] - 1.0).abs() < 0.02, "{goodput:?}");
}

#[test]
fn a_short_path_without_a_queue_leaves_the_side_unknown_and_gives_the_handshake_only() {
    for (size, hosts) in [("20 kB", ""), ("4 MB", "[hosts]\ntimestamps = false")] {
        let result = queued(size, hosts);
        for node in ["a", "b"] {
            let found = of_bytes(capture(&result, node)).expect("a capture");
            assert_eq!(side(&found), ("unknown", "handshake"), "{size} at {node}");
            let flows = &found.tables.flows;
            assert_eq!(flows.rtt_mean_ms[0], flows.handshake_ms[0]);
            assert_eq!(flows.rtt_p95_ms[0], None);
            assert_eq!(flows.received_bytes, result.tables.flows.received_bytes);
        }
    }
}

#[test]
fn captures_of_both_ends_settle_the_sides_of_each_other() {
    for (size, hosts) in [("20 kB", ""), ("4 MB", "[hosts]\ntimestamps = false"), ("4 MB", "")] {
        let result = queued(size, hosts);
        let folder = Folder::new();
        for order in [["a", "b"], ["b", "a"]] {
            let files = order.map(|node| folder.file(&format!("{node}.pcapng"), capture(&result, node)));
            let found = of_files(&[&files[0], &files[1]]).expect("two captures");
            let sides: Vec<_> = found.iter().map(|one| side(one).0).collect();
            let expected = order.map(|node| if node == "a" { "sender" } else { "receiver" });
            assert_eq!(sides, expected, "{size} {hosts}");
        }
    }
}

#[test]
fn percentiles_lie_within_the_extremes_and_bins_fit_a_short_path() {
    let result = queued("4 MB", "");
    let found = of_bytes(capture(&result, "a")).expect("a capture");
    let flows = &found.tables.flows;
    let at = |column: &[Option<f64>]| column[0].expect("round trips");
    let (least, median) = (at(&flows.rtt_min_ms), at(&flows.rtt_p50_ms));
    let (high, highest) = (at(&flows.rtt_p95_ms), at(&flows.rtt_p99_ms));
    assert!(least <= median && median <= high && high <= highest, "{least} {median} {high} {highest}");
    assert!(least < 1.0, "one bin of 1 ms would hold it: {least} ms");
    let edges = &found.tables.rtt.rtt_ms;
    assert!(edges.iter().all(|edge| (edge * 100.0 - (edge * 100.0).round()).abs() < 1e-6), "bins of 10 us");
    assert!(edges.iter().any(|edge| edge.fract() > 0.005));
    // Beyond 20 ms, bins are 1 ms wide as those of a study.
    let flow = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 MB\"\n";
    let long = simulated("rate = \"20 Mbit/s\"\ndelay = \"40 ms\"", flow);
    let found = of_bytes(capture(&long, "a")).expect("a capture");
    assert!(found.tables.rtt.rtt_ms.iter().all(|edge| edge.fract() == 0.0));
}

#[test]
fn the_time_sequence_of_the_largest_flow_has_every_segment_and_acknowledgement() {
    let flows = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"2 MB\"\n\
                 [[flows]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\nsize = \"50 kB\"\n";
    let result = simulated("rate = \"20 Mbit/s\"\ndelay = \"40 ms\"\nloss = \"1 %\"", flows);
    let traced = |sequences: usize| {
        let source = Source { name: "a".into(), parts: vec![Part::Bytes(capture(&result, "a").into())] };
        let options = Options { sequences, ..Options::default() };
        let found = analyze(&[source], "test", &options, &mut |_| ControlFlow::Continue(()));
        found.expect("a capture").remove(0)
    };
    assert!(traced(0).captured.segments.run.is_empty());
    let found = traced(1);
    let (segments, flows) = (&found.captured.segments, &found.tables.flows);
    assert!(segments.flow.iter().all(|flow| *flow == flows.flow[0]), "only the largest");
    let counted = |event: &str| segments.event.iter().filter(|known| &***known == event).count() as u64;
    let again = flows.retransmitted_packets[0].expect("counted");
    assert!(again > 5, "or else this test proves nothing");
    assert_eq!(counted("retransmitted"), again);
    assert_eq!(counted("sent") + again, flows.sent_packets[0].expect("counted"));
    assert!(counted("sack") > again && counted("ack") > 100);
    let rows = || 0..segments.run.len();
    let of_data = rows().filter(|row| segments.segment_bytes[*row] > 0);
    let end = of_data.map(|row| segments.sequence[row] + segments.segment_bytes[row]).max();
    assert_eq!(end, Some(2_000_000));
    assert!(rows().all(|row| segments.receive_window_bytes[row].is_some() == (&*segments.event[row] == "ack")));
    assert!(segments.t_s.is_sorted());
    let both = traced(2).captured.segments;
    let other = both.flow.iter().filter(|flow| **flow != flows.flow[0]).count();
    assert!(other > 30, "the second flow too: {other}");
    assert_eq!(both.run.len(), segments.run.len() + other);
}
