//! Loss detection: by time (RACK, RFC 8985), by the number of segments SACKed above (RFC 6675), or by duplicate ACKs without SACK (NewReno,
//! RFC 6582).

use perigee_cc::CaState;
use perigee_units::Time;

use super::report::AckReport;
use super::sack::MAX_REORDERING;
use super::state::output::Retransmit;
use super::state::queue::mark;
use super::state::timer::Timer;
use super::Sender;

impl Sender {
    /// Marks segments that an ACK shows to be lost.
    pub(super) fn identify_losses(&mut self, report: &mut AckReport) {
        if self.queue.is_empty() {
            return;
        }
        if !self.settings.sack {
            self.mark_head_lost_without_sack(report.advanced);
        } else if self.settings.rack {
            let retransmissions = self.sk.retrans_out;
            if self.rack_mark_lost() {
                report.set_timer = false;
            }
            report.lost_retransmission |= retransmissions > self.sk.retrans_out;
        }
    }

    pub(super) fn rack_is_used(&self) -> bool {
        self.settings.rack && self.settings.sack
    }

    // ---- by time ----

    fn reordering_window_us(&self) -> u64 {
        if !self.rack.reordering_seen {
            let recovering = matches!(self.state(), CaState::Recovery | CaState::Loss);
            if recovering || self.sk.sacked_out >= self.sk.reordering {
                return 0;
            }
        }
        self.rack.window_us(self.sk.rtt_min_us, self.sk.srtt_us >> 3)
    }

    /// Marks lost segments (RFC 8985, section 6.2, step 5); returns the time until the rest are lost, us.
    fn rack_detect(&mut self) -> Option<u64> {
        let mut search = self.rack.search(self.sk.tcp_mstamp, self.reordering_window_us());
        while let Some(number) = self.rack.next_lost_original(&self.queue, &mut search) {
            self.mark_lost(number);
        }
        while let Some(number) = self.rack.next_lost_retransmission(&self.queue, &mut search) {
            self.mark_lost(number);
        }
        self.rack.wait_us(search)
    }

    /// Detects losses after an ACK; returns whether it set the reordering timer for the rest.
    pub(super) fn rack_mark_lost(&mut self) -> bool {
        if !self.rack.take_advanced() {
            return false;
        }
        let wait = self.rack_detect();
        if let Some(us) = wait {
            self.timer.armed = Timer::Reordering(self.after(Time::from_micros(us + TIMER_SLACK_US)));
        }
        wait.is_some()
    }

    pub(super) fn on_reordering_timer(&mut self) {
        let in_flight = self.sk.packets_in_flight();
        self.rack_detect();
        if in_flight != self.sk.packets_in_flight() {
            if self.state() != CaState::Recovery {
                self.enter_recovery(false);
                if !self.sk.has_cong_control() {
                    self.reduce_cwnd(1, 1, false, in_flight);
                }
            }
            self.output.retransmit = Retransmit::Lost;
        }
        self.rearm_timeout();
    }

    // ---- after a timeout ----

    pub(super) fn mark_lost_at_timeout(&mut self) {
        let head = self.queue.first();
        let reneged = self.queue.get(head).has(mark::SACKED);
        if reneged || !self.settings.sack {
            self.sk.sacked_out = 0;
            self.scoreboard.forget(head);
        }
        for number in head..self.queue.next() {
            if reneged {
                self.queue.get_mut(number).marks &= !mark::SACKED;
            } else if number != head && self.rack_is_used() && !self.is_overdue(number) {
                continue;
            }
            self.mark_lost(number);
        }
    }

    fn is_overdue(&self, number: u64) -> bool {
        self.rack.is_overdue(self.queue.get(number), self.sk.tcp_mstamp)
    }

    // ---- by the number of SACKed segments ----

    /// RFC 6675, section 4: a segment is lost once `reordering` (`DupThresh`) segments above it are SACKed.
    pub(super) fn mark_head_lost(&mut self, entering: bool) {
        if self.queue.is_empty() {
            return;
        }
        let above = self.sk.sacked_out.saturating_sub(self.sk.reordering);
        if self.sk.sacked_out < self.sk.reordering || !self.settings.sack {
            if entering {
                self.mark_lost(self.queue.first());
            }
            return;
        }
        let first = self.queue.first();
        self.scoreboard.head.skip_to(first);
        // The loop overshoots by one: the first entry kept may have one SACKed segment more than the threshold above it.
        while self.scoreboard.head.entry < self.queue.next() && self.scoreboard.head.sacked <= above {
            let number = self.scoreboard.head.entry;
            let entry = *self.queue.get(number);
            if entry.start >= self.scoreboard.highest {
                break;
            }
            if entry.has(mark::SACKED) {
                if self.scoreboard.head.sacked == above {
                    break;
                }
                self.scoreboard.head.sacked += 1;
            } else if !entry.has(mark::LOST) {
                self.mark_lost(number);
            }
            self.scoreboard.head.entry += 1;
        }
        if entering && self.sk.lost_out == 0 {
            self.mark_lost(first);
        }
    }

    // ---- without SACK: duplicate ACKs count as SACKed segments ----

    pub(super) fn add_duplicate_acks(&mut self, duplicates: u32) {
        if self.settings.sack || duplicates == 0 {
            return;
        }
        let prior = self.sk.sacked_out;
        self.sk.sacked_out += duplicates;
        self.limit_duplicate_acks(0);
        self.sk.delivered += self.sk.sacked_out.saturating_sub(prior);
    }

    /// `acked` packets left the queue: the first filled the hole; the others had been counted as duplicates.
    pub(super) fn clean_without_sack(&mut self, acked: u32) {
        self.sk.delivered += acked.saturating_sub(self.sk.sacked_out.min(acked)).max(1);
        self.sk.sacked_out = self.sk.sacked_out.saturating_sub(acked.saturating_sub(1));
        self.limit_duplicate_acks(acked);
    }

    /// More duplicate ACKs than segments above the hole, after `acked` left the queue, mean reordering (Linux's
    /// `tcp_check_reno_reordering`).
    fn limit_duplicate_acks(&mut self, acked: u32) {
        let holes = self.sk.lost_out.max(1).min(self.sk.packets_out);
        let most = self.sk.packets_out - holes;
        if self.sk.sacked_out > most {
            self.sk.sacked_out = most;
            self.sk.reordering = (self.sk.packets_out + acked).min(MAX_REORDERING);
            self.rack.reordering_seen = true;
        }
    }

    fn mark_head_lost_without_sack(&mut self, advanced: bool) {
        let state = self.state();
        let enough = state != CaState::Recovery && self.sk.sacked_out >= self.sk.reordering;
        if enough || (state == CaState::Recovery && advanced) {
            let head = self.queue.first();
            if !self.queue.get(head).has(mark::LOST) {
                // The duplicate ACK counted as the segment after the head; the head itself is missing.
                self.mark_lost(head);
                let most = self.sk.packets_out - self.sk.lost_out;
                self.sk.sacked_out = self.sk.sacked_out.min(most);
            }
        }
    }
}

pub(super) const TIMER_SLACK_US: u64 = 1000;
