//! Sending: retransmissions first, then new data, as far as the windows and the pacing allow; and the one timer.

use std::cmp::Reverse;

use perigee_cc::{pacing, CaEvent, CaState};
use perigee_units::Time;

use crate::queue::{mark, Entry};
use crate::segment::{Flags, Segment};
use crate::sender::{Retransmit, Sender, Timer};

impl Sender {
    /// The next segment to leave now, without the receiving half's fields; `None`: nothing until something happens.
    pub(crate) fn poll(&mut self) -> Option<Segment> {
        if !self.push {
            return None;
        }
        if let Some(segment) = self.poll_forced() {
            return Some(segment);
        }
        if self.retransmit == Retransmit::Lost && self.sk.lost_out > self.sk.retrans_out {
            if let Some(segment) = self.poll_retransmission() {
                return Some(segment);
            }
        }
        if let Some(segment) = self.poll_new_data() {
            return Some(segment);
        }
        self.finish_push();
        None
    }

    /// What leaves whatever the windows say: the head after a timeout, the tail as a probe, a window probe.
    fn poll_forced(&mut self) -> Option<Segment> {
        if std::mem::take(&mut self.window_probe) {
            let seq = self.to_wire(self.una).wrapping_sub(1);
            return Some(Segment { seq, flags: Flags(Flags::ACK), ..Segment::default() });
        }
        let number = self.forced.take().filter(|n| (self.queue.first()..self.queue.next()).contains(n))?;
        let segment = if self.queue.get(number).has(mark::LOST) || !self.established {
            self.retransmit_entry(number)
        } else {
            self.probe_with_entry(number)
        };
        if self.timer == Timer::Off {
            self.rearm_timeout();
        }
        Some(segment)
    }

    fn poll_retransmission(&mut self) -> Option<Segment> {
        loop {
            let Reverse(number) = *self.lost_entries.peek()?;
            if number < self.queue.first() {
                self.lost_entries.pop();
                continue;
            }
            let entry = self.queue.get(number);
            if !entry.has(mark::LOST) || entry.has(mark::SACKED | mark::RETRANS) {
                self.lost_entries.pop();
                continue;
            }
            let beyond_window = entry.start >= self.window_end && entry.start != self.una;
            if self.sk.packets_in_flight() >= self.sk.snd_cwnd || beyond_window || !self.pacing_allows(1) {
                return None;
            }
            self.lost_entries.pop();
            let segment = self.retransmit_entry(number);
            self.pacing.burst = 0;
            if self.in_cwnd_reduction() {
                self.prr.out += 1;
            }
            if number == self.queue.first() && !matches!(self.timer, Timer::Reordering(_)) {
                self.timer = Timer::Timeout(self.now + self.rto());
            }
            return Some(segment);
        }
    }

    fn retransmit_entry(&mut self, number: u64) -> Segment {
        self.note_send();
        let sent_us = self.departure_us();
        self.stamp(number, sent_us);
        let entry = self.queue.get_mut(number);
        if !entry.has(mark::RETRANS) {
            entry.marks |= mark::RETRANS | mark::EVER_RETRANS;
            self.sk.retrans_out += 1;
        }
        let entry = *entry;
        if self.rack_tracks_retransmissions() {
            self.rack.retransmissions.push_back((number, sent_us));
        }
        self.undo.on_retransmit(self.timestamp_ms());
        self.sk.total_retrans += 1;
        self.counters.retransmitted_packets += 1;
        self.count_sent(u64::from(entry.len));
        self.segment_of(&entry)
    }

    /// A tail loss probe repeats the last entry without deeming it lost.
    fn probe_with_entry(&mut self, number: u64) -> Segment {
        self.note_send();
        let sent_us = self.departure_us();
        self.stamp(number, sent_us);
        let entry = self.queue.get_mut(number);
        entry.marks |= mark::EVER_RETRANS;
        let entry = *entry;
        self.sk.total_retrans += 1;
        self.counters.retransmitted_packets += 1;
        self.count_sent(u64::from(entry.len));
        self.segment_of(&entry)
    }

    fn rack_tracks_retransmissions(&self) -> bool {
        self.config.rack && self.config.sack
    }

    fn poll_new_data(&mut self) -> Option<Segment> {
        if !self.has_new_data() {
            return None;
        }
        let forced = std::mem::take(&mut self.probe_new_data);
        let room = self.sk.snd_cwnd.saturating_sub(self.sk.packets_in_flight());
        if !self.window_allows_new_data() || (room == 0 && !forced) || !self.pacing_allows(room) {
            return None;
        }
        let len = if self.nxt == 0 { 0 } else { (self.written - self.nxt).min(u64::from(self.sk.mss_cache)) };
        let end = self.nxt + len;
        let mut marks = if self.nxt == 0 { mark::SYN } else { 0 };
        if self.fin_queued && end == self.written && self.nxt > 0 {
            marks |= mark::FIN;
        }
        if self.sk.app_limited != 0 {
            marks |= mark::APP_LIMITED;
        }
        self.note_send();
        let was_empty = self.sk.packets_out == 0;
        let number = self.queue.next();
        let sent_us = self.departure_us();
        if was_empty {
            self.sk.first_tx_mstamp = sent_us;
            self.sk.delivered_mstamp = sent_us;
        }
        let entry = Entry { start: self.nxt, len: len as u16, marks, ..Entry::default() };
        self.queue.push(entry);
        self.stamp(number, sent_us);
        self.nxt = entry.end();
        self.sk.snd_nxt = self.to_wire(self.nxt);
        self.sk.packets_out += 1;
        self.sent_in_push += 1;
        self.pacing.burst = self.pacing.burst.saturating_sub(1);
        if was_empty || matches!(self.timer, Timer::TailProbe(_)) || forced {
            self.rearm_timeout();
        }
        self.sent_probe |= forced;
        self.count_sent(len);
        Some(Segment { ect: self.ecn.on && len > 0, ..self.segment_of(&entry) })
    }

    pub(crate) fn has_new_data(&self) -> bool {
        self.nxt < self.written || (self.fin_queued && self.nxt == self.written) || self.nxt == 0
    }

    /// The peer's window and the send buffer hold one more segment.
    pub(crate) fn window_allows_new_data(&self) -> bool {
        if self.nxt == 0 {
            return true;
        }
        let end = self.nxt + (self.written - self.nxt.min(self.written)).min(u64::from(self.sk.mss_cache));
        end <= self.window_end && end - self.una <= self.config.send_buffer
    }

    /// Puts the sending time and the state for rate samples on an entry.
    #[inline]
    fn stamp(&mut self, number: u64, sent_us: u64) {
        let (first_tx_us, delivered_us) = (self.sk.first_tx_mstamp, self.sk.delivered_mstamp);
        let (delivered, limited) = (self.sk.delivered, self.sk.app_limited != 0);
        let entry = self.queue.get_mut(number);
        entry.sent_us = sent_us;
        entry.first_tx_us = first_tx_us;
        entry.delivered_us = delivered_us.max(1);
        entry.delivered = delivered;
        if limited {
            entry.marks |= mark::APP_LIMITED;
        } else {
            entry.marks &= !mark::APP_LIMITED;
        }
    }

    fn departure_us(&self) -> u64 {
        if self.is_paced() {
            self.pacing.departure_ns / 1000
        } else {
            self.sk.tcp_mstamp
        }
    }

    #[inline]
    fn note_send(&mut self) {
        if self.sk.packets_in_flight() == 0 && self.established {
            self.sk.cwnd_event(CaEvent::TxStart);
        }
        self.sk.lsndtime = self.jiffies();
        self.last_sent = self.now;
    }

    fn count_sent(&mut self, len: u64) {
        self.counters.sent_packets += 1;
        self.sk.bytes_sent += len;
        self.pacing.segments += 1;
    }

    #[inline]
    fn segment_of(&self, entry: &Entry) -> Segment {
        let mut flags = if entry.has(mark::SYN) { Flags::SYN } else { Flags::ACK };
        if entry.has(mark::FIN) {
            flags |= Flags::FIN;
        }
        if entry.end() >= self.written && entry.len > 0 {
            flags |= Flags::PSH;
        }
        Segment { seq: self.to_wire(entry.start), len: entry.len, flags: Flags(flags), ..Segment::default() }
    }

    // ---- pacing by TCP itself (as Linux without the fq queue) ----

    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.sk.inet_conn.sk.sk_pacing_status != pacing::NONE
    }

    /// Whether a segment may leave now; starts a burst of at most `room` segments where one is due.
    #[inline]
    fn pacing_allows(&mut self, room: u32) -> bool {
        if !self.is_paced() || self.pacing.burst > 0 {
            return true;
        }
        if self.sk.tcp_wstamp_ns > self.sk.tcp_clock_cache {
            self.pacing.blocked = true;
            return false;
        }
        self.begin_burst(room);
        true
    }

    /// A burst is what Linux would hand down as one large segment: about a millisecond at the pacing rate, and at
    /// most half the window. Its departure is charged as a whole, its payload alone (since Linux 4.20).
    fn begin_burst(&mut self, room: u32) {
        let mss = u64::from(self.sk.mss_cache);
        let sock = &self.sk.inet_conn.sk;
        let rate = sock.sk_pacing_rate;
        let largest = u64::from(sock.sk_gso_max_size) - 1 - MAX_TCP_HEADER;
        let autosize = (rate >> sock.sk_pacing_shift).min(largest) / mss;
        let least = self.sk.min_tso_segs().unwrap_or(MIN_TSO_SEGMENTS);
        let waiting = (self.written.saturating_sub(self.nxt)).div_ceil(mss).max(1);
        let half_window = u64::from((self.sk.snd_cwnd / 2).max(1));
        let segments = autosize.max(u64::from(least)).min(half_window).min(u64::from(room.max(1))).min(waiting);
        self.pacing.burst = segments as u32;
        let (prior, now) = (self.sk.tcp_wstamp_ns, self.sk.tcp_clock_cache);
        self.sk.tcp_wstamp_ns = prior.max(now);
        self.pacing.departure_ns = self.sk.tcp_wstamp_ns;
        // The first ten segments are not paced.
        if rate == 0 || rate == perigee_cc::UNLIMITED_PACING || self.pacing.segments < UNPACED_SEGMENTS {
            return;
        }
        let gap_ns = u128::from(segments * mss) * 1_000_000_000 / u128::from(rate);
        let gap_ns = u64::try_from(gap_ns).unwrap_or(u64::MAX);
        // A late start earns back half a gap at most.
        let credit = (self.sk.tcp_wstamp_ns - prior).min(gap_ns / 2);
        self.sk.tcp_wstamp_ns = self.sk.tcp_wstamp_ns.saturating_add(gap_ns - credit);
    }

    /// When the pacing lets the next segment go; [`Time::MAX`]: it does not hold anything back.
    #[inline]
    pub(crate) fn pacing_deadline(&self) -> Time {
        if self.pacing.blocked {
            Time::from_nanos(self.sk.tcp_wstamp_ns)
        } else {
            Time::MAX
        }
    }

    pub(crate) fn on_pacing_timer(&mut self) {
        self.pacing.blocked = false;
        self.push = true;
        if self.sk.lost_out > self.sk.retrans_out {
            self.retransmit = Retransmit::Lost;
        }
    }

    /// Linux's rate for windows: twice the window a round trip in early slow start, 1.2 times later.
    pub(crate) fn update_pacing_rate(&mut self) {
        if self.sk.srtt_us == 0 {
            return;
        }
        let rate = self.window_rate();
        let sock = &mut self.sk.inet_conn.sk;
        sock.sk_pacing_rate = rate.min(sock.sk_max_pacing_rate);
    }

    /// The rate at the start of a connection, where the algorithm does not set its own.
    pub(crate) fn update_pacing_rate_unless_owned(&mut self) {
        if !self.sk.has_cong_control() {
            self.update_pacing_rate();
        }
    }

    fn window_rate(&self) -> u64 {
        let percent = if self.sk.snd_cwnd < self.sk.snd_ssthresh / 2 { 200 } else { 120 };
        let packets = u64::from(self.sk.snd_cwnd.max(self.sk.packets_out));
        let bytes = u128::from(packets * u64::from(self.sk.mss_cache)) * percent / 100;
        u64::try_from(bytes * 8_000_000 / u128::from(self.sk.srtt_us.max(1))).unwrap_or(u64::MAX)
    }

    // ---- after sending ----

    fn finish_push(&mut self) {
        self.push = false;
        self.retransmit = Retransmit::Nothing;
        self.pacing.burst = 0;
        let sent = std::mem::take(&mut self.sent_in_push);
        if !self.established {
            return;
        }
        let window_full = self.sk.packets_in_flight() >= self.sk.snd_cwnd;
        if sent > 0 || window_full {
            self.validate_window(window_full);
        }
        if sent > 0 {
            if self.in_cwnd_reduction() {
                self.prr.out += sent;
            }
            if !std::mem::take(&mut self.sent_probe) {
                self.schedule_probe(false);
            }
            return;
        }
        let idle = self.sk.packets_out == 0 && self.timer == Timer::Off;
        if idle && self.has_new_data() && !self.window_allows_new_data() {
            self.timer = Timer::WindowProbe(self.now + self.rto());
        }
    }

    /// Congestion window validation (RFC 7661 in Linux's form): remember whether the window was the limit, and let
    /// it shrink towards what is used when it was not for a timeout's length.
    fn validate_window(&mut self, limited: bool) {
        let sk = &mut self.sk;
        let was_limited = sk.is_cwnd_limited != 0;
        if self.una >= self.usage_end || limited || (!was_limited && sk.packets_out > sk.max_packets_out) {
            sk.is_cwnd_limited = u8::from(limited);
            sk.max_packets_out = sk.packets_out;
            self.usage_end = self.nxt;
        }
        if self.is_cwnd_limited() {
            self.cwnd_used = 0;
            self.sk.snd_cwnd_stamp = self.jiffies();
            return;
        }
        self.cwnd_used = self.cwnd_used.max(self.sk.packets_out);
        let unused_ms = self.jiffies().wrapping_sub(self.sk.snd_cwnd_stamp);
        let long = u64::from(unused_ms) >= self.rto().as_millis();
        if self.config.slow_start_after_idle && long && !self.sk.has_cong_control() {
            self.shrink_unused_window();
        }
    }

    fn shrink_unused_window(&mut self) {
        if self.state() == CaState::Open {
            let used = self.cwnd_used.max(self.config.initial_window);
            if used < self.sk.snd_cwnd {
                self.sk.snd_ssthresh = self.current_ssthresh();
                self.sk.snd_cwnd = u32::midpoint(self.sk.snd_cwnd, used);
            }
            self.cwnd_used = 0;
        }
        self.sk.snd_cwnd_stamp = self.jiffies();
    }

    /// The application wrote: mark the bubble for rate samples, and restart a window that has gone stale.
    pub(crate) fn on_write(&mut self, bytes: u64) {
        let nearly_empty = self.written.saturating_sub(self.nxt) < u64::from(self.sk.mss_cache);
        let in_flight = self.sk.packets_in_flight();
        if nearly_empty && in_flight < self.sk.snd_cwnd && self.sk.lost_out <= self.sk.retrans_out {
            self.sk.app_limited = (self.sk.delivered + in_flight).max(1);
        }
        if self.established && self.sk.packets_out == 0 && self.config.slow_start_after_idle {
            self.restart_after_idle();
        }
        self.written = self.written.saturating_add(bytes);
        self.sk.write_seq = self.to_wire(self.written);
        self.push = true;
    }

    /// RFC 2861, section 2: halve the window for each timeout of silence, down to the initial one.
    fn restart_after_idle(&mut self) {
        let rto = self.rto();
        let mut idle = self.now - self.last_sent;
        if self.sk.has_cong_control() || idle <= rto {
            return;
        }
        self.sk.cwnd_event(CaEvent::CwndRestart);
        self.sk.snd_ssthresh = self.current_ssthresh();
        let restart = self.config.initial_window.min(self.sk.snd_cwnd);
        let mut cwnd = self.sk.snd_cwnd;
        while idle > rto && cwnd > restart {
            idle -= rto;
            cwnd >>= 1;
        }
        self.sk.snd_cwnd = cwnd.max(restart);
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.cwnd_used = 0;
    }

    // ---- the timer ----

    pub(crate) fn timeout_of_head(&self) -> Time {
        self.queue.head().map_or(self.now, |head| Time::from_micros(head.sent_us)) + self.rto()
    }

    /// After progress: a probe timer where that applies, otherwise the timeout.
    #[inline]
    pub(crate) fn set_transmit_timer(&mut self) {
        if !self.schedule_probe(true) {
            self.rearm_timeout();
        }
    }

    /// The timeout from now, or from the head's sending where another timer stood in its place.
    pub(crate) fn rearm_timeout(&mut self) {
        self.timer = if self.queue.is_empty() {
            Timer::Off
        } else if matches!(self.timer, Timer::Reordering(_) | Timer::TailProbe(_)) {
            Timer::Timeout(self.timeout_of_head().max(self.now + Time::from_micros(1)))
        } else {
            Timer::Timeout(self.now + self.rto())
        };
    }

    pub(crate) fn on_timer(&mut self) {
        match self.timer {
            Timer::Off => {}
            Timer::Timeout(_) => self.on_timeout(),
            Timer::TailProbe(_) => self.on_probe_timer(),
            Timer::Reordering(_) => self.on_reordering_timer(),
            Timer::WindowProbe(_) if self.unanswered_probes >= self.config.window_probes => self.give_up(),
            Timer::WindowProbe(_) => {
                self.unanswered_probes += 1;
                self.backoff += 1;
                self.window_probe = true;
                self.timer = Timer::WindowProbe(self.now + self.rto());
            }
        }
        self.push = true;
    }
}

/// Linux's `tcp_min_tso_segs`.
const MIN_TSO_SEGMENTS: u32 = 2;
const UNPACED_SEGMENTS: u64 = 10;
/// Room Linux keeps for headers of one large segment, bytes.
const MAX_TCP_HEADER: u64 = 320;
