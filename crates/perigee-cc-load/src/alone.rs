//! Confinement of the process of an author's code, by the kernel: no other process, no file to write, no network.

use std::io;

use landlock::{Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetError, Scope, ABI};
use perigee_cc_build::seccomp;
use rustix::io::Errno;
use rustix::process::{set_dumpable_behavior, DumpableBehavior};
use rustix::thread::{
    set_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid, CapabilitySet, CapabilitySets, Gid,
    Uid,
};

/// The files that a process may open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Files {
    /// To read: all that its user may read.
    Read,
    None,
}

/// Has this process, for good, neither make processes nor execute programs, touch no other process, open no files but these, and open
/// no socket. A kernel without Landlock (Linux 5.13) or seccomp leaves out what it lacks.
///
/// # Errors
/// If the system has filters of system calls and does not take this one.
pub(crate) fn stay_alone(files: Files) -> io::Result<()> {
    seccomp::gain_nothing()?;
    restrict_files(files).map_err(io::Error::other)?;
    seccomp::apply(&seccomp::program(REFUSED, OWN))
}

/// Makes this process, which has one thread, nobody's, without capabilities. Where it is not root of the whole host, users may not
/// be its to choose, and it stays the one that it is.
pub(crate) fn become_nobody() -> io::Result<()> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let left = set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(group, group, group))
        .and_then(|()| set_thread_res_uid(user, user, user));
    if !matches!(left, Ok(()) | Err(Errno::PERM | Errno::INVAL)) {
        left?;
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    // The kernel gives root what such a process has under `/proc`, from where it loads libraries.
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// Whoever is in such a domain can also trace no process outside of it, nor open its memory under `/proc`.
fn restrict_files(files: Files) -> Result<(), RulesetError> {
    let refused = match files {
        Files::Read => AccessFs::from_write(ABI_KNOWN),
        Files::None => AccessFs::from_all(ABI_KNOWN),
    };
    let domain = Ruleset::default().handle_access(refused)?.scope(Scope::from_all(ABI_KNOWN))?;
    domain.create()?.restrict_self().map(drop)
}

/// The user and the group that own nothing (`nobody`; `DEFAULT_OVERFLOWUID` of Linux).
const NOBODY: u32 = 65_534;

const ABI_KNOWN: ABI = ABI::V6;
/// System calls that make a process or a thread, or another program of one; that reach into another process; that change a file beside its
/// content, which Landlock leaves alone; sockets; and what does any of these behind the filter.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_setpriority,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_fsetxattr,
    libc::SYS_utimensat,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_io_uring_setup,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
];
/// Limits: its own can be read and lowered.
const OWN: &[libc::c_long] = &[libc::SYS_prlimit64];
