//! Loss recovery: the congestion states, and the transitions between them.
//!
//! The states are Linux's: Open, Disorder (segments are out of order), CWR (reducing after ECN), Recovery (retransmitting) and Loss (after
//! a timeout). An unnecessary reduction is undone (`undo.rs`).

use perigee_cc::{CaEvent, CaState};
use perigee_units::Time;

use super::report::AckReport;
use super::state::output::Retransmit;
use super::state::queue::mark;
use super::state::recovery::Prr;
use super::state::timer::Timer;
use super::Sender;

impl Sender {
    /// Processes a dubious ACK (Linux's `tcp_fastretrans_alert`).
    pub(super) fn fast_retransmit_alert(&mut self, prior_una: u64, duplicates: u32, report: &mut AckReport) {
        let far_ahead = self.stream.una + u64::from(self.sk.reordering) * u64::from(self.sk.mss_cache);
        let mut may_be_lost = duplicates > 0 || (report.data_sacked && self.highest_sack_or_una() > far_ahead);
        if report.ecn_echo {
            self.sk.prior_ssthresh = 0;
        }
        if report.advanced && self.queue.head().is_some_and(|e| e.has(mark::SACKED)) {
            return self.on_sacked_head(report);
        }
        if self.state() == CaState::Open {
            self.recovery.undo.end_episode();
        } else if self.stream.una >= self.recovery.point && self.end_episode(report.echo_ms) {
            return;
        }
        let entering = match self.state() {
            CaState::Recovery if !self.alert_in_recovery(prior_una, duplicates, report, &mut may_be_lost) => return,
            CaState::Recovery => false,
            CaState::Loss => {
                self.process_loss(duplicates, report);
                if self.state() != CaState::Loss {
                    self.identify_losses(report);
                }
                if !(self.state() == CaState::Open || report.lost_retransmission) {
                    return;
                }
                match self.alert_while_open(duplicates, report) {
                    Some(entering) => entering,
                    None => return,
                }
            }
            _ => match self.alert_while_open(duplicates, report) {
                Some(entering) => entering,
                None => return,
            },
        };
        if !self.settings.rack && may_be_lost {
            self.mark_head_lost(entering);
        }
        self.output.retransmit = Retransmit::Lost;
    }

    /// The ACK ends before data that are SACKed. Either the receiver has dropped these (SACK reneging), which only a
    /// timeout repairs, or it acknowledges what it has in pieces, and the next ACK follows soon: the timeout comes
    /// after half a round trip (`tcp_check_sack_reneging`).
    #[cold]
    fn on_sacked_head(&mut self, report: &mut AckReport) {
        let half = Time::from_micros(u64::from(self.sk.srtt_us >> 4));
        self.timer.armed = Timer::Timeout(self.after(half.max(LEAST_RENEGING)));
        report.set_timer = false;
    }

    /// Ends CWR or Recovery after an ACK of everything sent before it; returns `true` to keep the state, see
    /// [`Sender::try_undo_recovery`].
    fn end_episode(&mut self, echo_ms: Option<u32>) -> bool {
        match self.state() {
            CaState::Cwr if self.stream.una != self.recovery.point => {
                self.end_cwnd_reduction();
                self.set_state(CaState::Open);
            }
            CaState::Recovery => {
                if !self.settings.sack {
                    self.sk.sacked_out = 0;
                }
                if self.try_undo_recovery(echo_ms) {
                    return true;
                }
                self.end_cwnd_reduction();
            }
            _ => {}
        }
        false
    }

    /// The steps in Recovery; returns whether it continues.
    fn alert_in_recovery(
        &mut self,
        prior_una: u64,
        duplicates: u32,
        report: &mut AckReport,
        may_be_lost: &mut bool,
    ) -> bool {
        if !report.advanced {
            self.add_duplicate_acks(duplicates);
        } else if self.try_undo_partial(prior_una, report, may_be_lost) {
            return false;
        } else if self.settings.impatient_newreno && !self.settings.sack {
            self.recovery.partial_acks += 1;
            report.set_timer &= !self.recovery.keeps_timer();
        }
        if self.try_undo_by_dsack() {
            self.try_keep_open();
        }
        self.identify_losses(report);
        if self.state() != CaState::Recovery {
            if !self.time_to_recover() {
                return false;
            }
            self.enter_recovery(report.ecn_echo);
        }
        true
    }

    /// The last steps in Open, Disorder and CWR; `None` if recovery does not start.
    fn alert_while_open(&mut self, duplicates: u32, report: &mut AckReport) -> Option<bool> {
        if !self.settings.sack {
            if report.advanced {
                self.sk.sacked_out = 0;
            }
            self.add_duplicate_acks(duplicates);
        }
        if matches!(self.state(), CaState::Open | CaState::Disorder) {
            self.try_undo_by_dsack();
        }
        self.identify_losses(report);
        if !self.time_to_recover() {
            self.try_to_open(report.ecn_echo);
            return None;
        }
        self.enter_recovery(report.ecn_echo);
        Some(true)
    }

    fn time_to_recover(&self) -> bool {
        self.sk.lost_out > 0 || (!self.rack_is_used() && self.sk.sacked_out >= self.sk.reordering.max(1))
    }

    pub(super) fn enter_recovery(&mut self, ecn_echo: bool) {
        self.sk.prior_ssthresh = 0;
        self.recovery.undo.begin(self.stream.una, self.sk.retrans_out);
        self.recovery.partial_acks = 0;
        if !self.in_cwnd_reduction() {
            if !ecn_echo {
                self.sk.prior_ssthresh = self.current_ssthresh();
            }
            self.init_cwnd_reduction();
        }
        self.set_state(CaState::Recovery);
    }

    /// Reduces the window after ECN feedback (Linux's `tcp_enter_cwr`).
    fn enter_cwr(&mut self) {
        self.sk.prior_ssthresh = 0;
        if matches!(self.state(), CaState::Open | CaState::Disorder) {
            self.recovery.undo.cancel();
            self.init_cwnd_reduction();
            self.set_state(CaState::Cwr);
        }
    }

    /// Sets the recovery point to SND.NXT: the episode lasts until everything sent so far is acknowledged.
    fn mark_recovery_point(&mut self) {
        self.recovery.point = self.stream.nxt;
        self.sk.high_seq = self.stream.to_wire(self.stream.nxt);
    }

    pub(super) fn init_cwnd_reduction(&mut self) {
        self.mark_recovery_point();
        self.tail_probe.outstanding = None;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.recovery.prr = Prr::default();
        self.sk.snd_ssthresh = self.sk.ssthresh();
        self.ecn.reduced = self.ecn.on;
        if !(self.settings.prr || self.settings.rate_halving || self.sk.has_cong_control()) {
            self.sk.snd_cwnd = self.sk.snd_ssthresh;
        }
    }

    /// Sets the window after each ACK of a reduction, before which `prior_in_flight` packets were in flight: packets in flight plus the
    /// allowance of proportional rate reduction.
    pub(super) fn reduce_cwnd(&mut self, delivered: u32, lost: u32, advanced: bool, prior_in_flight: u32) {
        if self.sk.prior_cwnd == 0 {
            return;
        }
        if !self.settings.prr {
            let gradually = self.settings.rate_halving;
            return if gradually { self.halve_rate(prior_in_flight) } else { self.halve_at_once(advanced) };
        }
        if delivered == 0 {
            return;
        }
        let in_flight = self.sk.packets_in_flight();
        let ssthresh = self.sk.snd_ssthresh;
        let grows = advanced && lost == 0;
        let allowed = self.recovery.prr.allowance(delivered, grows, in_flight, ssthresh, self.sk.prior_cwnd);
        self.sk.snd_cwnd = (i64::from(in_flight) + allowed).max(1) as u32;
    }

    /// The window is half at once (RFC 5681, section 3.2), but what is in flight keeps no retransmission back that has
    /// to leave now: the first of a recovery (RFC 6675, section 5, step 4.3) and, without SACK, that of a partial ACK
    /// (RFC 6582, section 3.2, step 3).
    fn halve_at_once(&mut self, advanced: bool) {
        let is_first = self.recovery.prr.has_sent_nothing() || (advanced && !self.settings.sack);
        let due = if is_first && self.state() == CaState::Recovery { self.sk.packets_in_flight() + 1 } else { 0 };
        self.sk.snd_cwnd = self.sk.snd_ssthresh.max(due);
    }

    /// Every second ACK takes a packet off the window until it is as small as it may become, and each lets out one
    /// packet at most (rate halving, Linux's `tcp_cwnd_down` before 3.2). No Linux has both rate halving and pacing:
    /// there, all that a window allows has left when the next ACK comes. So packets that pacing holds back count as
    /// sent; otherwise, of ACKs that arrive together only the first would let one out.
    fn halve_rate(&mut self, prior_in_flight: u32) {
        let acks = self.sk.snd_cwnd_cnt + 1;
        self.sk.snd_cwnd_cnt = acks & 1;
        let in_flight = self.sk.packets_in_flight();
        let sent = if self.holds_back() {
            self.sk.snd_cwnd.saturating_sub(prior_in_flight.saturating_sub(in_flight))
        } else {
            in_flight
        };
        if acks > 1 && self.sk.snd_cwnd > self.least_reduced_cwnd() {
            self.sk.snd_cwnd -= 1;
        }
        self.sk.snd_cwnd = self.sk.snd_cwnd.min(sent + 1);
    }

    /// Where rate halving ends (`min_cwnd` of a congestion control): half of the threshold where that is half of the
    /// window, as for Reno and most others (`tcp_reno_min_cwnd`), and otherwise the threshold, as for BIC, which has
    /// none, and Westwood+, whose bound is its estimate.
    fn least_reduced_cwnd(&self) -> u32 {
        let ssthresh = self.sk.snd_ssthresh;
        if ssthresh == (self.sk.prior_cwnd / 2).max(2) {
            ssthresh / 2
        } else {
            ssthresh
        }
    }

    pub(super) fn end_cwnd_reduction(&mut self) {
        if self.sk.has_cong_control() {
            return;
        }
        let reduced = self.state() == CaState::Cwr || self.recovery.undo.marker.is_some();
        if self.sk.snd_ssthresh < perigee_cc::INFINITE_SSTHRESH && reduced {
            // Rate halving ends below the threshold where little was in flight or recovery was long (`tcp_complete_cwr` before 3.2).
            let most = if self.settings.prr || !self.settings.rate_halving { u32::MAX } else { self.sk.snd_cwnd };
            self.sk.snd_cwnd = self.sk.snd_ssthresh.min(most);
            self.sk.snd_cwnd_stamp = self.now_ms;
        }
        self.sk.cwnd_event(CaEvent::CompleteCwr);
    }

    fn try_to_open(&mut self, ecn_echo: bool) {
        self.end_episode_without_retransmissions();
        if ecn_echo {
            self.enter_cwr();
        }
        if self.state() != CaState::Cwr {
            self.try_keep_open();
        }
    }

    pub(super) fn try_keep_open(&mut self) {
        let left_out = self.sk.sacked_out + self.sk.lost_out > 0;
        let state = if left_out || self.any_retransmission_done() { CaState::Disorder } else { CaState::Open };
        if self.state() != state {
            self.set_state(state);
            self.mark_recovery_point();
        }
    }

    /// Processes an ACK in Loss: F-RTO (RFC 5682, section 2.1; with SACK, section 3.1) detects spurious timeouts.
    fn process_loss(&mut self, duplicates: u32, report: &AckReport) {
        let recovered = self.stream.una >= self.recovery.point;
        if report.advanced && self.try_undo_loss(false, report.echo_ms) {
            return;
        }
        if self.recovery.frto {
            if report.original_acked && self.try_undo_loss(true, report.echo_ms) {
                return;
            }
            if self.stream.nxt > self.recovery.point {
                if report.data_sacked || duplicates > 0 {
                    self.recovery.frto = false;
                }
            } else if report.advanced && !recovered {
                self.mark_recovery_point();
                if self.stream.has_new_data() && self.window_allows_new_data() {
                    self.output.retransmit = Retransmit::NewData;
                    return;
                }
                self.recovery.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(report.echo_ms);
            return;
        }
        if !self.settings.sack {
            if self.stream.nxt > self.recovery.point && duplicates > 0 {
                self.add_duplicate_acks(duplicates);
            } else if report.advanced {
                self.sk.sacked_out = 0;
            }
        }
        self.output.retransmit = Retransmit::Lost;
    }

    /// Enters Loss after a timeout (RFC 5681, section 3.1). As in Linux, the threshold falls once in a recovery, but as in
    /// equation 4 where it is that of impatient NewReno.
    pub(super) fn enter_loss(&mut self) {
        let state = self.state();
        let new_recovery = !matches!(state, CaState::Recovery | CaState::Loss);
        let repeated = self.sk.inet_conn.icsk_retransmits > 0;
        self.mark_lost_at_timeout();
        let impatient = std::mem::take(&mut self.recovery.partial_acks) > 0 && state == CaState::Recovery;
        let reduce = matches!(state, CaState::Open | CaState::Disorder)
            || impatient
            || self.recovery.point <= self.stream.una
            || (state == CaState::Loss && !repeated);
        if reduce {
            self.sk.prior_ssthresh = self.current_ssthresh();
            self.sk.prior_cwnd = self.sk.snd_cwnd;
            self.sk.snd_ssthresh = self.sk.ssthresh();
            self.sk.cwnd_event(CaEvent::Loss);
            self.recovery.undo.begin(self.stream.una, self.sk.retrans_out);
        }
        self.sk.snd_cwnd = self.sk.packets_in_flight() + 1;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.snd_cwnd_stamp = self.now_ms;
        if matches!(state, CaState::Open | CaState::Disorder) && self.sk.sacked_out >= self.sk.reordering {
            self.sk.reordering = self.sk.reordering.min(self.settings.reordering);
        }
        self.set_state(CaState::Loss);
        self.mark_recovery_point();
        self.ecn.reduced = self.ecn.on;
        self.recovery.frto = self.settings.frto && (new_recovery || repeated);
        self.output.retransmit = Retransmit::Lost;
    }
}

/// Shortest wait for the next ACK after one that ends before SACKed data (Linux: 10 ms).
const LEAST_RENEGING: Time = Time::from_millis(10);
