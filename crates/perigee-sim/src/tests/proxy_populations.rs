//! Page loads, users of the web and transactions through proxies: round trips that a split saves, bytes of each leg, and slots that are
//! used again.

use perigee_results::Tables;
use proptest::prelude::*;

use super::proxies::{gateway, network, terminal, GEO};
use super::{carry_out, plan, result};
use crate::carriage::Carriage;

/// A geostationary link whose rate costs no time; its round trip from end to end is 522 ms.
const FREE: &str = "rate = \"10 Gbit/s\"\ndelay = \"250 ms\"";
/// Round trip of the whole path.
const PATH_MS: f64 = 522.0;
/// Round trip of the wire before the gateway.
const WIRE_MS: f64 = 20.0;

fn pages(lines: &str) -> String {
    format!("[[flows]]\nname = \"pages\"\nkind = \"pages\"\nfrom = \"server\"\nto = \"client\"\nservice = \"0 s\"\n{lines}\n")
}

/// Time of the first document, ms.
fn document_ms(proxies: &str, lines: &str) -> f64 {
    let text = network(FREE, proxies, &pages(&format!("duration = \"10 s\"\npause = \"1 min\"\n{lines}")));
    result(&text).tables.pages.document_ms[0].expect("the document arrives")
}

/// Whether two times differ by less than the packets take on the wires, ms.
fn are_close(a: f64, b: f64) -> bool {
    (a - b).abs() < 2.0
}

#[test]
fn a_split_with_a_large_initial_window_saves_the_round_trips_of_slow_start_and_none_of_the_handshakes() {
    // 42 segments take three windows of 10, 20 and 40: two round trips more than one window.
    let large =
        gateway("").replace("satellite]\ncc = \"cubic\"", "satellite]\ncc = \"cubic\"\ntcp = { initial_window = 64 }");
    for tls in [0, 1, 2] {
        let page = format!("tls = {tls}\nresponses = [\"60 kB\"]");
        // A round trip for TCP, those of TLS, which reach the server, and one for the request.
        let opening = PATH_MS * f64::from(2 + tls);
        let direct = document_ms("", &page);
        assert!(are_close(direct, opening + 2.0 * PATH_MS), "{direct} ms direct, tls = {tls}");
        for handshake in ["accept-first", "connect-first"] {
            let proxy = large.replacen("name", &format!("handshake = \"{handshake}\"\nname"), 1);
            let split = document_ms(&proxy, &page);
            assert!(are_close(split, opening + 2.0 * WIRE_MS), "{split} ms split, {handshake}, tls = {tls}");
            // With the usual window the satellite leg has its own slow start, over its own round trip.
            let small = document_ms(&proxy.replace("64", "10"), &page);
            assert!(
                are_close(small, opening + 2.0 * (PATH_MS - WIRE_MS)),
                "{small} ms split, {handshake}, tls = {tls}"
            );
        }
    }
}

#[test]
fn each_leg_carries_the_bytes_of_all_connections_and_has_its_own_rows() {
    let page = pages("page = \"small\"\ntls = 2\nduration = \"30 s\"\npause = \"1 min\"");
    let lossy = GEO.replace("queue", "loss = \"1 %\"\nqueue");
    let Tables { flows, pages, series, exchanges, .. } =
        result(&network(&lossy, &(gateway("") + &terminal("")), &page)).tables;
    assert_eq!((pages.arrived_objects[0], exchanges.number.len()), (pages.objects[0], 13));
    assert_eq!(flows.leg, [None, Some(1), Some(2), Some(3)]);
    assert_eq!(flows.received_bytes, [flows.received_bytes[0]; 4], "all connections have closed");
    assert!(flows.received_bytes[0] >= pages.bytes[0] + 8_000, "the page, and the handshakes of TLS");
    assert_eq!((flows.sent_packets[0], flows.rto_count[0], flows.rtt_mean_ms[0]), (None, None, None));
    let retransmitted: Vec<_> = flows.retransmitted_packets[1..].iter().map(|packets| packets.unwrap_or(0)).collect();
    assert!(retransmitted[0] == 0 && retransmitted[1] > 0 && retransmitted[2] == 0, "{retransmitted:?}");
    let rtt: Vec<f64> = flows.rtt_min_ms[1..].iter().map(|rtt| rtt.unwrap_or_default()).collect();
    assert!((rtt[0] - 20.0).abs() < 1.0 && (rtt[1] - 500.0).abs() < 2.0 && (rtt[2] - 2.0).abs() < 1.0, "{rtt:?}");
    let of_legs = series.leg.iter().flatten().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(of_legs.len(), 3);
}

#[test]
fn a_proxy_holds_nothing_once_the_connections_of_a_population_are_gone() {
    let users = "[[flows]]\nname = \"web\"\nkind = \"web\"\nfrom = \"server\"\nto = \"client\"\n\
        connections_per_s = 5\nduration = \"10 s\"\n";
    let ping = "[[flows]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"server\"\nto = \"client\"\n\
        interval = \"1 s\"\nrepeat = 30\npacket = \"64 B\"\n";
    let proxies = result(&network(GEO, &gateway(""), &(users.to_owned() + ping))).tables.proxies;
    let (held, open) = (&proxies.held_bytes, &proxies.connections);
    assert!(held.iter().any(|bytes| *bytes > 0) && open.iter().any(|connections| *connections > 5));
    assert_eq!((held.last(), open.last()), (Some(&0), Some(&0)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn populations_load_all_of_it_through_any_proxies_however_packets_are_carried(
        (buffers, memory) in ([20_000_u64..200_000, 20_000_u64..200_000], 40_000_u64..300_000),
        (connect, loss, access_ms, seed) in (any::<bool>(), 0_u32..20, 0_u32..30, 0_u32..1000),
        http in prop::sample::select(&["h2", "http/1.1"][..]),
    ) {
        let handshake = if connect { "connect-first" } else { "accept-first" };
        let lines = |buffer: u64| format!("handshake = \"{handshake}\"\nbuffer = \"{buffer} B\"\nmemory = \"{memory} B\"");
        let satellite = format!("rate = \"10 Mbit/s\"\ndelay = \"50 ms\"\nqueue = \"60 kB\"\nloss = \"0.{loss:02} %\"");
        let users = format!(
            "[[flows]]\nname = \"users\"\nkind = \"transactions\"\nfrom = \"server\"\nto = \"client\"\n\
                interval = \"300 ms\"\nrequest = \"300 B\"\nresponses = [\"1 kB\", \"40 kB\"]\nduration = \"20 s\"\n\
                access_least = \"{access_ms} ms\"\n"
        );
        let flows = pages(&format!("page = \"small\"\nduration = \"50 s\"\npause = \"1 s\"\nprotocol = \"{http}\"")) + &users;
        let text = network(&satellite, &(gateway(&lines(buffers[0])) + &terminal(&lines(buffers[1]))), &flows)
            .replacen("name = \"test\"", &format!("name = \"test\"\nseed = {seed}"), 1);
        let run = plan(&text);
        let carried = |carriage: Carriage| carry_out(&run, carriage).expect("the run succeeds").tables;
        let tables = carried(Carriage::default());
        prop_assert_eq!(&tables, &carried(Carriage::PLAIN), "without fast paths: {}", text);
        let loads = tables.pages.load_ms.len();
        prop_assert!(loads > 5, "{} loads of {}", loads, text);
        prop_assert!(tables.pages.load_ms[..loads - 1].iter().all(Option::is_some), "{}", text);
        prop_assert!(tables.responses.failed.iter().all(|failed| *failed == 0), "{}", text);
        prop_assert!(tables.proxies.held_max_bytes.iter().all(|held| *held <= memory), "{}", text);
        let legs = |name: &str| -> Vec<u64> {
            let rows = (0..tables.flows.flow.len()).filter(|row| &*tables.flows.flow[*row] == name);
            rows.map(|row| tables.flows.received_bytes[row]).collect()
        };
        for name in ["pages", "users"] {
            let bytes = legs(name);
            prop_assert_eq!(bytes[0], bytes[3]);
            prop_assert!(bytes[1..].is_sorted_by(|before, behind| before >= behind), "{:?} of {}", bytes, text);
        }
    }
}
