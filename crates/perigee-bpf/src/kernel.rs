//! Congestion-control settings of the kernel, in the files of `/proc/sys/net/ipv4`.

use std::{fs, io};

use crate::error::SystemError;

/// The algorithms that sockets can select now, without modules that would be loaded on demand.
///
/// # Errors
/// If the list cannot be read.
pub fn registered() -> Result<Vec<String>, SystemError> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = fs::read_to_string(path).map_err(|error| SystemError::new(format!("read {path}"), error))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The default of the calling thread's network namespace.
pub(crate) fn default_here() -> io::Result<String> {
    Ok(fs::read_to_string(DEFAULT)?.trim().to_owned())
}

/// Sets the default of the calling thread's network namespace.
pub(crate) fn set_default_here(name: &str) -> io::Result<()> {
    fs::write(DEFAULT, name)
}

/// The algorithms allowed to processes without `CAP_NET_ADMIN` and to namespaces; only the first namespace has the
/// list.
pub(crate) fn allowed() -> io::Result<String> {
    fs::read_to_string(ALLOWED)
}

/// Sets the allowed algorithms.
pub(crate) fn set_allowed(names: &str) -> io::Result<()> {
    fs::write(ALLOWED, names.trim())
}

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
