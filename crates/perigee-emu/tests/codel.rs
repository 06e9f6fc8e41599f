//! A queue that decides on departure, on the real kernel and in the simulator: the standing wait is near CoDel's target, and that of DCTCP
//! near the step.

use crate::common::{alone, assert_emulated, can_emulate, plan, simulate};
use perigee_results::Tables;
use perigee_study::Run;

/// A download over 10 Mbit/s and 52 ms, where a drop-tail queue of 250 kB would hold 200 ms.
fn study(ecn: bool) -> Run {
    plan(&format!(
        r#"
name = "codel"
nodes = ["server", "client"]
[measure]
series = "100 ms"
[hosts]
ecn = {ecn}
[[links]]
name = "satellite"
between = ["server", "client"]
rate = "10 Mbit/s"
delay = "26 ms"
queue = {{ bytes = "250 kB", aqm = {{ kind = "codel", ecn = true }} }}
[[flows]]
name = "download"
from = "server"
to = "client"
duration = "8 s"
cc = "cubic"
"#
    ))
}

/// The mean queueing delay after slow start, ms: a byte of backlog takes 0.8 us.
fn queueing_ms(tables: &Tables) -> f64 {
    let links = &tables.links;
    let rows = links.link.iter().zip(&links.t_s).zip(&links.queue_bytes);
    let late = rows.filter(|((link, t), _)| &***link == "satellite.down" && **t > 3.0);
    let waits: Vec<f64> = late.map(|(_, bytes)| *bytes as f64 * 0.8e-3).collect();
    waits.iter().sum::<f64>() / waits.len() as f64
}

fn dropped(tables: &Tables) -> u64 {
    tables.links.dropped_aqm_packets.iter().sum()
}

fn assert_codel_holds_the_queue(what: &str, ecn: bool, tables: &Tables) {
    let (wait, goodput) = (queueing_ms(tables), tables.flows.goodput_mbps[0].expect("a goodput"));
    assert!((1.0..12.0).contains(&wait), "{what}: a wait of {wait} ms, with a target of 5 ms");
    assert!(goodput > 7.5, "{what}: {goodput} Mbit/s of 10");
    let lost = (dropped(tables), tables.flows.retransmitted_packets[0].expect("counted"));
    if ecn {
        assert_eq!(lost, (0, 0), "{what}: marks lose nothing");
    } else {
        assert!(lost.0 > 0 && lost.1 > 0, "{what}: {lost:?} dropped and sent again");
    }
}

#[test]
fn codel_holds_the_standing_wait_near_its_target_on_the_kernel_as_in_the_simulator() {
    for ecn in [false, true] {
        let run = study(ecn);
        let simulated = simulate(&run);
        assert_codel_holds_the_queue("sim", ecn, &simulated);
        if !can_emulate(&run) {
            continue;
        }
        let _alone = alone();
        assert_emulated(&run, LATEST_US, |emulated| {
            assert_codel_holds_the_queue("emu", ecn, emulated);
            let (ours, theirs) = (
                simulated.flows.goodput_mbps[0].expect("a goodput"),
                emulated.flows.goodput_mbps[0].expect("a goodput"),
            );
            assert!((ours / theirs - 1.0).abs() < 0.1, "goodput simulated {ours}, emulated {theirs} Mbit/s");
            let (ours, theirs) = (queueing_ms(&simulated), queueing_ms(emulated));
            assert!((ours - theirs).abs() < 3.0, "mean wait simulated {ours}, emulated {theirs} ms");
        });
    }
}

fn assert_dctcp_holds_the_step(what: &str, tables: &Tables) {
    let (rtt, goodput) =
        (tables.flows.rtt_mean_ms[0].expect("samples"), tables.flows.goodput_mbps[0].expect("a goodput"));
    println!("{what}: {goodput:.2} Mbit/s, mean round trip {rtt:.1} ms");
    assert!((42.0..47.0).contains(&rtt), "{what}: a round trip of {rtt} ms over 40 ms, with a step at 5 ms");
    assert_eq!((dropped(tables), tables.flows.retransmitted_packets[0]), (0, Some(0)), "{what}: marks lose nothing");
}

#[test]
fn dctcp_stays_at_a_step_on_the_kernel_as_in_the_simulator() {
    let run = plan(&include_str!("step.toml").replace("\"30 s\"", "\"10 s\""));
    let simulated = simulate(&run);
    assert_dctcp_holds_the_step("sim", &simulated);
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    assert_emulated(&run, LATEST_US, |emulated| {
        assert_dctcp_holds_the_step("emu", emulated);
        let (ours, theirs) =
            (simulated.flows.goodput_mbps[0].expect("a goodput"), emulated.flows.goodput_mbps[0].expect("a goodput"));
        assert!((ours / theirs - 1.0).abs() < 0.03, "goodput simulated {ours}, emulated {theirs} Mbit/s");
        let [ours, theirs] = [&simulated, emulated].map(|tables| tables.flows.rtt_mean_ms[0].expect("samples"));
        assert!((ours - theirs).abs() < 1.0, "mean round trip simulated {ours}, emulated {theirs} ms");
    });
}

/// Well below CoDel's target.
const LATEST_US: f64 = 2_000.0;
