//! Hosts with processing time for the packets they send.

use perigee_results::Tables;
use proptest::prelude::*;

use super::captures::packets;
use super::proxies::{download, gateway, network, GEO};
use super::routes::{over_geo, two_paths, PINGS};
use super::{carry_out, plan, result, through_router};
use crate::carriage::Carriage;

const FREE: &str = "rate = \"1 Gbit/s\"\ndelay = \"49 ms\"";

/// Pings from `a` to `b`, after these tables.
fn pings(count: u32, tables: &str) -> Tables {
    let flow = format!(
        "[[flows]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n\
         interval = \"10 ms\"\npacket = \"84 B\"\nrepeat = {count}\n"
    );
    result(&through_router(FREE, &format!("{tables}\n{flow}"))).tables
}

/// Round trips, ns.
fn round_trips(tables: &Tables) -> Vec<i64> {
    tables.exchanges.duration_ms.iter().map(|ms| (ms.expect("the ping is answered") * 1e6).round() as i64).collect()
}

/// Additional round-trip time of each ping over free links, ns, due to the hosts.
fn added(count: u32, hosts: &str) -> Vec<i64> {
    let without = round_trips(&pings(1, ""))[0];
    round_trips(&pings(count, hosts)).into_iter().map(|with| with - without).collect()
}

fn mean(values: &[i64]) -> f64 {
    values.iter().sum::<i64>() as f64 / values.len() as f64
}

#[test]
fn a_packet_on_a_free_path_is_late_by_a_uniform_time_with_the_configured_mean() {
    let added = added(4000, "[hosts.a]\nprocessing_time = \"8 us\"");
    let (least, most) = (*added.iter().min().unwrap(), *added.iter().max().unwrap());
    println!("of 8 us: mean {:.0} ns, {least} to {most} ns", mean(&added));
    assert!((0..40).contains(&least) && (15_960..=16_000).contains(&most), "{least} to {most} ns");
    // Four standard errors.
    assert!((mean(&added) - 8_000.0).abs() < 4.0 * 16_000.0 / (12.0 * 4000.0f64).sqrt(), "{} ns", mean(&added));
    let below = added.iter().filter(|ns| **ns < 4_000).count();
    assert!((900..1100).contains(&below), "{below} of 4000 in the first quarter");
}

#[test]
fn hosts_have_separate_processing_times_and_draws() {
    let near = added(4000, "[hosts.a]\nprocessing_time = \"8 us\"");
    let far = added(4000, "[hosts.b]\nprocessing_time = \"100 us\"");
    let both = added(4000, "[hosts]\nprocessing_time = \"8 us\"\n[hosts.b]\nprocessing_time = \"100 us\"");
    assert!((mean(&far) - 100_000.0).abs() < 3_700.0, "{} ns", mean(&far));
    let sums: Vec<i64> = near.iter().zip(&far).map(|(near, far)| near + far).collect();
    assert_eq!(both, sums, "the draws are independent");
    assert!(near.iter().zip(&far).any(|(near, far)| near * 100 / 8 > far + 1000), "the draws differ");
    // With another time, the same host uses the same draws. The router has a processing time, too, but sends nothing of its own.
    let twice = added(4000, "[hosts]\nprocessing_time = \"16 us\"\n[hosts.b]\nprocessing_time = \"0 us\"");
    assert!(near.iter().zip(&twice).all(|(once, twice)| (2 * once - twice).abs() <= 2));
}

#[test]
fn packets_leave_in_order_however_long_a_host_takes() {
    let hosts = "[hosts]\nprocessing_time = \"5 ms\"\ninitial_window = 40\ncwnd_clamp = 40\n\
                 delayed_acks = false\n[measure]\nevents = true";
    let flows = "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"5 MB\"\ncc = \"reno\"\n\
         [[flows]]\nname = \"u\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mbit/s\"\n\
         packet = \"500 B\"\nduration = \"2 s\"";
    let tables = result(&through_router(FREE, &format!("{hosts}\n{flows}"))).tables;
    assert!(tables.events.event.len() > 3000);
    assert!(tables.events.sacked_packets.iter().all(|sacked| *sacked == 0), "SACKs report gaps, but nothing was lost");
    assert_eq!((tables.flows.retransmitted_packets[0], tables.flows.lost_packets[1]), (Some(0), Some(0)));
    // A packet is late by at most twice the mean, however many precede it.
    let round_trips = || tables.events.rtt_ms.iter().flatten().copied();
    let (least, most) = (round_trips().fold(f64::MAX, f64::min), round_trips().fold(0.0, f64::max));
    assert!(least > 100.0 && most < 122.0, "{least} to {most} ms");
}

#[test]
fn without_processing_time_nothing_changes() {
    let study = |hosts: &str| {
        let flows = "[measure]\nseries = \"100 ms\"\nevents = true\n[[flows]]\nname = \"f\"\n\
                     from = \"a\"\nto = \"b\"\nsize = \"5 MB\"";
        carry_out(
            &plan(&through_router(
                "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"50 kB\"",
                &format!("{hosts}\n{flows}"),
            )),
            Carriage::default(),
        )
        .expect("the run succeeds")
    };
    let (unset, none, some) =
        (study(""), study("[hosts]\nprocessing_time = \"0 us\""), study("[hosts]\nprocessing_time = \"1 us\""));
    assert_eq!((&unset.tables, unset.events), (&none.tables, none.events));
    assert_ne!(unset.tables, some.tables);
    assert_eq!(unset.tables.links.link, some.tables.links.link, "no table has the links inside hosts");
}

#[test]
fn a_capture_shows_packets_as_they_leave_their_host() {
    let run = plan(&through_router(
        FREE,
        "[hosts.a]\nprocessing_time = \"8 us\"\n[measure]\npcap = [\"a\", \"r\"]\n[[flows]]\nname = \"u\"\nkind = \"udp\"\nfrom = \"a\"\n\
         to = \"b\"\nrate = \"800 kbit/s\"\npacket = \"1 kB\"\nduration = \"10 s\"",
    ));
    let captures = carry_out(&run, Carriage::default()).expect("the run succeeds").captures;
    let at: Vec<Vec<u128>> =
        captures.iter().map(|capture| packets(&capture.pcapng).iter().map(|(at, ..)| *at).collect()).collect();
    // Each packet passes `a` once and `r` twice, on arrival and on departure.
    assert_eq!((at[0].len(), at[1].len()), (1000, 2000));
    let late: Vec<i64> = at[0].iter().map(|at| (at % 10_000_000) as i64).collect();
    assert!(late.iter().all(|ns| (0..=16_000).contains(ns)) && (mean(&late) - 8000.0).abs() < 600.0, "{}", mean(&late));
}

#[test]
fn a_proxy_takes_time_only_for_packets_of_its_own_legs() {
    let pings =
        "[[flows]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"server\"\nto = \"client\"\ninterval = \"100 ms\"\n\
                 packet = \"84 B\"\nrepeat = 100\n";
    let flows = download("size = \"1 MB\"") + pings;
    let run = |hosts: &str| result(&network(GEO, &gateway(""), &format!("{hosts}\n{flows}"))).tables;
    let (without, with) = (run(""), run("[hosts.gateway]\nprocessing_time = \"3 ms\""));
    assert_eq!(with.flows.received_bytes, without.flows.received_bytes);
    assert_eq!(with.flows.leg, [None, Some(1), Some(2), None]);
    let [legs, more] = [&without, &with].map(|tables| [1, 2].map(|row| tables.flows.rtt_mean_ms[row].expect("a mean")));
    // Once per round trip: ACKs of the first leg, data of the second. In trains, the latest packet delays those behind it.
    for (more, leg) in more.iter().zip(&legs) {
        assert!((3.0..6.0).contains(&(more - leg)), "{leg} and {more} ms");
    }
    // Pings pass the gateway, where they meet packets that arrive later than before.
    let pings = [&without, &with].map(|tables| mean(&round_trips(tables)));
    assert!((pings[0] - pings[1]).abs() < 100_000.0, "{pings:?} ns");
}

#[test]
fn packets_of_a_host_follow_route_changes() {
    let hosts = "[hosts]\nprocessing_time = \"1 ms\"\n";
    let tables = result(&two_paths("", &(over_geo("start = \"10 s\"\nend = \"20 s\"") + hosts + PINGS))).tables;
    assert_eq!(tables.flows.lost_packets, [Some(0)]);
    let round_trips = round_trips(&tables);
    let (leo, geo): (Vec<i64>, Vec<i64>) = round_trips.into_iter().partition(|ns| *ns < 100_000_000);
    assert!((98..=102).contains(&geo.len()), "{}", geo.len());
    assert!((mean(&leo) - 52e6 - 2e6).abs() < 0.2e6, "{}", mean(&leo));
}

#[test]
fn a_hosts_own_routes_change_behind_its_processing() {
    let text = r#"
        name = "test"
        time_limit = "60 s"
        nodes = ["a", "b"]
        [hosts.a]
        processing_time = "1 ms"
        [[links]]
        name = "near"
        between = ["a", "b"]
        rate = "1 Gbit/s"
        delay = "10 ms"
        [[links]]
        name = "far"
        between = ["a", "b"]
        rate = "1 Gbit/s"
        delay = "200 ms"
        [[routes]]
        node = "a"
        to = "b"
        via = "far"
        start = "1 s"
        [[flows]]
        name = "ping"
        kind = "ping"
        from = "a"
        to = "b"
        interval = "100 ms"
        packet = "84 B"
        repeat = 20
    "#;
    let round_trips = round_trips(&result(text).tables);
    // The packet sent at 1 s is still in its host when the route changes.
    let near = round_trips.iter().filter(|ns| (20_000_000..22_100_000).contains(*ns)).count();
    let far = round_trips.iter().filter(|ns| (210_000_000..212_100_000).contains(*ns)).count();
    assert_eq!((near, far), (10, 10));
}

#[test]
fn users_and_their_server_have_processing_time() {
    let flow =
        "[[flows]]\nname = \"probe\"\nkind = \"transactions\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"100 ms\"\n\
         request = \"300 B\"\nresponses = [\"1 kB\"]\nduration = \"60 s\"\naccess_least = \"7 ms\"";
    let mean = |hosts: &str| {
        let tables = result(&through_router(FREE, &format!("{hosts}\n{flow}"))).tables;
        assert_eq!(tables.responses.failed, [0]);
        tables.responses.mean_ms[0].expect("a mean")
    };
    let (without, with) = (mean(""), mean("[hosts]\nprocessing_time = \"1 ms\""));
    // The SYN and its answer: a millisecond each. The request leaves behind the ACK of the handshake, the response
    // behind that of the request: the later of two uniform times each.
    assert!((with - without - (2.0 + 2.0 * 4.0 / 3.0)).abs() < 0.2, "{without}, {with}");
}

#[test]
fn a_connection_with_its_own_processing_time_does_not_affect_its_hosts_draws() {
    let run = |flow: &str| {
        let tables = pings(500, &format!("[hosts]\nprocessing_time = \"8 us\"\n{flow}"));
        let of_ping = tables.exchanges.duration_ms.iter().flatten().copied();
        (of_ping.collect::<Vec<f64>>(), tables.flows.rtt_min_ms[0])
    };
    let flow = |tcp: &str| {
        format!("[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 B\"\nstart = \"1005 ms\"\ntcp = {{ {tcp} }}\n")
    };
    let (alone, of_host) = (run(""), run(&flow("")));
    let of_its_own = run(&flow("processing_time = \"10 ms\""));
    assert_ne!(of_host.0, alone.0, "its packets use the host's draws");
    assert_eq!(of_its_own.0, alone.0);
    assert!(of_its_own.1 > of_host.1.map(|ms| ms + 1.0), "{:?} and {:?} ms", of_its_own.1, of_host.1);
}

/// Two flows of this kind, from `a1` and from `a2`, whose link has another delay, to `b` over a router with a short queue.
fn rivals(hosts: &str, other_delay: &str, bottleneck: &str, kind: &str) -> Tables {
    let ends = [("a1", "5 ms"), ("a2", other_delay)].map(|(host, delay)| {
        format!(
            "[[links]]\nname = \"{host}\"\nbetween = [\"{host}\", \"r\"]\nrate = \"100 Mbit/s\"\ndelay = \"{delay}\"\n\
             [[flows]]\nname = \"{host}\"\nfrom = \"{host}\"\nto = \"b\"\n{kind}\n"
        )
    });
    let text = format!(
        "name = \"rivals\"\nnodes = [\"a1\", \"a2\", \"r\", \"b\"]\n{hosts}\n{}\
         [[links]]\nname = \"bottleneck\"\nbetween = [\"r\", \"b\"]\n{bottleneck}\n",
        ends.concat()
    );
    result(&text).tables
}

#[test]
fn processing_time_splits_the_losses_of_two_equal_streams_at_a_full_queue() {
    // Their packets arrive simultaneously, and three of four find room.
    let lost = |hosts: &str| -> Vec<u64> {
        let stream = "kind = \"udp\"\nrate = \"6 Mbit/s\"\npacket = \"1 kB\"\nduration = \"20 s\"";
        let bottleneck = "rate = \"8 Mbit/s\"\ndelay = \"20 ms\"\nqueue = { packets = 10 }";
        let flows = rivals(hosts, "5 ms", bottleneck, stream).flows;
        assert_eq!(flows.sent_packets, [Some(15_000); 2]);
        flows.lost_packets.into_iter().flatten().collect()
    };
    let (locked, free) = (lost(""), lost("[hosts]\nprocessing_time = \"8 us\""));
    println!("lost of 15,000 each: {locked:?} without, {free:?} with 8 us");
    assert!(locked[0] == 0 && locked[1] > 9_900, "{locked:?}");
    assert!(free[0].abs_diff(free[1]) < 300, "{free:?}");
}

#[test]
fn a_processing_time_up_to_the_bottlenecks_time_for_a_packet_breaks_phase_effects_of_tcp() {
    // Floyd and Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways" (1992): packets of both arrive in phase with those that
    // leave the queue, 10 ms apart, so the same flow finds it full again and again.
    let ratio = |hosts: &str| {
        let flow = "duration = \"200 s\"\ncc = \"reno\"\ntcp = { delayed_acks = false, cwnd_clamp = 32 }";
        let bottleneck = "rate = \"1.2 Mbit/s\"\ndelay = \"100 ms\"\nqueue = { packets = 15 }";
        let goodput = rivals(hosts, "22 ms", bottleneck, flow).flows.goodput_mbps;
        goodput[0].expect("a goodput") / goodput[1].expect("a goodput")
    };
    let (locked, free) = (ratio(""), ratio("[hosts]\nprocessing_time = \"5 ms\""));
    println!("goodput of one to that of the other: {locked:.2} without, {free:.2} with 5 ms");
    assert!(locked > 8.0, "{locked}");
    assert!((0.7..1.4).contains(&free), "{free}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn results_do_not_depend_on_how_packets_of_hosts_are_carried(seed in 0u32..10_000, us in 1u32..3000, proxy in any::<bool>()) {
        let flows = download("size = \"2 MB\"")
            + "[[flows]]\nname = \"voice\"\nkind = \"udp\"\nfrom = \"client\"\nto = \"server\"\nrate = \"3 Mbit/s\"\n\
               packet = \"200 B\"\nduration = \"2 s\"\n\
               [[flows]]\nname = \"users\"\nkind = \"web\"\nfrom = \"gateway\"\nto = \"client\"\nconnections_per_s = 10\n\
               duration = \"3 s\"\naccess_least = \"5 ms\"\n";
        let hosts = format!(
            "[hosts.gateway]\nprocessing_time = \"{us} us\"\n[hosts.client]\nprocessing_time = \"8 us\"\n"
        );
        let proxies = if proxy { gateway("flows = [\"download\"]") } else { String::new() };
        let satellite = "rate = \"20 Mbit/s\"\ndelay = \"50 ms\"\nqueue = \"60 kB\"\ndown = { loss = \"0.1 %\" }";
        let text = network(satellite, &(hosts + &proxies), &flows);
        let run = plan(&text.replace("name = \"test\"", &format!("name = \"test\"\nseed = {seed}")));
        let ahead = Carriage::default();
        let carried = |carriage: Carriage| carry_out(&run, carriage).expect("the run succeeds").tables;
        let tables = carried(ahead);
        prop_assert_eq!(&tables, &carried(ahead), "a second run");
        prop_assert_eq!(&tables, &carried(Carriage { cut_through: false, ..ahead }), "hop by hop");
        let kept = Carriage { cut_through: false, links_store_packets: true, ..ahead };
        prop_assert_eq!(&tables, &carried(kept), "with packets stored by the links");
    }
}
