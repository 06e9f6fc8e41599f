//! The value of a setting: its domain, and its form in Linux.

use std::fmt;

use perigee_units::{Bytes, Encode, Time};

/// The values that a setting can have; bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant has its least and its greatest value")]
pub enum Domain {
    /// On or off.
    Switch,
    /// A whole number.
    Count { min: u32, max: u32 },
    /// A time.
    Duration { min: Time, max: Time },
    /// A size.
    Size { min: Bytes, max: Bytes },
    /// Minimum, initial and maximum size, which do not fall.
    Sizes,
    /// One of some words.
    Choice(&'static [&'static str]),
}

/// The value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A value of [`Domain::Switch`].
    Switch(bool),
    /// A value of [`Domain::Count`].
    Count(u32),
    /// A value of [`Domain::Duration`].
    Duration(Time),
    /// A value of [`Domain::Size`].
    Size(Bytes),
    /// A value of [`Domain::Sizes`].
    Sizes([Bytes; 3]),
    /// A value of [`Domain::Choice`].
    Choice(&'static str),
}

/// How Linux takes a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// It has a sysctl for it.
    Sysctl(Sysctl),
    /// An engine sets it by these other means.
    Other(&'static str),
    /// It has nothing for it.
    Nothing,
}

/// A sysctl of a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// Its name below `net.ipv4`.
    pub name: &'static str,
    /// Whether every kernel has the setting's default in a new namespace.
    pub has_default: bool,
    /// Its value where a [`Domain::Switch`] is on; off is 0.
    on: u32,
}

impl Encode for Value {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Self::Switch(on) => on.encode(out),
            Self::Count(count) => count.encode(out),
            Self::Duration(time) => time.encode(out),
            Self::Size(size) => size.encode(out),
            Self::Sizes(sizes) => sizes.as_slice().encode(out),
            Self::Choice(word) => word.encode(out),
        }
    }
}

impl Sysctl {
    /// The text that is written to it for a value of its setting.
    pub fn text(&self, value: Value) -> String {
        match value {
            Value::Switch(on) => if on { self.on } else { 0 }.to_string(),
            Value::Count(count) => count.to_string(),
            // All sysctls of TCP that Perigee sets and that are times are in microseconds, and say so (`_us`).
            Value::Duration(time) => time.as_micros().to_string(),
            Value::Size(size) => size.as_u64().to_string(),
            Value::Sizes(sizes) => sizes.map(|size| size.as_u64().to_string()).join(" "),
            Value::Choice(word) => word.to_owned(),
        }
    }
}

/// A sysctl that a new namespace has at the setting's default.
pub(crate) const fn sysctl(name: &'static str) -> Kernel {
    Kernel::Sysctl(Sysctl { name, has_default: true, on: 1 })
}

/// A sysctl that says `on` where a switch is on, and that a new namespace has at the setting's default.
pub(crate) const fn sysctl_on(name: &'static str, on: u32) -> Kernel {
    Kernel::Sysctl(Sysctl { name, has_default: true, on })
}

/// A sysctl whose value in a new namespace is the host's or depends on the kernel.
pub(crate) const fn sysctl_of_host(name: &'static str) -> Kernel {
    Kernel::Sysctl(Sysctl { name, has_default: false, on: 1 })
}
