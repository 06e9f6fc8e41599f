//! What is seen of a study's flows at the ends of its links.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use perigee_link::Link;
use perigee_measure::{blank_row, LinkLog, Meter, Of};
use perigee_study::results::{ExchangeRow, SeriesRow, Tables};
use perigee_study::{FlowSpec, Run};
use perigee_units::Time;

use crate::apps::Told;
use crate::connection::Connection;
use crate::driver::{Observer, Under};
use crate::flows::{address_of, Carried, FIRST_PORT};
use crate::label::{Content, Label};
use crate::probes::Probes;

/// The observer of a run.
pub(crate) struct Watch<'a> {
    run: &'a Run,
    flows: Vec<Flow<'a>>,
    logs: Vec<LinkLog>,
    pub(crate) tables: Tables,
    next_sample: Time,
    /// A flow cannot be carried: what the others do is of no use.
    broken: &'a AtomicBool,
    progress: &'a mut dyn FnMut(f64) -> ControlFlow<()>,
    next_progress: Time,
    pub(crate) cancelled: bool,
}

/// One flow.
struct Flow<'a> {
    spec: &'a FlowSpec,
    start: Time,
    kind: Kind<'a>,
    /// The last row of its series is written.
    told: bool,
}

enum Kind<'a> {
    Connection(Box<Connection<'a>>),
    Probes(Box<Probes<'a>>),
}

impl<'a> Watch<'a> {
    /// Of a run's flows, each with what its application tells.
    pub(crate) fn new(
        run: &'a Run,
        told: &'a [Told],
        broken: &'a AtomicBool,
        progress: &'a mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Self {
        let measure = &run.scenario.measure;
        let flows = run.scenario.flows.iter().zip(told).map(|(spec, told)| {
            let start = spec.start_in(run.seed);
            let kind = match Carried::of(&spec.traffic) {
                Carried::Connection(tcp, app) => {
                    Kind::Connection(Box::new(Connection::new(start, (tcp, app), measure, told)))
                }
                Carried::Packets(pace, packet) => {
                    let address = address_of(spec, spec.to);
                    Kind::Probes(Box::new(Probes::new(start, (pace, packet), address, measure, &told.sent)))
                }
            };
            Flow { spec, start, kind, told: false }
        });
        let next_sample = measure.series.filter(|interval| *interval > Time::ZERO).unwrap_or(Time::MAX);
        Self {
            run,
            flows: flows.collect(),
            logs: run.scenario.links.iter().map(|_| LinkLog::new(measure.series)).collect(),
            tables: Tables::default(),
            next_sample,
            broken,
            progress,
            next_progress: Time::ZERO,
            cancelled: false,
        }
    }

    /// Writes what is left to write; the run ended at `end`.
    pub(crate) fn finish(mut self, end: Time, mut link: impl FnMut(usize, &mut LinkLog)) -> Tables {
        for (way, log) in self.logs.iter_mut().enumerate() {
            link(way, log);
        }
        for flow in &self.flows {
            flow.write(self.run, end, &mut self.tables);
        }
        perigee_measure::write_links(self.run.index, &self.run.scenario, &self.logs, &mut self.tables);
        self.tables
    }

    /// The flow of a packet, and what is of interest of it.
    fn flow_of(&mut self, packet: &[u8]) -> Option<(&mut Flow<'a>, Content, bool)> {
        let label = Label::read(packet)?;
        let number = label.ports.into_iter().find_map(|port| {
            let number = usize::from(port.checked_sub(FIRST_PORT)?);
            (number < self.flows.len()).then_some(number)
        })?;
        let flow = &mut self.flows[number];
        let forward = label.source == address_of(flow.spec, flow.spec.from);
        Some((flow, label.content, forward))
    }

    fn sample(&mut self, now: Time) {
        for flow in &mut self.flows {
            if flow.start >= now || flow.told {
                continue;
            }
            let of = Of { run: self.run.index, flow: &flow.spec.name };
            flow.told = flow.ended();
            if let Some(row) = flow.series_row(now, of) {
                self.tables.series.push(row);
            }
        }
    }

    /// How far the run is: the mean of its flows.
    fn share_done(&self, now: Time) -> f64 {
        let share = |flow: &Flow<'_>| match &flow.kind {
            _ if flow.ended() => 1.0,
            Kind::Connection(connection) => connection.share_done(now),
            Kind::Probes(probes) => probes.share_done(now),
        };
        (self.flows.iter().map(share).sum::<f64>() / self.flows.len().max(1) as f64).clamp(0.0, 1.0)
    }
}

impl Observer for Watch<'_> {
    fn before(&mut self, way: usize, now: Time, link: &mut Link<Under>) {
        self.logs[way].arrival(now, link);
    }

    fn offered(&mut self, way: usize, now: Time, packet: &[u8]) {
        let Some((flow, content, forward)) = self.flow_of(packet) else { return };
        let path = if forward { &flow.spec.forward } else { &flow.spec.back };
        let first = path.first() == Some(&(way as u32));
        match (&mut flow.kind, content) {
            (Kind::Connection(connection), Content::Segment(segment)) if first => {
                connection.offered(now, forward, &segment);
            }
            (Kind::Probes(probes), Content::Probe(mark)) => probes.offered(now, forward && first, mark),
            _ => {}
        }
    }

    fn dropped(&mut self, _way: usize, now: Time, packet: &[u8]) {
        if let Some((Flow { kind: Kind::Probes(probes), .. }, Content::Probe(mark), _)) = self.flow_of(packet) {
            probes.dropped(now, mark);
        }
    }

    fn released(&mut self, way: usize, now: Time, packet: &[u8]) {
        let Some((flow, content, forward)) = self.flow_of(packet) else { return };
        let path = if forward { &flow.spec.forward } else { &flow.spec.back };
        let last = path.last() == Some(&(way as u32));
        match (&mut flow.kind, content) {
            (Kind::Connection(connection), Content::Segment(segment)) if last => {
                connection.released(now, forward, &segment);
            }
            (Kind::Probes(probes), Content::Probe(mark)) => {
                probes.released(now, last && forward == probes.ends_forward(), mark);
            }
            _ => {}
        }
    }

    fn turn(&mut self, now: Time) -> ControlFlow<(), Option<Time>> {
        let mut wake = self.next_sample.min(self.run.scenario.time_limit);
        for flow in &mut self.flows {
            wake = wake.min(flow.step(now));
        }
        if now >= self.next_sample {
            let at = self.next_sample;
            self.sample(at);
            self.next_sample += self.run.scenario.measure.series.unwrap_or(Time::MAX);
        }
        if self.broken.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        if now >= self.next_progress {
            self.next_progress = now + PROGRESS;
            let share = self.share_done(now);
            if (self.progress)(share).is_break() {
                self.cancelled = true;
                return ControlFlow::Break(());
            }
        }
        if self.flows.iter().all(Flow::ended) || now >= self.run.scenario.time_limit {
            for flow in &mut self.flows {
                flow.cut_off(now.min(self.run.scenario.time_limit));
            }
            self.sample(now);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(Some(wake.min(self.next_progress)))
    }
}

impl Flow<'_> {
    fn meter(&self) -> &Meter {
        match &self.kind {
            Kind::Connection(connection) => &connection.meter,
            Kind::Probes(probes) => &probes.meter,
        }
    }

    fn ended(&self) -> bool {
        self.meter().end().is_some()
    }

    /// What is due; when it has to be looked at again.
    fn step(&mut self, now: Time) -> Time {
        match &mut self.kind {
            Kind::Connection(connection) if connection.meter.end().is_none() => connection.step(now),
            Kind::Probes(probes) if probes.meter.end().is_none() => probes.step(now),
            _ => Time::MAX,
        }
    }

    fn series_row(&mut self, now: Time, of: Of<'_>) -> Option<SeriesRow> {
        match &mut self.kind {
            Kind::Connection(connection) => connection.series_row(now, of),
            Kind::Probes(probes) => probes.series_row(now, of),
        }
    }

    /// The run's time is up.
    fn cut_off(&mut self, now: Time) {
        if self.ended() || now <= self.start {
            return;
        }
        match &mut self.kind {
            Kind::Connection(connection) => connection.finish(now),
            Kind::Probes(probes) => probes.cut_off(now),
        }
    }

    /// Writes all that is known of it; the run ended at `end`.
    fn write(&self, run: &Run, end: Time, tables: &mut Tables) {
        let (index, name) = (run.index, &self.spec.name);
        let mut row = blank_row("emu", run, self.spec);
        if self.start >= end {
            row.start_s = self.start.as_secs_f64();
            tables.flows.push(row);
            return;
        }
        let until = self.meter().end().unwrap_or(end);
        let blank = ExchangeRow {
            run: index,
            flow: name.clone(),
            number: 0,
            start_s: 0.0,
            request_bytes: 0,
            response_bytes: 0,
            duration_ms: None,
        };
        match &self.kind {
            Kind::Connection(connection) => {
                connection.fill(&mut row, until);
                if let Some(requests) = connection.requests() {
                    requests.write(&blank, &mut tables.exchanges);
                }
            }
            Kind::Probes(probes) => {
                probes.fill(&mut row, until);
                probes.write_exchanges(&blank, &mut tables.exchanges);
            }
        }
        self.meter().write_round_trips(index, name, &mut tables.rtt);
        for milestone in self.meter().milestones(index, name) {
            tables.milestones.push(milestone);
        }
        tables.flows.push(row);
    }
}

/// How often it is asked whether to go on.
const PROGRESS: Time = Time::from_millis(50);
