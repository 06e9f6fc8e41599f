//! Collects what an ACK reports for the steps that process it.

/// What an ACK reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckReport {
    /// Linux's header prediction would fail.
    pub(super) slow_path: bool,
    /// SND.UNA advanced.
    pub(super) advanced: bool,
    /// The segment carried data.
    pub(super) data: bool,
    pub(super) window_update: bool,
    /// Data (not only a SYN) were acknowledged cumulatively.
    pub(super) data_acked: bool,
    pub(super) syn_acked: bool,
    pub(super) data_sacked: bool,
    pub(super) dsack: bool,
    /// The D-SACK covers the tail loss probe.
    pub(super) dsack_of_probe: bool,
    pub(super) dsack_segments: u32,
    pub(super) ecn_echo: bool,
    /// Data sent once and before recovery started were acknowledged or SACKed.
    pub(super) original_acked: bool,
    pub(super) retransmitted_acked: bool,
    /// A lost retransmission was detected.
    pub(super) lost_retransmission: bool,
    pub(super) set_timer: bool,
    pub(super) maybe_delayed: bool,
    /// Send times of the first and the last newly SACKed original segment, us.
    pub(super) sacked_sent_us: Option<(u64, u64)>,
    /// Timestamp echo, ms.
    pub(super) echo_ms: Option<u32>,
    /// Lowest original segment delivered after a higher one.
    pub(super) reordered_at: u64,
}

impl AckReport {
    /// An ACK without any news.
    pub(super) const NOTHING: Self = Self {
        slow_path: false,
        advanced: false,
        data: false,
        window_update: false,
        data_acked: false,
        syn_acked: false,
        data_sacked: false,
        dsack: false,
        dsack_of_probe: false,
        dsack_segments: 0,
        ecn_echo: false,
        original_acked: false,
        retransmitted_acked: false,
        lost_retransmission: false,
        set_timer: false,
        maybe_delayed: false,
        sacked_sent_us: None,
        echo_ms: None,
        reordered_at: 0,
    };

    pub(super) fn acked(&self) -> bool {
        self.data_acked || self.syn_acked
    }

    pub(super) fn forward_progress(&self) -> bool {
        self.acked() || self.data_sacked
    }

    pub(super) fn not_a_duplicate(&self) -> bool {
        self.data || self.window_update || self.acked()
    }

    /// The flags of Linux's `tcp_ack`, which `cong_control` may test.
    pub(super) fn kernel_flags(&self) -> u32 {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(self.data, 0x01)
            | bit(self.window_update, 0x02)
            | bit(self.data_acked, 0x04)
            | bit(self.retransmitted_acked, 0x08)
            | bit(self.syn_acked, 0x10)
            | bit(self.data_sacked, 0x20)
            | bit(self.ecn_echo, 0x40)
            | bit(self.advanced, 0x400)
            | bit(self.dsack, 0x800)
    }
}

/// What an ACK removed from the queue.
pub(super) struct Acked {
    pub(super) packets: u32,
    /// Round-trip time of the segment delivered last, us; -1 if not measured.
    pub(super) rtt_us: i64,
}
