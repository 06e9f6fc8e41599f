//! The links between the nodes: packets travel hop by hop along the path of their flow, and each event of a link is in the queue here.
//!
//! A feed-forward link decides a packet's fate when it is offered, so the network stores its packets in a calendar per link in order of
//! delivery, with one pending event for the first. A link that decides on departure stores its packets itself; its pending event is its
//! next decision, delivery or drop. Packets have six verbs: [`Network::send`], [`Network::carry`], [`Network::carry_all`] and
//! [`Network::carry_on`] take them from their senders, [`Network::keep`] stores what a link delivers, [`Network::deliver`] processes the
//! event of a link.
//!
//! **Fast path.** One loop carries a packet over the links it can be offered to now, while the lease of each covers it
//! ([`Link::take`](perigee_link::Link::take)); the slow path continues from the first link whose lease does not.
//!
//! **Cut-through.** If all packets of a link come from one other link, they arrive in the order in which they left that link, with nothing
//! in between. The next link is then offered the packet at once, with its future arrival time, and so on; only the last link of such a
//! chain stores the packet and has an event for it. No link sees a different sequence of arrivals. With route changes, no packet is offered
//! ahead of time.
//!
//! A link that decides on departure takes part: when offered a packet ahead of time, it makes the decisions due until then, since all
//! earlier arrivals are known, and passes on what it sends with the decision. Its own drops are reported at their time, and drops by later
//! links when the packet leaves it.

use perigee_link::{Link, Offered, Packet, Transit};
use perigee_results::{LinkLog, Links};
use perigee_study::{read_link, FlowSpec, RouteChange, Scenario, Waiting};
use perigee_units::{Rate, Time};

use crate::calendar::Calendar;
use crate::captures::Captures;
use crate::carriage::Carriage;
use crate::hop::{Departure, Hop, LinkAccount, LostBehind};
use crate::packet::{NetPacket, Parcel, Stored};
use crate::payloads::Payloads;
use crate::processing::Processing;
use crate::queue::EventQueue;
use crate::routes::{lookahead_links, single_feeders, Routes, ARRIVED, BY_WAY, LATER};

pub(crate) struct Network {
    /// The pending events of links, endpoints and applications.
    pub(crate) queue: EventQueue,
    /// The links of the study, followed by links inside hosts with processing time. A link's event source is its number.
    hops: Vec<Hop>,
    visible: usize,
    routes: Routes,
    /// Packets are offered to later links ahead of time where that is safe.
    has_cut_through: bool,
    captures: Option<Captures>,
    /// The link that delivers each way's packets, if the receiver has lookahead.
    last_links: Vec<Option<u32>>,
    /// Packets sent by the ends, and arrived at their destinations.
    traffic: Traffic,
    /// The bytes of datagrams in the network that have any.
    pub(crate) payloads: Payloads,
}

/// Packets exchanged by the ends of connections and flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    /// Packets that [`Network::send`] reported as dropped.
    pub(crate) dropped_at_once: u64,
    pub(crate) arrived: u64,
}

/// Packets that are offered to a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offer {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// The fate of a packet, as far as it is known now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A link delivers it at this time, and must [keep](Network::keep) it until then.
    Delivered { at: Time, link: u32 },
    /// The network has stored it.
    Stored,
    /// Dropped or lost at this time, which may be in the future because of cut-through.
    Dropped(Time),
}

/// How far leases carry a packet, or packets of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// This link delivers them.
    Delivers(u32),
    /// The lease of this link does not cover them: each must be offered to it.
    StopsAt(u32),
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, seed: u64, carriage: Carriage) -> Self {
        let Processing { links: hosts, paths } = Processing::new(scenario);
        let captures = Captures::new(scenario, seed, carriage.capture_payload);
        let is_captured = captures.is_some();
        let visible = scenario.links.len();
        let of_study = (0..).zip(&scenario.links).map(|(number, link)| {
            let (series, gives_up) = (scenario.measure.series, scenario.gives_up_waiting(number));
            Hop::new(link, number, seed, series, carriage, is_captured, gives_up)
        });
        let of_hosts = (visible as u32..).zip(&hosts);
        let of_hosts = of_hosts.map(|(number, host)| Hop::new(host, number, seed, None, carriage, is_captured, false));
        let mut hops: Vec<Hop> = of_study.chain(of_hosts).collect();
        let mut routes = Routes::new(scenario, &hosts, &paths, seed);
        // A capture needs each node's packets in time order.
        let may_cut_through = carriage.cut_through && !carriage.links_store_packets && !is_captured;
        let has_cut_through = may_cut_through && routes.next_change().is_none();
        let mut last_links = Vec::new();
        if has_cut_through {
            let feeders = single_feeders(hops.len(), paths.iter());
            routes.allow_cut_through(|link| feeders[link as usize].is_some());
            for (hop, feeder) in hops.iter_mut().zip(feeders) {
                hop.is_cut_through_target = feeder.is_some();
            }
            let ways: Vec<_> = paths.iter().collect();
            last_links = lookahead_links(&ways, hops.len(), &routes, |link| hops[link as usize].feed_forward);
        }
        let links = hops.len();
        let after = routes.after_each(paths.iter(), links);
        for (hop, next) in hops.iter_mut().zip(after) {
            hop.next = next;
            hop.passes_on = !hop.feed_forward && (next as usize) < links;
        }
        Self {
            queue: EventQueue::new(links),
            hops,
            visible,
            routes,
            has_cut_through,
            captures,
            last_links,
            traffic: Traffic::default(),
            payloads: Payloads::default(),
        }
    }

    /// Adds connections with the ways of these ones, the legs of one connection of a flow; returns the way of the first one's data, which
    /// the others follow.
    pub(crate) fn add_connections(&mut self, like: &[u32], spec: &FlowSpec) -> u32 {
        let ways: Vec<u32> = like.iter().map(|connection| self.routes.add_connection(*connection)).collect();
        if let Some(captures) = &mut self.captures {
            for _ in &ways {
                captures.add_connection(spec, ways[0] / 2);
            }
        }
        ways[0]
    }

    /// The link that delivers a way's packets, if the receiver has lookahead.
    pub(crate) fn lookahead_of(&self, way: u32) -> Option<u32> {
        self.last_links.get(way as usize).copied().flatten()
    }

    /// Whether cut-through carries all packets of a way to its end, which [`Network::carry`] then tells.
    pub(crate) fn is_through(&self, way: u32) -> bool {
        let mut link = self.routes.first(way);
        while let Some(hop) = self.hops.get(link as usize).filter(|hop| self.has_cut_through && hop.feed_forward) {
            link = if hop.next == BY_WAY { self.routes.after(way, link) } else { hop.next };
        }
        self.has_cut_through && link == ARRIVED
    }

    /// Sends a packet over the first link of its way; it is stored unless it is dropped.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Time, packet: impl Parcel) -> Fate {
        self.traffic.sent += 1;
        let fate = self.forward(now, self.routes.first(packet.way()), packet);
        if let Fate::Dropped(_) = fate {
            self.traffic.dropped_at_once += 1;
        }
        fate
    }

    /// Carries a packet from its sender over the first link of its way, and over later links as far as cut-through allows.
    #[inline(always)]
    pub(crate) fn carry(&mut self, now: Time, packet: impl Parcel) -> Fate {
        self.traffic.sent += 1;
        self.carry_from(now, self.routes.first(packet.way()), packet)
    }

    /// [`Network::carry`] for packets of one way and size that leave at `times`, in order: replaces `times` by the times at the link where
    /// they end up, as far as the leases cover all of them. [`Network::carry_on`] must follow for each, unless they
    /// are [delivered](Carried::Delivers) and processed together.
    #[inline(always)]
    pub(crate) fn carry_all(&mut self, times: &mut [Time], way: u32, bytes: u16) -> Carried {
        self.traffic.sent += times.len() as u64;
        self.traverse(way, self.routes.first(way), &mut Several { times, bytes })
    }

    /// Carries on one of the packets that [`Network::carry_all`] carried together, from its own time at the link where they ended up.
    #[inline(always)]
    pub(crate) fn carry_on(&mut self, at: Time, carried: Carried, packet: impl Parcel) -> Fate {
        match carried {
            Carried::Delivers(link) => Fate::Delivered { at, link },
            Carried::StopsAt(link) => self.carry_on_from(at, link, packet),
        }
    }

    /// Stores a packet until `link` delivers it.
    #[inline(always)]
    pub(crate) fn keep(&mut self, at: Time, link: u32, packet: &impl Parcel) {
        self.hops[link as usize].calendar.keep(at, packet, &mut self.queue);
    }

    /// Processes the event of `link` at its time; a packet that arrives at its destination, or is dropped, is moved into `buffer`.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, now: Time, link: u32, buffer: &mut NetPacket) -> Departure {
        let hop = &mut self.hops[link as usize];
        if !hop.feed_forward {
            hop.advance(now);
            self.pass_on(now, link);
            let departure = self.hops[link as usize].poll(now, buffer);
            self.set_event(link);
            let Departure::Packet = departure else { return departure };
        } else if !hop.calendar.take_first(buffer, &mut self.queue) {
            return Departure::Nothing;
        }
        if let Some(captures) = &mut self.captures {
            captures.inbound(now, link, &buffer.whole(), &self.payloads);
        }
        let next = self.after(link, buffer.way());
        if next != ARRIVED {
            // A cut-through target leaves no events to the link before it.
            return match self.forward(now, next & !LATER, &mut *buffer) {
                Fate::Dropped(at) => Departure::Dropped { at },
                _ => Departure::Nothing,
            };
        }
        self.traffic.arrived += 1;
        Departure::Packet
    }

    /// Moves the next packet of a link into `buffer` if it is an ACK of `way` that arrives by `stop`, no event
    /// of another source comes before it, and `may` accepts its arrival time, which is returned. The link's
    /// event must be [set](Network::set_event) afterwards.
    #[inline(always)]
    pub(crate) fn next_acknowledgement(
        &mut self,
        link: u32,
        way: u32,
        stop: Time,
        may: impl FnOnce(Time) -> bool,
        buffer: &mut NetPacket,
    ) -> Option<Time> {
        let calendar = &mut self.hops[link as usize].calendar;
        let is_next = |at: &Time| *at <= stop && self.queue.would_be_first(link, *at, link) && may(*at);
        let at = calendar.next().filter(is_next)?;
        if !calendar.pop_acknowledgement(way, buffer) {
            return None;
        }
        self.traffic.arrived += 1;
        Some(at)
    }

    /// The packets that a link delivers. After removing some, set its event with [`Network::set_event`].
    #[inline]
    pub(crate) fn calendar(&mut self, link: u32) -> &mut Calendar {
        &mut self.hops[link as usize].calendar
    }

    /// Sets the event of a link for its current packets.
    pub(crate) fn set_event(&mut self, link: u32) {
        match self.hops[link as usize].renew_event() {
            Some(at) => self.queue.set(link, at),
            None => self.queue.remove(link),
        }
    }

    /// When a link delivers the next packet, or, if it decides on departure, does anything; [`Time::MAX`] if it does nothing more.
    #[inline(always)]
    pub(crate) fn next_delivery(&self, link: u32) -> Time {
        let hop = &self.hops[link as usize];
        let next = if hop.feed_forward { hop.calendar.next() } else { hop.next_event() };
        next.unwrap_or(Time::MAX)
    }

    /// The link of the study over which packets of a way leave their node now.
    pub(crate) fn leaves_over(&self, way: u32) -> u32 {
        match self.routes.first(way) {
            inside if inside as usize >= self.visible => self.routes.after(way, inside) & !LATER,
            link => link,
        }
    }

    /// The rate of a link at an instant.
    pub(crate) fn rate_of(&self, link: u32, at: Time) -> Rate {
        self.hops[link as usize].link.rate_at(at)
    }

    /// The packets that a link has been offered.
    pub(crate) fn offered(&self, link: u32) -> Offer {
        let counters = self.hops[link as usize].link.counters();
        Offer { packets: counters.offered_packets, bytes: counters.offered_bytes }
    }

    pub(crate) fn next_route_change(&self) -> Option<Time> {
        self.routes.next_change()
    }

    /// Changes the routes due at `now`, and moves or loses the packets that wait for the old links. Returns when
    /// packets are lost by that, and these packets.
    pub(crate) fn change_routes(&mut self, now: Time) -> Vec<(Time, Stored)> {
        let mut gone = Vec::new();
        for RouteChange { to, link, from, waiting, .. } in self.routes.change(now) {
            let (Some(from), Waiting::Moved | Waiting::Lost) = (from, waiting) else { continue };
            let (routes, hop) = (&self.routes, &mut self.hops[from as usize]);
            hop.advance(now);
            let mut withdrawn = Vec::new();
            let is_lost = waiting == Waiting::Lost;
            let is_for = |packet: &Packet<u32>| routes.destination(packet.flow) == Some(to);
            hop.link.withdraw(now, is_lost, is_for, |packet| withdrawn.push(packet));
            let mut buffer = NetPacket::default();
            for packet in withdrawn {
                let store = &mut self.hops[from as usize].store;
                if is_lost {
                    gone.push((now, *store.give_up(packet)));
                    continue;
                }
                store.take(packet, &mut buffer);
                if let Fate::Dropped(at) = self.forward(now, link, &mut buffer) {
                    gone.push((at, buffer.stored));
                }
            }
            self.set_event(from);
        }
        gone
    }

    /// A receiver processed packets ahead of time.
    #[inline]
    pub(crate) fn count_arrivals(&mut self, packets: u64) {
        self.traffic.arrived += packets;
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Packets that senders take to be in the network, since the beginning.
    pub(crate) fn packets_sent(&self) -> u64 {
        self.traffic.sent - self.traffic.dropped_at_once
    }

    /// Counters and contents of each link, including those inside hosts.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = LinkAccount<'_>> {
        self.hops.iter().map(Hop::account)
    }

    /// The way of each packet whose fate has not been reported to its flow.
    pub(crate) fn held_ways(&self) -> impl Iterator<Item = u32> {
        self.hops.iter().flat_map(Hop::ways)
    }

    /// The link logs up to `end`, and the captures.
    pub(crate) fn finish(self, end: Time) -> (Vec<LinkLog>, Option<Captures>) {
        let close = |mut hop: Hop| {
            hop.log.close_until(end, |from, to| read_link(&mut hop.link, from, to));
            hop.log
        };
        (self.hops.into_iter().take(self.visible).map(close).collect(), self.captures)
    }

    /// The rows of the links' intervals that end after `after` and at or before `now`, link by link. All events up to `now` have been
    /// processed.
    pub(crate) fn write_so_far(&mut self, run: u32, after: Time, now: Time, links: &mut Links) {
        for hop in &mut self.hops[..self.visible] {
            hop.advance(now + Time::from_nanos(1));
            hop.log.rows(run, after, now).for_each(|row| links.push(row));
        }
    }

    /// Offers a packet to a link, and to later links as far as cut-through allows; the last one stores it.
    #[inline(always)]
    fn forward(&mut self, now: Time, link: u32, packet: impl Parcel) -> Fate {
        let mut load = One { at: now, bytes: packet.bytes() };
        match self.traverse(packet.way(), link, &mut load) {
            Carried::Delivers(last) => {
                self.keep(load.at, last, &packet);
                Fate::Stored
            }
            Carried::StopsAt(stop) => self.forward_slowly(load.at, stop, packet),
        }
    }

    #[inline(never)]
    fn forward_slowly(&mut self, now: Time, link: u32, mut packet: impl Parcel) -> Fate {
        let fate = self.slow_path(now, link, &mut packet);
        let Fate::Delivered { at, link } = fate else { return fate };
        self.keep(at, link, &packet);
        Fate::Stored
    }

    /// Offers a packet to a link, and to later links as far as cut-through allows.
    #[inline(always)]
    fn carry_from(&mut self, now: Time, link: u32, packet: impl Parcel) -> Fate {
        let mut load = One { at: now, bytes: packet.bytes() };
        match self.traverse(packet.way(), link, &mut load) {
            Carried::Delivers(link) => Fate::Delivered { at: load.at, link },
            Carried::StopsAt(link) => self.slow_path(load.at, link, packet),
        }
    }

    /// [`Network::carry_from`] for a packet of a train that a lease does not cover whole, which is not so frequent.
    #[inline(never)]
    fn carry_on_from(&mut self, now: Time, link: u32, packet: impl Parcel) -> Fate {
        self.carry_from(now, link, packet)
    }

    /// The fast path: carries a load from a link over later ones while cut-through allows it and the lease of
    /// each covers it. A next link that is no index of a hop (see [`Routes::after`]) ends the chain: the
    /// packets have arrived, or must be offered later.
    #[inline(always)]
    fn traverse(&mut self, way: u32, first: u32, load: &mut impl Load) -> Carried {
        let (hops, mut last, mut next) = (&mut self.hops[..], first, first);
        loop {
            while let Some(hop) = hops.get_mut(next as usize) {
                if !load.pass(&mut hop.link) {
                    return Carried::StopsAt(next);
                }
                (last, next) = (next, hop.next);
            }
            if next != BY_WAY {
                return Carried::Delivers(last);
            }
            next = after_by_way(&self.routes, way, last);
            if next as usize >= hops.len() {
                return Carried::Delivers(last);
            }
        }
    }

    /// Carries a packet on from a link whose lease does not cover it.
    #[inline(never)]
    fn slow_path(&mut self, mut now: Time, mut link: u32, mut packet: impl Parcel) -> Fate {
        // With captures, every link is a stop.
        if let Some(captures) = &mut self.captures {
            captures.outbound(now, link, &packet.whole(), &self.payloads);
        }
        loop {
            let hop = &mut self.hops[link as usize];
            if !hop.feed_forward {
                let kept = hop.store.put(&packet);
                return self.offer_to_store(now, link, kept);
            }
            match hop.transit(now, &mut packet) {
                Transit::Delivered(at) => now = at,
                Transit::Dropped(_) => return Fate::Dropped(now),
            }
            let next = self.after(link, packet.way());
            if next as usize >= self.hops.len() {
                return Fate::Delivered { at: now, link };
            }
            let mut load = One { at: now, bytes: packet.bytes() };
            match self.traverse(packet.way(), next, &mut load) {
                Carried::Delivers(link) => return Fate::Delivered { at: load.at, link },
                Carried::StopsAt(next) => (now, link) = (load.at, next),
            }
        }
    }

    /// Offers a packet to a link that stores it.
    #[inline(always)]
    fn offer_to_store(&mut self, now: Time, link: u32, kept: Packet<u32>) -> Fate {
        let hop = &mut self.hops[link as usize];
        hop.advance(now);
        if hop.link.may_decide_ahead(now) {
            self.pass_on(now, link);
        }
        let hop = &mut self.hops[link as usize];
        if hop.is_cut_through_target {
            hop.link.offer_ahead(now, kept);
        } else if let Offered::Dropped(_) = hop.link.offer(now, kept) {
            hop.store.give_up(kept);
            // A queue may drop packets for an arrival that it then refuses all the same.
            self.advance_event(link);
            return Fate::Dropped(now);
        }
        if hop.link.may_decide_ahead(now) {
            self.pass_on(now, link);
        }
        self.advance_event(link);
        Fate::Stored
    }

    /// Passes on the packets that a link decides by `now`, if all go to one link that is a cut-through target.
    fn pass_on(&mut self, now: Time, link: u32) {
        let mut packet = NetPacket::default();
        while let Some(hop) = self.hops.get_mut(link as usize).filter(|hop| hop.passes_on) {
            let (next, Some(left)) = (hop.next, hop.link.decide_ahead(now)) else { return };
            hop.store.take(left.packet, &mut packet);
            if let Fate::Dropped(lost) = self.forward(left.at, next, &mut packet) {
                self.hops[link as usize].note_lost(LostBehind { leaves: left.at, lost, packet: packet.stored });
            }
        }
    }

    /// Moves the event of a link that stores packets if it would be late.
    fn advance_event(&mut self, link: u32) {
        let hop = &mut self.hops[link as usize];
        if let Some(at) = hop.earlier_event() {
            self.queue.set(link, at);
        }
        debug_assert!(
            hop.next_event().is_none() || self.queue.due(link).is_some(),
            "a link that keeps packets has an event"
        );
    }

    /// The link after `link`, as in [`Routes::after`].
    fn after(&self, link: u32, way: u32) -> u32 {
        match self.hops[link as usize].next {
            BY_WAY => self.routes.after(way, link),
            next => next,
        }
    }
}

/// Packets for the leases of links to cover.
trait Load {
    /// Passes a link, if its lease covers the load.
    fn pass(&mut self, link: &mut Link<u32>) -> bool;
}

/// A packet, and when it arrives at the next link.
struct One {
    at: Time,
    bytes: u16,
}

impl Load for One {
    #[inline(always)]
    fn pass(&mut self, link: &mut Link<u32>) -> bool {
        let Some(delivered) = link.take(self.at, u32::from(self.bytes)) else { return false };
        self.at = delivered;
        true
    }
}

/// Packets of one size, and when they arrive at the next link.
struct Several<'a> {
    times: &'a mut [Time],
    bytes: u16,
}

impl Load for Several<'_> {
    #[inline(always)]
    fn pass(&mut self, link: &mut Link<u32>) -> bool {
        link.take_all(self.times, u32::from(self.bytes))
    }
}

/// The link after a link whose packets take different routes.
#[inline(never)]
fn after_by_way(routes: &Routes, way: u32, link: u32) -> u32 {
    routes.after(way, link)
}
