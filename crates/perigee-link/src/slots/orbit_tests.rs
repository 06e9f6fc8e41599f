use perigee_orbit::{Constellation, Gateway, PathSpec, Pattern, Place, Shell, Utc, Weights};
use perigee_units::{Rate, Ratio};

use super::*;
use crate::{Body, DelaySpec, Ecn, Exit, Link, LinkSpec, LogNormal, Offered, Packet};

const SECOND: u64 = 1_000_000_000;

/// A path with gaps and slots of 15 s starting at second 12; runs start at 01:00:05.
fn delay() -> OrbitDelay {
    let shell = Shell {
        altitude_km: 550.0,
        inclination_deg: 53.0,
        planes: 8,
        per_plane: 20,
        phasing: 5.0,
        pattern: Pattern::Delta,
        raan_deg: 0.0,
    };
    let date = Utc::day("2024-05-01").expect("a day");
    let place = |lat_deg, lon_deg| Place { lat_deg, lon_deg, alt_m: 0.0 };
    let clock =
        SlotClock { period: Time::from_secs(15), phase: Time::from_secs(12), time_of_day: Some(Time::from_secs(3605)) };
    let path = Path::new(PathSpec {
        constellation: Arc::new(Constellation::of_shells(&[shell], date)),
        user: place(50.0, 5.0),
        gateways: vec![Gateway { name: "gateway".into(), place: place(47.0, 2.0) }],
        elevation_deg: 35.0,
        gateway_elevation_deg: 25.0,
        isl: false,
        weights: Weights { elevation: 1.0, age: 0.0, load: 2.0, seed: 1 },
        period: clock.period,
        phase: clock.phase,
        date,
    });
    OrbitDelay { clock, path: path.expect("a path"), extra: Time::from_millis(5), jitter: None, spikes: Vec::new() }
}

#[test]
fn a_delay_is_that_of_the_path_at_the_instant_of_the_day() {
    let spec = delay();
    let mut delay = OrbitalDelay::new(&spec, 1, "link/a.down");
    let begin_of_run = Utc::instant("2024-05-01T01:00:05").expect("a valid instant");
    let (mut with, mut without) = (0, 0);
    for number in 0..2_000 {
        let t = Time::from_nanos(number * SECOND * 7 / 10);
        let at = begin_of_run + t;
        let slot = spec.path.slot_at(at);
        let since = Time::from_nanos((at.as_nanos() - spec.path.begin(slot).as_nanos()) as u64);
        let expected = spec.path.route(slot).map(|route| route.delay(since) + spec.extra);
        assert_eq!(delay.at(t), expected, "{t}");
        with += u32::from(expected.is_some());
        without += u32::from(expected.is_none());
    }
    assert!(with > 100 && without > 100, "{with} with, {without} without a path");
}

#[test]
fn a_handover_keeps_packets_in_flight_and_their_order_and_without_a_path_packets_are_lost() {
    let spec =
        LinkSpec { delay: DelaySpec::Orbit(Arc::new(delay())), ..LinkSpec::constant(Rate::UNLIMITED, Time::ZERO) };
    let mut link: Link<u64> = Link::new(&spec, 1, "a.down");
    let mut alone = OrbitalDelay::new(&delay(), 1, "link/a.down");
    let every = Time::from_micros(500);
    let (mut last, mut delivered, mut lost, mut overtaken) = (Time::ZERO, 0, 0, 0);
    for number in 0..600_000_u64 {
        let now = every * number;
        let offered =
            link.offer(now, Packet { bytes: 100, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: number });
        let expected = alone.at(now).map(|delay| now + delay);
        assert_eq!(offered == Offered::Queued, expected.is_some());
        let Some(expected) = expected else {
            lost += 1;
            continue;
        };
        let Some(Exit::Delivered(delivery)) = link.poll(Time::MAX) else { panic!("the packet is delivered") };
        assert_eq!((delivery.packet.token, delivery.at), (number, expected.max(last)));
        overtaken += u32::from(expected < last);
        (last, delivered) = (delivery.at, delivered + 1);
    }
    assert!(
        delivered > 1000 && lost > 1000 && overtaken > 0,
        "{delivered} delivered, {lost} lost, {overtaken} overtaken"
    );
}

#[test]
fn exactly_the_slots_without_a_path_are_dark_and_counted() {
    let (seed, until) = (1, Time::from_secs(1500));
    let spec =
        LinkSpec { delay: DelaySpec::Orbit(Arc::new(delay())), ..LinkSpec::constant(Rate::UNLIMITED, Time::ZERO) };
    let dark = spec.dark_times(seed, "a.down", until);
    let mut alone = OrbitalDelay::new(&delay(), seed, "link/a.down");
    let mut dark_slots = 0;
    for second in 0..1500 {
        let t = Time::from_secs(second);
        let is_dark = dark.iter().any(|(from, to)| (*from..*to).contains(&t));
        assert_eq!(alone.at(t).is_none(), is_dark, "{t}");
        // Runs start 8 s after the start of a slot.
        dark_slots += u64::from(is_dark && (second == 0 || (second + 8) % 15 == 0));
    }
    assert!(dark.len() > 2, "{dark:?}");
    assert_eq!(delay().slots_without_path(seed, until), (dark_slots, 101));
}

#[test]
fn jitter_never_makes_a_packet_faster_than_light_and_both_directions_have_the_same_spikes() {
    let plain = OrbitDelay { extra: Time::ZERO, ..delay() };
    let drawn = |ms| LogNormal { median: Time::from_millis(ms), sigma: 0.3, max: Time::from_millis(300) };
    let (body, every) = (Body::Normal { sd: Time::from_millis(2) }, Time::from_millis(20));
    let spec = OrbitDelay {
        jitter: Some(SlotJitter { body, every, memory: Time::ZERO, floor: Time::ZERO }),
        spikes: vec![Spike {
            before: Time::ZERO,
            after: LogNormal::constant(Time::from_millis(100)),
            share: Ratio::ONE,
            length: drawn(100),
            height: LogNormal { sigma: 0.0, ..drawn(50) },
            begin: Ratio::ONE,
            peak: Ratio::ONE,
            with_outage: false,
        }],
        ..plain.clone()
    };
    let mut light = OrbitalDelay::new(&plain, 1, "link/a.down");
    let [mut down, mut up] = ["link/a.down", "link/a.up"].map(|name| OrbitalDelay::new(&spec, 1, name));
    let (mut jittered, mut spiked) = (0, 0);
    for number in 0..100_000_u64 {
        let t = Time::from_millis(3 * number);
        let (Some(light), Some(down), Some(up)) = (light.at(t), down.at(t), up.at(t)) else { continue };
        assert!(down >= light && up >= light, "{t}");
        jittered += u32::from(down != up);
        let high = |delay: Time| delay > light + Time::from_millis(25);
        assert_eq!(high(down), high(up), "{t}: both directions share spikes");
        spiked += u32::from(high(down));
    }
    assert!(jittered > 10_000 && spiked > 50, "{jittered} {spiked}");
}
