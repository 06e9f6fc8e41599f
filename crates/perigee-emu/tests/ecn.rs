//! A queue that marks, on the real kernel and in the simulator: windows are reduced and nothing is lost.

use crate::common::{alone, assert_emulated, can_emulate, emulate, plan, simulate};
use perigee_results::Tables;
use perigee_study::Run;

fn study(ecn: bool, ip: &str) -> Run {
    through("pass", ecn, ip)
}

/// Carries the flows out over a link that treats the ECN field so.
fn through(treatment: &str, ecn: bool, ip: &str) -> Run {
    plan(&format!(
        r#"
name = "marks"
nodes = ["server", "client"]
[measure]
series = "200 ms"
[hosts]
ecn = {ecn}
[[links]]
name = "satellite"
between = ["server", "client"]
rate = "10 Mbit/s"
delay = "25 ms"
ecn = "{treatment}"
queue = {{ bytes = "1 MB", aqm = {{ kind = "red", min = "15 kB", max = "200 kB", max_probability = "50 %", weight = "2 %", ecn = true }} }}
[[flows]]
name = "download"
from = "server"
to = "client"
size = "5 MB"
cc = "reno"
ip = "{ip}"
"#
    ))
}

fn dropped(tables: &Tables) -> u64 {
    tables.links.dropped_packets.iter().sum()
}

/// The effects of marks, the same on both engines.
fn assert_marks_reduce_windows_without_loss(engine: &str, tables: &Tables) {
    let flows = &tables.flows;
    assert!(flows.completed[0], "{engine}");
    assert_eq!((dropped(tables), flows.retransmitted_packets[0]), (0, Some(0)), "{engine}");
    let thresholds: Vec<u32> = tables.series.ssthresh_packets.iter().filter_map(|cell| *cell).collect();
    let (first, last) = (thresholds.first().expect("a reduction"), thresholds.last().expect("a reduction"));
    assert!(last < first, "{engine}: the window was reduced more than once: {thresholds:?}");
    // A queue of a megabyte would take 800 ms to fill and to empty.
    let round_trip = flows.rtt_mean_ms[0].expect("round trips");
    assert!((50.0..120.0).contains(&round_trip), "{engine}: {round_trip} ms");
    assert!(flows.goodput_mbps[0] > Some(7.0), "{engine}: {:?} Mbit/s", flows.goodput_mbps[0]);
}

#[test]
fn marks_reduce_windows_without_loss_in_the_simulator() {
    assert_marks_reduce_windows_without_loss("sim", &simulate(&study(true, "v4")));
    let without = simulate(&study(false, "v4"));
    assert!(dropped(&without) > 0 && without.flows.retransmitted_packets[0] > Some(0), "who is not marked is dropped");
}

#[test]
fn marks_reduce_windows_without_loss_on_the_kernel_over_ipv4_and_ipv6() {
    if !can_emulate(&study(true, "v4")) {
        return;
    }
    let _alone = alone();
    for ip in ["v4", "v6"] {
        assert_emulated(&study(true, ip), LATEST_US, |tables| assert_marks_reduce_windows_without_loss(ip, tables));
    }
    let without = emulate(&study(false, "v4")).unwrap_or_else(|error| panic!("{error}"));
    assert!(dropped(&without) > 0 && without.flows.retransmitted_packets[0] > Some(0), "who is not marked is dropped");
}

/// Checks the effect of a treatment, which is the same on both engines.
fn assert_treated(treatment: &str, tables: &Tables) {
    let (flows, links) = (&tables.flows, &tables.links);
    assert!(flows.completed[0], "{treatment}");
    assert!(links.dropped_aqm_packets.iter().sum::<u64>() > 0, "{treatment}: the queue drops, as without ECN");
    assert!(flows.retransmitted_packets[0] > Some(0), "{treatment}");
    // The firewall drops the SYN that asks for ECN, and nothing else.
    let lost: u64 = links.lost_packets.iter().sum();
    assert_eq!(lost, u64::from(treatment == "drop"), "{treatment}");
    let round_trip = flows.rtt_mean_ms[0].expect("round trips");
    // Where marks are lost, the queue grows to where it drops what it could mark.
    assert_eq!(round_trip > 120.0, treatment == "ignore-outer", "{treatment}: {round_trip} ms");
}

#[test]
fn tunnels_and_middleboxes_do_to_ecn_what_they_say_in_the_simulator_and_on_the_kernel() {
    let cases = [
        ("compatibility", "v4"),
        ("ignore-outer", "v6"),
        ("bleach", "v4"),
        ("bleach", "v6"),
        ("drop", "v4"),
        ("drop", "v6"),
    ];
    for (treatment, ip) in cases {
        assert_treated(treatment, &simulate(&through(treatment, true, ip)));
    }
    if !can_emulate(&study(true, "v4")) {
        return;
    }
    let _alone = alone();
    for (treatment, ip) in cases {
        let run = through(treatment, true, ip);
        assert_emulated(&run, LATEST_US, |tables| assert_treated(treatment, tables));
    }
}

/// A quarter of the smallest retransmission timeout.
const LATEST_US: f64 = 50_000.0;
