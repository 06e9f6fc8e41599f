//! The network namespaces of the machine.
//!
//! Found are those that a process is in and those that `ip netns` named. One that nothing but an open descriptor keeps
//! alive is not found.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{io, thread};

use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};

/// A network namespace, held open.
pub(crate) struct Namespace {
    /// What to call it: empty for the one we are in, the name that `ip netns` gave it, or a process in it.
    pub(crate) name: String,
    file: File,
}

impl Namespace {
    /// Does something in it, in a thread of its own: a thread that has moved does not come back.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let here = self.name.is_empty();
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                if !here {
                    move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
                }
                work()
            });
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
        })
    }
}

/// Every namespace there is, ours first, and how many processes may not be looked into.
pub(crate) fn all() -> (Vec<Namespace>, usize) {
    let mut found = BTreeMap::new();
    let mut unseen = 0;
    let mut add = |name: String, path: PathBuf| {
        // By device and inode. The first name is kept.
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((data, file)) => {
                let order = found.len();
                found.entry((data.st_dev(), data.st_ino())).or_insert((order, Namespace { name, file }));
            }
            // A process that has ended meanwhile, or one of the kernel's.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {}
            Err(_) => unseen += 1,
        }
    };
    add(String::new(), "/proc/thread-self/ns/net".into());
    for entry in listing("/run/netns") {
        let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        add(name, entry);
    }
    for process in listing("/proc") {
        let Some(pid) = process.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()) else { continue };
        add(format!("of process {pid}"), process.join("ns/net"));
    }
    let mut namespaces: Vec<_> = found.into_values().collect();
    namespaces.sort_by_key(|(order, _)| *order);
    (namespaces.into_iter().map(|(_, namespace)| namespace).collect(), unseen)
}

fn listing(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_namespace_comes_first_and_only_once() {
        let (namespaces, _) = all();
        let ours = namespaces.iter().filter(|namespace| namespace.name.is_empty()).count();
        assert!(ours == 1 && namespaces[0].name.is_empty());
        let own = namespaces[0].enter(|| fs::read_link("/proc/thread-self/ns/net")).unwrap();
        assert_eq!(own, fs::read_link("/proc/thread-self/ns/net").unwrap());
    }
}
