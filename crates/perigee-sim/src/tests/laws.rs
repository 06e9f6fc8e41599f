//! Laws of every graph: conservation, order, rates, fairness.

use proptest::prelude::*;

use super::{result, through_router};
use perigee_results::Tables;

/// Sum of a column over a link's rows.
fn total(tables: &Tables, link: &str, column: &[u64]) -> u64 {
    let rows = tables.links.link.iter().zip(column);
    rows.filter(|(name, _)| &***name == link).map(|(_, count)| count).sum()
}

/// A download, datagrams and pings over two links.
fn three_flows(
    [first_mbps, second_mbps]: [u32; 2],
    queue_kb: u32,
    loss_permille: u32,
    udp_mbps: u32,
    codel: bool,
    seed: u32,
) -> String {
    let aqm = if codel { ", aqm = { kind = \"codel\", target = \"2 ms\", interval = \"20 ms\" }" } else { "" };
    // The ping outlasts the download, so the connection is closed when the run ends.
    format!(
        r#"
        name = "conservation"
        seed = {seed}
        nodes = ["a", "b", "c"]
        [[links]]
        name = "ab"
        between = ["a", "b"]
        rate = "{first_mbps} Mbit/s"
        delay = "5 ms"
        queue = "{queue_kb} kB"
        [[links]]
        name = "bc"
        between = ["b", "c"]
        rate = "{second_mbps} Mbit/s"
        delay = "20 ms"
        queue = {{ bytes = "{queue_kb} kB"{aqm} }}
        loss = "{loss} %"
        [[flows]]
        name = "download"
        from = "a"
        to = "c"
        size = "300 kB"
        cc = "reno"
        [[flows]]
        name = "udp"
        kind = "udp"
        from = "a"
        to = "c"
        rate = "{udp_mbps} Mbit/s"
        packet = "700 B"
        duration = "2 s"
        [[flows]]
        name = "ping"
        kind = "ping"
        from = "a"
        to = "c"
        interval = "100 ms"
        packet = "64 B"
        repeat = 3000
        "#,
        loss = f64::from(loss_permille) / 10.0,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_packet_sent_is_delivered_or_counted_as_dropped(
        first_mbps in 2u32..50, second_mbps in 2u32..50, queue_kb in 3u32..100,
        loss_permille in 0u32..50, udp_mbps in 1u32..60, codel in any::<bool>(), seed in 0u32..1000,
    ) {
        let text = three_flows([first_mbps, second_mbps], queue_kb, loss_permille, udp_mbps, codel, seed);
        let tables = result(&text).tables;
        let links = &tables.links;
        for link in ["ab.down", "ab.up", "bc.down", "bc.up"] {
            let offered = total(&tables, link, &links.offered_packets);
            let delivered = total(&tables, link, &links.delivered_packets);
            prop_assert_eq!(offered, delivered + total(&tables, link, &links.dropped_packets));
            let reasons = [&links.dropped_queue_full_packets, &links.dropped_aqm_packets, &links.lost_packets];
            let by_reason: u64 = reasons.iter().map(|column| total(&tables, link, column)).sum();
            prop_assert_eq!(total(&tables, link, &links.dropped_packets), by_reason);
        }
        // Packets and bytes that leave one link arrive at the next.
        for (before, after) in [("ab.down", "bc.down"), ("bc.up", "ab.up")] {
            prop_assert_eq!(total(&tables, before, &links.delivered_packets), total(&tables, after, &links.offered_packets));
            prop_assert_eq!(total(&tables, before, &links.delivered_bytes), total(&tables, after, &links.offered_bytes));
        }
        // UDP flows: every packet sent has arrived or is lost.
        let flows = &tables.flows;
        prop_assert_eq!(flows.received_bytes[1] / 672 + flows.lost_packets[1].unwrap(), flows.sent_packets[1].unwrap());
        let answered = tables.exchanges.duration_ms.iter().flatten().count() as u64;
        prop_assert_eq!(answered + flows.lost_packets[2].unwrap(), 3000);
        prop_assert!(flows.completed[0] && flows.completed[1] && flows.completed[2]);
    }

    #[test]
    fn no_interval_carries_more_than_the_bottlenecks_rate(mbps in 1u32..40, queue_kb in 10u32..500, cc in 0usize..4) {
        let cc = ["reno", "cubic", "bbr", "hybla"][cc];
        let text = format!(
            r#"
            name = "rate"
            nodes = ["a", "b", "c"]
            [[links]]
            name = "ab"
            between = ["a", "b"]
            rate = "{mbps} Mbit/s"
            delay = "30 ms"
            queue = "{queue_kb} kB"
            [[links]]
            name = "bc"
            between = ["b", "c"]
            rate = "1 Gbit/s"
            delay = "1 ms"
            [[flows]]
            name = "f"
            from = "a"
            to = "c"
            duration = "10 s"
            cc = "{cc}"
            "#
        );
        let tables = result(&text).tables;
        let rows = tables.links.link.iter().zip(&tables.links.offered_bytes);
        let most = rows.filter(|(name, _)| &***name == "bc.down").map(|(_, bytes)| *bytes).max().unwrap();
        // One packet may straddle each boundary.
        prop_assert!(most <= u64::from(mbps) * 125_000 + 1500, "{most} bytes in a second at {mbps} Mbit/s");
        prop_assert!(tables.flows.goodput_p90_mbps[0].unwrap() <= f64::from(mbps));
    }
}

#[test]
fn a_jittering_delay_reorders_nothing() {
    let tables = result(&through_router(
        r#"
        rate = "50 Mbit/s"
        delay = { kind = "jitter", base = "100 ms", body = { kind = "normal", sd = "10 ms" }, every = "1 ms" }
        "#,
        "[measure]\nevents = true\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"5 MB\"\ncc = \"reno\"",
    ))
    .tables;
    assert!(tables.events.event.len() > 3000);
    assert!(tables.events.sacked_packets.iter().all(|sacked| *sacked == 0), "a SACK tells of a gap, and none was lost");
    assert_eq!(tables.flows.retransmitted_packets, [Some(0)]);
}

#[test]
fn the_event_log_has_the_senders_variables() {
    let tables = result(&through_router(
        "rate = \"10 Mbit/s\"\ndelay = \"25 ms\"\nqueue = \"60 kB\"",
        "[measure]\nevents = true\n[hosts]\ncwnd_clamp = 40\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
         size = \"1 MB\"\ncc = \"reno\"",
    ))
    .tables;
    let (events, last) = (&tables.events, tables.events.event.len() - 1);
    assert!(events.clamp_packets.iter().all(|clamp| *clamp == Some(40)));
    assert!(events.cwnd_packets.iter().all(|cwnd| *cwnd <= 40));
    for row in 0..=last {
        let (is_ack, rtt) = (&*events.event[row] == "ack", events.rtt_ms[row]);
        // A round trip takes 52 ms; the first sample is that of the handshake.
        assert!(rtt.is_none_or(|ms| is_ack && ms > 52.0), "{rtt:?} ms in row {row}");
        let end = events.sequence[row] + u64::from(events.segment_bytes[row]);
        assert!(
            events.snd_nxt_bytes[row] >= end && events.snd_nxt_bytes[row] <= 1_000_001,
            "{} in row {row}",
            events.snd_nxt_bytes[row]
        );
        assert_eq!(events.rttvar_ms[row].is_some(), events.srtt_ms[row].is_some());
    }
    // Without queuing, each ACK measures the segments that it delivers.
    let acks = (0..=last).filter(|row| &*events.event[*row] == "ack");
    assert!(acks.clone().filter(|row| events.rtt_ms[*row].is_some()).count() * 10 > acks.count() * 9);
}

#[test]
fn equal_flows_share_a_bottleneck_equally() {
    let tables = result(&through_router(
        "rate = \"10 Mbit/s\"\ndelay = \"25 ms\"\nqueue = \"60 kB\"",
        r#"
        [[flows]]
        name = "f"
        from = "a"
        to = "b"
        duration = "600 s"
        cc = "reno"
        count = 2
        "#,
    ))
    .tables;
    let goodput: Vec<f64> = tables.flows.goodput_mbps.iter().flatten().copied().collect();
    assert!(goodput[0] + goodput[1] > 9.0, "together they fill the link: {goodput:?}");
    assert!((goodput[0] / goodput[1]).ln().abs() < 0.15, "and share it: {goodput:?}");
}

#[test]
fn losses_are_repaired() {
    let tables = result(&through_router(
        "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nloss = \"1 %\"",
        "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"5 MB\"\ncc = \"cubic\"",
    ))
    .tables;
    assert!(tables.flows.completed[0]);
    let lost: u64 = tables.links.lost_packets.iter().sum();
    assert!(lost > 10 && tables.flows.retransmitted_packets[0] > Some(10), "{lost} lost");
}

#[test]
fn codel_keeps_the_delay_near_its_target_where_drop_tail_fills_the_queue() {
    let download = |aqm: &str, ecn: bool| {
        result(&through_router(
            &format!("rate = \"10 Mbit/s\"\ndelay = \"25 ms\"\nqueue = {{ bytes = \"250 kB\"{aqm} }}"),
            &format!(
                "[hosts]\necn = {ecn}\n[measure]\nseries = \"100 ms\"\n[[flows]]\nname = \"f\"\nfrom = \"a\"\n\
                 to = \"b\"\nduration = \"60 s\"\ncc = \"cubic\""
            ),
        ))
        .tables
    };
    // The mean delay in the second half of the run, ms: a byte of backlog takes 0.8 us.
    let wait_ms = |tables: &Tables| {
        let links = &tables.links;
        let rows = links.link.iter().zip(&links.t_s).zip(&links.queue_bytes);
        let late = rows.filter(|((link, t), _)| &***link == "bottleneck.down" && **t > 30.0);
        let waits: Vec<f64> = late.map(|(_, bytes)| *bytes as f64 * 0.8e-3).collect();
        waits.iter().sum::<f64>() / waits.len() as f64
    };
    let codel = ", aqm = { kind = \"codel\", ecn = true }";
    let (tail, dropping, marking) = (download("", false), download(codel, false), download(codel, true));
    assert!(wait_ms(&tail) > 100.0, "{} ms", wait_ms(&tail));
    for (tables, what) in [(&dropping, "dropping"), (&marking, "marking")] {
        let (wait, goodput) = (wait_ms(tables), tables.flows.goodput_mbps[0].expect("a goodput"));
        assert!((2.0..10.0).contains(&wait), "{what}: {wait} ms with a target of 5 ms");
        assert!(goodput > 8.5, "{what}: {goodput} Mbit/s of 10");
        assert_eq!(tables.links.dropped_queue_full_packets.iter().sum::<u64>(), 0, "{what}");
    }
    let dropped = |tables: &Tables| tables.links.dropped_aqm_packets.iter().sum::<u64>();
    assert!(dropped(&dropping) > 10, "{} dropped", dropped(&dropping));
    assert_eq!((dropped(&marking), marking.flows.retransmitted_packets[0]), (0, Some(0)), "marks lose nothing");
}

#[test]
fn bbr3_takes_marks_for_congestion_unless_told_not_to() {
    let marked = |cc: &str| {
        let tables = result(&through_router(
            "rate = \"10 Mbit/s\"\ndelay = \"25 ms\"\nqueue = { bytes = \"250 kB\", aqm = { kind = \"codel\", ecn = true } }",
            &format!(
                "[hosts]\necn = true\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nduration = \"30 s\"\ncc = {cc}"
            ),
        ))
        .tables;
        (tables.flows.rtt_mean_ms[0].unwrap_or(0.0) - 50.0, tables.flows.goodput_mbps[0].expect("a goodput"))
    };
    let (heeded, goodput) = marked("\"bbr3\"");
    let (ignored, _) = marked("{ name = \"bbr3\", ecn = \"off\" }");
    assert!(heeded < 0.9 * ignored, "{heeded} ms of queue, {ignored} ms where marks are ignored");
    assert!(goodput > 8.0, "{goodput} Mbit/s of 10");
}
