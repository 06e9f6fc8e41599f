//! Exclusive access to the kernel for one test at a time, and connections over loopback.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use perigee_bpf::{load, unload, InUse, Loaded, Options, Program};
use rustix::fs::{flock, FlockOperation};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};

/// A lock on the state of the kernel; the state is restored when it is dropped.
pub(crate) struct Machine {
    _alone: MutexGuard<'static, ()>,
    _alone_among_processes: File,
    had_bpf_fs: bool,
    loaded: Vec<String>,
}

impl Machine {
    /// `None`, after a line with the reason, where nothing can be loaded.
    pub(crate) fn take() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        if let Err(missing) = perigee_bpf::requirements::check() {
            println!("skipped: {missing}");
            return None;
        }
        if let Err(missing) = Program::built_in("reno", &[]) {
            println!("skipped: {missing}");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // The Python tests lock this file too: it always exists.
        let file = File::open("/sys/kernel/btf").expect("it is there where algorithms can be loaded");
        flock(&file, FlockOperation::LockExclusive).expect("it can be locked");
        let had_bpf_fs = has_bpf_fs();
        Some(Self { _alone: alone, _alone_among_processes: file, had_bpf_fs, loaded: Vec::new() })
    }

    /// Loads under a unique name.
    pub(crate) fn load(&mut self, algorithm: &str, settings: &[(&str, &str)], suffix: &str) -> Loaded {
        self.load_as(algorithm, settings, suffix, false)
    }

    /// Loads and makes it the default.
    pub(crate) fn load_default(&mut self, algorithm: &str, suffix: &str) -> Loaded {
        self.load_as(algorithm, &[], suffix, true)
    }

    fn load_as(&mut self, algorithm: &str, settings: &[(&str, &str)], suffix: &str, make_default: bool) -> Loaded {
        let program = Program::built_in(algorithm, settings).expect("it was compiled, and the choice is right");
        self.load_program(&program, &own_name(suffix), make_default)
    }

    /// Unloads this name at the end of the test.
    pub(crate) fn will_unload(&mut self, name: &str) {
        self.loaded.push(name.to_owned());
    }

    /// Loads under this name, until the end of the test.
    pub(crate) fn load_program(&mut self, program: &Program, name: &str, make_default: bool) -> Loaded {
        self.will_unload(name);
        load(program, Options { name: Some(name), make_default, ..Options::default() })
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for name in &self.loaded {
            let _ = unload(name, InUse::Leave);
        }
        if !self.had_bpf_fs && has_bpf_fs() {
            let _ = Command::new("umount").arg("/sys/fs/bpf").status();
        }
    }
}

/// A name of this process, of at most fifteen characters.
pub(crate) fn own_name(suffix: &str) -> String {
    format!("t{}{suffix}", std::process::id())
}

fn has_bpf_fs() -> bool {
    std::fs::read_to_string("/proc/mounts")
        .is_ok_and(|mounts| mounts.lines().any(|line| line.contains(" /sys/fs/bpf ")))
}

/// A connection over loopback, both ends.
pub(crate) struct LoopbackConnection {
    pub(crate) sender: TcpStream,
    receiver: TcpStream,
    bytes: u64,
}

impl LoopbackConnection {
    /// A connection with the default congestion control.
    pub(crate) fn plain() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let sender = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let receiver = listener.accept().expect("it was connected").0;
        Self { sender, receiver, bytes: 0 }
    }

    /// A connection with the congestion control of this name.
    pub(crate) fn new(cc: &str) -> Self {
        let connection = Self::plain();
        set_tcp_congestion(&connection.sender, cc).unwrap_or_else(|error| panic!("{cc}: {error}"));
        connection
    }

    /// The congestion control as the kernel reports it.
    pub(crate) fn cc(&self) -> String {
        tcp_congestion(&self.sender).expect("it is a TCP socket")
    }

    /// Sends `bytes` bytes, and compares the received with the sent ones.
    pub(crate) fn transfer(&mut self, mut bytes: usize) {
        // Less than the smallest buffer, so that one thread can send and receive.
        let mut arrived = [0; 16 << 10];
        while bytes > 0 {
            let part = bytes.min(arrived.len());
            let sent: Vec<u8> = (self.bytes..).take(part).map(|at| (at % 251) as u8).collect();
            self.sender.write_all(&sent).expect("the connection works");
            self.receiver.read_exact(&mut arrived[..part]).expect("the connection works");
            assert!(arrived[..part] == sent[..], "bytes arrived changed, after {}", self.bytes);
            self.bytes += part as u64;
            bytes -= part;
        }
    }

    /// Sends as fast as possible until it is stopped.
    pub(crate) fn flood(mut self, stop: &AtomicBool) {
        let mut receiver = self.receiver;
        let drain = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while receiver.read(&mut buffer).is_ok_and(|length| length > 0) {}
        });
        let block = vec![0; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            self.sender.write_all(&block).expect("the connection works");
        }
        drop(self.sender);
        drain.join().expect("it reads to the end");
    }
}

/// A named network namespace with loopback up; removed when it is dropped.
pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    pub(crate) fn new(suffix: &str) -> Self {
        let name = format!("perigee-{}", own_name(suffix));
        ip(&["netns", "add", &name]);
        let namespace = Self(name);
        ip(&["-n", &namespace.0, "link", "set", "lo", "up"]);
        namespace
    }

    /// Runs a function in the namespace.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.0)).expect("it was made");
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                use std::os::fd::AsFd as _;
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may");
                work()
            });
            inside.join().expect("what is done inside goes well")
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).status().expect("iproute2 is installed");
    assert!(done.success(), "ip {}", arguments.join(" "));
}
