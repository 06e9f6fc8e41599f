//! Confinement of the service once it has its sockets and keys: user, capabilities, files (Landlock) and system calls (seccomp).
//!
//! It is applied before the first thread starts, so that all threads and the programs that they execute (`nft` and `ip`)
//! inherit it.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

use landlock::{
    path_beneath_rules, Access as _, AccessFs, BitFlags, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope, ABI,
};
use rustix::fs::{access, Access};
use rustix::io::Errno;
use rustix::process::{
    geteuid, getpid, getppid, kill_process, parent_process_death_signal, set_parent_process_death_signal, Gid, Uid,
};
use rustix::thread::{
    capabilities, configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid, CapabilitySet,
};
use seccompiler::{
    apply_filter, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::config::{successors, Config, RateSource, Tunnel};

/// Resources that the confinement depends on; the service keeps them.
#[derive(Debug)]
pub(crate) struct Confinement {
    #[expect(dead_code, reason = "the kernel may forget an inode of /proc that nobody has open, and with it the rule")]
    pinned: Option<File>,
    /// A description of the confinement applied, for the log.
    pub(crate) report: String,
}

/// Confines the calling thread and those that it starts afterwards. `file` is the configuration, which reloads read again.
pub(crate) fn confine(config: &Config, file: &Path) -> Confinement {
    if !config.confine {
        return Confinement { pinned: None, report: "confinement off reason=\"service.confine = false\"".to_owned() };
    }
    let pinned = File::open(SYSCTLS).ok();
    let user = user();
    // Root opens the files of Landlock's rules. Seccomp comes last: its filter refuses the calls of the others.
    let landlock = restrict_files(config, file);
    if let Some(control) = config.control.as_ref().filter(|_| geteuid().is_root()) {
        // In a folder that all may write to, a file is removed by its owner only. Where that is refused, root's it stays.
        for path in [control, &successors(control)] {
            let _ = lchown(path, Some(user.0.as_raw()), Some(user.1.as_raw()));
        }
    }
    // Root has made it a moment ago. After it was moved away the user makes it.
    let is_new = |file: &&Path| fs::symlink_metadata(file).is_ok_and(|made| made.is_file() && made.len() == 0);
    if let Some(file) = accounts(config).filter(|_| geteuid().is_root()).filter(is_new) {
        let _ = lchown(file, Some(user.0.as_raw()), Some(user.1.as_raw()));
    }
    let left = leave_root(user).map_err(|error| error.to_string());
    // Files of root are left to it only where Landlock says which.
    let overrides = landlock.is_ok() && (left.is_err() || !opens_all(config, file));
    let capabilities = drop_capabilities(config, overrides).map_err(|error| error.to_string());
    let seccomp = restrict_calls(config);
    let done = [("user", left), ("capabilities", capabilities), ("landlock", landlock), ("seccomp", seccomp)];
    let words = done.map(|(what, done)| match done {
        Ok(()) => format!("{what}=yes"),
        Err(reason) => format!("{what}=\"no: {reason}\""),
    });
    Confinement { pinned, report: format!("confinement {}", words.join(" ")) }
}

/// User and group of the service: those of [`USER`], or numbers that nobody has. The list of users is read without the libraries of
/// the system, which a static program has not.
pub(crate) fn user() -> (Uid, Gid) {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(USER);
        let numbers: Vec<u32> = fields.skip(1).take(2).map_while(|number| number.parse().ok()).collect();
        <[u32; 2]>::try_from(numbers).ok().filter(|[user, _]| is_it && *user != 0)
    });
    let [user, group] = found.unwrap_or([NOBODY_ELSE; 2]);
    (Uid::from_raw(user), Gid::from_raw(group))
}

/// Changes from root to the user of the service, and keeps the permitted capabilities. Whoever is not root stays what it is.
fn leave_root((user, group): (Uid, Gid)) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    // The kernel forgets the signal that whoever started the service asked for at its own end.
    let (parent, tied) = (getppid(), parent_process_death_signal()?);
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    set_parent_process_death_signal(tied)?;
    match tied {
        // It ended meanwhile.
        Some(signal) if getppid() != parent => Ok(kill_process(getpid(), signal)?),
        _ => Ok(()),
    }
}

/// Whether the user may open all that the service opens later, make the file of accounting, and remove its control socket. What is
/// not there is no reason.
fn opens_all(config: &Config, file: &Path) -> bool {
    let may = |path: &Path, rights| access(path, rights) != Err(Errno::ACCESS);
    let mut files = [file].into_iter().chain(config.tunnel.iter().flat_map(certificates));
    let has_device = config.transparent.is_none() || may(Path::new(DEVICE), Access::READ_OK | Access::WRITE_OK);
    let removes = config.control.as_ref().is_none_or(|control| may(&parent(control), Access::WRITE_OK));
    let adds = accounts(config).is_none_or(|file| may(file, Access::WRITE_OK) && may(&parent(file), Access::WRITE_OK));
    has_device && removes && adds && files.all(|file| may(file, Access::READ_OK))
}

/// Drops all capabilities but those of [`KEPT`] that it was started with. The programs that it executes have one.
fn drop_capabilities(config: &Config, overrides: bool) -> io::Result<()> {
    let kept = if overrides { KEPT | CapabilitySet::DAC_OVERRIDE } else { KEPT };
    let mut sets = capabilities(None)?;
    // The change of the user has left none effective.
    sets.effective = sets.permitted;
    set_capabilities(None, sets)?;
    for one in CapabilitySet::all().difference(kept).iter() {
        // Without CAP_SETPCAP the bounding set stays; nor can what a child is given by it exceed what an administrator has chosen.
        let _ = remove_capability_from_bounding_set(one);
    }
    let of_children = if config.transparent.is_some() { CapabilitySet::NET_ADMIN } else { CapabilitySet::empty() };
    sets.permitted &= kept;
    sets.effective = sets.permitted;
    sets.inheritable = sets.permitted & of_children;
    set_capabilities(None, sets)?;
    if !sets.inheritable.is_empty() {
        configure_capability_in_ambient_set(sets.inheritable, true)?;
    }
    Ok(())
}

/// Restricts file access to files that the service still opens.
fn restrict_files(config: &Config, file: &Path) -> Result<(), String> {
    let status = ruleset(config, file).map_err(|error| error.to_string())?;
    match status {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced => Err("only in part, the kernel's version is old".to_owned()),
        RulesetStatus::NotEnforced => Err("the kernel has none".to_owned()),
    }
}

fn ruleset(config: &Config, file: &Path) -> Result<RulesetStatus, RulesetError> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile.into();
    let again = [file].into_iter().chain(config.tunnel.iter().flat_map(certificates));
    let mut rules = vec![(again.flat_map(folders).chain([SYSCTLS.into()]).collect(), read)];
    if let Some(control) = &config.control {
        // The socket is removed in the end.
        rules.push((vec![parent(control)], AccessFs::RemoveFile.into()));
    }
    if let Some(file) = accounts(config) {
        // It is read for its end, which another process may have left within a line.
        rules.push((vec![parent(file)], read | AccessFs::WriteFile | AccessFs::MakeReg));
    }
    if let Some(RateSource::Slots(slots)) = config.link.as_ref().map(|link| &link.source) {
        rules.push((folders(slots), read));
    }
    if executes(config) {
        rules.push((LIBRARIES.map(PathBuf::from).to_vec(), read | AccessFs::ReadDir));
        let programs = of_transparent(config).chain(of_modem(config)).chain(LOADERS.map(PathBuf::from));
        rules.push((programs.collect(), read | AccessFs::Execute));
    }
    if config.transparent.is_some() {
        rules.push((vec!["/dev/null".into()], read | AccessFs::WriteFile));
        rules.push((vec![DEVICE.into()], read | AccessFs::WriteFile | AccessFs::IoctlDev));
    }
    let mut created = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V5))?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?
        .create()?;
    for (paths, access) in rules {
        // Missing paths are skipped.
        created = created.add_rules(path_beneath_rules(paths, access))?;
    }
    Ok(created.restrict_self()?.ruleset)
}

/// Whether the service executes programs.
fn executes(config: &Config) -> bool {
    config.transparent.is_some() || asks_program(config)
}

fn asks_program(config: &Config) -> bool {
    config.link.as_ref().is_some_and(|link| matches!(link.source, RateSource::Command(..)))
}

fn of_transparent(config: &Config) -> impl Iterator<Item = PathBuf> {
    let names = if config.transparent.is_some() { &PROGRAMS[..] } else { &[] };
    names.iter().filter_map(|name| program(name))
}

/// The program that is asked for the rate of the link; of a script also the interpreter that its first line names.
fn of_modem(config: &Config) -> Vec<PathBuf> {
    let Some(RateSource::Command(words, _)) = config.link.as_ref().map(|link| &link.source) else { return Vec::new() };
    let mut head = [0; 256];
    let length = File::open(&words[0]).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
    let line = head[..length].split(|byte| *byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok());
    let interpreter = line.and_then(|line| line.strip_prefix("#!")).and_then(|line| line.split_whitespace().next());
    [Some(&*words[0]), interpreter].into_iter().flatten().map(PathBuf::from).collect()
}

/// The file of accounting, which a reload opens again.
fn accounts(config: &Config) -> Option<&Path> {
    config.accounting.as_ref()?.file.as_deref()
}

/// The files of certificates that a reload reads again.
fn certificates(tunnel: &Tunnel) -> impl Iterator<Item = &Path> {
    let terminals = tunnel.terminals.iter().map(|terminal| &*terminal.certificate);
    tunnel.peers.as_deref().into_iter().chain(terminals)
}

/// The folders of a file that is read again: an editor replaces it. Of a link also the folder that it leads to.
fn folders(file: &Path) -> Vec<PathBuf> {
    let led_to = fs::canonicalize(file).ok();
    [Some(parent(file)), led_to.map(|file| parent(&file))].into_iter().flatten().collect()
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The path of a program, looked up in `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Restricts system calls to [`CALLS`]. Others fail as on a kernel without them, for which C libraries have fallbacks.
fn restrict_calls(config: &Config) -> Result<(), String> {
    let arch = env::consts::ARCH.try_into().map_err(|_| format!("not on {}", env::consts::ARCH))?;
    let of_children = if executes(config) { CHILD_CALLS } else { &[] };
    // One that is late is ended, with the group of processes that it leads.
    let of_late = if asks_program(config) { &[libc::SYS_kill, libc::SYS_setpgid][..] } else { &[] };
    let calls = CALLS.iter().chain(ARCH_CALLS).chain(of_children).chain(of_late);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls.map(|call| (*call, Vec::new())).collect();
    let with = |(argument, value): (u8, i32)| {
        let is_it = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value as u64);
        is_it.and_then(|is_it| SeccompRule::new(vec![is_it]))
    };
    let families = FAMILIES.into_iter().map(|family| with((0, family))).collect::<Result<_, _>>();
    rules.insert(libc::SYS_socket, families.map_err(|error| error.to_string())?);
    if executes(config) {
        rules.insert(libc::SYS_socketpair, vec![with((1, PAIR)).map_err(|error| error.to_string())?]);
    }
    let filter = SeccompFilter::new(rules, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow, arch);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(|error| error.to_string())?;
    apply_filter(&program).map_err(|error| format!("{error}"))
}

/// The service's user, as its package makes it.
const USER: &str = "perigee-pep";
/// Number of user and group where there is no such user: neither Debian nor systemd gives it to anybody.
const NOBODY_ELSE: u32 = 65_533;
/// Firewall, routes and transparent sockets; ICMP; low ports.
const KEPT: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::NET_BIND_SERVICE);
/// The device that SYNs wait behind.
const DEVICE: &str = "/dev/net/tun";
/// Sysctls of IPv6 and of reverse path filters.
const SYSCTLS: &str = "/proc/sys/net";
/// Programs that the service executes.
const PROGRAMS: [&str; 2] = ["nft", "ip"];
/// Files that these programs need to start and to resolve names.
const LIBRARIES: [&str; 9] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/iproute2",
    "/usr/share/iproute2",
];
/// Interpreters of dynamic programs.
const LOADERS: [&str; 6] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-linux-riscv64-lp64d.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
    "/lib/ld-musl-riscv64.so.1",
];
/// Address families of new sockets. That of local services (D-Bus, systemd, containers) is not among them.
const FAMILIES: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Pairs of sockets by which the standard library learns whether a program was executed: connected for good, and of a type with which
/// no service of others listens.
const PAIR: i32 = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;

/// Calls of the service, its allocator and its threads.
const CALLS: &[i64] = &[
    // Sockets.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Descriptors.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_splice,
    libc::SYS_write,
    libc::SYS_writev,
    // Files, which Landlock restricts.
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads and signals.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // Time and randomness.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_nanosleep,
];
/// Calls that the C library of x86-64 uses instead of some of those.
#[cfg(target_arch = "x86_64")]
const ARCH_CALLS: &[i64] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_fork,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_unlink,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const ARCH_CALLS: &[i64] = &[];
/// Calls of the programs that the service executes, and for executing them.
const CHILD_CALLS: &[i64] = &[
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_execve,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_pselect6,
    libc::SYS_readlinkat,
    libc::SYS_set_tid_address,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;
    use std::process::{Command, Stdio};
    use std::thread;

    use rustix::net::AddressFamily;

    fn config(more: &str) -> Config {
        let text = format!("[allow]\nsources = [\"10.0.0.0/8\"]\ndestinations = [\"10.0.0.0/8\"]\n{more}");
        Config::parse(&text, "pep.toml", 1).unwrap()
    }

    #[test]
    fn a_confined_thread_opens_executes_and_calls_what_the_service_needs_only() {
        for (more, executes) in
            [("[transparent]\n", true), ("[[forward]]\nlisten = \"10.0.0.1:80\"\ntarget = \"10.0.0.2:80\"\n", false)]
        {
            let config = config(more);
            let folder = tempfile::tempdir().unwrap();
            let own = folder.path().join("pep.toml");
            fs::write(&own, "text").unwrap();
            let confined = thread::spawn(move || {
                let confinement = confine(&config, &own);
                if confinement.report != "confinement user=yes capabilities=yes landlock=yes seccomp=yes" {
                    println!("skipped: {}", confinement.report);
                    return;
                }
                assert_eq!(fs::read_to_string(&own).unwrap(), "text");
                assert!(fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok());
                assert!(UdpSocket::bind("127.0.0.1:0").is_ok());
                let refused = |done: io::Result<()>| done.unwrap_err().raw_os_error().unwrap();
                assert_eq!(refused(File::open("/etc/passwd").map(drop)), libc::EACCES);
                assert_eq!(refused(fs::write(own.with_extension("new"), "")), libc::EACCES);
                let run = |name: &str| Command::new(name).arg("-V").stdin(Stdio::piped()).output().map(drop);
                if executes && program("ip").is_some() {
                    assert!(!geteuid().is_root());
                    run("ip").unwrap();
                    assert_eq!(refused(run("ls")), libc::EACCES);
                } else {
                    assert_eq!(refused(run("ls")), libc::ENOSYS);
                }
                for family in [AddressFamily::PACKET, AddressFamily::UNIX] {
                    let socket = rustix::net::socket(family, rustix::net::SocketType::DGRAM, None);
                    assert_eq!(socket.unwrap_err().raw_os_error(), libc::ENOSYS);
                }
                assert!(UnixDatagram::pair().is_err());
                assert_eq!(rustix::process::chroot("/").unwrap_err().raw_os_error(), libc::ENOSYS);
            });
            confined.join().unwrap();
        }
    }
}
