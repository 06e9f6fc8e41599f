//! Types that are read from nodes, and tables that are read key by key.

use std::fmt;
use std::ops::RangeInclusive;

use perigee_units::{Bytes, Rate, Ratio, Time, UnitError};

use crate::tree::{Content, Node, Origin, StrictError};

/// A type that can be read from a node. `what` names the key for messages.
pub trait Read: Sized {
    /// Converts the value of `node`.
    ///
    /// # Errors
    /// If the node is of another type or out of the type's range.
    fn read(node: &Node, what: &str) -> Result<Self, StrictError>;
}

macro_rules! read_quantity {
    ($($type:ty, $example:literal);*) => {$(
        impl Read for $type {
            fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
                let text = match &node.content {
                    Content::Text(text) => text.clone(),
                    // A bare number is reported as a quantity without a unit.
                    Content::Integer(n) => n.to_string(),
                    Content::Float(x) => x.to_string(),
                    _ => return Err(wrong_type(node, what, concat!("a quantity such as ", $example))),
                };
                text.parse().map_err(|error: UnitError| unit_error(node, what, &error))
            }
        }
    )*};
}
read_quantity! { Time, "\"600 ms\""; Rate, "\"144 Mbit/s\""; Bytes, "\"36 MB\""; Ratio, "\"0.1 %\"" }

impl Read for bool {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        match node.content {
            Content::Boolean(b) => Ok(b),
            _ => Err(wrong_type(node, what, "true or false")),
        }
    }
}

macro_rules! read_integer {
    ($($type:ty),*) => {$(
        impl Read for $type {
            fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
                // TOML has no larger ones.
                let most = <$type>::MAX.min(i64::MAX as $type);
                match &node.content {
                    Content::Integer(n) => {
                        (*n).try_into().map_err(|_| out_of_range(node, what, n, &<$type>::MIN, &most))
                    }
                    Content::Text(text) if is_too_large(text) => {
                        Err(out_of_range(node, what, text, &<$type>::MIN, &most))
                    }
                    _ => Err(wrong_type(node, what, "a whole number without a unit")),
                }
            }
        }
    )*};
}
read_integer!(i64, u64, u32, u16);

impl Read for f64 {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        match node.content {
            Content::Float(x) if x.is_finite() => Ok(x),
            Content::Integer(n) => Ok(n as f64),
            _ => Err(wrong_type(node, what, "a finite number without a unit")),
        }
    }
}

impl Read for String {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        match &node.content {
            Content::Text(text) => Ok(text.clone()),
            _ => Err(wrong_type(node, what, "a string in quotes")),
        }
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        match &node.content {
            Content::Array(nodes) => nodes.iter().map(|n| T::read(n, what)).collect(),
            _ => Err(wrong_type(node, what, "an array in brackets")),
        }
    }
}

/// A table, read key by key.
pub struct Table<'a> {
    /// Where the table begins.
    pub origin: &'a Origin,
    entries: &'a [(String, Node)],
    path: String,
}

impl<'a> Table<'a> {
    /// The table `node`, called `path` (dotted keys from the root) in messages.
    ///
    /// # Errors
    /// If the node is not a table.
    pub fn named(node: &'a Node, path: &str) -> Result<Self, StrictError> {
        match &node.content {
            Content::Table(entries) => Ok(Self { origin: &node.origin, entries, path: path.to_owned() }),
            _ => Err(wrong_type(node, path, "a table")),
        }
    }

    /// The table as a node.
    pub fn to_node(&self) -> Node {
        Node { origin: self.origin.clone(), content: Content::Table(self.entries.to_vec()) }
    }

    /// Returns an empty table in place of a missing one under `key`.
    pub(crate) fn empty(&self, key: &str) -> Self {
        Self { origin: self.origin, entries: &[], path: self.dotted(key) }
    }

    /// The node under `key`.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, node)| node)
    }

    /// Whether `key` is there.
    pub fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    /// All keys, in the order of the text.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries.iter().map(|(k, _)| k.as_str())
    }

    /// The value under `key`, where there is one.
    ///
    /// # Errors
    /// If it is of the wrong type, lacks its unit, or is out of range.
    pub fn get<T: Read>(&self, key: &str) -> Result<Option<T>, StrictError> {
        self.node(key).map(|node| T::read(node, &self.dotted(key))).transpose()
    }

    /// The value under `key`, which must lie in `range`.
    ///
    /// # Errors
    /// As [`Table::get`], and where the value lies outside.
    pub fn get_in<T>(&self, key: &str, range: RangeInclusive<T>) -> Result<Option<T>, StrictError>
    where
        T: Read + PartialOrd + fmt::Display,
    {
        match (self.node(key), self.get::<T>(key)?) {
            (Some(node), Some(value)) if !range.contains(&value) => {
                Err(out_of_range(node, &self.dotted(key), &value, range.start(), range.end()))
            }
            (_, value) => Ok(value),
        }
    }

    /// The value under `key`, which must be there and lie in `range`.
    ///
    /// # Errors
    /// As [`Table::get_in`], and where the key is missing.
    pub fn require_in<T>(&self, key: &str, range: RangeInclusive<T>) -> Result<T, StrictError>
    where
        T: Read + PartialOrd + fmt::Display,
    {
        self.get_in(key, range)?.ok_or_else(|| self.missing(key))
    }

    /// The table under `key`, where there is one.
    ///
    /// # Errors
    /// If it is not a table.
    pub fn table(&self, key: &str) -> Result<Option<Table<'a>>, StrictError> {
        self.node(key).map(|node| Table::named(node, &self.dotted(key))).transpose()
    }

    /// An error about the value under `key` (about the table where the key is missing).
    pub fn error(&self, key: &str, message: impl Into<String>, fix: impl Into<String>) -> StrictError {
        StrictError::new(self.node(key).map_or(self.origin, |n| &n.origin), message, fix)
    }

    /// The error for a `key` that must be there.
    pub fn missing(&self, key: &str) -> StrictError {
        let message = format!("`{}` is missing", self.dotted(key));
        StrictError::new(self.origin, message, format!("add `{key} = ...` here"))
    }

    /// `key` with the path of this table before it.
    pub fn dotted(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }
}

/// Whether a text is a whole number beyond TOML's, which [`parse_value`] leaves as a text.
pub(crate) fn is_too_large(text: &str) -> bool {
    use std::num::IntErrorKind as Kind;
    text.parse::<i64>().is_err_and(|error| matches!(error.kind(), Kind::PosOverflow | Kind::NegOverflow))
}

fn wrong_type(node: &Node, what: &str, wanted: &str) -> StrictError {
    StrictError::new(&node.origin, format!("`{what}` is {}", node.kind()), format!("write {wanted}"))
}

pub(crate) fn out_of_range(
    node: &Node,
    what: &str,
    value: &dyn fmt::Display,
    from: &dyn fmt::Display,
    to: &dyn fmt::Display,
) -> StrictError {
    StrictError::new(
        &node.origin,
        format!("`{what}` = {value} is out of range"),
        format!("use a value from {from} to {to}"),
    )
}

fn unit_error(node: &Node, what: &str, error: &UnitError) -> StrictError {
    StrictError::new(&node.origin, format!("`{what}`: {}", error.message()), error.fix())
}
