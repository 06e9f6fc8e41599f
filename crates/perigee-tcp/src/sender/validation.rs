//! Congestion window validation: an unused window decays (Linux's form of RFC 7661; RFC 2861).

use perigee_cc::{CaEvent, CaState};
use perigee_units::Time;

use super::Sender;

impl Sender {
    /// Records whether the window limited sending, and shrinks it towards its use after a timeout's length without that (Linux's form of
    /// RFC 7661).
    pub(super) fn validate_window(&mut self, limited: bool) {
        if limited {
            return self.use_whole_window();
        }
        let sk = &mut self.sk;
        let was_limited = sk.is_cwnd_limited != 0;
        if self.stream.una >= self.usage.round_end || (!was_limited && sk.packets_out > sk.max_packets_out) {
            sk.is_cwnd_limited = 0;
            sk.max_packets_out = sk.packets_out;
            self.usage.round_end = self.stream.nxt;
        }
        if self.is_cwnd_limited() {
            self.usage.used = 0;
            self.sk.snd_cwnd_stamp = self.now_ms;
            return;
        }
        self.usage.used = self.usage.used.max(self.sk.packets_out);
        if self.settings.slow_start_after_idle && !self.sk.has_cong_control() {
            let unused_ms = self.now_ms.wrapping_sub(self.sk.snd_cwnd_stamp);
            let since = self.now - Time::from_millis(u64::from(unused_ms)).min(self.now);
            if self.tick.between(since, self.now).as_millis() >= self.rto().as_millis() {
                self.shrink_unused_window();
            }
        }
    }

    /// The window limited sending.
    #[inline]
    pub(super) fn use_whole_window(&mut self) {
        self.sk.is_cwnd_limited = 1;
        self.sk.max_packets_out = self.sk.packets_out;
        self.sk.snd_cwnd_stamp = self.now_ms;
        self.usage.round_end = self.stream.nxt;
        self.usage.used = 0;
    }

    fn shrink_unused_window(&mut self) {
        if self.state() == CaState::Open {
            let used = self.usage.used.max(self.settings.initial_window);
            if used < self.sk.snd_cwnd {
                self.sk.snd_ssthresh = self.current_ssthresh();
                self.sk.snd_cwnd = u32::midpoint(self.sk.snd_cwnd, used);
            }
            self.usage.used = 0;
        }
        self.sk.snd_cwnd_stamp = self.now_ms;
    }

    /// The application writes `bytes`: marks the bubble for rate samples, and restarts a stale window after idle.
    pub(crate) fn on_write(&mut self, bytes: u64) {
        self.note_bubble(self.stream.unsent());
        if self.established && self.sk.packets_out == 0 && self.settings.slow_start_after_idle {
            self.restart_after_idle();
        }
        self.stream.written = self.stream.written.saturating_add(bytes);
        self.sk.write_seq = self.stream.to_wire(self.stream.written);
        self.buffer.wake = 0;
        self.output.due = true;
    }

    /// Marks the bubble for rate samples if the application writes while `unsent` bytes are left to send (`tcp_rate_check_app_limited`).
    pub(super) fn note_bubble(&mut self, unsent: u64) {
        let sk = &mut self.sk;
        let in_flight = sk.packets_in_flight();
        if unsent < u64::from(sk.mss_cache) && in_flight < sk.snd_cwnd && sk.lost_out <= sk.retrans_out {
            sk.app_limited = (sk.delivered + in_flight).max(1);
        }
    }

    /// RFC 2861, section 3.1: halve the window for each RTO of idle time, down to the initial window.
    fn restart_after_idle(&mut self) {
        let rto = self.rto();
        let mut idle = self.tick.between(self.usage.last_sent, self.now);
        if self.sk.has_cong_control() || idle <= rto {
            return;
        }
        self.sk.cwnd_event(CaEvent::CwndRestart);
        self.sk.snd_ssthresh = self.current_ssthresh();
        let restart = self.settings.initial_window.min(self.sk.snd_cwnd);
        let mut cwnd = self.sk.snd_cwnd;
        while idle > rto && cwnd > restart {
            idle -= rto;
            cwnd >>= 1;
        }
        self.sk.snd_cwnd = cwnd.max(restart);
        self.sk.snd_cwnd_stamp = self.now_ms;
        self.usage.used = 0;
    }
}
