//! Confinement of a compiler, or of a program of others, by the kernel: files by Landlock, system calls by seccomp.
//!
//! The text that it compiles may be a stranger's. It reads the system's programs and headers ([`SYSTEM`]) and the places it
//! is given, writes one folder, executes the system's programs only, and has no network. What it starts stays in its group
//! of processes, which ends with it.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    path_beneath_rules, Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope, ABI,
};
use rustix::process::{getppid, set_parent_process_death_signal, Pid, Signal};
use rustix::thread::{set_capabilities, CapabilitySet, CapabilitySets};

use crate::seccomp;

/// The files that a compiler may reach besides the system's.
#[derive(Debug)]
pub(crate) struct Reach<'a> {
    /// Files and folders that it reads.
    pub(crate) reads: &'a [&'a Path],
    /// The folder that it writes: its output and its temporary files.
    pub(crate) writes: &'a Path,
}

/// Whether the kernel holds a compiler to its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Yes,
    /// It has no Landlock: a compiler reads what its user may read.
    No,
}

/// Has `command` confined between fork and exec; its program is looked up in `PATH` as usual.
///
/// # Errors
/// Where the kernel has Landlock and refuses the rules.
pub(crate) fn confine(command: &mut Command, reach: &Reach<'_>) -> io::Result<Held> {
    let rules = rules(&own_folders(command.get_program()), reach.reads, &[reach.writes])?;
    let held = if rules.is_some() { Held::Yes } else { Held::No };
    let filter = seccomp::program(&[NETWORK, REFUSED].concat(), &[]);
    command.env("TMPDIR", reach.writes).env("CCACHE_DISABLE", "1");
    let apply = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        seccomp::gain_nothing()?;
        if let Some(rules) = &rules {
            restrict_self(rules)?;
        }
        seccomp::apply(&filter)
    };
    // SAFETY: system calls only between fork and exec: rules and filter were made before.
    unsafe { command.pre_exec(apply) };
    Ok(held)
}

/// Confines this process for good, which is to execute a program of others next: it reads and executes the system's files and
/// `reads`, writes `writes` too, has no rights of root, starts no other process, and reaches none. Its network is that of its namespace.
///
/// # Errors
/// Where the kernel has no Landlock, or refuses.
pub fn confine_program(reads: &[PathBuf], writes: &[PathBuf]) -> io::Result<()> {
    let rules = rules(reads, &[] as &[&Path], writes)?.ok_or(io::Error::from(io::ErrorKind::Unsupported))?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    // With it root does not get its rights back by executing a program.
    seccomp::gain_nothing()?;
    restrict_self(&rules)?;
    seccomp::apply(&seccomp::threads_only())?;
    seccomp::apply(&seccomp::program(REFUSED, &[]))
}

/// Has the kernel kill this process when the thread of the process `parent` that started it ends.
///
/// # Errors
/// If it is gone already.
pub fn die_with(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // One that ended before that sends nothing any more.
    match getppid().map(Pid::as_raw_nonzero) {
        Some(pid) if pid.get() as u32 == parent => Ok(()),
        _ => Err(io::Error::other("the process that started this one is gone")),
    }
}

/// Whether the kernel can hold a compiler to its files.
pub fn is_enforced() -> bool {
    created().is_ok_and(|rules| Option::<OwnedFd>::from(rules).is_some())
}

/// A Landlock domain to be, which executes the system's files and `executes`; `None`: the kernel has no Landlock.
fn rules(executes: &[PathBuf], reads: &[impl AsRef<Path>], writes: &[impl AsRef<Path>]) -> io::Result<Option<OwnedFd>> {
    let (read, list) = (AccessFs::ReadFile, AccessFs::ReadFile | AccessFs::ReadDir);
    let all = AccessFs::from_all(ABI_KNOWN);
    let created = created()?
        .add_rules(path_beneath_rules(SYSTEM, list | AccessFs::Execute))
        .and_then(|rules| rules.add_rules(path_beneath_rules(executes, list | AccessFs::Execute)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(DEVICES, read | AccessFs::WriteFile)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(reads, list)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(writes, all & !AccessFs::Execute)))
        .map_err(io::Error::other)?;
    Ok(created.into())
}

/// Rules that allow nothing yet.
fn created() -> io::Result<landlock::RulesetCreated> {
    let handled = Ruleset::default().handle_access(AccessFs::from_all(ABI_KNOWN));
    handled
        .and_then(|rules| rules.scope(Scope::from_all(ABI_KNOWN)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)
}

/// Folders of a compiler that is installed outside of [`SYSTEM`], which only its user can have named: beside the `bin` that
/// has it, those in which compilers keep their parts.
fn own_folders(program: &OsStr) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = match Path::new(program) {
        name if name.components().count() > 1 => Some(name.to_owned()),
        name => env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file()),
    };
    let Some(real) = found.and_then(|path| path.canonicalize().ok()) else { return Vec::new() };
    if SYSTEM.iter().any(|folder| real.starts_with(folder)) {
        return Vec::new();
    }
    let Some(bin) = real.parent() else { return Vec::new() };
    let beside = ["lib", "lib64", "libexec", "include", "share"].map(|name| bin.with_file_name(name));
    [real.clone()].into_iter().chain(beside).collect()
}

fn restrict_self(rules: &OwnedFd) -> io::Result<()> {
    // SAFETY: a system call with two numbers.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The access rights handled, as far as the kernel knows them; the first version suffices for files that are read.
const ABI_KNOWN: ABI = ABI::V6;
/// Programs, libraries and headers of the system. Missing ones are skipped.
const SYSTEM: [&str; 8] =
    ["/usr", "/bin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/ld.so.preload"];
/// Devices that hold nothing.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/urandom"];
/// The network.
const NETWORK: &[libc::c_long] = &[libc::SYS_socket, libc::SYS_socketpair];
/// Processes of others (signals to them: Landlock, from Linux 6.12 on); a session or a group of its own, in which what it starts
/// would outlive it; the kernel's keys, programs and counters.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::{apply, gain_nothing, program};

    /// Whether a shell, confined as a compiler that reads `given` and writes `written`, carries out a script.
    fn succeeds(script: &str, given: &Path, written: &Path) -> bool {
        let mut shell = Command::new("bash");
        shell.args(["-c", script]).env("GIVEN", given).env("WRITTEN", written);
        shell.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        confine(&mut shell, &Reach { reads: &[given], writes: written }).unwrap();
        shell.status().unwrap().success()
    }

    #[test]
    fn a_compiler_reads_and_writes_what_it_is_given_and_nothing_else() {
        if !is_enforced() {
            println!("skipped: this kernel has no Landlock");
            return;
        }
        let folder = env::temp_dir().join(format!("perigee-confined-{}", std::process::id()));
        let [given, written] = ["given", "written"].map(|name| folder.join(name));
        for place in [&given, &written] {
            std::fs::create_dir_all(place).unwrap();
            std::fs::write(place.join("file"), "text").unwrap();
        }
        std::fs::write(folder.join("secret"), "text").unwrap();
        let done = [
            "cat $GIVEN/file",
            "ls /usr/include",
            "echo x > $WRITTEN/new && cat $WRITTEN/new",
            "mktemp",
            "echo x > /dev/null",
        ];
        let refused = [
            "cat $GIVEN/../secret",
            "cat /etc/passwd",
            "cat /proc/self/environ",
            "cat /proc/$PPID/environ",
            "ls $GIVEN/..",
            "echo x > $GIVEN/new",
            "echo x > $GIVEN/../new",
            "rm $GIVEN/file",
            "cp /bin/true $WRITTEN/own && $WRITTEN/own",
            "exec 3<> /dev/udp/127.0.0.1/9",
            "kill -0 $PPID",
            "setsid true",
        ];
        let wrong: Vec<_> = done.into_iter().filter(|script| !succeeds(script, &given, &written)).collect();
        let allowed: Vec<_> = refused.into_iter().filter(|script| succeeds(script, &given, &written)).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((wrong, allowed), (vec![], vec![]));
    }

    #[test]
    fn without_landlock_a_strangers_text_is_not_compiled_and_an_authors_is() {
        let lacking = || {
            gain_nothing().unwrap();
            apply(&program(&[libc::SYS_landlock_create_ruleset], &[])).unwrap();
            let mut command = Command::new("true");
            let nowhere = Path::new("/nowhere");
            let held = confine(&mut command, &Reach { reads: &[], writes: nowhere }).unwrap();
            let page = crate::browser_module(nowhere, nowhere, nowhere, std::time::Duration::ZERO);
            (is_enforced(), held, command.status().unwrap().success(), page.map_err(|error| error.message()))
        };
        // The filter stays with its thread.
        let (is_enforced, held, runs, page) = std::thread::spawn(lacking).join().unwrap();
        assert_eq!((is_enforced, held, runs), (false, Held::No, true));
        let missing = page.unwrap_err();
        assert!(missing.contains("has no Landlock") || missing.contains("no WebAssembly compiler"), "{missing}");
    }
}
