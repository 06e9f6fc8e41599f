//! The lease of a link: the packets that take the fast path.
//!
//! Whether and when a packet is delivered follows from the packet before it while rate, loss and delay are constant and the queue has room.
//! A lease states how long that holds: for packets of one size, up to an instant, for a number of packets. Each part of a link states its
//! own limit, and the lease is the minimum ([`Link::renew`](crate::Link)). Its packets are counted later, together. A limit may be early
//! but never late: a packet beyond it takes the slow path, which is always correct.

use perigee_units::Time;

use crate::air::Steady;
use crate::clock::{Clock, KnownSize};
use crate::queue::{Backlog, Room};

/// The packets of a link that may take the fast path.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lease {
    /// Packet size.
    bytes: u32,
    /// Packet size with the link's overhead.
    size: u32,
    /// Service must begin before this instant.
    begins_before: Time,
    /// Service must begin before this instant where loss and delay are evaluated per packet.
    serves_before: Time,
    /// Remaining packets.
    left: u64,
    /// `left` when the packets were last counted.
    granted: u64,
    /// Delay behind the server.
    delay: Time,
    run: OpenRun,
}

/// Packets since the last slow-path packet; the backlog does not include them yet.
#[derive(Clone, Copy, Default)]
struct OpenRun {
    packets: u64,
    /// Maximum number of them in the queue.
    room: u64,
    /// All packets before them have left.
    is_first: bool,
}

impl Lease {
    /// Whether the lease is for packets of this size.
    #[inline(always)]
    pub(crate) fn is_for(&self, bytes: u32) -> bool {
        bytes == self.bytes
    }

    /// Packet size with the link's overhead.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Delivery time of a packet of its size that arrives at `now`; `None`, with no effect, if the lease does not cover it.
    #[inline(always)]
    pub(crate) fn take(&mut self, clock: &mut Clock, now: Time) -> Option<Time> {
        let departure = self.serve_before(self.begins_before, clock, now)?;
        self.left -= 1;
        if self.left == 0 {
            self.begins_before = Time::ZERO;
        }
        Some(Time::from_nanos(departure.as_nanos() + self.delay.as_nanos()))
    }

    /// [`Lease::take`] for packets that arrive at `times`, in order, which become their delivery times; `false`, with
    /// no effect, if the lease might not cover all of them.
    #[inline(always)]
    pub(crate) fn take_all(&mut self, clock: &mut Clock, times: &mut [Time]) -> bool {
        let packets = times.len() as u64;
        let busy_until = clock.at.max(times.last().copied().unwrap_or_default()) + clock.known_size().longest * packets;
        let is_covered = packets <= self.left
            && packets <= self.run.room.saturating_sub(self.run.packets)
            && busy_until < self.begins_before;
        if !is_covered {
            return false;
        }
        let delay = self.delay.as_nanos();
        let OpenRun { packets: mut run, mut is_first, .. } = self.run;
        for time in times {
            if *time > clock.at {
                (run, is_first) = (1, true);
                clock.begin(*time);
            } else {
                run += 1;
                clock.advance();
            }
            *time = Time::from_nanos(clock.at.as_nanos() + delay);
        }
        (self.run.packets, self.run.is_first) = (run, is_first);
        self.left -= packets;
        if self.left == 0 {
            self.begins_before = Time::ZERO;
        }
        true
    }

    /// Departure time of a packet that arrives at `now`, whose loss and delay must be evaluated; `None` as for [`Lease::take`].
    pub(crate) fn serve(&mut self, clock: &mut Clock, now: Time) -> Option<Time> {
        self.serve_before(self.serves_before, clock, now)
    }

    #[inline(always)]
    fn serve_before(&mut self, limit: Time, clock: &mut Clock, now: Time) -> Option<Time> {
        if now > clock.at {
            if now >= limit {
                return None;
            }
            (self.run.packets, self.run.is_first) = (1, true);
            clock.begin(now);
        } else {
            if clock.at >= limit || self.run.packets >= self.run.room {
                return None;
            }
            self.run.packets += 1;
            clock.advance();
        }
        Some(clock.at)
    }

    /// Whether a packet that arrives at `now` lacks only room.
    pub(crate) fn lacks_room(&self, now: Time) -> bool {
        self.begins_before > now && self.run.packets >= self.run.room
    }

    /// Determines how many packets have room, if no run continues.
    pub(crate) fn find_room(&mut self, room: Room, backlog: &Backlog, size: u32) {
        if self.run.room == 0 {
            let (bytes, packets) = if self.run.is_first { (0, 0) } else { (backlog.bytes(), backlog.packets()) };
            self.run.room = room.beside(bytes, packets, size);
        }
    }

    /// Begins a run: all earlier packets have left.
    pub(crate) fn begin_run(&mut self) {
        self.run = OpenRun { is_first: true, ..OpenRun::default() };
    }

    /// Ends a run: adds its packets to the backlog.
    pub(crate) fn end_run(&mut self, clock: &Clock, backlog: &mut Backlog) {
        let OpenRun { packets, is_first, .. } = std::mem::take(&mut self.run);
        if is_first {
            backlog.clear();
        }
        if packets > 0 {
            backlog.add_run(self.size, packets, clock.run_end());
        }
    }

    /// Number and size of the packets taken and not yet counted.
    pub(crate) fn uncounted(&self) -> (u64, u32) {
        (self.granted - self.left, self.bytes)
    }

    /// Marks these packets as counted.
    pub(crate) fn note_counted(&mut self) {
        self.granted = self.left;
    }

    /// Renews the lease for a packet size: while the server's cached service time is valid and the path behind it is steady.
    pub(crate) fn renew(&mut self, known: KnownSize, overhead: u32, air: Steady) {
        let packets = air.drawn.packets(known.size);
        *self = Self {
            bytes: known.size.wrapping_sub(overhead),
            size: known.size,
            begins_before: known.begins_before.min(air.until - known.longest),
            serves_before: known.begins_before,
            left: packets,
            granted: packets,
            delay: air.delay,
            run: self.run,
        };
    }
}
