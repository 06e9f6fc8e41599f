//! The conditions that an endpoint checks before it predicts, in one list.
//!
//! The processing of a predicted segment leaves out the steps that have nothing to do while these conditions hold. A feature of TCP that
//! gives such a step something to do adds a term here. Nothing else needs one: every other change of an endpoint forgets its prediction,
//! and tests compare what follows each predicted segment with the slow path.

use perigee_cc::CaState;
use perigee_units::Time;

use super::state::{Prediction, State};
use super::Endpoint;
use crate::receiver::Receiver;
use crate::segment::Header;
use crate::sender::state::output::Retransmit;
use crate::sender::Sender;

impl Endpoint {
    /// Determines the prediction.
    #[inline(never)]
    pub(super) fn predict(&mut self) {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let is_plain = self.is_plain();
        self.prediction = match (receiver.is_in_order(), sender.sk.packets_out > 0) {
            (true, true) if is_plain && receiver.has_acknowledged_all(sender.now) => {
                if sender.is_undisturbed() {
                    Prediction::Acknowledgements
                } else {
                    Prediction::Recovery
                }
            }
            (true, false) if is_plain && sender.is_silent() => Prediction::Data,
            (false, false) if is_plain && receiver.extends_newest_range() && sender.is_silent() => {
                Prediction::DataBehindGap
            }
            _ => Prediction::Nothing,
        };
    }

    /// Whether an arrival has no effect but that of its sequence and acknowledgement numbers.
    fn is_plain(&self) -> bool {
        self.has_fast_path
            && self.state == State::Established
            && self.aggregate.is_none()
            && !self.sender.ecn.on
            && !self.ecn_echo
    }
}

impl Sender {
    /// Whether ACKs that advance SND.UNA may take the fast path: nothing is SACKed, lost, retransmitted or probed for, and the window is
    /// not being reduced. Stays true across such ACKs, [`Sender::send_batch`], the clock and pacing; any other change requires a new check.
    pub(crate) fn is_undisturbed(&self) -> bool {
        let sk = &*self.sk;
        sk.inet_conn.icsk_ca_state == CaState::Open as u8
            && sk.sacked_out | sk.lost_out | sk.retrans_out | self.timer.backoff == 0
            && sk.inet_conn.icsk_retransmits == 0
            && self.tail_probe.is_idle()
            && self.output.is_unforced()
            && self.output.retransmit == Retransmit::Nothing
            && self.stream.una >= self.queue.retransmitted_below()
            && !self.rack.is_adapting()
            && !self.ecn.on
            && self.settings.sack
            && !self.has_small_segments()
    }

    /// Whether only new data may leave in this turn, with no special accounting, although the sender is perhaps not
    /// [undisturbed](Sender::is_undisturbed).
    pub(crate) fn sends_new_data_alone(&self) -> bool {
        let (sk, output) = (&*self.sk, &self.output);
        sk.packets_in_flight() > 0
            && sk.packets_in_flight() <= sk.packets_out
            && output.is_unforced()
            && !self.tail_probe.new_data_due
            && (output.retransmit != Retransmit::Lost || sk.lost_out <= sk.retrans_out)
    }

    /// Whether it has nothing to send, now or when a timer fires.
    fn is_silent(&self) -> bool {
        self.timer.unanswered_probes == 0 && !self.output.due && self.deadline() == Time::MAX
    }
}

impl Receiver {
    /// Whether data in sequence only extend the stream: no gap, no pending SACK report, no FIN.
    fn is_in_order(&self) -> bool {
        !self.stream.has_gap() && self.stream.reports.is_empty() && !self.has_fin()
    }

    /// Whether data behind a gap that continue the newest range only extend that range.
    fn extends_newest_range(&self) -> bool {
        !self.has_fin() && self.stream.extends_newest_range()
    }

    /// Whether the peer's view is current: everything received is acknowledged, and a segment sent from `now` on repeats the same ACK.
    fn has_acknowledged_all(&self, now: Time) -> bool {
        self.is_advertised && self.acks.is_idle(now) && self.window.acknowledged() == self.stream.next()
    }

    /// Whether the next segments of a train like `header`, in order, are steady: the last of them ends `bytes` after
    /// the data so far and arrives at `last`, and none changes anything but counts of data and ACKs.
    pub(super) fn is_steady(&self, last: Time, header: &Header, bytes: u64) -> bool {
        let (acks, window, end) = (&self.acks, &self.window, self.stream.next() + bytes);
        // The application reads data as they arrive.
        !self.on_demand
            // The segments are full ones, and no larger than those before.
            && header.len == acks.full_segment
            && u64::from(header.len) <= window.measured
            // No pause changes the delay of ACKs, and no ACK is delayed until after the last segment.
            && acks.continues_until(last)
            && last <= acks.deadline()
            // They repeat the latest timestamp, if they echo any.
            && (!header.timestamps || u64::from(header.tsecr) == window.last_echo)
            // They end before the advertised window, the window whose arrival is measured, and the autotuning round.
            && end <= window.right_edge()
            && end < window.arriving.end
            && !window.is_round_over(last)
    }
}
