//! A directed link of the network, with its packets.

use std::collections::VecDeque;

use perigee_link::{Exit, Link, Transit};
use perigee_results::LinkLog;
use perigee_study::{read_link, RunLink};
use perigee_units::Time;

use crate::calendar::Calendar;
use crate::carriage::Carriage;
use crate::compact::{Arrived, Parcel};
use crate::link_account::LinkAccount;
use crate::places::Places;
use crate::queue::EventQueue;
use crate::routes::BY_WAY;

/// One directed link.
pub(crate) struct Hop {
    pub(crate) link: Link<u32>,
    pub(crate) feed_forward: bool,
    /// Packets are offered to it ahead of time.
    pub(crate) has_lookahead: bool,
    /// It decides on departure, and its decisions are passed on ahead of time to the next link, which all its packets share.
    pub(crate) passes_on: bool,
    /// Its packets are captured.
    is_captured: bool,
    /// The next link of all its packets, as in [`Routes::after`](crate::routes::Routes::after), or [`BY_WAY`].
    pub(crate) next: u32,
    /// Packets to be delivered by a feed-forward link.
    pub(crate) calendar: Calendar,
    /// Packets stored by the link itself.
    pub(crate) places: Places,
    /// Time of the event of a link that stores packets; [`Time::MAX`] if none is set.
    due: Time,
    lost_behind: VecDeque<LostBehind>,
    pub(crate) log: LinkLog,
}

/// A packet dropped by a later link, to be reported when it leaves this one.
pub(crate) struct LostBehind {
    pub(crate) leaves: Time,
    pub(crate) lost: Time,
    pub(crate) way: u32,
}

/// What leaves a link that stores packets.
pub(crate) enum Departure {
    Nothing,
    /// A packet dropped, by this link or a later one.
    Gone {
        at: Time,
        way: u32,
    },
    Packet,
}

impl Hop {
    pub(crate) fn new(
        link: &RunLink,
        seed: u64,
        interval: Option<Time>,
        carriage: Carriage,
        is_captured: bool,
        gives_up_waiting: bool,
    ) -> Self {
        let make = if gives_up_waiting { Link::storing } else { Link::new };
        let model = make(&link.spec, seed, &link.name);
        let mut model = if carriage.fast_paths { model } else { model.without_fast_path() };
        let feed_forward = model.is_feed_forward() && !carriage.links_store_packets;
        if !feed_forward || is_captured {
            model.take_before(Time::ZERO);
        }
        Self {
            link: model,
            feed_forward,
            has_lookahead: false,
            passes_on: false,
            is_captured,
            next: BY_WAY,
            calendar: Calendar::new(),
            places: Places::default(),
            due: Time::MAX,
            lost_behind: VecDeque::new(),
            log: LinkLog::new(link.name.clone(), interval),
        }
    }

    /// Decides the fate of a packet that arrives at `now` at a feed-forward link, on the slow path.
    #[inline(never)]
    pub(crate) fn transit(&mut self, now: Time, packet: &mut impl Parcel) -> Transit {
        self.advance(now);
        if !self.is_captured {
            self.link.take_before(self.log.quiet_until());
        }
        self.link.transit(now, u32::from(packet.bytes()), packet.ecn())
    }

    pub(crate) fn advance(&mut self, now: Time) {
        self.log.advance(now, |from, to| read_link(&mut self.link, from, to));
    }

    /// Stores a packet until its delivery; `link` is the number of this link.
    #[inline(always)]
    pub(crate) fn keep(&mut self, at: Time, link: u32, packet: &impl Parcel, queue: &mut EventQueue) {
        if self.calendar.is_empty() {
            queue.set(link, at);
        }
        self.calendar.push(at, packet);
    }

    /// Moves the packet of the current event into `place`; returns whether there was one.
    #[inline(always)]
    pub(crate) fn take_first(&mut self, link: u32, place: &mut Arrived, queue: &mut EventQueue) -> bool {
        if !self.calendar.pop(place) {
            return false;
        }
        debug_assert_eq!(queue.first().map(|(_, source)| source), Some(link), "the current event is the first one");
        match self.calendar.next() {
            Some(at) => queue.move_first(at),
            None => queue.remove(link),
        }
        true
    }

    /// Takes what leaves a link that stores packets by `now`; a packet is moved into `place`.
    #[inline(never)]
    pub(crate) fn poll(&mut self, now: Time, link: u32, place: &mut Arrived, queue: &mut EventQueue) -> Departure {
        let departure = match self.link.poll(now) {
            Some(Exit::Delivered(delivery)) => {
                self.places.take(delivery.packet, place);
                Departure::Packet
            }
            Some(Exit::Dropped(drop)) => Departure::Gone { at: now, way: self.places.give_up(drop.packet).way },
            None => match self.lost_behind.front() {
                Some(&LostBehind { leaves, lost, way }) if leaves <= now => {
                    self.lost_behind.pop_front();
                    Departure::Gone { at: lost, way }
                }
                _ => Departure::Nothing,
            },
        };
        self.set_event(link, queue);
        departure
    }

    /// Records a packet dropped by a later link.
    pub(crate) fn note_lost(&mut self, lost: LostBehind) {
        self.lost_behind.push_back(lost);
    }

    /// Sets the link's event for its current packets.
    pub(crate) fn set_event(&mut self, link: u32, queue: &mut EventQueue) {
        let next = self.next_event();
        self.due = next.unwrap_or(Time::MAX);
        match next {
            Some(at) => queue.set(link, at),
            None => queue.remove(link),
        }
    }

    /// Moves the event of a link that stores packets if it would be late. An early event, whose decision was made ahead of time, has no
    /// effect.
    pub(crate) fn advance_event(&mut self, link: u32, queue: &mut EventQueue) {
        if let Some(at) = self.next_event().filter(|at| *at < self.due) {
            self.due = at;
            queue.set(link, at);
        }
        debug_assert!(
            self.next_event().is_none() || queue.due(link).is_some(),
            "a link that keeps packets has an event"
        );
    }

    /// The link's next event: the next delivery, or the next decision of a link that stores packets, which precedes any delivery.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<Time> {
        if self.feed_forward {
            return self.calendar.next();
        }
        match self.lost_behind.front() {
            None => self.link.next_event(),
            Some(lost) => Some(self.link.next_event().map_or(lost.leaves, |at| at.min(lost.leaves))),
        }
    }

    pub(crate) fn account(&self) -> LinkAccount<'_> {
        LinkAccount {
            name: self.log.link(),
            counters: self.link.counters(),
            held: self.link.held(),
            in_calendar: self.calendar.len() as u64,
            in_places: self.places.len() as u64,
            lost_behind: self.lost_behind.len() as u64,
            next_event: self.next_event(),
        }
    }

    /// The way of each packet whose fate has not been reported to its flow.
    pub(crate) fn ways(&self) -> impl Iterator<Item = u32> {
        let lost = self.lost_behind.iter().map(|lost| lost.way);
        self.calendar.ways().chain(self.places.ways()).chain(lost)
    }
}
