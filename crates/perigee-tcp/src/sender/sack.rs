//! Marks the send queue from SACK blocks (RFC 2018, RFC 2883, RFC 6675).

use perigee_cc::CaState;

use crate::segment::Segment;

use super::report::AckReport;
use super::state::queue::mark;
use super::state::scoreboard::MAX_BLOCKS;
use super::Sender;

impl Sender {
    /// Marks what the SACK blocks of `segment` report for the first time.
    ///
    /// A receiver repeats blocks in many ACKs. What the previous ACK covered is already marked and is skipped as a whole, so the work grows
    /// with the number of segments, not with ACKs times the window.
    pub(super) fn take_sacks(&mut self, segment: &Segment, ack: u64, prior_una: u64, report: &mut AckReport) {
        if !self.take_advanced_block(segment, ack, report) {
            self.take_blocks(segment, ack, prior_una, report);
        }
        let recovering_from_timeout = self.state() == CaState::Loss && self.recovery.undo.marker.is_none();
        if report.reordered_at != u64::MAX && !recovering_from_timeout {
            self.note_reordering(report.reordered_at);
        }
    }

    /// Marks the extension of the newest block if nothing else is new; returns whether that was so.
    fn take_advanced_block(&mut self, segment: &Segment, ack: u64, report: &mut AckReport) -> bool {
        let Some(block) = self.scoreboard.advanced_block(segment) else { return false };
        let positions = [block.0, block.1, block.2].map(|sequence| self.stream.position(sequence));
        let [Some(start), Some(before), Some(end)] = positions else { return false };
        if start < ack.max(self.stream.una) || end > self.stream.nxt {
            return false;
        }
        debug_assert_eq!(self.scoreboard.unknown_part(start, end), Some((before, end)), "nothing else is new");
        self.mark_sacked(before, end, report);
        self.scoreboard.advance(before, end, block.2);
        true
    }

    fn take_blocks(&mut self, segment: &Segment, ack: u64, prior_una: u64, report: &mut AckReport) {
        let mut blocks = [(0u64, 0u64); MAX_BLOCKS];
        let mut count = 0;
        for (at, &(start, end)) in segment.sack[..usize::from(segment.sack_count)].iter().enumerate() {
            let (Some(start), Some(end)) = (self.stream.position(start), self.stream.position(end)) else { continue };
            if start >= end || end > self.stream.nxt {
                continue;
            }
            if at == 0 && self.is_duplicate_report(segment, ack, (start, end)) {
                self.on_duplicate_report((start, end), ack, prior_una, report);
                continue;
            }
            blocks[count] = (start, end);
            count += 1;
        }
        let blocks_now = &mut blocks[..count];
        // Mark in ascending order: the order of the blocks is not that of arrival and must not look like reordering.
        blocks_now.sort_unstable();
        for &(start, end) in &*blocks_now {
            self.mark_new_part(start.max(self.stream.una), end, report);
        }
        self.scoreboard.remember(blocks_now, segment);
    }

    /// Marks the part of `start..end` that the previous ACK did not report.
    fn mark_new_part(&mut self, mut start: u64, end: u64, report: &mut AckReport) {
        while let Some((from, to)) = self.scoreboard.unknown_part(start, end) {
            self.mark_sacked(from, to, report);
            start = to;
        }
    }

    fn mark_sacked(&mut self, start: u64, end: u64, report: &mut AckReport) {
        let known = self.scoreboard.entry_at(start).filter(|number| *number >= self.queue.first());
        let mut number = known.unwrap_or_else(|| self.queue.find(start, self.sk.mss_cache));
        while number < self.queue.next() {
            let entry = *self.queue.get(number);
            if entry.end() > end {
                break;
            }
            if entry.start >= start && !entry.has(mark::SACKED) {
                self.mark_entry_sacked(number, report);
            }
            number += 1;
            self.scoreboard.note_marked(entry.end(), number);
        }
    }

    #[inline]
    fn mark_entry_sacked(&mut self, number: u64, report: &mut AckReport) {
        let entry = *self.queue.get(number);
        self.rack.advance(&self.sk, &entry, self.sk.tcp_mstamp);
        let mut marks = entry.marks | mark::SACKED;
        if entry.has(mark::RETRANS) {
            // Without the lost mark, the retransmission still counts as in flight.
            if entry.has(mark::LOST) {
                marks &= !(mark::LOST | mark::RETRANS);
                self.sk.lost_out -= 1;
                self.sk.retrans_out -= 1;
            }
        } else {
            if !entry.has(mark::EVER_RETRANS) {
                if entry.start < self.highest_sack_or_una() {
                    report.reordered_at = report.reordered_at.min(entry.start);
                }
                report.original_acked |= entry.end() <= self.recovery.point;
                let first = report.sacked_sent_us.map_or(entry.sent_us, |(first, _)| first);
                report.sacked_sent_us = Some((first, entry.sent_us));
            }
            if entry.has(mark::LOST) {
                marks &= !mark::LOST;
                self.sk.lost_out -= 1;
            }
        }
        report.data_sacked = true;
        self.sk.sacked_out += 1;
        self.sk.delivered += 1;
        self.scoreboard.highest = self.scoreboard.highest.max(entry.end());
        self.scoreboard.head.on_sacked(number);
        self.count_delivery(&entry);
        let stored = self.queue.get_mut(number);
        stored.marks = marks;
        stored.delivered_us = 0;
    }

    /// End of the highest SACKed segment; SND.UNA if none is SACKed.
    #[inline]
    pub(crate) fn highest_sack_or_una(&self) -> u64 {
        if self.sk.sacked_out == 0 {
            self.stream.una
        } else {
            self.scoreboard.highest
        }
    }

    /// Whether the first block is a D-SACK (RFC 2883, section 4).
    fn is_duplicate_report(&self, segment: &Segment, ack: u64, (start, end): (u64, u64)) -> bool {
        if start < ack {
            return true;
        }
        let second = (segment.sack_count > 1).then(|| segment.sack[1]);
        second.is_some_and(|(s, e)| match (self.stream.position(s), self.stream.position(e)) {
            (Some(s), Some(e)) => s <= start && end <= e,
            _ => false,
        })
    }

    fn on_duplicate_report(&mut self, (start, end): (u64, u64), ack: u64, prior_una: u64, report: &mut AckReport) {
        if !self.settings.dsack {
            return;
        }
        let segments = (end - start).div_ceil(u64::from(self.sk.mss_cache)).max(1);
        report.dsack = true;
        if self.tail_probe.outstanding.is_some_and(|probe| probe.end == end) {
            report.dsack_of_probe = true;
        }
        // More duplicates than retransmissions: the network duplicates packets.
        if self.scoreboard.count_duplicates(segments) > u64::from(self.sk.total_retrans) {
            return;
        }
        report.dsack_segments = segments as u32;
        if self.rack.reordering_seen && !report.dsack_of_probe {
            self.rack.on_duplicate();
        }
        let Some(marker) = self.recovery.undo.marker else { return };
        if end <= marker || (end > prior_una && end > ack) {
            return self.on_duplicate_in_queue((start, end));
        }
        self.recovery.undo.on_duplicates(report.dsack_segments);
    }

    /// Processes a D-SACK of data still in the queue, whose retransmission is no longer in flight.
    fn on_duplicate_in_queue(&mut self, (start, end): (u64, u64)) {
        let mut number = self.queue.find(start, self.sk.mss_cache);
        while number < self.queue.next() && self.queue.get(number).end() <= end {
            let entry = self.queue.get_mut(number);
            let (retransmitted, in_flight) = (entry.has(mark::EVER_RETRANS), entry.has(mark::RETRANS));
            entry.marks &= !mark::RETRANS;
            let entry_end = entry.end();
            if in_flight {
                self.sk.retrans_out -= 1;
            }
            if retransmitted && self.recovery.undo.marker.is_some_and(|marker| entry_end > marker) {
                self.recovery.undo.on_duplicates(1);
            }
            number += 1;
        }
    }

    /// The original segment at `low` arrived after higher ones: raises the reordering degree to at least their distance.
    pub(crate) fn note_reordering(&mut self, low: u64) {
        let high = self.highest_sack_or_una();
        if low >= high {
            return;
        }
        let mss = u64::from(self.sk.mss_cache);
        let distance = (high - low).div_ceil(mss);
        if high - low > u64::from(self.sk.reordering) * mss {
            self.sk.reordering = distance.min(u64::from(MAX_REORDERING)) as u32;
        }
        self.rack.reordering_seen = true;
    }
}

/// Linux's `tcp_max_reordering`.
pub(super) const MAX_REORDERING: u32 = 300;
