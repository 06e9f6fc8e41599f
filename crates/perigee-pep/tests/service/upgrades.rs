//! A new process takes over from the one that runs, and nobody notices; and what a killed one leaves.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::operation::{connected, echo, interception};
use crate::transfers::TRANSPARENT;
use crate::tunnel;
use crate::world::{accept, bytes, read_all, until, Host, Service, World, PATIENCE};

/// Interception with a control socket; clients of port 81 wait for their server.
fn config(world: &World, more: &str) -> String {
    let control = world.folder.path().join("control");
    let service = format!("workers = 2\ncontrol = \"{}\"\n{more}", control.display());
    let rules = "[legs.any]\n[[rules]]\nname = \"first\"\nports = [81]\nclient = \"any\"\nserver = \"any\"\nconnect_first = true\n";
    format!("{}{rules}", TRANSPARENT.replace("workers = 2", &service))
}

/// Runs `upgrade` at a host, with more in the environment.
fn ask_for_upgrade(host: &Host, config: &Path, environment: &[(&str, String)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perigee-pep"));
    command.arg("upgrade").arg(config).env("NOTIFY_SOCKET", config.with_extension("notify"));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    host.enter(|| command.output().unwrap())
}

/// Replaces the process of the service at the router, once its log says so.
pub(crate) fn upgrade(world: &World, service: &Service) {
    upgrade_with(world, service, &world.folder.path().join("pep.toml"));
}

fn upgrade_with(world: &World, service: &Service, config: &Path) {
    let before = service.id();
    let output = ask_for_upgrade(&world.router, config, &[]);
    assert!(output.status.success(), "{output:?} {:#?}", service.log());
    until(|| service.id() != before);
}

/// The environment in which `nft` does something else before it changes rules.
fn with_nft(world: &World, instead: &str) -> (&'static str, String) {
    let (own, path) = (world.folder.path().join("nft"), std::env::var("PATH").unwrap());
    fs::write(
        &own,
        format!("#!/bin/bash\nif [ \"$1\" = -f ]; then {instead}; fi\nPATH=${{PATH#*:}} exec nft \"$@\"\n"),
    )
    .unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    ("PATH", format!("{}:{path}", world.folder.path().display()))
}

/// Whether a process runs whose command line has these words.
fn runs(words: &str) -> bool {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(words))
}

/// One request of a client, whose end is a half-close, and the response; their sizes depend on the number.
fn transfer(world: &World, number: usize) -> io::Result<usize> {
    let sizes = [16, 1_000, 20_000, 100_000];
    let (up, down) = (sizes[number % 4], sizes[number / 4 % 4]);
    let mut socket = world.client.connect(PORTS[number % 2].1);
    let head = [number, up, down].map(|value| (value as u32).to_be_bytes()).concat();
    socket.write_all(&head)?;
    socket.write_all(&bytes(up, number as u32))?;
    socket.shutdown(Shutdown::Write)?;
    let (response, end) = read_all(&mut socket);
    end?;
    if response != bytes(down, number as u32 + 1) {
        return Err(io::Error::other(format!("{} bytes of {down}, or others", response.len())));
    }
    Ok(up + down)
}

/// Serves a client of [`transfer`].
fn respond(mut socket: TcpStream) -> io::Result<()> {
    let mut head = [0; 12];
    socket.read_exact(&mut head)?;
    let [number, up, down] = [0, 4, 8].map(|at| u32::from_be_bytes(head[at..at + 4].try_into().unwrap()));
    let (request, end) = read_all(&mut socket);
    end?;
    if request != bytes(up as usize, number) {
        return Err(io::Error::other(format!("{} bytes of {up}, or others", request.len())));
    }
    socket.write_all(&bytes(down as usize, number + 1))
}

/// Waits for a count, as long as it grows.
fn await_count(count: &AtomicUsize, most: usize) {
    let mut seen = (0, Instant::now());
    while seen.0 < most {
        thread::sleep(Duration::from_millis(5));
        let now = count.load(Ordering::Relaxed);
        if now > seen.0 {
            seen = (now, Instant::now());
        }
        assert!(seen.1.elapsed() < PATIENCE, "{} of {most}", seen.0);
    }
}

/// Transfers of 16 clients at a time while the service is replaced; none fails, none has another byte, and a connection that is
/// older than all of that stays.
fn replaced_under_load(transfers: usize, upgrades: usize) {
    let Some(world) = World::new() else { return };
    let service = world.start(&config(&world, "upgrade_drain = \"12 h\"\n"));
    let listeners = PORTS.map(|(listen, _)| world.server.listen(listen));
    let (mut old, mut old_server) = connected(&world, &listeners[0]);
    let (next, done, carried, failures) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(Vec::new()));
    let note = |what: &str, number: usize, error: &io::Error| {
        failures.lock().unwrap().push(format!("{what} {number}: {error}"));
    };
    let began = Instant::now();
    thread::scope(|scope| {
        for (at, listener) in listeners.iter().enumerate() {
            let note = &note;
            scope.spawn(move || {
                for number in (at..transfers).step_by(2) {
                    let (socket, _) = accept(listener);
                    scope.spawn(move || respond(socket).unwrap_or_else(|error| note("server", number, &error)));
                }
            });
        }
        for _ in 0..16 {
            scope.spawn(|| loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= transfers {
                    return;
                }
                match transfer(&world, number) {
                    Ok(size) => drop(carried.fetch_add(size as u64, Ordering::Relaxed)),
                    Err(error) => note("client", number, &error),
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        for at in 1..=upgrades {
            await_count(&done, at * transfers / (upgrades + 1));
            upgrade(&world, &service);
            echo(&mut old, &mut old_server);
        }
    });
    let failures = failures.into_inner().unwrap();
    let (bytes, took) = (carried.into_inner(), began.elapsed());
    println!("{transfers} transfers, {bytes} bytes, {upgrades} upgrades, {took:?}: {} failed", failures.len());
    assert!(failures.is_empty(), "{failures:#?} {:#?}", service.log());
    assert!(world.ask("status").starts_with("state running\n"));
    echo(&mut old, &mut old_server);
    drop((old, old_server));
    let log = service.stop();
    let ends: Vec<_> = log.iter().filter(|line| line.contains("end=") && !line.contains("end=complete")).collect();
    // The old connection was closed by both of its ends at the same time.
    assert!(ends.len() <= 1, "{ends:#?}");
    let words = log.iter().filter(|line| line.starts_with("replaced ")).flat_map(|line| line.split(' '));
    let pauses: Vec<_> = words.filter_map(|word| word.strip_prefix("pause_ms=")).collect();
    println!("nobody accepted for {pauses:?} ms");
    assert_eq!(pauses.len(), upgrades);
    assert_eq!(interception(&world), (false, 0));
    assert!(!world.folder.path().join("control").exists() && !world.folder.path().join("control.upgrade").exists());
}

#[test]
fn nobody_notices_that_the_service_is_replaced() {
    replaced_under_load(300, 2);
}

#[test]
#[ignore = "long: make torture"]
fn ten_thousand_transfers_notice_nothing_of_twenty_upgrades() {
    replaced_under_load(10_000, 20);
}

#[test]
fn a_client_that_waits_for_its_server_and_the_service_manager_are_handed_over() {
    let Some(world) = World::new() else { return };
    let service = world.start(&config(&world, ""));
    let listener = world.server.listen(PORTS[1].0);
    // The server is silent for now.
    world.server.execute("nft add table inet silent");
    world.server.execute("nft add chain inet silent input { type filter hook input priority 0 ; }");
    world.server.execute("nft add rule inet silent input tcp dport 81 drop");
    thread::scope(|scope| {
        let client = scope.spawn(|| world.client.connect(PORTS[1].1));
        until(|| world.ask("status").contains("\nwaiting 1\n"));
        upgrade(&world, &service);
        assert!(world.ask("status").contains("\nwaiting 1\n"));
        world.server.execute("nft delete table inet silent");
        let (mut server, peer) = accept(&listener);
        assert_eq!(peer.ip().to_string(), "10.1.0.2");
        echo(&mut client.join().unwrap(), &mut server);
    });
    // The one that was dialled before the upgrade, and no other.
    service.await_line(&["connection rule=first", "end="]);
    let told = || service.told().into_iter().filter(|message| message != "WATCHDOG=1").collect::<Vec<_>>();
    until(|| told().len() == 3);
    assert_eq!(told(), ["READY=1", &format!("MAINPID={}", service.id()), "READY=1"]);
    let log = service.stop();
    assert_eq!(log.iter().filter(|line| line.starts_with("connection ")).count(), 1, "{log:#?}");
}

#[test]
fn a_failed_upgrade_goes_back_to_the_old_process() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen(PORTS[0].0);
    let right = config(&world, "");
    let service = world.start(&right);
    let (mut client, mut server) = connected(&world, &listener);
    let rules = world.router.execute("nft list table inet perigee_pep");
    let said = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    for (wrong, fix) in [
        (right.replace("[allow]", "[allowed]"), "unknown key `allowed`"),
        (right.replace("interfaces", "mark = 5\ninterfaces"), "its port, mark and table change with a restart only"),
    ] {
        let output = ask_for_upgrade(&world.router, &world.config(&wrong), &[]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said(&output).contains(fix), "{output:?}");
    }
    // It fails before the old process has stopped to accept.
    let _taken = world.router.listen("127.0.0.1:9469");
    let file = world.config(&config(&world, "metrics = \"127.0.0.1:9469\"\n"));
    let output = ask_for_upgrade(&world.router, &file, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let reason = "service.metrics 127.0.0.1:9469: Address already in use";
    assert!(said(&output).contains(reason), "{output:?}");
    service.await_line(&["this process goes on", "did not take over: ", reason]);
    // So it does with fewer descriptors than it needs to be asked, reloaded and upgraded, and without a thread.
    let (file, program) = (world.config(&right), env!("CARGO_BIN_EXE_perigee-pep"));
    for (limit, reason) in [
        ("--nofile=60", "the limit of descriptors (RLIMIT_NOFILE): it is 60, and"),
        (
            "--nproc=1",
            "log: no more threads: Resource temporarily unavailable (os error 11); raise the limit of threads",
        ),
    ] {
        let mut few = Command::new("prlimit");
        few.args([limit, program, "upgrade"]).arg(&file);
        let output = world.router.enter(|| few.output().unwrap());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said(&output).contains(&format!("goes on: {reason}")), "{output:?}");
    }
    // And after that.
    let (file, path) = (world.config(&right), with_nft(&world, "exit 1"));
    let output = ask_for_upgrade(&world.router, &file, &[path]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output).contains("goes on: interception: `nft -f -`"), "{output:?}");
    service.await_line(&["this process goes on", "did not take over: interception: `nft -f -`"]);
    assert_eq!(world.router.execute("nft list table inet perigee_pep"), rules);
    echo(&mut client, &mut server);
    for (listen, _) in PORTS {
        // The second one waits for its server.
        let again = if listen == PORTS[0].0 { None } else { Some(world.server.listen(listen)) };
        let mut client = world.client.connect(if again.is_some() { PORTS[1].1 } else { PORTS[0].1 });
        let (mut server, _) = accept(again.as_ref().unwrap_or(&listener));
        echo(&mut client, &mut server);
    }
    service.await_line(&["connection rule=first", "end="]);
    // It can be replaced by one that works, and reads its configuration when it is asked.
    upgrade(&world, &service);
    world.ask("reload");
    service.await_line(&["reloaded"]);
    drop((client, server));
    service.stop();
    assert_eq!(interception(&world), (false, 0));
}

#[test]
fn a_new_process_of_another_user_has_more_workers_than_listening_sockets() {
    let Some(world) = World::new() else { return };
    let text = config(&world, "");
    let service = world.start(&text.replace("workers = 2\n", "workers = 1\nconfine = false\n"));
    let listener = world.server.listen(PORTS[0].0);
    world.config(&text.replace("workers = 2\n", "workers = 3\n"));
    upgrade(&world, &service);
    service.await_line(&["ready workers=3"]);
    for _ in 0..20 {
        drop(connected(&world, &listener));
    }
    service.stop();
}

#[test]
fn a_new_process_that_hangs_is_ended_in_time_and_the_old_one_answers_meanwhile() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen(PORTS[0].0);
    let service = world.start(&config(&world, "confine = false\n"));
    let (mut client, mut server) = connected(&world, &listener);
    let (file, path) = (world.folder.path().join("pep.toml"), with_nft(&world, "exec -a \"$0 hangs\" sleep 600"));
    let hanging = format!("take-over\0{}", file.display());
    let program = format!("{} hangs", world.folder.path().join("nft").display());
    let output = thread::scope(|scope| {
        let upgrade = scope.spawn(|| ask_for_upgrade(&world.router, &file, &[path]));
        // Its last step, when the old one accepts nothing.
        until(|| runs(&hanging) && runs(&program));
        assert!(world.ask("status").starts_with("state running\n"));
        upgrade.join().unwrap()
    });
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let reason = "the new process did not answer in 10 s";
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("goes on: {reason}")), "{output:?}");
    service.await_line(&["this process goes on", &format!("did not take over: {reason}")]);
    until(|| !runs(&hanging) && !runs(&program));
    echo(&mut client, &mut server);
    drop(connected(&world, &listener));
    upgrade(&world, &service);
    drop((client, server));
    service.stop();
}

#[test]
fn a_kill_of_the_old_process_during_an_upgrade_is_told_as_that() {
    let Some(world) = World::new() else { return };
    let text = config(&world, "confine = false\n");
    let service = world.start(&text);
    let control = world.folder.path().join("control");
    let (file, path) =
        (world.folder.path().join("pep.toml"), with_nft(&world, "sleep 2; PATH=${PATH#*:} exec nft \"$@\""));
    let output = thread::scope(|scope| {
        let upgrade = scope.spawn(|| ask_for_upgrade(&world.router, &file, &[path]));
        until(|| runs(&format!("{}\0-f", world.folder.path().join("nft").display())));
        service.signal(Signal::KILL);
        upgrade.join().unwrap()
    });
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "perigee-pep: the old process has ended, and no service runs: start it\n");
    let mut status = Command::new(env!("CARGO_BIN_EXE_perigee-pep"));
    let output = world.router.enter(|| status.arg("status").arg(&file).output().unwrap());
    let left = format!("perigee-pep: not running ({} is left from one that was killed)\n", control.display());
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(1), left));
    drop(service);
    world.start(&text).stop();
    assert_eq!(interception(&world), (false, 0));
}

#[test]
fn a_replaced_process_ends_in_time_and_the_rules_stay_as_long_as_it_needs_them() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen(PORTS[0].0);
    let service = world.start(&config(&world, "upgrade_drain = \"1 s\"\n"));
    let (mut client, mut server) = connected(&world, &listener);
    upgrade(&world, &service);
    assert!(read_all(&mut client).1.is_err() && read_all(&mut server).1.is_err());
    service.await_line(&["time is up connections=1"]);
    service.stop();

    let service = world.start(&config(&world, "drain = \"20 s\"\n"));
    let (mut client, mut server) = connected(&world, &listener);
    upgrade(&world, &service);
    service.signal(Signal::TERM);
    // The new process has none.
    service.await_line(&["draining connections=0"]);
    echo(&mut client, &mut server);
    assert_eq!(interception(&world), (true, 4));
    client.shutdown(Shutdown::Write).unwrap();
    drop(server);
    assert_eq!(read_all(&mut client).1.unwrap(), 0);
    let (status, log) = service.wait();
    assert!(status.success() && log.iter().filter(|line| *line == "stopped").count() == 2, "{log:#?}");
    assert_eq!(interception(&world), (false, 0));
}

#[test]
fn a_terminal_has_another_connection_to_its_gateway_and_a_gateway_is_replaced_by_one_beside_it() {
    let Some(path) = tunnel::Path::new() else { return };
    let gateway = path.gateway();
    let control = format!("[service]\ncontrol = \"{}\"\n", path.file("terminal", "sock").display());
    let terminal = path.terminal_with("terminal", &control);
    let listener = path.town.listen("10.3.0.2:80");
    let connected = || {
        let mut client = path.world.client.connect("10.3.0.2:80");
        let mut server = accept(&listener).0;
        echo(&mut client, &mut server);
        (client, server)
    };
    let (mut client, mut server) = connected();
    upgrade_with(&path.world, &terminal, &path.file("terminal", "toml"));
    let output = ask_for_upgrade(&path.world.server, &path.file("gateway", "toml"), &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("a gateway changes its version with a restart only"));
    // Another one beside it gets the new connections of an upgraded terminal, and the older one ends with its last.
    let (beside, file) = (path.gateway_beside("beside", 4434), path.file("terminal", "toml"));
    fs::write(&file, fs::read_to_string(&file).unwrap().replace(":4433", ":4434")).unwrap();
    upgrade_with(&path.world, &terminal, &file);
    let (mut newer, mut newer_server) = connected();
    assert_eq!(["gateway", "beside"].map(|of| path.status(of, "open")), [1, 1]);
    echo(&mut client, &mut server);
    drop((client, server));
    until(|| path.status("gateway", "open") == 0);
    gateway.stop();
    echo(&mut newer, &mut newer_server);
    drop((newer, newer_server));
    terminal.stop();
    beside.stop();
}

/// Both ends of a connection.
struct Ends {
    client: TcpStream,
    server: TcpStream,
}

/// Connections in all states: idle, half-closed by either end, in the middle of a download or an upload.
fn in_all_states(world: &World, listener: &TcpListener) -> Vec<Ends> {
    let more = bytes(65_536, 7);
    let fill = |socket: &TcpStream| {
        socket.set_nonblocking(true).unwrap();
        let mut writer = socket;
        while writer.write(&more).is_ok() {}
        socket.set_nonblocking(false).unwrap();
    };
    (0..20)
        .map(|number| {
            let (client, server) = connected(world, listener);
            match number % 5 {
                0 => client.shutdown(Shutdown::Write).unwrap(),
                1 => server.shutdown(Shutdown::Write).unwrap(),
                2 => fill(&client),
                3 => fill(&server),
                _ => {}
            }
            Ends { client, server }
        })
        .collect()
}

#[test]
fn after_a_kill_new_connections_pass_directly_and_open_ones_end_with_a_reset() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen(PORTS[0].0);
    let mut service = world.start(&config(&world, ""));
    let (mut older, mut older_server) = connected(&world, &listener);
    upgrade(&world, &service);
    let mut open = in_all_states(&world, &listener);
    // The ends of streams have arrived.
    for number in (0..open.len()).filter(|number| number % 5 < 2) {
        let Ends { client, server } = &mut open[number];
        let other = if number % 5 == 0 { server } else { client };
        assert_eq!(other.read(&mut [0; 8]).unwrap(), 0);
    }
    let killed = Instant::now();
    service.signal(Signal::KILL);
    // The last of its threads closes the sockets; the first one may stay as a zombie.
    let path = format!("/proc/{}", service.id());
    let is_zombie = || fs::read_to_string(format!("{path}/stat")).map_or(true, |state| state.contains(") Z "));
    until(|| is_zombie() && fs::read_dir(format!("{path}/task")).map_or(0, Iterator::count) <= 1);
    let gone = Instant::now();
    for (listen, address) in PORTS {
        let again = if listen == PORTS[0].0 { None } else { Some(world.server.listen(listen)) };
        let mut client = world.client.connect(address);
        let (mut server, _) = accept(again.as_ref().unwrap_or(&listener));
        echo(&mut client, &mut server);
    }
    // A first packet that was lost would have been sent again a second later.
    assert!(gone.elapsed() < Duration::from_secs(1), "{:?}, {:?} after the kill", gone.elapsed(), killed.elapsed());
    println!("new connections pass {:?} after the kill", killed.elapsed());
    for (number, Ends { mut client, mut server }) in open.into_iter().enumerate() {
        let ends = [read_all(&mut client).1, read_all(&mut server).1].map(|end| end.is_err());
        // Whose peer had ended its stream before knows that already: it learns of the reset when it writes.
        let expected = [number % 5 != 1, number % 5 != 0];
        assert_eq!(ends, expected, "{number}");
    }
    // A process that was replaced before goes on with its own.
    echo(&mut older, &mut older_server);
    drop((older, older_server));
    assert!(service.ends_within(Duration::from_secs(60)), "the old process waits for its last connection only");
}

/// Where servers listen, and where clients connect to.
const PORTS: [(&str, &str); 2] = [("0.0.0.0:80", "10.2.0.2:80"), ("0.0.0.0:81", "10.2.0.2:81")];
