//! Parameters of algorithms, and their values as text.

use perigee_units::{Rate, Ratio, Time, UnitError};

/// One setting of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its key in a study.
    pub name: &'static str,
    /// The unit of the values: `us`, `bit/s`, `packets`, `switch` (on or off), names as `a|b|c` (a choice; their
    /// order is the value), `1/N` (parts of N) or `1` (a plain number).
    pub unit: &'static str,
    /// The value that holds unless a study sets another.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// Description for users.
    pub doc: &'static str,
}

impl Param {
    /// A value as a study writes it, with its unit: what [`crate::Selected::parse`] reads.
    pub fn text(&self, value: u64) -> String {
        show(self.unit, value)
    }

    /// The value that a text stands for, if it is in the unit and the range.
    pub(crate) fn value(&self, text: &str) -> Result<u64, Unreadable> {
        let value = read(self.unit, text)?;
        if (self.min..=self.max).contains(&value) {
            return Ok(value);
        }
        let (low, high) = (self.text(self.min), self.text(self.max));
        Err(Unreadable::new(format!("`{text}` is out of range"), format!("use {low} to {high}")))
    }
}

/// Why a text is no value, and what to write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) message: String,
    pub(crate) fix: String,
}

impl Unreadable {
    fn new(message: String, fix: impl Into<String>) -> Self {
        Self { message, fix: fix.into() }
    }
}

impl From<UnitError> for Unreadable {
    fn from(error: UnitError) -> Self {
        Self::new(error.message(), error.fix())
    }
}

/// A value of this unit from text.
fn read(unit: &str, text: &str) -> Result<u64, Unreadable> {
    let text = text.trim();
    if let Some(scale) = unit.strip_prefix("1/").and_then(|n| n.parse::<u64>().ok()) {
        return read_ratio(text, scale);
    }
    if unit.contains('|') {
        return read_choice(unit, text);
    }
    match unit {
        "us" => text.parse().map(Time::as_micros).map_err(Unreadable::from),
        "bit/s" => text.parse().map(Rate::as_bps).map_err(Unreadable::from),
        "switch" => match text {
            "on" | "true" => Ok(1),
            "off" | "false" => Ok(0),
            _ => Err(Unreadable::new(format!("`{text}` is neither on nor off"), "write on or off")),
        },
        _ => {
            // The unit of a plain number is no part of its text.
            let number = text.strip_suffix(unit).filter(|_| unit != "1").map_or(text, str::trim_end);
            let example = if unit == "1" { String::from("10") } else { format!("\"10 {unit}\"") };
            let wrong = |_| Unreadable::new(format!("`{text}` is not a whole number"), format!("write {example}"));
            number.parse().map_err(wrong)
        }
    }
}

/// The place of a name among those of a choice.
fn read_choice(unit: &str, text: &str) -> Result<u64, Unreadable> {
    let found = unit.split('|').zip(0..).find(|(name, _)| *name == text);
    let names = || unit.split('|').map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    found
        .map(|(_, at)| at)
        .ok_or_else(|| Unreadable::new(format!("`{text}` is no choice"), format!("write one of {}", names())))
}

/// Parts of `scale`, rounded to nearest: a percentage, a decimal number, or a fraction `a/b`.
fn read_ratio(text: &str, scale: u64) -> Result<u64, Unreadable> {
    let wrong = || Unreadable::new(format!("`{text}` is not a ratio"), "write \"70 %\", 0.7 or \"717/1024\"");
    let ratio = if text.ends_with('%') || text.ends_with("ppm") {
        text.parse::<Ratio>().map_err(Unreadable::from)?.as_f64()
    } else if let Some((a, b)) = text.split_once('/') {
        let part = |t: &str| t.trim().parse::<u32>().map(f64::from).map_err(|_| wrong());
        part(a)? / part(b)?
    } else {
        text.parse::<f64>().map_err(|_| wrong())?
    };
    if ratio.is_finite() && (0.0..=1e9).contains(&ratio) {
        Ok((ratio * scale as f64).round() as u64)
    } else {
        Err(wrong())
    }
}

/// A value of this unit as [`read`] accepts it.
fn show(unit: &str, value: u64) -> String {
    if let Some(name) = unit.split('|').nth(value as usize).filter(|_| unit.contains('|')) {
        return name.to_owned();
    }
    match unit {
        "us" => Time::from_micros(value).to_string(),
        "bit/s" => Rate::from_bps(value).to_string(),
        "switch" => String::from(if value == 0 { "off" } else { "on" }),
        "1" => value.to_string(),
        _ => match unit.strip_prefix("1/") {
            Some(scale) => show_ratio(scale, value),
            None => format!("{value} {unit}"),
        },
    }
}

/// Parts of `scale` as a percentage with a decimal at the most, where that reads back the same; otherwise as a fraction.
fn show_ratio(scale: &str, value: u64) -> String {
    let fraction = format!("{value}/{scale}");
    let Ok(parts) = scale.parse::<u64>() else { return fraction };
    let percent = format!("{} %", (value as f64 / parts as f64 * 1000.0).round() / 10.0);
    if read_ratio(&percent, parts) == Ok(value) {
        percent
    } else {
        fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_in_their_units() {
        assert_eq!(read("us", "25 ms"), Ok(25_000));
        assert_eq!(read("bit/s", "5 Mbit/s"), Ok(5_000_000));
        assert_eq!(read("1/1024", "70 %"), Ok(717));
        assert_eq!(read("1/1024", "0.7"), Ok(717));
        assert_eq!(read("1/1024", "717/1024"), Ok(717));
        assert_eq!(read("switch", "on"), Ok(1));
        assert_eq!(read("packets", "10 packets"), Ok(10));
        assert_eq!(read("a|b+|c", "b+"), Ok(1));
        assert_eq!(["3", "1", "11", "21"].map(|text| read("1", text)), [Ok(3), Ok(1), Ok(11), Ok(21)]);
    }

    #[test]
    fn a_value_without_its_unit_says_what_to_write() {
        let unreadable = Unreadable::new("`25` has no unit".to_owned(), "write \"25 ms\"");
        assert_eq!(read("us", "25"), Err(unreadable));
        assert!(read("switch", "1").is_err_and(|e| e.fix.contains("write on or off")));
        assert!(read("a|b", "c").is_err_and(|e| e.fix == "write one of \"a\", \"b\""));
        assert!(read("1/1024", "1/0").is_err());
        assert!(read("packets", "ten").is_err_and(|e| e.fix.contains("write \"10 packets\"")));
    }

    #[test]
    fn what_is_shown_reads_back() {
        for (unit, value) in [
            ("us", 25_000),
            ("bit/s", 1_500_000),
            ("1/1024", 717),
            ("1/100000", 1),
            ("switch", 1),
            ("a|b", 1),
            ("packets", 4),
            ("1", 7),
        ] {
            assert_eq!(read(unit, &show(unit, value)), Ok(value), "{unit}");
        }
    }

    #[test]
    fn ratios_are_shown_as_a_person_writes_them() {
        assert_eq!(show("1/1024", 717), "70 %");
        assert_eq!(show("1/1024", 512), "50 %");
        assert_eq!(show("1/100000", 1), "1/100000");
    }
}
