//! PIE compared with numbers calculated by hand from RFC 8033, sections 4 and 5.

use perigee_units::{Bytes, Rate, Ratio};
use proptest::prelude::*;

use super::super::{Admission, AqmSpec, ArrivalAqm, QueueSpec};
use super::*;
use crate::packet::DropReason;
use crate::RateSpec;

fn ms(t: u64) -> Time {
    Time::from_millis(t)
}

/// The defaults of the RFC.
fn spec(ecn: bool) -> PieSpec {
    let mark_below = Ratio::new(0.1).unwrap_or_default();
    PieSpec { target: ms(15), update: ms(15), burst: ms(150), alpha: 0.125, beta: 1.25, ecn, mark_below }
}

/// The probabilities after updates with these delays, ms.
fn probabilities(waits_ms: &[u64]) -> Vec<f64> {
    let mut pie = Pie::new(&spec(false));
    let update = |wait: &u64| {
        pie.update(ms(*wait));
        pie.probability
    };
    waits_ms.iter().map(update).collect()
}

fn assert_close(given: &[f64], expected: &[f64]) {
    assert_eq!(given.len(), expected.len());
    for (i, (g, e)) in given.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= 1e-6 * e.abs(), "{i}: {g}, not {e}");
    }
}

#[test]
fn under_a_constant_delay_the_probability_climbs_in_the_steps_of_the_rfc() {
    // 100 ms above the target add 1/8 x 0.1 = 0.0125 per update, and 1.25 x 0.115 more at the first, divided by 2048 below 0.000001, by 128
    // below 0.0001, by 32 below 0.001, by 8 below 0.01, by 2 below 0.1.
    let expected = [
        0.15625 / 2048.0,
        7.629_395e-5 + 0.0125 / 128.0,
        1.739_502e-4 + 0.0125 / 32.0,
        5.645_752e-4 + 0.0125 / 32.0,
        9.552_002e-4 + 0.0125 / 32.0,
        1.345_825e-3 + 0.0125 / 8.0,
        2.908_325e-3 + 0.0125 / 8.0,
        4.470_825e-3 + 0.0125 / 8.0,
        6.033_325e-3 + 0.0125 / 8.0,
        7.595_825e-3 + 0.0125 / 8.0,
        9.158_325e-3 + 0.0125 / 8.0,
        1.072_083e-2 + 0.0125 / 2.0,
    ];
    assert_close(&probabilities(&[115; 12]), &expected);
}

#[test]
fn a_step_is_capped_once_the_probability_is_a_tenth() {
    let mut pie = Pie::new(&spec(false));
    (pie.probability, pie.previous) = (0.1, ms(15));
    // 1/8 x 0.185 + 1.25 x 0.185 = 0.254 uncapped.
    pie.update(ms(200));
    assert_close(&[pie.probability], &[0.12]);
    pie.probability = 0.099;
    pie.update(ms(200));
    assert_close(&[pie.probability], &[0.099 + 0.023_125 / 2.0]);
    // A falling delay lowers the probability without a cap: 1/8 x 0 - 1.25 x 0.185.
    pie.probability = 0.9;
    pie.update(ms(15));
    assert_close(&[pie.probability], &[0.9 - 0.231_25]);
}

#[test]
fn the_probability_of_an_empty_queue_decays_and_ends_at_zero() {
    let mut pie = Pie::new(&spec(false));
    pie.probability = 0.5;
    pie.update(Time::ZERO);
    // The previous update had no delay: (0.5 - 1/8 x 0.015) x 0.98.
    assert_close(&[pie.probability], &[(0.5 - 0.001_875) * 0.98]);
    for _ in 0..2_000 {
        pie.update(Time::ZERO);
    }
    assert!(pie.probability == 0.0, "{}", pie.probability);
}

#[test]
fn bursts_pass_during_the_allowance_and_again_after_an_idle_period() {
    let mut pie = Pie::new(&spec(false));
    let mut allowances = |wait: u64, updates: usize| -> Vec<u64> {
        let update = |_| {
            pie.update(ms(wait));
            pie.burst_left.as_millis()
        };
        (0..updates).map(update).collect()
    };
    assert_eq!(allowances(115, 11), [135, 120, 105, 90, 75, 60, 45, 30, 15, 0, 0]);
    let quiet = allowances(0, 400);
    assert_eq!(quiet.last(), Some(&150));
    assert!(
        quiet.windows(2).all(|pair| pair[0] <= pair[1]),
        "the allowance returns at once when the probability is zero"
    );
}

#[test]
fn selections_are_spaced_by_the_sum_of_the_probabilities() {
    let (mut pie, mut draws) = (Pie::new(&spec(false)), Stream::new(5, "pie"));
    let (mut gaps, mut gap) = (Vec::new(), 0u32);
    (pie.probability, pie.previous) = (0.05, ms(40));
    for _ in 0..400_000 {
        gap += 1;
        if pie.hits(1_000_000, &mut draws) {
            gaps.push(gap);
            (pie.accumulated, gap) = (0.0, 0);
        }
    }
    // The sum passes 0.85 at the 17th arrival and 8.5 at the 170th; between them each arrival is selected with probability 1/20: a mean of
    // 16 + 20, less 20 x 0.95^154 for the end at 170.
    assert_eq!(gaps.iter().min(), Some(&17));
    assert!(gaps.iter().all(|gap| *gap <= 171), "{:?}", gaps.iter().max());
    let mean = gaps.iter().map(|gap| f64::from(*gap)).sum::<f64>() / gaps.len() as f64;
    assert!((mean - 36.0).abs() < 0.8, "{mean}");
}

#[test]
fn a_drop_at_a_full_queue_resets_the_sum() {
    let queue = |bytes| {
        let aqm = AqmSpec::Pie(spec(false));
        let mut admission =
            Admission::new(&QueueSpec { bytes: Some(Bytes::new(bytes)), aqm, ..QueueSpec::default() }, false, 5, "pie");
        let ArrivalAqm::Pie(pie) = &mut admission.aqm else { unreachable!("the queue is PIE's") };
        (pie.probability, pie.previous, pie.burst_left, pie.accumulated) = (0.01, ms(40), Time::ZERO, 8.495);
        admission
    };
    let server = Server::new(&RateSpec::Constant(Rate::from_mbps(1.0)), Bytes::ZERO, 1, "pie");
    let mut backlog = Backlog::default();
    backlog.push(Time::ZERO, ms(100), 9_000);
    let arrival =
        |admission: &mut Admission| admission.refuses(Time::ZERO, 1_500, &backlog, &server, &mut Ecn::NotCapable);
    // With room the sum exceeds 8.5 and the arrival is dropped; after an arrival refused by a full queue the sum is 0.01.
    assert_eq!(arrival(&mut queue(100_000)), Some(DropReason::Aqm));
    let mut full = queue(10_000);
    assert_eq!(arrival(&mut full), Some(DropReason::QueueFull));
    full.bytes = 100_000;
    assert_eq!(arrival(&mut full), None);
}

#[test]
fn short_queues_and_idle_periods_have_no_drops() {
    let (mut pie, mut draws) = (Pie::new(&spec(false)), Stream::new(5, "pie"));
    let mut hits = |probability: f64, wait: u64, backlog: u64| {
        (pie.probability, pie.previous) = (probability, ms(wait));
        (0..1_000).filter(|_| pie.hits(backlog, &mut draws)).count()
    };
    assert_eq!(hits(1.0, 100, 3_000), 0, "two packets");
    assert!(hits(1.0, 100, 3_001) > 0);
    assert_eq!(hits(0.19, 7, 100_000), 0, "below half of the target and a probability of 1/5");
    assert!(hits(0.2, 7, 100_000) > 0);
    assert!(hits(0.19, 8, 100_000) > 0);
}

#[test]
fn packets_that_can_be_marked_are_marked_below_a_tenth_and_dropped_above() {
    let server = Server::new(&RateSpec::Constant(Rate::from_mbps(1.0)), Bytes::ZERO, 1, "pie");
    let fates = |probability: f64, ecn: bool, mut field: Ecn| {
        let (mut pie, mut draws) = (Pie::new(&spec(ecn)), Stream::new(5, "pie"));
        (pie.probability, pie.previous, pie.burst_left, pie.accumulated) = (probability, ms(40), Time::ZERO, 8.5);
        let mut backlog = Backlog::default();
        backlog.push(Time::ZERO, ms(100), 9_000);
        (pie.drops(Time::ZERO, &backlog, &server, &mut field, &mut draws), field)
    };
    assert_eq!(fates(0.09, true, Ecn::Capable), (false, Ecn::Marked));
    assert_eq!(fates(0.1, true, Ecn::Capable), (true, Ecn::Capable));
    assert_eq!(fates(0.09, true, Ecn::NotCapable), (true, Ecn::NotCapable));
    assert_eq!(fates(0.09, false, Ecn::Capable), (true, Ecn::Capable));
}

proptest! {
    #[test]
    fn late_updates_equal_timely_ones(
        arrivals in prop::collection::vec((0u64..90_000, 0u64..60_000), 1..60),
    ) {
        let (mut late, mut prompt) = (Pie::new(&spec(false)), Pie::new(&spec(false)));
        let (mut now, mut busy) = (0, 0);
        for (gap_us, work_us) in arrivals {
            let previous = now;
            now += gap_us;
            for t in (previous..now).step_by(1_000) {
                prompt.catch_up(Time::from_micros(t), Time::from_micros(busy));
            }
            for pie in [&mut late, &mut prompt] {
                pie.catch_up(Time::from_micros(now), Time::from_micros(busy));
            }
            let state = |pie: &Pie| (pie.probability, pie.previous, pie.next_update, pie.burst_left);
            prop_assert_eq!(state(&late), state(&prompt));
            prop_assert!((0.0..=1.0).contains(&late.probability));
            busy = busy.max(now) + work_us;
        }
    }
}

#[test]
fn a_long_silence_takes_no_work() {
    let mut pie = Pie::new(&spec(false));
    pie.probability = 1.0;
    pie.catch_up(Time::from_secs(1 << 33), ms(100));
    assert!(pie.is_at_rest());
    assert!(pie.next_update > Time::from_secs(1 << 33));
    assert_eq!(pie.next_update.as_nanos() % 15_000_000, 0, "on the grid of updates");
}
