//! Processes an acknowledgement, in the order of Linux's `tcp_ack`.

use perigee_cc::{AckSample, CaState, RateSample};
use perigee_units::Time;

use crate::segment::{Flags, Segment};

use super::report::AckReport;
use super::state::output::Retransmit;
use super::state::queue::{mark, Entry};
use super::Sender;

impl Sender {
    /// Processes the acknowledgement in `segment`; `slow_path`: the kernel's header prediction would fail.
    pub(crate) fn on_ack(&mut self, segment: &Segment, slow_path: bool) {
        let Some(ack) = self.stream.position(segment.ack) else { return };
        if ack > self.stream.nxt || ack + MAX_WINDOW < self.stream.una {
            return;
        }
        self.output.due = true;
        self.output.retransmit = Retransmit::Nothing;
        if self.timer.probe_due {
            self.set_due_probe();
        }
        let mut report = AckReport { reordered_at: u64::MAX, ..AckReport::default() };
        report.data = segment.len > 0;
        report.echo_ms = segment.timestamps.then_some(segment.tsecr);
        report.ecn_echo = self.ecn.on && segment.flags.has(Flags::ECE);
        let prior_una = self.stream.una;
        if ack < prior_una {
            if segment.sack_count > 0 {
                self.take_sacks(segment, ack, prior_una, &mut report);
                self.fast_retransmit_alert(prior_una, 0, &mut report);
            }
            return;
        }
        let prior_highest_sack = self.highest_sack_or_una();
        let prior_packets = self.sk.packets_out;
        let prior_sacked = self.sk.sacked_out;
        let (prior_delivered, prior_lost) = (self.sk.delivered, self.sk.lost);
        let prior_in_flight = self.sk.packets_in_flight();
        self.rate = RateSample { prior_in_flight, rtt_us: -1, ..RateSample::default() };

        report.advanced = ack > prior_una;
        if report.advanced {
            self.sk.inet_conn.icsk_retransmits = 0;
            self.sk.bytes_acked += ack - prior_una;
            self.stream.una = ack;
        }
        report.window_update = self.peer_window.take(ack, segment.window, report.advanced);
        self.sync_sequences();
        if segment.sack_count > 0 && self.settings.sack {
            self.take_sacks(segment, ack, prior_una, &mut report);
        }
        if self.sk.has_in_ack_event() {
            let ecn = if report.ecn_echo { CA_ACK_ECE } else { 0 };
            let path = if slow_path || !report.advanced { CA_ACK_SLOWPATH } else { 0 };
            self.sk.in_ack_event(CA_ACK_WIN_UPDATE | path | ecn);
        }
        if prior_packets == 0 {
            self.on_ack_without_data_out(&report);
            return;
        }
        self.clean_queue(prior_una, prior_highest_sack, prior_sacked, &mut report);
        self.rack.update_window(self.rate.prior_delivered, self.sk.delivered);
        if self.tail_probe.outstanding.is_some() {
            self.on_probe_ack(ack, &report);
        }
        let dubious = !report.not_a_duplicate()
            || report.data_sacked
            || report.ecn_echo
            || report.dsack
            || self.state() != CaState::Open;
        if dubious {
            let duplicate = !(report.advanced || report.not_a_duplicate() || report.dsack);
            self.fast_retransmit_alert(prior_una, u32::from(duplicate), &mut report);
        }
        if report.set_timer {
            self.timer.probe_due = !dubious && self.may_probe() && !self.tail_probe.new_data_due;
            if !self.timer.probe_due {
                self.set_transmit_timer();
            }
        }
        let delivered = self.sk.delivered.wrapping_sub(prior_delivered);
        let lost = self.sk.lost.wrapping_sub(prior_lost);
        self.generate_rate_sample(delivered, lost, report.maybe_delayed);
        self.control_congestion(segment.ack, &report);
    }

    /// Processes an acknowledgement while nothing is out: only the window can have changed.
    pub(crate) fn on_window(&mut self, segment: &Segment) {
        self.timer.unanswered_probes = 0;
        if segment.window != self.peer_window.bytes {
            self.peer_window.take(self.stream.una, segment.window, false);
            self.on_ack_without_data_out(&AckReport::default());
            self.output.due = true;
        }
    }

    fn on_ack_without_data_out(&mut self, report: &AckReport) {
        self.timer.end_window_probes();
        if report.not_a_duplicate() && self.tail_probe.outstanding.is_some_and(|probe| self.stream.una >= probe.end) {
            self.tail_probe.outstanding = None;
        }
    }

    /// Removes what is cumulatively acknowledged, and measures.
    fn clean_queue(&mut self, prior_una: u64, prior_highest: u64, prior_sacked: u32, report: &mut AckReport) {
        let now_us = self.sk.tcp_mstamp;
        let (mut first_sent, mut last_sent) = (None, 0);
        let mut packets = 0;
        let mut reordered_at = report.reordered_at;
        while let Some(head) = self.queue.head() {
            if head.end() > self.stream.una {
                break;
            }
            let entry = *head;
            if entry.has(mark::RETRANS | mark::EVER_RETRANS) {
                if entry.has(mark::RETRANS) {
                    self.sk.retrans_out -= 1;
                }
                report.retransmitted_acked = true;
            } else if !entry.has(mark::SACKED) {
                last_sent = entry.sent_us;
                first_sent.get_or_insert(last_sent);
                reordered_at = reordered_at.min(entry.start);
                report.original_acked |= entry.end() <= self.recovery.point;
            }
            if entry.has(mark::SACKED) {
                self.sk.sacked_out -= 1;
            } else if self.settings.sack {
                self.sk.delivered += 1;
                if !is_spurious_retransmission(&entry, report.echo_ms) {
                    self.rack.advance(&self.sk, &entry, now_us);
                }
            }
            if entry.has(mark::LOST) {
                self.sk.lost_out -= 1;
            }
            self.sk.packets_out -= 1;
            packets += 1;
            self.count_delivery(&entry);
            if entry.has(mark::SYN) {
                report.syn_acked = true;
                self.recovery.undo.end_episode();
            } else {
                report.data_acked = true;
            }
            self.forget_head(&entry);
        }
        self.measure_rtt(first_sent, last_sent, packets, prior_una, prior_sacked, report);
        if report.acked() {
            report.set_timer = true;
            if !self.settings.sack {
                self.clean_without_sack(packets);
            } else if reordered_at < prior_highest {
                self.note_reordering(reordered_at);
            }
        }
        if self.sk.has_pkts_acked() && (packets > 0 || report.data_sacked) {
            let rtt_us = i32::try_from(self.rate.rtt_us).unwrap_or(i32::MAX);
            let in_flight = self.rate.prior_in_flight;
            self.sk.pkts_acked(&AckSample { pkts_acked: packets, rtt_us, in_flight });
        }
    }

    #[inline]
    fn forget_head(&mut self, entry: &Entry) {
        self.scoreboard.head.on_removed(self.queue.first(), entry.has(mark::SACKED));
        self.queue.pop();
    }

    fn measure_rtt(
        &mut self,
        first_sent: Option<u64>,
        last_sent: u64,
        packets: u32,
        prior_una: u64,
        prior_sacked: u32,
        report: &mut AckReport,
    ) {
        let now_us = self.sk.tcp_mstamp;
        let mut sample: Option<(u64, u64)> = None;
        if let (Some(first), false) = (first_sent, report.retransmitted_acked) {
            sample = Some((now_us - first, now_us - last_sent));
            let runt = packets == 1 && prior_sacked == 0 && self.stream.una - prior_una < u64::from(self.sk.mss_cache);
            report.maybe_delayed = runt && self.queue.is_empty();
        }
        let sacked = report.sacked_sent_us.map(|(first, last)| (now_us - first, now_us - last));
        if let Some((oldest, newest)) = sacked {
            sample = Some(sample.map_or((oldest, newest), |s| (s.0, newest)));
        }
        if sample.is_none() && report.acked() {
            let age = report.echo_ms.map(|echo| self.timestamp_ms().wrapping_sub(echo));
            // A timestamp is in ms: an age below one counts as one. A sender's own clock never runs backwards.
            sample = age.filter(|age| *age < i32::MAX as u32 / 1000).map(|age| {
                let us = u64::from(age.max(1)) * 1000;
                (us, us)
            });
        }
        let Some((oldest, newest)) = sample else { return };
        let newest_us = u32::try_from(newest).unwrap_or(u32::MAX);
        self.rate.rtt_us = newest as i64;
        self.rtt.latest = Some(Time::from_micros(newest));
        if !(report.maybe_delayed && newest_us > self.sk.rtt_min_us) {
            self.rtt.on_min_sample(&mut self.sk, self.now_ms, newest_us);
        }
        let oldest_us = u32::try_from(oldest).unwrap_or(u32::MAX);
        self.rtt.on_sample(&mut self.sk, oldest_us, self.stream.una, self.stream.nxt);
        self.timer.backoff = 0;
        // Not from data older than the head's last transmission: the timeout would move on for ever in recovery.
        if let (false, Some((sack_age, _)), Some(head)) = (report.acked(), sacked, self.queue.head()) {
            report.set_timer |= sack_age > now_us - head.sent_us;
        }
    }

    /// Rate sampling: an entry was delivered (Cheng, Cardwell: draft-cheng-iccrg-delivery-rate-estimation, 3.3).
    #[inline]
    pub(crate) fn count_delivery(&mut self, entry: &Entry) {
        if entry.delivered_us == 0 {
            return;
        }
        let rate = &mut self.rate;
        let end = self.stream.to_wire(entry.end());
        let newer = entry.sent_us > self.sk.first_tx_mstamp
            || (entry.sent_us == self.sk.first_tx_mstamp && (end.wrapping_sub(rate.last_end_seq) as i32) > 0);
        if rate.prior_delivered == 0 || newer {
            rate.prior_delivered = entry.delivered;
            rate.prior_mstamp = entry.delivered_us;
            rate.is_app_limited = entry.has(mark::APP_LIMITED);
            rate.is_retrans = entry.has(mark::EVER_RETRANS);
            rate.last_end_seq = end;
            self.sk.first_tx_mstamp = entry.sent_us;
            rate.interval_us = (entry.sent_us - entry.first_tx_us) as i64;
        }
    }

    fn generate_rate_sample(&mut self, delivered: u32, lost: u32, maybe_delayed: bool) {
        let sk = &mut self.sk;
        let rate = &mut self.rate;
        if sk.app_limited != 0 && (sk.delivered.wrapping_sub(sk.app_limited) as i32) > 0 {
            sk.app_limited = 0;
        }
        if delivered > 0 {
            sk.delivered_mstamp = sk.tcp_mstamp;
        }
        rate.acked_sacked = delivered;
        rate.losses = lost as i32;
        rate.is_ack_delayed = maybe_delayed;
        if rate.prior_mstamp == 0 {
            rate.delivered = -1;
            rate.interval_us = -1;
            return;
        }
        rate.delivered = sk.delivered.wrapping_sub(rate.prior_delivered) as i32;
        let (sending, acking) = (rate.interval_us, (sk.tcp_mstamp - rate.prior_mstamp) as i64);
        rate.interval_us = sending.max(acking);
        rate.snd_interval_us = sending as u32;
        rate.rcv_interval_us = acking as u32;
        // Shorter than a round trip cannot be: a retransmission took the original's acknowledgement.
        if rate.interval_us < i64::from(sk.rtt_min_us) {
            rate.interval_us = -1;
        }
    }

    fn control_congestion(&mut self, ack: u32, report: &AckReport) {
        if self.sk.has_cong_control() {
            let rate = self.rate;
            self.sk.cong_control(ack, report.kernel_flags(), &rate);
            return;
        }
        if self.in_cwnd_reduction() {
            self.reduce_cwnd(self.rate.acked_sacked, self.rate.losses as u32, report.advanced);
        } else if self.may_raise_cwnd(report) {
            let acked = self.rate.acked_sacked;
            self.sk.cong_avoid(ack, if self.settings.abc { acked } else { acked.min(1) });
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        if self.sk.in_slow_start() || self.is_paced() {
            self.update_pacing_rate();
        }
    }

    fn may_raise_cwnd(&self, report: &AckReport) -> bool {
        if self.sk.reordering > self.settings.reordering {
            report.forward_progress()
        } else {
            report.data_acked
        }
    }
}

/// A retransmission whose ACK echoes a time before it: the original arrived (Eifel, RFC 3522).
fn is_spurious_retransmission(entry: &Entry, echo_ms: Option<u32>) -> bool {
    let sent_ms = (entry.sent_us / 1000) as u32;
    entry.has(mark::EVER_RETRANS) && echo_ms.is_some_and(|echo| (echo.wrapping_sub(sent_ms) as i32) < 0)
}

/// Largest window: an ACK further behind is not of this connection.
const MAX_WINDOW: u64 = 1 << 30;
/// Linux's `enum tcp_ca_ack_event_flags`.
const CA_ACK_SLOWPATH: u32 = 1;
const CA_ACK_WIN_UPDATE: u32 = 2;
const CA_ACK_ECE: u32 = 4;
