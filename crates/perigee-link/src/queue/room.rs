//! The room of a queue in which an arrival is accepted without a draw.

/// Up to so many bytes and packets, an arrival that finds them is accepted, and nothing else is asked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) packets: usize,
}

impl Room {
    /// That of packets that have been admitted.
    pub(crate) const UNLIMITED: Self = Self { bytes: u64::MAX, packets: usize::MAX };

    /// Whether it holds a packet of `size` bytes.
    #[inline]
    pub(crate) fn holds(self, size: u32) -> bool {
        u64::from(size) <= self.bytes && self.packets > 0
    }

    /// How many packets of `size` bytes it holds beside others.
    pub(crate) fn beside(self, bytes: u64, packets: usize, size: u32) -> u64 {
        let (free, size) = (self.bytes.saturating_sub(bytes), u64::from(size.max(1)));
        let by_bytes = if free >= MOST * size { MOST } else { free / size };
        by_bytes.min(self.packets.saturating_sub(packets) as u64)
    }
}

/// Packets for which room is found out at once, at most.
const MOST: u64 = 1 << 16;
