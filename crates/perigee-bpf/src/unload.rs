//! Unloading: only what Perigee loaded, only if no socket is affected, with all previous settings restored.

use std::time::Duration;

use serde::Serialize;

use crate::error::{SystemError, UnloadError};
use crate::sockets::{self, SocketUse};
use crate::store::{beside_the_kernels, LoadRecord, Store};
use crate::{clock, kernel, namespaces, requirements};

/// The treatment of sockets that use the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// Unload nothing.
    Refuse,
    /// Wait for at most this time until they close; the default is restored at once, so that no new socket inherits it.
    Wait(Duration),
    /// Unload; the sockets keep it until they close.
    Leave,
}

/// Result of an unload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unloaded {
    /// The name.
    pub name: String,
    /// The restored default, if it had become the default.
    pub default: Option<String>,
    /// Namespaces that had it as default, and their default now.
    pub namespaces: Vec<(String, String)>,
    /// Sockets that keep it until they close.
    pub sockets_left: usize,
}

/// Removes an algorithm that [`crate::load`] loaded. `name` is the registered name, the algorithm's name if it was
/// registered as `p_NAME`, or the path of an author's file.
///
/// Restores the machine's default if it still is this algorithm, and that of each namespace that inherited it.
///
/// # Errors
/// If Perigee did not load it, or sockets use it and `in_use` does not allow that.
pub fn unload(name: &str, in_use: InUse) -> Result<Unloaded, UnloadError> {
    requirements::check_process()?;
    let Some(store) = Store::view()? else { return Err(not_loaded(name, &[])) };
    drop(store);
    let store = Store::open()?;
    let done = unload_from(&store, name, in_use);
    store.close();
    done
}

/// The names of all loaded algorithms.
///
/// # Errors
/// If they cannot be read.
pub fn names() -> Result<Vec<String>, UnloadError> {
    requirements::check_process()?;
    let Some(store) = Store::view()? else { return Ok(Vec::new()) };
    Ok(store.records()?.into_iter().map(|(name, _)| name).collect())
}

fn unload_from(store: &Store, name: &str, in_use: InUse) -> Result<Unloaded, UnloadError> {
    store.sweep()?;
    let records = store.records()?;
    let Some((name, record)) = meant(name, &records) else { return Err(not_loaded(name, &records)) };
    let mut users = users_of(name)?;
    let mut restored = None;
    if !users.is_empty() {
        match in_use {
            InUse::Refuse => return Err(UnloadError::InUse { name: name.to_owned(), sockets: users }),
            InUse::Leave => {}
            InUse::Wait(longest) => {
                restored = Some(restore_defaults(name, record)?);
                users = wait(longest, users, || users_of(name))?;
                if !users.is_empty() {
                    return Err(UnloadError::InUse { name: name.to_owned(), sockets: users });
                }
            }
        }
    }
    let (default, namespaces) = match restored {
        Some(restored) => restored,
        None => restore_defaults(name, record)?,
    };
    store.take_out(name)?;
    inherit(store, name, record, &records)?;
    Ok(Unloaded { name: name.to_owned(), default, namespaces, sockets_left: users.len() })
}

/// If this one was the default before another loaded one, that one now restores the default before this one.
fn inherit(
    store: &Store,
    name: &str,
    record: &LoadRecord,
    records: &[(String, LoadRecord)],
) -> Result<(), SystemError> {
    for (other, theirs) in records {
        if other != name && theirs.default_before.as_deref() == Some(name) {
            store.write(other, &LoadRecord { default_before: record.default_before.clone(), ..theirs.clone() })?;
        }
    }
    Ok(())
}

type Restored = (Option<String>, Vec<(String, String)>);

/// Restores the default in every namespace where it is this algorithm.
fn restore_defaults(name: &str, record: &LoadRecord) -> Result<Restored, SystemError> {
    let wrong = |error: std::io::Error| SystemError::new("restore the default congestion control", error);
    // A namespace that changed its default itself gets the machine's.
    let machines = kernel::default_here().map_err(wrong)?;
    let machines = Some(machines.as_str()).filter(|default| *default != name);
    let before = record.default_before.as_deref().or(machines).unwrap_or(ALWAYS_THERE);
    let (mut default, mut others) = (None, Vec::new());
    for namespace in namespaces::all().0 {
        let restored = namespace.enter(|| {
            if kernel::default_here()? != name {
                return Ok(None);
            }
            // The previous one may be gone, or reserved to the first namespace.
            for candidate in [before, ALWAYS_THERE] {
                if kernel::set_default_here(candidate).is_ok() {
                    break;
                }
            }
            kernel::default_here().map(Some)
        });
        match restored {
            Ok(None) => {}
            Ok(Some(now)) if namespace.name.is_empty() => default = Some(now),
            Ok(Some(now)) => others.push((namespace.name, now)),
            // The namespace is gone, or its TCP is not ours to change.
            Err(_) if !namespace.name.is_empty() => {}
            Err(error) => return Err(wrong(error)),
        }
    }
    Ok((default, others))
}

fn wait(
    longest: Duration,
    mut users: Vec<SocketUse>,
    users_now: impl Fn() -> Result<Vec<SocketUse>, SystemError>,
) -> Result<Vec<SocketUse>, SystemError> {
    let deadline = clock::Deadline::after(longest);
    while !users.is_empty() && !deadline.has_passed() {
        clock::pause(PAUSE.min(longest));
        users = users_now()?;
    }
    Ok(users)
}

fn users_of(name: &str) -> Result<Vec<SocketUse>, SystemError> {
    let found = sockets::using(|cc| cc == name).map_err(|error| SystemError::new("list the sockets", error))?;
    Ok(found.0)
}

/// Resolves a name given to `load`: the registered name itself, the `p_NAME` of a name of the kernel, or the only
/// algorithm compiled from a file.
fn meant<'r>(given: &str, records: &'r [(String, LoadRecord)]) -> Option<(&'r str, &'r LoadRecord)> {
    let found = |is_meant: &dyn Fn(&str, &LoadRecord) -> bool| {
        let mut all = records.iter().filter(|(name, record)| is_meant(name, record));
        all.next().filter(|_| all.next().is_none()).map(|(name, record)| (name.as_str(), record))
    };
    let stand_in = beside_the_kernels(given);
    let path = std::path::Path::new(given).canonicalize().ok();
    found(&|name, _| name == given)
        .or_else(|| found(&|name, record| name == stand_in && record.algorithm == given))
        .or_else(|| found(&|_, record| path.as_ref().is_some_and(|path| path.as_os_str() == record.origin.as_str())))
}

fn not_loaded(name: &str, records: &[(String, LoadRecord)]) -> UnloadError {
    let described = |(name, record): &(String, LoadRecord)| match &record.algorithm {
        own if own == name => name.clone(),
        another => format!("{name} ({another})"),
    };
    let names: Vec<_> = records.iter().map(described).collect();
    let known =
        if names.is_empty() { "nothing is loaded".to_owned() } else { format!("loaded are {}", names.join(", ")) };
    UnloadError::NotLoaded { name: name.to_owned(), known }
}

/// Every kernel has it, and every namespace may use it.
const ALWAYS_THERE: &str = "reno";
const PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, algorithm: &str, origin: &str) -> (String, LoadRecord) {
        let record = LoadRecord {
            algorithm: algorithm.to_owned(),
            parameters: String::new(),
            origin: origin.to_owned(),
            source_sha256: String::new(),
            loaded_s: 0,
            default_before: None,
            remembers: None,
        };
        (name.to_owned(), record)
    }

    #[test]
    fn what_load_was_given_is_found_whatever_it_was_loaded_as() {
        let file = tempfile::NamedTempFile::with_suffix(".c").unwrap();
        let path = file.path().to_str().unwrap();
        let mut records =
            vec![record("p_reno", "reno", "built in"), record("fast", "hybla", "built in"), record("my", "my", path)];
        let name =
            |given: &str, records: &[(String, LoadRecord)]| meant(given, records).map(|(name, _)| name.to_owned());
        for (given, expected) in [
            ("reno", Some("p_reno")),
            ("p_reno", Some("p_reno")),
            ("fast", Some("fast")),
            ("hybla", None),
            (path, Some("my")),
        ] {
            assert_eq!(name(given, &records).as_deref(), expected, "{given}");
        }
        // An exact name takes precedence; of two versions of one file neither is meant.
        records.extend([record("reno", "reno", "built in"), record("my2", "my", path)]);
        assert_eq!((name("reno", &records).as_deref(), name(path, &records)), (Some("reno"), None));
        let said = not_loaded("hybla", &records).to_string();
        assert!(said.contains("loaded are p_reno (reno), fast (hybla), my, reno, my2 (my)"), "{said}");
    }
}
