//! Links that do something to the ECN field: what a sender and the queue notice, and the same run by every carriage.

use perigee_results::Tables;

use super::{carry_out, plan, result, through_router};
use crate::carriage::Carriage;

/// A download over a queue that marks where it may, and a link that treats the ECN field so.
fn text(treatment: &str, aqm: &str, cc: &str) -> String {
    through_router(
        &format!(
            "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\necn = \"{treatment}\"\n\
             queue = {{ bytes = \"500 kB\", aqm = {{ kind = \"{aqm}\" }} }}"
        )
        .replace("\"codel\"", "\"codel\", ecn = true")
        .replace("\"pie\"", "\"pie\", ecn = true"),
        &format!(
            "[hosts]\necn = true\n[measure]\nseries = \"100 ms\"\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
             duration = \"20 s\"\ncc = \"{cc}\""
        ),
    )
}

/// Packets that queue management dropped, those sent again, the round trip's median, and the handshake's time, ms.
fn figures(tables: &Tables) -> (u64, u64, f64, f64) {
    (
        tables.links.dropped_aqm_packets.iter().sum(),
        tables.flows.retransmitted_packets[0].unwrap_or(0),
        tables.flows.rtt_p50_ms[0].unwrap_or(f64::NAN),
        tables.flows.handshake_ms[0].unwrap_or(f64::NAN),
    )
}

#[test]
fn the_queue_marks_or_drops_by_what_the_link_lets_it_see_and_marks_may_be_lost() {
    let of = |treatment| figures(&result(&text(treatment, "codel", "reno")).tables);
    let (dropped, again, rtt_ms, handshake_ms) = of("pass");
    assert_eq!((dropped, again), (0, 0), "the queue marks instead");
    assert!(rtt_ms < 90.0 && handshake_ms < 60.0, "{rtt_ms} ms, {handshake_ms} ms");
    for treatment in ["compatibility", "bleach"] {
        let (dropped, again, rtt_ms, _) = of(treatment);
        assert!(dropped > 3 && again >= dropped && rtt_ms < 90.0, "{treatment}: {dropped}, {again}, {rtt_ms} ms");
    }
    // CoDel drops only what it may not mark, retransmissions: it is the end of the queue that stops Reno.
    let (dropped, again, rtt_ms, _) = of("ignore-outer");
    assert!(again > 2 * dropped && rtt_ms > 200.0, "{dropped}, {again}, {rtt_ms} ms");
    let (dropped, again, rtt_ms, handshake_ms) = of("drop");
    assert!(dropped > 3 && again >= dropped && rtt_ms < 90.0, "as without ECN: {dropped}, {again}, {rtt_ms} ms");
    assert!((1_040.0..1_060.0).contains(&handshake_ms), "{handshake_ms} ms: the second SYN asks for nothing");
}

#[test]
fn what_needs_ecn_never_connects_through_a_firewall_that_drops_it() {
    // As in Linux, where the SYN of such an algorithm stays ECT when it is sent again.
    let tables = result(&text("drop", "codel", "dctcp")).tables;
    assert_eq!(tables.flows.handshake_ms, [None]);
    let fallen_back = result(&text("bleach", "codel", "dctcp")).tables;
    assert!(fallen_back.flows.goodput_mbps[0] > Some(8.0));
}

#[test]
fn every_carriage_gives_the_same_tables_over_each_treatment() {
    for treatment in ["compatibility", "ignore-outer", "bleach", "drop"] {
        for (aqm, cc) in [("codel", "cubic"), ("dualpi2", "reno"), ("pie", "bbr"), ("fq-codel", "dctcp")] {
            let run = plan(&text(treatment, aqm, cc).replace("duration = \"20 s\"", "duration = \"5 s\""));
            let stored = Carriage { links_store_packets: true, ..Carriage::default() };
            let by_hop = Carriage { cut_through: false, ..Carriage::default() };
            let [ours, stored, by_hop, plain] = [Carriage::default(), stored, by_hop, Carriage::PLAIN]
                .map(|carriage| carry_out(&run, carriage).expect("the run succeeds").tables);
            assert!(ours == stored && ours == by_hop && ours == plain, "{treatment}, {aqm}");
        }
    }
}

#[test]
fn every_carriage_gives_the_same_tables_to_receivers_that_cheat() {
    for receiver in ["ack-splitting", "optimistic-ack", "hidden-loss", "ignore-ce"] {
        for cc in ["reno", "bbr", "dctcp"] {
            let text = text("pass", "codel", cc).replace("duration = \"20 s\"", "duration = \"5 s\"");
            let run =
                plan(&format!("{text}\ntcp = {{ receiver_kind = \"{receiver}\", ecn = {} }}", receiver == "ignore-ce"));
            let stored = Carriage { links_store_packets: true, ..Carriage::default() };
            let [ours, stored, plain] = [Carriage::default(), stored, Carriage::PLAIN]
                .map(|carriage| carry_out(&run, carriage).expect("the run succeeds").tables);
            assert!(ours == stored && ours == plain, "{receiver}, {cc}");
        }
    }
}
