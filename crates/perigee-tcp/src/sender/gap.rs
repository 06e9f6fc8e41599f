//! The usual acknowledgement while a loss is repaired: it repeats SND.UNA, and the newest SACK block has grown by segments that were sent
//! once and are above all others.
//!
//! The steps are those of `ack`, `sack` and `recovery`, in the same order, without those that find nothing to do then; tests hold the two
//! against each other.

use perigee_cc::{AckSample, CaState, RateSample};

use crate::segment::Segment;

use super::ack::{CA_ACK_SLOWPATH, CA_ACK_WIN_UPDATE};
use super::rate;
use super::report::AckReport;
use super::state::output::Retransmit;
use super::state::queue::mark;
use super::Sender;

/// What a SACK block has grown by.
struct Growth {
    /// Positions.
    from: u64,
    to: u64,
    /// Entries between them.
    first: u64,
    past: u64,
}

impl Sender {
    /// Takes the acknowledgement in `segment` if all that it tells is that the newest SACK block has grown, in a recovery that goes on.
    /// `false`: it tells more or something else, and nothing has happened.
    pub(crate) fn on_growth(&mut self, segment: &Segment) -> bool {
        let Some(growth) = self.growth(segment) else { return false };
        let prior_in_flight = self.sk.packets_in_flight();
        let (prior_delivered, prior_lost) = (self.sk.delivered, self.sk.lost);
        let now_us = self.sk.tcp_mstamp;
        let mut sample = RateSample { prior_in_flight, ..RateSample::default() };
        self.output.due = true;
        let window_update = self.take_window(self.stream.una, segment.window, false);

        let (oldest_us, newest_us) = self.mark_growth(&growth, &mut sample);
        self.scoreboard.grow(growth.from, growth.to, segment);
        if self.sk.has_in_ack_event() {
            self.sk.in_ack_event(CA_ACK_WIN_UPDATE | CA_ACK_SLOWPATH);
        }
        sample.rtt_us = newest_us as i64;
        self.on_rtt_sample(oldest_us, newest_us, false);
        let moves_timer = self.queue.head().is_some_and(|head| oldest_us > now_us - head.sent_us);
        if self.sk.has_pkts_acked() {
            let rtt_us = i32::try_from(newest_us).unwrap_or(i32::MAX);
            self.sk.pkts_acked(&AckSample { pkts_acked: 0, rtt_us, in_flight: prior_in_flight });
        }
        self.rack.update_window(sample.prior_delivered, self.sk.delivered);
        let waits = self.rack_mark_lost();
        self.output.retransmit = Retransmit::Lost;
        if moves_timer && !waits {
            self.rearm_timeout();
        }

        let delivered = self.sk.delivered.wrapping_sub(prior_delivered);
        let lost = self.sk.lost.wrapping_sub(prior_lost);
        rate::note_delivery(&mut self.sk, delivered);
        rate::complete(&mut sample, &self.sk, delivered, lost, false);
        if self.sk.has_cong_control() {
            let report = AckReport { window_update, data_sacked: true, ..AckReport::NOTHING };
            self.sk.cong_control(segment.ack, report.kernel_flags(), &sample);
        } else {
            self.reduce_cwnd(delivered, lost, false);
            self.follow_cwnd();
        }
        true
    }

    /// What the newest SACK block has grown by, where that is all that is new, and nothing else is under way than the recovery.
    fn growth(&self, segment: &Segment) -> Option<Growth> {
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
        let [start, from, to] = [start, from, to].map(|at| una + u64::from(at.wrapping_sub(segment.ack)));
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

    /// Marks the entries of a growth; how long ago the first of them was sent, and the last, us.
    fn mark_growth(&mut self, growth: &Growth, sample: &mut RateSample) -> (u64, u64) {
        let (now_us, mut sent) = (self.sk.tcp_mstamp, None);
        for number in growth.first..growth.past {
            let entry = *self.queue.get(number);
            self.rack.advance_to(&entry, now_us);
            self.sk.sacked_out += 1;
            self.sk.delivered += 1;
            self.scoreboard.head.on_sacked(number);
            rate::count_delivery(sample, &mut self.sk, &entry, self.stream.to_wire(entry.end()));
            let stored = self.queue.get_mut(number);
            stored.marks |= mark::SACKED;
            stored.delivered_us = 0;
            sent = Some((sent.map_or(entry.sent_us, |(first, _)| first), entry.sent_us));
        }
        self.scoreboard.highest = growth.to;
        self.scoreboard.note_marked(growth.to, growth.past);
        let (first_us, last_us) = sent.unwrap_or((now_us, now_us));
        (now_us - first_us, now_us - last_us)
    }
}
