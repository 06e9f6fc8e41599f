//! The second reading of a capture: its largest connections are measured, as every engine measures flows.

use std::collections::hash_map::Entry;

use perigee_capture::Transport;
use perigee_measure::{steady_of_size, Meter};
use perigee_study::results::{CaptureTables, ConnectionRow, FlowRow, Name, Outcome, Tables};
use perigee_study::{Measure, Startup};
use perigee_units::{Bytes, Ratio, Time};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::datagrams::Datagrams;
use crate::error::AnalyzeError;
use crate::flow::{About, Flow};
use crate::key::Key;
use crate::place::{segment, RoundTrips, Side};
use crate::stream::{Item, Source, Stream, Watch};
use crate::survey::{Seen, Survey};

/// What to write down.
#[derive(Clone, Debug)]
pub struct Options {
    /// Interval of the series.
    pub series: Time,
    /// Where the startup phase ends; none: there is none.
    pub startup: Option<Startup>,
    /// The steady phase is this last share of a flow's bytes; none: there is none.
    pub steady: Option<Ratio>,
    /// Connections that are measured of each capture: the largest ones.
    pub most: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { series: Time::from_secs(1), startup: None, steady: Ratio::new(0.5), most: 100 }
    }
}

/// The flows of a capture.
pub(crate) struct Measured {
    pub(crate) tables: Tables,
    pub(crate) captured: CaptureTables,
    /// Name of each flow, with the place of its connection among the survey's chosen, and its way.
    pub(crate) flows: Vec<(Name, usize, usize)>,
    /// Rows of the series that were left out for want of room.
    pub(crate) rows_left_out: u64,
}

/// A flow of either protocol.
#[allow(clippy::large_enum_variant, reason = "there are at most a few hundred, nearly all of them large")]
enum Followed {
    Tcp(Flow),
    Udp(Datagrams),
}

/// A connection that is measured.
struct Connection {
    numbers: (u64, u64),
    /// Of each way, where its packets are taken from; none: everywhere.
    views: [Option<u32>; 2],
    flows: Vec<usize>,
}

/// Measures what the survey has chosen; `run` is the capture's number.
pub(crate) fn measure(
    source: &Source,
    survey: &Survey,
    options: &Options,
    (study, run): (&Name, u32),
    watch: &mut Watch<'_>,
) -> Result<Measured, AnalyzeError> {
    let mut plan = Plan::new(survey, options, run);
    let mut measured =
        Measured { tables: Tables::default(), captured: CaptureTables::default(), flows: Vec::new(), rows_left_out: 0 };
    let mut edge = options.series;
    let mut stream = Stream::open(source)?;
    while let Some(item) = stream.next(watch)? {
        if item.now > edge {
            edge = plan.sample(item.now, edge, options.series, &mut measured);
        }
        plan.packet(&item, &mut measured.captured);
    }
    let end = stream.into_counts().length;
    for followed in &mut plan.flows {
        followed.finish();
    }
    plan.sample(end + options.series, edge, options.series, &mut measured);
    plan.write(survey, (study, run), source, &mut measured);
    Ok(measured)
}

/// The flows, and which packets are theirs.
struct Plan {
    by_key: FxHashMap<Key, Vec<Connection>>,
    flows: Vec<Followed>,
    /// By flow: the place of its connection in the survey, and its way.
    of: Vec<(usize, usize)>,
}

impl Plan {
    fn new(survey: &Survey, options: &Options, run: u32) -> Self {
        let mut plan = Self { by_key: FxHashMap::default(), flows: Vec::new(), of: Vec::new() };
        let mut names = FxHashSet::default();
        for (place, seen) in survey.chosen.iter().enumerate() {
            let mut flows = Vec::new();
            for way in ways(seen) {
                let plain = format!("{} > {}", seen.key.source(way), seen.key.source(1 - way));
                let mut name: Name = plain.as_str().into();
                let mut number = 1;
                while !names.insert(name.clone()) {
                    number += 1;
                    name = format!("{plain} ({number})").into();
                }
                flows.push(plan.flows.len());
                plan.flows.push(Followed::new(seen, way, name, options, run));
                plan.of.push((place, way));
            }
            let views = [seen.view(0), seen.view(1)];
            let connection = Connection { numbers: seen.numbers, views, flows };
            match plan.by_key.entry(seen.key) {
                Entry::Occupied(mut known) => known.get_mut().push(connection),
                Entry::Vacant(new) => drop(new.insert(vec![connection])),
            }
        }
        plan
    }

    #[inline]
    fn packet(&mut self, item: &Item, captured: &mut CaptureTables) {
        let Some(connections) = self.by_key.get(&item.key) else { return };
        let within = |c: &&Connection| c.numbers.0 <= item.number && item.number <= c.numbers.1;
        let Some(connection) = connections.iter().find(within) else { return };
        if connection.views[item.way].is_some_and(|view| view != item.view) {
            return;
        }
        for flow in &connection.flows {
            match (&mut self.flows[*flow], item.packet.transport) {
                (Followed::Tcp(flow), Transport::Tcp(tcp)) => {
                    flow.packet(item.now, item.way, &tcp, item.packet.identification, &mut captured.losses);
                }
                (Followed::Udp(flow), Transport::Udp { payload, .. }) if flow.way == item.way => {
                    flow.packet(item.now, payload);
                }
                _ => {}
            }
        }
    }

    /// Writes the rows of all intervals that ended before `now`, the next of them at `edge`; when the one after ends.
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
            let seen = &survey.chosen[place];
            let node = |way: usize| seen.key.source(way).ip().to_string().into();
            let mut row = FlowRow {
                study: study.clone(),
                engine: ENGINE.into(),
                run,
                point: "{}".into(),
                from_node: node(way),
                to_node: node(1 - way),
                cc_params: "{}".into(),
                ..FlowRow::default()
            };
            match &mut followed {
                Followed::Tcp(flow) => {
                    row.flow = flow.about.name.clone();
                    row.kind = "bulk".into();
                    write_tcp(flow, seen, &mut row);
                    let mut connection = connection_row(flow, seen, survey);
                    connection.capture = source.name.as_str().into();
                    flow.fill(&mut connection, &mut measured.captured.losses);
                    measured.captured.connections.push(connection);
                    flow.meter.write_round_trips(run, &row.flow, &mut measured.tables.rtt);
                }
                Followed::Udp(flow) => {
                    row.flow = flow.name.clone();
                    row.kind = "udp".into();
                    let end = flow.meter.end().unwrap_or(flow.until);
                    flow.meter.fill(&mut row, end, flow.sent());
                    row.retransmitted_packets = None;
                    row.steady_retransmitted_packets = None;
                    row.startup_retransmitted_packets = None;
                    row.set_outcome(Outcome::Completed);
                }
            }
            measured.flows.push((row.flow.clone(), place, way));
            measured.tables.flows.push(row);
        }
    }
}

impl Followed {
    fn new(seen: &Seen, way: usize, name: Name, options: &Options, run: u32) -> Self {
        let data = &seen.ways[way];
        let side = Side::of(seen, way);
        let by_acknowledgements = data.has_acknowledgements && !side.is_nearer_to_receiver(seen, way);
        let until = if by_acknowledgements { data.last_acknowledged } else { data.last_payload };
        let size = if seen.key.is_udp() { data.payload } else { data.length };
        let measure = Measure {
            series: Some(options.series),
            startup: options.startup,
            steady: options.steady,
            goodput_bin: Time::from_secs(1),
            rtt_bin: Some(Time::from_millis(1)),
            milestones: Vec::new(),
            events: false,
            pcap: Vec::new(),
        };
        let steady = options.steady.map(|share| steady_of_size(Bytes::new(size), share.as_f64()));
        let meter = Meter::new(seen.opening.first_syn.unwrap_or(seen.first), &measure, steady);
        if seen.key.is_udp() {
            return Self::Udp(Datagrams::new(name, run, way, until, meter));
        }
        let shortest = seen.reach(way).zip(seen.reach(1 - way)).map(|(there, back)| there + back);
        let about = About {
            name,
            run,
            way,
            side,
            round_trips: RoundTrips::of(seen, way, side),
            segment: segment(seen, way),
            shortest,
            window_scale: seen.ways[1 - way].window_scale.unwrap_or_default(),
            by_acknowledgements,
            has_acknowledgements: data.has_acknowledgements,
            until,
            beginning: data.beginning.unwrap_or_default(),
        };
        Self::Tcp(Flow::new(about, meter))
    }

    fn series_row(&mut self, now: Time) -> Option<perigee_study::results::SeriesRow> {
        match self {
            Self::Tcp(flow) => flow.series_row(now),
            Self::Udp(flow) => flow.series_row(now),
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

/// The ways of a connection that are flows: the one with most data, and the other where it has much too.
fn ways(seen: &Seen) -> impl Iterator<Item = usize> + '_ {
    let main = usize::from(seen.ways[1].payload > seen.ways[0].payload);
    [main, 1 - main].into_iter().filter(move |way| {
        let (own, most) = (seen.ways[*way].payload, seen.ways[main].payload);
        *way == main || (own >= MUCH && own * 10 >= most)
    })
}

fn write_tcp(flow: &mut Flow, seen: &Seen, row: &mut FlowRow) {
    let end = flow.meter.end().unwrap_or(flow.about.until);
    flow.meter.fill(row, end, flow.sent());
    row.handshake_ms = seen.opening.length().map(Time::as_millis_f64);
    row.set_outcome(outcome(flow, seen));
    if flow.about.round_trips == RoundTrips::Handshake {
        let ms = row.handshake_ms;
        (row.rtt_min_ms, row.rtt_mean_ms, row.rtt_p50_ms) = (ms, ms, ms);
    }
}

/// How a connection ended, as far as its capture shows it.
fn outcome(flow: &Flow, seen: &Seen) -> Outcome {
    let data = &seen.ways[flow.about.way];
    if data.has_fin && flow.received() >= data.length {
        Outcome::Completed
    } else if seen.reset {
        Outcome::Reset
    } else {
        Outcome::Stopped
    }
}

fn connection_row(flow: &Flow, seen: &Seen, survey: &Survey) -> ConnectionRow {
    let about = &flow.about;
    let (data, back) = (&seen.ways[about.way], &seen.ways[1 - about.way]);
    let opening = &seen.opening;
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
        mss_bytes: seen.ways.iter().filter_map(|way| way.mss).min().map(u32::from),
        window_scale: back.window_scale.map(u32::from),
        has_sack: data.sack_permitted && back.sack_permitted,
        has_timestamps: data.has_timestamps && back.has_timestamps,
        captured_packets: data.packets + back.packets,
        ended_by: match () {
            () if seen.reset => "reset",
            () if seen.is_closed() => "fin",
            () => "",
        }
        .into(),
        ..ConnectionRow::default()
    }
}

/// As the results call it.
const ENGINE: &str = "capture";
/// Payload of the lesser way from which it is a flow of its own.
const MUCH: u64 = 100_000;
/// Rows of the series of one capture: nearly two months of one flow by the second.
const MOST_ROWS: usize = 5_000_000;
