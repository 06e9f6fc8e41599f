//! The limit of netem, which counts the packets in the air.

use perigee_link::{AqmSpec, DropReason, Ecn, Link, LinkSpec, Offered, Packet, QueueSpec, Transit};
use perigee_units::{Rate, Time};

use crate::links::ms;

fn link(packets: u32, delay: Time) -> Link<u32> {
    let queue = QueueSpec { aqm: AqmSpec::Netem { packets }, ..QueueSpec::default() };
    Link::new(&LinkSpec { queue, ..LinkSpec::constant(Rate::from_mbps(1000.0), delay) }, 1, "netem")
}

#[test]
fn a_packet_has_room_again_when_one_is_delivered() {
    // 1250 bytes take 10 us at 1 Gbit/s: the first is delivered at 300.01 ms.
    let mut link = link(2, ms(300));
    let mut offer =
        |at, token| link.offer(at, Packet { bytes: 1250, flow: 0, ecn: Ecn::NotCapable, is_low: false, token });
    let full = Offered::Dropped(DropReason::QueueFull);
    let answers = [Time::ZERO, ms(1), ms(2), ms(300), Time::from_micros(300_010), ms(301)].map(|at| offer(at, 0));
    assert_eq!(answers, [Offered::Queued, Offered::Queued, full, full, Offered::Queued, full]);
}

#[test]
fn a_thousand_packets_in_300_ms_are_40_mbit_per_s() {
    // 100 Mbit/s of 1500 bytes for 3 s: a thousand of them in each 300 ms pass, whatever the rate of the link.
    let mut link = link(1000, ms(300));
    let sent = (0..25_000).map(|n| Time::from_micros(120 * n));
    let passed = sent.filter(|at| matches!(link.transit(*at, 1500, &mut Ecn::NotCapable), Transit::Delivered(_)));
    assert_eq!(passed.count(), 10_000);
}
