//! Studies on the real kernel, beside the simulator.

use std::ops::ControlFlow;

use crate::common::{alone, assert_emulated, can_emulate, download, emulate, no_captures, plan, simulate};
use perigee_emu::{check, Namespace};
use perigee_results::Tables;
use perigee_study::Run;

/// Compares both engines.
fn compare(what: &str, run: &Run) {
    let _alone = alone();
    let simulated = simulate(run);
    assert_emulated(run, LATEST_US, |emulated| assert_alike(what, &simulated, emulated));
}

/// Throughput and mean round trip within 5 %, retransmitted share within a factor of 1.5 or 0.1 percentage points.
fn assert_alike(what: &str, simulated: &Tables, emulated: &Tables) {
    let (sim, emu) = (&simulated.flows, &emulated.flows);
    let within = |name: &str, ours: f64, theirs: f64| {
        assert!((ours / theirs - 1.0).abs() < 0.05, "{what}: {name} simulated {ours}, emulated {theirs}");
    };
    within("goodput", sim.goodput_mbps[0].expect("a goodput"), emu.goodput_mbps[0].expect("a goodput"));
    within("round trip", sim.rtt_mean_ms[0].expect("samples"), emu.rtt_mean_ms[0].expect("samples"));
    within("startup", sim.startup_goodput_mbps[0].expect("a phase"), emu.startup_goodput_mbps[0].expect("a phase"));
    within("handshake", sim.handshake_ms[0].expect("one"), emu.handshake_ms[0].expect("one"));
    let share = |retransmitted: Option<u64>, sent: Option<u64>| {
        retransmitted.expect("counted") as f64 / sent.expect("counted") as f64
    };
    let (ours, theirs) = (
        share(sim.retransmitted_packets[0], sim.sent_packets[0]),
        share(emu.retransmitted_packets[0], emu.sent_packets[0]),
    );
    let factor = (ours / theirs).max(theirs / ours);
    assert!((ours - theirs).abs() < 0.001 || factor < 1.5, "{what}: retransmitted simulated {ours}, emulated {theirs}");
    assert_eq!(sim.received_bytes, emu.received_bytes, "{what}");
    let rows = simulated.series.goodput_mbps.len().abs_diff(emulated.series.goodput_mbps.len());
    assert!(rows <= 1, "{what}: {rows} rows of the series more or less");
    assert!(!emulated.links.link.is_empty() && emulated.releases.link.len() == 4, "{what}: tables of links");
}

#[test]
fn the_kernel_and_the_simulator_carry_a_download_alike() {
    let run = download("size = \"8 MB\"\ncc = \"reno\"");
    if can_emulate(&run) {
        compare("reno", &run);
    }
}

#[test]
fn an_algorithm_that_the_kernel_does_not_have_is_loaded_for_the_run_and_gone_after_it() {
    let run = download("size = \"8 MB\"\ncc = \"bic\"");
    if !can_emulate(&run) {
        return;
    }
    let known = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("a list");
    compare("bic", &run);
    let ours = format!("e{}_", std::process::id());
    // The kernel unregisters it after an RCU grace period.
    let gone = (0..100).any(|_| {
        let gone = !known().contains(&ours);
        if !gone {
            std::thread::yield_now();
            let _ = Namespace::new();
        }
        gone
    });
    assert!(gone, "{}", known());
}

#[test]
fn a_flow_ends_after_its_duration_and_a_run_can_be_cancelled() {
    let run = download("duration = \"2 s\"\ncc = \"cubic\"");
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    let tables = emulate(&run).unwrap_or_else(|error| panic!("{error}"));
    assert!((tables.flows.duration_s[0] - 2.0).abs() < 1e-6 && tables.flows.completed[0]);
    assert!(tables.flows.received_bytes[0] > 100_000);
    let (mut asked, mut received) = (0, Vec::new());
    let stopped = perigee_emu::run(&run, &no_captures(), &mut |standing| {
        asked += 1;
        received.push((standing.now, standing.received[0]));
        if asked < 5 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    assert!(matches!(stopped, Err(perigee_emu::RunError::Cancelled)));
    assert!(received.is_sorted() && received.last() > received.first(), "{received:?}");
}

#[test]
fn settings_that_the_kernel_does_not_support_are_refused_before_the_run() {
    let said = |flow: &str| check(&download(flow)).expect_err("it cannot").to_string();
    let small = said("kind = \"udp\"\nrate = \"1 Mbit/s\"\npacket = \"31 B\"\nduration = \"1 s\"");
    assert!(small.contains("no room for their number; give them 32 B or more"), "{small}");
    assert!(said("size = \"1 MB\"\ntcp = { prr = false }").contains("`prr` is off, which the kernel cannot"));
    let slow = "`processing_time` is set, which the kernel cannot; run it with --engine sim";
    assert!(said("size = \"1 MB\"\ntcp = { processing_time = \"8 us\" }").contains(slow));
    // For datagrams it is that of the sending host.
    let stream = "kind = \"udp\"\nrate = \"1 Mbit/s\"\npacket = \"99 B\"\nduration = \"1 s\"\n";
    let of = |host: &str| format!("{stream}[hosts.{host}]\nprocessing_time = \"8 us\"");
    assert!(said(&of("server")).contains(slow));
    assert!(check(&download(&of("client"))).is_ok());
}

/// Half of the tolerance on a round trip of 202 ms.
const LATEST_US: f64 = 1_000.0 * 202.0 * 0.05 / 2.0;

#[test]
fn links_may_have_names_that_devices_may_not() {
    let names = ["lo", "all", "default", "satellite-link-1", "satellite-link-2"];
    let link = |(number, name): (usize, &str)| {
        format!(
            "[[links]]\nname = \"{name}\"\nbetween = [\"n{number}\", \"n{}\"]\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n",
            // The last two links begin at one node, which therefore has both devices.
            if number == 4 { 3 } else { number + 1 }
        )
    };
    let links: String = names.into_iter().enumerate().map(link).collect();
    let run = plan(&format!(
        "name = \"names\"\nnodes = [\"n0\", \"n1\", \"n2\", \"n3\", \"n4\"]\n{links}\
         [[flows]]\nname = \"download\"\nfrom = \"n0\"\nto = \"n3\"\nsize = \"10 kB\"\ncc = \"reno\"\n"
    ));
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    let tables = emulate(&run).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(tables.flows.received_bytes[0], 10_000);
    let carried = |name: &str| tables.releases.link.iter().any(|link| link.starts_with(name));
    assert!(names.into_iter().all(carried), "{:?}", tables.releases.link);
}

#[test]
fn a_link_faster_than_the_machine_loses_nothing() {
    for (ip, size) in [("v4", 200), ("v6", 40)] {
        let run = plan(&format!(
            r#"
name = "fast"
nodes = ["server", "gateway", "client"]
[[links]]
name = "near"
between = ["server", "gateway"]
rate = "40 Gbit/s"
delay = "1 ms"
[[links]]
name = "far"
between = ["gateway", "client"]
rate = "40 Gbit/s"
delay = "1 ms"
[[flows]]
name = "download"
from = "server"
to = "client"
size = "{size} MB"
cc = "cubic"
ip = "{ip}"
"#
        ));
        if !can_emulate(&run) {
            return;
        }
        let _alone = alone();
        let tables = emulate(&run).unwrap_or_else(|error| panic!("{error}"));
        let flows = &tables.flows;
        assert!(flows.completed[0] && flows.received_bytes == [size * 1_000_000], "{ip}");
        assert_eq!(flows.retransmitted_packets, [Some(0)], "{ip}");
        // Each link sees the segments of the trains: those of the payload, and a few that are not full.
        let mss = if ip == "v4" { 1448 } else { 1428 };
        let least = (size * 1_000_000_u64).div_ceil(mss);
        let data = tables.releases.released_packets.iter().step_by(2);
        assert!(data.clone().all(|released| (least..least + least / 20).contains(released)), "{ip}: {data:?}");
    }
}

#[test]
fn the_handshake_is_a_round_trip_as_in_the_simulator() {
    for opened_by in ["receiver", "sender"] {
        let run = plan(&format!(
            "name = \"slow\"\nnodes = [\"a\", \"b\"]\n[[links]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n\
             delay = \"20 ms\"\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"10 kB\"\nopened_by = \"{opened_by}\"\n"
        ));
        if !can_emulate(&run) {
            return;
        }
        let _alone = alone();
        let emulated = emulate(&run).unwrap_or_else(|error| panic!("{error}"));
        let least = [simulate(&run), emulated].map(|tables| tables.flows.rtt_min_ms[0].expect("samples"));
        // A full segment takes 52 ms.
        assert!(least.iter().all(|least| (40.8..48.0).contains(least)), "{opened_by}: {least:?}");
    }
}
