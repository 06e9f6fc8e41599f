//! A host with the tick of a kernel: its timers wait in Linux's wheel, and its clocks show whole ticks.

use perigee_cc::Selected;
use perigee_settings::Config;
use perigee_tcp::{Endpoint, Flags, Segment};
use perigee_units::Time;

use crate::common::{Path, Transfer};

fn ticking(ms: u64) -> Config {
    Config { tick: Time::from_millis(ms), ..Config::default() }
}

#[test]
fn an_unanswered_syn_is_repeated_at_the_wheels_buckets() {
    // 250 jiffies wait in buckets of 8, 500 too, 1000 and more in buckets of 64.
    let config = Config { syn_linear_timeouts: 0, ..ticking(4) };
    let mut client = Endpoint::client(&config, &Selected::parse("reno", &[]).unwrap(), 1);
    client.open(Time::ZERO);
    assert!(client.poll_transmit(Time::ZERO).is_some_and(|segment| segment.flags.has(Flags::SYN)));
    let mut instants = Vec::new();
    while let Some(now) = client.next_timer().filter(|at| *at < Time::from_secs(10)) {
        client.on_timer(now);
        instants.extend(client.poll_transmit(now).map(|_| now.as_millis()));
    }
    assert_eq!(instants, [1_024, 3_040, 7_168]);
}

/// A connection over 100 ms whose sender writes one segment, pushed by nobody, at `at`; when it is acknowledged, ms later.
fn delay_of_ack(config: &Config, at: Time) -> f64 {
    let config = Config { quick_acks: false, ..config.clone() };
    let mut transfer = Transfer::new(&Path { round_trip: Time::ZERO, ..Path::default() }, &config, "reno");
    transfer.open();
    transfer.run(at, |_| false);
    transfer.sender.write(1448);
    transfer.flush();
    transfer.run(Time::from_secs(1), |transfer| transfer.sender.acked() > 0);
    (transfer.now - at).as_secs_f64() * 1000.0
}

#[test]
fn an_acknowledgement_is_delayed_until_the_tick_after_40_ms() {
    // The segment takes 1.2 ms: it arrives in the first of the ten jiffies.
    for (tick, from, to) in [(0, 41.2, 41.3), (1, 42.0, 42.01), (4, 44.0, 44.01), (10, 50.0, 50.01)] {
        let delay = delay_of_ack(&ticking(tick), Time::from_millis(500));
        assert!((from..to).contains(&delay), "tick of {tick} ms: {delay} ms");
    }
}

#[test]
fn timeouts_are_whole_ticks_before_they_double() {
    // Over 100 ms the timeout is 300 ms and a fraction: 76 jiffies of 4 ms, 152, 304. All wait in buckets of 8.
    let config = Config { tlp: false, ..ticking(4) };
    let mut transfer = Transfer::new(&Path::default(), &config, "reno");
    transfer.open();
    transfer.sender.write(1448);
    transfer.run(Time::from_millis(900), |_| false);
    let sent = transfer.now;
    transfer.sender.write(1448);
    while transfer.sender.poll_transmit(sent).is_some() {}
    let mut repeats = Vec::new();
    while repeats.len() < 3 {
        let at = transfer.sender.next_timer().expect("data are out");
        transfer.sender.on_timer(at);
        repeats.extend(transfer.sender.poll_transmit(at).map(|_| at));
    }
    let jiffies: Vec<_> = repeats.iter().map(|at| (at.as_millis() / 4, at.as_nanos() % 32_000_000)).collect();
    let first = (225 + 76) / 8 * 8 + 8;
    assert_eq!(jiffies, [(first, 0), (second_of(first, 152), 0), (second_of(second_of(first, 152), 304), 0)]);
}

/// The bucket of 8 jiffies after a wait of some.
fn second_of(jiffies: u64, wait: u64) -> u64 {
    (jiffies + wait) / 8 * 8 + 8
}

#[test]
fn congestion_controls_measure_in_ticks() {
    // Westwood+ sets its window to bandwidth times least round trip: 101 ms are 110 by ticks of 10 ms.
    let window = |config: &Config| {
        let path = Path { round_trip: Time::from_millis(99), ..Path::default() };
        let mut transfer = Transfer::new(&path, config, "westwood_plus");
        transfer.drop_data = vec![400];
        transfer.sender.write(5_000_000);
        transfer.open();
        transfer.run(Time::from_secs(3), |_| false);
        transfer.sender.info().ssthresh.expect("a segment was lost")
    };
    let (exact, ticking) = (window(&Config::default()), window(&ticking(10)));
    assert!(ticking * 100 > exact * 104, "{exact} packets, with ticks {ticking}");
}

#[test]
fn compressed_acknowledgements_and_pacing_have_timers_without_ticks() {
    let times = |config: &Config| {
        let mut transfer = Transfer::new(&Path::default(), &Config { pacing: true, ..config.clone() }, "reno");
        transfer.sender.write(500_000);
        transfer.open();
        transfer.run(Time::from_secs(10), |transfer| transfer.sender.acked() == 500_000);
        (transfer.now, transfer.data.iter().map(Segment::clone).map(|segment| segment.seq).collect::<Vec<_>>())
    };
    assert_eq!(times(&Config::default()), times(&ticking(10)));
}
