//! A capture at the sender of a flow's data: frames as its network card is given them, and round trips from each to the acknowledgement
//! of its last byte.

use std::collections::{BTreeMap, BTreeSet};

use perigee_units::{Bytes, Time};

use crate::FlowRow;

/// The rules by which a capture at the sender is read.
#[derive(Clone, Debug, PartialEq)]
pub struct CaptureRules {
    /// Bytes of start-up, for throughputs at the receiver.
    pub first: Bytes,
    /// Round trips measured this long after the flow began, or earlier, are those of start-up, later ones those of the steady state.
    pub startup: Time,
    /// Frames that begin at this byte or later, and before `upto`, are those of the steady state.
    pub from: Bytes,
    /// See `from`.
    pub upto: Bytes,
    /// Shorter round trips are left out.
    pub least: Time,
}

/// The frames and round trips of one sender.
///
/// ```
/// use perigee_results::{CaptureRules, FlowRow, SenderCapture};
/// use perigee_units::{Bytes, Time};
///
/// let ms = Time::from_millis;
/// let rules = CaptureRules { first: Bytes::new(0), startup: ms(500), from: Bytes::new(0), upto: Bytes::new(1 << 30), least: Time::ZERO };
/// let mut capture = SenderCapture::new(rules, true);
/// // Two segments that leave together are one frame; the second one alone is repeated.
/// capture.sent(ms(0), 0, 1000);
/// capture.sent(ms(0), 1000, 1000);
/// capture.sent(ms(700), 1000, 1000);
/// capture.acknowledged(ms(600), 1000);
/// capture.acknowledged(ms(900), 2000);
/// let mut row = FlowRow::default();
/// capture.fill(&mut row);
/// assert_eq!((row.capture_frames, row.capture_repeated_frames), (Some(2), Some(0)), "none began at byte 1000 before");
/// assert_eq!(row.capture_rtt_mean_ms, Some(900.0), "byte 1000 is no end of a frame, byte 2000 is of the first");
/// ```
#[derive(Clone, Debug)]
pub struct SenderCapture {
    rules: CaptureRules,
    /// Most payload of a frame; zero: each segment is one.
    most: u64,
    begun: Option<Time>,
    /// The frame to which another segment may be added.
    open: Option<Frame>,
    /// First bytes of earlier frames.
    first_bytes: BTreeSet<u64>,
    /// Ends of frames that are not acknowledged, and when the first with this end left.
    ends: BTreeMap<u64, Time>,
    all: FrameCounts,
    steady: FrameCounts,
    /// The round trips of start-up, and of the steady state.
    round_trips: [Sum; 2],
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    at: Time,
    first: u64,
    end: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct FrameCounts {
    frames: u64,
    repeated: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ns: u64,
    count: u64,
}

impl SenderCapture {
    /// A capture in which segments that leave together are one frame if the host has segmentation `offload`.
    pub fn new(rules: CaptureRules, offload: bool) -> Self {
        Self {
            rules,
            most: if offload { LARGEST_FRAME } else { 0 },
            begun: None,
            open: None,
            first_bytes: BTreeSet::new(),
            ends: BTreeMap::new(),
            all: FrameCounts::default(),
            steady: FrameCounts::default(),
            round_trips: [Sum::default(); 2],
        }
    }

    /// A segment left, with `bytes` of payload from the byte `first` of the stream on.
    pub fn sent(&mut self, now: Time, first: u64, bytes: u64) {
        self.begun.get_or_insert(now);
        if let Some(open) = &mut self.open {
            if open.at == now && open.end == first && first + bytes - open.first <= self.most {
                open.end += bytes;
                return;
            }
        }
        self.close();
        self.open = Some(Frame { at: now, first, end: first + bytes });
    }

    /// An acknowledgement of all bytes before `next` arrived.
    ///
    /// It measures the round trip of the frame that ends there: of several, the one sent first, so that a repeated frame's round trip
    /// holds the wait for its repetition. One that ends within a frame measures none.
    pub fn acknowledged(&mut self, now: Time, next: u64) {
        self.close();
        while let Some(end) = self.ends.first_entry().filter(|end| *end.key() <= next) {
            let (end, sent) = end.remove_entry();
            let rtt = now - sent;
            if end == next && rtt >= self.rules.least {
                let is_steady = self.begun.is_some_and(|begun| now > begun + self.rules.startup);
                self.round_trips[usize::from(is_steady)].add(rtt);
            }
        }
    }

    /// Fills in the columns of the flow's row.
    pub fn fill(&mut self, row: &mut FlowRow) {
        self.close();
        row.capture_frames = Some(self.all.frames);
        row.capture_repeated_frames = Some(self.all.repeated);
        row.capture_steady_frames = Some(self.steady.frames);
        row.capture_steady_repeated_frames = Some(self.steady.repeated);
        let [startup, steady] = self.round_trips;
        row.capture_rtt_mean_ms = startup.and(steady).mean_ms();
        row.capture_startup_rtt_mean_ms = startup.mean_ms();
        row.capture_steady_rtt_mean_ms = steady.mean_ms();
    }

    /// Counts the open frame.
    fn close(&mut self) {
        let Some(frame) = self.open.take() else { return };
        let is_repeated = !self.first_bytes.insert(frame.first);
        self.all.count(is_repeated);
        if (self.rules.from.as_u64()..self.rules.upto.as_u64()).contains(&frame.first) {
            self.steady.count(is_repeated);
        }
        self.ends.entry(frame.end).or_insert(frame.at);
    }
}

impl FrameCounts {
    fn count(&mut self, is_repeated: bool) {
        self.frames += 1;
        self.repeated += u64::from(is_repeated);
    }
}

impl Sum {
    fn add(&mut self, rtt: Time) {
        self.ns += rtt.as_nanos();
        self.count += 1;
    }

    fn and(self, other: Self) -> Self {
        Self { ns: self.ns + other.ns, count: self.count + other.count }
    }

    fn mean_ms(self) -> Option<f64> {
        (self.count > 0).then(|| self.ns as f64 / self.count as f64 / 1e6)
    }
}

/// Payload of a frame: an IPv4 packet of 64 KiB less its header and that of TCP with timestamps.
const LARGEST_FRAME: u64 = (1 << 16) - 1 - 20 - 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(capture: &mut SenderCapture) -> FlowRow {
        let mut row = FlowRow::default();
        capture.fill(&mut row);
        row
    }

    fn capture(offload: bool) -> SenderCapture {
        let rules = CaptureRules {
            first: Bytes::new(0),
            startup: Time::from_secs(1),
            from: Bytes::new(100_000),
            upto: Bytes::new(200_000),
            least: Time::from_millis(400),
        };
        SenderCapture::new(rules, offload)
    }

    #[test]
    fn a_frame_is_repeated_if_one_before_began_at_its_first_byte() {
        for (offload, frames, repeated) in [(true, 5, 1), (false, 102, 2)] {
            let mut capture = capture(offload);
            // 100 segments at once are three frames of at most 65 kB.
            (0..100).for_each(|segment| capture.sent(Time::ZERO, segment * 1448, 1448));
            // The first segment of the first frame, and one within it.
            capture.sent(Time::from_secs(1), 0, 1448);
            capture.sent(Time::from_secs(1), 4 * 1448, 1448);
            let row = filled(&mut capture);
            assert_eq!((row.capture_frames, row.capture_repeated_frames), (Some(frames), Some(repeated)));
            // From byte 100,000 on: the third frame, or the segments from the 70th on.
            let steady = if offload { 1 } else { 30 };
            assert_eq!((row.capture_steady_frames, row.capture_steady_repeated_frames), (Some(steady), Some(0)));
        }
    }

    #[test]
    fn phases_of_round_trips_are_spans_of_time_and_short_ones_are_left_out() {
        let mut capture = capture(true);
        let sent_and_acknowledged = [(0, 600), (100, 600), (700, 1000), (900, 1900), (901, 1900)];
        for (number, (sent, _)) in sent_and_acknowledged.into_iter().enumerate() {
            capture.sent(Time::from_millis(sent), 1000 * number as u64, 1000);
        }
        for (number, (_, acknowledged)) in sent_and_acknowledged.into_iter().enumerate() {
            capture.acknowledged(Time::from_millis(acknowledged), 1000 * (number as u64 + 1));
        }
        let row = filled(&mut capture);
        assert_eq!(row.capture_startup_rtt_mean_ms, Some(550.0), "600 and 500 ms; 300 are too short");
        assert_eq!(row.capture_steady_rtt_mean_ms, Some(999.5));
        assert_eq!(row.capture_rtt_mean_ms, Some((600.0 + 500.0 + 1000.0 + 999.0) / 4.0));
    }
}
