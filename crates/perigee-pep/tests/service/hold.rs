//! Clients whose handshake waits for their server see what it does.

use std::io::{ErrorKind, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{bind, connect, recv, socket_with, AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType};
use rustix::process::Signal;

use crate::transfers::TRANSPARENT;
use crate::world::{accept, bytes, ip, patient, read_all, reset, until, Host, World, PATIENCE};

/// A rule whose clients wait.
pub(crate) const FIRST: &str =
    "[legs.any]\n[[rules]]\nname = \"first\"\nclient = \"any\"\nserver = \"any\"\nconnect_first = true\n\
                     connect_timeout = \"1 s\"\n";

/// How an attempt to connect fails.
fn failure(host: &Host, address: &str) -> ErrorKind {
    let address: SocketAddr = address.parse().unwrap();
    host.enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(3))).unwrap_err().kind()
}

/// All packets of a host from now on, without link headers.
fn capture(host: &Host) -> OwnedFd {
    host.enter(|| {
        let all = Protocol::from_raw(std::num::NonZeroU32::new(u32::from(3u16.to_be())).unwrap());
        socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::NONBLOCK, Some(all)).unwrap()
    })
}

/// The TCP headers of the SYNs from a client's address, without their checksums.
fn syns(capture: &OwnedFd, client: &str) -> Vec<Vec<u8>> {
    segments(capture, client.parse().unwrap(), |flags| flags & 0x17 == 0x02)
}

/// Segments of a capture from an address whose flags are so, as bytes from the IP header on.
fn segments(capture: &OwnedFd, from: IpAddr, are_so: impl Fn(u8) -> bool) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut buffer = [0; 2048];
    while let Ok((length, _)) = recv(capture, &mut buffer, RecvFlags::empty()) {
        let packet = &buffer[..length];
        let (header, source): (usize, &[u8]) = match packet.first().map_or(0, |first| first >> 4) {
            4 => (20, &packet[12..16]),
            6 => (40, &packet[8..24]),
            _ => continue,
        };
        let protocol = if header == 20 { packet[9] } else { packet[6] };
        let is_from_there = match from {
            IpAddr::V4(from) => source == from.octets(),
            IpAddr::V6(from) => source == from.octets(),
        };
        if is_from_there && protocol == 6 && are_so(packet[header + 13]) {
            let mut tcp = packet[header..].to_vec();
            tcp[16..18].fill(0);
            found.push(tcp);
        }
    }
    found
}

/// Has a socket send a header of padding with each packet (RFC 3542, sections 8 and 9).
fn put_options(socket: &OwnedFd, kind: libc::c_int) {
    let padding = [0u8, 0, 1, 4, 0, 0, 0, 0];
    // SAFETY: the kernel reads eight bytes, which live for the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IPV6, kind, padding.as_ptr().cast(), 8) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_client_that_waits_sees_refusal_unreachable_server_and_silence() {
    let Some(world) = World::new() else { return };
    world.router.execute("ip route add unreachable 10.3.0.0/16");
    world.router.execute("ip route add 10.2.9.0/24 via 10.2.0.2");
    world.server.execute("ip route add unreachable 10.2.9.0/24");
    world.server.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
    world.server.execute("nft add table inet silent");
    world.server.execute("nft add chain inet silent input { type filter hook input priority 0 ; }");
    world.server.execute("nft add rule inet silent input tcp dport 83 drop");
    let expected = |world: &World| {
        [
            ("10.2.0.2:81", "refused the connection"),
            ("[2001:db8:2::2]:81", "refused the connection"),
            // Refused by the router itself, and by a router behind it.
            ("10.3.0.1:80", "is unreachable"),
            ("10.2.9.1:80", "is unreachable"),
            ("10.2.0.2:83", "did not answer within 1 s"),
            ("[2001:db8:2::2]:83", "did not answer within 1 s"),
        ]
        .map(|(address, reason)| (address, reason, failure(&world.client, address)))
    };
    // Without the service the client sees the same.
    let direct = expected(&world);
    assert_eq!(direct[0].2, ErrorKind::ConnectionRefused);
    assert_eq!(direct[2].2, ErrorKind::HostUnreachable);
    assert_eq!(direct[4].2, ErrorKind::TimedOut);
    let service = world.start(&format!("{TRANSPARENT}{FIRST}"));
    assert_eq!(expected(&world), direct);
    for (address, reason, _) in direct {
        service.await_line(&["connection rule=first", &format!("server={address}"), "end=unreached", reason]);
    }
    assert!(world.ask("rules").contains("dev perigee_pep"));
    service.stop();
    assert!(!world.router.execute("ip link").contains("perigee_pep"));
    for version in ["-4", "-6"] {
        assert!(!world.router.execute(&format!("ip {version} rule list")).contains("lookup 706"));
    }
}

#[test]
fn the_forward_rules_of_the_host_decide_where_first_packets_are_forwarded() {
    let Some(world) = World::new() else { return };
    let file = world.folder.path().join("forward.nft");
    let rules = "table inet host {\n\tchain forward {\n\t\ttype filter hook forward priority 0; policy drop;\n\
                 \t\tct state established accept\n\t\ttcp dport 443 accept\n\t}\n}\n";
    std::fs::write(&file, rules).unwrap();
    world.router.execute(&format!("nft -f {}", file.display()));
    let listeners = [443, 8000].map(|port| world.server.listen(&format!("[::]:{port}")));
    let is_refused = |address: &str| failure(&world.client, address) == ErrorKind::TimedOut;
    let config = TRANSPARENT.replace("[transparent]", "[transparent]\nthrough_forward = true");
    let rule = "[legs.any]\n[[rules]]\nname = \"any\"\nclient = \"any\"\nserver = \"any\"\n";
    for more in ["", rule, FIRST] {
        let service = world.start(&format!("{config}{more}"));
        for host in ["10.2.0.2", "[2001:db8:2::2]"] {
            assert!(is_refused(&format!("{host}:8000")), "{host}");
            let mut client = world.client.connect(&format!("{host}:443"));
            let (mut server, peer) = accept(&listeners[0]);
            assert_eq!(peer.port(), client.local_addr().unwrap().port());
            client.write_all(b"question").and_then(|()| client.shutdown(std::net::Shutdown::Write)).unwrap();
            assert_eq!(read_all(&mut server).0, b"question");
            drop((client, server));
        }
        service.await_line(&["end=complete", "bytes_up=8", "server=10.2.0.2:443"]);
        service.stop();
    }
    // Without it interception passes by them.
    let service = world.start(TRANSPARENT);
    drop((world.client.connect("10.2.0.2:8000"), accept(&listeners[1])));
    service.stop();
}

#[test]
fn without_the_device_nothing_passes_by_the_forward_rules() {
    let Some(world) = World::new() else { return };
    world.router.execute("ip tuntap add dev perigee_pep mode tap");
    let path = world.config(&TRANSPARENT.replace("[transparent]", "[transparent]\nthrough_forward = true"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_perigee-pep"));
    let output = world.router.enter(|| command.arg("run").arg(path).output().unwrap());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("transparent.through_forward"), "{said}");
}

#[test]
fn handshakes_that_wait_take_places_of_their_client_and_are_shown() {
    let Some(world) = World::new() else { return };
    world.server.execute("nft add table inet silent");
    world.server.execute("nft add chain inet silent input { type filter hook input priority 0 ; }");
    world.server.execute("nft add rule inet silent input tcp dport 83 drop");
    let listener = world.server.listen("0.0.0.0:80");
    let control = world.folder.path().join("control");
    let settings = format!("workers = 2\ncontrol = \"{}\"", control.display());
    let config = TRANSPARENT.replace("workers = 2", &settings);
    let rule = FIRST.replace("1 s", "60 s");
    let service = world.start(&format!("{config}[limits]\nconnections = 4\nper_client = 2\n{rule}"));
    let clients = ["10.1.0.2", "10.1.0.3", "10.1.0.4"];
    clients[1..].iter().for_each(|client| drop(world.client.execute(&format!("ip address add {client}/24 dev eth0"))));
    let begin = |client: &str, port: u16| {
        world.client.enter(|| {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
            bind(&socket, &SocketAddr::new(client.parse().unwrap(), 0)).unwrap();
            assert_eq!(connect(&socket, &SocketAddr::new([10, 2, 0, 2].into(), port)), Err(Errno::INPROGRESS));
            socket
        })
    };
    let status = |lines: &str| until(|| world.ask("status").contains(lines));
    // One client has two places, whatever it waits for; the next one has as many.
    let mut waiting: Vec<OwnedFd> = (0..3).map(|_| begin(clients[0], 83)).collect();
    service.await_line(&["refused client=10.1.0.2", "server=10.2.0.2:83", "limit of connections of the client"]);
    status("\nopen 2\nwaiting 2\n");
    let other = begin(clients[1], 80);
    let (served, peer) = accept(&listener);
    assert_eq!(peer.ip().to_string(), clients[1]);
    status("\nopen 3\nwaiting 2\n");
    waiting.push(begin(clients[1], 83));
    status("\nopen 4\nwaiting 3\n");
    // Whoever finds none sends again, and is served once others do not wait any more: a server refuses them.
    let last = begin(clients[2], 80);
    until(|| !world.ask("status").contains("\nno_room 0\n"));
    world.server.execute("nft delete table inet silent");
    assert_eq!(accept(&listener).1.ip().to_string(), clients[2]);
    status("\nwaiting 0\n");
    drop((waiting, other, served, last));
    service.stop();
}

#[test]
fn an_unreachable_server_over_ipv6_is_told_by_icmp() {
    let Some(world) = World::new() else { return };
    world.router.execute("ip -6 route add unreachable 2001:db8:3::/48");
    let config = TRANSPARENT.replace("\"2001:db8:2::/48\"", "\"2001:db8::/32\"");
    let direct = failure(&world.client, "[2001:db8:3::1]:80");
    let service = world.start(&format!("{config}{FIRST}"));
    assert_eq!(failure(&world.client, "[2001:db8:3::1]:80"), direct);
    assert_eq!(direct, ErrorKind::NetworkUnreachable);
    service.await_line(&["[2001:db8:3::1]:80", "end=unreached", "is unreachable"]);
    service.stop();
}

#[test]
fn one_syn_opens_both_legs_and_reaches_the_listening_socket_as_it_was() {
    let Some(world) = World::new() else { return };
    let versions = [("0.0.0.0:80", "10.2.0.2:80", "10.1.0.2"), ("[::]:81", "[2001:db8:2::2]:81", "2001:db8:1::2")];
    let versions = versions.map(|(listen, connect, client)| (world.server.listen(listen), connect, client));
    for (listener, connect, _) in &versions {
        // Until its link-local addresses are its own, a host asks for no neighbour (RFC 4862): not a second of the service.
        drop((world.client.connect(connect), accept(listener)));
    }
    let service = world.start(&format!("{TRANSPARENT}{FIRST}"));
    for (listener, connect, client_address) in &versions {
        let (capture, at_client) = (capture(&world.router), capture(&world.client));
        let mut client = world.client.connect(connect);
        let (mut server, peer) = accept(listener);
        assert_eq!(peer.ip(), client.local_addr().unwrap().ip());
        let question = bytes(100_000, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                client.write_all(&question).and_then(|()| client.shutdown(std::net::Shutdown::Write)).unwrap();
            });
            assert!(read_all(&mut server).0 == question);
        });
        drop((client, server));
        service.await_line(&["connection rule=first", client_address, "end=complete", "bytes_up=100000"]);
        let own = syns(&at_client, client_address);
        assert_eq!(own.len(), 1, "the client had to send its SYN again");
        // At lan0, into the device, out of it; the service's own towards the server differs.
        let same = syns(&capture, client_address).into_iter().filter(|syn| *syn == own[0]).count();
        assert_eq!(same, 3, "at lan0 and both ways through the device");
    }
    service.stop();
}

#[test]
fn a_syn_behind_extension_headers_is_answered_as_any_other() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let service = world.start(&format!("{TRANSPARENT}{FIRST}"));
    // Options that any host skips: hop by hop, for the destination, and both.
    for kinds in [&[HOP_BY_HOP][..], &[DESTINATION], &[HOP_BY_HOP, DESTINATION]] {
        let connect_to = |port: u16| {
            world.client.enter(|| {
                let socket = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::empty(), None).unwrap();
                for kind in kinds {
                    put_options(&socket, *kind);
                }
                set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE)).unwrap();
                let server: SocketAddr = format!("[2001:db8:2::2]:{port}").parse().unwrap();
                connect(&socket, &server).map(|()| TcpStream::from(socket))
            })
        };
        let mut client = connect_to(80).unwrap();
        let (mut server, _) = accept(&listener);
        client.write_all(b"question").and_then(|()| client.shutdown(std::net::Shutdown::Write)).unwrap();
        assert_eq!(read_all(&mut server).0, b"question");
        assert_eq!(connect_to(81).unwrap_err(), Errno::CONNREFUSED);
    }
    service.await_line(&["connection rule=first", "server=[2001:db8:2::2]:81", "end=unreached", "refused"]);
    service.stop();
}

#[test]
fn a_server_that_refuses_is_asked_once_and_its_client_learns_it_once() {
    let Some(world) = World::new() else { return };
    let service = world.start(&format!("{TRANSPARENT}{FIRST}"));
    for (listen, server, client) in
        [("0.0.0.0:80", "10.2.0.2", "10.1.0.2"), ("[::]:80", "2001:db8:2::2", "2001:db8:1::2")]
    {
        let (server, listener) = (ip(server), world.server.listen(listen));
        let (at_client, at_server) = (capture(&world.client), capture(&world.server));
        assert_eq!(failure(&world.client, &SocketAddr::new(server, 81).to_string()), ErrorKind::ConnectionRefused);
        // One that answers, and takes it back at once: before the client's own handshake is complete, or after.
        let refused = std::thread::scope(|scope| {
            scope.spawn(|| reset(accept(&listener).0));
            let connected = world.client.enter(|| TcpStream::connect_timeout(&SocketAddr::new(server, 80), PATIENCE));
            connected.and_then(|client| read_all(&mut patient(client)).1).unwrap_err().kind()
        });
        assert!(matches!(refused, ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused), "{refused}");
        // Longer than Linux waits before it sends a first SYN again.
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(syns(&at_server, client).len(), 2, "{server}");
        assert_eq!(segments(&at_client, server, |flags| flags & 0x04 > 0).len(), 2, "{server}");
    }
    let log = service.stop();
    let lines: Vec<_> = log.iter().filter(|line| line.starts_with("connection ")).collect();
    assert!(lines.len() == 4 && lines.iter().all(|line| line.contains("reason=\"server re")), "{lines:#?}");
}

#[test]
fn after_a_crash_waiting_clients_pass_by_and_a_reload_begins_and_ends_it() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let service = world.start(TRANSPARENT);
    // Not yet: a reset after the handshake.
    assert!(world.client.enter(|| TcpStream::connect("10.2.0.2:81")).is_ok());
    world.config(&format!("{TRANSPARENT}{FIRST}"));
    service.signal(Signal::HUP);
    service.await_line(&["reloaded"]);
    assert_eq!(failure(&world.client, "10.2.0.2:81"), ErrorKind::ConnectionRefused);
    service.signal(Signal::KILL);
    service.wait();
    let client = world.client.connect("10.2.0.2:80");
    assert_eq!(accept(&listener).1, client.local_addr().unwrap());
    // Without the device clients are accepted first, and the log says why.
    world.router.execute("ip tuntap add dev perigee_pep mode tap");
    let service = world.start(&format!("{TRANSPARENT}{FIRST}"));
    service.await_line(&["connect_first is not possible", "/dev/net/tun"]);
    drop((world.client.connect("10.2.0.2:80"), accept(&listener)));
    service.await_line(&["connection rule=first"]);
    service.stop();
}

/// Socket options for the headers that follow IPv6's.
const HOP_BY_HOP: libc::c_int = libc::IPV6_HOPOPTS;
const DESTINATION: libc::c_int = libc::IPV6_DSTOPTS;
