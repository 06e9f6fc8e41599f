//! Populations and calls on the real kernel, beside the simulator.

use std::collections::BTreeMap;

use crate::common::{alone, assert_emulated, can_emulate, emulate, plan, simulate, NETWORK};
use perigee_results::Tables;

/// A small population of web users, each behind its own access delay, and a call.
const FLOWS: &str = r#"
[[flows]]
name = "probe"
kind = "transactions"
from = "server"
to = "client"
interval = "100 ms"
request = "300 B"
responses = ["1 kB", "40 kB"]
duration = "3 s"
[[flows]]
name = "users"
kind = "web"
from = "server"
to = "client"
connections_per_s = 20
access_least = "10 ms"
access_most = "74 ms"
duration = "3 s"
[[flows]]
name = "call"
kind = "voice"
from = "server"
to = "client"
duration = "2 s"
"#;

/// Transactions of a flow by their number: bytes of request and response, and how long they took, ms.
fn transactions(tables: &Tables, flow: &str) -> BTreeMap<u32, (u64, u64, Option<f64>)> {
    let rows = &tables.exchanges;
    let of_flow = (0..rows.flow.len()).filter(|row| &*rows.flow[*row] == flow);
    let row =
        |row: usize| (rows.number[row], (rows.request_bytes[row], rows.response_bytes[row], rows.duration_ms[row]));
    of_flow.map(row).collect()
}

/// Numbers of connections that were opened and of those that failed.
fn opened(tables: &Tables, flow: &str) -> (u64, u64) {
    let rows = &tables.responses;
    let of_flow = || (0..rows.flow.len()).filter(|row| &*rows.flow[*row] == flow);
    (of_flow().map(|row| rows.transactions[row]).sum(), of_flow().map(|row| rows.failed[row]).sum())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The figures that differ by more than late threads of this machine explain.
fn differences(simulated: &Tables, emulated: &Tables) -> Vec<String> {
    let mut differ = Vec::new();
    for flow in ["probe", "users"] {
        let (sim, emu) = (transactions(simulated, flow), transactions(emulated, flow));
        let took = |of: &BTreeMap<u32, (u64, u64, Option<f64>)>| {
            median(sim.keys().filter_map(|number| of.get(number)?.2).collect())
        };
        let (a, b) = (took(&sim), took(&emu));
        if (b / a - 1.0).abs() > 0.1 {
            differ.push(format!("{flow}: median {a} ms simulated, {b} ms emulated"));
        }
    }
    let delay = |tables: &Tables| {
        let call = tables.flows.flow.iter().position(|name| &**name == "call").expect("the call");
        tables.flows.delay_mean_ms[call].expect("a delay")
    };
    let (a, b) = (delay(simulated), delay(emulated));
    if (b / a - 1.0).abs() > 0.05 {
        differ.push(format!("call: {a} ms simulated, {b} ms emulated"));
    }
    differ
}

#[test]
fn populations_open_the_same_connections_for_the_same_bytes_and_take_as_long_as_in_the_simulator() {
    let run = plan(&format!("{NETWORK}{FLOWS}"));
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    let simulated = simulate(&run);
    assert_emulated(&run, LATEST_US, |emulated| {
        assert!(emulated.flows.completed.iter().all(|done| *done), "{:?}", emulated.flows.completed);
        for flow in ["probe", "users"] {
            assert_eq!(opened(emulated, flow), opened(&simulated, flow), "{flow}");
            let (sim, emu) = (transactions(&simulated, flow), transactions(emulated, flow));
            // The link is never full, so that users of the first second have been answered long before the end.
            let early: Vec<_> = sim.iter().filter(|(number, _)| **number < 10).collect();
            assert!(early.len() >= 9, "{flow}: {early:?}");
            for (number, (request, response, _)) in early {
                let (asked, answered, took) = emu.get(number).copied().unwrap_or_default();
                assert_eq!((asked, answered, took.is_some()), (*request, *response, true), "{flow}: {number}");
            }
        }
        let call = simulated.flows.flow.iter().position(|name| &**name == "call").expect("the call");
        let packets = |tables: &Tables| (tables.flows.sent_packets[call], tables.flows.lost_packets[call]);
        assert_eq!(packets(emulated), packets(&simulated));
        assert_eq!(packets(emulated).1, Some(0));
        assert_eq!(differences(&simulated, emulated), [""; 0]);
    });
}

#[test]
fn users_whose_server_is_out_of_reach_are_counted_and_end_nothing() {
    let text = NETWORK.replace("delay = \"100 ms\"", "delay = \"100 ms\"\nloss = \"100 %\"")
        + r#"
[hosts]
syn_retries = 1
[[flows]]
name = "probe"
kind = "transactions"
from = "server"
to = "client"
interval = "1 s"
request = "300 B"
responses = ["1 kB"]
duration = "4500 ms"
"#;
    let run = plan(&text);
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    let emulated = emulate(&run).unwrap_or_else(|error| panic!("{error}"));
    assert!(emulated.flows.completed[0]);
    // One SYN, another after 1 s, and the attempt is given up 2 s later.
    let (all, failed) = opened(&emulated, "probe");
    assert_eq!(all, opened(&simulate(&run), "probe").0);
    assert!((1..=2).contains(&failed), "{failed}");
    assert_eq!(emulated.responses.completed, [0]);
}

#[test]
fn a_browser_loads_the_same_pages_over_as_many_connections_in_about_the_time_of_the_simulator() {
    for protocol in ["http/1.1", "h2"] {
        let flow = format!(
            "[[flows]]\nname = \"browser\"\nkind = \"pages\"\nfrom = \"server\"\nto = \"client\"\npage = \"small\"\n\
             protocol = \"{protocol}\"\nduration = \"10 s\"\npause = \"500 ms\"\n"
        );
        let run = plan(&format!("{NETWORK}{flow}"));
        if !can_emulate(&run) {
            return;
        }
        let _alone = alone();
        let simulated = simulate(&run).pages;
        assert_emulated(&run, LATEST_US, |emulated| {
            let emulated = &emulated.pages;
            let loads = simulated.load_ms.iter().flatten().count();
            assert!(loads >= 2, "{:?}", simulated.load_ms);
            assert!(emulated.load_ms.iter().flatten().count().abs_diff(loads) <= 1, "{:?}", emulated.load_ms);
            for load in 0..loads - 1 {
                assert_eq!(
                    (emulated.objects[load], emulated.bytes[load], emulated.arrived_objects[load]),
                    (simulated.objects[load], simulated.bytes[load], simulated.objects[load])
                );
                // Which connection becomes free first may differ, and so may the number of connections.
                assert!(emulated.connections[load].abs_diff(simulated.connections[load]) <= 3, "{load}");
            }
            // Microseconds of difference in reading a request can cost a round trip behind other requests.
            let first = |all: &[Option<f64>]| all[..loads - 1].iter().map(|took| took.expect("a whole load")).collect();
            let took = [&simulated.load_ms, &emulated.load_ms].map(|all| median(first(all)));
            assert!((took[1] / took[0] - 1.0).abs() < 0.12, "{protocol}: medians {took:?} ms");
        });
    }
}

/// A fortieth of the round trip.
const LATEST_US: f64 = 5_000.0;
