//! One direction of a TCP connection, reconstructed from its segments.

use std::collections::VecDeque;

use perigee_units::{nearest_position, Time};

use crate::spans::Spans;
use crate::tcp::Tcp;

/// One direction where its data are sent and their acknowledgements arrive.
///
/// Round trips are those that Linux's sender takes: from the sending of the last segment that an acknowledgement covers
/// for the first time, selectively or not, without segments that were sent twice (Karn, Partridge 1987). For an
/// acknowledgement in order of such a segment, the echo of the sender's clock counts, to a millisecond (RFC 7323).
#[derive(Clone, Debug, Default)]
pub struct SenderView {
    position: Position,
    /// Unacknowledged segments, in order of their ends.
    outstanding: VecDeque<Outstanding>,
    /// Data that are acknowledged beyond a gap.
    beyond: Spans,
    /// Bytes from the beginning that have been sent at least once.
    next: u64,
    acknowledged: u64,
    packets: u64,
    retransmitted: u64,
    /// An instant, and the sender's clock at that instant, ms.
    clock: Option<(Time, u32)>,
    /// When the SYN or SYN-ACK was sent, if it was sent once and its round trip has not been taken.
    syn: Option<Time>,
    /// How often it was sent.
    syns: u32,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    end: u64,
    at: Time,
    twice: bool,
    sacked: bool,
}

impl SenderView {
    /// Takes a segment that is sent in this direction; returns whether it is a retransmission.
    pub fn sent(&mut self, now: Time, segment: &Tcp) -> bool {
        if segment.syn {
            self.position.begin(segment.sequence.wrapping_add(1));
            self.syns += 1;
            self.syn = (self.syns == 1).then_some(now);
        }
        if let (None, Some((clock, _))) = (self.clock, segment.timestamps) {
            self.clock = Some((now, clock));
        }
        if segment.payload == 0 {
            return false;
        }
        let start = self.position.of(segment.sequence);
        let end = start + u64::from(segment.payload);
        self.packets += 1;
        if end <= self.next {
            self.retransmitted += 1;
            let first = self.outstanding.partition_point(|segment| segment.end <= start);
            for segment in self.outstanding.range_mut(first..).take_while(|segment| segment.end <= end) {
                segment.twice = true;
            }
            return true;
        }
        self.next = end;
        self.outstanding.push_back(Outstanding { end, at: now, twice: false, sacked: false });
        false
    }

    /// The positions in the stream of a segment's data: their first byte, and the one after their last.
    pub fn span(&mut self, segment: &Tcp) -> (u64, u64) {
        let start = self.position.of(segment.sequence);
        (start, start + u64::from(segment.payload))
    }

    /// Takes a segment that arrives from the other direction; returns the round trip of the handshake if this segment is the first to
    /// acknowledge the SYN or SYN-ACK, and that was sent once: Linux's sender takes it like those of data.
    pub fn handshake(&mut self, now: Time, segment: &Tcp) -> Option<Time> {
        segment.acknowledgement?;
        now.checked_sub(self.syn.take()?)
    }

    /// Takes a segment that arrives from the other direction; returns the round trip that its acknowledgement of data measures, if any.
    pub fn received(&mut self, now: Time, segment: &Tcp) -> Option<Time> {
        let number = segment.acknowledgement.filter(|_| !segment.syn)?;
        let acknowledged = self.position.of(number).min(self.next);
        let news = acknowledged > self.acknowledged;
        self.acknowledged = self.acknowledged.max(acknowledged);
        self.beyond.remove_before(self.acknowledged);
        let (mut sample, mut twice) = (None, false);
        while let Some(segment) = self.outstanding.front().copied().filter(|segment| segment.end <= acknowledged) {
            self.outstanding.pop_front();
            twice |= segment.twice;
            if !segment.twice && !segment.sacked {
                sample = Some(segment.at);
            }
        }
        sample = sample.filter(|_| !twice);
        if let Some(last) = self.sacked(segment.sack.blocks()) {
            sample = Some(last);
        }
        match (sample, segment.timestamps, self.clock) {
            (Some(sent), ..) => now.checked_sub(sent),
            (None, Some((_, echo)), Some((then, showed))) if news => {
                let elapsed = (now - then).as_nanos() as i128;
                let sent = i128::from(echo.wrapping_sub(showed) as i32) * 1_000_000;
                u64::try_from(elapsed - sent).ok().map(Time::from_nanos)
            }
            _ => None,
        }
    }

    /// Marks the data that are covered beyond a gap; returns when the last segment was sent that is covered for the first
    /// time and was sent once.
    fn sacked(&mut self, blocks: &[(u32, u32)]) -> Option<Time> {
        let mut last = None;
        for (first, after) in blocks {
            let (start, end) = (self.position.of(*first), self.position.of(*after).min(self.next));
            // A block below the acknowledgement reports data that arrived twice (RFC 2883).
            if start < self.acknowledged || end <= start {
                continue;
            }
            let outstanding = &mut self.outstanding;
            self.beyond.add(start, end, |start, end| {
                let from = outstanding.partition_point(|segment| segment.end <= start);
                for segment in outstanding.range_mut(from..).take_while(|segment| segment.end <= end) {
                    if !segment.sacked && !segment.twice {
                        last = last.max(Some(segment.at));
                    }
                    segment.sacked = true;
                }
            });
        }
        last
    }

    /// When the segment with the byte before `end` was sent; `None` once it is acknowledged.
    pub fn sent_at(&self, end: u64) -> Option<Time> {
        let place = self.outstanding.partition_point(|segment| segment.end < end);
        self.outstanding.get(place).map(|segment| segment.at)
    }

    /// Bytes from the beginning that have been sent at least once.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that the other end has, beyond a gap or not.
    pub fn arrived(&self) -> u64 {
        self.acknowledged + self.beyond.bytes()
    }

    /// Segments with data so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Retransmissions among them.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Bytes acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }
}

/// One direction where its data arrive.
#[derive(Clone, Debug, Default)]
pub struct ReceiverView {
    position: Position,
    received: u64,
    arrived: u64,
    /// Data beyond a gap.
    beyond: Spans,
}

impl ReceiverView {
    /// Takes a segment that arrives.
    pub fn segment(&mut self, segment: &Tcp) {
        if segment.syn {
            self.position.begin(segment.sequence.wrapping_add(1));
        }
        if segment.payload == 0 {
            return;
        }
        let start = self.position.of(segment.sequence).max(self.received);
        let end = self.position.of(segment.sequence) + u64::from(segment.payload);
        if end <= start {
            return;
        }
        if start == self.received && self.beyond.is_empty() {
            self.arrived += end - start;
            self.received = end;
            return;
        }
        let arrived = &mut self.arrived;
        self.beyond.add(start, end, |start, end| *arrived += end - start);
        if let Some((_, end)) = self.beyond.first().filter(|(start, _)| *start == self.received) {
            self.received = end;
            self.beyond.remove_before(end);
        }
    }

    /// Bytes without a gap from the beginning.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes, each counted once.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }
}

/// The position of a direction, bytes from its beginning; sequence numbers are its last 32 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    first: Option<u32>,
    last: u64,
}

impl Position {
    /// Sets the sequence number of the first byte.
    pub fn begin(&mut self, first: u32) {
        (self.first, self.last) = (Some(first), 0);
    }

    /// The position of a sequence number: the nearest to the largest so far. Without a known beginning, this is the beginning.
    pub fn of(&mut self, number: u32) -> u64 {
        let first = *self.first.get_or_insert(number);
        let place = nearest_position(number.wrapping_sub(first), self.last).unwrap_or(0);
        self.last = self.last.max(place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Sack;

    const MSS: u32 = 1000;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn data(sequence: u32, payload: u32) -> Tcp {
        Tcp { sequence, payload, ..Tcp::default() }
    }

    fn syn(sequence: u32) -> Tcp {
        Tcp { syn: true, ..data(sequence, 0) }
    }

    fn ack(number: u32, blocks: &[(u32, u32)]) -> Tcp {
        Tcp { acknowledgement: Some(number), sack: Sack::of(blocks), ..Tcp::default() }
    }

    #[test]
    fn round_trips_are_of_segments_that_were_sent_once() {
        let mut sender = SenderView::default();
        sender.sent(ms(0), &syn(u32::MAX - 1500));
        let at = |n: u32| (u32::MAX - 1499).wrapping_add(n * MSS);
        for n in 0..4 {
            assert!(!sender.sent(ms(u64::from(n)), &data(at(n), MSS)));
        }
        assert_eq!(sender.received(ms(50), &ack(at(1), &[])), Some(ms(50)));
        assert!(sender.sent(ms(60), &data(at(1), MSS)));
        // It covers the second, which was sent twice, and the third.
        assert_eq!(sender.received(ms(110), &ack(at(3), &[])), None);
        assert_eq!(sender.received(ms(111), &ack(at(4), &[])), Some(ms(108)));
        assert_eq!(sender.received(ms(112), &ack(at(4), &[])), None);
        assert_eq!((sender.packets(), sender.retransmitted(), sender.acknowledged()), (5, 1, 4000));
    }

    #[test]
    fn the_handshake_is_a_round_trip_unless_its_segment_was_sent_again() {
        let mut sender = SenderView::default();
        sender.sent(ms(10), &syn(99));
        assert_eq!(sender.handshake(ms(20), &data(0, 0)), None, "it acknowledges nothing");
        assert_eq!(sender.handshake(ms(50), &ack(100, &[])), Some(ms(40)));
        // The SYN-ACK is sent again, since the acknowledgement was late.
        sender.sent(ms(60), &syn(99));
        assert_eq!(sender.handshake(ms(70), &ack(100, &[])), None);
        let mut again = SenderView::default();
        again.sent(ms(0), &syn(99));
        again.sent(ms(1000), &syn(99));
        assert_eq!(again.handshake(ms(1100), &ack(100, &[])), None);
    }

    #[test]
    fn what_is_covered_beyond_a_gap_gives_its_round_trip_then_and_not_later() {
        let mut sender = SenderView::default();
        sender.sent(ms(0), &syn(99));
        for n in 0..5u32 {
            sender.sent(ms(u64::from(n)), &data(100 + n * MSS, MSS));
        }
        assert_eq!(sender.received(ms(102), &ack(100, &[(2100, 3100)])), Some(ms(100)));
        assert_eq!(sender.received(ms(103), &ack(100, &[(2100, 4100)])), Some(ms(100)));
        assert!(sender.sent(ms(104), &data(100, MSS)));
        assert_eq!(sender.received(ms(204), &ack(1100, &[(2100, 4100)])), None);
        assert_eq!(sender.received(ms(205), &ack(4100, &[])), Some(ms(204)));
        assert_eq!(sender.received(ms(206), &ack(4100, &[(100, 1100)])), None);
        assert_eq!(sender.received(ms(207), &ack(5100, &[])), Some(ms(203)));
    }

    #[test]
    fn the_echo_of_the_clock_tells_which_sending_was_acknowledged() {
        let mut sender = SenderView::default();
        let with = |clock: u32, segment: Tcp| Tcp { timestamps: Some((clock, 0)), ..segment };
        sender.sent(ms(10), &with(u32::MAX - 4, syn(99)));
        sender.sent(ms(20), &with(5, data(100, MSS)));
        sender.sent(ms(220), &with(205, data(100, MSS)));
        let late = Tcp { timestamps: Some((0, 205)), ..ack(1100, &[]) };
        assert_eq!(sender.received(ms(320), &late), Some(ms(100)));
    }

    #[test]
    fn every_byte_is_counted_once_whatever_the_order() {
        let mut receiver = ReceiverView::default();
        receiver.segment(&syn(99));
        for (sequence, payload, received, arrived) in [
            (100, 1000, 1000, 1000),
            (2100, 1000, 1000, 2000),
            (4100, 1000, 1000, 3000),
            (2100, 1000, 1000, 3000),
            (2600, 2000, 1000, 4000),
            (100, 500, 1000, 4000),
            (1100, 1000, 5000, 5000),
            (5100, 10, 5010, 5010),
        ] {
            receiver.segment(&data(sequence, payload));
            assert_eq!((receiver.received(), receiver.arrived()), (received, arrived), "{sequence} + {payload}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_receiver_counts_as_a_set_of_bytes_does(segments in proptest::collection::vec((0u32..300, 1u32..60), 1..60)) {
            let mut receiver = ReceiverView::default();
            receiver.segment(&syn(u32::MAX - 100));
            let mut bytes = std::collections::BTreeSet::new();
            for (start, payload) in segments {
                receiver.segment(&data((u32::MAX - 99).wrapping_add(start), payload));
                bytes.extend(start..start + payload);
                let in_order = (0..400).take_while(|byte| bytes.contains(byte)).count() as u64;
                proptest::prop_assert_eq!((receiver.received(), receiver.arrived()), (in_order, bytes.len() as u64));
            }
        }
    }
}
