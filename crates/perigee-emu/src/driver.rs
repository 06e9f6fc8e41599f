//! Moves packets through links on a clock that runs by itself.

use std::io;
use std::ops::ControlFlow;

use hdrhistogram::Histogram;
use perigee_link::{Counters, Ecn, Link, LinkSpec, Offered, Packet};
use perigee_units::Time;

use crate::packet;

/// An end of a link, by its number: a place where packets come in and go out.
pub type End = usize;

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// The end at which its packets come in.
    pub from: End,
    /// The end at which they go out.
    pub to: End,
    /// What it does to them.
    pub spec: &'a LinkSpec,
    /// By which its random streams are named, as in the simulator.
    pub name: &'a str,
}

/// Where a driver's packets come from and go to, and its clock.
pub trait Wire {
    /// The time; it does not go back.
    fn now(&mut self) -> Time;

    /// Takes a packet that waits at an end, if there is one: its size, in a buffer that holds the largest. A packet that
    /// has come since the last [`Wire::wait`] may be left for later.
    ///
    /// # Errors
    /// Where the end is gone.
    fn receive(&mut self, end: End, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Hands a packet over to an end.
    ///
    /// # Errors
    /// Where the end is gone.
    fn send(&mut self, end: End, packet: &[u8]) -> io::Result<()>;

    /// Waits for a packet at any end, or for this instant; may come back early, and late.
    ///
    /// # Errors
    /// Where an end is gone.
    fn wait(&mut self, until: Option<Time>) -> io::Result<()>;
}

/// Who looks on while packets move. Directions are numbered as [`Driver::new`] was given them.
pub trait Observer {
    /// A packet has come to a direction's beginning.
    fn offered(&mut self, _way: usize, _now: Time, _packet: &[u8]) {}

    /// The packet that was just offered is dropped.
    fn dropped(&mut self, _way: usize, _now: Time, _packet: &[u8]) {}

    /// A packet leaves a direction's end.
    fn released(&mut self, _way: usize, _now: Time, _packet: &[u8]) {}

    /// A link is about to be offered a packet.
    fn before(&mut self, _way: usize, _now: Time, _link: &mut Link<Under>) {}

    /// Whether to go on; until when it need not be asked again, where nothing moves.
    fn turn(&mut self, now: Time) -> ControlFlow<(), Option<Time>>;
}

/// An observer that only says whether to go on.
impl<F: FnMut() -> bool> Observer for F {
    fn turn(&mut self, _now: Time) -> ControlFlow<(), Option<Time>> {
        if self() {
            ControlFlow::Continue(None)
        } else {
            ControlFlow::Break(())
        }
    }
}

/// Two observers; both say whether to go on.
#[derive(Debug)]
pub struct Both<'a, A, B>(pub &'a mut A, pub &'a mut B);

impl<A: Observer, B: Observer> Observer for Both<'_, A, B> {
    fn offered(&mut self, way: usize, now: Time, packet: &[u8]) {
        self.0.offered(way, now, packet);
        self.1.offered(way, now, packet);
    }

    fn dropped(&mut self, way: usize, now: Time, packet: &[u8]) {
        self.0.dropped(way, now, packet);
        self.1.dropped(way, now, packet);
    }

    fn released(&mut self, way: usize, now: Time, packet: &[u8]) {
        self.0.released(way, now, packet);
        self.1.released(way, now, packet);
    }

    fn before(&mut self, way: usize, now: Time, link: &mut Link<Under>) {
        self.0.before(way, now, link);
        self.1.before(way, now, link);
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

/// Links, with the packets that are under way in them.
///
/// A link decides on a packet's arrival when it will leave; the driver releases it at that instant or, having been
/// woken late, as soon as it can. A late release moves no other packet's instant, so that no drift builds up.
pub struct Driver {
    directions: Vec<Direction>,
    buffers: Buffers,
}

struct Direction {
    from: End,
    to: End,
    link: Link<Under>,
    /// From each packet's arrival to its delivery, us.
    delay: Histogram<u64>,
    /// From the instant of each delivery to its release, ns.
    lateness: Histogram<u64>,
    largest_queue: u64,
}

/// What a driver did in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Packets and bytes, as the link counts them.
    pub counters: Counters,
    /// Bytes that waited at the most, seen whenever a packet came.
    pub largest_queue: u64,
    /// Packets released.
    pub released: u64,
    /// Mean time that a packet spent in the link, waiting included.
    pub delay_mean: Time,
    /// 95th percentile of it.
    pub delay_p95: Time,
    /// Median of the lateness of a release.
    pub lateness_p50: Time,
    /// 99th percentile of it.
    pub lateness_p99: Time,
    /// Largest of it.
    pub lateness_max: Time,
}

impl Driver {
    /// A driver of these directions; `mtu` is the largest packet, bytes.
    pub fn new(ways: &[Way<'_>], seed: u64, mtu: usize) -> Self {
        let direction = |way: &Way<'_>| Direction {
            from: way.from,
            to: way.to,
            link: Link::new(way.spec, seed, way.name),
            delay: histogram(),
            lateness: histogram(),
            largest_queue: 0,
        };
        Self { directions: ways.iter().map(direction).collect(), buffers: Buffers::new(mtu) }
    }

    /// Moves packets until the observer says no.
    ///
    /// # Errors
    /// Where an end of the wire is gone.
    pub fn run(&mut self, wire: &mut impl Wire, observer: &mut impl Observer) -> io::Result<()> {
        while let ControlFlow::Continue(wake) = observer.turn(wire.now()) {
            self.release(wire, observer)?;
            let more = self.take(wire, observer)?;
            // Between two batches packets may have become due, and others may have come elsewhere.
            let until = if more { Some(Time::ZERO) } else { [self.next_release(), wake].into_iter().flatten().min() };
            wire.wait(until)?;
        }
        Ok(())
    }

    /// The link of a direction.
    pub fn link(&mut self, way: usize) -> &mut Link<Under> {
        &mut self.directions[way].link
    }

    /// What has been done in each direction.
    pub fn reports(&self) -> Vec<Report> {
        let at = |histogram: &Histogram<u64>, share| Time::from_nanos(histogram.value_at_quantile(share));
        let report = |direction: &Direction| Report {
            counters: direction.link.counters(),
            largest_queue: direction.largest_queue,
            released: direction.lateness.len(),
            delay_mean: Time::from_secs_f64(direction.delay.mean() * 1e-6),
            delay_p95: Time::from_micros(direction.delay.value_at_quantile(0.95)),
            lateness_p50: at(&direction.lateness, 0.5),
            lateness_p99: at(&direction.lateness, 0.99),
            lateness_max: Time::from_nanos(direction.lateness.max()),
        };
        self.directions.iter().map(report).collect()
    }

    /// When the next packet leaves.
    fn next_release(&self) -> Option<Time> {
        self.directions.iter().filter_map(|direction| direction.link.next_event()).min()
    }

    /// Hands over what is due.
    fn release(&mut self, wire: &mut impl Wire, observer: &mut impl Observer) -> io::Result<()> {
        for (way, direction) in self.directions.iter_mut().enumerate() {
            let mut now = wire.now();
            while let Some(delivery) = direction.link.poll(now) {
                let (Under { slot, arrived }, size) = (delivery.packet.token, delivery.packet.bytes as usize);
                let bytes = &mut self.buffers.bytes(slot)[..size];
                if delivery.packet.ecn == Ecn::Marked && packet::headers(bytes).is_some_and(|h| h.ecn == Ecn::Capable) {
                    packet::mark(bytes);
                }
                now = wire.now();
                let spent = delivery.at.checked_sub(arrived).unwrap_or_default();
                direction.delay.saturating_record(spent.as_micros());
                direction.lateness.saturating_record(now.checked_sub(delivery.at).unwrap_or_default().as_nanos());
                observer.released(way, now, bytes);
                let sent = wire.send(direction.to, bytes);
                self.buffers.give_back(slot);
                sent?;
            }
        }
        Ok(())
    }

    /// Offers what has come, a batch of each direction; whether there may be more.
    fn take(&mut self, wire: &mut impl Wire, observer: &mut impl Observer) -> io::Result<bool> {
        let mut more = false;
        for (way, direction) in self.directions.iter_mut().enumerate() {
            for taken in 1..=BATCH {
                let slot = self.buffers.borrow();
                let received = wire.receive(direction.from, self.buffers.bytes(slot));
                let Ok(Some(size)) = received else {
                    self.buffers.give_back(slot);
                    received?;
                    break;
                };
                let (now, bytes) = (wire.now(), self.buffers.bytes(slot));
                observer.before(way, now, &mut direction.link);
                observer.offered(way, now, &bytes[..size]);
                if !direction.offer(now, slot, &bytes[..size]) {
                    observer.dropped(way, now, &bytes[..size]);
                    self.buffers.give_back(slot);
                }
                more |= taken == BATCH;
            }
        }
        Ok(more)
    }
}

impl Direction {
    /// Offers a packet to the link; whether it is under way now. What is not IP is dropped unseen.
    fn offer(&mut self, now: Time, slot: Slot, bytes: &[u8]) -> bool {
        let Some(headers) = packet::headers(bytes) else { return false };
        let packet = Packet {
            bytes: bytes.len() as u32,
            flow: headers.flow,
            ecn: headers.ecn,
            token: Under { slot, arrived: now },
        };
        let queued = self.link.offer(now, packet) == Offered::Queued;
        self.largest_queue = self.largest_queue.max(self.link.queue_bytes(now));
        queued
    }
}

/// A packet under way, as its link knows it.
#[derive(Clone, Copy, Debug)]
pub struct Under {
    slot: Slot,
    arrived: Time,
}

/// Number of a buffer.
type Slot = u32;

/// Buffers for packets under way, each large enough for any; used ones are used again.
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

/// Times from one unit to 6e10 of them, to two digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("bounds in order")
}

/// Packets taken from one direction before those due are released.
const BATCH: usize = 32;
/// Buffers allocated at a time.
const BLOCK: usize = 256;

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
