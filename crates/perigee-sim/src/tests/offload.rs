//! Hosts that send and receive trains of segments.

use std::collections::BTreeMap;

use super::{result, through_router};
use perigee_results::Tables;

/// A lossless download of 40 MB over 200 Mbit/s and 20 ms between hosts with these settings.
fn download(hosts: &str) -> Tables {
    let text = through_router(
        "rate = \"200 Mbit/s\"\n delay = \"9 ms\"\n queue = \"2 MB\"",
        &format!(
            r#"
            [hosts]
            cwnd_clamp = 400
            {hosts}
            [measure]
            series = "100 ms"
            events = true
            [[flows]]
            name = "download"
            from = "a"
            to = "b"
            size = "40 MB"
            cc = "reno"
            "#
        ),
    );
    let tables = result(&text).tables;
    assert_eq!(tables.flows.received_bytes, [40_000_000]);
    assert_eq!(tables.flows.retransmitted_packets, [Some(0)]);
    tables
}

/// Mean number of segments per send time in the second half of a download.
fn train(tables: &Tables) -> f64 {
    let half = tables.flows.duration_s[0] / 2.0;
    let mut instants = BTreeMap::new();
    for (at, kind) in tables.events.t_s.iter().zip(&tables.events.event) {
        if &**kind == "sent" && *at > half {
            *instants.entry(at.to_bits()).or_insert(0u32) += 1;
        }
    }
    f64::from(instants.values().sum::<u32>()) / instants.len() as f64
}

/// Packets in reverse direction per data packet.
fn acknowledgements(tables: &Tables) -> f64 {
    let offered = |link: &str| -> u64 {
        let rows = tables.links.link.iter().zip(&tables.links.offered_packets);
        rows.filter(|(name, _)| &***name == link).map(|(_, count)| count).sum()
    };
    offered("bottleneck.up") as f64 / offered("bottleneck.down") as f64
}

#[test]
fn with_segmentation_offload_segments_leave_in_trains_of_a_millisecond() {
    let (single, trains) = (download("segmentation_offload = false"), download(""));
    assert!(train(&single) < 2.1, "{}", train(&single));
    // The link carries 16.7 segments in the millisecond for which TCP waits; 1/1024 s at the pacing rate, 1.2 times the window of 400 in a
    // round trip of 24 ms, are 19.
    let mean = train(&trains);
    assert!((16.5..19.5).contains(&mean), "{mean}");
    let [alone, together] = [single, trains].map(|tables| tables.flows.goodput_mbps[0].expect("a goodput"));
    assert!((together / alone - 1.0).abs() < 0.03, "{together} Mbit/s in trains, {alone} alone");
}

#[test]
fn with_receive_offload_segments_within_its_delay_are_acknowledged_once() {
    let off = acknowledgements(&download("delayed_acks = false"));
    assert!(off > 0.99, "{off}");
    // Segments are 60 us apart: 300 us aggregate the first and the four after it.
    let gathered = acknowledgements(&download("delayed_acks = false\n receive_offload = \"0.3 ms\""));
    assert!((0.16..0.24).contains(&gathered), "{gathered}");
}
