//! The second pass over a capture: measures its largest connections by the definitions of every engine.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;

use perigee_results::{
    Amount, CaptureTables, ConnectionRow, FlowRow, Measure, Meter, Name, Outcome, SeriesRow, Startup, Tables,
};
use perigee_units::{Bytes, Ratio, Time, UnitError};
use perigee_wire::Transport;
use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;

use crate::datagrams::Datagrams;
use crate::error::AnalyzeError;
use crate::flow::{About, CapturedFlow};
use crate::key::Key;
use crate::quic::SpinUse;
use crate::side::Side;
use crate::stream::{Item, Source, Stream, Watch};
use crate::survey::{ConnectionSummary, Survey};
use crate::trace::SequenceTrace;
use crate::vantage::{segment, RoundTrips};

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Interval of the series.
    pub series: Time,
    /// End of the startup phase; `None`: no such phase.
    pub startup: Option<Startup>,
    /// Share of a flow's bytes, at its end, that is the steady phase; `None`: no such phase.
    pub steady: Option<Ratio>,
    /// Number of connections measured per capture, the largest first.
    pub most: usize,
    /// Number of flows per capture with a time sequence, the largest first.
    pub sequences: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { series: Time::from_secs(1), startup: None, steady: Ratio::new(0.5), most: 100, sequences: 0 }
    }
}

/// An invalid option; prints its name, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionError {
    /// The value is not a quantity of the option's kind.
    #[error("--{option}: {error}")]
    Quantity {
        /// Name of the option.
        option: &'static str,
        /// Reason.
        error: UnitError,
    },
    /// The interval is too short.
    #[error("--series: `{0}` is below 1 ms; write \"1 s\"")]
    TooShort(String),
}

impl Options {
    /// Reads options as a user writes them; `startup` and `steady` may be `off`.
    ///
    /// ```
    /// use perigee_analyze::Options;
    /// assert_eq!(Options::read("100 ms", "off", "50 %", 100, 1).unwrap().startup, None);
    /// assert!(Options::read("100", "off", "50 %", 100, 1).is_err());
    /// ```
    ///
    /// # Errors
    /// If one of them is not a quantity of its kind, or `series` is below 1 ms.
    pub fn read(series: &str, startup: &str, steady: &str, most: usize, sequences: usize) -> Result<Self, OptionError> {
        let interval: Time = series.parse().map_err(|error| OptionError::Quantity { option: "series", error })?;
        if interval < LEAST_INTERVAL {
            return Err(OptionError::TooShort(series.to_owned()));
        }
        let startup = match startup {
            "off" => None,
            text => Some(match text.parse().map(Startup::Bytes) {
                Ok(startup) => startup,
                Err(_) => {
                    Startup::Time(text.parse().map_err(|error| OptionError::Quantity { option: "startup", error })?)
                }
            }),
        };
        let steady = match steady {
            "off" => None,
            text => Some(text.parse().map_err(|error| OptionError::Quantity { option: "steady", error })?),
        };
        Ok(Self { series: interval, startup, steady, most, sequences })
    }
}

const LEAST_INTERVAL: Time = Time::from_millis(1);

/// The flows of a capture.
pub(crate) struct Measured {
    pub(crate) tables: Tables,
    pub(crate) captured: CaptureTables,
    /// Name of each flow, index of its connection in the survey, and direction.
    pub(crate) flows: Vec<(Name, usize, usize)>,
    /// Flows whose data are not in the capture.
    pub(crate) unseen_flows: u64,
    /// Number of rows of the series beyond the limit, which were omitted.
    pub(crate) rows_left_out: u64,
    /// Number of rows of time sequences beyond the limit, which were omitted.
    pub(crate) segments_left_out: u64,
}

/// A flow of TCP or UDP.
#[allow(clippy::large_enum_variant, reason = "there are at most a few hundred, nearly all of them large")]
enum Followed {
    Tcp(CapturedFlow),
    Udp(Datagrams),
}

/// A connection that is measured.
struct MeasuredConnection {
    numbers: (u64, u64),
    /// Per direction, the place in the capture whose packets count; `None`: all places.
    views: [Option<u32>; 2],
    flows: Vec<usize>,
}

/// Measures the connections that the survey selected; `run` is the capture's number.
pub(crate) fn measure(
    source: &Source,
    survey: &Survey,
    options: &Options,
    (study, run): (&Name, u32),
    watch: &mut Watch<'_>,
) -> Result<Measured, AnalyzeError> {
    let mut assignment = Assignment::new(survey, options, run);
    let mut measured = Measured {
        tables: Tables::default(),
        captured: CaptureTables::default(),
        flows: Vec::new(),
        unseen_flows: 0,
        rows_left_out: 0,
        segments_left_out: 0,
    };
    let mut edge = options.series;
    let mut stream = Stream::open(source)?;
    while let Some(item) = stream.next(watch)? {
        if item.now > edge {
            edge = assignment.sample(item.now, edge, options.series, &mut measured);
        }
        assignment.packet(&item, &mut measured.captured);
    }
    let end = stream.into_counts().length;
    for followed in &mut assignment.flows {
        followed.finish();
    }
    assignment.sample(end + options.series, edge, options.series, &mut measured);
    assignment.write(survey, (study, run), source, &mut measured);
    Ok(measured)
}

/// The flows, and the assignment of packets to them.
struct Assignment {
    by_key: FxHashMap<Key, Vec<MeasuredConnection>>,
    flows: Vec<Followed>,
    /// Per flow: index of its connection in the survey, and direction.
    of: Vec<(usize, usize)>,
}

impl Assignment {
    fn new(survey: &Survey, options: &Options, run: u32) -> Self {
        let mut assignment = Self { by_key: FxHashMap::default(), flows: Vec::new(), of: Vec::new() };
        let mut names = FxHashSet::default();
        for (place, summary) in survey.chosen.iter().enumerate() {
            let mut flows = Vec::new();
            for way in ways(summary) {
                let plain = format!("{} > {}", summary.key.source(way), summary.key.source(1 - way));
                let mut name: Name = plain.as_str().into();
                let mut number = 1;
                while !names.insert(name.clone()) {
                    number += 1;
                    name = format!("{plain} ({number})").into();
                }
                flows.push(assignment.flows.len());
                assignment.flows.push(Followed::new(summary, way, name, options, run));
                assignment.of.push((place, way));
            }
            let views = [summary.view(0), summary.view(1)];
            let connection = MeasuredConnection { numbers: summary.numbers, views, flows };
            match assignment.by_key.entry(summary.key) {
                Entry::Occupied(mut known) => known.get_mut().push(connection),
                Entry::Vacant(new) => drop(new.insert(vec![connection])),
            }
        }
        assignment.trace(survey, options.sequences, run);
        assignment
    }

    /// Enables time sequences for the largest TCP flows.
    fn trace(&mut self, survey: &Survey, count: usize, run: u32) {
        let mut largest: Vec<usize> = (0..self.flows.len()).collect();
        largest.sort_by_key(|flow| {
            let (place, way) = self.of[*flow];
            Reverse(survey.chosen[place].ways[way].carried())
        });
        let tcp = largest.into_iter().filter(|flow| matches!(self.flows[*flow], Followed::Tcp(_)));
        for number in tcp.take(count).collect::<Vec<_>>() {
            if let Followed::Tcp(flow) = &mut self.flows[number] {
                flow.trace = Some(SequenceTrace::new(run, flow.about.name.clone()));
            }
        }
    }

    #[inline]
    fn packet(&mut self, item: &Item, captured: &mut CaptureTables) {
        let Some(connections) = self.by_key.get(&item.key) else { return };
        let within = |c: &&MeasuredConnection| c.numbers.0 <= item.number && item.number <= c.numbers.1;
        let Some(connection) = connections.iter().find(within) else { return };
        if connection.views[item.way].is_some_and(|view| view != item.view) {
            return;
        }
        for flow in &connection.flows {
            match (&mut self.flows[*flow], item.packet.transport) {
                (Followed::Tcp(flow), Transport::Tcp(tcp)) => {
                    flow.packet(item.now, item.way, &tcp, item.packet.identification, &mut captured.losses);
                }
                (Followed::Udp(flow), Transport::Udp { payload, number, .. }) if flow.way == item.way => {
                    flow.packet(item.now, payload, number);
                }
                _ => {}
            }
        }
    }

    /// Writes the rows of all intervals that ended before `now`, beginning with the one that ends at `edge`; returns the next end.
    #[cold]
    fn sample(&mut self, now: Time, mut edge: Time, interval: Time, measured: &mut Measured) -> Time {
        while edge < now {
            let mut any = false;
            for flow in &mut self.flows {
                any |= !flow.is_told();
                let Some(row) = flow.series_row(edge) else { continue };
                if measured.tables.series.run.len() < MOST_ROWS {
                    measured.tables.series.push(row);
                } else {
                    measured.rows_left_out += 1;
                }
            }
            edge += interval;
            if !any {
                let whole = now.as_nanos() / interval.as_nanos().max(1);
                return Time::from_nanos((whole + 1) * interval.as_nanos()).max(edge);
            }
        }
        edge
    }

    /// Writes the rows of flows and connections.
    fn write(self, survey: &Survey, (study, run): (&Name, u32), source: &Source, measured: &mut Measured) {
        for (mut followed, (place, way)) in self.flows.into_iter().zip(self.of) {
            let summary = &survey.chosen[place];
            let node = |way: usize| summary.key.source(way).ip().to_string().into();
            let name = followed.name().clone();
            measured.flows.push((name.clone(), place, way));
            let mut row = FlowRow {
                study: study.clone(),
                engine: ENGINE.into(),
                from_node: node(way),
                to_node: node(1 - way),
                ..FlowRow::new(run, name)
            };
            match &mut followed {
                Followed::Tcp(flow) => {
                    row.kind = "bulk".into();
                    measured.unseen_flows += u64::from(flow.about.unseen.is_some());
                    write_tcp(flow, summary, &mut row);
                    let mut connection = connection_row(flow, summary, survey);
                    connection.capture = source.name.as_str().into();
                    flow.fill(&mut connection, &mut measured.captured);
                    if let Some(trace) = flow.trace.take() {
                        measured.segments_left_out += trace.write(&mut measured.captured.segments);
                    }
                    measured.captured.connections.push(connection);
                    flow.meter.write_flow(row, &mut measured.tables);
                }
                Followed::Udp(flow) => {
                    row.kind = "udp".into();
                    row.handshake_ms = summary.opening.length().map(Time::as_millis_f64);
                    row.set_outcome(Outcome::Completed);
                    let end = flow.meter.end().unwrap_or(flow.until);
                    flow.meter.fill(&mut row, end, flow.sent());
                    if let Some(version) = summary.quic {
                        measured.captured.quic.push(flow.quic_row(summary, version, &source.name));
                    }
                    flow.meter.write_flow(row, &mut measured.tables);
                }
            }
        }
    }
}

impl Followed {
    fn new(summary: &ConnectionSummary, way: usize, name: Name, options: &Options, run: u32) -> Self {
        let data = &summary.ways[way];
        let side = Side::of(summary, way);
        let by_acknowledgements =
            data.has_acknowledgements && (data.is_unseen() || !side.is_nearer_to_receiver(summary, way));
        let until = if by_acknowledgements { data.last_acknowledged } else { data.last_payload };
        let shortest = summary.reach(way).zip(summary.reach(1 - way)).map(|(there, back)| there + back);
        let size = if summary.key.is_udp() || data.is_unseen() { data.carried() } else { data.length };
        let measure = Measure {
            series: Some(options.series),
            startup: options.startup,
            steady: options.steady,
            goodput_bin: Time::from_secs(1),
            rtt_bin: Some(rtt_bin(shortest)),
            ..Measure::default()
        };
        let start = summary.opening.first_syn.unwrap_or(summary.first);
        let meter = Meter::new(start, &measure, Some(Amount::Size(Bytes::new(size))));
        if summary.key.is_udp() {
            let spins = summary.quic.is_some() && data.spin.use_() == SpinUse::Spins;
            return Self::Udp(Datagrams::new(name, run, way, until, meter, spins));
        }
        let about = About {
            name,
            run,
            way,
            side,
            round_trips: RoundTrips::of(summary, way, side),
            segment: segment(summary, way),
            shortest,
            window_scale: Some(&summary.ways[1 - way])
                .filter(|receiver| receiver.has_syn)
                .map(|receiver| receiver.window_scale.unwrap_or_default()),
            by_acknowledgements,
            has_acknowledgements: data.has_acknowledgements,
            until,
            unseen: data.is_unseen().then(|| data.carried()),
            beginning: data.number_before(),
        };
        Self::Tcp(CapturedFlow::new(about, meter))
    }

    fn series_row(&mut self, now: Time) -> Option<SeriesRow> {
        match self {
            Self::Tcp(flow) => flow.series_row(now),
            Self::Udp(flow) => flow.series_row(now),
        }
    }

    fn name(&self) -> &Name {
        match self {
            Self::Tcp(flow) => &flow.about.name,
            Self::Udp(flow) => &flow.name,
        }
    }

    fn is_told(&self) -> bool {
        match self {
            Self::Tcp(flow) => flow.is_told(),
            Self::Udp(flow) => flow.is_told(),
        }
    }

    fn finish(&mut self) {
        match self {
            Self::Tcp(flow) => flow.finish(),
            Self::Udp(flow) => flow.finish(),
        }
    }
}

/// Width of the bins of a flow's round trips: a twentieth of the shortest one, in steps of 1, 2 and 5.
fn rtt_bin(shortest: Option<Time>) -> Time {
    let wanted = shortest.map_or(u64::MAX, |shortest| shortest.as_micros() / 20);
    let width_us = [1000, 500, 200, 100, 50, 20].into_iter().find(|width| *width <= wanted);
    Time::from_micros(width_us.unwrap_or(10))
}

/// Directions of a connection that are flows: the one with more data, and the other if it carries enough data too.
fn ways(summary: &ConnectionSummary) -> impl Iterator<Item = usize> + '_ {
    let main = usize::from(summary.ways[1].carried() > summary.ways[0].carried());
    [main, 1 - main].into_iter().filter(move |way| {
        let (own, most) = (summary.ways[*way].carried(), summary.ways[main].carried());
        *way == main || (own >= MUCH && own * 10 >= most)
    })
}

fn write_tcp(flow: &mut CapturedFlow, summary: &ConnectionSummary, row: &mut FlowRow) {
    let end = flow.meter.end().unwrap_or(flow.about.until);
    flow.meter.fill(row, end, flow.sent());
    row.handshake_ms = summary.opening.length().map(Time::as_millis_f64);
    row.set_outcome(outcome(flow, summary));
    if flow.about.round_trips == RoundTrips::Handshake {
        let ms = row.handshake_ms;
        (row.rtt_min_ms, row.rtt_mean_ms, row.rtt_p50_ms) = (ms, ms, ms);
    }
}

/// Outcome of a connection, as far as the capture shows it.
fn outcome(flow: &CapturedFlow, summary: &ConnectionSummary) -> Outcome {
    let data = &summary.ways[flow.about.way];
    if data.has_fin && flow.received() >= data.length {
        Outcome::Completed
    } else if summary.reset {
        Outcome::Reset
    } else {
        Outcome::Stopped
    }
}

fn connection_row(flow: &CapturedFlow, summary: &ConnectionSummary, survey: &Survey) -> ConnectionRow {
    let about = &flow.about;
    let (data, back) = (&summary.ways[about.way], &summary.ways[1 - about.way]);
    let opening = &summary.opening;
    let by_data_sender = opening.way.map(|way| way == about.way);
    let ms = |time: Option<Time>| time.map(Time::as_millis_f64);
    let (to_sender, to_receiver) = match by_data_sender {
        Some(true) => (opening.to_opener(), opening.to_responder()),
        Some(false) => (opening.to_responder(), opening.to_opener()),
        None => (None, None),
    };
    ConnectionRow {
        run: about.run,
        flow: about.name.clone(),
        began_unix_s: (survey.counts.first_ns as f64) / 1e9 + flow.meter.start().as_secs_f64(),
        side: about.side.as_str().into(),
        rtt_by: about.round_trips.as_str().into(),
        opened_by: by_data_sender.map_or("", |by_sender| if by_sender { "from" } else { "to" }).into(),
        syn_packets: opening.syns,
        handshake_from_ms: ms(to_sender),
        handshake_to_ms: ms(to_receiver),
        answer_ms: ms(opening.first_answer()),
        mss_bytes: summary.ways.iter().filter_map(|way| way.mss).min().map(u32::from),
        window_scale: back.window_scale.map(u32::from),
        has_sack: data.sack_permitted && back.sack_permitted,
        has_timestamps: data.has_timestamps && back.has_timestamps,
        captured_packets: data.packets + back.packets,
        ended_by: match () {
            () if summary.reset => "reset",
            () if summary.is_closed() => "fin",
            () => "",
        }
        .into(),
        ..ConnectionRow::default()
    }
}

/// Name of the engine in results.
const ENGINE: &str = "capture";
/// Least payload that makes the direction with less data a flow of its own.
const MUCH: u64 = 100_000;
/// Rows of the series of one capture: nearly two months of one flow by the second.
const MOST_ROWS: usize = 5_000_000;
