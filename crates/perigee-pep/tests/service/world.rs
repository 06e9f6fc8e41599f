//! A client, a router and a server in network namespaces without names, which end with the test.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_linger, set_socket_timeout, Timeout};
use rustix::process::{kill_process, Pid, Signal};
use rustix::thread::{move_into_link_name_space, unshare_unsafe, LinkNameSpaceType, UnshareFlags};

/// No operation of a test takes as long, on whatever machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A network namespace.
pub(crate) struct Host(File);

/// client 10.1.0.2 - lan0 10.1.0.1 router 10.2.0.1 - 10.2.0.2 server, and the same with `2001:db8:1::` and `2001:db8:2::`.
pub(crate) struct World {
    pub(crate) client: Host,
    pub(crate) router: Host,
    pub(crate) server: Host,
    pub(crate) folder: tempfile::TempDir,
}

/// A running service.
pub(crate) struct Service {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
    /// Messages to the service manager.
    told: Arc<Mutex<Vec<String>>>,
}

impl Host {
    pub(crate) fn new() -> Self {
        thread::spawn(|| {
            // SAFETY: descriptors stay shared; only this short-lived thread changes its network.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET).unwrap() };
            let host = Self(File::open("/proc/thread-self/ns/net").unwrap());
            host.execute("ip link set lo up");
            // A link-local address, which packets with addresses of others need too, can be used at once. Hosts without IPv6 skip.
            let _ = fs::write("/proc/sys/net/ipv6/conf/default/dad_transmits", "0");
            host
        })
        .join()
        .unwrap()
    }

    /// Runs `work` in the namespace, in a thread of its own: sockets that it opens stay there.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let entered = scope.spawn(|| {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            entered.join().unwrap()
        })
    }

    /// Executes a command line of plain words, and returns what it prints.
    pub(crate) fn execute(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        let output = self.enter(|| command.args(words).output().unwrap());
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn listen(&self, address: &str) -> TcpListener {
        // A child of another test may have an earlier listener of the port between `fork` and `exec`.
        let began = Instant::now();
        let bind = || loop {
            match TcpListener::bind(address) {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && began.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_millis(1));
                }
                bound => break bound.unwrap(),
            }
        };
        let listener = self.enter(bind);
        set_socket_timeout(&listener, Timeout::Recv, Some(PATIENCE)).unwrap();
        listener
    }

    pub(crate) fn connect(&self, address: &str) -> TcpStream {
        let address: SocketAddr = address.parse().unwrap();
        patient(self.enter(|| TcpStream::connect_timeout(&address, PATIENCE).unwrap()))
    }

    /// The namespace, as a path of this process.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

impl World {
    /// Three hosts; `None`, with the reason printed, where that is not possible.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: network namespaces need root");
            return None;
        }
        for program in ["ip", "nft"] {
            if Command::new(program).arg("-V").output().is_err() {
                println!("skipped: there is no program {program}");
                return None;
            }
        }
        if !std::path::Path::new("/proc/net/if_inet6").exists() {
            println!("skipped: there is no IPv6");
            return None;
        }
        let world = Self {
            client: Host::new(),
            router: Host::new(),
            server: Host::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        for (host, device, net) in [(&world.client, "lan0", 1), (&world.server, "wan0", 2)] {
            let path = host.path();
            world.router.execute(&format!("ip link add {device} type veth peer name eth0 netns {path}"));
            for (host, device, own) in [(&world.router, device, 1), (host, "eth0", 2)] {
                host.execute(&format!("ip address add 10.{net}.0.{own}/24 dev {device}"));
                host.execute(&format!("ip address add 2001:db8:{net}::{own}/64 dev {device} nodad"));
                host.execute(&format!("ip link set {device} up"));
            }
            host.execute(&format!("ip route add default via 10.{net}.0.1"));
            host.execute(&format!("ip -6 route add default via 2001:db8:{net}::1"));
        }
        world.router.enter(|| {
            for version in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                fs::write(format!("/proc/sys/net/{version}"), "1").unwrap();
            }
        });
        Some(world)
    }

    /// A file with a configuration.
    pub(crate) fn config(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("pep.toml");
        fs::write(&path, text).unwrap();
        path
    }

    /// The service at the router, once it is ready.
    pub(crate) fn start(&self, config: &str) -> Service {
        self.start_with("exec \"$0\" \"$@\"", config)
    }

    /// As [`World::start`], by a script of the shell.
    pub(crate) fn start_with(&self, script: &str, config: &str) -> Service {
        Self::start_at(&self.router, script, &self.config(config))
    }

    /// The service at a host, by a script of the shell, once it is ready.
    pub(crate) fn start_at(host: &Host, script: &str, path: &Path) -> Service {
        let notify = path.with_extension("notify");
        let _ = fs::remove_file(&notify);
        let manager = UnixDatagram::bind(&notify).unwrap();
        // As that of systemd.
        fs::set_permissions(&notify, fs::Permissions::from_mode(0o777)).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_perigee-pep"), "run"]).arg(path);
        command.env("NOTIFY_SOCKET", &notify).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = host.enter(|| command.spawn().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, error) = (log.clone(), child.stderr.take().unwrap());
        let reader = thread::spawn(move || {
            for line in BufReader::new(error).lines() {
                lines.lock().unwrap().push(line.unwrap());
            }
        });
        let told = Arc::default();
        let service = Service { child, log, reader: Some(reader), told: Arc::clone(&told) };
        let mut message = [0; 64];
        let received = retried(|| manager.recv(&mut message));
        let length = received.unwrap_or_else(|error| panic!("not ready: {error}: {:?}", service.log()));
        assert_eq!(&message[..length], b"READY=1");
        told.lock().unwrap().push("READY=1".to_owned());
        // Until no more of them come.
        thread::spawn(move || {
            while let Ok(length) = retried(|| manager.recv(&mut message)) {
                told.lock().unwrap().push(String::from_utf8_lossy(&message[..length]).into_owned());
            }
        });
        service
    }

    /// Returns the output of a command of the program.
    pub(crate) fn ask(&self, command: &str) -> String {
        let program = env!("CARGO_BIN_EXE_perigee-pep");
        self.router.execute(&format!("{program} {command} {}", self.folder.path().join("pep.toml").display()))
    }
}

impl Service {
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// The messages to the service manager.
    pub(crate) fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// Its process: the last one that has taken over.
    pub(crate) fn id(&self) -> u32 {
        self.processes().last().copied().unwrap_or(self.child.id())
    }

    /// Those that have taken over, in order.
    fn processes(&self) -> Vec<u32> {
        let log = self.log();
        let replaced = log.iter().filter(|line| line.starts_with("replaced "));
        let words = replaced.flat_map(|line| line.split(' '));
        words.filter_map(|word| word.strip_prefix("process=")?.parse().ok()).collect()
    }

    /// Its resident memory, kB.
    pub(crate) fn resident_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id() as i32).unwrap(), signal).unwrap();
    }

    /// Kills it, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Waits until the log has a line with all of these words.
    pub(crate) fn await_line(&self, words: &[&str]) -> String {
        for _ in 0..PATIENCE.as_millis() / 10 {
            let log = self.log();
            if let Some(line) = log.iter().find(|line| words.iter().all(|word| line.contains(word))) {
                return line.clone();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no line with {words:?} in {:#?}", self.log());
    }

    /// Whether it ends in time; its log is not waited for.
    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < time {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Waits for its end; the whole log.
    pub(crate) fn wait(mut self) -> (ExitStatus, Vec<String>) {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        (status, self.log())
    }

    /// Ends it without waiting for connections.
    pub(crate) fn stop_at_once(self) -> Vec<String> {
        self.signal(Signal::TERM);
        self.await_line(&["draining"]);
        self.stop()
    }

    /// Ends it in order.
    pub(crate) fn stop(self) -> Vec<String> {
        self.signal(Signal::TERM);
        let (status, log) = self.wait();
        assert!(status.success(), "{status}: {log:#?}");
        log
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended already, or the test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in self.processes() {
            let program = fs::read_link(format!("/proc/{process}/exe"));
            if program.is_ok_and(|program| program == Path::new(env!("CARGO_BIN_EXE_perigee-pep"))) {
                let _ = kill_process(Pid::from_raw(process as i32).unwrap(), Signal::KILL);
            }
        }
    }
}

/// A script for [`World::start_with`] before which everybody may open the TUN device, as on most hosts.
pub(crate) fn with_device(world: &World, script: &str) -> String {
    let tun = world.folder.path().join("tun");
    let device = format!("mknod {0} c 10 200 && chmod 666 {0} && mount --bind {0} /dev/net/tun", tun.display());
    format!("exec unshare -m sh -c '{device} && {script}' \"$0\" \"$@\"")
}

/// An operation that the kernel may interrupt: one with a time-out is not restarted after the machine was suspended.
pub(crate) fn retried<T>(mut operation: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Waits until something is so.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it is not so");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A socket whose operations fail instead of waiting for ever.
pub(crate) fn patient(socket: TcpStream) -> TcpStream {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The next connection.
pub(crate) fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let (socket, peer) = retried(|| listener.accept()).unwrap();
    (patient(socket), peer)
}

/// Closes a socket so that its connection is reset.
pub(crate) fn reset(socket: TcpStream) {
    set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
    drop(socket);
}

/// Reads to the end, or to the error.
pub(crate) fn read_all(socket: &mut TcpStream) -> (Vec<u8>, std::io::Result<usize>) {
    let mut all = Vec::new();
    let end = socket.read_to_end(&mut all);
    (all, end)
}

/// Bytes that differ by place and seed.
pub(crate) fn bytes(count: usize, seed: u32) -> Vec<u8> {
    (0..count as u32).map(|at| (at.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// An address without port.
pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
