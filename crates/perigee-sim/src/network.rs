//! The links between the nodes: packets go hop by hop along their flow's path.
//!
//! A feed-forward link decides a packet's fate when it is offered, so the network keeps the packets itself, in one ring
//! per link in the order of their delivery, with one pending event for the ring's front. A link that decides on departure
//! keeps its packets; its pending event is its next decision, delivery or drop.
//!
//! **Fast path.** A packet passes the links that may be asked in one loop, as long as the lease of each covers it
//! ([`Link::take`](perigee_link::Link::take)); the slow path goes on from the first that does not.
//!
//! **Cut-through.** Where a link is entered by the packets of one other link only, those arrive in the
//! order they left it and nothing else can come between them. The next link is then asked at once, with the instant of
//! the delivery that lies ahead, and so on; only the last link of such a chain holds the packet and causes an event.
//! No link ever sees a different sequence of arrivals for it. Where routes change in a run, no link is asked ahead of time.
//!
//! A link that decides on departure takes part: offered a packet ahead of time, it makes the decisions that are due until then,
//! since all that arrives before is known, and what it sends goes on to the next link with the decision. What it drops or
//! refuses is reported at that instant, and what is dropped behind it when the packet leaves it.

use perigee_link::{Offered, Packet, Transit};
use perigee_results::LinkLog;
use perigee_study::{read_link, FlowSpec, Scenario};
use perigee_units::Time;

use crate::calendar::Calendar;
use crate::captures::Captures;
use crate::carriage::Carriage;
use crate::compact::{Arrived, Parcel};
use crate::feeders::{lone_receivers, single_feeders};
use crate::hop::{Departure, Hop, LostBehind};
use crate::link_account::LinkAccount;
use crate::processing::Processing;
use crate::queue::EventQueue;
use crate::routes::{Routes, ARRIVED, BY_WAY, LATER};

/// All links of a run, and the packets on them.
pub(crate) struct Network {
    /// The links of the study, then those of hosts that take time for a packet.
    hops: Vec<Hop>,
    /// How many are the study's.
    visible: usize,
    routes: Routes,
    captures: Option<Captures>,
    /// By way: the link that delivers its packets, where the receiver may be asked ahead of time.
    lone_receivers: Vec<Option<u32>>,
    /// Packets that the ends have given to it, and those that have got to the end of their way.
    traffic: Traffic,
}

/// The packets that the ends of connections and flows have exchanged through a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
}

/// The end of a packet's way, as far as that is known: when it is delivered, and by which link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) at: Time,
    pub(crate) link: u32,
}

/// How far a packet has got that was offered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Course {
    /// A link delivers it, and has to [keep](Network::keep) it until then.
    To(Delivery),
    /// A link that decides on departure keeps it.
    Kept,
    /// It is dropped or lost at an instant.
    Gone(Time),
}

/// What became of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    OnItsWay,
    /// Dropped or lost at an instant, which cut-through may know ahead of it.
    Gone(Time),
}

/// What an event of a link brings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    /// No packet leaves the link, or it has been given to its next link.
    Nothing,
    /// A packet of a way is dropped or lost at an instant.
    Gone { at: Time, way: u32 },
    /// A packet is where its flow's path ends.
    AtItsEnd,
}

/// A packet at a link that has to be asked on the slow path.
#[derive(Clone, Copy)]
struct Stopped {
    at: Time,
    link: u32,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, seed: u64, carriage: Carriage) -> Self {
        let Processing { links: hosts, paths } = Processing::new(scenario);
        let captures = Captures::new(scenario, carriage.capture_payload);
        let is_captured = captures.is_some();
        let of_study =
            scenario.links.iter().map(|link| Hop::new(link, seed, scenario.measure.series, carriage, is_captured));
        let mut hops: Vec<Hop> =
            of_study.chain(hosts.iter().map(|host| Hop::new(host, seed, None, carriage, is_captured))).collect();
        let mut routes = Routes::new(scenario, &hosts, &paths, seed);
        // A capture wants each node's packets in the order of time.
        let cut_through = carriage.cut_through && !carriage.links_keep_packets && !is_captured;
        let mut lone = Vec::new();
        if cut_through && routes.next_change().is_none() {
            let feeders = single_feeders(hops.len(), paths.iter());
            routes.allow_lookahead(|link| feeders[link as usize].is_some());
            for (hop, feeder) in hops.iter_mut().zip(feeders) {
                hop.has_lookahead = feeder.is_some();
            }
            let ways: Vec<_> = paths.iter().collect();
            lone = lone_receivers(&ways, hops.len(), &routes, |link| hops[link as usize].feed_forward);
        }
        let links = hops.len();
        let after = routes.after_each(paths.iter(), links);
        for (hop, next) in hops.iter_mut().zip(after) {
            hop.next = next;
            hop.hands_on = !hop.feed_forward && (next as usize) < links;
        }
        Self {
            hops,
            visible: scenario.links.len(),
            routes,
            captures,
            lone_receivers: lone,
            traffic: Traffic::default(),
        }
    }

    /// Adds a connection over the links of a flow; returns the way of its data.
    pub(crate) fn add_connection(&mut self, flow: u32, spec: &FlowSpec) -> u32 {
        let way = self.routes.add_connection(flow);
        if let Some(captures) = &mut self.captures {
            captures.add_connection(spec, way / 2);
        }
        way
    }

    /// Number of links: their event sources are `0..links`.
    pub(crate) fn links(&self) -> usize {
        self.hops.len()
    }

    /// By way: the link that delivers its packets, where the receiver may be asked ahead of time.
    pub(crate) fn lookahead_of(&self, way: u32) -> Option<u32> {
        self.lone_receivers.get(way as usize).copied().flatten()
    }

    /// Gives a packet to the first link of its way.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn send(&mut self, now: Time, packet: impl Parcel, queue: &mut EventQueue) -> Fate {
        self.traffic.sent += 1;
        self.forward(now, self.routes.first(packet.way()), packet, queue)
    }

    /// Offers a packet to the first link of its way, and to those behind it that may be asked ahead of time.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that is sent")]
    pub(crate) fn offer(&mut self, now: Time, packet: impl Parcel, queue: &mut EventQueue) -> Course {
        self.traffic.sent += 1;
        let first = self.routes.first(packet.way());
        match self.fast_path(now, first, packet.way(), packet.bytes()) {
            Ok(delivery) => Course::To(delivery),
            Err(stopped) => self.offer_slowly(stopped, packet, queue),
        }
    }

    #[inline(never)]
    fn offer_slowly(&mut self, stopped: Stopped, mut packet: impl Parcel, queue: &mut EventQueue) -> Course {
        self.slow_path(stopped, &mut packet, queue)
    }

    /// Keeps a packet until its link delivers it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn keep(&mut self, delivery: Delivery, packet: &impl Parcel, queue: &mut EventQueue) {
        let Delivery { at, link } = delivery;
        self.hops[link as usize].keep(at, link, packet, queue);
    }

    /// Carries out the event of `link`, at the instant it was due; a packet that leaves the link is put into `place`.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that arrives")]
    pub(crate) fn deliver(&mut self, now: Time, link: u32, place: &mut Arrived, queue: &mut EventQueue) -> Arrival {
        let hop = &mut self.hops[link as usize];
        if !hop.feed_forward {
            hop.advance(now);
            self.hand_on(now, link, queue);
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
            // A link that is asked ahead of time leaves no event at the one before it.
            return match self.forward(now, next & !LATER, &mut *place, queue) {
                Fate::OnItsWay => Arrival::Nothing,
                Fate::Gone(at) => Arrival::Gone { at, way: place.way() },
            };
        }
        self.traffic.arrived += 1;
        Arrival::AtItsEnd
    }

    /// The packets that a link delivers. Whoever takes some away has its event [set](Network::schedule_first) in the end.
    #[inline]
    pub(crate) fn calendar(&mut self, link: u32) -> &mut Calendar {
        &mut self.hops[link as usize].calendar
    }

    /// Sets the event of a link for the packets that it has now.
    pub(crate) fn schedule_first(&mut self, link: u32, queue: &mut EventQueue) {
        self.hops[link as usize].set_event(link, queue);
    }

    /// Whether a link delivers nothing by `at`.
    #[inline]
    pub(crate) fn delivers_after(&self, link: u32, at: Time) -> bool {
        self.hops[link as usize].next_event().is_none_or(|next| next > at)
    }

    /// When routes change next.
    pub(crate) fn next_route_change(&self) -> Option<Time> {
        self.routes.next_change()
    }

    /// Makes the changes of routes that are due.
    pub(crate) fn change_routes(&mut self, now: Time) {
        self.routes.change(now);
    }

    /// A receiver that was asked ahead of time has taken a packet.
    #[inline]
    pub(crate) fn count_arrival(&mut self) {
        self.traffic.arrived += 1;
    }

    /// What the ends have exchanged through it.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// What each link has done and holds, those of hosts included.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = LinkAccount<'_>> {
        self.hops.iter().map(Hop::account)
    }

    /// The way of each packet whose end has still to be told of it, or of its loss.
    pub(crate) fn held_ways(&self) -> impl Iterator<Item = u32> {
        self.hops.iter().flat_map(Hop::ways)
    }

    /// The links' logs up to `end`, and the capture files, by node.
    pub(crate) fn finish(self, end: Time) -> (Vec<LinkLog>, Option<Captures>) {
        let close = |mut hop: Hop| {
            hop.log.close_until(end, |from, to| read_link(&mut hop.link, from, to));
            hop.log
        };
        (self.hops.into_iter().take(self.visible).map(close).collect(), self.captures)
    }

    /// Gives a packet to a link and to those behind it that may be asked ahead of time, the last of which keeps it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    fn forward(&mut self, now: Time, link: u32, packet: impl Parcel, queue: &mut EventQueue) -> Fate {
        match self.fast_path(now, link, packet.way(), packet.bytes()) {
            Ok(delivery) => self.keep(delivery, &packet, queue),
            Err(stopped) => return self.forward_slowly(stopped, packet, queue),
        }
        Fate::OnItsWay
    }

    #[inline(never)]
    fn forward_slowly(&mut self, stopped: Stopped, mut packet: impl Parcel, queue: &mut EventQueue) -> Fate {
        match self.slow_path(stopped, &mut packet, queue) {
            Course::To(delivery) => self.keep(delivery, &packet, queue),
            Course::Kept => {}
            Course::Gone(at) => return Fate::Gone(at),
        }
        Fate::OnItsWay
    }

    /// Carries a packet over a link and those behind it that may be asked ahead of time, as far as their leases cover it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that is sent")]
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
        // With captures no link is asked ahead of time.
        if let Some(captures) = &mut self.captures {
            captures.outbound(now, link, &packet.whole());
        }
        loop {
            let hop = &mut self.hops[link as usize];
            if !hop.feed_forward {
                let kept = hop.places.put(packet);
                return self.put_on(now, link, kept, queue);
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

    /// Gives a packet to a link that keeps it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a link that decides on departure")]
    fn put_on(&mut self, now: Time, link: u32, kept: Packet<u32>, queue: &mut EventQueue) -> Course {
        let hop = &mut self.hops[link as usize];
        hop.advance(now);
        if hop.link.may_decide_ahead(now) {
            self.hand_on(now, link, queue);
        }
        let hop = &mut self.hops[link as usize];
        if hop.has_lookahead {
            hop.link.offer_ahead(now, kept);
        } else if let Offered::Dropped(_) = hop.link.offer(now, kept) {
            hop.places.give_up(kept);
            return Course::Gone(now);
        }
        if hop.link.may_decide_ahead(now) {
            self.hand_on(now, link, queue);
        }
        self.hops[link as usize].hurry_event(link, queue);
        Course::Kept
    }

    /// Asks the next link for the packets on which a link decides by `now`, where all its packets go to one that may be asked ahead of
    /// time.
    fn hand_on(&mut self, now: Time, link: u32, queue: &mut EventQueue) {
        let mut packet = Arrived::default();
        while let Some(hop) = self.hops.get_mut(link as usize).filter(|hop| hop.hands_on) {
            let (next, Some(left)) = (hop.next, hop.link.decide_ahead(now)) else { return };
            hop.places.take(left.packet, &mut packet);
            let fate = self.forward(left.at, next, &mut packet, queue);
            if let Fate::Gone(lost) = fate {
                self.hops[link as usize].note_lost(LostBehind { leaves: left.at, lost, way: packet.way() });
            }
        }
    }

    /// The link behind a link, as [`Routes::after`] gives it.
    fn after(&self, link: u32, way: u32) -> u32 {
        match self.hops[link as usize].next {
            BY_WAY => self.routes.after(way, link),
            next => next,
        }
    }
}

/// The link behind a link whose packets part there.
#[inline(never)]
fn after_by_way(routes: &Routes, way: u32, link: u32) -> u32 {
    routes.after(way, link)
}
