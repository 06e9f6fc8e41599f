//! Networks that a proxy is put into beside those of a plain router: each has its row in the guide.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::rulesets::{exchange, load_at, named, sysctl, works, MASQUERADE, PATIENT, VERSIONS};
use crate::transfers::TRANSPARENT;
use crate::world::{accept, ip, until, Host, Service, World};

/// Starts the service as it is.
const PLAIN: &str = "exec \"$0\" \"$@\"";

/// A cable: each end has a host, a device and addresses, `10.NET.0.END` and `2001:db8:NET::END`.
fn cable(net: u32, ends: [(&Host, &str, u32); 2]) {
    let [(one, device, _), (other, peer, _)] = ends;
    one.execute(&format!("ip link add {device} type veth peer name {peer} netns {}", other.path()));
    for (host, device, end) in ends {
        host.execute(&format!("ip address add 10.{net}.0.{end}/24 dev {device}"));
        host.execute(&format!("ip address add 2001:db8:{net}::{end}/64 dev {device} nodad"));
        host.execute(&format!("ip link set {device} up"));
    }
}

/// Runs commands of `ip` for both versions; `NET.END` stands for an address, and `/NET` for a network.
fn both(host: &Host, lines: &[&str]) {
    for line in lines {
        let write = |network: &dyn Fn(&str) -> String, address: &dyn Fn(&str, &str) -> String| {
            let words = line.split(' ').map(|word| match word.split_once('.') {
                Some((net, end)) => address(net, end),
                None => word.strip_prefix('/').map_or_else(|| word.to_owned(), network),
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let old = write(&|net| format!("10.{net}.0.0/24"), &|net, end| format!("10.{net}.0.{end}"));
        let new = write(&|net| format!("2001:db8:{net}::/64"), &|net, end| format!("2001:db8:{net}::{end}"));
        host.execute(&format!("ip -4 {old}"));
        host.execute(&format!("ip -6 {new}"));
    }
}

fn forwards(host: &Host) {
    sysctl(host, "ipv4/ip_forward", "1");
    sysctl(host, "ipv6/conf/all/forwarding", "1");
}

/// Lines of `doctor` at a host.
pub(crate) fn doctor(host: &Host, path: &Path) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perigee-pep"));
    let output = host.enter(|| command.arg("doctor").arg(path).output().unwrap());
    let said: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    let lacks = said.last().is_none_or(|line| line != "nothing of this host stands in the way");
    assert_eq!(output.status.code(), Some(i32::from(lacks)), "{said:#?}");
    said
}

/// After the service was killed, its network works as without it.
fn outlives(world: &World, mut service: Service) {
    service.kill();
    let listener = world.server.listen("[::]:81");
    for (address, _) in VERSIONS {
        let client = world.client.connect(&address.replace(":80", ":81"));
        let own = client.local_addr().unwrap();
        assert_eq!(exchange(client, &listener), own);
    }
}

#[test]
fn a_box_beside_the_router_gets_both_directions_by_policy_routes() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let arm = Host::new();
    cable(9, [(&world.router, "arm0", 1), (&arm, "eth0", 2)]);
    forwards(&arm);
    both(&arm, &["route add default via 9.1"]);
    let to_box = ["rule add iif lan0 ipproto tcp lookup 100", "rule add iif wan0 to /1 ipproto tcp lookup 100"];
    both(&world.router, &["route add default via 9.2 dev arm0 table 100"]);
    both(&world.router, &to_box);
    // The box sends packets with addresses of clients.
    sysctl(&world.router, "ipv4/conf/all/rp_filter", "1");
    sysctl(&world.router, "ipv4/conf/arm0/rp_filter", "2");
    for more in ["", PATIENT] {
        let path = world.config(&format!("{}{more}", TRANSPARENT.replace("lan0", "eth0")));
        let said = doctor(&arm, &path);
        assert_eq!(said[0], "network: IPv4, one-armed: both directions come to eth0 by 10.9.0.1", "{said:#?}");
        assert_eq!(said[2..], ["nothing of this host stands in the way"], "{said:#?}");
        let service = World::start_at(&arm, PLAIN, &path);
        works(&world, &service, &listener);
        service.stop();
    }
    let service = World::start_at(&arm, PLAIN, &world.folder.path().join("pep.toml"));
    outlives(&world, service);
}

#[test]
fn what_a_host_lacks_beside_a_bridge_is_named_with_the_command_and_again_when_it_is_asked_to_reload() {
    let Some(world) = World::new() else { return };
    let path = world.config(TRANSPARENT);
    let fix = |key: &str| format!("what the service does not take is lost without it: sysctl -w net.{key}=1");
    for (key, shown) in
        [("ipv4/ip_forward", "ipv4.ip_forward"), ("ipv6/conf/all/forwarding", "ipv6.conf.all.forwarding")]
    {
        sysctl(&world.router, key, "0");
        assert_eq!(doctor(&world.router, &path)[2..], [format!("forwarding: net.{shown} = 0; {}", fix(shown))]);
        sysctl(&world.router, key, "1");
    }
    let service = world.start(&TRANSPARENT.replace("[\"lan0\"]", "[\"lan0\", \"lan9\"]"));
    service.await_line(&["host interface: lan9 is not there; "]);
    world.config(TRANSPARENT);
    sysctl(&world.router, "ipv4/ip_forward", "0");
    service.signal(Signal::HUP);
    service.await_line(&["host forwarding: net.ipv4.ip_forward = 0; "]);
    service.stop();
    // Only root can read the firewall.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups", "--"]).arg(env!("CARGO_BIN_EXE_perigee-pep"));
    let config = std::fs::File::open(&path).unwrap();
    let output = world.router.enter(|| command.args(["doctor", "/dev/stdin"]).stdin(config).output().unwrap());
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with("firewall: ") && told.contains("; run this as root, and install nftables\n"), "{told}");
    assert!(!told.contains("network: "), "{told}");
}

#[test]
fn a_box_in_the_network_of_the_clients_is_told_apart_from_them_by_its_hardware_address() {
    let Some(world) = World::new() else { return };
    let (router, arm, listener) = (&world.router, Host::new(), world.server.listen("[::]:80"));
    // The router's own switch.
    cable(1, [(router, "lan1", 8), (&arm, "eth0", 9)]);
    router.execute("ip link add br0 type bridge");
    for port in ["lan0", "lan1"] {
        router.execute(&format!("ip address flush dev {port}"));
        router.execute(&format!("ip link set {port} master br0"));
    }
    for key in ["bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables"] {
        sysctl(router, key, "0");
    }
    router.execute("ip link set br0 up");
    router.execute("ip address add 10.1.0.1/24 dev br0");
    router.execute("ip address add 2001:db8:1::1/64 dev br0 nodad");
    forwards(&arm);
    both(&arm, &["route add default via 1.1"]);
    let shown = arm.execute("ip -o link show eth0");
    let hardware = shown.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap();
    let rules = format!(
        "table inet steer {{\n\tchain pre {{\n\t\ttype filter hook prerouting priority mangle;\n\
         \t\tiifname \"br0\" ether saddr != {hardware} meta l4proto tcp meta mark set 5\n\
         \t\tiifname \"wan0\" meta l4proto tcp meta mark set 5\n\t}}\n}}\n"
    );
    load_at(&world, router, &rules);
    for (host, device) in [(router, "br0"), (&arm, "eth0")] {
        for name in ["all", device] {
            sysctl(host, &format!("ipv4/conf/{name}/send_redirects"), "0");
        }
    }
    both(router, &["route add default via 1.9 dev br0 table 100", "rule add fwmark 5 lookup 100"]);
    for more in ["", PATIENT] {
        let path = world.config(&format!("{}{more}", TRANSPARENT.replace("lan0", "eth0")));
        let service = World::start_at(&arm, PLAIN, &path);
        works(&world, &service, &listener);
        service.stop();
    }
    outlives(&world, World::start_at(&arm, PLAIN, &world.folder.path().join("pep.toml")));
}

#[test]
fn clients_and_servers_may_be_behind_translating_routers() {
    let Some(world) = World::new() else { return };
    // A home behind the client, and the internet behind the server.
    let (home, far) = (Host::new(), Host::new());
    cable(8, [(&world.client, "home0", 1), (&home, "eth0", 2)]);
    cable(3, [(&world.server, "far0", 1), (&far, "eth0", 2)]);
    both(&home, &["route add default via 8.1"]);
    both(&world.router, &["route add /3 via 2.2"]);
    for (host, out) in [(&world.client, "eth0"), (&world.server, "far0")] {
        forwards(host);
        load_at(&world, host, &MASQUERADE.replace("wan0", out));
    }
    let listener = far.listen("[::]:80");
    let config = TRANSPARENT.replace("2001:db8:2::/48", "2001:db8:3::/48");
    for more in ["", PATIENT] {
        let said = doctor(&world.router, &world.config(&format!("{config}{more}")));
        assert_eq!(said[1], "network: IPv6, router: clients at lan0, servers at wan0 by 2001:db8:2::2", "{said:#?}");
        let service = world.start(&format!("{config}{more}"));
        for (address, home_of, seen) in
            [("10.3.0.2:80", "10.1.0.2", "10.3.0.1"), ("[2001:db8:3::2]:80", "[2001:db8:1::2]", "2001:db8:3::1")]
        {
            assert_eq!(exchange(home.connect(address), &listener).ip(), ip(seen));
            let carried = ["connection", &format!("client={home_of}:"), &format!("server={address}"), "end=complete"];
            service.await_line(&carried);
        }
        service.stop();
    }
}

/// A bridge without addresses between the client and its router; the client's port is `lan0`. `None` where the kernel has no bridges.
fn bridge(world: &World) -> Option<Host> {
    if !Path::new("/proc/sys/net/bridge").exists() {
        println!("skipped: the kernel has no bridges");
        return None;
    }
    let bridge = Host::new();
    world.router.execute(&format!("ip link set lan0 netns {}", bridge.path()));
    cable(1, [(&world.router, "lan0", 1), (&bridge, "far0", 3)]);
    bridge.execute("ip link add br0 type bridge");
    for port in ["lan0", "far0"] {
        bridge.execute(&format!("ip address flush dev {port}"));
        bridge.execute(&format!("ip link set {port} master br0 up"));
    }
    bridge.execute("ip link set br0 up");
    Some(bridge)
}

/// Does at a bridge all that `doctor` says.
fn obey_doctor(bridge: &Host, path: &Path) {
    for line in doctor(bridge, path).iter().filter(|line| !line.starts_with("network")) {
        let (_, fix) = line.split_once("; ").unwrap();
        let begin = ["sysctl -w ", "ip -"].iter().find_map(|begin| fix.find(begin)).unwrap();
        let router = if fix.contains("-6") { "2001:db8:1::1" } else { "10.1.0.1" };
        bridge.execute(&fix[begin..].replace("ROUTER", router));
    }
}

#[test]
fn a_bridge_without_addresses_serves_what_passes_it_once_it_has_what_doctor_says() {
    let Some(world) = World::new() else { return };
    let Some(bridge) = bridge(&world) else { return };
    let listener = world.server.listen("[::]:80");
    let path = world.config(TRANSPARENT);
    let said = doctor(&bridge, &path);
    assert!(said[0].starts_with("network: IPv4, bridge br0: clients at port lan0, no way to servers"), "{said:#?}");
    let said = doctor(&bridge, &world.config(&TRANSPARENT.replace("lan0", "br0")));
    let ports = "name the ports where clients arrive, of lan0, far0, in `interfaces`";
    assert!(
        said.iter().any(|line| line.starts_with("bridge: br0 has no address; ") && line.contains(ports)),
        "{said:#?}"
    );
    world.config(TRANSPARENT);
    obey_doctor(&bridge, &path);
    for (port, name) in [("lan0", "interface: lan0 has no address"), ("far0", "bridge: br0: lan0 is its only port")] {
        bridge.execute(&format!("ip link set {port} nomaster"));
        let said = doctor(&bridge, &path);
        assert!(said.iter().any(|line| line.starts_with(name)), "{said:#?}");
        bridge.execute(&format!("ip link set {port} master br0"));
    }
    assert_eq!(
        doctor(&bridge, &path),
        [
            "network: IPv4, bridge br0: clients at port lan0, servers at br0 by 10.1.0.1",
            "network: IPv6, bridge br0: clients at port lan0, servers at br0 by 2001:db8:1::1",
            "nothing of this host stands in the way"
        ]
    );
    // Behind the router packets are smaller: its messages are for the service.
    world.router.execute("ip route change 10.2.0.0/24 dev wan0 src 10.2.0.1 mtu lock 1280");
    world.router.execute("ip -6 route add 2001:db8:2::/64 dev wan0 metric 1 mtu lock 1280");
    for more in ["", PATIENT] {
        let path = world.config(&format!("{TRANSPARENT}{more}"));
        let service = World::start_at(&bridge, PLAIN, &path);
        assert!(named(&service).is_empty(), "{:?}", named(&service));
        works(&world, &service, &listener);
        service.signal(Signal::HUP);
        service.await_line(&["reloaded"]);
        works(&world, &service, &listener);
        service.stop();
        assert_eq!(bridge.execute("nft list tables"), "");
    }
    for server in ["10.2.0.2", "2001:db8:2::2"] {
        let learned = bridge.execute(&format!("ip route get {server}"));
        assert!(learned.contains("mtu 1280"), "{learned}");
    }
}

#[test]
fn a_bridge_keeps_what_is_not_the_service_s_and_all_of_it_without_the_service() {
    let Some(world) = World::new() else { return };
    let Some(bridge) = bridge(&world) else { return };
    let listener = world.server.listen("[::]:80");
    let old = world.client.connect("10.2.0.2:80");
    let (far, _) = accept(&listener);
    let control = format!("workers = 2\ncontrol = \"{}\"\n", world.folder.path().join("control").display());
    let config = TRANSPARENT.replace("workers = 2\n", &control);
    let path = world.config(&config);
    obey_doctor(&bridge, &path);
    let service = World::start_at(&bridge, PLAIN, &path);
    let mut read = [0; 2];
    (&old).write_all(b"up").and_then(|()| (&far).read_exact(&mut read)).unwrap();
    let at_client = world.client.listen("[::]:82");
    for client in ["10.1.0.2:82", "[2001:db8:1::2]:82"] {
        exchange(world.server.connect(client), &at_client);
    }
    bridge.execute(&format!("{} upgrade {}", env!("CARGO_BIN_EXE_perigee-pep"), path.display()));
    service.await_line(&["replaced "]);
    works(&world, &service, &listener);
    service.stop();
    assert_eq!(bridge.execute("nft list tables"), "");
    outlives(&world, World::start_at(&bridge, PLAIN, &path));
    (&far).write_all(b"up").and_then(|()| (&old).read_exact(&mut read)).unwrap();
    // The next one removes what it does not need.
    let path = world.config(&TRANSPARENT.replace("lan0", "br0"));
    let service = World::start_at(&bridge, PLAIN, &path);
    assert_eq!(bridge.execute("nft list tables"), "table inet perigee_pep\n");
    service.stop();
}

#[test]
fn a_path_whose_answers_do_not_pass_is_found_and_passed_by() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    // Answers of 10.2.0.2 go by another router, those of 10.3.0.1 pass.
    cable(7, [(&world.server, "by0", 1), (&world.client, "by0", 2)]);
    both(&world.server, &["address add 3.1 dev lo", "route add /1 via 7.2 table 100", "rule add from 2.2 lookup 100"]);
    both(&world.router, &["route add /3 via 2.2"]);
    let timeout = "connect_timeout = \"1 s\"\n";
    let config = TRANSPARENT.replace("2001:db8:2::/48", "2001:db8::/32");
    let first = format!("{config}{PATIENT}{timeout}");
    let service = world.start(&first.replace("connect_first = true\n", ""));
    let passes = |address: &str| {
        let client = world.client.connect(address);
        let own = client.local_addr().unwrap();
        assert_eq!(exchange(client, &listener), own);
        own
    };
    for (silent, other, servers) in
        [("10.2.0.2", "10.3.0.1", "10.2.0.0/24"), ("[2001:db8:2::2]", "[2001:db8:3::1]", "2001:db8:2::/48")]
    {
        let dead = other.replace("1]", "7]").replace(".1", ".7");
        // One client has had an answer; nobody else asks meanwhile.
        passes(&format!("{other}:80"));
        for server in [silent, &dead] {
            let waits = world.client.connect(&format!("{server}:80"));
            let client = format!("client={}", waits.local_addr().unwrap());
            service.await_line(&[&client, "server did not answer within 1 s"]);
            until(|| is_tried(&world, server));
        }
        // The service has not found a way back, and the client has one.
        passes(&format!("{silent}:80"));
        let found = service.await_line(&["one way client=", &format!("servers={servers}")]);
        assert!(found.ends_with(" passed by"), "{found}");
        let path = world.folder.path().join("pep.toml");
        let said = doctor(&world.router, &path);
        assert!(said.iter().any(|line| line.starts_with("one way: ") && line.contains(servers)), "{said:#?}");
        let dead: SocketAddr = format!("{dead}:80").parse().unwrap();
        let tried = world.client.enter(|| TcpStream::connect_timeout(&dead, Duration::from_millis(200)));
        assert!(tried.is_err());
        // It is known, and stays so when another program has removed the table.
        let table = world.router.execute("nft list table inet perigee_pep");
        world.router.execute("nft flush ruleset");
        until(|| world.router.execute("nft list tables").contains("perigee_pep"));
        assert!(table.contains("tried") && !is_tried(&world, silent));
        let own = passes(&format!("{silent}:80"));
        passes(&format!("{other}:80"));
        let log = service.log();
        assert!(!log.iter().any(|line| line.contains(&format!("client={own}"))), "{log:#?}");
    }
    let log = service.stop();
    assert_eq!(log.iter().filter(|line| line.starts_with("one way ")).count(), 2, "{log:#?}");
    // A client that waits for the server has it with a later one of its first packets.
    let service = world.start(&first);
    passes("10.3.0.1:80");
    passes("10.2.0.2:80");
    service.await_line(&["one way client=10.1.0.2 servers=10.2.0.0/24"]);
    service.stop();
}

/// Whether connections of the client to a server pass by, to find out whether its answers pass.
fn is_tried(world: &World, server: &str) -> bool {
    let version = if server.starts_with('[') { "ip6" } else { "ip" };
    let listed = world.router.execute(&format!("nft list set inet perigee_pep tried_{version}"));
    listed.contains(&format!(". {} ", server.trim_matches(['[', ']'])))
}

#[test]
fn after_an_outage_one_connection_passes_by_and_the_next_one_is_served() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let rule = PATIENT.replace("connect_first = true", "connect_timeout = \"1 s\"");
    let service = world.start(&format!("{TRANSPARENT}{rule}"));
    world.server.execute("ip route add blackhole 10.1.0.2");
    drop(world.client.connect("10.2.0.2:80"));
    until(|| is_tried(&world, "10.2.0.2"));
    world.server.execute("ip route delete blackhole 10.1.0.2");
    let [passed, served] = [(); 2].map(|()| exchange(world.client.connect("10.2.0.2:80"), &listener));
    service.await_line(&["connection", &format!("client={served}"), "end=complete"]);
    let log = service.stop();
    assert!(
        !log.iter().any(|line| line.contains(&format!("client={passed}")) || line.starts_with("one way")),
        "{log:#?}"
    );
}

#[test]
fn a_path_whose_answers_pass_is_not_taken_for_another() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let old = world.client.connect("10.2.0.2:80");
    let (far, _) = accept(&listener);
    let service = world.start(TRANSPARENT);
    world.router.execute("nft add element inet perigee_pep tried_ip { 10.1.0.2 . 10.2.0.2 }");
    let mut read = [0; 2];
    (&old).write_all(b"up").and_then(|()| (&far).read_exact(&mut read)).unwrap();
    for seen in [["10.1.0.2", "2001:db8:1::2"], ["10.2.0.1", "2001:db8:2::1"]] {
        for set in ["ip { 10.1.0.2 . 10.2.0.2 }", "ip6 { 2001:db8:1::2 . 2001:db8:2::2 }"] {
            world.router.execute(&format!("nft add element inet perigee_pep tried_{set}"));
        }
        for ((address, _), seen) in VERSIONS.into_iter().zip(seen) {
            assert_eq!(exchange(world.client.connect(address), &listener).ip(), ip(seen));
        }
        // The second time the router translates them.
        load_at(&world, &world.router, MASQUERADE);
    }
    for set in ["one_way_ip", "one_way_ip6", "noted_ip", "noted_ip6", "tried_ip", "tried_ip6"] {
        let listed = world.router.execute(&format!("nft list set inet perigee_pep {set}"));
        assert!(!listed.contains("elements"), "{listed}");
    }
    let log = service.stop();
    assert!(!log.iter().any(|line| line.starts_with("connection ") || line.starts_with("one way")), "{log:#?}");
}

#[test]
fn an_older_nft_serves_all_but_one_way_paths() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    let older = "#!/bin/sh\nrules=$(cat)\ncase $rules in *one_way*) echo old >&2; exit 1;; esac\n\
                 echo \"$rules\" | PATH=${PATH#*:} exec nft \"$@\"\n";
    let nft = world.folder.path().join("nft");
    std::fs::write(&nft, older).unwrap();
    std::fs::set_permissions(&nft, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = format!("PATH={}:$PATH exec \"$0\" \"$@\"", world.folder.path().display());
    for more in ["", "hide_clients = true\n"] {
        let config = TRANSPARENT.replace("workers = 2\n", "workers = 2\nconfine = false\n");
        let service = world.start_with(&script, &format!("{config}{more}"));
        let client = world.client.connect("10.2.0.2:80");
        let own = client.local_addr().unwrap();
        exchange(client, &listener);
        service.await_line(&["connection", &format!("client={own}"), "end=complete"]);
        let is_said = service.log().iter().any(|line| line.contains("does not know the rules that find one-way paths"));
        assert_eq!(is_said, more.is_empty());
        service.stop();
    }
}

#[test]
fn a_network_without_ipv4_is_served() {
    let Some(world) = World::new() else { return };
    for host in [&world.client, &world.router, &world.server] {
        host.execute("ip -4 address flush scope global");
        host.execute("ip -4 address flush dev lo");
    }
    let listener = world.server.listen("[::]:80");
    let config =
        "[allow]\nsources = [\"2001:db8:1::/48\"]\ndestinations = [\"::/0\"]\n[transparent]\ninterfaces = [\"lan0\"]\n";
    for more in ["", PATIENT] {
        let service = world.start(&format!("{config}{more}"));
        assert!(named(&service).is_empty(), "{:?}", named(&service));
        let client = world.client.connect(VERSIONS[1].0);
        let own = client.local_addr().unwrap();
        assert_eq!(exchange(client, &listener), own);
        service.await_line(&["connection", &format!("client={own}"), "end=complete", "bytes_up=200000"]);
        service.stop();
    }
}

#[test]
fn each_leg_has_the_segments_of_its_own_mtu() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("[::]:80");
    for (lan, wan) in [(9000, 1280), (1280, 9000)] {
        for (host, device, mtu) in [
            (&world.client, "eth0", lan),
            (&world.router, "lan0", lan),
            (&world.router, "wan0", wan),
            (&world.server, "eth0", wan),
        ] {
            host.execute(&format!("ip link set {device} mtu {mtu}"));
        }
        for more in ["", PATIENT] {
            let service = world.start(&format!("{TRANSPARENT}{more}"));
            for (address, headers) in [(VERSIONS[0].0, 52), (VERSIONS[1].0, 72)] {
                let mut client = world.client.connect(address);
                client.write_all(b"?").unwrap();
                let (mut server, _) = accept(&listener);
                server.read_exact(&mut [0]).unwrap();
                for (host, mtu) in [(&world.client, lan), (&world.server, wan)] {
                    let shown = host.execute("ss -Htni state established");
                    assert!(shown.contains(&format!(" mss:{} ", mtu - headers)), "{address}, {lan}, {wan}: {shown}");
                }
            }
            works(&world, &service, &listener);
            service.stop();
        }
    }
}
