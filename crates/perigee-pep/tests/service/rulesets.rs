//! Rule sets that routers have, beside interception: with each of them connections work, or the start names the fix.

use std::fs;
use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::networks::doctor;
use crate::operation::interception;
use crate::transfers::TRANSPARENT;
use crate::world::{accept, bytes, ip, read_all, until, Host, Service, World};

/// A rule whose clients wait, longer than a first packet takes that is sent again.
pub(crate) const PATIENT: &str =
    "[legs.any]\n[[rules]]\nname = \"first\"\nclient = \"any\"\nserver = \"any\"\nconnect_first = true\n";
pub(crate) const VERSIONS: [(&str, &str); 2] = [("10.2.0.2:80", "10.2.0.1"), ("[2001:db8:2::2]:80", "2001:db8:2::1")];

/// Loads rules of the router's owner.
fn load(world: &World, rules: &str) {
    load_at(world, &world.router, rules);
}

/// Loads rules of a host's owner.
pub(crate) fn load_at(world: &World, host: &Host, rules: &str) {
    let file = world.folder.path().join("owner.nft");
    fs::write(&file, rules).unwrap();
    host.execute(&format!("nft -f {}", file.display()));
}

/// Sends and receives bytes over a new connection; the client's address as the server sees it.
pub(crate) fn exchange(client: TcpStream, listener: &TcpListener) -> SocketAddr {
    let (mut client, question) = (client, bytes(200_000, 1));
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let (mut server, peer) = accept(listener);
            assert!(read_all(&mut server).0 == bytes(200_000, 1));
            server.write_all(&bytes(300_000, 2)).unwrap();
            SocketAddr::new(peer.ip().to_canonical(), peer.port())
        });
        client.write_all(&question).and_then(|()| client.shutdown(Shutdown::Write)).unwrap();
        assert!(read_all(&mut client).0 == bytes(300_000, 2));
        serving.join().unwrap()
    })
}

/// An exchange of the client with the server's port 80 over each version of IP; the service carries it, and the server sees the
/// address and port of the client.
pub(crate) fn works(world: &World, service: &Service, listener: &TcpListener) {
    for (address, _) in VERSIONS {
        let client = world.client.connect(address);
        let own = client.local_addr().unwrap();
        assert_eq!(exchange(client, listener), own);
        service.await_line(&[
            "connection",
            &format!("client={own}"),
            "end=complete",
            "bytes_up=200000 bytes_down=300000",
        ]);
    }
}

/// The lines in which the start names what needs a change.
pub(crate) fn named(service: &Service) -> Vec<String> {
    service.log().into_iter().filter(|line| line.starts_with("host ")).collect()
}

pub(crate) fn sysctl(host: &Host, name: &str, value: &str) {
    host.enter(|| fs::write(format!("/proc/sys/net/{name}"), value).unwrap());
}

pub(crate) const MASQUERADE: &str =
    "table inet nat {\n\tchain post {\n\t\ttype nat hook postrouting priority srcnat;\n\
                          \t\toifname \"wan0\" masquerade\n\t}\n}\n";

#[test]
fn a_router_that_translates_sources_translates_the_legs_to_servers() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    // The server knows no way to the client.
    for version in ["-4", "-6"] {
        world.server.execute(&format!("ip {version} route delete default"));
    }
    load(&world, MASQUERADE);
    for more in ["", PATIENT] {
        let service = world.start(&format!("{TRANSPARENT}{more}"));
        assert!(named(&service).is_empty(), "{:?}", named(&service));
        for (address, router) in VERSIONS {
            for attempt in 0..3 {
                let began = Instant::now();
                let peer = exchange(world.client.connect(address), &listener);
                assert_eq!(peer.ip(), ip(router));
                // The first packet of the first connection over an interface is sent again.
                assert!(attempt == 0 || began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
            }
            service.await_line(&["connection", &format!("server={address}"), "end=complete"]);
        }
        // New rules know what was learned.
        service.signal(Signal::HUP);
        service.await_line(&["reloaded"]);
        let began = Instant::now();
        exchange(world.client.connect(VERSIONS[0].0), &listener);
        assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
        let log = service.stop();
        assert!(!log.iter().any(|line| line.starts_with("interception")), "{log:#?}");
    }
    let shown = world.router.execute("ip rule list");
    assert!(!shown.contains("7065") && !shown.contains("goto"), "{shown}");
}

#[test]
fn a_translation_that_takes_waiting_packets_too_is_named() {
    let Some(world) = World::new() else { return };
    let [listener, _other] = ["[::]:80", "[::]:81"].map(|at| world.server.listen(at));
    world.server.execute("ip route delete default");
    load(&world, &MASQUERADE.replace("oifname \"wan0\"", "ip saddr 10.1.0.0/16"));
    let service = world.start(&format!("{TRANSPARENT}{PATIENT}"));
    service.await_line(&["host translation: table inet nat, chain post", "add `oifname != \"perigee_pep\"`"]);
    let address = "10.2.0.2:81".parse().unwrap();
    let connected = world.client.enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(2)));
    assert!(connected.is_err(), "it need not be named");
    world.router.execute("nft flush table inet nat");
    load(&world, &MASQUERADE.replace("\"wan0\"", "!= \"perigee_pep\""));
    let peer = exchange(world.client.connect("10.2.0.2:80"), &listener);
    assert_eq!(peer.ip(), ip("10.2.0.1"));
    service.stop();
}

#[test]
fn the_leg_to_a_server_learns_of_a_smaller_mtu_behind_the_router() {
    let Some(world) = World::new() else { return };
    let far = Host::new();
    world.server.execute(&format!("ip link add far0 type veth peer name eth0 netns {}", far.path()));
    for (host, device, own) in [(&world.server, "far0", 1), (&far, "eth0", 2)] {
        host.execute(&format!("ip address add 10.3.0.{own}/24 dev {device}"));
        host.execute(&format!("ip link set {device} up"));
    }
    far.execute("ip route add default via 10.3.0.1");
    sysctl(&world.server, "ipv4/ip_forward", "1");
    world.server.execute("ip route change 10.3.0.0/24 dev far0 src 10.3.0.1 mtu lock 1000");
    world.router.execute("ip route add 10.3.0.0/24 via 10.2.0.2");
    let listener = far.listen("0.0.0.0:80");
    let state = "table inet state {\n\tchain input {\n\t\ttype filter hook input priority 0; policy drop;\n\
                 \t\tct state established,related accept\n\t\tiifname \"lan0\" accept\n\t}\n}\n";
    for rules in [state.to_owned(), format!("{state}{MASQUERADE}")] {
        load(&world, &format!("flush ruleset\n{rules}"));
        world.router.execute("ip route flush cache");
        let service = world.start(TRANSPARENT);
        exchange(world.client.connect("10.3.0.2:80"), &listener);
        service.await_line(&["connection", "server=10.3.0.2:80", "end=complete", "bytes_up=200000"]);
        let learned = world.router.execute("ip route get 10.3.0.2");
        assert!(learned.contains("mtu 1000"), "{learned}");
        service.stop();
    }
}

#[test]
fn a_router_that_begins_to_translate_after_the_start_of_the_service() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let service = world.start(TRANSPARENT);
    let table = || world.router.execute("nft list table inet perigee_pep");
    assert!(!table().contains("zone"), "nothing tracks connections here: neither does the service");
    world.server.execute("ip route delete default");
    load(&world, MASQUERADE);
    // Any connection of the host is tracked from now on.
    let beside = world.router.listen("127.0.0.1:81");
    drop(world.router.connect("127.0.0.1:81"));
    drop(beside);
    until(|| table().contains("zone"));
    let peer = exchange(world.client.connect("10.2.0.2:80"), &listener);
    assert_eq!(peer.ip(), ip("10.2.0.1"));
    service.stop();
}

#[test]
fn a_router_that_translates_destinations_decides_before_the_service() {
    let Some(world) = World::new() else { return };
    let (listener, portal) = (world.server.listen("[::]:80"), world.router.listen("[::]:8090"));
    load(
        &world,
        "table inet nat {\n\tchain pre {\n\t\ttype nat hook prerouting priority dstnat;\n\
         \t\tiifname \"lan0\" tcp dport 8000 redirect to :8090\n\
         \t\tip daddr 10.2.0.9 dnat ip to 10.2.0.2\n\t\tip6 daddr 2001:db8:2::9 dnat ip6 to 2001:db8:2::2\n\t}\n}\n",
    );
    for more in ["", PATIENT] {
        let service = world.start(&format!("{TRANSPARENT}{more}"));
        assert!(named(&service).is_empty(), "{:?}", named(&service));
        for (server, translated) in [("10.2.0.2", "10.2.0.9"), ("[2001:db8:2::2]", "[2001:db8:2::9]")] {
            let client = world.client.connect(&format!("{server}:8000"));
            let own = client.local_addr().unwrap();
            assert_eq!(exchange(client, &portal).port(), own.port(), "the portal of the router");
            let client = world.client.connect(&format!("{translated}:80"));
            let own = client.local_addr().unwrap();
            assert_eq!(exchange(client, &listener).ip(), own.ip());
            let carried = format!("client={own} server={server}:80");
            service.await_line(&["connection", &carried, "end=complete", "bytes_up=200000"]);
        }
        works(&world, &service, &listener);
        service.stop();
    }
}

#[test]
fn what_is_clamped_in_forward_only_is_named_at_the_start() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    load(
        &world,
        "table inet m {\n\tchain forward {\n\t\ttype filter hook forward priority mangle;\n\
         \t\ttcp flags syn tcp option maxseg size set 500\n\t}\n}\n",
    );
    let service = world.start(TRANSPARENT);
    service.await_line(&["host segment size: table inet m, chain forward", "`mss = SIZE` in the leg"]);
    works(&world, &service, &listener);
    service.stop();
    let leg = "[legs.any]\nmss = 500\n[[rules]]\nname = \"all\"\nclient = \"any\"\nserver = \"any\"\n";
    let service = world.start(&format!("{TRANSPARENT}{leg}"));
    works(&world, &service, &listener);
    assert!(named(&service).is_empty(), "{:?}", named(&service));
    service.stop();
}

#[test]
fn a_firewall_that_drops_what_arrives_for_the_router_is_named_with_the_rule_that_helps() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let state = "table inet state {\n\tchain arrives {\n\t\ttype filter hook input priority 0; policy drop;\n\
                 \t\tct state established,related accept\n\t\tmeta l4proto { icmp, icmpv6 } accept\n\
                 \t\tiifname \"lan0\" tcp dport 22 accept\n\t}\n}\n";
    // Packets that wait do not come from there.
    let from_lan = state.replace("tcp dport 22 ", "");
    for (rules, more) in [(state, ""), (&from_lan, PATIENT)] {
        load(&world, rules);
        let service = world.start(&format!("{TRANSPARENT}{more}"));
        let line = service.await_line(&["host input: table inet state, chain arrives"]);
        let (_, fix) = line.split_once("it drops packets of the service: ").unwrap();
        world.router.execute(fix);
        works(&world, &service, &listener);
        service.stop();
        let service = world.start(&format!("{TRANSPARENT}{more}"));
        assert!(named(&service).is_empty(), "{:?}", named(&service));
        service.stop();
        world.router.execute("nft delete table inet state");
    }
}

#[test]
fn a_port_of_another_transparent_program_stays_that_of_servers() {
    let Some(world) = World::new() else { return };
    let (listener, at_client) = (world.server.listen("[::]:7801"), world.client.listen("[::]:7801"));
    let other = world.router.listen("0.0.0.0:7801");
    let one: libc::c_int = 1;
    // SAFETY: the kernel reads four bytes of the value, which lives for the call.
    let done = unsafe {
        libc::setsockopt(other.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TRANSPARENT, (&raw const one).cast(), 4)
    };
    assert_eq!(done, 0);
    let service = world.start(&TRANSPARENT.replace("10.1.0.0/16", "10.1.0.77/32"));
    // A client that is not served, a server that connects to a client, and a client that is served.
    exchange(world.client.connect("10.2.0.2:7801"), &listener);
    exchange(world.server.connect("10.1.0.2:7801"), &at_client);
    world.client.execute("ip address replace 10.1.0.77/24 dev eth0");
    world.client.execute("ip route replace default via 10.1.0.1 src 10.1.0.77");
    exchange(world.client.connect("10.2.0.2:7801"), &listener);
    service.await_line(&["connection", "client=10.1.0.77", "end=complete", "bytes_up=200000"]);
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "nobody asked for it");
    service.stop();
    load(
        &world,
        "table ip other {\n\tchain pre {\n\t\ttype filter hook prerouting priority mangle;\n\
         \t\ttcp dport 7801 tproxy to :7801\n\t}\n}\n",
    );
    let service = world.start(TRANSPARENT);
    service.await_line(&["host other interception: table ip other, chain pre", "`ports` in `[transparent]`"]);
    service.stop();
}

#[test]
fn what_another_program_removes_is_put_back_and_counted() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let control = format!("[service]\ncontrol = \"{}\"\n", world.folder.path().join("control").display());
    // Tables and rules of others, and their routes, are none of its business.
    let of_others =
        ["nft ACT table inet other", "ip rule ACT fwmark 1 lookup 100", "ip route ACT default dev lo table 100"];
    let of_rules =
        ["nft flush ruleset", "ip -4 rule delete lookup 7065", "ip -6 rule delete fwmark 0x706570 goto 32766"];
    let of_routes = ["ip -4 route flush table 7065", "ip -6 route flush table 7065"];
    for (removals, counted) in [(&of_rules[..], [1, 2, 0]), (&of_routes, [0, 0, 2])] {
        let service = world.start(&TRANSPARENT.replace("[service]\n", &control));
        let there = interception(&world);
        for (before, removal) in (0..).zip(removals) {
            world.router.execute(removal);
            until(|| put_back(&world).iter().sum::<u64>() > before);
            assert_eq!(interception(&world), there, "{removal}");
            works(&world, &service, &listener);
        }
        for act in ["add", "delete"] {
            for line in of_others {
                world.router.execute(&line.replace("ACT", act));
            }
        }
        works(&world, &service, &listener);
        assert_eq!(put_back(&world), counted);
        let log = service.stop();
        assert_eq!(log.iter().filter(|line| line.starts_with("interception put back")).count(), 1, "{log:#?}");
        assert_eq!(interception(&world), (false, 0));
    }
}

#[test]
fn one_who_removes_the_rules_again_and_again_is_seen_until_they_are_whole() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let settings = format!(
        "[service]\nmetrics = \"127.0.0.1:9100\"\ncontrol = \"{}\"\n",
        world.folder.path().join("control").display()
    );
    let service = world.start(&TRANSPARENT.replace("[service]\n", &settings));
    let path = world.folder.path().join("pep.toml");
    let missing = || {
        let status = world.ask("status");
        status.lines().find_map(|line| line.strip_prefix("interception_missing ").map(str::to_owned)).unwrap()
    };
    assert_eq!(missing(), "tables 0 policy_rules 0 routes 0");
    assert!(!doctor(&world.router, &path).iter().any(|line| line.starts_with("interception: ")));
    // The third pause is four seconds.
    until(|| {
        let mut remove = Command::new("nft");
        let remove = remove.args(["delete", "table", "inet", "perigee_pep"]);
        let _ = world.router.enter(|| remove.output());
        put_back(&world)[0] >= 3 && missing() == "tables 1 policy_rules 0 routes 0"
    });
    let mut metrics = world.router.connect("127.0.0.1:9100");
    metrics.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let text = String::from_utf8(read_all(&mut metrics).0).unwrap();
    assert!(text.contains("\nperigee_pep_interception_missing{what=\"tables\"} 1\n"), "{text}");
    let said = doctor(&world.router, &path);
    assert!(said.iter().any(|line| line.starts_with("interception: 1 tables, 0 pairs")), "{said:#?}");
    service.await_line(&["interception off tables=1 policy_rules=0 routes=0 put_back_in_s="]);
    service.await_line(&["interception whole after_s="]);
    assert_eq!(missing(), "tables 0 policy_rules 0 routes 0");
    works(&world, &service, &listener);
    let log = service.stop();
    assert_eq!(log.iter().filter(|line| line.starts_with("interception ")).count(), 3, "{log:#?}");
}

/// How many tables, pairs of policy rules and routes the service has put back.
fn put_back(world: &World) -> Vec<u64> {
    let status = world.ask("status");
    let line = status.lines().find_map(|line| line.strip_prefix("put_back ")).unwrap();
    line.split(' ').filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_way_by_mark_is_named_with_one_by_source_which_the_legs_take() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    world.router.execute(&format!("ip link add vpn0 type veth peer name vpn0 netns {}", world.server.path()));
    for (host, own) in [(&world.router, 1), (&world.server, 2)] {
        host.execute(&format!("ip address add 10.4.0.{own}/24 dev vpn0"));
        host.execute("ip link set vpn0 up");
    }
    world.server.execute("ip address add 10.3.0.1/32 dev lo");
    world.router.execute("ip route add 10.3.0.0/16 via 10.2.0.7");
    world.router.execute("ip route add default via 10.4.0.2 table 100");
    world.router.execute("ip rule add fwmark 1 lookup 100");
    load(
        &world,
        "table inet vpn {\n\tchain pre {\n\t\ttype filter hook prerouting priority mangle;\n\
         \t\tiifname \"lan0\" meta mark set 1\n\t}\n}\n",
    );
    // As the tools of WireGuard set it: the check of sources asks for a way with the packet's mark.
    sysctl(&world.router, "ipv4/conf/all/src_valid_mark", "1");
    sysctl(&world.router, "ipv4/conf/all/rp_filter", "2");
    exchange(world.client.connect("10.3.0.1:80"), &listener);
    let service = world.start(TRANSPARENT);
    let line = service.await_line(&["host policy route: ", "fwmark 0x1 lookup 100"]);
    let (_, fix) = line.split_once("the client's address: ").unwrap();
    world.router.execute(fix);
    let client = world.client.connect("10.3.0.1:80");
    let own = client.local_addr().unwrap();
    exchange(client, &listener);
    service.await_line(&["connection", &format!("client={own}"), "end=complete", "bytes_up=200000"]);
    service.stop();
}

#[test]
fn a_strict_check_of_sources_lets_all_packets_pass() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    sysctl(&world.router, "ipv4/conf/all/rp_filter", "1");
    load(
        &world,
        "table inet rp {\n\tchain pre {\n\t\ttype filter hook prerouting priority raw + 10;\n\
         \t\tfib saddr . mark . iif oif missing counter drop\n\t}\n}\n",
    );
    for by_mark in ["0", "1"] {
        sysctl(&world.router, "ipv4/conf/all/src_valid_mark", by_mark);
        let service = world.start(TRANSPARENT);
        works(&world, &service, &listener);
        service.stop();
    }
    let service = world.start(&format!("{TRANSPARENT}{PATIENT}"));
    service.await_line(&["connect_first is not possible", "rp_filter = 1", "set `all` to 0 or 2"]);
    works(&world, &service, &listener);
    service.stop();
}

#[test]
fn firewalls_that_keep_state_see_two_connections_from_their_beginning() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let hooks = ["prerouting", "input", "forward", "output", "postrouting"];
    let invalid = hooks.map(|hook| {
        format!(
            "\tchain {hook} {{\n\t\ttype filter hook {hook} priority 10;\n\t\tmeta l4proto tcp ct state invalid counter drop\n\
             \t\ttcp flags & (fin | syn | rst | ack) != syn ct state new counter drop\n\t}}\n"
        )
    });
    load(
        &world,
        &format!(
            "table inet invalid {{\n{}}}\ntable inet state {{\n\
             \tchain input {{\n\t\ttype filter hook input priority 0; policy drop;\n\t\tct state established,related accept\n\
             \t\ticmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept\n\t\tiifname \"lan0\" ct state new accept\n\t}}\n\
             \tchain output {{\n\t\ttype filter hook output priority 0; policy drop;\n\t\tct state established,related accept\n\
             \t\ticmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept\n\
             \t\toifname \"wan0\" ct state new accept\n\t}}\n}}\n",
            invalid.concat()
        ),
    );
    let service = world.start(TRANSPARENT);
    for _ in 0..10 {
        works(&world, &service, &listener);
    }
    let counted = world.router.execute("nft list table inet invalid");
    assert!(
        counted.contains("counter")
            && !counted.lines().any(|line| line.contains("counter packets") && !line.contains("packets 0 ")),
        "{counted}"
    );
    service.stop();
}

#[test]
fn a_bridge_whose_frames_pass_the_rules_of_ip_is_named() {
    let Some(world) = World::new() else { return };
    if !std::path::Path::new("/proc/sys/net/bridge").exists() {
        println!("skipped: the kernel has no br_netfilter");
        return;
    }
    let listener = world.server.listen("[::]:80");
    let router = &world.router;
    router.execute("ip link add br0 type bridge");
    for line in [
        "address flush dev lan0",
        "link set lan0 master br0",
        "link set br0 up",
        "address add 10.1.0.1/24 dev br0",
        "address add 2001:db8:1::1/64 dev br0 nodad",
    ] {
        router.execute(&format!("ip {line}"));
    }
    let keys = ["bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables"];
    let pass_rules = |value: &str| {
        for key in keys {
            sysctl(router, key, value);
        }
    };
    pass_rules("1");
    let config = TRANSPARENT.replace("lan0", "br0");
    let service = world.start(&config);
    service.await_line(&["host bridge: br0", "sysctl -w net.bridge.bridge-nf-call-iptables=0"]);
    let address = "10.2.0.2:80".parse().unwrap();
    let connected = world.client.enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(2)));
    assert!(connected.is_err(), "the kernel keeps the socket: it need not be named");
    pass_rules("0");
    works(&world, &service, &listener);
    service.stop();
    let service = world.start(&config);
    assert!(named(&service).is_empty(), "{:?}", named(&service));
    service.stop();
}
