//! Why a request has no answer, as the page is given it.

use perigee_sim::SimError;
use perigee_study::StudyError;
use serde_json::{json, Value};

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind, for a program.
    pub kind: Kind,
    /// The whole message, with what to do.
    pub message: String,
    /// Places in the study.
    pub errors: Vec<Remark>,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The study or an override is wrong.
    Study,
    /// A limit of the page is exceeded.
    Limit,
    /// An author's module is not usable.
    Algorithm,
    /// The simulator broke a law of its own.
    Fault,
    /// The request is none that the module has: an error of the script that sends it.
    Request,
}

/// An error of a study and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The error, with the value.
    pub message: String,
    /// The fix.
    pub fix: String,
    /// Line in the study, from 1; 0: the place is no line of it.
    pub line: u32,
    /// Column, from 1, in UTF-16 code units as scripts count them; 0 without a line.
    pub column: u32,
}

impl Problem {
    /// A problem without a place.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), errors: Vec::new() }
    }

    /// An error of the study with this text, whose name in messages is `file`.
    pub(crate) fn of_study(error: &StudyError, text: &str, file: &str) -> Self {
        let remarks = std::iter::once(error).chain(&error.more).map(|one| Remark::of(one, text, file));
        Self { kind: Kind::Study, message: error.to_string(), errors: remarks.collect() }
    }

    /// As the page is given it.
    pub(crate) fn to_json(&self) -> Value {
        json!({"kind": self.kind.name(), "message": self.message, "errors": errors_json(&self.errors)})
    }
}

impl Remark {
    /// One error of the study with this text.
    fn of(error: &StudyError, text: &str, file: &str) -> Self {
        let place = error.origin.file_and_line().filter(|(of, _)| *of == file).map(|(_, line)| line);
        let (message, line) = match place {
            Some(line) => (error.message.clone(), line),
            None => (format!("{}: {}", error.origin, error.message), 0),
        };
        let column = if line == 0 { 0 } else { column(text, line, &error.message) };
        Self { message, fix: error.fix.clone(), line, column }
    }
}

/// Places in a study, as the page is given them.
pub(crate) fn errors_json(errors: &[Remark]) -> Value {
    let error = |one: &Remark| json!({"message": one.message, "fix": one.fix, "line": one.line, "column": one.column});
    errors.iter().map(error).collect()
}

impl From<SimError> for Problem {
    fn from(error: SimError) -> Self {
        let kind = match error {
            SimError::Fault { .. } => Kind::Fault,
            SimError::Cancelled
            | SimError::NoWay { .. }
            | SimError::NotLoaded { .. }
            | SimError::NotOverQuic { .. }
            | SimError::NoQuic(_) => Kind::Study,
        };
        Self::new(kind, error.to_string())
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Study => "study",
            Self::Limit => "limit",
            Self::Algorithm => "algorithm",
            Self::Fault => "fault",
            Self::Request => "request",
        }
    }
}

/// The column of what the message names first in backticks, if the line has it, or else of the line's first character.
fn column(text: &str, line: u32, message: &str) -> u32 {
    let line = text.lines().nth(line as usize - 1).unwrap_or_default();
    let named = message.split('`').nth(1).and_then(|name| {
        let last = name.rsplit('.').next().unwrap_or(name);
        [name, last].into_iter().filter(|part| !part.is_empty()).find_map(|part| line.find(part))
    });
    let at = named.unwrap_or(line.len() - line.trim_start().len());
    line[..at].encode_utf16().count() as u32 + 1
}
