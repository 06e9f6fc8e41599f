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
        grants: None,
        outage: Some(SlotOutage { length: drawn(100, 0.3), rise: Time::from_millis(240), both: false }),
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
        after: LogNormal::constant(Time::from_millis(after)),
        share: share(0.7),
        length: drawn(80, 0.4),
        height: drawn(20, 0.3),
        begin: share(1.0),
        peak: share(1.0),
        with_outage: false,
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

/// The rate with its capacity in bursts.
fn granted() -> SlotRate {
    let grants = Grants { every: Time::from_micros(4_317), burst: Time::from_micros(800) };
    SlotRate { grants: Some(grants), ..rate() }
}

/// The delay with spikes that rise to a peak and fall, whose place is drawn.
fn peaked() -> SlotDelay {
    let after = |spike: &Spike| LogNormal { sigma: 0.5, max: Time::from_secs(1), ..spike.after };
    let spikes = delay().spikes.into_iter();
    let spikes = spikes.map(|spike| Spike { begin: share(0.5), peak: share(0.75), after: after(&spike), ..spike });
    SlotDelay { spikes: spikes.collect(), ..delay() }
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
    fn a_rate_does_not_depend_on_earlier_queries_and_holds_until_the_returned_instant(
        seed in 0u64..1_000, in_bursts: bool, asked in instants(),
    ) {
        let spec = if in_bursts { granted() } else { rate() };
        let mut link = SlottedRate::new(&spec, seed, "link/a.down");
        for at in asked {
            let fresh = |t| SlottedRate::new(&spec, seed, "link/a.down").segment(t);
            let of_step = |t| SlottedRate::new(&rate(), seed, "link/a.down").segment(t).0;
            let (value, until) = link.segment(at);
            prop_assert_eq!((value, until), fresh(at));
            prop_assert_eq!([link.rate_at(at), link.rate_at(Time::ZERO)], [of_step(at), of_step(Time::ZERO)]);
            prop_assert!(until > at);
            prop_assert_eq!(fresh(until - Time::from_nanos(1)), (value, until));
        }
    }

    #[test]
    fn a_busy_link_does_exactly_the_work_of_its_slots(
        seed in 0u64..1_000, in_bursts: bool, start in 0u64..60 * SECOND, n in 1usize..1_500,
    ) {
        // 1500 packets take about 90 ms.
        let spec = if in_bursts { granted() } else { rate() };
        let slots = SlotRate { clock: SlotClock { period: Time::from_millis(200), ..clock(None) }, ..spec };
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
    fn a_delay_does_not_depend_on_earlier_queries_and_holds_between_the_returned_instants(
        seed in 0u64..1_000, has_peaks: bool, asked in instants(),
    ) {
        let spec = if has_peaks { peaked() } else { delay() };
        let mut link = SlottedDelay::new(&spec, seed, "link/a.down");
        for at in asked {
            let fresh = |t| SlottedDelay::new(&spec, seed, "link/a.down").at(t);
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
fn each_frame_has_one_burst_at_any_place_that_does_the_work_of_the_frame() {
    let even = SlotRate { sd: Rate::ZERO, ripple: Ratio::ZERO, busy: None, shaping: None, ..granted() };
    let even = SlotRate { clock: clock(Some(0)), ..even };
    let mut link = SlottedRate::new(&even, 3, "link/a.down");
    let slots = Slots::new(&even.clock, 3);
    let (every, burst) = (4_317_000u64, 800_000u64);
    let mut places = Vec::new();
    for slot in 1..30u64 {
        let (_, begin) = link.segment(slots.instant(slot, 0));
        let end = slots.instant(slot + 1, 0);
        // After the rise, which has other rates.
        let mut frame = begin + Time::from_nanos(every) * 60;
        while frame < end {
            let frame_end = (frame + Time::from_nanos(every)).min(end);
            let (mut at, mut work, mut bursts) = (frame, 0u128, Vec::new());
            while at < frame_end {
                let (rate, until) = link.segment(at);
                work += u128::from(rate.as_bps()) * u128::from((until - at).as_nanos());
                if rate > Rate::ZERO {
                    bursts.push((at - frame, until - at));
                }
                at = until;
            }
            let length = (frame_end - frame).as_nanos();
            assert_eq!((at, bursts.len()), (frame_end, 1));
            // The rate of a burst is a whole number of bit/s.
            let wanted = 200_000_000 * u128::from(length);
            assert!(work <= wanted && wanted - work < u128::from(burst), "{work} of {wanted}");
            if length == every {
                assert_eq!(bursts[0].1.as_nanos(), burst);
                places.push(bursts[0].0.as_nanos() as f64 / (every - burst) as f64);
            }
            frame = frame_end;
        }
    }
    let [mean, sd] = moments(&places);
    assert!((mean - 0.5).abs() < 0.01 && (sd - 12f64.sqrt().recip()).abs() < 0.005, "mean {mean}, sd {sd}");
    let neighbours = places.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    assert!((neighbours / places.len() as f64 / (sd * sd)).abs() < 0.03, "from frame to frame {neighbours}");
}

#[test]
fn gaps_between_bursts_are_not_dark_and_outages_are() {
    let of = |rate: SlotRate| {
        let spec = LinkSpec { rate: RateSpec::Slots(Arc::new(rate)), ..LinkSpec::constant(Rate::ZERO, Time::ZERO) };
        spec.dark_times(3, "a.down", Time::from_secs(100))
    };
    assert_eq!(of(granted()), of(rate()));
    assert_eq!(of(granted()).len(), 7);
}

#[test]
fn bursts_of_both_directions_have_places_of_their_own() {
    let of = |name| {
        let mut link = SlottedRate::new(&granted(), 3, name);
        (100..400).map(|ms| link.segment(Time::from_millis(ms)).0 > Rate::ZERO).collect::<Vec<_>>()
    };
    assert_eq!(of("link/a.down"), of("link/a.down"));
    assert_ne!(of("link/a.down"), of("link/a.up"));
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
fn a_spike_rises_in_a_line_to_its_peak_and_falls_in_a_line() {
    let constant = |ms| LogNormal::constant(Time::from_millis(ms));
    let spike = Spike {
        before: Time::from_millis(60),
        after: constant(0),
        share: share(1.0),
        length: constant(100),
        height: constant(40),
        begin: share(0.25),
        peak: share(0.6),
        with_outage: false,
    };
    let still = SlotDelay { jitter: None, sd: Time::ZERO, clock: clock(Some(0)), spikes: vec![spike], ..delay() };
    let mut link = SlottedDelay::new(&still, 5, "link/a.up");
    let begin = Slots::new(&still.clock, 5).instant(3, 0).as_nanos() as i64;
    let mut added = |ms: i64| link.at(Time::from_nanos((begin + ms * 1_000_000) as u64)).as_millis_f64() - 11.0;
    // Each value is that of the middle of its millisecond.
    for (ms, expected) in
        [(-61, 0.0), (-60, 10.25), (-30, 25.25), (-1, 39.75), (0, 39.5), (20, 19.5), (39, 0.5), (40, 0.0)]
    {
        assert!((added(ms) - expected).abs() < 1e-6, "{} after {ms} ms, not {expected}", added(ms));
    }
}

#[test]
fn spikes_with_outages_have_their_peak_at_the_end_of_the_outage_of_both_directions() {
    let outage = SlotOutage { length: drawn(78, 0.3), rise: Time::ZERO, both: true };
    let rates = SlotRate { outage: Some(outage), clock: clock(Some(0)), ..granted() };
    // The peak is at 50 + 0.5 x 56 = 78 ms in the median, and all of it is as much longer as the outage.
    let spike = Spike {
        before: Time::ZERO,
        after: drawn(50, 0.3),
        share: share(1.0),
        length: drawn(56, 0.3),
        height: drawn(40, 0.3),
        begin: Ratio::ZERO,
        peak: share(0.5),
        with_outage: true,
    };
    let still = SlotDelay { jitter: None, sd: Time::ZERO, clock: clock(Some(0)), spikes: vec![spike], ..delay() };
    let [mut down, mut up] = ["link/a.down", "link/a.up"].map(|name| SlottedRate::new(&rates, 3, name));
    let mut link = SlottedDelay::new(&still, 3, "link/a.down");
    let slots = Slots::new(&rates.clock, 3);
    let ms = Time::from_millis;
    for slot in 1..200u64 {
        let begin = slots.instant(slot, 0);
        let (_, end) = down.segment(begin);
        assert_eq!(up.segment(begin), (Rate::ZERO, end));
        let mut added = |at: Time| link.at(at).as_millis_f64() - 11.0;
        let height = 40.0 * (end - begin).as_millis_f64() / 78.0;
        let (peak, earlier, later) = (added(end), added(end - ms(3)), added(end + ms(3)));
        // A millisecond of the spike has one height.
        assert!((peak - height).abs() < 1.5, "{peak} and not {height}");
        assert!(earlier < peak && later < peak, "{earlier}, {peak}, {later}");
    }
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
