//! Moves packets through links on the wall clock.

use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;

use perigee_link::{Counters, Delivery, DroppedPacket, Ecn, Exit, Link, LinkSpec, Offered, Packet};
use perigee_units::Time;
use perigee_wire::{destination, write_ecn, HopFields};

use super::histogram::Histogram;

/// Number of a link's end, where packets enter and leave.
pub type End = usize;

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub struct DirectedLink<'a> {
    /// The end where its packets enter.
    pub from: End,
    /// The end where they leave.
    pub to: End,
    /// The link model.
    pub spec: &'a LinkSpec,
    /// The name of its random streams, as in the simulator.
    pub name: &'a str,
    /// Whether waiting packets may be withdrawn: see [`Link::storing`].
    pub gives_up_waiting: bool,
}

/// A change of a route: from an instant on, packets for some addresses take another direction, and those that wait for
/// the old one are moved to it or lost.
#[derive(Clone, Debug)]
pub(crate) struct QueueChange {
    pub(crate) at: Time,
    /// The directions, by number.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) are_lost: bool,
}

/// Source, sink and clock of a driver.
pub trait Wire {
    /// The current time; it never decreases.
    fn now(&mut self) -> Time;

    /// Reads a waiting packet from an end into a buffer of the largest size, and returns its length; `None` if none
    /// waits. A packet that arrived since the last [`Wire::wait`] may be left for later.
    ///
    /// # Errors
    /// If the end is gone.
    fn receive(&mut self, end: End, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Writes a packet that was due `late` ago to an end, at the latest by the next [`Wire::flush`].
    ///
    /// # Errors
    /// If the end is gone.
    fn send(&mut self, end: End, packet: &[u8], late: Time) -> io::Result<()>;

    /// Writes the packets to an end that are still to be written.
    ///
    /// # Errors
    /// If the end is gone.
    fn flush(&mut self, _end: End) -> io::Result<()> {
        Ok(())
    }

    /// Waits for a packet at any end, or until `until`; may return early or late.
    ///
    /// # Errors
    /// If an end is gone.
    fn wait(&mut self, until: Option<Time>) -> io::Result<()>;
}

/// Observes packets as the driver moves them. Directions are numbered in the order given to [`Driver::new`].
pub trait Observer {
    /// A packet has arrived at a direction's entrance.
    fn offered(&mut self, _direction: usize, _now: Time, _packet: &[u8]) {}

    /// The link has dropped a packet, on arrival or while it was queued.
    fn dropped(&mut self, _direction: usize, _now: Time, _packet: &[u8]) {}

    /// A packet leaves a direction's exit.
    fn released(&mut self, _direction: usize, _now: Time, _packet: &[u8]) {}

    /// The link is about to be offered a packet, or polled, at `now`.
    fn before(&mut self, _direction: usize, _now: Time, _link: &mut Link<BufferedPacket>) {}

    /// Whether to continue, and the latest time of the next call if no packet moves.
    fn turn(&mut self, now: Time) -> ControlFlow<(), Option<Time>>;
}

/// An observer that only decides whether to continue.
impl<F: FnMut() -> bool> Observer for F {
    fn turn(&mut self, _now: Time) -> ControlFlow<(), Option<Time>> {
        if self() {
            ControlFlow::Continue(None)
        } else {
            ControlFlow::Break(())
        }
    }
}

/// Two observers; both must want to continue.
#[derive(Debug)]
pub struct ObserverPair<'a, A, B>(pub &'a mut A, pub &'a mut B);

impl<A: Observer, B: Observer> Observer for ObserverPair<'_, A, B> {
    fn offered(&mut self, direction: usize, now: Time, packet: &[u8]) {
        self.0.offered(direction, now, packet);
        self.1.offered(direction, now, packet);
    }

    fn dropped(&mut self, direction: usize, now: Time, packet: &[u8]) {
        self.0.dropped(direction, now, packet);
        self.1.dropped(direction, now, packet);
    }

    fn released(&mut self, direction: usize, now: Time, packet: &[u8]) {
        self.0.released(direction, now, packet);
        self.1.released(direction, now, packet);
    }

    fn before(&mut self, direction: usize, now: Time, link: &mut Link<BufferedPacket>) {
        self.0.before(direction, now, link);
        self.1.before(direction, now, link);
    }

    fn turn(&mut self, now: Time) -> ControlFlow<(), Option<Time>> {
        match (self.0.turn(now), self.1.turn(now)) {
            (ControlFlow::Continue(first), ControlFlow::Continue(second)) => {
                ControlFlow::Continue(first.into_iter().chain(second).min())
            }
            _ => ControlFlow::Break(()),
        }
    }
}

/// Links and the packets in flight on them.
///
/// The link gives the departure of a packet; the driver releases it then or, if it wakes late, as soon as it can. A
/// late release does not move other departures, so lateness does not accumulate. For a link that decides on departure
/// the driver also wakes for each decision, and dates a late decision back to its instant.
pub struct Driver {
    directions: Vec<Direction>,
    buffers: Buffers,
    /// The next one last.
    changes: Vec<QueueChange>,
}

struct Direction {
    from: End,
    to: End,
    link: Link<BufferedPacket>,
    /// From arrival to delivery, us.
    delay: Histogram,
    /// From scheduled delivery to release, ns.
    lateness: Histogram,
    largest_queue: u64,
}

/// Counts, delays and lateness of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Packets and bytes, counted by the link.
    pub counters: Counters,
    /// Largest queue found by an arriving packet, bytes.
    pub largest_queue: u64,
    /// Packets released.
    pub released: u64,
    /// Mean time of a packet in the link, queueing included.
    pub delay_mean: Time,
    /// 95th percentile of that time.
    pub delay_p95: Time,
    /// Median of the lateness of a release.
    pub lateness_p50: Time,
    /// 99th percentile of the lateness.
    pub lateness_p99: Time,
    /// Largest lateness.
    pub lateness_max: Time,
}

impl Driver {
    /// A driver of these directions; `mtu` is the largest packet, bytes.
    pub fn new(directions: &[DirectedLink<'_>], seed: u64, mtu: usize) -> Self {
        let direction = |direction: &DirectedLink<'_>| Direction {
            from: direction.from,
            to: direction.to,
            link: {
                let make = if direction.gives_up_waiting { Link::storing } else { Link::new };
                make(direction.spec, seed, direction.name)
            },
            delay: Histogram::new(),
            lateness: Histogram::new(),
            largest_queue: 0,
        };
        let directions = directions.iter().map(direction).collect();
        Self { directions, buffers: Buffers::new(mtu), changes: Vec::new() }
    }

    /// Moves or loses waiting packets at these instants, which ascend.
    pub(crate) fn change_queues(&mut self, changes: impl IntoIterator<Item = QueueChange>) {
        self.changes = changes.into_iter().collect();
        self.changes.reverse();
    }

    /// Computes in advance what the links need until an instant, such as orbits, so that no packet waits for it.
    pub fn prepare(&self, until: Time) {
        self.directions.iter().for_each(|direction| direction.link.prepare(until));
    }

    /// Moves packets until the observer stops it.
    ///
    /// # Errors
    /// If an end of the wire is gone.
    pub fn run(&mut self, wire: &mut impl Wire, observer: &mut impl Observer) -> io::Result<()> {
        while let ControlFlow::Continue(wake) = observer.turn(wire.now()) {
            self.move_waiting(wire.now(), observer);
            self.release(wire, observer)?;
            let more = self.take(wire, observer)?;
            // Releases packets that became due during a batch, and serves the other directions.
            let next = [self.next_release(), wake, self.changes.last().map(|change| change.at)];
            let until = if more { Some(Time::ZERO) } else { next.into_iter().flatten().min() };
            wire.wait(until)?;
        }
        Ok(())
    }

    /// The link of a direction.
    pub fn link(&mut self, direction: usize) -> &mut Link<BufferedPacket> {
        &mut self.directions[direction].link
    }

    /// The report of each direction.
    pub fn reports(&self) -> Vec<LinkReport> {
        let at = |histogram: &Histogram, share| Time::from_nanos(histogram.quantile(share));
        let report = |direction: &Direction| LinkReport {
            counters: direction.link.counters(),
            largest_queue: direction.largest_queue,
            released: direction.lateness.count(),
            delay_mean: Time::from_secs_f64(direction.delay.mean() * 1e-6),
            delay_p95: Time::from_micros(direction.delay.quantile(0.95)),
            lateness_p50: at(&direction.lateness, 0.5),
            lateness_p99: at(&direction.lateness, 0.99),
            lateness_max: Time::from_nanos(direction.lateness.max()),
        };
        self.directions.iter().map(report).collect()
    }

    /// When the next packet is due.
    fn next_release(&self) -> Option<Time> {
        self.directions.iter().filter_map(|direction| direction.link.next_event()).min()
    }

    /// Carries out the changes due by `now`, each at its own instant.
    fn move_waiting(&mut self, now: Time, observer: &mut impl Observer) {
        while self.changes.last().is_some_and(|change| change.at <= now) {
            let Some(QueueChange { at, from, to, addresses, are_lost }) = self.changes.pop() else { return };
            let (buffers, mut withdrawn) = (&mut self.buffers, Vec::new());
            let is_for = |packet: &Packet<BufferedPacket>| {
                destination(buffers.bytes(packet.token.slot)).is_some_and(|to| addresses.contains(&to))
            };
            let link = &mut self.directions[from].link;
            observer.before(from, at, link);
            link.withdraw(at, are_lost, is_for, |packet| withdrawn.push(packet));
            for packet in withdrawn {
                let link = &mut self.directions[to].link;
                if !are_lost {
                    observer.before(to, at, link);
                }
                if are_lost || link.offer(at, packet) != Offered::Queued {
                    let slot = packet.token.slot;
                    observer.dropped(to, at, &self.buffers.bytes(slot)[..packet.bytes as usize]);
                    self.buffers.give_back(slot);
                }
            }
        }
    }

    /// Releases due packets, and frees those that the links dropped.
    fn release(&mut self, wire: &mut impl Wire, observer: &mut impl Observer) -> io::Result<()> {
        for (number, direction) in self.directions.iter_mut().enumerate() {
            let mut now = wire.now();
            loop {
                observer.before(number, now, &mut direction.link);
                let Some(exit) = direction.link.poll(now) else { break };
                now = wire.now();
                let (Exit::Delivered(Delivery { packet, .. }) | Exit::Dropped(DroppedPacket { packet, .. })) = exit;
                let slot = packet.token.slot;
                let bytes = &mut self.buffers.bytes(slot)[..packet.bytes as usize];
                let sent = match exit {
                    Exit::Delivered(delivery) => {
                        let late = direction.deliver(now, &delivery, bytes);
                        observer.released(number, now, bytes);
                        wire.send(direction.to, bytes, late)
                    }
                    Exit::Dropped(_) => {
                        observer.dropped(number, now, bytes);
                        Ok(())
                    }
                };
                self.buffers.give_back(slot);
                sent?;
            }
            wire.flush(direction.to)?;
        }
        Ok(())
    }

    /// Offers arrived packets, a batch per direction; returns whether more may wait.
    fn take(&mut self, wire: &mut impl Wire, observer: &mut impl Observer) -> io::Result<bool> {
        let mut more = false;
        for (number, direction) in self.directions.iter_mut().enumerate() {
            for taken in 1..=BATCH {
                let slot = self.buffers.borrow();
                let received = wire.receive(direction.from, self.buffers.bytes(slot));
                let Ok(Some(size)) = received else {
                    self.buffers.give_back(slot);
                    received?;
                    break;
                };
                let (now, bytes) = (wire.now(), self.buffers.bytes(slot));
                observer.before(number, now, &mut direction.link);
                observer.offered(number, now, &bytes[..size]);
                if !direction.offer(now, slot, &bytes[..size]) {
                    observer.dropped(number, now, &bytes[..size]);
                    self.buffers.give_back(slot);
                }
                more |= taken == BATCH;
            }
        }
        Ok(more)
    }
}

impl Direction {
    /// Writes the model's ECN field into the packet, and records delay and lateness; returns the lateness.
    fn deliver(&mut self, now: Time, delivery: &Delivery<BufferedPacket>, bytes: &mut [u8]) -> Time {
        let Packet { ecn, token, .. } = delivery.packet;
        if HopFields::read(bytes).is_some_and(|before| before.ecn != ecn.bits()) {
            write_ecn(bytes, ecn.bits());
        }
        let spent = delivery.at.checked_sub(token.arrived).unwrap_or_default();
        self.delay.record(spent.as_micros());
        let late = now.checked_sub(delivery.at).unwrap_or_default();
        self.lateness.record(late.as_nanos());
        late
    }

    /// Offers a packet to the link; false if it was dropped. Packets other than IP are dropped without being offered.
    fn offer(&mut self, now: Time, slot: Slot, bytes: &[u8]) -> bool {
        let Some(fields) = HopFields::read(bytes) else { return false };
        let packet = Packet {
            bytes: bytes.len() as u32,
            flow: fields.flow_hash,
            ecn: ecn_of(fields),
            is_low: fields.is_low,
            token: BufferedPacket { slot, arrived: now },
        };
        let queued = self.link.offer(now, packet) == Offered::Queued;
        self.largest_queue = self.largest_queue.max(self.link.queue_bytes(now));
        queued
    }
}

/// The ECN field of a packet.
fn ecn_of(fields: HopFields) -> Ecn {
    match fields.ecn {
        0 if fields.asks_for_ecn => Ecn::AsksFor,
        0 => Ecn::NotCapable,
        1 => Ecn::L4s,
        3 => Ecn::Marked,
        _ => Ecn::Capable,
    }
}

/// A packet in flight, as the link knows it: its buffer and arrival.
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferedPacket {
    slot: Slot,
    arrived: Time,
}

/// Number of a buffer.
type Slot = u32;

/// Buffers of the largest packet size, for packets in flight; freed ones are reused.
struct Buffers {
    size: usize,
    blocks: Vec<Box<[u8]>>,
    free: Vec<Slot>,
}

impl Buffers {
    fn new(size: usize) -> Self {
        Self { size, blocks: Vec::new(), free: Vec::new() }
    }

    fn borrow(&mut self) -> Slot {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let first = (self.blocks.len() * BLOCK) as Slot;
        self.blocks.push(vec![0; self.size * BLOCK].into_boxed_slice());
        self.free.extend((first + 1..first + BLOCK as Slot).rev());
        first
    }

    fn give_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    fn bytes(&mut self, slot: Slot) -> &mut [u8] {
        let (block, place) = (slot as usize / BLOCK, slot as usize % BLOCK);
        &mut self.blocks[block][place * self.size..(place + 1) * self.size]
    }
}

/// Packets taken from one direction before those due are released.
const BATCH: usize = 32;
/// Buffers allocated at a time.
const BLOCK: usize = 256;

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
