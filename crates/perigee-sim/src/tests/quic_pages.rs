//! Ends of connections over QUIC: of pages, which have several, and of uploads that never get on.

use super::{carry_out, plan, through_router};
use crate::carriage::Carriage;
use perigee_results::Tables;

fn pages(keys: &str, time_limit: &str) -> Tables {
    let flow = "[[flows]]\nname = \"p\"\nkind = \"pages\"\nfrom = \"a\"\nto = \"b\"\nduration = \"20 s\"\n";
    let link = "rate = \"10 Mbit/s\"\ndelay = \"299 ms\"\n";
    let text = through_router(link, &format!("{flow}{keys}"));
    let text = text.replace("nodes =", &format!("time_limit = \"{time_limit}\"\nnodes ="));
    carry_out(&plan(&text), Carriage::default()).unwrap_or_else(|error| panic!("{error}")).tables
}

#[test]
fn pages_that_outlast_the_time_limit_are_cut_off() {
    for transport in ["tcp", "quic"] {
        let flows = pages(&format!("transport = \"{transport}\""), "5 s").flows;
        assert_eq!((&*flows.outcome[0], flows.duration_s[0]), ("time_limit", 5.0), "{transport}");
    }
}

#[test]
fn limits_of_several_connections_are_empty() {
    let flows = pages("transport = \"quic\"\nquic = { initial_max_stream_data = \"1 kB\" }", "60 s").flows;
    assert!(flows.streams[0] > Some(3), "{:?}", flows.streams[0]);
    assert_eq!((flows.busy_s[0], flows.rwnd_limited_s[0], flows.app_limited_s[0]), (None, None, None));
    assert_eq!(&*flows.limited_by[0], "");
}

/// Datagrams of the pages' servers are counted once, also of connections that close after the flow's end, while another flow goes on.
#[test]
fn connections_that_are_open_at_the_end_count_once() {
    let beside = "[[flows]]\nname = \"late\"\nfrom = \"r\"\nto = \"b\"\nsize = \"1 kB\"\nstart = \"45 s\"\n";
    let keys = "transport = \"quic\"\nresponses = [\"100 kB\"]\npause = \"10 ms\"\n";
    let tables = pages(&(keys.to_owned() + beside), "60 s");
    let sent = tables.flows.sent_packets[0].expect("a count");
    let links = &tables.links;
    let of_server = links.link.iter().zip(&links.offered_packets).filter(|(link, _)| &***link == "access.down");
    let offered: u64 = of_server.map(|(_, packets)| packets).sum();
    assert!((1..=offered).contains(&sent), "{sent} of the flow, {offered} over its link");
}

#[test]
fn an_upload_that_times_out_after_early_data_names_its_cause() {
    let flow = "[[flows]]\nname = \"u\"\nfrom = \"a\"\nto = \"b\"\nsize = \"50 kB\"\nopened_by = \"sender\"\n\
                transport = \"quic\"\nquic.handshake = \"0-rtt\"\n";
    let text = through_router("rate = \"10 Mbit/s\"\ndelay = \"19 ms\"\nloss = \"20 %\"", flow);
    let seeded = |seed: u32| text.replace("nodes =", &format!("seed = {seed}\nnodes ="));
    let ends =
        (1..=20).map(|seed| carry_out(&plan(&seeded(seed)), Carriage::default()).expect("the laws").tables.flows);
    let failed: Vec<_> = ends.filter(|flows| &*flows.outcome[0] == "timed_out").collect();
    let causes: Vec<&str> = failed.iter().map(|flows| &*flows.cause[0]).collect();
    assert!(causes.contains(&"handshake") && !causes.contains(&""), "{causes:?}");
}
