//! Collects what one acknowledgement reports, for the steps that process it.

/// What one acknowledgement reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckReport {
    /// The kernel's header prediction would fail.
    pub(super) slow_path: bool,
    /// SND.UNA moved.
    pub(super) advanced: bool,
    /// The segment carried data.
    pub(super) data: bool,
    pub(super) window_update: bool,
    /// Data (not SYN) was cumulatively acknowledged.
    pub(super) data_acked: bool,
    pub(super) syn_acked: bool,
    pub(super) data_sacked: bool,
    pub(super) dsack: bool,
    /// The duplicate reported is the tail loss probe.
    pub(super) dsack_of_probe: bool,
    pub(super) dsack_segments: u32,
    pub(super) ecn_echo: bool,
    /// Data sent once and before recovery began was (S)ACKed.
    pub(super) original_acked: bool,
    pub(super) retransmitted_acked: bool,
    /// A retransmission was found lost.
    pub(super) lost_retransmission: bool,
    pub(super) set_timer: bool,
    pub(super) maybe_delayed: bool,
    /// Send times of the first and last newly SACKed original segments, us.
    pub(super) sacked_sent_us: Option<(u64, u64)>,
    /// Echoed timestamp, ms.
    pub(super) echo_ms: Option<u32>,
    /// Lowest original segment that arrived after a higher one.
    pub(super) reordered_at: u64,
}

impl AckReport {
    /// That nothing has changed.
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

    /// Linux's flag bits, which `cong_control` may test.
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

/// What an acknowledgement has taken off the queue.
pub(super) struct Acked {
    pub(super) packets: u32,
    /// Round trip of the newest segment that was delivered, us; -1: none was measured.
    pub(super) rtt_us: i64,
}
