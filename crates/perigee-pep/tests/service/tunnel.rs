//! Two boxes and the tunnel between them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, UdpSocket};
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{mpsc, Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::operation::is_refused;
use crate::world::{accept, bytes, read_all, reset, Host, Service, World, PATIENCE};

/// client - terminal (the router) - gateway - town, where the servers are.
pub(crate) struct Path {
    pub(crate) world: World,
    pub(crate) town: Host,
    /// How long the boxes wait for each other. A machine of tests may stand still for seconds.
    pub(crate) grace_s: u32,
}

impl Path {
    pub(crate) fn new() -> Option<Self> {
        let world = World::new()?;
        if Command::new("openssl").arg("version").output().is_err() {
            println!("skipped: there is no program openssl");
            return None;
        }
        let town = Host::new();
        let gateway = &world.server;
        gateway.execute(&format!("ip link add town0 type veth peer name eth0 netns {}", town.path()));
        for (host, device, own) in [(gateway, "town0", 1), (&town, "eth0", 2)] {
            host.execute(&format!("ip address add 10.3.0.{own}/24 dev {device}"));
            host.execute(&format!("ip address add 2001:db8:3::{own}/64 dev {device} nodad"));
            host.execute(&format!("ip link set {device} up"));
        }
        town.execute("ip route add default via 10.3.0.1");
        town.execute("ip -6 route add default via 2001:db8:3::1");
        let path = Self { world, town, grace_s: 50 };
        let curve = "ec -pkeyopt ec_paramgen_curve:prime256v1";
        for (name, kind) in
            [("terminal", "ed25519"), ("gateway", "ed25519"), ("stranger", "ed25519"), ("other-kind", curve)]
        {
            let (key, certificate) = (path.file(name, "key"), path.file(name, "pem"));
            path.world.client.execute(&format!(
                "openssl req -x509 -newkey {kind} -nodes -days 2 -subj /CN={name} -keyout {} -out {}",
                key.display(),
                certificate.display()
            ));
        }
        Some(path)
    }

    pub(crate) fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.world.folder.path().join(format!("{name}.{extension}"))
    }

    /// A box at a host with the certificate of `name`, which knows that of `peer`.
    pub(crate) fn start(&self, host: &Host, [name, peer]: [&str; 2], end: &str, more: &str) -> Service {
        let grace = self.grace_s;
        let config = self.file(name, "toml");
        let tunnel = format!(
            "[tunnel]\n{end}\ncertificate = \"{}\"\nkey = \"{}\"\npeers = \"{}\"\noutage_grace = \"{grace} s\"\n",
            self.file(name, "pem").display(),
            self.file(name, "key").display(),
            self.file(peer, "pem").display()
        );
        std::fs::write(&config, format!("{more}\n{tunnel}")).unwrap();
        World::start_at(host, "exec \"$0\" \"$@\"", &config)
    }

    pub(crate) fn terminal_as(&self, name: &str) -> Service {
        self.terminal_to(name, "10.2.0.2:4433", "")
    }

    /// A terminal with the certificate of `name`, and further settings.
    pub(crate) fn terminal_with(&self, name: &str, more: &str) -> Service {
        self.terminal_to(name, "10.2.0.2:4433", more)
    }

    /// A terminal whose gateway is there.
    fn terminal_to(&self, name: &str, gateway: &str, more: &str) -> Service {
        let rules = "[allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.3.0.0/16\"]\n\
             [transparent]\ninterfaces = [\"lan0\"]\n[legs.local]\n\
             [[rules]]\nname = \"far\"\nclient = \"local\"\nthrough = \"tunnel\"\nconnect_timeout = \"30 s\"\n";
        let more = format!("{more}{rules}");
        self.start(&self.world.router, [name, "gateway"], &format!("gateway = \"{gateway}\""), &more)
    }

    pub(crate) fn terminal(&self) -> Service {
        self.terminal_as("terminal")
    }

    /// A value of the status of a box.
    pub(crate) fn status(&self, of: &str, name: &str) -> u64 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perigee-pep"));
        let status = command.arg("status").arg(self.file(of, "toml")).output().unwrap();
        let status = String::from_utf8(status.stdout).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{status}")).parse().unwrap()
    }

    /// Waits until a value of the terminal's status is within a range.
    pub(crate) fn await_status(&self, name: &str, range: RangeInclusive<u64>) {
        let began = Instant::now();
        loop {
            let value = self.status("terminal", name);
            if range.contains(&value) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{name} {value}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn gateway(&self) -> Service {
        self.gateway_with("")
    }

    /// A gateway with further settings.
    pub(crate) fn gateway_with(&self, more: &str) -> Service {
        self.gateway_at("gateway", 4433, more)
    }

    /// A second gateway at another port, with the key of the first.
    pub(crate) fn gateway_beside(&self, name: &str, port: u16) -> Service {
        for extension in ["key", "pem"] {
            std::fs::copy(self.file("gateway", extension), self.file(name, extension)).unwrap();
        }
        self.gateway_at(name, port, "")
    }

    fn gateway_at(&self, name: &str, port: u16, more: &str) -> Service {
        let allow = "[allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.3.0.2\"]\n";
        let control = format!("[service]\ncontrol = \"{}\"\n", self.file(name, "sock").display());
        let more = format!("{control}{allow}{more}");
        self.start(&self.world.server, [name, "terminal"], &format!("listen = \"10.2.0.2:{port}\""), &more)
    }
}

#[test]
fn connections_through_the_tunnel_lose_nothing_and_half_closed_ones_have_their_response() {
    let Some(path) = Path::new() else { return };
    let (gateway, terminal) = (path.gateway(), path.terminal());
    let listener = path.town.listen("10.3.0.2:80");
    thread::scope(|scope| {
        for seed in 0..20 {
            let listener = &listener;
            scope.spawn(move || {
                let (mut socket, peer) = accept(listener);
                assert_eq!(peer.ip().to_string(), "10.3.0.1");
                let (request, end) = read_all(&mut socket);
                end.unwrap();
                socket.write_all(&request.iter().rev().copied().collect::<Vec<_>>()).unwrap();
            });
            let client = &path.world.client;
            scope.spawn(move || {
                let mut socket = client.connect("10.3.0.2:80");
                let mut sending = socket.try_clone().unwrap();
                let request = bytes(700_000 * (seed as usize % 3), seed);
                sending.write_all(&request).unwrap();
                sending.shutdown(Shutdown::Write).unwrap();
                let (response, end) = read_all(&mut socket);
                end.unwrap();
                assert!(response.iter().rev().eq(&request));
            });
        }
    });
    terminal.await_line(&["through=tunnel", "end=complete", "bytes_up=1400000 bytes_down=1400000"]);
    let ended = |log: Vec<String>| log.iter().filter(|line| line.contains("end=complete")).count();
    assert_eq!((ended(terminal.stop()), ended(gateway.stop())), (20, 20));
}

/// A way to the gateway by another port of it, on which datagrams take this long.
fn delay_at(host: &Host, port: &str, delay: Duration) {
    let [outer, inner] = host.enter(|| [port, "10.2.0.2:0"].map(|own| UdpSocket::bind(own).unwrap()));
    inner.connect("10.2.0.2:4433").unwrap();
    let sockets = Arc::new([outer, inner]);
    let terminal = Arc::new(OnceLock::new());
    for at in [0, 1] {
        let (waiting, due) = mpsc::channel::<(Instant, Vec<u8>)>();
        let (arriving, leaving, known) = (sockets.clone(), sockets.clone(), terminal.clone());
        thread::spawn(move || loop {
            let mut datagram = vec![0; 2000];
            let (length, from) = arriving[at].recv_from(&mut datagram).unwrap();
            datagram.truncate(length);
            known.get_or_init(|| from);
            waiting.send((Instant::now() + delay, datagram)).unwrap();
        });
        let terminal = terminal.clone();
        thread::spawn(move || {
            for (time, datagram) in due {
                thread::sleep(time.saturating_duration_since(Instant::now()));
                // A datagram that is not sent is lost.
                let _ = match at {
                    0 => leaving[1].send(&datagram),
                    _ => leaving[0].send_to(&datagram, terminal.get().unwrap()),
                };
            }
        });
    }
}

#[test]
fn a_new_clients_first_byte_takes_one_round_trip_of_a_tunnel_that_is_up() {
    let Some(path) = Path::new() else { return };
    let round_trip = Duration::from_millis(600);
    let gateway = path.gateway();
    delay_at(&path.world.server, "10.2.0.2:4434", round_trip / 2);
    let terminal = path.terminal_to("terminal", "10.2.0.2:4434", "");
    terminal.await_line(&["tunnel up"]);
    let listener = path.town.listen("10.3.0.2:80");
    let first_byte = || {
        let began = Instant::now();
        let mut socket = path.world.client.connect("10.3.0.2:80");
        socket.write_all(b"request").unwrap();
        let (mut far, _) = accept(&listener);
        far.read_exact(&mut [0; 7]).unwrap();
        far.write_all(b"answer").unwrap();
        socket.read_exact(&mut [0]).unwrap();
        began.elapsed()
    };
    // A machine of tests may stand still in one of them.
    let shortest = (0..5).map(|_| first_byte()).min().unwrap();
    assert!(shortest >= round_trip && shortest <= round_trip * 6 / 5, "{shortest:?}");
    println!("first byte after {shortest:?}");
    terminal.stop();
    gateway.stop();
}

#[test]
fn ipv6_is_carried_and_may_carry_the_tunnel() {
    let Some(path) = Path::new() else { return };
    let listeners = [path.town.listen("10.3.0.2:80"), path.town.listen("[2001:db8:3::2]:80")];
    let allow = "[allow]\nsources = [\"10.1.0.0/16\", \"2001:db8:1::/48\"]\n\
                 destinations = [\"10.3.0.0/16\", \"2001:db8:3::/48\"]\n";
    let rules = "[transparent]\ninterfaces = [\"lan0\"]\n[legs.local]\n\
                 [[rules]]\nname = \"far\"\nclient = \"local\"\nthrough = \"tunnel\"\nconnect_timeout = \"30 s\"\n";
    for gateway in ["10.2.0.2:4433", "[2001:db8:2::2]:4433"] {
        let names = ["gateway", "terminal"];
        let far = path.start(&path.world.server, names, &format!("listen = \"{gateway}\""), allow);
        let near = format!("gateway = \"{gateway}\"");
        let near = path.start(&path.world.router, ["terminal", "gateway"], &near, &format!("{allow}{rules}"));
        for (listener, own) in listeners.iter().zip(["10.3.0.1", "2001:db8:3::1"]) {
            let mut socket = path.world.client.connect(&listener.local_addr().unwrap().to_string());
            let (mut server, peer) = accept(listener);
            assert_eq!(peer.ip().to_string(), own);
            let sent = bytes(300_000, 9);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let (request, end) = read_all(&mut server);
                    end.unwrap();
                    server.write_all(&request).unwrap();
                    server.shutdown(Shutdown::Write).unwrap();
                });
                socket.write_all(&sent).unwrap();
                socket.shutdown(Shutdown::Write).unwrap();
                let (response, end) = read_all(&mut socket);
                end.unwrap();
                assert!(response == sent);
            });
        }
        assert!(is_refused(&path.world.client, "[2001:db8:3::2]:81"));
        near.await_line(&["server=[2001:db8:3::2]:81", "end=unreached", "server refused the connection"]);
        near.stop();
        far.stop();
    }
}

#[test]
fn streams_that_have_ended_make_room_for_others() {
    let Some(path) = Path::new() else { return };
    // As many streams at a time as the gateway may have connections.
    let more = "[limits]\nconnections = 8\n[allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.3.0.2\"]\n";
    let gateway = path.start(&path.world.server, ["gateway", "terminal"], "listen = \"10.2.0.2:4433\"", more);
    let terminal = path.terminal();
    let listener = path.town.listen("10.3.0.2:80");
    for turn in 0..40 {
        let mut socket = path.world.client.connect("10.3.0.2:80");
        let (mut far, _) = accept(&listener);
        far.write_all(b"answer").unwrap();
        socket.read_exact(&mut [0; 6]).unwrap();
        match turn % 4 {
            0 => drop(far),
            1 => drop(socket),
            2 => reset(far),
            _ => reset(socket),
        }
    }
    // Nobody listens there.
    for _ in 0..20 {
        assert!(is_refused(&path.world.client, "10.3.0.2:81"));
    }
    terminal.stop();
    gateway.stop();
}

#[test]
fn clients_wait_for_a_stream_and_leave_their_place_when_they_find_none() {
    let Some(path) = Path::new() else { return };
    let more = "[limits]\nconnections = 3\nper_client = 3\n[allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.3.0.2\"]\n";
    let gateway = path.start(&path.world.server, ["gateway", "terminal"], "listen = \"10.2.0.2:4433\"", more);
    // Workers accept independently of each other: only the clients of one wait in the order of their connections.
    let more = format!(
        "[service]\nworkers = 1\ncontrol = \"{}\"\n[limits]\nper_client = 5\n\
         [allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.3.0.0/16\"]\n\
         [transparent]\ninterfaces = [\"lan0\"]\n[legs.local]\n\
         [[rules]]\nname = \"far\"\nclient = \"local\"\nthrough = \"tunnel\"\nconnect_timeout = \"10 s\"\n",
        path.file("control", "sock").display()
    );
    let terminal = path.start(&path.world.router, ["terminal", "gateway"], "gateway = \"10.2.0.2:4433\"", &more);
    terminal.await_line(&["tunnel up"]);
    let listener = path.town.listen("10.3.0.2:80");
    let open = || {
        let mut socket = path.world.client.connect("10.3.0.2:80");
        let (mut far, _) = accept(&listener);
        far.write_all(b"hi").unwrap();
        socket.read_exact(&mut [0; 2]).unwrap();
        (socket, far)
    };
    let mut streams: Vec<_> = (0..3).map(|_| open()).collect();
    // Both wait: the first for a stream that is free in time, the other one until its time is over.
    let mut early = path.world.client.connect("10.3.0.2:80");
    path.await_status("open", 4..=4);
    let began = Instant::now();
    let mut late = path.world.client.connect("10.3.0.2:80");
    path.await_status("open", 5..=5);
    drop(streams.pop());
    let (mut far, _) = accept(&listener);
    far.write_all(b"hi").unwrap();
    early.read_exact(&mut [0; 2]).unwrap();
    assert!(read_all(&mut late).1.is_err());
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
    terminal.await_line(&["refused client=", "all streams of the tunnel are in use"]);
    drop((streams, early, late, far));
    // Each place of the client is free again.
    for _ in 0..8 {
        drop(open());
    }
    terminal.stop();
    gateway.stop();
}

#[test]
fn downloads_that_are_paused_leave_the_tunnel_to_others() {
    let Some(path) = Path::new() else { return };
    let path_of_20_mbit = "bandwidth = \"20 Mbit/s\"\nround_trip = \"600 ms\"";
    let limits = "[limits]\nheld = \"64 MiB\"\n";
    let allow = "[allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.3.0.0/16\"]\n";
    let end = format!("listen = \"10.2.0.2:4433\"\n{path_of_20_mbit}");
    let gateway = path.start(&path.world.server, ["gateway", "terminal"], &end, &format!("{limits}{allow}"));
    let control = path.file("control", "sock");
    let more = format!(
        "{limits}{allow}[service]\ncontrol = \"{}\"\n[transparent]\ninterfaces = [\"lan0\"]\n[legs.local]\n\
         [[rules]]\nname = \"far\"\nclient = \"local\"\nthrough = \"tunnel\"\nconnect_timeout = \"30 s\"\n",
        control.display()
    );
    let end = format!("gateway = \"10.2.0.2:4433\"\n{path_of_20_mbit}");
    let terminal = path.start(&path.world.router, ["terminal", "gateway"], &end, &more);
    let (downloads, echoes) = (path.town.listen("10.3.0.2:80"), path.town.listen("10.3.0.2:7"));
    // Made once: for 120 downloads it takes the processor longer than an echo may.
    let content: Arc<[u8]> = bytes(6_000_000, 1).into();
    thread::spawn(move || {
        while let Ok((mut socket, _)) = downloads.accept() {
            let content = content.clone();
            // It ends by the reset of a reader that is given up.
            thread::spawn(move || socket.write_all(&content));
        }
    });
    thread::spawn(move || {
        while let Ok((mut socket, _)) = echoes.accept() {
            let mut word = [0; 4];
            let _ = socket.read_exact(&mut word).and_then(|()| socket.write_all(&word));
        }
    });
    // Four times what the windows of all streams may hold.
    let paused: Vec<_> = (0..120).map(|_| path.world.client.connect("10.3.0.2:80")).collect();
    terminal.await_line(&["end=aborted", "its reader was silent"]);
    for _ in 0..5 {
        let began = Instant::now();
        let mut socket = path.world.client.connect("10.3.0.2:7");
        socket.write_all(b"ping").unwrap();
        socket.read_exact(&mut [0; 4]).unwrap();
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    }
    // Those that are not given up are counted, and soon they are within the memory of the tunnel.
    path.await_status("held_bytes", 16 << 20..=64 << 20);
    drop(paused);
    terminal.signal(Signal::TERM);
    terminal.signal(Signal::TERM);
    terminal.wait();
    gateway.signal(Signal::TERM);
    gateway.signal(Signal::TERM);
    gateway.wait();
}

#[test]
fn failures_at_either_end_reach_the_other_as_such() {
    let Some(path) = Path::new() else { return };
    let (gateway, terminal) = (path.gateway(), path.terminal());
    // Nobody listens at that port; nobody may go to that address.
    assert!(is_refused(&path.world.client, "10.3.0.2:81"));
    terminal.await_line(&["server=10.3.0.2:81", "end=unreached", "server refused the connection"]);
    assert!(is_refused(&path.world.client, "10.3.0.3:80"));
    gateway.await_line(&["refused terminal=", "server=10.3.0.3:80", "destination is not allowed"]);
    let listener = path.town.listen("10.3.0.2:80");
    // A reset comes after what was sent before it.
    let mut socket = path.world.client.connect("10.3.0.2:80");
    let (mut far, _) = accept(&listener);
    far.write_all(&bytes(100_000, 1)).unwrap();
    let mut first = vec![0; 100_000];
    socket.read_exact(&mut first).unwrap();
    assert_eq!(first, bytes(100_000, 1));
    reset(far);
    assert!(read_all(&mut socket).1.is_err());
    let mut socket = path.world.client.connect("10.3.0.2:80");
    let (mut far, _) = accept(&listener);
    socket.write_all(b"request").unwrap();
    far.read_exact(&mut [0; 7]).unwrap();
    reset(socket);
    assert!(read_all(&mut far).1.is_err());
    terminal.await_line(&["end=failed", "client reset the connection"]);
    gateway.await_line(&["end=failed", "client reset the connection"]);
    terminal.stop();
    gateway.stop();
}

#[test]
fn a_gateway_serves_the_sources_of_each_terminal_and_nothing_that_leads_back() {
    let Some(path) = Path::new() else { return };
    let control = path.file("control", "sock");
    // Who speaks to the gateway's own address would come back to it by that port.
    let more = format!(
        "[allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.3.0.0/16\"]\nlocal = true\n\
         [[forward]]\nlisten = \"10.3.0.1:8080\"\ntarget = \"10.3.0.2:80\"\n\
         [service]\ncontrol = \"{}\"\n",
        control.display()
    );
    let end = |sources: &str| {
        let of = |name: &str| path.file(name, "pem").display().to_string();
        format!(
            "terminals = [{{ certificate = \"{0}\", sources = [\"10.1.0.9\"] }}, \
             {{ certificate = \"{0}\", sources = [\"{sources}\"] }}]\nlisten = \"10.2.0.2:4433\"",
            of("terminal")
        )
    };
    let listener = path.town.listen("10.3.0.2:80");
    // The other terminal, here the file of peers, may speak for everybody who is allowed.
    let names = ["gateway", "stranger"];
    let gateway = path.start(&path.world.server, names, &end("10.1.0.2/32"), &more);
    let terminal = path.terminal();
    let mut socket = path.world.client.connect("10.3.0.2:80");
    accept(&listener).0.write_all(b"hi").unwrap();
    socket.read_exact(&mut [0; 2]).unwrap();
    assert!(is_refused(&path.world.client, "10.3.0.1:8080"));
    gateway.await_line(&["refused terminal=", "server=10.3.0.1:8080", "it leads back to this service"]);
    terminal.stop();
    gateway.stop();
    let gateway = path.start(&path.world.server, names, &end("10.1.0.3/32"), &more);
    for (terminal, is_served) in [("terminal", false), ("stranger", true)] {
        let terminal = path.terminal_as(terminal);
        if is_served {
            let mut socket = path.world.client.connect("10.3.0.2:80");
            accept(&listener).0.write_all(b"hi").unwrap();
            socket.read_exact(&mut [0; 2]).unwrap();
        } else {
            assert!(is_refused(&path.world.client, "10.3.0.2:80"));
            gateway.await_line(&["refused terminal=", "client=10.1.0.2", "the source is not one of this terminal"]);
        }
        terminal.stop();
    }
    gateway.stop();
}

#[test]
fn a_path_whose_packets_are_too_small_is_named_in_the_log() {
    let Some(mut path) = Path::new() else { return };
    path.grace_s = 2;
    let gateway = path.gateway();
    // At the terminal itself, and on the way behind it.
    for (host, device, said) in [
        (&path.world.router, "wan0", "datagrams do not reach 10.2.0.2:4433: the MTU of the device"),
        (&path.world.server, "eth0", "tunnel down reason=\"timed out; QUIC needs an MTU of 1228 bytes"),
    ] {
        host.execute(&format!("ip link set {device} mtu 1227"));
        let terminal = path.terminal();
        terminal.await_line(&[said]);
        host.execute(&format!("ip link set {device} mtu 1228"));
        terminal.await_line(&["tunnel up"]);
        terminal.stop();
        host.execute(&format!("ip link set {device} mtu 1500"));
    }
    gateway.stop();
}

#[test]
fn what_is_wrong_with_a_tunnel_is_said() {
    let Some(path) = Path::new() else { return };
    let program = env!("CARGO_BIN_EXE_perigee-pep");
    let config = path.file("wrong", "toml");
    let allow = "[allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.3.0.0/16\"]\n";
    let files = "[tunnel]\ncertificate = \"a\"\nkey = \"b\"\npeers = \"c\"\n";
    for (text, said) in [
        (&*format!("{files}listen = \"10.2.0.2:4433\"\ngateway = \"10.2.0.2:4433\"\n"), "both `gateway` and `listen`"),
        (files, "neither `gateway` nor `listen`"),
        ("[tunnel]\nlisten = \"10.2.0.2:4433\"\n", "certificate"),
        (&format!("{files}gateway = \"0.0.0.0:4433\"\n"), "is an unspecified address"),
        (&format!("{files}listen = \"10.2.0.2:4433\"\ncc = \"fixed\"\n"), "add `bandwidth` and `round_trip`"),
        (&format!("{files}listen = \"10.2.0.2:4433\"\ncc = \"hybal\"\n"), "did you mean `hybla`"),
        (&format!("{files}listen = \"10.2.0.2:4433\"\ncc = \"dctcp\"\n"), "counts CE marks"),
        (
            "[transparent]\n[legs.a]\n[[rules]]\nname = \"x\"\nclient = \"a\"\nthrough = \"tunnel\"\n",
            "no tunnel to a gateway",
        ),
        ("[transparent]\n[legs.a]\n[[rules]]\nname = \"x\"\nclient = \"a\"\nthrough = \"tunel\"\n", "tunnel"),
    ] {
        std::fs::write(&config, format!("{allow}{text}")).unwrap();
        let output = Command::new(program).arg("check").arg(&config).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(said), "{text}: {error}");
    }
    let [terminal, gateway] = ["terminal", "gateway"].map(|name| path.file(name, "pem"));
    let [own, other] = ["terminal", "gateway"].map(|name| path.file(name, "key"));
    let [curve, of_curve] = ["key", "pem"].map(|kind| path.file("other-kind", kind));
    for (certificate, key, peers, said) in [
        (&path.file("none", "pem"), &own, &gateway, "name a readable file"),
        (&own, &own, &gateway, "it has no certificate"),
        (&terminal, &terminal, &gateway, "it has no private key"),
        (&terminal, &other, &gateway, "name the key that was made with the certificate"),
        (&terminal, &own, &config, "it has no certificate"),
        (&terminal, &curve, &gateway, "its key is not of Ed25519"),
        (&terminal, &own, &of_curve, "make it anew: `openssl req -x509 -newkey ed25519 ...`"),
        (&terminal, &own, &gateway, ""),
    ] {
        let [certificate, key, peers] = [certificate, key, peers].map(|file| file.display());
        let files = format!("certificate = \"{certificate}\"\nkey = \"{key}\"\npeers = \"{peers}\"\n");
        std::fs::write(&config, format!("{allow}[tunnel]\nlisten = \"10.2.0.2:4433\"\n{files}")).unwrap();
        let output = Command::new(program).arg("check").arg(&config).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let code = if said.is_empty() { 0 } else { 2 };
        assert!(output.status.code() == Some(code) && error.contains(said), "{files}: {error}");
    }
    // The last configuration is right; a key that others can read is not.
    for mode in [0o644, 0o640, 0o602] {
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(mode)).unwrap();
        for command in ["check", "run"] {
            let output = Command::new(program).arg(command).arg(&config).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            let said = format!("chmod 600 {}", own.display());
            assert!(output.status.code() == Some(2) && error.contains(&said), "{mode:o}: {error}");
        }
    }
}
