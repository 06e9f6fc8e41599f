//! Filters of system calls (seccomp(2)) for what is executed for others.

use std::io;
use std::ptr;

/// Keeps this process, for good, from gaining rights by the programs that it executes; only root may confine itself without.
///
/// # Errors
/// As the system has them.
pub fn gain_nothing() -> io::Result<()> {
    // SAFETY: a plain number.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has this thread, and those that it starts, keep to a filter for good, after [`gain_nothing`]. A system without filters leaves it as it
/// is.
///
/// # Errors
/// If the system has filters and does not take this one.
pub fn apply(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which lives for the call, and does not write to it.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, ptr::from_ref(&program)) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EINVAL) {
        return Ok(());
    }
    Err(error)
}

/// The filter that lets a process have threads, and start no other process. `clone3`, whose flags no filter can read, is said to be
/// missing (ENOSYS), so that the system's library takes `clone`.
pub fn threads_only() -> Vec<libc::sock_filter> {
    let error = |number: i32| give(libc::SECCOMP_RET_ERRNO | number as u32);
    let mut program = vec![
        load(std::mem::offset_of!(libc::seccomp_data, nr)),
        jump(libc::BPF_JEQ, libc::SYS_clone3 as u32, 0, 1),
        error(libc::ENOSYS),
    ];
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_fork, libc::SYS_vfork] {
        program.extend([jump(libc::BPF_JEQ, call as u32, 0, 1), error(libc::EPERM)]);
    }
    program.extend([
        jump(libc::BPF_JEQ, libc::SYS_clone as u32, 0, 3),
        load(std::mem::offset_of!(libc::seccomp_data, args)),
        jump(libc::BPF_JSET, libc::CLONE_THREAD as u32, 1, 0),
        error(libc::EPERM),
        give(libc::SECCOMP_RET_ALLOW),
    ]);
    program
}

/// The filter that refuses (EPERM) these calls, those of `own` unless their first argument is 0, the caller itself, and all calls of
/// another architecture; it allows the others.
pub fn program(refused: &[libc::c_long], own: &[libc::c_long]) -> Vec<libc::sock_filter> {
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let (count, tested) = (refused.len() as u8, own.len() as u8);
    let mut program = vec![
        load(std::mem::offset_of!(libc::seccomp_data, arch)),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        give(refuse),
        load(std::mem::offset_of!(libc::seccomp_data, nr)),
        jump(libc::BPF_JGE, OTHER_NUMBERS, count + tested + 3, 0),
    ];
    program.extend(
        (0..).zip(refused).map(|(place, call)| jump(libc::BPF_JEQ, *call as u32, count + tested + 2 - place, 0)),
    );
    program.extend((0..).zip(own).map(|(place, call)| jump(libc::BPF_JEQ, *call as u32, tested - place, 0)));
    let first = load(std::mem::offset_of!(libc::seccomp_data, args));
    program.extend([give(libc::SECCOMP_RET_ALLOW), first, jump(libc::BPF_JEQ, 0, 1, 0), give(refuse)]);
    program.push(give(libc::SECCOMP_RET_ALLOW));
    program
}

fn load(offset: usize) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset as u32)
}

fn give(answer: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, answer)
}

fn jump(test: u32, value: u32, then: u8, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | test | libc::BPF_K) as u16, jt: then, jf: otherwise, k: value }
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// From here on x86-64 has all calls once more, with pointers of 32 bits.
const OTHER_NUMBERS: u32 = 0x4000_0000;
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
