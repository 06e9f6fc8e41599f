//! The links between the nodes: packets travel hop by hop along the path of their flow.
//!
//! A feed-forward link decides a packet's fate when it is offered, so the network stores its packets in one ring per link in order of
//! delivery, with one pending event for the first. A link that decides on departure stores its packets itself; its pending event is its
//! next decision, delivery or drop.
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

use perigee_link::{Offered, Packet, Transit};
use perigee_results::{LinkLog, Links};
use perigee_study::{read_link, FlowSpec, RouteChange, Scenario, Waiting};
use perigee_units::Time;

use crate::calendar::Calendar;
use crate::captures::Captures;
use crate::carriage::Carriage;
use crate::compact::{Arrived, Parcel};
use crate::feeders::{lookahead_links, single_feeders};
use crate::hop::{Departure, Hop, LostBehind};
use crate::link_account::LinkAccount;
use crate::processing::Processing;
use crate::queue::EventQueue;
use crate::routes::{Routes, ARRIVED, BY_WAY, LATER};

pub(crate) struct Network {
    /// The links of the study, followed by links inside hosts with processing time.
    hops: Vec<Hop>,
    visible: usize,
    routes: Routes,
    /// Packets are offered to later links ahead of time where that is safe.
    has_cut_through: bool,
    captures: Option<Captures>,
    /// By way: the link that delivers its packets, if the receiver has lookahead.
    lookahead_links: Vec<Option<u32>>,
    /// Packets sent by the ends, and arrived at their destinations.
    traffic: Traffic,
}

/// Packets exchanged by the ends of connections and flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    /// Packets whose loss the sender was informed of at once.
    pub(crate) gone_at_once: u64,
    pub(crate) arrived: u64,
}

/// When and by which link a packet is delivered next, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) at: Time,
    pub(crate) link: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Course {
    /// A link delivers the packet, and must [keep](Network::keep) it until then.
    To(Delivery),
    /// A link that decides on departure stores it.
    Stored,
    /// Dropped or lost at this time.
    Gone(Time),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    InFlight,
    /// Dropped or lost at this time, which may be in the future because of cut-through.
    Gone(Time),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    /// No packet leaves the link, or it was passed to the next link.
    Nothing,
    /// A packet of this way is dropped or lost.
    Gone {
        at: Time,
        way: u32,
    },
    AtDestination,
}

/// A packet at the link where the fast path stopped.
#[derive(Clone, Copy)]
struct Stopped {
    at: Time,
    link: u32,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, seed: u64, carriage: Carriage) -> Self {
        let Processing { links: hosts, paths } = Processing::new(scenario);
        let captures = Captures::new(scenario, seed, carriage.capture_payload);
        let is_captured = captures.is_some();
        let of_study = (0..).zip(&scenario.links).map(|(number, link)| {
            let gives_up = scenario.gives_up_waiting(number);
            Hop::new(link, seed, scenario.measure.series, carriage, is_captured, gives_up)
        });
        let of_hosts = hosts.iter().map(|host| Hop::new(host, seed, None, carriage, is_captured, false));
        let mut hops: Vec<Hop> = of_study.chain(of_hosts).collect();
        let mut routes = Routes::new(scenario, &hosts, &paths, seed);
        // A capture needs each node's packets in time order.
        let may_cut_through = carriage.cut_through && !carriage.links_store_packets && !is_captured;
        let has_cut_through = may_cut_through && routes.next_change().is_none();
        let mut lone = Vec::new();
        if has_cut_through {
            let feeders = single_feeders(hops.len(), paths.iter());
            routes.allow_lookahead(|link| feeders[link as usize].is_some());
            for (hop, feeder) in hops.iter_mut().zip(feeders) {
                hop.has_lookahead = feeder.is_some();
            }
            let ways: Vec<_> = paths.iter().collect();
            lone = lookahead_links(&ways, hops.len(), &routes, |link| hops[link as usize].feed_forward);
        }
        let links = hops.len();
        let after = routes.after_each(paths.iter(), links);
        for (hop, next) in hops.iter_mut().zip(after) {
            hop.next = next;
            hop.passes_on = !hop.feed_forward && (next as usize) < links;
        }
        Self {
            hops,
            visible: scenario.links.len(),
            routes,
            has_cut_through,
            captures,
            lookahead_links: lone,
            traffic: Traffic::default(),
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

    /// Number of links; their event sources are `0..links`.
    pub(crate) fn links(&self) -> usize {
        self.hops.len()
    }

    /// By way: the link that delivers its packets, if the receiver has lookahead.
    pub(crate) fn lookahead_of(&self, way: u32) -> Option<u32> {
        self.lookahead_links.get(way as usize).copied().flatten()
    }

    /// Whether cut-through carries all packets of a way to its end, which [`Network::send_through`] requires.
    pub(crate) fn is_through(&self, way: u32) -> bool {
        let mut link = self.routes.first(way);
        while let Some(hop) = self.hops.get(link as usize).filter(|hop| self.has_cut_through && hop.feed_forward) {
            link = if hop.next == BY_WAY { self.routes.after(way, link) } else { hop.next };
        }
        self.has_cut_through && link == ARRIVED
    }

    /// Sends a packet to the end of its way; returns the time of its arrival, of which no event is set, or `None` if it is dropped or lost.
    #[inline(always)]
    pub(crate) fn send_through(&mut self, now: Time, packet: impl Parcel, queue: &mut EventQueue) -> Option<Time> {
        if let Course::To(Delivery { at, .. }) = self.offer(now, packet, queue) {
            self.traffic.arrived += 1;
            return Some(at);
        }
        self.traffic.gone_at_once += 1;
        None
    }

    /// Sends a packet over the first link of its way.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Time, packet: impl Parcel, queue: &mut EventQueue) -> Fate {
        self.traffic.sent += 1;
        let fate = self.forward(now, self.routes.first(packet.way()), packet, queue);
        if let Fate::Gone(_) = fate {
            self.traffic.gone_at_once += 1;
        }
        fate
    }

    /// [`Network::send`] for packets of one way and size that leave at `times`, in order; these become the times of their arrivals.
    #[inline(always)]
    pub(crate) fn send_all<P: Parcel>(
        &mut self,
        times: &mut [Time],
        (way, bytes): (u32, u16),
        packets: impl Iterator<Item = P>,
        queue: &mut EventQueue,
    ) {
        match self.offer_all(times, way, bytes) {
            Ok(link) => {
                let hop = &mut self.hops[link as usize];
                times.iter().zip(packets).for_each(|(at, packet)| hop.keep(*at, link, &packet, queue));
            }
            Err(link) => {
                for (at, packet) in times.iter().zip(packets) {
                    if let Fate::Gone(_) = self.forward(*at, link, packet, queue) {
                        self.traffic.gone_at_once += 1;
                    }
                }
            }
        }
    }

    /// Offers a packet to the first link of its way, and to later links as far as cut-through allows.
    #[inline(always)]
    pub(crate) fn offer(&mut self, now: Time, packet: impl Parcel, queue: &mut EventQueue) -> Course {
        self.traffic.sent += 1;
        let first = self.routes.first(packet.way());
        match self.fast_path(now, first, packet.way(), packet.bytes()) {
            Ok(delivery) => Course::To(delivery),
            Err(stopped) => self.offer_slowly(stopped, packet, queue),
        }
    }

    /// [`Network::offer`] for packets of one way and size that leave at `times`, in order: carries them together, and replaces `times` by
    /// their arrivals there, as far as the leases cover all of them. Returns the link that delivers them, or else the one that each of them
    /// must be [offered](Network::offer_at) next.
    #[inline(always)]
    pub(crate) fn offer_all(&mut self, times: &mut [Time], way: u32, bytes: u16) -> Result<u32, u32> {
        self.traffic.sent += times.len() as u64;
        let (hops, mut last, mut next) = (&mut self.hops[..], LATER, self.routes.first(way));
        loop {
            while let Some(hop) = hops.get_mut(next as usize) {
                if !hop.link.take_all(times, u32::from(bytes)) {
                    return Err(next);
                }
                (last, next) = (next, hop.next);
            }
            if next != BY_WAY {
                return Ok(last);
            }
            next = after_by_way(&self.routes, way, last);
            if next as usize >= hops.len() {
                return Ok(last);
            }
        }
    }

    /// Offers a packet that has left its sender to a link of its way, and to later links as far as cut-through allows.
    #[inline(never)]
    pub(crate) fn offer_at(&mut self, now: Time, link: u32, packet: impl Parcel, queue: &mut EventQueue) -> Course {
        if !self.hops[link as usize].feed_forward {
            return self.offer_slowly(Stopped { at: now, link }, packet, queue);
        }
        match self.fast_path(now, link, packet.way(), packet.bytes()) {
            Ok(delivery) => Course::To(delivery),
            Err(stopped) => self.offer_slowly(stopped, packet, queue),
        }
    }

    #[inline(never)]
    fn offer_slowly(&mut self, stopped: Stopped, mut packet: impl Parcel, queue: &mut EventQueue) -> Course {
        self.slow_path(stopped, &mut packet, queue)
    }

    /// Stores a packet until its link delivers it.
    #[inline(always)]
    pub(crate) fn keep(&mut self, delivery: Delivery, packet: &impl Parcel, queue: &mut EventQueue) {
        let Delivery { at, link } = delivery;
        self.hops[link as usize].keep(at, link, packet, queue);
    }

    /// Processes the event of `link` at its time; a packet that leaves the link is moved into `place`.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, now: Time, link: u32, place: &mut Arrived, queue: &mut EventQueue) -> Arrival {
        let hop = &mut self.hops[link as usize];
        if !hop.feed_forward {
            hop.advance(now);
            self.pass_on(now, link, queue);
            match self.hops[link as usize].poll(now, link, place, queue) {
                Departure::Packet => {}
                Departure::Nothing => return Arrival::Nothing,
                Departure::Gone { at, way } => return Arrival::Gone { at, way },
            }
        } else if !hop.take_first(link, place, queue) {
            return Arrival::Nothing;
        }
        if let Some(captures) = &mut self.captures {
            captures.inbound(now, link, &place.whole());
        }
        let next = self.after(link, place.way());
        if next != ARRIVED {
            // A link with lookahead leaves no events to the link before it.
            return match self.forward(now, next & !LATER, &mut *place, queue) {
                Fate::InFlight => Arrival::Nothing,
                Fate::Gone(at) => Arrival::Gone { at, way: place.way() },
            };
        }
        self.traffic.arrived += 1;
        Arrival::AtDestination
    }

    /// The packets that a link delivers. After removing some, set its event with [`Network::schedule_first`].
    #[inline]
    pub(crate) fn calendar(&mut self, link: u32) -> &mut Calendar {
        &mut self.hops[link as usize].calendar
    }

    pub(crate) fn schedule_first(&mut self, link: u32, queue: &mut EventQueue) {
        self.hops[link as usize].set_event(link, queue);
    }

    /// When a link delivers the next packet, or, if it decides on departure, does anything; [`Time::MAX`] if it does nothing more.
    #[inline(always)]
    pub(crate) fn next_delivery(&self, link: u32) -> Time {
        let hop = &self.hops[link as usize];
        let next = if hop.feed_forward { hop.calendar.next() } else { hop.next_event() };
        next.unwrap_or(Time::MAX)
    }

    pub(crate) fn next_route_change(&self) -> Option<Time> {
        self.routes.next_change()
    }

    /// Changes the routes due at `now`, and moves or loses the packets that wait for the old links. Returns when
    /// packets are lost by that, and their ways.
    pub(crate) fn change_routes(&mut self, now: Time, queue: &mut EventQueue) -> Vec<(Time, u32)> {
        let mut gone = Vec::new();
        for RouteChange { to, link, from, waiting, .. } in self.routes.change(now) {
            let (Some(from), Waiting::Moved | Waiting::Lost) = (from, waiting) else { continue };
            let (routes, hop) = (&self.routes, &mut self.hops[from as usize]);
            hop.advance(now);
            let mut withdrawn = Vec::new();
            let is_lost = waiting == Waiting::Lost;
            let is_for = |packet: &Packet<u32>| routes.destination(packet.flow) == Some(to);
            hop.link.withdraw(now, is_lost, is_for, |packet| withdrawn.push(packet));
            let mut place = Arrived::default();
            for packet in withdrawn {
                let places = &mut self.hops[from as usize].places;
                if is_lost {
                    gone.push((now, places.give_up(packet).way));
                    continue;
                }
                places.take(packet, &mut place);
                if let Fate::Gone(at) = self.forward(now, link, &mut place, queue) {
                    gone.push((at, place.way()));
                }
            }
            self.hops[from as usize].set_event(from, queue);
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
    pub(crate) fn write_so_far(&mut self, run: u32, (after, now): (Time, Time), links: &mut Links) {
        for hop in &mut self.hops[..self.visible] {
            hop.advance(now + Time::from_nanos(1));
            hop.log.rows(run, after, now).for_each(|row| links.push(row));
        }
    }

    /// Offers a packet to a link, and to later links as far as cut-through allows; the last one stores it.
    #[inline(always)]
    fn forward(&mut self, now: Time, link: u32, packet: impl Parcel, queue: &mut EventQueue) -> Fate {
        match self.fast_path(now, link, packet.way(), packet.bytes()) {
            Ok(delivery) => self.keep(delivery, &packet, queue),
            Err(stopped) => return self.forward_slowly(stopped, packet, queue),
        }
        Fate::InFlight
    }

    #[inline(never)]
    fn forward_slowly(&mut self, stopped: Stopped, mut packet: impl Parcel, queue: &mut EventQueue) -> Fate {
        match self.slow_path(stopped, &mut packet, queue) {
            Course::To(delivery) => self.keep(delivery, &packet, queue),
            Course::Stored => {}
            Course::Gone(at) => return Fate::Gone(at),
        }
        Fate::InFlight
    }

    /// Carries a packet over a link and later links while cut-through allows it and their leases cover it. A next link that is no index
    /// of a hop (see [`Routes::after`]) ends the chain: the packet has arrived, or must be offered later.
    #[inline(always)]
    fn fast_path(&mut self, mut now: Time, link: u32, way: u32, bytes: u16) -> Result<Delivery, Stopped> {
        let (hops, mut last, mut next) = (&mut self.hops[..], link, link);
        loop {
            while let Some(hop) = hops.get_mut(next as usize) {
                match hop.link.take(now, u32::from(bytes)) {
                    Some(at) => now = at,
                    None => return Err(Stopped { at: now, link: next }),
                }
                (last, next) = (next, hop.next);
            }
            if next != BY_WAY {
                return Ok(Delivery { at: now, link: last });
            }
            next = after_by_way(&self.routes, way, last);
            if next as usize >= hops.len() {
                return Ok(Delivery { at: now, link: last });
            }
        }
    }

    /// Carries a packet on from a link whose lease does not cover it.
    fn slow_path(&mut self, stopped: Stopped, packet: &mut impl Parcel, queue: &mut EventQueue) -> Course {
        let Stopped { at: mut now, mut link } = stopped;
        // With captures, every link is a stop.
        if let Some(captures) = &mut self.captures {
            captures.outbound(now, link, &packet.whole());
        }
        loop {
            let hop = &mut self.hops[link as usize];
            if !hop.feed_forward {
                let kept = hop.places.put(packet);
                return self.store(now, link, kept, queue);
            }
            match hop.transit(now, packet) {
                Transit::Delivered(at) => now = at,
                Transit::Dropped(_) => return Course::Gone(now),
            }
            let next = self.after(link, packet.way());
            if next as usize >= self.hops.len() {
                return Course::To(Delivery { at: now, link });
            }
            match self.fast_path(now, next, packet.way(), packet.bytes()) {
                Ok(delivery) => return Course::To(delivery),
                Err(stopped) => Stopped { at: now, link } = stopped,
            }
        }
    }

    /// Offers a packet to a link that stores it.
    #[inline(always)]
    fn store(&mut self, now: Time, link: u32, kept: Packet<u32>, queue: &mut EventQueue) -> Course {
        let hop = &mut self.hops[link as usize];
        hop.advance(now);
        if hop.link.may_decide_ahead(now) {
            self.pass_on(now, link, queue);
        }
        let hop = &mut self.hops[link as usize];
        if hop.has_lookahead {
            hop.link.offer_ahead(now, kept);
        } else if let Offered::Dropped(_) = hop.link.offer(now, kept) {
            hop.places.give_up(kept);
            // A queue may drop packets for an arrival that it then refuses all the same.
            hop.advance_event(link, queue);
            return Course::Gone(now);
        }
        if hop.link.may_decide_ahead(now) {
            self.pass_on(now, link, queue);
        }
        self.hops[link as usize].advance_event(link, queue);
        Course::Stored
    }

    /// Passes on the packets that a link decides by `now`, if all go to one link with lookahead.
    fn pass_on(&mut self, now: Time, link: u32, queue: &mut EventQueue) {
        let mut packet = Arrived::default();
        while let Some(hop) = self.hops.get_mut(link as usize).filter(|hop| hop.passes_on) {
            let (next, Some(left)) = (hop.next, hop.link.decide_ahead(now)) else { return };
            hop.places.take(left.packet, &mut packet);
            let fate = self.forward(left.at, next, &mut packet, queue);
            if let Fate::Gone(lost) = fate {
                self.hops[link as usize].note_lost(LostBehind { leaves: left.at, lost, way: packet.way() });
            }
        }
    }

    /// The link after `link`, as in [`Routes::after`].
    fn after(&self, link: u32, way: u32) -> u32 {
        match self.hops[link as usize].next {
            BY_WAY => self.routes.after(way, link),
            next => next,
        }
    }
}

/// The link after a link whose packets take different routes.
#[inline(never)]
fn after_by_way(routes: &Routes, way: u32, link: u32) -> u32 {
    routes.after(way, link)
}
