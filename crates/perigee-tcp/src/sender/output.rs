//! Output: forced segments first, then retransmissions, then new data, as far as the windows and pacing allow.

use perigee_cc::CaEvent;

use crate::segment::{Flags, Header, Segment};

use super::state::output::Retransmit;
use super::state::queue::{mark, QueueEntry};
use super::state::timer::Timer;
use super::Sender;

impl Sender {
    /// Writes the next segment to send into `segment`, without the receiving half's fields; returns `false` if nothing may leave until
    /// another event.
    #[inline(always)]
    pub(crate) fn poll(&mut self, segment: &mut Segment) -> bool {
        if !self.output.due {
            return false;
        }
        if self.has_more_than_new_data()
            && let Some(again) = self.poll_before_new_data()
        {
            *segment = again;
            return true;
        }
        if self.stream.has_new_data() && self.poll_new_data(segment) {
            return true;
        }
        self.end_turn();
        false
    }

    /// Whether anything other than new data may leave.
    #[inline]
    fn has_more_than_new_data(&self) -> bool {
        !self.output.is_unforced() || self.output.retransmit == Retransmit::Lost
    }

    /// Forced segments and retransmissions, which precede new data.
    #[inline(never)]
    fn poll_before_new_data(&mut self) -> Option<Segment> {
        if !self.output.is_unforced()
            && let Some(segment) = self.poll_forced()
        {
            return Some(segment);
        }
        if self.output.retransmit == Retransmit::Lost && self.sk.lost_out > self.sk.retrans_out {
            return self.poll_retransmission();
        }
        None
    }

    /// Segments that ignore the windows: the head after a timeout, a tail loss probe, a window probe.
    fn poll_forced(&mut self) -> Option<Segment> {
        if std::mem::take(&mut self.output.window_probe) {
            return Some(self.probe_window());
        }
        let number = self.output.forced.take().filter(|n| (self.queue.first()..self.queue.next()).contains(n))?;
        let segment = if self.queue.get(number).has(mark::LOST) || !self.established {
            self.retransmit_entry(number)
        } else {
            self.probe_with_entry(number)
        };
        if self.timer.armed == Timer::Off {
            self.rearm_timeout();
        }
        Some(segment)
    }

    /// A window probe carries what the window still allows, although less than a segment; if that is nothing, it is an empty segment that
    /// must be answered (Linux's `tcp_write_wakeup`).
    fn probe_window(&mut self) -> Segment {
        let left = self.peer_window.end.saturating_sub(self.stream.nxt);
        let len = left.min(self.stream.next_payload(self.sk.mss_cache));
        if len == 0 || self.sk.packets_out > 0 {
            let seq = self.stream.to_wire(self.stream.una).wrapping_sub(1);
            return Header { seq, flags: Flags(Flags::ACK), ..Header::default() }.into();
        }
        self.timer.end_window_probes();
        self.depart_unpaced();
        let entry = self.send_new(len, false);
        self.new_segment(&entry)
    }

    /// The lowest lost segment, if the windows and pacing allow it.
    fn poll_retransmission(&mut self) -> Option<Segment> {
        let number = self.lost.first(&self.queue)?;
        let start = self.queue.get(number).start;
        let beyond_window = start >= self.peer_window.end && start != self.stream.una;
        if self.sk.packets_in_flight() >= self.sk.snd_cwnd || beyond_window || !self.pacing_allows(1) {
            return None;
        }
        self.lost.pop();
        let segment = self.retransmit_entry(number);
        self.pacing.end_burst();
        if self.in_cwnd_reduction() {
            self.recovery.prr.on_sent(1);
        }
        let keeps_timer = self.recovery.keeps_timer() || matches!(self.timer.armed, Timer::Reordering(_));
        if number == self.queue.first() && !keeps_timer {
            self.timer.armed = Timer::Timeout(self.after(self.rto()));
        }
        Some(segment)
    }

    fn retransmit_entry(&mut self, number: u64) -> Segment {
        let sent_us = self.begin_send(number);
        let entry = self.queue.get_mut(number);
        if !entry.has(mark::RETRANS) {
            entry.marks |= mark::RETRANS | mark::EVER_RETRANS;
            self.sk.retrans_out += 1;
        }
        if self.rack_is_used() {
            self.rack.on_retransmit(number, sent_us);
        }
        self.recovery.undo.on_retransmit(self.now_ms);
        self.repeated(number)
    }

    /// A tail loss probe retransmits the last entry without marking it lost.
    fn probe_with_entry(&mut self, number: u64) -> Segment {
        self.begin_send(number);
        self.queue.get_mut(number).marks |= mark::EVER_RETRANS;
        self.repeated(number)
    }

    fn begin_send(&mut self, number: u64) -> u64 {
        self.note_send();
        let sent_us = self.departure_us();
        self.stamp(number, sent_us);
        sent_us
    }

    /// Accounts for the retransmission of an entry.
    fn repeated(&mut self, number: u64) -> Segment {
        let entry = *self.queue.get(number);
        self.queue.note_retransmission(number);
        self.sk.total_retrans += 1;
        self.sk.bytes_sent += u64::from(entry.len);
        let has_data = u64::from(entry.len > 0);
        self.counters.retransmitted_packets += has_data;
        self.counters.sent_packets += has_data;
        self.pacing.segments += 1;
        self.segment_of(&entry)
    }

    #[inline]
    fn poll_new_data(&mut self, segment: &mut Segment) -> bool {
        let forced = std::mem::take(&mut self.tail_probe.new_data_due);
        let room = self.sk.snd_cwnd.saturating_sub(self.sk.packets_in_flight());
        if room == 0 && !forced {
            return false;
        }
        let (entry, is_pushed) = if self.pacing.burst == 0 && self.pacing.tail > 0 {
            (self.send_tail(), false)
        } else if self.window_allows_new_data() && self.pacing_allows(room) {
            let (_, is_pushed) = self.pacing.take_segments(1);
            (self.send_new(self.stream.next_payload(self.sk.mss_cache), forced), is_pushed)
        } else {
            return false;
        };
        *segment = self.new_segment(&entry);
        if is_pushed {
            segment.flags.0 |= Flags::PSH;
        }
        true
    }

    /// Sends the smaller segment that fills the peer's window.
    fn send_tail(&mut self) -> QueueEntry {
        let len = std::mem::take(&mut self.pacing.tail);
        let entry = self.send_new(u64::from(len), false);
        if !self.settings.train_refill {
            self.stream.split(self.largest_train() * u64::from(self.sk.mss_cache));
        }
        entry
    }

    /// Sends `len` payload bytes for the first time; with 0, a SYN or a FIN.
    #[inline]
    fn send_new(&mut self, len: u64, forced: bool) -> QueueEntry {
        self.note_send();
        let sent_us = self.departure_us();
        let start = self.stream.nxt;
        if len > 0 && len < u64::from(self.sk.mss_cache) {
            self.stream.small_end = start + len;
        }
        let mut marks = if start == 0 { mark::SYN } else { 0 };
        if self.stream.ends_with_fin(start, len) {
            marks |= mark::FIN;
        }
        let sk = &mut *self.sk;
        if sk.app_limited != 0 {
            marks |= mark::APP_LIMITED;
        }
        let was_empty = sk.packets_out == 0;
        if was_empty {
            sk.first_tx_mstamp = sent_us;
            sk.delivered_mstamp = sent_us;
        }
        let (first_tx_us, delivered_us, delivered) = (sk.first_tx_mstamp, sk.delivered_mstamp.max(1), sk.delivered);
        let entry = QueueEntry { start, sent_us, first_tx_us, delivered_us, delivered, len: len as u16, marks };
        sk.packets_out += 1;
        sk.bytes_sent += len;
        sk.snd_nxt = self.stream.to_wire(entry.end());
        self.stream.nxt = entry.end();
        self.queue.push(entry);
        self.output.sent += 1;
        self.tail_probe.sent |= forced;
        self.counters.sent_packets += u64::from(len > 0);
        self.pacing.segments += 1;
        if was_empty || forced {
            self.rearm_timeout();
        }
        entry
    }

    /// The segment of an entry sent for the first time.
    #[inline]
    fn new_segment(&self, entry: &QueueEntry) -> Segment {
        Segment { ect: self.ecn.on && entry.len > 0, ..self.segment_of(entry) }
    }

    /// Whether the peer's window and the send buffer have space for one more segment.
    pub(super) fn window_allows_new_data(&mut self) -> bool {
        if self.stream.nxt == 0 {
            return true;
        }
        let payload = self.stream.next_payload(self.sk.mss_cache);
        let end = self.stream.nxt + payload;
        if end > self.peer_window.end || (self.settings.nagle && payload > 0 && self.awaits_ack(payload)) {
            return false;
        }
        if end > self.buffer.end {
            self.wake_writer();
        }
        end <= self.buffer.end
    }

    /// Whether the last `payload` bytes written are less than a full segment and wait for an acknowledgement (Nagle's algorithm).
    pub(super) fn awaits_ack(&self, payload: u64) -> bool {
        payload < u64::from(self.sk.mss_cache)
            && self.stream.nxt + payload == self.stream.written
            && self.sk.packets_out > 0
    }

    /// End of the new data that the peer's window and the send buffer allow.
    #[inline]
    pub(super) fn send_limit(&self) -> u64 {
        self.peer_window.end.min(self.buffer.end)
    }

    /// Records the send time and the state for rate samples in an entry.
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

    #[inline]
    pub(super) fn departure_us(&self) -> u64 {
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
        self.sk.lsndtime = self.now_ms;
        self.usage.last_sent = self.now;
    }

    #[inline]
    fn segment_of(&self, entry: &QueueEntry) -> Segment {
        let mut flags = if entry.has(mark::SYN) { Flags::SYN } else { Flags::ACK };
        if entry.has(mark::FIN) {
            flags |= Flags::FIN;
        }
        if entry.end() >= self.stream.written && entry.len > 0 {
            flags |= Flags::PSH;
        }
        let seq = self.stream.to_wire(entry.start);
        Header { seq, len: entry.len, flags: Flags(flags), ..Header::default() }.into()
    }

    #[inline(never)]
    pub(crate) fn end_turn(&mut self) {
        self.output.due = false;
        self.stream.fin_apart = false;
        self.output.retransmit = Retransmit::Nothing;
        self.pacing.end_burst();
        let sent = std::mem::take(&mut self.output.sent);
        if !self.established {
            return;
        }
        let is_probe_due = std::mem::take(&mut self.timer.probe_due);
        if is_probe_due && sent == 0 {
            self.schedule_probe(true);
        }
        let held_back = std::mem::take(&mut self.output.window_limited);
        let window_full = held_back || self.sk.packets_in_flight() >= self.sk.snd_cwnd;
        if sent > 0 || window_full {
            self.validate_window(window_full);
        }
        self.note_limit(window_full);
        if sent > 0 {
            if self.in_cwnd_reduction() {
                self.recovery.prr.on_sent(sent);
            }
            let is_probe = std::mem::take(&mut self.tail_probe.sent);
            // A probe timer refers to older data: after new data, it is set again or gives way to the timeout.
            if (is_probe || !self.schedule_probe(false)) && matches!(self.timer.armed, Timer::TailProbe(_)) {
                self.rearm_timeout();
            }
            return;
        }
        let idle = self.sk.packets_out == 0 && self.timer.armed == Timer::Off;
        if idle && self.stream.has_new_data() && !self.window_allows_new_data() {
            self.timer.armed = Timer::WindowProbe(self.after(self.rto()));
        }
    }
}
