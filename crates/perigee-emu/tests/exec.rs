//! Programs behind an emulated link. Each test has a host of its own: a namespace that plays this machine.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use perigee_emu::{Driver, Endpoint, Exec, ExecError, Namespace, Outcome, Surroundings, TunWire, Watcher, Way};
use perigee_link::LinkSpec;
use perigee_units::{Rate, Time};

/// A host to test in; `None`, having said why, where there can be none.
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
    Exec { down: constant(20.0, 30), up: constant(20.0, 30), seed: 1, mtu: 1500 }
}

struct Seen(Option<Surroundings>);

impl Watcher for Seen {
    fn begun(&mut self, surroundings: &Surroundings) {
        self.0 = Some(surroundings.clone());
    }
}

/// Lets a program live so many tenths of a second.
struct Patience(u32);

impl Watcher for Patience {
    fn go_on(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// Runs a Python program behind a link, in this thread's namespace.
fn python(exec: &Exec, program: &str) -> Result<(Outcome, Surroundings), ExecError> {
    let mut seen = Seen(None);
    let outcome = exec.run(Command::new("python3").args(["-c", program]), &mut seen)?;
    Ok((outcome, seen.0.expect("told before the program began")))
}

/// Sends `bytes` to the one who connects, and answers with the address it came from.
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

/// A Python program that asks the server and counts what comes.
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
fn a_download_takes_the_time_that_the_link_asks() {
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
    // At 20 Mbit/s 5 MB and headers take 2.07 s, slow start, Python's own start and a busy machine some more.
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
    // Somebody else's machine, a wire away from the host; it knows the way to the host only.
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
            let way = |from, to, name| Way { from, to, spec: &wire, name };
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
fn the_program_ends_as_it_ends_and_nothing_is_left() {
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
        // The near end's address differs: each program asks at its own default route's other side.
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
