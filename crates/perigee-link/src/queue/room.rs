//! The room in which an arrival is accepted without a random draw.

/// Bytes and packets up to which an arrival is accepted without further checks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) packets: usize,
}

impl Room {
    /// Room of packets that have already been admitted.
    pub(crate) const UNLIMITED: Self = Self { bytes: u64::MAX, packets: usize::MAX };

    /// Whether it has space for a packet of `size` bytes.
    #[inline]
    pub(crate) fn holds(self, size: u32) -> bool {
        u64::from(size) <= self.bytes && self.packets > 0
    }

    /// How many packets of `size` bytes fit beside the others.
    pub(crate) fn beside(self, bytes: u64, packets: usize, size: u32) -> u64 {
        let (free, size) = (self.bytes.saturating_sub(bytes), u64::from(size.max(1)));
        let by_bytes = if free >= MOST * size { MOST } else { free / size };
        by_bytes.min(self.packets.saturating_sub(packets) as u64)
    }
}

/// Maximum result of [`Room::beside`].
const MOST: u64 = 1 << 16;
