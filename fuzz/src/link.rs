//! Fuzz targets of the link's readers. The plain tests of `perigee-study` replay the corpus
//! through the same functions.

#![allow(dead_code, reason = "each fuzz target is a program of its own and uses one of these")]

use perigee_link::{Ecn, Exit, Link, LinkSpec, Packet};
use perigee_study::{profile, trace};
use perigee_text::StrictError;
use perigee_units::Time;

/// A profile; the recordings it names are short ones.
pub(crate) fn profile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut load = |name: &str| match name {
        "b" => Ok(b"1\n1\n7\n".to_vec()),
        "d" => Ok(b"12\n40\n5\n".to_vec()),
        "t" => Ok(b"time_s,rate_mbps,delay_ms,loss,limit_kb\n0,3,5,0.1,30\n1,6,2,0,60\n".to_vec()),
        _ => Err("no such file".to_owned()),
    };
    if let Some(profile) = checked(profile::parse(text, "fuzz", &mut load)) {
        drive(&profile.down);
        drive(&profile.up);
    }
}

/// A packet-delivery trace.
pub(crate) fn mahimahi(data: &[u8]) {
    if let Some(steps) = checked(trace::mahimahi(data, "fuzz")) {
        let busy = steps.iter().any(|(_, rate)| rate.as_bps() > 0);
        assert!(busy && steps.period().is_some(), "a trace without opportunity or end");
    }
}

/// A delay trace.
pub(crate) fn delays(data: &[u8]) {
    if let Some(steps) = checked(trace::delays(data, "fuzz")) {
        assert!(steps.period().is_some_and(|p| p >= Time::from_millis(10)), "a trace without length");
    }
}

/// A timeline.
pub(crate) fn timeline(data: &[u8]) {
    if let Some(timeline) = checked(trace::timeline(data, "fuzz")) {
        let columns = [timeline.rate.is_some(), timeline.delay.is_some(), timeline.loss.is_some()];
        assert!(columns.contains(&true) || timeline.limit.is_some(), "a timeline of nothing");
    }
}

/// The value, or nothing where there is an error; that must be one line that names the place.
fn checked<T>(result: Result<T, StrictError>) -> Option<T> {
    result
        .map_err(|error| {
            let text = error.to_string();
            assert!(!text.contains('\n') && text.len() < 2_000, "not one line: {text}");
            assert!(text.contains(':') && text.contains("; "), "no place or fix: {text}");
        })
        .ok()
}

/// Some packets, with silences between them that no process may take long to pass.
fn drive(spec: &LinkSpec) {
    let mut link = Link::<()>::new(spec, 1, "fuzz");
    for i in 0..200u64 {
        let gap = if i % 50 == 49 { Time::from_secs(100_000) } else { Time::from_micros(300) };
        let now = gap * (i + 1);
        link.offer(now, Packet { bytes: 1500, flow: 0, ecn: Ecn::Capable, is_low: false, token: () });
        link.queue_bytes(now);
        link.rate_at(now);
    }
    let exits: Vec<Exit<()>> = std::iter::from_fn(|| link.poll(Time::MAX)).collect();
    let counters = link.counters();
    assert_eq!(counters.offered_packets, counters.delivered_packets + counters.dropped.iter().sum::<u64>());
    let delivered = exits.iter().filter(|exit| matches!(exit, Exit::Delivered(_))).count() as u64;
    assert_eq!((delivered, link.in_flight()), (counters.delivered_packets, 0));
}
