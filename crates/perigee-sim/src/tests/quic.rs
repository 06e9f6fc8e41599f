//! Flows over QUIC: what they carry, how they open, what holds them back, and what their rows say where something is wrong.

use perigee_results::Tables;

use super::{carry_out, plan, result, through_router};
use crate::carriage::Carriage;

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
