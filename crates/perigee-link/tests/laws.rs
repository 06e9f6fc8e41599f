//! Laws that hold for every link, with any combination of processes.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use crate::links::{arrivals, feed_forward_links, links, links_with, loss, ms, queues_on_departure, rates, ratio};
use perigee_link::{
    AqmSpec, CodelSpec, DelaySpec, Delivery, DropReason, DroppedPacket, Ecn, Exit, Full, Link, LinkSpec, Loaded,
    LossSpec, Offered, Packet, QueueSpec, RateSpec, Transit,
};
use perigee_units::{Bytes, Rate, Ratio, Time};
use proptest::prelude::*;

fn packet(i: usize, bytes: u32) -> Packet<usize> {
    Packet { bytes, flow: 0, ecn: Ecn::Capable, is_low: i.is_multiple_of(3), token: i }
}

/// Wherever in the nanosecond before a gap the service of a packet would end: its rest is done after the gap, on both paths.
#[test]
fn a_packet_that_a_gap_cuts_off_leaves_after_it_on_the_fast_path_too() {
    let mut cut = 0;
    // 12,000 bit at 700 Mbit/s take 17,142 6/7 ns: each packet ends at another seventh of a nanosecond.
    for length in 100_000..160_000u64 {
        let starts = [(0, 700_000_000), (length, 0), (length + 1_000_000, 700_000_000)];
        let steps = starts.map(|(at, bps)| (Time::from_nanos(at), Rate::from_bps(bps)));
        let steps = perigee_link::Steps::new(steps, Some(Time::from_nanos(length + 2_000_000))).unwrap();
        let spec =
            LinkSpec { rate: RateSpec::Trace(steps.into()), ..LinkSpec::constant(Rate::ZERO, Time::from_millis(1)) };
        let (mut fast, mut plain) = (Link::<()>::new(&spec, 1, "law"), Link::new(&spec, 1, "law").without_fast_path());
        for _ in 0..10 {
            let transit = |link: &mut Link<()>| link.transit(Time::ZERO, 1500, &mut Ecn::NotCapable);
            let found = transit(&mut plain);
            assert_eq!(transit(&mut fast), found, "a gap after {length} ns");
            cut += u32::from(found == Transit::Delivered(Time::from_nanos(length + 2_000_000)));
        }
    }
    assert!(cut > 0, "no packet was cut off in its last nanosecond");
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
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

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
        // Only a queue of two classes lets one class overtake the other.
        let has_classes = spec.queue.full == Full::DropLow;
        for is_low in [false, true] {
            let tokens = deliveries(&exits).into_iter().map(|delivery| delivery.packet);
            let class: Vec<_> = tokens.filter(|packet| !has_classes || packet.is_low == is_low).collect();
            prop_assert!(class.windows(2).all(|pair| pair[0].token < pair[1].token));
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
        let patient = AqmSpec::Codel(CodelSpec { target: Time::MAX, interval: ms(100), ecn: false, ce_threshold: None });
        let kept = LinkSpec { queue: QueueSpec { aqm: patient, ..plain.queue.clone() }, ..plain.clone() };
        let ((exits, one), (same, other)) = (drive(&plain, &packets, 1), drive(&kept, &packets, 1));
        prop_assert_eq!(one.counters(), other.counters());
        prop_assert_eq!(deliveries(&exits), deliveries(&same));
    }

    #[test]
    fn a_link_that_stores_waiting_packets_gives_them_the_same_fates_and_instants(
        spec in feed_forward_links(), packets in arrivals(),
    ) {
        let queue = QueueSpec { time: None, aqm: AqmSpec::None, ..spec.queue.clone() };
        let spec = LinkSpec { queue, loaded: None, ..spec };
        let (mut decides, mut stores) = (Link::new(&spec, 11, "law"), Link::storing(&spec, 11, "law"));
        prop_assert_eq!((decides.is_feed_forward(), stores.is_feed_forward()), (true, false));
        for (i, (at, bytes)) in packets.iter().enumerate() {
            let full = |offered| offered == Offered::Dropped(DropReason::QueueFull);
            let (one, other) = (decides.offer(*at, packet(i, *bytes)), stores.offer(*at, packet(i, *bytes)));
            prop_assert_eq!(full(one), full(other));
            prop_assert_eq!(decides.queue_bytes(*at), stores.queue_bytes(*at));
        }
        let rest = |link: &mut Link<usize>| -> Vec<_> {
            deliveries(&std::iter::from_fn(|| link.poll(Time::from_secs(1 << 30))).collect::<Vec<_>>())
        };
        prop_assert_eq!(rest(&mut decides), rest(&mut stores));
        prop_assert_eq!(decides.counters(), stores.counters());
    }

    #[test]
    fn a_withdrawn_packet_leaves_its_link_once_in_order_and_no_other_is_touched(
        spec in links(), packets in arrivals(), place in any::<prop::sample::Index>(), are_lost in any::<bool>(),
    ) {
        let queue = if spec.queue.can_be_withdrawn() {
            spec.queue.clone()
        } else {
            QueueSpec { time: None, aqm: AqmSpec::None, full: Full::DropTail, ..spec.queue.clone() }
        };
        let spec = LinkSpec { queue, ..spec };
        let mut link = Link::storing(&spec, 11, "law");
        let (mut left, mut withdrawn, mut delivered) = (Vec::new(), Vec::new(), Vec::new());
        let now = packets[place.index(packets.len())].0;
        let mut is_done = false;
        for (i, (at, bytes)) in packets.iter().enumerate() {
            if *at > now && !is_done {
                is_done = true;
                let waiting = link.held().waiting;
                link.withdraw(now, are_lost, |packet| packet.token % 3 > 0, |packet| withdrawn.push(packet.token));
                prop_assert!(link.held().waiting + withdrawn.len() as u64 <= waiting, "more than those that waited");
            }
            if link.offer(*at, packet(i, *bytes)) != Offered::Queued {
                left.push(i);
            }
        }
        let before = withdrawn.len();
        link.withdraw(Time::from_secs(1 << 30), are_lost, |_| true, |packet| withdrawn.push(packet.token));
        prop_assert_eq!(withdrawn.len(), before, "nothing waits in the end");
        while let Some(exit) = link.poll(Time::from_secs(1 << 30)) {
            match exit {
                Exit::Delivered(delivery) => delivered.push(delivery.packet.token),
                Exit::Dropped(drop) => left.push(drop.packet.token),
            }
        }
        prop_assert!(withdrawn.is_sorted() && withdrawn.iter().all(|token| token % 3 > 0), "{:?}", withdrawn);
        prop_assert!(delivered.is_sorted(), "{:?}", delivered);
        let c = link.counters();
        prop_assert_eq!(c.withdrawn_packets, if are_lost { 0 } else { withdrawn.len() as u64 });
        prop_assert_eq!(c.offered_packets, c.delivered_packets + c.dropped_packets() + c.withdrawn_packets);
        let mut all = [left, withdrawn, delivered].concat();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..packets.len()), "each packet leaves once");
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
    fn take_all_agrees_with_transit_or_declines(
        spec in feed_forward_links(), packets in arrivals(), train_length in 1usize..20, at_once in any::<bool>(),
    ) {
        let (mut quick, mut general) = (Link::<()>::new(&spec, 3, "law"), Link::<()>::new(&spec, 3, "law"));
        for train in packets.chunks(train_length) {
            let arrivals: Vec<_> = train.iter().map(|(at, _)| if at_once { train[train.len() - 1].0 } else { *at }).collect();
            // Two sizes alternate, as data and ACKs with SACK blocks do.
            let (bytes, mut times) = (if train[0].1 > 750 { 1500 } else { 64 }, arrivals.clone());
            let are_taken = quick.take_all(&mut times, bytes);
            for (at, time) in arrivals.iter().zip(times) {
                let (mut ecn, mut same) = (Ecn::Capable, Ecn::Capable);
                let decided = if are_taken { Transit::Delivered(time) } else { quick.transit(*at, bytes, &mut ecn) };
                prop_assert_eq!(decided, general.transit(*at, bytes, &mut same));
                prop_assert_eq!(ecn, same);
            }
            prop_assert_eq!(quick.queue_bytes(arrivals[arrivals.len() - 1]), general.queue_bytes(arrivals[arrivals.len() - 1]));
        }
        prop_assert_eq!(quick.counters(), general.counters());
    }

    #[test]
    fn early_dequeues_agree_with_general_ones(
        spec in links_with(queues_on_departure()), packets in arrivals(), run_length in 1usize..20, unread in 1usize..50,
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
        spec in links_with(queues_on_departure()), packets in arrivals(),
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
        rate in rates(), burst in 0u64..20_000, queue in prop_oneof![Just(QueueSpec::default()), queues_on_departure()],
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
    fn a_busy_constant_link_ends_exactly_after_the_time_of_its_bytes(
        bps in 1_000u64..40_000_000_000, sizes in prop::collection::vec(28u32..1501, 1..400),
    ) {
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
