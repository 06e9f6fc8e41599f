//! Sends new data in trains, and defers the timer of their turns.

use crate::segment::{Header, Train};

use super::state::queue::{mark, QueueEntry};
use super::state::timer::Deferred;
use super::Sender;

impl Sender {
    /// Sends new data as far as the windows and pacing allow, in segments with what `header` gives. Requires that the
    /// sender [`Sender::is_undisturbed`] with data in flight, or [`Sender::sends_new_data_alone`]. Of the packets out,
    /// `not_in_flight` are not in flight: 0 in the first case. Returns whether the turn is complete and must be ended;
    /// otherwise [`Sender::poll`] continues, with the segment that carries the FIN, for instance.
    #[inline(always)]
    pub(crate) fn send_batch(
        &mut self,
        mut header: impl FnMut(&Self) -> Header,
        not_in_flight: u32,
        send: &mut impl FnMut(Train),
    ) -> bool {
        let mss = u64::from(self.sk.mss_cache);
        let (window, marks) = (self.send_limit(), if self.sk.app_limited > 0 { mark::APP_LIMITED } else { 0 });
        let limit = self.stream.split_or(window);
        let (mut like, mut len, mut is_last) = (None, mss as u16, false);
        let is_all = loop {
            let mut end = self.stream.nxt + mss;
            if end >= self.stream.written {
                end = self.stream.written;
                if self.stream.fin_queued || self.stream.nxt >= end {
                    // The last segment takes all remaining data.
                    if u64::from(len) < mss {
                        self.stream.small_end = self.stream.nxt;
                    }
                    break !self.stream.has_new_data();
                }
                if self.settings.nagle && self.awaits_ack(end - self.stream.nxt) {
                    break true;
                }
                is_last = true;
                len = (end - self.stream.nxt) as u16;
            }
            let room = self.sk.snd_cwnd.saturating_sub(self.sk.packets_out - not_in_flight);
            if end > limit {
                // `poll` sends the smaller segment that fills the window or ends a split train, and what follows that.
                break room == 0 || (end > self.peer_window.end && self.pacing.tail == 0 && !self.stream.is_split());
            }
            if room == 0 || !self.pacing_allows(room) {
                break true;
            }
            // Nothing is decided between full segments of a burst.
            let whole = if is_last { 1 } else { (limit.min(self.stream.written - 1) - self.stream.nxt) / mss };
            let (segments, is_pushed) = self.pacing.take_segments(room.min(u32::try_from(whole).unwrap_or(u32::MAX)));
            let sent_us = self.departure_us();
            let like = *like.get_or_insert_with(|| header(self));
            let sk = &mut *self.sk;
            let header = Header { seq: sk.snd_nxt, len, ..like };
            let first = QueueEntry {
                start: self.stream.nxt,
                sent_us,
                first_tx_us: sk.first_tx_mstamp,
                delivered_us: sk.delivered_mstamp.max(1),
                delivered: sk.delivered,
                len,
                marks,
            };
            self.queue.push_all(first, segments);
            let bytes = segments * u32::from(len);
            sk.packets_out += segments;
            sk.bytes_sent += u64::from(bytes);
            sk.snd_nxt = sk.snd_nxt.wrapping_add(bytes);
            self.stream.nxt += u64::from(bytes);
            self.pacing.segments += u64::from(segments);
            self.output.sent += segments;
            self.counters.sent_packets += u64::from(segments);
            send(Train { first: header, segments, is_pushed: is_pushed || is_last });
        };
        if self.output.sent > 0 {
            self.sk.lsndtime = self.now_ms;
            self.usage.last_sent = self.now;
        }
        is_all
    }

    /// [`Sender::end_turn`] in a batch: defers the timer, which [`Sender::set_deferred_timer`] sets unless another turn
    /// follows. Requires that the sender [`Sender::is_undisturbed`].
    #[inline(always)]
    pub(crate) fn end_turn_in_batch(&mut self) {
        if !self.settings.tlp {
            self.set_deferred_timer();
            return self.end_turn();
        }
        self.output.due = false;
        self.stream.fin_apart = false;
        self.pacing.end_burst();
        let sent = std::mem::take(&mut self.output.sent);
        let is_probe_due = std::mem::take(&mut self.timer.probe_due);
        if sent > 0 || is_probe_due {
            self.timer.deferred = if sent == 0 { Deferred::Progress(self.now) } else { Deferred::Output(self.now) };
        }
        let window_full = std::mem::take(&mut self.output.window_limited) || self.sk.packets_out >= self.sk.snd_cwnd;
        if window_full {
            self.use_whole_window();
        } else if sent > 0 {
            self.validate_window(false);
        }
        self.note_limit(window_full);
    }
}
