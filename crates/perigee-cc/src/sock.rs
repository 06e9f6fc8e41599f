//! The socket of the contract with algorithms: the Rust side of `algorithms/tcp.h`.
//!
//! Layouts are shared with C (`#[repr(C)]`); the build compares every offset. Field names are the kernel's.

/// Bytes of private state a congestion control has in the socket, as in Linux.
pub const CA_PRIV_BYTES: usize = 104;
/// Most bytes of per-socket storage beyond the private state, for algorithms that ask for it.
pub const STORAGE_BYTES: usize = 1280;
/// Most parameters one algorithm has.
pub const MAX_PARAMS: usize = 24;
/// Most values that one algorithm lets be watched.
pub const MAX_WATCHED: usize = 64;
/// "No slow start threshold yet".
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// `sk_pacing_rate` of a socket that nothing limits, bytes/s.
pub const UNLIMITED_PACING: u64 = u64::MAX;

/// `enum tcp_ca_state`.
#[allow(missing_docs, reason = "the names are the kernel's")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum CaState {
    #[default]
    Open = 0,
    Disorder = 1,
    Cwr = 2,
    Recovery = 3,
    Loss = 4,
}

impl CaState {
    /// Every state, by its number.
    pub const ALL: [Self; 5] = [Self::Open, Self::Disorder, Self::Cwr, Self::Recovery, Self::Loss];

    /// The name in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Disorder => "disorder",
            Self::Cwr => "cwr",
            Self::Recovery => "recovery",
            Self::Loss => "loss",
        }
    }
}

impl TryFrom<u8> for CaState {
    /// The number that stands for no state.
    type Error = u8;

    #[inline]
    fn try_from(number: u8) -> Result<Self, u8> {
        match number {
            0 => Ok(Self::Open),
            1 => Ok(Self::Disorder),
            2 => Ok(Self::Cwr),
            3 => Ok(Self::Recovery),
            4 => Ok(Self::Loss),
            _ => Err(number),
        }
    }
}

/// `enum tcp_ca_event`.
#[allow(missing_docs, reason = "the names are the kernel's")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum CaEvent {
    TxStart = 0,
    CwndRestart = 1,
    CompleteCwr = 2,
    Loss = 3,
    EcnNoCe = 4,
    EcnIsCe = 5,
}

/// `enum sk_pacing`: whether TCP paces.
pub mod pacing {
    /// No pacing: segments leave as the window opens.
    pub const NONE: u32 = 0;
    /// TCP paces by itself, as the algorithm or the host's settings ask.
    pub const NEEDED: u32 = 1;
}

/// Bits of [`TcpSock::ecn_flags`].
pub mod ecn {
    /// The connection negotiated ECN.
    pub const OK: u8 = 1;
    /// The next ACKs carry ECE.
    pub const DEMAND_CWR: u8 = 4;
}

/// Bits of [`AckState::pending`].
pub mod ack {
    /// An ACK waits for its timer.
    pub const TIMER: u8 = 2;
    /// An ACK is due at once.
    pub const NOW: u8 = 16;
}

/// Bits of [`crate::Ops::flags`].
pub mod flags {
    /// Both ends negotiate ECN, all packets are ECT, and `cwnd_event` reports the field of each segment with data.
    pub const NEEDS_ECN: u32 = 2;
}

/// [`Sock::sk_state`] of an open connection, `TCP_ESTABLISHED`.
pub const ESTABLISHED: u8 = 1;

/// `struct sock`, the part algorithms use. (The prefix is the kernel's.)
#[allow(missing_docs, clippy::struct_field_names, reason = "the names are the kernel's")]
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Sock {
    /// Bytes per second.
    pub sk_pacing_rate: u64,
    /// Bytes per second.
    pub sk_max_pacing_rate: u64,
    /// One of [`pacing`].
    pub sk_pacing_status: u32,
    pub sk_gso_max_size: u32,
    pub sk_pacing_shift: u8,
    /// [`ESTABLISHED`], as long as an algorithm is called.
    pub sk_state: u8,
}

/// `struct inet_connection_sock`, the part algorithms use.
#[allow(missing_docs, reason = "the names are the kernel's")]
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct InetConnectionSock {
    pub sk: Sock,
    pub icsk_ca_priv: [u64; CA_PRIV_BYTES / 8],
    /// One of [`CaState`].
    pub icsk_ca_state: u8,
    pub icsk_retransmits: u8,
    pub icsk_ack: AckState,
}

/// The acknowledgement that a receiver owes: `icsk_ack` of the kernel's `struct inet_connection_sock`, the part algorithms use.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AckState {
    /// Bits of [`ack`], during an event of ECN.
    pub pending: u8,
}

/// `struct tcp_options_received`, the part algorithms use: the timestamps of the last segment received, ms, as of `pkts_acked`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct OptionsReceived {
    /// Clock of the peer when it sent the segment.
    pub rcv_tsval: u32,
    /// The own clock as the peer echoed it.
    pub rcv_tsecr: u32,
}

/// `struct tcp_sock`, the part algorithms use, followed by what only the native host has.
#[allow(missing_docs, reason = "the names are the kernel's")]
#[derive(Clone, Debug)]
#[repr(C)]
pub struct TcpSock {
    pub inet_conn: InetConnectionSock,
    /// Now, in us.
    pub tcp_mstamp: u64,
    /// Earliest departure of the next packet, in ns.
    pub tcp_wstamp_ns: u64,
    /// Now, in ns.
    pub tcp_clock_cache: u64,
    /// Time of the newest delivery, in us.
    pub delivered_mstamp: u64,
    /// Start of the current send window for rate samples, in us.
    pub first_tx_mstamp: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: u64,
    pub snd_una: u32,
    pub snd_nxt: u32,
    /// The peer's window, bytes.
    pub snd_wnd: u32,
    /// End of the window in flight when recovery began.
    pub high_seq: u32,
    pub write_seq: u32,
    pub snd_cwnd: u32,
    pub snd_cwnd_cnt: u32,
    pub snd_cwnd_clamp: u32,
    pub snd_ssthresh: u32,
    /// Jiffies of the last use of the window.
    pub snd_cwnd_stamp: u32,
    pub prior_cwnd: u32,
    pub prior_ssthresh: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    pub max_packets_out: u32,
    /// Packets delivered, SACKed ones included.
    pub delivered: u32,
    pub delivered_ce: u32,
    /// Packets marked lost, ever.
    pub lost: u32,
    /// `delivered` at which the application-limited bubble ends; 0: not limited.
    pub app_limited: u32,
    pub total_retrans: u32,
    /// Smoothed round-trip time, us << 3.
    pub srtt_us: u32,
    pub mdev_us: u32,
    /// Windowed minimum of the round-trip time, us; `!0` before a sample.
    pub rtt_min_us: u32,
    pub mss_cache: u32,
    pub advmss: u32,
    pub reordering: u32,
    /// The window was the limit in the last round.
    pub is_cwnd_limited: u8,
    pub ecn_flags: u8,
    /// When data were last sent, jiffies (here: ms of [`TcpSock::tcp_mstamp`]). The host sets it after the
    /// [`CaEvent::TxStart`] of that transmission, as Linux does.
    pub lsndtime: u32,
    /// The next byte to receive, as of `init` and the last event of ECN.
    pub rcv_nxt: u32,
    pub rx_opt: OptionsReceived,
    /// The algorithm's parameters, in its declared order.
    pub cc_params: [u64; MAX_PARAMS],
    /// State of the socket's random numbers (xorshift64*).
    pub cc_random: u64,
    /// Tick of the host's kernel, us; 0: its clocks are exact.
    pub cc_tick_us: u32,
    /// The number that an early ACK acknowledges, whether one is due, and `ecn_flags` as requested (`tcp_send_ack`).
    pub cc_early_ack: u32,
    pub cc_early_ack_due: bool,
    pub cc_early_ack_ecn: u8,
    /// Storage beyond the private area, as much as the algorithm asks for.
    pub cc_storage: Words,
}

/// Where the words of a socket's storage lie. Only the algorithm follows the address, during a call.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Words(pub(crate) *mut u64);

impl Words {
    /// The address.
    pub fn address(self) -> *const u64 {
        self.0
    }
}

// SAFETY: a caller has the socket and its storage to itself.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl std::fmt::Debug for Words {
    /// Without the address, which is another one in each process.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Words")
    }
}

/// `struct rate_sample` (see `tcp_rate.c` of Linux; Cheng, Cardwell: draft-cheng-iccrg-delivery-rate-estimation).
#[allow(missing_docs, reason = "the names are the kernel's")]
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RateSample {
    /// Start of the sampled interval, us.
    pub prior_mstamp: u64,
    /// `delivered` at its start.
    pub prior_delivered: u32,
    pub prior_delivered_ce: u32,
    /// Packets delivered over the interval; negative: no sample.
    pub delivered: i32,
    pub delivered_ce: i32,
    /// Length, us (the longer of the next two); negative: no sample.
    pub interval_us: i64,
    pub snd_interval_us: u32,
    pub rcv_interval_us: u32,
    /// Round-trip time of the last acknowledged packet, us; negative: none.
    pub rtt_us: i64,
    /// Packets newly marked lost on this ACK.
    pub losses: i32,
    /// Packets newly acknowledged or SACKed.
    pub acked_sacked: u32,
    /// In flight before this ACK.
    pub prior_in_flight: u32,
    /// End sequence of the last packet, for ordering.
    pub last_end_seq: u32,
    pub is_app_limited: bool,
    pub is_retrans: bool,
    pub is_ack_delayed: bool,
}

/// `struct ack_sample`.
#[allow(missing_docs, reason = "the names are the kernel's")]
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AckSample {
    pub pkts_acked: u32,
    /// Round-trip time, us; negative: none.
    pub rtt_us: i32,
    pub in_flight: u32,
}

impl TcpSock {
    /// A socket as it is before its first packet.
    pub fn new(mss: u32, initial_window: u32) -> Self {
        Self {
            inet_conn: InetConnectionSock {
                sk: Sock {
                    sk_pacing_rate: UNLIMITED_PACING,
                    sk_max_pacing_rate: UNLIMITED_PACING,
                    sk_pacing_status: pacing::NONE,
                    sk_gso_max_size: 65_536,
                    sk_pacing_shift: 10,
                    sk_state: ESTABLISHED,
                },
                ..InetConnectionSock::default()
            },
            tcp_mstamp: 0,
            tcp_wstamp_ns: 0,
            tcp_clock_cache: 0,
            delivered_mstamp: 0,
            first_tx_mstamp: 0,
            bytes_acked: 0,
            bytes_sent: 0,
            snd_una: 0,
            snd_nxt: 0,
            snd_wnd: 0,
            high_seq: 0,
            write_seq: 0,
            snd_cwnd: initial_window,
            snd_cwnd_cnt: 0,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: INFINITE_SSTHRESH,
            snd_cwnd_stamp: 0,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            max_packets_out: 0,
            delivered: 0,
            delivered_ce: 0,
            lost: 0,
            app_limited: 0,
            total_retrans: 0,
            srtt_us: 0,
            mdev_us: 0,
            rtt_min_us: u32::MAX,
            mss_cache: mss,
            advmss: mss,
            reordering: 3,
            is_cwnd_limited: 0,
            ecn_flags: 0,
            lsndtime: 0,
            rcv_nxt: 0,
            rx_opt: OptionsReceived { rcv_tsval: 0, rcv_tsecr: 0 },
            cc_params: [0; MAX_PARAMS],
            cc_random: 0x9e37_79b9_7f4a_7c15,
            cc_tick_us: 0,
            cc_early_ack: 0,
            cc_early_ack_due: false,
            cc_early_ack_ecn: 0,
            cc_storage: Words(std::ptr::null_mut()),
        }
    }

    /// Packets in the network: sent, not acknowledged, not lost (`tcp_packets_in_flight`).
    #[inline]
    pub fn packets_in_flight(&self) -> u32 {
        self.packets_out - (self.sacked_out + self.lost_out) + self.retrans_out
    }

    /// Below the slow start threshold.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }
}
