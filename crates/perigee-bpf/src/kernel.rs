//! What the kernel says of congestion controls in the files of `/proc/sys/net/ipv4`.

use std::{fs, io};

use crate::error::SystemError;

/// The names that sockets can ask for now. A module that would be loaded on demand is not among them.
///
/// # Errors
/// Where the list cannot be read.
pub fn registered() -> Result<Vec<String>, SystemError> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = fs::read_to_string(path).map_err(|error| SystemError::new(format!("read {path}"), error))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The default of the network namespace that the calling thread is in.
pub(crate) fn default_here() -> io::Result<String> {
    Ok(fs::read_to_string(DEFAULT)?.trim().to_owned())
}

/// Sets that default.
pub(crate) fn set_default_here(name: &str) -> io::Result<()> {
    fs::write(DEFAULT, name)
}

/// The names that processes without `CAP_NET_ADMIN`, and namespaces by default, may have. Of the first namespace only.
pub(crate) fn allowed() -> io::Result<String> {
    fs::read_to_string(ALLOWED)
}

/// Sets those names.
pub(crate) fn set_allowed(names: &str) -> io::Result<()> {
    fs::write(ALLOWED, names.trim())
}

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
