//! How the keys of a file are declared: tables, keys, what a key takes.

use std::ptr;

use perigee_units::{is_near, suggestion, Bytes, Rate, Time};
use serde_json::Value;

use crate::table::Read;
use crate::tree::{clip, Node, StrictError};

/// A table of a file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name in documents.
    pub name: &'static str,
    /// Its keys, in the order they are best written.
    pub keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// Its default, as it would be written; empty: there is none (see `required`), or `about` describes it.
    pub default: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// Kinds of the table that have it, where these differ; empty: all of them.
    pub only: &'static [&'static str],
    /// Description for users.
    pub about: &'static str,
}

/// The kinds of a key's value; bounds are inclusive.
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "a variant has its least and greatest value, or a section and what its tables are called after"
)]
pub enum Kind {
    /// Free text.
    Text,
    /// A name: letters, digits, `-`, `_`.
    Name,
    /// Names, each once.
    Names,
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds.
    Integer { min: u64, max: u64 },
    /// A time within bounds.
    Time { min: Time, max: Time },
    /// A time within bounds, or `"off"`.
    TimeOrOff { min: Time, max: Time },
    /// A size within bounds.
    Size { min: Bytes, max: Bytes },
    /// One size or more, each above zero.
    Sizes,
    /// Three sizes that do not fall: minimum, initial, maximum.
    ThreeSizes,
    /// A rate above zero.
    Rate,
    /// Rates above zero that rise.
    Rates,
    /// A rate that is no lower.
    RateFrom(Rate),
    /// A share.
    Share,
    /// A number within bounds.
    Number { min: f64, max: f64 },
    /// A share above zero, or `"off"`.
    ShareOrOff,
    /// A size or a time above zero, or `"off"`.
    SizeOrTimeOrOff,
    /// One of some words.
    Word(&'static [&'static str]),
    /// A table of this section.
    Table(&'static Section),
    /// Tables of this section, one per `[[key]]`.
    Tables(&'static Section),
    /// A table of this section that may hold further tables of it, each named after one of what `of` says.
    TableAndOnePer { of: &'static str, section: &'static Section },
    /// Tables of this section, each named after one of what `of` says.
    TablePer { of: &'static str, section: &'static Section },
    /// A process, written in one of several ways.
    Process(&'static Process),
    /// Names with a text each.
    Texts,
    /// A kind that only one kind of file has.
    Special(&'static Special),
}

/// A kind that only one kind of file has, read by that file's own code.
#[derive(Debug)]
pub struct Special {
    /// Description of its values.
    pub takes: &'static str,
    /// Refuses what it is not; the text names the key for messages.
    pub check: fn(&Node, &str) -> Result<(), StrictError>,
    /// Its JSON schema; none: anything.
    pub schema: Option<fn() -> Value>,
}

impl Special {
    /// A kind whose values are read as `T`.
    pub const fn of<T: Read>(takes: &'static str) -> Self {
        Self { takes, check: |node, what| T::read(node, what).map(drop), schema: None }
    }
}

/// The ways in which a process may be written.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// The name of the process; no other has it.
    pub name: &'static str,
    /// The value that stands for it without a table.
    pub plain: Option<&'static Kind>,
    /// Its tables.
    pub forms: &'static [Form],
    /// Several may act together, in an array.
    pub is_list: bool,
}

/// A table that describes a process.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The word under `kind`; `None`: the table has none.
    pub kind: Option<&'static str>,
    /// Its keys.
    pub section: &'static Section,
}

impl Kind {
    /// Whether it is this one of the special kinds.
    pub fn is(self, special: &'static Special) -> bool {
        matches!(self, Self::Special(own) if ptr::eq(own, special))
    }
}

impl Section {
    /// Every process of its keys and, after each, those inside it.
    pub fn processes(&'static self) -> Vec<&'static Process> {
        let mut processes = Vec::new();
        for key in self.keys {
            let Kind::Process(process) = key.kind else { continue };
            processes.push(process);
            processes.extend(process.forms.iter().flat_map(|form| form.section.processes()));
        }
        processes
    }

    /// The tables of these processes, each once.
    pub fn forms(&'static self) -> Vec<&'static Section> {
        let mut sections: Vec<&'static Section> = Vec::new();
        for form in self.processes().into_iter().flat_map(|process| process.forms) {
            if !sections.iter().any(|known| known.name == form.section.name) {
                sections.push(form.section);
            }
        }
        sections
    }

    /// The key of this name.
    pub fn find(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The names of all keys.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name)
    }
}

impl Key {
    /// Restricts this key to these kinds of the table.
    #[must_use]
    pub const fn of(mut self, kinds: &'static [&'static str]) -> Self {
        self.only = kinds;
        self
    }
}

impl Section {
    /// Returns a suggestion for an unknown key: one with a similar name, or one of this name inside of another.
    pub(crate) fn instead_of(&self, name: &str, also: &[&str]) -> String {
        let mut known: Vec<&str> = self.names().collect();
        known.extend(also);
        let inside = self.keys.iter().find(|key| key.kind.sections().any(|section| section.find(name).is_some()));
        match inside.filter(|_| !known.iter().any(|known| is_near(name, known))) {
            Some(key) => format!("did you mean `{}.{name}`?", key.name),
            None => suggestion(name, known.into_iter()),
        }
    }

    /// The process inside of this table that a word is a kind of, as it is written.
    pub(crate) fn process_of_kind(&self, word: &str) -> Option<String> {
        self.keys.iter().find_map(|key| match key.kind {
            Kind::Process(process) if process.forms.iter().any(|form| form.kind == Some(word)) => {
                Some(format!("{} = {{ kind = \"{word}\" }}", key.name))
            }
            _ => None,
        })
    }
}

impl Kind {
    /// The tables that a value may be.
    fn sections(self) -> impl Iterator<Item = &'static Section> {
        let (one, forms): (_, &[Form]) = match self {
            Self::Table(section) => (Some(section), &[]),
            Self::Process(process) => (None, process.forms),
            _ => (None, &[]),
        };
        one.into_iter().chain(forms.iter().map(|form| form.section))
    }
}

/// The message about an unknown key; `what` is its path.
pub(crate) fn unknown(what: &str) -> String {
    format!("unknown key `{}`", clip(what))
}

/// A key with a default; empty: it has none.
pub const fn key(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { name, kind, default, required: false, only: &[], about }
}
/// A key that must be there.
pub const fn required(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, default: "", required: true, only: &[], about }
}

/// Largest size of anything, so that sums of sizes cannot overflow.
pub const LARGEST: Bytes = Bytes::new(1_000_000_000_000_000);
/// Longest time of anything, so that sums of times cannot overflow.
pub const DAYS_30: Time = Time::from_secs(30 * 86_400);
/// Most rates of a list.
pub(crate) const MOST_RATES: usize = 64;
