//! What a host's TCP is set to; the defaults are Linux's.

use perigee_units::{Bytes, Time};

/// How much of a receive buffer is advertised as window; the rest is for what segments take besides their payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowShare {
    /// Half (`tcp_adv_win_scale` = 1): Linux before 6.6.
    Half,
    /// The payload of the first full segment over its memory (`scaling_ratio`): Linux 6.6 and later. The buffer grows as
    /// that of 6.18, behind gaps too.
    Measured,
}

/// Settings of one endpoint. Each feature can be switched off, for studies of older stacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Largest payload of a segment without options counted (MTU - 40); timestamps take 12 of it.
    pub mss: u16,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Receive buffer: minimum, initial, maximum (`tcp_rmem`).
    pub rmem: [Bytes; 3],
    /// Send buffer: minimum, initial, maximum (`tcp_wmem`).
    pub wmem: [Bytes; 3],
    /// Grow the receive buffer with the measured rate (`tcp_moderate_rcvbuf`).
    pub receive_autotuning: bool,
    /// Memory that a full segment takes in the receive queue (`skb->truesize`): 2304 B with drivers that receive into
    /// half pages, 4352 B with those that take a page for each. Above twice the segment, the advertised window stops
    /// growing at a quarter of the largest buffer instead of half of it.
    pub segment_memory: Bytes,
    /// How much of the receive buffer is window.
    pub window_share: WindowShare,
    /// Timestamps option (RFC 7323).
    pub timestamps: bool,
    /// Window scaling option (RFC 7323).
    pub window_scaling: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Duplicate SACK reports and undo by them (RFC 2883, RFC 3708).
    pub dsack: bool,
    /// RACK loss detection (RFC 8985); off: RFC 6675's duplicate threshold.
    pub rack: bool,
    /// Tail loss probe (RFC 8985, section 7).
    pub tlp: bool,
    /// Forward RTO recovery (RFC 5682).
    pub frto: bool,
    /// Proportional rate reduction (RFC 6937); off: the window is halved at once (RFC 6582).
    pub prr: bool,
    /// Delay acknowledgements (RFC 1122, 4.2.3.2; RFC 5681, 4.2); off: acknowledge each segment.
    pub delayed_acks: bool,
    /// Longest delay of an acknowledgement.
    pub delayed_ack_max: Time,
    /// Compress acknowledgements while a gap is open: one each millisecond or each 44 segments
    /// (`tcp_comp_sack_nr`, Linux 4.18 and later).
    pub ack_compression: bool,
    /// Acknowledge at once in the beginning of a connection (Linux's quick ACK mode).
    pub quick_acks: bool,
    /// Collapse the window after an idle time of one RTO (`tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Smallest retransmission timeout.
    pub rto_min: Time,
    /// Largest retransmission timeout.
    pub rto_max: Time,
    /// Retransmissions of a SYN before the connection is given up (`tcp_syn_retries`), those of
    /// [`Config::syn_linear_timeouts`] not counted.
    pub syn_retries: u32,
    /// Retransmissions of a SYN, in addition, before its timeout doubles (`tcp_syn_linear_timeouts`): none before Linux 6.5,
    /// 4 since.
    pub syn_linear_timeouts: u32,
    /// Retransmissions of a SYN-ACK before the connection request is dropped (`tcp_synack_retries`).
    pub synack_retries: u32,
    /// How long data are retransmitted, as a number of timeouts that double from 200 ms on (`tcp_retries2`), and how many
    /// window probes in a row may stay unanswered; see [`Config::longest_silence`].
    pub retries2: u32,
    /// Duplicate threshold and initial reordering degree, segments.
    pub reordering: u32,
    /// Upper bound of the congestion window, segments (`snd_cwnd_clamp`).
    pub cwnd_clamp: u32,
    /// Pace every flow at its window's rate, as below Linux's fq queue; algorithms that need pacing have it anyway.
    pub pacing: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1460,
            initial_window: 10,
            rmem: [Bytes::new(4096), Bytes::new(131_072), Bytes::new(6_291_456)],
            wmem: [Bytes::new(4096), Bytes::new(16_384), Bytes::new(4_194_304)],
            receive_autotuning: true,
            segment_memory: Bytes::new(2304),
            window_share: WindowShare::Half,
            timestamps: true,
            window_scaling: true,
            sack: true,
            dsack: true,
            rack: true,
            tlp: true,
            frto: true,
            prr: true,
            delayed_acks: true,
            delayed_ack_max: Time::from_millis(40),
            ack_compression: true,
            quick_acks: true,
            slow_start_after_idle: true,
            rto_min: Time::from_millis(200),
            rto_max: Time::from_secs(120),
            syn_retries: 6,
            syn_linear_timeouts: 0,
            synack_retries: 5,
            retries2: 15,
            reordering: 3,
            cwnd_clamp: u32::MAX,
            pacing: false,
            ecn: false,
        }
    }
}

impl Config {
    /// The largest window that the receive buffer lets the host advertise.
    ///
    /// Where half of the buffer is window, Linux lets it grow without bound only if the memory of a segment, counted as
    /// window, is no more than its payload; otherwise it halves both until it is, and the window ends there
    /// (`__tcp_grow_window`).
    #[must_use]
    pub fn largest_window(&self) -> Bytes {
        let (largest, memory) = (self.rmem[2].as_u64(), self.segment_memory.as_u64());
        if self.window_share == WindowShare::Measured {
            let options = if self.timestamps { TIMESTAMP_BYTES } else { 0 };
            return Bytes::new((largest * measured_share(u64::from(self.mss) - options, memory)) >> SHARE_SHIFT);
        }
        let (mut memory, mut window) = (memory / 2, largest / 2);
        while memory > u64::from(self.mss) {
            memory /= 2;
            window /= 2;
        }
        Bytes::new(window)
    }
}

impl Config {
    /// How long data are retransmitted without an acknowledgement before the connection is given up: `retries2` timeouts, the
    /// first of 200 ms whatever the path's is, each twice the one before up to `rto_max`
    /// (Linux's `tcp_model_timeout`; RFC 1122, section 4.2.3.5).
    ///
    /// ```
    /// use perigee_tcp::Config;
    /// use perigee_units::Time;
    ///
    /// assert_eq!(Config::default().longest_silence(), Time::from_millis(924_600));
    /// ```
    #[must_use]
    pub fn longest_silence(&self) -> Time {
        let doublings = (self.rto_max.as_nanos() / MODEL_RTO.as_nanos()).max(1).ilog2().min(self.retries2);
        MODEL_RTO * ((2 << doublings) - 1) + self.rto_max * u64::from(self.retries2 - doublings)
    }
}

/// Linux's `TCP_RTO_MIN`.
const MODEL_RTO: Time = Time::from_millis(200);

/// Shares of the receive buffer are of 256, as in Linux (`TCP_RMEM_TO_WIN_SCALE`).
pub(crate) const SHARE_SHIFT: u32 = 8;
const TIMESTAMP_BYTES: u64 = 12;

/// The part of the buffer that is window, of 256, where a full segment of `payload` bytes takes `memory`. Never all of
/// it, even where the memory that is set is less than the payload.
pub(crate) fn measured_share(payload: u64, memory: u64) -> u64 {
    ((payload << SHARE_SHIFT) / memory).clamp(1, (1 << SHARE_SHIFT) - 1)
}
