use crate::{Amount, FlowRow, Measure, Startup, Tables};
use perigee_units::{Bytes, Ratio, Time};

use super::{write_observation, Observation, SenderSample};

fn row() -> FlowRow {
    FlowRow::new(0, "f".into())
}

fn measure() -> Measure {
    Measure {
        series: Some(Time::from_secs(1)),
        startup: Some(Startup::Bytes(Bytes::new(1_500_000))),
        steady: Ratio::new(0.5),
        goodput_bin: Time::from_secs(1),
        rtt_bin: Some(Time::from_millis(1)),
        milestones: vec![Bytes::new(500_000), Bytes::new(3_000_000)],
        ..Measure::default()
    }
}

/// 1, 2 and 3 MB in three seconds, the intervals a little longer than that.
fn observation() -> Observation {
    let at = |ms: u64| Time::from_millis(ms) + Time::from_micros(50);
    let sample = |ms, again, rtt| SenderSample {
        at: at(ms),
        retransmitted: Some(again),
        cwnd_packets: Some(10),
        srtt: Some(Time::from_millis(rtt)),
    };
    Observation {
        start: Time::from_secs(2),
        duration: at(3000),
        amount: Some(Amount::Size(Bytes::new(6_000_000))),
        arrivals: vec![(at(1000), 1_000_000), (at(2000), 3_000_000), (at(3000), 6_000_000)],
        samples: vec![sample(1000, 0, 600), sample(2000, 4, 610), sample(3000, 6, 650)],
        segment: Some(1000),
        sent_packets: None,
        retransmitted_packets: Some(6),
    }
}

fn written(observation: &Observation, measure: &Measure) -> Tables {
    let mut tables = Tables::default();
    write_observation(row(), observation, measure, &mut tables);
    tables
}

fn near(got: f64, expected: f64) {
    assert!((got - expected).abs() < expected * 1e-3, "{got}, not {expected}");
}

#[test]
fn phases_end_inside_of_intervals() {
    let flows = written(&observation(), &measure()).flows;
    assert_eq!((flows.received_bytes[0], flows.start_s[0]), (6_000_000, 2.0));
    near(flows.goodput_mbps[0].unwrap(), 16.0);
    near(flows.startup_s[0].unwrap(), 1.25);
    near(flows.startup_goodput_mbps[0].unwrap(), 9.6);
    near(flows.steady_s[0].unwrap(), 1.0);
    near(flows.steady_goodput_mbps[0].unwrap(), 24.0);
    assert_eq!((flows.startup_retransmitted_packets[0], flows.steady_retransmitted_packets[0]), (Some(1), Some(2)));
}

#[test]
fn packets_are_full_ones_and_those_sent_again_except_while_many_are_in_flight() {
    let flows = written(&observation(), &measure()).flows;
    assert_eq!((flows.sent_packets[0], flows.retransmitted_packets[0]), (Some(6006), Some(6)));
    assert_eq!((flows.steady_sent_packets[0], flows.startup_sent_packets[0]), (Some(3002), None));
    assert_eq!(flows.rto_count[0], None);
}

#[test]
fn rows_of_the_series_stand_on_the_seconds_and_take_the_samples_that_are_a_little_late() {
    let series = written(&observation(), &measure()).series;
    assert_eq!(series.t_s[..2], [3.0, 4.0]);
    near(*series.t_s.last().unwrap(), 5.0);
    assert_eq!(series.rtt_mean_ms[..3], [Some(600.0), Some(610.0), Some(650.0)]);
    assert_eq!(series.srtt_ms[..3], series.rtt_mean_ms[..3]);
    for (got, expected) in series.goodput_mbps.iter().zip([8.0, 16.0, 24.0]) {
        near(*got, expected);
    }
    assert!(series.inflight_packets.iter().all(Option::is_none) && series.sent_packets.iter().all(Option::is_none));
    assert_eq!(series.retransmitted_packets.iter().flatten().sum::<u64>(), 6);
}

#[test]
fn bins_hold_what_arrived_until_their_ends() {
    let flows = written(&observation(), &measure()).flows;
    near(flows.goodput_p50_mbps[0].unwrap(), 16.0);
    near(flows.goodput_p10_mbps[0].unwrap(), 9.6);
}

#[test]
fn sizes_are_reached_where_a_line_through_the_counts_has_them() {
    let milestones = written(&observation(), &measure()).milestones;
    assert_eq!(milestones.bytes, [500_000, 3_000_000]);
    near(milestones.t_s[0], 0.5);
    near(milestones.t_s[1], 2.0);
}

#[test]
fn round_trips_are_the_samples_and_belong_to_the_phase_they_end_in() {
    let tables = written(&observation(), &measure());
    assert_eq!(tables.flows.startup_rtt_mean_ms[0], Some(600.0));
    assert_eq!(tables.flows.steady_rtt_mean_ms[0], Some(650.0));
    assert_eq!(tables.flows.rtt_mean_ms[0], Some(620.0));
    assert_eq!(tables.rtt.count.iter().sum::<u64>(), 5, "three of the whole, one of each phase");
}

#[test]
fn what_nobody_said_is_empty() {
    let blind = Observation { samples: Vec::new(), segment: None, retransmitted_packets: None, ..observation() };
    let tables = written(&blind, &measure());
    let flows = &tables.flows;
    assert_eq!((flows.rtt_min_ms[0], flows.rtt_mean_ms[0], flows.rtt_p99_ms[0]), (None, None, None));
    assert_eq!((flows.sent_packets[0], flows.retransmitted_packets[0]), (None, None));
    assert_eq!((flows.steady_sent_packets[0], flows.steady_retransmitted_packets[0]), (None, None));
    assert!(tables.rtt.count.is_empty());
    assert!(tables.series.cwnd_packets.iter().chain(&[None]).all(Option::is_none));
    assert!(tables.series.retransmitted_packets.iter().all(Option::is_none));
    near(flows.steady_goodput_mbps[0].unwrap(), 24.0);
}

#[test]
fn a_flow_without_time_bytes_or_series_ends_all_the_same() {
    let nothing = Observation { start: Time::from_secs(1), ..Observation::default() };
    let tables = written(&nothing, &measure());
    assert_eq!((tables.flows.received_bytes[0], tables.series.t_s.len()), (0, 0));
    let at_once = Observation { arrivals: vec![(Time::ZERO, 10)], duration: Time::from_secs(1), ..nothing };
    assert_eq!(written(&at_once, &measure()).flows.received_bytes, [10]);
    let off = Measure { series: None, goodput_bin: Time::ZERO, ..measure() };
    let tables = written(&observation(), &off);
    assert_eq!((tables.flows.goodput_p50_mbps[0], tables.series.t_s.len()), (None, 0));
}

#[test]
fn a_phase_by_time_ends_at_its_instant() {
    let by_time = Measure { startup: Some(Startup::Time(Time::from_millis(1500))), ..measure() };
    let long = Observation { amount: Some(Amount::Duration(Time::from_secs(3))), ..observation() };
    let flows = written(&long, &by_time).flows;
    near(flows.startup_goodput_mbps[0].unwrap(), 2.0 * 8.0 / 1.5);
    near(flows.steady_s[0].unwrap(), 1.5);
}
