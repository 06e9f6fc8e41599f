//! Loading: from an object to an algorithm that sockets can select.

use std::io;

use serde::Serialize;

use crate::error::{LoadError, SystemError};
use crate::object::{Opened, Remember, Verified, NAME_BYTES};
use crate::program::Program;
use crate::store::{beside_the_kernels, LoadRecord, Place, Store, MEMORY};
use crate::{kernel, namespaces, requirements, sockets};

/// How to load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// The name to register. `None`: the algorithm's own, or `p_NAME` if the kernel has an algorithm of that name.
    pub name: Option<&'a str>,
    /// Make it the default of the machine.
    pub make_default: bool,
    /// Remember paths for Careful Resume, by these prefixes of the peer's address.
    pub remember: Option<Remember>,
}

/// Result of a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// The registered name.
    pub name: String,
    /// The algorithm.
    pub algorithm: String,
    /// Its parameters that differ from their defaults.
    pub parameters: String,
    /// It replaced an earlier version under this name.
    pub replaced: bool,
    /// Sockets that keep the earlier version until they close.
    pub sockets_on_earlier: usize,
    /// The machine's default before; `None` if it did not become the default.
    pub default_before: Option<String>,
}

/// Loads an algorithm, or replaces the version that has the name.
///
/// It outlives the process. The last step pins it: a process that ends before, for whatever reason, leaves nothing in
/// the kernel.
///
/// # Errors
/// If the machine lacks a requirement, the name is taken, or the kernel refuses the object. Nothing is loaded then.
pub fn load(program: &Program, options: Options<'_>) -> Result<Loaded, LoadError> {
    if let Some(name) = options.name {
        check_name(name)?;
    }
    let opened = Opened::read(&program.object)?;
    if options.remember.is_some() {
        check_memory(program, &opened)?;
    }
    requirements::check()?;
    let store = Store::open()?;
    let loaded = load_into(&store, program, opened, options);
    if loaded.is_err() {
        store.close();
    }
    loaded
}

fn load_into(store: &Store, program: &Program, mut opened: Opened, options: Options<'_>) -> Result<Loaded, LoadError> {
    store.sweep()?;
    let algorithm = opened.name().to_owned();
    let name = choose_name(store, &algorithm, options.name)?;
    let earlier = store.find(&name)?;
    if let Some(earlier) = earlier.as_ref().filter(|earlier| earlier.algorithm != algorithm) {
        return Err(LoadError::NameOfAnother { name, algorithm: earlier.algorithm.clone() });
    }
    // A new version goes on with what the earlier one remembered.
    let memory = store.place(&name)?.filter(|place| place.has(MEMORY));
    if let Some(remember) = options.remember {
        let earlier = memory.as_ref().map(|place| place.path(MEMORY));
        opened.remember(remember, earlier.as_deref())?;
    }
    let mut verified = opened.verify(&program.selected, &name)?;
    let pin_memory = |verified: &mut Verified, place: &Place| match (options.remember, place.has(MEMORY)) {
        (Some(_), false) => verified.pin_memory(&place.path(MEMORY)).map_err(|error| place.wrong("pin", MEMORY, error)),
        (None, true) => place.unpin(MEMORY),
        _ => Ok(()),
    };
    let replaced = earlier.is_some();
    let mut record = LoadRecord {
        algorithm,
        parameters: program.selected.describe(),
        origin: program.origin.clone(),
        source_sha256: program.source_sha256.clone(),
        loaded_s: crate::clock::seconds_since_1970(),
        default_before: earlier.and_then(|earlier| earlier.default_before),
        remembers: options.remember.map(|Remember { v4, v6 }| [v4, v6]),
    };
    let mut sockets_on_earlier = 0;
    if replaced {
        let allowed = kernel::allowed();
        verified.replace(&store.link(&name)?)?;
        pin_memory(&mut verified, &store.known(&name)?)?;
        store.write(&name, &record)?;
        hand_over(&name, allowed)?;
        let users = sockets::using(|cc| cc == name).map_err(|error| SystemError::new("list the sockets", error))?;
        sockets_on_earlier = users.0.len();
    } else {
        store.keep(&name, &record, |place| {
            pin_memory(&mut verified, place)?;
            Ok(verified.register()?)
        })?;
    }
    if options.make_default
        && let Err(reason) = become_default(store, &name, &mut record)
    {
        if !replaced {
            store.take_out(&name)?;
        }
        return Err(LoadError::Default { name, reason });
    }
    let default_before = record.default_before.filter(|_| options.make_default);
    let LoadRecord { algorithm, parameters, .. } = record;
    Ok(Loaded { name, algorithm, parameters, replaced, sockets_on_earlier, default_before })
}

/// Refuses an algorithm that would remember nothing.
fn check_memory(program: &Program, opened: &Opened) -> Result<(), LoadError> {
    let selected = &program.selected;
    let algorithm = selected.algorithm();
    let place = algorithm.params().iter().position(|param| param.name == "slow_start");
    let is_careful = place.is_some_and(|place| algorithm.params()[place].text(selected.values()[place]) == "careful");
    if is_careful && opened.has_memory() {
        return Ok(());
    }
    let name = algorithm.name().to_owned();
    Err(if place.is_some() { LoadError::NotCareful { name } } else { LoadError::NoMemory { name } })
}

/// Transfers what a new version does not inherit by itself: the permission to use it, and defaults that still point to
/// the old one.
fn hand_over(name: &str, allowed: io::Result<String>) -> Result<(), SystemError> {
    let wrong =
        |error: io::Error| SystemError::new(format!("make the new `{name}` the default where the earlier was"), error);
    // Only the first namespace has the list.
    if let Some(names) = allowed.ok().filter(|names| names.split_whitespace().any(|known| known == name)) {
        kernel::set_allowed(&names).map_err(wrong)?;
    }
    for namespace in namespaces::all().0 {
        let done = namespace.enter(|| match kernel::default_here()? {
            default if default == name => kernel::set_default_here(name),
            _ => Ok(()),
        });
        match done {
            // The namespace is gone, or not ours to change.
            Err(_) if !namespace.name.is_empty() => {}
            done => done.map_err(wrong)?,
        }
    }
    Ok(())
}

/// Records the previous default before changing it, so that `unload` can restore it after an interruption.
fn become_default(store: &Store, name: &str, record: &mut LoadRecord) -> Result<(), String> {
    let before = kernel::default_here().map_err(|error| error.to_string())?;
    if before != name {
        record.default_before = Some(before);
        store.write(name, record).map_err(|error| error.to_string())?;
        kernel::set_default_here(name).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The requested name, or the algorithm's own unless the kernel has an algorithm of that name.
fn choose_name(store: &Store, algorithm: &str, asked: Option<&str>) -> Result<String, LoadError> {
    let registered = kernel::registered()?;
    let taken = |name: &str| -> Result<bool, LoadError> {
        Ok(registered.iter().any(|known| known == name) && store.find(name)?.is_none())
    };
    let mut name = asked.unwrap_or(algorithm).to_owned();
    if asked.is_none() && taken(&name)? {
        name = beside_the_kernels(&name);
    }
    check_name(&name)?;
    if taken(&name)? {
        return Err(LoadError::NameOfTheKernel { name });
    }
    Ok(name)
}

fn check_name(name: &str) -> Result<(), LoadError> {
    let longest = NAME_BYTES - 1;
    let reason = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > longest {
        format!("it has {} characters; the kernel takes at most {longest}; give a shorter one with --as", name.len())
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') || name.starts_with('-') {
        "use letters, digits, _ and -".to_owned()
    } else {
        return Ok(());
    };
    Err(LoadError::BadName { name: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_or_a_path_cannot_take_is_refused() {
        for bad in ["", "sixteen_letters_", "a b", "../x", "a.b", "-a", "ü"] {
            assert!(matches!(check_name(bad), Err(LoadError::BadName { .. })), "{bad}");
        }
        for good in ["hybla", "p_westwood_plus", "my-cc2", "_"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
    }
}
