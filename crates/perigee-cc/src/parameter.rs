//! Parameters of algorithms, and the choice of an algorithm with values for them.

use std::fmt;

use perigee_units::{Encode, Rate, Ratio, Time, UnitError};

use crate::algorithm::{algorithms, find, Algorithm};
use crate::sock::MAX_PARAMS;

/// One setting of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its key in a study.
    pub name: &'static str,
    /// The unit of the values: `us`, `bit/s`, `packets`, `switch` (0 or 1), `1/N` (parts of N) or `1` (a plain number).
    pub unit: &'static str,
    /// The value that holds unless a study sets another.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// What it does.
    pub doc: &'static str,
}

/// Why a choice of algorithm and parameters is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CcError {
    /// No file of that name.
    UnknownAlgorithm {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The algorithm has no such parameter.
    UnknownParameter {
        /// The algorithm.
        algorithm: String,
        /// The key that was set.
        key: String,
        /// The keys that exist.
        known: String,
    },
    /// The text is no value of the parameter's unit.
    BadValue {
        /// The algorithm.
        algorithm: String,
        /// The parameter.
        key: String,
        /// What is wrong.
        message: String,
        /// What to write.
        fix: String,
    },
}

impl CcError {
    fn parts(&self) -> (String, String) {
        match self {
            Self::UnknownAlgorithm { name, known } => {
                (format!("no congestion control `{name}`"), format!("there are {known}"))
            }
            Self::UnknownParameter { algorithm, key, known } => {
                (format!("`{algorithm}` has no parameter `{key}`"), known.clone())
            }
            Self::BadValue { algorithm, key, message, fix } => {
                (format!("`{key}` of `{algorithm}`: {message}"), fix.clone())
            }
        }
    }

    /// What is wrong, without the fix.
    pub fn message(&self) -> String {
        self.parts().0
    }

    /// What to do about it.
    pub fn fix(&self) -> String {
        self.parts().1
    }
}

/// `message; fix`.
impl fmt::Display for CcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, fix) = self.parts();
        write!(f, "{message}; {fix}")
    }
}

impl std::error::Error for CcError {}

/// An algorithm with a value for each of its parameters.
#[derive(Clone, Debug)]
pub struct Selected {
    algorithm: &'static Algorithm,
    values: [u64; MAX_PARAMS],
    flow: u32,
}

/// The algorithm by its name and the digest of its program, and its values. Not the flow, which plans do not choose.
impl Encode for Selected {
    fn encode(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        ((self.algorithm.name(), self.algorithm.digest()), &self.values[..]).encode(out)
    }
}

impl Param {
    /// A value as a study writes it, with its unit: what [`Selected::parse`] reads.
    pub fn text(&self, value: u64) -> String {
        show(self.unit, value)
    }
}

impl Selected {
    /// The algorithm of this name; parameters not set have their defaults.
    ///
    /// Values are text as in a study: `"25 ms"`, `"5 Mbit/s"`, `"70 %"` or `"0.7"`, `"10"`, `"on"`.
    ///
    /// # Errors
    /// Where there is no such algorithm or parameter, or the value is not in the parameter's unit or range.
    pub fn parse(name: &str, settings: &[(&str, &str)]) -> Result<Self, CcError> {
        let algorithm = find(name).ok_or_else(|| CcError::UnknownAlgorithm {
            name: name.to_owned(),
            known: algorithms().iter().map(Algorithm::name).collect::<Vec<_>>().join(", "),
        })?;
        Self::of(algorithm, settings)
    }

    /// This algorithm; `settings` as of [`Selected::parse`].
    ///
    /// # Errors
    /// Where there is no such parameter, or the value is not in the parameter's unit or range.
    pub fn of(algorithm: &'static Algorithm, settings: &[(&str, &str)]) -> Result<Self, CcError> {
        let mut selected = Self::with_defaults(algorithm);
        for (key, text) in settings {
            selected.set(key, text)?;
        }
        Ok(selected)
    }

    /// The algorithm as it is when nothing is set.
    pub fn with_defaults(algorithm: &'static Algorithm) -> Self {
        let mut values = [0; MAX_PARAMS];
        for (value, param) in values.iter_mut().zip(algorithm.params()) {
            *value = param.default;
        }
        Self { algorithm, values, flow: 0 }
    }

    /// The algorithm with values in the order of [`Algorithm::params`], as [`Selected::values`] gives them; those that
    /// are missing have their defaults. Units and ranges are the caller's.
    pub fn with_values(algorithm: &'static Algorithm, values: &[u64]) -> Self {
        let mut selected = Self::with_defaults(algorithm);
        for (value, given) in selected.values.iter_mut().zip(values) {
            *value = *given;
        }
        selected
    }

    /// The same choice, made by the flow of this number: the calls of an author's code are noted with it.
    #[must_use]
    pub fn of_flow(self, number: u32) -> Self {
        Self { flow: number, ..self }
    }

    pub(crate) fn flow(&self) -> u32 {
        self.flow
    }

    /// The algorithm.
    pub fn algorithm(&self) -> &'static Algorithm {
        self.algorithm
    }

    /// The values, in the order of [`Algorithm::params`]; the rest is zero.
    pub fn values(&self) -> &[u64; MAX_PARAMS] {
        &self.values
    }

    /// The settings that differ from the defaults, as `key=value unit`, in declared order.
    pub fn describe(&self) -> String {
        let changed = self.algorithm.params().iter().zip(&self.values).filter(|(p, v)| p.default != **v);
        changed.map(|(p, v)| format!("{}={}", p.name, p.text(*v))).collect::<Vec<_>>().join(", ")
    }

    fn set(&mut self, key: &str, text: &str) -> Result<(), CcError> {
        let algorithm = || self.algorithm.name().to_owned();
        let params = self.algorithm.params();
        let Some(at) = params.iter().position(|p| p.name == key) else {
            let names = params.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
            let known = if names.is_empty() { "it has none".to_owned() } else { format!("it has {names}") };
            return Err(CcError::UnknownParameter { algorithm: algorithm(), key: key.to_owned(), known });
        };
        let param = &params[at];
        let bad = |Unreadable { message, fix }| CcError::BadValue {
            algorithm: algorithm(),
            key: key.to_owned(),
            message,
            fix,
        };
        let value = read(param.unit, text).map_err(bad)?;
        if value < param.min || value > param.max {
            let (low, high) = (param.text(param.min), param.text(param.max));
            return Err(bad(Unreadable::new(format!("`{text}` is out of range"), format!("use {low} to {high}"))));
        }
        self.values[at] = value;
        Ok(())
    }
}

/// Why a text is no value, and what to write.
#[derive(Debug, PartialEq, Eq)]
struct Unreadable {
    message: String,
    fix: String,
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
    match unit {
        "us" => text.parse().map(Time::as_micros).map_err(Unreadable::from),
        "bit/s" => text.parse().map(Rate::as_bps).map_err(Unreadable::from),
        "switch" => match text {
            "on" | "true" => Ok(1),
            "off" | "false" => Ok(0),
            _ => Err(Unreadable::new(format!("`{text}` is neither on nor off"), "write true or false")),
        },
        _ => {
            let number = text.strip_suffix(unit).map_or(text, str::trim_end);
            let example = if unit == "1" { String::from("10") } else { format!("\"10 {unit}\"") };
            let wrong = |_| Unreadable::new(format!("`{text}` is not a whole number"), format!("write {example}"));
            number.parse().map_err(wrong)
        }
    }
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
        assert_eq!(read("1", "3"), Ok(3));
    }

    #[test]
    fn a_value_without_its_unit_says_what_to_write() {
        let unreadable = Unreadable::new("`25` has no unit".to_owned(), "write \"600 ms\"");
        assert_eq!(read("us", "25"), Err(unreadable));
        assert!(read("switch", "1").is_err_and(|e| e.fix.contains("write true or false")));
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

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let unknown = Selected::parse("rneo", &[]).unwrap_err().to_string();
        assert!(unknown.contains("`rneo`") && unknown.contains("reno"), "{unknown}");
        let unknown = Selected::parse("reno", &[("beta", "0.7")]).unwrap_err().to_string();
        assert_eq!(unknown, "`reno` has no parameter `beta`; it has none");
    }
}
