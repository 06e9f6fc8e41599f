//! Flows over QUIC through sockets of the kernel, with real keys, beside the simulator's.

use std::ops::ControlFlow;

use crate::common::{alone, assert_emulated, can_emulate, no_captures, plan, simulate, NETWORK};
use perigee_results::{Table as _, Tables};

/// Flows of each kind over QUIC, one after another, on a path that is never full. Later connections of pages have ports of flows behind.
const KINDS: &str = r#"
[[flows]]
name = "pages"
kind = "pages"
responses = ["20 kB"]
pause = "200 ms"
start = "11 s"
duration = "5 s"
[[flows]]
name = "bulk"
size = "1 MB"
[[flows]]
name = "requests"
kind = "request"
request = "400 B"
response = "60 kB"
think = "50 ms"
repeat = 4
start = "3 s"
[[flows]]
name = "video"
kind = "video"
duration = "3 s"
segment = "1 s"
buffer = "2 s"
ladder = ["1 Mbit/s"]
start = "6 s"
"#;

/// The flows of a text over QUIC, from the server to the client.
fn over_quic(flows: &str) -> String {
    let head = "[[flows]]\nfrom = \"server\"\nto = \"client\"\ntransport = \"quic\"";
    let network = NETWORK.replace("[measure]", "[measure]\nqlog = true\nstates = \"changes\"");
    network + &flows.replace("[[flows]]", head)
}

fn place(tables: &Tables, flow: &str) -> usize {
    tables.flows.flow.iter().position(|name| &**name == flow).expect("the flow")
}

fn near(what: &str, share: f64, simulated: f64, emulated: f64) {
    assert!((emulated / simulated - 1.0).abs() < share, "{what}: simulated {simulated}, emulated {emulated}");
}

#[test]
fn every_kind_over_quic_is_carried_as_in_the_simulator() {
    let run = plan(&over_quic(KINDS));
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    let sim = simulate(&run);
    assert_emulated(&run, LATEST_US, |emu| {
        assert!(emu.flows.completed.iter().all(|done| *done), "{:?} {:?}", emu.flows.outcome, emu.flows.cause);
        assert_eq!((&emu.flows.kind, &emu.flows.transport), (&sim.flows.kind, &sim.flows.transport));
        assert_eq!((&emu.flows.handshake, &emu.flows.cause), (&sim.flows.handshake, &sim.flows.cause));
        assert_eq!((&emu.flows.lost_packets, &emu.flows.streams), (&sim.flows.lost_packets, &sim.flows.streams));
        // Real keys hide probe timeouts, and nobody else counts them.
        assert_eq!(emu.flows.rto_count, [None; 4]);
        for flow in ["bulk", "requests", "video"] {
            let (s, e) = (place(&sim, flow), place(emu, flow));
            assert_eq!(emu.flows.received_bytes[e], sim.flows.received_bytes[s], "{flow}");
            near(flow, 0.03, sim.flows.duration_s[s], emu.flows.duration_s[e]);
            let rtt = |tables: &Tables, row: usize| tables.flows.rtt_mean_ms[row].expect("round trips");
            near(flow, 0.03, rtt(&sim, s), rtt(emu, e));
            near(flow, 0.02, sim.flows.handshake_ms[s].expect("open"), emu.flows.handshake_ms[e].expect("open"));
        }
        assert_eq!(emu.exchanges.response_bytes.len(), sim.exchanges.response_bytes.len());
        assert!(!emu.states.is_empty() && !sim.states.is_empty());
        let rows = |tables: &Tables| tables.series.flow.iter().filter(|flow| &***flow == "bulk").count();
        assert!(rows(emu).abs_diff(rows(&sim)) <= 1, "{} {}", rows(emu), rows(&sim));
    });
}

#[test]
fn handshakes_take_the_round_trips_of_the_simulator() {
    let kinds = [
        ("one", "1-rtt", false),
        ("none", "0-rtt", false),
        ("refused", "0-rtt-rejected", false),
        ("retry", "1-rtt", true),
    ];
    let flow = |(name, handshake, retry): (&str, &str, bool)| {
        format!(
            "[[flows]]\nname = \"{name}\"\nkind = \"request\"\nrequest = \"300 B\"\nresponse = \"10 kB\"\nrepeat = 1\n\
             quic = {{ handshake = \"{handshake}\", retry = {retry} }}\n"
        )
    };
    let flows = kinds.map(flow).concat();
    let run = plan(&over_quic(&flows));
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    let sim = simulate(&run);
    assert_emulated(&run, LATEST_US, |emu| {
        assert_eq!(emu.flows.handshake, sim.flows.handshake);
        assert_eq!(emu.flows.cause, sim.flows.cause);
        for row in 0..4 {
            near("duration", 0.03, sim.flows.duration_s[row], emu.flows.duration_s[row]);
        }
    });
}

#[test]
fn logs_of_ends_have_their_names_and_what_the_adapter_knows() {
    let run = plan(&over_quic("[[flows]]\nname = \"bulk\"\nsize = \"100 kB\"\n"));
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    let (_, mut logs) = perigee_emu::run(&run, &no_captures(), &mut |_| ControlFlow::Continue(())).expect("a run");
    logs.sort_by(|one, other| one.name.cmp(&other.name));
    let names: Vec<_> = logs.iter().map(|log| log.name.as_str()).collect();
    assert_eq!(names, ["client-bulk.sqlog", "server-bulk.sqlog"]);
    let [client, server] = [0, 1].map(|end| String::from_utf8(logs[end].qlog.clone()).expect("text"));
    assert!(client.contains("connection_closed"));
    for event in ["connection_started", "recovery_metrics_updated"] {
        assert!(server.contains(event), "{event}");
    }
    assert!(!server.contains("packet_sent"), "packets have secrets");
}

#[test]
fn states_beside_tcp_are_refused_before_a_run_since_the_kernel_hides_them() {
    let tcp = "[[flows]]\nname = \"other\"\nfrom = \"server\"\nto = \"client\"\nsize = \"1 MB\"\n";
    let run = plan(&(over_quic("[[flows]]\nname = \"bulk\"\nsize = \"100 kB\"\n") + tcp));
    let refused = perigee_emu::check(&run).map_err(|error| error.to_string());
    assert!(refused.is_err_and(|message| message.contains("`measure.states`")));
}

/// A fortieth of the round trip.
const LATEST_US: f64 = 5_000.0;
