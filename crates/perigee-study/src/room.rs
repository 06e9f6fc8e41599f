//! Estimates the memory and file size of a run's results before the run begins.
//!
//! Series, exchanges and milestones have an upper bound: a row per interval, request or size. The log of events and captures
//! depend on losses; the estimate counts the data twice, as if each packet were retransmitted once. A flow with a
//! duration lasts at most twice that and a minute, for the packets in flight when its sender stops.

use perigee_results::{
    Amount, Classes, Events, Exchanges, Flows, Links, Measure, Milestones, Proxies, Responses, RowBytes, Series,
    States, StatesOf, Table,
};
use perigee_traffic::Video;
use perigee_units::Time;

use crate::run::{FlowSpec, QuicLoad, Scenario, Traffic};

/// Size of the results of a run, by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Tables by name, `captures`, and `goodput_bins`, which become percentiles; the largest first.
    pub parts: Vec<Part>,
}

/// Size of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the table.
    pub name: &'static str,
    /// Maximum rows.
    pub rows: u64,
    /// Maximum memory while the run hands them over, bytes.
    pub memory: u64,
    /// Maximum size in a file, before compression, bytes.
    pub file: u64,
}

impl Scenario {
    /// Upper bound of the size of a run's results.
    pub fn room(&self) -> Room {
        let measure = &self.measure;
        let flows = &self.flows;
        let spans: Vec<Time> = flows.iter().map(|flow| span(flow, self.time_limit)).collect();
        let run = flows.iter().zip(&spans).map(|(flow, span)| flow.start + flow.start_jitter + *span);
        let run = run.max().unwrap_or_default().min(self.time_limit);
        let ticks = |of: Option<Time>, over: Time| of.map_or(0, |every| over.as_nanos() / every.as_nanos().max(1) + 2);
        let per_flow = |of: Option<Time>| {
            flows.iter().zip(&spans).map(|(flow, span)| rows_of(flow) * ticks(of, *span)).sum::<u64>()
        };
        let packets: u64 = flows.iter().map(|flow| 2 * rows_of(flow) * self.packets(flow)).sum();
        let text = self.longest_name();
        let table = |table: &dyn Table, rows: u64| part(table, rows, text);
        let bins = per_flow(Some(measure.goodput_bin));
        let seen = packets * CAPTURED_PER_PACKET * measure.pcap.len() as u64;
        let mut parts = vec![
            table(&Flows::default(), flows.iter().map(rows_of).sum()),
            table(&Series::default(), per_flow(measure.series)),
            table(&Links::default(), ticks(measure.series, run) * self.links.len() as u64),
            table(&Proxies::default(), ticks(measure.series, run) * self.proxies.len() as u64),
            table(&Exchanges::default(), flows.iter().map(|flow| flow.traffic.exchanges()).sum()),
            table(&Responses::default(), flows.iter().map(classes).sum()),
            table(&Milestones::default(), milestones(measure, flows)),
            // Rows are collected by flow before they become a table.
            twice(table(&Events::default(), if measure.events { EVENTS_PER_PACKET * packets } else { 0 })),
            twice(self.watched(table(
                &States::default(),
                if measure.states == Some(StatesOf::Acknowledgements) { packets } else { 0 },
            ))),
            Part { name: "goodput_bins", rows: bins, memory: bins * BYTES_OF_BIN, file: 0 },
            Part { name: "captures", rows: seen, memory: seen * BYTES_CAPTURED, file: seen * BYTES_CAPTURED },
        ];
        parts.retain(|part| part.rows > 0);
        parts.sort_by_key(|part| std::cmp::Reverse(part.memory));
        Room { parts }
    }

    /// The table `states` with the columns of the flows' congestion controls.
    fn watched(&self, mut states: Part) -> Part {
        let controls = self.flows.iter().filter_map(|flow| flow.traffic.congestion_control());
        let most = controls.map(|(cc, _)| cc.algorithm().watched().len() as u64).max().unwrap_or_default();
        states.memory = states.memory.saturating_add(states.rows.saturating_mul(most * WATCHED.memory));
        states.file = states.file.saturating_add(states.rows.saturating_mul(most * WATCHED.file));
        states
    }

    /// Data packets of a TCP flow without losses.
    fn packets(&self, flow: &FlowSpec) -> u64 {
        let (app, segment) = match &flow.traffic {
            Traffic::Tcp { tcp, app } => (app, flow.segment(tcp.from.mss)),
            Traffic::Quic { quic, load: QuicLoad::App(app) } => (app, quic.datagram),
            _ => return flow.traffic.exchanges(),
        };
        let bytes = app.bytes_both_ways().unwrap_or_else(|| {
            let Amount::Duration(length) = app.amount() else { return 0 };
            let rates = flow.forward.iter().filter_map(|link| self.links.get(*link as usize));
            let least = rates.map(|link| link.spec.rate.mean_bps()).fold(f64::INFINITY, f64::min);
            // Without links the rate is unknown.
            if least.is_finite() {
                (least / 8.0 * length.as_secs_f64()) as u64
            } else {
                0
            }
        });
        bytes / u64::from(segment).max(1) + 1
    }

    fn longest_name(&self) -> u64 {
        let names = self.flows.iter().map(|flow| &flow.name).chain(self.links.iter().map(|link| &link.name));
        names.map(|name| name.len() as u64).max().unwrap_or_default()
    }
}

/// Maximum duration of a flow.
fn span(flow: &FlowSpec, limit: Time) -> Time {
    match flow.traffic.amount() {
        // A video that stalls has no maximum duration.
        Amount::Duration(_) if flow.traffic.kind() == Video::NAME => limit,
        Amount::Duration(length) => (length * 2 + LAST_PACKETS).min(limit),
        Amount::Size(_) => limit,
    }
}

/// Maximum classes of response sizes of a population.
fn classes(flow: &FlowSpec) -> u64 {
    let Traffic::Population { population, .. } = &flow.traffic else { return 0 };
    match population.classes() {
        Classes::Sizes(sizes) => sizes.len() as u64,
        Classes::Octaves => u64::from(u64::BITS),
    }
}

fn milestones(measure: &Measure, flows: &[FlowSpec]) -> u64 {
    measure.milestones.len() as u64 * flows.iter().map(rows_of).sum::<u64>()
}

/// Rows of the flow itself, and of its legs if proxies split it.
fn rows_of(flow: &FlowSpec) -> u64 {
    1 + flow.traffic.tcp().map_or(0, |tcp| tcp.legs.len() as u64)
}

fn part(table: &dyn Table, rows: u64, text: u64) -> Part {
    let RowBytes { memory, file } = RowBytes::of(table, text);
    Part { name: table.name(), rows, memory: rows.saturating_mul(memory), file: rows.saturating_mul(file) }
}

fn twice(mut part: Part) -> Part {
    part.memory = part.memory.saturating_mul(2);
    part
}

/// Time for packets in flight after a flow's sender has stopped.
const LAST_PACKETS: Time = Time::from_secs(60);
/// A packet is sent and acknowledged, each a row.
const EVENTS_PER_PACKET: u64 = 2;
/// A node between the ends captures a packet and its acknowledgement twice each.
const CAPTURED_PER_PACKET: u64 = 4;
/// Size of a packet in a capture: its headers and the block around them.
const BYTES_CAPTURED: u64 = 128;
/// Size of a watched value.
const WATCHED: RowBytes = RowBytes { memory: 32, file: 8 };
/// Size of a bin, with its copy for sorting.
const BYTES_OF_BIN: u64 = 16;
