//! The link that the service divides: what it sends stays below the rate, and is shared between subscribers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::process::Signal;

use crate::upgrades::upgrade;
use crate::world::{accept, World};

/// Clients are behind the satellite: what the service sends to them is shared.
fn config(world: &World, link: &str) -> String {
    let control = world.folder.path().join("control");
    format!(
        "[allow]\nsources = [\"10.1.0.0/24\"]\ndestinations = [\"10.2.0.0/24\"]\n\
         [transparent]\ninterfaces = [\"lan0\"]\n\
         [legs.sky]\n[legs.town]\n[[rules]]\nname = \"all\"\nclient = \"sky\"\nserver = \"town\"\n\
         [service]\nworkers = 2\ncontrol = \"{}\"\n\
         [link]\nleg = \"sky\"\ninterface = \"lan0\"\n{link}\n",
        control.display()
    )
}

#[test]
fn a_missing_file_of_the_link_is_bad_input_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pep.toml");
    let text = "[allow]\nlocal = true\nsources = [\"127.0.0.0/8\"]\ndestinations = [\"127.0.0.0/8\"]\n\
                [[forward]]\nlisten = \"127.0.0.1:9\"\ntarget = \"127.0.0.1:10\"\n\
                [legs.sky]\n[legs.town]\n[[rules]]\nname = \"all\"\nclient = \"sky\"\nserver = \"town\"\n\
                [link]\nleg = \"sky\"\ninterface = \"lo\"\n";
    for source in ["slots = \"/no/such\"", "command = [\"/no/such\"]"] {
        fs::write(&path, format!("{text}{source}\n")).unwrap();
        for command in ["check", "run", "upgrade"] {
            let output = Command::new(env!("CARGO_BIN_EXE_perigee-pep")).arg(command).arg(&path).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{command} {output:?}");
            assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such: No such file"), "{command} {output:?}");
        }
    }
}

/// Downloads of clients, each with the bytes that it has received.
struct Downloads(Vec<Arc<AtomicU64>>);

impl Downloads {
    /// One for each address, from a server that sends for ever.
    fn new(world: &World, clients: &[&str]) -> Self {
        let listener = world.server.listen("10.2.0.2:80");
        let begin = |client: &&str| {
            let socket = world.client.enter(|| {
                let socket =
                    rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
                let socket = socket.unwrap();
                rustix::net::bind(&socket, &format!("{client}:0").parse::<std::net::SocketAddr>().unwrap()).unwrap();
                rustix::net::connect(&socket, &"10.2.0.2:80".parse::<std::net::SocketAddr>().unwrap()).unwrap();
                TcpStream::from(socket)
            });
            let (mut far, _) = accept(&listener);
            let block = vec![7; 1 << 16];
            thread::spawn(move || while far.write_all(&block).is_ok() {});
            let count = Arc::new(AtomicU64::new(0));
            let counted = count.clone();
            thread::spawn(move || -> io::Result<()> {
                let (mut socket, mut part) = (socket, vec![0; 1 << 16]);
                loop {
                    counted.fetch_add(socket.read(&mut part)? as u64, Ordering::Relaxed);
                }
            });
            count
        };
        Self(clients.iter().map(begin).collect())
    }

    /// Rate of each, Mbit/s, over some time.
    fn rates(&self, time: Duration) -> Vec<f64> {
        let counts = || self.0.iter().map(|count| count.load(Ordering::Relaxed));
        let (before, began): (Vec<u64>, Instant) = (counts().collect(), Instant::now());
        thread::sleep(time);
        let seconds = began.elapsed().as_secs_f64();
        counts().zip(before).map(|(after, before)| (after - before) as f64 * 8e-6 / seconds).collect()
    }

    fn await_rate(&self, world: &World, least: f64, most: f64) -> f64 {
        let mut seen = Vec::new();
        for _ in 0..60 {
            let sum: f64 = self.rates(Duration::from_millis(500)).iter().sum();
            if (least..most).contains(&sum) {
                return sum;
            }
            seen.push(sum);
        }
        let sockets = world.router.execute("ss -tino state established");
        panic!("no rate from {least} to {most} Mbit/s: {seen:?}\n{}{sockets}", world.ask("status"));
    }
}

#[test]
fn subscribers_share_what_the_service_sends_and_a_new_rate_is_followed() {
    let Some(world) = World::new() else { return };
    world.client.execute("ip address add 10.1.0.3/24 dev eth0");
    let service = world.start(&config(&world, "send = \"40 Mbit/s\""));
    let downloads = Downloads::new(&world, &["10.1.0.2", "10.1.0.3", "10.1.0.3", "10.1.0.3"]);
    downloads.await_rate(&world, 34.0, 40.0);
    let rates = downloads.rates(Duration::from_secs(3));
    let (one, other) = (rates[0], rates[1..].iter().sum::<f64>());
    println!("one connection {one:.2} Mbit/s, three of another {other:.2}");
    // Payload of 1448 bytes in packets of 1500, acknowledgements of the others' connections beside.
    assert!((35.5..38.0).contains(&(one + other)), "{rates:?}");
    let jain = (one + other).powi(2) / (2.0 * (one * one + other * other));
    assert!(jain >= 0.98, "{rates:?}");
    let status = world.ask("status");
    for words in ["link shared yes", "link send rate_bps 40000000", "subscriber 10.1.0.3 send_bps"] {
        assert!(status.contains(words), "{status}");
    }
    world.config(&config(
        &world,
        "send = \"20 Mbit/s\"\n[[link.subscribers]]\nname = \"first\"\nsources = [\"10.1.0.2\"]\nweight = 3",
    ));
    service.signal(Signal::HUP);
    service.await_line(&["reloaded"]);
    downloads.await_rate(&world, 17.0, 19.2);
    let rates = downloads.rates(Duration::from_secs(3));
    let share = rates[0] / rates.iter().sum::<f64>();
    assert!((0.72..0.78).contains(&share), "{rates:?}");
    // Without `[link]` nothing is held back.
    world.config(config(&world, "").split("[link]").next().unwrap());
    service.signal(Signal::HUP);
    downloads.await_rate(&world, 100.0, f64::INFINITY);
    service.stop_at_once();
}

#[test]
fn a_slow_rate_holds_on_a_path_shorter_than_the_kernel_s_bursts() {
    let Some(world) = World::new() else { return };
    let service = world.start(&config(&world, "send = \"2 Mbit/s\""));
    let downloads = Downloads::new(&world, &["10.1.0.2"; 10]);
    thread::sleep(Duration::from_secs(4));
    let rates = downloads.rates(Duration::from_secs(4));
    let sum: f64 = rates.iter().sum();
    println!("{rates:.3?} Mbit/s, in sum {sum:.3}");
    assert!((1.75..1.93).contains(&sum), "{rates:?}");
    // A burst of 64 KiB would be 0.13 Mbit/s.
    assert!(rates.iter().all(|rate| (0.16..0.22).contains(rate)), "{rates:?}");
    service.stop_at_once();
}

#[test]
fn a_rate_that_the_modem_has_not_said_for_long_holds_nothing_back() {
    let Some(world) = World::new() else { return };
    let program = world.folder.path().join("modem");
    // The confined service has a user of its own.
    fs::set_permissions(world.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Confined, it may read no file: its own text has the rate.
    let say = |rate: &str| {
        fs::write(&program, format!("#!/bin/sh\n{rate}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    say("echo 20 Mbit/s");
    let asked = format!("command = [\"{}\"]\nevery = \"100 ms\"\noldest = \"1 s\"", program.display());
    let service = world.start(&config(&world, &asked));
    service.await_line(&["link shared send=\"20 Mbit/s\""]);
    let downloads = Downloads::new(&world, &["10.1.0.2"]);
    downloads.await_rate(&world, 17.0, 20.0);
    say("echo 10 Mbit/s");
    downloads.await_rate(&world, 8.5, 9.6);
    say("exit 1");
    service.await_line(&["link not shared", "exit status: 1"]);
    downloads.await_rate(&world, 100.0, f64::INFINITY);
    assert!(world.ask("status").contains("link shared no reason"), "{}", world.ask("status"));
    say("echo 20 Mbit/s");
    downloads.await_rate(&world, 17.0, 20.0);
    service.stop_at_once();
}

#[test]
fn processes_that_drain_after_upgrades_share_the_link_with_the_newest() {
    let Some(world) = World::new() else { return };
    let clients = ["10.1.0.2", "10.1.0.3", "10.1.0.4"];
    clients[1..].iter().for_each(|client| drop(world.client.execute(&format!("ip address add {client}/24 dev eth0"))));
    let text = config(&world, "send = \"40 Mbit/s\"").replace("[service]", "[service]\nupgrade_drain = \"10 min\"");
    let service = world.start(&text);
    let mut all = Downloads(Vec::new());
    for (upgrades, client) in clients.into_iter().enumerate() {
        if upgrades > 0 {
            upgrade(&world, &service);
        }
        // More connections of each: subscribers share, not connections.
        all.0.extend(Downloads::new(&world, &vec![client; 2 + upgrades]).0);
        thread::sleep(Duration::from_secs(3));
        let rates = all.rates(Duration::from_secs(4));
        println!("after {upgrades} upgrades: {rates:.2?} Mbit/s");
        let sum: f64 = rates.iter().sum();
        assert!((34.0..38.6).contains(&sum), "{upgrades} upgrades: {rates:?}\n{}", world.ask("status"));
        let (mut at, mut shares) = (0, Vec::new());
        for count in 2..=2 + upgrades {
            shares.push(rates[at..at + count].iter().sum::<f64>());
            at += count;
        }
        let jain = sum.powi(2) / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>());
        assert!(jain >= 0.97, "{upgrades} upgrades: {shares:?}");
    }
    service.stop_at_once();
}
