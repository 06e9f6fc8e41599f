use std::collections::BTreeSet;
use std::sync::Arc;

use perigee_units::{Rate, Ratio};
use proptest::prelude::*;

use super::*;
use crate::{Body, Ecn, Link, LinkSpec, RateSpec, Transit};

const SECOND: u64 = 1_000_000_000;

fn clock(time_of_day: Option<u64>) -> SlotClock {
    SlotClock { period: Time::from_secs(15), phase: Time::from_secs(12), time_of_day: time_of_day.map(Time::from_secs) }
}

fn share(share: f64) -> Ratio {
    Ratio::new(share).unwrap()
}

fn drawn(median_ms: u64, sigma: f64) -> LogNormal {
    LogNormal { median: Time::from_millis(median_ms), sigma, max: Time::from_secs(1) }
}

/// A slotted rate with every feature.
fn rate() -> SlotRate {
    SlotRate {
        clock: clock(None),
        mean: Rate::from_mbps(200.0),
        sd: Rate::from_mbps(40.0),
        min: Rate::from_mbps(20.0),
        max: Rate::from_mbps(400.0),
        memory: Time::from_secs(30),
        every: Time::from_millis(20),
        ripple: share(0.2),
        outage: Some(SlotOutage { length: drawn(100, 0.3), rise: Time::from_millis(240) }),
        mood: Ratio::ZERO,
        busy: Some(BusyHours {
            from: Time::from_secs(18 * 3600),
            to: Time::from_secs(23 * 3600),
            share: share(0.5),
            ramp: Time::from_secs(3600),
        }),
        shaping: Some(Shaping {
            after: Time::from_secs(50),
            length: Time::from_secs(210),
            share: share(0.4),
            every: None,
        }),
    }
}

fn delay() -> SlotDelay {
    let spike = |before, after| Spike {
        before: Time::from_millis(before),
        after: Time::from_millis(after),
        share: share(0.7),
        length: drawn(80, 0.4),
        height: drawn(20, 0.3),
    };
    SlotDelay {
        clock: clock(None),
        mean: Time::from_millis(11),
        sd: Time::from_millis(1),
        min: Time::from_millis(8),
        max: Time::from_millis(15),
        memory: Time::ZERO,
        jitter: Some(SlotJitter {
            body: Body::Normal { sd: Time::from_millis(1) },
            every: Time::from_millis(20),
            memory: Time::from_millis(50),
            floor: Time::from_millis(7),
        }),
        spikes: vec![spike(0, 50), spike(60, 0)],
    }
}

fn loss() -> SlotLoss {
    let (before, after) = (Time::from_millis(50), Time::from_millis(200));
    SlotLoss { clock: clock(None), before, after, share: share(0.5), loss: share(0.4) }
}

#[test]
fn slots_begin_at_seconds_12_27_42_and_57_of_each_minute() {
    // The run starts at 18:00:20.
    let slots = Slots::new(&clock(Some(18 * 3600 + 20)), 1);
    let begins: Vec<u64> = (1..6).map(|slot| slots.instant(slot, 0).as_nanos() / SECOND + 20).collect();
    assert_eq!(begins, [27, 42, 57, 72, 87]);
    assert_eq!(slots.at(Time::ZERO), (0, 8 * SECOND));
    assert_eq!(slots.at(Time::from_millis(6_999)), (0, 14_999_000_000));
    assert_eq!(slots.at(Time::from_secs(7)), (1, 0));
    assert_eq!(slots.time_of_day(Time::from_secs(6 * 3600)), 20 * SECOND);
}

#[test]
fn the_time_of_day_of_a_run_is_drawn_per_seed_and_uniform() {
    let mut by_quarter = [0; 4];
    for seed in 0..4_000 {
        let [first, again] = [0; 2].map(|_| Slots::new(&clock(None), seed));
        assert_eq!(first.time_of_day, again.time_of_day);
        by_quarter[(first.elapsed * 4 / first.period) as usize] += 1;
    }
    assert!(by_quarter.iter().all(|count| (900..1100).contains(count)), "{by_quarter:?}");
}

#[test]
fn both_directions_of_a_link_share_one_name() {
    assert_eq!(of_both_directions("link/satellite.down"), "link/satellite");
    assert_eq!(of_both_directions("link/up"), "link");
}

/// Instants within ten minutes in any order, many of them near the start of a slot.
fn instants() -> impl Strategy<Value = Vec<Time>> {
    let near = (0u64..41, 0u64..400_000_000).prop_map(|(slot, ns)| slot * 15 * SECOND + ns);
    let since = prop_oneof![0..600 * SECOND, near];
    prop::collection::vec(since.prop_map(Time::from_nanos), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_rate_does_not_depend_on_earlier_queries_and_holds_until_the_returned_instant(seed in 0u64..1_000, asked in instants()) {
        let mut link = SlottedRate::new(&rate(), seed, "link/a.down");
        for at in asked {
            let fresh = |t| SlottedRate::new(&rate(), seed, "link/a.down").segment(t);
            let (value, until) = link.segment(at);
            prop_assert_eq!((value, until), fresh(at));
            prop_assert_eq!([link.rate_at(at), link.rate_at(Time::ZERO)], [value, fresh(Time::ZERO).0]);
            prop_assert!(until > at);
            prop_assert_eq!(fresh(until - Time::from_nanos(1)), (value, until));
        }
    }

    #[test]
    fn a_busy_link_does_exactly_the_work_of_its_slots(seed in 0u64..1_000, start in 0u64..60 * SECOND, n in 1usize..1_500) {
        // 1500 packets take about 90 ms.
        let slots = SlotRate { clock: SlotClock { period: Time::from_millis(200), ..clock(None) }, ..rate() };
        let mut rates = SlottedRate::new(&slots, seed, "link/a");
        let start = Time::from_nanos(start);
        let spec = LinkSpec { rate: RateSpec::Slots(Arc::new(slots)), ..LinkSpec::constant(Rate::ZERO, Time::ZERO) };
        let mut link = Link::<()>::new(&spec, seed, "a");
        let mut work = |until: Time| {
            let (mut at, mut done) = (start, 0u128);
            while at < until {
                let (rate, end) = rates.segment(at);
                done += u128::from(rate.as_bps()) * u128::from((end.min(until) - at).as_nanos());
                at = end;
            }
            done
        };
        for i in 1..=n {
            let Transit::Delivered(at) = link.transit(start, 1500, &mut Ecn::NotCapable) else {
                return Err(TestCaseError::fail("a link without limits dropped"));
            };
            let wanted = 12_000_000_000_000 * i as u128;
            if i % 50 == 0 || i == n {
                let (done, next) = (work(at), work(at + Time::from_nanos(1)));
                prop_assert!(done <= wanted && wanted < next.max(done + 1), "{}: {} <= {} < {}", i, done, wanted, next);
            }
        }
    }

    #[test]
    fn a_delay_does_not_depend_on_earlier_queries_and_holds_between_the_returned_instants(seed in 0u64..1_000, asked in instants()) {
        let mut link = SlottedDelay::new(&delay(), seed, "link/a.down");
        for at in asked {
            let fresh = |t| SlottedDelay::new(&delay(), seed, "link/a.down").at(t);
            let value = link.at(at);
            prop_assert_eq!(value, fresh(at));
            let (from, until) = (link.from, link.until);
            prop_assert!(from <= at && at < until, "{} in {}..{}", at, from, until);
            prop_assert_eq!([fresh(from), fresh(until - Time::from_nanos(1))], [value; 2]);
        }
    }

    #[test]
    fn a_loss_does_not_depend_on_earlier_queries(seed in 0u64..1_000, asked in instants()) {
        let mut link = SlottedLoss::new(&loss(), seed, "link/a.down");
        for at in asked {
            let fresh = SlottedLoss::new(&loss(), seed, "link/a.down").loss_at(at);
            prop_assert_eq!(link.loss_at(at).to_bits(), fresh.to_bits());
        }
    }
}

#[test]
fn slots_have_rates_of_their_distribution_and_begin_without_capacity() {
    let slots_only = SlotRate { ripple: Ratio::ZERO, busy: None, shaping: None, clock: clock(Some(0)), ..rate() };
    let mut link = SlottedRate::new(&slots_only, 3, "link/a.down");
    let slots = Slots::new(&slots_only.clock, 3);
    let (mut rates, mut outages) = (Vec::new(), Vec::new());
    for slot in 1..4_000u64 {
        let (zero, until) = link.segment(slots.instant(slot, 0));
        assert_eq!(zero, Rate::ZERO);
        let outage = (until - slots.instant(slot, 0)).as_nanos();
        outages.push(libm::log(outage as f64 / 1e8));
        // A linear rise to the slot's rate, in steps of 20 ms.
        let full = link.segment(slots.instant(slot, 5 * SECOND)).0.as_mbps();
        let middle = link.segment(slots.instant(slot, outage + 120_000_000)).0.as_mbps();
        assert!((0.45..0.55).contains(&(middle / full)), "{middle} of {full}");
        assert!(link.segment(slots.instant(slot, outage + 260_000_000)).0.as_mbps() >= full);
        rates.push(full);
    }
    let [mean, sd] = moments(&rates);
    assert!((mean - 200.0).abs() < 4.0 && (sd - 40.0).abs() < 2.5, "mean {mean}, sd {sd}");
    let next: f64 = rates.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    let correlation = next / rates.len() as f64 / (sd * sd);
    assert!((correlation - libm::exp(-0.5)).abs() < 0.05, "from slot to slot {correlation}");
    let [mean, sd] = moments(&outages);
    assert!(mean.abs() < 0.02 && (sd - 0.3).abs() < 0.02, "log of outages: mean {mean}, sd {sd}");
}

#[test]
fn the_ripple_is_the_deviation_within_a_slot_and_hours_and_shaping_scale_the_rate() {
    let calm = SlotRate { sd: Rate::ZERO, outage: None, clock: clock(Some(12 * 3600)), ..rate() };
    let mean_of = |link: &mut SlottedRate, from: u64| {
        let steps: Vec<f64> = (0..5_000)
            .map(|step| link.segment(Time::from_secs(from) + Time::from_millis(20) * step).0.as_mbps())
            .collect();
        moments(&steps)
    };
    let mut link = SlottedRate::new(&calm, 3, "link/a.down");
    let [mean, sd] = mean_of(&mut link, 300);
    assert!((mean - 200.0).abs() < 2.0 && (sd - 40.0).abs() < 2.0, "mean {mean}, sd {sd}");
    let [shaped, _] = mean_of(&mut link, 100);
    assert!((shaped - 80.0).abs() < 1.0, "shaped {shaped}");
    let [evening, _] = mean_of(&mut link, 8 * 3600);
    assert!((evening - 100.0).abs() < 1.0, "in the evening {evening}");
    assert!((calm.mean_bps() - 200e6).abs() < 1.0);
}

#[test]
fn hours_have_their_deviation_and_are_those_of_both_directions() {
    let mood = Ratio::new(0.15).unwrap();
    let even =
        SlotRate { sd: Rate::ZERO, ripple: Ratio::ZERO, outage: None, busy: None, shaping: None, mood, ..rate() };
    let hourly = |name, start: u64, seed| {
        let mut link = SlottedRate::new(&SlotRate { clock: clock(Some(start)), ..even.clone() }, seed, name);
        (1..500).map(|hour| link.segment(Time::from_secs(hour * 3600)).0.as_mbps()).collect::<Vec<_>>()
    };
    let rates = hourly("link/a.down", 0, 3);
    let [mean, sd] = moments(&rates);
    assert!((mean - 200.0).abs() < 6.0 && (sd - 30.0).abs() < 3.0, "mean {mean}, sd {sd}");
    assert_eq!(rates, hourly("link/a.up", 0, 3));
    assert_ne!(rates, hourly("link/b.down", 0, 3));
    // A straight line between full hours.
    let between = hourly("link/a.down", 1800, 3);
    assert!((between[7] - f64::midpoint(rates[7], rates[8])).abs() < 0.2, "{between:?}");
}

#[test]
fn shaping_begins_anew_with_each_transfer_of_a_campaign() {
    let mut even = SlotRate { sd: Rate::ZERO, ripple: Ratio::ZERO, outage: None, busy: None, ..rate() };
    even.shaping = even.shaping.map(|once| Shaping { every: Some(Time::from_secs(900)), ..once });
    let mut link = SlottedRate::new(&even, 3, "link/a.down");
    for second in (0..10_000).step_by(7) {
        let expected = if (50..260).contains(&(second % 900)) { 80.0 } else { 200.0 };
        let step_before = (second % 900 == 50 || second % 900 == 260).then_some(200.0 + 80.0 - expected);
        let found = link.segment(Time::from_secs(second)).0;
        let is = |mbps: Option<f64>| mbps.is_some_and(|mbps| found == Rate::from_mbps(mbps));
        assert!(is(Some(expected)) || is(step_before), "{found} at {second} s");
    }
}

#[test]
fn both_directions_lose_in_the_same_slots() {
    let slots = Slots::new(&loss().clock, 3);
    let of = |name| {
        let mut link = SlottedLoss::new(&loss(), 3, name);
        (1..400).map(|slot| link.loss_at(slots.instant(slot, 0)) > 0.0).collect::<Vec<_>>()
    };
    assert_eq!(of("link/a.down"), of("link/a.up"));
    assert_ne!(of("link/a.down"), of("link/b.down"));
}

#[test]
fn delays_of_slots_have_their_deviation_and_spikes_their_place() {
    let still = SlotDelay { jitter: None, clock: clock(Some(0)), ..delay() };
    let mut link = SlottedDelay::new(&still, 5, "link/a.up");
    let slots = Slots::new(&still.clock, 5);
    let (mut of_slots, mut early, mut late) = (Vec::new(), 0, 0);
    for slot in 1..4_000u64 {
        let calm = link.at(slots.instant(slot, 5 * SECOND)).as_millis_f64();
        of_slots.push(calm);
        // From 50 ms after the start of the slot, for 80 ms (log-normal).
        assert!(link.at(slots.instant(slot, 49_999_999)).as_millis_f64() >= calm);
        late += u32::from(link.at(slots.instant(slot, 50_000_000)).as_millis_f64() > calm + 5.0);
        // 60 ms before the start of the next slot.
        let before = link.at(slots.instant(slot, 15 * SECOND - 60_000_001)).as_millis_f64();
        assert!((before - calm).abs() < 1e-9, "{before}, {calm}");
        early += u32::from(link.at(slots.instant(slot, 15 * SECOND - 60_000_000)).as_millis_f64() > calm + 5.0);
    }
    let [mean, sd] = moments(&of_slots);
    assert!((mean - 11.0).abs() < 0.05 && (sd - 1.0).abs() < 0.05, "mean {mean}, sd {sd}");
    // A spike that began before the slot may last longer than 110 ms, rarely.
    assert!((2_700..2_900).contains(&early) && (2_700..3_100).contains(&late), "{early} and {late} of 3,999");
}

#[test]
fn both_directions_have_the_delays_of_the_slots_and_jitters_of_their_own() {
    let of = |jitter: bool, name: &str| -> Vec<Time> {
        let spec = if jitter { delay() } else { SlotDelay { jitter: None, ..delay() } };
        let mut link = SlottedDelay::new(&spec, 9, name);
        (0..3_000).map(|i| link.at(Time::from_millis(20) * i)).collect()
    };
    assert_eq!(of(false, "link/a.down"), of(false, "link/a.up"));
    assert_ne!(of(true, "link/a.down"), of(true, "link/a.up"));
    assert_ne!(of(false, "link/a.down"), of(false, "link/b.down"));
}

#[test]
fn losses_fall_around_the_start_of_their_share_of_the_slots_and_nowhere_else() {
    let spec = SlotLoss { clock: clock(Some(0)), ..loss() };
    let mut link = SlottedLoss::new(&spec, 4, "link/a.down");
    let slots = Slots::new(&spec.clock, 4);
    let (mut around, mut with) = (BTreeSet::new(), 0);
    for slot in 1..4_000u64 {
        let places = [-50_000_001, -50_000_000, -1, 0, 199_999_999, 200_000_000i64, 5_000_000_000];
        let losses = places.map(|place| {
            let begin = slots.instant(slot, 0).as_nanos();
            (link.loss_at(Time::from_nanos(begin.wrapping_add_signed(place))) * 10.0).round() as u32
        });
        around.insert(losses);
        with += u32::from(losses[3] > 0);
    }
    assert_eq!(around, BTreeSet::from([[0; 7], [0, 4, 4, 4, 4, 0, 0]]));
    assert!((1_850..2_150).contains(&with), "{with} of 3,999 slots");
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> [f64; 2] {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    [mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()]
}
