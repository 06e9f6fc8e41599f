//! A receiver that is asked ahead of time: cut-through goes on at the end of a packet's way.
//!
//! What a receiver answers depends on what arrives there and on its own timers, and all that arrives comes over one link, in
//! order. Where its answers have their first link to themselves, it takes a packet when the last link tells the instant of its
//! delivery, and the answers go on their way with their instants, which lie ahead. So a segment and its acknowledgement cause one
//! event, at the sender. Others see nothing of it: a packet that arrives after an instant at which an application or the meter does
//! something, or that completes a count of bytes for which they wait, waits for its event in the link's calendar, and so do those
//! behind it, until the event comes and takes along what waits. The series has what had arrived by the end of each interval.

use perigee_link::Ecn;
use perigee_results::Meter;
use perigee_tcp::{Batch, Endpoint, Flags, Header};
use perigee_traffic::End;
use perigee_units::Time;

use crate::compact::{Arrived, Bare, Parcel};
use crate::connection::{next_packet, Outlet, TimerEvent};
use crate::network::Course;
use crate::packet::{NetPacket, Payload};
use crate::tcp_flow::TcpFlow;
use crate::world::World;

/// The sender of a flow.
struct Sender<'a> {
    batch: Batch<'a>,
    outlet: Outlet,
    timer: &'a mut TimerEvent,
}

/// The receiver of a flow, and up to where it may be asked.
struct Receiver<'a> {
    host: &'a mut Endpoint,
    outlet: Outlet,
    timer: &'a mut TimerEvent,
    meter: &'a mut Meter,
    /// The link that delivers what arrives there.
    link: u32,
    /// The last instant.
    until: Time,
    /// So many bytes must not arrive.
    below: u64,
}

impl TcpFlow {
    /// Whether the receiver may be asked ahead of time now.
    #[inline]
    pub(crate) fn has_lookahead(&self) -> bool {
        self.ahead.is_some() && !self.attentive && self.meter.end().is_none()
    }

    /// Runs with both ends, and how far the receiver may be asked; `None`: they are not there.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each batch of acknowledgements")]
    fn with_both<R>(
        &mut self,
        world: &mut World,
        run: impl FnOnce(Sender<'_>, Receiver<'_>, &mut World) -> R,
    ) -> Option<R> {
        let link = self.ahead?;
        let until = world.limit.min(self.next_instant);
        let below = self.meter.next_size().min(self.awaited[End::To as usize]);
        let outlets = [End::From, End::To].map(|end| self.connection.outlet(end));
        let ([Some(from), Some(to)], [due_from, due_to]) = self.connection.ends_and_timers() else { return None };
        let meter = &mut self.meter;
        let receiver = Receiver { host: to, outlet: outlets[1], timer: due_to, meter, link, until, below };
        Some(from.in_batch(|batch| run(Sender { batch, outlet: outlets[0], timer: due_from }, receiver, world)))
    }

    /// The sender takes an acknowledgement that `link` delivers, and those behind it before which nothing else happens than its own
    /// pacing; at most as many as a progress report may wait for. Returns how many events it were, and the instant of the last one.
    #[inline(never)]
    pub(crate) fn take_acknowledgements(
        &mut self,
        now: Time,
        link: u32,
        arrived: &mut Arrived,
        world: &mut World,
    ) -> (u64, Time) {
        let taken = self.with_both(world, |mut sender, mut receiver, world| {
            let (mut at, mut events, way) = (now, 1, receiver.outlet.way);
            loop {
                sender.takes(at, arrived);
                if let Some(rtt) = sender.batch.take_rtt() {
                    receiver.meter.round_trip(rtt);
                }
                loop {
                    sender.send_all(at, &mut receiver, world);
                    let Some(due) = sender.is_paced_next(link, world) else { break };
                    (at, events) = (due, events + 1);
                    sender.batch.on_paced(due);
                }
                if events >= ACKNOWLEDGEMENTS {
                    break;
                }
                let batch = &mut sender.batch;
                let Some(next) = world.next_acknowledgement((link, way), |at| batch.is_idle_until(at), arrived) else {
                    break;
                };
                (at, events) = (next, events + 1);
            }
            sender.timer.follow(sender.batch.endpoint(), world);
            world.schedule_first(link);
            (events, at)
        });
        taken.unwrap_or((1, now))
    }

    /// Sends all that the sender has to send.
    pub(crate) fn transmit_with_lookahead(&mut self, now: Time, world: &mut World) {
        let sent = self.with_both(world, |mut sender, mut receiver, world| {
            sender.send_others(now, &mut receiver, world);
        });
        if sent.is_none() {
            self.connection.transmit(now, End::From, world);
        }
    }

    /// A packet has arrived at the receiver by its event: those that wait behind it do not need theirs.
    #[inline(never)]
    pub(crate) fn take_along(&mut self, world: &mut World) {
        if !self.has_lookahead() {
            return;
        }
        self.with_both(world, |sender, mut receiver, world| {
            let (link, way) = (receiver.link, sender.outlet.way);
            let mut is_scheduled = true;
            while let Some((at, header)) = world.network.calendar(link).first_header(way) {
                if !receiver.takes(at, &header, world) {
                    break;
                }
                world.network.calendar(link).drop_first();
                is_scheduled = false;
            }
            if !is_scheduled {
                world.schedule_first(link);
            }
        });
    }
}

impl Sender<'_> {
    /// Takes an acknowledgement.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    fn takes(&mut self, at: Time, arrived: &Arrived) {
        if !arrived.header().is_some_and(|header| self.batch.take(at, header)) {
            self.takes_any(at, arrived);
        }
    }

    #[inline(never)]
    fn takes_any(&mut self, at: Time, arrived: &Arrived) {
        let packet = arrived.whole();
        if let Payload::Tcp(segment) = &packet.payload {
            self.batch.endpoint().on_segment(at, segment, packet.ecn == Ecn::Marked);
        }
    }

    /// When the pacing lets more go, if that is what happens next, before what `link` delivers.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    fn is_paced_next(&mut self, link: u32, world: &mut World) -> Option<Time> {
        let due = self.batch.next_paced()?;
        self.timer.give_way(due, world);
        world.comes_next(due, self.timer.source(), link).then_some(due)
    }

    /// Sends all that there is to send, to the receiver itself as far as that may be asked ahead of time. The event of the sender's timer
    /// has to be moved in the end.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment of a bulk transfer")]
    fn send_all(&mut self, now: Time, receiver: &mut Receiver<'_>, world: &mut World) {
        self.batch.send(now, |header| receiver.carry(now, self.outlet.packet(header), world));
        if self.batch.has_output() {
            self.send_others(now, receiver, world);
        }
    }

    #[inline(never)]
    fn send_others(&mut self, now: Time, receiver: &mut Receiver<'_>, world: &mut World) {
        let host = self.batch.endpoint();
        let mut packet = NetPacket::SEGMENT;
        while next_packet(host, now, self.outlet, &mut packet) {
            receiver.carry_any(now, &mut packet, world);
        }
    }
}

impl Receiver<'_> {
    /// Carries the packet of a header to the receiver.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment of a bulk transfer")]
    fn carry(&mut self, now: Time, packet: Bare<'_>, world: &mut World) {
        let Course::To(delivery) = world.offer(now, packet) else { return };
        if !world.network.calendar(delivery.link).is_empty() || !self.takes(delivery.at, packet.header, world) {
            world.keep(delivery, &packet);
        }
    }

    /// Carries any packet to the receiver.
    #[inline(never)]
    fn carry_any(&mut self, now: Time, packet: &mut NetPacket, world: &mut World) {
        let Course::To(delivery) = world.offer(now, &mut *packet) else { return };
        let is_taken = match &packet.payload {
            Payload::Tcp(segment) if segment.is_plain() && packet.ecn != Ecn::Marked => {
                world.network.calendar(delivery.link).is_empty() && self.takes(delivery.at, segment, world)
            }
            _ => false,
        };
        if !is_taken {
            world.keep(delivery, packet);
        }
    }

    /// Takes a segment that arrives at `at`, before which none is on its way, and sends what follows; whether it may.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment of a bulk transfer")]
    fn takes(&mut self, at: Time, header: &Header, world: &mut World) -> bool {
        let host = &mut *self.host;
        if at > self.until
            || self.meter.arrived() + u64::from(header.len) >= self.below
            || header.flags.0 & (Flags::FIN | Flags::RST) != 0
        {
            return false;
        }
        while host.deadline() < at {
            let due = host.deadline();
            host.on_timer(due);
            self.outlet.send_all(host, due, world);
        }
        if !host.on_next_data(at, header) {
            take_unpredicted(host, at, header);
        }
        if let Some(acknowledgement) = host.poll_acknowledgement(at) {
            // It says all that there is to say, and no timer is left.
            world.send(at, self.outlet.packet(&acknowledgement));
        } else {
            if host.has_output() {
                self.outlet.send_others(host, at, world);
            }
            self.timer.follow(host, world);
        }
        world.network.count_arrival();
        world.last_arrival = at;
        let (received, arrived) = (host.received(), host.arrived());
        if arrived != self.meter.arrived() {
            self.meter.deliver(at, received, arrived);
        }
        true
    }
}

#[inline(never)]
fn take_unpredicted(host: &mut Endpoint, at: Time, header: &Header) {
    if !host.on_expected(at, header) {
        host.on_segment(at, &(*header).into(), false);
    }
}

/// Events in one go: a millisecond of work.
const ACKNOWLEDGEMENTS: u64 = 1024;
