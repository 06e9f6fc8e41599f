//! Trains: the segments that Linux passes down as one large segment (TSO); their size, and when TCP waits to fill one.

use perigee_cc::CaState;

use super::state::queue::QueueEntry;
use super::Sender;

impl Sender {
    /// Segments in a train: about a millisecond at the pacing rate (`tcp_tso_autosize`). Segmentation offload adds more on short paths: the
    /// maximum train, halved for each 512 us of the minimum RTT (since Linux 5.18).
    #[inline(always)]
    pub(super) fn train_size(&mut self) -> u64 {
        let sock = &self.sk.inet_conn.sk;
        let whole = u64::from(sock.sk_gso_max_size);
        let mut bytes = sock.sk_pacing_rate >> sock.sk_pacing_shift;
        if self.settings.segmentation_offload {
            bytes = bytes.saturating_add(whole.checked_shr(self.sk.rtt_min_us >> RTT_SHIFT).unwrap_or(0));
        }
        let least = self.sk.min_tso_segs().unwrap_or(MIN_SEGMENTS);
        (bytes.min(self.largest_payload()) / u64::from(self.sk.mss_cache)).max(u64::from(least))
    }

    /// Payload of the largest train, bytes, not rounded to segments.
    #[inline]
    pub(super) fn largest_payload(&self) -> u64 {
        u64::from(self.sk.inet_conn.sk.sk_gso_max_size) - 1 - MAX_TCP_HEADER
    }

    /// Segments that Linux queues as one large segment (`tcp_xmit_size_goal`).
    pub(super) fn largest_train(&self) -> u64 {
        (self.largest_payload().min(u64::from(self.peer_window.bytes / 2)) / u64::from(self.sk.mss_cache)).max(1)
    }

    /// Whether new data wait for ACKs that release more, so that they leave as one train (`tcp_tso_should_defer`). The congestion window
    /// has space for `room` segments. Data do not wait if the last train left more than a millisecond ago, if a whole train, a third of the
    /// window or all pending data can leave, or if the next ACK is more than a millisecond or half a round trip away.
    #[inline(always)]
    pub(super) fn waits_for_train(&mut self, room: u32) -> bool {
        let (sk, mss) = (&*self.sk, u64::from(self.sk.mss_cache));
        let unsent = self.stream.unsent();
        let is_late = sk.tcp_clock_cache > sk.tcp_wstamp_ns + LAST_TRAIN_NS;
        if is_late || unsent <= mss || matches!(self.state(), CaState::Recovery | CaState::Loss) {
            return false;
        }
        let by_peer = self.peer_window.end.saturating_sub(self.stream.nxt);
        let by_window = u64::from(room) * mss;
        let limit = by_peer.min(by_window);
        let window = (u64::from(sk.snd_cwnd) * mss).min(self.peer_window.end.saturating_sub(self.stream.una));
        if limit >= window / WINDOW_PARTS {
            return false;
        }
        let waiting = self.stream.unsplit().min(u64::from(sk.inet_conn.sk.sk_gso_max_size) - 1);
        if unsent > waiting && limit >= waiting {
            return false;
        }
        let half_round_trip_us = u64::from(sk.srtt_us >> 4);
        let old_us = if self.settings.short_train_waits {
            u64::from(sk.srtt_us >> 3) - half_round_trip_us.min(ACK_WAIT_US)
        } else {
            half_round_trip_us
        };
        let is_recent = |head: &QueueEntry| sk.tcp_mstamp.saturating_sub(head.sent_us) < old_us;
        if self.queue.head().is_none_or(is_recent) || limit >= self.train_size() * mss {
            return false;
        }
        let is_limited = limit <= waiting;
        self.output.window_limited |= is_limited && by_window < by_peer;
        // Data that end the stream wait only for the windows.
        is_limited || !self.stream.fin_queued
    }
}

/// Linux's `tcp_min_tso_segs`.
const MIN_SEGMENTS: u32 = 2;
/// Linux's `tcp_tso_rtt_log`.
const RTT_SHIFT: u32 = 9;
/// Linux's reserve for the headers of one large segment, bytes.
const MAX_TCP_HEADER: u64 = 320;
/// Maximum age of the last train for which new data wait, ns.
const LAST_TRAIN_NS: u64 = 1_000_000;
/// Time to the next ACK for which new data wait, us.
const ACK_WAIT_US: u64 = 1_000;
/// Linux's `tcp_tso_win_divisor`.
const WINDOW_PARTS: u64 = 3;
