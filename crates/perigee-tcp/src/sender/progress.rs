//! The usual turn of a sender in bulk: an acknowledgement of whole segments comes, while others stay out, and lets new ones leave
//! (compare Linux's header prediction).
//!
//! The steps are those of `ack` and `output`, in the same order, without those that find nothing to do then; tests hold the two
//! against each other.

use perigee_cc::{AckSample, CaState, RateSample};
use perigee_units::Time;

use crate::segment::{Flags, Header};

use super::ack::{CA_ACK_SLOWPATH, CA_ACK_WIN_UPDATE};
use super::rate;
use super::report::AckReport;
use super::state::output::Retransmit;
use super::state::queue::{mark, Entry};
use super::state::timer::PutOff;
use super::Sender;

impl Sender {
    /// Whether the usual turns are all there is: nothing is SACKed, lost, sent again or being probed for, and the window is not being
    /// reduced. It stays so until anything else than [`Sender::on_progress`], [`Sender::send_in_bulk`], the clock and pacing changes the
    /// sender.
    pub(crate) fn is_undisturbed(&self) -> bool {
        let (sk, output, tail_probe) = (&*self.sk, &self.output, &self.tail_probe);
        sk.inet_conn.icsk_ca_state == CaState::Open as u8
            && sk.sacked_out | sk.lost_out | sk.retrans_out | self.timer.backoff == 0
            && sk.inet_conn.icsk_retransmits == 0
            && tail_probe.outstanding.is_none()
            && !tail_probe.new_data_due
            && !tail_probe.sent
            && output.forced.is_none()
            && output.retransmit == Retransmit::Nothing
            && !output.window_probe
            && self.stream.una >= self.queue.repeated_until()
            && !self.rack.is_adapting()
            && !self.ecn.on
            && self.settings.sack
            && !self.has_small_segments()
    }

    /// Takes the acknowledgement in a header, of one that [`Sender::is_undisturbed`], where it is of whole entries and leaves
    /// others out. `false`: it is not, and nothing has happened.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each segment that arrives")]
    pub(crate) fn on_progress(&mut self, now: Time, header: &Header, slow_path: bool) -> bool {
        if self.timer.probe_due && now != self.now {
            self.set_due_probe();
        }
        let una = self.stream.una;
        let newly_acked = u64::from(header.ack.wrapping_sub(self.sk.snd_una));
        let ack = una + newly_acked;
        if ack >= self.stream.nxt || newly_acked == 0 || self.timer.probe_due {
            return false;
        }
        let Some((first_sent_us, last, packets)) = self.queue.pop_until(una, ack) else { return false };
        // The timer is set anew, whether it was put off or not.
        self.timer.put_off = PutOff::Nothing;
        self.set_clock(now);
        self.output.due = true;
        self.stream.una = ack;
        self.peer_window.end = self.peer_window.end.max(ack + u64::from(header.window));
        self.peer_window.bytes = header.window;
        let sk = &mut *self.sk;
        let prior_in_flight = sk.packets_out;
        sk.bytes_acked += newly_acked;
        sk.snd_una = header.ack;
        if self.sk.has_in_ack_event() {
            self.sk.in_ack_event(CA_ACK_WIN_UPDATE | if slow_path { CA_ACK_SLOWPATH } else { 0 });
        }

        let sk = &mut *self.sk;
        sk.packets_out -= packets;
        sk.delivered += packets;
        let now_us = sk.tcp_mstamp;
        let entry = self.queue.taken(last);
        let last_sent_us = entry.sent_us;
        self.rack.advance_to(entry, now_us);
        let newest_us = now_us - last_sent_us;
        self.on_rtt_sample(now_us - first_sent_us, newest_us, false);
        if self.sk.has_pkts_acked() {
            let rtt_us = i32::try_from(newest_us).unwrap_or(i32::MAX);
            self.sk.pkts_acked(&AckSample { pkts_acked: packets, rtt_us, in_flight: prior_in_flight });
        }
        if self.settings.tlp {
            self.timer.probe_due = true;
        } else {
            self.rearm_timeout();
        }

        rate::note_delivery(&mut self.sk, packets);
        if !self.sk.has_cong_control() {
            self.sk.first_tx_mstamp = last_sent_us;
            self.raise_cwnd(header.ack, packets);
            self.follow_cwnd();
            return true;
        }
        let mut sample = RateSample { prior_in_flight, rtt_us: newest_us as i64, ..RateSample::default() };
        let last = self.queue.taken(last);
        rate::count_delivery(&mut sample, &mut self.sk, last, self.stream.to_wire(last.end()));
        rate::complete(&mut sample, &self.sk, packets, 0, false);
        self.sk.cong_control(header.ack, PROGRESS.kernel_flags(), &sample);
        true
    }

    /// Whether nothing but new data may leave in this turn, and what is sent is counted as usual.
    pub(crate) fn sends_new_data_alone(&self) -> bool {
        let (sk, output) = (&*self.sk, &self.output);
        sk.packets_in_flight() > 0
            && sk.packets_in_flight() <= sk.packets_out
            && output.forced.is_none()
            && !output.window_probe
            && !self.tail_probe.new_data_due
            && (output.retransmit != Retransmit::Lost || sk.lost_out <= sk.retrans_out)
    }

    /// Sends the new data of one that [`Sender::is_undisturbed`] and has data out, or that [`Sender::sends_new_data_alone`], as far as the
    /// windows and the pacing allow, in segments like `header`. Of what was sent, `absent` packets are not in flight any more, none in
    /// the first case. Whether that is all, so that the turn has to be ended; what comes with the FIN is left to the next one of
    /// [`Sender::poll`].
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn send_in_bulk(&mut self, mut header: Header, absent: u32, send: &mut impl FnMut(&Header)) -> bool {
        let mss = u64::from(self.sk.mss_cache);
        let (limit, marks) = (self.send_limit(), if self.sk.app_limited > 0 { mark::APP_LIMITED } else { 0 });
        header.len = mss as u16;
        let is_all = loop {
            let mut end = self.stream.nxt + mss;
            if end >= self.stream.written {
                end = self.stream.written;
                if self.stream.fin_queued || self.stream.nxt >= end {
                    // The last one that was sent takes all that was left.
                    if u64::from(header.len) < mss {
                        self.stream.small_end = self.stream.nxt;
                    }
                    break !self.stream.has_new_data();
                }
                header.flags.0 |= Flags::PSH;
                header.len = (end - self.stream.nxt) as u16;
            }
            let room = self.sk.snd_cwnd.saturating_sub(self.sk.packets_out - absent);
            if end > limit {
                // What is left of the window may take a smaller segment, in the next turn of `poll`.
                break room == 0 || !self.fills_window(limit);
            }
            if room == 0 || !self.pacing_allows(room) {
                break true;
            }
            self.pacing.burst = self.pacing.burst.saturating_sub(1);
            self.pacing.segments += 1;
            let sent_us = self.departure_us();
            let sk = &mut *self.sk;
            header.seq = sk.snd_nxt;
            self.queue.push(Entry {
                start: self.stream.nxt,
                sent_us,
                first_tx_us: sk.first_tx_mstamp,
                delivered_us: sk.delivered_mstamp.max(1),
                delivered: sk.delivered,
                len: header.len,
                marks,
            });
            sk.packets_out += 1;
            sk.bytes_sent += u64::from(header.len);
            sk.snd_nxt = sk.snd_nxt.wrapping_add(u32::from(header.len));
            self.stream.nxt = end;
            self.output.sent += 1;
            self.counters.sent_packets += 1;
            send(&header);
        };
        if self.output.sent > 0 {
            self.sk.lsndtime = self.now_ms;
            self.usage.last_sent = self.now;
        }
        is_all
    }

    /// Ends a turn of output of one that [`Sender::is_undisturbed`] like [`Sender::end_turn`]. Where that `puts_off` the timer, it has
    /// still [to be set](Sender::settle_timer), unless a further turn follows.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn end_turn_in_bulk(&mut self, puts_off: bool) {
        if self.output.window_limited || !self.settings.tlp {
            self.settle_timer();
            return self.end_turn();
        }
        self.output.due = false;
        self.pacing.burst = 0;
        let sent = std::mem::take(&mut self.output.sent);
        let is_probe_due = std::mem::take(&mut self.timer.probe_due);
        if sent > 0 || is_probe_due {
            if puts_off {
                self.timer.put_off = if sent == 0 { PutOff::Progress } else { PutOff::Output };
                self.timer.put_off_at = self.now;
            } else {
                self.set_probe(sent > 0, self.now);
            }
        }
        if self.sk.packets_out >= self.sk.snd_cwnd {
            self.use_whole_window();
        } else if sent > 0 {
            self.validate_window(false);
        }
    }
}

/// What an acknowledgement that is progress reports.
const PROGRESS: AckReport = AckReport { advanced: true, window_update: true, data_acked: true, ..AckReport::NOTHING };
