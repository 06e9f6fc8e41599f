//! A lock between processes, with a time-out and the name of its holder.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{flock, fstat, major, minor, FlockOperation, Stat};
use rustix::io::Errno;

use crate::clock::{self, Deadline};
use crate::error::SystemError;

/// Locks a file or folder; `operation` must be non-blocking.
pub(crate) fn take(file: &OwnedFd, operation: FlockOperation, shown: &str) -> Result<(), SystemError> {
    take_within(LONGEST, file, operation, shown)
}

fn take_within(longest: Duration, file: &OwnedFd, operation: FlockOperation, shown: &str) -> Result<(), SystemError> {
    let wrong = |error: Errno| SystemError::new(format!("lock {shown}"), error);
    let deadline = Deadline::after(longest);
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if !deadline.has_passed() => clock::pause(PAUSE),
            Err(Errno::WOULDBLOCK) => {
                let holder = fstat(file).ok().and_then(|found| holder(&found));
                let holder = holder.unwrap_or_else(|| "another process".to_owned());
                let reason = format!("{holder} has held it for {} s; let it end, and try again", longest.as_secs_f64());
                return Err(SystemError::new(format!("lock {shown}"), reason));
            }
            Err(error) => return Err(wrong(error)),
        }
    }
}

/// The holder, by the kernel's lock list, which names files by device and inode.
fn holder(found: &Stat) -> Option<String> {
    let file = format!("{:02x}:{:02x}:{}", major(found.st_dev), minor(found.st_dev), found.st_ino);
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = fields.as_slice() else { return None };
        (*place == file).then(|| (*pid).to_owned())
    })?;
    let program = fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    Some(program.map_or_else(|| format!("process {pid}"), |program| format!("process {pid} ({})", program.trim())))
}

/// A command holds the lock for a second or two at most.
const LONGEST: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_somebody_holds_is_not_waited_for_for_ever_and_names_the_holder() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let (held, asked): (OwnedFd, OwnedFd) = (path.reopen().unwrap().into(), path.reopen().unwrap().into());
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        take(&held, exclusive, "it").unwrap();
        let error = take_within(Duration::from_millis(50), &asked, exclusive, "it").unwrap_err().to_string();
        assert!(error.contains(&format!("lock it: process {} (", std::process::id())), "{error}");
        drop(held);
        take_within(Duration::from_millis(50), &asked, exclusive, "it").unwrap();
    }
}
