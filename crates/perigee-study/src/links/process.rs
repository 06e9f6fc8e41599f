//! The forms of a process of a link, and code shared by several processes.
//!
//! A process is written as one value, or as a table. The keys of a table depend on its `kind`, or on a key that only one
//! of its forms has, such as `trace`.

use perigee_units::{suggestion, Bytes, Rate, Time};

use crate::reader::{check, clip, Reader};
use crate::section::{key, required, Form, Key, Kind, Process, DAYS_30, LARGEST};
use crate::strict::{Content, Node, StrictError, Table};

/// Returns the bytes of a recording by its name in a profile or study, or why it cannot.
pub type Load<'l> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'l;

impl Process {
    /// Opens the table of a process, with the value of `kind`; `None`: it is a single value, which is checked.
    pub(crate) fn open<'a>(
        &self,
        node: &'a Node,
        what: &str,
    ) -> Result<Option<(Option<&'static str>, Reader<'a>)>, StrictError> {
        if let (Some(plain), false) = (self.plain, matches!(node.content, Content::Table(_)) && !self.forms.is_empty())
        {
            return check(node, what, *plain).map(|()| None);
        }
        let form = self.form(&Table::named(node, what)?)?;
        let kind: &[String] = if form.kind.is_some() { &["kind".to_owned()] } else { &[] };
        Ok(Some((form.kind, Reader::open(node, what, form.section, kind)?)))
    }

    /// The form of a table: among several of one kind, and among those without one, the first whose first key is present.
    fn form(&self, table: &Table<'_>) -> Result<&'static Form, StrictError> {
        let is_marked = |form: &&Form| form.section.keys.first().is_some_and(|key| table.has(key.name));
        if let [form @ Form { kind: None, .. }] = self.forms {
            return Ok(form);
        }
        if let Some(form) = self.forms.iter().filter(|form| form.kind.is_none()).find(is_marked) {
            return Ok(form);
        }
        let mut words: Vec<&str> = self.forms.iter().filter_map(|form| form.kind).collect();
        words.dedup();
        let Some(word) = table.get::<String>("kind")? else {
            let fix = format!("add `kind = ...`, one of {}", words.join(", "));
            return Err(table.error("kind", format!("`{}` is missing", table.dotted("kind")), fix));
        };
        let of_kind = || self.forms.iter().filter(|form| form.kind == Some(&word));
        of_kind().find(is_marked).or_else(|| of_kind().next_back()).ok_or_else(|| {
            let message = format!("`{}` cannot be `{}`", table.dotted("kind"), clip(&word));
            table.error("kind", message, suggestion(&word, words.iter().copied()))
        })
    }
}

/// The table of a process that is always a table.
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
