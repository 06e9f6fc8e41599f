//! Receiver of packets at a constant rate: loss bursts, delay and rate over time, in memory of a fixed size.

use perigee_units::Time;
use serde::{Deserialize, Serialize};

use crate::protocol::Request;

/// State of the receiver, in memory bounded by the request.
///
/// A number that has not arrived counts as lost once it is 65,536 behind the newest, and stays lost if it arrives
/// later. Delays are differences of two clocks that are not synchronised: only their differences mean something.
#[derive(Debug)]
pub struct Receiver {
    asked: Request,
    report: Report,
    /// Which numbers from `settled` on have arrived.
    window: Vec<u64>,
    /// Numbers below this are counted.
    settled: u64,
    newest: Option<u64>,
    run: u64,
    /// Sums of the delays in each block, ns, relative to the first packet's.
    sums: Vec<i64>,
}

/// The receiver's report on a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Packets received, each number once.
    pub received: u64,
    /// Numbers that never arrived.
    pub lost: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Packets that arrived after one with a higher number.
    pub reordered: u64,
    /// Largest distance of a packet behind the newest, in numbers.
    pub reordered_by: u64,
    /// Arrival of the first packet, on the receiver's clock.
    pub first_ns: u64,
    /// Arrival of the last one.
    pub last_ns: u64,
    /// Delay of the first packet: the receiver's clock minus the sender's.
    pub delay_ns: i64,
    /// Packets per block. `blocks` divides the packets by number, `arrivals` by arrival time, in blocks of the same
    /// duration.
    pub per_block: u32,
    /// Loss bursts: length, and number of bursts of that length, by length.
    pub runs: Vec<(u32, u32)>,
    /// Blocks of packets, by number.
    pub blocks: Vec<Block>,
    /// Packets received per block of time, from the first arrival on.
    pub arrivals: Vec<u32>,
}

/// Consecutive packets of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Packets received of the block.
    pub received: u32,
    /// Minimum delay relative to the first packet's, us.
    pub least_us: i32,
    /// Mean delay.
    pub mean_us: i32,
    /// Maximum delay.
    pub most_us: i32,
}

impl Receiver {
    pub(crate) fn new(asked: Request) -> Self {
        let blocks = asked.packets.div_ceil(u64::from(asked.per_block.max(1))).min(MOST_BLOCKS) as usize;
        let report = Report {
            per_block: asked.per_block,
            blocks: vec![Block::default(); blocks],
            // A queue delays packets: arrivals last longer than the sending.
            arrivals: vec![0; blocks + blocks / 2 + 100],
            ..Report::default()
        };
        let window = vec![0; (WINDOW / 64) as usize];
        Self { asked, report, window, settled: 0, newest: None, run: 0, sums: vec![0; blocks] }
    }

    /// Counts a data packet.
    pub(crate) fn on_packet(&mut self, now: Time, number: u64, sent_ns: u64) {
        if number >= self.asked.packets {
            return;
        }
        if number < self.settled {
            // Counted as lost already, or a very late duplicate.
            self.report.duplicates += 1;
            return;
        }
        if let Some(last) = number.checked_sub(WINDOW - 1) {
            self.settle_below(last);
        }
        let (word, bit) = place(number);
        if self.window[word] & bit != 0 {
            self.report.duplicates += 1;
            return;
        }
        self.window[word] |= bit;
        let delay = now.as_nanos().wrapping_sub(sent_ns) as i64;
        if self.report.received == 0 {
            self.report.first_ns = now.as_nanos();
            self.report.delay_ns = delay;
        }
        match self.newest {
            Some(newest) if number < newest => {
                self.report.reordered += 1;
                self.report.reordered_by = self.report.reordered_by.max(newest - number);
            }
            _ => self.newest = Some(number),
        }
        self.report.received += 1;
        self.report.last_ns = now.as_nanos();
        self.count(
            number,
            delay.wrapping_sub(self.report.delay_ns),
            now.as_nanos().saturating_sub(self.report.first_ns),
        );
    }

    /// Packets received, each number once.
    pub(crate) fn received(&self) -> u64 {
        self.report.received
    }

    /// Whether the last packet of the request has arrived.
    pub(crate) fn has_last(&self) -> bool {
        self.newest == Some(self.asked.packets - 1)
    }

    /// Counts the missing ones of `sent` packets as lost, and closes the report.
    pub(crate) fn finish(mut self, sent: u64) -> Report {
        let sent = sent.min(self.asked.packets).max(self.newest.map_or(0, |newest| newest + 1));
        self.settle_below(sent);
        self.end_run();
        let used = (sent.div_ceil(u64::from(self.asked.per_block.max(1))) as usize).min(self.report.blocks.len());
        self.report.blocks.truncate(used);
        for (block, sum) in self.report.blocks.iter_mut().zip(&self.sums) {
            block.mean_us = micros(sum / i64::from(block.received.max(1)));
        }
        let arrivals = self.report.arrivals.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        self.report.arrivals.truncate(arrivals);
        self.report
    }

    fn count(&mut self, number: u64, delay: i64, since: u64) {
        let at = (number / u64::from(self.asked.per_block.max(1))) as usize;
        if let (Some(block), Some(sum)) = (self.report.blocks.get_mut(at), self.sums.get_mut(at)) {
            let delay_us = micros(delay);
            let first = block.received == 0;
            block.least_us = if first { delay_us } else { block.least_us.min(delay_us) };
            block.most_us = if first { delay_us } else { block.most_us.max(delay_us) };
            block.received += 1;
            *sum = sum.saturating_add(delay);
        }
        let bin = u128::from(since) * u128::from(self.asked.rate_bps)
            / (u128::from(self.asked.per_block.max(1)) * u128::from(self.asked.packet.max(1)) * 8_000_000_000);
        let last = self.report.arrivals.len() - 1;
        self.report.arrivals[usize::try_from(bin).unwrap_or(last).min(last)] += 1;
    }

    /// Settles all numbers below `end`.
    fn settle_below(&mut self, end: u64) {
        // The window is empty beyond the newest number: all of those are lost.
        let seen = self.newest.map_or(0, |newest| newest + 1).clamp(self.settled, end.max(self.settled));
        for number in self.settled..seen {
            let (word, bit) = place(number);
            if self.window[word] & bit == 0 {
                self.run += 1;
            } else {
                self.window[word] &= !bit;
                self.end_run();
            }
        }
        self.run += end.saturating_sub(seen);
        self.settled = self.settled.max(end);
    }

    fn end_run(&mut self) {
        let length = u32::try_from(std::mem::take(&mut self.run)).unwrap_or(u32::MAX);
        if length == 0 {
            return;
        }
        self.report.lost += u64::from(length);
        let runs = &mut self.report.runs;
        match runs.binary_search_by_key(&length, |&(known, _)| known) {
            Ok(at) => runs[at].1 += 1,
            Err(at) if runs.len() < MOST_RUNS => runs.insert(at, (length, 1)),
            // The table of lengths is full: the nearest length stands for this one.
            Err(at) => runs[at.min(MOST_RUNS - 1)].1 += 1,
        }
    }
}

impl Report {
    /// Encodes the report.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Only a type that postcard does not know could fail.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Decodes a report of [`Report::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

fn micros(ns: i64) -> i32 {
    i32::try_from(ns / 1000).unwrap_or(if ns < 0 { i32::MIN } else { i32::MAX })
}

/// Reordering distance that is still counted, packets: half a minute at 20 Mbit/s.
pub(crate) const WINDOW: u64 = 1 << 16;
/// Most blocks of a probe.
pub(crate) const MOST_BLOCKS: u64 = 12_000;
/// Most distinct burst lengths.
const MOST_RUNS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Direction;
    use proptest::prelude::*;

    fn asked(packets: u64) -> Request {
        // A packet each millisecond, ten to a block.
        Request { direction: Direction::Up, packet: 1250, headers: 28, rate_bps: 10_000_000, packets, per_block: 10 }
    }

    fn send(receiver: &mut Receiver, number: u64, delay_us: u64) {
        let sent = Time::from_millis(number);
        receiver.on_packet(sent + Time::from_micros(delay_us), number, sent.as_nanos());
    }

    #[test]
    fn losses_in_a_row_are_one_run_and_the_last_ones_count() {
        let mut receiver = Receiver::new(asked(100));
        for number in (0..90).filter(|n| !matches!(n, 5 | 20..=22 | 40 | 41 | 60)) {
            send(&mut receiver, number, 500);
        }
        let report = receiver.finish(100);
        assert_eq!((report.received, report.lost, report.reordered), (83, 17, 0));
        assert_eq!(report.runs, [(1, 2), (2, 1), (3, 1), (10, 1)]);
        assert_eq!(report.blocks.iter().map(|b| b.received).collect::<Vec<_>>(), [9, 10, 7, 10, 8, 10, 9, 10, 10, 0]);
        assert_eq!(report.arrivals.len(), 9);
    }

    #[test]
    fn a_packet_that_comes_late_is_reordered_and_not_lost_and_one_that_comes_twice_counts_once() {
        let mut receiver = Receiver::new(asked(10));
        for number in [0, 1, 4, 2, 2, 3, 5, 6, 9, 8, 7, 7] {
            send(&mut receiver, number, 100);
        }
        let report = receiver.finish(10);
        assert_eq!((report.received, report.lost, report.duplicates, report.reordered), (10, 0, 2, 4));
        assert_eq!(report.reordered_by, 2);
    }

    #[test]
    fn delays_are_told_against_the_first_packet_s() {
        let mut receiver = Receiver::new(asked(20));
        for number in 0..20 {
            send(&mut receiver, number, 1_000_000 + 100 * number);
        }
        let report = receiver.finish(20);
        assert_eq!(report.delay_ns, 1_000_000_000);
        let second = report.blocks[1];
        assert_eq!((second.least_us, second.mean_us, second.most_us), (1000, 1450, 1900));
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_report_make_its_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            Report::from_bytes(&bytes);
        }

        #[test]
        fn every_number_is_received_or_lost_once(
            numbers in prop::collection::vec(0u64..400_000, 0..300),
            sent in 0u64..400_000,
        ) {
            let mut receiver = Receiver::new(asked(400_000));
            for &number in &numbers {
                send(&mut receiver, number, 0);
            }
            let total = sent.max(numbers.iter().max().map_or(0, |most| most + 1));
            let report = receiver.finish(sent);
            prop_assert_eq!(report.received + report.lost, total);
            let runs: u64 = report.runs.iter().map(|&(length, count)| u64::from(length) * u64::from(count)).sum();
            prop_assert_eq!(runs, report.lost);
            let in_blocks: u64 = report.blocks.iter().map(|block| u64::from(block.received)).sum();
            // Two blocks of ten thousand beyond the last number stay empty.
            prop_assert!(in_blocks <= report.received);
            prop_assert_eq!(report.arrivals.iter().map(|&n| u64::from(n)).sum::<u64>(), report.received);
            prop_assert_eq!(Report::from_bytes(&report.to_bytes()), Some(report));
        }
    }
}
