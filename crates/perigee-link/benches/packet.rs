//! Cost of one packet on a constant link, and on a link with every satellite process.
//!
//! `cargo bench -p perigee-link` prints the time per packet at 110 % load, where the queue stays full and one packet in eleven is dropped.

use criterion::Criterion;
use perigee_link::{
    AqmSpec, Body, DelaySpec, Ecn, Fluctuation, Jitter, Link, LinkSpec, LossSpec, Offered, Packet, QueueSpec, RateSpec,
    Tail, TailShape,
};
use perigee_units::{Bytes, Rate, Ratio, Time};
use std::hint::black_box;

fn transit(c: &mut Criterion, name: &str, spec: &LinkSpec) {
    let (mut link, mut now) = (Link::<u32>::new(spec, 1, "bench"), Time::ZERO);
    c.bench_function(name, |b| {
        b.iter(|| {
            now += Time::from_nanos(75_000);
            black_box(link.transit(now, 1500, &mut Ecn::NotCapable))
        });
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let c = &mut criterion;
    transit(c, "transit/constant", &plain());
    transit(c, "transit/bucket", &LinkSpec { burst: Bytes::new(6200), overhead: 14, ..plain() });
    transit(c, "transit/satellite", &satellite());
    let (mut link, mut now) = (Link::new(&plain(), 1, "bench"), Time::ZERO);
    c.bench_function("offer and poll/constant", |b| {
        b.iter(|| {
            now += Time::from_nanos(75_000);
            let packet = Packet { bytes: 1500, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: 7 };
            let queued = link.offer(now, packet) == Offered::Queued;
            black_box((queued, link.poll(now)))
        });
    });
    criterion.final_summary();
}

fn plain() -> LinkSpec {
    let queue = QueueSpec { bytes: Some(Bytes::new(1_000_000)), ..QueueSpec::default() };
    LinkSpec { queue, ..LinkSpec::constant(Rate::from_mbps(144.0), Time::from_millis(300)) }
}

fn satellite() -> LinkSpec {
    let ratio = |share| Ratio::new(share).unwrap_or_default();
    let rate = Fluctuation {
        mean: Rate::from_mbps(140.0),
        sd: Rate::from_mbps(8.0),
        min: Rate::from_mbps(20.0),
        max: Rate::from_mbps(144.0),
        every: Time::from_secs(1),
        memory: Time::from_secs(10),
        mood: Rate::ZERO,
    };
    let tail = Tail {
        share: ratio(0.001),
        every: Time::from_millis(200),
        shape: TailShape::Pareto { min: Time::from_millis(30), shape: 1.2 },
        max: Time::from_millis(1200),
    };
    let delay = Jitter {
        base: Time::from_millis(280),
        body: Body::Normal { sd: Time::from_millis(9) },
        min: Time::ZERO,
        max: Time::from_secs(3600),
        every: Time::from_millis(200),
        memory: Time::ZERO,
        linear: false,
        tail: Some(tail),
    };
    let aqm = AqmSpec::Viasat2 { threshold: ratio(0.5), drop: ratio(0.25) };
    LinkSpec {
        rate: RateSpec::Fluctuating(rate),
        delay: DelaySpec::Jitter(delay),
        queue: QueueSpec { bytes: Some(Bytes::new(36_000_000)), aqm, ..QueueSpec::default() },
        loss: vec![LossSpec::Outages {
            gap: Time::from_secs(400),
            length: Time::from_millis(100),
            loss: Ratio::ONE,
            both: false,
        }],
        ..LinkSpec::constant(Rate::ZERO, Time::ZERO)
    }
}
