//! Flows that proxies split: the service at a node compared with the simulated proxy.

use crate::common::{alone, assert_emulated, can_emulate, plan, simulate, NETWORK};
use perigee_emu::check;
use perigee_results::Tables;
use perigee_study::Run;

/// A download through a proxy at the gateway.
fn split(proxy: &str, flow: &str) -> Run {
    split_over(NETWORK, proxy, flow)
}

fn split_over(network: &str, proxy: &str, flow: &str) -> Run {
    plan(&format!(
        "{network}[[flows]]\nname = \"download\"\nfrom = \"server\"\nto = \"client\"\n{flow}\n\
         [[proxies]]\nname = \"pep\"\nnode = \"gateway\"\n{proxy}\n\
         [proxies.sides.wire]\ncc = \"cubic\"\n[proxies.sides.satellite]\ncc = \"reno\"\ntcp = {{ initial_window = 40 }}\n"
    ))
}

/// The flow's rows in order: whole, first leg, second leg.
fn goodputs(tables: &Tables) -> Vec<(Option<u32>, u64, f64)> {
    let flows = &tables.flows;
    let rows = flows.leg.iter().zip(&flows.received_bytes).zip(&flows.goodput_mbps);
    rows.map(|((leg, bytes), rate)| (*leg, *bytes, rate.expect("a goodput"))).collect()
}

#[test]
fn the_service_at_a_node_splits_a_download_as_the_simulated_proxy_does() {
    let run = split("", "size = \"4 MB\"\ncc = \"cubic\"");
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    let simulated = simulate(&run);
    assert_emulated(&run, LATEST_US, |emulated| {
        let (sim, emu) = (goodputs(&simulated), goodputs(emulated));
        assert_eq!(emu.iter().map(|row| row.0).collect::<Vec<_>>(), [None, Some(1), Some(2)]);
        assert!(emulated.flows.completed.iter().all(|completed| *completed));
        for (ours, theirs) in [(sim[0], emu[0]), (sim[2], emu[2])] {
            assert_eq!(ours.1, theirs.1);
            assert!((ours.2 / theirs.2 - 1.0).abs() < 0.08, "goodput simulated {ours:?}, emulated {theirs:?}");
        }
        assert_eq!(emu[1].1, sim[1].1, "the first leg carries all bytes");
        let flows = &emulated.flows;
        assert_eq!(flows.cc.iter().map(|name| &**name).collect::<Vec<_>>(), ["cubic", "cubic", "reno"]);
        assert_eq!(flows.from_node[2].to_string(), "gateway");
        assert_eq!((flows.sent_packets[0], flows.rtt_mean_ms[0], flows.rto_count[0]), (None, None, None));
        let round_trip = flows.rtt_min_ms[2].expect("samples");
        assert!((200.0..230.0).contains(&round_trip), "{round_trip}");
        let handshakes = [flows.handshake_ms[0], flows.handshake_ms[2]].map(|time| time.expect("one"));
        assert!((handshakes[0] - handshakes[1]).abs() < 1e-6, "the client's handshake is that of its leg");
        let proxies = &emulated.proxies;
        let most = proxies.held_max_bytes.iter().max().copied().unwrap_or(0);
        assert!((500_000..4_500_000).contains(&most), "held {most}");
        assert_eq!(proxies.connections.iter().max(), Some(&1));
        let windows = emulated.series.leg.iter().zip(&emulated.series.cwnd_packets);
        let of_proxy = windows.filter(|(leg, _)| **leg == Some(2)).filter_map(|(_, window)| *window).max();
        assert!(of_proxy.is_some_and(|window| window >= 40), "{of_proxy:?}");
    });
}

/// Handshake at the client, and time of the first kilobyte, ms.
fn start(tables: &Tables) -> [f64; 2] {
    let milestones = &tables.milestones;
    let of_flow = milestones.leg.iter().zip(&milestones.t_s).find(|(leg, _)| leg.is_none());
    [tables.flows.handshake_ms[0].expect("a handshake"), of_flow.expect("a kilobyte").1 * 1e3]
}

#[test]
fn with_connect_first_the_client_s_handshake_waits_for_that_with_the_server_in_both_engines() {
    let measure = "startup = \"1 MB\"\nmilestones = { every = \"1 kB\", upto = \"1 kB\" }";
    let network = NETWORK.replace("startup = \"1 MB\"", measure).replace("delay = \"1 ms\"", "delay = \"50 ms\"");
    let starts = ["accept-first", "connect-first"].map(|handshake| {
        let flow = "size = \"20 kB\"\ncc = \"cubic\"";
        let run = split_over(&network, &format!("handshake = \"{handshake}\""), flow);
        (start(&simulate(&run)), run)
    });
    if !can_emulate(&starts[1].1) {
        return;
    }
    // A round trip of the wire. The first byte is earlier: the server has sent it while the client's handshake went on.
    let [accept, connect] = [starts[0].0, starts[1].0];
    assert!((connect[0] - accept[0] - 100.0).abs() < 1.0 && connect[1] < accept[1], "{accept:?} {connect:?}");
    let _alone = alone();
    for (simulated, run) in &starts {
        assert_emulated(run, LATEST_US, |emulated| {
            assert!(emulated.flows.completed.iter().all(|completed| *completed));
            let here = start(emulated);
            for (ours, theirs) in simulated.iter().zip(here) {
                assert!((ours - theirs).abs() < 20.0, "simulated {simulated:?}, emulated {here:?}");
            }
        });
    }
}

#[test]
fn two_proxies_in_a_row_split_an_upload_over_ipv6() {
    let text = r#"
name = "two"
nodes = ["user", "terminal", "gateway", "server"]
[measure]
series = "500 ms"
[[links]]
name = "lan"
between = ["user", "terminal"]
rate = "100 Mbit/s"
delay = "1 ms"
[[links]]
name = "satellite"
between = ["terminal", "gateway"]
rate = "20 Mbit/s"
delay = "50 ms"
queue = "4 MB"
[[links]]
name = "wire"
between = ["gateway", "server"]
rate = "100 Mbit/s"
delay = "1 ms"
[[flows]]
name = "upload"
from = "user"
to = "server"
size = "1 MB"
cc = "cubic"
ip = "v6"
opened_by = "sender"
[[proxies]]
name = "terminal"
node = "terminal"
[proxies.sides.satellite]
cc = "reno"
[proxies.sides.lan]
cc = "cubic"
[[proxies]]
name = "gateway"
node = "gateway"
handshake = "connect-first"
[proxies.sides.satellite]
cc = "reno"
[proxies.sides.wire]
cc = "cubic"
"#;
    let run = plan(text);
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    assert_emulated(&run, LATEST_US, |emulated| {
        assert_eq!(emulated.flows.leg, [None, Some(1), Some(2), Some(3)]);
        assert_eq!(emulated.flows.received_bytes, [1_000_000; 4]);
        assert!(emulated.flows.completed.iter().all(|completed| *completed));
        let handshake = |row: usize| emulated.flows.handshake_ms[row].expect("one");
        assert!(handshake(0) < 50.0 && handshake(2) >= 100.0, "{} {}", handshake(0), handshake(2));
    });
}

/// Homes with one connection and with four, behind a proxy that owns the queue of a link with this table.
fn homes(satellite: &str, link: &str) -> Run {
    let home = |name: &str, count: u32| {
        format!(
            "[[links]]\nname = \"{name}\"\nbetween = [\"terminal\", \"{name}\"]\nrate = \"1 Gbit/s\"\ndelay = \"1 ms\"\n\
             [[flows]]\nname = \"{name}\"\nfrom = \"server\"\nto = \"{name}\"\ncount = {count}\nduration = \"10 s\"\ncc = \"cubic\"\n"
        )
    };
    plan(&format!(
        "name = \"homes\"\nnodes = [\"server\", \"gateway\", \"terminal\", \"one\", \"four\"]\n\
         [measure]\nseries = \"500 ms\"\n\
         [[links]]\nname = \"wire\"\nbetween = [\"server\", \"gateway\"]\nrate = \"1 Gbit/s\"\ndelay = \"1 ms\"\n\
         [[links]]\nname = \"satellite\"\nbetween = [\"gateway\", \"terminal\"]\n{satellite}\ndelay = \"50 ms\"\nqueue = \"1 MB\"\n\
         {}{}[[proxies]]\nname = \"pep\"\nnode = \"gateway\"\n[proxies.sides.wire]\ncc = \"cubic\"\n\
         [proxies.sides.satellite]\ncc = \"cubic\"\nlink = {link}\n",
        home("one", 1),
        home("four", 4)
    ))
}

/// Payload of each home, and the mean time that a packet waited for the satellite link of a rate from an instant on, ms.
fn divided(tables: &Tables, mbps: f64, from_s: f64) -> ([u64; 2], f64) {
    let flows = &tables.flows;
    let payload = ["one", "four"].map(|home| {
        let rows = flows.to_node.iter().zip(&flows.leg).zip(&flows.received_bytes);
        rows.filter(|((to, leg), _)| ***to == *home && leg.is_none()).map(|(_, bytes)| *bytes).sum()
    });
    let links = &tables.links;
    let rows = links.link.iter().zip(&links.t_s).zip(&links.queue_bytes);
    let queue: Vec<_> = rows
        .filter(|((link, t_s), _)| ***link == *"satellite.down" && **t_s > from_s)
        .map(|(_, bytes)| *bytes as f64)
        .collect();
    (payload, queue.iter().sum::<f64>() / queue.len() as f64 * 8e-3 / mbps)
}

#[test]
fn the_service_at_a_node_owns_the_queue_of_a_link_as_the_simulated_proxy_does() {
    let [run, without] = ["{}", "{ enabled = false }"].map(|link| homes("rate = \"20 Mbit/s\"", link));
    if !can_emulate(&run) {
        return;
    }
    let ([one, four], wait_ms) = divided(&simulate(&without), 20.0, 3.0);
    assert!(four > 3 * one && wait_ms > 50.0, "the link's own queue: {one}, {four} bytes, {wait_ms} ms");
    let _alone = alone();
    let simulated = divided(&simulate(&run), 20.0, 3.0);
    assert_emulated(&run, LATEST_US, |emulated| {
        for (engine, ([one, four], wait_ms)) in [("simulated", simulated), ("emulated", divided(emulated, 20.0, 3.0))] {
            let seen = format!("{engine}: {one}, {four} bytes, {wait_ms} ms");
            println!("{seen}");
            assert!((one as f64 / four as f64 - 1.0).abs() < 0.1, "{seen}");
            // 10 s of 20 Mbit/s are 25 MB.
            assert!(one + four > 20_000_000 && wait_ms < 20.0, "{seen}");
        }
    });
}

#[test]
fn the_service_is_told_of_a_rate_that_changes_as_the_simulated_proxy_is() {
    let fades = "down.timeline = [\"time_s, rate_mbps\", \"0, 20\", \"5, 10\"]\nup.rate = \"2 Mbit/s\"";
    let [run, never] = ["{}", "{ told = \"1 h\" }"].map(|link| homes(fades, link));
    let seen = |tables: &Tables| divided(tables, 10.0, 6.0);
    let (_, wait_ms) = seen(&simulate(&never));
    assert!(wait_ms > 100.0, "without being told: {wait_ms} ms");
    if !can_emulate(&run) {
        return;
    }
    let _alone = alone();
    let simulated = seen(&simulate(&run));
    assert_emulated(&run, LATEST_US, |emulated| {
        for (engine, ([one, four], wait_ms)) in [("simulated", simulated), ("emulated", seen(emulated))] {
            let seen = format!("{engine}: {one}, {four} bytes, {wait_ms} ms");
            println!("{seen}");
            // 5 s of 20 Mbit/s and 5 s of 10 Mbit/s are 18.75 MB.
            assert!(one + four > 15_000_000 && wait_ms < 20.0, "{seen}");
        }
    });
}

#[test]
fn settings_that_the_service_does_not_support_are_refused_before_the_run() {
    let said =
        |proxy: &str| check(&split(proxy, "size = \"1 MB\"\ncc = \"cubic\"")).expect_err("it cannot").to_string();
    let small = said("buffer = \"100 kB\"");
    assert!(small.contains("the proxy `pep` has a buffer of 100 kB"), "{small}");
    let wanders = "rate = { kind = \"fluctuating\", mean = \"20 Mbit/s\", sd = \"2 Mbit/s\", min = \"9 Mbit/s\", max = \"30 Mbit/s\", \
                   every = \"1 s\" }";
    let changes = check(&homes(wanders, "{}")).expect_err("it cannot").to_string();
    assert!(changes.contains("owns the queue of `satellite.down`, whose rate changes"), "{changes}");
    let in_states = |of_bad: &str| {
        let states = format!("rate = \"20 Mbit/s\"\nstates = [{{ stay = \"1 s\" }}, {{ stay = \"1 s\", {of_bad} }}]");
        check(&homes(&states, "{}")).err().is_some_and(|error| error.to_string().contains("whose rate changes"))
    };
    assert!(in_states("rate = \"50 %\"") && !in_states("loss = \"2 %\""));
}

/// A tenth of a goodput's tolerance over 2.5 s.
const LATEST_US: f64 = 20_000.0;
