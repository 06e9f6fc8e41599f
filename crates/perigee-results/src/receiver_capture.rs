//! A capture at the receiver of a flow's data: throughputs of ranges of bytes over whole seconds, and of seconds of the clock.

use perigee_units::Time;

use crate::bins::{mbps, Bins};
use crate::{CaptureRules, FlowRow};

/// When the bytes of one flow arrived, in ranges and in seconds of the run's clock.
///
/// A range takes the time from its first packet to its last, whole seconds only: what is left of a second is cut off. The first packet
/// of all is one of the handshake. A range counts as begun and as ended once all bytes before are there, so a byte that overtakes a lost
/// one does not begin it.
pub(crate) struct ReceiverCapture {
    start: Time,
    /// Arrival of the first data.
    first: Option<Time>,
    /// The ends of start-up, and begin and end of the steady state.
    marks: [Mark; 3],
    seconds: Bins,
}

#[derive(Clone, Copy)]
struct Mark {
    bytes: u64,
    at: Option<Time>,
}

impl ReceiverCapture {
    pub(crate) fn new(rules: &CaptureRules, start: Time) -> Self {
        let marks = [rules.first, rules.from, rules.upto].map(|bytes| Mark { bytes: bytes.as_u64(), at: None });
        Self { start, first: None, marks, seconds: Bins::new(SECOND, SECOND * (second_of(start) + 1)) }
    }

    /// Closes the seconds that end before an arrival at `now`; `before` bytes had arrived until then.
    pub(crate) fn pass(&mut self, now: Time, before: u64) {
        self.first.get_or_insert(now);
        if now >= self.second_end() {
            self.seconds.close_until(now, before);
        }
    }

    /// End of the current second.
    pub(crate) fn second_end(&self) -> Time {
        self.seconds.end()
    }

    /// Notes which marks the `received` bytes have reached.
    pub(crate) fn reach(&mut self, now: Time, received: u64) {
        for mark in &mut self.marks {
            if mark.at.is_none() && received >= mark.bytes.max(1) {
                mark.at = Some(now);
            }
        }
    }

    /// The next count of received bytes at which [`ReceiverCapture::reach`] is due; `u64::MAX`: none.
    pub(crate) fn next_mark(&self) -> u64 {
        let ahead = self.marks.iter().filter(|mark| mark.at.is_none());
        ahead.map(|mark| mark.bytes.max(1)).min().unwrap_or(u64::MAX)
    }

    /// Fills in the columns of a flow that ended at `end` with bytes in order, and with all that are there.
    pub(crate) fn fill(&self, row: &mut FlowRow, handshake: Time, end: Time, (received, arrived): (u64, u64)) {
        let Some(first) = self.first.map(|data| data.checked_sub(handshake).unwrap_or(Time::ZERO)) else { return };
        let [startup, from, upto] = self.marks;
        let over = |bytes: u64, from: Time, upto: Time| mbps(bytes, whole_seconds(upto.checked_sub(from)?));
        row.capture_goodput_mbps = over(received, first, end);
        row.capture_startup_goodput_mbps =
            startup.at.filter(|_| startup.bytes > 0).and_then(|at| over(startup.bytes, first, at));
        row.capture_steady_goodput_mbps = from.at.and_then(|begun| {
            let (bytes, ended) = upto.at.map_or((received, end), |at| (upto.bytes, at));
            over(bytes - from.bytes, begun, ended)
        });
        let mut seconds = self.seconds.clone();
        seconds.close_until(end, arrived);
        let before = second_of(first).saturating_sub(second_of(self.start)) as usize;
        seconds.trim(before + FIRST_LEFT_OUT, LAST_LEFT_OUT);
        (row.capture_goodput_p10_mbps, row.capture_goodput_p50_mbps, row.capture_goodput_p90_mbps) =
            seconds.percentiles_mbps();
    }
}

fn whole_seconds(time: Time) -> Time {
    SECOND * second_of(time)
}

/// The second of the clock that contains an instant.
fn second_of(at: Time) -> u64 {
    at.as_nanos() / SECOND.as_nanos()
}

const SECOND: Time = Time::from_secs(1);

/// Seconds of the clock that are left out of percentiles: the first two, and beside the one in which the flow ends, which is not whole, the
/// one before.
const FIRST_LEFT_OUT: usize = 2;
const LAST_LEFT_OUT: usize = 1;

#[cfg(test)]
mod tests {
    use perigee_units::Bytes;

    use super::*;
    use crate::meter::{Meter, SenderCounts};
    use crate::Measure;

    fn ms(t: u64) -> Time {
        Time::from_millis(t)
    }

    /// The row of a flow that begins at `start` and receives 1000 bytes at each of these instants, the last one its end.
    fn row(start: Time, arrivals: &[u64]) -> FlowRow {
        let [first, from, upto] = [2_000, 3_000, 5_000].map(Bytes::new);
        let rules = CaptureRules { first, startup: ms(1), from, upto, least: Time::ZERO };
        let mut meter = Meter::new(start, &Measure { capture: Some(rules), ..Measure::default() }, None);
        for (number, at) in (1..).zip(arrivals) {
            if meter.deliver(ms(*at), 1000 * number, 1000 * number) {
                meter.record_progress(ms(*at), SenderCounts::default());
            }
        }
        let end = ms(arrivals.last().copied().unwrap_or_default());
        meter.finish(end);
        let mut row = FlowRow::default();
        meter.fill_capture(&mut row, end, ms(600));
        row
    }

    #[test]
    fn a_range_takes_the_whole_seconds_between_its_arrivals() {
        let row = row(ms(200), &[1_100, 3_300, 4_000, 6_200, 7_999, 9_000]);
        assert_eq!(row.capture_startup_goodput_mbps, Some(2e3 * 8.0 / 2e6), "2000 bytes in 2.8 s, which count as 2");
        assert_eq!(row.capture_steady_goodput_mbps, Some(2e3 * 8.0 / 3e6), "from 4.0 to 7.999 s");
        assert_eq!(row.capture_goodput_mbps, Some(6e3 * 8.0 / 8e6), "from 0.5 s on, 0.6 s before the first data");
    }

    #[test]
    fn a_range_of_less_than_a_second_has_no_throughput_and_one_that_is_cut_short_has_what_arrived() {
        let row = row(ms(0), &[1_000, 1_300, 2_000, 5_500]);
        assert_eq!(row.capture_startup_goodput_mbps, None);
        assert_eq!(row.capture_steady_goodput_mbps, Some(1e3 * 8.0 / 3e6), "1000 bytes in 3.5 s");
    }

    #[test]
    fn percentiles_are_those_of_the_clocks_seconds_without_the_first_two_and_the_last_two() {
        // A flow whose first packet comes at 1.1 s and its last one at 7.001 s: the seconds from 3 to 6 s count.
        let row = row(ms(900), &[1_700, 2_500, 2_600, 3_100, 3_200, 4_500, 6_500, 7_001]);
        let rates = [row.capture_goodput_p10_mbps, row.capture_goodput_p50_mbps, row.capture_goodput_p90_mbps];
        // 2000, 1000 and 0 bytes.
        assert_eq!(rates, [Some(0.0016), Some(0.008), Some(0.0144)]);
    }
}
