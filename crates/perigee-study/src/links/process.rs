//! The forms of a process of a link, and code shared by several processes.
//!
//! A process is written as one value, or as a table. The keys of a table depend on its `kind`, or on a key that only one
//! of its forms has, such as `trace`.

use perigee_link::Steps;
use perigee_text::{key, required, Key, Kind, Node, Process, Reader, StrictError, DAYS_30, LARGEST};
use perigee_units::{Bytes, Rate, Time};

/// Returns the bytes of a recording by its name in a profile or study, or why it cannot.
pub type Load<'l> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'l;

/// The table of a process that is always one.
pub(super) fn table_of<'a>(
    process: &Process,
    node: &'a Node,
    what: &str,
) -> Result<(Option<&'static str>, Reader<'a>), StrictError> {
    match process.open(node, what)? {
        Some(table) => Ok(table),
        None => Err(StrictError::new(&node.origin, format!("`{what}` is {}", node.kind()), "write a table")),
    }
}

/// The process under `key` in the table of another one.
pub(super) fn inside<T>(
    table: &Reader<'_>,
    key: &str,
    read: impl Fn(&Node, &str) -> Result<T, StrictError>,
) -> Result<Option<T>, StrictError> {
    table.table.node(key).map(|node| read(node, &table.dotted(key))).transpose()
}

/// The recording under `trace`.
pub(super) fn traced<T>(
    table: &Reader<'_>,
    load: &mut Load<'_>,
    read: impl Fn(&[u8], &str) -> Result<T, StrictError>,
) -> Result<T, StrictError> {
    recording(table, "trace", &table.get::<String>("trace")?, load, read)
}

pub(super) fn recording<T>(
    table: &Reader<'_>,
    key: &str,
    name: &str,
    load: &mut Load<'_>,
    read: impl Fn(&[u8], &str) -> Result<T, StrictError>,
) -> Result<T, StrictError> {
    if name.is_empty() {
        let message = format!("`{}` names no recording", table.dotted(key));
        return Err(table.error(key, message, "give it the path of one"));
    }
    let bytes = load(name).map_err(|why| table.error(key, format!("cannot read `{name}`: {why}"), "check the path"))?;
    read(&bytes, name)
}

/// A recording in words.
pub(super) fn recorded<T: Copy + PartialEq>(steps: &Steps<T>) -> String {
    let repeats = steps.period().map_or_else(String::new, |period| format!(", repeats after {period}"));
    format!("recorded, {} steps{repeats}", steps.iter().count())
}

pub(super) const EVERY: Key = required("every", INTERVAL, "Interval between new values.");
pub(super) const MEMORY: Key = key(
    "memory",
    Kind::Time { min: Time::ZERO, max: DAYS_30 },
    "0 s",
    "Time in which the autocorrelation falls to 1/e; zero: each value is independent.",
);
pub(super) const MEDIAN: Key = required("median", DELAY_VALUE, "Median.");
pub(super) const SIGMA: Key =
    required("sigma", Kind::Number { min: 0.0, max: 5.0 }, "Standard deviation of the logarithm.");

pub(super) const ANY_RATE: Kind = Kind::RateFrom(Rate::ZERO);
pub(super) const ANY_SIZE: Kind = Kind::Size { min: Bytes::ZERO, max: LARGEST };
pub(super) const ANY_TIME: Kind = Kind::Time { min: Time::ZERO, max: DAYS_30 };
pub(super) const DELAY_VALUE: Kind = Kind::Time { min: Time::ZERO, max: MOST_DELAY };
pub(super) const INTERVAL: Kind = Kind::Time { min: LEAST_INTERVAL, max: MOST_INTERVAL };
pub(super) const LONG_INTERVAL: Kind = Kind::Time { min: LEAST_INTERVAL, max: DAYS_30 };

/// Minimum rate of a link: a full packet takes twelve seconds.
pub(super) const LEAST_RATE: Rate = Rate::from_bps(1_000);
/// Maximum rate that fluctuates, or of a slot.
pub(super) const MOST_RATE: Rate = Rate::from_bps(10_000_000_000_000);
/// Minimum interval between two values of a process, so that idle times are cheap.
const LEAST_INTERVAL: Time = Time::from_millis(1);
/// Maximum interval between two values of a process.
pub(super) const MOST_INTERVAL: Time = Time::from_secs(3600);
/// Maximum delay; the sun is eight light minutes away.
const MOST_DELAY: Time = Time::from_secs(3600);

/// The key of a process.
pub(super) const fn process(name: &'static str, process: &'static Process, about: &'static str) -> Key {
    key(name, Kind::Process(process), "", about)
}
