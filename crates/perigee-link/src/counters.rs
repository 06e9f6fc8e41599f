//! Counters of offered, delivered and dropped packets of a link.

use crate::packet::DropReason;

/// Counters of a link, in IP packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered.
    pub offered_packets: u64,
    /// Packets delivered or certain to be; packets awaiting a decision are not included.
    pub delivered_packets: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// Packets dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped: [u64; 3],
    /// Bytes dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped_bytes: [u64; 3],
    /// Packets withdrawn while they waited, to be offered to another link.
    pub withdrawn_packets: u64,
}

/// Packets in a link that [`Link::poll`](crate::Link::poll) has not returned yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Packets awaiting a decision.
    pub waiting: u64,
    /// Packets in propagation, counted as delivered.
    pub delivered: u64,
    /// Packets counted as dropped.
    pub dropped: u64,
}

impl Held {
    /// All of these.
    pub fn total(self) -> u64 {
        self.waiting + self.delivered + self.dropped
    }
}

impl Counters {
    /// Packets dropped for any reason.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Packets dropped for this reason.
    pub fn dropped_by(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Counters of a feed-forward link, which derives offered packets from its decisions.
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

    /// Adds `packets` deliveries of `bytes` each.
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
