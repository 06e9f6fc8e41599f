//! What waits to be sent, and what was.

/// What the next turn of output sends. All of it is consumed by the turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingOutput {
    /// Something happened since the last turn ended.
    pub(crate) due: bool,
    pub(crate) retransmit: Retransmit,
    /// An entry to send again whatever the windows say.
    pub(crate) forced: Option<u64>,
    /// A probe of the peer's window.
    pub(crate) window_probe: bool,
    /// The congestion window held back a train in this turn.
    pub(crate) window_limited: bool,
    /// New segments sent in this turn.
    pub(crate) sent: u32,
}

impl PendingOutput {
    /// Whether nothing is forced to leave before new data.
    #[inline]
    pub(crate) fn is_unforced(&self) -> bool {
        self.forced.is_none() && !self.window_probe
    }

    /// Whether nothing is asked to leave but new data.
    pub(crate) fn sends_new_data_alone(&self) -> bool {
        self.is_unforced() && self.retransmit == Retransmit::Nothing
    }
}

/// What recovery asks to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Retransmit {
    #[default]
    Nothing,
    /// Lost segments, as the window allows.
    Lost,
    /// New data first (F-RTO, step 2b).
    NewData,
}

/// ECN (RFC 3168) of the sending half.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderEcn {
    pub(crate) on: bool,
    /// Put CWR into the next new segment.
    pub(crate) reduced: bool,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent_packets: u64,
    pub(crate) retransmitted_packets: u64,
    pub(crate) rto_count: u64,
    pub(crate) probes: u64,
}

impl Counters {
    /// The handshake is complete: its segments are not data. Its timeouts count, as in Linux (`tcpi_total_rto`).
    pub(crate) fn begin_data(&mut self) {
        *self = Self { rto_count: self.rto_count, ..Self::default() };
    }
}
