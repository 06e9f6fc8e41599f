//! A host with the tick of a kernel: its timers wait in Linux's wheel, and its clocks show whole ticks.

use perigee_cc::Selected;
use perigee_settings::Config;
use perigee_tcp::{Endpoint, Flags, Segment};
use perigee_units::{Bytes, Rate, Time};

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

/// When the sender's timer fires, after what `happens` to a transfer over 100 ms: now, by exact timers, and with a tick of 10 ms. Only the
/// sender's host ticks.
fn deadlines(happens: &dyn Fn(&Config) -> Transfer) -> [Time; 3] {
    let timer = |config: &Config| {
        let transfer = happens(config);
        (transfer.now, transfer.sender.next_timer().expect("a timer is set"))
    };
    let ((now, exact), (same, ticking)) = (timer(&Config::default()), timer(&ticking(10)));
    assert_eq!(now, same, "nothing before hangs on the tick");
    [now, exact, ticking]
}

/// The first bucket of one jiffy of 10 ms in which a timer has certainly waited long enough.
fn bucket([now, exact, _]: [Time; 3]) -> Time {
    let wait = (exact - now).as_nanos().div_ceil(10_000_000);
    Time::from_millis((now.as_millis() / 10 + wait + 1) * 10)
}

/// A transfer of `segments` segments over a path that has no queue.
fn sending(config: &Config, segments: u64, drop: &[u64]) -> Transfer {
    let path = Path { rate: Rate::from_mbps(1000.0), queue_bytes: 10_000_000, ..Path::default() };
    let mut transfer = Transfer::with(&path, config, &Config::default(), "reno");
    transfer.drop_data = drop.to_vec();
    transfer.sender.write(segments * 1448);
    transfer.open();
    transfer
}

#[test]
fn a_probe_of_the_tail_waits_for_a_tick() {
    let probe = deadlines(&|config| {
        let mut transfer = sending(config, 10, &[]);
        transfer.run(Time::from_millis(903), |_| false);
        transfer.sender.write(2 * 1448);
        transfer.flush();
        transfer
    });
    assert!(probe[1] - probe[0] < Time::from_millis(210), "two round trips: {probe:?}");
    assert_eq!(probe[2], bucket(probe));
}

#[test]
fn the_reordering_timer_waits_for_a_tick() {
    // Two SACKed segments above a hole are too few for the duplicate threshold: a quarter of a round trip passes.
    let reordering = deadlines(&|config| {
        let mut transfer = sending(config, 10, &[8]);
        transfer.run(Time::from_secs(1), |transfer| transfer.sender.info().sacked_out == 2);
        transfer
    });
    assert!(reordering[1] - reordering[0] < Time::from_millis(30), "{reordering:?}");
    assert_eq!(reordering[2], bucket(reordering));
}

#[test]
fn the_timeout_after_reneging_waits_for_a_tick() {
    // An ACK that ends before data that are SACKed (`tcp_check_sack_reneging`): half a round trip.
    let reneging = deadlines(&|config| {
        let mut transfer = sending(config, 10, &[5]);
        transfer.run(Time::from_secs(1), |transfer| transfer.sender.info().sacked_out == 2);
        let mut answer = *transfer.answers.last().expect("a SACK was sent");
        answer.header.ack = answer.header.ack.wrapping_add(1448);
        answer.sack_count = 0;
        let now = transfer.now;
        transfer.sender.on_segment(now, &answer, false);
        transfer
    });
    let wait = reneging[1] - reneging[0];
    assert!((Time::from_millis(48)..Time::from_millis(52)).contains(&wait), "{reneging:?}");
    assert_eq!(reneging[2], bucket(reneging));
}

#[test]
fn probes_of_a_closed_window_wait_for_ticks() {
    let small = [4096, 65_536, 65_536].map(Bytes::new);
    let reader = Config { rmem: small, receive_autotuning: false, ..Config::default() };
    let instants = |config: &Config| {
        let mut transfer = Transfer::with(&Path::default(), config, &reader, "reno");
        transfer.receiver.read_on_demand();
        transfer.sender.write(1_000_000);
        transfer.open();
        let (mut probes, mut sent) = (Vec::new(), 0);
        transfer.run(Time::from_secs(20), |transfer| {
            let is_probe = transfer.data.last().is_some_and(|segment| segment.len == 0);
            if is_probe && transfer.data.len() > sent && transfer.answers.last().is_some_and(|last| last.window == 0) {
                probes.push(transfer.now.as_nanos());
            }
            sent = transfer.data.len();
            probes.len() == 4
        });
        probes
    };
    let ticks = |probes: Vec<u64>| probes.iter().filter(|at| *at % 10_000_000 == 0).count();
    assert_eq!((ticks(instants(&Config::default())), ticks(instants(&ticking(10)))), (0, 4));
}

#[test]
fn a_pause_is_measured_in_ticks() {
    // A window is stale after a pause longer than the timeout, of 31 jiffies here: 315 ms from within a jiffy are as many.
    let window = |config: &Config, pause: u64| {
        let mut transfer = sending(&Config { initial_window: 2, ..config.clone() }, 40, &[]);
        let last = Time::from_millis(702);
        transfer.run(last, |_| false);
        transfer.sender.write(1448);
        transfer.flush();
        transfer.run(last + Time::from_millis(pause), |_| false);
        transfer.sender.on_timer(transfer.now);
        let before = transfer.sender.info();
        assert!((Time::from_millis(300)..=Time::from_millis(310)).contains(&before.rto), "{before:?}");
        transfer.sender.write(1448);
        (before.cwnd, transfer.sender.info().cwnd)
    };
    for (config, pause, is_stale) in
        [(Config::default(), 315, true), (ticking(10), 315, false), (ticking(10), 319, true)]
    {
        let (before, after) = window(&config, pause);
        assert_eq!(after < before, is_stale, "after {pause} ms: {before}, then {after}");
    }
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
