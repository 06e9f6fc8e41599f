//! The links between the nodes: packets go hop by hop along their flow's path.
//!
//! A feed-forward link tells a packet's fate when it is offered, so the network keeps the packets itself, in one ring
//! per link in the order of their delivery, with one pending event for the ring's front. A link that decides on departure
//! keeps its packets; its pending event is its next decision, delivery or drop.
//!
//! **Cut-through.** Where a link is entered by the packets of one other link only, those arrive in the
//! order they left it and nothing else can come between them. The next link is then asked at once, with the instant of
//! the delivery that lies ahead, and so on; only the last link of such a chain holds the packet and causes an event.
//! No link ever sees a different sequence of arrivals for it. Where routes change in a run, no link is asked ahead of time.
//!
//! A link that decides on departure takes part: offered a packet ahead of time, it makes the decisions that are due until then,
//! since all that arrives before is known, and what it sends goes on to the next link with the decision. What it drops or
//! refuses is told at that instant, and what is dropped behind it when the packet leaves it.

use std::collections::VecDeque;

use perigee_link::{Exit, Link, Offered, Packet, Transit};
use perigee_results::LinkLog;
use perigee_study::{read_link, FlowSpec, RunLink, Scenario};
use perigee_tcp::Header;
use perigee_units::Time;

use crate::calendar::{Calendar, Taken};
use crate::captures::Captures;
use crate::compact::Compact;
use crate::link_account::LinkAccount;
use crate::packet::NetPacket;
use crate::places::Places;
use crate::processing::Processing;
use crate::queue::EventQueue;
use crate::routes::{Routes, ARRIVED, BY_WAY, LATER};

/// How the network carries packets; the results are the same in every way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carriage {
    /// Ask the next link ahead of time where that is safe.
    pub(crate) cut_through: bool,
    /// Let feed-forward links keep their packets, as those that decide on departure do.
    pub(crate) links_keep_packets: bool,
    /// Links and endpoints have their fast paths.
    pub(crate) fast_paths: bool,
    /// Payload bytes of each packet in captures.
    pub(crate) capture_payload: usize,
}

impl Carriage {
    /// Every packet by itself: each link keeps it and has an event for it, and neither links nor endpoints have a fast path.
    pub(crate) const PLAIN: Self =
        Self { cut_through: false, links_keep_packets: true, fast_paths: false, capture_payload: 0 };

    /// That of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        if scenario.is_plain {
            Self::PLAIN
        } else {
            Self::default()
        }
    }
}

impl Default for Carriage {
    fn default() -> Self {
        Self { cut_through: true, links_keep_packets: false, fast_paths: true, capture_payload: 0 }
    }
}

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

/// One directed link.
struct Hop {
    link: Link<u32>,
    feed_forward: bool,
    /// Its packets are offered ahead of time.
    asked_ahead: bool,
    /// It decides on departure, and the next link of all packets is asked as soon as it has.
    hands_on: bool,
    /// What it is given goes into a capture.
    is_captured: bool,
    /// The next link of all packets, as [`Routes::after`] gives it, or [`BY_WAY`].
    next: u32,
    /// Packets that will be delivered, of a feed-forward link.
    calendar: Calendar,
    /// Packets that the link keeps itself, where it does.
    places: Places,
    /// When the event of such a link is due; [`Time::MAX`]: it has none.
    due: Time,
    /// Packets that links behind this one have dropped: when they leave it, which is when that is told, and when they are dropped.
    lost_behind: VecDeque<(Time, Time, NetPacket)>,
    log: LinkLog,
}

/// Why a packet is not carried further at once.
#[derive(Clone, Copy)]
enum Stop {
    /// It is gone at an instant.
    Gone(Time),
    /// A link that decides on departure, where it arrives at an instant, keeps it.
    Kept(Time, u32),
}

/// What became of a packet given to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    OnItsWay,
    /// Dropped or lost at an instant, which cut-through may know ahead of it.
    Gone(Time),
}

/// What an event of a link brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// No packet leaves the link.
    Nothing,
    /// The link has dropped the packet.
    Dropped,
    /// The packet is where its flow's path ends.
    AtItsEnd,
    /// The packet has been given to its next link.
    Forwarded(Fate),
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, seed: u64, carriage: Carriage) -> Self {
        let Processing { links: hosts, paths } = Processing::new(scenario);
        let captures = Captures::new(scenario, carriage.capture_payload);
        let of_study = scenario.links.iter().map(|link| Hop::new(link, seed, scenario.measure.series, carriage));
        let mut hops: Vec<Hop> =
            of_study.chain(hosts.iter().map(|host| Hop::new(host, seed, None, carriage))).collect();
        let mut routes = Routes::new(scenario, &hosts, &paths, seed);
        // A capture wants each node's packets in the order of time.
        let cut_through = carriage.cut_through && !carriage.links_keep_packets && captures.is_none();
        let mut lone = Vec::new();
        if cut_through && routes.next_change().is_none() {
            let feeders = single_feeders(hops.len(), paths.iter());
            routes.allow_ahead(|link| feeders[link as usize].is_some());
            for (hop, feeder) in hops.iter_mut().zip(feeders) {
                hop.asked_ahead = feeder.is_some();
            }
            let ways: Vec<_> = paths.iter().collect();
            lone = lone_receivers(&ways, hops.len(), &routes, |link| hops[link as usize].feed_forward);
        }
        let links = hops.len();
        let after = routes.after_each(paths.iter(), links);
        for (hop, next) in hops.iter_mut().zip(after) {
            hop.next = next;
            hop.is_captured = captures.is_some();
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

    /// Gives a packet to the first link of its way.
    #[inline]
    pub(crate) fn send(&mut self, now: Time, packet: &mut NetPacket, queue: &mut EventQueue) -> Fate {
        self.traffic.sent += 1;
        self.forward(now, self.routes.first(packet.way), packet, queue)
    }

    /// Carries a packet over the links that may be asked ahead of time; where there are captures, over the first. Answers with the
    /// instant of its delivery and the last of these links, whose calendar has to [keep](Network::keep) it.
    pub(crate) fn carry(
        &mut self,
        now: Time,
        packet: &mut NetPacket,
        queue: &mut EventQueue,
    ) -> Result<(Time, u32), Fate> {
        self.traffic.sent += 1;
        let first = self.routes.first(packet.way);
        self.carry_from(now, first, packet, queue)
    }

    /// [`Network::carry`] of the packet of a segment without rare options, whose sender does not take part in ECN.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment of a bulk transfer")]
    pub(crate) fn carry_plain(
        &mut self,
        now: Time,
        packet: (u32, u16),
        header: &Header,
        queue: &mut EventQueue,
    ) -> Carried {
        self.traffic.sent += 1;
        let first = self.routes.first(packet.0);
        match self.pass(now, first, packet) {
            Ok((at, link)) => Carried { at, link },
            Err((now, link)) => self.carry_whole(now, link, packet, header, queue),
        }
    }

    /// Carries the packet of a plain segment like any other, from a link on.
    #[inline(never)]
    fn carry_whole(
        &mut self,
        now: Time,
        link: u32,
        packet: (u32, u16),
        header: &Header,
        queue: &mut EventQueue,
    ) -> Carried {
        let hop = &mut self.hops[link as usize];
        if !hop.feed_forward && self.captures.is_none() {
            let kept = hop.places.put_plain(Compact::plain(packet, header));
            self.put_on(now, link, kept, queue);
            return Carried::NO_FURTHER;
        }
        match self.carry_from(now, link, &mut NetPacket::plain(packet, header), queue) {
            Ok((at, link)) => Carried { at, link },
            Err(_) => Carried::NO_FURTHER,
        }
    }

    /// Keeps a packet that a link delivers at an instant.
    #[inline]
    pub(crate) fn keep(&mut self, (at, link): (Time, u32), packet: &NetPacket, queue: &mut EventQueue) {
        let hop = &mut self.hops[link as usize];
        hop.schedule(at, link, queue);
        hop.calendar.push(at, packet);
    }

    /// [`Network::keep`] of a packet without rare options.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement of a bulk transfer")]
    pub(crate) fn keep_plain(&mut self, (at, link): (Time, u32), packet: Compact, queue: &mut EventQueue) {
        let hop = &mut self.hops[link as usize];
        hop.schedule(at, link, queue);
        hop.calendar.push_plain(at, packet);
    }

    /// By way: the link that delivers its packets, where the receiver may be asked ahead of time.
    pub(crate) fn delivers_ahead(&self, way: u32) -> Option<u32> {
        self.lone_receivers.get(way as usize).copied().flatten()
    }

    /// When routes change next.
    pub(crate) fn next_route_change(&self) -> Option<Time> {
        self.routes.next_change()
    }

    /// Makes the changes of routes that are due.
    pub(crate) fn change_routes(&mut self, now: Time) {
        self.routes.change(now);
    }

    /// [`Network::arrive`] of a segment without rare options and congestion mark, where its way ends: its way and the size of its packet;
    /// its header is put into `header`. `None`: the event is another one, and has not been carried out.
    #[inline]
    pub(crate) fn arrive_plain(
        &mut self,
        link: u32,
        header: &mut Header,
        queue: &mut EventQueue,
    ) -> Option<(u32, u16)> {
        let hop = &mut self.hops[link as usize];
        if hop.next != ARRIVED || self.captures.is_some() {
            return None;
        }
        let (_, packet) = hop.calendar.first_plain()?;
        *header = packet.header;
        let what = (packet.way, packet.bytes);
        hop.calendar.drop_first();
        hop.schedule_next(link, queue);
        self.traffic.arrived += 1;
        Some(what)
    }

    /// The first packet in the calendar of a link, if it is one of a way, without rare options and congestion mark: its instant and
    /// its header.
    #[inline]
    pub(crate) fn first_plain(&self, link: u32, way: u32) -> Option<(Time, Header)> {
        let (at, packet) = self.hops[link as usize].calendar.first_plain()?;
        (packet.way == way).then_some((at, packet.header))
    }

    /// Takes the first packet out of the calendar of a link if it is an acknowledgement of a way, due before all other events and when it
    /// `may` be, and says when; `segment` and `packet` are places for it. The link's event has [to be set](Network::schedule_first) for
    /// the packets behind it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn next_acknowledgement(
        &mut self,
        (link, way): (u32, u32),
        may: impl FnOnce(Time) -> bool,
        (segment, packet): (&mut Taken, &mut NetPacket),
        queue: &EventQueue,
    ) -> Option<Time> {
        let calendar = &mut self.hops[link as usize].calendar;
        let at = calendar.next().filter(|at| queue.would_be_first(link, *at, link) && may(*at))?;
        if !calendar.take_acknowledgement(way, segment, packet) {
            return None;
        }
        self.traffic.arrived += 1;
        Some(at)
    }

    /// A receiver that was asked ahead of time has taken a packet.
    #[inline]
    pub(crate) fn count_arrival(&mut self) {
        self.traffic.arrived += 1;
    }

    /// Whether a link delivers nothing by `at`.
    #[inline]
    pub(crate) fn delivers_after(&self, link: u32, at: Time) -> bool {
        self.hops[link as usize].next_event().is_none_or(|next| next > at)
    }

    /// Takes the first packet out of the calendar of a link, before its event, which has [to be set](Network::schedule_first).
    #[inline]
    pub(crate) fn drop_first(&mut self, link: u32) {
        self.hops[link as usize].calendar.drop_first();
    }

    /// Sets the event of a link, some of whose packets were taken out of its calendar.
    pub(crate) fn schedule_first(&mut self, link: u32, queue: &mut EventQueue) {
        self.hops[link as usize].set_event(link, queue);
    }

    /// Whether no packet waits in the calendar of a link.
    #[inline]
    pub(crate) fn is_empty(&self, link: u32) -> bool {
        self.hops[link as usize].calendar.is_empty()
    }

    /// Carries out the event of `link`, at the instant it was due: the packet that leaves it, if any, is put into `packet`.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Time, link: u32, packet: &mut NetPacket, queue: &mut EventQueue) -> Arrival {
        let hop = &mut self.hops[link as usize];
        if hop.feed_forward {
            if !hop.calendar.pop(packet) {
                return Arrival::Nothing;
            }
            hop.schedule_next(link, queue);
        } else {
            hop.advance(now);
            self.hand_on(now, link, queue);
            if let Some(arrival) = self.hops[link as usize].poll(now, link, packet, queue) {
                return arrival;
            }
        }
        if let Some(captures) = &mut self.captures {
            captures.inbound(now, link, packet);
        }
        let next = match self.hops[link as usize].next {
            BY_WAY => self.routes.after(packet.way, link),
            next => next,
        };
        match next {
            ARRIVED => {
                self.traffic.arrived += 1;
                Arrival::AtItsEnd
            }
            // A link that is asked ahead of time leaves no event at the one before it.
            next => Arrival::Forwarded(self.forward(now, next & !LATER, packet, queue)),
        }
    }

    /// What the ends have exchanged through it.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// What each link has done and holds, those of hosts included.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = LinkAccount<'_>> {
        self.hops.iter().map(|hop| LinkAccount {
            name: hop.log.link(),
            counters: hop.link.counters(),
            held: hop.link.held(),
            in_calendar: hop.calendar.len() as u64,
            in_places: hop.places.len() as u64,
            lost_behind: hop.lost_behind.len() as u64,
            next_event: hop.next_event(),
        })
    }

    /// The way of each packet whose end has still to be told of it, or of its loss.
    pub(crate) fn held_ways(&self) -> impl Iterator<Item = u32> {
        self.hops.iter().flat_map(|hop| {
            let lost = hop.lost_behind.iter().map(|(_, _, packet)| packet.way);
            hop.calendar.ways().chain(hop.places.ways()).chain(lost)
        })
    }

    /// The links' logs up to `end`, and the capture files, by node.
    pub(crate) fn finish(self, end: Time) -> (Vec<LinkLog>, Option<Captures>) {
        let close = |mut hop: Hop| {
            hop.log.close_until(end, |from, to| read_link(&mut hop.link, from, to));
            hop.log
        };
        (self.hops.into_iter().take(self.visible).map(close).collect(), self.captures)
    }

    #[inline(never)]
    fn capture_outbound(&mut self, now: Time, link: u32, packet: &NetPacket) {
        if let Some(captures) = &mut self.captures {
            captures.outbound(now, link, packet);
        }
    }

    /// Gives a packet to a link.
    fn forward(&mut self, now: Time, link: u32, packet: &mut NetPacket, queue: &mut EventQueue) -> Fate {
        match self.carry_from(now, link, packet, queue) {
            Ok(delivery) => {
                self.keep(delivery, packet, queue);
                Fate::OnItsWay
            }
            Err(fate) => fate,
        }
    }

    fn carry_from(
        &mut self,
        mut now: Time,
        mut link: u32,
        packet: &mut NetPacket,
        queue: &mut EventQueue,
    ) -> Result<(Time, u32), Fate> {
        // With captures no link is asked ahead of time.
        if self.captures.is_some() {
            self.capture_outbound(now, link, packet);
        }
        let what = (packet.way, packet.bytes);
        loop {
            match self.pass(now, link, what) {
                Ok(delivery) => return Ok(delivery),
                Err(stopped) => (now, link) = stopped,
            }
            now = match self.hops[link as usize].transit(now, link, packet) {
                Ok(at) => at,
                Err(stop) => return Err(self.stopped(stop, packet, queue)),
            };
            match self.next_ahead(link, packet.way) {
                Some(next) => link = next,
                None => return Ok((now, link)),
            }
        }
    }

    /// What becomes of a packet that is not carried further at once.
    #[inline(never)]
    fn stopped(&mut self, stop: Stop, packet: &NetPacket, queue: &mut EventQueue) -> Fate {
        match stop {
            Stop::Gone(at) => Fate::Gone(at),
            Stop::Kept(now, link) => {
                let kept = self.hops[link as usize].places.put(packet);
                self.put_on(now, link, kept, queue)
            }
        }
    }

    /// Gives a packet to a link that keeps it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a link that decides on departure")]
    fn put_on(&mut self, now: Time, link: u32, kept: Packet<u32>, queue: &mut EventQueue) -> Fate {
        let hop = &mut self.hops[link as usize];
        hop.advance(now);
        if hop.link.may_decide_ahead(now) {
            self.hand_on(now, link, queue);
        }
        let hop = &mut self.hops[link as usize];
        if hop.asked_ahead {
            hop.link.offer_ahead(now, kept);
        } else if let Offered::Dropped(_) = hop.link.offer(now, kept) {
            hop.places.take(kept);
            return Fate::Gone(now);
        }
        if hop.link.may_decide_ahead(now) {
            self.hand_on(now, link, queue);
        }
        // An event that comes too early, since its decision was made ahead of time, brings nothing.
        let hop = &mut self.hops[link as usize];
        if let Some(at) = hop.next_event().filter(|at| *at < hop.due) {
            hop.due = at;
            queue.set(link, at);
        }
        debug_assert!(
            hop.next_event().is_none() || queue.due(link).is_some(),
            "a link that keeps packets has an event"
        );
        Fate::OnItsWay
    }

    /// Asks the next link for the packets on which a link decides by `now`, where all its packets go to one that may be asked ahead of
    /// time.
    fn hand_on(&mut self, now: Time, link: u32, queue: &mut EventQueue) {
        while let Some(hop) = self.hops.get_mut(link as usize).filter(|hop| hop.hands_on) {
            let (next, Some(delivery)) = (hop.next, hop.link.decide_ahead(now)) else { return };
            let (mut from, mut at, place) = (next, delivery.at, delivery.packet.token);
            let packet = hop.places.take(delivery.packet);
            if packet.is_plain() {
                let what = (packet.way, packet.bytes);
                match self.pass(at, next, what) {
                    Ok(delivery) => {
                        let packet = self.hops[link as usize].places.taken(place);
                        self.keep_plain(delivery, packet, queue);
                        continue;
                    }
                    Err(stopped) => (at, from) = stopped,
                }
            }
            let mut packet = self.hops[link as usize].places.taken_whole(place);
            if let Fate::Gone(at) = self.forward(at, from, &mut packet, queue) {
                self.hops[link as usize].lost_behind.push_back((delivery.at, at, packet));
            }
        }
    }

    /// Carries a packet over a link and those behind it that may be asked ahead of time, where it meets nothing new: the instant of its
    /// delivery, and the last of them; otherwise when it arrives at the first that has to be asked in the general way, and that one.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that is sent")]
    fn pass(&mut self, mut now: Time, link: u32, (way, bytes): (u32, u16)) -> Result<(Time, u32), (Time, u32)> {
        let (hops, mut last, mut next) = (&mut self.hops[..], link, link);
        loop {
            while let Some(hop) = hops.get_mut(next as usize) {
                match hop.link.take(now, u32::from(bytes)) {
                    Some(at) => now = at,
                    None => return Err((now, next)),
                }
                (last, next) = (next, hop.next);
            }
            if next != BY_WAY {
                return Ok((now, last));
            }
            next = after_by_way(&self.routes, way, last);
            if next as usize >= hops.len() {
                return Ok((now, last));
            }
        }
    }

    /// The link behind a link, if it may be asked ahead of time.
    fn next_ahead(&self, link: u32, way: u32) -> Option<u32> {
        let next = match self.hops[link as usize].next {
            BY_WAY => self.routes.after(way, link),
            next => next,
        };
        ((next as usize) < self.hops.len()).then_some(next)
    }
}

/// How far a packet was carried: two words, which a function returns in registers.
#[derive(Clone, Copy)]
pub(crate) struct Carried {
    at: Time,
    link: u32,
}

impl Carried {
    /// It is gone, or a link keeps it.
    const NO_FURTHER: Self = Self { at: Time::MAX, link: 0 };

    /// The instant of its delivery, and the link that delivers it.
    #[inline]
    pub(crate) fn delivery(self) -> Option<(Time, u32)> {
        (self.at != Time::MAX).then_some((self.at, self.link))
    }
}

impl Hop {
    fn new(link: &RunLink, seed: u64, interval: Option<Time>, carriage: Carriage) -> Self {
        let model = Link::new(&link.spec, seed, &link.name);
        let mut model = if carriage.fast_paths { model } else { model.without_fast_path() };
        let feed_forward = model.is_feed_forward() && !carriage.links_keep_packets;
        if !feed_forward {
            model.take_before(Time::ZERO);
        }
        let log = LinkLog::new(link.name.clone(), interval);
        Self {
            link: model,
            feed_forward,
            asked_ahead: false,
            hands_on: false,
            is_captured: false,
            next: BY_WAY,
            calendar: Calendar::new(),
            places: Places::default(),
            due: Time::MAX,
            lost_behind: VecDeque::new(),
            log,
        }
    }

    /// A packet that will be delivered at `at` is about to be put into the calendar.
    #[inline]
    fn schedule(&self, at: Time, link: u32, queue: &mut EventQueue) {
        if self.calendar.is_empty() {
            queue.set(link, at);
        }
    }

    /// The packet of the first event has been taken out of the calendar.
    #[inline]
    fn schedule_next(&self, link: u32, queue: &mut EventQueue) {
        debug_assert_eq!(queue.first().map(|(_, source)| source), Some(link), "the event carried out is the first one");
        match self.calendar.next() {
            Some(at) => queue.move_first(at),
            None => queue.remove(link),
        }
    }

    /// When any packet that arrives at `now` is delivered, or why it is not carried further at once.
    #[inline(never)]
    fn transit(&mut self, now: Time, link: u32, packet: &mut NetPacket) -> Result<Time, Stop> {
        if !self.feed_forward {
            return Err(Stop::Kept(now, link));
        }
        self.advance(now);
        self.link.take_before(if self.is_captured { Time::ZERO } else { self.log.quiet_until() });
        match self.link.transit(now, u32::from(packet.bytes), &mut packet.ecn) {
            Transit::Delivered(at) => Ok(at),
            Transit::Dropped(_) => Err(Stop::Gone(now)),
        }
    }

    /// Closes the intervals of the log that end before `now`.
    fn advance(&mut self, now: Time) {
        self.log.advance(now, |from, to| read_link(&mut self.link, from, to));
    }

    /// Puts the packet that leaves a link that keeps its packets itself into `packet`; what is to be told in place of its delivery.
    fn poll(&mut self, now: Time, link: u32, packet: &mut NetPacket, queue: &mut EventQueue) -> Option<Arrival> {
        let (left, arrival) = match self.link.poll(now) {
            Some(Exit::Delivered(delivery)) => (Some(self.places.take_whole(delivery.packet)), None),
            Some(Exit::Dropped(drop)) => (Some(self.places.take_whole(drop.packet)), Some(Arrival::Dropped)),
            None if self.lost_behind.front().is_some_and(|lost| lost.0 <= now) => {
                let lost = self.lost_behind.pop_front();
                (lost.map(|lost| lost.2), lost.map(|lost| Arrival::Forwarded(Fate::Gone(lost.1))))
            }
            None => (None, Some(Arrival::Nothing)),
        };
        if let Some(left) = left {
            *packet = left;
        }
        self.set_event(link, queue);
        arrival
    }

    /// Sets the link's event for the packets that it has now.
    fn set_event(&mut self, link: u32, queue: &mut EventQueue) {
        let next = self.next_event();
        self.due = next.unwrap_or(Time::MAX);
        match next {
            Some(at) => queue.set(link, at),
            None => queue.remove(link),
        }
    }

    /// The link's next event: the next delivery of a feed-forward link, the next decision of one that keeps its packets, before which
    /// it delivers nothing.
    #[inline]
    fn next_event(&self) -> Option<Time> {
        if self.feed_forward {
            return self.calendar.next();
        }
        match self.lost_behind.front() {
            None => self.link.next_event(),
            Some(lost) => Some(self.link.next_event().map_or(lost.0, |at| at.min(lost.0))),
        }
    }
}

/// The link behind a link whose packets part there.
#[inline(never)]
fn after_by_way(routes: &Routes, way: u32, link: u32) -> u32 {
    routes.after(way, link)
}

/// For each link, the link that all of its packets come from; `None` where they come from several, or begin there.
fn single_feeders<'a>(links: usize, paths: impl Iterator<Item = &'a Vec<u32>>) -> Vec<Option<u32>> {
    let mut feeders = vec![Feeder::Nobody; links];
    for path in paths {
        let mut from = Feeder::Several;
        for link in path {
            let feeder = &mut feeders[*link as usize];
            *feeder = if *feeder == Feeder::Nobody || *feeder == from { from } else { Feeder::Several };
            from = Feeder::Link(*link);
        }
    }
    feeders.into_iter().map(|feeder| if let Feeder::Link(link) = feeder { Some(link) } else { None }).collect()
}

/// By way: its last link, where a packet is known to be delivered by it as soon as it is sent, and what the receiver sends has its first
/// link to itself.
fn lone_receivers(
    ways: &[&Vec<u32>],
    links: usize,
    routes: &Routes,
    is_feed_forward: impl Fn(u32) -> bool,
) -> Vec<Option<u32>> {
    let mut users = vec![0u32; links];
    ways.iter().copied().flatten().for_each(|link| users[*link as usize] += 1);
    let lone = |(way, path): (usize, &&Vec<u32>)| {
        let (first_back, last) = (*ways[way ^ 1].first()?, *path.last()?);
        let is_ahead = path.windows(2).all(|pair| routes.after(way as u32, pair[0]) == pair[1]);
        let is_lone = users[first_back as usize] == 1 && is_feed_forward(first_back);
        (is_ahead && is_lone && is_feed_forward(last)).then_some(last)
    };
    ways.iter().enumerate().map(lone).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Feeder {
    Nobody,
    Link(u32),
    /// Several links, or a node where flows begin.
    Several,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_single_feeder_when_all_its_packets_come_over_one_link() {
        let chain = [vec![0, 1, 2], vec![3, 4, 5]];
        assert_eq!(single_feeders(6, chain.iter()), [None, Some(0), Some(1), None, Some(3), Some(4)]);
        let joined = [vec![0, 2], vec![1, 2]];
        assert_eq!(single_feeders(3, joined.iter()), [None; 3], "two links feed link 2");
        let begun_between = [vec![0, 1], vec![1]];
        assert_eq!(single_feeders(2, begun_between.iter()), [None; 2], "a flow begins at link 1");
        let left_between = [vec![0, 1], vec![0]];
        assert_eq!(single_feeders(2, left_between.iter()), [None, Some(0)], "packets that end before it do not matter");
    }
}
