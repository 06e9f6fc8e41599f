//! Selective acknowledgements mark the send queue (RFC 2018, RFC 2883, RFC 6675).

use perigee_cc::CaState;

use crate::ack::AckNews;
use crate::queue::mark;
use crate::segment::Segment;
use crate::sender::Sender;

impl Sender {
    /// Marks what the SACK blocks of `segment` report for the first time.
    ///
    /// The receiver repeats blocks on many ACKs; what the previous ACK's blocks covered is marked already and is
    /// skipped as a whole, so that the work follows the number of segments and not of ACKs times the window.
    pub(crate) fn take_sacks(&mut self, segment: &Segment, ack: u64, prior_una: u64, news: &mut AckNews) {
        let mut blocks = [(0u64, 0u64); 4];
        let mut count = 0;
        for (at, &(start, end)) in segment.sack[..usize::from(segment.sack_count)].iter().enumerate() {
            let (Some(start), Some(end)) = (self.position(start), self.position(end)) else { continue };
            if start >= end || end > self.nxt {
                continue;
            }
            if at == 0 && self.is_duplicate_report(segment, ack, (start, end)) {
                self.on_duplicate_report((start, end), ack, prior_una, news);
                continue;
            }
            blocks[count] = (start, end);
            count += 1;
        }
        let blocks_now = &mut blocks[..count];
        // From low to high: the newest block comes first, and what is below it did not arrive after it for that.
        blocks_now.sort_unstable();
        for &(start, end) in &*blocks_now {
            self.mark_new_part(start.max(self.una), end, news);
        }
        self.known_sacks = [(0, 0); 4];
        self.known_sacks[..count].copy_from_slice(blocks_now);
        let recovering_from_timeout = self.state() == CaState::Loss && self.undo.marker.is_none();
        if news.reordered_at != u64::MAX && !recovering_from_timeout {
            self.note_reordering(news.reordered_at);
        }
    }

    /// Marks `start..end` but for what the previous ACK reported.
    fn mark_new_part(&mut self, start: u64, end: u64, news: &mut AckNews) {
        let mut start = start;
        while start < end {
            // The known block that covers `start`, or else the next one to come.
            let covering = self.known_sacks.iter().find(|k| k.0 <= start && start < k.1);
            if let Some(known) = covering {
                start = known.1;
                continue;
            }
            let next_known = self.known_sacks.iter().map(|k| k.0).filter(|s| *s > start).min().unwrap_or(end);
            let stop = end.min(next_known);
            self.mark_sacked(start, stop, news);
            start = stop;
        }
    }

    fn mark_sacked(&mut self, start: u64, end: u64, news: &mut AckNews) {
        let mut number = self.queue.find(start, self.sk.mss_cache);
        while number < self.queue.next() {
            let entry = *self.queue.get(number);
            if entry.end() > end {
                break;
            }
            if entry.start >= start && !entry.has(mark::SACKED) {
                self.mark_entry_sacked(number, news);
            }
            number += 1;
        }
    }

    #[inline]
    fn mark_entry_sacked(&mut self, number: u64, news: &mut AckNews) {
        let entry = *self.queue.get(number);
        self.rack.advance(&self.sk, &entry, self.sk.tcp_mstamp);
        let mut marks = entry.marks | mark::SACKED;
        if entry.has(mark::RETRANS) {
            // Without the lost mark the retransmission is believed to be in flight still.
            if entry.has(mark::LOST) {
                marks &= !(mark::LOST | mark::RETRANS);
                self.sk.lost_out -= 1;
                self.sk.retrans_out -= 1;
            }
        } else {
            if !entry.has(mark::EVER_RETRANS) {
                if entry.start < self.highest_sack_or_una() {
                    news.reordered_at = news.reordered_at.min(entry.start);
                }
                news.original_acked |= entry.end() <= self.high_seq;
                let first = news.sacked_sent_us.map_or(entry.sent_us, |(first, _)| first);
                news.sacked_sent_us = Some((first, entry.sent_us));
            }
            if entry.has(mark::LOST) {
                marks &= !mark::LOST;
                self.sk.lost_out -= 1;
            }
        }
        news.data_sacked = true;
        self.sk.sacked_out += 1;
        self.sk.delivered += 1;
        self.highest_sack = self.highest_sack.max(entry.end());
        if number < self.head_lost.0 {
            self.head_lost.1 += 1;
        }
        self.count_delivery(&entry);
        let stored = self.queue.get_mut(number);
        stored.marks = marks;
        stored.delivered_us = 0;
    }

    /// End of the highest SACKed segment; SND.UNA where nothing is SACKed.
    #[inline]
    pub(crate) fn highest_sack_or_una(&self) -> u64 {
        if self.sk.sacked_out == 0 {
            self.una
        } else {
            self.highest_sack
        }
    }

    /// Whether the first block is a duplicate report (RFC 2883, section 4).
    fn is_duplicate_report(&self, segment: &Segment, ack: u64, (start, end): (u64, u64)) -> bool {
        if start < ack {
            return true;
        }
        let second = (segment.sack_count > 1).then(|| segment.sack[1]);
        second.is_some_and(|(s, e)| match (self.position(s), self.position(e)) {
            (Some(s), Some(e)) => s <= start && end <= e,
            _ => false,
        })
    }

    fn on_duplicate_report(&mut self, (start, end): (u64, u64), ack: u64, prior_una: u64, news: &mut AckNews) {
        if !self.config.dsack {
            return;
        }
        let segments = (end - start).div_ceil(u64::from(self.sk.mss_cache)).max(1);
        news.dsack = true;
        if self.probe.is_some_and(|(probe_end, _)| probe_end == end) {
            news.dsack_of_probe = true;
        }
        self.dsack_duplicates += segments;
        // More duplicates than retransmissions: the network made them, not we.
        if self.dsack_duplicates > u64::from(self.sk.total_retrans) {
            return;
        }
        news.dsack_segments = segments as u32;
        if self.reordering_seen && !news.dsack_of_probe {
            self.rack.dsack_seen = true;
        }
        let Some(marker) = self.undo.marker else { return };
        if end <= marker || (end > prior_una && end > ack) {
            return self.on_duplicate_in_queue((start, end));
        }
        if let Some(left) = &mut self.undo.retransmissions {
            *left = left.saturating_sub(news.dsack_segments);
        }
    }

    /// The duplicate is of data still in the queue: its retransmission is not in flight any more.
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
            if let (true, Some(marker), Some(left)) = (retransmitted, self.undo.marker, &mut self.undo.retransmissions)
            {
                if entry_end > marker {
                    *left = left.saturating_sub(1);
                }
            }
            number += 1;
        }
    }

    /// An original segment from `low` arrived after higher ones: the reordering degree is at least their distance.
    pub(crate) fn note_reordering(&mut self, low: u64) {
        let high = self.highest_sack_or_una();
        if low >= high {
            return;
        }
        let mss = u64::from(self.sk.mss_cache);
        let distance = (high - low).div_ceil(mss);
        if high - low > u64::from(self.sk.reordering) * mss {
            self.sk.reordering = distance.min(MAX_REORDERING) as u32;
        }
        self.reordering_seen = true;
    }
}

/// Linux's `tcp_max_reordering`.
const MAX_REORDERING: u64 = 300;
