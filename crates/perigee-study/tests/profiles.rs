//! The profiles in the repository are read without error, and behave as their sources say.

#![allow(clippy::disallowed_methods, reason = "profiles are files")]
#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use std::path::{Path, PathBuf};

use perigee_link::{DelaySpec, Ecn, Exit, Full, Link, LinkSpec, LossSpec, Offered, Packet, RateSpec, Transit};
use perigee_study::profile::{self, Profile};
use perigee_units::{Bytes, Rate, Ratio, Time};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles")
}

fn read(name: &str) -> Profile {
    let text = std::fs::read_to_string(folder().join(format!("{name}.toml"))).unwrap();
    profile::parse(&text, name, &mut |_| Err("the test has no recordings".into())).unwrap_or_else(|e| panic!("{e}"))
}

/// The round trip of a packet of `bytes` that enters the uplink at `now`; `None` if it is lost.
fn ping(up: &mut Link<()>, down: &mut Link<()>, now: Time, bytes: u32) -> Option<Time> {
    let Transit::Delivered(there) = up.transit(now, bytes, &mut Ecn::NotCapable) else { return None };
    let Transit::Delivered(back) = down.transit(there, bytes, &mut Ecn::NotCapable) else { return None };
    Some(back - now)
}

/// The round trips over `viasat2` of packets sent up at a constant interval; `None` of those that are lost.
fn viasat2_round_trips(count: usize, every: Time, bytes: u32) -> Vec<Option<Time>> {
    let viasat2 = read("viasat2");
    let (mut up, mut down) = (Link::new(&viasat2.up, 1, "up"), Link::<()>::new(&viasat2.down, 1, "down"));
    let mut trips = vec![None; count];
    for i in 0..=count {
        let now = every * i as u64;
        let is_end = i == count;
        if !is_end {
            assert_eq!(
                up.offer(now, Packet { bytes, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: i }),
                Offered::Queued
            );
        }
        let until = if is_end { now + Time::from_secs(10) } else { now };
        while let Some(Exit::Delivered(there)) = up.poll(until) {
            if let Transit::Delivered(back) = down.transit(there.at, bytes, &mut Ecn::NotCapable) {
                trips[there.packet.token] = Some(back - every * there.packet.token as u64);
            }
        }
    }
    trips
}

/// Asserts and prints, so that a failing run shows the whole table.
fn hold(rows: &[(&str, f64, f64, f64)]) {
    let mut wrong = 0;
    for (what, value, low, high) in rows {
        let fine = (*low..=*high).contains(value);
        println!("{} {what}: {value:.4} (allowed {low} to {high})", if fine { "  " } else { "! " });
        wrong += i32::from(!fine);
    }
    assert_eq!(wrong, 0, "rows marked ! are outside of what is allowed");
}

#[test]
fn every_profile_reads_without_error_and_has_its_file_name() {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let text = std::fs::read_to_string(&path).unwrap();
            // A replay names no recording until a study gives it one; lend it the shortest ones.
            let lent = text.replace("trace = \"\"", "trace = \"x\"");
            let mut load = |name: &str| match name {
                "x" => Ok(b"1\n".to_vec()),
                _ => std::fs::read(folder().join(name)).map_err(|error| error.to_string()),
            };
            let profile = profile::parse(&lent, &path.to_string_lossy(), &mut load);
            // A link to a profile is another name for it.
            let file = std::fs::canonicalize(&path).unwrap();
            assert_eq!(profile.unwrap().name, file.file_stem().unwrap().to_str().unwrap());
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen} profiles");
}

#[test]
fn viasat2_has_the_published_idle_round_trips_and_losses() {
    // As measured: a ping with 20 bytes of payload each 200 ms for two and a half days, by a clock that drifts against the frame.
    let (mut trips, mut bursts, mut run) = (Vec::new(), Vec::new(), 0u32);
    for trip in viasat2_round_trips(1_080_000, Time::from_micros(200_003), 48) {
        match trip {
            Some(trip) => {
                trips.push(trip.as_millis_f64());
                if run > 0 {
                    bursts.push(std::mem::take(&mut run));
                }
            }
            None => run += 1,
        }
    }
    trips.sort_by(f64::total_cmp);
    let count = trips.len() as f64;
    let mean = trips.iter().sum::<f64>() / count;
    let sd = (trips.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / count).sqrt();
    let within = |low: f64, high: f64| trips.iter().filter(|t| (low..high).contains(t)).count() as f64;
    let lost = bursts.iter().sum::<u32>();
    let single = bursts.iter().filter(|b| **b == 1).count() as f64;
    hold(&[
        ("mean, published 597.5 ms", mean, 596.5, 598.5),
        ("sd, published 16.9 ms", sd, 15.0, 19.0),
        ("median, published 597 ms", trips[trips.len() / 2], 596.0, 598.0),
        ("least, published 564 ms", trips[0], 562.0, 568.0),
        ("most, published 2174 ms", trips[trips.len() - 1], 1700.0, 2300.0),
        ("share within 560..625 ms, published 0.99", within(560.0, 625.0) / count, 0.985, 0.995),
        ("round trips of 625..1500 ms: a heavy tail", within(625.0, 1500.0), 2_000.0, 15_000.0),
        ("round trips of 1700..2200 ms: a few", within(1700.0, 2200.0), 1.0, 100.0),
        ("lost, published 604", f64::from(lost), 450.0, 760.0),
        ("share of the losses that are single, published 0.77", single / f64::from(lost), 0.65, 0.87),
        ("events of several losses, published 44", bursts.iter().filter(|b| **b > 1).count() as f64, 25.0, 65.0),
        ("longest event, published 11", f64::from(*bursts.iter().max().unwrap()), 6.0, 20.0),
    ]);
}

#[test]
fn acknowledgements_over_viasat2_wait_while_their_rate_doubles_and_no_longer_once_it_is_steady() {
    // From 64 in a round of 0.6 s on, the acknowledgements of a slow start double six times; 4,096 in each of the 40 rounds that follow.
    let rounds = (6..12).chain([12; 40]).map(|doublings| 1u64 << doublings);
    let round = |number: u64| Time::from_millis(600) * number;
    let at = |number, i, n| round(number) + Time::from_nanos(round(1).as_nanos() * i / n);
    let arrivals: Vec<Time> = (0..).zip(rounds).flat_map(|(number, n)| (0..n).map(move |i| at(number, i, n))).collect();
    let viasat2 = read("viasat2");
    let mut up = Link::new(&viasat2.up, 1, "up");
    let mut waits = Vec::new();
    for at in &arrivals {
        offer(&mut up, *at, 52);
        waits.extend(taken(&mut up, *at));
    }
    waits.extend(taken(&mut up, round(100)));
    let mean = |waits: &[Time]| waits.iter().map(|t| t.as_millis_f64()).sum::<f64>() / waits.len() as f64;
    let grows = (64 << 6) - 64;
    // Idle they take 294 to 353 ms. Published: round trips of start-ups are 160 to 320 ms above the idle one, of senders that
    // slow down when acknowledgements do. These do not, and requests rise slower than they: the wait exceeds the allocation
    // delay of 600 ms, by at most half the 1200 ms in which a request drains what waits.
    hold(&[
        ("all arrive", waits.len() as f64, arrivals.len() as f64, arrivals.len() as f64),
        ("one way while the rate doubles, ms", mean(&waits[..grows]), 294.0 + 320.0, 353.0 + 600.0 + 600.0),
        ("one way in the last 10 rounds, ms", mean(&waits[waits.len() - 40_960..]), 290.0, 353.0),
    ]);
}

#[test]
fn the_numbers_of_twin_geo_are_those_of_its_study() {
    let profile = read("twin-geo");
    for direction in [&profile.down, &profile.up] {
        assert_eq!(direction.rate, RateSpec::Constant(Rate::from_mbps(155.0)));
        assert_eq!(direction.delay, DelaySpec::Constant(Time::from_millis(500)));
        assert_eq!(direction.loss, [LossSpec::Bernoulli(Ratio::new(1e-5).unwrap())]);
        // 155 Mbit/s x 1000 ms / 8.
        assert_eq!(direction.queue.bytes, Some(Bytes::new(19_375_000)));
    }
}

#[test]
fn the_round_trip_of_meo_o3b_is_between_those_straight_below_and_at_the_horizon() {
    let profile = read("meo-o3b");
    let round_trip_ms = (profile.down.delay.typical() + profile.up.delay.typical()).as_millis_f64();
    // Up and down twice: 8,062 km straight below, sqrt(14433^2 - 6371^2) = 12,951 km at the horizon.
    let ms = |km: f64| 4.0 * km / 299_792.458 * 1e3;
    assert!((ms(8_062.0)..ms(12_951.0)).contains(&round_trip_ms), "{round_trip_ms} ms");
    // 800 Mbit/s x 140 ms / 8.
    assert_eq!([&profile.down, &profile.up].map(|link| link.queue.bytes), [Some(Bytes::new(14_000_000)); 2]);
}

/// Offers a packet to a link that keeps it.
fn offer(link: &mut Link<Time>, now: Time, bytes: u32) {
    let packet = Packet { bytes, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: now };
    // The counters show whether it is refused.
    let _ = link.offer(now, packet);
}

/// The delay of each packet delivered by `now`.
fn taken(link: &mut Link<Time>, now: Time) -> Vec<Time> {
    let exits = std::iter::from_fn(|| link.poll(now));
    let delivered = exits.filter_map(|exit| match exit {
        Exit::Delivered(delivery) => Some(delivery.at - delivery.packet.token),
        Exit::Dropped(_) => None,
    });
    delivered.collect()
}

#[test]
fn skyplex_carries_what_the_published_probes_carried() {
    let skyplex = read("skyplex");
    // 1500-byte packets for 600 s; published: none lost at 0.5 and 1 Mbit/s, 48 % at 2.
    let loss = |mbps: f64| {
        let mut up = Link::new(&skyplex.up, 1, "up");
        let every = Time::from_secs_f64(1500.0 * 8e-6 / mbps);
        let packets = Time::from_secs(600).as_nanos() / every.as_nanos();
        (0..packets).for_each(|i| offer(&mut up, every * i, 1500));
        up.counters().dropped.iter().sum::<u64>() as f64 / packets as f64
    };
    hold(&[
        ("lost at 0.5 Mbit/s", loss(0.5), 0.0, 0.0),
        ("lost at 1 Mbit/s", loss(1.0), 0.0, 0.0),
        ("lost at 2 Mbit/s, share", loss(2.0), 0.475, 0.485),
    ]);
}

#[test]
fn skyplex_has_the_published_mean_round_trip() {
    let skyplex = read("skyplex");
    let mut trips = Vec::new();
    for seed in 0..20 {
        let (mut up, mut down) = (Link::new(&skyplex.up, seed, "up"), Link::new(&skyplex.down, seed, "down"));
        for i in 0..600 {
            let sent = Time::from_secs(i);
            offer(&mut up, sent, 84);
            for took in taken(&mut up, sent + Time::from_secs(1)) {
                offer(&mut down, sent + took, 84);
                let back = taken(&mut down, sent + Time::from_secs(1));
                trips.extend(back.into_iter().map(|back| (took + back).as_millis_f64()));
            }
        }
    }
    trips.sort_by(f64::total_cmp);
    let mean = trips.iter().sum::<f64>() / trips.len() as f64;
    let sd = (trips.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / trips.len() as f64).sqrt();
    // Published: mean 692.5, least 587.35, most 802.75, deviation 58.92. A reply leaves in a slot that comes each 273 ms, the
    // published frame, so trips spread over that and not over 215 ms: the mean is held, and the spread is the frame's.
    hold(&[
        ("answered", trips.len() as f64, 12_000.0, 12_000.0),
        ("mean, ms", mean, 690.5, 693.5),
        ("least, ms", trips[0], 554.0, 558.0),
        ("most, ms", trips[trips.len() - 1], 826.0, 831.0),
        ("sd, ms", sd, 78.4, 79.4),
    ]);
}

#[test]
fn the_modulation_of_geo_ka_follows_its_rain_event_without_loss() {
    let text = std::fs::read_to_string(folder().join("geo-ka.toml")).unwrap();
    let mut load = |name: &str| std::fs::read(folder().join(name)).map_err(|error| error.to_string());
    let profile = profile::parse(&text, "geo-ka", &mut load).unwrap();
    let (RateSpec::Trace(rate), [LossSpec::Trace(loss)]) = (&profile.down.rate, &profile.down.loss[..]) else {
        panic!("{profile:?}")
    };
    // 27.5 Mbaud with 16APSK 4/5 at 12 dB, QPSK 1/2 at 2 dB, and as before from 11.53 dB and the hysteresis on.
    let mbps = |s: u64| rate.at(Time::from_secs(s)).as_mbps();
    for (s, efficiency) in [(0, 3.165_623), (59, 3.165_623), (290, 0.988_858), (600, 3.165_623)] {
        assert!((mbps(s) - 27.5 * efficiency).abs() < 1e-3, "{} Mbit/s at {s} s", mbps(s));
    }
    // The margin is wider than what the signal falls within the signalling time.
    assert!(loss.iter().all(|(_, share)| share == Ratio::ZERO));
    assert_eq!(profile.down.queue.bytes, Some(Bytes::new(6_530_000)));
}

#[test]
fn starlink_2022_has_slots_at_seconds_12_27_42_and_57_and_loses_at_their_begin() {
    let text = std::fs::read_to_string(folder().join("starlink-thesis-2022.toml")).unwrap();
    // It is a quarter to noon, and 2 s.
    let text = text.replace("[down]\n", "[down]\ntime_of_day = \"42302 s\"\n");
    let text = text.replace("[up]\n", "[up]\ntime_of_day = \"42302 s\"\n");
    // An hour like all others: one hour of 15 % says nothing of the mean of the slots.
    let text = text.replace("mood = \"15 %\"\n", "");
    let starlink = profile::parse(&text, "starlink-2022", &mut |_| Err("the test has no recordings".into())).unwrap();
    let mut down = Link::<()>::new(&starlink.down, 1, "starlink.down");
    let mut up = Link::<()>::new(&starlink.up, 1, "starlink.up");
    // Slots begin 10 s after the run began, and each 15 s from there on; for an hour, by 10 ms.
    let (mut near, mut away, mut high, mut trips) = ([0u32; 2], [0u32; 2], [0u32; 2], Vec::new());
    for i in 0..360_000u64 {
        let now = Time::from_millis(10) * i;
        let since = (now.as_millis() + 5_000) % 15_000;
        let trip = ping(&mut up, &mut down, now, 40);
        let count = if (150..14_950).contains(&since) { &mut away } else { &mut near };
        count[0] += 1;
        count[1] += u32::from(trip.is_none());
        if let Some(trip) = trip {
            trips.push(trip.as_millis_f64());
            let is_high = trip > Time::from_millis(40);
            high[usize::from(!(400..14_950).contains(&since))] += u32::from(is_high);
        }
    }
    trips.sort_by(f64::total_cmp);
    let mut rate = |s: u64| down.mean_rate(Time::from_secs(s), Time::from_secs(s + 15)).as_mbps();
    let rates: Vec<f64> = (0..239).map(|slot| rate(10 + 15 * slot)).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let sd = (rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / rates.len() as f64).sqrt();
    hold(&[
        ("median round trip, ms", trips[trips.len() / 2], 23.0, 25.0),
        ("5 % quantile", trips[trips.len() / 20], 17.0, 20.0),
        ("95 % quantile", trips[trips.len() / 20 * 19], 28.0, 33.0),
        (
            "above 40 ms around the begin of slots, share of all there are",
            f64::from(high[1]) / f64::from(high[0] + high[1]),
            0.99,
            1.0,
        ),
        ("above 40 ms, packets", f64::from(high[1]), 1_000.0, 6_000.0),
        ("lost around the begin", f64::from(near[1]) / f64::from(near[0]), 0.2, 0.5),
        ("lost elsewhere", f64::from(away[1]) / f64::from(away[0]), 0.001, 0.006),
        ("rate of slots, mean, Mbit/s", mean, 188.0, 206.0),
        ("deviation between slots", sd, 32.0, 47.0),
    ]);
}

/// The mean delay (ms) of a direction at places (ms) from changes of slots of 15 s, over 400 of them, without waits and losses.
fn delays_around_changes<const N: usize>(delay: &DelaySpec, places: [i64; N]) -> [f64; N] {
    let spec = LinkSpec { delay: delay.clone(), ..LinkSpec::constant(Rate::from_mbps(10_000.0), Time::ZERO) };
    places.map(|place| {
        let mut link = Link::<()>::new(&spec, 1, "link.down");
        let delays = (1..=400).map(|slot: i64| {
            let now = Time::from_millis((15_000 * slot + place) as u64);
            let Transit::Delivered(at) = link.transit(now, 40, &mut Ecn::NotCapable) else { panic!("lost") };
            (at - now).as_millis_f64()
        });
        delays.sum::<f64>() / 400.0
    })
}

#[test]
fn starlink_drops_from_the_front_and_its_delay_peaks_at_changes_of_slots() {
    let text = std::fs::read_to_string(folder().join("starlink.toml")).unwrap();
    // A run begins at the begin of a slot, and the delay has no jitter.
    let text =
        text.replace("[down]\n", "[down]\ntime_of_day = \"42312 s\"\n").replace("sd = \"1.2 ms\"", "sd = \"0 ms\"");
    let starlink = profile::parse(&text, "starlink", &mut |_| Err("no recordings".into())).unwrap();
    assert_eq!([starlink.down.queue.full, starlink.up.queue.full], [Full::DropFront; 2]);
    assert_eq!((starlink.down.queue.bytes, starlink.up.queue.packets), (Some(Bytes::new(1_800_000)), Some(500)));
    let [before, rises, top, change, falls, after] =
        delays_around_changes(&starlink.down.delay, [-80, -40, -1, 0, 70, 145]);
    // Peaks have a mean of 34 ms.
    hold(&[
        ("before the rise, ms", before, 10.3, 10.7),
        ("in the middle of the rise", rises, 24.0, 30.0),
        ("at its end", top, 41.0, 47.0),
        ("after the change", change, 41.0, 47.0),
        ("in the middle of the fall", falls, 24.0, 30.0),
        ("after it", after, 10.3, 10.7),
    ]);
}

#[test]
fn oneweb_changes_its_delay_every_3_minutes() {
    let text = std::fs::read_to_string(folder().join("oneweb.toml")).unwrap();
    let text = text.replace("[down]\n", "[down]\ntime_of_day = \"0 h\"\n").replace("sd = \"2 ms\"", "sd = \"0 ms\"");
    let oneweb = profile::parse(&text, "oneweb", &mut |_| Err("no recordings".into())).unwrap();
    let spec = LinkSpec { delay: oneweb.down.delay, ..LinkSpec::constant(Rate::from_mbps(10_000.0), Time::ZERO) };
    let mut link = Link::<()>::new(&spec, 1, "oneweb.down");
    let mut steps = Vec::new();
    let mut last = Time::ZERO;
    // Spikes are over after 150 ms.
    for second in 0..3600u64 {
        let now = Time::from_millis(1_000 * second + 200);
        let Transit::Delivered(at) = link.transit(now, 40, &mut Ecn::NotCapable) else { panic!("lost") };
        if at - now != last {
            steps.push(second);
        }
        last = at - now;
    }
    assert_eq!(steps, (0..20).map(|slot| 180 * slot).collect::<Vec<_>>());
}

/// The round trips over a profile of packets of 84 bytes each 100 ms, of those that return, and how many of the first 5 s do.
fn round_trips(name: &str, seconds: u64) -> (Vec<f64>, usize) {
    let link = read(name);
    let (mut up, mut down) = (Link::<()>::new(&link.up, 1, "up"), Link::<()>::new(&link.down, 1, "down"));
    let trips = (0..10 * seconds).map(|i| (i, ping(&mut up, &mut down, Time::from_millis(100) * i, 84)));
    let (mut back, mut early) = (Vec::new(), 0);
    for (i, trip) in trips.filter_map(|(i, trip)| Some((i, trip?))) {
        early += usize::from(i < 50);
        back.push(trip.as_millis_f64());
    }
    back.sort_by(f64::total_cmp);
    (back, early)
}

#[test]
fn a_geostationary_household_has_the_median_of_speed_tests() {
    let (trips, _) = round_trips("geo-household", 600);
    // Ookla, first quarter of 2025: 683 and 684 ms.
    hold(&[("median, ms", trips[trips.len() / 2], 675.0, 692.0)]);
}

#[test]
fn a_moving_terminal_begins_behind_a_portal_and_has_delays_of_seconds() {
    let (trips, early) = round_trips("moving-terminal", 7200);
    assert_eq!(early, 0, "the portal takes the first 5 s");
    let long = trips.iter().filter(|trip| **trip > 1000.0).count() as f64 / trips.len() as f64;
    hold(&[
        ("median, ms", trips[trips.len() / 2], 45.0, 55.0),
        ("longest, ms", trips[trips.len() - 1], 2000.0, 3100.0),
        ("share over a second, %", 100.0 * long, 0.1, 0.8),
    ]);
}
