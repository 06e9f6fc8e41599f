//! The lease of a link: the packets for which one short step is enough.
//!
//! Whether a packet is delivered, and when, follows from the packet before it as long as the rate, the losses and the delay stay what they
//! are and the queue has room. A lease says how long that is: for packets of one size, up to an instant, for a number of packets. Every part
//! of a link states its own limit, and the lease is the least of them ([`Link::renew`](crate::Link)). What it covers is counted later,
//! all at once. A limit may be early, never late: a packet beyond it takes the slow path, which is always right.

use perigee_units::Time;

use crate::air::Steady;
use crate::clock::{Clock, KnownSize};
use crate::queue::{Backlog, Room};

/// The packets of a link that take the fast path.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lease {
    /// Size of the packets.
    bytes: u32,
    /// The same with the link's overhead.
    size: u32,
    /// Service begins before this instant.
    begins_before: Time,
    /// The same where the air behind the server is asked for each packet.
    serves_before: Time,
    /// Packets that may still come.
    left: u64,
    /// Packets that could come when they were counted last.
    granted: u64,
    /// From the server to the end of the link.
    delay: Time,
    run: Run,
}

/// The packets since the last one that took the slow path, which the backlog does not count yet.
#[derive(Clone, Copy, Default)]
struct Run {
    packets: u64,
    /// At most so many may wait.
    room: u64,
    /// All packets before them have left.
    is_first: bool,
}

impl Lease {
    /// Whether it is for packets of this size.
    pub(crate) fn is_for(&self, bytes: u32) -> bool {
        bytes == self.bytes
    }

    /// Size on the link of the packets that it covers.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The delivery of a packet that arrives at `now`; `None`: it is not covered, and nothing has happened.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet at each link")]
    pub(crate) fn take(&mut self, clock: &mut Clock, now: Time, bytes: u32) -> Option<Time> {
        let departure = self.serve_before(self.begins_before, clock, now, bytes)?;
        self.left -= 1;
        if self.left == 0 {
            self.begins_before = Time::ZERO;
        }
        Some(Time::from_nanos(departure.as_nanos() + self.delay.as_nanos()))
    }

    /// The departure of a packet that arrives at `now`, behind which the air has to be asked; `None` as for [`Lease::take`].
    pub(crate) fn serve(&mut self, clock: &mut Clock, now: Time, bytes: u32) -> Option<Time> {
        self.serve_before(self.serves_before, clock, now, bytes)
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet at each link")]
    fn serve_before(&mut self, limit: Time, clock: &mut Clock, now: Time, bytes: u32) -> Option<Time> {
        if bytes != self.bytes {
            return None;
        }
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

    /// Whether nothing but room is missing for a packet that arrives at `now`.
    pub(crate) fn lacks_room(&self, now: Time) -> bool {
        self.begins_before > now && self.run.packets >= self.run.room
    }

    /// Finds out how many packets have room, where no run goes on.
    pub(crate) fn find_room(&mut self, room: Room, backlog: &Backlog, size: u32) {
        if self.run.room == 0 {
            let (bytes, packets) = if self.run.is_first { (0, 0) } else { (backlog.bytes(), backlog.packets()) };
            self.run.room = room.beside(bytes, packets, size);
        }
    }

    /// A run ends: the backlog counts its packets.
    pub(crate) fn end_run(&mut self, clock: &Clock, backlog: &mut Backlog) {
        let Run { packets, is_first, .. } = std::mem::take(&mut self.run);
        if is_first {
            backlog.clear();
        }
        if packets > 0 {
            backlog.add_run(self.size, packets, clock.run_end());
        }
    }

    /// Packets that it has covered and that are not counted, and the size of each.
    pub(crate) fn uncounted(&self) -> (u64, u32) {
        (self.granted - self.left, self.bytes)
    }

    /// Those packets are counted now.
    pub(crate) fn note_counted(&mut self) {
        self.granted = self.left;
    }

    /// Covers packets of a size from now on: for as long as the server knows the size, and as the air is steady.
    pub(crate) fn renew(&mut self, known: KnownSize, overhead: u32, air: Steady) {
        *self = Self {
            bytes: known.size.wrapping_sub(overhead),
            size: known.size,
            begins_before: known.begins_before.min(air.until - known.longest),
            serves_before: known.begins_before,
            left: air.packets,
            granted: air.packets,
            delay: air.delay,
            run: self.run,
        };
    }
}
