//! Links that decide on departure: they store packets, and decide when the server is free for the next one.

use perigee_units::Time;

use super::{Delivery, DroppedPacket, Link, Offered, PacketStore, Stored, Transit};
use crate::loss::Leaving;
use crate::packet::{DropReason, Packet};
use crate::queue::Waiting;

impl<T: Copy> Link<T> {
    /// [`Link::offer`] ahead of time, to a link that decides on departure: [`Link::poll`] returns a refused packet at the instant of its
    /// arrival.
    pub fn offer_ahead(&mut self, now: Time, packet: Packet<T>) {
        debug_assert!(self.store.is_some(), "a feed-forward link stores no packets");
        self.keep(now, packet, true);
    }

    /// The next packet decided by `now`, with its delivery time, which may be in the future. [`Link::poll`] does not return it again.
    #[inline]
    pub fn decide_ahead(&mut self, now: Time) -> Option<Delivery<T>> {
        if !self.in_flight.is_empty() {
            return self.in_flight.pop_front();
        }
        if let Some(PacketStore { packets: Stored::Queues(_), .. }) = &self.store {
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

    /// Whether [`Link::decide_ahead`] may return a packet by `now`.
    #[inline]
    pub fn may_decide_ahead(&self, now: Time) -> bool {
        !self.in_flight.is_empty() || self.is_free(now)
    }

    /// [`Link::offer`] and [`Link::offer_ahead`] for a link that decides on departure.
    #[inline(always)]
    pub(super) fn keep(&mut self, now: Time, packet: Packet<T>, is_early: bool) -> Offered {
        self.decide(now);
        let now = self.now;
        self.counters.offered_packets += 1;
        self.counters.offered_bytes += u64::from(packet.bytes);
        let (mut size, mut ecn) = (packet.bytes.saturating_add(self.overhead), packet.ecn);
        if !self.admits(size) {
            self.end_run();
            ecn = match self.ecn.enter(ecn) {
                Some(outer) => outer,
                None => return self.refused(packet, DropReason::Loss, is_early),
            };
            size = match self.admit(now, packet.bytes, &mut ecn) {
                Ok(size) => size,
                Err(DropReason::QueueFull) if self.make_room(now, &packet) => size,
                Err(reason) => return self.refused(packet, reason, is_early),
            };
        }
        let waiting = Waiting { packet: Packet { ecn, ..packet }, inner: packet.ecn, size, arrived: now };
        match self.store.as_mut().map(|store| &mut store.packets) {
            Some(Stored::Queues(discipline)) => {
                discipline.enqueue(waiting);
                self.backlog.keep(size);
                if self.backlog.waiting() == 1 {
                    // Other packets wait for a busy server.
                    self.decide(now);
                }
            }
            Some(Stored::Terminals(channel)) => {
                if !channel.enqueue(waiting) {
                    return self.refused(packet, DropReason::QueueFull, is_early);
                }
                self.backlog.keep(size);
                self.decide(now);
            }
            None => {}
        }
        Offered::Queued
    }

    /// Whether an arrival certainly has room, whether or not departed packets have been removed.
    #[inline]
    fn admits(&self, size: u32) -> bool {
        // At most one packet is in service beside those counted.
        let (bytes, packets) = (self.backlog.bytes() + u64::from(self.lease.size()), self.backlog.packets() + 1);
        self.room.holds(size) && self.admission.holds(bytes + u64::from(size), packets + 1)
    }

    /// Lets the discipline drop packets until an arrival has room; returns whether it has in the end.
    fn make_room(&mut self, now: Time, packet: &Packet<T>) -> bool {
        let size = packet.bytes.saturating_add(self.overhead);
        let Some(PacketStore { packets: Stored::Queues(discipline), dropped, .. }) = &mut self.store else {
            return false;
        };
        if !self.admission.could_hold(size) {
            return false;
        }
        if let Some((bytes, packets)) = discipline.droppable() {
            let kept = (self.backlog.bytes() - bytes, self.backlog.packets() - packets);
            if self.admission.is_full_with(now, size, kept, &self.server) {
                return false;
            }
        }
        while self.admission.is_full(now, size, &self.backlog, &self.server) {
            let (counters, backlog) = (&mut self.counters, &mut self.backlog);
            let made_room = discipline.make_room(packet.is_low, &mut |waiting| {
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

    /// Withdraws the packets that wait at `now` and that `is_meant` names, in the order of their arrival; the packet in service stays. They
    /// count as lost, or as withdrawn if they go on to another link. A link that decides on arrival, several queues and terminals keep
    /// theirs.
    ///
    /// ```
    /// use perigee_link::{Ecn, Link, LinkSpec, Packet};
    /// use perigee_units::{Rate, Time};
    /// let mut link = Link::storing(&LinkSpec::constant(Rate::from_mbps(12.0), Time::ZERO), 1, "down");
    /// for token in 0..4 {
    ///     link.offer(Time::ZERO, Packet { bytes: 1500, flow: token % 2, ecn: Ecn::NotCapable, is_low: false, token });
    /// }
    /// let mut moved = Vec::new();
    /// link.withdraw(Time::ZERO, false, |packet| packet.flow == 1, |packet| moved.push(packet.token));
    /// assert_eq!((moved, link.in_flight()), (vec![1, 3], 2));
    /// ```
    pub fn withdraw(
        &mut self,
        now: Time,
        are_lost: bool,
        mut is_meant: impl FnMut(&Packet<T>) -> bool,
        mut out: impl FnMut(Packet<T>),
    ) {
        self.decide(now);
        let (counters, backlog) = (&mut self.counters, &mut self.backlog);
        let Some(PacketStore { packets: Stored::Queues(discipline), .. }) = &mut self.store else { return };
        discipline.withdraw(&mut |waiting| is_meant(&waiting.packet), &mut |waiting| {
            backlog.take(waiting.size);
            if are_lost {
                counters.count_drop(DropReason::Loss, waiting.packet.bytes);
            } else {
                counters.withdrawn_packets += 1;
            }
            out(Packet { ecn: waiting.inner, ..waiting.packet });
        });
    }

    /// When the server is free for a waiting packet, or a terminal with packets has a slot.
    #[inline]
    pub(super) fn next_decision(&self, store: &PacketStore<T>) -> Option<Time> {
        let at = match &store.packets {
            Stored::Queues(_) => (self.backlog.waiting() > 0).then(|| self.server.busy_until()),
            Stored::Terminals(channel) => channel.next_decision(),
        };
        at.map(|at| at.max(self.now))
    }

    /// Carries out the decisions due by `now`, each at its own instant.
    #[inline]
    pub fn decide(&mut self, now: Time) {
        match &self.store {
            None => return,
            Some(PacketStore { packets: Stored::Queues(_), .. }) if self.is_free(now) => self.serve_queues(now),
            Some(PacketStore { packets: Stored::Queues(_), .. }) => {}
            Some(PacketStore { packets: Stored::Terminals(_), .. }) => self.serve_terminals(now),
        }
        self.now = self.now.max(now);
    }

    /// Whether packets wait and the server is free by `now`.
    #[inline]
    fn is_free(&self, now: Time) -> bool {
        self.backlog.waiting() > 0 && self.server.busy_until() <= now
    }

    /// Serves packets from the queues up to `now`.
    #[inline(never)]
    fn serve_queues(&mut self, now: Time) {
        while self.is_free(now) {
            let sent = self.serve_next();
            self.in_flight.extend(sent);
        }
    }

    /// Serves the terminals of the channel up to `now`.
    #[inline(never)]
    fn serve_terminals(&mut self, now: Time) {
        let Some(PacketStore { packets: Stored::Terminals(channel), dropped, slots_end }) = &mut self.store else {
            return;
        };
        let (backlog, air, counters, ecn) = (&mut self.backlog, &mut self.air, &mut self.counters, self.ecn);
        channel.advance(now.max(self.now), &mut |sent, begin, end| {
            backlog.take(sent.size);
            backlog.push(begin, end, sent.size);
            let packet = Leaving { at: end, size: sent.size, after_idle: begin > *slots_end };
            *slots_end = end;
            if let Some(at) = air.carry(packet) {
                counters.count_delivery(sent.packet.bytes);
                let ecn = ecn.leave(sent.inner, sent.packet.ecn);
                self.in_flight.push_back(Delivery { at, packet: Packet { ecn, ..sent.packet } });
            } else {
                let reason = DropReason::Loss;
                counters.count_drop(reason, sent.packet.bytes);
                dropped.push_back(DroppedPacket { at: begin, packet: sent.packet, reason });
            }
        });
    }

    /// Serves the next packet as soon as the server is free; `None` if it is dropped or lost.
    #[inline(never)]
    fn serve_next(&mut self) -> Option<Delivery<T>> {
        let now = self.server.busy_until().max(self.now);
        let Some(PacketStore { packets: Stored::Queues(discipline), .. }) = &mut self.store else { return None };
        let Waiting { mut packet, inner, size, .. } = match discipline.dequeue_early(now) {
            Some(next) => next,
            None => self.dequeue(now)?,
        };
        self.backlog.take(size);
        let leased = if self.leases(now, packet.bytes) { self.lease.take(&mut self.server.clock, now) } else { None };
        let delivery = if let Some(at) = leased {
            Transit::Delivered(at)
        } else {
            packet.ecn = self.ecn.leave(inner, packet.ecn);
            self.decide_admitted(now, packet.bytes, size)
        };
        match (delivery, &mut self.store) {
            (Transit::Delivered(at), _) => return Some(Delivery { at, packet }),
            (Transit::Dropped(reason), Some(store)) => {
                store.dropped.push_back(DroppedPacket { at: now, packet, reason });
            }
            (Transit::Dropped(_), None) => {}
        }
        None
    }

    /// Takes the packet that enters service at `now`, if one is left.
    #[inline(never)]
    fn dequeue(&mut self, now: Time) -> Option<Waiting<T>> {
        let (counters, backlog) = (&mut self.counters, &mut self.backlog);
        let Some(PacketStore { packets: Stored::Queues(discipline), dropped, .. }) = &mut self.store else {
            return None;
        };
        let reason = discipline.drops_for();
        discipline.dequeue(now, &mut |waiting| {
            backlog.take(waiting.size);
            counters.count_drop(reason, waiting.packet.bytes);
            dropped.push_back(DroppedPacket { at: now, packet: waiting.packet, reason });
        })
    }

    /// A link that decides on departure refuses an arrival.
    #[cold]
    fn refused(&mut self, packet: Packet<T>, reason: DropReason, is_early: bool) -> Offered {
        if let Some(store) = self.store.as_mut().filter(|_| is_early) {
            store.dropped.push_back(DroppedPacket { at: self.now, packet, reason });
        }
        Offered::Dropped(self.dropped(reason, packet.bytes))
    }

    /// Decides the fate of a packet that enters service, on the slow path.
    #[inline(never)]
    fn decide_admitted(&mut self, now: Time, bytes: u32, size: u32) -> Transit {
        self.decide_fate(now, bytes, |_| Ok(size))
    }
}
