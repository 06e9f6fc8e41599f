//! What a setting of a host's TCP is. The settings themselves are one list, `list.rs`.
//!
//! An entry of the list makes a field of [`Config`], its default and its documentation, and a [`Setting`], from which
//! others take what they need: studies their keys, reports their words, engines what they can carry to a real host.

mod define;
mod derived;
#[allow(clippy::unreadable_literal, reason = "the reference of studies shows defaults as they are written there")]
mod list;

pub(crate) use derived::{measured_share, SHARE_SHIFT};
pub use list::{Config, WindowShare, SETTINGS};

use std::fmt;

use perigee_units::{Bytes, Encode, Time};

/// One setting of a host's TCP, a field of [`Config`].
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in studies and in [`Config`].
    pub name: &'static str,
    /// The values it can have.
    pub domain: Domain,
    /// Its value without being set, as a study would write it.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Its name in reports.
    pub report: &'static str,
    /// How Linux takes it.
    pub kernel: Kernel,
    read: fn(&Config) -> Value,
    write: fn(&mut Config, Value) -> Option<()>,
}

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
    /// Of [`Domain::Switch`].
    Switch(bool),
    /// Of [`Domain::Count`].
    Count(u32),
    /// Of [`Domain::Duration`].
    Duration(Time),
    /// Of [`Domain::Size`].
    Size(Bytes),
    /// Of [`Domain::Sizes`].
    Sizes([Bytes; 3]),
    /// Of [`Domain::Choice`].
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
    /// What it says where a [`Domain::Switch`] is on; off is 0.
    on: u32,
}

impl Setting {
    /// Its value in `config`.
    pub fn get(&self, config: &Config) -> Value {
        (self.read)(config)
    }

    /// Sets it in `config`.
    ///
    /// # Panics
    /// Where `value` is of another domain.
    pub fn set(&self, config: &mut Config, value: Value) {
        (self.write)(config, value).expect("the value is of the setting's domain");
    }
}

impl Config {
    /// The settings whose values are not the defaults, with these values, in the order of [`SETTINGS`].
    ///
    /// ```
    /// use perigee_tcp::{Config, Value};
    ///
    /// let config = Config { sack: false, ..Config::default() };
    /// let different: Vec<_> = config.differences().map(|(setting, value)| (setting.name, value)).collect();
    /// assert_eq!(different, [("sack", Value::Switch(false))]);
    /// ```
    pub fn differences(&self) -> impl Iterator<Item = (&'static Setting, Value)> + '_ {
        let default = Self::default();
        let values = SETTINGS.iter().map(|setting| (setting, setting.get(self)));
        values.filter(move |(setting, value)| *value != setting.get(&default))
    }
}

/// Every setting by its name.
impl Encode for Config {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for setting in SETTINGS {
            write!(out, "{}=", setting.name)?;
            setting.get(self).encode(out)?;
            out.write_str(",")?;
        }
        Ok(())
    }
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
const fn sysctl(name: &'static str) -> Kernel {
    Kernel::Sysctl(Sysctl { name, has_default: true, on: 1 })
}

/// A sysctl that says `on` where a switch is on, and that a new namespace has at the setting's default.
const fn sysctl_on(name: &'static str, on: u32) -> Kernel {
    Kernel::Sysctl(Sysctl { name, has_default: true, on })
}

/// A sysctl whose value in a new namespace is the host's or depends on the kernel.
const fn sysctl_of_host(name: &'static str) -> Kernel {
    Kernel::Sysctl(Sysctl { name, has_default: false, on: 1 })
}
