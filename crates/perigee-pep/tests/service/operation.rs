//! Start, reload, drain, crash, limits.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr as SocketAddress, UnixListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::{sockopt, AddressFamily, SocketType};
use rustix::process::{Signal, Uid};
use rustix::thread::set_thread_uid;

use crate::hold::FIRST;
use crate::transfers::TRANSPARENT;
use crate::world::{accept, bytes, patient, read_all, with_device, Host, World};

/// One question and its answer over an open connection.
pub(crate) fn echo(client: &mut TcpStream, server: &mut TcpStream) {
    let mut question = [0; 64];
    client.write_all(&bytes(64, 5)).unwrap();
    server.read_exact(&mut question).unwrap();
    server.write_all(&question).unwrap();
    client.read_exact(&mut question).unwrap();
    assert_eq!(question[..], bytes(64, 5)[..]);
}

/// A connection of the client to the server's port 80, with an echo.
pub(crate) fn connected(world: &World, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = world.client.connect("10.2.0.2:80");
    let (mut server, peer) = accept(listener);
    assert_eq!(peer.ip().to_string(), "10.1.0.2");
    echo(&mut client, &mut server);
    (client, server)
}

/// Whether an attempt to use a connection ends with a reset, without a byte.
pub(crate) fn is_refused(host: &Host, address: &str) -> bool {
    let address = address.parse().unwrap();
    match host.enter(|| TcpStream::connect_timeout(&address, crate::world::PATIENCE)) {
        Ok(socket) => read_all(&mut patient(socket)).1.is_err(),
        // The reset may come before the handshake is noticed.
        Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused),
    }
}

pub(crate) fn interception(world: &World) -> (bool, usize) {
    let tables = world.router.execute("nft list tables");
    let rules = ["-4", "-6"].map(|version| world.router.execute(&format!("ip {version} rule list")));
    let of_ours = rules.iter().flat_map(|text| text.lines()).filter(|line| line.contains("0x706570")).count();
    (tables.contains("perigee_pep"), of_ours)
}

#[test]
fn after_a_crash_connections_pass_by_and_the_next_start_replaces_its_rules() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    // It is open before the service starts, and stays as it is.
    let (mut early, mut early_server) = connected(&world, &listener);
    let service = world.start(TRANSPARENT);
    echo(&mut early, &mut early_server);
    let (mut client, _server) = connected(&world, &listener);
    service.signal(Signal::KILL);
    service.wait();
    assert!(read_all(&mut client).1.is_err(), "the kernel resets what the service had");
    assert_eq!(interception(&world), (true, 4));
    let (mut unproxied, mut server) = connected(&world, &listener);
    let service = world.start(TRANSPARENT);
    assert_eq!(interception(&world), (true, 4));
    drop(connected(&world, &listener));
    echo(&mut unproxied, &mut server);
    service.await_line(&["client=10.1.0.2", "end="]);
    let log = service.stop();
    assert_eq!(log.iter().filter(|line| line.starts_with("connection ")).count(), 1, "{log:#?}");
    assert_eq!(interception(&world), (false, 0));
    echo(&mut unproxied, &mut server);
}

#[test]
fn a_drain_lets_connections_end_and_new_ones_pass_by() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let service = world.start(TRANSPARENT);
    let (mut client, mut server) = connected(&world, &listener);
    service.signal(Signal::TERM);
    service.await_line(&["draining connections=1"]);
    // Nothing is intercepted again by a service that is about to end.
    service.signal(Signal::HUP);
    service.await_line(&["the service is being stopped"]);
    assert!(!world.router.execute("nft list table inet perigee_pep").contains("tproxy"));
    let (mut new, mut new_server) = connected(&world, &listener);
    echo(&mut client, &mut server);
    client.shutdown(Shutdown::Write).unwrap();
    drop(server);
    assert_eq!(read_all(&mut client).1.unwrap(), 0);
    let (status, log) = service.wait();
    assert!(status.success());
    assert!(log.iter().any(|line| line.contains("end=complete")) && log.last().unwrap() == "stopped", "{log:#?}");
    echo(&mut new, &mut new_server);

    // Connections that do not end by the deadline are reset.
    let service = world.start(&TRANSPARENT.replace("workers = 2", "drain = \"1 ms\""));
    let (mut client, _server) = connected(&world, &listener);
    let log = service.stop();
    assert!(log.iter().any(|line| line.contains("end=aborted")), "{log:#?}");
    assert!(read_all(&mut client).1.is_err());
}

#[test]
fn it_ends_though_nobody_reads_its_log() {
    let Some(world) = World::new() else { return };
    let pipe = world.folder.path().join("pipe");
    world.router.execute(&format!("mkfifo {}", pipe.display()));
    let options = |flags| fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(&pipe).unwrap();
    let _reader = options(0);
    let mut filler = options(libc::O_NONBLOCK);
    while filler.write(&[b'x'; 4096]).is_ok() {}
    let mut service = world.start_with(&format!("exec \"$0\" \"$@\" 2> {}", pipe.display()), TRANSPARENT);
    service.signal(Signal::TERM);
    assert!(service.ends_within(Duration::from_secs(20)), "it waits for the reader of its log");
}

#[test]
fn a_reload_takes_what_is_right_and_keeps_the_old_otherwise() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let service = world.start(TRANSPARENT);
    let (mut client, mut server) = connected(&world, &listener);
    world.config(&format!("{TRANSPARENT}prots = [80]\n"));
    service.signal(Signal::HUP);
    service.await_line(&["the old configuration stays", "did you mean `ports`?"]);
    let more = "[[forward]]\nlisten = \"10.1.0.1:7000\"\ntarget = \"10.2.0.2:80\"\n\
                [legs.any]\ncongestion = [\"nosuch\", \"reno\"]\n\
                [[rules]]\nname = \"web\"\nports = [80]\ninterfaces = [\"lan0\"]\ndscp = [0]\nclient = \"any\"\nserver = \"any\"\n";
    world.config(&format!("{TRANSPARENT}{more}"));
    service.signal(Signal::HUP);
    service.await_line(&["reloaded"]);
    echo(&mut client, &mut server);
    let mut forwarded = world.client.connect("10.1.0.1:7000");
    let (mut behind, peer) = accept(&listener);
    assert_eq!(peer.ip().to_string(), "10.2.0.1");
    echo(&mut forwarded, &mut behind);
    service.await_line(&["leg any: no congestion control nosuch: reno is used"]);
    drop(connected(&world, &listener));
    service.await_line(&["connection rule=web"]);
    // Without the address, nobody listens there.
    world.config(TRANSPARENT);
    service.signal(Signal::HUP);
    for _ in 0..6000 {
        if service.log().iter().filter(|line| *line == "reloaded").count() == 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Keys that hold from the start of a process on wait, and are named each time.
    let more = "workers = 3\nmetrics = \"127.0.0.1:9469\"";
    world.config(&TRANSPARENT.replace("workers = 2", more));
    service.signal(Signal::HUP);
    service.await_line(&["reloaded; changes with an upgrade or a restart only: `workers`, `metrics` in `[service]`"]);
    world.config(&TRANSPARENT.replace("workers = 2", &format!("{more}\ncontrol = \"/nowhere\"")));
    service.signal(Signal::HUP);
    service.await_line(&["reloaded; changes with a restart only: `workers`, `metrics`, `control` in `[service]`"]);
    drop((client, server, forwarded, behind));
    service.stop();
}

#[test]
fn a_congestion_control_that_this_kernel_has_not_is_a_warning_of_check_and_a_finding_of_doctor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pep.toml");
    let text = "[allow]\nlocal = true\nsources = [\"127.0.0.0/8\"]\ndestinations = [\"127.0.0.0/8\"]\n\
                [[forward]]\nlisten = \"127.0.0.1:9\"\ntarget = \"127.0.0.1:10\"\n\
                [legs.any]\ncongestion = \"nobodys\"\n[[rules]]\nname = \"all\"\nclient = \"any\"\nserver = \"any\"\n";
    let said = "congestion control: leg any: this kernel has no nobodys";
    for (name, codes, said) in [("nobodys", [0, 1], Some(said)), ("reno", [0, 0], None)] {
        fs::write(&path, text.replace("nobodys", name)).unwrap();
        for (command, code) in ["check", "doctor"].into_iter().zip(codes) {
            let output = Command::new(env!("CARGO_BIN_EXE_perigee-pep")).arg(command).arg(&path).output().unwrap();
            let all = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
            assert_eq!(output.status.code(), Some(code), "{command}: {all}");
            assert_eq!(said.is_some_and(|said| all.contains(said)), all.contains("congestion"), "{command}: {all}");
        }
    }
}

#[test]
fn it_is_no_open_relay() {
    let Some(world) = World::new() else { return };
    let _listener = world.server.listen("0.0.0.0:80");
    let config = "[allow]\nsources = [\"10.1.0.3\"]\ndestinations = [\"0.0.0.0/0\"]\n\
                  [[forward]]\nlisten = \"10.1.0.1:7000\"\ntarget = \"10.2.0.2:80\"\n\
                  [[forward]]\nlisten = \"10.1.0.1:7001\"\ntarget = \"10.2.0.1:22\"\n";
    let service = world.start(config);
    assert!(is_refused(&world.client, "10.1.0.1:7000"));
    service.await_line(&["refused client=10.1.0.2", "source is not allowed"]);
    service.stop();
    let service = world.start(&config.replace("10.1.0.3", "10.1.0.2"));
    assert!(is_refused(&world.client, "10.1.0.1:7001"));
    service.await_line(&["refused client=10.1.0.2", "10.2.0.1:22: destination is local"]);
    service.stop();

    // Whoever reaches the port of interception itself is led nowhere, even if local servers are allowed.
    let config = "[allow]\nsources = [\"0.0.0.0/0\"]\ndestinations = [\"0.0.0.0/0\"]\nlocal = true\n\
                  [transparent]\nport = 3129\n";
    let service = world.start(config);
    assert!(is_refused(&world.router, "127.0.0.1:3129"));
    service.await_line(&["127.0.0.1:3129: it leads back to this service"]);
    service.stop();
}

#[test]
fn limits_make_connections_wait_or_refuse_them_and_the_service_goes_on() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    // One at a time: the second waits for the end of the first.
    let service =
        world.start(&format!("{TRANSPARENT}[limits]\nconnections = 1\n").replace("workers = 2", "workers = 1"));
    let (client, server) = connected(&world, &listener);
    let mut second = world.client.connect("10.2.0.2:80");
    service.await_line(&["paused", "limit of connections"]);
    drop((client, server));
    let (mut server, _) = accept(&listener);
    echo(&mut second, &mut server);
    drop((second, server));
    service.stop();

    let service = world.start(&format!("{TRANSPARENT}[limits]\nper_client = 1\n"));
    let (client, server) = connected(&world, &listener);
    assert!(is_refused(&world.client, "10.2.0.2:80"));
    service.await_line(&["refused", "limit of connections of the client"]);
    drop((client, server));
    service.stop();

    // Fewer descriptors than connections.
    let service = world.start_with("ulimit -n 130; exec \"$0\" \"$@\"", TRANSPARENT);
    service.await_line(&["limit connections=", "RLIMIT_NOFILE"]);
    std::thread::scope(|scope| {
        for _ in 0..60 {
            let mut client = world.client.connect("10.2.0.2:80");
            scope.spawn(move || {
                client.write_all(b"x").unwrap();
                assert_eq!(read_all(&mut client).0, b"x");
            });
        }
        for _ in 0..60 {
            let (mut server, _) = accept(&listener);
            let mut question = [0];
            server.read_exact(&mut question).unwrap();
            server.write_all(&question).unwrap();
        }
    });
    service.stop();
}

#[test]
fn status_and_metrics_show_what_happens() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let control = world.folder.path().join("control");
    let settings = format!("workers = 2\ncontrol = \"{}\"\nmetrics = \"127.0.0.1:9100\"", control.display());
    let service = world.start(&TRANSPARENT.replace("workers = 2", &settings));
    let (client, server) = connected(&world, &listener);
    // Bytes are counted after they are sent.
    let is_counted = |status: &String| status.contains("rule other open 1 accepted 1 bytes_up 64 bytes_down 64");
    let status = (0..1000).map(|_| world.ask("status")).find(is_counted).unwrap();
    assert!(status.starts_with("state running\n") && status.contains("\nopen 1\n"), "{status}");
    let mut metrics = world.router.connect("127.0.0.1:9100");
    metrics.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let text = String::from_utf8(read_all(&mut metrics).0).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(
        text.contains("\nperigee_pep_rule_bytes_total{rule=\"other\",direction=\"up\",leg=\"server\"} 64\n"),
        "{text}"
    );
    // Its client is known by its address, and OpenMetrics have an end.
    let mut metrics = world.router.connect("127.0.0.1:9100");
    metrics
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\naccept: application/openmetrics-text;q=0.9\r\n\r\n")
        .unwrap();
    let open = String::from_utf8(read_all(&mut metrics).0).unwrap();
    assert!(
        open.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0") && open.ends_with("\n# EOF\n")
    );
    assert!(open.contains("\n# TYPE perigee_pep_subscriber_bytes counter\n"), "{open}");
    let own = "\nperigee_pep_subscriber_bytes_total{subscriber=\"10.1.0.2\",rule=\"other\",direction=\"up\",leg=\"server\"} 64\n";
    assert!(open.contains(own), "{open}");
    // The page asks for nothing but metrics, and names what these have.
    let mut page = world.router.connect("127.0.0.1:9100");
    page.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let page = String::from_utf8(read_all(&mut page).0).unwrap();
    assert!(
        page.contains("\r\nContent-Type: text/html") && page.ends_with("</script>\n") && !page.contains("://"),
        "{page}"
    );
    let read = page.split(['"', '`']).filter(|word| word.starts_with("subscriber_") || word.starts_with("rule_"));
    for name in read {
        let name = name.split('$').next().unwrap().trim_end_matches('_');
        assert!(text.contains(&format!("\n# TYPE perigee_pep_{name}")), "{name}");
    }
    // The connection is open, and its legs were looked at.
    for leg in ["client", "server"] {
        let name = format!("perigee_pep_rule_round_trip_seconds_count{{rule=\"other\",leg=\"{leg}\"}} ");
        let count = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap();
        assert!(count.parse::<u64>().unwrap() >= 1, "{text}");
    }
    // A second one in the same namespace does not start, and changes nothing.
    let path = world.folder.path().join("pep.toml");
    let mut second = Command::new(env!("CARGO_BIN_EXE_perigee-pep"));
    let output = world.router.enter(|| second.arg("run").arg(&path).output().unwrap());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("interception: another perigee-pep has it in this network namespace"), "{said}");
    assert_eq!(interception(&world), (true, 4));
    drop((client, server));
    service.stop();
    assert!(!control.exists());
}

#[test]
fn a_name_that_another_user_has_locks_nothing() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let name = SocketAddress::from_abstract_name("perigee-pep interception").unwrap();
    let held = world.router.enter(|| {
        // The user of this short-lived thread alone.
        set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
        UnixListener::bind_addr(&name).unwrap()
    });
    let service = world.start(TRANSPARENT);
    let holder = format!("process {} of user {NOBODY} has it", std::process::id());
    service.await_line(&["lock name=\"perigee-pep interception\"", &holder]);
    drop(connected(&world, &listener));
    service.stop();
    drop(held);
}

#[test]
fn who_asks_for_metrics_and_says_nothing_delays_neither_signals_nor_answers() {
    let Some(world) = World::new() else { return };
    let control = world.folder.path().join("control");
    let settings = format!("workers = 2\ncontrol = \"{}\"\nmetrics = \"127.0.0.1:9100\"", control.display());
    let service = world.start(&TRANSPARENT.replace("workers = 2", &settings));
    let silent: Vec<_> = (0..120).map(|_| world.router.connect("127.0.0.1:9100")).collect();
    let began = Instant::now();
    assert!(world.ask("status").starts_with("state running\n"));
    let mut metrics = world.router.connect("127.0.0.1:9100");
    // In two parts.
    metrics.write_all(b"GET /metrics HT").unwrap();
    metrics.write_all(b"TP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(read_all(&mut metrics).0.starts_with(b"HTTP/1.1 200 OK\r\n"));
    service.signal(Signal::HUP);
    service.await_line(&["reloaded"]);
    service.stop();
    // Eight of them alone would have taken a second each.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(silent);
}

#[test]
fn the_capabilities_of_the_unit_suffice() {
    let Some(world) = World::new() else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: there is no program setpriv");
        return;
    }
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/perigee-pep.service");
    let text = fs::read_to_string(unit).unwrap();
    let names = text.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    assert!(text.contains(&format!("AmbientCapabilities={names}\n")) && text.contains("User=perigee-pep\n"));
    let held = names.replace("CAP_", ",+").replace(' ', "").to_lowercase();
    let sets = ["bounding-set", "inh-caps", "ambient-caps"].map(|set| format!("--{set}=-all{held}")).join(" ");
    // Any number that is nobody's.
    let user = format!("setpriv --reuid=64123 --regid=64123 --clear-groups {sets} --no-new-privs");
    fs::set_permissions(world.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let listener = world.server.listen("0.0.0.0:80");
    let config = format!("{TRANSPARENT}[[forward]]\nlisten = \"10.1.0.1:80\"\ntarget = \"10.2.0.2:80\"\n{FIRST}");
    let service = world.start_with(&with_device(&world, &format!("exec {user} \"$0\" \"$@\"")), &config);
    let status = fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
    assert!(status.contains("Uid:\t64123\t64123"), "{status}");
    drop(connected(&world, &listener));
    let mut forwarded = world.client.connect("10.1.0.1:80");
    echo(&mut forwarded, &mut accept(&listener).0);
    drop(forwarded);
    let log = service.stop();
    assert!(!log.iter().any(|line| line.contains("not possible")), "{log:#?}");
    assert_eq!(interception(&world), (false, 0));
}

#[test]
fn a_malformed_configuration_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pep.toml");
    fs::write(&path, "[allow]\nsource = [\"::/0\"]\n").unwrap();
    for command in ["check", "run"] {
        let output = Command::new(env!("CARGO_BIN_EXE_perigee-pep")).arg(command).arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        let place = format!("perigee-pep: {}:2: unknown key `allow.source`; did you mean `sources`?\n", path.display());
        assert_eq!(said, place);
    }
}

#[test]
fn what_is_wrong_is_said_in_one_line_whatever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pep.toml");
    fs::write(&path, "[allow]\nsources = [\"x\\n\\u001b[31my\"]\ndestinations = [\"::/0\"]\n").unwrap();
    let missing = folder.path().join("no\nsuch.toml");
    for arguments in
        [["check".as_ref(), path.as_os_str()], ["run".as_ref(), missing.as_os_str()], ["no\nsuch".as_ref(); 2]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_perigee-pep")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.lines().count() == 1 && !said.contains('\u{1b}') && said.contains("\\n"), "{said}");
    }
}

#[test]
fn at_a_limit_new_connections_pass_by_until_there_is_room() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let service =
        world.start(&format!("{TRANSPARENT}[limits]\nconnections = 10\nper_client = 10\nat_limit = \"pass\"\n"));
    let mut held: Vec<_> = (0..10).map(|_| connected(&world, &listener)).collect();
    service.await_line(&["passing", "limit of connections"]);
    // It needs no service, and is there after the service's end.
    let (mut beside, mut beside_server) = connected(&world, &listener);
    held.truncate(8);
    service.await_line(&["intercepting connections="]);
    let (client, server) = connected(&world, &listener);
    drop((client, server, held));
    service.stop();
    echo(&mut beside, &mut beside_server);
}

#[test]
fn readers_who_take_all_memory_leave_each_other_connection_its_share() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let control = world.folder.path().join("control");
    let settings = format!("workers = 1\ncontrol = \"{}\"", control.display());
    let narrow = "[limits]\nheld = \"1 MiB\"\n[legs.any]\nsend_buffer = \"4 KiB\"\nreceive_buffer = \"256 KiB\"\n\
                  [[rules]]\nname = \"all\"\nclient = \"any\"\nserver = \"any\"\n";
    let service = world.start(&format!("{}{narrow}", TRANSPARENT.replace("workers = 2", &settings)));
    let held = || {
        let status = world.ask("status");
        status.lines().find_map(|line| line.strip_prefix("held_bytes ")).unwrap().parse::<usize>().unwrap()
    };
    // Each leaves the rest of a piece of 16 KiB.
    let (upload, readers) = (bytes(150_000, 4), 200);
    let mut stalled = Vec::new();
    while stalled.len() < readers {
        let mut client = world.client.connect("10.2.0.2:80");
        client.write_all(&upload).unwrap();
        stalled.push((client, accept(&listener).0));
    }
    while held() < MIB - 65_536 {
        std::thread::yield_now();
    }
    let (mut client, mut server) = connected(&world, &listener);
    echo(&mut client, &mut server);
    assert!(held() <= MIB + 65_536 + readers * 4096, "{}", held());
    // Nothing of theirs is lost.
    for (client, mut server) in stalled {
        drop(client);
        assert!(read_all(&mut server).0 == upload);
    }
    drop((client, server));
    service.stop();
}

#[test]
fn clients_wait_while_no_descriptor_is_left_for_their_servers() {
    let Some(world) = World::new() else { return };
    let listeners = ["0.0.0.0:80", "0.0.0.0:81"].map(|address| world.server.listen(address));
    let rules = "[legs.any]\n[[rules]]\nname = \"first\"\nports = [81]\nclient = \"any\"\nserver = \"any\"\nconnect_first = true\n";
    // The limits of a process of another user are those of a right that root may lack.
    let config = format!("{TRANSPARENT}{rules}").replace("workers = 2", "workers = 2\nconfine = false");
    let service = world.start(&config);
    let process = service.id();
    let limit = |files: usize| world.router.execute(&format!("prlimit --pid {process} --nofile={files}:"));
    let lowest_free = || (0..4096).find(|number| !Path::new(&format!("/proc/{process}/fd/{number}")).exists()).unwrap();
    // One is left for the client, none for its server.
    limit(lowest_free() + 1);
    let mut clients = vec![world.client.connect("10.2.0.2:80")];
    service.await_line(&["paused reason=\"no more servers can be dialled: "]);
    limit(4096);
    echo(&mut clients[0], &mut accept(&listeners[0]).0);
    limit(lowest_free());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| world.client.connect("10.2.0.2:81"));
        std::thread::sleep(Duration::from_millis(500));
        limit(4096);
        clients.push(waiting.join().unwrap());
    });
    echo(&mut clients[1], &mut accept(&listeners[1]).0);
    drop(clients);
    let log = service.stop();
    assert!(!log.iter().any(|line| line.starts_with("refused ")), "{log:#?}");
}

#[test]
fn an_open_connection_gets_the_congestion_control_of_the_new_configuration() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let config = |name: &str| {
        format!(
            "{TRANSPARENT}[legs.near]\n[legs.far]\ncongestion = \"{name}\"\n\
             [[rules]]\nname = \"web\"\nclient = \"near\"\nserver = \"far\"\n"
        )
    };
    let service = world.start(&config("cubic"));
    let (mut client, mut server) = connected(&world, &listener);
    let used = || world.router.execute("ss -Htin dst 10.2.0.2");
    assert!(used().contains("cubic"), "{}", used());
    world.config(&config("reno"));
    service.signal(Signal::HUP);
    service.await_line(&["reloaded"]);
    assert!(used().contains("reno") && !used().contains("cubic"), "{}", used());
    echo(&mut client, &mut server);
    drop((client, server));
    service.stop();
}

#[test]
fn both_legs_have_the_code_point_of_the_client() {
    let Some(world) = World::new() else { return };
    // Packets with EF (46) that arrive at each end.
    let rules = "table inet seen {\n\tchain input {\n\t\ttype filter hook input priority 0;\n\
                 \t\tip dscp ef counter\n\t\tip6 dscp ef counter\n\t}\n}\n";
    let file = world.folder.path().join("seen.nft");
    fs::write(&file, rules).unwrap();
    for host in [&world.client, &world.server] {
        host.execute(&format!("nft -f {}", file.display()));
    }
    let service = world.start(TRANSPARENT);
    for (listen, address) in [("0.0.0.0:80", "10.2.0.2:80"), ("[::]:81", "[2001:db8:2::2]:81")] {
        let listener = world.server.listen(listen);
        let address: SocketAddr = address.parse().unwrap();
        let socket = world.client.enter(|| {
            let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
            let socket = rustix::net::socket(family, SocketType::STREAM, None).unwrap();
            if address.is_ipv6() {
                sockopt::set_ipv6_tclass(&socket, 46 << 2).unwrap();
            } else {
                sockopt::set_ip_tos(&socket, 46 << 2).unwrap();
            }
            rustix::net::connect(&socket, &address).unwrap();
            socket
        });
        let mut client = patient(TcpStream::from(socket));
        let (mut server, _) = accept(&listener);
        echo(&mut client, &mut server);
    }
    for host in [&world.client, &world.server] {
        let counted = host.execute("nft list chain inet seen input");
        assert!(counted.contains("counter") && !counted.contains("packets 0"), "{counted}");
    }
    service.stop();
}

/// The user `nobody`.
const NOBODY: u32 = 65_534;
const MIB: usize = 1 << 20;
