//! Lookahead: a receiver processes packets ahead of time, which extends cut-through to the end of a packet's path.
//!
//! A receiver's answers depend on its arrivals and its timers, and all its arrivals come over one link, in order. If its answers have their
//! first link to themselves, it processes a packet as soon as the last link has decided its delivery time, and sends the answers with their
//! times, which are in the future. A segment and its ACK thus cause one event, at the sender.
//!
//! This has no effect on other components. A packet that arrives after an instant at which an application or the meter acts, or that
//! completes a byte count they wait for, waits in the link's calendar for its event, with all packets behind it; that event then processes
//! those that wait. The series contains what had arrived by the end of each interval.

use perigee_link::Ecn;
use perigee_results::Meter;
use perigee_tcp::{Batch, Endpoint, Flags, Header, Segment, Train};
use perigee_traffic::End;
use perigee_units::Time;

use crate::answers::MAX_TRAIN;
use crate::connection::TimerEvent;
use crate::network::{Carried, Fate};
use crate::packet::{Bare, NetPacket, Outlet};
use crate::session_flow::SessionFlow;
use crate::world::World;

/// The sender of a flow.
struct LookaheadSender<'a> {
    batch: Batch<'a>,
    outlet: Outlet,
    timer: &'a mut TimerEvent,
}

/// The receiver of a flow, and the limits of its lookahead.
struct LookaheadReceiver<'a> {
    host: &'a mut Endpoint,
    outlet: Outlet,
    timer: &'a mut TimerEvent,
    meter: &'a mut Meter,
    /// The link that delivers its packets.
    link: u32,
    /// Latest arrival time.
    until: Time,
    /// The byte count that must not be reached.
    below: u64,
}

impl SessionFlow {
    #[inline]
    pub(crate) fn has_lookahead(&self) -> bool {
        self.last_link.is_some() && !self.session.attentive && self.meter.end().is_none()
    }

    /// Runs with both ends and the receiver's limits; `None` if an end is gone.
    #[inline(always)]
    fn with_both<R>(
        &mut self,
        world: &mut World,
        run: impl FnOnce(LookaheadSender<'_>, LookaheadReceiver<'_>, &mut World) -> R,
    ) -> Option<R> {
        let link = self.last_link?;
        let until = world.time_limit().min(self.next_instant);
        let below = self.meter.next_size().min(self.session.waits[End::To as usize].bytes);
        let outlets = [End::From, End::To].map(|end| self.session.first.outlet(end));
        let ([Some(from), Some(to)], [due_from, due_to]) = self.session.first.ends_and_timers() else { return None };
        let meter = &mut self.meter;
        let receiver = LookaheadReceiver { host: to, outlet: outlets[1], timer: due_to, meter, link, until, below };
        Some(
            from.in_batch(|batch| run(LookaheadSender { batch, outlet: outlets[0], timer: due_from }, receiver, world)),
        )
    }

    /// The sender processes an ACK delivered by `link`, and those behind it as long as nothing but its own pacing comes between, up to a
    /// number that keeps progress reports timely. Returns the number of events and the time of the last one.
    #[inline(never)]
    pub(crate) fn take_acknowledgements(
        &mut self,
        now: Time,
        link: u32,
        arrived: &mut NetPacket,
        world: &mut World,
    ) -> (u64, Time) {
        let taken = self.with_both(world, |mut sender, mut receiver, world| {
            let (mut at, mut events, way) = (now, 1, receiver.outlet.way);
            loop {
                sender.on_acknowledgement(at, arrived);
                if let Some(rtt) = sender.batch.take_rtt() {
                    receiver.meter.round_trip(rtt);
                }
                loop {
                    sender.send_all(at, &mut receiver, world);
                    let Some(due) = sender.paced_before_others(link, world) else { break };
                    (at, events) = (due, events + 1);
                    sender.batch.on_paced(due);
                }
                if events >= MAX_EVENTS {
                    break;
                }
                let batch = &mut sender.batch;
                let (network, stop) = (&mut world.network, world.stop);
                let next = network.next_acknowledgement(link, way, stop, |at| batch.is_idle_until(at), arrived);
                let Some(next) = next else { break };
                (at, events) = (next, events + 1);
            }
            sender.timer.follow(sender.batch.endpoint(), world);
            world.network.set_event(link);
            (events, at)
        });
        taken.unwrap_or((1, now))
    }

    pub(crate) fn transmit_with_lookahead(&mut self, now: Time, world: &mut World) {
        let sent = self.with_both(world, |mut sender, mut receiver, world| {
            sender.send_others(now, &mut receiver, world);
        });
        if sent.is_none() {
            self.session.first.transmit(now, End::From, world);
        }
    }

    /// After an event delivered a packet to the receiver: processes those waiting behind it, which then need no events.
    #[inline(never)]
    pub(crate) fn process_waiting(&mut self, world: &mut World) {
        if !self.has_lookahead() {
            return;
        }
        self.with_both(world, |sender, mut receiver, world| {
            let (link, way) = (receiver.link, sender.outlet.way);
            let (mut times, mut is_scheduled) = ([Time::ZERO; MAX_TRAIN], true);
            while let Some(train) = world.network.calendar(link).first_train(way, &mut times) {
                let taken = receiver.accepts_first(&times, train, world);
                if taken == 0 {
                    break;
                }
                world.network.calendar(link).drop_first(taken);
                is_scheduled = false;
            }
            if !is_scheduled {
                world.network.set_event(link);
            }
        });
    }
}

impl LookaheadSender<'_> {
    #[inline(always)]
    fn on_acknowledgement(&mut self, at: Time, arrived: &NetPacket) {
        if !arrived.header().is_some_and(|header| self.batch.take(at, header)) {
            self.on_any_packet(at, arrived);
        }
    }

    #[inline(never)]
    fn on_any_packet(&mut self, at: Time, arrived: &NetPacket) {
        let is_taken = arrived.report().is_some_and(|(header, blocks)| self.batch.take_report(at, header, blocks));
        if let Some(segment) = arrived.segment().filter(|_| !is_taken) {
            self.batch.endpoint().on_segment(at, &segment, arrived.stored.ecn == Ecn::Marked);
        }
    }

    /// When pacing releases the next packet, if that precedes all other events, including deliveries by `link`.
    #[inline(always)]
    fn paced_before_others(&mut self, link: u32, world: &mut World) -> Option<Time> {
        let due = self.batch.next_paced()?;
        self.timer.yield_to(due, world);
        let is_next = due < world.network.next_delivery(link)
            && self.batch.is_idle_through(due)
            && world.comes_next(due, self.timer.source(), link);
        is_next.then_some(due)
    }

    /// Sends all pending packets, directly to the receiver as far as lookahead allows. The sender's timer event must be moved afterwards.
    #[inline(always)]
    fn send_all(&mut self, now: Time, receiver: &mut LookaheadReceiver<'_>, world: &mut World) {
        self.batch.send(now, |train| receiver.carry(now, self.outlet, train, world));
        if self.batch.has_output() {
            self.send_others(now, receiver, world);
        }
    }

    #[inline(never)]
    fn send_others(&mut self, now: Time, receiver: &mut LookaheadReceiver<'_>, world: &mut World) {
        let host = self.batch.endpoint();
        let mut segment = Segment::EMPTY;
        while host.transmit_into(now, &mut segment) {
            receiver.carry_any(now, &mut self.outlet.packet_of(&segment, host), world);
        }
    }
}

impl LookaheadReceiver<'_> {
    /// Carries a train to the receiver.
    #[inline(always)]
    fn carry(&mut self, now: Time, outlet: Outlet, train: Train, world: &mut World) {
        if train.segments >= MIN_TRAIN {
            return self.carry_together(now, outlet, train, world);
        }
        for header in train.headers() {
            let packet = outlet.packet(&header);
            if let Fate::Delivered { at, link } = world.network.carry(now, packet) {
                self.arrives(at, link, packet, world);
            }
        }
    }

    #[inline(never)]
    fn carry_together(&mut self, now: Time, outlet: Outlet, mut train: Train, world: &mut World) {
        while train.segments > 0 {
            let mut times = [now; MAX_TRAIN];
            let part = train.take_first(MAX_TRAIN as u32);
            let times = &mut times[..part.segments as usize];
            let Bare { way, bytes, .. } = outlet.packet(&part.first);
            let carried = world.network.carry_all(times, way, bytes);
            let are_taken = match carried {
                Carried::Delivers(link) => {
                    world.network.calendar(link).is_empty() && self.accepts_all(times, part, world)
                }
                Carried::StopsAt(_) => false,
            };
            if !are_taken {
                self.carry_each(carried, times, outlet, part, world);
            }
        }
    }

    /// Carries on each segment of a train that links did not carry together, or that the receiver does not take together.
    #[inline(never)]
    fn carry_each(&mut self, carried: Carried, times: &[Time], outlet: Outlet, train: Train, world: &mut World) {
        for (at, header) in times.iter().zip(train.headers()) {
            let packet = outlet.packet(&header);
            let fate = match carried {
                Carried::Delivers(link) => Fate::Delivered { at: *at, link },
                Carried::StopsAt(link) => world.network.carry_on(*at, link, packet),
            };
            if let Fate::Delivered { at, link } = fate {
                self.arrives(at, link, packet, world);
            }
        }
    }

    /// A header's packet arrives.
    #[inline(always)]
    fn arrives(&mut self, at: Time, link: u32, packet: Bare<'_>, world: &mut World) {
        if !world.network.calendar(link).is_empty() || !self.accepts(at, packet.header, world) {
            world.network.keep(at, link, &packet);
        }
    }

    /// Carries any packet to the receiver.
    #[inline(never)]
    fn carry_any(&mut self, now: Time, packet: &mut NetPacket, world: &mut World) {
        let Fate::Delivered { at, link } = world.network.carry(now, &mut *packet) else { return };
        let is_taken = packet
            .header()
            .is_some_and(|header| world.network.calendar(link).is_empty() && self.accepts(at, header, world));
        if !is_taken {
            world.network.keep(at, link, &packet);
        }
    }

    /// Processes a train whose segments wait and arrive at `times`, or its first segment alone; returns the number of segments processed.
    fn accepts_first(&mut self, times: &[Time], train: Train, world: &mut World) -> u32 {
        if train.segments >= MIN_TRAIN && self.accepts_all(&times[..train.segments as usize], train, world) {
            return train.segments;
        }
        u32::from(self.accepts(times[0], &train.first, world))
    }

    /// Processes the segments of a train that arrive at `times`, with no others in flight before them, and sends the
    /// answers; returns false, with no effect, if the limits might forbid it.
    #[inline(always)]
    fn accepts_all(&mut self, times: &[Time], train: Train, world: &mut World) -> bool {
        let bytes = u64::from(train.segments) * u64::from(train.first.len);
        let Some(last) = times.last().copied().filter(|last| *last <= self.until) else { return false };
        if self.meter.arrived() + bytes >= self.below || last >= self.meter.edge() {
            return false;
        }
        let (mut rest, outlet) = (train, self.outlet);
        let first = rest.take_first(1);
        first.headers().for_each(|header| self.process::<true>(times[0], &header, world));
        if !self.host.on_next_train(&times[1..], rest, |at, header| world.answers.push(at, header)) {
            self.process_each(&times[1..], rest, world);
        }
        world.answers.send(outlet, &mut world.network);
        self.arrived(last, times.len() as u64, world);
        true
    }

    /// Processes a segment that arrives at `at`, with no other in flight before it, and sends the answers; returns false, with no effect,
    /// if the limits forbid it.
    #[inline(always)]
    fn accepts(&mut self, at: Time, header: &Header, world: &mut World) -> bool {
        if at > self.until
            || self.meter.arrived() + u64::from(header.len) >= self.below
            || header.flags.0 & (Flags::FIN | Flags::RST) != 0
        {
            return false;
        }
        self.process::<false>(at, header, world);
        self.arrived(at, 1, world);
        true
    }

    #[inline(never)]
    fn process_each(&mut self, times: &[Time], train: Train, world: &mut World) {
        for (at, header) in times.iter().zip(train.headers()) {
            self.process::<true>(*at, &header, world);
        }
    }

    /// Processes a segment that arrives at `at`. `QUEUES_ACK`: queues its ACK, which
    /// [`Answers::send`](crate::answers::Answers::send) sends.
    #[inline(always)]
    fn process<const QUEUES_ACK: bool>(&mut self, at: Time, header: &Header, world: &mut World) {
        let host = &mut *self.host;
        while host.deadline() < at {
            if QUEUES_ACK {
                world.answers.send(self.outlet, &mut world.network);
            }
            let due = host.deadline();
            host.on_timer(due);
            self.outlet.send_all(host, due, world);
        }
        if !host.on_next_data(at, header) {
            host.on_plain_segment(at, header);
        }
        match host.poll_acknowledgement(at) {
            // The ACK is all there is to send, and no timer is set.
            Some(acknowledgement) if QUEUES_ACK => world.answers.push(at, acknowledgement),
            Some(acknowledgement) => {
                world.network.send(at, self.outlet.packet(&acknowledgement));
            }
            None if host.has_output() => {
                if QUEUES_ACK {
                    world.answers.send(self.outlet, &mut world.network);
                }
                self.outlet.send_others(host, at, world);
            }
            None => {}
        }
    }

    /// After `packets` segments, the last of which arrived at `at`.
    #[inline(always)]
    fn arrived(&mut self, at: Time, packets: u64, world: &mut World) {
        self.timer.follow(self.host, world);
        world.network.count_arrivals(packets);
        world.last_arrival = at;
        let (received, arrived) = (self.host.received(), self.host.arrived());
        if arrived != self.meter.arrived() {
            self.meter.deliver(at, received, arrived);
        }
    }
}

/// Segments of the smallest train that is carried together.
const MIN_TRAIN: u32 = 4;
/// Events per batch: about a millisecond of work.
const MAX_EVENTS: u64 = 1024;
