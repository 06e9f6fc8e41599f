//! Each process of a link compared with its description.

#![allow(clippy::unwrap_used, reason = "helpers of tests build values that are right by construction")]

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;

use perigee_link::{
    AqmSpec, Body, CountedDrop, CountedSpan, DelaySpec, DropReason, Ecn, Fluctuation, Jitter, Link, LinkSpec, Loaded,
    LossSpec, QueueSpec, RateSpec, RedSpec, RedThresholds, Steps, Tail, TailShape, Transit,
};
use perigee_units::{Bytes, Rate, Ratio, Time};

/// A quantity with its unit.
fn q<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn constant(rate: &str, delay: &str) -> LinkSpec {
    LinkSpec::constant(q(rate), q(delay))
}

/// A recording with values from these instants on, ms.
fn steps<T: FromStr<Err: Debug> + Copy + PartialEq>(points: &[(u64, &str)], period_ms: Option<u64>) -> Arc<Steps<T>> {
    let points = points.iter().map(|(ms, value)| (Time::from_millis(*ms), q(value)));
    Arc::new(Steps::new(points, period_ms.map(Time::from_millis)).unwrap())
}

fn link(spec: &LinkSpec) -> Link<()> {
    Link::new(spec, SEED, "test")
}

fn send(link: &mut Link<()>, at: Time, bytes: u32) -> Transit {
    link.transit(at, bytes, &mut Ecn::NotCapable)
}

/// Delivery times, ms, of packets of 1500 bytes offered at these instants, ms, without dropped ones.
fn delivered(link: &mut Link<()>, offered: &[u64]) -> Vec<f64> {
    let at = |t: &u64| match send(link, Time::from_millis(*t), 1500) {
        Transit::Delivered(at) => Some(at.as_millis_f64()),
        Transit::Dropped(_) => None,
    };
    offered.iter().filter_map(at).collect()
}

/// Lengths of the runs of lost packets, for packets of 48 bytes at a fixed interval.
fn loss_runs(loss: LossSpec, n: u64, every: Time) -> Vec<u64> {
    let mut link = link(&LinkSpec { loss: vec![loss], ..constant("unlimited", "1 ms") });
    let (mut runs, mut run) = (Vec::new(), 0);
    for i in 0..n {
        match send(&mut link, every * i, 48) {
            Transit::Dropped(DropReason::Loss) => run += 1,
            _ if run > 0 => runs.push(std::mem::take(&mut run)),
            _ => {}
        }
    }
    runs
}

/// A mean of 100 Mbit/s, one value per 100 ms, with a memory of 1 s.
fn fluctuation(mood: &str) -> Fluctuation {
    let mean = q("100 Mbit/s");
    let (every, memory) = (q("100 ms"), q("1 s"));
    Fluctuation { mean, sd: Rate::ZERO, min: Rate::ZERO, max: mean, every, memory, mood: q(mood) }
}

/// A normal body around 300 ms.
fn normal(sd: &str) -> Jitter {
    Jitter {
        base: q("300 ms"),
        body: Body::Normal { sd: q(sd) },
        min: Time::ZERO,
        max: q("1 h"),
        every: q("1 s"),
        memory: Time::ZERO,
        linear: false,
        tail: None,
    }
}

fn jitter(jitter: Jitter) -> LinkSpec {
    LinkSpec { delay: DelaySpec::Jitter(jitter), ..constant("unlimited", "0 ms") }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn assert_close(what: &str, value: f64, wanted: f64, share: f64) {
    assert!((value - wanted).abs() <= share * wanted, "{what}: {value}, not {wanted} within {} %", share * 100.0);
}

#[test]
fn packets_of_one_size_take_the_fast_path_of_a_link_that_is_steady() {
    let outages = LossSpec::Outages { gap: q("1 h"), length: q("1 ms"), loss: Ratio::new(1.0).unwrap(), both: false };
    let plain = constant("12 Mbit/s", "300 ms");
    for (spec, is_fast) in [
        (plain.clone(), true),
        (LinkSpec { loss: vec![outages], ..plain.clone() }, true),
        (LinkSpec { burst: q("3 kB"), ..plain.clone() }, false),
        (LinkSpec { queue: QueueSpec { time: Some(q("1 s")), ..QueueSpec::default() }, ..plain }, false),
    ] {
        let mut link = link(&spec);
        send(&mut link, Time::ZERO, 1500);
        let taken = (1..10).filter(|n| link.take(Time::from_millis(*n), 1500).is_some()).count();
        assert_eq!(taken, if is_fast { 9 } else { 0 }, "{spec:?}");
    }
}

#[test]
fn outages_of_both_directions_are_at_the_same_times() {
    let lost = |both, name: &str| -> Vec<bool> {
        let outages = LossSpec::Outages { gap: q("3 s"), length: q("1 s"), loss: Ratio::ONE, both };
        let spec = LinkSpec { loss: vec![outages], ..constant("1 Mbit/s", "300 ms") };
        let mut link = Link::new(&spec, 1, name);
        (0..2_000).map(|n| matches!(send(&mut link, Time::from_millis(50) * n, 40), Transit::Dropped(_))).collect()
    };
    assert_eq!(lost(true, "satellite.down"), lost(true, "satellite.up"));
    assert_ne!(lost(false, "satellite.down"), lost(false, "satellite.up"));
    assert_ne!(lost(true, "satellite.down"), lost(true, "other.down"), "each link has its own");
}

#[test]
fn packets_leave_one_after_the_other() {
    let mut link = link(&constant("12 Mbit/s", "10 ms"));
    assert_eq!(delivered(&mut link, &[0, 0, 0, 10]), [11.0, 12.0, 13.0, 21.0]);
}

#[test]
fn drop_tail_counts_the_packet_in_service() {
    let two = |queue| {
        let spec = LinkSpec { queue, ..constant("12 Mbit/s", "0 ms") };
        delivered(&mut link(&spec), &[0, 0, 0, 1])
    };
    let bytes = |bytes| QueueSpec { bytes: Some(Bytes::new(bytes)), ..QueueSpec::default() };
    let time = |time| QueueSpec { time: Some(q(time)), ..QueueSpec::default() };
    assert_eq!(two(bytes(3000)), [1.0, 2.0, 3.0]);
    assert_eq!(two(bytes(2999)), [1.0, 2.0]);
    assert_eq!(two(QueueSpec { packets: Some(2), ..QueueSpec::default() }), [1.0, 2.0, 3.0]);
    assert_eq!(two(time("1 ms")), [1.0, 2.0, 3.0]);
    assert_eq!(two(time("999 us")), [1.0, 2.0]);
}

#[test]
fn a_token_bucket_lets_its_burst_pass_at_once_and_refills() {
    let bucket = LinkSpec { burst: Bytes::new(4500), ..constant("12 Mbit/s", "0 ms") };
    // Three packets from a full bucket, then one per millisecond; two milliseconds of silence refill two packets.
    assert_eq!(delivered(&mut link(&bucket), &[0, 0, 0, 0, 0, 4, 4, 4]), [0.0, 0.0, 0.0, 1.0, 2.0, 4.0, 4.0, 5.0]);
    // Overhead counts: with 750 bytes more per packet the bucket holds two packets.
    let framed = LinkSpec { overhead: 750, ..bucket };
    assert_eq!(delivered(&mut link(&framed), &[0, 0, 0]), [0.0, 0.0, 1.5]);
}

#[test]
fn a_packet_larger_than_the_bucket_passes_once_tokens_for_the_difference_have_come() {
    let mut link = link(&LinkSpec { burst: Bytes::new(750), ..constant("12 Mbit/s", "0 ms") });
    assert_eq!(delivered(&mut link, &[0, 0]), [0.5, 1.5]);
}

#[test]
fn a_falling_delay_never_reorders() {
    let delay = DelaySpec::Trace(steps(&[(0, "50 ms"), (10, "5 ms")], Some(20)));
    let mut link = link(&LinkSpec { delay, ..constant("unlimited", "0 ms") });
    assert_eq!(delivered(&mut link, &[0, 9, 10, 19, 20, 58]), [50.0, 59.0, 59.0, 59.0, 70.0, 70.0]);
}

#[test]
fn a_delay_drawn_for_each_packet_is_uniform_up_to_its_bound_and_reorders_nothing() {
    let spec = LinkSpec { delay: DelaySpec::PerPacket(q("2 ms")), ..constant("unlimited", "0 ms") };
    // Three milliseconds apart, no packet waits for the one before it.
    let apart: Vec<u64> = (0..20_000).map(|n| 3 * n).collect();
    let delays: Vec<f64> =
        delivered(&mut link(&spec), &apart).iter().zip(&apart).map(|(out, at)| out - *at as f64).collect();
    assert!(delays.iter().all(|delay| (0.0..=2.0).contains(delay)));
    assert_close("mean", mean(&delays), 1.0, 0.01);
    assert_close("mean square", mean(&delays.iter().map(|delay| delay * delay).collect::<Vec<_>>()), 4.0 / 3.0, 0.02);
    let at_once = delivered(&mut link(&spec), &[7; 100]);
    assert!(at_once.is_sorted() && at_once[0] < at_once[99] && at_once[99] <= 9.0, "{at_once:?}");
}

#[test]
fn traces_of_rate_delay_loss_and_queue_limit_are_followed() {
    let limit = steps(&[(0, "3000 B"), (9, "0 B")], None);
    let mut link = link(&LinkSpec {
        rate: RateSpec::Trace(steps(&[(0, "12 Mbit/s"), (1, "6 Mbit/s"), (9, "12 Mbit/s")], None)),
        delay: DelaySpec::Trace(steps(&[(0, "1 ms"), (9, "2 ms")], None)),
        loss: vec![LossSpec::Trace(steps(&[(0, "0 %"), (9, "100 %")], None))],
        queue: QueueSpec { bytes_over_time: Some(limit), ..QueueSpec::default() },
        ..constant("unlimited", "0 ms")
    });
    assert_eq!(delivered(&mut link, &[0, 0, 0, 1]), [2.0, 4.0, 6.0]);
    assert_eq!(link.counters().dropped_by(DropReason::QueueFull), 1);
    assert_eq!(send(&mut link, Time::from_millis(8), 1500), Transit::Dropped(DropReason::Loss));
    assert_eq!(send(&mut link, Time::from_millis(20), 1500), Transit::Dropped(DropReason::QueueFull));
    assert_eq!(link.rate_at(Time::from_millis(1)), Rate::from_mbps(6.0));
}

#[test]
fn a_packet_waits_for_a_recorded_rate_which_repeats() {
    let rate = RateSpec::Trace(steps(&[(0, "0 bit/s"), (2, "12 Mbit/s"), (3, "24 Mbit/s")], Some(4)));
    let mut link = link(&LinkSpec { rate, ..constant("unlimited", "0 ms") });
    assert_eq!(delivered(&mut link, &[0, 0, 0, 0, 0]), [3.0, 3.5, 4.0, 7.0, 7.5]);
}

#[test]
fn the_gateway_drops_a_quarter_of_the_arrivals_over_half_of_its_queue() {
    let aqm = AqmSpec::Viasat2 { threshold: q("50 %"), drop: q("25 %") };
    let queue = QueueSpec { bytes: Some(q("36 MB")), aqm, ..QueueSpec::default() };
    let mut link = link(&LinkSpec { queue, ..constant("144 Mbit/s", "0 ms") });
    let (mut over, mut dropped) = (0u32, 0u32);
    for i in 0..400_000 {
        let now = Time::from_micros(70) * i;
        let backlog = link.queue_bytes(now);
        let fate = send(&mut link, now, 1500);
        match fate {
            Transit::Dropped(DropReason::Aqm) => {
                assert!(backlog > 18_000_000, "dropped at a backlog of {backlog} bytes");
                dropped += 1;
            }
            Transit::Dropped(other) => panic!("dropped for {other:?}"),
            Transit::Delivered(_) => {}
        }
        over += u32::from(backlog > 18_000_000);
    }
    assert!(over > 50_000, "{over} arrivals over the threshold");
    assert_close("share of drops", f64::from(dropped) / f64::from(over), 0.25, 0.02);
}

#[test]
fn red_keeps_its_average_between_its_thresholds_and_can_mark() {
    let red = |ecn: bool| {
        let thresholds = RedThresholds::Bytes { min: q("100 kB"), max: q("300 kB") };
        let (max_probability, weight) = (q("10 %"), q("0.2 %"));
        let aqm = AqmSpec::Red(RedSpec { thresholds, max_probability, weight, adaptive: false, ecn });
        let queue = QueueSpec { bytes: Some(q("2 MB")), aqm, ..QueueSpec::default() };
        link(&LinkSpec { queue, ..constant("12 Mbit/s", "0 ms") })
    };
    for marks in [false, true] {
        let mut link = red(marks);
        let (mut backlogs, mut marked) = (Vec::new(), 0u64);
        for i in 0..60_000u64 {
            // With drops, a load of 1.1 times the rate, since drops remove the excess; with marks, the rate itself once a queue has formed.
            let now = Time::from_micros(if marks { 1000 * i - 90 * i.min(2_000) } else { 910 * i });
            let mut ecn = Ecn::Capable;
            link.transit(now, 1500, &mut ecn);
            marked += u64::from(ecn == Ecn::Marked);
            backlogs.push(link.queue_bytes(now) as f64);
        }
        let dropped = link.counters().dropped;
        assert_eq!(dropped[0], 0, "drops by a full queue");
        if marks {
            assert!(marked > 0 && dropped[1] == 0, "{marked} marked, {dropped:?} dropped");
        } else {
            let steady = mean(&backlogs[30_000..]);
            assert_eq!(marked, 0);
            assert!((100_000.0..400_000.0).contains(&steady), "mean backlog {steady}");
            assert_close("share of drops", dropped[1] as f64 / 60_000.0, 1.0 - 910.0 / 1000.0, 0.1);
        }
    }
}

#[test]
fn bernoulli_losses_are_independent() {
    let runs = loss_runs(LossSpec::Bernoulli(q("10 %")), 200_000, Time::from_millis(1));
    assert_close("loss", runs.iter().sum::<u64>() as f64 / 200_000.0, 0.1, 0.03);
    assert_close("mean run", runs.iter().sum::<u64>() as f64 / runs.len() as f64, 1.0 / 0.9, 0.02);
}

#[test]
fn bit_errors_lose_packets_by_their_size() {
    // 1 % of 1500 bytes: 1 - 0.99^(n / 1500) of n bytes, whatever other packets come between them.
    let errors = LossSpec::BitErrors { loss: q("1 %"), size: q("1500 B") };
    let mut link = link(&LinkSpec { loss: vec![errors], ..constant("unlimited", "1 ms") });
    let sizes = [40, 576, 1500, 9000];
    let mut lost = [0.0; 4];
    for i in 0..4_000_000u64 {
        // Runs of a thousand take the link's fast path.
        let number = (if i % 8_000 < 4_000 { i } else { i / 1_000 }) as usize % 4;
        let is_lost = send(&mut link, Time::from_micros(i), sizes[number]) == Transit::Dropped(DropReason::Loss);
        lost[number] += f64::from(u8::from(is_lost)) / 1e6;
    }
    for (size, share) in sizes.into_iter().zip(lost) {
        assert_close(&format!("loss of {size} B"), share, 1.0 - 0.99_f64.powf(f64::from(size) / 1500.0), 0.15);
    }
    assert_close("loss of 1500 B", lost[2], 0.01, 0.03);
    let loses = |loss| loss_runs(LossSpec::BitErrors { loss, size: q("48 B") }, 1_000, Time::from_millis(1));
    assert_eq!(
        (loses(Ratio::ZERO).len(), loses(Ratio::ONE)),
        (0, vec![]),
        "no packet of 1000, then all of them in one run"
    );
}

#[test]
fn gilbert_elliott_has_its_stationary_loss_and_burst_length() {
    let chain = |good_to_bad: f64, bad_loss| LossSpec::GilbertElliott {
        good_to_bad: Ratio::new(good_to_bad).unwrap(),
        bad_to_good: q("20 %"),
        good_loss: Ratio::ZERO,
        bad_loss: q(bad_loss),
    };
    // p = 0.2 x 2 / 98: a loss of p / (p + r) = 2 % in bursts of 1 / r = 5.
    let runs = loss_runs(chain(0.2 * 2.0 / 98.0, "100 %"), 1_000_000, Time::from_millis(1));
    let lost = runs.iter().sum::<u64>() as f64;
    assert_close("loss", lost / 1e6, 0.02, 0.06);
    assert_close("mean burst", lost / runs.len() as f64, 5.0, 0.06);
    // p = 1 %, r = 20 %, loss of 80 % in the bad state: (p / (p + r)) 0.8 = 3.81 %.
    let lost: u64 = loss_runs(chain(0.01, "80 %"), 1_000_000, Time::from_millis(1)).iter().sum();
    assert_close("loss", lost as f64 / 1e6, 0.8 * 0.01 / 0.21, 0.06);
}

#[test]
fn outage_lengths_do_not_depend_on_traffic() {
    let outages = LossSpec::Outages { gap: q("4 s"), length: q("200 ms"), loss: Ratio::ONE, both: false };
    for every in [5, 20] {
        let runs = loss_runs(outages.clone(), 40_000_000 / every, Time::from_millis(every));
        let lost = runs.iter().sum::<u64>() as f64 * every as f64;
        assert_close("share of time", lost / 40_000_000.0, 0.2 / 4.2, 0.06);
        // Only outages that meet a packet are observed, so the runs are longer by about half an interval.
        assert_close("mean length in ms", lost / runs.len() as f64, 200.0, 0.1);
    }
}

#[test]
fn periodic_losses_come_at_their_instants_and_only_then() {
    let lost_at = |[period, phase, length]: [&str; 3], loss| -> Vec<u64> {
        let loss = LossSpec::Periodic { period: q(period), phase: q(phase), length: q(length), loss: q(loss) };
        let mut link = link(&LinkSpec { loss: vec![loss], ..constant("unlimited", "0 ms") });
        (0..50_000).filter(|ms| matches!(send(&mut link, Time::from_millis(*ms), 100), Transit::Dropped(_))).collect()
    };
    let bursts = |starts: &[u64]| starts.iter().flat_map(|start| *start..start + 20).collect::<Vec<u64>>();
    let whole = lost_at(["15 s", "3 s", "20 ms"], "100 %");
    assert_eq!(whole, bursts(&[3_000, 18_000, 33_000, 48_000]));
    let late = lost_at(["10 s", "31 s", "20 ms"], "100 %");
    assert_eq!(late, bursts(&[31_000, 41_000]));
    let half = lost_at(["100 ms", "0 s", "50 ms"], "50 %");
    assert!(half.iter().all(|at| at % 100 < 50));
    assert_close("loss within a burst", half.len() as f64 / 25_000.0, 0.5, 0.03);
}

/// Numbers, from 1, of the packets lost of 400 that leave a millisecond apart; every third has 40 bytes, the others 1500.
fn lost_by(least: &str, drops: &[CountedDrop], more: &[LossSpec]) -> Vec<u64> {
    let counted = LossSpec::Counted { least: q(least), drops: drops.to_vec() };
    let loss = std::iter::once(counted).chain(more.iter().cloned()).collect();
    let mut link = link(&LinkSpec { loss, ..constant("unlimited", "0 ms") });
    let size = |number: u64| if number.is_multiple_of(3) { 40 } else { 1500 };
    let is_lost = |number: &u64| {
        let at = Time::from_millis(*number);
        matches!(send(&mut link, at, size(*number)), Transit::Dropped(DropReason::Loss))
    };
    (1..=400).filter(is_lost).collect()
}

#[test]
fn counted_losses_hit_the_packets_that_they_name_and_no_others() {
    let numbers = |first, last, every| CountedDrop { span: CountedSpan::Numbers { first, last }, every };
    let times =
        |from: &str, to: &str, every| CountedDrop { span: CountedSpan::Times { from: q(from), to: q(to) }, every };
    assert_eq!(lost_by("0 B", &[numbers(7, 7, 1)], &[]), [7]);
    assert_eq!(lost_by("0 B", &[numbers(390, u64::MAX, 5)], &[]), [394, 399]);
    // Two of three packets count: the tenth is number 14, and the 20th and 30th follow.
    assert_eq!(lost_by("100 B", &[numbers(1, 30, 10)], &[]), [14, 29, 44]);
    // Packets at 100 ms to 119 ms; the fourth, the eighth and so on.
    assert_eq!(lost_by("0 B", &[times("100 ms", "120 ms", 4)], &[]), [103, 107, 111, 115, 119]);
    assert_eq!(lost_by("0 B", &[times("396 ms", "30 s", 2), numbers(1, 3, 3)], &[]), [3, 397, 399]);
    let [early, late] = [numbers(2, 2, 1), times("300 ms", "302 ms", 1)];
    assert_eq!(lost_by("0 B", &[early, late], &[]), [2, 300, 301]);
    let periodic = LossSpec::Periodic { period: q("200 ms"), phase: q("50 ms"), length: q("1 ms"), loss: Ratio::ONE };
    assert_eq!(lost_by("0 B", &[early, late], &[periodic]), [2, 50, 250, 300, 301], "beside another process");
}

#[test]
fn outages_do_not_depend_on_the_traffic() {
    let loss = vec![LossSpec::Outages { gap: q("200 ms"), length: q("200 ms"), loss: Ratio::ONE, both: false }];
    let spec = LinkSpec { loss, ..constant("unlimited", "0 ms") };
    let (mut dense, mut sparse) = (link(&spec), link(&spec));
    for i in 0..2_000_000u64 {
        let one = send(&mut dense, Time::from_millis(i), 100);
        if i % 1_009 == 0 {
            assert_eq!(one, send(&mut sparse, Time::from_millis(i), 100), "at {i} ms");
        }
    }
}

#[test]
fn a_fluctuating_rate_has_its_mean_deviation_memory_and_mood() {
    let spec = |mood| {
        let fluctuation =
            Fluctuation { sd: q("10 Mbit/s"), min: q("20 Mbit/s"), max: q("180 Mbit/s"), ..fluctuation(mood) };
        LinkSpec { rate: RateSpec::Fluctuating(fluctuation), ..constant("unlimited", "0 ms") }
    };
    let rates = |link: &Link<()>, n: u64| -> Vec<f64> {
        (0..n).map(|i| link.rate_at(Time::from_millis(100 * i)).as_mbps()).collect()
    };
    let values = rates(&link(&spec("0 bit/s")), 4_000);
    let spread = mean(&values.iter().map(|v| (v - 100.0).powi(2)).collect::<Vec<_>>()).sqrt();
    assert_close("mean", mean(&values), 100.0, 0.03);
    assert_close("sd", spread, 10.0, 0.15);
    let lag = mean(&values.windows(11).map(|w| (w[0] - 100.0) * (w[10] - 100.0)).collect::<Vec<_>>()) / spread.powi(2);
    assert_close("autocorrelation after the memory", lag, (-1.0f64).exp(), 0.3);

    let spec = spec("5 Mbit/s");
    let moods: Vec<f64> =
        (0..400).map(|seed| Link::<()>::new(&spec, seed, "m")).map(|moody| mean(&rates(&moody, 400))).collect();
    let between = mean(&moods.iter().map(|m| (m - 100.0).powi(2)).collect::<Vec<_>>()).sqrt();
    // The mean of 40 s with a memory of 1 s has a standard deviation of 10 sqrt(2 / 40) = 2.2.
    assert_close("sd between runs", between, (25.0f64 + 5.0).sqrt(), 0.15);
}

#[test]
fn jitter_is_the_same_function_of_time_for_sparse_and_dense_traffic() {
    let spec = jitter(Jitter { every: q("100 ms"), memory: q("500 ms"), linear: true, ..normal("8 ms") });
    // The delay never falls as fast as time passes, so FIFO order delays no packet.
    let (mut dense, mut sparse) = (link(&spec), link(&spec));
    for i in 0..200_000u64 {
        let now = Time::from_millis(i);
        let one = send(&mut dense, now, 100);
        if i % 500 == 499 {
            assert_eq!(one, send(&mut sparse, now, 100), "at {i} ms");
        }
    }
}

#[test]
fn sparse_packets_see_the_distribution_of_the_jitter() {
    let shape = TailShape::Pareto { min: q("100 ms"), shape: 2.0 };
    let tail = Tail { share: q("5 %"), every: q("100 ms"), shape, max: q("400 ms") };
    let mut link = link(&jitter(Jitter { every: q("20 ms"), tail: Some(tail), ..normal("10 ms") }));
    let delays: Vec<f64> = (0..100_000u64)
        .map(|i| match send(&mut link, Time::from_secs(i), 48) {
            Transit::Delivered(at) => (at - Time::from_secs(i)).as_millis_f64(),
            Transit::Dropped(reason) => panic!("{reason:?}"),
        })
        .collect();
    let body: Vec<f64> = delays.iter().copied().filter(|d| *d < 350.0).collect();
    assert_close("share of the tail", 1.0 - body.len() as f64 / 1e5, 0.05, 0.05);
    assert_close("mean of the body", mean(&body), 300.0, 0.001);
    assert_close(
        "sd of the body",
        mean(&body.iter().map(|d| (d - 300.0).powi(2)).collect::<Vec<_>>()).sqrt(),
        10.0,
        0.02,
    );
    // P(X > 200 ms) = (100 / 200)^2 of the tail.
    let far = delays.iter().filter(|d| **d > 500.0).count() as f64;
    assert_close("share beyond twice the minimum", far / 1e5, 0.05 / 4.0, 0.08);
    assert!(delays.iter().all(|d| *d < 750.0));
}

#[test]
fn a_delay_interpolated_between_values_has_no_steps() {
    let mut link = link(&jitter(Jitter { every: q("100 ms"), linear: true, ..normal("10 ms") }));
    let at = |t: Transit| match t {
        Transit::Delivered(at) => at.as_millis_f64(),
        Transit::Dropped(reason) => panic!("{reason:?}"),
    };
    let arrivals: Vec<f64> = (0..20_000).map(|i| at(send(&mut link, Time::from_millis(i), 100))).collect();
    let largest = arrivals.windows(2).map(|w| (w[1] - w[0] - 1.0).abs()).fold(0.0, f64::max);
    // Two values, 100 ms apart, differ by at most about 80 ms.
    assert!(largest < 0.8, "a step of {largest} ms");
}

#[test]
fn a_loaded_link_adds_its_delay_and_pings_do_not_load_it() {
    let loaded = Loaded {
        above: q("20 kbit/s"),
        window: q("200 ms"),
        delay: q("80 ms"),
        sd: Time::ZERO,
        every: q("50 ms"),
        memory: Time::ZERO,
    };
    let spec = LinkSpec { loaded: Some(loaded), ..constant("unlimited", "100 ms") };
    let mut pinged = link(&spec);
    for i in 0..1_000 {
        let now = Time::from_millis(200) * i;
        assert_eq!(send(&mut pinged, now, 48), Transit::Delivered(now + Time::from_millis(100)));
    }
    let mut used = link(&spec);
    let delays: Vec<u64> = (0..100u64)
        .map(|i| Time::from_millis(10) * i)
        .map(|now| match send(&mut used, now, 52) {
            Transit::Delivered(at) => (at - now).as_millis(),
            Transit::Dropped(reason) => panic!("{reason:?}"),
        })
        .collect();
    // A window allows 500 bytes: its tenth ACK exceeds them.
    assert_eq!(delays.iter().position(|d| *d == 180), Some(9));
    assert!(delays[9..].iter().all(|d| *d == 180));
    let later = Time::from_secs(3);
    assert_eq!(send(&mut used, later, 52), Transit::Delivered(later + Time::from_millis(100)));
}

const SEED: u64 = 20;

#[test]
fn the_mean_rate_is_that_of_its_parts_and_a_query_changes_nothing() {
    let fluctuation =
        Fluctuation { sd: q("20 Mbit/s"), min: q("10 Mbit/s"), max: q("150 Mbit/s"), ..fluctuation("0 bit/s") };
    let spec = LinkSpec { rate: RateSpec::Fluctuating(fluctuation), ..constant("unlimited", "10 ms") };
    let (mut asked, mut silent) = (link(&spec), link(&spec));
    let part = Time::from_millis(100);
    let parts: Vec<f64> = (0..50).map(|i| asked.rate_at(part * i).as_mbps()).collect();
    // The link is far ahead of the span of the query.
    send(&mut asked, Time::from_secs(60), 1500);
    send(&mut silent, Time::from_secs(60), 1500);
    let whole = asked.mean_rate(Time::ZERO, part * 50).as_mbps();
    assert_close("mean rate", whole, mean(&parts), 1e-6);
    let middle = asked.mean_rate(part * 10, part * 10 + Time::from_millis(150)).as_mbps();
    assert_close("one and a half parts", middle, (2.0 * parts[10] + parts[11]) / 3.0, 1e-6);
    for at in [61, 62, 100] {
        assert_eq!(send(&mut asked, Time::from_secs(at), 1500), send(&mut silent, Time::from_secs(at), 1500));
    }
}
