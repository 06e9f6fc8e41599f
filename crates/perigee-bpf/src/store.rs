//! What is loaded, kept in the BPF file system: a folder per algorithm with its pinned link and a record.
//!
//! `/sys/fs/bpf/perigee/NAME/link` holds the algorithm in the kernel; `record` is a map with one element, JSON that says
//! what it is. Both go with the machine, and neither can be there without the other's folder. The link is pinned last:
//! a folder without one is what a load left that did not come to its end, and [`Store::sweep`] removes it.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, MapType};
use rustix::fs::{flock, FlockOperation};
use rustix::mount::{mount, MountFlags};
use serde::{Deserialize, Serialize};

use crate::error::SystemError;
use crate::kernel;

/// What was loaded under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The algorithm's own name.
    pub algorithm: String,
    /// Its parameters that differ from their defaults, as `key=value, ...`.
    pub parameters: String,
    /// `built in`, or the C file it was compiled from.
    pub origin: String,
    /// SHA-256 of that C file.
    pub source_sha256: String,
    /// When, in seconds since 1970.
    pub loaded_s: u64,
    /// The machine's default before this one was made it; `None`: it was not made the default.
    pub default_before: Option<String>,
}

/// The folder of everything that is loaded, locked against other processes.
pub(crate) struct Store {
    folder: &'static Path,
    _lock: OwnedFd,
}

impl Store {
    /// Opens it to change it, mounting the BPF file system and making the folder where that was not done yet.
    pub(crate) fn open() -> Result<Self, SystemError> {
        if rustix::fs::statfs(ROOT).map(|found| found.f_type as u64) != Ok(BPF_FS_MAGIC) {
            let done =
                mount("bpf", ROOT, "bpf", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, c"mode=700");
            done.map_err(|error| SystemError::new(format!("mount the BPF file system at {ROOT}"), error))?;
        }
        loop {
            match fs::create_dir(FOLDER) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(SystemError::new(format!("make {FOLDER}"), error));
                }
                _ => {}
            }
            if let Some(store) = Self::lock(FlockOperation::LockExclusive)? {
                return Ok(store);
            }
        }
    }

    /// Opens it to look at it. `None`: nothing was ever loaded.
    pub(crate) fn view() -> Result<Option<Self>, SystemError> {
        Self::lock(FlockOperation::LockShared)
    }

    /// `None`: the folder is not there, or was removed by whoever had the lock.
    fn lock(operation: FlockOperation) -> Result<Option<Self>, SystemError> {
        let wrong = |error: io::Error| SystemError::new(format!("lock {FOLDER}"), error);
        let folder = match File::open(FOLDER) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(error)),
        };
        flock(&folder, operation).map_err(|error| wrong(error.into()))?;
        let removed = folder.metadata().map_err(wrong)?.nlink() < 2;
        Ok((!removed).then(|| Self { folder: Path::new(FOLDER), _lock: folder.into() }))
    }

    /// What is loaded, by name, in order.
    pub(crate) fn records(&self) -> Result<Vec<(String, Record)>, SystemError> {
        let names = self.names()?.into_iter().filter(|name| self.path(name).join(LINK).exists());
        names.map(|name| Ok((name.clone(), self.record(&name)?))).collect()
    }

    /// What is loaded under this name.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Record>, SystemError> {
        if self.path(name).join(LINK).exists() {
            self.record(name).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The link of what is loaded under this name.
    pub(crate) fn link(&self, name: &str) -> Result<Link, SystemError> {
        let path = self.path(name).join(LINK);
        Link::open(&path).map_err(|error| SystemError::new(format!("open {}", path.display()), error))
    }

    /// Keeps the link, and with it the algorithm, beyond the end of this process.
    pub(crate) fn keep(
        &self,
        name: &str,
        record: &Record,
        link: impl FnOnce() -> Result<Link, crate::ObjectError>,
    ) -> Result<(), crate::LoadError> {
        let folder = self.path(name);
        let doing = |what: &str| format!("{what} {}", folder.display());
        fs::create_dir(&folder).map_err(|error| SystemError::new(doing("make"), error))?;
        let kept = self.write(name, record).map_err(crate::LoadError::from).and_then(|()| {
            let mut link = link()?;
            link.pin(folder.join(LINK)).map_err(|error| SystemError::new(doing("pin the link in"), error))?;
            Ok(())
        });
        if kept.is_err() {
            self.remove(name)?;
        }
        kept
    }

    /// Writes the record anew.
    pub(crate) fn write(&self, name: &str, record: &Record) -> Result<(), SystemError> {
        let path = self.path(name).join(RECORD);
        let wrong = |error: libbpf_rs::Error| SystemError::new(format!("write {}", path.display()), error);
        let map = if path.exists() {
            MapHandle::from_pinned_path(&path).map_err(wrong)?
        } else {
            let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
                sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
                ..Default::default()
            };
            let made = MapHandle::create(MapType::Array, Some("perigee_record"), 4, RECORD_BYTES as u32, 1, &options);
            let mut map = made.map_err(wrong)?;
            map.pin(&path).map_err(wrong)?;
            map
        };
        let mut value = serde_json::to_vec(record).map_err(|error| SystemError::new("write a record", error))?;
        if value.len() > RECORD_BYTES {
            let error = io::Error::other("the text of its parameters and origin is too long");
            return Err(SystemError::new(format!("write {}", path.display()), error));
        }
        value.resize(RECORD_BYTES, 0);
        map.update(&FIRST, &value, MapFlags::ANY).map_err(wrong)
    }

    /// Removes a name's pins; what its link held is then up to whoever else holds it.
    pub(crate) fn remove(&self, name: &str) -> Result<(), SystemError> {
        let folder = self.path(name);
        let wrong = |error: io::Error| SystemError::new(format!("remove {}", folder.display()), error);
        for pin in [folder.join(LINK), folder.join(RECORD)] {
            match fs::remove_file(pin) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(error)),
                _ => {}
            }
        }
        fs::remove_dir(&folder).map_err(wrong)
    }

    /// Removes what interrupted commands left: folders without a link, and links that hold nothing any more.
    pub(crate) fn sweep(&self) -> Result<(), SystemError> {
        let registered = kernel::registered()?;
        for name in self.names()? {
            if !self.path(&name).join(LINK).exists() || !registered.contains(&name) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Leaves nothing behind where nothing is loaded.
    pub(crate) fn close(self) {
        // It is not empty, then, or gone already.
        let _ = fs::remove_dir(self.folder);
    }

    fn record(&self, name: &str) -> Result<Record, SystemError> {
        let path = self.path(name).join(RECORD);
        let doing = || format!("read {}", path.display());
        let map = MapHandle::from_pinned_path(&path).map_err(|error| SystemError::new(doing(), error))?;
        let value =
            map.lookup(&FIRST, MapFlags::ANY).map_err(|error| SystemError::new(doing(), error))?.unwrap_or_default();
        let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        serde_json::from_slice(&value[..end]).map_err(|error| SystemError::new(doing(), error))
    }

    fn names(&self) -> Result<Vec<String>, SystemError> {
        let wrong = |error| SystemError::new(format!("list {FOLDER}"), error);
        let entries = fs::read_dir(self.folder).map_err(wrong)?.collect::<io::Result<Vec<_>>>().map_err(wrong)?;
        let mut names: Vec<_> = entries.iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

const ROOT: &str = "/sys/fs/bpf";
/// Where the links of loaded algorithms are.
pub(crate) const FOLDER: &str = "/sys/fs/bpf/perigee";
const LINK: &str = "link";
const RECORD: &str = "record";
const RECORD_BYTES: usize = 4096;
const FIRST: [u8; 4] = [0; 4];
/// `linux/magic.h`.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
