//! Programs behind an emulated link. Each test has its own host: a namespace in place of this machine.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use perigee_emu::dns::name_server;
use perigee_emu::{
    DirectedLink, Driver, Endpoint, Exec, ExecError, ExecObserver, ExecReport, Namespace, Reachability, TunWire,
    Undelivered,
};
use perigee_link::LinkSpec;
use perigee_units::{Rate, Time};

/// A host to test in; prints the reason and returns `None` where namespaces cannot be made.
fn host() -> Option<Namespace> {
    let host = Namespace::new();
    let device = |host: &Namespace| {
        Endpoint { name: "probe".into(), addresses: Vec::new(), routes: Vec::new(), mtu: 1500 }.create(host)
    };
    match host.and_then(|host| device(&host).map(|_| host)) {
        Ok(host) => Some(host),
        Err(error) => {
            println!("skipped: no namespaces or TUN devices: {error}");
            None
        }
    }
}

fn constant(mbps: f64, delay_ms: u64) -> LinkSpec {
    LinkSpec::constant(Rate::from_mbps(mbps), Time::from_millis(delay_ms))
}

/// 20 Mbit/s and 30 ms each way.
fn link() -> Exec {
    Exec { down: constant(20.0, 30), up: constant(20.0, 30), seed: 1, mtu: 1500, drain: Time::from_secs(10) }
}

struct Seen(Option<Reachability>);

impl ExecObserver for Seen {
    fn begun(&mut self, surroundings: &Reachability) {
        self.0 = Some(surroundings.clone());
    }
}

/// Ends a program after this many tenths of a second.
struct Patience(u32);

impl ExecObserver for Patience {
    fn go_on(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// Runs a Python program behind a link, in this thread's namespace.
fn python(exec: &Exec, program: &str) -> Result<(ExecReport, Reachability), ExecError> {
    let mut seen = Seen(None);
    let outcome = exec.run(Command::new("python3").args(["-c", program]), &mut seen)?;
    Ok((outcome, seen.0.expect("told before the program began")))
}

/// Sends `bytes` to the client that connects, and returns the client's address.
fn server(listener: TcpListener, bytes: usize) -> JoinHandle<io::Result<IpAddr>> {
    thread::spawn(move || {
        let (mut socket, peer) = listener.accept()?;
        socket.read_exact(&mut [0])?;
        let chunk = vec![7; 50_000];
        for _ in 0..bytes / chunk.len() {
            socket.write_all(&chunk)?;
        }
        Ok(peer.ip())
    })
}

/// A Python program that connects to the server and counts the bytes that arrive.
fn download(address: &str, bytes: usize) -> String {
    format!(
        "import socket, sys\n\
         s = socket.create_connection(('{address}', 8080), 20)\n\
         s.sendall(b'x')\n\
         n = 0\n\
         while (d := s.recv(1 << 20)): n += len(d)\n\
         sys.exit(n != {bytes})\n"
    )
}

#[test]
fn a_download_takes_as_long_as_the_rate_and_delay_of_the_link_require() {
    let Some(host) = host() else { return };
    let bytes = 5_000_000;
    let work = || {
        let listener = TcpListener::bind(("0.0.0.0", 8080))?;
        let server = server(listener, bytes);
        let result = python(&link(), &download("100.64.0.1", bytes)).map_err(io::Error::other)?;
        server.join().expect("the server")?;
        Ok(result)
    };
    let (outcome, surroundings) = host.enter(work).expect("a run");
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(surroundings.near, Ipv4Addr::new(100, 64, 0, 1));
    // 5 MB with headers take 2.07 s at 20 Mbit/s; slow start, the start of Python and a busy machine add to that.
    let seconds = outcome.duration.as_secs_f64();
    assert!((2.07..10.0).contains(&seconds), "{seconds} s");
    let (packets, sent) = (outcome.down.counters.delivered_packets, outcome.down.counters.delivered_bytes);
    assert!(
        sent > bytes as u64 && sent <= packets * 1500,
        "{sent} bytes in {packets} packets: larger than a link takes"
    );
    assert!(outcome.up.delay_mean >= Time::from_millis(30) && outcome.up.delay_mean < Time::from_millis(32));
    assert!(outcome.down.delay_mean > outcome.up.delay_mean, "the queue was never used");
}

#[test]
fn ipv6_crosses_the_link_as_well() {
    let Some(host) = host() else { return };
    let work = || {
        let server = server(TcpListener::bind(("::", 8080))?, 100_000);
        let result = python(&link(), &download("fd70:6572:6967:4000::1", 100_000)).map_err(io::Error::other)?;
        server.join().expect("the server")?;
        Ok(result)
    };
    let (outcome, _) = host.enter(work).expect("a run");
    assert!(outcome.status.success(), "{outcome:?}");
}

#[test]
fn a_program_reaches_what_its_host_reaches() {
    let Some(host) = host() else { return };
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("skipped: nft is not installed");
    }
    // Another machine, one wire from the host; it has a route to the host only.
    let far = Namespace::new().expect("a second namespace");
    let end = |host: u8, name: &str, namespace: &Namespace| {
        let addresses = vec![(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), 24)];
        Endpoint { name: name.into(), addresses, routes: Vec::new(), mtu: 1500 }.create(namespace).expect("a device")
    };
    let (near_end, far_end) = (end(1, "wire", &host), end(2, "wire", &far));
    let listener = far.enter(|| TcpListener::bind(("0.0.0.0", 8080))).expect("a server");
    let server = server(listener, 100_000);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let wire = constant(1000.0, 0);
            let way = |from, to, name| DirectedLink { from, to, spec: &wire, name, gives_up_waiting: false };
            let mut driver = Driver::new(&[way(0, 1, "wire.down"), way(1, 0, "wire.up")], 1, 1500);
            let mut wire = TunWire::new(vec![near_end, far_end], perigee_emu::monotonic());
            driver.run(&mut wire, &mut || !stop.load(Ordering::Relaxed)).expect("a wire");
        });
        let work = || {
            let tables = || Command::new("nft").args(["list", "tables"]).output().map(|output| output.stdout);
            let result = python(&link(), &download("192.0.2.2", 100_000)).map_err(io::Error::other)?;
            Ok((result, tables()?))
        };
        let done = host.enter(work);
        stop.store(true, Ordering::Relaxed);
        let ((outcome, surroundings), tables) = done.expect("a run");
        assert_eq!(surroundings.closed, None);
        assert!(outcome.status.success(), "{outcome:?}");
        assert_eq!(String::from_utf8_lossy(&tables), "", "a table of nftables is left");
    });
    assert_eq!(server.join().expect("the server").expect("a peer"), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
}

#[test]
fn the_exit_status_is_the_programs_and_nothing_is_left_behind() {
    let Some(host) = host() else { return };
    let work = || {
        let devices = || std::fs::read_to_string("/proc/thread-self/net/dev");
        let before = devices()?;
        let code = python(&link(), "import sys; sys.exit(7)").map_err(io::Error::other)?.0.status.code();
        let missing = link().run(&mut Command::new("no-such-program"), &mut ()).unwrap_err();
        let killed = link().run(Command::new("sleep").arg("60"), &mut Patience(3)).map_err(io::Error::other)?;
        Ok((code, missing.to_string(), killed.status.success(), before == devices()?))
    };
    let (code, missing, survived, same) = host.enter(work).expect("runs");
    assert_eq!(code, Some(7));
    assert!(missing.starts_with("`no-such-program` does not start: "), "{missing}");
    assert!(!survived, "killed in its sleep");
    assert!(same, "a device is left");
}

#[test]
fn two_links_at_once_do_not_disturb_each_other() {
    let Some(host) = host() else { return };
    let work = || {
        let (one, two) = (TcpListener::bind(("0.0.0.0", 8080))?, TcpListener::bind(("0.0.0.0", 8081))?);
        let (one, two) = (server(one, 500_000), server(two, 500_000));
        // The address of the near end differs: each program connects to its own default gateway.
        let ask = |port: u16| download("192.0.2.9", 500_000).replace("8080", &port.to_string());
        let fast = Exec { down: constant(50.0, 5), up: constant(50.0, 5), ..link() };
        let _ = Command::new("ip").args(["address", "add", "192.0.2.9/32", "dev", "lo"]).status()?;
        let run = |exec: Exec, port| {
            let here = Namespace::current()?;
            Ok::<_, io::Error>(thread::spawn(move || {
                here.enter(|| python(&exec, &ask(port)).map_err(io::Error::other))
            }))
        };
        let (slow, fast) = (run(link(), 8080)?, run(fast, 8081)?);
        let (slow, fast) = (slow.join().expect("a thread")?, fast.join().expect("a thread")?);
        one.join().expect("the server")?;
        two.join().expect("the server")?;
        Ok((slow, fast))
    };
    let ((slow, near_slow), (fast, near_fast)) = host.enter(work).expect("runs");
    assert!(slow.status.success() && fast.status.success());
    assert_ne!(near_slow.near, near_fast.near);
    assert!(fast.up.delay_mean < Time::from_millis(10) && slow.up.delay_mean >= Time::from_millis(30));
}

/// A Python program that connects to a server at the link's near end, sends a number of bytes, and ends at once.
fn upload(bytes: usize) -> String {
    format!(
        "import socket\n\
         s = socket.create_connection(('100.64.0.1', 8080), 20)\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {bytes})\n\
         s.sendall(bytes({bytes}))\n"
    )
}

#[test]
fn what_a_program_has_sent_arrives_after_its_end() {
    let Some(host) = host() else { return };
    let bytes = 500_000;
    let work = || {
        let listener = TcpListener::bind(("0.0.0.0", 8080))?;
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept()?;
            socket.set_read_timeout(Some(std::time::Duration::from_secs(10)))?;
            // Reads until the connection is closed: a connection that is reset is an error here.
            io::copy(&mut socket, &mut io::sink())
        });
        let (outcome, _) = python(&link(), &upload(bytes)).map_err(io::Error::other)?;
        Ok((outcome, server.join().expect("the server")))
    };
    let (outcome, received) = host.enter(work).expect("a run");
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(received.expect("the connection's end"), bytes as u64);
    assert_eq!(outcome.undelivered, Undelivered::default());
    // This takes 0.2 s at 20 Mbit/s; the program exits before.
    assert!(outcome.up.counters.delivered_bytes > bytes as u64, "{outcome:?}");
}

#[test]
fn data_that_do_not_arrive_in_time_are_given_up_and_reported() {
    let Some(host) = host() else { return };
    let work = || {
        // The server does not read: the kernel accepts what fits into its buffers.
        let _listener = TcpListener::bind(("0.0.0.0", 8080))?;
        let exec = Exec { drain: Time::from_millis(300), ..link() };
        python(&exec, &upload(20_000_000).replace("sendall", "setblocking(False) or s.send")).map_err(io::Error::other)
    };
    let (outcome, _) = host.enter(work).expect("a run");
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.undelivered.connections, 1, "{outcome:?}");
    assert!(outcome.undelivered.bytes > 100_000, "{outcome:?}");
}

#[test]
fn processes_that_a_program_leaves_behind_are_ended_and_named() {
    let Some(host) = host() else { return };
    let work = || {
        let program = "setsid sleep 60 & setsid sh -c 'trap \"exit 0\" TERM; sleep 61 & wait' & sleep 0.3";
        link().run(Command::new("sh").args(["-c", program]), &mut ()).map_err(io::Error::other)
    };
    let outcome = host.enter(work).expect("a run");
    let mut names: Vec<_> = outcome.ended.iter().map(|process| process.command.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["sh", "sleep", "sleep"]);
    for process in outcome.ended {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
        // A zombie has ended already.
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
}

/// Asks the name server at the link's near end from this host.
struct Neighbour(UdpSocket);

impl ExecObserver for Neighbour {
    fn begun(&mut self, surroundings: &Reachability) {
        self.0.connect((surroundings.near, 53)).expect("an address");
        self.0.send(&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]).expect("a question is sent");
    }
}

#[test]
fn only_the_program_can_use_the_links_name_server() {
    let Some(host) = host() else { return };
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let Some(address @ IpAddr::V4(_)) = name_server(&text) else {
        return println!("skipped: /etc/resolv.conf names no server with an IPv4 address");
    };
    let ask = "import socket, sys\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.connect(('100.64.0.1', 53))\n\
        s.send(bytes([0, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]))\n\
        sys.exit(s.recv(100)[:3] != bytes([0, 2, 0x81]))";
    let work = || {
        // This server is the host's name server.
        let _ = Command::new("ip").args(["address", "add", &format!("{address}/32"), "dev", "lo"]).output()?;
        let server = UdpSocket::bind((address, 53))?;
        server.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
        let serve = thread::spawn(move || {
            let mut asked = Vec::new();
            let mut message = [0; 100];
            while let Ok((size, asker)) = server.recv_from(&mut message) {
                asked.push(message[1]);
                message[2] |= 0x80;
                server.send_to(&message[..size], asker)?;
            }
            Ok::<_, io::Error>(asked)
        });
        let mut neighbour = Neighbour(UdpSocket::bind(("0.0.0.0", 0))?);
        neighbour.0.set_nonblocking(true)?;
        let outcome =
            link().run(Command::new("python3").args(["-c", ask]), &mut neighbour).map_err(io::Error::other)?;
        Ok((outcome, neighbour.0.recv(&mut [0; 100]), serve.join().expect("the server")?))
    };
    let (outcome, answer, asked) = host.enter(work).expect("a run");
    assert!(outcome.status.success(), "the program's question has no answer: {outcome:?}");
    assert!(answer.is_err(), "this host was answered at another device than the link's");
    assert_eq!(asked, [2], "questions that were passed on");
}
