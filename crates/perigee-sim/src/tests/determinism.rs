//! A run gives the same tables again, whatever the carriage.

use proptest::prelude::*;

use super::{carry_out, plan};
use crate::carriage::Carriage;

/// A study with every kind of flow over a graph with chains, joins and losses.
fn everything(seed: u32, chain_mbps: u32, queue_kb: u32, loss_permille: u32, cc: &str) -> String {
    everything_over(&format!("\"{queue_kb} kB\""), seed, chain_mbps, queue_kb, loss_permille, cc)
}

/// [`everything`] with this queue at the satellite.
pub(super) fn everything_over(
    satellite: &str,
    seed: u32,
    chain_mbps: u32,
    queue_kb: u32,
    loss_permille: u32,
    cc: &str,
) -> String {
    format!(
        r#"
        name = "everything"
        seed = {seed}
        time_limit = "20 s"
        nodes = ["s1", "s2", "g", "t", "c"]
        [measure]
        series = "300 ms"
        startup = "100 kB"
        events = true
        [[links]]
        name = "one"
        between = ["s1", "g"]
        rate = "100 Mbit/s"
        delay = "2 ms"
        [[links]]
        name = "two"
        between = ["s2", "g"]
        rate = "30 Mbit/s"
        delay = {{ kind = "jitter", base = "10 ms", body = {{ kind = "normal", sd = "3 ms" }}, every = "5 ms" }}
        [[links]]
        name = "satellite"
        between = ["g", "t"]
        rate = "{chain_mbps} Mbit/s"
        delay = "150 ms"
        queue = {satellite}
        loss = "{loss} %"
        [[links]]
        name = "lan"
        between = ["t", "c"]
        rate = "100 Mbit/s"
        delay = "100 us"
        queue = "{queue_kb} kB"
        "#,
        loss = f64::from(loss_permille) / 10.0,
    ) + &FLOWS.replace("CC", cc)
}

/// Flows of every kind for [`everything`].
const FLOWS: &str = r#"
        [[flows]]
        name = "download"
        from = "s1"
        to = "c"
        size = "2 MB"
        cc = "CC"
        [[flows]]
        name = "upload"
        from = "c"
        to = "s1"
        duration = "5 s"
        start = "1 s"
        [[flows]]
        name = "web"
        kind = "request"
        from = "s2"
        to = "t"
        request = "300 B"
        response = "20 kB"
        think = "100 ms"
        repeat = 5
        [[flows]]
        name = "voice"
        kind = "udp"
        from = "s1"
        to = "t"
        rate = "3 Mbit/s"
        packet = "200 B"
        duration = "2 s"
        [[flows]]
        name = "ping"
        kind = "ping"
        from = "s1"
        to = "c"
        interval = "200 ms"
        packet = "64 B"
        repeat = 20
"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn results_do_not_depend_on_how_packets_are_carried(
        seed in 0u32..10_000, chain_mbps in 2u32..40, queue_kb in 5u32..200, loss_permille in 0u32..20, cc in 0usize..4,
    ) {
        let cc = ["reno", "cubic", "bbr", "hybla"][cc];
        let run = plan(&everything(seed, chain_mbps, queue_kb, loss_permille, cc));
        let ahead = Carriage::default();
        let carried = |carriage: Carriage| carry_out(&run, carriage).expect("the run succeeds").tables;
        let tables = carried(ahead);
        prop_assert_eq!(tables.flows.flow.len(), 5);
        prop_assert_eq!(&tables, &carried(ahead), "a second run");
        prop_assert_eq!(&tables, &carried(Carriage { cut_through: false, ..ahead }), "hop by hop");
        let kept = Carriage { cut_through: false, links_store_packets: true, ..ahead };
        prop_assert_eq!(&tables, &carried(kept), "with packets stored by the links");
        prop_assert_eq!(&tables, &carried(Carriage::PLAIN), "without fast paths");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn results_do_not_depend_on_how_packets_are_carried_around_a_link_that_decides_on_departure(
        seed in 0u32..10_000, chain_mbps in 2u32..6, ecn in any::<bool>(), cc in 0usize..4, is_chain in any::<bool>(),
    ) {
        let cc = ["reno", "cubic", "bbr", "hybla"][cc];
        let codel = format!("{{ bytes = \"1 MB\", aqm = {{ kind = \"codel\", target = \"1 ms\", interval = \"10 ms\", ecn = {ecn} }} }}");
        let mut text = everything_over(&codel, seed, chain_mbps, 100, 2, cc);
        if is_chain {
            // One link feeds it, with cut-through, and one lossy link follows it, also with cut-through.
            text = text.replace("between = [\"s2\", \"g\"]", "between = [\"s2\", \"t\"]");
            text = text.replace("delay = \"100 us\"", "delay = \"100 us\"\nloss = \"1 %\"").replace("1 MB", "30 kB");
        }
        let run = plan(&text.replace("[measure]", &format!("[hosts]\necn = {ecn}\n[measure]")));
        let ahead = Carriage::default();
        let carried = |carriage: Carriage| carry_out(&run, carriage).expect("the run succeeds").tables;
        let tables = carried(ahead);
        // With ECN, it may have marked instead of dropped.
        prop_assert!(ecn || tables.links.dropped_aqm_packets.iter().sum::<u64>() > 0, "CoDel dropped packets");
        prop_assert_eq!(&tables, &carried(ahead), "a second run");
        prop_assert_eq!(&tables, &carried(Carriage { cut_through: false, ..ahead }), "hop by hop");
        let kept = Carriage { cut_through: false, links_store_packets: true, ..ahead };
        prop_assert_eq!(&tables, &carried(kept), "with packets stored by the links");
        prop_assert_eq!(&tables, &carried(Carriage::PLAIN), "without fast paths");
    }
}

#[test]
fn cut_through_saves_events() {
    let run =
        plan(&everything(1, 10, 50, 0, "cubic").replace("between = [\"s2\", \"g\"]", "between = [\"s2\", \"t\"]"));
    let events = |cut_through| {
        carry_out(&run, Carriage { cut_through, ..Carriage::default() }).expect("the run succeeds").events
    };
    let (with, without) = (events(true), events(false));
    assert!(with < without, "{with} against {without} events");
}

#[test]
fn another_seed_gives_other_losses() {
    let tables = |seed| {
        let run = plan(&everything(seed, 10, 50, 10, "cubic"));
        carry_out(&run, Carriage::default()).expect("the run succeeds").tables
    };
    assert_ne!(tables(1).links, tables(2).links);
}

/// One flow, or two over separate paths, whose receivers have lookahead; `measure` and `flow` are added to their tables. The queues are
/// those of the first and the second link.
pub(super) fn alone(
    seed: u32,
    loss_permille: u32,
    queues: [&str; 2],
    hosts: &str,
    measure: &str,
    flow: &str,
) -> String {
    let [wire, queue] = queues;
    format!(
        r#"
        name = "alone"
        seed = {seed}
        time_limit = "12 s"
        nodes = ["server", "gateway", "client", "far"]
        [hosts]
        {hosts}
        [measure]
        {measure}
        [[links]]
        name = "internet"
        between = ["server", "gateway"]
        rate = "200 Mbit/s"
        delay = {{ kind = "jitter", base = "4 ms", body = {{ kind = "normal", sd = "1 ms" }}, every = "7 ms" }}
        queue = {wire}
        [[links]]
        name = "satellite"
        between = ["gateway", "client"]
        rate = "12 Mbit/s"
        delay = "80 ms"
        queue = {queue}
        loss = "{loss} %"
        [[links]]
        name = "back"
        between = ["far", "server"]
        rate = "5 Mbit/s"
        delay = "33 ms"
        loss = "{loss} %"
        [[flows]]
        name = "one"
        from = "server"
        to = "client"
        {flow}
        [[flows]]
        name = "other"
        from = "far"
        to = "server"
        size = "1500 kB"
        start = "1300 ms"
        cc = "cubic"
        "#,
        loss = f64::from(loss_permille) / 10.0,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn results_do_not_depend_on_lookahead(
        seed in 0u32..10_000, loss_permille in 0u32..30, queue_kb in 8u32..400, aqms in [0usize..6, 0usize..6],
        hosts in 0usize..8, measure in 0usize..5, flow in 0usize..6,
    ) {
        let hosts = [
            "", "ecn = true", "delayed_acks = false", "sack = false", "timestamps = false\npacing = true",
            "receive_offload = \"20 us\"", "segmentation_offload = false",
                "like = \"linux-6.1\"\nrmem = [\"4096 B\", \"131072 B\", \"200 kB\"]",
        ][hosts];
        let measure = [
            "series = \"1 s\"\nstartup = \"400 kB\"",
                "series = \"70 ms\"\nmilestones = { every = \"300 kB\", upto = \"2 MB\" }", "series = \"off\"",
            "series = \"250 ms\"\nstartup = \"1 s\"\nrtt_bin = \"1 ms\"\nsteady = \"30 %\"", "goodput_bin = \"110 ms\"",
        ][measure];
        let flow = [
            "size = \"4 MB\"\ncc = \"cubic\"", "size = \"3 MB\"\ncc = \"bbr\"", "duration = \"4 s\"\ncc = \"reno\"",
            "size = \"100 MB\"\ncc = \"hybla\"", "size = \"20 kB\"\ncc = \"vegas\"",
            "kind = \"request\"\nrequest = \"700 B\"\nresponse = \"300 kB\"\nthink = \"90 ms\"\nrepeat = 6",
        ][flow];
        let queues = aqms.map(|aqm| match ["", "codel", "fq-codel", "dualpi2", "front", "priority"][aqm] {
            "" => format!("\"{queue_kb} kB\""),
            "front" => format!("{{ kind = \"drop-front\", bytes = \"{queue_kb} kB\" }}"),
            "priority" => format!("{{ kind = \"priority\", bytes = \"{queue_kb} kB\" }}"),
            kind => format!("{{ bytes = \"{queue_kb} kB\", aqm = {{ kind = \"{kind}\" }} }}"),
        });
        let [wire, satellite] = &queues;
        let run = plan(&alone(seed, loss_permille, [wire, satellite], hosts, measure, flow));
        let carried = |carriage: Carriage| carry_out(&run, carriage).expect("the run succeeds");
        let ahead = carried(Carriage::default());
        let by_hop = carried(Carriage { cut_through: false, ..Carriage::default() });
        prop_assert_eq!(&ahead.tables, &by_hop.tables, "hop by hop");
        let is_bulk = ahead.tables.flows.bytes[0] > 1_000_000;
        prop_assert!(!is_bulk || ahead.events < by_hop.events, "{} events of {}", ahead.events, by_hop.events);
    }
}

#[test]
fn a_capture_at_the_sender_has_lookahead_and_the_tables_of_plain_carriage() {
    let capture = "capture = { startup = \"1 s\", from = \"1 MB\", upto = \"2 MB\", least = \"20 ms\" }";
    for flow in ["size = \"4 MB\"\ncc = \"cubic\"", "size = \"3 MB\"\ncc = \"bbr\""] {
        let carried = |measure: &str, carriage| {
            let run = plan(&alone(1, 5, ["\"100 kB\"", "\"100 kB\""], "", measure, flow));
            carry_out(&run, carriage).expect("the run succeeds")
        };
        // Lookahead ends at the sizes of a capture as at milestones; the first byte is one more.
        let milestones = "milestones = { every = \"1 MB\", upto = \"2 MB\" }";
        let [with, without] = [capture, milestones].map(|measure| carried(measure, Carriage::default()));
        assert!(with.events <= without.events + 2, "{flow}: {} events, {} without", with.events, without.events);
        let plain = carried(capture, Carriage::PLAIN);
        assert!(with.events < plain.events / 2, "{flow}: {} events of {}", with.events, plain.events);
        assert_eq!(with.tables, plain.tables, "{flow}");
        let flows = &with.tables.flows;
        assert!(
            flows.capture_frames[0] < flows.sent_packets[0] && flows.capture_repeated_frames[0] > Some(0),
            "{flow}"
        );
    }
}

#[test]
fn what_is_left_of_a_long_train_is_pushed() {
    // Trains of 17 segments, the last of which is carried by itself.
    let run = plan(
        r#"
        name = "trains"
        nodes = ["a", "b"]
        [hosts]
        ack_compression = false
        [[links]]
        name = "l"
        between = ["a", "b"]
        rate = "1 Gbit/s"
        down.delay = "1203 us"
        up.delay = "38 us"
        [[flows]]
        name = "f"
        from = "b"
        to = "a"
        duration = "528 ms"
        cc = { name = "hybla", rtt0 = "7.92 ms" }
        "#,
    );
    let tables = |carriage| carry_out(&run, carriage).expect("the run succeeds").tables;
    assert_eq!(tables(Carriage::default()), tables(Carriage::PLAIN));
}

#[test]
fn a_datagram_is_in_flight_until_it_is_dropped_with_any_carriage() {
    for seed in 0..60 {
        let text = format!(
            r#"
            name = "datagrams"
            seed = {seed}
            nodes = ["a", "b", "c", "d"]
            [measure]
            series = "50 ms"
            [[links]]
            name = "one"
            between = ["a", "b"]
            rate = "10 Mbit/s"
            delay = "40 ms"
            [[links]]
            name = "two"
            between = ["b", "c"]
            rate = "8 Mbit/s"
            delay = "30 ms"
            loss = "1 %"
            [[links]]
            name = "three"
            between = ["c", "d"]
            rate = "5 Mbit/s"
            delay = "20 ms"
            queue = "4 kB"
            [[flows]]
            name = "voice"
            kind = "udp"
            from = "a"
            to = "d"
            rate = "4900 kbit/s"
            packet = "900 B"
            duration = "2 s"
            "#
        );
        let run = plan(&text);
        let tables = |carriage| carry_out(&run, carriage).expect("the run succeeds").tables;
        let by_hop = Carriage { cut_through: false, ..Carriage::default() };
        assert_eq!(tables(Carriage::default()), tables(by_hop), "seed {seed}");
    }
}

/// Links of a channel that shares unrequested units freely, between `b` and `c`, next to a link between `a` and `b`.
fn over_a_free_channel(channel: &str, measure: &str, flow: &str) -> String {
    format!(
        r#"
        name = "free"
        nodes = ["a", "b", "c"]
        [measure]
        series = "1 s"
        {measure}
        [[links]]
        name = "wire"
        between = ["a", "b"]
        rate = "100 Mbit/s"
        delay = "250 ms"
        [[links]]
        name = "l"
        between = ["b", "c"]
        delay = "250 ms"
        down.rate = "20 Mbit/s"
        up.rate = {{ kind = "tdma", free = true, requests = "both", fixed = 1, {channel} }}
        [[flows]]
        name = "f"
        {flow}
        "#
    )
}

#[test]
fn the_rate_of_a_free_channel_is_what_it_grants_with_any_carriage() {
    let rcs2 = "superframe = \"100 ms\", slots = 1920, carriers = 16, payload = \"298 B\", terminals = 64, propagation = \"690 ms\"";
    let small =
        "superframe = \"26 ms\", multiframes = 2, slots = 40, payload = \"200 B\", terminals = 3, propagation = \"50 ms\"";
    let pings = "kind = \"ping\"\nfrom = \"c\"\nto = \"a\"\ninterval = \"3 s\"\nrepeat = 7\npacket = \"64 B\"";
    let download = "from = \"a\"\nto = \"c\"\nsize = \"300 kB\"";
    let upload = "from = \"c\"\nto = \"a\"\nsize = \"300 kB\"";
    for (channel, flow) in [(rcs2, pings), (small, download), (small, upload), (small, pings)] {
        let links = |measure: &str, carriage: Carriage| {
            let run = plan(&over_a_free_channel(channel, measure, flow));
            carry_out(&run, carriage).expect("the run succeeds").tables.links
        };
        let plain = links("", Carriage::default());
        assert_eq!(links("", Carriage { cut_through: false, ..Carriage::default() }), plain, "hop by hop: {flow}");
        assert_eq!(links("pcap = [\"b\"]", Carriage::default()), plain, "with captures: {flow}");
        assert_eq!(links("events = true", Carriage::default()), plain, "with events: {flow}");
        let up = plain.link.iter().zip(&plain.rate_mbps).filter(|(link, _)| &***link == "l.up");
        let rates: Vec<f64> = up.map(|(_, rate)| *rate).collect();
        if channel == rcs2 {
            // Its share is 30 of 1920 units, requested or not; each carries 298 bytes in 100 ms.
            assert_eq!(rates, vec![0.7152; rates.len()], "{flow}");
        } else {
            // At least 13 of 40 units for each of three.
            assert!(rates.iter().all(|rate| *rate > 13.0 * 0.123), "{rates:?}");
        }
    }
}

#[test]
fn a_flow_whose_last_loss_is_known_early_has_its_phases_and_bins_until_its_end() {
    // The last packets are dropped by a link after one in whose queue they wait for more than a second.
    for (limit, startup) in [("900 ms", "off"), ("10 s", "off"), ("10 s", "1300 ms")] {
        let text = format!(
            r#"
            name = "ahead"
            nodes = ["a", "b", "c"]
            time_limit = "{limit}"
            [measure]
            series = "off"
            startup = "{startup}"
            [[links]]
            name = "slow"
            between = ["a", "b"]
            rate = "100 kbit/s"
            delay = "1 s"
            [[links]]
            name = "full"
            between = ["b", "c"]
            rate = "10 Mbit/s"
            delay = "1 ms"
            queue = "0 B"
            [[flows]]
            name = "lost"
            kind = "udp"
            from = "a"
            to = "c"
            rate = "200 kbit/s"
            packet = "500 B"
            duration = "600 ms"
            "#
        );
        let run = plan(&text);
        let rows = |carriage| carry_out(&run, carriage).expect("the run succeeds").tables.flows;
        let (fast, plain) = (rows(Carriage::default()), rows(Carriage::PLAIN));
        assert_eq!(fast, plain, "{limit}, {startup}");
        assert_eq!(fast.goodput_p50_mbps[0].is_some(), fast.duration_s[0] >= 1.0);
        assert_eq!(fast.startup_s[0], (startup != "off").then_some(1.3));
    }
}
