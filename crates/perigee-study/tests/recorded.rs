//! The readers against a recorded Starlink link, where the folder of recorded data is at hand: `PERIGEE_SHARED`, by
//! default `../shared` beside the checkout.

#![allow(clippy::disallowed_methods, reason = "recordings are files, where the environment says")]
#![allow(clippy::unwrap_used, reason = "a recording that cannot be read fails the test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use perigee_link::{DelaySpec, Ecn, Link, LinkSpec, RateSpec, Transit};
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

#[test]
fn blocks_of_a_recording_keep_the_rate_and_the_delay_of_each_slot_together() {
    let (Some(bw), Some(delay)) = (recording("bw_example.txt"), recording("delay_example.txt")) else { return };
    let text = "name = \"leo\"\ntitle = \"t\"\nsource = \"s\"\n[link]\nrate = { trace = \"bw\" }\ndelay = { trace = \"delay\" }\n\
                replay = { kind = \"bootstrap\", block = \"15 s\", phase = \"10 s\" }\n";
    let mut load = |name: &str| Ok(if name == "bw" { bw.clone() } else { delay.clone() });
    let profile = perigee_study::profile::parse(text, "leo.toml", &mut load).unwrap();
    let slot = Time::from_secs(15);
    // The delays of a slot in steps of 10 ms, and the mean rate of it, tell which one it is.
    let (rates, delays) = (trace::mahimahi(&bw, "bw").unwrap(), trace::delays(&delay, "delay").unwrap());
    let recorded_delay =
        |number: u64, line: u64| delays.at(Time::from_secs(10) + slot * number + Time::from_millis(10 * line));
    let spec = LinkSpec { rate: RateSpec::Trace(Arc::new(rates)), ..LinkSpec::constant(Rate::ZERO, Time::ZERO) };
    let mut replayed = Link::<()>::new(&spec, 1, "recorded");
    let capacity: Vec<Rate> = (0..7)
        .map(|number| {
            replayed.mean_rate(Time::from_secs(10) + slot * number, Time::from_secs(10) + slot * (number + 1))
        })
        .collect();
    let (DelaySpec::Blocks(down), DelaySpec::Blocks(_)) = (&profile.down.delay, &profile.up.delay) else { panic!() };
    assert_eq!(down.count(), 7, "seven whole slots after 10 s");
    let samples = |name: &str| {
        perigee_link::sample(
            &LinkSpec { rate: RateSpec::Constant(Rate::UNLIMITED), ..profile.down.clone() },
            3,
            name,
            Time::from_millis(10),
            60_000,
        )
    };
    let (down, up) = (samples("l.down"), samples("l.up"));
    assert_eq!(down, up, "both directions have the same slots");
    let mut link = Link::<()>::new(&profile.down, 3, "l.down");
    let mut met = [0; 7];
    for number in 0..40u64 {
        let rate = link.mean_rate(slot * number, slot * (number + 1));
        let source =
            capacity.iter().position(|known| *known == rate).unwrap_or_else(|| panic!("slot {number} has {rate}"));
        met[source] += 1;
        // A packet never overtakes, so a delay may be late for as long as the delay before it was.
        let lines = (100..1500).filter(|line| {
            let seen = down[(1500 * number + line) as usize].delay;
            seen == Some(recorded_delay(source as u64, *line))
        });
        assert!(lines.count() > 1_100, "slot {number} has the delays of another one than its rate");
    }
    assert!(met.iter().all(|times| *times > 0), "{met:?}");
}
