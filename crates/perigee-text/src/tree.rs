//! A text as a tree of values with their lines.
//!
//! A text becomes a tree of [`Node`]s, each with the [`Origin`] it came from, so that values from several places (a
//! profile, a study, the command line) can be laid over each other and an error still names the place of the value
//! that is wrong.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use toml_edit::{ImDocument, Item, TableLike, Value};

/// An error in a text, with its place and its fix; prints as `file:line: message; fix`, in one line whatever the text has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", one_line(&format!("{origin}: {message}; {fix}")))]
pub struct StrictError {
    /// Origin of the wrong value.
    pub origin: Origin,
    /// The error, with the value.
    pub message: String,
    /// The fix.
    pub fix: String,
    /// Further errors of the same file, each with its own place and fix.
    pub more: Vec<StrictError>,
}

impl StrictError {
    /// An error about the value at `origin`.
    pub fn new(origin: &Origin, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { origin: origin.clone(), message: message.into(), fix: fix.into(), more: Vec::new() }
    }

    /// The error with those of `others` that are not about the same.
    #[must_use]
    pub fn with(mut self, others: impl IntoIterator<Item = Self>) -> Self {
        // Another path may name the key of this error.
        let is_same = |one: &Self, other: &Self| (&one.origin, &one.fix) == (&other.origin, &other.fix);
        for other in others {
            if self.more.len() + 1 < MOST_ERRORS
                && !is_same(&self, &other)
                && !self.more.iter().any(|one| is_same(one, &other))
            {
                self.more.push(other);
            }
        }
        self
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
    /// The file and the line in it; `None` for a place without lines.
    pub fn file_and_line(&self) -> Option<(&str, u32)> {
        self.has_lines().then_some((&*self.place, self.line))
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
/// use perigee_text::{parse_value, Content, Origin};
/// let value = |text| parse_value(text, &Origin::place("--set x")).content;
/// assert_eq!(value("3"), Content::Integer(3));
/// assert_eq!(value("36 MB"), Content::Text("36 MB".into()));
/// ```
pub fn parse_value(text: &str, origin: &Origin) -> Node {
    let node = |content| Node { origin: origin.clone(), content };
    if let Some(content) = simple(text) {
        return node(content);
    }
    let plain = || node(Content::Text(text.to_owned()));
    let assigned = format!("v = {}", text.trim());
    let Ok(Node { content: Content::Table(entries), .. }) = parse(&assigned, &origin.place) else {
        return plain();
    };
    match entries.into_iter().next() {
        Some((_, node)) if !assigned.contains('\n') => node.with_origin(origin),
        _ => plain(),
    }
}

/// Parses a word, a number without a sign, or a quantity; `None` for other texts of [`parse_value`]. Most values are one
/// of these, and the parser of TOML takes a hundred times as long.
fn simple(text: &str) -> Option<Content> {
    let plain = || Some(Content::Text(text.to_owned()));
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    match text {
        "true" => return Some(Content::Boolean(true)),
        "false" => return Some(Content::Boolean(false)),
        "\"\"" => return Some(Content::Text(String::new())),
        "[]" => return Some(Content::Array(Vec::new())),
        "" | "inf" | "nan" => return None,
        _ if is_word && text.starts_with(|first: char| first.is_ascii_alphabetic()) => return plain(),
        _ => {}
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let is_whole = digits == number.len() && (1..=18).contains(&digits) && (digits == 1 || !number.starts_with('0'));
    if unit.is_empty() {
        return number.parse().ok().filter(|_| is_whole && text == number).map(Content::Integer);
    }
    let is_unit = unit.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'%'));
    if is_whole && is_unit {
        plain()
    } else {
        None
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

    /// How many values there are in this one, with itself.
    pub fn size(&self) -> u64 {
        let inner: u64 = match &self.content {
            Content::Array(items) => items.iter().map(Self::size).sum(),
            Content::Table(entries) => entries.iter().map(|(_, node)| node.size()).sum(),
            _ => 0,
        };
        1 + inner
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

/// The keys of a table, in the order of the text.
pub fn keys_of(node: &Node) -> impl Iterator<Item = &str> {
    entries_of(node).iter().map(|(key, _)| key.as_str())
}

/// Keys and values of a table; none of anything else.
pub fn entries_of(node: &Node) -> &[(String, Node)] {
    match &node.content {
        Content::Table(entries) => entries,
        _ => &[],
    }
}

/// The elements of an array; none of anything else.
pub fn items_of(node: &Node) -> &[Node] {
    match &node.content {
        Content::Array(items) => items,
        _ => &[],
    }
}

/// The text of a string node.
pub fn text_of(node: &Node) -> Option<&str> {
    match &node.content {
        Content::Text(text) => Some(text),
        _ => None,
    }
}

/// Whether the node is the word `off`.
pub(crate) fn is_off(node: &Node) -> bool {
    text_of(node) == Some("off")
}

/// A value as JSON.
pub fn json_of(node: &Node) -> serde_json::Value {
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

/// At most sixty characters of what was read, so that an error stays one line.
pub fn clip(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// A text without control characters: those it has are escaped. It stays one line, and no terminal obeys it.
///
/// ```
/// use perigee_text::one_line;
/// assert_eq!(one_line("a\n\u{1b}[31mb\u{202e}"), "a\\n\\u{1b}[31mb\\u{202e}");
/// ```
pub fn one_line(text: &str) -> Cow<'_, str> {
    // Most texts are plain, which is seen fastest in all of their bytes: several at once, without a branch.
    let is_plain = text.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    if is_plain || !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| if is_obeyed(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escaped).collect())
}

/// Whether a letter moves others: control characters, ends of lines, and changes of the direction of writing.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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

/// Maximum errors of a file in a report.
const MOST_ERRORS: usize = 50;
/// Longest text of settings that is read, bytes.
pub const MAX_TEXT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parses a value with the parser of TOML.
    fn by_toml(text: &str) -> Content {
        let assigned = format!("v = {text}");
        let value = parse(&assigned, "a").ok().and_then(|root| root.get("v").cloned());
        value.filter(|_| !assigned.contains('\n')).map_or_else(|| Content::Text(text.to_owned()), |node| node.content)
    }

    proptest! {
        #[test]
        fn a_simple_value_is_what_toml_makes_of_it(
            text in "(true|false|inf|nan|off|\"\"|\\[\\]|0|00|1e3|[a-z0-9_+-]{0,4}|[0-9]{1,20})( ?(ms|Mbit/s|%|B|#|07:32|[a-z/%]{0,3}))?",
        ) {
            if let Some(content) = simple(&text) {
                prop_assert_eq!(content, by_toml(&text));
            }
        }
    }

    #[test]
    fn most_values_are_simple() {
        let simple = |text: &str| simple(text).is_some();
        assert!(["off", "cubic", "600 ms", "144 Mbit/s", "0 %", "3", "true", "drop-tail", "\"\"", "[]"]
            .into_iter()
            .all(simple));
        assert!(!["[1]", "1.5", "+3", "1979-05-27 07:32:00", "12 # ms", "007", ""].into_iter().any(simple));
    }
}
