//! Undoes unnecessary reductions, detected by echoed timestamps (RFC 3522, RFC 4015) or by D-SACK (RFC 3708).

use perigee_cc::CaState;

use super::report::AckReport;
use super::state::queue::mark;
use super::Sender;

impl Sender {
    fn undo_reduction(&mut self, unmark_lost: bool) {
        if unmark_lost {
            for number in self.queue.first()..self.queue.next() {
                self.queue.get_mut(number).marks &= !mark::LOST;
            }
            self.sk.lost_out = 0;
            self.lost.clear();
        }
        if self.sk.prior_ssthresh > 0 {
            self.sk.snd_cwnd = self.sk.undo_cwnd();
            if self.sk.prior_ssthresh > self.sk.snd_ssthresh {
                self.sk.snd_ssthresh = self.sk.prior_ssthresh;
                self.ecn.reduced = false;
            }
        }
        self.sk.snd_cwnd_stamp = self.now_ms;
        self.recovery.undo.cancel();
        self.rack.look_again();
    }

    /// Ends a recovery once everything sent before it is acknowledged. Returns `true` to keep the state: without SACK, old ACKs must not
    /// start a second recovery.
    pub(super) fn try_undo_recovery(&mut self, echo_ms: Option<u32>) -> bool {
        if self.recovery.undo.is_due(echo_ms) {
            self.undo_reduction(false);
        } else {
            self.rack.on_recovered();
        }
        if self.stream.una == self.recovery.point && !self.settings.sack {
            self.end_episode_without_retransmissions();
            return true;
        }
        self.set_state(CaState::Open);
        false
    }

    pub(super) fn try_undo_by_dsack(&mut self) -> bool {
        if !self.recovery.undo.all_duplicated() {
            return false;
        }
        self.rack.on_needless_recovery();
        self.undo_reduction(false);
        true
    }

    /// A delayed original filled a hole. Returns `true` to wait while other retransmissions are in flight.
    pub(super) fn try_undo_partial(&mut self, prior_una: u64, report: &AckReport, may_be_lost: &mut bool) -> bool {
        let undo = self.recovery.undo;
        if undo.marker.is_some() && undo.original_was_delayed(report.echo_ms) {
            self.note_reordering(prior_una);
            if self.sk.retrans_out > 0 {
                return true;
            }
            self.end_episode_without_retransmissions();
            self.undo_reduction(true);
            self.try_keep_open();
        } else if !self.settings.sack {
            *may_be_lost = true;
        }
        false
    }

    /// Whether a timestamp echo shows that the first retransmission was needless: the original had only been delayed.
    pub(crate) fn original_was_delayed(&self, echo_ms: Option<u32>) -> bool {
        self.recovery.undo.original_was_delayed(echo_ms)
    }

    pub(super) fn try_undo_loss(&mut self, spurious: bool, echo_ms: Option<u32>) -> bool {
        if !spurious && !self.recovery.undo.is_due(echo_ms) {
            return false;
        }
        self.undo_reduction(true);
        self.sk.inet_conn.icsk_retransmits = 0;
        if spurious || self.settings.sack {
            self.set_state(CaState::Open);
        }
        true
    }

    /// Forgets retransmission times once no retransmission is in flight.
    pub(super) fn end_episode_without_retransmissions(&mut self) {
        if !self.any_retransmission_done() {
            self.recovery.undo.end_episode();
        }
    }
}
