//! The choice of an algorithm, with values for its parameters.

use std::fmt;

use perigee_units::{suggestion, Encode};

use crate::algorithm::{algorithms, find, Algorithm};
use crate::parameter::Unreadable;
use crate::sock::MAX_PARAMS;

/// Why a choice of algorithm and parameters is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CcError {
    /// No file of that name.
    UnknownAlgorithm {
        /// The name that was asked for.
        name: String,
        /// The name that was probably meant, or those that exist.
        fix: String,
    },
    /// The algorithm has no such parameter.
    UnknownParameter {
        /// The algorithm.
        algorithm: String,
        /// The key that was set.
        key: String,
        /// The key that was probably meant, or those that exist.
        fix: String,
    },
    /// The text is no value of the parameter's unit.
    BadValue {
        /// The algorithm.
        algorithm: String,
        /// The parameter.
        key: String,
        /// The error, with the value.
        message: String,
        /// The fix.
        fix: String,
    },
    /// The parameter is without effect beside another one that is set.
    Replaced {
        /// The algorithm.
        algorithm: &'static str,
        /// The parameter.
        key: &'static str,
        /// The one that replaces it.
        by: &'static str,
    },
    /// The module that it is does not begin with these values.
    NotBegun {
        /// The algorithm.
        algorithm: String,
        /// The values that are not the defaults; empty: all are.
        settings: String,
        /// The answer of its init, an error of the system.
        code: i32,
    },
}

impl CcError {
    fn parts(&self) -> (String, String) {
        match self {
            Self::UnknownAlgorithm { name, fix } => (format!("no congestion control `{name}`"), fix.clone()),
            Self::UnknownParameter { algorithm, key, fix } => {
                (format!("`{algorithm}` has no parameter `{key}`"), fix.clone())
            }
            Self::BadValue { algorithm, key, message, fix } => {
                (format!("`{key}` of `{algorithm}`: {message}"), fix.clone())
            }
            Self::Replaced { algorithm, key, by } => {
                (format!("`{key}` of `{algorithm}` is without effect beside `{by}`"), "keep one of them".to_owned())
            }
            Self::NotBegun { algorithm, settings, code } => {
                let with = if settings.is_empty() { "its defaults" } else { settings };
                let why = std::io::Error::from_raw_os_error(code.saturating_neg());
                let message =
                    format!("the module `{algorithm}` does not begin with {with}: its init returns {code}, {why}");
                (message, "set values that it takes; the kernel would not load it with these".to_owned())
            }
        }
    }

    /// Returns a description of the error without the fix.
    pub fn message(&self) -> String {
        self.parts().0
    }

    /// Returns the fix.
    pub fn fix(&self) -> String {
        self.parts().1
    }
}

/// `message; fix`.
impl fmt::Display for CcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, fix) = self.parts();
        write!(f, "{message}; {fix}")
    }
}

impl std::error::Error for CcError {}

/// The replacement of CUBIC's former switch `hystart`.
const SINCE_HYSTART: &str = "write slow_start = \"classic\" for off, slow_start = \"hystart\" for on";

/// Parameters that replace another one unless they are zero: the algorithm, such a parameter, the one that it replaces.
const REPLACING: [(&str, &str, &str); 1] = [("vivace", "initial_rate", "initial")];

/// Returns the replacement of a key that is no parameter of the algorithm.
pub fn in_place_of(algorithm: &Algorithm, key: &str) -> String {
    let names = algorithm.params().iter().map(|param| param.name);
    match key {
        "hystart" if names.clone().any(|name| name == "slow_start") => SINCE_HYSTART.to_owned(),
        _ if names.len() == 0 => "it has none".to_owned(),
        _ => suggestion(key, names),
    }
}

/// An algorithm with a value for each of its parameters.
#[derive(Clone, Debug)]
pub struct Selected {
    algorithm: &'static Algorithm,
    values: [u64; MAX_PARAMS],
    flow: u32,
}

/// The algorithm by its name and the digest of its program, and its values. Not the flow, which plans do not choose.
impl Encode for Selected {
    fn encode(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        ((self.algorithm.name(), self.algorithm.digest()), &self.values[..]).encode(out)
    }
}

impl Selected {
    /// The algorithm of this name; parameters not set have their defaults.
    ///
    /// Values are text as in a study: `"25 ms"`, `"5 Mbit/s"`, `"70 %"` or `"0.7"`, `"10"`, `"on"`.
    ///
    /// # Errors
    /// If there is no such algorithm or parameter, or the value is not in the parameter's unit or range.
    pub fn parse(name: &str, settings: &[(&str, &str)]) -> Result<Self, CcError> {
        let algorithm = find(name).ok_or_else(|| CcError::UnknownAlgorithm {
            name: name.to_owned(),
            fix: suggestion(name, algorithms().iter().map(Algorithm::name)),
        })?;
        Self::of(algorithm, settings)
    }

    /// This algorithm; `settings` as of [`Selected::parse`].
    ///
    /// # Errors
    /// If there is no such parameter, the value is not in the parameter's unit or range, or another parameter replaces it.
    pub fn of(algorithm: &'static Algorithm, settings: &[(&str, &str)]) -> Result<Self, CcError> {
        let mut selected = Self::with_defaults(algorithm);
        for (key, text) in settings {
            selected.set(key, text)?;
        }
        for (of, by, key) in REPLACING {
            let is_given = |name: &str| settings.iter().any(|(given, _)| *given == name);
            if algorithm.name() == of && is_given(key) && is_given(by) && selected.value(by) != Some(0) {
                return Err(CcError::Replaced { algorithm: of, key, by });
            }
        }
        Ok(selected)
    }

    /// Has the module of an author's file that is loaded begin with these values, where the file is one.
    ///
    /// # Errors
    /// If its init does not take them.
    pub fn begin(&self) -> Result<(), CcError> {
        match self.algorithm.begin(&self.values) {
            0 => Ok(()),
            code => {
                Err(CcError::NotBegun { algorithm: self.algorithm.name().to_owned(), settings: self.describe(), code })
            }
        }
    }

    /// The value of a parameter; `None` without one of this name.
    fn value(&self, name: &str) -> Option<u64> {
        let at = self.algorithm.params().iter().position(|param| param.name == name)?;
        Some(self.values[at])
    }

    /// The algorithm as it is when nothing is set.
    pub fn with_defaults(algorithm: &'static Algorithm) -> Self {
        let mut values = [0; MAX_PARAMS];
        for (value, param) in values.iter_mut().zip(algorithm.params()) {
            *value = param.default;
        }
        Self { algorithm, values, flow: 0 }
    }

    /// The algorithm with values in the order of [`Algorithm::params`], as [`Selected::values`] gives them; those that
    /// are missing have their defaults. Units and ranges are the caller's.
    pub fn with_values(algorithm: &'static Algorithm, values: &[u64]) -> Self {
        let mut selected = Self::with_defaults(algorithm);
        for (value, given) in selected.values.iter_mut().zip(values) {
            *value = *given;
        }
        selected
    }

    /// Returns this choice for the flow of this number: the calls of an author's code are noted with it.
    #[must_use]
    pub fn of_flow(self, number: u32) -> Self {
        Self { flow: number, ..self }
    }

    pub(crate) fn flow(&self) -> u32 {
        self.flow
    }

    /// The algorithm.
    pub fn algorithm(&self) -> &'static Algorithm {
        self.algorithm
    }

    /// The values, in the order of [`Algorithm::params`]; the rest is zero.
    pub fn values(&self) -> &[u64; MAX_PARAMS] {
        &self.values
    }

    /// The settings that differ from the defaults, as `key=value unit`, in declared order.
    pub fn describe(&self) -> String {
        let changed = self.algorithm.params().iter().zip(&self.values).filter(|(p, v)| p.default != **v);
        changed.map(|(p, v)| format!("{}={}", p.name, p.text(*v))).collect::<Vec<_>>().join(", ")
    }

    fn set(&mut self, key: &str, text: &str) -> Result<(), CcError> {
        let algorithm = || self.algorithm.name().to_owned();
        let params = self.algorithm.params();
        let Some(at) = params.iter().position(|p| p.name == key) else {
            let fix = in_place_of(self.algorithm, key);
            return Err(CcError::UnknownParameter { algorithm: algorithm(), key: key.to_owned(), fix });
        };
        let param = &params[at];
        let bad = |Unreadable { message, fix }| CcError::BadValue {
            algorithm: algorithm(),
            key: key.to_owned(),
            message,
            fix,
        };
        self.values[at] = param.value(text).map_err(bad)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let unknown = Selected::parse("rneo", &[]).unwrap_err().to_string();
        assert!(unknown.contains("`rneo`") && unknown.contains("reno"), "{unknown}");
        let former = Selected::parse("cubic", &[("hystart", "off")]).unwrap_err().to_string();
        assert!(former.contains("write slow_start = \"classic\" for off"), "{former}");
    }

    #[test]
    fn a_parameter_is_refused_beside_the_one_that_replaces_it() {
        let vivace = |rate| Selected::parse("vivace", &[("initial", "30"), ("initial_rate", rate)]);
        let error = vivace("1 Mbit/s").unwrap_err().to_string();
        assert_eq!(error, "`initial` of `vivace` is without effect beside `initial_rate`; keep one of them");
        assert!(vivace("0 bit/s").is_ok(), "no rate replaces nothing");
    }
}
