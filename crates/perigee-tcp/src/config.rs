//! What a host's TCP is set to; the defaults are Linux's.

use perigee_units::{Bytes, Time};

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
            reordering: 3,
            cwnd_clamp: u32::MAX,
            pacing: false,
            ecn: false,
        }
    }
}
