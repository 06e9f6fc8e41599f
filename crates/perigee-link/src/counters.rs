//! Counts of what a link has been offered, has delivered and has dropped.

use crate::packet::DropReason;

/// What a link has done so far; sizes are those of the IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered.
    pub offered_packets: u64,
    /// Packets that will be delivered or have been; those that wait for a decision are not yet among them.
    pub delivered_packets: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Bytes of those.
    pub delivered_bytes: u64,
    /// Packets dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped: [u64; 3],
    /// Bytes dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped_bytes: [u64; 3],
}

/// The packets of a link that [`Link::poll`](crate::Link::poll) has still to tell of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Those that wait for a decision.
    pub waiting: u64,
    /// Those on their way to the end of the link, counted as delivered.
    pub delivered: u64,
    /// Those counted as dropped.
    pub dropped: u64,
}

impl Held {
    /// All of them.
    pub fn total(self) -> u64 {
        self.waiting + self.delivered + self.dropped
    }
}

impl Counters {
    /// Packets dropped, for whatever reason.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Packets dropped for a reason.
    pub fn dropped_by(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Of a feed-forward link, which has decided on all that it was offered, and counts that only.
    pub(crate) fn with_offered(self) -> Self {
        Self {
            offered_packets: self.delivered_packets + self.dropped_packets(),
            offered_bytes: self.delivered_bytes + self.dropped_bytes.iter().sum::<u64>(),
            ..self
        }
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason, bytes: u32) {
        self.dropped[reason as usize] += 1;
        self.dropped_bytes[reason as usize] += u64::from(bytes);
    }

    /// With so many further deliveries of `bytes` each.
    pub(crate) fn with_deliveries(self, packets: u64, bytes: u32) -> Self {
        Self {
            delivered_packets: self.delivered_packets + packets,
            delivered_bytes: self.delivered_bytes + packets * u64::from(bytes),
            ..self
        }
    }

    #[inline]
    pub(crate) fn count_delivery(&mut self, bytes: u32) {
        self.delivered_packets += 1;
        self.delivered_bytes += u64::from(bytes);
    }
}
