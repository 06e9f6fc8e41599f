//! The usual ACK during a recovery: it repeats SND.UNA, and the newest SACK block now also covers segments that were sent once and lie
//! above all others.

use perigee_cc::CaState;

use crate::segment::Segment;

use super::rate;
use super::report::{AckReport, Acked};
use super::state::output::Retransmit;
use super::state::queue::mark;
use super::Sender;

#[derive(Clone, Copy)]
pub(super) struct Growth {
    /// Sequence positions.
    from: u64,
    to: u64,
    /// The entries between them: `first..past`.
    first: u64,
    past: u64,
}

impl Sender {
    /// The extension of the newest SACK block, if the ACK reports nothing else and recovery continues.
    pub(super) fn growth(&self, segment: &Segment) -> Option<Growth> {
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
        let (start, from, to) = self.scoreboard.grown_block(segment).filter(|_| is_usual)?;
        let position = |at: u32| una + u64::from(at.wrapping_sub(segment.ack));
        let (start, from, to) = (position(start), position(from), position(to));
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
        (position == to).then_some(Growth { from, to, first, past })
    }

    /// Marks the entries of the extension; returns the send times of the first and the last, us.
    pub(super) fn mark_growth(&mut self, growth: &Growth, segment: &Segment) -> (u64, u64) {
        let (now_us, mut sent) = (self.sk.tcp_mstamp, None);
        for number in growth.first..growth.past {
            let entry = self.queue.get_mut(number);
            self.rack.advance_to(entry, now_us);
            self.sk.sacked_out += 1;
            self.sk.delivered += 1;
            self.scoreboard.head.on_sacked(number);
            rate::count_delivery(&mut self.rate, &mut self.sk, entry, self.stream.to_wire(entry.end()));
            entry.marks |= mark::SACKED;
            entry.delivered_us = 0;
            sent = Some((sent.map_or(entry.sent_us, |(first, _)| first), entry.sent_us));
        }
        self.scoreboard.highest = growth.to;
        self.scoreboard.note_marked(growth.to, growth.past);
        self.scoreboard.grow(growth.from, growth.to, segment);
        sent.unwrap_or((now_us, now_us))
    }

    /// Takes RTT and rate samples from the extension. A segment sent before the head's last transmission does not rearm the timer.
    pub(super) fn measure_growth(&mut self, report: &mut AckReport) -> Acked {
        let now_us = self.sk.tcp_mstamp;
        let (first_us, last_us) = report.sacked_sent_us.unwrap_or((now_us, now_us));
        self.rate.rtt_us = (now_us - last_us) as i64;
        self.on_rtt_sample(now_us - first_us, now_us - last_us, false);
        report.set_timer = self.queue.head().is_some_and(|head| first_us < head.sent_us);
        Acked { packets: 0, rtt_us: self.rate.rtt_us }
    }

    /// Continues a recovery; returns whether a tail loss probe is possible, which it is not.
    pub(super) fn continue_recovery(&mut self, report: &mut AckReport) -> bool {
        self.rack.update_window(self.rate.prior_delivered, self.sk.delivered);
        if self.rack_mark_lost() {
            report.set_timer = false;
        }
        self.output.retransmit = Retransmit::Lost;
        false
    }
}
