//! Cost of one packet on a constant link, and on a link with every satellite process.
//!
//! `cargo bench -p perigee-link` prints the time per packet at 110 % load, where the queue stays full and one packet in eleven is dropped.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time")]

use std::hint::black_box;
use std::time::Instant;

use perigee_link::{
    AqmSpec, Body, DelaySpec, Ecn, Fluctuation, Jitter, Link, LinkSpec, LossSpec, Offered, Packet, QueueSpec, RateSpec,
    Tail, TailShape,
};
use perigee_units::{Bytes, Rate, Ratio, Time};

fn main() {
    transit("transit/constant", &plain());
    transit("transit/bucket", &LinkSpec { burst: Bytes::new(6200), overhead: 14, ..plain() });
    transit("transit/satellite", &satellite());
    let mut link = Link::new(&plain(), 1, "bench");
    each_packet("offer and poll/constant", |now| {
        let packet = Packet { bytes: 1500, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: 7 };
        let queued = link.offer(now, packet) == Offered::Queued;
        black_box((queued, link.poll(now)));
    });
}

fn transit(name: &str, spec: &LinkSpec) {
    let mut link = Link::<u32>::new(spec, 1, "bench");
    each_packet(name, |now| {
        black_box(link.transit(now, 1500, &mut Ecn::NotCapable));
    });
}

/// Prints the nanoseconds of a packet: the least of fifty batches, which little else has disturbed.
fn each_packet(name: &str, mut carry: impl FnMut(Time)) {
    let mut now = Time::ZERO;
    let batch = |_| {
        let started = Instant::now();
        for _ in 0..100_000 {
            now += Time::from_nanos(75_000);
            carry(now);
        }
        started.elapsed().as_nanos() as f64 / 100_000.0
    };
    println!("{name:24} {:6.1} ns", (0..50).map(batch).fold(f64::INFINITY, f64::min));
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
