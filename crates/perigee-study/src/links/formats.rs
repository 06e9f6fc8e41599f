//! Recorded links in the formats of replay tools: read, and written.
//!
//! | format | files of a direction |
//! |---|---|
//! | mahimahi | opportunities of 1500 bytes, a line with the millisecond of each (Netravali et al., USENIX ATC 2015) |
//! | `LeoReplayer` | the same, and the one-way delay in ms of each 10 ms, a line each (`SpaceNetLab/LeoCC`, `traces/README.md`) |
//! | `CellReplay` | opportunities of 1400 bytes under load; lines with a time and two delays, in ms |
//! | timeline | one table of comma-separated values, see [`trace::timeline`] |
//!
//! The delays of `CellReplay` are that of a first packet, and when the packets of a short train follow it (Sentosa et
//! al., NSDI 2025; `williamsentosa95/cellreplay`, `src/frontend/cellular_queue.cc`). It interpolates between its lines,
//! ends at the time of its last line, and gives the first packet after a pause and those of the short train no share in
//! the opportunities under load. A link here has one rate, so the short trains are left out in reading, and are a
//! single packet in writing.

use std::fmt::Write;

use perigee_link::Steps;
use perigee_text::{Origin, StrictError};
use perigee_units::Time;

use super::recording::{end_of, mean_ms, timeline_text};
pub use super::recording::{RecordedLink, Written};
use super::trace::{self, opportunities, text_lines, whole_milliseconds, DELAY_LINE, OPPORTUNITY_BYTES};

/// A format of recorded links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Rate.
    Mahimahi,
    /// Rate and delay.
    LeoReplayer,
    /// Rate and delay, and short trains.
    CellReplay,
    /// Rate and delay in one table.
    Timeline,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Mahimahi, Self::LeoReplayer, Self::CellReplay, Self::Timeline];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mahimahi => "mahimahi",
            Self::LeoReplayer => "leoreplayer",
            Self::CellReplay => "cellreplay",
            Self::Timeline => "timeline",
        }
    }

    /// The format of this name.
    ///
    /// ```
    /// use perigee_study::formats::Format;
    /// assert_eq!(Format::named("mahimahi"), Some(Format::Mahimahi));
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// Returns descriptions of its files, in the order in which [`read`](Self::read) takes them.
    pub const fn takes(self) -> &'static [&'static str] {
        match self {
            Self::Mahimahi => &["rate"],
            Self::LeoReplayer => &["rate", "delay"],
            Self::CellReplay => &["delay and light PDO", "heavy PDO"],
            Self::Timeline => &["timeline"],
        }
    }

    /// Reads a direction from the names and bytes of its files, as many as [`takes`](Self::takes) has; adds what is left out to `notes`.
    ///
    /// # Errors
    /// If a file is wrong, with its line and the fix.
    pub fn read(self, files: &[(&str, &[u8])], notes: &mut Vec<String>) -> Result<RecordedLink, StrictError> {
        let file = |number: usize| files[number];
        let rate_of = |(name, bytes): (&str, &[u8])| trace::mahimahi(bytes, name).map(Some);
        Ok(match self {
            Self::Mahimahi => RecordedLink { rate: rate_of(file(0))?, delay: None },
            Self::LeoReplayer => {
                let (name, bytes) = file(1);
                RecordedLink { rate: rate_of(file(0))?, delay: Some(trace::delays(bytes, name)?) }
            }
            Self::CellReplay => {
                let ((trains, of_trains), (heavy, of_heavy)) = (file(0), file(1));
                let (delay, packets) = trains_delay(of_trains, trains)?;
                if packets > 0 {
                    notes.push(format!(
                        "left out: the light PDOs of `{trains}`, up to {packets} packets of a train after a pause; a \
                         link here has the rate of its heavy PDOs at any load"
                    ));
                }
                let rate = opportunities(of_heavy, heavy, CELLREPLAY_BYTES)?;
                RecordedLink { rate: Some(rate), delay: Some(delay) }
            }
            Self::Timeline => {
                let (name, bytes) = file(0);
                let timeline = trace::timeline(bytes, name)?;
                for (is_there, what) in [(timeline.loss.is_some(), "loss"), (timeline.limit.is_some(), "queue limit")] {
                    if is_there {
                        notes.push(format!("left out: the {what} of `{name}`"));
                    }
                }
                if timeline.rate.is_none() && timeline.delay.is_none() {
                    let message = "the timeline has neither a rate nor a delay";
                    return Err(StrictError::new(&Origin::line(name, 1), message, "add `rate_mbps` or `delay_ms`"));
                }
                // The last row holds for ever; a recording has an end.
                notes.push("the last row of the timeline holds for one second".to_owned());
                RecordedLink { rate: timeline.rate.map(for_a_second), delay: timeline.delay.map(for_a_second) }
            }
        })
    }

    /// Writes a direction.
    ///
    /// # Errors
    /// If the rate is unlimited, or a file would be longer than [`trace::MAX_TRACE`].
    pub fn write(self, link: &RecordedLink) -> Result<Written, String> {
        let mut written = Written::default();
        let missing = |what: &str| format!("not written: the {what}, which the recording does not have");
        match (self, &link.rate) {
            (Self::Timeline, _) => written.add("timeline.csv", timeline_text(link)?)?,
            (_, None) => written.notes.push(missing("rate")),
            (Self::CellReplay, Some(rate)) => written.add_rate("pdo", rate, CELLREPLAY_BYTES)?,
            (Self::Mahimahi | Self::LeoReplayer, Some(rate)) => written.add_rate("bw.txt", rate, OPPORTUNITY_BYTES)?,
        }
        match (self, &link.delay) {
            (Self::Timeline, _) | (Self::Mahimahi, None) => {}
            (Self::Mahimahi, Some(delay)) => {
                let mean = mean_ms(delay);
                written.notes.push(format!(
                    "left out: the delay, which mahimahi has constant; its mean is that of `mm-delay {mean:.0}`"
                ));
            }
            (_, None) => written.notes.push(missing("delay")),
            (Self::LeoReplayer, Some(delay)) => written.add_delay("delay.txt", delay, false, leoreplayer_line)?,
            (Self::CellReplay, Some(delay)) => {
                written.add_delay("delay-light-pdo", delay, true, |text, at, ms| {
                    let _ = writeln!(text, "{at} {ms} 0");
                })?;
                written.notes.push(
                    "the light PDOs are the first packet of a train alone: a link here has one rate at any load"
                        .to_owned(),
                );
            }
        }
        Ok(written)
    }

    /// Writes both directions of a link, to files whose names begin with `down-` and `up-`. `LeoReplayer` has one delay for both
    /// directions, which is the mean of theirs: their sum, the round trip, stays.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_both(self, down: &RecordedLink, up: &RecordedLink) -> Result<Written, String> {
        let mut all = Written::default();
        if self == Self::LeoReplayer
            && let (Some(down), Some(up)) = (&down.delay, &up.delay)
        {
            let lines = end_of(down).as_nanos() / DELAY_LINE.as_nanos();
            let both = |at| Time::from_nanos(u64::midpoint(down.at(at).as_nanos(), up.at(at).as_nanos()));
            let points = (0..lines).map(|number| (DELAY_LINE * number, both(DELAY_LINE * number)));
            if let Some(delay) = Steps::new(points, Some(DELAY_LINE * lines)) {
                all.add_delay("delay.txt", &delay, false, leoreplayer_line)?;
            }
            all.notes.push("`delay.txt` has the mean of both directions, since LeoReplayer has one delay".to_owned());
        }
        for (name, link) in [("down", down), ("up", up)] {
            let written = match (self, &link.rate) {
                (Self::LeoReplayer, Some(rate)) => {
                    let mut written = Written::default();
                    written.add_rate("bw.txt", rate, OPPORTUNITY_BYTES).map(|()| written)
                }
                _ => self.write(link),
            };
            let Written { files, notes } = written.map_err(|why| format!("{name}: {why}"))?;
            all.files.extend(files.into_iter().map(|(file, text)| (format!("{name}-{file}"), text)));
            all.notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
        }
        Ok(all)
    }
}

/// A line of a delay, ms.
fn leoreplayer_line(text: &mut String, _at: u64, ms: u64) {
    let _ = writeln!(text, "{ms}");
}

/// Reads the lines of `CellReplay`'s packet trains: the delays in steps of 10 ms, each interpolated at its begin, and the largest number of
/// packets that follow the first one of a train.
fn trains_delay(bytes: &[u8], file: &str) -> Result<(Steps<Time>, usize), StrictError> {
    let mut lines: Vec<(u64, u64)> = Vec::new();
    let mut packets = 0;
    for (line, text) in text_lines(bytes, file)? {
        let error = |message: String, fix: &str| StrictError::new(&Origin::line(file, line), message, fix);
        let numbers = text.split_whitespace().map(|number| whole_milliseconds(number, file, line));
        let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
        let [at, delay, train @ ..] = &numbers[..] else {
            let fix = "write a time, a delay, and when the packets of a train follow, in ms";
            return Err(error("a number stands alone".to_owned(), fix));
        };
        match lines.last() {
            None if *at != 0 => {
                return Err(error(format!("the recording begins at {at} ms"), "give its first line the time 0"));
            }
            Some((last, _)) if at < last => {
                return Err(error(format!("{at} ms comes after {last} ms"), "sort the lines by time"));
            }
            _ => {}
        }
        packets = packets.max(train.len().saturating_sub(1));
        lines.push((*at, *delay));
    }
    let end = lines.last().map_or(0, |(at, _)| *at);
    if lines.len() < 3 || end == 0 {
        let message = format!("{} lines of {end} ms are no recording", lines.len());
        return Err(StrictError::new(
            &Origin::line(file, 1),
            message,
            "give it three lines or more, as CellReplay needs",
        ));
    }
    if end > MOST_DELAYS * DELAY_LINE.as_millis() {
        let message = format!("the recording lasts {end} ms");
        let fix = format!("cut it to {} ms", MOST_DELAYS * DELAY_LINE.as_millis());
        return Err(StrictError::new(&Origin::line(file, 1), message, fix));
    }
    let mut next = 0;
    let points = (0..end.div_ceil(DELAY_LINE.as_millis())).map(|number| {
        let at = number * DELAY_LINE.as_millis();
        while lines[next + 1].0 <= at {
            next += 1;
        }
        let ((from, before), (to, after)) = (lines[next], lines[next + 1]);
        let part = (at - from) as f64 / (to - from) as f64;
        let ms = before as f64 + part * (after as f64 - before as f64);
        (Time::from_millis(at), Time::from_secs_f64(ms / 1e3))
    });
    let steps = Steps::new(points, Some(Time::from_millis(end)));
    steps.map(|steps| (steps, packets)).ok_or_else(|| trace::empty(file))
}

/// Steps of which the last one holds for a second.
fn for_a_second<T: Copy + PartialEq>(steps: Steps<T>) -> Steps<T> {
    let end = steps.iter().last().map_or(SECOND, |(start, _)| start + SECOND);
    Steps::join([(&steps, Time::ZERO, end)], true).unwrap_or(steps)
}

/// Bytes of an opportunity of `CellReplay`.
const CELLREPLAY_BYTES: u64 = 1400;
/// Most delays that are interpolated: two days.
const MOST_DELAYS: u64 = 2 * 24 * 3600 * 100;
const SECOND: Time = Time::from_secs(1);

#[cfg(test)]
mod tests {
    use perigee_link::LinkSpec;
    use perigee_units::Rate;

    use super::super::recording::segments;
    use super::*;
    use proptest::prelude::*;

    fn read(format: Format, files: &[&str]) -> Result<(RecordedLink, Vec<String>), String> {
        let names = ["a", "b"];
        let files: Vec<(&str, &[u8])> = names.into_iter().zip(files.iter().map(|text| text.as_bytes())).collect();
        let mut notes = Vec::new();
        format.read(&files, &mut notes).map(|link| (link, notes)).map_err(|error| error.to_string())
    }

    fn texts(written: &Written) -> Vec<&str> {
        written.files.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn a_recording_of_leoreplayer_is_the_same_after_cellreplay_but_for_whole_packets() {
        // 14 opportunities of 1500 bytes are 15 of 1400.
        let (bw, delay) = ("7\n".repeat(14), "12\n15\n9\n");
        let (link, notes) = read(Format::LeoReplayer, &[&bw, delay]).unwrap();
        assert_eq!(notes, [""; 0]);
        let cell = Format::CellReplay.write(&link).unwrap();
        assert_eq!(texts(&cell), ["7\n".repeat(15).as_str(), "0 12 0\n10 15 0\n20 9 0\n30 9 0\n"]);
        let (heavy, trains) = (&cell.files[0].1, &cell.files[1].1);
        let (back, notes) = read(Format::CellReplay, &[trains, heavy]).unwrap();
        assert_eq!((back, notes), (link.clone(), Vec::new()));
        assert_eq!(texts(&Format::LeoReplayer.write(&link).unwrap()), [bw.as_str(), delay]);
    }

    #[test]
    fn delays_of_cellreplay_are_interpolated_and_end_with_the_last_line() {
        let trains = "0 10 0 1 2\n20 30 0 5\n45 30 0\n";
        let (link, notes) = read(Format::CellReplay, &[trains, "1\n"]).unwrap();
        let delay = link.delay.unwrap();
        assert_eq!(delay.period(), Some(Time::from_millis(45)));
        assert_eq!([0, 9, 10, 20, 44].map(|t| delay.at(Time::from_millis(t)).as_millis()), [10, 10, 20, 30, 30]);
        assert_eq!(link.rate.unwrap().at(Time::ZERO), Rate::from_bps(11_200_000));
        assert_eq!(
            notes,
            ["left out: the light PDOs of `a`, up to 2 packets of a train after a pause; a link here \
            has the rate of its heavy PDOs at any load"]
        );
    }

    #[test]
    fn a_timeline_has_a_row_for_each_change_and_is_read_back() {
        let (link, _) = read(Format::LeoReplayer, &["2\n2\n3\n", "12\n15\n"]).unwrap();
        let written = Format::Timeline.write(&link).unwrap();
        let expected = "time_ms,rate_bps,delay_us\n0,0,12000\n1,24000000,12000\n2,12000000,12000\n3,0,12000\n";
        assert!(texts(&written)[0].starts_with(expected), "{:?}", texts(&written));
        let (back, notes) = read(Format::Timeline, &texts(&written)).unwrap();
        let (rate, delay) = (back.rate.unwrap(), back.delay.unwrap());
        for ms in 0..20 {
            let at = Time::from_millis(ms);
            assert_eq!(
                (rate.at(at), delay.at(at)),
                (link.rate.as_ref().unwrap().at(at), link.delay.as_ref().unwrap().at(at))
            );
        }
        assert_eq!(notes, ["the last row of the timeline holds for one second"]);
    }

    #[test]
    fn what_a_format_cannot_say_is_noted_or_refused() {
        let (link, _) = read(Format::LeoReplayer, &["1\n", "12\n15\n"]).unwrap();
        let notes = |format: Format, link: &RecordedLink| format.write(link).unwrap().notes;
        assert_eq!(
            notes(Format::Mahimahi, &link),
            ["left out: the delay, which mahimahi has constant; its mean is that of `mm-delay 14`"]
        );
        let rate_only = RecordedLink { delay: None, ..link };
        assert_eq!(
            notes(Format::LeoReplayer, &rate_only),
            ["not written: the delay, which the recording does not have"]
        );
        let idle = Steps::new(
            [(Time::ZERO, Rate::from_mbps(12.0)), (Time::from_millis(2), Rate::ZERO)],
            Some(Time::from_millis(9)),
        );
        let idle = RecordedLink { rate: idle, delay: None };
        assert_eq!(
            notes(Format::Mahimahi, &idle),
            ["`bw.txt` ends after 2 ms, with its last packet, and not after 9 ms: such a trace has no other end"]
        );
        for format in [Format::Mahimahi, Format::Timeline] {
            let unlimited =
                RecordedLink { rate: Steps::new([(Time::ZERO, Rate::UNLIMITED)], Some(SECOND)), delay: None };
            assert!(format.write(&unlimited).unwrap_err().starts_with("the rate is unlimited"));
        }
        let fast = Steps::new([(Time::ZERO, Rate::from_mbps(1e6))], Some(Time::from_secs(100)));
        let fast = RecordedLink { rate: fast, delay: None };
        assert!(Format::Mahimahi.write(&fast).unwrap_err().ends_with("write less time"));
        let slow = RecordedLink { rate: Steps::new([(Time::ZERO, Rate::from_bps(8))], Some(SECOND)), delay: None };
        assert!(Format::Mahimahi.write(&slow).unwrap_err().ends_with("write more time"));
    }

    #[test]
    fn a_link_over_time_is_written_with_both_rates_and_the_mean_delay() {
        let spec = |mbps, ms| LinkSpec::constant(Rate::from_mbps(mbps), Time::from_millis(ms));
        let over_time = |spec: &LinkSpec| RecordedLink::over_time(spec, 1, "l", Time::from_millis(20)).unwrap();
        let (down, up) = (over_time(&spec(24.0, 10)), over_time(&spec(6.0, 20)));
        let written = Format::LeoReplayer.write_both(&down, &up).unwrap();
        let names: Vec<&str> = written.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["delay.txt", "down-bw.txt", "up-bw.txt"]);
        let twice = (1..=20).map(|ms| format!("{ms}\n{ms}\n")).collect::<Vec<_>>().concat();
        let every_other = (1..=10).map(|ms| format!("{}\n", 2 * ms)).collect::<Vec<_>>().concat();
        assert_eq!(texts(&written), ["15\n15\n", &twice, &every_other]);
        let cell = Format::CellReplay.write_both(&down, &up).unwrap();
        let names: Vec<&str> = cell.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["down-pdo", "down-delay-light-pdo", "up-pdo", "up-delay-light-pdo"]);
    }

    #[test]
    fn each_mistake_in_a_file_names_it_with_its_line_and_the_fix() {
        let trains = |text: &str| read(Format::CellReplay, &[text, "1\n"]).unwrap_err();
        assert_eq!(
            trains(""),
            "a:1: 0 lines of 0 ms are no recording; give it three lines or more, as CellReplay needs"
        );
        assert_eq!(
            trains("0 5 0\n9\n"),
            "a:2: a number stands alone; write a time, a delay, and when the packets of a train follow, in ms"
        );
        assert_eq!(
            trains("0 5\n9 x\n"),
            "a:2: `x` is not a whole number of milliseconds; write one whole number per line"
        );
        assert_eq!(trains("3 5\n"), "a:1: the recording begins at 3 ms; give its first line the time 0");
        assert_eq!(trains("0 5\n9 5\n8 5\n"), "a:3: 8 ms comes after 9 ms; sort the lines by time");
        assert_eq!(
            trains("0 5\n1 5\n2592000000 5\n"),
            "a:1: the recording lasts 2592000000 ms; cut it to 172800000 ms"
        );
        assert_eq!(
            read(Format::CellReplay, &["0 5\n9 5\n10 5\n", "4\n3\n"]).unwrap_err(),
            "b:2: 3 ms comes after 4 ms; sort the lines by time"
        );
        assert_eq!(
            read(Format::Timeline, &["time_s,loss\n0,0.1\n"]).unwrap_err(),
            "a:1: the timeline has neither a rate nor a delay; add `rate_mbps` or `delay_ms`"
        );
    }

    #[test]
    fn what_would_be_longer_than_a_recording_is_refused_before_it_is_made() {
        let (long, _) = read(Format::LeoReplayer, &["2592000000\n", "12\n15\n"]).unwrap();
        assert_eq!(
            Format::Timeline.write(&long).unwrap_err(),
            "the timeline would have 259200002 rows, more than a recording may have; write less time"
        );
        assert_eq!(Format::Mahimahi.write(&long).unwrap().files[0].1, "2592000000\n");
        let delay = Steps::new([(Time::ZERO, SECOND)], Some(Time::from_secs(2_592_000)));
        assert!(Format::LeoReplayer
            .write(&RecordedLink { rate: None, delay })
            .unwrap_err()
            .ends_with("write less time"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_or_a_writer_panic(first in "[0-9 ,.\n#a-z_-]{0,50}", second in "[0-9\n]{0,30}") {
            for format in Format::ALL {
                let Ok((link, _)) = read(format, &[&first, &second]) else { continue };
                for other in Format::ALL {
                    let _ = other.write(&link);
                }
            }
        }

        #[test]
        fn a_written_rate_is_behind_by_less_than_a_packet_at_each_millisecond(
            parts in prop::collection::vec((1u64..9_000_000, 0u64..300_000_000), 1..20),
        ) {
            let mut at = Time::ZERO;
            let points: Vec<_> = parts.iter().map(|(length, bps)| {
                let begin = at;
                at += Time::from_nanos(*length);
                (begin, Rate::from_bps(*bps))
            }).collect();
            let end = Time::from_millis(at.as_millis() + 1);
            let rate = Steps::new(points, Some(end)).unwrap();
            let link = RecordedLink { rate: Some(rate.clone()), delay: None };
            let Ok(written) = Format::Mahimahi.write(&link) else { return Ok(()) };
            let lines: Vec<u64> = written.files[0].1.lines().map(|line| line.parse().unwrap()).collect();
            for ms in 1..=end.as_millis() {
                let until = Time::from_millis(ms);
                let bits: f64 = segments(&rate)
                    .map(|(from, to, rate)| rate.as_bps() as f64 * to.min(until).checked_sub(from).unwrap_or_default().as_secs_f64())
                    .sum();
                let left = bits / 12_000.0 - lines.partition_point(|line| *line <= ms) as f64;
                prop_assert!((-1e-6..1.0 + 1e-6).contains(&left), "{} packets left after {} ms", left, ms);
            }
        }
    }
}
