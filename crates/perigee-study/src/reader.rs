//! Reads one table of a study as its [`Section`] declares it: keys, types, bounds and defaults come from there.

use std::collections::BTreeSet;
use std::fmt::Display;

use crate::strict::{self, parse_value, Content, Node, Origin, Read, StrictError, Table};
use perigee_units::{suggestion, Bytes, Rate, Ratio, Time};

use crate::section::{Key, Kind, Section, LARGEST};

/// A table whose keys have been checked against its section.
pub(crate) struct Reader<'a> {
    pub(crate) table: Table<'a>,
    section: &'static Section,
}

impl<'a> Reader<'a> {
    /// Opens the table `node`; `also` are keys that belong to it beside those of the section.
    pub(crate) fn open(
        node: &'a Node,
        path: &str,
        section: &'static Section,
        also: &[String],
    ) -> Result<Self, StrictError> {
        let table = Table::named(node, path)?;
        let known = |name: &str| section.find(name).is_some() || also.iter().any(|a| a == name);
        for name in section.names() {
            table.has(name);
        }
        for name in also {
            table.has(name);
        }
        if let Some(key) = section.keys.iter().find(|key| key.required && !table.has(key.name)) {
            return Err(table.missing(key.name));
        }
        if let Some(name) = keys_of(node).find(|name| !known(name)) {
            let mut known: Vec<&str> = section.names().collect();
            known.extend(also.iter().map(String::as_str));
            let message = format!("unknown key `{}`", clip(&table.dotted(name)));
            return Err(table.error(name, message, suggestion(name, known.into_iter())));
        }
        for key in section.keys {
            if let Some(node) = table.node(key.name) {
                check(node, &table.dotted(key.name), key.kind).map_err(|error| with_own_unit(error, node, key))?;
            }
        }
        Ok(Self { table, section })
    }

    /// The value under `key`, or its default.
    pub(crate) fn get<T: Read>(&self, key: &str) -> Result<T, StrictError> {
        match (self.table.get(key)?, self.section.find(key)) {
            (Some(value), _) => Ok(value),
            (None, Some(declared)) if !declared.default.is_empty() => {
                T::read(&parse_value(declared.default, self.table.origin), &self.table.dotted(key))
            }
            (None, _) => Err(self.table.missing(key)),
        }
    }

    /// The value under `key` or its default; `None` where that is `"off"`.
    pub(crate) fn get_unless_off<T: Read>(&self, key: &str) -> Result<Option<T>, StrictError> {
        let off = match self.table.node(key) {
            Some(node) => is_off(node),
            None => self.section.find(key).is_some_and(|declared| declared.default == "off"),
        };
        if off {
            Ok(None)
        } else {
            self.get(key).map(Some)
        }
    }

    /// An error about the value under `key`.
    pub(crate) fn error(&self, key: &str, message: impl Into<String>, fix: impl Into<String>) -> StrictError {
        self.table.error(key, message, fix)
    }

    /// `key` with the path of this table before it.
    pub(crate) fn dotted(&self, key: &str) -> String {
        self.table.dotted(key)
    }
}

/// The keys of a table, in the order of the text.
pub(crate) fn keys_of(node: &Node) -> impl Iterator<Item = &str> {
    entries_of(node).iter().map(|(key, _)| key.as_str())
}

/// Keys and values of a table; none of anything else.
pub(crate) fn entries_of(node: &Node) -> &[(String, Node)] {
    match &node.content {
        Content::Table(entries) => entries,
        _ => &[],
    }
}

/// The elements of an array; none of anything else.
pub(crate) fn items_of(node: &Node) -> &[Node] {
    match &node.content {
        Content::Array(items) => items,
        _ => &[],
    }
}

/// The text of a string node.
pub(crate) fn text_of(node: &Node) -> Option<&str> {
    match &node.content {
        Content::Text(text) => Some(text),
        _ => None,
    }
}

/// At most sixty characters of what was read, so that an error stays one line.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

fn is_off(node: &Node) -> bool {
    text_of(node) == Some("off")
}

/// Whether `node` is what `kind` takes; `what` names it in messages. Tables are checked when they are opened.
pub(crate) fn check(node: &Node, what: &str, kind: Kind) -> Result<(), StrictError> {
    match kind {
        Kind::Text => String::read(node, what).map(drop),
        Kind::Name => name(node, what),
        Kind::Bool => bool::read(node, what).map(drop),
        Kind::Integer { min, max } => within(node, what, u64::read(node, what)?, min, max),
        Kind::TimeOrOff { .. } | Kind::ShareOrOff | Kind::SizeOrTimeOrOff if is_off(node) => Ok(()),
        Kind::Time { min, max } | Kind::TimeOrOff { min, max } => within(node, what, Time::read(node, what)?, min, max),
        Kind::Size { min, max } => within(node, what, Bytes::read(node, what)?, min, max),
        Kind::Sizes => sizes(node, what),
        Kind::ThreeSizes => three_sizes(node, what),
        Kind::Rate => above_zero(node, what, Rate::read(node, what)? > Rate::ZERO),
        Kind::Rates => rates(node, what),
        Kind::RateFrom(min) => {
            let rate = Rate::read(node, what)?;
            if rate >= min {
                return Ok(());
            }
            let message = format!("`{what}` = {rate} is out of range");
            Err(StrictError::new(&node.origin, message, format!("use {min} or more")))
        }
        Kind::Share => Ratio::read(node, what).map(drop),
        Kind::Number { min, max } => within(node, what, f64::read(node, what)?, min, max),
        Kind::ShareOrOff => above_zero(node, what, Ratio::read(node, what)? > Ratio::ZERO),
        Kind::SizeOrTimeOrOff => match (Bytes::read(node, what), Time::read(node, what)) {
            (Ok(size), _) => above_zero(node, what, size > Bytes::ZERO),
            (_, Ok(time)) => above_zero(node, what, time > Time::ZERO),
            _ => {
                let message = format!("`{what}` is neither a size nor a time");
                Err(StrictError::new(&node.origin, message, "write \"50 MB\", \"30 s\" or \"off\""))
            }
        },
        Kind::Word(words) => {
            let word = String::read(node, what)?;
            if words.contains(&word.as_str()) {
                return Ok(());
            }
            let message = format!("`{what}` cannot be `{}`", clip(&word));
            Err(StrictError::new(&node.origin, message, suggestion(&word, words.iter().copied())))
        }
        Kind::Nodes if matches!(node.content, Content::Boolean(_)) => Ok(()),
        Kind::Names | Kind::Nodes => names(node, what),
        Kind::Cc
        | Kind::Table(_)
        | Kind::Tables(_)
        | Kind::TablePerNode(_)
        | Kind::PerLink(_)
        | Kind::Process(_)
        | Kind::Set
        | Kind::Vary
        | Kind::Inputs => Ok(()),
    }
}

/// The error about a number that lacks its unit, with the unit that the default of its key has.
fn with_own_unit(error: StrictError, node: &Node, key: &Key) -> StrictError {
    let number = match &node.content {
        Content::Integer(number) if *number >= 0 => number.to_string(),
        Content::Float(number) if *number >= 0.0 => number.to_string(),
        _ => return error,
    };
    let seconds = || format!("write \"{number} s\" or \"{number} ms\"");
    let fix = match (key.kind, key.default.split_once(' ')) {
        (Kind::Time { .. } | Kind::TimeOrOff { .. }, Some((_, "s"))) => seconds(),
        (Kind::Time { max, .. }, None) if max >= LONG => seconds(),
        (Kind::Time { .. } | Kind::TimeOrOff { .. } | Kind::Size { .. } | Kind::ShareOrOff, Some((_, unit))) => {
            format!("write \"{number} {unit}\"")
        }
        _ => return error,
    };
    StrictError { fix, ..error }
}

fn within<T: Copy + PartialOrd + Display>(
    node: &Node,
    what: &str,
    value: T,
    min: T,
    max: T,
) -> Result<(), StrictError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let message = format!("`{what}` = {value} is out of range");
    Err(StrictError::new(&node.origin, message, format!("use a value from {min} to {max}")))
}

fn above_zero(node: &Node, what: &str, is: bool) -> Result<(), StrictError> {
    if is {
        return Ok(());
    }
    Err(StrictError::new(&node.origin, format!("`{what}` is zero"), "use a value above zero"))
}

/// A name is part of key paths, of results and of file names.
pub(crate) fn name(node: &Node, what: &str) -> Result<(), StrictError> {
    let text = String::read(node, what)?;
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if plain && (1..=LONGEST_NAME).contains(&text.len()) {
        return Ok(());
    }
    let message = format!("`{what}` = `{}` is not a name", clip(&text));
    Err(StrictError::new(&node.origin, message, format!("use 1 to {LONGEST_NAME} letters, digits, `-` or `_`")))
}

fn names(node: &Node, what: &str) -> Result<(), StrictError> {
    let Content::Array(nodes) = &node.content else {
        let message = format!("`{what}` is {}", node.kind());
        return Err(StrictError::new(&node.origin, message, "write names in brackets: [\"a\", \"b\"]"));
    };
    let mut seen = BTreeSet::new();
    for node in nodes {
        name(node, what)?;
        if !seen.insert(text_of(node)) {
            let message = format!("`{what}` has `{}` twice", text_of(node).unwrap_or_default());
            return Err(StrictError::new(&node.origin, message, "remove one, or rename it"));
        }
    }
    Ok(())
}

fn sizes(node: &Node, what: &str) -> Result<(), StrictError> {
    let sizes = Vec::<Bytes>::read(node, what)?;
    if sizes.is_empty() {
        return Err(StrictError::new(&node.origin, format!("`{what}` is empty"), "write one size or more: [\"1 kB\"]"));
    }
    sizes.into_iter().try_for_each(|size| within(node, what, size, Bytes::new(1), LARGEST))
}

fn rates(node: &Node, what: &str) -> Result<(), StrictError> {
    let rates = Vec::<Rate>::read(node, what)?;
    let finite = |rate: &Rate| (Rate::ZERO..Rate::UNLIMITED).contains(rate) && *rate > Rate::ZERO;
    if (1..=MOST_RATES).contains(&rates.len()) && rates.iter().all(finite) && rates.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    let message = format!("`{what}` is not a list of rates that rise");
    let fix = format!("write 1 to {MOST_RATES} rates, the lowest first: [\"1 Mbit/s\", \"3 Mbit/s\"]");
    Err(StrictError::new(&node.origin, message, fix))
}

fn three_sizes(node: &Node, what: &str) -> Result<(), StrictError> {
    let sizes = Vec::<Bytes>::read(node, what)?;
    let most = Bytes::new(1 << 40);
    match sizes[..] {
        [min, initial, max] if Bytes::ZERO < min && min <= initial && initial <= max && max <= most => Ok(()),
        _ => Err(StrictError::new(
            &node.origin,
            format!("`{what}` is not minimum, initial and maximum"),
            format!("write three sizes that do not fall, up to {most}: [\"4 KiB\", \"128 KiB\", \"6 MiB\"]"),
        )),
    }
}

/// The value of a `--set` or a default, with its origin.
pub(crate) fn value(text: &str, origin: &Origin) -> Node {
    strict::parse_value(text, origin)
}

/// A value as JSON.
pub(crate) fn json_of(node: &Node) -> serde_json::Value {
    match &node.content {
        Content::Boolean(b) => (*b).into(),
        Content::Integer(n) => (*n).into(),
        Content::Float(x) => (*x).into(),
        Content::Text(text) => text.as_str().into(),
        Content::Array(items) => items.iter().map(json_of).collect(),
        Content::Table(_) => {
            serde_json::Value::Object(entries_of(node).iter().map(|(key, v)| (key.clone(), json_of(v))).collect())
        }
    }
}

/// The tables of `[[key]]`.
pub(crate) fn tables<'a>(study: &Reader<'a>, key: &str, example: &str) -> Result<&'a [Node], StrictError> {
    match study.table.node(key).map(|node| (&node.content, node)) {
        None => Ok(&[]),
        Some((Content::Array(items), _)) => Ok(items),
        Some((_, node)) => {
            let message = format!("`{key}` is {}", node.kind());
            Err(StrictError::new(&node.origin, message, format!("write {example}")))
        }
    }
}

/// The name of a table, which no other of its kind may have.
pub(crate) fn unique(table: &Reader<'_>, names: &mut BTreeSet<String>) -> Result<String, StrictError> {
    let name: String = table.get("name")?;
    if names.insert(name.clone()) {
        return Ok(name);
    }
    let message = format!("`{}` = `{name}` is there twice", table.dotted("name"));
    Err(table.error("name", message, "rename one of them"))
}

/// Most rates of a list.
pub(crate) const MOST_RATES: usize = 64;
/// Longest name of anything.
const LONGEST_NAME: usize = 64;
/// Times that may exceed this are usually given in seconds instead of milliseconds.
const LONG: Time = Time::from_secs(3600);
