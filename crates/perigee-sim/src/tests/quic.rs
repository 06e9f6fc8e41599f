//! Flows over QUIC: what they carry, how they open, what holds them back, and what their rows say where something is wrong.

use std::ops::ControlFlow;

use perigee_results::Tables;

use super::{carry_out, plan, result, through_router};
use crate::carriage::Carriage;
use crate::SimError;

/// A download over QUIC with these keys of the flow, over a link with these.
fn download(link: &str, keys: &str) -> String {
    let flow = format!("[[flows]]\nname = \"d\"\nfrom = \"a\"\nto = \"b\"\ntransport = \"quic\"\n{keys}\n");
    through_router(link, &flow)
}

fn tables(link: &str, keys: &str) -> Tables {
    result(&download(link, keys)).tables
}

const LINK: &str = "rate = \"20 Mbit/s\"\ndelay = \"19 ms\"\nqueue = \"100 kB\"";

#[test]
fn a_download_beside_one_over_tcp_is_the_same_however_packets_are_carried() {
    let mut text = download(LINK, "size = \"5 MB\"");
    text += "[[flows]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\nsize = \"5 MB\"\n[measure]\nseries = \"500 ms\"\n";
    let run = plan(&text);
    let [fast, again, plain] = [Carriage::default(), Carriage::default(), Carriage::PLAIN]
        .map(|carriage| carry_out(&run, carriage).expect("the run keeps the laws").tables);
    assert_eq!(fast, again);
    assert_eq!(fast, plain);
    let flows = &fast.flows;
    assert_eq!((&*flows.outcome[0], &*flows.outcome[1]), ("completed", "completed"));
    assert_eq!(flows.received_bytes, [5_000_000; 2]);
    assert!(flows.lost_packets[0] > Some(0), "they share a queue: {:?}", flows.lost_packets[0]);
    // Together they fill the link.
    let mbps = flows.goodput_mbps.iter().map(|goodput| goodput.expect("a rate")).collect::<Vec<_>>();
    assert!(mbps.iter().all(|rate| (5.0..15.0).contains(rate)), "{mbps:?}");
}

#[test]
fn the_default_window_of_a_stream_holds_a_geo_download() {
    let geo = "rate = \"50 Mbit/s\"\ndelay = \"299 ms\"\nqueue = \"4 MB\"";
    let [default, tuned] = ["default", "tuned"].map(|window| {
        tables(geo, &format!("size = \"40 MB\"\nquic = {{ initial_max_stream_data = \"{window}\" }}")).flows
    });
    // At most a window in a round trip, 1.25 MB in 600 ms; less, since the receiver renews it by eighths.
    let held = default.goodput_mbps[0].expect("a rate");
    assert!((11.0..16.7).contains(&held), "{held} Mbit/s");
    assert_eq!((&*default.limited_by[0], default.lost_packets[0]), ("flow_control", Some(0)));
    assert!(default.rwnd_limited_s[0] > Some(10.0), "{:?}", default.rwnd_limited_s[0]);
    let free = tuned.goodput_mbps[0].expect("a rate");
    assert!(free > 1.8 * held && &*tuned.limited_by[0] != "flow_control", "{free} Mbit/s, {}", tuned.limited_by[0]);
}

#[test]
fn a_handshake_takes_a_round_trip_or_none_and_a_retry_one_more() {
    let free = "rate = \"100 Mbit/s\"\ndelay = \"299 ms\"";
    let open = |keys: &str| {
        let flows = tables(free, &format!("size = \"1 kB\"\n{keys}")).flows;
        (
            flows.handshake[0].to_string(),
            (flows.duration_s[0] / 0.6).round() as u32,
            flows.handshake_ms[0].expect("a time"),
        )
    };
    let is_one = |ms: f64| (600.0..625.0).contains(&ms);
    // The request leaves with the handshake's last packets, and the response is here a round trip later.
    let (word, trips, ms) = open("");
    assert_eq!((word.as_str(), trips, is_one(ms)), ("1-rtt", 2, true), "{ms} ms");
    assert_eq!(open("quic = { handshake = \"0-rtt\" }").1, 1);
    assert_eq!(open("quic = { handshake = \"0-rtt\" }").0, "0-rtt");
    let rejected = open("quic = { handshake = \"0-rtt-rejected\" }");
    assert_eq!((rejected.0.as_str(), rejected.1), ("0-rtt-rejected", 2));
    let retried = open("quic = { retry = true }");
    assert_eq!((retried.0.as_str(), retried.1, is_one(retried.2 - 600.0)), ("retry, 1-rtt", 3, true));
}

#[test]
fn what_is_wrong_with_a_connection_ends_it_with_a_row_that_names_the_cause() {
    let size = "size = \"300 kB\"";
    for (link, keys, outcome, cause) in [
        ("loss = \"100 %\"", "", "timed_out", "no_answer"),
        ("", "server_version = \"draft-29\"", "refused", "version"),
        // Short packets pass and keep the connection, which waits for the others for ever.
        ("mtu = \"1400 B\"", "", "time_limit", "mtu"),
        ("ecn = \"bleach\"", "ecn = true", "completed", "ecn_bleached"),
        ("", "handshake = \"0-rtt-rejected\"", "completed", "0-rtt-rejected"),
        ("", "", "completed", ""),
    ] {
        let link = format!("{LINK}\n{link}");
        let text = download(&link, &format!("{size}\nquic = {{ {keys} }}"));
        let tables = result(&text.replace("nodes =", "time_limit = \"50 s\"\nnodes =")).tables;
        let flows = &tables.flows;
        assert_eq!((&*flows.outcome[0], &*flows.cause[0]), (outcome, cause), "{link} {keys}");
        assert_eq!(flows.received_bytes[0] == 300_000, outcome == "completed");
    }
}

#[test]
fn requests_and_videos_have_their_rows_with_one_stream_and_with_one_a_response() {
    let request = "kind = \"request\"\nrequest = \"300 B\"\nresponse = \"50 kB\"\nrepeat = 4";
    for (streams, opened) in [("one", 1), ("per-response", 4)] {
        let tables = tables(LINK, &format!("{request}\nquic = {{ streams = \"{streams}\" }}"));
        assert_eq!((&*tables.flows.outcome[0], tables.flows.streams[0]), ("completed", Some(opened)));
        assert_eq!(tables.exchanges.duration_ms.iter().flatten().count(), 4);
        // A round trip of 40 ms and 50 kB at 20 Mbit/s; the first ones grow the window.
        assert!(tables.exchanges.duration_ms[3] < Some(70.0), "{:?}", tables.exchanges.duration_ms);
    }
    let video = tables(LINK, "kind = \"video\"\nduration = \"20 s\"");
    assert_eq!((&*video.flows.outcome[0], video.flows.streams[0]), ("completed", Some(5)));
    assert_eq!(video.videos.segments, [5]);
}

#[test]
fn a_page_comes_over_streams_that_do_not_wait_for_each_other() {
    let page =
        "kind = \"pages\"\nresponses = [\"50 kB\", \"150 kB\", \"150 kB\", \"20 kB\", \"5 kB\"]\npause = \"200 ms\"";
    let lossy = LINK.to_owned() + "\nloss = \"2 %\"";
    let load = |streams: &str| {
        let keys = format!("{page}\nduration = \"20 s\"\nquic = {{ streams = \"{streams}\" }}");
        let text = download(&lossy, &keys);
        let run = plan(&text);
        let [fast, plain] =
            [Carriage::default(), Carriage::PLAIN].map(|c| carry_out(&run, c).expect("the laws").tables);
        assert_eq!(fast, plain);
        assert!(fast.pages.load_ms.iter().filter(|load| load.is_some()).count() > 10, "{:?}", fast.pages.load_ms);
        assert_eq!(&*fast.flows.outcome[0], "completed");
        let small = fast.exchanges.response_bytes.iter().zip(&fast.exchanges.duration_ms);
        let small: Vec<f64> = small.filter(|(bytes, _)| **bytes == 5000).filter_map(|(_, ms)| *ms).collect();
        small.iter().sum::<f64>() / small.len() as f64
    };
    let (own, shared) = (load("per-response"), load("one"));
    assert!(own < 0.9 * shared, "a small object takes {own} ms on its own stream, {shared} ms behind the others");
}

#[test]
fn the_states_of_a_congestion_control_over_quic_are_logged_with_its_own_values() {
    let text = download(LINK, "size = \"3 MB\"\ncc = \"bbr3\"")
        .replace("[[flows]]", "[measure]\nstates = \"changes\"\n[[flows]]");
    let states = result(&text).tables.states;
    let further = perigee_results::Table::further(&states);
    let (_, _, modes) = further.iter().find(|(name, ..)| *name == "state").expect("bbr3 tells its state");
    let modes = format!("{modes:?}");
    assert!(["startup", "drain", "probe_bw"].iter().all(|mode| modes.to_lowercase().contains(mode)), "{modes}");
}

#[test]
fn a_run_is_cancelled_amid_a_transfer_and_leaves_nothing_to_the_next_one() {
    let run = plan(&download(LINK, "size = \"20 MB\""));
    let whole = carry_out(&run, Carriage::default()).expect("the laws").tables;
    let mut received = 0;
    let cancelled = crate::run(&run, &mut |standing| {
        received = standing.received[0];
        if received > 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(cancelled.err(), Some(SimError::Cancelled));
    assert!((1..20_000_000).contains(&received), "{received} B");
    assert_eq!(carry_out(&run, Carriage::default()).expect("the laws").tables, whole);
}

/// The laws at the end of each run say that no datagram is kept that no flow waits for, and no timer is missed.
#[test]
fn the_time_limit_cuts_transfers_and_pages_off_with_datagrams_on_the_way() {
    let pages = "kind = \"pages\"\nresponses = [\"50 kB\", \"150 kB\"]\npause = \"200 ms\"\nduration = \"1 h\"";
    for (keys, limit) in [("size = \"100 MB\"", "1 s"), (pages, "2500 ms"), ("size = \"1 MB\"", "30 ms")] {
        let text = download(LINK, keys).replace("nodes =", &format!("time_limit = \"{limit}\"\nnodes ="));
        let run = plan(&text);
        let [fast, plain] =
            [Carriage::default(), Carriage::PLAIN].map(|c| carry_out(&run, c).expect("the laws").tables);
        assert_eq!(fast, plain);
        let flows = &fast.flows;
        assert_eq!(&*flows.outcome[0], "time_limit", "{keys}");
        // The handshake takes 40 ms.
        assert_eq!(
            (flows.received_bytes[0] > 0, flows.handshake_ms[0].is_some()),
            (limit != "30 ms", limit != "30 ms")
        );
    }
}

#[test]
fn a_flow_over_tcp_has_stalled_once_one_over_quic_has_timed_out_on_the_same_dead_path() {
    // The receiver opens TCP's connection, and waits for ever: the end of its handshake is lost. A client of QUIC has timers.
    let dead = "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\n\
                up.loss = { kind = \"periodic\", period = \"720 h\", phase = \"30 ms\", length = \"700 h\" }";
    let flow = |name: &str, transport: &str| {
        format!("[[flows]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nsize = \"100 kB\"\n{transport}\n")
    };
    let flows = flow("t", "") + &flow("q", "transport = \"quic\"\nquic = { max_idle_timeout = \"90 s\" }");
    let text = through_router(dead, &flows).replace("nodes =", "time_limit = \"600 h\"\nnodes =");
    let tables = result(&text).tables;
    let flows = &tables.flows;
    assert_eq!((&*flows.outcome[0], &*flows.outcome[1]), ("stalled", "timed_out"));
    assert!(flows.duration_s.iter().all(|s| (60.0..200.0).contains(s)), "{:?}", flows.duration_s);
}
