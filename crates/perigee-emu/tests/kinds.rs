//! Every kind of flow on the real kernel, beside the simulator.

use crate::common::{alone, assert_emulated, can_emulate, plan, simulate, NETWORK};
use perigee_results::Tables;
use perigee_study::Run;

/// Requests, datagrams either way, and pings, at the same time over a link that is never full.
const FLOWS: &str = r#"
[[flows]]
name = "pages"
kind = "request"
from = "server"
to = "client"
request = "400 B"
response = "60 kB"
think = "50 ms"
repeat = 5
[[flows]]
name = "voice"
kind = "udp"
from = "server"
to = "client"
rate = "400 kbit/s"
packet = "200 B"
duration = "2 s"
[[flows]]
name = "sensor"
kind = "udp"
from = "client"
to = "server"
rate = "100 kbit/s"
packet = "100 B"
duration = "2 s"
[[flows]]
name = "ping"
kind = "ping"
from = "client"
to = "server"
interval = "100 ms"
packet = "64 B"
repeat = 20
"#;

/// Runs a study on both engines and passes the simulator's and the emulator's tables to `check`.
fn compare(run: &Run, check: impl Fn(&Tables, &Tables)) {
    if can_emulate(run) {
        let _alone = alone();
        let simulated = simulate(run);
        assert_emulated(run, LATEST_US, |emulated| check(&simulated, emulated));
    }
}

fn place(tables: &Tables, flow: &str) -> usize {
    tables.flows.flow.iter().position(|name| &**name == flow).expect("the flow")
}

fn within(what: &str, share: f64, simulated: f64, emulated: f64) -> Option<String> {
    let differs = (emulated / simulated - 1.0).abs() >= share;
    differs.then(|| format!("{what}: simulated {simulated}, emulated {emulated}"))
}

#[test]
fn requests_datagrams_and_pings_are_carried_as_in_the_simulator() {
    assert_alike(&plan(&format!("{NETWORK}{FLOWS}")));
}

#[test]
fn ipv6_carries_them_as_well() {
    assert_alike(&plan(&format!("{NETWORK}{}", over_ipv6(FLOWS))));
}

/// Returns the flows over IPv6.
fn over_ipv6(flows: &str) -> String {
    flows.replace("kind =", "ip = \"v6\"\nkind =")
}

/// The rows agree where nothing is random, and times within 5 %.
fn assert_alike(run: &Run) {
    compare(run, |simulated, emulated| {
        assert_same_counts(simulated, emulated);
        assert_eq!(times_that_differ(simulated, emulated), [""; 0]);
    });
}

fn assert_same_counts(simulated: &Tables, emulated: &Tables) {
    let (sim, emu) = (&simulated.flows, &emulated.flows);
    assert!(emu.completed.iter().all(|done| *done), "{:?}", emu.completed);
    assert_eq!((&emu.kind, &emu.received_bytes, &emu.bytes), (&sim.kind, &sim.received_bytes, &sim.bytes));
    for flow in ["voice", "sensor", "ping"] {
        let (s, e) = (place(simulated, flow), place(emulated, flow));
        assert_eq!((emu.sent_packets[e], emu.lost_packets[e]), (sim.sent_packets[s], Some(0)), "{flow}");
    }
    assert_eq!(emu.sent_packets[place(emulated, "voice")], Some(500));
    let (sim, emu) = (&simulated.exchanges, &emulated.exchanges);
    assert_eq!((&emu.flow, &emu.number), (&sim.flow, &sim.number));
    assert_eq!((&emu.request_bytes, &emu.response_bytes), (&sim.request_bytes, &sim.response_bytes));
    let of = |tables: &Tables, flow: &str| tables.series.flow.iter().filter(|name| &***name == flow).count();
    for flow in ["pages", "voice", "sensor", "ping"] {
        assert!(of(simulated, flow).abs_diff(of(emulated, flow)) <= 1, "rows of the series of {flow}");
    }
}

fn times_that_differ(simulated: &Tables, emulated: &Tables) -> Vec<String> {
    let mut differ = Vec::new();
    for flow in ["voice", "sensor"] {
        let delay = |tables: &Tables| tables.flows.delay_mean_ms[place(tables, flow)].expect("a delay");
        differ.extend(within(flow, 0.05, delay(simulated), delay(emulated)));
        let goodput = |tables: &Tables| tables.flows.goodput_mbps[place(tables, flow)].expect("a goodput");
        differ.extend(within(flow, 0.05, goodput(simulated), goodput(emulated)));
    }
    let ping = |tables: &Tables| tables.flows.rtt_mean_ms[place(tables, "ping")].expect("round trips");
    differ.extend(within("ping", 0.05, ping(simulated), ping(emulated)));
    let pages = |tables: &Tables| tables.flows.duration_s[place(tables, "pages")];
    differ.extend(within("pages", 0.05, pages(simulated), pages(emulated)));
    let (sim, emu) = (&simulated.exchanges, &emulated.exchanges);
    // Single pings are not compared: one may wait behind a burst of another flow in one engine only.
    for row in (0..sim.flow.len()).filter(|row| &*sim.flow[*row] == "pages") {
        let what = format!("{} {}", sim.flow[row], sim.number[row]);
        let length = |cell: Option<f64>| cell.expect("an answer");
        differ.extend(within(&what, 0.05, length(sim.duration_ms[row]), length(emu.duration_ms[row])));
        differ.extend(within(&what, 0.05, sim.start_s[row], emu.start_s[row]));
    }
    differ
}

#[test]
fn nothing_but_a_studys_own_packets_crosses_its_links() {
    let datagrams = &FLOWS[FLOWS.find("[[flows]]\nname = \"voice\"").expect("datagrams")..];
    for flows in [datagrams.to_owned(), over_ipv6(datagrams)] {
        let offered = |tables: &Tables| {
            let mut sums = std::collections::BTreeMap::new();
            let links = &tables.links;
            for ((link, packets), bytes) in links.link.iter().zip(&links.offered_packets).zip(&links.offered_bytes) {
                let sum = sums.entry(link.to_string()).or_insert((0, 0));
                *sum = (sum.0 + packets, sum.1 + bytes);
            }
            sums
        };
        compare(&plan(&format!("{NETWORK}{flows}")), |simulated, emulated| {
            assert_eq!(offered(simulated), offered(emulated));
            assert_eq!(offered(emulated)["satellite.down"], (500 + 20, 500 * 200 + 20 * 64));
        });
    }
}

/// A video whose choice of bit rate does not depend on timing, and a call.
const MEDIA: &str = r#"
[[flows]]
name = "video"
kind = "video"
from = "server"
to = "client"
duration = "4 s"
segment = "1 s"
buffer = "2 s"
ladder = ["1 Mbit/s"]
[[flows]]
name = "call"
kind = "call"
from = "client"
to = "server"
rate = "960 kbit/s"
duration = "2 s"
"#;

#[test]
fn videos_and_calls_are_carried_as_in_the_simulator() {
    compare(&plan(&format!("{NETWORK}{MEDIA}")), |sim, emu| {
        assert!(emu.flows.completed.iter().all(|done| *done), "{:?}", emu.flows.outcome);
        assert_eq!((&emu.flows.kind, &emu.flows.received_bytes), (&sim.flows.kind, &sim.flows.received_bytes));
        assert_eq!(emu.exchanges.response_bytes, sim.exchanges.response_bytes);
        let rates = |tables: &Tables| (tables.videos.segments[0], tables.videos.bitrate_mbps[0]);
        assert_eq!((rates(emu), rates(sim)), ((4, Some(1.0)), (4, Some(1.0))));
        assert_eq!((emu.calls.frames[0], emu.calls.whole_frames[0]), (sim.calls.frames[0], 60));
        let seen = |tables: &Tables| (tables.videos.stalls[0], tables.calls.on_time_frames[0], tables.calls.freezes[0]);
        assert_eq!((seen(emu), seen(sim)), ((0, 60, 0), (0, 60, 0)));
        let startup = |tables: &Tables| tables.videos.startup_delay_s[0].expect("a picture");
        assert_eq!(within("startup", 0.05, startup(sim), startup(emu)), None);
        let delay = |tables: &Tables| tables.calls.delay_mean_ms[0].expect("frames");
        assert_eq!(within("delay of frames", 0.05, delay(sim), delay(emu)), None);
    });
}

#[test]
fn datagrams_beyond_the_rate_are_dropped_by_the_queue_and_counted() {
    let flood = NETWORK.replace("10 MB", "50 kB")
        + r#"
[[flows]]
name = "flood"
kind = "udp"
from = "server"
to = "client"
rate = "25 Mbit/s"
packet = "1500 B"
duration = "2 s"
"#;
    compare(&plan(&flood), |simulated, emulated| {
        let (sim, emu) = (&simulated.flows, &emulated.flows);
        assert_eq!(emu.sent_packets, sim.sent_packets);
        assert!(emu.completed[0]);
        let lost = |tables: &Tables| tables.flows.lost_packets[0].expect("counted") as f64;
        assert_eq!(within("lost", 0.05, lost(simulated), lost(emulated)), None);
        let dropped: u64 = emulated.links.dropped_packets.iter().sum();
        assert!(dropped.abs_diff(lost(emulated) as u64) <= 400, "the links' intervals end with the run: {dropped}");
    });
}

/// A fortieth of the round trip.
const LATEST_US: f64 = 5_000.0;
