//! Queue management under TCP: standing delays, shares and average backlogs.

use perigee_results::Tables;

use super::{result, through_router};

/// A run over 10 Mbit/s and a round trip of 50 ms with a drop-tail limit of 200 ms; `hosts` and flows as text.
fn run(aqm: &str, flows: &str) -> Tables {
    let link = format!("rate = \"10 Mbit/s\"\ndelay = \"25 ms\"\nqueue = {{ bytes = \"250 kB\"{aqm} }}");
    result(&through_router(&link, flows)).tables
}

fn downloads(count: u32, ecn: bool) -> String {
    format!(
        "[hosts]\necn = {ecn}\n[measure]\nseries = \"100 ms\"\n[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
         count = {count}\nduration = \"60 s\"\ncc = \"reno\""
    )
}

/// The mean backlog in the second half of a minute, bytes.
fn standing_bytes(tables: &Tables) -> f64 {
    let links = &tables.links;
    let rows = links.link.iter().zip(&links.t_s).zip(&links.queue_bytes);
    let late = rows.filter(|((link, t), _)| &***link == "bottleneck.down" && **t > 30.0);
    let backlogs: Vec<f64> = late.map(|(_, bytes)| *bytes as f64).collect();
    backlogs.iter().sum::<f64>() / backlogs.len() as f64
}

fn dropped(tables: &Tables) -> u64 {
    tables.links.dropped_aqm_packets.iter().sum()
}

#[test]
fn pie_keeps_the_delay_near_its_target() {
    for ecn in [false, true] {
        let tables = run(", aqm = { kind = \"pie\", ecn = true }", &downloads(5, ecn));
        // A byte takes 0.8 us.
        let wait_ms = standing_bytes(&tables) * 0.8e-3;
        assert!((8.0..25.0).contains(&wait_ms), "ecn {ecn}: {wait_ms} ms with a target of 15 ms");
        let goodput: f64 = tables.flows.goodput_mbps.iter().flatten().sum();
        assert!(goodput > 8.5, "ecn {ecn}: {goodput} Mbit/s of 10");
        assert!(ecn || dropped(&tables) > 10, "{} dropped", dropped(&tables));
    }
}

#[test]
fn fq_codel_shares_the_link_between_a_flood_and_a_download() {
    let flows = "[[flows]]\nname = \"flood\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"20 Mbit/s\"\n\
                 packet = \"1 kB\"\nduration = \"20 s\"\n[[flows]]\nname = \"download\"\nfrom = \"a\"\nto = \"b\"\n\
                 duration = \"20 s\"\ncc = \"cubic\"\n[[flows]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"b\"\nto = \"a\"\n\
                 interval = \"100 ms\"\npacket = \"64 B\"\nrepeat = 150";
    let of = |tables: &Tables, name: &str| tables.flows.flow.iter().position(|flow| &**flow == name).expect("a flow");
    let download = |tables: &Tables| tables.flows.goodput_mbps[of(tables, "download")].expect("a goodput");
    let (tail, fair) = (run("", flows), run(", aqm = { kind = \"fq-codel\" }", flows));
    assert!(download(&tail) < 1.0, "{} Mbit/s beside a flood of twice the rate", download(&tail));
    assert!((4.0..5.5).contains(&download(&fair)), "{} Mbit/s of 5", download(&fair));
    // A ping waits for the packet in service and for one turn of each of the two others.
    let rtt = fair.flows.rtt_p95_ms[of(&fair, "ping")].expect("pings are answered");
    assert!((50.0..56.0).contains(&rtt), "{rtt} ms over 50 ms");
}

#[test]
fn adaptive_red_keeps_the_average_between_its_thresholds_whatever_the_load() {
    // Floyd, Gummadi, Shenker 2001: the target range of the average is 0.4 to 0.6 between the thresholds. (With five flows the probability
    // would have to be below its minimum.)
    let packets = |count: u32| {
        let aqm = ", aqm = { kind = \"red\", min_packets = 20, max_packets = 60, adaptive = true }";
        standing_bytes(&run(aqm, &downloads(count, false))) / 1500.0
    };
    for count in [8, 20, 40] {
        let average = packets(count);
        assert!((36.0..44.0).contains(&average), "{count} flows: {average} packets, expected 36 to 44");
    }
}

#[test]
fn plain_red_with_automatic_thresholds_has_an_average_that_grows_with_the_load() {
    let packets = |count: u32| standing_bytes(&run(", aqm = { kind = \"red\" }", &downloads(count, false))) / 1500.0;
    let (few, many) = (packets(2), packets(60));
    // 10 Mbit/s have thresholds of 5 and 15 packets.
    assert!((3.0..15.0).contains(&few), "{few}");
    assert!(many > few + 3.0 && many < 30.0, "{few} and {many}");
}

#[test]
fn dualpi2_gives_l4s_packets_almost_no_delay_next_to_a_classic_queue_at_its_target() {
    let flows = "[hosts]\necn = true\n[measure]\nseries = \"100 ms\"\n[[flows]]\nname = \"classic\"\nfrom = \"a\"\nto = \"b\"\n\
                 count = 4\nduration = \"60 s\"\ncc = \"reno\"\n[[flows]]\nname = \"scalable\"\nfrom = \"a\"\nto = \"b\"\n\
                 duration = \"60 s\"\ncc = \"reno\"\ntcp = { l4s = true }";
    let tables = run(", aqm = { kind = \"dualpi2\" }", flows);
    let (classic, l4s) = (0, 4);
    assert_eq!((&*tables.flows.flow[classic], &*tables.flows.flow[l4s]), ("classic.1", "scalable"));
    // A round trip without queuing takes 52 ms, including 1.2 ms for a packet on the link.
    let rtt = |flow: usize| tables.flows.rtt_p50_ms[flow].expect("the flow has round trips");
    assert!((58.0..80.0).contains(&rtt(classic)), "{} ms, with a target of 15 ms", rtt(classic));
    assert!((52.0..57.0).contains(&rtt(l4s)), "{} ms in the low-latency queue", rtt(l4s));
    // Reno halves its window for each mark: with marks of 2 p' instead of p'^2 it yields, but is not starved.
    let goodput = |flow: usize| tables.flows.goodput_mbps[flow].expect("a goodput");
    assert!(goodput(l4s) > 0.1 && goodput(l4s) < goodput(classic), "{} and {}", goodput(l4s), goodput(classic));
    assert!((0..5).map(goodput).sum::<f64>() > 8.5, "the link is used");
    // Without ECT(1), all packets are classic.
    let plain = run(", aqm = { kind = \"dualpi2\" }", &flows.replace("l4s = true", "l4s = false"));
    assert!(plain.flows.rtt_p50_ms[l4s].expect("the flow has round trips") > 58.0);
}

#[test]
fn datagrams_with_ect1_bypass_the_classic_queue_of_dualpi2() {
    // After slow start, which overflows the queue.
    let speaker = |name: &str, ecn: &str| {
        format!(
            "\n[[flows]]\nname = \"{name}\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"100 kbit/s\"\n\
             packet = \"500 B\"\nstart = \"5 s\"\nduration = \"55 s\"\n{ecn}"
        )
    };
    let flows = downloads(4, false)
        + &speaker("plain", "")
        + &speaker("ect0", "ecn = true")
        + &speaker("ect1", "ecn = true\nl4s = true");
    let tables = run(", aqm = { kind = \"dualpi2\" }", &flows);
    let at = |name: &str| tables.flows.flow.iter().position(|flow| &**flow == name).expect("its row");
    // One direction without queuing takes 26 ms, including 0.8 ms for a packet on the links.
    let delay = |name: &str| tables.flows.delay_mean_ms[at(name)].expect("the flow has delays");
    assert!(delay("ect1") < 29.0, "{} ms in the low-latency queue", delay("ect1"));
    assert!(delay("ect0") > 30.0 && delay("plain") > 30.0, "{} and {} ms", delay("ect0"), delay("plain"));
    // The classic queue marks ECT(0) packets where it would drop others.
    let lost = |name: &str| tables.flows.lost_packets[at(name)].expect("losses are counted");
    assert_eq!((lost("ect0"), lost("ect1")), (0, 0));
    assert!(lost("plain") > 0);
}

#[test]
fn a_flow_of_low_priority_takes_what_the_others_leave() {
    let udp = |name: &str, rate: &str, priority: &str| {
        format!(
            "\n[[flows]]\nname = \"{name}\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"{rate}\"\n\
             packet = \"1 kB\"\nduration = \"30 s\"\npriority = \"{priority}\""
        )
    };
    let flows = |flood: &str| udp("voice", "1 Mbit/s", "normal") + &udp("flood", "20 Mbit/s", flood);
    let tables = |queue: &str, flood: &str| run(&format!(", {queue}"), &flows(flood));
    let of = |tables: &Tables, name: &str| {
        let at = tables.flows.flow.iter().position(|flow| &**flow == name).expect("its row");
        let (lost, delay) = (tables.flows.lost_packets[at], tables.flows.delay_mean_ms[at]);
        (
            lost.expect("losses are counted"),
            delay.expect("it has delays"),
            tables.flows.goodput_mbps[at].expect("it ends"),
        )
    };
    let classes = tables("kind = \"priority\"", "low");
    let (lost, delay, _) = of(&classes, "voice");
    // One direction without queuing takes 26.8 ms, and the packet in service at most 0.8.
    assert!(lost == 0 && delay < 27.7, "{lost} lost, {delay} ms");
    let (_, _, goodput) = of(&classes, "flood");
    assert!((8.5..9.0).contains(&goodput), "{goodput} Mbit/s of the 9 that are left");
    for (queue, flood) in [("kind = \"priority\"", "normal"), ("kind = \"drop-tail\"", "low")] {
        let (_, delay, _) = of(&tables(queue, flood), "voice");
        assert!(delay > 100.0, "{queue}, {flood}: {delay} ms");
    }
}

#[test]
fn a_sender_hears_of_a_loss_a_queue_earlier_where_the_front_is_dropped() {
    let flows = "[measure]\nseries = \"20 ms\"\n[[flows]]\nname = \"download\"\nfrom = \"a\"\nto = \"b\"\n\
                 duration = \"20 s\"\ncc = \"reno\"";
    let first_retransmission = |kind: &str| {
        let queue = format!("queue = {{ kind = \"{kind}\", bytes = \"500 kB\" }}");
        let link = format!("rate = \"10 Mbit/s\"\ndelay = \"25 ms\"\n{queue}");
        let tables = result(&through_router(&link, flows)).tables;
        let series = &tables.series;
        let first = series.retransmitted_packets.iter().position(|count| count.is_some_and(|count| count > 0));
        series.t_s[first.expect("the queue overflows")]
    };
    let earlier = first_retransmission("drop-tail") - first_retransmission("drop-front");
    // 500 kB take 0.4 s at 10 Mbit/s.
    assert!((0.25..0.5).contains(&earlier), "{earlier} s earlier");
}

#[test]
fn an_upload_completes_whose_acknowledgements_arrive_over_a_link_that_decides_on_departure() {
    let queue = |aqm: &str| format!("queue = {{ bytes = \"4 MB\", aqm = {{ kind = \"{aqm}\" }} }}");
    let tdma = "rate = { kind = \"tdma\", superframe = \"26 ms\", slots = 400, payload = \"298 B\", terminals = 2, fixed = 1, \
                propagation = \"540 ms\" }";
    let keepers = ["codel", "fq-codel", "dualpi2"].map(queue);
    let front = "queue = { kind = \"drop-front\", bytes = \"4 MB\" }";
    for (down, flow) in keepers.iter().map(String::as_str).chain([tdma, front]).flat_map(|down| {
        let flows = ["cc = \"cubic\"", "cc = \"bbr\"", "opened_by = \"sender\""];
        flows.map(|flow| (down, flow))
    }) {
        let rate = if down == tdma { "" } else { "rate = \"50 Mbit/s\"\n" };
        let link = format!(
            "delay = \"290 ms\"\n[links.down]\n{rate}{down}\n[links.up]\nrate = \"10 Mbit/s\"\nqueue = \"500 kB\""
        );
        let flow = format!("[[flows]]\nname = \"upload\"\nfrom = \"b\"\nto = \"a\"\nsize = \"2 MB\"\n{flow}");
        let tables = result(&format!("time_limit = \"60 s\"\n{}", through_router(&link, &flow))).tables;
        let flows = &tables.flows;
        assert_eq!((flows.received_bytes[0], flows.rto_count[0]), (2_000_000, Some(0)), "{link}\n{flow}");
    }
}

#[test]
fn packets_dropped_for_an_arrival_that_is_refused_all_the_same_are_reported_at_once() {
    // A packet of 9 kB takes 240 ms: it is in service when the next ones arrive, for which no room can be made.
    let flow = |name: &str, from: &str, start: u32, packet: u32| {
        format!(
            "\n[[flows]]\nname = \"{name}\"\nkind = \"udp\"\nfrom = \"{from}\"\nto = \"b\"\npacket = \"{packet} B\"\n\
             rate = \"{} bit/s\"\nstart = \"{start} ms\"\nduration = \"200 ms\"",
            packet * 80
        )
    };
    let link = "rate = \"300 kbit/s\"\ndelay = \"1 ms\"\nqueue = { bytes = \"10 kB\", aqm = { kind = \"fq-codel\" } }";
    let flows =
        "[measure]\nseries = \"10 ms\"".to_owned() + &flow("large", "a", 0, 9000) + &flow("small", "r", 50, 500);
    let text = through_router(link, &flows).replace("name = \"test\"", "name = \"test\"\ntime_limit = \"140 ms\"");
    let series = result(&text).tables.series;
    let in_flight = |at: f64| {
        let mut rows = series.flow.iter().zip(&series.t_s).zip(&series.inflight_packets);
        rows.find(|((flow, t), _)| &***flow == "small" && (**t - at).abs() < 1e-9).and_then(|(_, packets)| *packets)
    };
    assert_eq!((in_flight(0.08), in_flight(0.12)), (Some(1), Some(0)));
}
