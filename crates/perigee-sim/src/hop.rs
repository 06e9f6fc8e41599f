//! A directed link of the network, with its packets and the time of its next event.

use std::collections::VecDeque;

use perigee_link::{Counters, Exit, Held, Link, Transit};
use perigee_results::{LinkLog, Name};
use perigee_study::{read_link, RunLink};
use perigee_units::Time;

use crate::calendar::Calendar;
use crate::carriage::Carriage;
use crate::packet::{NetPacket, Parcel, Stored};
use crate::routes::BY_WAY;
use crate::store::PacketStore;

/// One directed link.
pub(crate) struct Hop {
    pub(crate) link: Link<u32>,
    pub(crate) feed_forward: bool,
    /// Packets are offered to it ahead of time.
    pub(crate) is_cut_through_target: bool,
    /// It decides on departure, and its decisions are passed on ahead of time to the next link, which all its packets share.
    pub(crate) passes_on: bool,
    /// Its packets are captured.
    is_captured: bool,
    /// The next link of all its packets, as in [`Routes::after`](crate::routes::Routes::after), or [`BY_WAY`].
    pub(crate) next: u32,
    /// Packets to be delivered by a feed-forward link.
    pub(crate) calendar: Calendar,
    /// Packets of a link that decides on departure.
    pub(crate) store: PacketStore,
    /// Time of the event of a link that stores packets; [`Time::MAX`] if none is set.
    due: Time,
    lost_behind: VecDeque<LostBehind>,
    pub(crate) log: LinkLog,
}

/// A packet dropped by a later link, to be reported when it leaves this one.
pub(crate) struct LostBehind {
    pub(crate) leaves: Time,
    pub(crate) lost: Time,
    pub(crate) packet: Stored,
}

/// The outcome of a link's event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Departure {
    /// No packet leaves the link, or it was passed to the next one.
    Nothing,
    /// The packet in the caller's buffer was dropped or lost at this time, by this link or a later one.
    Dropped { at: Time },
    /// A packet, which is in the caller's buffer, has arrived.
    Packet,
}

impl Hop {
    /// The link with the event source `number`.
    pub(crate) fn new(
        link: &RunLink,
        number: u32,
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
            is_cut_through_target: false,
            passes_on: false,
            is_captured,
            next: BY_WAY,
            calendar: Calendar::new(number),
            store: PacketStore::default(),
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

    /// Takes what leaves a link that stores packets by `now`; a packet, or what is known of a dropped one, is moved into `buffer`.
    #[inline(never)]
    pub(crate) fn poll(&mut self, now: Time, buffer: &mut NetPacket) -> Departure {
        match self.link.poll(now) {
            Some(Exit::Delivered(delivery)) => {
                self.store.take(delivery.packet, buffer);
                Departure::Packet
            }
            Some(Exit::Dropped(drop)) => {
                buffer.stored = *self.store.give_up(drop.packet);
                Departure::Dropped { at: now }
            }
            None => match self.lost_behind.front() {
                Some(&LostBehind { leaves, lost, packet }) if leaves <= now => {
                    self.lost_behind.pop_front();
                    buffer.stored = packet;
                    Departure::Dropped { at: lost }
                }
                _ => Departure::Nothing,
            },
        }
    }

    /// Records a packet dropped by a later link.
    pub(crate) fn note_lost(&mut self, lost: LostBehind) {
        self.lost_behind.push_back(lost);
    }

    /// The link's event is set again: returns its next one.
    pub(crate) fn renew_event(&mut self) -> Option<Time> {
        let next = self.next_event();
        self.due = next.unwrap_or(Time::MAX);
        next
    }

    /// The next event of a link that stores packets, if the one that is set would be late. An early event, whose decision was made ahead of
    /// time, has no effect.
    pub(crate) fn earlier_event(&mut self) -> Option<Time> {
        let next = self.next_event().filter(|at| *at < self.due)?;
        self.due = next;
        Some(next)
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
            in_store: self.store.len() as u64,
            lost_behind: self.lost_behind.len() as u64,
            next_event: self.next_event(),
        }
    }

    /// The way of each packet whose fate has not been reported to its flow.
    pub(crate) fn ways(&self) -> impl Iterator<Item = u32> {
        let lost = self.lost_behind.iter().map(|lost| lost.packet.way);
        self.calendar.ways().chain(self.store.ways()).chain(lost)
    }
}

/// Counters and contents of a link at the end of a run, and the laws that they obey.
pub(crate) struct LinkAccount<'a> {
    pub(crate) name: &'a Name,
    pub(crate) counters: Counters,
    /// Packets stored by the link itself.
    pub(crate) held: Held,
    /// Packets stored by the network until their delivery.
    pub(crate) in_calendar: u64,
    /// Packets in [`PacketStore`](crate::store::PacketStore), for a link that stores packets.
    pub(crate) in_store: u64,
    /// Packets dropped by later links, to be reported when they leave this one.
    pub(crate) lost_behind: u64,
    /// Its next delivery or decision.
    pub(crate) next_event: Option<Time>,
}

impl LinkAccount<'_> {
    /// Packets that it will pass to another link or to an end.
    pub(crate) fn in_transit(&self) -> u64 {
        self.held.waiting + self.held.delivered + self.in_calendar
    }

    /// Checks that offered = delivered + dropped + withdrawn + waiting, and that every packet known to the link is stored.
    pub(crate) fn conserves(&self) -> Option<String> {
        let Self { name, counters, held, in_calendar, in_store, .. } = self;
        let (offered, delivered, dropped) =
            (counters.offered_packets, counters.delivered_packets, counters.dropped_packets());
        let (withdrawn, waiting) = (counters.withdrawn_packets, held.waiting);
        if offered != delivered + dropped + withdrawn + waiting {
            return Some(format!(
                "link `{name}` was offered {offered} packets, of which {delivered} are delivered, {dropped} dropped, \
                 {withdrawn} withdrawn and {waiting} waiting"
            ));
        }
        (held.total() != *in_store || held.delivered + in_calendar > delivered).then(|| {
            let known = held.total();
            format!("link `{name}` knows of {known} packets, keeps {in_store}, and has to deliver {in_calendar} of {delivered}")
        })
    }

    /// Checks that a link with packets has an event in time. A link whose next event is [`Time::MAX`] never sends again, because the study
    /// keeps its rate at zero.
    pub(crate) fn moves(&self, due: Option<Time>) -> Option<String> {
        let (name, held) = (self.name, self.held.total() + self.in_calendar + self.lost_behind);
        match self.next_event {
            None if held > 0 => Some(format!("link `{name}` holds {held} packets without a next decision")),
            Some(at) if at < Time::MAX && due.is_none_or(|due| due > at) => {
                let at = at.as_secs_f64();
                Some(format!(
                    "link `{name}` holds {held} packets, the next of them until {at} s, and has no event by then"
                ))
            }
            _ => None,
        }
    }
}
