//! A rule, route or setting of this host that needs a change, in words.

use std::fmt;

/// A rule, route or setting of this host that needs a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(super) name: &'static str,
    pub(super) found: String,
    pub(super) fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, found, fix } = self;
        write!(f, "{name}: {found}; {fix}")
    }
}

impl Finding {
    pub(super) fn new(name: &'static str, found: String, fix: String) -> Self {
        Self { name, found, fix }
    }
}
