//! Makes folders of temporary files, and removes those that killed processes have left.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use tempfile::TempDir;

/// A folder for what a compiler makes, which nobody else may enter.
///
/// # Errors
/// If there is no room for it.
pub fn scratch() -> io::Result<TempDir> {
    let permissions = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(&scratch_prefix("cc")?).permissions(permissions).tempdir()
}

/// How this process's folders of a kind (letters only) begin; letters of one's own follow. The name says whose folder it is, so that
/// [`sweep`] finds those of killed processes: `perigee-KIND-NAMESPACE-PID-START-`, where the namespace is the one in which the
/// process has that number, and the start is as [`started`] gives it.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn scratch_prefix(kind: &str) -> io::Result<String> {
    let pid = std::process::id();
    let start = started(pid).ok_or_else(|| io::Error::other("/proc/self/stat has no start time"))?;
    Ok(format!("perigee-{kind}-{}-{pid}-{start}-", pid_namespace()))
}

/// Removes this user's folders of temporary files whose process is gone; returns those removed. Other users' folders,
/// symbolic links, and folders of processes in other namespaces of process numbers are not touched.
///
/// # Errors
/// If the folder of temporary files cannot be read.
pub fn sweep() -> io::Result<Vec<PathBuf>> {
    let (namespace, user, mut removed) = (pid_namespace(), rustix::process::geteuid().as_raw(), Vec::new());
    for entry in fs::read_dir(std::env::temp_dir())? {
        let entry = entry?;
        let Some((pid, start)) = entry.file_name().to_str().and_then(|name| maker_in(name, &namespace)) else {
            continue;
        };
        // Neither follows symbolic links.
        let is_own_folder = entry.metadata().is_ok_and(|entry| entry.is_dir() && entry.uid() == user);
        if is_own_folder && started(pid) != Some(start) && fs::remove_dir_all(entry.path()).is_ok() {
            removed.push(entry.path());
        }
    }
    removed.sort();
    Ok(removed)
}

/// When a process began, in ticks since the machine did (proc(5), field 22 of `stat`); `None`: there is none of that number.
pub fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold blanks and brackets.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Number and start of the process that made a folder of this name, if its number means the same here.
fn maker_in(name: &str, namespace: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix("perigee-")?.split('-').skip(1);
    let is_here = parts.next()? == namespace;
    let maker = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().filter(|_| is_here)?;
    Some(maker)
}

/// The number of our namespace of process numbers: containers may share folders, but not these.
fn pid_namespace() -> String {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_the_process_that_made_it() {
        let ours = scratch_prefix("cc").expect("a name");
        let (namespace, pid) = (pid_namespace(), std::process::id());
        let maker = maker_in(&format!("{ours}x1y2z3"), &namespace).expect("ours");
        assert_eq!((maker.0, Some(maker.1)), (pid, started(pid)));
        assert_eq!(maker_in(&format!("{ours}x1y2z3"), "1"), None, "of another namespace");
        for other in ["perigee-cc-1-2-3", "perigee-mycc-ab12.verifier.log", "perigee-", "other-cc-1-2-3-x"] {
            assert_eq!(maker_in(other, "1"), None, "{other}");
        }
    }
}
