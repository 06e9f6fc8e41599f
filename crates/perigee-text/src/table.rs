//! Types that are read from nodes, and tables that are read key by key.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use perigee_units::{is_near, suggestion, Bytes, Rate, Ratio, Time, UnitError};

use crate::tree::{clip, Content, Node, Origin, StrictError};

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

/// A table, read key by key; it records the keys that were asked for.
pub struct Table<'a> {
    /// Where the table begins.
    pub origin: &'a Origin,
    entries: &'a [(String, Node)],
    path: String,
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Table<'a> {
    /// The table `node`, called `path` (dotted keys from the root) in messages.
    ///
    /// # Errors
    /// If the node is not a table.
    pub fn named(node: &'a Node, path: &str) -> Result<Self, StrictError> {
        match &node.content {
            Content::Table(entries) => {
                Ok(Self { origin: &node.origin, entries, path: path.to_owned(), asked: RefCell::default() })
            }
            _ => Err(wrong_type(node, path, "a table")),
        }
    }

    /// The node under `key`; the key counts as known from now on.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.asked.borrow_mut().insert(key.to_owned());
        self.entries.iter().find(|(k, _)| k == key).map(|(_, node)| node)
    }

    /// Whether `key` is there; it counts as known from now on.
    pub fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    /// All keys, in the order of the text, for tables whose keys are names; all count as known from now on.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.asked.borrow_mut().extend(self.entries.iter().map(|(k, _)| k.clone()));
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
        let node = self.entries.iter().find(|(k, _)| k == key).map(|(_, node)| node);
        StrictError::new(node.map_or(self.origin, |n| &n.origin), message, fix)
    }

    /// The error for a `key` that must be there; a key that looks like a misspelling of it is named instead.
    pub fn missing(&self, key: &str) -> StrictError {
        let asked = self.asked.borrow();
        let near = self.entries.iter().find(|(k, _)| !asked.contains(k) && is_near(k, key));
        match near {
            Some((k, node)) => StrictError::new(
                &node.origin,
                format!("unknown key `{}`", clip(&self.dotted(k))),
                format!("did you mean `{key}`?"),
            ),
            None => StrictError::new(
                self.origin,
                format!("`{}` is missing", self.dotted(key)),
                format!("add `{key} = ...` here"),
            ),
        }
    }

    /// Refuses keys that nothing has asked for; those that were are the known ones.
    ///
    /// # Errors
    /// If there is such a key: with its line, and the known key that was probably meant.
    pub fn refuse_unknown(&self) -> Result<(), StrictError> {
        let asked = self.asked.borrow();
        let Some((key, node)) = self.entries.iter().find(|(key, _)| !asked.contains(key)) else { return Ok(()) };
        let message = format!("unknown key `{}`", clip(&self.dotted(key)));
        Err(StrictError::new(&node.origin, message, suggestion(key, asked.iter().map(String::as_str))))
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
fn is_too_large(text: &str) -> bool {
    use std::num::IntErrorKind as Kind;
    text.parse::<i64>().is_err_and(|error| matches!(error.kind(), Kind::PosOverflow | Kind::NegOverflow))
}

fn wrong_type(node: &Node, what: &str, wanted: &str) -> StrictError {
    StrictError::new(&node.origin, format!("`{what}` is {}", node.kind()), format!("write {wanted}"))
}

fn out_of_range(
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
