//! States that change rate, delay and loss together, compared with their description.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use std::sync::Arc;

use perigee_link::{Course, DropReason, Ecn, Link, LinkSpec, LinkState, Transit};
use perigee_units::{Rate, Ratio, Time};

use crate::links::{ms, ratio};

const CLEAR: LinkState =
    LinkState { stay: Time::from_millis(1_500), weight: 1.0, rate: Ratio::ONE, delay: Time::ZERO, loss: Ratio::ZERO };

/// 10 Mbit/s over 25 ms, and in a quarter of the time 4 Mbit/s over 65 ms with 10 % of the packets lost.
fn link() -> LinkSpec {
    let trees = LinkState { stay: ms(500), rate: ratio(0.4), delay: ms(40), loss: ratio(0.1), ..CLEAR };
    LinkSpec { states: Some(Arc::new(vec![CLEAR, trees])), ..LinkSpec::constant(Rate::from_mbps(10.0), ms(25)) }
}

/// Pings of 125 bytes every 10 ms: the transit time of each, ms; `None` for one that is lost.
fn pings(spec: &LinkSpec, name: &str, count: u64) -> Vec<Option<f64>> {
    let mut link = Link::<()>::new(spec, 3, name);
    let ping = |number| match link.transit(ms(10) * number, 125, &mut Ecn::NotCapable) {
        Transit::Delivered(at) => Some((at - ms(10) * number).as_millis_f64()),
        Transit::Dropped(reason) => {
            assert_eq!(reason, DropReason::Loss);
            None
        }
    };
    (0..count).map(ping).collect()
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

#[test]
fn rate_delay_and_loss_have_the_means_of_their_states() {
    let found = pings(&link(), "l.down", 1_000_000);
    let lost = mean(found.iter().map(|ping| f64::from(ping.is_none())));
    assert!((lost - 0.025).abs() < 0.002, "a quarter of the time 10 % are lost: {lost}");
    let delay = mean(found.iter().flatten().copied());
    // 0.1 ms at 10 Mbit/s and 0.25 ms at 4 Mbit/s; of those that arrive, 0.225 / 0.975 come through the trees.
    let wanted = 25.1 + 0.225 / 0.975 * 40.15;
    assert!((delay - wanted).abs() < 0.8, "{delay} ms, not {wanted}");
    let rate = Link::<()>::new(&link(), 3, "l.down").mean_rate(Time::ZERO, Time::from_secs(10_000)).as_mbps();
    assert!((rate - 8.5).abs() < 0.1, "{rate} Mbit/s");
}

/// The correlation of a loss with the delay of the ping before it: what states have, and separate processes of the same means have not.
fn correlation(found: &[Option<f64>]) -> f64 {
    let pairs: Vec<(f64, f64)> =
        found.windows(2).filter_map(|pair| Some((pair[0]?, f64::from(pair[1].is_none())))).collect();
    let [x, y] = [mean(pairs.iter().map(|pair| pair.0)), mean(pairs.iter().map(|pair| pair.1))];
    let product = |of: fn(f64, f64) -> f64| mean(pairs.iter().map(|pair| of(pair.0 - x, pair.1 - y)));
    product(|a, b| a * b) / (product(|a, _| a * a) * product(|_, b| b * b)).sqrt()
}

#[test]
fn packets_are_lost_while_round_trips_are_long() {
    // The delay has two values, the longer one with share q = 0.225 / 0.975, with which 10 % of the next pings are lost, but for those
    // right at a change, and none with the other: r = 0.1 sqrt(q (1 - q) / (p (1 - p))), with p = 0.1 q.
    let q = 0.225 / 0.975;
    let wanted = 0.1 * f64::sqrt(q * (1.0 - q) / (0.1 * q * (1.0 - 0.1 * q)));
    let found = correlation(&pings(&link(), "l.down", 1_000_000));
    assert!((found - wanted).abs() < 0.02, "{found}, not {wanted}");
    let apart = LinkSpec { states: None, loss: vec![perigee_link::LossSpec::Bernoulli(ratio(0.025))], ..link() };
    let delay = |states: Vec<LinkState>| LinkSpec { states: Some(Arc::new(states)), ..apart.clone() };
    let slow = delay(vec![CLEAR, LinkState { stay: ms(500), delay: ms(40), ..CLEAR }]);
    assert!(correlation(&pings(&slow, "l.down", 1_000_000)).abs() < 0.01, "losses of their own come at any time");
}

#[test]
fn both_directions_of_a_link_are_in_one_state() {
    let delays = |name: &str| Course::new(&link(), 3, name, [ms(10), ms(10)], Time::from_secs(100)).unwrap();
    assert_eq!(delays("l.down"), delays("l.up"));
    assert_ne!(delays("l.down"), delays("other.down"));
    let is_slow = |delay: &Option<Time>| *delay == Some(ms(65));
    assert!(delays("l.down").delays.iter().filter(|delay| is_slow(delay)).count() > 1_000);
}

#[test]
fn one_state_holds_all_the_time_and_no_states_are_none() {
    let with = |states| LinkSpec { states: Some(Arc::new(states)), ..link() };
    let slow = LinkState { rate: ratio(0.5), delay: ms(40), ..CLEAR };
    assert_eq!(LinkState::shares(&[slow]), [1.0]);
    // 0.1 ms at 10 Mbit/s, twice that at half of it; also after the states have changed often.
    for at in [0, 1_000_000] {
        for (states, wanted) in [(vec![slow], 65_200), (vec![], 25_100)] {
            let mut link = Link::<()>::new(&with(states), 3, "l.down");
            let Transit::Delivered(exit) = link.transit(ms(at), 125, &mut Ecn::NotCapable) else { panic!("lost") };
            assert_eq!(exit - ms(at), Time::from_micros(wanted));
        }
    }
    let delays = |states| Course::new(&with(states), 3, "l.down", [ms(1), ms(1)], ms(3)).unwrap().delays;
    assert_eq!((delays(vec![slow]), delays(vec![])), (vec![Some(ms(65)); 3], vec![Some(ms(25)); 3]));
}

#[test]
fn a_state_that_loses_all_is_dark() {
    let out = LinkState { stay: ms(500), loss: Ratio::ONE, ..CLEAR };
    let spec = LinkSpec { states: Some(Arc::new(vec![CLEAR, out])), ..link() };
    let until = Time::from_secs(1_000);
    let dark = spec.dark_times(3, "l.down", until).iter().fold(Time::ZERO, |sum, (from, to)| sum + (*to - *from));
    assert!((dark.as_secs_f64() - 250.0).abs() < 25.0, "{dark}");
    let found = pings(&spec, "l.down", 100_000);
    let lost = found.iter().filter(|ping| ping.is_none()).count() as f64 / 100.0;
    assert!((lost - dark.as_secs_f64()).abs() < 2.0, "{lost} s lost, {dark} dark");
}
