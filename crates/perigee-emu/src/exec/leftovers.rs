//! Leftovers of killed emulators.
//!
//! Devices, namespaces and nftables tables vanish with the process that made them, and so does the program that it
//! started. What can survive are children of that program, which carry a mark in their environment, and folders of
//! temporary files (`perigee_cc_load::scratch_prefix`), which have their maker's process number in their name.

use std::fs;
use std::io;
use std::path::PathBuf;

use perigee_cc_load::started;
use rustix::io::Errno;
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

/// A leftover that was removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leftover {
    /// A terminated process.
    Process(Process),
    /// A removed folder of temporary files.
    Folder(PathBuf),
}

/// A terminated process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Process number.
    pub pid: u32,
    /// Its name.
    pub command: String,
}

impl Process {
    /// The process of this number.
    pub(crate) fn of(pid: u32) -> Self {
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
        Self { pid, command }
    }
}

/// The mark of programs that this process runs behind links: an environment variable and its value.
pub(crate) fn mark() -> io::Result<(&'static str, String)> {
    let pid = std::process::id();
    let start = started(pid).ok_or_else(|| io::Error::other("/proc/self/stat has no start time"))?;
    Ok((MARK, format!("{pid}/{start}")))
}

/// Terminates every process behind a link of a dead emulator, and removes this user's temporary folders of dead
/// processes. It does not touch processes of live emulators, or those without a mark.
///
/// # Errors
/// If `/proc` cannot be read, or signalling is not permitted.
pub fn clean() -> io::Result<Vec<Leftover>> {
    let mut ended = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // Opened first, so that the number cannot be reused meanwhile.
        let Some(held) = Pid::from_raw(pid as i32).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { continue };
        let Ok(held) = held else { continue };
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let Some(owner) = owner_in(&environment) else { continue };
        if is_alive(owner) {
            continue;
        }
        let process = Process::of(pid);
        match pidfd_send_signal(&held, Signal::KILL) {
            Ok(()) => ended.push(Leftover::Process(process)),
            Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    ended.extend(perigee_cc_load::sweep()?.into_iter().map(Leftover::Folder));
    ended.sort();
    Ok(ended)
}

/// The emulator of a process with this environment: its number and start time.
fn owner_in(environment: &[u8]) -> Option<(u32, u64)> {
    let prefix = format!("{MARK}=");
    let value = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
    let (pid, start) = std::str::from_utf8(value).ok()?.split_once('/')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// Whether the process of this number has this start time.
fn is_alive((pid, start): (u32, u64)) -> bool {
    started(pid) == Some(start)
}

const MARK: &str = "PERIGEE_LINK";

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_mark_names_a_process_that_is_alive() {
        let (name, value) = mark().expect("a mark");
        let environment = format!("A=b\0{name}={value}\0C=d\0");
        let owner = owner_in(environment.as_bytes()).expect("an owner");
        assert_eq!(owner.0, std::process::id());
        assert!(is_alive(owner) && !is_alive((owner.0, owner.1 + 1)));
        assert_eq!(owner_in(b"A=b\0"), None);
    }

    #[test]
    fn only_processes_of_dead_emulators_are_ended() {
        let (name, value) = mark().expect("a mark");
        // Linux has no process number 0, so this folder has no owner.
        let mut orphan = Command::new("sleep").arg("60").env(MARK, "0/1").spawn().expect("a process");
        let mut ours = Command::new("sleep").arg("60").env(name, value).spawn().expect("a process");
        // A process has its own environment only a moment after its start.
        for pid in [orphan.id(), ours.id()] {
            let marked = || fs::read(format!("/proc/{pid}/environ")).is_ok_and(|text| owner_in(&text).is_some());
            assert!((0..1_000_000).any(|_| marked()), "process {pid} has no mark");
        }
        let ended = clean().expect("a clean machine");
        assert!(ended.contains(&Leftover::Process(Process { pid: orphan.id(), command: "sleep".into() })), "{ended:?}");
        assert!(!orphan.wait().expect("its end").success());
        assert_eq!(ours.try_wait().expect("its state"), None, "one whose emulator lives was ended");
        ours.kill().expect("it lives");
        ours.wait().expect("its end");
    }
}
