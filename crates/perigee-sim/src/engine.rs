//! The event loop.

use std::ops::ControlFlow;

use perigee_results::{write_links, FlowId, Outcome, ProxyRow, Standing, Tables};
use perigee_study::{FlowSpec, Run, Scenario, Traffic};
use perigee_traffic::End;
use perigee_units::Time;

use crate::carriage::Carriage;
use crate::checks;
use crate::datagram_flow::DatagramFlow;
use crate::flow::Flow;
use crate::hop::Departure;
use crate::network::Network;
use crate::packet::{NetPacket, Parcel, Stored};
use crate::population_flow::PopulationFlow;
use crate::proxy::{Proxy, ProxyState};
use crate::result::{Captured, RunResult, SimError};
use crate::session_flow::SessionFlow;
use crate::shaper::{Shapers, INTERVAL};
use crate::world::{AddedSource, FlowStart, LegEnd, LegOf, PopulationEvent, RunLimits, World};

/// A run in progress.
///
/// Event sources, in their order at one instant: links, endpoints (two per leg), instants of flows, the sampling of the series, the
/// time limit, route changes, divisions of links, and sources that populations add during the run.
pub(crate) struct Engine<'a> {
    run: &'a Run,
    scenario: &'a Scenario,
    pub(crate) world: World,
    flows: Vec<Flow<'a>>,
    /// Flows that have started and whose series continues.
    live: Vec<u32>,
    pub(crate) tables: Tables,
    sources: FirstSources,
    shapers: Shapers,
    pub(crate) events: u64,
    pub(crate) latest: Time,
}

/// First number of each kind of event source; links start at 0.
#[derive(Clone, Copy)]
struct FirstSources {
    endpoints: u32,
    instants: u32,
    sampling: u32,
    limit: u32,
    routes: u32,
    divisions: u32,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(run: &'a Run, carriage: Carriage) -> Result<Self, SimError> {
        let scenario = &*run.scenario;
        scenario.flows.iter().try_for_each(|flow| check_ways(scenario, flow).and_then(|()| check_loaded(flow)))?;
        #[cfg(feature = "quic")]
        crate::quic::check(run)?;
        #[cfg(not(feature = "quic"))]
        if let Some(flow) = scenario.flows.iter().find(|flow| flow.traffic.quic().is_some()) {
            return Err(SimError::NoQuic(flow.name.to_string()));
        }
        let shapers = Shapers::new(scenario);
        // A proxy that owns a queue looks at what its link has been offered by now.
        let carriage = Carriage { cut_through: carriage.cut_through && shapers.is_empty(), ..carriage };
        let mut network = Network::new(scenario, run.seed, carriage);
        let flows = scenario.flows.len();
        let first_legs = (0..flows as u32).map(|flow| LegOf { flow, leg: 0 });
        let further = scenario.further_legs().map(|(flow, leg, _)| LegOf { flow, leg });
        let connections: Vec<_> = first_legs.chain(further).collect();
        let queue = &mut network.queue;
        let sources = FirstSources {
            endpoints: queue.add_sources(2 * connections.len()),
            instants: queue.add_sources(flows),
            sampling: queue.add_sources(1),
            limit: queue.add_sources(1),
            routes: queue.add_sources(1),
            divisions: queue.add_sources(1),
        };
        let interval = scenario.measure.series.filter(|interval| *interval > Time::ZERO);
        let starts: Vec<Time> = scenario.flows.iter().map(|flow| flow.start_in(run.seed)).collect();
        for (source, start) in (sources.instants..).zip(&starts) {
            queue.set(source, *start);
        }
        if let Some(interval) = interval {
            queue.set(sources.sampling, interval);
        }
        queue.set(sources.limit, scenario.time_limit);
        if !shapers.is_empty() {
            queue.set(sources.divisions, INTERVAL);
        }
        if let Some(at) = network.next_route_change() {
            network.queue.set(sources.routes, at);
        }
        let proxies = scenario.proxies.iter().map(Proxy::new).collect();
        let limits = RunLimits { time_limit: scenario.time_limit, interval, fast_paths: carriage.fast_paths };
        let world = World::new(network, proxies, flows, connections, limits);
        let flows = starts.into_iter().map(Flow::Pending).collect();
        Ok(Self {
            run,
            scenario,
            world,
            flows,
            live: Vec::new(),
            tables: Tables::default(),
            sources,
            shapers,
            events: 0,
            latest: Time::ZERO,
        })
    }

    /// Processes all events and returns the result, provided that the run has kept the simulator's laws.
    pub(crate) fn run(mut self, progress: &mut dyn FnMut(&Standing) -> ControlFlow<()>) -> Result<RunResult, SimError> {
        self.carry_out(progress)?;
        self.check()?;
        Ok(self.finish())
    }

    pub(crate) fn carry_out(&mut self, progress: &mut dyn FnMut(&Standing) -> ControlFlow<()>) -> Result<(), SimError> {
        let step = EVENTS_PER_PROGRESS.max(self.flows.len() as u64 * 4);
        let mut report_at = self.events + step;
        let mut buffer = NetPacket::default();
        while let Some((now, source)) = self.world.network.queue.first() {
            if now > self.world.stop {
                break;
            }
            if source < self.sources.endpoints {
                match self.world.network.deliver(now, source, &mut buffer) {
                    Departure::Packet => self.at_destination(now, source, &mut buffer),
                    Departure::Dropped { at } => self.packet_dropped(at, &buffer.stored),
                    Departure::Nothing => {}
                }
            } else if source > self.sources.divisions {
                self.added_event(now, source, &mut buffer);
            } else {
                self.event(now, source);
            }
            self.latest = self.latest.max(now);
            self.events += 1;
            if self.events >= report_at {
                report_at += step;
                if progress(&self.standing(self.latest)).is_break() {
                    return Err(SimError::Cancelled);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<(), SimError> {
        let network = &self.world.network;
        let mut held = vec![0; self.flows.len()];
        network.held_ways().for_each(|way| held[self.world.connection(way / 2).flow as usize] += 1);
        let of_flow = |((flow, held), spec): ((&Flow<'_>, u64), &FlowSpec)| {
            flow.broken(held, &network.queue).map(|broken| format!("flow `{}` {broken}", spec.name))
        };
        let kept = network.payloads.len() as u64;
        let known: u64 = self.flows.iter().map(Flow::payloads).sum();
        let leaked = (kept != known).then(|| format!("the network keeps {kept} payloads, and flows know of {known}"));
        let mut flows = self.flows.iter().zip(held).zip(&self.scenario.flows);
        match checks::broken_by(network).or(leaked).or_else(|| flows.find_map(of_flow)) {
            Some(broken) => Err(SimError::Fault { broken, at: self.latest }),
            None => Ok(()),
        }
    }

    /// Processes an event of a source that a population has added; `buffer` is for a packet.
    #[inline(always)]
    fn added_event(&mut self, now: Time, source: u32, buffer: &mut NetPacket) {
        let AddedSource { flow, event } = self.world.added_source(source);
        let flow = match &mut self.flows[flow as usize] {
            Flow::Population(flow) => flow,
            Flow::Quic(flow) => match event {
                PopulationEvent::Timer(at) => return flow.on_timer(now, at, &mut self.world),
                PopulationEvent::Wait(slot) => {
                    self.world.network.queue.remove(source);
                    return flow.on_wait(now, slot, &mut self.world);
                }
                PopulationEvent::Line | PopulationEvent::Memory(_) => return,
            },
            Flow::Pending(_) | Flow::Session(_) | Flow::Datagram(_) => return,
        };
        match event {
            PopulationEvent::Line => flow.on_line(now, buffer, &mut self.world),
            PopulationEvent::Timer(at) => flow.on_timer(now, at, &mut self.world),
            PopulationEvent::Wait(slot) => flow.on_wait(now, slot, &mut self.world),
            PopulationEvent::Memory(slot) => flow.on_memory(now, slot, source, &mut self.world),
        }
    }

    /// Processes an event of any other source.
    #[inline(never)]
    fn event(&mut self, now: Time, source: u32) {
        // Events that a receiver processed ahead of time count when their instant comes.
        let happens_later = self.world.last_arrival > now;
        if (self.sources.sampling..=self.sources.limit).contains(&source) && !happens_later && self.is_stalled() {
            let before = self.latest.max(self.world.last_arrival);
            self.end_flows(before, Outcome::Stalled);
            self.world.end_by(before);
        }
        if source < self.sources.instants {
            let endpoint = source - self.sources.endpoints;
            let end = if endpoint.is_multiple_of(2) { End::From } else { End::To };
            let LegOf { flow, leg } = self.world.connection(endpoint / 2);
            match &mut self.flows[flow as usize] {
                Flow::Session(flow) => flow.on_timer(now, LegEnd { leg, end }, &mut self.world),
                Flow::Quic(flow) => flow.on_timer(now, LegEnd { leg, end }, &mut self.world),
                Flow::Pending(_) | Flow::Datagram(_) | Flow::Population(_) => {}
            }
        } else if source < self.sources.sampling {
            self.instant(now, source - self.sources.instants);
        } else if source == self.sources.sampling {
            self.sample(now);
        } else if source == self.sources.limit {
            self.time_is_up(now);
        } else if source == self.sources.routes {
            self.change_routes(now);
        } else {
            self.divide_links(now);
        }
    }

    /// Delivers a packet to its destination over `link`.
    #[inline(always)]
    fn at_destination(&mut self, now: Time, link: u32, arrived: &mut NetPacket) {
        let way = arrived.way();
        let LegOf { flow, leg } = self.world.connection(way / 2);
        let end = if way.is_multiple_of(2) { End::To } else { End::From };
        match &mut self.flows[flow as usize] {
            Flow::Population(flow) => flow.on_packet(now, LegEnd { leg, end }, arrived, &mut self.world),
            Flow::Session(flow) => {
                if end == End::From && flow.has_lookahead() && arrived.stored.is_acknowledgement() {
                    let (events, at) = flow.take_acknowledgements(now, link, arrived, &mut self.world);
                    self.events += events - 1;
                    self.latest = at;
                } else {
                    flow.on_packet(now, LegEnd { leg, end }, arrived, &mut self.world);
                }
            }
            Flow::Datagram(flow) => flow.on_packet(now, arrived, &mut self.world),
            Flow::Quic(flow) => flow.on_packet(now, LegEnd { leg, end }, arrived, &mut self.world),
            Flow::Pending(_) => {}
        }
    }

    #[cold]
    fn packet_dropped(&mut self, at: Time, packet: &Stored) {
        let LegOf { flow, leg } = self.world.connection(packet.way / 2);
        match &mut self.flows[flow as usize] {
            Flow::Datagram(flow) => flow.dropped(at, &mut self.world),
            Flow::Population(flow) => flow.dropped(leg),
            Flow::Quic(flow) => flow.dropped(at, leg, packet, &mut self.world),
            Flow::Pending(_) | Flow::Session(_) => {}
        }
    }

    /// Starts a flow, or runs its applications.
    #[inline(never)]
    fn instant(&mut self, now: Time, number: u32) {
        let source = self.sources.instants + number;
        let flow = &mut self.flows[number as usize];
        // The event of a population, which comes for each connection, moves to its next instant in the end.
        if !matches!(flow, Flow::Population(_)) {
            self.world.network.queue.remove(source);
        }
        if let Flow::Pending(_) = flow {
            self.live.push(number);
            let start = FlowStart {
                now,
                number,
                instants: source,
                timers: self.sources.endpoints,
                spec: &self.scenario.flows[number as usize],
                seed: self.run.seed,
                measure: &self.scenario.measure,
            };
            *flow = match &start.spec.traffic {
                Traffic::Tcp { tcp, app } => Flow::Session(Box::new(SessionFlow::start(start, tcp, app, &self.world))),
                Traffic::Population { tcp, population } => {
                    Flow::Population(Box::new(PopulationFlow::start(start, tcp, population, &mut self.world)))
                }
                Traffic::Datagrams(datagrams) => Flow::Datagram(Box::new(DatagramFlow::start(start, datagrams))),
                #[cfg(feature = "quic")]
                Traffic::Quic { .. } => match crate::quic::InWorld::start(&start, self.run, &self.world) {
                    Some(flow) => Flow::Quic(Box::new(flow)),
                    None => return,
                },
                #[cfg(not(feature = "quic"))]
                Traffic::Quic { .. } => unreachable!("a build without QUIC has refused the run"),
            };
        }
        let next = match flow {
            Flow::Session(flow) => return flow.on_instant(now, &mut self.world),
            Flow::Quic(flow) => return flow.on_instant(now, &mut self.world),
            Flow::Datagram(flow) => {
                flow.on_instant(now, &mut self.world);
                flow.next_instant()
            }
            Flow::Population(flow) => {
                flow.on_instant(now, &mut self.world);
                flow.next_instant()
            }
            Flow::Pending(_) => return,
        };
        if next < Time::MAX {
            self.world.network.queue.set(source, next);
        } else {
            self.world.network.queue.remove(source);
        }
    }

    #[cold]
    fn sample(&mut self, now: Time) {
        let (flows, scenario, table, run) = (&mut self.flows, self.scenario, &mut self.tables.series, self.run.index);
        self.live.retain(|number| {
            let id = FlowId { run, flow: &scenario.flows[*number as usize].name, leg: None };
            let end = match &mut flows[*number as usize] {
                Flow::Session(flow) => {
                    flow.write_series(now, id, &mut |row| table.push(row));
                    flow.meter.end()
                }
                Flow::Datagram(flow) => {
                    if let Some(row) = flow.series_row(now, id) {
                        table.push(row);
                    }
                    flow.meter().end()
                }
                Flow::Population(flow) => {
                    flow.write_series(now, id, &mut |row| table.push(row));
                    flow.ledger.meter().end()
                }
                Flow::Quic(flow) => {
                    if let Some(row) = flow.series_row(now, id) {
                        table.push(row);
                    }
                    flow.meter().end()
                }
                Flow::Pending(_) => None,
            };
            end.is_none_or(|end| end > now)
        });
        self.sample_proxies(now);
        if let Some(interval) = scenario.measure.series {
            self.world.network.queue.set(self.sources.sampling, now + interval);
        }
    }

    fn sample_proxies(&mut self, now: Time) {
        let mut states = vec![ProxyState::default(); self.scenario.proxies.len()];
        if states.is_empty() {
            return;
        }
        for flow in &self.flows {
            match flow {
                Flow::Session(flow) => flow.session.add_to(&mut states),
                Flow::Population(flow) => flow.add_to(&mut states),
                Flow::Pending(_) | Flow::Datagram(_) | Flow::Quic(_) => {}
            }
        }
        let proxies = self.scenario.proxies.iter().zip(&self.world.proxies);
        for ((spec, proxy), ProxyState { connections, unread_bytes }) in proxies.zip(states) {
            let (held_bytes, held_max_bytes) = proxy.held();
            self.tables.proxies.push(ProxyRow {
                run: self.run.index,
                proxy: spec.name.clone(),
                t_s: now.as_secs_f64(),
                connections,
                unread_bytes,
                held_bytes,
                held_max_bytes,
            });
        }
    }

    /// The proxies that own the queue of a link divide its rate anew.
    #[cold]
    fn divide_links(&mut self, now: Time) {
        let Self { flows, scenario, world, shapers, .. } = self;
        for (flow, spec) in flows.iter_mut().zip(&scenario.flows) {
            flow.each_proxy_end(&mut |end| shapers.ask(spec, end, &world.network));
        }
        shapers.divide(now, &world.network);
        for flow in flows {
            flow.each_proxy_end(&mut |end| shapers.grant(end, &world.network));
        }
        world.network.queue.set(self.sources.divisions, now + INTERVAL);
    }

    #[cold]
    fn change_routes(&mut self, now: Time) {
        for (at, packet) in self.world.network.change_routes(now) {
            self.packet_dropped(at, &packet);
        }
        match self.world.network.next_route_change() {
            Some(at) => self.world.network.queue.set(self.sources.routes, at),
            None => self.world.network.queue.remove(self.sources.routes),
        }
    }

    /// Whether flows are open but nothing will ever happen to them: only sampling, the time limit and divisions are pending.
    fn is_stalled(&self) -> bool {
        let (queue, FirstSources { sampling, limit, divisions, .. }) = (&self.world.network.queue, self.sources);
        let own = [sampling, limit, divisions].into_iter().filter(|source| queue.due(*source).is_some());
        self.world.has_open_flows() && queue.len() == own.count()
    }

    /// The time limit: flows that have not ended do so now, incomplete.
    fn time_is_up(&mut self, now: Time) {
        self.world.network.queue.remove(self.sources.limit);
        self.end_flows(now, Outcome::TimeLimit);
    }

    fn end_flows(&mut self, now: Time, outcome: Outcome) {
        for (flow, source) in self.flows.iter_mut().zip(self.sources.instants..) {
            match flow {
                Flow::Pending(_) => self.world.network.queue.remove(source),
                Flow::Session(flow) => flow.cut_off(now, outcome),
                Flow::Datagram(flow) => flow.cut_off(now),
                Flow::Quic(flow) => flow.cut_off(now, outcome),
                Flow::Population(flow) => flow.cut_off(now, outcome, &mut self.world),
            }
        }
    }

    pub(crate) fn standing(&self, now: Time) -> Standing {
        let of_flow = |flow: &Flow<'_>| match flow {
            Flow::Pending(_) => (0.0, 0),
            Flow::Session(flow) => (flow.progress(now), flow.received_by_now()),
            Flow::Datagram(flow) => (flow.progress(now), flow.meter().received()),
            Flow::Quic(flow) => (flow.progress(now), flow.meter().received()),
            Flow::Population(flow) => (flow.ledger.progress(now), flow.ledger.meter().received()),
        };
        Standing::new(now, self.flows.iter().map(of_flow))
    }

    /// Closes the logs and writes the tables.
    pub(crate) fn finish(mut self) -> RunResult {
        let (stop, run) = (self.world.end(), self.run.index);
        let (logs, captures) = self.world.network.finish(stop);
        let name_of = |node: u32| self.scenario.nodes[node as usize].clone();
        let mut qlogs = Vec::new();
        for (number, flow) in (0..).zip(&mut self.flows) {
            if let Flow::Quic(flow) = flow {
                qlogs.extend(flow.logs(self.run));
            }
            flow.write(self.run, number, stop, &mut self.tables);
        }
        write_links(run, &logs, &mut self.tables);
        let captures = captures.into_iter().flat_map(crate::captures::Captures::into_files);
        let captures = captures.map(|(node, pcapng)| Captured { node: name_of(node), pcapng }).collect();
        RunResult { tables: self.tables, captures, qlogs, events: self.events }
    }
}

/// Checks that both ways of a flow lead over existing links to its ends.
fn check_ways(scenario: &Scenario, flow: &FlowSpec) -> Result<(), SimError> {
    let leads = |path: &[u32], from: u32, to: u32| {
        let end = path.iter().try_fold(from, |node, link| {
            scenario.links.get(*link as usize).filter(|link| link.from == node).map(|link| link.to)
        });
        !path.is_empty() && end == Some(to)
    };
    let name_of = |node: u32| scenario.nodes.get(node as usize).map_or("?", |name| name).to_owned();
    for (path, from, to) in [(&flow.forward, flow.from, flow.to), (&flow.back, flow.to, flow.from)] {
        if !leads(path, from, to) {
            return Err(SimError::NoWay { flow: flow.name.to_string(), from: name_of(from), to: name_of(to) });
        }
    }
    Ok(())
}

/// Checks that the algorithm is loaded, not just described.
fn check_loaded(flow: &FlowSpec) -> Result<(), SimError> {
    let mut controls = flow.traffic.congestion_controls();
    match controls.find(|cc| !cc.algorithm().is_loaded()) {
        Some(cc) => Err(SimError::NotLoaded { flow: flow.name.to_string(), cc: cc.algorithm().name().to_owned() }),
        None => Ok(()),
    }
}

/// Events between two calls that report progress, more with thousands of flows: about ten milliseconds of work.
pub const EVENTS_PER_PROGRESS: u64 = 16_384;
