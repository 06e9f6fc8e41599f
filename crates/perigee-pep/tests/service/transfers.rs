//! Nothing is lost, and each end learns of the other's.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::thread;

use rustix::net::{send, sockopt, AddressFamily, SendFlags, SocketType};
use sha2::{Digest as _, Sha256};

use crate::operation::is_refused;
use crate::world::{accept, bytes, ip, patient, read_all, reset, retried, Host, World};

/// Everything from the client's network to the server's, in both versions of IP.
pub(crate) const TRANSPARENT: &str =
    "[service]\nworkers = 2\n[allow]\nsources = [\"10.1.0.0/16\", \"2001:db8:1::/48\"]\n\
     destinations = [\"10.2.0.0/15\", \"2001:db8:2::/48\"]\n[transparent]\ninterfaces = [\"lan0\"]\n";
const FORWARD: &str = "[allow]\nsources = [\"10.1.0.0/16\"]\ndestinations = [\"10.2.0.2\"]\n\
     [[forward]]\nlisten = \"10.1.0.1:7000\"\ntarget = \"10.2.0.2:80\"\n";

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A request whose end is the client's half-close, and a response that depends on all of it; both larger than buffers.
/// Returns the client's address as the server sees it.
fn exchange(client: &Host, server: &Host, listen: &str, connect: &str) -> String {
    let listener = server.listen(listen);
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let (mut socket, peer) = accept(&listener);
            let (request, end) = read_all(&mut socket);
            end.unwrap();
            socket.write_all(&hash(&request)).unwrap();
            socket.write_all(&bytes(9_000_000, 7)).unwrap();
            peer.ip().to_string()
        });
        let mut socket = client.connect(connect);
        let mut sending = socket.try_clone().unwrap();
        let request = bytes(6_000_000, 3);
        sending.write_all(&request).unwrap();
        sending.shutdown(Shutdown::Write).unwrap();
        let (response, end) = read_all(&mut socket);
        end.unwrap();
        assert_eq!(response.len(), 32 + 9_000_000);
        assert_eq!(response[..32], hash(&request));
        assert_eq!(hash(&response[32..]), hash(&bytes(9_000_000, 7)));
        serving.join().unwrap()
    })
}

#[test]
fn half_closed_requests_have_their_whole_response_and_servers_see_the_client() {
    let Some(world) = World::new() else { return };
    for settings in ["", "[limits]\nheld = \"1 MiB\"\n"] {
        for splice in [true, false] {
            let config = TRANSPARENT.replace("workers = 2", &format!("workers = 2\nsplice = {splice}"));
            let service = world.start(&format!("{config}{settings}"));
            for (listen, connect, client) in
                [("0.0.0.0:80", "10.2.0.2:80", "10.1.0.2"), ("[::]:80", "[2001:db8:2::2]:80", "2001:db8:1::2")]
            {
                assert_eq!(ip(&exchange(&world.client, &world.server, listen, connect)), ip(client));
                service.await_line(&[client, "end=complete", "bytes_up=6000000 bytes_down=9000032"]);
            }
            service.stop();
        }
    }
    let service = world.start(&TRANSPARENT.replace("[transparent]", "[transparent]\nhide_clients = true"));
    assert_eq!(exchange(&world.client, &world.server, "0.0.0.0:80", "10.2.0.2:80"), "10.2.0.1");
    service.stop();
    let service = world.start(FORWARD);
    assert_eq!(exchange(&world.client, &world.server, "0.0.0.0:80", "10.1.0.1:7000"), "10.2.0.1");
    service.stop();
}

#[test]
fn a_slow_reader_that_closes_late_has_every_byte() {
    let Some(world) = World::new() else { return };
    let service = world.start(TRANSPARENT);
    let listener = world.server.listen("0.0.0.0:80");
    let mut client = world.client.connect("10.2.0.2:80");
    let (mut server, _) = accept(&listener);
    let sent = bytes(8_000_000, 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            server.write_all(&sent).unwrap();
            // Closed while megabytes of it wait at the router and in the client's socket.
            drop(server);
        });
        let (mut received, mut part) = (Vec::new(), vec![0; 40_000]);
        loop {
            match retried(|| client.read(&mut part)).unwrap() {
                0 => break,
                length => received.extend(&part[..length]),
            }
            thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(hash(&received) == hash(&sent), "{} of {}", received.len(), sent.len());
    });
    // The proxy still waits for the client's end.
    client.write_all(b"late").unwrap_or(());
    drop(client);
    service.stop();
}

#[test]
fn an_urgent_byte_keeps_its_place_and_what_follows_it_arrives() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let legs = "[legs.wide]\nreceive_buffer = \"4 MiB\"\n[legs.narrow]\nsend_buffer = \"16 KiB\"\n\
                [[rules]]\nname = \"all\"\nclient = \"wide\"\nserver = \"narrow\"\n";
    for splice in [true, false] {
        let service =
            world.start(&format!("{}{legs}", TRANSPARENT.replace("workers = 2", &format!("splice = {splice}"))));
        let mut client = world.client.connect("10.2.0.2:80");
        let (mut server, _) = accept(&listener);
        sockopt::set_socket_oobinline(&server, true).unwrap();
        let parts = [bytes(400_000, 1), b"!".to_vec(), bytes(100_000, 2)];
        client.write_all(&parts[0]).unwrap();
        send(&client, &parts[1], SendFlags::OOB).unwrap();
        client.write_all(&parts[2]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        // The service has all of it, and the end of the stream, while most of it waits for the server.
        while world.client.execute("ss -Htn state fin-wait-2").is_empty() {
            thread::yield_now();
        }
        let (received, end) = read_all(&mut server);
        end.unwrap();
        assert!(received == parts.concat(), "{} bytes, then an orderly end; splice = {splice}", received.len());
        drop((client, server));
        service.await_line(&["end=complete", "bytes_up=500001"]);
        service.stop();
    }
}

#[test]
fn resets_reach_the_other_end_after_every_byte_before_them() {
    let Some(world) = World::new() else { return };
    let service = world.start(TRANSPARENT);
    let listener = world.server.listen("0.0.0.0:80");
    let connected = || {
        let client = world.client.connect("10.2.0.2:80");
        (client, accept(&listener).0)
    };
    let is_reset = |end: std::io::Result<usize>| assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);

    // Idle; then after data; then by the server; then with one direction closed.
    let (client, mut server) = connected();
    reset(client);
    is_reset(read_all(&mut server).1);
    let (mut client, mut server) = connected();
    client.write_all(b"question").unwrap();
    let mut question = [0; 8];
    server.read_exact(&mut question).unwrap();
    reset(client);
    is_reset(read_all(&mut server).1);
    service.await_line(&["end=failed", "client reset the connection"]);
    for half_closed in [false, true] {
        let (mut client, mut server) = connected();
        if half_closed {
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(retried(|| server.read(&mut question)).unwrap(), 0);
        }
        server.write_all(b"a part of the answer").unwrap();
        let mut part = [0; 20];
        client.read_exact(&mut part).unwrap();
        reset(server);
        is_reset(read_all(&mut client).1);
    }
    service.await_line(&["end=failed", "server reset the connection", "bytes_down=20"]);
    // Both ends at once.
    let (client, server) = connected();
    reset(client);
    reset(server);
    service.stop();
}

#[test]
fn refusals_and_unreachable_servers_reset_the_client_before_any_byte() {
    let Some(world) = World::new() else { return };
    world.router.execute("ip route add unreachable 10.3.0.0/16");
    let service = world.start(TRANSPARENT);
    for server in ["10.2.0.2:81", "[2001:db8:2::2]:81", "10.3.0.1:80"] {
        assert!(is_refused(&world.client, server), "{server}");
    }
    service.await_line(&["server=10.2.0.2:81", "end=unreached", "server refused the connection"]);
    service.await_line(&["10.3.0.1:80", "server 10.3.0.1:80 is unreachable"]);
    service.stop();
}

#[test]
fn a_client_that_uses_its_port_again_is_served_though_its_last_end_of_stream_is_lost() {
    let Some(world) = World::new() else { return };
    world.server.execute("nft add table inet lost");
    world.server.execute("nft add chain inet lost input { type filter hook input priority 0 ; }");
    world.server.execute("nft add rule inet lost input tcp dport 80 tcp flags & fin == fin drop");
    let service = world.start(TRANSPARENT);
    let listener = world.server.listen("0.0.0.0:80");
    for round in 0..3 {
        let mut client = patient(world.client.enter(|| loop {
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            sockopt::set_socket_reuseaddr(&socket, true).unwrap();
            rustix::net::bind(&socket, &"10.1.0.2:40300".parse::<SocketAddr>().unwrap()).unwrap();
            match rustix::net::connect(&socket, &"10.2.0.2:80".parse::<SocketAddr>().unwrap()) {
                // Its own kernel has not seen the end of the connection before.
                Err(rustix::io::Errno::ADDRNOTAVAIL) => thread::yield_now(),
                done => {
                    done.unwrap();
                    break socket.into();
                }
            }
        }));
        let (mut server, peer) = accept(&listener);
        assert_eq!(peer.port(), 40300);
        server.write_all(b"answer").unwrap();
        drop(server);
        let (answer, end) = read_all(&mut client);
        assert!(end.is_ok() && answer == b"answer", "round {round}: {end:?}");
    }
    service.await_line(&["end=complete", "the client uses its port again"]);
    let log = service.stop_at_once();
    assert!(!log.iter().any(|line| line.starts_with("refused")), "{log:#?}");
}

#[test]
fn two_thousand_short_connections_are_answered() {
    let Some(world) = World::new() else { return };
    let service = world.start(TRANSPARENT);
    let listener = world.server.listen("0.0.0.0:80");
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CONNECTIONS {
                let (mut socket, _) = accept(&listener);
                let mut question = [0; 64];
                socket.read_exact(&mut question).unwrap();
                socket.write_all(&question).unwrap();
            }
        });
        for part in 0..4u32 {
            let world = &world;
            scope.spawn(move || {
                world.client.enter(|| {
                    for at in 0..CONNECTIONS / 4 {
                        let mut socket = patient(std::net::TcpStream::connect("10.2.0.2:80").unwrap());
                        let question = bytes(64, part << 16 | at);
                        socket.write_all(&question).unwrap();
                        let (answer, end) = read_all(&mut socket);
                        end.unwrap();
                        assert_eq!(answer, question);
                    }
                });
            });
        }
    });
    let log = service.stop();
    assert_eq!(log.iter().filter(|line| line.contains("end=complete")).count(), CONNECTIONS as usize);
}

const CONNECTIONS: u32 = 2000;
