//! Overrides of a study.

use perigee_text::{clip, Origin, StrictError};

/// Overrides, which are laid over a study before its points are built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Whether to use the size that the study declares under `[reduced]`.
    pub reduced: bool,
    /// Key paths and values, in order: `("flow.cc", "cubic")`. A value is TOML if it parses as such, otherwise text.
    pub set: Vec<(String, String)>,
}

impl Overrides {
    /// Reads the command line's `key=value` settings.
    ///
    /// # Errors
    /// If one has no `=`.
    pub fn new<S: AsRef<str>>(settings: &[S], reduced: bool) -> Result<Self, StrictError> {
        let split = |setting: &S| match setting.as_ref().split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => Ok((path.trim().to_owned(), value.to_owned())),
            _ => {
                let origin = Origin::place(&format!("--set {}", clip(setting.as_ref())));
                Err(StrictError::new(&origin, "the key or `=` is missing", "write --set flow.cc=cubic"))
            }
        };
        Ok(Self { reduced, set: settings.iter().map(split).collect::<Result<_, _>>()? })
    }
}
