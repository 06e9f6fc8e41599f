//! One direction of a link.

mod departures;

use std::collections::VecDeque;

use perigee_units::{Rate, Time};

use crate::air::Air;
use crate::counters::{Counters, Held};
use crate::ecn::EcnTreatment;
use crate::lease::Lease;
use crate::loss::Leaving;
use crate::packet::{DropReason, Ecn, Packet};
use crate::queue::{Admission, Backlog, Discipline, Room};
use crate::server::Server;
use crate::spec::LinkSpec;
use crate::states::StatesOverTime;
use crate::tdma::Channel;
use crate::{QueueSpec, RateSpec};

/// One direction of a link: a queue, a server, and the path behind it.
///
/// A driver offers arriving packets and polls for departing ones; nothing happens between two calls.
///
/// A *feed-forward* link decides a packet's fate on arrival, since later packets cannot change it. Any other link stores packets and
/// decides on departure, when the server is free for the next one; each call first carries out the decisions due by then. A driver that
/// polls late gets the same instants from either.
///
/// ```
/// use perigee_link::{Ecn, Exit, Link, LinkSpec, Offered, Packet};
/// use perigee_units::{Rate, Time};
/// let mut link = Link::new(&LinkSpec::constant(Rate::from_mbps(12.0), Time::from_millis(300)), 1, "down");
/// let packet = Packet { bytes: 1500, flow: 0, ecn: Ecn::NotCapable, is_low: false, token: "first" };
/// assert_eq!(link.offer(Time::ZERO, packet), Offered::Queued);
/// assert_eq!(link.next_event(), Some(Time::from_millis(301)));
/// let Some(Exit::Delivered(delivery)) = link.poll(Time::from_secs(1)) else { panic!("the packet was dropped") };
/// assert_eq!((delivery.at, delivery.packet.token), (Time::from_millis(301), "first"));
/// ```
pub struct Link<T> {
    overhead: u32,
    ecn: EcnTreatment,
    now: Time,
    /// Limits below which an arrival is accepted without further checks.
    room: Room,
    backlog: Backlog,
    admission: Admission,
    server: Server,
    air: Air,
    in_flight: VecDeque<Delivery<T>>,
    /// The stored packets of a link that decides on departure.
    store: Option<PacketStore<T>>,
    counters: Counters,
    /// The packets that may take the fast path.
    lease: Lease,
    /// The driver's own limit: only earlier arrivals may take the fast path.
    arrives_before: Time,
}

/// The packets of a link that decides on departure, and its drops that have not been polled.
struct PacketStore<T> {
    packets: Stored<T>,
    dropped: VecDeque<DroppedPacket<T>>,
    /// When the last packet of a terminal left.
    slots_end: Time,
}

/// Where packets wait.
enum Stored<T> {
    /// In queues before the server.
    Queues(Box<Discipline<T>>),
    /// At the terminals of a TDMA channel, which serves them in slots.
    Terminals(Box<Channel<T>>),
}

/// Result of offering a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The packet is accepted: [`Link::poll`] will return it.
    Queued,
    /// The packet is dropped immediately.
    Dropped(DropReason),
}

/// A delivered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<T> {
    /// Delivery time.
    pub at: Time,
    /// The packet.
    pub packet: Packet<T>,
}

/// A packet that was accepted and later dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedPacket<T> {
    /// Time of the drop.
    pub at: Time,
    /// The packet.
    pub packet: Packet<T>,
    /// The reason.
    pub reason: DropReason,
}

/// How an accepted packet leaves a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit<T> {
    /// Delivered at the end of the link.
    Delivered(Delivery<T>),
    /// Dropped after waiting; only if the link decides on departure.
    Dropped(DroppedPacket<T>),
}

/// The fate of a packet stored by the driver of a feed-forward link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// Delivered at this instant.
    Delivered(Time),
    /// Dropped.
    Dropped(DropReason),
}

impl<T: Copy + Send + 'static> Link<T> {
    /// Creates a link. Each process draws from its own random stream, named after the link and the process, so links with different names
    /// are independent and no process affects another's draws.
    pub fn new(spec: &LinkSpec, seed: u64, name: &str) -> Self {
        Self::made(spec, seed, name, false)
    }

    /// [`Link::new`] for a link that keeps waiting packets until their service begins, whatever its queue is, so that [`Link::withdraw`]
    /// finds them. Fates and instants are those of the link that decides on arrival.
    pub fn storing(spec: &LinkSpec, seed: u64, name: &str) -> Self {
        Self::made(spec, seed, name, true)
    }

    fn made(spec: &LinkSpec, seed: u64, name: &str, stores: bool) -> Self {
        let name = format!("link/{name}");
        let kept = if let RateSpec::Tdma(tdma) = &spec.rate {
            let (bytes, packets) = (spec.queue.bytes, spec.queue.packets);
            Some(Stored::Terminals(Box::new(Channel::new(tdma, bytes, packets, seed, &name))))
        } else {
            let queues = Discipline::new(&spec.queue, seed, &name).or_else(|| stores.then(Discipline::fifo));
            queues.map(|queues| Stored::Queues(Box::new(queues)))
        };
        // The limits apply per terminal.
        let limits = if let Some(Stored::Terminals(_)) = kept { &QueueSpec::default() } else { &spec.queue };
        let is_feed_forward = kept.is_none();
        let store = kept.map(|packets| PacketStore { packets, dropped: VecDeque::new(), slots_end: Time::ZERO });
        let admission = Admission::new(limits, !is_feed_forward, seed, &name);
        let mut server = Server::new(&spec.rate, spec.burst, seed, &name);
        if let Some(states) = spec.any_states() {
            server = server.in_states(&StatesOverTime::new(states, seed, &name));
        }
        let air = Air::new(spec, seed, &name);
        let is_kept = matches!(store, Some(PacketStore { packets: Stored::Queues(_), .. }));
        let room = match &store {
            // The fast path leaves the ECN field as it is.
            _ if server.has_bucket() || air.is_loaded() || spec.ecn != EcnTreatment::Pass => Room::default(),
            None => admission.room(),
            // Packets entering service have been admitted.
            Some(_) if is_kept => Room::UNLIMITED,
            Some(_) => Room::default(),
        };
        Self {
            overhead: spec.overhead,
            ecn: spec.ecn,
            now: Time::ZERO,
            room,
            backlog: Backlog::default(),
            admission,
            server,
            air,
            in_flight: VecDeque::new(),
            store,
            counters: Counters::default(),
            lease: Lease::default(),
            arrives_before: if is_feed_forward { Time::MAX } else { Time::ZERO },
        }
    }
}

impl<T: Copy> Link<T> {
    /// Disables the fast paths; call before the first packet. The reference for tests: each packet checks the queue and the server and
    /// evaluates loss and delay, with no draws in advance and no cached results.
    #[must_use]
    pub fn without_fast_path(mut self) -> Self {
        // A lease without room covers no packet.
        self.room = Room::default();
        self.server.disable_cache();
        self.air.evaluate_each_packet();
        match &mut self.store {
            Some(PacketStore { packets: Stored::Queues(discipline), .. }) => discipline.without_fast_path(),
            Some(PacketStore { packets: Stored::Terminals(channel), .. }) => channel.plan_each_superframe(),
            None => {}
        }
        self
    }

    /// Offers a packet that arrives at `now`; an earlier instant than the last call's counts as that one.
    #[inline]
    pub fn offer(&mut self, now: Time, packet: Packet<T>) -> Offered {
        if self.store.is_some() {
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

    /// The next packet that left the link by `now`, with its exit time.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<Exit<T>> {
        self.decide(now);
        let delivery = self.in_flight.front().map_or(Time::MAX, |first| first.at);
        if let Some(PacketStore { dropped, .. }) = &mut self.store
            && dropped.front().is_some_and(|first| first.at <= delivery.min(now))
        {
            return dropped.pop_front().map(Exit::Dropped);
        }
        match self.in_flight.front() {
            Some(first) if first.at <= now => self.in_flight.pop_front().map(Exit::Delivered),
            _ => None,
        }
    }

    /// The next instant at which [`Link::poll`] returns a packet or the link decides.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        match &self.store {
            Some(store) if self.in_flight.is_empty() && store.dropped.is_empty() => self.next_decision(store),
            Some(store) => self.next_of_all(store),
            None => self.in_flight.front().map(|first| first.at),
        }
    }

    #[inline(never)]
    fn next_of_all(&self, store: &PacketStore<T>) -> Option<Time> {
        let delivery = self.in_flight.front().map(|first| first.at);
        let drop = store.dropped.front().map(|first| first.at);
        [delivery, drop, self.next_decision(store)].into_iter().flatten().min()
    }

    /// Whether a packet's fate is known on arrival, so that [`Link::transit`] can be used: FIFO, drops only on arrival, and a rate
    /// independent of traffic.
    #[inline]
    pub fn is_feed_forward(&self) -> bool {
        self.store.is_none()
    }

    /// [`Link::offer`] for a packet that the driver of a feed-forward link stores itself.
    pub fn transit(&mut self, now: Time, bytes: u32, ecn: &mut Ecn) -> Transit {
        debug_assert!(self.is_feed_forward(), "a link that decides on departure stores its packets");
        self.now = self.now.max(now);
        let now = self.now;
        if self.ecn != EcnTreatment::Pass {
            return self.transit_treated(now, bytes, ecn);
        }
        self.decide_fate(now, bytes, |link| link.admit(now, bytes, ecn))
    }

    /// [`Link::transit`] over a link that treats the ECN field.
    #[cold]
    fn transit_treated(&mut self, now: Time, bytes: u32, ecn: &mut Ecn) -> Transit {
        let inner = *ecn;
        let Some(outer) = self.ecn.enter(inner) else {
            return Transit::Dropped(self.dropped(DropReason::Loss, bytes));
        };
        *ecn = outer;
        let fate = self.decide_fate(now, bytes, |link| link.admit(now, bytes, ecn));
        *ecn = self.ecn.leave(inner, *ecn);
        fate
    }

    /// Fast path of [`Link::transit`] for a packet that arrives no earlier than the last one: its delivery time if the lease covers it.
    /// `None`, with no effect, leaves the decision to `transit`. A link that decides on departure covers no packet.
    #[inline(always)]
    pub fn take(&mut self, now: Time, bytes: u32) -> Option<Time> {
        if now >= self.arrives_before || !self.leases(now, bytes) {
            return None;
        }
        self.lease.take(&mut self.server.clock, now)
    }

    /// [`Link::take`] for packets of one size that arrive at `times`, in order: replaces these by their delivery times.
    /// Returns `false`, with no effect, unless the lease surely covers all of them.
    #[inline(always)]
    pub fn take_all(&mut self, times: &mut [Time], bytes: u32) -> bool {
        let (Some(first), Some(last)) = (times.first().copied(), times.last()) else { return true };
        *last < self.arrives_before && self.leases(first, bytes) && self.lease.take_all(&mut self.server.clock, times)
    }

    /// Limits [`Link::take`] to packets that arrive before this instant, when the driver has something to do.
    pub fn take_before(&mut self, arrives_before: Time) {
        self.arrives_before = arrives_before;
    }

    /// Bytes waiting or in service at `now`, with overhead; `now` must not precede the last call.
    pub fn queue_bytes(&mut self, now: Time) -> u64 {
        self.decide(now);
        self.end_run();
        self.backlog.release(now);
        self.backlog.bytes()
    }

    /// Computes satellite paths up to `until`, so that a real-time driver does not have to wait for that later.
    pub fn prepare(&self, until: Time) {
        self.air.prepare(until);
    }

    /// The rate at an instant.
    pub fn rate_at(&self, t: Time) -> Rate {
        match &self.store {
            Some(PacketStore { packets: Stored::Terminals(channel), .. }) => channel.rate_at(t),
            _ => self.server.rate_at(t),
        }
    }

    /// The mean rate between two instants, rounded down. The instants may be in the past or the future; the query has no effect.
    ///
    /// ```
    /// use perigee_link::{Link, LinkSpec};
    /// use perigee_units::{Rate, Time};
    /// let mut link = Link::<()>::new(&LinkSpec::constant(Rate::from_mbps(12.0), Time::ZERO), 1, "down");
    /// assert_eq!(link.mean_rate(Time::ZERO, Time::from_secs(1)), Rate::from_mbps(12.0));
    /// ```
    pub fn mean_rate(&mut self, from: Time, to: Time) -> Rate {
        match &mut self.store {
            Some(PacketStore { packets: Stored::Terminals(channel), .. }) => channel.mean_rate(from, to),
            _ => self.server.mean_rate(from, to),
        }
    }

    /// Number of packets that [`Link::poll`] has not returned yet.
    pub fn in_flight(&self) -> usize {
        self.held().total() as usize
    }

    /// The packets that [`Link::poll`] has not returned yet.
    pub fn held(&self) -> Held {
        let dropped = self.store.as_ref().map_or(0, |store| store.dropped.len());
        let [waiting, delivered, dropped] = [self.backlog.waiting(), self.in_flight.len(), dropped].map(|n| n as u64);
        Held { waiting, delivered, dropped }
    }

    /// The counters. Decisions that are due are included after the next call with an instant.
    pub fn counters(&self) -> Counters {
        let (packets, bytes) = self.lease.uncounted();
        let counters = self.counters.with_deliveries(packets, bytes);
        if self.store.is_some() {
            counters
        } else {
            counters.with_offered()
        }
    }

    /// Decides a packet's fate on the slow path; `admit` returns its size on the link, or why it is refused.
    fn decide_fate(
        &mut self,
        now: Time,
        bytes: u32,
        admit: impl FnOnce(&mut Self) -> Result<u32, DropReason>,
    ) -> Transit {
        self.count_taken();
        let after_idle = now > self.server.clock.at;
        let is_for_size = self.leases(now, bytes);
        if is_for_size && self.lease.lacks_room(now) {
            self.end_run();
            self.backlog.release(now);
            self.lease.find_room(self.room, &self.backlog, self.lease.size());
        }
        let clock = &mut self.server.clock;
        if let Some(at) = is_for_size.then(|| self.lease.take(clock, now)).flatten() {
            return Transit::Delivered(at);
        }
        let departure = match is_for_size.then(|| self.lease.serve(clock, now)).flatten() {
            Some(departure) => departure,
            None => match self.serve(now, admit) {
                Ok(departure) => departure,
                Err(reason) => return Transit::Dropped(self.dropped(reason, bytes)),
            },
        };
        let size = bytes.saturating_add(self.overhead);
        let fate = self.leave(Leaving { at: departure, size, after_idle }, bytes);
        self.renew();
        fate
    }

    /// Admits and serves a packet: its departure from the server, or why it is refused.
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
            self.air.carried(packets, self.lease.size(), self.server.clock.at);
        }
    }

    /// Adds those that are still in the queue to the backlog.
    fn end_run(&mut self) {
        self.lease.end_run(&self.server.clock, &mut self.backlog);
    }

    /// Whether the lease is one for packets of this size, which arrive from `now` on; makes it one if possible.
    #[inline(always)]
    fn leases(&mut self, now: Time, bytes: u32) -> bool {
        self.lease.is_for(bytes) || self.turns_to(now, bytes)
    }

    #[inline(never)]
    fn turns_to(&mut self, now: Time, bytes: u32) -> bool {
        let size = bytes.saturating_add(self.overhead);
        if !self.room.holds(size) || !self.server.clock.turns_to(size) {
            return false;
        }
        self.count_taken();
        if now > self.server.clock.at {
            self.lease.begin_run();
        } else {
            self.end_run();
        }
        self.renew();
        true
    }

    /// Renews the lease for packets like the last one: the minimum of the limits of queue, server and path.
    fn renew(&mut self) {
        let mut known = self.server.clock.known_size();
        if known.size == 0 || !self.room.holds(known.size) {
            known.begins_before = Time::ZERO;
        }
        self.lease.renew(known, self.overhead, self.air.steady_after(self.server.clock.at, known.size));
        self.lease.find_room(self.room, &self.backlog, known.size);
    }

    /// Loss and delay of a packet that leaves the server.
    fn leave(&mut self, packet: Leaving, bytes: u32) -> Transit {
        match self.air.carry(packet) {
            Some(at) => {
                self.counters.count_delivery(bytes);
                self.admission.delivers(at);
                Transit::Delivered(at)
            }
            None => Transit::Dropped(self.dropped(DropReason::Loss, bytes)),
        }
    }

    /// Why an arrival is refused, if it is, after removing the packets that left by `now`.
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
