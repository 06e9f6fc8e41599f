//! Laws that hold for every link, with any combination of processes.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use std::sync::{Arc, OnceLock};

use perigee_link::{
    AqmSpec, Body, CodelSpec, DelaySpec, Delivery, DropReason, DroppedPacket, DualPi2Spec, Ecn, Exit, Fluctuation,
    Jitter, Link, LinkSpec, Loaded, LogNormal, LossSpec, Offered, OrbitDelay, Packet, PieSpec, QueueSpec, RateSpec,
    RedSpec, RedThresholds, Shaping, SlotClock, SlotDelay, SlotJitter, SlotLoss, SlotOutage, SlotRate, Spike, Steps,
    Tail, TailShape, Transit,
};
use perigee_orbit::{Constellation, Gateway, Path, PathSpec, Pattern, Place, Shell, Utc, Weights};
use perigee_units::{Bytes, Rate, Ratio, Time};
use proptest::prelude::*;

fn ms(t: u64) -> Time {
    Time::from_millis(t)
}

fn ratio(share: f64) -> Ratio {
    Ratio::new(share).unwrap()
}

fn rates() -> impl Strategy<Value = RateSpec> {
    let steps =
        (prop::collection::vec((1u64..40, 0u64..20_000_000), 1..20), any::<bool>()).prop_map(|(parts, wrap)| {
            let mut t = 0;
            let mut points: Vec<(Time, Rate)> = Vec::new();
            for (length, bps) in parts {
                points.push((ms(t), Rate::from_bps(bps)));
                t += length;
            }
            points.last_mut().unwrap().1 = Rate::from_bps(1_000_000);
            RateSpec::Trace(Arc::new(Steps::new(points, wrap.then_some(ms(t))).unwrap()))
        });
    let fluctuating = (1u64..50, 0u64..200).prop_map(|(every, memory)| {
        RateSpec::Fluctuating(Fluctuation {
            mean: Rate::from_mbps(10.0),
            sd: Rate::from_mbps(5.0),
            min: Rate::from_mbps(0.1),
            max: Rate::from_mbps(20.0),
            every: ms(every),
            memory: ms(memory),
            mood: Rate::from_mbps(1.0),
        })
    });
    prop_oneof![
        (1_000u64..10_000_000_000).prop_map(|bps| RateSpec::Constant(Rate::from_bps(bps))),
        Just(RateSpec::Constant(Rate::UNLIMITED)),
        steps,
        fluctuating,
    ]
}

/// Slots of 200 ms, so that the short traffic of these tests crosses several.
const SLOTS: SlotClock = SlotClock { period: Time::from_millis(200), phase: Time::ZERO, time_of_day: None };

/// Rates that change at any nanosecond; those of [`rates`] change at whole milliseconds.
fn slotted_rates() -> impl Strategy<Value = RateSpec> {
    (1u64..40, 0u64..60).prop_map(|(every, length)| {
        let length = LogNormal { median: ms(length), sigma: 0.5, max: ms(80) };
        RateSpec::Slots(Arc::new(SlotRate {
            clock: SLOTS,
            mean: Rate::from_mbps(10.0),
            sd: Rate::from_mbps(5.0),
            min: Rate::from_mbps(0.1),
            max: Rate::from_mbps(20.0),
            memory: Time::ZERO,
            every: ms(every),
            ripple: ratio(0.4),
            outage: Some(SlotOutage { length, rise: ms(60) }),
            busy: None,
            shaping: Some(Shaping { after: ms(300), length: ms(500), share: ratio(0.1) }),
        }))
    })
}

fn delays() -> impl Strategy<Value = DelaySpec> {
    let steps = prop::collection::vec(0u64..80, 1..20).prop_map(|values| {
        let points = values.iter().enumerate().map(|(i, v)| (ms(10 * i as u64), ms(*v)));
        DelaySpec::Trace(Arc::new(Steps::new(points, Some(ms(10 * values.len() as u64))).unwrap()))
    });
    let jitter = (any::<bool>(), 1u64..50, 0u64..100, any::<bool>()).prop_map(|(linear, every, memory, normal)| {
        let body = if normal { Body::Normal { sd: ms(8) } } else { Body::LogNormal { median: ms(5), sigma: 1.0 } };
        let shape = if normal {
            TailShape::Pareto { min: ms(20), shape: 1.2 }
        } else {
            TailShape::LogNormal { median: ms(50), sigma: 1.0 }
        };
        let tail = Some(Tail { share: ratio(0.1), every: ms(every), shape, max: ms(500) });
        let (min, max) = (Time::ZERO, ms(100));
        DelaySpec::Jitter(Jitter { base: ms(20), body, min, max, every: ms(every), memory: ms(memory), linear, tail })
    });
    let slots = (any::<bool>(), 1u64..50).prop_map(|(is_before, every)| {
        let drawn = |median| LogNormal { median: ms(median), sigma: 0.5, max: ms(100) };
        let (before, after) = if is_before { (ms(30), Time::ZERO) } else { (Time::ZERO, ms(30)) };
        DelaySpec::Slots(Arc::new(SlotDelay {
            clock: SLOTS,
            mean: ms(20),
            sd: ms(8),
            min: ms(5),
            max: ms(60),
            memory: ms(100),
            jitter: Some(SlotJitter {
                body: Body::Normal { sd: ms(3) },
                every: ms(every),
                memory: Time::ZERO,
                floor: ms(2),
            }),
            spikes: vec![Spike { before, after, share: ratio(0.7), length: drawn(30), height: drawn(40) }],
        }))
    });
    let orbit = (any::<bool>(), 0u64..20).prop_map(|(jitters, extra)| {
        let (body, every) = (Body::Normal { sd: ms(3) }, ms(20));
        let jitter = jitters.then_some(SlotJitter { body, every, memory: Time::ZERO, floor: ms(2) });
        let clock = SlotClock { time_of_day: Some(Time::from_secs(3600)), ..SLOTS };
        DelaySpec::Orbit(Arc::new(OrbitDelay { clock, path: path(), extra: ms(extra), jitter, spikes: Vec::new() }))
    });
    let [constant, per_packet] =
        [DelaySpec::Constant, DelaySpec::PerPacket].map(|of| (0u64..600).prop_map(move |d| of(ms(d))));
    prop_oneof![constant, steps, jitter, slots, orbit, per_packet]
}

/// One path for all tests, so that its slots are computed once. Every slot has a path, because losses without one would depend on the
/// delay.
fn path() -> Arc<Path> {
    static PATH: OnceLock<Arc<Path>> = OnceLock::new();
    let make = || {
        let shell = Shell {
            altitude_km: 550.0,
            inclination_deg: 53.0,
            planes: 30,
            per_plane: 20,
            phasing: 5.0,
            pattern: Pattern::Delta,
            raan_deg: 0.0,
        };
        let date = Utc::day("2024-05-01").unwrap();
        let place = |lat_deg, lon_deg| Place { lat_deg, lon_deg, alt_m: 0.0 };
        let spec = PathSpec {
            constellation: Arc::new(Constellation::of_shells(&[shell], date)),
            user: place(50.0, 5.0),
            gateways: vec![Gateway { name: "gateway".into(), place: place(45.0, 0.0) }],
            elevation_deg: 10.0,
            gateway_elevation_deg: 10.0,
            isl: false,
            weights: Weights { elevation: 1.0, age: 0.0, load: 3.0, seed: 1 },
            period: SLOTS.period,
            phase: SLOTS.phase,
            date,
        };
        Path::new(spec).unwrap()
    };
    PATH.get_or_init(make).clone()
}

/// Queue management on arrival.
fn on_arrival() -> impl Strategy<Value = AqmSpec> {
    let viasat2 = AqmSpec::Viasat2 { threshold: ratio(0.5), drop: ratio(0.25) };
    let red = |(adaptive, in_packets, ecn)| {
        let bytes = RedThresholds::Bytes { min: Bytes::new(6_000), max: Bytes::new(20_000) };
        let thresholds = if in_packets { RedThresholds::Packets { min: 5, max: 15 } } else { bytes };
        AqmSpec::Red(RedSpec { thresholds, max_probability: ratio(0.1), weight: ratio(0.02), adaptive, ecn })
    };
    let pie = |(target, ecn)| {
        AqmSpec::Pie(PieSpec {
            target: ms(target),
            update: ms(2),
            burst: ms(10),
            alpha: 0.125,
            beta: 1.25,
            ecn,
            mark_below: ratio(0.1),
        })
    };
    let on = any::<bool>;
    prop_oneof![Just(AqmSpec::None), Just(viasat2), (on(), on(), on()).prop_map(red), (0u64..10, on()).prop_map(pie),]
}

/// Queue management on departure, with targets and intervals that the short traffic of these tests exceeds.
fn on_departure() -> impl Strategy<Value = AqmSpec> {
    let dual = (1u64..20, 1u64..20).prop_map(|(target, update)| {
        AqmSpec::DualPi2(DualPi2Spec { target: ms(target), update: ms(update), ..DualPi2Spec::default() })
    });
    let codel = (1u64..20, 1u64..100, any::<bool>(), prop::option::of(1u32..4));
    let codel = codel.prop_map(|(target, interval, ecn, queues)| {
        let codel = CodelSpec { target: ms(target), interval: ms(interval), ecn };
        match queues {
            None => AqmSpec::Codel(codel),
            Some(queues) => AqmSpec::FqCodel { queues, quantum: 1514, codel },
        }
    });
    prop_oneof![2 => codel, 1 => dual]
}

fn queues(aqm: impl Strategy<Value = AqmSpec>) -> impl Strategy<Value = QueueSpec> {
    let bytes = (3_000u64..100_000).prop_map(Bytes::new);
    (bytes, prop::option::of(1u32..50), prop::option::of(0u64..100), aqm).prop_map(|(bytes, packets, time, aqm)| {
        QueueSpec { bytes: Some(bytes), packets, time: time.map(ms), bytes_over_time: None, aqm }
    })
}

fn loss() -> impl Strategy<Value = LossSpec> {
    prop_oneof![
        (0.0..0.3).prop_map(|p| LossSpec::Bernoulli(ratio(p))),
        (0.0..0.2, 0.1..1.0).prop_map(|(p, r)| LossSpec::GilbertElliott {
            good_to_bad: ratio(p),
            bad_to_good: ratio(r),
            good_loss: Ratio::ZERO,
            bad_loss: Ratio::ONE,
        }),
        Just(LossSpec::Outages { gap: ms(100), length: ms(20), loss: ratio(0.8) }),
        Just(LossSpec::Periodic { period: ms(150), phase: ms(40), length: ms(9), loss: ratio(0.8) }),
        Just(LossSpec::Slots(SlotLoss {
            clock: SLOTS,
            before: ms(10),
            after: ms(30),
            share: ratio(0.5),
            loss: ratio(0.6),
        })),
    ]
}

fn links() -> impl Strategy<Value = LinkSpec> {
    links_with(prop_oneof![on_arrival(), on_departure()])
}

fn feed_forward_links() -> impl Strategy<Value = LinkSpec> {
    links_with(on_arrival())
}

fn links_with(aqm: impl Strategy<Value = AqmSpec>) -> impl Strategy<Value = LinkSpec> {
    let loaded = Loaded {
        above: Rate::from_mbps(1.0),
        window: ms(50),
        delay: ms(40),
        sd: ms(15),
        every: ms(20),
        memory: ms(50),
    };
    let burst = prop_oneof![Just(0u64), 1u64..20_000].prop_map(Bytes::new);
    (
        prop_oneof![4 => rates(), 1 => slotted_rates()],
        delays(),
        queues(aqm),
        prop::collection::vec(loss(), 0..3),
        prop::option::of(Just(loaded)),
        burst,
        0u32..40,
    )
        .prop_map(|(rate, delay, queue, loss, loaded, burst, overhead)| LinkSpec {
            queue,
            rate,
            delay,
            loaded,
            loss,
            burst,
            overhead,
        })
}

/// Arrivals as gaps (us) and sizes.
fn arrivals() -> impl Strategy<Value = Vec<(Time, u32)>> {
    prop::collection::vec((prop_oneof![4 => 0u64..2_000, 1 => 0u64..300_000], 28u32..1501), 1..300).prop_map(|gaps| {
        let mut t = 0;
        let at = |(gap, bytes): (u64, u32)| {
            t += gap;
            (Time::from_micros(t), bytes)
        };
        gaps.into_iter().map(at).collect()
    })
}

fn packet(i: usize, bytes: u32) -> Packet<usize> {
    Packet { bytes, flow: 0, ecn: Ecn::Capable, token: i }
}

/// Offers all packets and polls after every `poll_every`; returns the exits in order, and the link.
fn drive(spec: &LinkSpec, packets: &[(Time, u32)], poll_every: usize) -> (Vec<Exit<usize>>, Link<usize>) {
    let mut link = Link::new(spec, 11, "law");
    let mut exits = Vec::new();
    for (i, (at, bytes)) in packets.iter().enumerate() {
        link.offer(*at, packet(i, *bytes));
        if i % poll_every == 0 {
            exits.extend(std::iter::from_fn(|| link.poll(*at)));
        }
    }
    exits.extend(std::iter::from_fn(|| link.poll(Time::from_secs(1 << 30))));
    (exits, link)
}

fn deliveries(exits: &[Exit<usize>]) -> Vec<Delivery<usize>> {
    exits.iter().filter_map(|exit| if let Exit::Delivered(delivery) = exit { Some(*delivery) } else { None }).collect()
}

fn instant(exit: &Exit<usize>) -> Time {
    match exit {
        Exit::Delivered(delivery) => delivery.at,
        Exit::Dropped(drop) => drop.at,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_offered_packet_is_delivered_dropped_or_in_flight(spec in links(), packets in arrivals(), stop in 0u64..400) {
        let mut link = Link::new(&spec, 5, "law");
        let (mut delivered, mut dropped) = ([0, 0], [0, 0]);
        let add = |sum: &mut [u64; 2], bytes: u32| *sum = [sum[0] + 1, sum[1] + u64::from(bytes)];
        let end = (Time::from_secs(1 << 30), None);
        let arrivals = packets.iter().enumerate().map(|(i, (at, bytes))| (*at, Some(packet(i, *bytes))));
        for (i, (at, arrival)) in (1..).zip(arrivals.chain([end])) {
            if let Some(arrival) = arrival {
                if link.offer(at, arrival) != Offered::Queued {
                    add(&mut dropped, arrival.bytes);
                }
                prop_assert_eq!(link.counters().offered_packets, i);
            }
            while let Some(exit) = (at > ms(stop)).then(|| link.poll(at)).flatten() {
                match exit {
                    Exit::Delivered(delivery) => add(&mut delivered, delivery.packet.bytes),
                    Exit::Dropped(drop) => add(&mut dropped, drop.packet.bytes),
                }
            }
            let c = link.counters();
            prop_assert_eq!(c.offered_packets, delivered[0] + dropped[0] + link.in_flight() as u64);
            if link.is_feed_forward() {
                prop_assert_eq!(c.offered_packets, c.delivered_packets + c.dropped.iter().sum::<u64>());
                prop_assert_eq!(c.offered_bytes, c.delivered_bytes + c.dropped_bytes.iter().sum::<u64>());
            }
        }
        let c = link.counters();
        prop_assert_eq!(link.in_flight(), 0);
        prop_assert_eq!([c.delivered_packets, c.delivered_bytes], delivered);
        prop_assert_eq!([c.dropped.iter().sum::<u64>(), c.dropped_bytes.iter().sum()], dropped);
        prop_assert_eq!(c.offered_bytes, delivered[1] + dropped[1]);
    }

    #[test]
    fn no_packet_overtakes_another_or_arrives_early(spec in links(), packets in arrivals()) {
        let (exits, _) = drive(&spec, &packets, 1);
        for pair in exits.windows(2) {
            prop_assert!(instant(&pair[0]) <= instant(&pair[1]));
        }
        for pair in deliveries(&exits).windows(2) {
            prop_assert!(pair[0].packet.token < pair[1].packet.token);
        }
        for exit in &exits {
            let (Exit::Delivered(Delivery { packet, .. }) | Exit::Dropped(DroppedPacket { packet, .. })) = exit;
            prop_assert!(instant(exit) >= packets[packet.token].0);
        }
    }

    #[test]
    fn a_driver_that_polls_late_gets_the_same_instants(spec in links(), packets in arrivals(), late in 2usize..100) {
        let ((prompt, one), (tardy, other)) = (drive(&spec, &packets, 1), drive(&spec, &packets, late));
        prop_assert_eq!(one.counters(), other.counters());
        prop_assert_eq!(deliveries(&prompt), deliveries(&tardy));
        let dropped = |exits: Vec<Exit<usize>>| -> Vec<_> {
            exits.into_iter().filter(|exit| matches!(exit, Exit::Dropped(_))).collect()
        };
        prop_assert_eq!(dropped(prompt), dropped(tardy));
    }

    #[test]
    fn a_link_without_fast_path_gives_the_same_exits(spec in links(), packets in arrivals(), run_length in 1usize..20) {
        // Sizes change rarely.
        let packets: Vec<_> = packets.iter().enumerate().map(|(i, (at, _))| (*at, packets[i / run_length].1)).collect();
        let (mut fast, mut plain) = (Link::new(&spec, 11, "law"), Link::new(&spec, 11, "law").without_fast_path());
        for (i, (at, bytes)) in packets.iter().enumerate() {
            prop_assert_eq!(fast.offer(*at, packet(i, *bytes)), plain.offer(*at, packet(i, *bytes)));
            prop_assert_eq!(fast.next_event(), plain.next_event());
            prop_assert_eq!(fast.poll(*at), plain.poll(*at));
        }
        let rest = |link: &mut Link<usize>| -> Vec<_> { std::iter::from_fn(|| link.poll(Time::from_secs(1 << 30))).collect() };
        prop_assert_eq!(rest(&mut fast), rest(&mut plain));
        prop_assert_eq!(fast.counters(), plain.counters());
    }

    #[test]
    fn at_the_next_event_poll_returns_a_packet_or_a_decision_is_due(spec in links(), packets in arrivals()) {
        let mut link = Link::new(&spec, 5, "law");
        for (i, (at, bytes)) in packets.iter().enumerate() {
            while let Some(next) = link.next_event().filter(|next| next < at) {
                let waiting = link.in_flight();
                if next > Time::ZERO {
                    prop_assert_eq!(link.poll(next - Time::from_nanos(1)), None, "a packet before the next event");
                }
                let exit = link.poll(next);
                prop_assert!(exit.is_none_or(|exit| instant(&exit) == next));
                prop_assert!(link.in_flight() < waiting || link.next_event() > Some(next), "an event without effect");
            }
            link.offer(*at, packet(i, *bytes));
        }
    }

    #[test]
    fn a_discipline_that_never_drops_is_a_drop_tail_queue(
        spec in feed_forward_links(), packets in arrivals(),
    ) {
        // The load depends on arrivals, and a limit in time requires known departures.
        let queue = QueueSpec { time: None, aqm: AqmSpec::None, ..spec.queue.clone() };
        let plain = LinkSpec { queue, loaded: None, ..spec };
        let patient = AqmSpec::Codel(CodelSpec { target: Time::MAX, interval: ms(100), ecn: false });
        let kept = LinkSpec { queue: QueueSpec { aqm: patient, ..plain.queue.clone() }, ..plain.clone() };
        let ((exits, one), (same, other)) = (drive(&plain, &packets, 1), drive(&kept, &packets, 1));
        prop_assert_eq!(one.counters(), other.counters());
        prop_assert_eq!(deliveries(&exits), deliveries(&same));
    }

    #[test]
    fn transit_decides_as_offer_does(spec in feed_forward_links(), packets in arrivals()) {
        let (mut kept, mut given) = (Link::<usize>::new(&spec, 3, "law"), Link::new(&spec, 3, "law"));
        for (i, (at, bytes)) in packets.iter().enumerate() {
            let mut ecn = Ecn::Capable;
            let transit = kept.transit(*at, *bytes, &mut ecn);
            let before = given.in_flight();
            let offered = given.offer(*at, packet(i, *bytes));
            match (transit, offered) {
                (Transit::Delivered(at), Offered::Queued) => {
                    prop_assert_eq!(given.in_flight(), before + 1);
                    prop_assert!(given.next_event().is_some_and(|first| first <= at));
                }
                (Transit::Dropped(one), Offered::Dropped(other)) => prop_assert_eq!(one, other),
                _ => prop_assert!(false, "{:?} is not {:?}", transit, offered),
            }
            prop_assert_eq!(kept.queue_bytes(*at), given.queue_bytes(*at));
        }
        prop_assert_eq!(kept.counters(), given.counters());
    }

    #[test]
    fn take_agrees_with_transit_or_declines(
        spec in feed_forward_links(), packets in arrivals(), run_length in 1usize..20, in_turn in any::<bool>(), unread in 1usize..50,
    ) {
        let (mut quick, mut general) = (Link::<()>::new(&spec, 3, "law"), Link::<()>::new(&spec, 3, "law"));
        for (i, (at, _)) in packets.iter().enumerate() {
            // Sizes change rarely, as in one direction of a transfer, or alternate.
            let like = if in_turn { i % 2 } else { i / run_length };
            let (bytes, mut ecn, mut same) = (packets[like.min(i)].1, Ecn::Capable, Ecn::Capable);
            let decided = quick.take(*at, bytes).map_or_else(|| quick.transit(*at, bytes, &mut ecn), Transit::Delivered);
            prop_assert_eq!(decided, general.transit(*at, bytes, &mut same));
            prop_assert_eq!(ecn, same);
            if i % unread == 0 {
                prop_assert_eq!(quick.queue_bytes(*at), general.queue_bytes(*at));
            }
        }
        prop_assert_eq!(quick.counters(), general.counters());
    }

    #[test]
    fn early_dequeues_agree_with_general_ones(
        spec in links_with(on_departure()), packets in arrivals(), run_length in 1usize..20, unread in 1usize..50,
    ) {
        let spec = LinkSpec { burst: Bytes::ZERO, loaded: None, ..spec };
        // An added load of zero still evaluates each packet.
        let nothing = Loaded {
            above: Rate::from_mbps(1.0),
            window: ms(50),
            delay: Time::ZERO,
            sd: Time::ZERO,
            every: ms(20),
            memory: ms(50),
        };
        let asked = LinkSpec { loaded: Some(nothing), ..spec.clone() };
        let (mut quick, mut general) = (Link::new(&spec, 3, "law"), Link::new(&asked, 3, "law"));
        for (i, (at, _)) in packets.iter().enumerate() {
            let packet = packet(i, packets[i / run_length].1);
            prop_assert_eq!(quick.offer(*at, packet), general.offer(*at, packet));
            prop_assert_eq!(quick.next_event(), general.next_event());
            if i % unread == 0 {
                prop_assert_eq!(quick.queue_bytes(*at), general.queue_bytes(*at));
                prop_assert_eq!(quick.poll(*at), general.poll(*at));
                prop_assert_eq!(quick.counters(), general.counters());
            }
        }
        let end = Time::from_secs(1 << 30);
        let rest = [&mut quick, &mut general].map(|link| std::iter::from_fn(|| link.poll(end)).collect::<Vec<_>>());
        prop_assert_eq!(&rest[0], &rest[1]);
        prop_assert_eq!(quick.counters(), general.counters());
    }

    #[test]
    fn decisions_ahead_of_time_equal_timely_ones(
        spec in links_with(on_departure()), packets in arrivals(),
    ) {
        let (mut ahead, mut in_time) = (Link::new(&spec, 11, "law"), Link::new(&spec, 11, "law"));
        let (mut taken, mut exits) = (Vec::new(), Vec::new());
        for (i, (at, bytes)) in packets.iter().enumerate() {
            ahead.offer_ahead(*at, packet(i, *bytes));
            taken.extend(std::iter::from_fn(|| ahead.decide_ahead(*at)));
            exits.extend(std::iter::from_fn(|| in_time.poll(*at)));
            if let Offered::Dropped(reason) = in_time.offer(*at, packet(i, *bytes)) {
                exits.extend(std::iter::from_fn(|| in_time.poll(*at)));
                exits.push(Exit::Dropped(DroppedPacket { at: *at, packet: packet(i, *bytes), reason }));
            }
        }
        let end = Time::from_secs(1 << 30);
        taken.extend(std::iter::from_fn(|| ahead.decide_ahead(end)));
        exits.extend(std::iter::from_fn(|| in_time.poll(end)));
        prop_assert_eq!(taken, deliveries(&exits));
        let dropped: Vec<_> = std::iter::from_fn(|| ahead.poll(end)).collect();
        exits.retain(|exit| matches!(exit, Exit::Dropped(_)));
        prop_assert_eq!(dropped, exits);
        prop_assert_eq!(ahead.counters(), in_time.counters());
    }

    #[test]
    fn the_backlog_stays_within_its_limits(spec in links(), packets in arrivals()) {
        let mut link = Link::new(&spec, 5, "law");
        for (i, (at, bytes)) in packets.iter().enumerate() {
            link.offer(*at, packet(i, *bytes));
            prop_assert!(link.queue_bytes(*at) <= spec.queue.bytes.unwrap().as_u64());
        }
    }

    #[test]
    fn no_interval_carries_more_than_the_rate_and_one_burst(
        rate in rates(), burst in 0u64..20_000, queue in prop_oneof![Just(QueueSpec::default()), queues(on_departure())],
        packets in arrivals(), overhead in 0u32..40,
    ) {
        // Without delay, packets are delivered on departure.
        let plain = LinkSpec::constant(Rate::UNLIMITED, Time::ZERO);
        let spec = LinkSpec { rate, burst: Bytes::new(burst), overhead, queue, ..plain };
        let (exits, link) = drive(&spec, &packets, 1);
        let deliveries = deliveries(&exits);
        let mut capacity = Capacity::new(&link, &spec.rate);
        // The growth of sent - could over an interval is the excess sent within it.
        let slack = i128::from(burst) * 8_000_000_000;
        let (mut sent, mut least) = (0i128, None);
        for (i, Delivery { at, packet }) in deliveries.iter().enumerate() {
            sent += i128::from(packet.bytes + overhead) * 8_000_000_000;
            let too_much = least.map_or(0, |least| sent - capacity.up_to(*at + Time::from_nanos(1)) as i128 - least);
            prop_assert!(too_much <= slack, "{too_much} in a window that ends with {i}, at most {slack}");
            let surplus = sent - capacity.up_to(*at) as i128;
            least = Some(least.map_or(surplus, |least: i128| least.min(surplus)));
        }
    }

    #[test]
    fn a_busy_constant_link_ends_exactly_after_the_time_of_its_bytes(bps in 1_000u64..40_000_000_000, sizes in prop::collection::vec(28u32..1501, 1..400)) {
        let mut link = Link::<()>::new(&LinkSpec::constant(Rate::from_bps(bps), Time::ZERO), 1, "law");
        let mut sum = 0u128;
        for bytes in sizes {
            sum += u128::from(bytes);
            let exact = sum * 8_000_000_000 / u128::from(bps);
            prop_assert_eq!(
                link.transit(Time::ZERO, bytes, &mut Ecn::NotCapable),
                Transit::Delivered(Time::from_nanos(exact as u64))
            );
        }
    }

    #[test]
    fn a_busy_link_of_any_rate_does_exactly_the_work_of_its_rate(rate in rates(), start in 0u64..200, n in 1usize..100) {
        prop_assume!(rate != RateSpec::Constant(Rate::UNLIMITED));
        let spec = LinkSpec { rate, ..LinkSpec::constant(Rate::ZERO, Time::ZERO) };
        let mut link = Link::<()>::new(&spec, 2, "law");
        let other = Link::<()>::new(&spec, 2, "law");
        let mut capacity = Capacity::new(&other, &spec.rate);
        for i in 1..=n {
            let Transit::Delivered(at) = link.transit(ms(start), 1500, &mut Ecn::NotCapable) else {
                return Err(TestCaseError::fail("a link without limits dropped"));
            };
            let (work, done) = (12_000_000_000_000 * i as u128, capacity.between(ms(start), at));
            let next = capacity.between(ms(start), at + Time::from_nanos(1));
            prop_assert!(done <= work && work < next.max(done + 1), "{i}: {done} <= {work} < {next}");
        }
    }

    #[test]
    fn changing_one_process_affects_no_other(spec in links(), second in loss(), packets in arrivals()) {
        // Without a queue limit every packet is accepted, so each meets the same processes in the same order.
        let spec = LinkSpec { queue: QueueSpec::default(), ..spec };
        let fates = |spec: &LinkSpec| -> Vec<Transit> {
            let mut link = Link::<()>::new(spec, 9, "law");
            packets.iter().map(|(at, bytes)| link.transit(*at, *bytes, &mut Ecn::NotCapable)).collect()
        };
        let before = fates(&spec);
        // A packet is lost if any process loses it, and each loses the same packets as alone.
        let losing = |loss: Vec<LossSpec>| -> Vec<bool> {
            let fates = fates(&LinkSpec { loss, ..spec.clone() });
            fates.iter().map(|fate| *fate == Transit::Dropped(DropReason::Loss)).collect()
        };
        let (one, other) = (LossSpec::Bernoulli(ratio(0.3)), second);
        let together = losing(vec![one.clone(), other.clone()]);
        let alone = [losing(vec![one]), losing(vec![LossSpec::Bernoulli(Ratio::ZERO), other])];
        for (i, lost) in together.iter().enumerate() {
            prop_assert_eq!(*lost, alone[0][i] || alone[1][i], "packet {}", i);
        }
        let other_delay = LinkSpec { delay: DelaySpec::Constant(ms(7)), loaded: None, ..spec.clone() };
        for (one, other) in before.iter().zip(fates(&other_delay)) {
            prop_assert_eq!(matches!(one, Transit::Dropped(_)), matches!(other, Transit::Dropped(_)));
        }
    }
}

/// The cumulative work that a link's rate allows, bit-ns/s, at whole milliseconds, the only instants at which rates change in these tests.
struct Capacity<'l, T> {
    link: &'l Link<T>,
    constant: bool,
    sums: Vec<u128>,
}

impl<'l, T: Copy> Capacity<'l, T> {
    fn new(link: &'l Link<T>, rate: &RateSpec) -> Self {
        Self { link, constant: matches!(rate, RateSpec::Constant(_)), sums: vec![0] }
    }

    fn up_to(&mut self, t: Time) -> u128 {
        let work = |at: Time, length: Time| u128::from(self.link.rate_at(at).as_bps()) * u128::from(length.as_nanos());
        if self.constant {
            return work(t, t);
        }
        let whole = t.as_millis() as usize;
        while self.sums.len() <= whole {
            let next = self.sums[self.sums.len() - 1] + work(ms(self.sums.len() as u64 - 1), ms(1));
            self.sums.push(next);
        }
        self.sums[whole] + work(t, t - ms(t.as_millis()))
    }

    fn between(&mut self, from: Time, to: Time) -> u128 {
        self.up_to(to) - self.up_to(from)
    }
}
