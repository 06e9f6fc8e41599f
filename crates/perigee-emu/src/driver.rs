//! Moves packets through a link in both directions on a clock that runs by itself.

use std::io;

use hdrhistogram::Histogram;
use perigee_link::{Counters, Ecn, Link, LinkSpec, Offered, Packet};
use perigee_units::Time;

use crate::packet;

/// One of the two ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where packets of the first direction enter.
    First,
    /// Where they leave.
    Second,
}

/// Where a driver's packets come from and go to, and its clock.
pub trait Wire {
    /// The time; it does not go back.
    fn now(&mut self) -> Time;

    /// Takes a packet that waits at an end, if there is one: its size, in a buffer that holds the largest.
    ///
    /// # Errors
    /// Where the end is gone.
    fn receive(&mut self, end: End, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Hands a packet over to an end.
    ///
    /// # Errors
    /// Where the end is gone.
    fn send(&mut self, end: End, packet: &[u8]) -> io::Result<()>;

    /// Waits for a packet at either end, or for this instant; may come back early, and late.
    ///
    /// # Errors
    /// Where an end is gone.
    fn wait(&mut self, until: Option<Time>) -> io::Result<()>;
}

/// A link in both directions, with the packets that are under way in it.
///
/// The link decides on a packet's arrival when it will leave; the driver releases it at that instant or, having been
/// woken late, as soon as it can. A late release moves no other packet's instant, so that no drift builds up.
pub struct Driver {
    directions: [Direction; 2],
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
    /// A driver of a link with these two directions; `mtu` is the largest packet, bytes. `name` and `seed` are those of the link's
    /// random streams, as in the simulator.
    pub fn new(first: &LinkSpec, second: &LinkSpec, seed: u64, name: &str, mtu: usize) -> Self {
        let direction = |from, to, spec, way| Direction {
            from,
            to,
            link: Link::new(spec, seed, &format!("{name}.{way}")),
            delay: histogram(),
            lateness: histogram(),
            largest_queue: 0,
        };
        Self {
            directions: [
                direction(End::First, End::Second, first, "down"),
                direction(End::Second, End::First, second, "up"),
            ],
            buffers: Buffers::new(mtu),
        }
    }

    /// Moves packets until `go_on` says no; it is asked after each wait.
    ///
    /// # Errors
    /// Where an end of the wire is gone.
    pub fn run(&mut self, wire: &mut impl Wire, mut go_on: impl FnMut() -> bool) -> io::Result<()> {
        while go_on() {
            self.release(wire)?;
            let more = self.take(wire)?;
            // Between two batches packets may have become due.
            if !more {
                wire.wait(self.next_release())?;
            }
        }
        Ok(())
    }

    /// What has been done, first direction first.
    pub fn reports(&self) -> [Report; 2] {
        let at = |histogram: &Histogram<u64>, share| Time::from_nanos(histogram.value_at_quantile(share));
        self.directions.each_ref().map(|direction| Report {
            counters: direction.link.counters(),
            largest_queue: direction.largest_queue,
            released: direction.lateness.len(),
            delay_mean: Time::from_secs_f64(direction.delay.mean() * 1e-6),
            delay_p95: Time::from_micros(direction.delay.value_at_quantile(0.95)),
            lateness_p50: at(&direction.lateness, 0.5),
            lateness_p99: at(&direction.lateness, 0.99),
            lateness_max: Time::from_nanos(direction.lateness.max()),
        })
    }

    /// When the next packet leaves.
    fn next_release(&self) -> Option<Time> {
        self.directions.iter().filter_map(|direction| direction.link.next_event()).min()
    }

    /// Hands over what is due.
    fn release(&mut self, wire: &mut impl Wire) -> io::Result<()> {
        for direction in &mut self.directions {
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
                let sent = wire.send(direction.to, bytes);
                self.buffers.give_back(slot);
                sent?;
            }
        }
        Ok(())
    }

    /// Offers what has come, a batch of each direction; whether there may be more.
    fn take(&mut self, wire: &mut impl Wire) -> io::Result<bool> {
        let mut more = false;
        for direction in &mut self.directions {
            for taken in 1..=BATCH {
                let slot = self.buffers.borrow();
                let received = wire.receive(direction.from, self.buffers.bytes(slot));
                let Ok(Some(size)) = received else {
                    self.buffers.give_back(slot);
                    received?;
                    break;
                };
                if !direction.offer(wire.now(), slot, size, self.buffers.bytes(slot)) {
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
    fn offer(&mut self, now: Time, slot: Slot, size: usize, bytes: &[u8]) -> bool {
        let Some(headers) = packet::headers(&bytes[..size]) else { return false };
        let packet =
            Packet { bytes: size as u32, flow: headers.flow, ecn: headers.ecn, token: Under { slot, arrived: now } };
        let queued = self.link.offer(now, packet) == Offered::Queued;
        self.largest_queue = self.largest_queue.max(self.link.queue_bytes(now));
        queued
    }
}

/// A packet under way.
#[derive(Clone, Copy)]
struct Under {
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
