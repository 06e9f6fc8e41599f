//! Losses found by time: RACK (RFC 8985), and the tail loss probe (its section 7).
//!
//! RACK asks: what was sent well before something that has been delivered since? Originals are sent in sequence
//! order, so a cursor over the queue walks them in the order of sending; retransmissions are kept in a list of their
//! own in that order. Neither is walked twice, and the cost does not grow with the window.

use std::collections::VecDeque;

use perigee_cc::{CaState, TcpSock};
use perigee_units::Time;

use crate::ack::AckNews;
use crate::queue::{mark, Entry};
use crate::sender::{Retransmit, Sender, Timer};

/// What RACK remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rack {
    /// Send time (us) and end of the segment delivered that was sent last.
    newest: (u64, u64),
    /// Round-trip time of that delivery.
    rtt_us: u64,
    /// Something newer was delivered since losses were looked for.
    pub(crate) advanced: bool,
    /// Originals below this entry were judged.
    cursor: u64,
    /// Retransmissions in the order of sending: entry and send time, us.
    pub(crate) retransmissions: VecDeque<(u64, u64)>,
    pub(crate) dsack_seen: bool,
    /// Reordering window, in quarters of the minimum round trip.
    window_steps: u32,
    /// Recoveries that the widened window persists for.
    pub(crate) window_persist: u32,
    /// Packets delivered when the window was last widened.
    last_delivered: u32,
}

impl Rack {
    /// An entry was delivered (RFC 8985, section 6.2, steps 1 and 2).
    #[inline]
    pub(crate) fn advance(&mut self, sk: &TcpSock, entry: &Entry, now_us: u64) {
        let rtt_us = now_us - entry.sent_us;
        if entry.has(mark::EVER_RETRANS) && rtt_us < u64::from(sk.rtt_min_us) {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        if (entry.sent_us, entry.end()) > self.newest {
            self.newest = (entry.sent_us, entry.end());
        }
    }

    /// Widens the reordering window after duplicates, and narrows it after sixteen recoveries without
    /// (section 6.2, step 4).
    pub(crate) fn update_window(&mut self, prior_delivered: u32, delivered: u32) {
        if prior_delivered == 0 {
            return;
        }
        if (prior_delivered.wrapping_sub(self.last_delivered) as i32) < 0 {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.window_steps = (self.window_steps.max(1) + 1).min(255);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.window_persist = PERSIST_RECOVERIES;
        } else if self.window_persist == 0 {
            self.window_steps = 1;
        }
    }

    fn sent_before_newest(&self, entry: &Entry) -> bool {
        (entry.sent_us, entry.end()) < self.newest
    }
}

impl Sender {
    fn reordering_window_us(&self) -> u64 {
        if !self.reordering_seen {
            let recovering = matches!(self.state(), CaState::Recovery | CaState::Loss);
            if recovering || self.sk.sacked_out >= self.sk.reordering {
                return 0;
            }
        }
        let quarter = u64::from(self.sk.rtt_min_us >> 2);
        (quarter * u64::from(self.rack.window_steps.max(1))).min(u64::from(self.sk.srtt_us >> 3))
    }

    /// Marks what must be lost (section 6.2, step 5); returns when the rest will be, us from now.
    fn rack_detect(&mut self) -> Option<u64> {
        let now_us = self.sk.tcp_mstamp;
        let allowed = self.rack.rtt_us + self.reordering_window_us();
        let expired = |entry: &Entry| now_us - entry.sent_us >= allowed;
        let mut waiting = false;
        self.rack.cursor = self.rack.cursor.max(self.queue.first());
        while self.rack.cursor < self.queue.next() {
            let number = self.rack.cursor;
            let entry = *self.queue.get(number);
            if !entry.has(mark::SACKED | mark::LOST | mark::EVER_RETRANS) {
                if !self.rack.sent_before_newest(&entry) {
                    break;
                }
                if !expired(&entry) {
                    waiting = true;
                    break;
                }
                self.mark_lost(number);
            }
            self.rack.cursor += 1;
        }
        while let Some(&(number, sent_us)) = self.rack.retransmissions.front() {
            if number >= self.queue.first() {
                let entry = *self.queue.get(number);
                if entry.has(mark::RETRANS) && entry.sent_us == sent_us {
                    if !self.rack.sent_before_newest(&entry) {
                        break;
                    }
                    if !expired(&entry) {
                        waiting = true;
                        break;
                    }
                    self.mark_lost(number);
                }
            }
            self.rack.retransmissions.pop_front();
        }
        // Everything that waits was sent before the newest delivery, so it is due no later than that would be.
        waiting.then(|| (self.rack.newest.0 + allowed).saturating_sub(now_us))
    }

    /// Looks for losses after an ACK; `true`: the reordering timer was set for the rest.
    pub(crate) fn rack_mark_lost(&mut self) -> bool {
        if !self.rack.advanced {
            return false;
        }
        self.rack.advanced = false;
        let wait = self.rack_detect();
        if let Some(us) = wait {
            self.timer = Timer::Reordering(self.now + Time::from_micros(us + TIMER_SLACK_US));
        }
        wait.is_some()
    }

    /// The reordering window has passed.
    pub(crate) fn on_reordering_timer(&mut self) {
        let in_flight = self.sk.packets_in_flight();
        self.rack_detect();
        if in_flight != self.sk.packets_in_flight() {
            if self.state() != CaState::Recovery {
                self.enter_recovery(false);
                if !self.sk.has_cong_control() {
                    self.reduce_cwnd(1, 1, false);
                }
            }
            self.retransmit = Retransmit::Lost;
        }
        self.rearm_timeout();
    }

    /// Whether an entry has outlived RACK's patience at a timeout.
    pub(crate) fn rack_expired(&self, entry: &Entry) -> bool {
        self.sk.tcp_mstamp - entry.sent_us >= self.rack.rtt_us
    }

    /// Sets the probe timer: two smoothed round trips, and more where a delayed ACK may hold a lone segment back.
    pub(crate) fn schedule_probe(&mut self, advancing: bool) -> bool {
        let open = matches!(self.state(), CaState::Open | CaState::Cwr);
        if !self.config.tlp || !self.config.sack || self.sk.packets_out == 0 || !open {
            return false;
        }
        let mut wait_us = crate::rtt::INITIAL_RTO_US;
        if self.sk.srtt_us > 0 {
            let margin = if self.sk.packets_out == 1 { u64::from(self.rtt.rto_min_us()) } else { 2 * TIMER_SLACK_US };
            wait_us = u64::from(self.sk.srtt_us >> 2) + margin;
        }
        let mut at = self.now + Time::from_micros(wait_us);
        let timeout = if advancing { self.now + self.rto() } else { self.timeout_of_head() };
        if timeout > self.now {
            at = at.min(timeout);
        }
        self.timer = Timer::TailProbe(at);
        true
    }

    /// The probe timer fired: send something, so that an ACK shows what is missing.
    pub(crate) fn on_probe_timer(&mut self) {
        if self.probe.is_some() || self.queue.is_empty() {
            return self.rearm_timeout();
        }
        self.timer = Timer::Off;
        self.counters.probes += 1;
        if self.has_new_data() && self.window_allows_new_data() {
            self.probe_new_data = true;
            self.probe = Some((self.nxt + u64::from(self.sk.mss_cache).min(self.written - self.nxt), false));
        } else {
            self.probe = Some((self.nxt, true));
            self.forced = Some(self.queue.next() - 1);
        }
    }

    /// The ACK of a probe (RFC 8985, section 7.4.2).
    pub(crate) fn on_probe_ack(&mut self, ack: u64, news: &AckNews) {
        let Some((end, retransmission)) = self.probe else { return };
        if ack < end {
            return;
        }
        if !retransmission || news.dsack_of_probe {
            self.probe = None;
        } else if ack > end {
            // The probe repaired a loss: reduce once.
            self.init_cwnd_reduction();
            self.set_state(CaState::Cwr);
            self.end_cwnd_reduction();
            self.try_keep_open();
        } else if !(news.advanced || news.not_a_duplicate() || news.data_sacked) {
            self.probe = None;
        }
    }
}

/// Linux's `TCP_RACK_RECOVERY_THRESH`.
const PERSIST_RECOVERIES: u32 = 16;
/// A tick of the timer.
const TIMER_SLACK_US: u64 = 1000;
