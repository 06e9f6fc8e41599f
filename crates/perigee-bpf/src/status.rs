//! What is loaded, and who uses it.

use serde::Serialize;

use crate::error::{StatusError, SystemError};
use crate::kernel;
use crate::sockets::{self, SocketUse};
use crate::store::{Record, Store};

/// An algorithm that is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The name that sockets ask for.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub record: Record,
    /// It is the machine's default now.
    pub is_default: bool,
    /// The sockets that use it.
    pub sockets: Vec<SocketUse>,
}

/// The state of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// What we loaded, by name.
    pub loaded: Vec<Entry>,
    /// The other algorithms that sockets can ask for.
    pub others: Vec<String>,
    /// The machine's default.
    pub default: String,
    /// Sockets with an algorithm that is not registered any more: it was unloaded with `--force`.
    pub detached: Vec<SocketUse>,
    /// Processes that we may not look into; the sockets of a namespace of their own are not listed.
    pub unseen_processes: usize,
}

/// Looks at the machine and changes nothing.
///
/// # Errors
/// Where the links cannot be read: that takes root.
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
    // An entry whose link holds nothing any more is what an interrupted unload left; the next load removes it.
    let present = records.into_iter().filter(|(name, _)| registered.contains(name));
    let loaded = present.map(|(name, record)| {
        let (its, rest) = std::mem::take(&mut sockets).into_iter().partition(|socket| socket.cc == name);
        sockets = rest;
        Entry { is_default: default == name, sockets: its, name, record }
    });
    let loaded = loaded.collect();
    Ok(Status { loaded, others, default, detached: sockets, unseen_processes })
}
