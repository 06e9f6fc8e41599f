//! State shared by all flows of a run: the network with its events, proxies, connections, and the end of the run.

use perigee_results::Measure;
use perigee_study::FlowSpec;
use perigee_traffic::End;
use perigee_units::Time;

use crate::answers::Answers;
use crate::network::Network;
use crate::proxy::Proxy;
use crate::remembered::Remembered;

pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) answers: Answers,
    pub(crate) remembered: Remembered,
    /// Connections of the study: the first leg of each flow, then further legs in the order of flows; then those that
    /// populations add.
    connections: Vec<LegOf>,
    /// Number of flows, and of connections before populations add any.
    flows: u32,
    of_study: u32,
    /// The first event source added by a population, and the meaning of each.
    first_added: u32,
    added: Vec<AddedSource>,
    open_flows: usize,
    last_end: Time,
    limits: RunLimits,
    /// End of the run.
    end: Time,
    /// No later event is processed: the run ends there, or [pauses](World::process_until).
    pub(crate) stop: Time,
    /// Latest arrival processed ahead of time.
    pub(crate) last_arrival: Time,
}

/// A connection's place in its flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LegOf {
    pub(crate) flow: u32,
    /// Number of the leg; a population numbers the legs of all its slots.
    pub(crate) leg: u32,
}

/// An end of a leg, by the number of the leg in its connection or its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(feature = "quic"), expect(unreachable_pub, reason = "what carries QUIC from outside names it"))]
pub struct LegEnd {
    /// Number of the connection, or of the leg.
    pub leg: u32,
    /// Which of its ends.
    pub end: End,
}

/// When a run ends at the latest, and what it may skip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    /// Time limit of all flows.
    pub(crate) time_limit: Time,
    /// The run ends with a whole interval of its series.
    pub(crate) interval: Option<Time>,
    /// Enables the fast path of endpoints.
    pub(crate) fast_paths: bool,
}

/// A flow that starts.
#[derive(Clone, Copy)]
pub(crate) struct FlowStart<'a> {
    pub(crate) now: Time,
    /// Number of the flow.
    pub(crate) number: u32,
    /// Event source of its instants.
    pub(crate) instants: u32,
    /// Event source of the first timer of the first connection of the study.
    pub(crate) timers: u32,
    pub(crate) spec: &'a FlowSpec,
    /// Seed of the run.
    pub(crate) seed: u64,
    pub(crate) measure: &'a Measure,
}

/// An event source that a population has added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddedSource {
    pub(crate) flow: u32,
    pub(crate) event: PopulationEvent,
}

/// Index of the applications among the event sources of a slot, after the timers of both ends.
pub(crate) const WAIT: u32 = 2;

/// An event of a population.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PopulationEvent {
    /// The next packet on a line between users and their node.
    Line,
    /// Timer of an end of a leg.
    Timer(LegEnd),
    /// Applications of a slot's connection.
    Wait(u32),
    /// Proxies of a slot's connection that wait for memory.
    Memory(u32),
}

impl World {
    /// A run of `flows` flows with these connections, before populations add any.
    pub(crate) fn new(
        network: Network,
        proxies: Vec<Proxy>,
        flows: usize,
        connections: Vec<LegOf>,
        limits: RunLimits,
    ) -> Self {
        let stop = limits.whole_intervals(limits.time_limit);
        debug_assert!(connections[flows..].is_sorted_by_key(|leg| leg.flow), "the legs of a flow are consecutive");
        Self {
            first_added: network.queue.sources(),
            network,
            proxies,
            answers: Answers::new(),
            remembered: Remembered::default(),
            flows: flows as u32,
            of_study: connections.len() as u32,
            connections,
            added: Vec::new(),
            open_flows: flows,
            last_end: Time::ZERO,
            limits,
            end: stop,
            stop,
            last_arrival: Time::ZERO,
        }
    }

    /// Time limit of all flows.
    #[inline]
    pub(crate) fn time_limit(&self) -> Time {
        self.limits.time_limit
    }

    /// Whether endpoints may have a fast path.
    pub(crate) fn has_fast_paths(&self) -> bool {
        self.limits.fast_paths
    }

    /// Whether an event of `source` would be next, before those of all sources but `link`, whose event may be early.
    #[inline]
    pub(crate) fn comes_next(&self, at: Time, source: u32, link: u32) -> bool {
        at <= self.stop && self.network.queue.would_be_first(source, at, link)
    }

    /// The flow and leg that a connection is.
    #[inline]
    pub(crate) fn connection(&self, number: u32) -> LegOf {
        self.connections[number as usize]
    }

    /// The connections of a flow: the first leg, which has the flow's number, then the others.
    pub(crate) fn connections_of(&self, flow: u32) -> impl Iterator<Item = u32> {
        let further = &self.connections[self.flows as usize..self.of_study as usize];
        let first = further.partition_point(|leg| leg.flow < flow);
        let count = further[first..].partition_point(|leg| leg.flow == flow);
        let begin = self.flows + first as u32;
        std::iter::once(flow).chain(begin..begin + count as u32)
    }

    /// Adds the legs of a connection to a population, from number `first` on, like the flow's own connections
    /// `like`; returns the way of the first leg's data, which the others follow.
    pub(crate) fn add_connections(&mut self, flow: u32, first: u32, like: &[u32], spec: &FlowSpec) -> u32 {
        self.connections.extend((first..).zip(like).map(|(leg, _)| LegOf { flow, leg }));
        self.network.add_connections(like, spec)
    }

    /// Adds an event source to a population.
    pub(crate) fn add_source(&mut self, flow: u32, event: PopulationEvent) -> u32 {
        self.added.push(AddedSource { flow, event });
        self.network.queue.add_sources(1)
    }

    /// Flow and meaning of an added event source.
    pub(crate) fn added_source(&self, source: u32) -> AddedSource {
        self.added[(source - self.first_added) as usize]
    }

    /// A flow ends at `end`, possibly in the future. The run ends with its last flow, once the current interval is complete.
    pub(crate) fn flow_ended(&mut self, end: Time) {
        self.last_end = self.last_end.max(end);
        self.open_flows -= 1;
        if self.open_flows == 0 {
            self.end_by(self.last_end);
        }
    }

    /// End of the run, as far as it is known.
    pub(crate) fn end(&self) -> Time {
        self.end
    }

    /// Processes no event after `pause` until this is called again.
    pub(crate) fn process_until(&mut self, pause: Time) {
        self.stop = self.end.min(pause);
    }

    pub(crate) fn has_open_flows(&self) -> bool {
        self.open_flows > 0
    }

    /// Ends the run with the interval that contains this instant.
    pub(crate) fn end_by(&mut self, end: Time) {
        self.end = self.end.min(self.limits.whole_intervals(end));
        self.stop = self.stop.min(self.end);
    }
}

impl RunLimits {
    /// The first end of an interval at or after `at`; `at` itself without intervals.
    fn whole_intervals(self, at: Time) -> Time {
        let Some(length) = self.interval.map(Time::as_nanos).filter(|length| *length > 0) else { return at };
        Time::from_nanos(at.as_nanos().div_ceil(length).saturating_mul(length))
    }
}
