//! Reads one table as its [`Section`] declares it: keys, types, bounds and defaults come from there.

use std::collections::BTreeSet;

use perigee_units::{is_near, suggestion, Bytes, Time};

use crate::section::{unknown, Form, Key, Kind, Process, Section};
use crate::table::{Read, Table};
use crate::tree::{clip, is_off, parse_value, text_of, Content, Node, StrictError};

/// A table whose keys have been checked against its section.
pub struct Reader<'a> {
    /// The table itself.
    pub table: Table<'a>,
    section: &'static Section,
}

impl<'a> Reader<'a> {
    /// Opens the table `node`; `also` are keys that belong to it beside those of the section.
    ///
    /// # Errors
    /// If a key is unknown, missing, of the wrong type, without its unit, or out of its bounds.
    pub fn open(node: &'a Node, path: &str, section: &'static Section, also: &[String]) -> Result<Self, StrictError> {
        Self::checked(Table::named(node, path)?, section, also)
    }

    fn checked(table: Table<'a>, section: &'static Section, also: &[String]) -> Result<Self, StrictError> {
        let mut known: Vec<&str> = section.names().collect();
        known.extend(also.iter().map(String::as_str));
        let mut strange = table.names().filter(|name| !known.contains(name));
        let wrong = |name: &str, fix: String| Err(table.error(name, unknown(&table.dotted(name)), fix));
        if let Some(Key { name, .. }) = section.keys.iter().find(|key| key.required && !table.has(key.name)) {
            return match strange.find(|strange| is_near(strange, name)) {
                Some(strange) => wrong(strange, format!("did you mean `{name}`?")),
                None => Err(table.missing(name)),
            };
        }
        if let Some(name) = strange.next() {
            let also: Vec<&str> = also.iter().map(String::as_str).collect();
            return wrong(name, section.instead_of(name, &also));
        }
        for key in section.keys {
            if let Some(node) = table.node(key.name) {
                key.kind
                    .check(node, &table.dotted(key.name))
                    .map_err(|error| wrong_value(error, node, key, section))?;
            }
        }
        Ok(Self { table, section })
    }

    /// The value under `key`, or its default.
    ///
    /// # Errors
    /// If neither is there, or the value is of another type.
    pub fn get<T: Read>(&self, key: &str) -> Result<T, StrictError> {
        match (self.table.get(key)?, self.section.find(key)) {
            (Some(value), _) => Ok(value),
            (None, Some(declared)) if !declared.default.is_empty() => {
                T::read(&parse_value(declared.default, self.table.origin), &self.table.dotted(key))
            }
            (None, _) => Err(self.table.missing(key)),
        }
    }

    /// The value under `key` or its default; `None` where that is `"off"`.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get_unless_off<T: Read>(&self, key: &str) -> Result<Option<T>, StrictError> {
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
    pub fn error(&self, key: &str, message: impl Into<String>, fix: impl Into<String>) -> StrictError {
        self.table.error(key, message, fix)
    }

    /// `key` with the path of this table before it.
    pub fn dotted(&self, key: &str) -> String {
        self.table.dotted(key)
    }

    /// The table under `key`, where there is one.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn inner(&self, key: &str) -> Result<Option<Self>, StrictError> {
        self.table.node(key).map(|node| self.open_inner(key, node)).transpose()
    }

    /// The table under `key`; where there is none, one in which everything is at its default.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn inner_or_defaults(&self, key: &str) -> Result<Self, StrictError> {
        match self.inner(key)? {
            Some(inner) => Ok(inner),
            None => Self::checked(self.table.empty(key), self.declared(key), &[]),
        }
    }

    /// The tables of `[[key]]`, each opened when it is its turn.
    ///
    /// # Errors
    /// If something else stands there.
    pub fn each(&self, key: &str) -> Result<impl Iterator<Item = Result<Self, StrictError>>, StrictError> {
        let nodes = match self.table.node(key) {
            None => &[],
            Some(Node { content: Content::Array(items), .. }) => items.as_slice(),
            Some(node) => {
                let message = format!("`{key}` is {}", node.kind());
                return Err(StrictError::new(&node.origin, message, format!("write [[{key}]]")));
            }
        };
        Ok(nodes.iter().map(move |node| self.open_inner(key, node)))
    }

    fn open_inner(&self, key: &str, node: &'a Node) -> Result<Self, StrictError> {
        Self::open(node, &self.dotted(key), self.declared(key), &[])
    }

    /// The section of the tables under `key`.
    fn declared(&self, key: &str) -> &'static Section {
        match self.section.find(key).map(|key| key.kind) {
            Some(Kind::Table(section) | Kind::Tables(section)) => section,
            _ => unreachable!("`{key}` is declared as a table where it is opened as one"),
        }
    }

    /// The name of this table, which none of `taken` may have; it joins them.
    ///
    /// # Errors
    /// If another table has it.
    pub fn unique_name(&self, taken: &mut BTreeSet<String>) -> Result<String, StrictError> {
        let name: String = self.get("name")?;
        if taken.insert(name.clone()) {
            return Ok(name);
        }
        let message = format!("`{}` = `{name}` is there twice", self.dotted("name"));
        Err(self.error("name", message, "rename one of them"))
    }
}

impl Process {
    /// Opens the table of a process, with the word under `kind`; `None`: it is written as one value, which has been checked.
    ///
    /// # Errors
    /// If it is neither, or a key of the table is wrong.
    pub fn open<'a>(
        &self,
        node: &'a Node,
        what: &str,
    ) -> Result<Option<(Option<&'static str>, Reader<'a>)>, StrictError> {
        if let (Some(plain), false) = (self.plain, matches!(node.content, Content::Table(_)) && !self.forms.is_empty())
        {
            return plain.check(node, what).map(|()| None).map_err(|error| self.with_tables(error, node, plain));
        }
        self.refuse_no_table(node, what)?;
        let form = self.form(&Table::named(node, what)?)?;
        let kind: &[String] = if form.kind.is_some() { &["kind".to_owned()] } else { &[] };
        Ok(Some((form.kind, Reader::open(node, what, form.section, kind)?)))
    }

    /// Refuses a word or an empty table in the place of one with a key.
    fn refuse_no_table(&self, node: &Node, what: &str) -> Result<(), StrictError> {
        let is_kind = |word: &&str| self.forms.iter().any(|form| form.kind == Some(*word));
        if let Some(word) = text_of(node).filter(is_kind) {
            let fix = format!("write {{ kind = \"{word}\" }}");
            return Err(StrictError::new(&node.origin, format!("`{what}` is {}", node.kind()), fix));
        }
        if matches!(&node.content, Content::Table(entries) if entries.is_empty()) {
            let keys: Vec<&str> = self.forms.iter().flat_map(|form| form.section.names()).collect();
            let fix = format!("give it one of {}, or leave it out", keys.join(", "));
            return Err(StrictError::new(&node.origin, format!("`{what}` is empty"), fix));
        }
        Ok(())
    }

    /// The error about a wrong word, with the tables that could stand in its place.
    fn with_tables(&self, error: StrictError, node: &Node, plain: &Kind) -> StrictError {
        let inner = |word| self.forms.iter().find_map(|form| form.section.process_of_kind(word));
        if let Some(meant) = text_of(node).and_then(inner) {
            return StrictError { fix: format!("write {{ {meant} }}"), ..error };
        }
        let (Kind::Word(words), Content::Text(word)) = (plain, &node.content) else { return error };
        let tables = self.forms.iter().filter_map(|form| Some(format!("{{ kind = \"{}\" }}", form.kind?)));
        let known: Vec<String> = words.iter().map(|word| (*word).to_owned()).chain(tables).collect();
        StrictError { fix: suggestion(word, known.iter().map(String::as_str)), ..error }
    }

    /// The form of a table: of several of one kind, and of those without one, the first that has its first key there.
    pub(crate) fn form(&self, table: &Table<'_>) -> Result<&'static Form, StrictError> {
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

/// The error about a wrong value of a key of `section`, with the fix for what was probably meant.
pub(crate) fn wrong_value(error: StrictError, node: &Node, key: &Key, section: &Section) -> StrictError {
    match (key.kind, text_of(node).and_then(|word| section.process_of_kind(word))) {
        (Kind::Word(_), Some(meant)) => {
            StrictError { fix: format!("write {meant} in its place, in the table `{}`", section.name), ..error }
        }
        _ => with_own_unit(error, node, key),
    }
}

/// The error about a number that lacks its unit, with the unit that the default of its key has.
fn with_own_unit(error: StrictError, node: &Node, key: &Key) -> StrictError {
    let number = match &node.content {
        Content::Integer(number) if *number >= 0 => number.to_string(),
        Content::Float(number) if *number >= 0.0 => number.to_string(),
        Content::Text(text) if text.parse::<u32>().is_ok() => text.clone(),
        _ => return error,
    };
    let is_too_short = |ms: Time| matches!(key.kind, Kind::Time { min, .. } | Kind::TimeOrOff { min, .. } if ms < min);
    let seconds = || match format!("{number} ms").parse() {
        Ok(ms) if is_too_short(ms) => format!("write \"{number} s\""),
        _ => format!("write \"{number} s\" or \"{number} ms\""),
    };
    let fix = match (key.kind, key.default.split_once(' ')) {
        (Kind::Time { .. } | Kind::TimeOrOff { .. }, Some((_, "s"))) => seconds(),
        (Kind::Time { max, .. }, None) if max >= LONG => seconds(),
        (Kind::Time { .. } | Kind::TimeOrOff { .. } | Kind::Size { .. } | Kind::ShareOrOff, Some((_, unit))) => {
            format!("write \"{number} {unit}\"")
        }
        (Kind::Size { max, .. }, None) if megabytes(&number).is_none_or(|size| size > max) => {
            // A packet, a slot or a frame.
            format!("write \"{number} B\"")
        }
        _ => return error,
    };
    StrictError { fix, ..error }
}

/// A number as megabytes; `None`: they are more than any.
fn megabytes(number: &str) -> Option<Bytes> {
    format!("{number} MB").parse().ok()
}

/// A time that may be longer than this is meant in seconds as likely as in milliseconds.
const LONG: Time = Time::from_secs(3600);
