//! The readers against a recorded Starlink link, where the folder of recorded data is at hand: `PERIGEE_SHARED`, by
//! default `../shared` beside the checkout.

#![allow(clippy::disallowed_methods, reason = "recordings are files, where the environment says")]
#![allow(clippy::unwrap_used, reason = "a recording that cannot be read fails the test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use perigee_link::{Ecn, Link, LinkSpec, RateSpec, Transit};
use perigee_study::trace;
use perigee_units::{Rate, Time};

fn recording(name: &str) -> Option<Vec<u8>> {
    let given = std::env::var("PERIGEE_SHARED").map(PathBuf::from);
    let folder = given.unwrap_or_else(|_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let path = folder.join("traces/leocc").join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            println!("skipped: {}: {error}; set PERIGEE_SHARED to the folder of recorded data", path.display());
            None
        }
    }
}

#[test]
fn a_busy_replay_carries_the_recorded_capacity_of_each_second() {
    let Some(bytes) = recording("bw_example.txt") else { return };
    let mut recorded = [0u64; 121];
    for line in std::str::from_utf8(&bytes).unwrap().lines() {
        recorded[(line.parse::<usize>().unwrap().saturating_sub(1)) / 1000] += 1;
    }
    let steps = trace::mahimahi(&bytes, "bw_example.txt").unwrap();
    assert_eq!(steps.period(), Some(Time::from_millis(120_052)));
    let spec = LinkSpec { rate: RateSpec::Trace(Arc::new(steps)), ..LinkSpec::constant(Rate::ZERO, Time::ZERO) };
    let mut link = Link::<()>::new(&spec, 1, "replay");
    let mut carried = [0u64; 121];
    for i in 1..=487_652u64 {
        let Transit::Delivered(at) = link.transit(Time::ZERO, 1500, &mut Ecn::NotCapable) else { panic!("dropped") };
        carried[((at.as_nanos() - 1) / 1_000_000_000) as usize] += 1;
        assert!(i < 487_652 || at == Time::from_millis(120_052), "the last opportunity is used at {at}");
    }
    assert_eq!(carried, recorded);
    let mut whole: Vec<f64> = carried[..120].iter().map(|packets| *packets as f64 * 0.012).collect();
    whole.sort_by(f64::total_cmp);
    // The recording's note gives these figures.
    let median = f64::midpoint(whole[59], whole[60]);
    let tenths = [whole[0], median, whole[119]].map(|mbps| (mbps * 10.0).round() as u64);
    assert_eq!(tenths, [302, 483, 733]);
}

#[test]
fn a_replayed_delay_is_the_recorded_one() {
    let Some(bytes) = recording("delay_example.txt") else { return };
    let steps = trace::delays(&bytes, "delay_example.txt").unwrap();
    let lines: Vec<u64> = std::str::from_utf8(&bytes).unwrap().lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(steps.period(), Some(Time::from_millis(10) * lines.len() as u64));
    for (i, ms) in lines.iter().enumerate() {
        assert_eq!(steps.at(Time::from_millis(10 * i as u64 + 9)), Time::from_millis(*ms), "line {}", i + 1);
    }
    let mut sorted = lines.clone();
    sorted.sort_unstable();
    assert_eq!((sorted[0], sorted[lines.len() / 2], sorted[lines.len() - 1]), (7, 11, 68));
}
