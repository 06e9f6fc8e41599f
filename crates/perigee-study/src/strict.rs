//! Strict reading of TOML: every key known, every quantity with its unit, every error with file, line and fix.
//!
//! A text becomes a tree of [`Node`]s, each with the [`Origin`] it came from, so that values from several places (a
//! profile, a study, the command line) can be laid over each other and an error still names the place of the value
//! that is wrong.
//!
//! ```
//! use perigee_study::strict::{parse, Content};
//! let tree = parse("delay = \"5 ms\"\nburst = \"3 kB\"\n", "a.toml").unwrap();
//! let burst = tree.get("burst").unwrap();
//! assert_eq!((burst.origin.to_string().as_str(), &burst.content), ("a.toml:2", &Content::Text("3 kB".into())));
//! ```

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use perigee_units::{is_near, suggestion, Bytes, Rate, Ratio, Time, UnitError};
use thiserror::Error;
use toml_edit::{ImDocument, Item, TableLike, Value};

/// An error in a text, with its place and its fix; prints as `file:line: message; fix`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{origin}: {message}; {fix}")]
pub struct StrictError {
    /// Origin of the wrong value.
    pub origin: Origin,
    /// What is wrong, with the value.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl StrictError {
    /// An error about the value at `origin`.
    pub fn new(origin: &Origin, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { origin: origin.clone(), message: message.into(), fix: fix.into() }
    }
}

/// Where a value came from: a line of a file, or a place without lines such as a command line's `--set`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    place: Arc<str>,
    line: u32,
}

impl Origin {
    /// Line `line` (from 1) of `file`.
    pub fn line(file: &str, line: u32) -> Self {
        Self { place: file.into(), line }
    }
    /// A place that has no lines, such as `--set seed=3`.
    pub fn place(place: &str) -> Self {
        Self { place: place.into(), line: 0 }
    }
    /// Whether it is a line of a file.
    pub fn has_lines(&self) -> bool {
        self.line > 0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.place),
            line => write!(f, "{}:{line}", self.place),
        }
    }
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Origin, for messages.
    pub origin: Origin,
    /// The value.
    pub content: Content,
}

/// A value: TOML without dates.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a point or exponent.
    Float(f64),
    /// A string.
    Text(String),
    /// `[a, b]` or repeated `[[tables]]`.
    Array(Vec<Node>),
    /// Keys and their values, in the order of the text.
    Table(Vec<(String, Node)>),
}

/// Reads a whole text, at most [`MAX_TEXT`] bytes; the root is a table.
///
/// # Errors
/// If the text is not TOML, too long, nested too deep, or holds a date.
pub fn parse(text: &str, file: &str) -> Result<Node, StrictError> {
    if text.len() > MAX_TEXT {
        let message = format!("{} bytes are more than a text file of settings may have ({MAX_TEXT})", text.len());
        return Err(StrictError::new(&Origin::line(file, 1), message, "check that this is the file you meant"));
    }
    let lines = Lines::new(text, file);
    let document = ImDocument::parse(text).map_err(|e| {
        let message: Vec<&str> = e.message().lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let origin = lines.origin(e.span().map_or(0, |s| s.start));
        StrictError::new(&origin, message.join(", "), "correct the TOML syntax here")
    })?;
    lines.table(document.as_table(), &Origin::line(file, 1))
}

/// Reads the value of a `--set key=value`: TOML where it is TOML, otherwise the text itself as a string.
///
/// ```
/// use perigee_study::strict::{parse_value, Content, Origin};
/// let value = |text| parse_value(text, &Origin::place("--set x")).content;
/// assert_eq!(value("3"), Content::Integer(3));
/// assert_eq!(value("36 MB"), Content::Text("36 MB".into()));
/// ```
pub fn parse_value(text: &str, origin: &Origin) -> Node {
    let plain = || Node { origin: origin.clone(), content: Content::Text(text.to_owned()) };
    let assigned = format!("v = {}", text.trim());
    let Ok(Node { content: Content::Table(entries), .. }) = parse(&assigned, &origin.place) else {
        return plain();
    };
    match entries.into_iter().next() {
        Some((_, node)) if !assigned.contains('\n') => node.with_origin(origin),
        _ => plain(),
    }
}

impl Node {
    /// An empty table.
    pub fn empty_table(origin: &Origin) -> Self {
        Self { origin: origin.clone(), content: Content::Table(Vec::new()) }
    }

    /// The value under `key`, where this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Table(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The value under `key`, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.content {
            Content::Table(entries) => entries.iter_mut().find(|(k, _)| k == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// Puts `node` under a path of keys; tables on the way are made where they are missing, and replace plain values.
    pub fn set(&mut self, path: &[&str], node: Node) {
        let Some((key, rest)) = path.split_first() else {
            *self = node;
            return;
        };
        if !matches!(self.content, Content::Table(_)) {
            *self = Node::empty_table(&node.origin);
        }
        if self.get(key).is_none() {
            let fresh = Node::empty_table(&node.origin);
            if let Content::Table(entries) = &mut self.content {
                entries.push(((*key).to_owned(), fresh));
            }
        }
        if let Some(child) = self.get_mut(key) {
            child.set(rest, node);
        }
    }

    /// Lays `over` on top: tables are joined key by key, anything else is replaced.
    pub fn overlay(&mut self, over: Node) {
        match (&mut self.content, over) {
            (Content::Table(_), Node { content: Content::Table(entries), .. }) => {
                for (key, node) in entries {
                    match self.get_mut(&key) {
                        Some(mine) => mine.overlay(node),
                        None => self.set(&[&key], node),
                    }
                }
            }
            (_, over) => *self = over,
        }
    }

    /// Kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self.content {
            Content::Boolean(_) => "a boolean",
            Content::Integer(_) => "an integer",
            Content::Float(_) => "a number",
            Content::Text(_) => "a string",
            Content::Array(_) => "an array",
            Content::Table(_) => "a table",
        }
    }

    fn with_origin(mut self, origin: &Origin) -> Self {
        self.origin = origin.clone();
        self.content = match self.content {
            Content::Array(nodes) => Content::Array(nodes.into_iter().map(|n| n.with_origin(origin)).collect()),
            Content::Table(entries) => {
                Content::Table(entries.into_iter().map(|(k, n)| (k, n.with_origin(origin))).collect())
            }
            plain => plain,
        };
        self
    }
}

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

/// Turns a syntax tree with byte spans into nodes with lines.
struct Lines<'t> {
    file: &'t str,
    place: Arc<str>,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &str, file: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { file, place: file.into(), starts }
    }

    fn origin(&self, byte: usize) -> Origin {
        Origin { place: self.place.clone(), line: self.starts.partition_point(|s| *s <= byte).max(1) as u32 }
    }

    fn table(&self, table: &dyn TableLike, origin: &Origin) -> Result<Node, StrictError> {
        let mut entries = Vec::with_capacity(table.len());
        for (name, item) in table.iter() {
            let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let at = span.map_or_else(|| origin.clone(), |s| self.origin(s.start));
            entries.push((name.to_owned(), self.item(item, &at)?));
        }
        Ok(Node { origin: origin.clone(), content: Content::Table(entries) })
    }

    fn item(&self, item: &Item, origin: &Origin) -> Result<Node, StrictError> {
        match item {
            Item::Table(table) => self.table(table, origin),
            Item::ArrayOfTables(tables) => {
                let origin_of =
                    |t: &toml_edit::Table| t.span().map_or_else(|| origin.clone(), |s| self.origin(s.start));
                let nodes = tables.iter().map(|t| self.table(t, &origin_of(t))).collect::<Result<_, _>>()?;
                Ok(Node { origin: origin.clone(), content: Content::Array(nodes) })
            }
            Item::Value(value) => self.value(value, origin),
            Item::None => Ok(Node::empty_table(origin)),
        }
    }

    fn value(&self, value: &Value, origin: &Origin) -> Result<Node, StrictError> {
        let content = match value {
            Value::String(s) => Content::Text(s.value().clone()),
            Value::Integer(n) => Content::Integer(*n.value()),
            Value::Float(x) => Content::Float(*x.value()),
            Value::Boolean(b) => Content::Boolean(*b.value()),
            Value::Datetime(_) => {
                let message = format!("{} has no use for a date", self.file);
                return Err(StrictError::new(origin, message, "put it in quotes if it is text"));
            }
            Value::Array(array) => {
                let at = |v: &Value| v.span().map_or_else(|| origin.clone(), |s| self.origin(s.start));
                Content::Array(array.iter().map(|v| self.value(v, &at(v))).collect::<Result<_, _>>()?)
            }
            Value::InlineTable(table) => return self.table(table, origin),
        };
        Ok(Node { origin: origin.clone(), content })
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

/// Returns at most sixty characters of `text`, so that an error stays one line.
fn clip(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// Longest text of settings that is read, bytes.
pub const MAX_TEXT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: Read + fmt::Debug>(text: &str, key: &str) -> String {
        let tree = parse(text, "f.toml").unwrap();
        required::<T>(&Table::named(&tree, "").unwrap(), key).unwrap_err().to_string()
    }

    fn required<T: Read>(table: &Table<'_>, key: &str) -> Result<T, StrictError> {
        table.get(key)?.ok_or_else(|| table.missing(key))
    }

    #[test]
    fn each_mistake_names_its_line_and_its_fix() {
        assert_eq!(message::<Time>("\ndelay = 600", "delay"), "f.toml:2: `delay`: `600` has no unit; write \"600 ms\"");
        assert_eq!(
            message::<Rate>("rate = true", "rate"),
            "f.toml:1: `rate` is a boolean; write a quantity such as \"144 Mbit/s\""
        );
        assert_eq!(message::<u64>("rat = 1", "rate"), "f.toml:1: unknown key `rat`; did you mean `rate`?");
        assert_eq!(message::<u64>("x = 1", "rate"), "f.toml:1: `rate` is missing; add `rate = ...` here");
        assert_eq!(
            message::<u16>("n = 70000", "n"),
            "f.toml:1: `n` = 70000 is out of range; use a value from 0 to 65535"
        );
        assert_eq!(message::<f64>("n = nan", "n"), "f.toml:1: `n` is a number; write a finite number without a unit");
        assert!(parse("a = \n", "f.toml").unwrap_err().to_string().starts_with("f.toml:1: "));
        assert!(parse("\n\na = 1979-05-27", "f.toml").unwrap_err().to_string().starts_with("f.toml:3: "));
    }

    #[test]
    fn nested_tables_give_the_line_of_the_value() {
        let tree = parse("[[links]]\nname = \"a\"\n[links.down]\nrate = \"5\"\n", "f.toml").unwrap();
        let Content::Array(links) = &tree.get("links").unwrap().content else { panic!("an array of tables") };
        let down = Table::named(&links[0], "links").unwrap().table("down").unwrap().unwrap();
        let error = required::<Rate>(&down, "rate").unwrap_err().to_string();
        assert_eq!(error, "f.toml:4: `links.down.rate`: `5` has no unit; write \"5 Mbit/s\"");
        assert_eq!(links[0].origin.to_string(), "f.toml:1");
    }

    #[test]
    fn ranges_say_what_is_allowed() {
        let tree = parse("every = \"1 h\"", "f.toml").unwrap();
        let table = Table::named(&tree, "").unwrap();
        let range = Time::from_millis(1)..=Time::from_secs(60);
        assert_eq!(
            table.require_in("every", range).unwrap_err().to_string(),
            "f.toml:1: `every` = 3600 s is out of range; use a value from 1 ms to 60 s"
        );
    }

    #[test]
    fn a_value_laid_over_another_keeps_its_own_origin() {
        let mut tree = parse("[down]\nrate = \"1 Mbit/s\"\ndelay = \"5 ms\"\n", "base.toml").unwrap();
        tree.overlay(parse("down.rate = \"x\"", "over.toml").unwrap());
        tree.set(&["down", "queue", "bytes"], parse_value("36", &Origin::place("--set queue.bytes=36")));
        let down = Table::named(&tree, "").unwrap().table("down").unwrap().unwrap();
        assert_eq!(required::<Time>(&down, "delay"), Ok(Time::from_millis(5)));
        assert!(required::<Rate>(&down, "rate").unwrap_err().to_string().starts_with("over.toml:1: "));
        let queue = down.table("queue").unwrap().unwrap();
        assert!(required::<Bytes>(&queue, "bytes").unwrap_err().to_string().starts_with("--set queue.bytes=36: "));
    }

    #[test]
    fn deep_and_long_texts_are_refused_with_an_error() {
        assert!(parse(&"a.".repeat(300_000), "f").is_err());
        assert!(parse(&format!("[{}]", vec!["a"; 200_000].join(".")), "f").is_err());
        assert!(parse(&format!("a = {}", "[".repeat(300_000)), "f").is_err());
        assert!(parse(&format!("x = {{ {} = 1 }}", vec!["a"; 200_000].join(".")), "f").is_err());
        assert!(parse(&" ".repeat(MAX_TEXT + 1), "f").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[a-c.=\"\\[\\]{}0-9\n ,#']{0,80}") {
            let _ = parse(&text, "f");
            let _ = parse_value(&text, &Origin::place("--set"));
        }
    }

    #[test]
    fn an_integer_beyond_toml_s_is_out_of_range_and_no_text() {
        let node = parse_value("99999999999999999999", &Origin::place("--set seed=..."));
        let error = u64::read(&node, "seed").unwrap_err().to_string();
        assert_eq!(
            error,
            "--set seed=...: `seed` = 99999999999999999999 is out of range; use a value from 0 to 9223372036854775807"
        );
        assert!(u64::read(&parse_value("12 MB", &Origin::place("x")), "seed")
            .unwrap_err()
            .to_string()
            .contains("string"));
    }
}
