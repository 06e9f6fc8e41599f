//! Observes a study's flows at the ends of its links.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use perigee_link::Link;
use perigee_results::{write_links, FlowId, LinkLog, Meter, Outcome, SeriesRow, Standing, Tables};
use perigee_sim::Logged;
use perigee_study::{read_link, FlowSpec, Run};
use perigee_units::Time;

use crate::link::driver::{BufferedPacket, Observer};
use crate::run::classifier::{Classified, Classifier, Content};
use crate::run::connection::ConnectionObserver;
use crate::run::population_observer::PopulationObserver;
use crate::run::probes::Probes;
use crate::run::proxies::Proxies;
use crate::run::quic::QuicReport;

/// The observer of a run.
pub(crate) struct RunObserver<'a> {
    run: &'a Run,
    flows: Vec<ObservedFlow<'a>>,
    classifier: Classifier,
    logs: Vec<LinkLog>,
    pub(crate) tables: Tables,
    proxies: &'a mut Proxies<'a>,
    next_sample: Time,
    /// Whether a flow has failed, so that the run stops.
    broken: &'a AtomicBool,
    progress: &'a mut dyn FnMut(&Standing) -> ControlFlow<()>,
    next_progress: Time,
    pub(crate) cancelled: bool,
}

/// One flow.
struct ObservedFlow<'a> {
    spec: &'a FlowSpec,
    start: Time,
    observer: FlowObserver,
    /// Whether the last row of its series is written.
    is_written: bool,
}

/// The observer of one flow.
pub(crate) enum FlowObserver {
    Connection(Box<ConnectionObserver>),
    Population(Box<PopulationObserver>),
    Probes(Box<Probes>),
    /// It measures itself.
    Quic(Arc<QuicReport>),
}

impl<'a> RunObserver<'a> {
    /// The observer of a run; `observers` are those of its flows.
    pub(crate) fn new(
        run: &'a Run,
        observers: Vec<FlowObserver>,
        proxies: &'a mut Proxies<'a>,
        broken: &'a AtomicBool,
        progress: &'a mut dyn FnMut(&Standing) -> ControlFlow<()>,
    ) -> Self {
        let measure = &run.scenario.measure;
        let flows = run.scenario.flows.iter().zip(observers);
        let flows = flows.map(|(spec, observer)| ObservedFlow {
            spec,
            start: spec.start_in(run.seed),
            observer,
            is_written: false,
        });
        let next_sample = measure.series.filter(|interval| *interval > Time::ZERO).unwrap_or(Time::MAX);
        Self {
            run,
            flows: flows.collect(),
            classifier: Classifier::new(&run.scenario),
            logs: run.scenario.links.iter().map(|link| LinkLog::new(link.name.clone(), measure.series)).collect(),
            tables: Tables::default(),
            proxies,
            next_sample,
            broken,
            progress,
            next_progress: Time::ZERO,
            cancelled: false,
        }
    }

    /// A deviation of a proxy from the study.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.proxies.trouble()
    }

    /// Writes the remaining rows, and returns the tables and the logs of QUIC's ends; the run ended at `end`.
    pub(crate) fn finish(mut self, end: Time, mut link: impl FnMut(usize, &mut LinkLog)) -> (Tables, Vec<Logged>) {
        for (direction, log) in self.logs.iter_mut().enumerate() {
            link(direction, log);
        }
        let mut qlogs = Vec::new();
        for flow in &self.flows {
            qlogs.extend(flow.write(self.run, end, &mut self.tables));
        }
        write_links(self.run.index, &self.logs, &mut self.tables);
        (self.tables, qlogs)
    }

    /// The flow of a packet, and its classification.
    fn flow_of(&mut self, packet: &[u8]) -> Option<(&mut ObservedFlow<'a>, Classified)> {
        let classified = self.classifier.classify(packet)?;
        Some((&mut self.flows[classified.flow], classified))
    }

    fn sample(&mut self, now: Time) {
        let mut rows = Vec::new();
        for flow in &mut self.flows {
            if flow.start >= now || flow.is_written {
                continue;
            }
            let id = FlowId { run: self.run.index, flow: &flow.spec.name, leg: None };
            flow.is_written = flow.ended();
            flow.write_series(now, id, &mut rows);
        }
        for row in rows {
            self.tables.series.push(row);
        }
        if !self.run.scenario.proxies.is_empty() {
            self.proxies.sample(now, &mut self.tables.proxies);
        }
    }

    /// Progress of the run.
    fn standing(&self, now: Time) -> Standing {
        let share = |flow: &ObservedFlow<'_>| match &flow.observer {
            _ if flow.ended() => 1.0,
            FlowObserver::Connection(connection) => connection.share_done(now),
            FlowObserver::Population(population) => population.ledger.progress(now),
            FlowObserver::Probes(probes) => probes.share_done(now),
            FlowObserver::Quic(report) => report.progress(),
        };
        Standing::new(now, self.flows.iter().map(|flow| (share(flow), flow.received())))
    }
}

impl Observer for RunObserver<'_> {
    fn before(&mut self, direction: usize, now: Time, link: &mut Link<BufferedPacket>) {
        self.logs[direction].advance(now, |from, to| read_link(link, from, to));
    }

    fn offered(&mut self, direction: usize, now: Time, packet: &[u8]) {
        let node = self.run.scenario.links[direction].from;
        let Some((flow, classified)) = self.flow_of(packet) else { return };
        let Classified { content, is_forward: forward, place, .. } = classified;
        let first = node == if forward { flow.spec.from } else { flow.spec.to };
        match (&mut flow.observer, content) {
            (FlowObserver::Connection(connection), Content::Segment(segment)) => {
                if first {
                    connection.offered(now, forward, &segment);
                }
                connection.legs.offered(node, now, forward, &segment);
            }
            (FlowObserver::Population(population), Content::Segment(segment)) if first => {
                population.offered(now, forward, place, &segment);
            }
            (FlowObserver::Probes(probes), Content::Probe(mark)) => probes.offered(now, forward && first, mark),
            _ => {}
        }
    }

    fn dropped(&mut self, _direction: usize, now: Time, packet: &[u8]) {
        let Some((flow, Classified { content: Content::Probe(mark), .. })) = self.flow_of(packet) else { return };
        if let FlowObserver::Probes(probes) = &mut flow.observer {
            probes.dropped(now, mark);
        }
    }

    fn released(&mut self, direction: usize, now: Time, packet: &[u8]) {
        let node = self.run.scenario.links[direction].to;
        let Some((flow, classified)) = self.flow_of(packet) else { return };
        let Classified { content, is_forward: forward, place, .. } = classified;
        let last = node == if forward { flow.spec.to } else { flow.spec.from };
        match (&mut flow.observer, content) {
            (FlowObserver::Connection(connection), Content::Segment(segment)) => {
                // The legs first: the flow may end with this segment, and its legs with it.
                connection.legs.released(node, now, forward, &segment);
                if last {
                    connection.released(now, forward, &segment);
                }
            }
            (FlowObserver::Population(population), Content::Segment(segment)) if last => {
                population.released(now, forward, place, &segment);
            }
            (FlowObserver::Probes(probes), Content::Probe(mark)) => {
                probes.released(now, last && forward == probes.ends_forward(), mark, packet.len());
            }
            _ => {}
        }
    }

    fn turn(&mut self, now: Time) -> ControlFlow<(), Option<Time>> {
        self.proxies.tell(now);
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
            self.proxies.look();
            let standing = self.standing(now);
            if (self.progress)(&standing).is_break() {
                self.cancelled = true;
                return ControlFlow::Break(());
            }
        }
        if self.flows.iter().all(ObservedFlow::ended) || now >= self.run.scenario.time_limit {
            for flow in &mut self.flows {
                flow.cut_off(now.min(self.run.scenario.time_limit));
            }
            self.sample(now);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(Some(wake.min(self.next_progress)))
    }
}

impl ObservedFlow<'_> {
    /// Its meter, or the report of a flow that has one itself.
    fn meter(&self) -> Result<&Meter, &QuicReport> {
        match &self.observer {
            FlowObserver::Connection(connection) => Ok(&connection.meter),
            FlowObserver::Population(population) => Ok(population.ledger.meter()),
            FlowObserver::Probes(probes) => Ok(probes.meter()),
            FlowObserver::Quic(report) => Err(report),
        }
    }

    fn ended(&self) -> bool {
        self.meter().map_or_else(QuicReport::has_ended, |meter| meter.end().is_some())
    }

    fn received(&self) -> u64 {
        self.meter().map_or_else(QuicReport::received, Meter::received)
    }

    /// Handles what is due; returns the time of the next call.
    fn step(&mut self, now: Time) -> Time {
        match &mut self.observer {
            FlowObserver::Connection(connection) if connection.meter.end().is_none() => connection.step(now),
            FlowObserver::Population(population) if !population.ledger.has_ended() => population.step(now),
            FlowObserver::Probes(probes) if probes.meter().end().is_none() => probes.step(now),
            _ => Time::MAX,
        }
    }

    /// Adds the rows of the series that end at `now`.
    fn write_series(&mut self, now: Time, id: FlowId<'_>, rows: &mut Vec<SeriesRow>) {
        match &mut self.observer {
            FlowObserver::Connection(connection) => connection.write_series(now, id, rows),
            FlowObserver::Population(population) => rows.extend(population.series_row(now, id)),
            FlowObserver::Probes(probes) => rows.extend(probes.series_row(now, id)),
            FlowObserver::Quic(_) => {}
        }
    }

    /// Ends the flow at the run's time limit.
    fn cut_off(&mut self, now: Time) {
        if self.ended() || now <= self.start {
            return;
        }
        match &mut self.observer {
            FlowObserver::Connection(connection) => connection.finish(now),
            FlowObserver::Population(population) => population.finish(now, Outcome::TimeLimit),
            FlowObserver::Probes(probes) => probes.cut_off(now),
            FlowObserver::Quic(_) => {}
        }
    }

    /// Writes the flow's rows, and returns the logs of its ends; the run ended at `end`.
    fn write(&self, run: &Run, end: Time, tables: &mut Tables) -> Vec<Logged> {
        let mut row = run.flow_row("emu", self.spec);
        if self.start >= end {
            row.start_s = self.start.as_secs_f64();
            tables.flows.push(row);
            return Vec::new();
        }
        match &self.observer {
            FlowObserver::Connection(connection) => connection.write(run, self.spec, end, tables),
            FlowObserver::Population(population) => population.ledger.write(row, end, tables),
            FlowObserver::Probes(probes) => probes.write(row, end, tables),
            FlowObserver::Quic(report) => {
                let (measured, qlogs) = report.take().unwrap_or_default();
                tables.append(measured);
                return qlogs;
            }
        }
        Vec::new()
    }
}

/// Interval of the progress callback.
const PROGRESS: Time = Time::from_millis(50);
