//! Loaded algorithms in the BPF file system: a folder per algorithm with its pinned link and a record.
//!
//! `/sys/fs/bpf/perigee/NAME/link` keeps the algorithm in the kernel; `record` is a map with one element, JSON that
//! describes it. Both are in one folder and vanish at a reboot. The link is pinned last: a folder without one is left
//! by an interrupted load, and [`Store::sweep`] removes it.
//!
//! Other users that can write in the BPF file system could have made any of it. So each folder is opened once, relative
//! to its parent's descriptor and without following links, and accepted only if it belongs to this user or root and
//! nobody else can write in it; its content is then reached through that descriptor only.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, MapType};
use rustix::fs::{
    fchmod, fstat, mkdirat, open, openat, statat, unlinkat, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat,
};
use rustix::io::Errno;
use rustix::mount::{mount, MountFlags};
use serde::{Deserialize, Serialize};

use crate::error::SystemError;
use crate::{kernel, lock};

/// Record of a loaded algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// The algorithm's own name.
    pub algorithm: String,
    /// Its parameters that differ from their defaults, as `key=value, ...`.
    pub parameters: String,
    /// `built in`, or the path of its C file.
    pub origin: String,
    /// SHA-256 of that C file.
    pub source_sha256: String,
    /// Time of the load, seconds since 1970.
    pub loaded_s: u64,
    /// The machine's default before this algorithm became it; `None` if it did not.
    pub default_before: Option<String>,
    /// Lengths of the prefixes of IPv4 and IPv6 by which its connections remember paths; `None` if they do not.
    #[serde(default)]
    pub remembers: Option<[u8; 2]>,
}

/// The folder of all loaded algorithms, locked against other processes through its descriptor.
pub(crate) struct Store {
    root: OwnedFd,
    folder: OwnedFd,
}

/// The open, trusted folder of one name.
pub(crate) struct Place {
    folder: OwnedFd,
    /// For messages.
    shown: String,
}

impl Store {
    /// Opens it for changes; mounts the BPF file system and creates the folder if necessary.
    pub(crate) fn open() -> Result<Self, SystemError> {
        if rustix::fs::statfs(ROOT).map(|found| found.f_type as u64) != Ok(BPF_FS_MAGIC) {
            let done =
                mount("bpf", ROOT, "bpf", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, c"mode=700");
            done.map_err(|error| SystemError::new(format!("mount the BPF file system at {ROOT}"), error))?;
        }
        let root = root()?;
        loop {
            match mkdirat(&root, NAME, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(SystemError::new(format!("make {FOLDER}"), error)),
            }
            if let Some(folder) = lock_in(&root, FlockOperation::NonBlockingLockExclusive)? {
                return Ok(Self { root, folder });
            }
        }
    }

    /// Opens it read-only; `None` if nothing was ever loaded.
    pub(crate) fn view() -> Result<Option<Self>, SystemError> {
        let root = root()?;
        let folder = lock_in(&root, FlockOperation::NonBlockingLockShared)?;
        Ok(folder.map(|folder| Self { root, folder }))
    }

    /// Names and records of all loaded algorithms, sorted by name.
    pub(crate) fn records(&self) -> Result<Vec<(String, LoadRecord)>, SystemError> {
        let mut records = Vec::new();
        for (name, place) in self.places()? {
            // Versions before this pinned rules, with a link but no record.
            if place.has(LINK) && place.has(RECORD) {
                records.push((name, place.record()?));
            }
        }
        Ok(records)
    }

    /// The record of a name.
    pub(crate) fn find(&self, name: &str) -> Result<Option<LoadRecord>, SystemError> {
        self.place(name)?.filter(|place| place.has(LINK)).map(|place| place.record()).transpose()
    }

    /// The link of a name.
    pub(crate) fn link(&self, name: &str) -> Result<Link, SystemError> {
        let place = self.known(name)?;
        Link::open(place.path(LINK)).map_err(|error| SystemError::new(format!("open {}/{LINK}", place.shown), error))
    }

    /// Pins the link, so that the algorithm outlives this process.
    pub(crate) fn keep(
        &self,
        name: &str,
        record: &LoadRecord,
        link: impl FnOnce(&Place) -> Result<Link, crate::LoadError>,
    ) -> Result<(), crate::LoadError> {
        let wrong =
            |what: &str, error: &dyn std::fmt::Display| SystemError::new(format!("{what} {FOLDER}/{name}"), error);
        mkdirat(&self.folder, name, Mode::RWXU).map_err(|error| wrong("make", &error))?;
        let kept = self.known(name).map_err(crate::LoadError::from).and_then(|place| {
            place.write(record)?;
            let mut link = link(&place)?;
            link.pin(place.path(LINK)).map_err(|error| wrong("pin the link in", &error))?;
            Ok(())
        });
        if kept.is_err() {
            self.remove(name)?;
        }
        kept
    }

    /// Replaces the record.
    pub(crate) fn write(&self, name: &str, record: &LoadRecord) -> Result<(), SystemError> {
        self.known(name)?.write(record)
    }

    /// Removes the pins of a name; the link lives on while other descriptors hold it.
    pub(crate) fn remove(&self, name: &str) -> Result<(), SystemError> {
        let wrong = |error: Errno| SystemError::new(format!("remove {FOLDER}/{name}"), error);
        let place = self.known(name)?;
        // The link first: without it, the rest is swept.
        place.unpin(LINK)?;
        for pin in names_in(&place.folder).map_err(wrong)? {
            place.unpin(&pin)?;
        }
        unlinkat(&self.folder, name, AtFlags::REMOVEDIR).map_err(wrong)
    }

    /// Unregisters an algorithm and removes its pins. Open sockets keep it.
    pub(crate) fn take_out(&self, name: &str) -> Result<(), SystemError> {
        // Detaching unregisters synchronously; removing the pin alone would leave it to the kernel's deferred work.
        self.link(name)?.detach().map_err(|error| SystemError::new(format!("detach `{name}`"), error))?;
        self.remove(name)
    }

    /// Removes leftovers of interrupted commands: folders without a link, and links without an algorithm, as that of the rules of
    /// versions before this. Folders that are not trusted stay.
    pub(crate) fn sweep(&self) -> Result<(), SystemError> {
        let registered = kernel::registered()?;
        for (name, place) in self.places()? {
            if !place.has(LINK) || !registered.contains(&name) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Removes the folder if nothing is loaded.
    pub(crate) fn close(self) {
        // It is not empty, or already gone.
        let _ = unlinkat(&self.root, NAME, AtFlags::REMOVEDIR);
    }

    /// The trusted folders of algorithms in it, sorted by name.
    pub(crate) fn places(&self) -> Result<Vec<(String, Place)>, SystemError> {
        let wrong = |error| SystemError::new(format!("list {FOLDER}"), error);
        let mut names = names_in(&self.folder).map_err(wrong)?;
        names.sort();
        let places = names.into_iter().map(|name| Ok(self.place(&name)?.map(|place| (name, place))));
        places.filter_map(Result::transpose).collect()
    }

    /// The folder of a name; `None` if there is no trusted one.
    pub(crate) fn place(&self, name: &str) -> Result<Option<Place>, SystemError> {
        if matches!(name, "" | "." | "..") || name.contains('/') {
            return Ok(None);
        }
        let shown = format!("{FOLDER}/{name}");
        let folder = match openat(&self.folder, name, FOLDER_FLAGS, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(SystemError::new(format!("open {shown}"), error)),
        };
        let found = fstat(&folder).map_err(|error| SystemError::new(format!("open {shown}"), error))?;
        let ours = belongs_to_us(&found) && !Mode::from_raw_mode(found.st_mode).intersects(WRITABLE_BY_OTHERS);
        Ok(ours.then_some(Place { folder, shown }))
    }

    pub(crate) fn known(&self, name: &str) -> Result<Place, SystemError> {
        let gone = || SystemError::new(format!("open {FOLDER}/{name}"), "it is not there, or is not a folder of ours");
        self.place(name)?.ok_or_else(gone)
    }
}

impl Place {
    /// Whether a trusted pin of that name exists.
    pub(crate) fn has(&self, pin: &str) -> bool {
        let found = statat(&self.folder, pin, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file() && belongs_to_us(&found))
    }

    /// A path through the descriptor, for libbpf, which takes no descriptors.
    pub(crate) fn path(&self, pin: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{}", self.folder.as_raw_fd(), pin))
    }

    /// Removes a pin, if there is one.
    pub(crate) fn unpin(&self, pin: &str) -> Result<(), SystemError> {
        match unlinkat(&self.folder, pin, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(SystemError::new(format!("remove {}/{pin}", self.shown), error)),
        }
    }

    /// An error in doing something with a pin.
    pub(crate) fn wrong(&self, doing: &str, pin: &str, error: impl std::fmt::Display) -> SystemError {
        SystemError::new(format!("{doing} {}/{pin}", self.shown), error)
    }

    fn record(&self) -> Result<LoadRecord, SystemError> {
        let doing = || format!("read {}/record", self.shown);
        let map = MapHandle::from_pinned_path(self.path(RECORD)).map_err(|error| SystemError::new(doing(), error))?;
        let value =
            map.lookup(&FIRST, MapFlags::ANY).map_err(|error| SystemError::new(doing(), error))?.unwrap_or_default();
        let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        serde_json::from_slice(&value[..end]).map_err(|error| SystemError::new(doing(), error))
    }

    fn write(&self, record: &LoadRecord) -> Result<(), SystemError> {
        let doing = || format!("write {}/record", self.shown);
        let wrong = |error: libbpf_rs::Error| SystemError::new(doing(), error);
        let map = if self.has(RECORD) {
            MapHandle::from_pinned_path(self.path(RECORD)).map_err(wrong)?
        } else {
            let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
                sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
                ..Default::default()
            };
            let made = MapHandle::create(MapType::Array, Some("perigee_record"), 4, RECORD_BYTES as u32, 1, &options);
            let mut map = made.map_err(wrong)?;
            map.pin(self.path(RECORD)).map_err(wrong)?;
            map
        };
        let mut value = serde_json::to_vec(record).map_err(|error| SystemError::new(doing(), error))?;
        if value.len() > RECORD_BYTES {
            let error = io::Error::other("the text of its parameters and origin is too long");
            return Err(SystemError::new(doing(), error));
        }
        value.resize(RECORD_BYTES, 0);
        map.update(&FIRST, &value, MapFlags::ANY).map_err(wrong)
    }
}

/// The names in a folder.
fn names_in(folder: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        names.extend(entry.file_name().to_str().ok().filter(|name| !matches!(*name, "." | "..")).map(str::to_owned));
    }
    Ok(names)
}

/// The name of an algorithm that shares its name with one of the kernel.
pub(crate) fn beside_the_kernels(algorithm: &str) -> String {
    format!("p_{algorithm}")
}

/// The root of the BPF file system, where only its owner can replace our folder.
fn root() -> Result<OwnedFd, SystemError> {
    let wrong = |error: Errno| SystemError::new(format!("open {ROOT}"), error);
    let root = open(ROOT, FOLDER_FLAGS | OFlags::PATH, Mode::empty()).map_err(wrong)?;
    let found = fstat(&root).map_err(wrong)?;
    let mode = Mode::from_raw_mode(found.st_mode);
    if !belongs_to_us(&found) || (mode.intersects(WRITABLE_BY_OTHERS) && !mode.contains(Mode::SVTX)) {
        let reason = "others may rename what is in it; mount it with mode=1777 or less";
        return Err(SystemError::new(format!("trust {ROOT}"), reason));
    }
    Ok(root)
}

/// Our folder, locked; `None` if it does not exist, or the previous holder of the lock removed it.
fn lock_in(root: &OwnedFd, operation: FlockOperation) -> Result<Option<OwnedFd>, SystemError> {
    let wrong = |error: Errno| SystemError::new(format!("open {FOLDER}"), error);
    let folder = match openat(root, NAME, FOLDER_FLAGS, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(foreign("is no folder")),
        Err(error) => return Err(wrong(error)),
    };
    let found = fstat(&folder).map_err(wrong)?;
    if !belongs_to_us(&found) {
        return Err(foreign(&format!("belongs to user {}", found.st_uid)));
    }
    if Mode::from_raw_mode(found.st_mode).intersects(WRITABLE_BY_OTHERS) {
        return Err(foreign("can be written by others"));
    }
    // An earlier version made it: a user who can open it could also lock it.
    if operation == FlockOperation::NonBlockingLockExclusive {
        fchmod(&folder, Mode::RWXU).map_err(wrong)?;
    }
    lock::take(&folder, operation, FOLDER)?;
    let removed = fstat(&folder).map_err(wrong)?.st_nlink < 2;
    Ok((!removed).then_some(folder))
}

/// Whether it belongs to root or to this user.
fn belongs_to_us(found: &Stat) -> bool {
    found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw()
}

fn foreign(what: &str) -> SystemError {
    let fix = "perigee did not make it so: look at what is in it, move it away, and try again";
    SystemError::new(format!("trust {FOLDER}"), format!("it {what}; {fix}"))
}

const ROOT: &str = "/sys/fs/bpf";
const NAME: &str = "perigee";
/// Where the links of loaded algorithms are pinned.
pub(crate) const FOLDER: &str = "/sys/fs/bpf/perigee";
pub(crate) const LINK: &str = "link";
/// The memory of paths of an algorithm.
pub(crate) const MEMORY: &str = "memory";
const RECORD: &str = "record";
const RECORD_BYTES: usize = 4096;
const FIRST: [u8; 4] = [0; 4];
const FOLDER_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const WRITABLE_BY_OTHERS: Mode = Mode::WGRP.union(Mode::WOTH);
/// `linux/magic.h`.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
