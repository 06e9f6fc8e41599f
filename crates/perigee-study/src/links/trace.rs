//! Readers of recorded links: delivery opportunities, one-way delays, and timelines of any parameter.
//!
//! All take the bytes of a file of at most [`MAX_TRACE`] and use at most some twenty times its memory; errors have file, line
//! and fix.

use perigee_link::Steps;
use perigee_text::{Origin, StrictError};
use perigee_units::{suggestion, Bytes, Rate, Ratio, Time};

/// Largest recording that is read, bytes.
pub const MAX_TRACE: usize = 32 << 20;

/// Reads a packet-delivery trace in the format of mahimahi: each line is a whole number of milliseconds, not falling,
/// at which one packet of 1500 bytes can leave. The trace repeats after its last instant.
///
/// The opportunities become a rate: k lines with the value t are k x 12 Mbit/s during the millisecond that ends at t
/// (a line 0 counts in the first one). A waiting packet of 1500 bytes thus leaves at the instant of its opportunity
/// or less than a millisecond before, smaller packets share one, and a started opportunity is never lost.
///
/// # Errors
/// If the file is empty, too long, not text, has a line that is no such number, or falls.
pub fn mahimahi(bytes: &[u8], file: &str) -> Result<Steps<Rate>, StrictError> {
    opportunities(bytes, file, OPPORTUNITY_BYTES)
}

/// [`mahimahi`] with opportunities of `size` bytes.
pub(super) fn opportunities(bytes: &[u8], file: &str, size: u64) -> Result<Steps<Rate>, StrictError> {
    let mut slots: Vec<(u64, u64)> = Vec::new();
    for (line, text) in text_lines(bytes, file)? {
        let ms = whole_milliseconds(text, file, line)?;
        // The slot is the number of the millisecond; the one that ends at t is number t - 1.
        let slot = ms.saturating_sub(1);
        match slots.last_mut() {
            Some((last, _)) if slot < *last => {
                let message = format!("{ms} ms comes after {} ms", *last + 1);
                return Err(StrictError::new(&Origin::line(file, line), message, "sort the lines by time"));
            }
            Some((last, count)) if slot == *last => *count += 1,
            _ => slots.push((slot, 1)),
        }
    }
    let end = slots.last().map_or(0, |(slot, _)| slot + 1);
    let mut points = Vec::with_capacity(slots.len() + 1);
    let mut next = 0;
    for (slot, count) in slots {
        if slot > next {
            points.push((Time::from_millis(next), Rate::ZERO));
        }
        points.push((Time::from_millis(slot), Rate::from_bps(count * size * 8 * 1000)));
        next = slot + 1;
    }
    finish(points, Some(Time::from_millis(end)), file)
}

/// Reads a delay trace: line i is the one-way delay, in whole milliseconds, during the i-th 10 ms. It repeats.
///
/// # Errors
/// If the file is empty, too long, not text, or has a line that is no such number.
pub fn delays(bytes: &[u8], file: &str) -> Result<Steps<Time>, StrictError> {
    let mut points = Vec::new();
    for (line, text) in text_lines(bytes, file)? {
        let delay = Time::from_millis(whole_milliseconds(text, file, line)?);
        points.push((DELAY_LINE * points.len() as u64, delay));
    }
    let end = DELAY_LINE * points.len() as u64;
    finish(points, Some(end), file)
}

/// Parameters of a link over time, as far as the file has columns for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Column `rate_...`.
    pub rate: Option<Steps<Rate>>,
    /// Column `delay_...`, one way.
    pub delay: Option<Steps<Time>>,
    /// Column `loss`, a share from 0 to 1, or `loss_percent`.
    pub loss: Option<Steps<Ratio>>,
    /// Column `limit_...`: bytes that may wait.
    pub limit: Option<Steps<Bytes>>,
}

/// Reads a timeline: comma-separated values with a header that names the columns and their units, such as
/// `time_s,rate_mbps,delay_ms,loss,limit_bytes`. The first column is the time, begins at zero and rises; each row holds
/// until the next, the last one for ever. Lines that begin with `#` are comments.
///
/// # Errors
/// If the file is empty, too long, not text, a column or value is wrong, or the rate ends at zero.
pub fn timeline(bytes: &[u8], file: &str) -> Result<Timeline, StrictError> {
    let mut rows = text_lines(bytes, file)?.filter(|(_, text)| !text.starts_with('#'));
    let header = rows.next();
    let (line, header) = header.ok_or_else(|| empty(file))?;
    let columns = header.split(',').map(|name| column(name.trim(), file, line)).collect::<Result<Vec<_>, _>>()?;
    check_columns(&columns, file, line)?;
    let mut values: Vec<Vec<(Time, f64)>> = vec![Vec::new(); columns.len()];
    let mut last = None;
    for (line, row) in rows {
        let origin = Origin::line(file, line);
        let fields: Vec<&str> = row.split(',').take(columns.len() + 1).map(str::trim).collect();
        if fields.len() != columns.len() {
            let message = format!("{} columns where the header has {}", row.split(',').count(), columns.len());
            return Err(StrictError::new(&origin, message, "give each row one value per column"));
        }
        let numbers =
            fields.iter().zip(&columns).map(|(field, c)| c.number(field, &origin)).collect::<Result<Vec<f64>, _>>()?;
        let time = Time::from_nanos(numbers[0] as u64);
        check_time(last.replace(time), time, &origin)?;
        for (series, number) in values.iter_mut().zip(&numbers).skip(1) {
            series.push((time, *number));
        }
    }
    let mut timeline = Timeline::default();
    for (c, series) in columns.iter().zip(values).skip(1) {
        let integers = series.iter().map(|(t, x)| (*t, *x as u64));
        match c.kind {
            ColumnKind::Time => {}
            ColumnKind::Rate => {
                timeline.rate = Some(finish(integers.map(|(t, x)| (t, Rate::from_bps(x))), None, file)?);
            }
            ColumnKind::Delay => {
                timeline.delay = Some(finish(integers.map(|(t, x)| (t, Time::from_nanos(x))), None, file)?);
            }
            ColumnKind::Limit => {
                timeline.limit = Some(finish(integers.map(|(t, x)| (t, Bytes::new(x))), None, file)?);
            }
            ColumnKind::Loss => {
                let shares = series.iter().map(|(t, x)| (*t, Ratio::new(*x).unwrap_or(Ratio::ONE)));
                timeline.loss = Some(finish(shares, None, file)?);
            }
        }
    }
    if let Some(rate) = &timeline.rate
        && rate.iter().last().is_some_and(|(_, r)| r == Rate::ZERO)
    {
        let message = "the rate ends at zero, so the link would never send again";
        return Err(StrictError::new(&Origin::line(file, line), message, "end with a rate above zero"));
    }
    Ok(timeline)
}

/// Times start at zero and ascend.
fn check_time(last: Option<Time>, time: Time, origin: &Origin) -> Result<(), StrictError> {
    let (message, fix) = match last {
        None if time != Time::ZERO => (format!("the timeline begins at {time}"), "give its first row the time 0"),
        Some(last) if time <= last => (format!("{time} comes after {last}"), "let the time rise from row to row"),
        _ => return Ok(()),
    };
    Err(StrictError::new(origin, message, fix))
}

#[derive(Clone, Copy, PartialEq)]
enum ColumnKind {
    Time,
    Rate,
    Delay,
    Loss,
    Limit,
}

/// A column of a timeline: its parameter, and its unit in ns, bit/s, bytes, or as a share.
struct Column {
    name: &'static str,
    kind: ColumnKind,
    scale: f64,
    max: f64,
}

impl Column {
    fn number(&self, field: &str, origin: &Origin) -> Result<f64, StrictError> {
        let number: f64 = field.parse().map_err(|_| {
            let message = format!("`{}` in column `{}` is not a number", clip(field), self.name);
            StrictError::new(origin, message, "write a decimal number without a unit")
        })?;
        if !(0.0..=self.max).contains(&number) {
            let message = format!("{number} in column `{}` is out of range", self.name);
            return Err(StrictError::new(origin, message, format!("use a value from 0 to {}", self.max)));
        }
        let scaled = number * self.scale;
        Ok(if self.kind == ColumnKind::Loss { scaled } else { scaled.round() })
    }
}

fn column(name: &str, file: &str, line: u32) -> Result<&'static Column, StrictError> {
    COLUMNS.iter().find(|c| c.name == name).ok_or_else(|| {
        let fix = suggestion(name, COLUMNS.iter().map(|c| c.name));
        StrictError::new(&Origin::line(file, line), format!("unknown column `{}`", clip(name)), fix)
    })
}

fn check_columns(columns: &[&Column], file: &str, line: u32) -> Result<(), StrictError> {
    let error = |message: String, fix: &str| Err(StrictError::new(&Origin::line(file, line), message, fix));
    if columns[0].kind != ColumnKind::Time {
        return error(format!("the first column is `{}`", columns[0].name), "begin with `time_s` or `time_ms`");
    }
    if columns.len() == 1 {
        return error("there is no column beside the time".into(), "add one such as `rate_mbps`");
    }
    for (i, c) in columns.iter().enumerate() {
        if columns[..i].iter().any(|other| other.kind == c.kind) {
            return error(format!("column `{}` says again what an earlier one says", c.name), "remove one of them");
        }
    }
    Ok(())
}

fn finish<T: Copy + PartialEq>(
    points: impl IntoIterator<Item = (Time, T)>,
    period: Option<Time>,
    file: &str,
) -> Result<Steps<T>, StrictError> {
    Steps::new(points, period).ok_or_else(|| empty(file))
}

pub(super) fn empty(file: &str) -> StrictError {
    StrictError::new(&Origin::line(file, 1), "the recording is empty", "check that this is the file you meant")
}

/// Non-blank lines with their numbers; an error if the file is not text, or too long.
pub(super) fn text_lines<'b>(bytes: &'b [u8], file: &str) -> Result<impl Iterator<Item = (u32, &'b str)>, StrictError> {
    let refuse = |line: u32, message: String| {
        Err(StrictError::new(&Origin::line(file, line), message, "check that this is the file you meant"))
    };
    if bytes.len() > MAX_TRACE {
        return refuse(1, format!("{} bytes are more than a recording may have ({MAX_TRACE})", bytes.len()));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let lines = text.lines().enumerate().map(|(i, l)| (i as u32 + 1, l.trim()));
            Ok(lines.filter(|(_, l)| !l.is_empty()))
        }
        Err(error) => {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let line = 1 + before.matches('\n').count();
            refuse(line as u32, "not a text file".into())
        }
    }
}

pub(super) fn whole_milliseconds(text: &str, file: &str, line: u32) -> Result<u64, StrictError> {
    match text.parse::<u64>() {
        Ok(ms) if ms <= MAX_MS => Ok(ms),
        Ok(ms) => {
            let message = format!("{ms} ms is out of range");
            Err(StrictError::new(&Origin::line(file, line), message, format!("use a value from 0 to {MAX_MS}")))
        }
        Err(_) => {
            let message = format!("`{}` is not a whole number of milliseconds", clip(text));
            Err(StrictError::new(&Origin::line(file, line), message, "write one whole number per line"))
        }
    }
}

/// The first forty characters of a text, so that an error stays one line.
fn clip(text: &str) -> String {
    text.chars().take(40).filter(|c| !c.is_control()).collect()
}

/// Bytes of an opportunity of mahimahi.
pub(super) const OPPORTUNITY_BYTES: u64 = 1500;

/// Time that one line of a delay trace covers.
pub(super) const DELAY_LINE: Time = Time::from_millis(10);

/// Latest time and longest delay of a recording: thirty days, ms.
const MAX_MS: u64 = 30 * 24 * 3600 * 1000;

const fn named(name: &'static str, kind: ColumnKind, scale: f64, max: f64) -> Column {
    Column { name, kind, scale, max }
}

/// Every column a timeline can have.
static COLUMNS: [Column; 14] = [
    named("time_s", ColumnKind::Time, 1e9, MAX_MS as f64 / 1e3),
    named("time_ms", ColumnKind::Time, 1e6, MAX_MS as f64),
    named("rate_bps", ColumnKind::Rate, 1.0, 1e13),
    named("rate_kbps", ColumnKind::Rate, 1e3, 1e10),
    named("rate_mbps", ColumnKind::Rate, 1e6, 1e7),
    named("rate_gbps", ColumnKind::Rate, 1e9, 1e4),
    named("delay_s", ColumnKind::Delay, 1e9, 3600.0),
    named("delay_ms", ColumnKind::Delay, 1e6, 3.6e6),
    named("delay_us", ColumnKind::Delay, 1e3, 3.6e9),
    named("loss", ColumnKind::Loss, 1.0, 1.0),
    named("loss_percent", ColumnKind::Loss, 0.01, 100.0),
    named("limit_bytes", ColumnKind::Limit, 1.0, 1e15),
    named("limit_kb", ColumnKind::Limit, 1e3, 1e12),
    named("limit_mb", ColumnKind::Limit, 1e6, 1e9),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(t: u64) -> Time {
        Time::from_millis(t)
    }

    #[test]
    fn opportunities_are_the_rate_of_the_millisecond_that_ends_with_them() {
        let trace = mahimahi(b"2\n2\n3\n6\n", "bw.txt").unwrap();
        let mbps: Vec<f64> = (0..12).map(|t| trace.at(ms(t)).as_mbps()).collect();
        assert_eq!(mbps, [0.0, 24.0, 12.0, 0.0, 0.0, 12.0, 0.0, 24.0, 12.0, 0.0, 0.0, 12.0]);
        assert_eq!(mahimahi(b"0\n1\n1\n", "bw.txt").unwrap().at(ms(5)), Rate::from_mbps(36.0));
    }

    #[test]
    fn a_delay_trace_has_one_line_per_ten_milliseconds_and_repeats() {
        let trace = delays(b"12\r\n12\r\n9\r\n", "delay.txt").unwrap();
        let values: Vec<u64> = [0, 19, 20, 29, 30, 50].map(|t| trace.at(ms(t)).as_millis()).into();
        assert_eq!(values, [12, 12, 9, 9, 12, 9]);
    }

    #[test]
    fn a_timeline_gives_each_column_it_has() {
        let text = b"# a day\ntime_s, rate_mbps, loss_percent, limit_kb\n0, 10, 0, 300\n2.5, 20, 1, 300\n";
        let timeline = timeline(text, "t.csv").unwrap();
        assert_eq!(timeline.rate.unwrap().at(ms(2500)), Rate::from_mbps(20.0));
        assert_eq!(timeline.loss.unwrap().at(ms(3000)), Ratio::new(0.01).unwrap());
        assert_eq!(timeline.limit.unwrap().at(ms(0)), Bytes::new(300_000));
        assert_eq!(timeline.delay, None);
    }

    #[test]
    fn what_is_wrong_with_a_recording_is_said_with_its_line() {
        let bandwidth = |b: &[u8]| mahimahi(b, "bw.txt").unwrap_err().to_string();
        assert_eq!(bandwidth(b""), "bw.txt:1: the recording is empty; check that this is the file you meant");
        assert_eq!(bandwidth(b"5\n\n4\n"), "bw.txt:3: 4 ms comes after 5 ms; sort the lines by time");
        assert_eq!(
            bandwidth(b"5\n6.5\n"),
            "bw.txt:2: `6.5` is not a whole number of milliseconds; write one whole number per line"
        );
        assert_eq!(bandwidth(b"5\n\xff\xfe"), "bw.txt:2: not a text file; check that this is the file you meant");
        assert!(bandwidth(b"99999999999999\n").contains("out of range"));
        assert!(bandwidth(&vec![b'\n'; MAX_TRACE + 1]).contains("are more than"));
        assert!(delays(b"-1\n", "d").unwrap_err().to_string().starts_with("d:1: `-1` is not"));
        let csv = |t: &str| timeline(t.as_bytes(), "t.csv").unwrap_err().to_string();
        assert_eq!(csv("time_s,rate_mbs\n"), "t.csv:1: unknown column `rate_mbs`; did you mean `rate_mbps`?");
        assert_eq!(
            csv("rate_bps,time_s\n"),
            "t.csv:1: the first column is `rate_bps`; begin with `time_s` or `time_ms`"
        );
        assert_eq!(
            csv("time_s,loss\n0,0.1\n1,0.2,3\n"),
            "t.csv:3: 3 columns where the header has 2; give each row one value per column"
        );
        assert_eq!(csv("time_s,loss\n1,0.1\n"), "t.csv:2: the timeline begins at 1 s; give its first row the time 0");
        assert_eq!(
            csv("time_s,loss\n0,0.1\n0,0.1\n"),
            "t.csv:3: 0 s comes after 0 s; let the time rise from row to row"
        );
        assert_eq!(
            csv("time_s,loss\n0,1.5\n"),
            "t.csv:2: 1.5 in column `loss` is out of range; use a value from 0 to 1"
        );
        assert!(csv("time_s,loss\n0,nan\n").contains("out of range"));
        assert!(csv("time_s,loss,loss_percent\n0,0,0\n").contains("says again"));
        assert!(csv("time_s,rate_bps\n0,0\n").contains("never send again"));
        assert!(csv("time_s\n").contains("no column beside"));
        assert!(csv("time_s,loss\n").contains("empty"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes in "[0-9,.\n#a-z_-]{0,60}", prefix in 0usize..3) {
            let headers = ["", "time_s,rate_bps\n", "time_ms,loss,limit_kb\n"];
            let text = format!("{}{bytes}", headers[prefix]);
            let _ = (mahimahi(text.as_bytes(), "f"), delays(text.as_bytes(), "f"), timeline(text.as_bytes(), "f"));
        }
    }
}
