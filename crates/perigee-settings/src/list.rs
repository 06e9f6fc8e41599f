//! The settings of a host's TCP. The defaults are Linux's.
//!
//! An entry has the documentation that the reference of studies shows, too. To add a setting, add its entry, and read its
//! field where it acts.

use perigee_units::{Bytes, Time};

use crate::define::{choice, put, settings, Field};
use crate::value::{sysctl, sysctl_of_host, sysctl_on, Domain, Kernel, Value};

settings! {
    /// Largest payload of a segment, options not counted (MTU - 40); timestamps take 12 of it.
    mss: u16 = (1460 B) in (88 B) to (65_495 B),
        report "largest segment", kernel Kernel::Other("the MTU of devices, and `TCP_MAXSEG`");
    /// Initial congestion window, segments (RFC 6928).
    initial_window: u32 = 10 in 1 to 10_000,
        report "initial window (segments)", kernel Kernel::Other("`initcwnd` of routes");
    /// After which handshakes the initial window is one segment (RFC 5681, 3.1): `any` in which a SYN or SYN-ACK was
    /// sent again; `several`, more than once (Linux 3.1 to 5.1); `timeouts`, more than once and after a timeout that no
    /// timestamp shows to have been needless (Linux 5.2 and later). A SYN-ACK that answers a repeated SYN is sent again
    /// without a timeout.
    initial_window_cut: InitialWindowCut = Timeouts,
        report "handshakes that cut the initial window", kernel Kernel::Nothing;
    /// Receive buffer: minimum, initial, maximum (`tcp_rmem`).
    rmem: [Bytes; 3] = [(4096 B), (131072 B), (33554432 B)],
        report "receive buffer (minimum, initial, maximum)", kernel sysctl_of_host("tcp_rmem");
    /// Send buffer: minimum, initial, maximum (`tcp_wmem`).
    wmem: [Bytes; 3] = [(4096 B), (16384 B), (4194304 B)],
        report "send buffer (minimum, initial, maximum)", kernel sysctl_of_host("tcp_wmem");
    /// Grow the receive buffer with the measured rate (`tcp_moderate_rcvbuf`).
    receive_autotuning: bool = true,
        report "receive buffer grows", kernel sysctl("tcp_moderate_rcvbuf");
    /// Memory that a full segment takes in the receive queue (`truesize`). Drivers that take a page for each need
    /// 4352 B; the window then ends at a quarter of the largest buffer instead of half (a third with `window_share = "measured"`).
    segment_memory: Bytes = (2304 B) in (256 B) to (1048576 B),
        report "memory of a full segment", kernel Kernel::Other("the size of the receive buffer");
    /// How much of the receive buffer is advertised: `half` (`tcp_adv_win_scale` = 1, Linux before 6.6), `three-quarters`
    /// (`tcp_adv_win_scale` = 2, before 3.4), or `measured`, the payload of a full segment by its memory (6.6 and later; the buffer grows
    /// as in 6.18).
    window_share: WindowShare = Measured,
        report "window's share of the receive buffer", kernel Kernel::Other("the size of the receive buffer");
    /// The first window that a host advertises is at most this many segments, and 64 kB: 4 in Linux 2.6.20, 20 in 3.0 to 4.19. Each full
    /// segment that arrives opens it by two more.
    first_receive_window: u32 = 4294967295 in 1 to 4294967295,
        report "first receive window (segments)", kernel Kernel::Nothing;
    /// Size to which the receive buffer grows, once a round trip: `ahead`, twice what was read in it and as much more as that grew, so
    /// that it stays ahead of slow start (Linux 3.13 and later); `twice`, only twice what was read (before).
    receive_growth: ReceiveGrowth = Ahead, report "growth of the receive buffer", kernel Kernel::Nothing;
    /// A closed connection leaves its slow start threshold and its round trip to the route, and later ones between these nodes begin with
    /// them (`tcp_no_metrics_save` = 0), with three segments where `initial_window` is two. Connections of populations
    /// neither leave nor take anything. Off, as in emulation: each begins anew.
    route_metrics: bool = false, report "route remembers closed connections", kernel Kernel::Nothing;
    /// Timestamps option (RFC 7323).
    timestamps: bool = true, report "timestamps", kernel sysctl("tcp_timestamps");
    /// Window scaling option (RFC 7323).
    window_scaling: bool = true, report "window scaling", kernel sysctl("tcp_window_scaling");
    /// Selective acknowledgements (RFC 2018).
    sack: bool = true, report "SACK", kernel sysctl("tcp_sack");
    /// Without SACK: only the first partial acknowledgement of a recovery restarts the retransmission timer, so that many losses in one
    /// window end in a timeout, which halves the threshold again, and a slow start (NewReno's impatient variant, RFC 6582, section 4; RFC
    /// 5681, equation 4). Off: each restarts it, and one loss is repaired in each round trip, however many there are (the slow but steady
    /// variant), and a timeout within a recovery leaves the threshold, as in Linux.
    impatient_newreno: bool = false, report "impatient NewReno", kernel Kernel::Nothing;
    /// Duplicate SACK reports, and undo by them (RFC 2883, RFC 3708).
    dsack: bool = true, report "DSACK", kernel sysctl("tcp_dsack");
    /// RACK loss detection (RFC 8985); off: the duplicate threshold of RFC 6675.
    rack: bool = true, report "RACK", kernel sysctl("tcp_recovery");
    /// Tail loss probe (RFC 8985, section 7).
    tlp: bool = true, report "tail loss probe", kernel sysctl_on("tcp_early_retrans", 3);
    /// Forward RTO recovery (RFC 5682).
    frto: bool = true, report "forward RTO recovery", kernel sysctl_on("tcp_frto", 2);
    /// Proportional rate reduction (RFC 6937); off: the window is halved at once (RFC 5681, RFC 6675), or as `rate_halving` says.
    prr: bool = true, report "proportional rate reduction", kernel Kernel::Nothing;
    /// With `prr = false`: the window falls by one packet with every second acknowledgement until it is half, as in Linux before 3.2.
    rate_halving: bool = false, report "rate halving", kernel Kernel::Nothing;
    /// Appropriate byte counting (RFC 3465): an acknowledgement opens the window by the segments it acknowledges; off: by one,
    /// however many they are, as in Linux before 3.13.
    abc: bool = true, report "appropriate byte counting", kernel Kernel::Nothing;
    /// Delay acknowledgements (RFC 5681, 4.2); off: acknowledge each segment.
    delayed_acks: bool = true, report "delayed ACKs", kernel Kernel::Nothing;
    /// Longest delay of an acknowledgement.
    delayed_ack_max: Time = (40 ms) in (1 ms) to (500 ms), report "longest delay of an ACK", kernel Kernel::Nothing;
    /// Full segments after which an acknowledgement leaves at once: two (RFC 5681, 4.2). More are stretched acknowledgements, as of
    /// macOS: from the time on at which the window is larger than one and a half times the first receive buffer, and after at
    /// most a quarter of the window.
    ack_every: u32 = 2 in 2 to 1000, report "segments for an ACK", kernel Kernel::Nothing;
    /// Compress acknowledgements while a gap is open (`tcp_comp_sack_nr`, Linux 4.18 and later).
    ack_compression: bool = true, report "ACK compression", kernel sysctl_on("tcp_comp_sack_nr", 44);
    /// Acknowledge at once in the beginning of a connection (Linux's quick ACK mode), and what was pushed, as soon as the application has
    /// read all: a segment with PSH, or below full size.
    quick_acks: bool = true, report "quick ACKs", kernel Kernel::Nothing;
    /// Nagle's algorithm (RFC 896; RFC 1122, section 4.2.3.4): the last data written wait while they are less than a full segment and
    /// data are unacknowledged, and so does a FIN behind them. Linux, without `TCP_NODELAY`, waits only for a smaller segment, never
    /// with a FIN, and not with the data of a tail loss probe or of F-RTO, which wait here.
    nagle: bool = false, report "Nagle's algorithm", kernel Kernel::Nothing;
    /// Collapse the window after an idle time of one RTO (`tcp_slow_start_after_idle`).
    slow_start_after_idle: bool = true,
        report "slow start after idle", kernel sysctl("tcp_slow_start_after_idle");
    /// Pace every flow at its window's rate, as below Linux's fq queue; algorithms that need pacing always have it.
    pacing: bool = false, report "pacing of all flows", kernel Kernel::Other("`SO_MAX_PACING_RATE`");
    /// Segmentation offload (TSO, GSO): hand down segments in trains of about a millisecond at the pacing rate, of at least two and at
    /// most half the window, and wait for acknowledgements to let a whole train out where the last one has just left
    /// (`tcp_tso_autosize`, `tcp_tso_should_defer`). Linux always does so. A train leaves at one instant, as single packets.
    segmentation_offload: bool = true,
        report "segmentation offload", kernel Kernel::Other("always on: TCP sizes its trains for every device");
    /// Refill a large segment that the peer's window has split, from the data behind it (`tcp_grow_skb`, since Linux 6.10); off: its last
    /// segment is smaller.
    train_refill: bool = true, report "refill of split trains", kernel Kernel::Nothing;
    /// Data wait to fill a train only if the next acknowledgement is expected within a millisecond (Linux 6.19, and stable releases from
    /// the end of 2025 on, of 6.1 and 6.18 among them); off: if it is expected within half a round trip.
    short_train_waits: bool = true, report "short waits for trains", kernel Kernel::Nothing;
    /// The last segment of a train of several has PSH (since Linux 5.4).
    train_push: bool = true, report "PSH at the end of trains", kernel Kernel::Nothing;
    /// Receive offload (GRO): how long the network card waits after a segment for further ones of its connection, which TCP then takes,
    /// and acknowledges, as one; 0: each by itself.
    receive_offload: Time = (0 ms) in (0 ms) to (1 ms),
        report "receive offload", kernel Kernel::Nothing;
    /// Congestion controls hear of an acknowledgement (`in_ack_event`: DCTCP and Westwood+) once its segments have left the queue and its
    /// round trip is known (Linux 6.16 and later); off: before.
    late_ack_events: bool = true, report "late events of ACKs", kernel Kernel::Nothing;
    /// Tick of the host's kernel, 1 / `CONFIG_HZ`: 4 ms in Debian, Ubuntu and most distributions, 1 ms in some, 10 ms in small systems.
    /// Timers of retransmissions, probes, reordering and delayed acknowledgements then fire at ticks, the later the further off they are,
    /// and the clocks that congestion controls have in jiffies show ticks; pacing and compressed acknowledgements stay exact. 0: all is
    /// exact.
    tick: Time = (0 ms) in (0 ms) to (10 ms),
        report "tick", kernel Kernel::Other("the kernel's own, as it was built: any other is refused");
    /// How long the host takes for a packet that it sends, of whatever kind: the mean, uniform between zero and twice
    /// that and drawn for each packet. Packets leave in order. 0: no time.
    processing_time: Time = (0 us) in (0 us) to (100 ms),
        report "processing time of a packet (mean)", kernel Kernel::Nothing;
    /// Retransmission timeout before the first round trip is measured, that of a SYN and a SYN-ACK: 1 s (RFC 6298), 3 s
    /// in Linux before 3.1.
    initial_rto: Time = (1 s) in (1 ms) to (120 s),
        report "first retransmission timeout", kernel Kernel::Nothing;
    /// Smallest retransmission timeout.
    rto_min: Time = (200 ms) in (1 ms) to (120 s),
        report "smallest retransmission timeout", kernel sysctl("tcp_rto_min_us");
    /// The quantity that is `rto_min` at the least: `variance`, the four deviations that are added to the smoothed round trip
    /// (Linux); `timeout`, their sum (RFC 6298, 2.4).
    rto_floor: RtoFloor = Variance, report "what the smallest timeout bounds", kernel Kernel::Nothing;
    /// Largest retransmission timeout.
    rto_max: Time = (120 s) in (1 ms) to (3600 s), report "largest retransmission timeout", kernel Kernel::Nothing;
    /// Retransmissions of a SYN before the connection fails (`tcp_syn_retries`), beside those of `syn_linear_timeouts`:
    /// after 131 s with the defaults.
    syn_retries: u32 = 6 in 1 to 127, report "retries of a SYN", kernel sysctl("tcp_syn_retries");
    /// Retransmissions of a SYN, in addition, before its timeout doubles (`tcp_syn_linear_timeouts`): none before Linux 6.5, 4 since.
    syn_linear_timeouts: u32 = 4 in 0 to 127,
        report "retries of a SYN before its timeout doubles", kernel sysctl_of_host("tcp_syn_linear_timeouts");
    /// Retransmissions of a SYN-ACK before the connection request is dropped (`tcp_synack_retries`).
    synack_retries: u32 = 5 in 0 to 255, report "retries of a SYN-ACK", kernel sysctl("tcp_synack_retries");
    /// How long data are retransmitted without an acknowledgement before the connection fails (`tcp_retries2`), as a number
    /// of timeouts that double from 200 ms to `rto_max`: 924.6 s with the default. As many window probes may stay unanswered.
    retries2: u32 = 15 in 1 to 255, report "retries of data (timeouts that double)", kernel sysctl("tcp_retries2");
    /// Duplicate threshold and initial reordering degree, segments.
    reordering: u32 = 3 in 1 to 300, report "reordering degree (segments)", kernel sysctl("tcp_reordering");
    /// Upper bound of the congestion window, segments (`snd_cwnd_clamp`).
    cwnd_clamp: u32 = 4294967295 in 2 to 4294967295,
        report "largest congestion window (segments)", kernel Kernel::Nothing;
    /// Explicit congestion notification (RFC 3168). A congestion control that needs it, as `dctcp`, has it whatever this says.
    ecn: bool = false, report "ECN", kernel sysctl("tcp_ecn");
    /// With `ecn`: data carry ECT(1), the identifier of L4S (RFC 9331), so that a dual queue gives them its low latency. The answer to
    /// marks is that of the congestion control, whatever it is.
    l4s: bool = false, report "ECT(1)", kernel Kernel::Nothing;
    /// How this end acknowledges what it receives: `honest`, or as a receiver that cheats its sender for a larger share
    /// (Savage et al., 1999). `ack-splitting`: each segment in ten ACKs. `hidden-loss`: what is lost counts as
    /// received, and is never sent again. `optimistic-ack`: the same, and data are acknowledged about half a round trip
    /// before they arrive. `ignore-ce`: congestion marks are not echoed. What is lost under `hidden-loss` and
    /// `optimistic-ack` is missing at the end: such a flow has a `duration`.
    receiver_kind: Receiving = Honest, report "receiver", kernel Kernel::Nothing;
}

choice! {
    /// Which handshakes cut the initial window to one segment.
    InitialWindowCut {
        /// Any with a retransmission (RFC 5681, section 3.1).
        Any = "any",
        /// Those with more than one: Linux 3.1 to 5.1.
        Several = "several",
        /// Those with more than one, and a timeout that the echoed timestamp does not show to be spurious: Linux 5.2 and later.
        Timeouts = "timeouts",
    }
}

choice! {
    /// How much of a receive buffer is advertised as window; the rest is for what segments take besides their payload.
    WindowShare {
        /// Half (`tcp_adv_win_scale` = 1): Linux before 6.6.
        Half = "half",
        /// Three quarters (`tcp_adv_win_scale` = 2): Linux before 3.4.
        ThreeQuarters = "three-quarters",
        /// The payload of a segment over its memory (`scaling_ratio`), of each that is larger than those before: Linux 6.6 and later.
        /// The buffer grows as that of 6.18, behind gaps too.
        Measured = "measured",
    }
}

choice! {
    /// Size to which the receive buffer grows.
    ReceiveGrowth {
        /// Twice what was read in a round trip, and more by twice the share by which that grew: Linux 3.13 and later.
        Ahead = "ahead",
        /// Twice what was read in a round trip: Linux before 3.13.
        Twice = "twice",
    }
}

choice! {
    /// The quantity that the smallest retransmission timeout bounds.
    RtoFloor {
        /// The four deviations that are added to the smoothed round trip: Linux.
        Variance = "variance",
        /// The timeout (RFC 6298, section 2.4).
        Timeout = "timeout",
    }
}

choice! {
    /// How a receiver acknowledges.
    Receiving {
        /// As RFC 9293, 5681 and 2018 have it.
        Honest = "honest",
        /// Each segment in several ACKs (Savage et al. 1999, section 2.1).
        AckSplitting = "ack-splitting",
        /// Data that have not arrived yet, and those that never will (section 2.3).
        OptimisticAck = "optimistic-ack",
        /// Losses are acknowledged as if they had arrived.
        HiddenLoss = "hidden-loss",
        /// Congestion marks are not echoed (RFC 3540, section 1).
        IgnoreCe = "ignore-ce",
    }
}

/// One setting of a host's TCP, a field of [`Config`].
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in studies and in [`Config`].
    pub name: &'static str,
    /// The values it can have.
    pub domain: Domain,
    /// Its value without being set, as a study would write it.
    pub default: &'static str,
    /// Description for users.
    pub about: &'static str,
    /// Its name in reports.
    pub report: &'static str,
    /// How Linux takes it.
    pub kernel: Kernel,
    read: fn(&Config) -> Value,
    write: fn(&mut Config, Value) -> Option<()>,
}

impl Setting {
    /// Its value in `config`.
    pub fn get(&self, config: &Config) -> Value {
        (self.read)(config)
    }

    /// Sets it in `config`.
    ///
    /// # Panics
    /// Where `value` is of another domain.
    pub fn set(&self, config: &mut Config, value: Value) {
        (self.write)(config, value).expect("the value is of the setting's domain");
    }
}
