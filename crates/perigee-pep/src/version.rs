//! The version of this program.

/// Version that the program states: with its commit, where what builds packages (`python/perigee/version.py`) has named it.
pub(crate) const VERSION: &str = match option_env!("PERIGEE_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
