//! The packets that a link has accepted and that have not left.

use perigee_units::Time;

/// Packets that were accepted and have not left yet: those in service or with a departure fixed, as its instant, and those
/// that a discipline keeps, as their number.
///
/// What has left is forgotten when somebody asks: the counts are those of the last [`Backlog::release`], and more than the
/// packets that are there until the next one. A packet that passed a link in one step stays beside the ring until another one
/// comes while it is still there: where each finds the server idle, nothing is put into the ring.
#[derive(Default)]
pub(crate) struct Backlog {
    /// A ring whose size is a power of two: the departures `left..entered`, each at its number modulo the size.
    ring: Vec<(Time, u32)>,
    left: usize,
    entered: usize,
    waiting: usize,
    /// Of both.
    bytes: u64,
    last: Time,
    /// Bytes of the packet beside the ring, which leaves as the last one; 0 where there is none.
    beside: u32,
    /// Up to so many bytes and packets, arrivals are surely accepted.
    sure: (u64, usize),
    /// Up to so many packets in the ring they are, and the one beside it has a place there.
    sure_places: usize,
}

impl Backlog {
    /// That of a link that surely accepts arrivals up to so many bytes and packets.
    pub(super) fn surely_up_to(bytes: u64, packets: usize) -> Self {
        Self { sure: (bytes, packets), ..Self::default() }
    }

    /// Whether an arrival of `size` bytes that finds nothing here is surely accepted.
    pub(crate) fn surely_takes_one(&self, size: u32) -> bool {
        u64::from(size) <= self.sure.0 && self.sure.1 > 0
    }

    /// Whether an arrival of `size` bytes is surely accepted, and the packet beside the ring has a place in it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a feed-forward link")]
    pub(crate) fn surely_has_room(&self, size: u32) -> bool {
        self.entered - self.left < self.sure_places && self.bytes + u64::from(size) <= self.sure.0
    }

    /// Adds a packet to others that are still there, where it surely has room; the last one of those leaves at `last`.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a feed-forward link")]
    pub(crate) fn add_behind(&mut self, last: Time, size: u32) {
        self.bytes += u64::from(size);
        let before = std::mem::replace(&mut self.beside, size);
        if before > 0 {
            self.put(last, before);
        }
    }

    /// Adds a packet where nothing is there any more.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet of a feed-forward link")]
    pub(crate) fn add_alone(&mut self, size: u32) {
        self.left = self.entered;
        self.bytes = u64::from(size);
        self.beside = size;
    }

    /// Puts the packet beside the ring into it at `now`, if there is one; it leaves at `last`.
    #[inline]
    pub(crate) fn settle(&mut self, now: Time, last: Time) {
        let size = std::mem::take(&mut self.beside);
        if size > 0 {
            if self.entered - self.left == self.ring.len() {
                self.make_room(now);
            }
            self.put(last, size);
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    fn put(&mut self, departure: Time, size: u32) {
        let mask = self.ring.len() - 1;
        self.ring[self.entered & mask] = (departure, size);
        self.entered += 1;
    }

    /// Forgets what has left by `now`.
    #[inline]
    pub(crate) fn release(&mut self, now: Time) {
        while self.left != self.entered {
            let (departure, size) = self.ring[self.left & (self.ring.len() - 1)];
            if departure > now {
                break;
            }
            self.bytes -= u64::from(size);
            self.left += 1;
        }
    }

    /// Adds a packet that goes into service, or in line for it, at `now`; one that leaves at once never waits.
    #[inline]
    pub(crate) fn push(&mut self, now: Time, departure: Time, size: u32) {
        self.last = departure;
        if departure > now {
            if self.entered - self.left == self.ring.len() {
                self.make_room(now);
            }
            self.bytes += u64::from(size);
            self.put(departure, size);
        }
    }

    /// Forgets what has left by `now`; doubles the ring where half of what it holds has not.
    #[cold]
    fn make_room(&mut self, now: Time) {
        self.release(now);
        let (old, kept) = (self.ring.len(), self.entered - self.left);
        if kept >= old / 2 {
            self.ring.rotate_left(if old == 0 { 0 } else { self.left & (old - 1) });
            self.ring.resize((2 * old).max(FIRST_SIZE), (Time::ZERO, 0));
            (self.left, self.entered) = (0, kept);
            self.sure_places = self.sure.1.saturating_sub(1).min(self.ring.len());
        }
    }

    /// Adds a packet that a discipline keeps.
    pub(crate) fn keep(&mut self, size: u32) {
        self.bytes += u64::from(size);
        self.waiting += 1;
    }

    /// Takes away a packet that the discipline has given out or dropped.
    pub(crate) fn take(&mut self, size: u32) {
        self.bytes -= u64::from(size);
        self.waiting -= 1;
    }

    /// Packets that a discipline keeps.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of all of them, with the link's overhead.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of them.
    #[inline]
    pub(super) fn packets(&self) -> usize {
        self.entered - self.left + self.waiting
    }

    /// When the last packet that got a departure leaves.
    #[inline]
    pub(super) fn last(&self) -> Time {
        self.last
    }
}

const FIRST_SIZE: usize = 16;
