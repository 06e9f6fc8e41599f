//! Processes an acknowledgement, in the order of Linux's `tcp_ack`.

use perigee_cc::{AckSample, CaState, RateSample};
use perigee_units::Time;

use crate::segment::{Flags, Segment};

use super::rate;
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
        let mut report = AckReport { reordered_at: u64::MAX, ..AckReport::NOTHING };
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
        report.window_update = self.take_window(ack, segment.window, report.advanced);
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
            self.set_timer_after_ack(dubious);
        }
        let delivered = self.sk.delivered.wrapping_sub(prior_delivered);
        let lost = self.sk.lost.wrapping_sub(prior_lost);
        rate::note_delivery(&mut self.sk, delivered);
        rate::complete(&mut self.rate, &self.sk, delivered, lost, report.maybe_delayed);
        self.control_congestion(segment.ack, &report);
    }

    /// Processes an acknowledgement while nothing is out: only the window can have changed.
    pub(crate) fn on_window(&mut self, segment: &Segment) {
        self.timer.unanswered_probes = 0;
        if segment.window != self.peer_window.bytes {
            self.take_window(self.stream.una, segment.window, false);
            self.on_ack_without_data_out(&AckReport::NOTHING);
            self.output.due = true;
        }
    }

    /// Takes the window that a segment with this acknowledgement advertises, which may let segments grow; whether that is news.
    #[inline]
    pub(super) fn take_window(&mut self, ack: u64, bytes: u32, advanced: bool) -> bool {
        let is_update = self.peer_window.take(ack, bytes, advanced);
        if self.has_small_segments() || !self.established {
            let header = TCP_HEADER + self.settings.option_bytes();
            self.sk.mss_cache = self.peer_window.bounded_segment(self.sk.advmss, header);
        }
        is_update
    }

    /// Whether the peer's window bounds the segments: they are smaller than agreed.
    #[inline]
    pub(super) fn has_small_segments(&self) -> bool {
        self.sk.mss_cache < self.sk.advmss
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
        self.rate.rtt_us = newest as i64;
        self.on_rtt_sample(oldest, newest, report.maybe_delayed);
        // Not from data older than the head's last transmission: the timeout would move on for ever in recovery.
        if let (false, Some((sack_age, _)), Some(head)) = (report.acked(), sacked, self.queue.head()) {
            report.set_timer |= sack_age > now_us - head.sent_us;
        }
    }

    /// Takes the round trips of the oldest and of the newest segment acknowledged, us.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub(super) fn on_rtt_sample(&mut self, oldest_us: u64, newest_us: u64, maybe_delayed: bool) {
        self.rtt.latest = Some(Time::from_nanos(newest_us * 1000));
        let newest_us = u32::try_from(newest_us).unwrap_or(u32::MAX);
        if !(maybe_delayed && newest_us > self.sk.rtt_min_us) {
            self.rtt.on_min_sample(&mut self.sk, self.now_ms, newest_us);
        }
        let oldest_us = u32::try_from(oldest_us).unwrap_or(u32::MAX);
        self.rtt.on_sample(&mut self.sk, oldest_us, self.stream.una, self.stream.nxt);
        self.timer.backoff = 0;
    }

    /// An entry was delivered.
    #[inline]
    pub(crate) fn count_delivery(&mut self, entry: &Entry) {
        let end = self.stream.to_wire(entry.end());
        rate::count_delivery(&mut self.rate, &mut self.sk, entry, end);
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
            self.raise_cwnd(ack, self.rate.acked_sacked);
        }
        self.follow_cwnd();
    }

    /// Lets the algorithm raise the window after so many packets were acknowledged.
    #[inline]
    pub(super) fn raise_cwnd(&mut self, ack: u32, acked: u32) {
        self.sk.cong_avoid(ack, if self.settings.abc { acked } else { acked.min(1) });
        self.sk.snd_cwnd_stamp = self.jiffies();
    }

    /// The pacing rate follows the window where something reads it.
    #[inline]
    pub(super) fn follow_cwnd(&mut self) {
        if self.sk.in_slow_start() || self.is_paced() || self.settings.segmentation_offload {
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
pub(super) const CA_ACK_SLOWPATH: u32 = 1;
pub(super) const CA_ACK_WIN_UPDATE: u32 = 2;
const CA_ACK_ECE: u32 = 4;
/// Header of a segment without options, bytes.
const TCP_HEADER: u32 = 20;
