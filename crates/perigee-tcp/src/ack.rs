//! An acknowledgement arrives: the order of work is Linux's `tcp_ack`.

use perigee_cc::{AckSample, CaState, RateSample};
use perigee_units::Time;

use crate::queue::{mark, Entry};
use crate::segment::{Flags, Segment};
use crate::sender::{Retransmit, Sender, Timer};

/// What one acknowledgement told us.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckNews {
    /// SND.UNA moved.
    pub(crate) advanced: bool,
    /// The segment carried data.
    pub(crate) data: bool,
    pub(crate) window_update: bool,
    /// Data (not SYN) was cumulatively acknowledged.
    pub(crate) data_acked: bool,
    pub(crate) syn_acked: bool,
    pub(crate) data_sacked: bool,
    pub(crate) dsack: bool,
    /// The duplicate reported is the tail loss probe.
    pub(crate) dsack_of_probe: bool,
    pub(crate) dsack_segments: u32,
    pub(crate) ecn_echo: bool,
    /// Data sent once and before recovery began was (S)ACKed.
    pub(crate) original_acked: bool,
    pub(crate) retransmitted_acked: bool,
    /// A retransmission was found lost.
    pub(crate) lost_retransmission: bool,
    pub(crate) set_timer: bool,
    pub(crate) maybe_delayed: bool,
    /// Send times of the first and last newly SACKed original segments, us.
    pub(crate) sacked_sent_us: Option<(u64, u64)>,
    /// Echoed timestamp, ms.
    pub(crate) echo_ms: Option<u32>,
    /// Lowest original segment that arrived after a higher one.
    pub(crate) reordered_at: u64,
}

impl AckNews {
    fn acked(&self) -> bool {
        self.data_acked || self.syn_acked
    }

    fn forward_progress(&self) -> bool {
        self.acked() || self.data_sacked
    }

    pub(crate) fn not_a_duplicate(&self) -> bool {
        self.data || self.window_update || self.acked()
    }

    /// The ACK of `tcp_in_ack_event` and `cong_control`: Linux's flag bits that algorithms may test.
    fn kernel_flags(&self) -> u32 {
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

impl Sender {
    /// Takes the acknowledgement in `segment`; `slow_path` as the kernel's header prediction would tell.
    pub(crate) fn on_ack(&mut self, segment: &Segment, slow_path: bool) {
        let Some(ack) = self.position(segment.ack) else { return };
        if ack > self.nxt || ack + MAX_WINDOW < self.una {
            return;
        }
        self.push = true;
        self.retransmit = Retransmit::Nothing;
        let mut news = AckNews { reordered_at: u64::MAX, ..AckNews::default() };
        news.data = segment.len > 0;
        news.echo_ms = segment.timestamps.then_some(segment.tsecr);
        self.last_echo_ms = news.echo_ms;
        news.ecn_echo = self.ecn.on && segment.flags.has(Flags::ECE);
        let prior_una = self.una;
        if ack < prior_una {
            if segment.sack_count > 0 {
                self.take_sacks(segment, ack, prior_una, &mut news);
                self.fast_retransmit_alert(prior_una, 0, &mut news);
            }
            return;
        }
        let prior_highest_sack = self.highest_sack_or_una();
        let prior_packets = self.sk.packets_out;
        let prior_sacked = self.sk.sacked_out;
        let (prior_delivered, prior_lost) = (self.sk.delivered, self.sk.lost);
        let prior_in_flight = self.sk.packets_in_flight();
        self.rate = RateSample { prior_in_flight, rtt_us: -1, ..RateSample::default() };

        news.advanced = ack > prior_una;
        if news.advanced {
            self.sk.inet_conn.icsk_retransmits = 0;
            self.sk.bytes_acked += ack - prior_una;
            self.una = ack;
        }
        self.take_window(segment, ack, &mut news);
        self.sync_sequences();
        if segment.sack_count > 0 && self.config.sack {
            self.take_sacks(segment, ack, prior_una, &mut news);
        }
        if self.sk.has_in_ack_event() {
            let ecn = if news.ecn_echo { CA_ACK_ECE } else { 0 };
            let path = if slow_path || !news.advanced { CA_ACK_SLOWPATH } else { 0 };
            self.sk.in_ack_event(CA_ACK_WIN_UPDATE | path | ecn);
        }
        if prior_packets == 0 {
            self.on_ack_without_data_out(&news);
            return;
        }
        self.clean_queue(prior_una, prior_highest_sack, prior_sacked, &mut news);
        self.rack.update_window(self.rate.prior_delivered, self.sk.delivered);
        if self.probe.is_some() {
            self.on_probe_ack(ack, &news);
        }
        let dubious =
            !news.not_a_duplicate() || news.data_sacked || news.ecn_echo || news.dsack || self.state() != CaState::Open;
        if dubious {
            let duplicate = !(news.advanced || news.not_a_duplicate() || news.dsack);
            self.fast_retransmit_alert(prior_una, u32::from(duplicate), &mut news);
        }
        if news.set_timer {
            self.set_transmit_timer();
        }
        let delivered = self.sk.delivered.wrapping_sub(prior_delivered);
        let lost = self.sk.lost.wrapping_sub(prior_lost);
        self.generate_rate_sample(delivered, lost, news.maybe_delayed);
        self.control_congestion(segment.ack, &news);
    }

    /// Nothing of ours is out: only the window can be news.
    pub(crate) fn on_window(&mut self, segment: &Segment) {
        self.unanswered_probes = 0;
        if segment.window != self.peer_window {
            self.take_window(segment, self.una, &mut AckNews::default());
            self.on_ack_without_data_out(&AckNews::default());
            self.push = true;
        }
    }

    fn on_ack_without_data_out(&mut self, news: &AckNews) {
        if matches!(self.timer, Timer::WindowProbe(_)) {
            self.timer = Timer::Off;
            self.backoff = 0;
            self.unanswered_probes = 0;
        }
        if let (Some((end, _)), true) = (self.probe, news.not_a_duplicate()) {
            if self.una >= end {
                self.probe = None;
            }
        }
    }

    fn take_window(&mut self, segment: &Segment, ack: u64, news: &mut AckNews) {
        let end = ack + u64::from(segment.window);
        news.window_update = news.advanced || end > self.window_end;
        if news.window_update || segment.window > self.peer_window {
            self.window_end = self.window_end.max(end);
            self.peer_window = segment.window;
        }
    }

    /// Removes what is cumulatively acknowledged, and measures.
    fn clean_queue(&mut self, prior_una: u64, prior_highest: u64, prior_sacked: u32, news: &mut AckNews) {
        let now_us = self.sk.tcp_mstamp;
        let (mut first_sent, mut last_sent) = (None, 0);
        let mut packets = 0;
        let mut reordered_at = news.reordered_at;
        while let Some(head) = self.queue.head() {
            if head.end() > self.una {
                break;
            }
            let entry = *head;
            if entry.has(mark::RETRANS | mark::EVER_RETRANS) {
                if entry.has(mark::RETRANS) {
                    self.sk.retrans_out -= 1;
                }
                news.retransmitted_acked = true;
            } else if !entry.has(mark::SACKED) {
                last_sent = entry.sent_us;
                first_sent.get_or_insert(last_sent);
                reordered_at = reordered_at.min(entry.start);
                news.original_acked |= entry.end() <= self.high_seq;
            }
            if entry.has(mark::SACKED) {
                self.sk.sacked_out -= 1;
            } else if self.config.sack {
                self.sk.delivered += 1;
                if !is_spurious_retransmission(&entry, news.echo_ms) {
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
                news.syn_acked = true;
                self.undo.first_retransmit_ms = None;
            } else {
                news.data_acked = true;
            }
            self.forget_head(&entry);
        }
        self.measure_rtt(first_sent, last_sent, packets, prior_una, prior_sacked, news);
        if news.acked() {
            news.set_timer = true;
            if !self.config.sack {
                self.clean_without_sack(packets, news);
            } else if reordered_at < prior_highest {
                self.note_reordering(reordered_at);
            }
        }
        if self.sk.has_pkts_acked() && (packets > 0 || news.data_sacked) {
            let rtt_us = i32::try_from(self.rate.rtt_us).unwrap_or(i32::MAX);
            let in_flight = self.rate.prior_in_flight;
            self.sk.pkts_acked(&AckSample { pkts_acked: packets, rtt_us, in_flight });
        }
    }

    #[inline]
    fn forget_head(&mut self, entry: &Entry) {
        let (cursor, sacked) = &mut self.head_lost;
        if self.queue.first() < *cursor {
            *sacked -= u32::from(entry.has(mark::SACKED));
        }
        self.queue.pop();
    }

    fn measure_rtt(
        &mut self,
        first_sent: Option<u64>,
        last_sent: u64,
        packets: u32,
        prior_una: u64,
        prior_sacked: u32,
        news: &mut AckNews,
    ) {
        let now_us = self.sk.tcp_mstamp;
        let mut sample: Option<(u64, u64)> = None;
        if let (Some(first), false) = (first_sent, news.retransmitted_acked) {
            sample = Some((now_us - first, now_us - last_sent));
            let runt = packets == 1 && prior_sacked == 0 && self.una - prior_una < u64::from(self.sk.mss_cache);
            news.maybe_delayed = runt && self.queue.is_empty();
        }
        let sacked = news.sacked_sent_us.map(|(first, last)| (now_us - first, now_us - last));
        if let Some((oldest, newest)) = sacked {
            sample = Some(sample.map_or((oldest, newest), |s| (s.0, newest)));
        }
        if sample.is_none() && news.acked() {
            let age = news.echo_ms.map(|echo| self.timestamp_ms().wrapping_sub(echo));
            // A timestamp is in ms: an age below one counts as one. A sender's own clock never runs backwards.
            sample = age.filter(|age| *age < i32::MAX as u32 / 1000).map(|age| {
                let us = u64::from(age.max(1)) * 1000;
                (us, us)
            });
        }
        let Some((oldest, newest)) = sample else { return };
        let newest_us = u32::try_from(newest).unwrap_or(u32::MAX);
        self.rate.rtt_us = newest as i64;
        self.last_rtt = Some(Time::from_micros(newest));
        if !(news.maybe_delayed && newest_us > self.sk.rtt_min_us) {
            self.rtt.on_min_sample(&mut self.sk, newest_us);
        }
        let oldest_us = u32::try_from(oldest).unwrap_or(u32::MAX);
        self.rtt.on_sample(&mut self.sk, oldest_us, self.una, self.nxt);
        self.backoff = 0;
        // Not from data older than the head's last transmission: the timeout would move on for ever in recovery.
        if let (false, Some((sack_age, _)), Some(head)) = (news.acked(), sacked, self.queue.head()) {
            news.set_timer |= sack_age > now_us - head.sent_us;
        }
    }

    /// Rate sampling: an entry was delivered (Cheng, Cardwell: draft-cheng-iccrg-delivery-rate-estimation, 3.3).
    #[inline]
    pub(crate) fn count_delivery(&mut self, entry: &Entry) {
        if entry.delivered_us == 0 {
            return;
        }
        let rate = &mut self.rate;
        let end = self.iss.wrapping_add(entry.end() as u32);
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

    fn control_congestion(&mut self, ack: u32, news: &AckNews) {
        if self.sk.has_cong_control() {
            let rate = self.rate;
            self.sk.cong_control(ack, news.kernel_flags(), &rate);
            return;
        }
        if self.in_cwnd_reduction() {
            self.reduce_cwnd(self.rate.acked_sacked, self.rate.losses as u32, news.advanced);
        } else if self.may_raise_cwnd(news) {
            let acked = self.rate.acked_sacked;
            self.sk.cong_avoid(ack, acked);
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        if self.sk.in_slow_start() || self.is_paced() {
            self.update_pacing_rate();
        }
    }

    fn may_raise_cwnd(&self, news: &AckNews) -> bool {
        if self.sk.reordering > self.config.reordering {
            news.forward_progress()
        } else {
            news.data_acked
        }
    }
}

/// A retransmission whose ACK echoes a time before it: the original arrived (Eifel, RFC 3522).
fn is_spurious_retransmission(entry: &Entry, echo_ms: Option<u32>) -> bool {
    let sent_ms = (entry.sent_us / 1000) as u32;
    entry.has(mark::EVER_RETRANS) && echo_ms.is_some_and(|echo| (echo.wrapping_sub(sent_ms) as i32) < 0)
}

/// Largest window ever: older ACKs are not ours.
const MAX_WINDOW: u64 = 1 << 30;
/// Linux's `enum tcp_ca_ack_event_flags`.
const CA_ACK_SLOWPATH: u32 = 1;
const CA_ACK_WIN_UPDATE: u32 = 2;
const CA_ACK_ECE: u32 = 4;
