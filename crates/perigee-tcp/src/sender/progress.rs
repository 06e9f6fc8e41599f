//! Processes an acknowledgement that is plain progress, as most are: it acknowledges new data in order, while nothing is
//! SACKed, lost, sent again or being probed for, and the window is not being reduced (compare Linux's header prediction).
//!
//! The steps are those of `ack`, in the same order, without those that find nothing to do then; a test holds the two against
//! each other.

use perigee_cc::{AckSample, CaState, RateSample};

use crate::segment::{Flags, Segment};

use super::ack::{CA_ACK_SLOWPATH, CA_ACK_WIN_UPDATE};
use super::rate;
use super::report::AckReport;
use super::Sender;

impl Sender {
    /// Whether the acknowledgement of all up to `ack` is plain progress: of whole entries, none of which was ever sent again.
    #[inline]
    pub(crate) fn is_progress(&self, segment: &Segment, ack: u64) -> bool {
        let (sk, una) = (&*self.sk, self.stream.una);
        self.queue.head().is_some_and(|head| head.start == una && head.end() <= ack)
            && una >= self.queue.repeated_until()
            && sk.sacked_out | sk.lost_out | sk.retrans_out == 0
            && sk.inet_conn.icsk_ca_state == CaState::Open as u8
            && segment.sack_count == 0
            && self.tail_probe.outstanding.is_none()
            && self.settings.sack
            && !(self.ecn.on && segment.flags.has(Flags::ECE))
    }

    /// Processes an acknowledgement for which [`Sender::is_progress`].
    #[inline]
    pub(super) fn on_progress(&mut self, segment: &Segment, ack: u64, slow_path: bool) {
        let newly_acked = ack - self.stream.una;
        self.stream.una = ack;
        self.peer_window.take(ack, segment.window, true);
        let wire = self.stream.to_wire(ack);
        let sk = &mut *self.sk;
        let prior_in_flight = sk.packets_out;
        sk.inet_conn.icsk_retransmits = 0;
        sk.bytes_acked += newly_acked;
        sk.snd_una = wire;
        if self.sk.has_in_ack_event() {
            self.sk.in_ack_event(CA_ACK_WIN_UPDATE | if slow_path { CA_ACK_SLOWPATH } else { 0 });
        }

        let (first, last, packets) = self.queue.pop_until(ack);
        let last_end = self.stream.to_wire(last.end());
        let sk = &mut *self.sk;
        sk.packets_out -= packets;
        sk.delivered += packets;
        let now_us = sk.tcp_mstamp;
        self.rack.advance(sk, &last, now_us);
        let mut sample = RateSample { prior_in_flight, rtt_us: -1, ..RateSample::default() };
        rate::count_delivery(&mut sample, sk, &last, last_end);
        let is_runt = packets == 1 && newly_acked < u64::from(sk.mss_cache);
        let maybe_delayed = is_runt && self.queue.is_empty();
        let newest_us = now_us - last.sent_us;
        sample.rtt_us = newest_us as i64;
        self.on_rtt_sample(now_us - first.sent_us, newest_us, maybe_delayed);
        if self.sk.has_pkts_acked() {
            let rtt_us = i32::try_from(newest_us).unwrap_or(i32::MAX);
            self.sk.pkts_acked(&AckSample { pkts_acked: packets, rtt_us, in_flight: prior_in_flight });
        }
        self.rack.update_window(sample.prior_delivered, self.sk.delivered);
        self.set_timer_after_ack(false);

        rate::note_delivery(&mut self.sk, packets);
        if self.sk.has_cong_control() {
            rate::complete(&mut sample, &self.sk, packets, 0, maybe_delayed);
            let report = AckReport {
                advanced: true,
                data: segment.len > 0,
                window_update: true,
                data_acked: true,
                ..AckReport::default()
            };
            self.sk.cong_control(segment.ack, report.kernel_flags(), &sample);
        } else {
            self.raise_cwnd(segment.ack, packets);
            self.follow_cwnd();
        }
    }
}
