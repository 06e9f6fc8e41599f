//! A run in pieces gives the tables of the run, and shows rows of them meanwhile.

use std::ops::ControlFlow;

use perigee_results::{LinkRow, Links, Tables};
use perigee_study::Run;
use perigee_units::Time;
use proptest::prelude::*;

use super::determinism::{alone, everything_over};
use super::plan;
use crate::{RunResult, Simulation};

/// The result of a run that pauses at each of these instants, and shows its rows there.
fn in_pieces(run: &Run, pauses: impl Iterator<Item = Time>, whole: &Tables) -> RunResult {
    let mut simulation = Simulation::new(run).expect("the run begins");
    let interval = run.scenario.measure.series.expect("it has a series");
    for pause in pauses {
        simulation.advance(pause, &mut |_| ControlFlow::Continue(()));
        let reached = simulation.reached();
        assert!(simulation.is_over() || reached == pause, "{reached} instead of {pause}");
        shows_rows_of(&mut simulation, interval, whole);
        if simulation.is_over() {
            break;
        }
    }
    simulation.finish(&mut |_| ControlFlow::Continue(())).expect("the run succeeds")
}

/// The rows so far are those of the tables whose intervals end by now. Where a piece ended early, flows may have one more.
fn shows_rows_of(simulation: &mut Simulation<'_>, interval: Time, whole: &Tables) {
    let reached = simulation.reached();
    let is_past = |t_s: &f64| *t_s <= reached.as_secs_f64();
    // The last row of a flow ends with it, and is written at the end of the interval.
    let written = |t_s: &f64| {
        let intervals = Time::from_secs_f64(*t_s).as_nanos().div_ceil(interval.as_nanos());
        Time::from_nanos(intervals * interval.as_nanos())
    };
    let series = simulation.series();
    let (rows, due) = (series.t_s.len(), whole.series.t_s.iter().filter(|t_s| written(t_s) <= reached).count());
    let is_known = rows >= due && series.t_s[due..].iter().all(|t_s| written(t_s) <= reached + Time::from_nanos(1));
    assert!(is_known, "{rows} rows, {due} due at {reached}");
    assert_eq!(series.t_s[..], whole.series.t_s[..rows]);
    assert_eq!(series.cwnd_packets[..], whole.series.cwnd_packets[..rows]);
    assert_eq!(series.goodput_mbps[..], whole.series.goodput_mbps[..rows]);
    let half = Time::from_nanos(reached.as_nanos() / 2);
    let links = sorted(&simulation.links(half));
    let due = |row: &LinkRow| row.t_s > half.as_secs_f64() && is_past(&row.t_s);
    let expected: Vec<_> = sorted(&whole.links).into_iter().filter(due).collect();
    assert_eq!(links, expected);
}

/// Rows that a live figure shows, link by link.
fn sorted(links: &Links) -> Vec<LinkRow> {
    let row = |row: usize| LinkRow {
        link: links.link[row].clone(),
        t_s: links.t_s[row],
        offered_packets: links.offered_packets[row],
        delivered_bytes: links.delivered_bytes[row],
        queue_bytes: links.queue_bytes[row],
        rate_mbps: links.rate_mbps[row],
        ..LinkRow::default()
    };
    let mut rows: Vec<_> = (0..links.t_s.len()).map(row).collect();
    rows.sort_by(|one, other| (&one.link, one.t_s).partial_cmp(&(&other.link, other.t_s)).expect("no instant is NaN"));
    rows
}

fn pauses(every_ms: u64) -> impl Iterator<Item = Time> {
    (1..).map(move |piece| Time::from_millis(piece * every_ms))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_run_in_pieces_has_the_tables_of_the_run(
        seed in 0u32..10_000, chain_mbps in 2u32..40, loss_permille in 0u32..20, cc in 0usize..4, queue in 0usize..3,
        every_ms in 1u64..2500,
    ) {
        let cc = ["reno", "cubic", "bbr", "hybla"][cc];
        let queue = [
            r#""100 kB""#,
            r#"{ bytes = "1 MB", aqm = { kind = "codel" } }"#,
            r#"{ bytes = "300 kB", aqm = { kind = "fq-codel" } }"#,
        ][queue];
        let run = plan(&everything_over(queue, seed, chain_mbps, 100, loss_permille, cc));
        let whole = crate::run(&run, &mut |_| ControlFlow::Continue(())).expect("the run succeeds");
        let divided = in_pieces(&run, pauses(every_ms), &whole.tables);
        prop_assert_eq!(&whole.tables, &divided.tables);
        prop_assert_eq!(whole.captures.len(), divided.captures.len());
    }

    #[test]
    fn a_receiver_asked_ahead_of_time_does_not_show_what_has_not_arrived(
        seed in 0u32..10_000, loss_permille in 0u32..30, queue_kb in 8u32..400, every_ms in 1u64..900,
    ) {
        let queue = format!("\"{queue_kb} kB\"");
        let flow = "size = \"4 MB\"\ncc = \"cubic\"";
        let run = plan(&alone(seed, loss_permille, [&queue, &queue], "", "series = \"100 ms\"", flow));
        let whole = crate::run(&run, &mut |_| ControlFlow::Continue(())).expect("the run succeeds");
        prop_assert_eq!(&whole.tables, &in_pieces(&run, pauses(every_ms), &whole.tables).tables);
    }
}

#[test]
fn a_piece_ends_early_where_it_is_stopped_and_the_next_goes_on() {
    let run = plan(&everything_over("\"100 kB\"", 1, 40, 100, 0, "cubic"));
    let whole = crate::run(&run, &mut |_| ControlFlow::Continue(())).expect("the run succeeds");
    let mut simulation = Simulation::new(&run).expect("the run begins");
    let interval = run.scenario.measure.series.expect("it has a series");
    let mut pieces = 0;
    while !simulation.is_over() {
        let before = simulation.reached();
        simulation.advance(Time::MAX, &mut |_| ControlFlow::Break(()));
        assert!(simulation.reached() > before, "each piece goes on");
        shows_rows_of(&mut simulation, interval, &whole.tables);
        pieces += 1;
    }
    assert!(pieces > 1, "the run takes more than one piece");
    let divided = simulation.finish(&mut |_| ControlFlow::Continue(())).expect("the run succeeds");
    assert_eq!(whole.tables, divided.tables);
    assert_eq!(whole.events, divided.events);
}
