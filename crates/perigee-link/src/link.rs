//! One direction of a link.

use std::collections::VecDeque;

use perigee_units::{Rate, Time};

use crate::air::Air;
use crate::counters::{Counters, Held};
use crate::packet::{DropReason, Ecn, Packet};
use crate::queue::{Admission, Backlog, Discipline, Waiting};
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
    backlog: Backlog,
    admission: Admission,
    server: Server,
    air: Air,
    in_flight: VecDeque<Delivery<T>>,
    /// Of a link that decides on departure.
    keeper: Option<Keeper<T>>,
    counters: Counters,
    plain: Plain,
}

/// The packets that meet nothing new: [`Link::pass`] decides on them in one step.
///
/// They have the size of the last one, and their service begins before an instant: until then the rate stays, nothing is lost behind
/// the server, and the delay is the same. Only the general way moves this instant, and it looks ahead after each packet. One that is
/// too early costs a turn of the general way, which is always right: it stays at zero where a bucket, queue management on arrival or a load
/// has a say in each packet. What they change is counted when the general way needs it, all of them at once.
#[derive(Clone, Copy, Default)]
struct Plain {
    bytes: u32,
    /// With the link's overhead.
    size: u32,
    until: Time,
    /// Until when the server alone meets nothing new.
    server_until: Time,
    /// So many may still come.
    left: u64,
    /// So many could when they were counted last.
    granted: u64,
}

impl Plain {
    /// Packets that have passed and are not counted.
    fn uncounted(&self) -> u64 {
        self.granted - self.left
    }
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
        let keeper = kept.map(|packets| Keeper { packets, dropped: VecDeque::new() });
        let admission = Admission::new(limits, keeper.is_some(), seed, &name);
        let server = Server::new(&spec.rate, spec.burst, seed, &name);
        let air = Air::new(spec, seed, &name);
        let is_kept = matches!(keeper, Some(Keeper { packets: Kept::Queues(_), .. }));
        let is_plain = !server.has_bucket() && !air.is_loaded();
        let backlog = match &keeper {
            None if is_plain && admission.goes_by_backlog() => admission.backlog(),
            // Those that go into service have been admitted.
            Some(_) if is_plain && is_kept => Backlog::surely_up_to(u64::MAX, usize::MAX),
            _ => Backlog::default(),
        };
        Self {
            overhead: spec.overhead,
            now: Time::ZERO,
            backlog,
            admission,
            server,
            air,
            in_flight: VecDeque::new(),
            keeper,
            counters: Counters::default(),
            plain: Plain::default(),
        }
    }
}

impl<T: Copy> Link<T> {
    /// The same link without its fast paths, before its first packet: the reference for them. Each packet asks the queue, the server, and the
    /// processes of loss and delay; nothing is looked up ahead, and what was found out for one packet is not kept for the next.
    #[must_use]
    pub fn without_fast_path(mut self) -> Self {
        // Without room that is sure, no packet passes in one step.
        self.backlog = Backlog::default();
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
        match self.transit(now, packet.bytes, packet.flow, &mut packet.ecn) {
            Transit::Delivered(at) => {
                self.in_flight.push_back(Delivery { at, packet });
                Offered::Queued
            }
            Transit::Dropped(reason) => Offered::Dropped(reason),
        }
    }

    /// [`Link::offer`] to a link that decides on departure, ahead of time: a packet that is refused is one more that [`Link::poll`]
    /// tells of, at the instant of its arrival.
    pub fn offer_ahead(&mut self, now: Time, packet: Packet<T>) {
        debug_assert!(self.keeper.is_some(), "a feed-forward link has nowhere to keep it");
        self.keep(now, packet, true);
    }

    /// The next packet on which it is decided by `now`, with the instant of its delivery, whether that lies ahead or not; [`Link::poll`]
    /// tells no more of it.
    #[inline]
    pub fn decide_ahead(&mut self, now: Time) -> Option<Delivery<T>> {
        if !self.in_flight.is_empty() {
            return self.in_flight.pop_front();
        }
        if let Some(Keeper { packets: Kept::Queues(_), .. }) = &self.keeper {
            while self.is_free(now) {
                let sent = self.serve_next();
                if sent.is_some() {
                    return sent;
                }
            }
            self.now = self.now.max(now);
            return None;
        }
        self.decide(now);
        self.in_flight.pop_front()
    }

    /// Whether [`Link::decide_ahead`] may have a packet by `now`.
    #[inline]
    pub fn may_decide_ahead(&self, now: Time) -> bool {
        !self.in_flight.is_empty() || self.is_free(now)
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
    pub fn transit(&mut self, now: Time, bytes: u32, _flow: u32, ecn: &mut Ecn) -> Transit {
        debug_assert!(self.is_feed_forward(), "a link that decides on departure keeps its packets");
        self.now = self.now.max(now);
        let now = self.now;
        self.carry(now, bytes, |link| link.admit(now, bytes, ecn))
    }

    /// [`Link::transit`] of a packet that arrives no earlier than the last one, in the case that nearly all packets are in: it meets
    /// nothing new, and the backlog surely has room. The instant of its delivery; `None`: nothing has happened to it, and
    /// `transit` tells.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet at each feed-forward link")]
    pub fn pass(&mut self, now: Time, bytes: u32) -> Option<Time> {
        debug_assert!(self.is_feed_forward(), "a link that decides on departure keeps its packets");
        self.pass_server(now, bytes)
    }

    /// Whether [`Link::pass`] has refused a packet at `now` since those before it have used up the room that was sure, and there is some
    /// once what has left is counted off.
    pub fn finds_room(&mut self, now: Time) -> bool {
        self.backlog.has_used_room() && self.counts_off(now)
    }

    /// [`Link::pass`] of a packet that is admitted or surely will be.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet at each link")]
    fn pass_server(&mut self, now: Time, bytes: u32) -> Option<Time> {
        let departure = self.serve_plainly(now, bytes, self.plain.until)?;
        self.plain.left -= 1;
        if self.plain.left == 0 {
            self.plain.until = Time::ZERO;
        }
        Some(Time::from_nanos(departure.as_nanos() + self.air.calm_delay().as_nanos()))
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
        let counters = self.counters.with_deliveries(self.plain.uncounted(), self.plain.bytes);
        if self.keeper.is_some() {
            counters
        } else {
            counters.with_offered()
        }
    }

    /// When a packet leaves the server whose service begins before `until`, if it is like the last one and surely has room; `None`:
    /// nothing has happened to it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet at each feed-forward link")]
    fn serve_plainly(&mut self, now: Time, bytes: u32, until: Time) -> Option<Time> {
        if bytes != self.plain.bytes {
            return None;
        }
        let last = self.server.last_departure();
        if now > last {
            if now >= until {
                return None;
            }
            self.backlog.add_alone();
            return Some(self.server.serve_plainly(Some(now)));
        }
        if last >= until || !self.backlog.surely_has_room() {
            return None;
        }
        self.backlog.add_behind();
        Some(self.server.serve_plainly(None))
    }

    /// Counts off what has left, where that may make room for a packet that meets nothing new else; whether it has.
    fn counts_off(&mut self, now: Time) -> bool {
        if self.plain.until <= now || self.backlog.surely_has_room() {
            return false;
        }
        self.end_run();
        self.backlog.release(now);
        self.backlog.grant(self.plain.size);
        self.backlog.surely_has_room()
    }

    /// What becomes of a packet that goes into service, in the general way.
    #[inline(never)]
    fn carry_admitted(&mut self, now: Time, bytes: u32, size: u32) -> Transit {
        self.carry(now, bytes, |_| Ok(size))
    }

    /// What becomes of a packet in the general way: its size on the link, or why it is refused, is found out where it does not
    /// surely have room.
    fn carry(&mut self, now: Time, bytes: u32, admit: impl FnOnce(&mut Self) -> Result<u32, DropReason>) -> Transit {
        self.count_passed();
        if bytes == self.plain.bytes {
            self.counts_off(now);
        } else {
            self.end_run();
            if self.server.recalls(bytes.saturating_add(self.overhead)) {
                self.look_ahead();
            }
        }
        if let Some(at) = self.pass_server(now, bytes) {
            return Transit::Delivered(at);
        }
        let departure = match self.serve_plainly(now, bytes, self.plain.server_until) {
            Some(departure) => departure,
            None => match self.serve_anew(now, admit) {
                Ok(departure) => departure,
                Err(reason) => return Transit::Dropped(self.dropped(reason, bytes)),
            },
        };
        let fate = self.leave(departure, bytes);
        self.look_ahead();
        fate
    }

    /// When any packet leaves the server, or why it is refused.
    #[inline(never)]
    fn serve_anew(
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

    /// Counts the packets that have passed in one step.
    fn count_passed(&mut self) {
        let passed = self.plain.uncounted();
        if passed > 0 {
            self.plain.granted = self.plain.left;
            self.counters = self.counters.with_deliveries(passed, self.plain.bytes);
            self.air.carried_calmly(passed, self.server.last_departure());
        }
    }

    /// Counts those that wait or are being sent.
    fn end_run(&mut self) {
        self.backlog.settle(self.plain.size, self.server.run_end());
    }

    /// Sets which packets meet nothing new from now on.
    fn look_ahead(&mut self) {
        let (size, longest, rate_stays_until) = self.server.alike();
        let is_plain = size > 0 && self.backlog.surely_takes_one(size);
        let server_until = if is_plain { rate_stays_until } else { Time::ZERO };
        let calm_until = self.air.calm_until(self.server.last_departure());
        let until = server_until.min(calm_until - Time::from_nanos(longest));
        let left = self.air.spared();
        self.backlog.grant(size);
        self.plain = Plain { bytes: size.wrapping_sub(self.overhead), size, until, server_until, left, granted: left };
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

    /// [`Link::offer`], or [`Link::offer_ahead`], of a link that decides on departure.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a link that decides on departure")]
    fn keep(&mut self, now: Time, mut packet: Packet<T>, ahead: bool) -> Offered {
        self.decide(now);
        let now = self.now;
        self.counters.offered_packets += 1;
        self.counters.offered_bytes += u64::from(packet.bytes);
        let mut size = packet.bytes.saturating_add(self.overhead);
        if !self.surely_admits(size) {
            self.end_run();
            size = match self.admit(now, packet.bytes, &mut packet.ecn) {
                Ok(size) => size,
                Err(DropReason::QueueFull) if self.make_room(now, packet.bytes) => size,
                Err(reason) => return self.refused(packet, reason, ahead),
            };
        }
        let waiting = Waiting { packet, size, arrived: now };
        match self.keeper.as_mut().map(|keeper| &mut keeper.packets) {
            Some(Kept::Queues(discipline)) => {
                discipline.enqueue(waiting);
                self.backlog.keep(size);
                if self.backlog.waiting() == 1 {
                    // The others wait for a server that is busy.
                    self.decide(now);
                }
            }
            Some(Kept::Terminals(channel)) => {
                if !channel.enqueue(waiting) {
                    return self.refused(packet, DropReason::QueueFull, ahead);
                }
                self.backlog.keep(size);
                self.decide(now);
            }
            None => {}
        }
        Offered::Queued
    }

    /// Whether a link that decides on departure surely has room for an arrival, what has left counted or not.
    #[inline]
    fn surely_admits(&self, size: u32) -> bool {
        // At most one packet is being sent beside those that are counted.
        let (bytes, packets) = (self.backlog.bytes() + u64::from(self.plain.size), self.backlog.packets() + 1);
        self.backlog.surely_takes_one(size) && self.admission.surely_takes(bytes + u64::from(size), packets + 1)
    }

    /// Lets the discipline drop packets until there is room for an arrival; whether there is in the end.
    fn make_room(&mut self, now: Time, bytes: u32) -> bool {
        let size = bytes.saturating_add(self.overhead);
        let Some(Keeper { packets: Kept::Queues(discipline), dropped }) = &mut self.keeper else { return false };
        while self.admission.is_full(now, size, &self.backlog, &self.server) {
            let (counters, backlog) = (&mut self.counters, &mut self.backlog);
            let made_room = discipline.make_room(&mut |waiting| {
                backlog.take(waiting.size);
                counters.count_drop(DropReason::QueueFull, waiting.packet.bytes);
                dropped.push_back(DroppedPacket { at: now, packet: waiting.packet, reason: DropReason::QueueFull });
            });
            if !made_room {
                return false;
            }
        }
        true
    }

    /// When the server is free for a packet that waits, or a terminal has a slot for one.
    #[inline]
    fn next_decision(&self, keeper: &Keeper<T>) -> Option<Time> {
        let at = match &keeper.packets {
            Kept::Queues(_) => (self.backlog.waiting() > 0).then(|| self.server.busy_until()),
            Kept::Terminals(channel) => channel.next_decision(),
        };
        at.map(|at| at.max(self.now))
    }

    /// Carries out the decisions of a link that decides on departure that are due by `now`, each at its own instant.
    #[inline]
    pub fn decide(&mut self, now: Time) {
        match &self.keeper {
            None => return,
            Some(Keeper { packets: Kept::Queues(_), .. }) if self.is_free(now) => self.serve_queues(now),
            Some(Keeper { packets: Kept::Queues(_), .. }) => {}
            Some(Keeper { packets: Kept::Terminals(_), .. }) => self.serve_terminals(now),
        }
        self.now = self.now.max(now);
    }

    /// Whether packets wait before the server, and it is free for one by `now`.
    #[inline]
    fn is_free(&self, now: Time) -> bool {
        self.backlog.waiting() > 0 && self.server.busy_until() <= now
    }

    /// Has the server take packets out of the queues up to `now`.
    #[inline(never)]
    fn serve_queues(&mut self, now: Time) {
        while self.is_free(now) {
            let sent = self.serve_next();
            self.in_flight.extend(sent);
        }
    }

    /// Has the channel serve its terminals up to `now`.
    #[inline(never)]
    fn serve_terminals(&mut self, now: Time) {
        let Some(Keeper { packets: Kept::Terminals(channel), dropped }) = &mut self.keeper else { return };
        let (backlog, air, counters) = (&mut self.backlog, &mut self.air, &mut self.counters);
        channel.advance(now.max(self.now), &mut |sent, begin, end| {
            backlog.take(sent.size);
            backlog.push(begin, end, sent.size);
            if let Some(at) = air.carry(end) {
                counters.count_delivery(sent.packet.bytes);
                self.in_flight.push_back(Delivery { at, packet: sent.packet });
            } else {
                let reason = DropReason::Loss;
                counters.count_drop(reason, sent.packet.bytes);
                dropped.push_back(DroppedPacket { at: begin, packet: sent.packet, reason });
            }
        });
    }

    /// Puts the next packet into service as soon as the server is free; `None`: it is dropped or lost.
    #[inline(never)]
    fn serve_next(&mut self) -> Option<Delivery<T>> {
        let now = self.server.busy_until().max(self.now);
        let Some(Keeper { packets: Kept::Queues(discipline), .. }) = &mut self.keeper else { return None };
        let Waiting { packet, size, .. } = match discipline.dequeue_plainly(now) {
            Some(next) => next,
            None => self.dequeue(now)?,
        };
        self.backlog.take(size);
        let delivery = match self.pass_server(now, packet.bytes) {
            Some(at) => Transit::Delivered(at),
            None => self.carry_admitted(now, packet.bytes, size),
        };
        match (delivery, &mut self.keeper) {
            (Transit::Delivered(at), _) => return Some(Delivery { at, packet }),
            (Transit::Dropped(reason), Some(keeper)) => {
                keeper.dropped.push_back(DroppedPacket { at: now, packet, reason });
            }
            (Transit::Dropped(_), None) => {}
        }
        None
    }

    /// Takes the packet out of the queues that goes into service at `now`, if one is left.
    #[inline(never)]
    fn dequeue(&mut self, now: Time) -> Option<Waiting<T>> {
        let (counters, backlog) = (&mut self.counters, &mut self.backlog);
        let Some(Keeper { packets: Kept::Queues(discipline), dropped }) = &mut self.keeper else { return None };
        discipline.dequeue(now, &mut |waiting| {
            let reason = DropReason::Aqm;
            backlog.take(waiting.size);
            counters.count_drop(reason, waiting.packet.bytes);
            dropped.push_back(DroppedPacket { at: now, packet: waiting.packet, reason });
        })
    }

    /// An arrival now is refused by a link that decides on departure.
    #[cold]
    fn refused(&mut self, packet: Packet<T>, reason: DropReason, ahead: bool) -> Offered {
        if let Some(keeper) = self.keeper.as_mut().filter(|_| ahead) {
            keeper.dropped.push_back(DroppedPacket { at: self.now, packet, reason });
        }
        Offered::Dropped(self.dropped(reason, packet.bytes))
    }

    #[cold]
    fn dropped(&mut self, reason: DropReason, bytes: u32) -> DropReason {
        self.counters.count_drop(reason, bytes);
        reason
    }
}
