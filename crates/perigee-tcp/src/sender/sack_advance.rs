//! The usual ACK during a recovery: it repeats SND.UNA, and the newest SACK block now also covers segments that were sent once and lie
//! above all others.

use perigee_cc::CaState;

use crate::segment::Segment;

use super::report::Acked;
use super::state::output::Retransmit;
use super::state::queue::mark;
use super::Sender;

/// The extension of the newest SACK block.
#[derive(Clone, Copy)]
pub(super) struct SackAdvance {
    /// Sequence positions.
    from: u64,
    to: u64,
    /// Sequence number of `to`.
    to_seq: u32,
    /// The entries between them: `first..past`.
    first: u64,
    past: u64,
}

impl Sender {
    /// The extension of the newest SACK block, if the ACK reports nothing else and recovery continues.
    pub(super) fn sack_advance(&self, segment: &Segment) -> Option<SackAdvance> {
        let una = self.stream.una;
        let is_usual = self.sk.inet_conn.icsk_ca_state == CaState::Recovery as u8
            && segment.ack == self.sk.snd_una
            && una < self.recovery.point
            && self.rack_is_used()
            && self.sk.sacked_out > 0
            && !self.ecn.on
            && !self.timer.probe_due
            && self.tail_probe.outstanding.is_none()
            && !self.recovery.undo.all_duplicated()
            && !self.queue.head().is_some_and(|head| head.has(mark::SACKED));
        let (start, from, to_seq) = self.scoreboard.advanced_block(segment).filter(|_| is_usual)?;
        let position = |at: u32| una + u64::from(at.wrapping_sub(segment.ack));
        let (start, from, to) = (position(start), position(from), position(to_seq));
        if start > from || from < self.scoreboard.highest || to > self.stream.nxt {
            return None;
        }
        let first = self.scoreboard.entry_at(from).filter(|number| *number >= self.queue.first())?;
        let (mut past, mut position) = (first, from);
        while position < to {
            let entry = self.queue.get(past);
            if entry.start != position || entry.has(!mark::APP_LIMITED) {
                return None;
            }
            position = entry.end();
            past += 1;
        }
        (position == to).then_some(SackAdvance { from, to, to_seq, first, past })
    }

    /// Marks the entries of the extension; returns the send times of the first and the last, us.
    #[inline(always)]
    pub(super) fn mark_sack_advance(&mut self, advance: &SackAdvance) -> (u64, u64) {
        let (now_us, mut sent) = (self.sk.tcp_mstamp, None);
        for number in advance.first..advance.past {
            let entry = self.queue.get_mut(number);
            self.rack.advance_to(entry, now_us);
            self.sk.sacked_out += 1;
            self.sk.delivered += 1;
            self.scoreboard.head.on_sacked(number);
            self.rate.count_delivery(&mut self.sk, &entry.departure(), self.stream.to_wire(entry.end()));
            entry.marks |= mark::SACKED;
            entry.delivered_us = 0;
            sent = Some((sent.map_or(entry.sent_us, |(first, _)| first), entry.sent_us));
        }
        self.scoreboard.highest = advance.to;
        self.scoreboard.note_marked(advance.to, advance.past);
        self.scoreboard.advance(advance.from, advance.to, advance.to_seq);
        sent.unwrap_or((now_us, now_us))
    }

    /// Takes RTT and rate samples from the extension, whose first and last segment were sent at these times, us. Also returns whether the
    /// timer is rearmed: not for a segment sent before the head's last transmission.
    #[inline(always)]
    pub(super) fn measure_sack_advance(&mut self, (first_us, last_us): (u64, u64)) -> (Acked, bool) {
        let now_us = self.sk.tcp_mstamp;
        self.rate.rtt_us = (now_us - last_us) as i64;
        self.on_rtt_sample(now_us - first_us, now_us - last_us, false);
        let rearms = self.queue.head().is_some_and(|head| first_us < head.sent_us);
        (Acked { packets: 0, rtt_us: self.rate.rtt_us }, rearms)
    }

    /// Continues a recovery; returns whether it set the reordering timer.
    #[inline]
    pub(super) fn continue_recovery(&mut self) -> bool {
        self.rack.update_window(self.rate.prior_delivered, self.sk.delivered);
        let is_set = self.rack_mark_lost();
        self.output.retransmit = Retransmit::Lost;
        is_set
    }
}
