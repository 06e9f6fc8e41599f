//! The network namespaces of the machine.
//!
//! They are found through processes and through the names of `ip netns`. A namespace that only an open descriptor keeps
//! alive is not found.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::{self, Builder};

use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};

/// An open network namespace.
pub(crate) struct Namespace {
    /// Its label: empty for the current one, the name of `ip netns`, or a process in it.
    pub(crate) name: String,
    file: File,
}

impl Namespace {
    /// Runs a function in the namespace, in a thread of its own, since a thread that moved does not return.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let here = self.name.is_empty();
        thread::scope(|scope| {
            let thread = Builder::new().spawn_scoped(scope, move || {
                if !here {
                    move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
                }
                work()
            })?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
        })
    }
}

/// All namespaces, the current one first, and the number of processes that may not be inspected.
pub(crate) fn all() -> (Vec<Namespace>, usize) {
    let mut found = BTreeMap::new();
    let mut unseen = 0;
    let mut device = None;
    let mut add = |name: String, path: PathBuf| {
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            // `ip netns` makes an ordinary file before it mounts a namespace there, and unmounts that before it removes the file.
            Ok((data, _)) if *device.get_or_insert(data.st_dev()) != data.st_dev() => {}
            // The first label is kept.
            Ok((data, file)) => {
                let order = found.len();
                found.entry(data.st_ino()).or_insert((order, Namespace { name, file }));
            }
            // The process has ended, or is a kernel thread.
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

    #[test]
    fn a_name_without_a_namespace_is_left_out() {
        let path = Path::new("/run/netns").join(format!("perigee-nothing-{}", std::process::id()));
        if fs::create_dir_all("/run/netns").and_then(|()| fs::write(&path, "")).is_err() {
            println!("skipped: names of namespaces need root");
            return;
        }
        let (namespaces, _) = all();
        fs::remove_file(&path).unwrap();
        assert!(namespaces.iter().all(|namespace| !namespace.name.starts_with("perigee-nothing")));
    }
}
