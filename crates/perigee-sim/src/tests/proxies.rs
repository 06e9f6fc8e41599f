//! Proxies: every byte once and in order, bounded memory, propagated ends and failures, and the costs and gains of a split.

use perigee_results::Tables;
use proptest::prelude::*;

use super::result;

/// A satellite network: server, gateway, terminal, client. `proxies` and `flows` are tables of a study.
pub(super) fn network(satellite: &str, proxies: &str, flows: &str) -> String {
    format!(
        r#"
        name = "test"
        time_limit = "20 min"
        nodes = ["server", "gateway", "terminal", "client"]
        [measure]
        series = "100 ms"
        [hosts]
        rmem = ["4 KiB", "128 KiB", "64 MiB"]
        wmem = ["4 KiB", "16 KiB", "64 MiB"]
        [[links]]
        name = "wire"
        between = ["server", "gateway"]
        rate = "1 Gbit/s"
        delay = "10 ms"
        [[links]]
        name = "satellite"
        between = ["gateway", "terminal"]
        {satellite}
        [[links]]
        name = "lan"
        between = ["terminal", "client"]
        rate = "1 Gbit/s"
        delay = "1 ms"
        {proxies}
        {flows}
        "#
    )
}

pub(super) const GEO: &str = "rate = \"20 Mbit/s\"\ndelay = \"250 ms\"\nqueue = \"2 MB\"";

pub(super) fn gateway(lines: &str) -> String {
    proxy("gateway", ["wire", "satellite"], lines)
}

pub(super) fn terminal(lines: &str) -> String {
    proxy("terminal", ["satellite", "lan"], lines)
}

fn proxy(node: &str, links: [&str; 2], lines: &str) -> String {
    let sides = links.map(|link| format!("[proxies.sides.{link}]\ncc = \"cubic\"\n"));
    format!("[[proxies]]\nname = \"{node}\"\nnode = \"{node}\"\n{lines}\n{}", sides.concat())
}

pub(super) fn download(lines: &str) -> String {
    format!("[[flows]]\nname = \"download\"\nfrom = \"server\"\nto = \"client\"\n{lines}\n")
}

/// Leg, completed and received bytes of each row of `flows`.
fn ends(tables: &Tables) -> Vec<(Option<u32>, &str, u64)> {
    let flows = &tables.flows;
    let rows = flows.leg.iter().zip(&flows.outcome).zip(&flows.received_bytes);
    rows.map(|((leg, outcome), bytes)| (*leg, &**outcome, *bytes)).collect()
}

#[test]
fn each_leg_carries_every_byte_and_has_its_own_rows() {
    let tables = result(&network(GEO, &(gateway("") + &terminal("")), &download("size = \"5 MB\""))).tables;
    let legs = [None, Some(1), Some(2), Some(3)];
    assert_eq!(ends(&tables), legs.map(|leg| (leg, "completed", 5_000_000)));
    let flows = &tables.flows;
    let nodes: Vec<_> = flows.from_node.iter().zip(&flows.to_node).map(|(from, to)| (&**from, &**to)).collect();
    let hops = [("server", "gateway"), ("gateway", "terminal"), ("terminal", "client")];
    assert_eq!(nodes, [[("server", "client")].as_slice(), &hops].concat());
    assert_eq!(flows.rtt_mean_ms[0], None, "no end-to-end round trip is measured");
    let rtt: Vec<f64> = flows.rtt_min_ms[1..].iter().map(|rtt| rtt.unwrap_or_default()).collect();
    assert!(
        (20.0..21.0).contains(&rtt[0]) && (500.0..502.0).contains(&rtt[1]) && (2.0..3.0).contains(&rtt[2]),
        "{rtt:?}"
    );
    let series = tables.series.leg.iter().flatten().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(series.len(), 3);
    // The FIN of the first leg is acknowledged long before the flow ends.
    assert_eq!(tables.series.acked_bytes.iter().max(), Some(&5_000_000));
}

#[test]
fn the_rows_of_legs_stop_at_the_end_of_their_flow_whatever_the_interval_of_the_series() {
    // Cut off while sending; and ended before the forwarded SYN has left the second proxy.
    for (flow, limit) in
        [("size = \"50 MB\"", "5 s"), ("duration = \"500 ms\"", "1 min"), ("size = \"1 MB\"", "520 ms")]
    {
        let text = network(GEO, &(gateway("") + &terminal("")), &download(flow)).replace("20 min", limit);
        let flows =
            |series: &str| result(&text.replace("series = \"100 ms\"", &format!("series = \"{series}\""))).tables.flows;
        let off = flows("off");
        let ends = off.start_s.iter().zip(&off.duration_s).map(|(start, duration)| start + duration);
        assert!(ends.clone().all(|end| end <= 5.0), "{:?}", ends.collect::<Vec<_>>());
        for series in ["1 s", "100 ms", "3 ms"] {
            assert_eq!(flows(series), off, "{series}, {flow}");
        }
    }
}

#[test]
fn the_sender_of_a_split_flow_stops_at_its_end_and_leaves_the_link_to_later_flows() {
    let later = download("size = \"5 MB\"\nstart = \"60 s\"");
    let before = download("duration = \"5 s\"").replace("\"download\"", "\"before\"");
    let [alone, after] = [String::new(), before].map(|before| {
        let flows = result(&network(GEO, &gateway(""), &(before + &later))).tables.flows;
        let last = flows.flow.iter().zip(&flows.leg).rposition(|(flow, leg)| (&**flow, *leg) == ("download", None));
        flows.duration_s[last.expect("the flow has a row")]
    });
    assert!((after - alone).abs() < 0.001 * alone, "{after} s after another flow, {alone} s alone");
}

#[test]
fn a_split_avoids_slow_start_over_the_whole_path() {
    let short = download("size = \"1 MB\"");
    let direct = result(&network(GEO, "", &short)).tables.flows.duration_s[0];
    let split = result(&network(GEO, &gateway("handshake = \"accept-first\""), &short)).tables.flows.duration_s[0];
    assert!(split < direct, "{split} s split, {direct} s direct");
}

#[test]
fn held_data_stay_within_buffer_and_memory_and_the_window_closes() {
    // The terminal's user link is slower than the satellite, so bytes accumulate in front of it.
    let slow = GEO.replace("20 Mbit/s", "2 Mbit/s");
    let proxies = gateway("buffer = \"100 kB\"\nmemory = \"150 kB\"\n");
    let flows = download("size = \"2 MB\"\ncount = 3");
    let tables = result(&network(&slow, &proxies, &flows)).tables;
    let held = tables.proxies.held_max_bytes.iter().max().copied().unwrap_or_default();
    assert!((100_001..=150_000).contains(&held), "{held} B");
    assert!(tables.flows.completed.iter().all(|completed| *completed));
    let unread = tables.proxies.unread_bytes.iter().max().copied().unwrap_or_default();
    assert!(unread > 0, "a closed window leaves bytes unread");
}

#[test]
fn connect_first_answers_the_client_once_the_server_has_answered() {
    let short = download("size = \"100 kB\"");
    let handshake = |lines: &str| {
        let tables = result(&network(GEO, &gateway(lines), &short)).tables;
        (tables.flows.handshake_ms[0].unwrap_or_default(), tables.flows.completed[0])
    };
    let (accept, _) = handshake("handshake = \"accept-first\"");
    let (connect, completed) = handshake("handshake = \"connect-first\"");
    assert!(completed);
    assert!((connect - accept - 20.0).abs() < 0.5, "{accept} ms and {connect} ms");
}

#[test]
fn over_a_dead_link_accept_first_resets_and_connect_first_times_out() {
    // The server is unreachable.
    let dead = |handshake: &str| {
        let text = network(GEO, &gateway(&format!("handshake = \"{handshake}\"")), &download("size = \"1 MB\""));
        let text = text.replacen("delay = \"10 ms\"", "delay = \"10 ms\"\nloss = \"100 %\"", 1);
        let tables = result(&text).tables;
        tables.flows.outcome[0].to_string()
    };
    assert_eq!(dead("accept-first"), "reset");
    assert_eq!(dead("connect-first"), "timed_out");
}

#[test]
fn requests_and_their_responses_pass_in_turn() {
    let flows = download("kind = \"request\"\nrequest = \"400 B\"\nresponse = \"30 kB\"\nrepeat = 5");
    let tables = result(&network(GEO, &(gateway("") + &terminal("")), &flows)).tables;
    assert_eq!(tables.exchanges.duration_ms.len(), 5);
    assert!(tables.exchanges.duration_ms.iter().all(Option::is_some));
    assert!(tables.flows.completed[0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_with_any_buffers_losses_and_ends(
        (kilobytes, buffers, loss) in (1_u64..600, [1_u64..200_000, 1_u64..200_000], 0_u32..30),
        (connect, upload, memory, seed) in (any::<bool>(), any::<bool>(), 1_u64..300_000, 0_u32..1000),
    ) {
        let handshake = if connect { "connect-first" } else { "accept-first" };
        let lines = |buffer: u64| format!("handshake = \"{handshake}\"\nbuffer = \"{buffer} B\"\nmemory = \"{memory} B\"");
        // Buffers of a few bytes make packets of a few bytes.
        let bytes = (kilobytes * 1000).min(buffers[0].min(buffers[1]).min(memory) * 200);
        let opened_by = if upload { "sender" } else { "receiver" };
        let flows = download(&format!("size = \"{bytes} B\"\nopened_by = \"{opened_by}\"\ncount = 2"));
        let satellite = format!("rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"60 kB\"\nloss = \"0.{loss:02} %\"");
        let proxies = gateway(&lines(buffers[0])) + &terminal(&lines(buffers[1]));
        let text = network(&satellite, &proxies, &flows).replacen("name = \"test\"", &format!("name = \"test\"\nseed = {seed}"), 1);
        let tables = result(&text).tables;
        for (leg, outcome, received) in ends(&tables) {
            prop_assert_eq!((outcome, received), ("completed", bytes), "leg {:?} of {}", leg, text);
        }
        for (held, proxy) in tables.proxies.held_max_bytes.iter().zip(&tables.proxies.proxy) {
            let buffer = if &**proxy == "gateway" { buffers[0] } else { buffers[1] };
            prop_assert!(*held <= memory.min(4 * buffer), "{} B", held);
        }
    }
}

#[test]
fn a_leg_says_what_limits_it_and_a_proxy_s_buffer_counts_as_the_send_buffer_of_the_next() {
    let tables = result(&network(GEO, &gateway("buffer = \"500 kB\""), &download("duration = \"20 s\""))).tables;
    let flows = &tables.flows;
    assert_eq!((flows.busy_s[0], flows.app_limited_s[0]), (None, None), "the whole flow has no sender of its own");
    let share = |column: &[Option<f64>], row: usize| column[row].expect("a time") / flows.duration_s[row];
    assert!(share(&flows.rwnd_limited_s, 1) > 0.8, "the proxy reads no faster than the satellite takes it");
    assert!(share(&flows.sndbuf_limited_s, 2) > 0.7, "{:?}", flows.sndbuf_limited_s);
    assert!(share(&flows.app_limited_s, 2) < 0.1, "{:?}", flows.app_limited_s);
}

#[test]
fn memory_of_a_connection_that_fails_wakes_those_that_wait_for_it() {
    let link = |name: &str, to: &str, lines: &str| {
        format!("[[links]]\nname = \"{name}\"\nbetween = [\"gate\", \"{to}\"]\ndelay = \"20 ms\"\n{lines}\n")
    };
    let dark = "timeline = [\"time_s, rate_mbps\", \"0, 10\", \"0.5, 0\", \"10000, 10\"]";
    let links =
        ["server", "dark", "light"].map(|to| link(to, to, if to == "dark" { dark } else { "rate = \"10 Mbit/s\"" }));
    let flow = |name: &str, lines: &str| {
        format!("[[flows]]\nname = \"{name}\"\nfrom = \"server\"\nto = \"{name}\"\n{lines}\n")
    };
    let sides = ["server", "dark", "light"].map(|link| format!("[proxies.sides.{link}]\ncc = \"cubic\"\n"));
    let text = [
        "name = \"test\"\ntime_limit = \"30 s\"\nnodes = [\"server\", \"gate\", \"dark\", \"light\"]\n[hosts]\nretries2 = 2\n",
        &links.concat(),
        &flow("dark", "size = \"5 MB\""),
        &flow("light", "size = \"100 kB\"\nstart = \"1 s\""),
        "[[proxies]]\nname = \"gate\"\nnode = \"gate\"\nmemory = \"50 kB\"\n",
        &sides.concat(),
    ]
    .concat();
    let flows = result(&text).tables.flows;
    let received: Vec<_> =
        (0..flows.flow.len()).filter(|row| flows.leg[*row].is_none()).map(|row| flows.received_bytes[row]).collect();
    assert_eq!(received.last(), Some(&100_000), "{received:?}");
}
