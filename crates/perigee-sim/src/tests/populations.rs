//! Populations: short connections that open, transfer and close during a run.

use perigee_results::Tables;
use proptest::prelude::*;

use super::{carry_out, plan, result, through_router};
use crate::carriage::Carriage;

/// Alternating transactions of 1 and 10 kB, one per 100 ms for 2 s, with these additional keys.
fn transactions(further: &str) -> String {
    format!(
        r#"
        [[flows]]
        name = "probe"
        kind = "transactions"
        from = "a"
        to = "b"
        interval = "100 ms"
        request = "300 B"
        responses = ["1 kB", "10 kB"]
        duration = "2 s"
        {further}
        "#
    )
}

fn users(per_s: f64, duration_s: u32, further: &str) -> String {
    format!(
        "[[flows]]\nname = \"users\"\nkind = \"web\"\nfrom = \"a\"\nto = \"b\"\nconnections_per_s = {per_s}\n\
            duration = \"{duration_s} s\"\n{further}\n"
    )
}

const FREE: &str = "rate = \"1 Gbit/s\"\ndelay = \"49 ms\"";

#[test]
fn a_transaction_takes_its_handshake_its_request_and_its_response() {
    let tables = result(&through_router(FREE, &transactions(""))).tables;
    let responses = &tables.responses;
    assert_eq!((&responses.least_bytes, &responses.most_bytes), (&vec![1_000, 10_000], &vec![1_000, 10_000]));
    // The last two, opened at 1.8 and 1.9 s, are open when the flow ends: two round trips take more than 200 ms.
    assert_eq!((&responses.transactions, &responses.failed), (&vec![10, 10], &vec![0, 0]));
    assert_eq!(responses.completed, [9, 9]);
    for (mean, handshake) in responses.mean_ms.iter().zip(&responses.handshake_mean_ms) {
        let (mean, handshake) = (mean.expect("transactions completed"), handshake.expect("handshakes completed"));
        assert!((handshake - 100.0).abs() < 0.1 && (mean - 200.0).abs() < 0.6, "{handshake}, {mean}");
    }
    let exchanges = &tables.exchanges;
    // The last one has not sent its request, because its connection is not established.
    assert_eq!(exchanges.number, (0..19).collect::<Vec<_>>());
    assert!((exchanges.start_s[3] - 0.4).abs() < 1e-3, "the request leaves after the handshake");
    assert!(exchanges.duration_ms[..18].iter().all(|took| took.is_some_and(|ms| (ms - 100.0).abs() < 0.6)));
    let flows = &tables.flows;
    assert_eq!((&*flows.outcome[0], flows.duration_s[0], flows.received_bytes[0]), ("completed", 2.0, 9 * 11_000));
}

#[test]
fn an_access_delay_counts_four_times() {
    let mean = |further: &str| result(&through_router(FREE, &transactions(further))).tables.responses.mean_ms[0];
    let (without, with) =
        (mean("").expect("transactions completed"), mean("access_least = \"7 ms\"").expect("transactions completed"));
    assert!((with - without - 28.0).abs() < 1e-3, "{without}, {with}");
    let tables =
        result(&through_router(FREE, &transactions("access_least = \"5 ms\"\naccess_most = \"15 ms\""))).tables;
    let took = tables.exchanges.duration_ms.iter().flatten();
    let (least, most) = took.fold((f64::MAX, 0.0f64), |(least, most), ms| (least.min(*ms), most.max(*ms)));
    assert!(least >= 110.0 && most <= 130.6 && most - least > 5.0, "{least}, {most}");
}

#[test]
fn the_warm_up_is_excluded_from_the_responses() {
    let tables = result(&through_router(FREE, &transactions("warmup = \"1 s\""))).tables;
    assert_eq!((tables.responses.transactions, tables.exchanges.number.len()), (vec![5, 5], 19));
}

#[test]
fn a_server_delay_and_sizes_of_the_web_make_many_classes_and_a_sample() {
    let tables = result(&through_router(FREE, &users(200.0, 20, ""))).tables;
    let responses = &tables.responses;
    let (begun, done) = (responses.transactions.iter().sum::<u64>(), responses.completed.iter().sum::<u64>());
    assert!((3_500..4_500).contains(&begun), "{begun} connections");
    assert!(done <= begun && done as f64 > 0.97 * begun as f64, "{done} of {begun}");
    assert!(responses.least_bytes.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(responses.least_bytes.len() > 8);
    assert_eq!((responses.failed.iter().sum::<u64>(), tables.exchanges.number.len()), (0, 1_000));
    let rows = tables.exchanges.response_bytes.iter().zip(&tables.exchanges.duration_ms);
    assert!(rows.clone().all(|(_, took)| took.is_some_and(|ms| ms >= 100.0)));
    assert!(rows.filter(|(bytes, _)| **bytes > 100_000).all(|(_, took)| took.is_some_and(|ms| ms >= 300.0)));
}

/// The tables and the number of events of a run.
fn counted(text: &str) -> (Tables, u64) {
    let result = carry_out(&plan(text), Carriage::default()).expect("a run");
    (result.tables, result.events)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Hundreds of connections reuse the slots over a link with losses and drops. If packets in flight reached another connection, sizes
    /// would not add up.
    #[test]
    fn every_transaction_completes_over_a_lossy_link(
        loss in 0u32..8, queue_kb in 10u32..100, per_s in 5u32..60, access in 0u32..20, keeps in any::<bool>()
    ) {
        let bottleneck =
            format!("rate = \"8 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"{queue_kb} kB\"\nloss = \"{loss} %\"");
        let further = format!("access_least = \"1 ms\"\naccess_most = \"{} ms\"", 1 + access);
        let text = through_router(&bottleneck, &users(f64::from(per_s), 20, &further));
        let carriage = Carriage { links_store_packets: keeps, ..Carriage::default() };
        let tables = carry_out(&plan(&text), carriage).expect("a run").tables;
        let responses = &tables.responses;
        let (begun, failed) = (responses.transactions.iter().sum::<u64>(), responses.failed.iter().sum::<u64>());
        let done = responses.completed.iter().sum::<u64>();
        prop_assert!(begun > u64::from(10 * per_s), "{}", begun);
        prop_assert!(failed == 0 && done <= begun, "{} failed, {} of {} completed", failed, done, begun);
        let sampled = tables.exchanges.number.len() as u64;
        prop_assert_eq!(sampled, done.min(1_000));
        if sampled == done {
            let bytes: u64 = tables.exchanges.response_bytes.iter().sum();
            let received = tables.flows.received_bytes[0];
            prop_assert!(received >= bytes, "{} received, {} in complete responses", received, bytes);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_population() {
    let text = through_router("rate = \"8 Mbit/s\"\ndelay = \"20 ms\"\nloss = \"2 %\"", &users(50.0, 5, ""));
    assert_eq!(counted(&text), counted(&text));
}

#[test]
fn users_of_an_unreachable_server_fail() {
    let text = through_router(
        "rate = \"8 Mbit/s\"\ndelay = \"20 ms\"\nloss = \"100 %\"",
        "[hosts]\nsyn_retries = 1\n[[flows]]\nname = \"probe\"\nkind = \"transactions\"\nfrom = \"a\"\nto = \"b\"\n\
            interval = \"1 s\"\nrequest = \"300 B\"\nresponses = [\"1 kB\"]\nduration = \"10 s\"",
    );
    let responses = result(&text).tables.responses;
    // A SYN and a retransmission after 1 s, given up 2 s later: those of the last three seconds are still open.
    assert_eq!((responses.transactions[0], responses.completed[0], responses.failed[0]), (10, 0, 7));
    assert_eq!((responses.mean_ms[0], responses.handshake_mean_ms[0]), (None, None));
}

#[test]
fn a_fin_that_is_sent_again_is_no_data_packet() {
    let sent = |link: &str| {
        let tables = result(&through_router(link, &transactions(""))).tables;
        let (flows, series) = (tables.flows, tables.series);
        assert_eq!(series.retransmitted_packets.iter().copied().sum::<Option<u64>>(), flows.retransmitted_packets[0]);
        (flows.sent_packets[0], flows.retransmitted_packets[0], flows.rto_count[0])
    };
    let without = sent(FREE);
    // Packets of the server: answers to two SYNs, the ACK of the first request, its response, and the FIN behind that.
    assert_eq!(sent(&format!("{FREE}\ndown.loss = {{ kind = \"counted\", drops = [{{ packet = 5 }}] }}")), without);
    let data = sent(&format!("{FREE}\ndown.loss = {{ kind = \"counted\", drops = [{{ packet = 4 }}] }}"));
    assert_eq!((data.0, data.1), (without.0.map(|packets| packets + 1), Some(1)));
}

#[test]
fn nobody_comes_after_the_time_limit() {
    // The last interval of the series, and with it the run, ends at 2 s.
    let tables = result(&format!("time_limit = \"1850 ms\"\n{}", through_router(FREE, &transactions("")))).tables;
    assert_eq!(tables.responses.transactions, [10, 9]);
    assert_eq!(tables.series.sent_packets.iter().copied().sum::<Option<u64>>(), tables.flows.sent_packets[0]);
}
