//! Rules: which congestion control the connections of a cgroup, to a prefix or over an interface begin with.
//!
//! One program for the whole machine chooses by a map of rules, `bpf/selection.c`. Map and program are pinned beside the
//! loaded algorithms, the program last: a map without it is left by an interrupted command, and is removed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use rustix::net::{netdevice::name_to_index, socket, AddressFamily, SocketType};
use serde::Serialize;

use crate::error::{RuleError, SystemError};
use crate::object::NAME_BYTES;
use crate::prefix::Prefix;
use crate::selection::{name_field, Selection};
use crate::store::{Place, Store, LINK, RULES};
use crate::{kernel, namespaces, requirements};

/// Conditions of a rule: it applies to connections that meet all of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// Prefix of the peer's address.
    pub to: Option<&'a str>,
    /// A cgroup: its path below the root of cgroups, or in the file system. Those below it are included.
    pub cgroup: Option<&'a str>,
    /// An interface of the calling thread's network namespace that the route to the peer leads over.
    pub interface: Option<&'a str>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its number, by which it is removed.
    pub number: u32,
    /// The name of the congestion control.
    pub cc: String,
    /// Prefix of the peer's address; `None`: any.
    pub to: Option<String>,
    /// Path of the cgroup below the root of cgroups; `None`: any.
    pub cgroup: Option<String>,
    /// The interface; `None`: any.
    pub interface: Option<String>,
    /// The network namespace of the interface: empty for the current one, the name of `ip netns`, a process in it, or `?`
    /// if it cannot be found.
    pub namespace: Option<String>,
    /// Connections that it has chosen for.
    pub connections: u64,
    /// Whether the kernel has the congestion control; without it, the rule does nothing.
    pub is_in_kernel: bool,
}

/// Result of adding a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its number.
    pub number: u32,
    /// The choice of a former rule with the same conditions, which this one replaced.
    pub replaced: Option<String>,
    /// The cgroup or interface that is not there now; the rule waits for it.
    pub absent: Vec<String>,
}

/// Which rules to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The rule of this number.
    Number(u32),
    /// All.
    All,
}

/// Adds a rule: new connections that meet the conditions begin with the congestion control `cc`, unless their program or
/// their route chooses another. It outlives the process.
///
/// # Errors
/// If the machine lacks a requirement, the kernel has no such congestion control, or a condition is wrong. Nothing is
/// changed then.
pub fn add_rule(cc: &str, conditions: Conditions<'_>) -> Result<Added, RuleError> {
    let wanted = Wanted::read(conditions)?;
    requirements::check()?;
    let known = kernel::registered()?;
    if !known.iter().any(|name| name == cc) {
        return Err(RuleError::UnknownAlgorithm { name: cc.to_owned(), known: known.join(", ") });
    }
    let store = Store::open()?;
    let added = store.sweep().map_err(RuleError::from).and_then(|()| add_into(&store, cc, &wanted));
    let tidied = store.tidy();
    store.close();
    let (number, replaced) = added?;
    tidied?;
    Ok(Added { number, replaced, absent: wanted.absent })
}

/// Removes rules; returns those that were removed. Connections keep what the rules chose for them.
///
/// # Errors
/// If there is no such rule, or the machine lacks a requirement.
pub fn remove_rules(which: Which) -> Result<Vec<Rule>, RuleError> {
    requirements::check_process()?;
    let number = match which {
        Which::Number(number) => Some(number),
        Which::All => None,
    };
    let Some(view) = Store::view()? else { return none_removed(number, &[]) };
    drop(view);
    let store = Store::open()?;
    let removed = store.sweep().map_err(RuleError::from).and_then(|()| {
        let rules = list(&store)?;
        let removed = remove_where(&store, |rule| number.is_none_or(|number| rule.number == number))?;
        if removed.is_empty() {
            return none_removed(number, &rules);
        }
        Ok(removed)
    });
    store.close();
    removed
}

fn none_removed(number: Option<u32>, rules: &[Rule]) -> Result<Vec<Rule>, RuleError> {
    let Some(number) = number else { return Ok(Vec::new()) };
    let numbers: Vec<_> = rules.iter().map(|rule| rule.number.to_string()).collect();
    Err(RuleError::NoRule { number, numbers: numbers.join(", ") })
}

/// The rules by number, read without changing anything.
///
/// # Errors
/// If they cannot be read, which needs root.
pub fn rules() -> Result<Vec<Rule>, crate::StatusError> {
    let Some(store) = Store::view()? else { return Ok(Vec::new()) };
    Ok(list(&store)?)
}

pub(crate) fn list(store: &Store) -> Result<Vec<Rule>, SystemError> {
    let Some((shared, map)) = opened(store)? else { return Ok(Vec::new()) };
    let mut stored = read(&shared, &map)?;
    stored.sort_by_key(|stored| stored.number);
    let registered = kernel::registered()?;
    let labels = if stored.iter().any(|stored| stored.netns != 0) { labels() } else { BTreeMap::new() };
    let shown = |stored: Stored| Rule {
        number: stored.number,
        to: stored.to.map(|prefix| prefix.to_string()),
        namespace: stored.interface.as_ref().map(|_| labels.get(&stored.netns).map_or("?", String::as_str).to_owned()),
        is_in_kernel: registered.contains(&stored.cc),
        cc: stored.cc,
        cgroup: stored.cgroup,
        interface: stored.interface,
        connections: stored.connections,
    };
    Ok(stored.into_iter().map(shown).collect())
}

/// Removes the rules that are `meant`, and the program if none is left.
pub(crate) fn remove_where(store: &Store, meant: impl Fn(&Rule) -> bool) -> Result<Vec<Rule>, SystemError> {
    let mut removed = list(store)?;
    removed.retain(meant);
    let Some((shared, map)) = opened(store)? else { return Ok(removed) };
    let stored = read(&shared, &map)?;
    for rule in stored.iter().filter(|rule| removed.iter().any(|removed| removed.number == rule.number)) {
        map.delete(&rule.key).map_err(|error| shared.wrong("remove a rule in", RULES, error))?;
    }
    if stored.len() == removed.len() {
        let link = Link::open(shared.path(LINK)).map_err(|error| shared.wrong("open", LINK, error))?;
        link.detach().map_err(|error| shared.wrong("detach", LINK, error))?;
        shared.unpin(LINK)?;
        store.tidy()?;
    }
    Ok(removed)
}

fn add_into(store: &Store, cc: &str, wanted: &Wanted) -> Result<(u32, Option<String>), RuleError> {
    if let Some((shared, map)) = opened(store)? {
        let there = read(&shared, &map)?;
        let earlier = there.iter().find(|stored| stored.key == wanted.key);
        let next = there.iter().map(|stored| stored.number).max().unwrap_or(0) + 1;
        let number = earlier.map_or(next, |earlier| earlier.number);
        write(&shared, &map, wanted, number, cc)?;
        return Ok((number, earlier.map(|earlier| earlier.cc.clone())));
    }
    let shared = store.make_shared()?;
    let mut selection = Selection::load(&shared)?;
    let root = File::open(cgroups()?).map_err(|error| SystemError::new("open the root of cgroups", error))?;
    let mut link = selection.choose(&shared, &root)?;
    let map = open(&shared)?;
    write(&shared, &map, wanted, 1, cc)?;
    link.pin(shared.path(LINK)).map_err(|error| shared.wrong("pin", LINK, error))?;
    Ok((1, None))
}

/// The rules that are at work.
fn opened(store: &Store) -> Result<Option<(Place, MapHandle)>, SystemError> {
    let Some(shared) = store.shared()?.filter(|shared| shared.has(LINK)) else { return Ok(None) };
    let map = open(&shared)?;
    Ok(Some((shared, map)))
}

fn open(shared: &Place) -> Result<MapHandle, SystemError> {
    MapHandle::from_pinned_path(shared.path(RULES)).map_err(|error| shared.wrong("open", RULES, error))
}

/// A rule as the map has it.
struct Stored {
    key: Vec<u8>,
    number: u32,
    connections: u64,
    cc: String,
    to: Option<Prefix>,
    netns: u64,
    interface: Option<String>,
    cgroup: Option<String>,
}

fn read(shared: &Place, map: &MapHandle) -> Result<Vec<Stored>, SystemError> {
    let mut stored = Vec::new();
    for key in map.keys() {
        let value = map.lookup(&key, MapFlags::ANY).map_err(|error| shared.wrong("read", RULES, error))?;
        stored.extend(value.and_then(|value| Stored::read(key, &value)));
    }
    Ok(stored)
}

impl Stored {
    /// Reads a `struct key` and a `struct rule`.
    fn read(key: Vec<u8>, value: &[u8]) -> Option<Self> {
        let bits = u32::from_ne_bytes(*key.first_chunk()?).checked_sub(SCOPE_BITS)?;
        let to = Prefix::new(*key.get(40..)?.first_chunk()?, u8::try_from(bits).ok()?);
        let cgroup = text(value.get(32..)?);
        Some(Self {
            number: u32::from_ne_bytes(*value.get(8..)?.first_chunk()?),
            connections: u64::from_ne_bytes(*value.first_chunk()?),
            cc: text(value.get(16..32)?),
            to: Some(to).filter(|to| *to != Prefix::ALL),
            netns: u64::from_ne_bytes(*key.get(8..)?.first_chunk()?),
            interface: Some(text(key.get(24..40)?)).filter(|name| !name.is_empty()),
            cgroup: Some(cgroup).filter(|path| !path.is_empty()),
            key,
        })
    }
}

fn write(shared: &Place, map: &MapHandle, wanted: &Wanted, number: u32, cc: &str) -> Result<(), SystemError> {
    let mut value = Vec::with_capacity(RULE_BYTES);
    value.extend([0; 8]);
    value.extend(number.to_ne_bytes());
    value.extend(wanted.bits.to_ne_bytes());
    value.extend(name_field(cc));
    value.extend(wanted.cgroup.as_bytes());
    value.resize(RULE_BYTES, 0);
    map.update(&wanted.key, &value, MapFlags::ANY).map_err(|error| shared.wrong("write a rule into", RULES, error))
}

/// Conditions that were read.
struct Wanted {
    /// A `struct key`.
    key: Vec<u8>,
    bits: u32,
    cgroup: String,
    absent: Vec<String>,
}

impl Wanted {
    fn read(conditions: Conditions<'_>) -> Result<Self, RuleError> {
        let Conditions { to, cgroup, interface } = conditions;
        if to.is_none() && cgroup.is_none() && interface.is_none() {
            return Err(RuleError::Condition(
                "a rule needs a condition: --to PREFIX, --cgroup PATH or --interface NAME; for all new connections of the \
                 machine, `perigee cc load NAME --default`"
                    .to_owned(),
            ));
        }
        let to = to.map_or(Ok(Prefix::ALL), str::parse)?;
        let mut absent = Vec::new();
        let mut netns = 0;
        if let Some(name) = interface {
            check_interface(name)?;
            let wrong = |error: io::Error| SystemError::new("ask for this network namespace", error);
            let asked = socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(|error| wrong(error.into()))?;
            netns = cookie_here().map_err(wrong)?;
            if name_to_index(&asked, name).is_err() {
                absent.push(format!("interface {name}"));
            }
        }
        let mut path = String::new();
        if let Some(given) = cgroup {
            let root = cgroups()?;
            path = cgroup_path(given, &root)?;
            if !root.join(&path[1..]).is_dir() {
                absent.push(format!("cgroup {path}"));
            }
        }
        let mut key = Vec::with_capacity(KEY_BYTES);
        key.extend((SCOPE_BITS + u32::from(to.bits)).to_ne_bytes());
        key.extend([0; 4]);
        key.extend(netns.to_ne_bytes());
        key.extend(hash(&path).to_ne_bytes());
        key.extend(name_field(interface.unwrap_or_default()));
        key.extend(to.address);
        Ok(Self { key, bits: to.bits.into(), cgroup: path, absent })
    }
}

fn check_interface(name: &str) -> Result<(), RuleError> {
    let wrong = name.is_empty() || name.len() >= NAME_BYTES || name.contains(|c: char| c == '/' || c.is_whitespace());
    if wrong {
        let longest = NAME_BYTES - 1;
        let said =
            format!("`{name}` cannot name an interface: give 1 to {longest} characters, as `ip link` shows them");
        return Err(RuleError::Condition(said));
    }
    Ok(())
}

/// The path of a cgroup below the root of cgroups: `/system.slice/nginx.service`.
fn cgroup_path(given: &str, root: &Path) -> Result<String, RuleError> {
    let wrong = |reason: &str| Err(RuleError::Condition(format!("`{given}` is no path of a cgroup: {reason}")));
    let below = Path::new(given).strip_prefix(root).unwrap_or(Path::new(given.trim_start_matches('/')));
    let parts: Option<Vec<_>> = below.components().map(|part| part.as_os_str().to_str()).collect();
    let parts = parts.unwrap_or_default();
    if parts.is_empty() {
        return wrong("all sockets are below the root; leave --cgroup out");
    }
    if parts.contains(&"..") {
        return wrong("write it without `..`");
    }
    if parts.len() > MAX_DEPTH {
        return wrong(&format!("rules reach {MAX_DEPTH} levels deep"));
    }
    let path = format!("/{}", parts.join("/"));
    if path.len() >= CGROUP_TEXT {
        return wrong(&format!("rules take at most {} characters", CGROUP_TEXT - 1));
    }
    Ok(path)
}

/// The hash of a cgroup's path, as `bpf/selection.c` makes it: FNV-1a over words of eight bytes, each name filled up with
/// zeros. 0 without a path.
fn hash(path: &str) -> u64 {
    let mut hash = if path.is_empty() { 0 } else { HASH_BASIS };
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let mut field = [0; CGROUP_TEXT];
        field[..name.len()].copy_from_slice(name.as_bytes());
        for word in field.chunks_exact(8) {
            let word = word.try_into().map_or(0, u64::from_ne_bytes);
            hash = (hash ^ word).wrapping_mul(HASH_PRIME);
        }
    }
    hash
}

/// Where cgroups of the second version are mounted.
fn cgroups() -> Result<PathBuf, SystemError> {
    let path = "/proc/self/mountinfo";
    let mounts = fs::read_to_string(path).map_err(|error| SystemError::new(format!("read {path}"), error))?;
    let found = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ").then(|| mount.split(' ').nth(4))?
    });
    let missing = || SystemError::new("find the cgroups", "no cgroup2 is mounted; mount one at /sys/fs/cgroup");
    Ok(found.ok_or_else(missing)?.into())
}

/// The number of the calling thread's network namespace, which no other gets.
fn cookie_here() -> io::Result<u64> {
    let asked = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `cookie`, and the length into `length`.
    let code = unsafe {
        libc::getsockopt(
            asked.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if code < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(cookie)
}

/// The labels of network namespaces, by their numbers.
fn labels() -> BTreeMap<u64, String> {
    let all = namespaces::all().0.into_iter();
    all.filter_map(|namespace| Some((namespace.enter(cookie_here).ok()?, namespace.name))).collect()
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// Bytes of a `struct key` and of a `struct rule`, and the bits of a key before its address.
const KEY_BYTES: usize = 56;
const RULE_BYTES: usize = 32 + CGROUP_TEXT;
const SCOPE_BITS: u32 = 288;
const CGROUP_TEXT: usize = 256;
const MAX_DEPTH: usize = 16;
const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x100_0000_01b3;
/// `asm-generic/socket.h`.
const SO_NETNS_COOKIE: libc::c_int = 71;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_named_from_its_root_or_by_its_folder() {
        let root = Path::new("/sys/fs/cgroup");
        for given in ["system.slice/a.service", "/system.slice/a.service/", "/sys/fs/cgroup/system.slice/a.service"] {
            assert_eq!(cgroup_path(given, root).unwrap(), "/system.slice/a.service", "{given}");
        }
        let (deep, long) = ("a/".repeat(17), "a".repeat(255));
        for (given, part) in [
            ("", "leave --cgroup out"),
            ("/", "leave --cgroup out"),
            ("/sys/fs/cgroup", "leave --cgroup out"),
            ("/a/../b", "without `..`"),
            (deep.as_str(), "16 levels"),
            (long.as_str(), "255 characters"),
        ] {
            let said = cgroup_path(given, root).unwrap_err().to_string();
            assert!(said.contains(part), "{given}: {said}");
        }
    }

    #[test]
    fn hashes_of_different_paths_differ_and_depend_on_the_order_of_names() {
        let paths = ["", "/a", "/b", "/a/b", "/b/a", "/ab", "/a/b/c"];
        let hashes: std::collections::BTreeSet<_> = paths.iter().map(|path| hash(path)).collect();
        assert_eq!((hashes.len(), hash("")), (paths.len(), 0));
    }

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        let to = "192.0.2.0/24".parse::<Prefix>().unwrap();
        let mut key = (SCOPE_BITS + u32::from(to.bits)).to_ne_bytes().to_vec();
        key.extend([0; 4]);
        key.extend(77u64.to_ne_bytes());
        key.extend(hash("/a").to_ne_bytes());
        key.extend(name_field("wan0"));
        key.extend(to.address);
        assert_eq!(key.len(), KEY_BYTES);
        let mut value = 5u64.to_ne_bytes().to_vec();
        value.extend(3u32.to_ne_bytes());
        value.extend(u32::from(to.bits).to_ne_bytes());
        value.extend(name_field("hybla"));
        value.extend(b"/a");
        value.resize(RULE_BYTES, 0);
        let stored = Stored::read(key.clone(), &value).unwrap();
        assert_eq!((stored.number, stored.connections, &*stored.cc, stored.netns), (3, 5, "hybla", 77));
        assert_eq!(stored.to, Some(to));
        assert_eq!((stored.interface.as_deref(), stored.cgroup.as_deref()), (Some("wan0"), Some("/a")));
        assert!(Stored::read(key[..KEY_BYTES - 1].to_vec(), &value).is_none());
        assert!(Stored::read(key, &value[..31]).is_none());
    }

    #[test]
    fn a_rule_without_a_condition_or_with_a_wrong_one_is_refused() {
        for (conditions, part) in [
            (Conditions::default(), "needs a condition"),
            (Conditions { to: Some("10.0.0.0/99"), ..Conditions::default() }, "from 0 to 32"),
            (Conditions { interface: Some("a name that is long"), ..Conditions::default() }, "1 to 15 characters"),
        ] {
            let error = add_rule("reno", conditions).unwrap_err();
            assert!(error.is_wrong_input() && error.to_string().contains(part), "{error}");
        }
    }
}
