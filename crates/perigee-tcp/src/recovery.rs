//! Loss recovery: the states of a connection's congestion, and the one place where they change.
//!
//! States and their order are Linux's: Open, Disorder (something is out of order), CWR (told to reduce), Recovery
//! (retransmitting), Loss (after a timeout). A reduction that proves needless is undone (RFC 3522, 3708, 4015, 5682).

use perigee_cc::{CaEvent, CaState};

use crate::ack::AckNews;
use crate::queue::mark;
use crate::sender::{Prr, Retransmit, Sender, Timer, Undo};

impl Sender {
    /// Acts on an ACK that is not plain progress (Linux's `tcp_fastretrans_alert`).
    pub(crate) fn fast_retransmit_alert(&mut self, prior_una: u64, duplicates: u32, news: &mut AckNews) {
        let far_ahead = self.una + u64::from(self.sk.reordering) * u64::from(self.sk.mss_cache);
        let mut may_be_lost = duplicates > 0 || (news.data_sacked && self.highest_sack_or_una() > far_ahead);
        if news.ecn_echo {
            self.sk.prior_ssthresh = 0;
        }
        if self.queue.head().is_some_and(|e| e.has(mark::SACKED)) {
            // The receiver dropped what it had reported: only a timeout can repair that.
            return self.on_timeout();
        }
        if self.state() == CaState::Open {
            self.undo.first_retransmit_ms = None;
        } else if self.una >= self.high_seq {
            match self.state() {
                CaState::Cwr if self.una != self.high_seq => {
                    self.end_cwnd_reduction();
                    self.set_state(CaState::Open);
                }
                CaState::Recovery => {
                    if !self.config.sack {
                        self.sk.sacked_out = 0;
                    }
                    if self.try_undo_recovery() {
                        return;
                    }
                    self.end_cwnd_reduction();
                }
                _ => {}
            }
        }
        let entering = match self.state() {
            CaState::Recovery => {
                if !news.advanced {
                    self.add_duplicate_acks(duplicates, news.ecn_echo);
                } else if self.try_undo_partial(prior_una, news, &mut may_be_lost) {
                    return;
                }
                if self.try_undo_by_dsack() {
                    self.try_keep_open();
                }
                self.identify_losses(news);
                if self.state() != CaState::Recovery {
                    if !self.time_to_recover() {
                        return;
                    }
                    self.enter_recovery(news.ecn_echo);
                }
                false
            }
            CaState::Loss => {
                self.process_loss(duplicates, news);
                if self.state() != CaState::Loss {
                    self.identify_losses(news);
                }
                if !(self.state() == CaState::Open || news.lost_retransmission) {
                    return;
                }
                match self.alert_while_open(duplicates, news) {
                    Some(entering) => entering,
                    None => return,
                }
            }
            _ => match self.alert_while_open(duplicates, news) {
                Some(entering) => entering,
                None => return,
            },
        };
        if !self.config.rack && may_be_lost {
            self.mark_head_lost(entering);
        }
        self.retransmit = Retransmit::Lost;
    }

    /// The last steps of the alert in Open, Disorder and CWR; `None`: recovery is not due.
    fn alert_while_open(&mut self, duplicates: u32, news: &mut AckNews) -> Option<bool> {
        if !self.config.sack {
            if news.advanced {
                self.sk.sacked_out = 0;
            }
            self.add_duplicate_acks(duplicates, news.ecn_echo);
        }
        if matches!(self.state(), CaState::Open | CaState::Disorder) {
            self.try_undo_by_dsack();
        }
        self.identify_losses(news);
        if !self.time_to_recover() {
            self.try_to_open(news.ecn_echo);
            return None;
        }
        self.enter_recovery(news.ecn_echo);
        Some(true)
    }

    fn identify_losses(&mut self, news: &mut AckNews) {
        if self.queue.is_empty() {
            return;
        }
        if !self.config.sack {
            self.mark_head_lost_without_sack(news.advanced);
        } else if self.config.rack {
            let retransmissions = self.sk.retrans_out;
            if self.rack_mark_lost() {
                news.set_timer = false;
            }
            news.lost_retransmission |= retransmissions > self.sk.retrans_out;
        }
    }

    fn time_to_recover(&self) -> bool {
        self.sk.lost_out > 0 || (!self.rack_is_used() && self.sk.sacked_out >= self.sk.reordering.max(1))
    }

    fn rack_is_used(&self) -> bool {
        self.config.rack && self.config.sack
    }

    pub(crate) fn enter_recovery(&mut self, ecn_echo: bool) {
        self.sk.prior_ssthresh = 0;
        self.begin_undo();
        if !self.in_cwnd_reduction() {
            if !ecn_echo {
                self.sk.prior_ssthresh = self.current_ssthresh();
            }
            self.init_cwnd_reduction();
        }
        self.set_state(CaState::Recovery);
    }

    /// Told by ECN to reduce (Linux's `tcp_enter_cwr`).
    fn enter_cwr(&mut self) {
        self.sk.prior_ssthresh = 0;
        if matches!(self.state(), CaState::Open | CaState::Disorder) {
            self.undo.marker = None;
            self.init_cwnd_reduction();
            self.set_state(CaState::Cwr);
        }
    }

    fn begin_undo(&mut self) {
        let outstanding = self.sk.retrans_out;
        self.undo.marker = Some(self.una);
        self.undo.retransmissions = (outstanding > 0).then_some(outstanding);
    }

    pub(crate) fn init_cwnd_reduction(&mut self) {
        self.high_seq = self.nxt;
        self.sk.high_seq = self.to_wire(self.nxt);
        self.probe = None;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.prr = Prr::default();
        self.sk.snd_ssthresh = self.sk.ssthresh();
        self.ecn.reduced = self.ecn.on;
        if !self.config.prr && !self.sk.has_cong_control() {
            self.sk.snd_cwnd = self.sk.snd_ssthresh;
        }
    }

    /// Proportional rate reduction (RFC 6937): in flight shrinks to ssthresh over one round trip, in proportion to
    /// what is delivered; below it, it grows back by what is delivered, one more while nothing is lost.
    pub(crate) fn reduce_cwnd(&mut self, delivered: u32, lost: u32, advanced: bool) {
        if delivered == 0 || self.sk.prior_cwnd == 0 {
            return;
        }
        if !self.config.prr {
            self.sk.snd_cwnd = self.sk.snd_ssthresh;
            return;
        }
        let in_flight = self.sk.packets_in_flight();
        let ssthresh = self.sk.snd_ssthresh;
        self.prr.delivered += delivered;
        let allowed = if in_flight > ssthresh {
            let share = u64::from(ssthresh) * u64::from(self.prr.delivered) + u64::from(self.sk.prior_cwnd) - 1;
            (share / u64::from(self.sk.prior_cwnd)) as i64 - i64::from(self.prr.out)
        } else {
            let behind = i64::from(self.prr.delivered) - i64::from(self.prr.out);
            let growth = behind.max(i64::from(delivered)) + i64::from(advanced && lost == 0);
            growth.min(i64::from(ssthresh - in_flight))
        };
        // The fast retransmission itself always leaves.
        let allowed = allowed.max(i64::from(self.prr.out == 0));
        self.sk.snd_cwnd = (i64::from(in_flight) + allowed).max(1) as u32;
    }

    pub(crate) fn end_cwnd_reduction(&mut self) {
        if self.sk.has_cong_control() {
            return;
        }
        let reduced = self.state() == CaState::Cwr || self.undo.marker.is_some();
        if self.sk.snd_ssthresh < perigee_cc::INFINITE_SSTHRESH && reduced {
            self.sk.snd_cwnd = self.sk.snd_ssthresh;
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        self.sk.cwnd_event(CaEvent::CompleteCwr);
    }

    fn try_to_open(&mut self, ecn_echo: bool) {
        if !self.any_retransmission_done() {
            self.undo.first_retransmit_ms = None;
        }
        if ecn_echo {
            self.enter_cwr();
        }
        if self.state() != CaState::Cwr {
            self.try_keep_open();
        }
    }

    pub(crate) fn try_keep_open(&mut self) {
        let left_out = self.sk.sacked_out + self.sk.lost_out > 0;
        let state = if left_out || self.any_retransmission_done() { CaState::Disorder } else { CaState::Open };
        if self.state() != state {
            self.set_state(state);
            self.high_seq = self.nxt;
            self.sk.high_seq = self.to_wire(self.nxt);
        }
    }

    /// Every retransmission was reported a duplicate, or the ACK echoes a time before the first one.
    fn may_undo(&self, echo_ms: Option<u32>) -> bool {
        self.undo.marker.is_some() && (self.undo.retransmissions == Some(0) || self.original_was_delayed(echo_ms))
    }

    fn original_was_delayed(&self, echo_ms: Option<u32>) -> bool {
        match (self.undo.first_retransmit_ms, echo_ms) {
            (Some(first), Some(echo)) => (echo.wrapping_sub(first) as i32) < 0,
            _ => false,
        }
    }

    fn undo_reduction(&mut self, unmark_lost: bool) {
        if unmark_lost {
            for number in self.queue.first()..self.queue.next() {
                self.queue.get_mut(number).marks &= !mark::LOST;
            }
            self.sk.lost_out = 0;
            self.lost_entries.clear();
        }
        if self.sk.prior_ssthresh > 0 {
            self.sk.snd_cwnd = self.sk.undo_cwnd();
            if self.sk.prior_ssthresh > self.sk.snd_ssthresh {
                self.sk.snd_ssthresh = self.sk.prior_ssthresh;
                self.ecn.reduced = false;
            }
        }
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.undo.marker = None;
        self.rack.advanced = true;
    }

    /// What was out when recovery began is acknowledged; `true`: hold the state (without SACK a second recovery must not begin on old ACKs).
    fn try_undo_recovery(&mut self) -> bool {
        if self.may_undo(self.last_echo_ms) {
            self.undo_reduction(false);
        } else {
            self.rack.window_persist = self.rack.window_persist.saturating_sub(1);
        }
        if self.una == self.high_seq && !self.config.sack {
            if !self.any_retransmission_done() {
                self.undo.first_retransmit_ms = None;
            }
            return true;
        }
        self.set_state(CaState::Open);
        false
    }

    fn try_undo_by_dsack(&mut self) -> bool {
        if self.undo.marker.is_some() && self.undo.retransmissions == Some(0) {
            self.rack.window_persist = (self.rack.window_persist + 1).min(16);
            self.undo_reduction(false);
            return true;
        }
        false
    }

    /// A hole was filled by the delayed original; `true`: more retransmissions are out, so wait for them.
    fn try_undo_partial(&mut self, prior_una: u64, news: &AckNews, may_be_lost: &mut bool) -> bool {
        if self.undo.marker.is_some() && self.original_was_delayed(news.echo_ms) {
            self.note_reordering(prior_una);
            if self.sk.retrans_out > 0 {
                return true;
            }
            if !self.any_retransmission_done() {
                self.undo.first_retransmit_ms = None;
            }
            self.undo_reduction(true);
            self.try_keep_open();
        } else if !self.config.sack {
            *may_be_lost = true;
        }
        false
    }

    fn try_undo_loss(&mut self, spurious: bool, echo_ms: Option<u32>) -> bool {
        if !spurious && !self.may_undo(echo_ms) {
            return false;
        }
        self.undo_reduction(true);
        self.sk.inet_conn.icsk_retransmits = 0;
        if spurious || self.config.sack {
            self.set_state(CaState::Open);
        }
        true
    }

    /// An ACK in Loss: F-RTO (RFC 5682, section 3.1, with SACK: section 3) tells a spurious timeout from a real one.
    fn process_loss(&mut self, duplicates: u32, news: &AckNews) {
        let recovered = self.una >= self.high_seq;
        if news.advanced && self.try_undo_loss(false, news.echo_ms) {
            return;
        }
        if self.frto {
            if news.original_acked && self.try_undo_loss(true, news.echo_ms) {
                return;
            }
            if self.nxt > self.high_seq {
                if news.data_sacked || duplicates > 0 {
                    self.frto = false;
                }
            } else if news.advanced && !recovered {
                self.high_seq = self.nxt;
                self.sk.high_seq = self.to_wire(self.nxt);
                if self.has_new_data() && self.window_allows_new_data() {
                    self.retransmit = Retransmit::NewData;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery();
            return;
        }
        if !self.config.sack {
            if self.nxt > self.high_seq && duplicates > 0 {
                self.add_duplicate_acks(duplicates, news.ecn_echo);
            } else if news.advanced {
                self.sk.sacked_out = 0;
            }
        }
        self.retransmit = Retransmit::Lost;
    }

    /// The retransmission timer fired with nothing to save it (RFC 5681, section 3.1; RFC 6298, section 5).
    pub(crate) fn on_timeout(&mut self) {
        if self.queue.is_empty() {
            self.timer = Timer::Off;
            return;
        }
        if self.is_out_of_retries() {
            return self.give_up();
        }
        if self.established {
            self.enter_loss();
        }
        self.retransmit_after_timeout();
    }

    fn retransmit_after_timeout(&mut self) {
        self.counters.rto_count += 1;
        let retransmits = &mut self.sk.inet_conn.icsk_retransmits;
        if *retransmits == 0 {
            self.silent_since = self.now;
        }
        *retransmits = retransmits.saturating_add(1);
        let is_linear = !self.established && u32::from(*retransmits) <= self.config.linear_timeouts;
        // The probe of a tail is pointless now.
        self.probe = None;
        self.backoff += u32::from(!is_linear);
        self.forced = Some(self.queue.first());
        self.timer = Timer::Timeout(self.now + self.rto());
        self.push = true;
    }

    fn enter_loss(&mut self) {
        let state = self.state();
        let new_recovery = !matches!(state, CaState::Recovery | CaState::Loss);
        let repeated = self.sk.inet_conn.icsk_retransmits > 0;
        self.mark_lost_at_timeout();
        let reduce = matches!(state, CaState::Open | CaState::Disorder)
            || self.high_seq <= self.una
            || (state == CaState::Loss && !repeated);
        if reduce {
            self.sk.prior_ssthresh = self.current_ssthresh();
            self.sk.prior_cwnd = self.sk.snd_cwnd;
            self.sk.snd_ssthresh = self.sk.ssthresh();
            self.sk.cwnd_event(CaEvent::Loss);
            self.begin_undo();
        }
        self.sk.snd_cwnd = self.sk.packets_in_flight() + 1;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.snd_cwnd_stamp = self.jiffies();
        if matches!(state, CaState::Open | CaState::Disorder) && self.sk.sacked_out >= self.sk.reordering {
            self.sk.reordering = self.sk.reordering.min(self.config.reordering);
        }
        self.set_state(CaState::Loss);
        self.high_seq = self.nxt;
        self.sk.high_seq = self.to_wire(self.nxt);
        self.ecn.reduced = self.ecn.on;
        self.frto = self.config.frto && (new_recovery || repeated);
        self.retransmit = Retransmit::Lost;
    }

    fn mark_lost_at_timeout(&mut self) {
        let head = self.queue.first();
        let reneged = self.queue.get(head).has(mark::SACKED);
        if reneged || !self.config.sack {
            self.sk.sacked_out = 0;
            self.head_lost = (head, 0);
            self.known_sacks = [(0, 0); 4];
        }
        for number in head..self.queue.next() {
            if reneged {
                self.queue.get_mut(number).marks &= !mark::SACKED;
            } else if number != head && self.rack_is_used() && !self.rack_expired(self.queue.get(number)) {
                continue;
            }
            self.mark_lost(number);
        }
    }

    /// RFC 6675: lost is what has more than the threshold of `SACKed` segments above it.
    fn mark_head_lost(&mut self, entering: bool) {
        if self.queue.is_empty() {
            return;
        }
        let above = self.sk.sacked_out.saturating_sub(self.sk.reordering);
        if self.sk.sacked_out < self.sk.reordering || !self.config.sack {
            if entering {
                self.mark_lost(self.queue.first());
            }
            return;
        }
        let first = self.queue.first();
        if self.head_lost.0 < first {
            self.head_lost = (first, 0);
        }
        // One more than the threshold may lie above the first entry that is kept.
        while self.head_lost.0 < self.queue.next() && self.head_lost.1 <= above {
            let number = self.head_lost.0;
            let entry = *self.queue.get(number);
            if entry.start >= self.highest_sack {
                break;
            }
            if entry.has(mark::SACKED) {
                if self.head_lost.1 == above {
                    break;
                }
                self.head_lost.1 += 1;
            } else if !entry.has(mark::LOST) {
                self.mark_lost(number);
            }
            self.head_lost.0 += 1;
        }
        if entering && self.sk.lost_out == 0 {
            self.mark_lost(first);
        }
    }

    // ---- without SACK: duplicate ACKs stand for SACKed segments (NewReno, RFC 6582) ----

    fn add_duplicate_acks(&mut self, duplicates: u32, ecn_echo: bool) {
        if self.config.sack || duplicates == 0 {
            return;
        }
        let most = self.sk.packets_out.saturating_sub(self.sk.lost_out.max(1));
        let prior = self.sk.sacked_out;
        self.sk.sacked_out = (prior + duplicates).min(most);
        if !ecn_echo {
            self.sk.delivered += self.sk.sacked_out - prior.min(self.sk.sacked_out);
        }
    }

    /// `acked` packets left the queue: the first filled the hole, the others were counted as duplicates before.
    pub(crate) fn clean_without_sack(&mut self, acked: u32, _news: &AckNews) {
        self.sk.delivered += acked.saturating_sub(self.sk.sacked_out.min(acked)).max(1);
        self.sk.sacked_out = self.sk.sacked_out.saturating_sub(acked.saturating_sub(1));
        let most = self.sk.packets_out.saturating_sub(self.sk.lost_out);
        self.sk.sacked_out = self.sk.sacked_out.min(most);
    }

    fn mark_head_lost_without_sack(&mut self, advanced: bool) {
        let state = self.state();
        let enough = state != CaState::Recovery && self.sk.sacked_out >= self.sk.reordering;
        if enough || (state == CaState::Recovery && advanced) {
            let head = self.queue.first();
            if !self.queue.get(head).has(mark::LOST) {
                // A duplicate ACK stood for the head's successor; the head itself is what is missing.
                self.mark_lost(head);
                let most = self.sk.packets_out - self.sk.lost_out;
                self.sk.sacked_out = self.sk.sacked_out.min(most);
            }
        }
    }
}

impl Undo {
    /// A segment was retransmitted at this time.
    pub(crate) fn on_retransmit(&mut self, now_ms: u32) {
        self.first_retransmit_ms.get_or_insert(now_ms);
        self.retransmissions = Some(self.retransmissions.unwrap_or(0) + 1);
    }
}
