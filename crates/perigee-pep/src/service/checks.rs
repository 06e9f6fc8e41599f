//! Checks before a service starts, or its configuration changes: of the configuration, and of the descriptors that it needs.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use super::accounting;
use super::listener::addresses;
use crate::config::Config;
use crate::error::ServiceError;
use crate::legs::carrier::PIPE_DESCRIPTORS;
use crate::{link, tunnel};

/// Reads a configuration.
///
/// # Errors
/// If it cannot be read, or is wrong.
pub fn read(path: &Path) -> Result<Config, ServiceError> {
    let text = fs::read_to_string(path).map_err(|error| ServiceError::File { path: path.to_owned(), error })?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Ok(Config::parse(&text, &path.display().to_string(), cores)?)
}

/// Reads a configuration, and checks the files that it names.
///
/// # Errors
/// As [`read`], and if a service could not start with these files.
pub(crate) fn read_and_check(path: &Path) -> Result<Config, ServiceError> {
    let config = read(path)?;
    tunnel::check(&config)?;
    link::check(&config)?;
    config.accounting.as_ref().map_or(Ok(()), accounting::check)?;
    Ok(config)
}

/// Names the keys of a new configuration that a process goes on without which was started with `started`; `None`: there are none.
pub(super) fn waiting(started: &Config, new: &Config) -> Option<String> {
    let of_control = started.control != new.control;
    let changed = [
        ("workers", started.workers != new.workers),
        ("metrics", started.metrics != new.metrics),
        ("confine", started.confine != new.confine),
        ("control", of_control),
    ];
    let changed = changed.into_iter().filter(|(_, is_other)| *is_other);
    let keys: Vec<String> = changed.map(|(key, _)| format!("`{key}`")).collect();
    // Who upgrades a process finds it by its control socket.
    let until = if of_control { "a restart" } else { "an upgrade or a restart" };
    (!keys.is_empty()).then(|| format!("changes with {until} only: {} in `[service]`", keys.join(", ")))
}

/// Maximum number of connections: as configured, and as descriptors allow.
pub(super) fn connections(config: &Config) -> usize {
    let (descriptors, own) = descriptors(config);
    config.limits.connections.min(descriptors.saturating_sub(own) / 2).max(1)
}

/// Checks that the service has the descriptors that it needs itself: without them nobody could ask, reload or upgrade it.
pub(super) fn check_descriptors(config: &Config) -> Result<(), ServiceError> {
    let (descriptors, own) = descriptors(config);
    if descriptors > own {
        return Ok(());
    }
    let why =
        format!("it is {descriptors}, and the service needs more than {own}: raise it (`LimitNOFILE=` in a unit)");
    Err(ServiceError::system("the limit of descriptors (RLIMIT_NOFILE)")(io::Error::other(why)))
}

/// Limit of descriptors, which is raised first, and how many of them are not for connections.
fn descriptors(config: &Config) -> (usize, usize) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If that is refused, the lower limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let descriptors = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize);
    // With few descriptors, bytes are copied instead.
    let pipes = (config.workers * PIPE_DESCRIPTORS).min(descriptors / 4);
    (descriptors, OWN_DESCRIPTORS + config.workers * (addresses(config).len() + 4) + pipes)
}

/// Descriptors that are neither sockets of connections nor of workers.
const OWN_DESCRIPTORS: usize = 64;
