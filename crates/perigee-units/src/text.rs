//! Quantities from and to text: a decimal number, an optional space, a unit.

use std::fmt;
use std::str::FromStr;

use crate::{Bytes, Rate, Ratio, Time};

/// Why a text is not a quantity; the message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitError {
    /// There is a number but no unit.
    MissingUnit {
        /// The text read.
        text: String,
        /// The number with the unit that it probably has, as it may be written.
        written: String,
    },
    /// The unit is not one of this kind of quantity.
    UnknownUnit {
        /// The text read.
        text: String,
        /// The unit in it.
        unit: String,
        /// The kind of quantity.
        kind: &'static str,
        /// The unit that was probably meant, or those there are.
        fix: String,
    },
    /// The part before the unit is not a number.
    NotANumber {
        /// The text read.
        text: String,
        /// A quantity of this kind, written well.
        example: &'static str,
    },
    /// The number is negative.
    Negative {
        /// The text read.
        text: String,
        /// The kind of quantity.
        kind: &'static str,
    },
    /// The number does not fit.
    OutOfRange {
        /// The text read.
        text: String,
        /// The kind of quantity.
        kind: &'static str,
        /// The largest value.
        limit: &'static str,
    },
}

impl UnitError {
    fn parts(&self) -> (String, String) {
        match self {
            Self::MissingUnit { text, written } => (format!("`{text}` has no unit"), format!("write {written}")),
            Self::UnknownUnit { text, unit, kind, fix } => {
                (format!("`{unit}` in `{text}` is not a unit of {kind}"), fix.clone())
            }
            Self::NotANumber { text, example } => {
                (format!("`{text}` does not start with a number"), format!("write {example}"))
            }
            Self::Negative { text, kind } => (format!("`{text}` is negative"), format!("{kind} starts at zero")),
            Self::OutOfRange { text, kind, limit } => {
                (format!("`{text}` is out of range"), format!("{kind} goes up to {limit}"))
            }
        }
    }

    /// Returns a description of the error without the fix.
    pub fn message(&self) -> String {
        self.parts().0
    }

    /// Returns the fix.
    pub fn fix(&self) -> String {
        self.parts().1
    }
}

/// `message; fix`.
impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, fix) = self.parts();
        write!(f, "{message}; {fix}")
    }
}

impl std::error::Error for UnitError {}

impl FromStr for Time {
    type Err = UnitError;
    /// ```
    /// use perigee_units::Time;
    /// assert_eq!("1.5 ms".parse(), Ok(Time::from_micros(1500)));
    /// assert!("600".parse::<Time>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, UnitError> {
        TIME.parse(text).map(Time::from_nanos)
    }
}
impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim() == "unlimited" {
            return Ok(Rate::UNLIMITED);
        }
        RATE.parse(text).map(Rate::from_bps)
    }
}
impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        BYTES.parse(text).map(Bytes::new)
    }
}
impl FromStr for Ratio {
    type Err = UnitError;
    /// A percentage (`"0.1 %"`) or parts per million (`"10 ppm"`).
    fn from_str(text: &str) -> Result<Self, UnitError> {
        // Read at a scale of 1e-15, so that the decimal text is exact and only one rounding follows.
        let parts = RATIO.parse(text)?;
        Ratio::new(parts as f64 / 1e15).ok_or_else(|| RATIO.out_of_range(text))
    }
}

macro_rules! units {
    ($($quantity:ident: $kind:ident;)+) => {$(
        impl $quantity {
            /// The units that its text may have.
            pub fn units() -> impl Iterator<Item = &'static str> {
                $kind.units.iter().map(|unit| unit.name)
            }
        }
    )+};
}
units! {
    Time: TIME;
    Rate: RATE;
    Bytes: BYTES;
    Ratio: RATIO;
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TIME.print(self.as_nanos(), f)
    }
}
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Rate::UNLIMITED {
            return f.write_str("unlimited");
        }
        RATE.print(self.as_bps(), f)
    }
}
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BYTES.print(self.as_u64(), f)
    }
}
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", times_100(&self.as_f64().to_string()))
    }
}

/// A quantity: its units with their size in the integer that stores it; those marked `print` are used in output.
struct Quantity {
    name: &'static str,
    example: &'static str,
    limit: &'static str,
    /// The name of the unit that zero is printed in.
    basic: &'static str,
    units: &'static [Unit],
    /// The unit that a number without one probably has.
    usual: &'static str,
    /// The usual unit of [`LARGE`] numbers.
    usual_of_large: &'static str,
}

struct Unit {
    name: &'static str,
    size: u64,
    print: bool,
    /// Other ways to write it, which are not read.
    elsewhere: &'static [&'static str],
}

impl Unit {
    const fn elsewhere(self, elsewhere: &'static [&'static str]) -> Self {
        Self { elsewhere, ..self }
    }
}

const fn unit(name: &'static str, size: u64) -> Unit {
    Unit { name, size, print: true, elsewhere: &[] }
}
const fn read_only(name: &'static str, size: u64) -> Unit {
    Unit { name, size, print: false, elsewhere: &[] }
}

/// From here on a rate or size without a unit is probably in bit/s or bytes.
const LARGE: f64 = 10_000.0;

static TIME: Quantity = Quantity {
    name: "time",
    example: "\"600 ms\"",
    limit: "584 years",
    basic: "s",
    units: &[
        read_only("h", 3_600_000_000_000).elsewhere(&["hr", "hrs", "hour", "hours"]),
        read_only("min", 60_000_000_000).elsewhere(&["m", "mins", "minute", "minutes"]),
        unit("s", 1_000_000_000).elsewhere(&["sec", "secs", "second", "seconds"]),
        unit("ms", 1_000_000).elsewhere(&["msec", "msecs", "millisecond", "milliseconds"]),
        unit("us", 1_000).elsewhere(&["\u{b5}s", "\u{3bc}s", "usec", "usecs", "microsecond", "microseconds"]),
        unit("ns", 1).elsewhere(&["nsec", "nsecs", "nanosecond", "nanoseconds"]),
    ],
    usual: "ms",
    usual_of_large: "ms",
};
static RATE: Quantity = Quantity {
    name: "rate",
    example: "\"144 Mbit/s\"",
    limit: "18 Ebit/s",
    basic: "bit/s",
    units: &[
        unit("Gbit/s", 1_000_000_000).elsewhere(&["Gbps", "Gb/s", "Gbit", "Gbits/s", "Gbit/sec", "Gbits/sec", "Gb"]),
        unit("Mbit/s", 1_000_000).elsewhere(&["Mbps", "Mb/s", "Mbit", "Mbits/s", "Mbit/sec", "Mbits/sec", "Mb"]),
        unit("kbit/s", 1_000).elsewhere(&["kbps", "kb/s", "kbit", "kbits/s", "kbit/sec", "kbits/sec", "kb"]),
        unit("bit/s", 1).elsewhere(&["bps", "b/s", "bit", "bits/s", "bit/sec", "bits/sec"]),
        read_only("GB/s", 8_000_000_000).elsewhere(&["GBps", "GB", "GB/sec"]),
        read_only("MB/s", 8_000_000).elsewhere(&["MBps", "MB", "MB/sec"]),
        read_only("kB/s", 8_000).elsewhere(&["kBps", "kB", "KB", "KBps", "KB/s", "kB/sec", "KB/sec"]),
    ],
    usual: "Mbit/s",
    usual_of_large: "bit/s",
};
static BYTES: Quantity = Quantity {
    name: "size",
    example: "\"36 MB\"",
    limit: "18 EB",
    basic: "B",
    units: &[
        unit("GB", 1_000_000_000).elsewhere(&["G", "gigabytes"]),
        unit("MB", 1_000_000).elsewhere(&["M", "megabytes"]),
        unit("kB", 1_000).elsewhere(&["k", "kilobytes"]),
        unit("B", 1).elsewhere(&["byte", "bytes"]),
        read_only("GiB", 1 << 30).elsewhere(&["Gi"]),
        read_only("MiB", 1 << 20).elsewhere(&["Mi"]),
        read_only("KiB", 1 << 10).elsewhere(&["Ki"]),
    ],
    usual: "MB",
    usual_of_large: "B",
};
static RATIO: Quantity = Quantity {
    name: "ratio",
    example: "\"0.1 %\"",
    limit: "100 %",
    basic: "%",
    units: &[
        read_only("%", 10_000_000_000_000).elsewhere(&["percent", "per cent", "pct"]),
        read_only("ppm", 1_000_000_000),
    ],
    usual: "%",
    usual_of_large: "ppm",
};

impl Quantity {
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let trimmed = text.trim();
        let unit_at = number_end(trimmed);
        let (number, unit) = (trimmed[..unit_at].trim_end(), &trimmed[unit_at..]);
        if number.is_empty() || number.len() > 40 {
            return Err(UnitError::NotANumber { text: clip(text), example: self.example });
        }
        if number.starts_with('-') {
            return Err(UnitError::Negative { text: clip(text), kind: self.name });
        }
        if unit.is_empty() {
            return Err(UnitError::MissingUnit { text: clip(text), written: self.with_a_unit(number) });
        }
        let Some(unit) = self.units.iter().find(|u| u.name == unit) else {
            let fix = match self.meant(unit) {
                Some(unit) => format!("did you mean `{number} {}`?", unit.name),
                None => format!("use one of {}", self.units.iter().map(|u| u.name).collect::<Vec<_>>().join(", ")),
            };
            return Err(UnitError::UnknownUnit { text: clip(text), unit: clip(unit), kind: self.name, fix });
        };
        let not_a_number = || UnitError::NotANumber { text: clip(text), example: self.example };
        let scaled = scale_decimal(number, unit.size).ok_or_else(not_a_number)?;
        u64::try_from(scaled).map_err(|_| self.out_of_range(text))
    }

    /// A number with the unit that it probably has, in quotes; an example where it is no number.
    fn with_a_unit(&self, number: &str) -> String {
        let Ok(value) = number.parse::<f64>() else { return self.example.to_owned() };
        let unit = if value < LARGE { self.usual } else { self.usual_of_large };
        format!("\"{number} {unit}\"")
    }

    /// The unit that people elsewhere write this way; capital letters tell bytes from bits, where both are written.
    fn meant(&self, unit: &str) -> Option<&'static Unit> {
        let written = |same: &dyn Fn(&str) -> bool| {
            self.units.iter().find(|known| same(known.name) || known.elsewhere.iter().any(|other| same(other)))
        };
        written(&|known| known == unit).or_else(|| written(&|known| known.eq_ignore_ascii_case(unit)))
    }

    fn out_of_range(&self, text: &str) -> UnitError {
        UnitError::OutOfRange { text: clip(text), kind: self.name, limit: self.limit }
    }

    /// The largest unit that prints the value with at most three decimals, otherwise the smallest; zero in the basic unit.
    fn print(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let smallest = self.units.iter().rfind(|u| u.print).expect("every printed kind has a unit that prints");
        let exact = |u: &&Unit| u.print && value >= u.size && (u128::from(value) * 1000) % u128::from(u.size) == 0;
        let fitting =
            if value == 0 { self.units.iter().find(|u| u.name == self.basic) } else { self.units.iter().find(exact) };
        let unit = fitting.unwrap_or(smallest);
        let (whole, part) = (value / unit.size, u128::from(value % unit.size) * 1000 / u128::from(unit.size));
        if part == 0 {
            write!(f, "{whole} {}", unit.name)
        } else {
            write!(f, "{whole}.{} {}", format!("{part:03}").trim_end_matches('0'), unit.name)
        }
    }
}

/// A decimal text without sign and exponent with its point two places further on: exact, as no product of two floats is.
fn times_100(decimal: &str) -> String {
    let (whole, part) = decimal.split_once('.').unwrap_or((decimal, ""));
    let (moved, rest) = (format!("{part:0<2.2}"), part.get(2..).unwrap_or(""));
    let whole = format!("{whole}{moved}");
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    if rest.is_empty() {
        whole.to_owned()
    } else {
        format!("{whole}.{rest}")
    }
}

/// Where the unit begins: after the longest prefix of digits, point, sign, exponent.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let digit_like = bytes[at].is_ascii_digit() || matches!(bytes[at], b'.' | b'_' | b' ');
        let sign = matches!(bytes[at], b'-' | b'+') && (at == 0 || matches!(bytes[at - 1], b'e' | b'E'));
        let exponent = matches!(bytes[at], b'e' | b'E')
            && at > 0
            && bytes.get(at + 1).is_some_and(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+'));
        if !(digit_like || sign || exponent) {
            break;
        }
        at += 1;
    }
    at
}

/// `number * size` for a decimal text with optional exponent, exact where it can be, rounded to nearest otherwise.
/// `None` where the text is no number; a value past 128 bits saturates.
fn scale_decimal(number: &str, size: u64) -> Option<u128> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((m, e)) => (m, e.parse::<i32>().ok().filter(|e| (-400..=400).contains(e))?),
        None => (number, 0),
    };
    let mantissa = mantissa.strip_prefix('+').unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = whole.chars().chain(fraction.chars()).filter(|c| *c != '_').collect();
    let fraction_len = fraction.chars().filter(|c| *c != '_').count() as i32;
    if digits.is_empty() || digits.contains(' ') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    let (kept, dropped) = digits.split_at(digits.len().min(MOST_DIGITS));
    let mut value = kept.parse::<u128>().unwrap_or(0).saturating_mul(u128::from(size));
    let mut power = exponent - fraction_len + dropped.len() as i32;
    while power > 0 && value != 0 && value != u128::MAX {
        value = value.saturating_mul(10);
        power -= 1;
    }
    if power < 0 {
        let divisor = 10u128.checked_pow(power.unsigned_abs());
        value = divisor.map_or(0, |d| value.saturating_add(d / 2) / d);
    }
    Some(value)
}

/// Significant digits of a number that are read: more than 64 bits have; times the largest unit they fit into 128.
const MOST_DIGITS: usize = 25;

/// At most forty characters of what was read, so that an error stays one line.
fn clip(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_read_as_people_write_them() {
        assert_eq!("600 ms".parse(), Ok(Time::from_millis(600)));
        assert_eq!("0.5s".parse(), Ok(Time::from_millis(500)));
        assert_eq!("2 h".parse(), Ok(Time::from_secs(7200)));
        assert_eq!("0.12345678901234567890123456789012345678 s".parse(), Ok(Time::from_nanos(123_456_789)));
        assert_eq!(format!("1{}e-33 s", "0".repeat(35)).parse(), Ok(Time::from_secs(100)));
        assert!(format!("{}.5 s", "9".repeat(36)).parse::<Time>().is_err());
        assert_eq!("144 Mbit/s".parse(), Ok(Rate::from_bps(144_000_000)));
        assert_eq!("1.144 Mbit/s".parse(), Ok(Rate::from_bps(1_144_000)));
        assert_eq!("36 MB".parse(), Ok(Bytes::new(36_000_000)));
        assert_eq!("1.5 KiB".parse(), Ok(Bytes::new(1536)));
        assert_eq!("0.05 %".parse::<Ratio>().map(Ratio::as_f64), Ok(0.0005));
        assert_eq!("10 ppm".parse::<Ratio>().map(Ratio::as_f64), Ok(1e-5));
        assert_eq!("1e3 kB".parse(), Ok(Bytes::new(1_000_000)));
    }

    #[test]
    fn a_ratio_prints_the_percentage_that_was_read() {
        for text in ["2.364 %", "0 %", "100 %", "0.1 %", "50 %", "3.0121 %", "0.0002 %", "99.999 %"] {
            assert_eq!(text.parse::<Ratio>().map(|ratio| ratio.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("10 ppm".parse::<Ratio>().map(|ratio| ratio.to_string()), Ok("0.001 %".to_owned()));
    }

    #[test]
    fn errors_say_what_to_write() {
        let message = |e: UnitError| e.to_string();
        assert_eq!("600".parse::<Time>().map_err(message), Err("`600` has no unit; write \"600 ms\"".into()));
        assert_eq!("-1 ms".parse::<Time>().map_err(message), Err("`-1 ms` is negative; time starts at zero".into()));
        assert!("5 lux".parse::<Rate>().map_err(message).unwrap_err().contains("is not a unit of rate; use one of"));
        assert!("ms".parse::<Time>().map_err(message).unwrap_err().contains("does not start with a number"));
        assert!("101 %".parse::<Ratio>().is_err());
        assert!("1e300 GB".parse::<Bytes>().map_err(message).unwrap_err().contains("out of range"));
    }

    #[test]
    fn a_number_without_a_unit_is_answered_with_that_number() {
        fn fix<T: FromStr<Err = UnitError> + fmt::Debug>(text: &str) -> String {
            text.parse::<T>().unwrap_err().fix()
        }
        assert_eq!(fix::<Time>("290"), "write \"290 ms\"");
        assert_eq!(fix::<Rate>("20"), "write \"20 Mbit/s\"");
        assert_eq!(fix::<Rate>("20000000"), "write \"20000000 bit/s\"");
        assert_eq!(fix::<Bytes>("7500000"), "write \"7500000 B\"");
        assert_eq!(fix::<Ratio>("0.5"), "write \"0.5 %\"");
        assert_eq!(fix::<Time>("1 2"), "write \"600 ms\"");
    }

    #[test]
    fn units_as_others_write_them_are_answered_with_ours() {
        fn meant<T: FromStr<Err = UnitError> + fmt::Debug>(text: &str) -> String {
            text.parse::<T>().unwrap_err().fix()
        }
        assert_eq!(meant::<Rate>("20 Mbps"), "did you mean `20 Mbit/s`?");
        assert_eq!(meant::<Rate>("20mbps"), "did you mean `20 Mbit/s`?");
        assert_eq!(meant::<Rate>("2.5 MBps"), "did you mean `2.5 MB/s`?");
        assert_eq!(meant::<Rate>("64 Kbit/s"), "did you mean `64 kbit/s`?");
        assert_eq!(meant::<Rate>("1 GB"), "did you mean `1 GB/s`?");
        assert_eq!(meant::<Time>("5 sec"), "did you mean `5 s`?");
        assert_eq!(meant::<Time>("15 \u{b5}s"), "did you mean `15 us`?");
        assert_eq!(meant::<Bytes>("36 mb"), "did you mean `36 MB`?");
        assert_eq!(meant::<Ratio>("1 percent"), "did you mean `1 %`?");
        assert!(meant::<Bytes>("10 Mbit/s").starts_with("use one of GB, MB"));
    }

    #[test]
    fn what_is_meant_is_a_unit_that_can_be_read_and_no_two_units_are_written_alike() {
        for kind in [&TIME, &RATE, &BYTES, &RATIO] {
            let mut seen = std::collections::BTreeSet::new();
            for unit in kind.units {
                assert!(seen.insert(unit.name), "{}", unit.name);
                for other in unit.elsewhere {
                    assert!(seen.insert(other), "{other}");
                    assert_eq!(kind.meant(other).map(|meant| meant.name), Some(unit.name));
                }
            }
            assert!(seen.contains(kind.usual) && seen.contains(kind.usual_of_large));
        }
    }

    proptest! {
        #[test]
        fn whatever_prints_reads_back_the_same(ns in any::<u64>(), bps in any::<u64>(), bytes in any::<u64>()) {
            prop_assert_eq!(Time::from_nanos(ns).to_string().parse(), Ok(Time::from_nanos(ns)));
            prop_assert_eq!(Rate::from_bps(bps).to_string().parse(), Ok(Rate::from_bps(bps)));
            prop_assert_eq!(Bytes::new(bytes).to_string().parse(), Ok(Bytes::new(bytes)));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,60}") {
            let _ = (text.parse::<Time>(), text.parse::<Rate>(), text.parse::<Bytes>(), text.parse::<Ratio>());
        }

        #[test]
        fn carried_remainders_leave_no_drift(bps in 1_000u64..10_000_000_000, sizes in prop::collection::vec(1u64..65_536, 1..200)) {
            let (rate, mut remainder) = (Rate::from_bps(bps), 0);
            let sum: Time = sizes.iter().map(|s| rate.send_with_remainder(Bytes::new(*s), &mut remainder)).sum();
            let exact = u128::from(sizes.iter().sum::<u64>()) * 8_000_000_000 / u128::from(bps);
            prop_assert_eq!(u128::from(sum.as_nanos()), exact);
        }
    }
}
