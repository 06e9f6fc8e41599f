//! What all flows of a run share: the network, the pending events, and the run's end.

use perigee_study::FlowSpec;
use perigee_traffic::End;
use perigee_units::Time;

use crate::compact::{Arrived, Parcel};
use crate::network::{Course, Delivery, Fate, Network};
use crate::proxy::Proxy;
use crate::queue::EventQueue;

/// The shared part of a run.
pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) queue: EventQueue,
    pub(crate) proxies: Vec<Proxy>,
    /// Flow and leg of each connection; of a population flow and slot.
    connections: Vec<(u32, u32)>,
    /// How many flows there are.
    flows: u32,
    /// The flow of each further leg, in order; their connections follow the first ones of all flows.
    further: Vec<u32>,
    /// The first of the event sources that flows have added.
    first_added: u32,
    /// Flow and meaning of each of them.
    added: Vec<(u32, Dynamic)>,
    /// Flows that have not ended.
    open_flows: usize,
    /// The latest end of a flow.
    last_end: Time,
    interval: Option<Time>,
    /// The last instant of the run.
    pub(crate) stop: Time,
    /// The latest arrival of which a receiver knows ahead of time.
    pub(crate) last_arrival: Time,
    /// The instant at which all flows end that have not.
    pub(crate) limit: Time,
    /// Endpoints have their fast path.
    pub(crate) fast_paths: bool,
}

/// An event source that a population has added.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dynamic {
    /// The packets of a line between users and their node.
    Line(u32),
    /// The timer of an end of the connection in a slot.
    Timer(u32, End),
    /// The applications of the connection in a slot.
    Wait(u32),
}

impl World {
    /// A run of so many flows and event sources, that ends at `limit` at the latest, and whose endpoints have `fast_paths` or not.
    pub(crate) fn new(
        network: Network,
        proxies: Vec<Proxy>,
        sources: usize,
        (flows, connections): (usize, Vec<(u32, u32)>),
        interval: Option<Time>,
        (limit, fast_paths): (Time, bool),
    ) -> Self {
        let stop = whole_intervals(limit, interval);
        let further: Vec<_> = connections[flows..].iter().map(|(flow, _)| *flow).collect();
        debug_assert!(further.is_sorted(), "the legs of a flow stand together");
        Self {
            network,
            queue: EventQueue::new(sources),
            proxies,
            connections,
            flows: flows as u32,
            further,
            first_added: sources as u32,
            added: Vec::new(),
            open_flows: flows,
            last_end: Time::ZERO,
            interval,
            stop,
            last_arrival: Time::ZERO,
            limit,
            fast_paths,
        }
    }

    /// Gives a packet to the first link of its way.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn send(&mut self, now: Time, packet: impl Parcel) -> Fate {
        self.network.send(now, packet, &mut self.queue)
    }

    /// Carries a packet to the end of its way, or as far as is known by now; see [`Network::offer`].
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment of a bulk transfer")]
    pub(crate) fn offer(&mut self, now: Time, packet: impl Parcel) -> Course {
        self.network.offer(now, packet, &mut self.queue)
    }

    /// Has the link that delivers a packet keep it until then.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn keep(&mut self, delivery: Delivery, packet: &impl Parcel) {
        self.network.keep(delivery, packet, &mut self.queue);
    }

    /// Puts the next packet of a link into `place`, if it is an acknowledgement of a way, nothing else happens before, and it `may` be
    /// taken at its instant, which is returned. The link's event has [to be set](World::schedule_first) in the end.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn next_acknowledgement(
        &mut self,
        (link, way): (u32, u32),
        may: impl FnOnce(Time) -> bool,
        place: &mut Arrived,
    ) -> Option<Time> {
        let (stop, queue) = (self.stop, &self.queue);
        let calendar = self.network.calendar(link);
        let at = calendar.next().filter(|at| *at <= stop && queue.would_be_first(link, *at, link) && may(*at))?;
        if !calendar.pop_acknowledgement(way, place) {
            return None;
        }
        self.network.count_arrival();
        Some(at)
    }

    /// Whether an event of a source would be next, before what `link` delivers, whose event may be too early.
    #[inline]
    pub(crate) fn comes_next(&self, at: Time, source: u32, link: u32) -> bool {
        at <= self.stop && self.network.delivers_after(link, at) && self.queue.would_be_first(source, at, link)
    }

    /// Sets the event of a link, some of whose packets were taken out of its calendar.
    pub(crate) fn schedule_first(&mut self, link: u32) {
        self.network.schedule_first(link, &mut self.queue);
    }

    /// Flow and leg of a connection; of a population flow and slot.
    #[inline]
    pub(crate) fn connection(&self, number: u32) -> (u32, u32) {
        self.connections[number as usize]
    }

    /// The connections of a flow, its first leg, which has the number of the flow, before the others.
    pub(crate) fn connections_of(&self, flow: u32) -> impl Iterator<Item = u32> {
        let first = self.further.partition_point(|of| *of < flow);
        let count = self.further[first..].partition_point(|of| *of == flow);
        let begin = self.flows + first as u32;
        std::iter::once(flow).chain(begin..begin + count as u32)
    }

    /// Adds a connection to a flow, in a slot of it; returns the way of its data.
    pub(crate) fn add_connection(&mut self, flow: u32, slot: u32, spec: &FlowSpec) -> u32 {
        self.connections.push((flow, slot));
        self.network.add_connection(flow, spec)
    }

    /// Adds an event source to a flow.
    pub(crate) fn add_source(&mut self, flow: u32, source: Dynamic) -> u32 {
        self.added.push((flow, source));
        self.queue.add_source()
    }

    /// Flow and meaning of an event source that a flow has added.
    pub(crate) fn added_source(&self, source: u32) -> (u32, Dynamic) {
        self.added[(source - self.first_added) as usize]
    }

    /// A flow has ended, or will have at `end`. With the last flow the run is over, once its interval is complete.
    pub(crate) fn flow_ended(&mut self, end: Time) {
        self.last_end = self.last_end.max(end);
        self.open_flows -= 1;
        if self.open_flows == 0 {
            self.end_by(self.last_end);
        }
    }

    /// Whether a flow has not ended.
    pub(crate) fn has_open_flows(&self) -> bool {
        self.open_flows > 0
    }

    /// The run ends with the interval in which this instant lies.
    pub(crate) fn end_by(&mut self, end: Time) {
        self.stop = self.stop.min(whole_intervals(end, self.interval));
    }
}

/// The first end of an interval at or after `at`; `at` itself without intervals.
fn whole_intervals(at: Time, interval: Option<Time>) -> Time {
    let Some(length) = interval.map(Time::as_nanos).filter(|length| *length > 0) else { return at };
    Time::from_nanos(at.as_nanos().div_ceil(length).saturating_mul(length))
}
