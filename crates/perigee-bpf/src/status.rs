//! Loaded algorithms and the sockets that use them.

use serde::Serialize;

use crate::error::{StatusError, SystemError};
use crate::kernel;
use crate::sockets::{self, SocketUse};
use crate::store::{LoadRecord, Store};

/// A loaded algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoadedAlgorithm {
    /// The registered name.
    pub name: String,
    /// Its record.
    #[serde(flatten)]
    pub record: LoadRecord,
    /// Whether it is the default of the machine now.
    pub is_default: bool,
    /// The sockets that use it.
    pub sockets: Vec<SocketUse>,
}

/// The state of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The algorithms loaded by Perigee, by name.
    pub loaded: Vec<LoadedAlgorithm>,
    /// The other algorithms that sockets can select.
    pub others: Vec<String>,
    /// The machine's default.
    pub default: String,
    /// Sockets with an unregistered algorithm, unloaded with `--force`.
    pub detached: Vec<SocketUse>,
    /// Processes that may not be inspected; sockets of namespaces that only they are in are not listed.
    pub unseen_processes: usize,
}

/// Reads the state, without changing it.
///
/// # Errors
/// If the links cannot be read, which needs root.
pub fn status() -> Result<Status, StatusError> {
    let store = Store::view()?;
    let records = store.as_ref().map_or_else(|| Ok(Vec::new()), Store::records)?;
    let registered = kernel::registered()?;
    let default = kernel::default_here().map_err(|error| SystemError::new("read the default", error))?;
    let is_ours = |name: &str| records.iter().any(|(ours, _)| ours == name);
    let of_interest = |name: &str| is_ours(name) || !registered.iter().any(|known| known == name);
    let (mut sockets, unseen_processes) =
        sockets::using(of_interest).map_err(|error| SystemError::new("list the sockets", error))?;
    drop(store);
    let others = registered.iter().filter(|name| !is_ours(name)).cloned().collect();
    // An interrupted unload leaves an entry with an empty link; the next load removes it.
    let present = records.into_iter().filter(|(name, _)| registered.contains(name));
    let loaded = present.map(|(name, record)| {
        let (its, rest) = std::mem::take(&mut sockets).into_iter().partition(|socket| socket.cc == name);
        sockets = rest;
        LoadedAlgorithm { is_default: default == name, sockets: its, name, record }
    });
    let loaded = loaded.collect();
    Ok(Status { loaded, others, default, detached: sockets, unseen_processes })
}

/// Which connections to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those with an algorithm that Perigee loaded.
    Loaded,
    /// All.
    All,
}

/// Connections, and the number of processes that may not be inspected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sockets {
    /// The sockets with a peer.
    pub sockets: Vec<SocketUse>,
    /// Processes that may not be inspected; sockets of namespaces that only they are in are not listed.
    pub unseen_processes: usize,
}

/// Lists connections of all network namespaces.
///
/// # Errors
/// If the sockets, or the loaded algorithms, cannot be read, which needs root.
pub fn sockets(whose: Whose) -> Result<Sockets, StatusError> {
    let store = Store::view()?;
    let loaded = store.as_ref().map_or_else(|| Ok(Vec::new()), Store::records)?;
    drop(store);
    let wanted = |cc: &str| whose == Whose::All || loaded.iter().any(|(name, _)| name == cc);
    let found = sockets::using(wanted).map_err(|error| SystemError::new("list the sockets", error));
    let (mut sockets, unseen_processes) = found?;
    sockets.retain(|socket| !matches!(socket.state, "LISTEN" | "CLOSE" | "TIME_WAIT"));
    Ok(Sockets { sockets, unseen_processes })
}
