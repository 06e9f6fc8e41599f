//! Each kind of flow: its behaviour and its rows.

use super::{plan, result, through_router};
use crate::SimError;
use std::ops::ControlFlow;

#[test]
fn a_pings_round_trip_is_the_sum_of_delays_and_transmission_times() {
    let tables = result(&through_router(
        "rate = \"1 Mbit/s\"\ndelay = \"300 ms\"",
        "[[flows]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"1 s\"\npacket = \"125 B\"\nrepeat = 5",
    ))
    .tables;
    // 125 bytes take 1 us at 1 Gbit/s and 1 ms at 1 Mbit/s, in each direction.
    let expected_ms = 2.0 * (1.0 + 0.001 + 300.0 + 1.0);
    assert_eq!(tables.exchanges.duration_ms, [Some(expected_ms); 5]);
    assert_eq!(tables.exchanges.start_s, [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!((tables.flows.rtt_min_ms[0], tables.flows.rtt_mean_ms[0]), (Some(expected_ms), Some(expected_ms)));
    assert_eq!((tables.flows.lost_packets[0], tables.flows.completed[0]), (Some(0), true));
    assert!((tables.flows.duration_s[0] - 4.0 - expected_ms / 1e3).abs() < 1e-12);
}

/// A call next to a burst of datagrams that temporarily fills the queue of its link.
fn call_beside_a_burst(playout: &str) -> perigee_results::Tables {
    let flows = format!(
        r#"
        [[flows]]
        name = "call"
        kind = "voice"
        from = "a"
        to = "b"
        off = "0 s"
        playout = "{playout}"
        duration = "20 s"
        [[flows]]
        name = "burst"
        kind = "udp"
        from = "a"
        to = "b"
        rate = "2 Mbit/s"
        packet = "1000 B"
        start = "5 s"
        duration = "5 s"
        "#
    );
    result(&through_router("rate = \"1 Mbit/s\"\ndelay = \"200 ms\"\nqueue = \"40 kB\"", &flows)).tables
}

#[test]
fn a_call_over_a_free_link_is_delayed_by_link_packet_and_playout() {
    let tables = result(&through_router(
        "rate = \"1 Mbit/s\"\ndelay = \"200 ms\"",
        "[[flows]]\nname = \"call\"\nkind = \"voice\"\nfrom = \"a\"\nto = \"b\"\nduration = \"10 s\"",
    ))
    .tables;
    let voice = &tables.voice;
    // 218 bytes take 1.744 us at 1 Gbit/s and 1.744 ms at 1 Mbit/s.
    let delay_ms = 1.0 + 0.001_744 + 200.0 + 1.744;
    assert_eq!((voice.lost_packets[0], voice.late_packets[0], voice.jitter_max_ms[0]), (0, 0, Some(0.0)));
    assert_eq!((voice.delay_mean_ms[0], tables.flows.delay_mean_ms[0]), (Some(delay_ms), Some(delay_ms)));
    let mouth_to_ear = voice.mouth_to_ear_ms[0].expect("a delay");
    assert!((mouth_to_ear - (20.0 + delay_ms + 60.0)).abs() < 1e-9, "{mouth_to_ear}");
    assert_eq!(Some(voice.sent_packets[0]), tables.flows.sent_packets[0]);
    assert_eq!(
        voice.r_factor[0],
        Some(perigee_results::rating(mouth_to_ear, 0.0, perigee_results::Codec::G711_CONCEALED))
    );
    assert_eq!(voice.mos[0], voice.r_factor[0].map(perigee_results::opinion));
}

#[test]
fn a_longer_playout_buffer_plays_what_a_burst_delays_and_costs_delay() {
    let (short, long) = (call_beside_a_burst("20 ms").voice, call_beside_a_burst("400 ms").voice);
    assert_eq!((short.sent_packets[0], short.lost_packets[0]), (1_000, long.lost_packets[0]));
    assert!(short.late_packets[0] > 100, "{} late", short.late_packets[0]);
    assert_eq!(long.late_packets[0], 0);
    let delays = [&short, &long].map(|voice| voice.mouth_to_ear_ms[0].expect("a delay"));
    assert!((delays[1] - delays[0] - 380.0).abs() < 1e-6, "{delays:?}");
    assert!(short.jitter_max_ms[0] > Some(1.0));
}

#[test]
fn flows_with_a_count_start_one_after_another() {
    let tables = result(&through_router(
        "rate = \"1 Mbit/s\"\ndelay = \"1 ms\"",
        "[[flows]]\nname = \"d\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\nstart = \"2 s\"\nstagger = \"500 ms\"\ncount = 3",
    ))
    .tables;
    assert_eq!(tables.flows.start_s, [2.0, 2.5, 3.0]);
    assert_eq!(tables.flows.flow.iter().map(|name| &**name).collect::<Vec<_>>(), ["d.1", "d.2", "d.3"]);
}

#[test]
fn the_two_directions_of_a_flow_may_take_different_paths() {
    let tables = result(
        r#"
        name = "triangle"
        nodes = ["a", "b", "c"]
        [[links]]
        name = "satellite"
        between = ["a", "b"]
        rate = "1 Gbit/s"
        delay = "300 ms"
        [[links]]
        name = "first"
        between = ["b", "c"]
        rate = "1 Gbit/s"
        delay = "20 ms"
        [[links]]
        name = "second"
        between = ["c", "a"]
        rate = "1 Gbit/s"
        delay = "30 ms"
        [[routes]]
        node = "b"
        to = "a"
        via = "first"
        [[flows]]
        name = "p"
        kind = "ping"
        from = "a"
        to = "b"
        interval = "1 s"
        packet = "125 B"
        repeat = 1
        "#,
    )
    .tables;
    assert_eq!(tables.exchanges.duration_ms, [Some(350.003)]);
}

#[test]
fn udp_over_capacity_loses_the_excess() {
    let tables = result(&through_router(
        "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nqueue = \"15 kB\"",
        "[[flows]]\nname = \"u\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"25 Mbit/s\"\npacket = \"1000 B\"\nduration = \"10 s\"",
    ))
    .tables;
    let flows = &tables.flows;
    let (sent, lost) = (flows.sent_packets[0].expect("counted"), flows.lost_packets[0].expect("udp counts losses"));
    assert_eq!(sent, 31_250, "25 Mbit/s for 10 s in packets of 8000 bits");
    // The link carries 12,500 packets in that time; the queue of 15 drains afterwards.
    assert!((sent - lost).abs_diff(12_500) <= 16, "{} packets arrived", sent - lost);
    assert_eq!(flows.received_bytes[0], (sent - lost) * 972);
    // A full queue of 15 packets delays by 12 ms, and the propagation delays are 1 ms and 10 ms.
    assert!((flows.delay_mean_ms[0].expect("udp has a delay") - 23.0).abs() < 1.0, "{:?}", flows.delay_mean_ms);
}

#[test]
fn a_download_delivers_its_size_and_its_row_has_the_phases() {
    let tables = result(&through_router(
        "rate = \"20 Mbit/s\"\ndelay = \"40 ms\"\nqueue = \"400 kB\"",
        r#"
        [measure]
        startup = "2 MB"
        milestones = { every = "5 MB", upto = "20 MB" }
        [[flows]]
        name = "d"
        from = "a"
        to = "b"
        size = "20 MB"
        cc = "cubic"
        "#,
    ))
    .tables;
    let flows = &tables.flows;
    assert!(flows.completed[0]);
    assert_eq!((flows.bytes[0], flows.received_bytes[0]), (20_000_000, 20_000_000));
    let rate = flows.received_bytes[0] as f64 * 8.0 / flows.duration_s[0] / 1e6;
    assert!((flows.goodput_mbps[0].expect("a goodput") - rate).abs() < 1e-9);
    // 1448 of 1500 bytes are payload; handshake and slow start take the rest of the time.
    assert!(rate > 16.0 && rate < 20.0 * 1448.0 / 1500.0, "{rate} Mbit/s");
    let handshake = flows.handshake_ms[0].expect("tcp has a handshake");
    assert!(handshake > 82.0 && handshake < 82.2, "{handshake} ms");
    assert!(flows.sent_packets[0] >= Some(20_000_000 / 1448));
    // The phases: the first 2 MB, and the last half.
    let part = |goodput: Option<f64>, length: Option<f64>| {
        goodput.expect("has the phase") * length.expect("has the phase") / 8.0
    };
    assert!((part(flows.startup_goodput_mbps[0], flows.startup_s[0]) - 2.0).abs() < 0.1);
    assert!((part(flows.steady_goodput_mbps[0], flows.steady_s[0]) - 10.0).abs() < 0.1);
    assert!(flows.steady_goodput_mbps[0] > flows.startup_goodput_mbps[0]);
    assert_eq!(tables.milestones.bytes, [5_000_000, 10_000_000, 15_000_000, 20_000_000]);
    assert!(tables.milestones.t_s.is_sorted());
    assert_eq!(tables.milestones.t_s.last(), flows.duration_s.last());
    let samples_of = |phase: &str| -> u64 {
        let rows = tables.rtt.phase.iter().zip(&tables.rtt.count);
        rows.filter(|(name, _)| &***name == phase).map(|(_, count)| count).sum()
    };
    assert!(samples_of("all") > samples_of("startup") + samples_of("steady"));
    assert!(samples_of("startup") > 0 && samples_of("steady") > 0);
    assert!(flows.rtt_min_ms[0] >= Some(82.0));
    // The series sums to the row.
    let series = &tables.series;
    assert_eq!(series.sent_packets.iter().copied().sum::<Option<u64>>(), flows.sent_packets[0]);
    assert_eq!(series.retransmitted_packets.iter().copied().sum::<Option<u64>>(), flows.retransmitted_packets[0]);
    assert_eq!(series.t_s.last(), Some(&flows.duration_s[0]));
}

#[test]
fn no_phase_is_faster_than_the_link_though_what_waited_behind_a_gap_is_delivered_in_it() {
    let link = "rate = \"20 Mbit/s\"\ndelay = \"30 ms\"\nqueue = \"1 MB\"";
    let download = "[[flows]]\nname = \"d\"\nfrom = \"a\"\nto = \"b\"\nsize = \"5 MB\"\ncc = \"hybla\"";
    let flows = result(&through_router(link, download)).tables.flows;
    assert!(flows.retransmitted_packets[0] > Some(100), "the queue overflows");
    let steady = flows.steady_goodput_mbps[0].expect("has the phase");
    // 1448 of 1500 bytes are payload.
    assert!(steady > 10.0 && steady <= 20.0 * 1448.0 / 1500.0, "{steady} Mbit/s over 20 Mbit/s");
}

#[test]
fn a_flow_with_a_duration_ends_after_it() {
    let tables = result(&through_router(
        "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"60 kB\"",
        "[[flows]]\nname = \"d\"\nfrom = \"a\"\nto = \"b\"\nduration = \"7500 ms\"\nstart = \"500 ms\"\ncc = \"reno\"",
    ))
    .tables;
    assert_eq!((tables.flows.start_s[0], tables.flows.duration_s[0]), (0.5, 7.5));
    assert!(tables.flows.completed[0]);
    assert_eq!(tables.flows.steady_s[0], Some(3.75), "the last half of the time");
    assert_eq!(tables.series.t_s, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
}

#[test]
fn a_sender_that_opens_the_connection_is_half_a_round_trip_ahead() {
    let first_packet = |opened_by: &str| {
        let flow = format!("[[flows]]\nname = \"d\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\n{opened_by}");
        let flows = result(&through_router("rate = \"1 Gbit/s\"\ndelay = \"99 ms\"", &flow)).tables.flows;
        assert!(flows.completed[0]);
        (flows.duration_s[0], flows.handshake_ms[0].expect("tcp has a handshake"))
    };
    let (receiver, sender) = (first_packet("opened_by = \"receiver\""), first_packet("opened_by = \"sender\""));
    assert_eq!(first_packet(""), receiver);
    // One direction takes 100 ms: SYN, SYN-ACK, then ACK and data, or data at once.
    assert!((0.400..0.401).contains(&receiver.0) && (0.300..0.301).contains(&sender.0), "{receiver:?} {sender:?}");
    assert!((200.0..200.1).contains(&receiver.1) && (200.0..200.1).contains(&sender.1), "{receiver:?} {sender:?}");
}

#[test]
fn an_upload_of_one_segment_completes_the_handshake_whose_ack_is_lost() {
    let bottleneck = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\n[links.down]\nloss = { kind = \"counted\", drops = [{ packet = 2 }] }";
    let flow = "[[flows]]\nname = \"u\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\nopened_by = \"sender\"";
    let flows = result(&through_router(bottleneck, flow)).tables.flows;
    assert!(flows.completed[0], "{:?}", flows.outcome);
    assert_eq!((flows.received_bytes[0], flows.sent_packets[0]), (1000, Some(1)), "a FIN of its own is no data");
    // The data follow the lost ACK at once: a round trip and a half, and no timeout.
    assert!((0.063..0.066).contains(&flows.duration_s[0]), "{} s", flows.duration_s[0]);
}

#[test]
fn a_response_takes_a_round_trip_and_its_transmission_time() {
    let tables = result(&through_router(
        "rate = \"8 Mbit/s\"\ndelay = \"99 ms\"",
        r#"
        [[flows]]
        name = "web"
        kind = "request"
        from = "a"
        to = "b"
        request = "100 B"
        response = "10 kB"
        think = "2 s"
        repeat = 4
        "#,
    ))
    .tables;
    let (flows, exchanges) = (&tables.flows, &tables.exchanges);
    assert!(flows.completed[0]);
    assert_eq!((exchanges.number.as_slice(), flows.received_bytes[0]), ([0, 1, 2, 3].as_slice(), 40_000));
    for (number, duration) in exchanges.duration_ms.iter().enumerate() {
        // 200 ms of delays; 10.364 kB with headers at 8 Mbit/s and 152 bytes of request: 10.5 ms; negligible at 1 Gbit/s.
        let duration = duration.expect("every response came");
        assert!((210.5..211.0).contains(&duration), "exchange {number} took {duration} ms");
    }
    for pair in exchanges.start_s.windows(2) {
        assert!((pair[1] - pair[0] - 2.2107).abs() < 0.001, "{pair:?}: a response, then two seconds");
    }
}

#[test]
fn a_flow_cut_off_by_the_time_limit_is_incomplete() {
    let text = through_router(
        "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"",
        r#"
        [[flows]]
        name = "long"
        from = "a"
        to = "b"
        size = "1 GB"
        [[flows]]
        name = "late"
        from = "a"
        to = "b"
        size = "1 kB"
        start = "1 h"
        [[flows]]
        name = "ping"
        kind = "ping"
        from = "a"
        to = "b"
        interval = "1 s"
        packet = "64 B"
        repeat = 100
        "#,
    );
    let tables = result(&text.replace("name = \"test\"", "name = \"test\"\ntime_limit = \"2500 ms\"")).tables;
    assert_eq!(tables.flows.completed, [false; 3]);
    assert_eq!(tables.flows.duration_s, [2.5, 0.0, 2.5]);
    assert!(tables.flows.received_bytes[0] > 100_000 && tables.flows.received_bytes[0] < 1_000_000);
    assert_eq!(tables.exchanges.number, [0, 1, 2]);
    assert_eq!(tables.links.t_s.last(), Some(&3.0), "the last interval is whole");
}

#[test]
fn a_flow_without_a_path_is_an_error_that_names_it() {
    let mut run = plan(&through_router(
        "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"",
        "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"",
    ));
    let scenario = std::sync::Arc::make_mut(&mut run.scenario);
    scenario.flows[0].back.pop();
    let error = crate::run(&run, &mut |_| ControlFlow::Continue(())).expect_err("the way back is broken");
    assert_eq!(error.to_string(), "flow `f` has no path from `b` to `a`; connect them by links or correct the routes");
}

#[test]
fn progress_grows_and_may_cancel() {
    let run = plan(&through_router(
        "rate = \"100 Mbit/s\"\ndelay = \"20 ms\"",
        "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"300 MB\"",
    ));
    let (mut shares, mut received) = (Vec::new(), Vec::new());
    let finished = crate::run(&run, &mut |standing| {
        shares.push(standing.share);
        received.push((standing.now, standing.received.clone()));
        ControlFlow::Continue(())
    });
    assert!(finished.is_ok());
    assert!(shares.len() > 3 && shares.is_sorted(), "{shares:?}");
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
    assert!(received.is_sorted() && received.last().is_some_and(|(_, bytes)| bytes[0] > 200_000_000), "{received:?}");
    let mut calls = 0;
    let cancelled = crate::run(&run, &mut |_| {
        calls += 1;
        ControlFlow::Break(())
    });
    assert_eq!((cancelled.err(), calls), (Some(SimError::Cancelled), 1));
}

#[test]
fn a_flow_that_takes_no_time_has_no_goodput() {
    let link = "[[links]]\nname = 'l'\nbetween = ['a', 'b']\nrate = 'unlimited'\ndelay = '0 s'";
    let flow = "[[flows]]\nname = 'f'\nfrom = 'a'\nto = 'b'\nsize = '1 kB'";
    let flows = result(&format!("name = 'free'\nnodes = ['a', 'b']\n{link}\n{flow}")).tables.flows;
    assert_eq!((flows.duration_s[0], flows.received_bytes[0], flows.goodput_mbps[0]), (0.0, 1000, None));
}

#[test]
fn a_thousand_flows_at_once_all_complete() {
    let tables = result(&through_router(
        "rate = \"1 Gbit/s\"\ndelay = \"10 ms\"\nqueue = \"2 MB\"",
        "[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nsize = \"50 kB\"\ncount = 1000\nstart_jitter = \"1 s\"",
    ))
    .tables;
    assert_eq!(tables.flows.flow.len(), 1000);
    assert!(tables.flows.completed.iter().all(|completed| *completed));
    assert!(tables.flows.received_bytes.iter().all(|bytes| *bytes == 50_000));
}
