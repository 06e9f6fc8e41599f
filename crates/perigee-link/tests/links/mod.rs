//! Random links and arrivals for laws.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use std::sync::{Arc, OnceLock};

use perigee_link::{
    AqmSpec, Body, CodelSpec, DelaySpec, DualPi2Spec, EcnTreatment, Fluctuation, Full, Grants, Jitter, LinkSpec,
    LinkState, Loaded, LogNormal, LossSpec, OrbitDelay, PieSpec, QueueSpec, RateSpec, RedSpec, RedThresholds, Shaping,
    SlotClock, SlotDelay, SlotJitter, SlotLoss, SlotOutage, SlotRate, Spike, Steps, Tail, TailShape,
};
use perigee_orbit::{Constellation, Gateway, Path, PathSpec, Pattern, Place, Shell, Utc, Weights};
use perigee_units::{Bytes, Rate, Ratio, Time};
use proptest::prelude::*;

pub(crate) fn ms(t: u64) -> Time {
    Time::from_millis(t)
}

pub(crate) fn ratio(share: f64) -> Ratio {
    Ratio::new(share).unwrap()
}

pub(crate) fn rates() -> impl Strategy<Value = RateSpec> {
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
    (1u64..40, 0u64..60, 0u64..10_000_000).prop_map(|(every, length, burst)| {
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
            // Half of the links have bursts, of any length up to that of a frame.
            grants: (burst < 5_000_000).then_some(Grants { every: ms(5), burst: Time::from_nanos(burst + 1) }),
            outage: Some(SlotOutage { length, rise: ms(60), both: every % 2 == 0 }),
            mood: Ratio::ZERO,
            busy: None,
            shaping: Some(Shaping { after: ms(300), length: ms(500), share: ratio(0.1), every: Some(ms(900)) }),
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
    let slots = (any::<bool>(), 1u64..50, 0usize..3).prop_map(|(is_before, every, shape)| {
        let drawn = |median| LogNormal { median: ms(median), sigma: 0.5, max: ms(100) };
        let (before, after) =
            if is_before { (ms(30), LogNormal::constant(Time::ZERO)) } else { (Time::ZERO, drawn(30)) };
        let (begin, peak) = [(1.0, 1.0), (0.5, 0.8), (0.0, 1.0)].map(|(a, b)| (ratio(a), ratio(b)))[shape];
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
            spikes: vec![Spike {
                before,
                after,
                share: ratio(0.7),
                length: drawn(30),
                height: drawn(40),
                begin,
                peak,
                with_outage: every % 2 == 0,
            }],
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
    let netem = (1u32..40).prop_map(|packets| AqmSpec::Netem { packets });
    let (red, pie) = ((on(), on(), on()).prop_map(red), (0u64..10, on()).prop_map(pie));
    prop_oneof![Just(AqmSpec::None), Just(viasat2), red, pie, netem]
}

/// Queue management on departure, with targets and intervals that the short traffic of these tests exceeds.
fn on_departure() -> impl Strategy<Value = AqmSpec> {
    let dual = (1u64..20, 1u64..20).prop_map(|(target, update)| {
        AqmSpec::DualPi2(DualPi2Spec { target: ms(target), update: ms(update), ..DualPi2Spec::default() })
    });
    let codel = (1u64..20, 1u64..100, any::<bool>(), prop::option::of(0u64..20), prop::option::of(1u32..4));
    let codel = codel.prop_map(|(target, interval, ecn, step, queues)| {
        let codel = CodelSpec { target: ms(target), interval: ms(interval), ecn, ce_threshold: step.map(ms) };
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
        QueueSpec { bytes: Some(bytes), packets, time: time.map(ms), bytes_over_time: None, full: Full::DropTail, aqm }
    })
}

/// Queues that decide on departure.
pub(crate) fn queues_on_departure() -> impl Strategy<Value = QueueSpec> {
    let front = |queue: QueueSpec| QueueSpec { full: Full::DropFront, ..queue };
    let aqm = on_departure().prop_map(|aqm| if matches!(aqm, AqmSpec::Codel(_)) { aqm } else { AqmSpec::None });
    let classes = |queue: QueueSpec| QueueSpec { full: Full::DropLow, time: None, ..queue };
    let classes = queues(Just(AqmSpec::None)).prop_map(classes);
    prop_oneof![2 => queues(on_departure()), 1 => queues(aqm).prop_map(front), 1 => classes]
}

pub(crate) fn loss() -> impl Strategy<Value = LossSpec> {
    prop_oneof![
        (0.0..0.3).prop_map(|p| LossSpec::Bernoulli(ratio(p))),
        (0.0..0.3, 1u64..3_000).prop_map(|(p, size)| LossSpec::BitErrors { loss: ratio(p), size: Bytes::new(size) }),
        (0.0..0.2, 0.1..1.0).prop_map(|(p, r)| LossSpec::GilbertElliott {
            good_to_bad: ratio(p),
            bad_to_good: ratio(r),
            good_loss: Ratio::ZERO,
            bad_loss: Ratio::ONE,
        }),
        (0.0..0.3, 20u64..4_000).prop_map(|(p, frame)| LossSpec::Frames { loss: ratio(p), frame: Bytes::new(frame) }),
        Just(LossSpec::Outages { gap: ms(100), length: ms(20), loss: ratio(0.8), both: false }),
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

pub(crate) fn links() -> impl Strategy<Value = LinkSpec> {
    links_with(prop_oneof![queues(on_arrival()), queues_on_departure()])
}

pub(crate) fn feed_forward_links() -> impl Strategy<Value = LinkSpec> {
    links_with(queues(on_arrival()))
}

pub(crate) fn links_with(queue: impl Strategy<Value = QueueSpec>) -> impl Strategy<Value = LinkSpec> {
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
        queue,
        prop::collection::vec(loss(), 0..3),
        prop::option::of(Just(loaded)),
        burst,
        0u32..40,
        treatments(),
        prop::option::of(states()),
    )
        .prop_map(|(rate, delay, queue, loss, loaded, burst, overhead, ecn, states)| LinkSpec {
            queue,
            rate,
            delay,
            loaded,
            loss,
            states,
            burst,
            overhead,
            ecn,
        })
}

/// Two or three states, of which one loses packets and one may lose all.
fn states() -> impl Strategy<Value = Arc<Vec<LinkState>>> {
    (1u64..80, 0.05..1.0, 0u64..60, 0.0..1.2, any::<bool>()).prop_map(|(stay, rate, delay, loss, third)| {
        let clear = LinkState { stay: ms(60), weight: 1.0, rate: Ratio::ONE, delay: Time::ZERO, loss: Ratio::ZERO };
        let rain = LinkState {
            stay: ms(stay),
            rate: ratio(rate),
            delay: ms(delay),
            loss: ratio(f64::min(loss, 1.0)),
            ..clear
        };
        let slow = LinkState { weight: 0.5, rate: ratio(0.5), delay: ms(5), ..clear };
        Arc::new([clear, rain, slow].into_iter().take(if third { 3 } else { 2 }).collect())
    })
}

fn treatments() -> impl Strategy<Value = EcnTreatment> {
    prop_oneof![
        6 => Just(EcnTreatment::Pass),
        1 => Just(EcnTreatment::Compatibility),
        1 => Just(EcnTreatment::IgnoreOuter),
        1 => Just(EcnTreatment::Bleach),
        1 => Just(EcnTreatment::Drop),
    ]
}

/// Arrivals as gaps (us) and sizes.
pub(crate) fn arrivals() -> impl Strategy<Value = Vec<(Time, u32)>> {
    prop::collection::vec((prop_oneof![4 => 0u64..2_000, 1 => 0u64..300_000], 28u32..1501), 1..300).prop_map(|gaps| {
        let mut t = 0;
        let at = |(gap, bytes): (u64, u32)| {
            t += gap;
            (Time::from_micros(t), bytes)
        };
        gaps.into_iter().map(at).collect()
    })
}
