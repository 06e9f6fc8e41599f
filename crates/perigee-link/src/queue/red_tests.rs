//! RED compared with the numbers in its papers.

use perigee_units::Ratio;

use super::*;

fn spec(thresholds: RedThresholds, max_probability: f64, weight: f64, adaptive: bool) -> RedSpec {
    let share = |share| Ratio::new(share).unwrap_or_default();
    RedSpec { thresholds, max_probability: share(max_probability), weight: share(weight), adaptive, ecn: false }
}

fn red(min: u32, max: u32, max_probability: f64, weight: f64) -> Red {
    Red::new(&spec(RedThresholds::Packets { min, max }, max_probability, weight, true))
}

#[test]
fn the_average_after_a_burst_is_that_of_the_paper() {
    // 1993, section VI: with a weight of 0.001, a queue that grows from 0 to 100 packets has an average of 4.88 (truncated there).
    let mut red = red(5, 15, 0.1, 0.001);
    (1..=100).for_each(|backlog| red.observe(f64::from(backlog)));
    assert!((4.88..4.89).contains(&red.average), "{}", red.average);
}

#[test]
fn an_idle_period_lowers_the_average_by_the_packets_it_could_have_carried() {
    let mut red = red(5, 15, 0.1, 0.002);
    red.average = 10.0;
    let mut twin = 10.0;
    (0..300).for_each(|_| twin += 0.002 * (0.0 - twin));
    red.decay(300.0);
    assert!((red.average - twin).abs() < 1e-9, "{} and {twin}", red.average);
}

#[test]
fn the_gaps_between_selections_are_uniform_up_to_one_over_the_probability() {
    // 1993, section VII, method 2, counted as in figure 2: uniform on 1..1/p - 1, 1 / (2 p) on average. The average is halfway between the
    // thresholds, so p is half of `max_probability`: 0.02.
    let (mut red, mut draws) = (red(10, 30, 0.04, 0.002), Stream::new(7, "red"));
    red.average = 20.0;
    let (mut gaps, mut last) = (Vec::new(), 0u32);
    for i in 1..=200_000u32 {
        if red.hits(&mut draws) {
            gaps.push(i - last);
            last = i;
        }
    }
    let gaps = &gaps[1..];
    let mean = gaps.iter().map(|gap| f64::from(*gap)).sum::<f64>() / gaps.len() as f64;
    assert!((mean - 25.0).abs() < 0.6, "{mean}");
    assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&1), Some(&49)));
}

#[test]
fn the_largest_probability_adapts_towards_the_middle_of_the_thresholds() {
    // The probability, in millionths.
    let mut red = red(100, 200, 0.02, 0.002);
    let mut after = |average: f64, times: usize| {
        red.average = average;
        (0..times).for_each(|_| red.adapt());
        (red.max_probability * 1e6).round() as u32
    };
    // Between 140 and 160 nothing changes.
    assert_eq!([after(140.0, 9), after(160.0, 9)], [20_000, 20_000]);
    // Above, it first rises by a quarter, which is less than 0.01, later by 0.01.
    assert_eq!([after(161.0, 1), after(161.0, 1)], [25_000, 31_250]);
    assert_eq!([after(161.0, 2), after(161.0, 1)], [48_828, 58_828]);
    assert_eq!(after(161.0, 100), 508_828, "no increase above one half");
    assert_eq!(after(139.0, 1), 457_945);
    let least = after(139.0, 100);
    assert!((9_000..=10_000).contains(&least), "{least}");
}

#[test]
fn thresholds_and_weight_of_an_adaptive_queue_follow_the_rate() {
    // 2001, section 4: 15 Mbit/s are 1250 packets of 1500 bytes a second.
    let rate = perigee_units::Rate::from_mbps(15.0);
    let weight = super::super::red_weight(rate).as_f64();
    assert!((weight - 0.000_799_68).abs() < 1e-8, "{weight}");
    assert_eq!(RedThresholds::automatic(rate, Time::from_millis(100)), RedThresholds::Packets { min: 63, max: 189 });
}
