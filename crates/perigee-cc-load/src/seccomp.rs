//! Keeps a process from making others, which would outlive it (seccomp(2)).

use std::io;
use std::ptr;

/// Refuses this process, for good, to make another one or to become another program (EPERM). A system without filters of
/// system calls (seccomp(2)) leaves it as it is.
///
/// # Errors
/// If the system has filters and does not take this one.
pub(crate) fn stay_alone() -> io::Result<()> {
    // SAFETY: a plain number; without it only root may filter.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut filter = program();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives for the call.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, ptr::from_ref(&program)) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EINVAL) {
        return Ok(());
    }
    Err(error)
}

/// The filter: calls of another architecture and those of `REFUSED` fail with EPERM, all others are allowed.
fn program() -> Vec<libc::sock_filter> {
    let load = |offset: usize| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset as u32);
    let give = |answer: u32| statement(libc::BPF_RET | libc::BPF_K, answer);
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let equal = |value: u32, then: u8, otherwise: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: then,
        jf: otherwise,
        k: value,
    };
    let mut program = vec![
        load(std::mem::offset_of!(libc::seccomp_data, arch)),
        equal(ARCHITECTURE, 1, 0),
        give(refuse),
        load(std::mem::offset_of!(libc::seccomp_data, nr)),
    ];
    let count = REFUSED.len();
    program.extend(REFUSED.iter().enumerate().map(|(place, call)| equal(*call as u32, (count - place) as u8, 0)));
    program.extend([give(libc::SECCOMP_RET_ALLOW), give(refuse)]);
    program
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// What makes a process or a thread, or another program of one.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// As the kernel numbers it (`linux/audit.h`): the machine of its ELF files, 64 bits, little-endian.
const ARCHITECTURE: u32 = {
    #[cfg(target_arch = "x86_64")]
    let machine = 62;
    #[cfg(target_arch = "aarch64")]
    let machine = 183;
    #[cfg(target_arch = "riscv64")]
    let machine = 243;
    0xC000_0000 | machine
};
