//! How the keys of a study file are declared: tables, keys, what a key takes.

use perigee_tcp::Domain;
use perigee_units::{Bytes, Rate, Time};

/// A table of the study file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// Its name in documents.
    pub(crate) name: &'static str,
    /// Its keys, in the order they are best written.
    pub(crate) keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What holds without it, as it would be written; empty: nothing does (see `required`), or something said in `about`.
    pub(crate) default: &'static str,
    pub(crate) required: bool,
    /// Kinds of flows that have it; empty: all.
    pub(crate) only: &'static [&'static str],
    pub(crate) about: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
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
    /// `true` (all nodes), `false` (none), or names of nodes.
    Nodes,
    /// A congestion control: its name, or a table of name and parameters.
    Cc,
    /// A table of this section.
    Table(&'static Section),
    /// Tables of this section, one per `[[key]]`.
    Tables(&'static Section),
    /// A table of this section that may hold further tables of it, named after nodes.
    TablePerNode(&'static Section),
    /// Tables of this section, named after links.
    PerLink(&'static Section),
    /// A process of a link.
    Process(&'static Process),
    /// Key paths with a value each, in a table `set`.
    Set,
    /// Key paths with a list of values each.
    Vary,
    /// Names with a text each.
    Inputs,
}

/// The ways in which a process may be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    /// The name of the process; no other has it.
    pub(crate) name: &'static str,
    /// The value that stands for it without a table.
    pub(crate) plain: Option<&'static Kind>,
    /// Its tables.
    pub(crate) forms: &'static [Form],
    /// Several may act together, in an array.
    pub(crate) is_list: bool,
}

/// A table that describes a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The word under `kind`; `None`: the table has none.
    pub(crate) kind: Option<&'static str>,
    pub(crate) section: &'static Section,
}

impl Kind {
    /// What the key of a TCP setting takes.
    pub(crate) const fn of_setting(domain: Domain) -> Self {
        match domain {
            Domain::Switch => Self::Bool,
            Domain::Count { min, max } => Self::Integer { min: min as u64, max: max as u64 },
            Domain::Duration { min, max } => Self::Time { min, max },
            Domain::Size { min, max } => Self::Size { min, max },
            Domain::Sizes => Self::ThreeSizes,
            Domain::Choice(words) => Self::Word(words),
        }
    }
}

impl Section {
    /// The key of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The names of all keys.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name)
    }
}

impl Key {
    /// The same key, for these kinds of flows only.
    pub(crate) const fn of(mut self, kinds: &'static [&'static str]) -> Self {
        self.only = kinds;
        self
    }
}

/// A key with a default; empty: it has none.
pub(crate) const fn key(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { name, kind, default, required: false, only: &[], about }
}
/// A key that must be there.
pub(crate) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, default: "", required: true, only: &[], about }
}

/// Largest size of anything, so that sums of sizes cannot overflow.
pub(crate) const LARGEST: Bytes = Bytes::new(1_000_000_000_000_000);
/// Longest time of anything, so that sums of times cannot overflow.
pub(crate) const DAYS_30: Time = Time::from_secs(30 * 86_400);
