//! `DualPI2` compared with numbers calculated by hand from RFC 9332, appendix A.

use perigee_units::Ratio;

use super::*;
use crate::packet::Packet;

/// The defaults of the RFC.
fn spec() -> DualPi2Spec {
    DualPi2Spec::default()
}

fn ms(t: u64) -> Time {
    Time::from_millis(t)
}

fn us(t: u64) -> Time {
    Time::from_micros(t)
}

fn waiting(arrived: Time, size: u32, ecn: Ecn, token: usize) -> Waiting<usize> {
    Waiting { packet: Packet { bytes: size, flow: 0, ecn, is_low: false, token }, inner: ecn, size, arrived }
}

/// Removes `count` packets at `now`: the numbers of those served, with their marks, and the numbers of those dropped.
fn take(queue: &mut DualPi2<usize>, now: Time, count: usize) -> (Vec<(usize, bool)>, Vec<usize>) {
    let (mut served, mut dropped) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let Some(next) = queue.dequeue(now, &mut |packet| dropped.push(packet.packet.token)) else { break };
        served.push((next.packet.token, next.packet.ecn == Ecn::Marked));
    }
    (served, dropped)
}

/// A queue with a constant base probability.
fn at_probability(base: f64) -> DualPi2<usize> {
    let mut queue = DualPi2::new(&spec());
    (queue.base.probability, queue.base.next_update) = (base, Time::MAX);
    queue
}

#[test]
fn the_gains_are_those_of_a_target_of_15_ms_and_a_round_trip_of_100_ms() {
    // alpha = 0.1 x 15 ms / (100 ms)^2 and beta = 0.3 / 100 ms.
    let DualPi2Spec { alpha, beta, coupling, target, update, .. } = spec();
    assert!((alpha - 0.15).abs() < 1e-12 && (beta - 3.0).abs() < 1e-12, "{alpha} and {beta}");
    assert_eq!((coupling, target, update), (2.0, ms(15), ms(15)));
}

#[test]
fn the_base_probability_moves_with_the_distance_from_the_target_and_the_change_of_the_delay() {
    let mut controller = Controller { probability: 0.0, previous: Time::ZERO, next_update: ms(15) };
    let mut after = |wait| {
        controller.update(ms(wait), &spec());
        (controller.probability * 1e6).round() as u32
    };
    // In millionths: 0.15 x 0.010 + 3 x 0.025, then 0.15 x 0.010, then 0.15 x 0 - 3 x 0.010.
    assert_eq!([after(25), after(25), after(15)], [76_500, 78_000, 48_000]);
    // 0.15 x -0.015 - 3 x 0.015, limited to zero.
    assert_eq!([after(0), after(0)], [750, 0]);
    assert_eq!(after(2_000), 1_000_000, "limited to one");
}

#[test]
fn classic_packets_are_selected_with_the_square_and_others_with_twice_the_base_probability() {
    let share = |base: f64, ecn: Ecn| {
        let mut queue = at_probability(base);
        (0..10_000).for_each(|i| queue.enqueue(waiting(Time::ZERO, 1000, ecn, i)));
        let (served, dropped) = take(&mut queue, us(100), 10_000);
        let marked = served.iter().filter(|(_, marked)| *marked).count();
        (marked as f64 / 10_000.0, dropped.len() as f64 / 10_000.0)
    };
    for base in [0.05, 0.1, 0.3, 0.49] {
        let near =
            |(marks, drops): (f64, f64), (m, d): (f64, f64)| (marks - m).abs() < 2e-4 && (drops - d).abs() < 2e-4;
        let (squared, coupled) = (base * base, 2.0 * base);
        assert!(near(share(base, Ecn::NotCapable), (0.0, squared)), "{base}: classic");
        assert!(near(share(base, Ecn::Capable), (squared, 0.0)), "{base}: classic with ECN");
        assert!(near(share(base, Ecn::L4s), (coupled, 0.0)), "{base}: low latency");
    }
    // From 1/2 on, the coupled probability is one: both queues drop with the square, and all other L4S packets are marked.
    let (marks, drops) = share(0.6, Ecn::L4s);
    assert!((drops - 0.36).abs() < 2e-4 && (marks - 0.64).abs() < 2e-4, "{marks} marked, {drops} dropped");
    assert!((share(0.6, Ecn::Capable).1 - 0.36).abs() < 2e-4);
}

#[test]
fn a_coupling_below_one_drops_classic_packets_that_could_be_marked_from_probability_one_on() {
    // p_Cmax = min(1 / k^2, 1): one for k = 1/2, although the coupled probability is then 1/2.
    let fate = |base: f64| {
        let mut queue = at_probability(base);
        queue.spec.coupling = 0.5;
        (0..3).for_each(|i| queue.enqueue(waiting(Time::ZERO, 1000, Ecn::Capable, i)));
        let (served, dropped) = take(&mut queue, us(100), 3);
        (served.iter().filter(|(_, marked)| *marked).count(), dropped.len())
    };
    // The sum of probabilities must exceed one, so the first of three is not selected.
    assert_eq!(fate(1.0), (0, 2));
    assert_eq!(fate(0.999), (2, 0));
}

#[test]
fn the_ramp_marks_by_sojourn_time_and_a_step_has_no_width() {
    let percent = |wait, spec: &DualPi2Spec| (ramp(us(wait), spec) * 100.0).round() as u32;
    let ramped = |wait| percent(wait, &spec());
    assert_eq!([ramped(799), ramped(800), ramped(1000), ramped(1100), ramped(1200)], [0, 0, 50, 75, 100]);
    let step = DualPi2Spec { ramp_width: Time::ZERO, ..spec() };
    assert_eq!([799, 800, 801].map(|wait| percent(wait, &step)), [0, 100, 100]);
}

#[test]
fn a_low_latency_packet_alone_is_not_marked_whatever_it_has_waited() {
    let mut queue = at_probability(0.0);
    queue.enqueue(waiting(Time::ZERO, 1000, Ecn::L4s, 0));
    assert_eq!(take(&mut queue, ms(5), 1).0, [(0, false)]);
    (1..=3).for_each(|i| queue.enqueue(waiting(ms(5), 1000, Ecn::L4s, i)));
    // The sum of probabilities must exceed one, so the first probability of one does not select.
    assert_eq!(take(&mut queue, ms(10), 3).0, [(1, false), (2, true), (3, false)]);
}

#[test]
fn the_ecn_field_selects_the_queue() {
    let mut queue = DualPi2::new(&spec());
    for (i, ecn) in [Ecn::NotCapable, Ecn::Capable, Ecn::L4s, Ecn::Marked].into_iter().enumerate() {
        queue.enqueue(waiting(Time::ZERO, 1000, ecn, i));
    }
    assert_eq!([queue.classic.packets.len(), queue.low_latency.packets.len()], [2, 2]);
}

#[test]
fn while_both_are_busy_the_classic_queue_has_its_share_of_the_bytes_and_the_other_the_first_turn() {
    let mut queue = at_probability(0.0);
    for i in 0..1_600 {
        queue.enqueue(waiting(Time::ZERO, 500, Ecn::NotCapable, i));
        queue.enqueue(waiting(Time::ZERO, 1000, Ecn::L4s, 10_000 + i));
    }
    let (served, _) = take(&mut queue, Time::ZERO, 1_600);
    let classic = served.iter().filter(|(token, _)| *token < 10_000).count();
    let (bytes, all) = (classic * 500, classic * 500 + (1_600 - classic) * 1000);
    assert!((bytes as f64 / all as f64 - 1.0 / 16.0).abs() < 0.002, "{bytes} of {all}");
    assert!(served[0].0 >= 10_000);
}

/// The classes of the next packets, one letter each, all removed at `now`.
fn order(queue: &mut DualPi2<usize>, now: Time, count: usize) -> String {
    take(queue, now, count).0.iter().map(|(token, _)| if *token < 10_000 { 'C' } else { 'L' }).collect()
}

/// Adds this many classic and low-latency packets of 1000 bytes.
fn fill(queue: &mut DualPi2<usize>, at: Time, classic: usize, low_latency: usize) {
    (0..classic).for_each(|i| queue.enqueue(waiting(at, 1000, Ecn::NotCapable, i)));
    (0..low_latency).for_each(|i| queue.enqueue(waiting(at, 1000, Ecn::L4s, 10_000 + i)));
}

#[test]
fn a_classic_packet_at_the_head_waits_for_at_most_15_full_packets() {
    // RFC 9332, section 4.2.2, for a share of 1/16; Linux's `c_protection_init` gives the same at the first contention.
    let mut queue = at_probability(0.0);
    fill(&mut queue, Time::ZERO, 3, 100);
    let fifteen = "L".repeat(15);
    assert_eq!(order(&mut queue, ms(1), 48), format!("{fifteen}C{fifteen}C{fifteen}C"));
}

#[test]
fn the_credit_persists_while_one_queue_is_busy_and_restarts_on_an_idle_link() {
    // RFC 9332, A.1: the credit changes only while both queues are busy, and an idle link resets it.
    let mut queue = at_probability(0.0);
    fill(&mut queue, Time::ZERO, 2, 10);
    assert_eq!(order(&mut queue, ms(1), 12), format!("{}CC", "L".repeat(10)));
    fill(&mut queue, ms(1), 2, 20);
    assert_eq!(order(&mut queue, ms(2), 6), "LLLLLC", "five of fifteen remain");
    let _ = order(&mut queue, ms(3), 100);
    // A single packet, served on arrival.
    fill(&mut queue, ms(9), 1, 0);
    assert_eq!(order(&mut queue, ms(9), 1), "C");
    fill(&mut queue, ms(9), 1, 20);
    assert_eq!(order(&mut queue, ms(10), 16), format!("{}C", "L".repeat(15)));
}

#[test]
fn packets_that_are_dropped_do_not_count_for_the_shares() {
    let mut queue = at_probability(1.0);
    queue.spec.coupling = 0.5;
    fill(&mut queue, Time::ZERO, 100, 100);
    // The first classic packet is sent. From its next turn on each is dropped, and the turn passes on.
    let (served, dropped) = take(&mut queue, Time::ZERO, 32);
    let classic = served.iter().filter(|(token, _)| *token < 10_000).count();
    assert_eq!((classic, dropped.len()), (1, 99));
}

#[test]
fn the_controller_uses_the_longer_of_the_two_delays_and_rests_when_idle() {
    let mut queue = DualPi2::new(&spec());
    queue.enqueue(waiting(Time::ZERO, 1000, Ecn::L4s, 0));
    queue.enqueue(waiting(ms(10), 1000, Ecn::NotCapable, 1));
    queue.catch_up(ms(30));
    // At 15 ms a delay of 15 ms: 3 x 0.015. At 30 ms one of 30 ms: 0.15 x 0.015 + 3 x 0.015.
    assert!((queue.base.probability - 0.092_25).abs() < 1e-12, "{}", queue.base.probability);
    let _ = take(&mut queue, ms(30), 2);
    queue.catch_up(Time::from_secs(1 << 33));
    assert!(queue.base.probability == 0.0);
    assert!(queue.base.next_update > Time::from_secs(1 << 33));
    assert_eq!(queue.base.next_update.as_nanos() % 15_000_000, 0, "on the grid of updates");
}

#[test]
fn probabilities_are_spread_evenly() {
    let mut fifo = Fifo::<()>::default();
    let hits: Vec<usize> = (1..=40).filter(|_| fifo.recurs(0.125)).collect();
    assert_eq!(hits.len(), 4, "every eighth, from the ninth on");
    assert!(Ratio::new(fifo.accumulated).is_some());
}
