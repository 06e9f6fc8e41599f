//! State shared by all flows of a run: the network, the pending events, and the end of the run.

use perigee_study::FlowSpec;
use perigee_tcp::Header;
use perigee_traffic::End;
use perigee_units::Time;

use crate::compact::{Arrived, Bare, Parcel};
use crate::network::{Course, Delivery, Fate, Network};
use crate::outlet::Outlet;
use crate::proxy::Proxy;
use crate::queue::EventQueue;

pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) queue: EventQueue,
    pub(crate) proxies: Vec<Proxy>,
    /// Flow and leg of each connection; in a population, flow and place.
    connections: Vec<(u32, u32)>,
    flows: u32,
    /// The flow of each further leg, in order; their connections follow the first ones of all flows.
    further: Vec<u32>,
    /// The first event source added by a flow.
    first_added: u32,
    /// Flow and meaning of each added source.
    added: Vec<(u32, Dynamic)>,
    open_flows: usize,
    last_end: Time,
    interval: Option<Time>,
    /// End of the run.
    end: Time,
    /// No later event is processed: the run ends there, or [pauses](World::process_until).
    pub(crate) stop: Time,
    /// Latest arrival processed ahead of time.
    pub(crate) last_arrival: Time,
    /// Time limit of all flows.
    pub(crate) limit: Time,
    /// Enables the fast path of endpoints.
    pub(crate) fast_paths: bool,
    answers: Answers,
}

/// The ACKs of one way that wait to be sent together.
struct Answers {
    times: [Time; TOGETHER],
    headers: [Header; TOGETHER],
    count: usize,
}

/// Maximum number of packets carried together.
pub(crate) const TOGETHER: usize = 16;

/// An event source added by a population.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dynamic {
    /// Packets on a line between users and their node.
    Line(u32),
    /// Timer of an end of the connection at a place.
    Timer(u32, End),
    /// Applications of a slot's connection.
    Wait(u32),
    /// Proxies of a slot's connection that wait for memory.
    Memory(u32),
}

impl World {
    /// A run with `flows` flows and these event sources that ends at `limit` at the latest; `fast_paths` enables those of endpoints.
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
        debug_assert!(further.is_sorted(), "the legs of a flow are consecutive");
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
            end: stop,
            stop,
            last_arrival: Time::ZERO,
            limit,
            fast_paths,
            answers: Answers { times: [Time::ZERO; TOGETHER], headers: [Header::default(); TOGETHER], count: 0 },
        }
    }

    /// Sends a packet over the first link of its way.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Time, packet: impl Parcel) -> Fate {
        self.network.send(now, packet, &mut self.queue)
    }

    /// Sends a packet to the end of its way; see [`Network::send_through`].
    #[inline(always)]
    pub(crate) fn send_through(&mut self, now: Time, packet: impl Parcel) -> Option<Time> {
        self.network.send_through(now, packet, &mut self.queue)
    }

    /// Sends an ACK of a receiver with the others of its train, at most [`TOGETHER`]: with [`World::send_answers`].
    #[inline(always)]
    pub(crate) fn answer(&mut self, at: Time, header: Header) {
        let Answers { times, headers, count } = &mut self.answers;
        (times[*count], headers[*count]) = (at, header);
        *count += 1;
    }

    /// Sends the ACKs that wait.
    #[inline]
    pub(crate) fn send_answers(&mut self, outlet: Outlet) {
        let Answers { times, headers, count } = &mut self.answers;
        let count = std::mem::take(count);
        let (times, headers) = (&mut times[..count], &headers[..count]);
        if let Some(first) = headers.first() {
            let packets = headers.iter().map(|header| outlet.packet(header));
            let Bare { way, bytes, .. } = outlet.packet(first);
            self.network.send_all(times, (way, bytes), packets, &mut self.queue);
        }
    }

    /// Carries packets of one way and size as far as is known now; see [`Network::offer_all`].
    #[inline(always)]
    pub(crate) fn offer_all(&mut self, times: &mut [Time], way: u32, bytes: u16) -> Result<u32, u32> {
        self.network.offer_all(times, way, bytes)
    }

    /// Carries a packet on from a link; see [`Network::offer_at`].
    #[inline(always)]
    pub(crate) fn offer_at(&mut self, now: Time, link: u32, packet: impl Parcel) -> Course {
        self.network.offer_at(now, link, packet, &mut self.queue)
    }

    /// Carries a packet as far as is known now; see [`Network::offer`].
    #[inline(always)]
    pub(crate) fn offer(&mut self, now: Time, packet: impl Parcel) -> Course {
        self.network.offer(now, packet, &mut self.queue)
    }

    /// Stores a packet at the link that delivers it.
    #[inline(always)]
    pub(crate) fn keep(&mut self, delivery: Delivery, packet: &impl Parcel) {
        self.network.keep(delivery, packet, &mut self.queue);
    }

    /// Moves the next packet of a link into `place` if it is an ACK of the way, no other event comes before it, and `may` accepts its
    /// arrival time, which is returned. The link's event must be [set](World::schedule_first) afterwards.
    #[inline(always)]
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
        self.network.count_arrivals(1);
        Some(at)
    }

    /// Whether an event of `source` would be next, before those of all sources but `link`, whose event may be early.
    #[inline]
    pub(crate) fn comes_next(&self, at: Time, source: u32, link: u32) -> bool {
        at <= self.stop && self.queue.would_be_first(source, at, link)
    }

    /// Sets the event of a link after packets were removed from its calendar.
    pub(crate) fn schedule_first(&mut self, link: u32) {
        self.network.schedule_first(link, &mut self.queue);
    }

    /// Flow and leg of a connection; in a population, flow and place.
    #[inline]
    pub(crate) fn connection(&self, number: u32) -> (u32, u32) {
        self.connections[number as usize]
    }

    /// The connections of a flow: the first leg, which has the flow's number, then the others.
    pub(crate) fn connections_of(&self, flow: u32) -> impl Iterator<Item = u32> {
        let first = self.further.partition_point(|of| *of < flow);
        let count = self.further[first..].partition_point(|of| *of == flow);
        let begin = self.flows + first as u32;
        std::iter::once(flow).chain(begin..begin + count as u32)
    }

    /// Adds the legs of a connection to a population at places from `place` on, like those of the flow's own connections `like`; returns
    /// the way of the first leg's data, which the others follow.
    pub(crate) fn add_connections(&mut self, flow: u32, place: u32, like: &[u32], spec: &FlowSpec) -> u32 {
        self.connections.extend((place..).zip(like).map(|(place, _)| (flow, place)));
        self.network.add_connections(like, spec)
    }

    /// Packets that their senders take to be in the network, since the beginning.
    pub(crate) fn packets_sent(&self) -> u64 {
        let traffic = self.network.traffic();
        traffic.sent - traffic.gone_at_once
    }

    /// Adds an event source to a flow.
    pub(crate) fn add_source(&mut self, flow: u32, source: Dynamic) -> u32 {
        self.added.push((flow, source));
        self.queue.add_source()
    }

    /// Flow and meaning of an added event source.
    pub(crate) fn added_source(&self, source: u32) -> (u32, Dynamic) {
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
        self.end = self.end.min(whole_intervals(end, self.interval));
        self.stop = self.stop.min(self.end);
    }
}

/// The first end of an interval at or after `at`; `at` itself without intervals.
fn whole_intervals(at: Time, interval: Option<Time>) -> Time {
    let Some(length) = interval.map(Time::as_nanos).filter(|length| *length > 0) else { return at };
    Time::from_nanos(at.as_nanos().div_ceil(length).saturating_mul(length))
}
