//! Laws of page loads.

use super::{result, through_router};
use perigee_results::Tables;

/// A browser behind this bottleneck.
fn loaded(bottleneck: &str, keys: &str) -> Tables {
    let service = if keys.contains("service") { "" } else { "service = \"0 s\"\n" };
    let flow = format!("[[flows]]\nname = \"p\"\nkind = \"pages\"\nfrom = \"a\"\nto = \"b\"\n{service}{keys}");
    result(&through_router(bottleneck, &flow)).tables
}

/// A link with 50 ms and an unlimited rate.
const FREE: &str = "rate = \"unlimited\"\ndelay = \"50 ms\"";
/// The round trip including the link to the router.
const ROUND_TRIP_MS: f64 = 102.0;

#[test]
fn a_document_takes_the_round_trips_of_its_handshakes_and_of_slow_start() {
    // 18 KiB are 13 segments, and the initial window is 10; the 3 segments of the server's handshake do not fill it, so it stays the same.
    for (tls, round_trips) in [(0, 3.0), (1, 4.0), (2, 5.0)] {
        for http in ["http/1.1", "h2"] {
            let tables =
                loaded(FREE, &format!("page = \"small\"\ntls = {tls}\nprotocol = \"{http}\"\nduration = \"20 s\""));
            let document = tables.pages.document_ms[0].expect("the document arrived");
            // In addition, the document's packets take time on the link to the router.
            let beside = document - ROUND_TRIP_MS * round_trips;
            assert!((0.0..1.0).contains(&beside), "tls = {tls}, {http}: {document} ms");
        }
    }
}

#[test]
fn all_objects_of_a_page_arrive_once_and_the_last_one_ends_the_load() {
    for (page, objects) in [("small", 13), ("median", 56), ("heavy", 178)] {
        for http in ["http/1.1", "h2"] {
            let bottleneck = "rate = \"50 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"100 kB\"\nloss = \"0.5 %\"";
            let keys = format!("page = \"{page}\"\nprotocol = \"{http}\"\nduration = \"1 min\"\npause = \"1 min\"");
            let Tables { pages, exchanges, flows, .. } = loaded(bottleneck, &keys);
            assert_eq!((pages.objects[0], pages.arrived_objects[0]), (objects, objects), "{page}, {http}");
            assert_eq!(exchanges.number, (0..objects).collect::<Vec<_>>());
            assert_eq!(exchanges.response_bytes.iter().sum::<u64>(), pages.bytes[0]);
            let end =
                |row: usize| exchanges.start_s[row] * 1e3 + exchanges.duration_ms[row].expect("the response arrived");
            let last = (0..objects as usize).map(end).fold(0.0, f64::max);
            assert!((pages.load_ms[0].expect("the page loaded") - last).abs() < 1e-6, "{page}, {http}");
            // The user received the page, and a handshake of 4 kB for each connection that was ready before its end.
            let handshakes = flows.received_bytes[0] - pages.bytes[0];
            assert_eq!(handshakes % 4000, 0, "{page}, {http}");
            assert!((1..=u64::from(pages.connections[0])).contains(&(handshakes / 4000)), "{page}, {http}");
        }
    }
}

#[test]
fn each_more_serial_round_takes_one_more_round_trip() {
    // Five objects of one segment over one connection: the document, then all others at once.
    let load_ms = |rounds: u32| {
        let keys = format!(
            "responses = [\"1 kB\", \"1 kB\", \"1 kB\", \"1 kB\", \"1 kB\"]\nrounds = {rounds}\nduration = \"20 s\""
        );
        loaded(FREE, &keys).pages.load_ms[0].expect("the page loaded")
    };
    for rounds in 0..=3 {
        let beside = load_ms(rounds) - ROUND_TRIP_MS * f64::from(4 + rounds);
        assert!((0.0..1.0).contains(&beside), "{beside} ms beside the round trips of {rounds} more rounds");
    }
}

#[test]
fn browsers_open_one_connection_to_a_server_or_six() {
    let connections = |http: &str| {
        let keys = format!("page = \"heavy\"\nprotocol = \"{http}\"\nduration = \"1 min\"\npause = \"1 min\"");
        loaded("rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"1 MB\"", &keys).pages.connections[0]
    };
    // Nearly all of the 30 servers of a heavy page serve some of its objects.
    assert!((25..=30).contains(&connections("h2")), "{}", connections("h2"));
    assert!((60..=180).contains(&connections("http/1.1")), "{}", connections("http/1.1"));
}

#[test]
fn a_load_is_no_shorter_than_its_bytes_take_and_the_next_one_follows_after_the_pause() {
    let bottleneck = "rate = \"2 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"200 kB\"";
    let pages = loaded(bottleneck, "page = \"median\"\nduration = \"1 min\"\npause = \"3 s\"").pages;
    assert!(pages.number.len() > 4, "{:?}", pages.number);
    for load in 0..pages.number.len() - 1 {
        let took = pages.load_ms[load].expect("the page loaded");
        assert!(took > pages.bytes[load] as f64 * 8.0 / 2e3, "{took} ms");
        let pause = pages.start_s[load + 1] - pages.start_s[load] - took / 1e3;
        assert!((pause - 3.0).abs() < 1e-6, "{pause} s");
    }
}

#[test]
fn service_time_counts_once_for_each_generation_of_objects() {
    let load = |service: &str| {
        let keys = format!("page = \"small\"\nservice = \"{service}\"\nduration = \"1 min\"\npause = \"1 min\"");
        loaded(FREE, &keys).pages.load_ms[0].expect("the page loaded")
    };
    let generations = (load("1 s") - load("0 s")) / 1e3;
    // The document, the objects it references, and those they reference; an object may reference any of five earlier scripts.
    assert!((2.0..6.0).contains(&generations), "{generations}");
}

#[test]
fn a_listed_page_has_its_objects_at_one_server() {
    let keys =
        "responses = [\"20 kB\", \"3 kB\", \"50 kB\"]\nprotocol = \"http/1.1\"\nduration = \"10 s\"\npause = \"20 s\"";
    let Tables { pages, exchanges, .. } = loaded(FREE, keys);
    assert_eq!((pages.objects[0], pages.bytes[0], pages.connections[0]), (3, 73_000, 2));
    assert_eq!(exchanges.response_bytes, [20_000, 3_000, 50_000]);
}

#[test]
fn a_load_over_a_dead_link_is_abandoned_when_the_flow_ends() {
    let tables = loaded("rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\nloss = \"100 %\"", "duration = \"30 s\"");
    let pages = &tables.pages;
    assert_eq!((pages.arrived_objects[0], pages.document_ms[0], pages.load_ms[0]), (0, None, None));
    assert!(tables.flows.completed[0]);
}

#[test]
fn loads_during_the_warmup_have_no_row() {
    let keys = "page = \"small\"\nduration = \"20 s\"\npause = \"1 s\"";
    let (all, warm) = (loaded(FREE, keys).pages, loaded(FREE, &format!("{keys}\nwarmup = \"5 s\"")).pages);
    let late: Vec<f64> = all.start_s.iter().copied().filter(|start| *start >= 5.0).collect();
    assert!(late.len() < all.start_s.len() && warm.start_s == late, "{:?} {:?}", all.start_s, warm.start_s);
}
