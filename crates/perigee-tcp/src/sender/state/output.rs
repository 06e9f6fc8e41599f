//! Pending output, and counters of what was sent.

/// The work of the next output turn, which consumes all of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingOutput {
    /// An event occurred since the last turn.
    pub(crate) due: bool,
    pub(crate) retransmit: Retransmit,
    /// An entry to retransmit regardless of the windows.
    pub(crate) forced: Option<u64>,
    pub(crate) window_probe: bool,
    /// The congestion window held back a train in this turn.
    pub(crate) window_limited: bool,
    pub(crate) sent: u32,
}

impl PendingOutput {
    /// Whether nothing must precede new data.
    #[inline]
    pub(crate) fn is_unforced(&self) -> bool {
        self.forced.is_none() && !self.window_probe
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Retransmit {
    #[default]
    Nothing,
    /// Lost segments, as the window allows.
    Lost,
    /// New data first (F-RTO, step 2b).
    NewData,
}

/// ECN state of the sending half (RFC 3168).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderEcn {
    pub(crate) on: bool,
    /// All packets are ECN-capable, retransmissions and ACKs included, as for an algorithm that needs ECN in Linux.
    pub(crate) on_all: bool,
    /// The next new segment carries CWR.
    pub(crate) reduced: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent_packets: u64,
    pub(crate) retransmitted_packets: u64,
    pub(crate) rto_count: u64,
    pub(crate) probes: u64,
}
