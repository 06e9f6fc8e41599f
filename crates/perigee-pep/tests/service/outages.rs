//! Gateways that die, and links that are dark.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::transfers::TRANSPARENT;
use crate::tunnel::Path;
use crate::world::{accept, bytes, read_all, until, World};

/// Loses what the terminal sends to its gateway.
fn darken(path: &Path) {
    path.world.router.execute("nft add table inet dark");
    path.world.router.execute("nft add chain inet dark out { type filter hook output priority 0 ; }");
    path.world.router.execute("nft add rule inet dark out oifname wan0 udp dport 4433 counter drop");
}

fn lighten(path: &Path) {
    path.world.router.execute("nft delete table inet dark");
}

#[test]
fn a_stream_is_whole_whose_last_acknowledgement_finds_no_route() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let service = world.start(TRANSPARENT);
    let mut client = world.client.connect("[2001:db8:2::2]:80");
    let (mut server, _) = accept(&listener);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server).0, b"");
    world.router.execute("ip -6 route delete 2001:db8:2::/64 dev wan0");
    // Bytes and the end of the stream arrive. That no acknowledgement leaves is an error that passes.
    let answer = bytes(1000, 3);
    server.write_all(&answer).unwrap();
    drop(server);
    let (received, end) = read_all(&mut client);
    end.unwrap();
    assert!(received == answer);
    world.router.execute("ip -6 route add 2001:db8:2::/64 dev wan0");
    service.await_line(&["connection rule=other", "end=complete"]);
    service.stop();
}

#[test]
fn a_connection_after_darkness_is_carried_within_seconds() {
    let Some(path) = Path::new() else { return };
    let (gateway, terminal) = (path.gateway(), path.terminal());
    let listener = path.town.listen("10.3.0.2:80");
    let answered = || {
        let began = Instant::now();
        let mut socket = path.world.client.connect("10.3.0.2:80");
        let (mut far, _) = accept(&listener);
        far.write_all(b"hi").unwrap();
        socket.read_exact(&mut [0; 2]).unwrap();
        began.elapsed()
    };
    answered();
    let mut upload = path.world.client.connect("10.3.0.2:80");
    let (mut uploaded, _) = accept(&listener);
    darken(&path);
    // More than the congestion window has room for.
    let bulk = bytes(8 << 20, 5);
    let sent = bulk.clone();
    let sending = thread::spawn(move || upload.write_all(&sent));
    // A client's opening is lost, and with each doubled pause of QUIC again.
    let waiting = path.world.client.connect("10.3.0.2:80");
    thread::sleep(Duration::from_secs(8));
    let asked = || {
        let rules = path.world.router.execute("nft list chain inet dark out");
        let count = rules.split_once("packets ").and_then(|(_, rest)| rest.split(' ').next());
        count.unwrap().parse::<u64>().unwrap()
    };
    let before = asked();
    thread::sleep(Duration::from_secs(6));
    // QUIC alone sends two datagrams in that time, or none, and perhaps a keep-alive.
    assert!(asked() >= before + 4, "{before} {}", asked());
    lighten(&path);
    let began = Instant::now();
    drop((waiting, accept(&listener)));
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(3), "{waited:?}");
    answered();
    assert!(read_all(&mut uploaded).0 == bulk);
    sending.join().unwrap().unwrap();
    drop(uploaded);
    terminal.stop();
    gateway.stop();
}

#[test]
fn a_gateway_that_dies_resets_its_streams_and_the_next_one_is_found() {
    let Some(mut path) = Path::new() else { return };
    path.grace_s = 4;
    let (gateway, terminal) = (path.gateway(), path.terminal());
    let listener = path.town.listen("10.3.0.2:80");
    let mut socket = path.world.client.connect("10.3.0.2:80");
    let (mut far, _) = accept(&listener);
    far.write_all(b"all is well").unwrap();
    socket.read_exact(&mut [0; 11]).unwrap();
    gateway.signal(Signal::KILL);
    gateway.wait();
    // Neither end takes it for the end of the stream.
    assert!(read_all(&mut far).1.is_err());
    assert!(read_all(&mut socket).1.is_err());
    terminal.await_line(&["tunnel down"]);
    let again = path.gateway();
    let mut socket = path.world.client.connect("10.3.0.2:80");
    let (mut far, _) = accept(&listener);
    far.write_all(b"again").unwrap();
    drop(far);
    assert_eq!(read_all(&mut socket).0, b"again");
    drop(socket);
    terminal.stop();
    again.stop();
}

#[test]
fn a_gateway_that_was_killed_and_is_back_has_its_terminals_at_once() {
    let Some(path) = Path::new() else { return };
    let (gateway, terminal) = (path.gateway(), path.terminal());
    let listener = path.town.listen("10.3.0.2:80");
    let answered = || {
        let mut socket = path.world.client.connect("10.3.0.2:80");
        let (mut far, _) = accept(&listener);
        far.write_all(b"hi").unwrap();
        socket.read_exact(&mut [0; 2]).unwrap();
        (socket, far)
    };
    let (mut before, _far) = answered();
    gateway.signal(Signal::KILL);
    gateway.wait();
    let again = path.gateway();
    let began = Instant::now();
    // The open connection is reset, far before the grace of 50 s is over; it may have been before the write.
    assert!(before.write_all(b"more").is_err() || read_all(&mut before).1.is_err());
    drop(answered());
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    terminal.await_line(&["tunnel down reason=\"reset by peer\""]);
    terminal.stop();
    again.stop();
}

#[test]
fn bytes_that_wait_for_an_acknowledgement_are_shown_and_their_memory_is_given_back() {
    let Some(path) = Path::new() else { return };
    let (gateway, terminal) = (path.gateway(), path.terminal());
    let listener = path.town.listen("10.3.0.2:80");
    let download = bytes(3 << 20, 5);
    let waiting = || path.status("gateway", "tunnel_unacknowledged_bytes");
    let opened = (0..20).map(|_| (path.world.client.connect("10.3.0.2:80"), accept(&listener).0));
    let (clients, servers): (Vec<_>, Vec<_>) = opened.unzip();
    until(|| waiting() == 0);
    let before = gateway.resident_kb();
    darken(&path);
    thread::scope(|scope| {
        for mut server in servers {
            let download = &download;
            scope.spawn(move || server.write_all(download).unwrap());
        }
        until(|| waiting() > 40 << 20);
        assert!(gateway.resident_kb() > before + 40_000);
        lighten(&path);
    });
    for mut client in clients {
        assert!(read_all(&mut client).0 == download);
    }
    until(|| waiting() == 0);
    until(|| gateway.resident_kb() < before + 20_000);
    terminal.stop();
    gateway.stop();
}

#[test]
fn readers_that_do_not_read_hold_no_memory_of_what_others_read() {
    let Some(path) = Path::new() else { return };
    let (gateway, terminal) = (path.gateway(), path.terminal());
    let listener = path.town.listen("10.3.0.2:80");
    let download = bytes(8 << 20, 5);
    let opened = (0..31).map(|_| (path.world.client.connect("10.3.0.2:80"), accept(&listener).0));
    let (mut clients, servers): (Vec<_>, Vec<_>) = opened.unzip();
    let before = terminal.resident_kb();
    thread::scope(|scope| {
        let download = &download;
        for mut server in servers {
            scope.spawn(move || server.write_all(download).unwrap());
        }
        let silent = clients.split_off(29);
        let readers =
            clients.into_iter().map(|mut client| scope.spawn(move || assert!(read_all(&mut client).0 == *download)));
        readers.collect::<Vec<_>>().into_iter().for_each(|reader| reader.join().unwrap());
        // Their windows of 4 MiB, and not the trains of datagrams that these bytes came in.
        until(|| terminal.resident_kb() < before + 40_000);
        for mut client in silent {
            assert!(read_all(&mut client).0 == *download);
        }
    });
    terminal.stop();
    gateway.stop();
}
