//! Links that decide on departure: they keep their packets, and decide when the server is free for the next one.

use perigee_units::Time;

use super::{Delivery, DroppedPacket, Keeper, Kept, Link, Offered, Transit};
use crate::packet::{DropReason, Packet};
use crate::queue::Waiting;

impl<T: Copy> Link<T> {
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

    /// [`Link::offer`], or [`Link::offer_ahead`], of a link that decides on departure.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a link that decides on departure")]
    pub(super) fn keep(&mut self, now: Time, mut packet: Packet<T>, ahead: bool) -> Offered {
        self.decide(now);
        let now = self.now;
        self.counters.offered_packets += 1;
        self.counters.offered_bytes += u64::from(packet.bytes);
        let mut size = packet.bytes.saturating_add(self.overhead);
        if !self.admits(size) {
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

    /// Whether an arrival has room, what has left counted or not.
    #[inline]
    fn admits(&self, size: u32) -> bool {
        // At most one packet is being sent beside those that are counted.
        let (bytes, packets) = (self.backlog.bytes() + u64::from(self.lease.size()), self.backlog.packets() + 1);
        self.room.holds(size) && self.admission.holds(bytes + u64::from(size), packets + 1)
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
    pub(super) fn next_decision(&self, keeper: &Keeper<T>) -> Option<Time> {
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
        let Waiting { packet, size, .. } = match discipline.dequeue_early(now) {
            Some(next) => next,
            None => self.dequeue(now)?,
        };
        self.backlog.take(size);
        let delivery = match self.lease.take(&mut self.server.clock, now, packet.bytes) {
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

    /// What becomes of a packet that goes into service, on the slow path.
    #[inline(never)]
    fn carry_admitted(&mut self, now: Time, bytes: u32, size: u32) -> Transit {
        self.carry(now, bytes, |_| Ok(size))
    }
}
