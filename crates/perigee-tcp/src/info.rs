//! `TCP_INFO` of an endpoint.

use perigee_cc::CaState;
use perigee_units::Time;

use crate::sender::Sender;

/// State of an endpoint, as in `TCP_INFO`.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Upper bound of the congestion window, packets; `None` if unbounded.
    pub cwnd_clamp: Option<u32>,
    /// Slow start threshold, packets; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Time,
    /// Windowed minimum of the round-trip time; `None` before the first sample.
    pub rtt_min: Option<Time>,
    /// Mean deviation of the round-trip time.
    pub rtt_deviation: Time,
    /// Retransmission timeout, back-off included.
    pub rto: Time,
    /// Packets in flight: sent, and neither acknowledged nor deemed lost.
    pub inflight: u32,
    /// Packets sent and not yet acknowledged cumulatively.
    pub packets_out: u32,
    /// Packets among `packets_out` that are SACKed.
    pub sacked_out: u32,
    /// Payload of these, as full segments; none without SACK, where they count duplicate acknowledgements.
    pub sacked_bytes: Option<u64>,
    /// Packets among `packets_out` that are deemed lost.
    pub lost_out: u32,
    /// Packets among `packets_out` whose retransmission is unacknowledged.
    pub retrans_out: u32,
    /// Data packets sent, including retransmissions.
    pub sent_packets: u64,
    /// Data packets among them that are retransmissions.
    pub retransmitted_packets: u64,
    /// Retransmission timeouts, including those of the handshake.
    pub rto_count: u64,
    /// Tail loss probes sent.
    pub probe_count: u64,
    /// Packets acknowledged, cumulatively or by SACK.
    pub delivered: u64,
    /// Packets ever marked lost.
    pub lost: u64,
    /// Whether packets that leave now count as limited by the application.
    pub app_limited: bool,
    /// Pacing rate in bit/s; `None` without pacing.
    pub pacing_rate_bps: Option<u64>,
    /// Congestion state.
    pub ca_state: CaState,
    /// Payload acknowledged cumulatively, bytes.
    pub acked: u64,
    /// SND.NXT, counted from the start of the stream.
    pub snd_nxt: u64,
    /// Window that the peer advertises, bytes.
    pub peer_window: u32,
    /// Reordering degree, packets.
    pub reordering: u32,
}

impl Info {
    pub(crate) fn of(sender: &Sender) -> Self {
        let sk = &sender.sk;
        let ssthresh = (sk.snd_ssthresh < perigee_cc::INFINITE_SSTHRESH).then_some(sk.snd_ssthresh);
        let paced = sender.is_paced();
        Self {
            cwnd: sk.snd_cwnd,
            cwnd_clamp: (sk.snd_cwnd_clamp < u32::MAX).then_some(sk.snd_cwnd_clamp),
            ssthresh,
            srtt: Time::from_micros(u64::from(sk.srtt_us >> 3)),
            rtt_min: (sk.rtt_min_us != u32::MAX).then(|| Time::from_micros(u64::from(sk.rtt_min_us))),
            rtt_deviation: Time::from_micros(u64::from(sk.mdev_us >> 2)),
            rto: sender.rto(),
            inflight: sk.packets_in_flight(),
            packets_out: sk.packets_out,
            sacked_out: sk.sacked_out,
            sacked_bytes: sender.settings.sack.then(|| u64::from(sk.sacked_out) * u64::from(sk.mss_cache)),
            lost_out: sk.lost_out,
            retrans_out: sk.retrans_out,
            sent_packets: sender.counters.sent_packets,
            retransmitted_packets: sender.counters.retransmitted_packets,
            rto_count: sender.counters.rto_count,
            probe_count: sender.counters.probes,
            delivered: u64::from(sk.delivered),
            lost: u64::from(sk.lost),
            app_limited: sk.app_limited != 0,
            pacing_rate_bps: paced.then(|| sk.inet_conn.sk.sk_pacing_rate.saturating_mul(8)),
            ca_state: sender.state(),
            acked: sender.stream.acked_payload(),
            snd_nxt: sender.stream.nxt.saturating_sub(1),
            peer_window: sender.peer_window.bytes,
            reordering: sk.reordering,
        }
    }
}
