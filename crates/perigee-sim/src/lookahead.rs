//! Lookahead: a receiver processes packets ahead of time, which extends cut-through to the end of a packet's path.
//!
//! A receiver's answers depend on its arrivals and its timers, and all its arrivals come over one link, in order. If its answers have their
//! first link to themselves, it processes a packet as soon as the last link has decided its delivery time, and sends the answers with their
//! times, which are in the future. A segment and its ACK thus cause one event, at the sender.
//!
//! This has no effect on other components. A packet that arrives after an instant at which an application or the meter acts, or that
//! completes a byte count they wait for, waits in the link's calendar for its event, with all packets behind it; that event then processes
//! those that wait. The series contains what had arrived by the end of each interval.

use perigee_results::Meter;
use perigee_tcp::{Batch, Endpoint, Flags, Header, Segment, Train};
use perigee_traffic::End;
use perigee_units::Time;

use crate::answers::MAX_TRAIN;
use crate::connection::{Parts, TimerEvent};
use crate::log::Log;
use crate::network::{Carried, Fate};
use crate::packet::{Bare, NetPacket, Outlet, Parcel};
use crate::session::process_any;
use crate::session_flow::SessionFlow;
use crate::world::World;

/// The sender of a flow.
struct LookaheadSender<'a> {
    batch: Batch<'a>,
    outlet: Outlet,
    timer: &'a mut TimerEvent,
    /// A capture of what it sends and receives, in order of time: a sender is never ahead of the clock.
    log: Option<&'a mut Log>,
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
        let Parts { ends: [from, to], timers: [due_from, due_to], log } = self.session.first.parts()?;
        let meter = &mut self.meter;
        let receiver = LookaheadReceiver { host: to, outlet: outlets[1], timer: due_to, meter, link, until, below };
        Some(from.in_batch(|batch| {
            run(LookaheadSender { batch, outlet: outlets[0], timer: due_from, log }, receiver, world)
        }))
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
                if !arrived.header().is_some_and(|header| sender.batch.take(at, header)) {
                    process_any(sender.batch.endpoint(), at, arrived);
                }
                if let Some(log) = &mut sender.log {
                    log.capture_acknowledged(at, &arrived.stored.header);
                }
                if let Some(rtt) = sender.batch.take_rtt() {
                    receiver.meter.round_trip(rtt);
                }
                loop {
                    sender.respond(at, &mut receiver, world);
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
            sender.respond_in_segments(now, &mut receiver, world);
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
                let together = &times[..train.segments as usize];
                let taken = match train.segments {
                    MIN_TRAIN.. if receiver.process(together, train, world) => train.segments,
                    _ if receiver.process(&times[..1], Train::of(train.first), world) => 1,
                    _ => break,
                };
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
    fn respond(&mut self, now: Time, receiver: &mut LookaheadReceiver<'_>, world: &mut World) {
        self.batch.send(now, |train| {
            if let Some(log) = &mut self.log {
                log.capture_sent(now, &train.first, train.segments);
            }
            receiver.carry(now, self.outlet, train, world);
        });
        if self.batch.has_output() {
            self.respond_in_segments(now, receiver, world);
        }
    }

    /// [`LookaheadSender::respond`] with any segments, one by one.
    #[inline(never)]
    fn respond_in_segments(&mut self, now: Time, receiver: &mut LookaheadReceiver<'_>, world: &mut World) {
        let host = self.batch.endpoint();
        let mut segment = Segment::EMPTY;
        while host.transmit_into(now, &mut segment) {
            if let Some(log) = &mut self.log {
                log.capture_sent(now, &segment, 1);
            }
            let mut packet = self.outlet.packet_of(&segment, host);
            let fate = world.network.carry(now, &mut packet);
            receiver.arrive_alone(fate, &packet, world);
        }
    }
}

impl LookaheadReceiver<'_> {
    /// Carries a train over the links, and its segments to the receiver; those beyond its limits wait at the last link.
    #[inline(always)]
    fn carry(&mut self, now: Time, outlet: Outlet, mut train: Train, world: &mut World) {
        if train.segments >= MIN_TRAIN {
            self.carry_together(now, outlet, &mut train, world);
        }
        for header in train.headers() {
            let packet = outlet.packet(&header);
            let fate = world.network.carry(now, packet);
            self.arrive_alone(fate, &packet, world);
        }
    }

    /// Takes segments off a train and carries them together, as long as there are enough.
    #[inline(never)]
    fn carry_together(&mut self, now: Time, outlet: Outlet, train: &mut Train, world: &mut World) {
        while train.segments >= MIN_TRAIN {
            let mut times = [now; MAX_TRAIN];
            let part = train.take_first(MAX_TRAIN as u32);
            let times = &mut times[..part.segments as usize];
            let Bare { way, bytes, .. } = outlet.packet(&part.first);
            let carried = world.network.carry_all(times, way, bytes);
            if let Carried::Delivers(link) = carried
                && self.arrive(times, link, part, world)
            {
                continue;
            }
            for (at, header) in times.iter().zip(part.headers()) {
                let packet = outlet.packet(&header);
                let fate = world.network.carry_on(*at, carried, packet);
                self.arrive_alone(fate, &packet, world);
            }
        }
    }

    /// A packet arrives, unless it was stored or dropped; if the receiver does not process it now, it waits at its last link.
    #[inline(always)]
    fn arrive_alone(&mut self, fate: Fate, packet: &impl Parcel, world: &mut World) {
        let Fate::Delivered { at, link } = fate else { return };
        if !packet.header().is_some_and(|header| self.arrive(&[at], link, Train::of(*header), world)) {
            world.network.keep(at, link, packet);
        }
    }

    /// The segments of a train arrive over `link` at `times`: the receiver processes them and sends its answers. Returns false, with no
    /// effect, if the limits might forbid it.
    #[inline(always)]
    fn arrive(&mut self, times: &[Time], link: u32, train: Train, world: &mut World) -> bool {
        world.network.calendar(link).is_empty() && self.process(times, train, world)
    }

    /// [`LookaheadReceiver::arrive`] with no other segments waiting before these: one, or [`MIN_TRAIN`] and more.
    #[inline(always)]
    fn process(&mut self, times: &[Time], train: Train, world: &mut World) -> bool {
        let (are_several, bytes) = (times.len() > 1, u64::from(train.segments) * u64::from(train.first.len));
        let Some(last) = times.last().copied().filter(|last| *last <= self.until) else { return false };
        if self.meter.arrived() + bytes >= self.below
            || are_several && last >= self.meter.edge()
            || train.first.flags.0 & (Flags::FIN | Flags::RST) != 0
        {
            return false;
        }
        let mut rest = train;
        self.process_one(times[0], &rest.take_first(1).first, are_several, world);
        if are_several {
            let times = &times[1..];
            if !self.host.on_next_train(times, rest, |at, header| world.answers.push(at, header)) {
                for (at, header) in times.iter().zip(rest.headers()) {
                    self.process_one(*at, &header, true, world);
                }
            }
            world.answers.send(self.outlet, &mut world.network);
        }
        self.timer.follow(self.host, world);
        world.network.count_arrivals(u64::from(train.segments));
        world.last_arrival = world.last_arrival.max(last);
        let (received, arrived) = (self.host.received(), self.host.arrived());
        if arrived != self.meter.arrived() {
            self.meter.deliver(last, received, arrived);
        }
        true
    }

    /// Processes a segment that arrives at `at`. `queues_ack`: its ACK waits for
    /// [`Answers::send`].
    #[inline(always)]
    fn process_one(&mut self, at: Time, header: &Header, queues_ack: bool, world: &mut World) {
        let host = &mut *self.host;
        while host.deadline() < at {
            world.answers.send(self.outlet, &mut world.network);
            let due = host.deadline();
            host.on_timer(due);
            self.outlet.send_all(host, due, world);
        }
        if !host.on_next_data(at, header) {
            host.on_plain_segment(at, header);
        }
        match host.poll_acknowledgement(at) {
            // The ACK is all there is to send, and no timer is set.
            Some(acknowledgement) if queues_ack => world.answers.push(at, acknowledgement),
            Some(acknowledgement) => {
                world.network.send(at, self.outlet.packet(&acknowledgement));
            }
            None if host.has_output() => {
                world.answers.send(self.outlet, &mut world.network);
                self.outlet.send_others(host, at, world);
            }
            None => {}
        }
    }
}

/// Segments of the smallest train that is carried together.
const MIN_TRAIN: u32 = 4;
/// Events per batch: about a millisecond of work.
const MAX_EVENTS: u64 = 1024;
