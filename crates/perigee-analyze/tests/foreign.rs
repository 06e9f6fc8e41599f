//! Captures as tunnels, hosts and taps of others leave them: one transfer of 48 segments of 1400 B over a round trip of
//! 600 ms, of which three are lost and sent again.

use std::path::Path;

use crate::common::of_bytes;
use perigee_analyze::Analysis;

fn of_corpus(name: &str) -> Analysis {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/capture").join(name);
    of_bytes(&std::fs::read(path).expect("the corpus has it")).expect("a capture")
}

/// Payload received, packets sent, and sent again.
fn figures(found: &Analysis) -> (u64, Option<u64>, Option<u64>) {
    let flows = &found.tables.flows;
    (flows.received_bytes[0], flows.sent_packets[0], flows.retransmitted_packets[0])
}

#[test]
fn the_flow_inside_of_a_tunnel_is_measured() {
    let found = of_corpus("vxlan");
    assert_eq!(figures(&found), (67_200, Some(51), Some(3)));
    assert_eq!(
        (found.udp, found.counts.tunnelled.values().sum(), found.counts.tunnelled_cut_off),
        (0, found.counts.frames, 0)
    );
}

#[test]
fn fragments_are_put_together() {
    let found = of_corpus("fragments");
    assert_eq!(figures(&found), (67_200, Some(51), Some(3)));
    let counts = &found.counts;
    assert_eq!((counts.fragments, counts.joined_fragments), (102, 102));
}

#[test]
fn packets_beyond_64_kib_have_the_length_of_their_jumbo_option() {
    let found = of_corpus("big-tcp");
    assert_eq!(figures(&found), (168_000, Some(123), Some(3)));
    assert_eq!(found.captured.connections.unseen_packets[0], Some(0));
}

#[test]
fn acknowledgements_alone_tell_what_arrived_and_nothing_else_is_known() {
    let found = of_corpus("acknowledgements-only");
    assert_eq!(figures(&found), (67_200, None, None));
    assert_eq!((found.one_way, found.unseen_flows), (1, 1));
    let (flows, seen) = (&found.tables.flows, &found.captured.connections);
    assert!((2.0..2.5).contains(&flows.duration_s[0]), "{}", flows.duration_s[0]);
    assert!(flows.goodput_mbps[0].is_some_and(|mbps| (0.2..0.3).contains(&mbps)), "{:?}", flows.goodput_mbps[0]);
    assert_eq!((flows.rtt_mean_ms[0], flows.handshake_ms[0], &*flows.outcome[0]), (None, None, "stopped"));
    assert_eq!((&*seen.side[0], seen.timeouts[0], seen.inflight_max_bytes[0]), ("unknown", None, None));
    assert_eq!((seen.loss_events[0], seen.reordered_packets[0], seen.unseen_packets[0]), (None, None, None));
    let series = &found.tables.series;
    assert_eq!(series.acked_bytes.last(), Some(&67_200));
    assert!(series.sent_packets.iter().all(Option::is_none) && series.inflight_packets.iter().all(Option::is_none));
}
