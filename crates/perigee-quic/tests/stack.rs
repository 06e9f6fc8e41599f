//! Watches the stack: what a new release of it may change, and what this crate takes from how it behaves.

use perigee_quic::{AckFrequency, Config, Limit};
use perigee_units::{Bytes, Rate, Time};

use crate::common::{download, unbounded, Path, SERVER};

/// The times between the probes of a server into 60 s of silence, ms.
fn gaps_in_silence() -> (Vec<u64>, u64) {
    let path = Path {
        rate: Rate::from_mbps(10.0),
        delay: Time::from_millis(50),
        queue: Bytes::new(1_000_000),
        silence: Time::from_secs(1)..Time::from_secs(61),
        loses: |_| false,
    };
    let config = unbounded("reno");
    let mut download = download(&path, [&config, &config], 5_000_000, Time::from_secs(200));
    assert!(download.done.is_some(), "it completes after the silence");
    let probes = download.ends[SERVER].info().probe_timeouts.expect("of an algorithm");
    let silent = |at: &&Time| path.silence.contains(at);
    let times: Vec<_> = download.departures[SERVER].iter().filter(silent).map(|at| at.as_millis()).collect();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    (gaps.filter(|gap| *gap > 150).collect(), probes)
}

/// RFC 9002, section 6.2.1, doubles the timeout with each probe. This stack does not beyond 2 s: it adds 2 s each time, which is its own
/// deviation and no algorithm's.
#[test]
fn probe_timeouts_double_up_to_the_stacks_cap() {
    let (gaps, probes) = gaps_in_silence();
    let ratios: Vec<_> = gaps.windows(2).map(|pair| pair[1] as f64 / pair[0] as f64).collect();
    let capped = gaps.iter().position(|gap| *gap > 2000).expect("60 s of silence reach the cap");
    assert!(ratios[..capped].iter().all(|ratio| (1.5..2.1).contains(ratio)), "{gaps:?}");
    let steps: Vec<_> = gaps[capped..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| step.abs_diff(2000) <= 1), "the cap has changed: {gaps:?}");
    assert_eq!(probes, gaps.len() as u64 + 1, "{gaps:?}");
}

#[test]
fn what_limits_a_sender_is_told_by_the_stacks_questions() {
    let path = Path {
        rate: Rate::from_mbps(100.0),
        delay: Time::from_millis(20),
        queue: Bytes::new(500_000),
        silence: Time::MAX..Time::MAX,
        loses: |_| false,
    };
    let limit_at = |cc: &str, at: Time| {
        let config = unbounded(cc);
        let mut download = download(&path, [&config, &config], 100_000_000, at);
        download.ends[SERVER].info().limit
    };
    assert_eq!(limit_at("reno", Time::from_millis(1500)), Some(Limit::Window));
    assert_eq!(limit_at("bbr", Time::from_millis(2100)), Some(Limit::Pacing));
}

/// Packets lost of a download whose slow start overshoots: every other one of a round trip. Release 1.4.0 of the stack ends connections
/// with more than 1,024 gaps.
fn lost_by_an_overshoot(mbps: f64, bytes: u64) -> u64 {
    let rate = Rate::from_mbps(mbps);
    let path = Path {
        rate,
        delay: Time::from_millis(300),
        queue: rate.bytes_in(Time::from_millis(600)),
        silence: Time::MAX..Time::MAX,
        loses: |_| false,
    };
    let config = unbounded("reno");
    let download = download(&path, [&config, &config], bytes, Time::from_secs(300));
    assert!(download.done.is_some(), "{:?}", download.ends[0].closed());
    download.dropped
}

#[test]
fn a_download_completes_after_thousands_of_gaps() {
    let lost = lost_by_an_overshoot(50.0, 30_000_000);
    assert!(lost > 2000, "{lost}");
}

#[test]
#[ignore = "long: make torture"]
fn a_download_of_100_mb_completes_after_nearly_ten_thousand_losses() {
    let lost = lost_by_an_overshoot(250.0, 100_000_000);
    assert!(lost > 9_000, "{lost}");
}

/// The longest silence of a server that sends 1 MB over 100 ms one way, and its probe timeouts, where it asks for an acknowledgement of so
/// many packets and one.
fn asked_for_rare_acknowledgements(packets: u32) -> (Time, Option<u64>) {
    let path = Path {
        rate: Rate::from_mbps(20.0),
        delay: Time::from_millis(100),
        queue: Bytes::new(500_000),
        silence: Time::MAX..Time::MAX,
        loses: |_| false,
    };
    let client = unbounded("reno");
    let server = Config { ack_frequency: Some(AckFrequency { packets, delay: None }), ..client.clone() };
    let mut download = download(&path, [&client, &server], 1_000_000, Time::from_secs(60));
    let silence = download.departures[SERVER].windows(2).map(|pair| pair[1] - pair[0]).max().expect("it sends");
    (silence, download.ends[SERVER].info().probe_timeouts)
}

/// The client has a packet of data before it acknowledges the last one of the handshake, which stops the timer of the first one's
/// acknowledgement for good: the first window of ten is acknowledged when a probe asks for it, where the count does not ask before.
#[test]
fn an_acknowledgement_of_the_handshake_stops_the_timer_of_datas() {
    let round_trip = Time::from_millis(200);
    let (silence, probes) = asked_for_rare_acknowledgements(9);
    assert!(silence < round_trip + Time::from_millis(25) && probes == Some(0), "{silence}, {probes:?}");
    let (silence, probes) = asked_for_rare_acknowledgements(10);
    assert!(silence > round_trip * 2 && probes == Some(1), "the stack has been mended: {silence}, {probes:?}");
}
