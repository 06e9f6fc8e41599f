//! One direction of a link.

mod departures;

use std::collections::VecDeque;

use perigee_units::{Rate, Time};

use crate::air::Air;
use crate::counters::{Counters, Held};
use crate::lease::Lease;
use crate::packet::{DropReason, Ecn, Packet};
use crate::queue::{Admission, Backlog, Discipline, Room};
use crate::server::Server;
use crate::spec::LinkSpec;
use crate::tdma::Channel;
use crate::{QueueSpec, RateSpec};

/// One direction of a link: a queue, a server and the air behind it.
///
/// A driver offers packets as they come and polls for those that leave; between two calls nothing happens.
///
/// A *feed-forward* link decides on a packet's arrival all that happens to it, since nothing that comes later can change
/// that. Any other keeps its packets and decides on their departure, at the instant at which the server is free for the
/// next one; a call carries out first what is due by then. So a driver that asks late gets the same instants as one that
/// asks in time, from either.
///
/// ```
/// use perigee_link::{Ecn, Exit, Link, LinkSpec, Offered, Packet};
/// use perigee_units::{Rate, Time};
/// let mut link = Link::new(&LinkSpec::constant(Rate::from_mbps(12.0), Time::from_millis(300)), 1, "down");
/// let packet = Packet { bytes: 1500, flow: 0, ecn: Ecn::NotCapable, token: "first" };
/// assert_eq!(link.offer(Time::ZERO, packet), Offered::Queued);
/// assert_eq!(link.next_event(), Some(Time::from_millis(301)));
/// let Some(Exit::Delivered(delivery)) = link.poll(Time::from_secs(1)) else { panic!("it is not dropped") };
/// assert_eq!((delivery.at, delivery.packet.token), (Time::from_millis(301), "first"));
/// ```
pub struct Link<T> {
    overhead: u32,
    now: Time,
    /// What is admitted without a question.
    room: Room,
    backlog: Backlog,
    admission: Admission,
    server: Server,
    air: Air,
    in_flight: VecDeque<Delivery<T>>,
    /// Of a link that decides on departure.
    keeper: Option<Keeper<T>>,
    counters: Counters,
    /// Which packets take the fast path.
    lease: Lease,
    /// Of those that arrive before this instant: the driver's own limit.
    arrives_before: Time,
}

/// The packets of a link that decides on departure, and those it has dropped and nobody has polled yet.
struct Keeper<T> {
    packets: Kept<T>,
    dropped: VecDeque<DroppedPacket<T>>,
}

/// Where the packets are kept.
enum Kept<T> {
    /// In queues before the server.
    Queues(Box<Discipline<T>>),
    /// At the terminals of a TDMA channel, which serves them in its slots.
    Terminals(Box<Channel<T>>),
}

/// What became of an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is under way: [`Link::poll`] will tell of it.
    Queued,
    /// It is dropped at once.
    Dropped(DropReason),
}

/// A packet at the end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<T> {
    /// The instant at which it got there.
    pub at: Time,
    /// The packet.
    pub packet: Packet<T>,
}

/// A packet that was accepted and then dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedPacket<T> {
    /// The instant of the decision.
    pub at: Time,
    /// The packet.
    pub packet: Packet<T>,
    /// Why.
    pub reason: DropReason,
}

/// How an accepted packet leaves a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit<T> {
    /// It gets to the end of the link.
    Delivered(Delivery<T>),
    /// It is dropped after it has waited; only by a link that is not feed-forward.
    Dropped(DroppedPacket<T>),
}

/// What becomes of a packet that the driver of a feed-forward link keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// It gets to the end of the link at this instant.
    Delivered(Time),
    /// It does not.
    Dropped(DropReason),
}

impl<T: Copy + Send + 'static> Link<T> {
    /// A link of this description. Each of its processes draws from a random stream of its own, named after the link
    /// and the process, so that links of different names are independent and no process moves another's draws.
    pub fn new(spec: &LinkSpec, seed: u64, name: &str) -> Self {
        let name = format!("link/{name}");
        let kept = match &spec.rate {
            RateSpec::Tdma(tdma) => {
                let (bytes, packets) = (spec.queue.bytes, spec.queue.packets);
                Some(Kept::Terminals(Box::new(Channel::new(tdma, bytes, packets, seed, &name))))
            }
            _ => Discipline::new(&spec.queue.aqm, seed, &name).map(|queues| Kept::Queues(Box::new(queues))),
        };
        // The limits hold at each terminal.
        let limits = if let Some(Kept::Terminals(_)) = kept { &QueueSpec::default() } else { &spec.queue };
        let is_feed_forward = kept.is_none();
        let keeper = kept.map(|packets| Keeper { packets, dropped: VecDeque::new() });
        let admission = Admission::new(limits, !is_feed_forward, seed, &name);
        let server = Server::new(&spec.rate, spec.burst, seed, &name);
        let air = Air::new(spec, seed, &name);
        let is_kept = matches!(keeper, Some(Keeper { packets: Kept::Queues(_), .. }));
        let room = match &keeper {
            _ if server.has_bucket() || air.is_loaded() => Room::default(),
            None => admission.room(),
            // Those that go into service have been admitted.
            Some(_) if is_kept => Room::UNLIMITED,
            Some(_) => Room::default(),
        };
        Self {
            overhead: spec.overhead,
            now: Time::ZERO,
            room,
            backlog: Backlog::default(),
            admission,
            server,
            air,
            in_flight: VecDeque::new(),
            keeper,
            counters: Counters::default(),
            lease: Lease::default(),
            arrives_before: if is_feed_forward { Time::MAX } else { Time::ZERO },
        }
    }
}

impl<T: Copy> Link<T> {
    /// The same link without its fast paths, before its first packet: the reference for them. Each packet asks the queue, the server, and the
    /// processes of loss and delay; nothing is looked up ahead, and what was found out for one packet is not kept for the next.
    #[must_use]
    pub fn without_fast_path(mut self) -> Self {
        // Without room, a lease covers no packet.
        self.room = Room::default();
        self.server.forget_sizes();
        self.air.ask_for_each_packet();
        match &mut self.keeper {
            Some(Keeper { packets: Kept::Queues(discipline), .. }) => discipline.without_fast_path(),
            Some(Keeper { packets: Kept::Terminals(channel), .. }) => channel.plan_each_superframe(),
            None => {}
        }
        self
    }

    /// Offers a packet that arrives at `now`; an instant before the last one counts as that one.
    #[inline]
    pub fn offer(&mut self, now: Time, packet: Packet<T>) -> Offered {
        if self.keeper.is_some() {
            return self.keep(now, packet, false);
        }
        let mut packet = packet;
        match self.transit(now, packet.bytes, &mut packet.ecn) {
            Transit::Delivered(at) => {
                self.in_flight.push_back(Delivery { at, packet });
                Offered::Queued
            }
            Transit::Dropped(reason) => Offered::Dropped(reason),
        }
    }

    /// The next packet that left the link at or before `now`, with the instant at which it did.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<Exit<T>> {
        self.decide(now);
        let delivery = self.in_flight.front().map_or(Time::MAX, |first| first.at);
        if let Some(Keeper { dropped, .. }) = &mut self.keeper {
            if dropped.front().is_some_and(|first| first.at <= delivery.min(now)) {
                return dropped.pop_front().map(Exit::Dropped);
            }
        }
        match self.in_flight.front() {
            Some(first) if first.at <= now => self.in_flight.pop_front().map(Exit::Delivered),
            _ => None,
        }
    }

    /// The next instant at which [`Link::poll`] has something to give or the link something to decide.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        match &self.keeper {
            Some(keeper) if self.in_flight.is_empty() && keeper.dropped.is_empty() => self.next_decision(keeper),
            Some(keeper) => self.next_of_all(keeper),
            None => self.in_flight.front().map(|first| first.at),
        }
    }

    #[inline(never)]
    fn next_of_all(&self, keeper: &Keeper<T>) -> Option<Time> {
        let delivery = self.in_flight.front().map(|first| first.at);
        let drop = keeper.dropped.front().map(|first| first.at);
        [delivery, drop, self.next_decision(keeper)].into_iter().flatten().min()
    }

    /// Whether what becomes of a packet is known when it arrives, so that [`Link::transit`] may be used: FIFO, drops on
    /// arrival only, and a rate that does not depend on the traffic.
    #[inline]
    pub fn is_feed_forward(&self) -> bool {
        self.keeper.is_none()
    }

    /// The same decision and change of state as [`Link::offer`] for a packet that the driver of a feed-forward link keeps.
    pub fn transit(&mut self, now: Time, bytes: u32, ecn: &mut Ecn) -> Transit {
        debug_assert!(self.is_feed_forward(), "a link that decides on departure keeps its packets");
        self.now = self.now.max(now);
        let now = self.now;
        self.carry(now, bytes, |link| link.admit(now, bytes, ecn))
    }

    /// Fast path of [`Link::transit`], for a packet that arrives no earlier than the last one: its delivery, if the lease covers it.
    /// `None`: nothing has happened, and `transit` decides. A link that decides on departure has no such packets.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet at each feed-forward link")]
    pub fn take(&mut self, now: Time, bytes: u32) -> Option<Time> {
        if now >= self.arrives_before {
            return None;
        }
        self.lease.take(&mut self.server.clock, now, bytes)
    }

    /// Lets [`Link::take`] take packets that arrive before an instant: then the driver has something to do.
    pub fn take_before(&mut self, arrives_before: Time) {
        self.arrives_before = arrives_before;
    }

    /// Bytes that wait or are being sent at `now` (overhead counted), which must not go back behind the last call.
    pub fn queue_bytes(&mut self, now: Time) -> u64 {
        self.decide(now);
        self.end_run();
        self.backlog.release(now);
        self.backlog.bytes()
    }

    /// Computes what a computed path needs until an instant, so that a driver on the clock does not wait for it later.
    pub fn prepare(&self, until: Time) {
        self.air.prepare(until);
    }

    /// The rate at an instant.
    pub fn rate_at(&self, t: Time) -> Rate {
        match &self.keeper {
            Some(Keeper { packets: Kept::Terminals(channel), .. }) => channel.rate_at(t),
            _ => self.server.rate_at(t),
        }
    }

    /// The mean rate between two instants, rounded down; past or ahead of the packets, it disturbs nothing.
    ///
    /// ```
    /// use perigee_link::{Link, LinkSpec};
    /// use perigee_units::{Rate, Time};
    /// let mut link = Link::<()>::new(&LinkSpec::constant(Rate::from_mbps(12.0), Time::ZERO), 1, "down");
    /// assert_eq!(link.mean_rate(Time::ZERO, Time::from_secs(1)), Rate::from_mbps(12.0));
    /// ```
    pub fn mean_rate(&mut self, from: Time, to: Time) -> Rate {
        match &mut self.keeper {
            Some(Keeper { packets: Kept::Terminals(channel), .. }) => channel.mean_rate(from, to),
            _ => self.server.mean_rate(from, to),
        }
    }

    /// How many packets [`Link::poll`] has still to tell of.
    pub fn in_flight(&self) -> usize {
        self.held().total() as usize
    }

    /// The packets that [`Link::poll`] has still to tell of.
    pub fn held(&self) -> Held {
        let dropped = self.keeper.as_ref().map_or(0, |keeper| keeper.dropped.len());
        let [waiting, delivered, dropped] = [self.backlog.waiting(), self.in_flight.len(), dropped].map(|n| n as u64);
        Held { waiting, delivered, dropped }
    }

    /// What the link has done so far; decisions that are due count from the next call on that has an instant.
    pub fn counters(&self) -> Counters {
        let (packets, bytes) = self.lease.uncounted();
        let counters = self.counters.with_deliveries(packets, bytes);
        if self.keeper.is_some() {
            counters
        } else {
            counters.with_offered()
        }
    }

    /// What becomes of a packet on the slow path: `admit` says its size on the link, or why it is refused.
    fn carry(&mut self, now: Time, bytes: u32, admit: impl FnOnce(&mut Self) -> Result<u32, DropReason>) -> Transit {
        self.count_taken();
        if !self.lease.is_for(bytes) {
            self.end_run();
            if self.server.clock.recalls(bytes.saturating_add(self.overhead)) {
                self.renew();
            }
        } else if self.lease.lacks_room(now) {
            self.end_run();
            self.backlog.release(now);
            self.lease.find_room(self.room, &self.backlog, self.lease.size());
        }
        if let Some(at) = self.lease.take(&mut self.server.clock, now, bytes) {
            return Transit::Delivered(at);
        }
        let departure = match self.lease.serve(&mut self.server.clock, now, bytes) {
            Some(departure) => departure,
            None => match self.serve(now, admit) {
                Ok(departure) => departure,
                Err(reason) => return Transit::Dropped(self.dropped(reason, bytes)),
            },
        };
        let fate = self.leave(departure, bytes);
        self.renew();
        fate
    }

    /// When any packet leaves the server, or why it is refused.
    #[inline(never)]
    fn serve(
        &mut self,
        now: Time,
        admit: impl FnOnce(&mut Self) -> Result<u32, DropReason>,
    ) -> Result<Time, DropReason> {
        self.end_run();
        let size = admit(self)?;
        let departure = self.server.serve(now, size);
        self.backlog.push(now, departure, size);
        Ok(departure)
    }

    /// Counts the packets that took the fast path.
    fn count_taken(&mut self) {
        let (packets, bytes) = self.lease.uncounted();
        if packets > 0 {
            self.lease.note_counted();
            self.counters = self.counters.with_deliveries(packets, bytes);
            self.air.carried(packets, self.server.clock.at);
        }
    }

    /// Counts those of them that wait or are being sent.
    fn end_run(&mut self) {
        self.lease.end_run(&self.server.clock, &mut self.backlog);
    }

    /// A lease for packets like the last one: the least of the limits of queue, server and air.
    fn renew(&mut self) {
        let mut known = self.server.clock.known_size();
        if known.size == 0 || !self.room.holds(known.size) {
            known.begins_before = Time::ZERO;
        }
        self.lease.renew(known, self.overhead, self.air.steady_after(self.server.clock.at));
        self.lease.find_room(self.room, &self.backlog, known.size);
    }

    /// What becomes of a packet that leaves the server at `departure`.
    fn leave(&mut self, departure: Time, bytes: u32) -> Transit {
        match self.air.carry(departure) {
            Some(at) => {
                self.counters.count_delivery(bytes);
                Transit::Delivered(at)
            }
            None => Transit::Dropped(self.dropped(DropReason::Loss, bytes)),
        }
    }

    /// Why an arrival is refused, if it is, once what has left by `now` is counted off.
    fn refuses(&mut self, now: Time, size: u32, ecn: &mut Ecn) -> Option<DropReason> {
        self.backlog.release(now);
        self.admission.refuses(now, size, &self.backlog, &self.server, ecn)
    }

    /// The size on the link of a packet that arrives at `now`, or why it is refused.
    fn admit(&mut self, now: Time, bytes: u32, ecn: &mut Ecn) -> Result<u32, DropReason> {
        let size = bytes.saturating_add(self.overhead);
        self.air.arrival(now, size);
        match self.refuses(now, size, ecn) {
            None => Ok(size),
            Some(reason) => Err(reason),
        }
    }

    #[cold]
    fn dropped(&mut self, reason: DropReason, bytes: u32) -> DropReason {
        self.counters.count_drop(reason, bytes);
        reason
    }
}
