//! The network that the service is put into, as this host's links, routes and rules show it, and what it lacks there.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use super::bridge::Port;
use super::counters::Counters;
use super::finding::Finding;
use super::tools::answer;
use crate::config::{Config, Network, Transparent};

/// One version of IP at this host: where clients arrive, and the way to servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    is_ipv6: bool,
    /// The interface of clients, as IP sees it.
    clients: String,
    to_clients: Way,
    to_servers: Way,
}

/// A route, as `ip` shows it; an empty one is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Way {
    device: String,
    router: Option<String>,
}

/// Returns the networks that the service is put into, one for each version of IP that it serves, in words; none if the
/// rules of this host cannot be read.
pub(crate) fn deployments(config: &Config) -> Vec<String> {
    let Some(transparent) = &config.transparent else { return Vec::new() };
    let ports = Port::all(transparent);
    // Without the rules it would be a guess; the survey says why they cannot be read.
    let Ok(rules) = answer("nft -t list ruleset", None) else { return Vec::new() };
    let translates = ["masquerade", "snat "].iter().any(|word| rules.contains(word));
    Place::all(config, transparent, &ports).iter().map(|place| place.in_words(config, &ports, translates)).collect()
}

/// Whether this host has no address from which it could reach another host, as a bridge may have none.
pub(crate) fn lacks_address(target: SocketAddr) -> bool {
    let version = if target.is_ipv6() { "-6" } else { "-4" };
    let shown = answer(&format!("ip -o {version} address show scope global"), None);
    // Without the program nothing is known.
    !target.ip().is_loopback() && shown.is_ok_and(|text| text.is_empty())
}

/// Returns what this host lacks for the network that the service is put into. `transparent` is the interception as the owner wrote it.
pub(super) fn lacking(config: &Config, transparent: &Transparent, ports: &[Port]) -> Vec<Finding> {
    let places = Place::all(config, transparent, ports);
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap_or_default().trim().to_owned();
    let mut findings: Vec<Finding> =
        transparent.interfaces.iter().filter_map(|name| of_interface(&Interface::read(name), ports, &places)).collect();
    for place in &places {
        findings.extend(place.lacking_routes(config, ports));
        findings.extend(place.lacking_forwarding(read));
    }
    for port in ports {
        findings.extend(of_bridge(port, config, transparent, &places, read));
    }
    findings
}

/// An interface of the shared link that does not lead to it.
pub(super) fn of_link(config: &Config) -> Option<Finding> {
    let link = config.link.as_ref()?;
    let name = &link.interface;
    if let Err(error) = Counters::open().and_then(|counters| counters.of(name)) {
        let fix = "what passes by has no share of the link until it comes; `ip link` lists what `interface` in `[link]` can name";
        return Some(Finding::new("link", format!("{name}: {error}"), fix.to_owned()));
    }
    let transparent = config.transparent.as_ref()?;
    let is_of_servers = config.rules.iter().all(|rule| rule.client.name != link.leg);
    if !is_of_servers || !transparent.interfaces.contains(name) {
        return None;
    }
    leads_to_clients(name, &Place::all(config, transparent, &Port::all(transparent)))
}

/// An interface where clients arrive, though the link leads to servers, which are elsewhere.
fn leads_to_clients(name: &str, places: &[Place]) -> Option<Finding> {
    let way =
        places.iter().map(|place| &*place.to_servers.device).find(|device| !device.is_empty() && *device != name)?;
    let fix = format!(
        "the link leads to servers, which are at {way}: name that as `interface` in `[link]`, or what passes by has no share of it"
    );
    Some(Finding::new("link", format!("clients arrive at {name}"), fix))
}

/// An interface of clients, as the host has it.
#[derive(Clone, Debug, Default)]
struct Interface {
    name: String,
    is_there: bool,
    has_address: bool,
    /// Ports, if it is a bridge.
    ports: Vec<String>,
}

impl Interface {
    fn read(name: &str) -> Self {
        let listed = |line: String| answer(&line, None).unwrap_or_default();
        let ports = listed(format!("ip -o link show master {name}"));
        let port = |line: &str| line.split(": ").nth(1).and_then(|shown| shown.split('@').next()).map(str::to_owned);
        let bridges = listed("ip -o link show type bridge".to_owned());
        let is_bridge = bridges.lines().any(|line| port(line).is_some_and(|one| one == name));
        Self {
            name: name.to_owned(),
            is_there: answer(&format!("ip link show dev {name}"), None).is_ok(),
            has_address: !listed(format!("ip -o address show dev {name} scope global")).is_empty(),
            ports: if is_bridge { ports.lines().filter_map(port).collect() } else { Vec::new() },
        }
    }
}

/// Why packets of clients do not come to IP at an interface.
fn of_interface(interface: &Interface, ports: &[Port], places: &[Place]) -> Option<Finding> {
    let Interface { name, is_there, has_address, ports: of_bridge } = interface;
    if !is_there {
        let fix =
            "nothing is taken there until it comes; `ip link` lists what `interfaces` in `[transparent]` can name";
        return Some(Finding::new("interface", format!("{name} is not there"), fix.to_owned()));
    }
    let leads_there = places.iter().any(|place| place.to_clients.device == *name);
    if *has_address || ports.iter().any(|port| port.name == *name) {
        return None;
    }
    if !of_bridge.is_empty() {
        let fix = format!(
            "what passes it is not taken: name the ports where clients arrive, of {}, in `interfaces`",
            of_bridge.join(", ")
        );
        return Some(Finding::new("bridge", format!("{name} has no address"), fix));
    }
    let fix = format!(
        "packets of clients do not come to this host: ip address add ADDRESS dev {name}, or ip link set {name} master BRIDGE"
    );
    let found = format!("{name} has no address and no route to clients, and is a port of no bridge");
    (!leads_there).then(|| Finding::new("interface", found, fix))
}

/// Settings that a bridge lacks to hand packets over.
fn of_bridge(
    port: &Port,
    config: &Config,
    transparent: &Transparent,
    places: &[Place],
    read: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let Port { name, bridge, .. } = port;
    let mut findings = Vec::new();
    let mut add = |found: String, fix: String| findings.push(Finding::new("bridge", format!("{bridge}: {found}"), fix));
    if port.others.is_empty() && places.iter().all(|place| ["", bridge].contains(&&*place.to_servers.device)) {
        let fix = format!("servers are at none of its ports: ip link set PORT master {bridge}");
        add(format!("{name} is its only port"), fix);
    }
    let redirects = ["all", bridge].map(|one| read(&format!("ipv4/conf/{one}/send_redirects")));
    if redirects.contains(&"1".to_owned()) {
        let keys = ["all", bridge].map(|one| format!("net.ipv4.conf.{one}.send_redirects=0"));
        let fix = format!("clients would be told of a shorter way: sysctl -w {}", keys.join(" "));
        add("net.ipv4.conf.*.send_redirects = 1".to_owned(), fix);
    }
    let named = config.rules.iter().filter(|rule| rule.interfaces.contains(name));
    for rule in named {
        let fix = format!("packets of its port {name} arrive at {bridge}: `interfaces = [\"{bridge}\"]` in the rule");
        add(format!("rule `{}` is for {name}", rule.name), fix);
    }
    if transparent.hide_clients {
        let fix = "servers can only see an address that the bridge has: `hide_clients = false`, or give it one";
        add("`hide_clients = true`".to_owned(), fix.to_owned());
    }
    findings
}

impl Place {
    fn all(config: &Config, transparent: &Transparent, ports: &[Port]) -> Vec<Self> {
        let versions = [false, true].into_iter().filter(|is_ipv6| {
            let is_of = |networks: &[Network]| networks.iter().any(|network| network.is_ipv6() == *is_ipv6);
            is_of(&config.allow.sources) && is_of(&config.allow.destinations)
        });
        versions.map(|is_ipv6| Self::of(config, transparent, ports, is_ipv6)).collect()
    }

    fn of(config: &Config, transparent: &Transparent, ports: &[Port], is_ipv6: bool) -> Self {
        let to_clients = Way::to(&config.allow.sources, is_ipv6).unwrap_or_default();
        let named = transparent.interfaces.first();
        let port = ports.iter().find(|port| Some(&port.name) == named);
        let clients = port.map(|port| &port.bridge).or(named).cloned().unwrap_or_else(|| to_clients.device.clone());
        let to_servers = Way::to(&config.allow.destinations, is_ipv6)
            .or_else(|| Way::within(&config.allow.destinations, is_ipv6, &clients))
            .unwrap_or_default();
        Self { is_ipv6, clients, to_clients, to_servers }
    }

    /// Whether packets leave to servers where they have arrived from clients.
    fn has_one_arm(&self) -> bool {
        !self.to_servers.device.is_empty() && self.to_servers.device == self.clients
    }

    fn in_words(&self, config: &Config, ports: &[Port], translates: bool) -> String {
        let Self { clients, to_servers, .. } = self;
        let by = to_servers.router.as_ref().map_or_else(String::new, |router| format!(" by {router}"));
        let way = match &*to_servers.device {
            "" => "no way to servers".to_owned(),
            device => format!("servers at {device}{by}"),
        };
        let of_bridge: Vec<&str> =
            ports.iter().filter(|port| port.bridge == *clients).map(|port| &*port.name).collect();
        let mut out = match (of_bridge.is_empty(), self.has_one_arm()) {
            (false, _) => format!("bridge {clients}: clients at port {}, {way}", of_bridge.join(", ")),
            (true, true) => format!("one-armed: both directions come to {clients}{by}"),
            (true, false) => format!("router: clients at {clients}, {way}"),
        };
        let is_private = |network: &Network| matches!(network.first(), IpAddr::V4(address) if address.is_private());
        let all_over = config.allow.destinations.iter().any(|network| network.is_all() && !network.is_ipv6());
        if translates {
            out += "; this host translates addresses";
        } else if !self.is_ipv6 && all_over && config.allow.sources.iter().any(is_private) {
            out += "; addresses of clients are private: a router behind this one translates them";
        }
        format!("IPv{}, {out}", if self.is_ipv6 { 6 } else { 4 })
    }

    /// Routes that are missing: those to clients are the host's own but at a bridge.
    fn lacking_routes(&self, config: &Config, ports: &[Port]) -> Vec<Finding> {
        let version = if self.is_ipv6 { "-6" } else { "-4" };
        let is_bridge = ports.iter().any(|port| port.bridge == self.clients);
        let mut findings = Vec::new();
        let mut add = |found: &str, fix: String| {
            let found = format!("IPv{} has no route to {found}", &version[1..]);
            findings.push(Finding::new("route", found, fix));
        };
        let sources = config.allow.sources.iter().filter(|network| network.is_ipv6() == self.is_ipv6);
        let source = sources.into_iter().find(|network| !network.is_all());
        if let Some(source) = source.filter(|_| is_bridge && self.to_clients.device.is_empty()) {
            add(&source.to_string(), format!("ip {version} route add {source} dev {}", self.clients));
        }
        if self.to_servers.device.is_empty() {
            let at = if is_bridge { format!(" dev {} onlink", self.clients) } else { String::new() };
            add("servers", format!("ip {version} route add default via ROUTER{at}"));
        }
        findings
    }

    /// Forwarding that is off.
    fn lacking_forwarding(&self, read: impl Fn(&str) -> String) -> Option<Finding> {
        let key = if self.is_ipv6 { "ipv6/conf/all/forwarding" } else { "ipv4/ip_forward" };
        let shown = format!("net.{}", key.replace('/', "."));
        let fix = format!("what the service does not take is lost without it: sysctl -w {shown}=1");
        (read(key) == "0").then(|| Finding::new("forwarding", format!("{shown} = 0"), fix))
    }
}

impl Way {
    /// The way to hosts of the first network of a version; the default route for all hosts.
    fn to(networks: &[Network], is_ipv6: bool) -> Option<Self> {
        let version = if is_ipv6 { "-6" } else { "-4" };
        let network = networks.iter().find(|network| network.is_ipv6() == is_ipv6)?;
        let there = |way: &Self| !way.device.is_empty() && way.device != "lo";
        if network.is_all() {
            let shown = answer(&format!("ip {version} route show default"), None).unwrap_or_default();
            return Some(Self::read(&shown)).filter(there);
        }
        // The first address of a network is nobody's, and one of the next may be this host's.
        let ways = network.hosts(3).map(|host| answer(&format!("ip {version} route get {host}"), None));
        ways.flatten().map(|text| Self::read(&text)).find(there)
    }

    /// A way to a part of the networks, away from clients.
    fn within(networks: &[Network], is_ipv6: bool, clients: &str) -> Option<Self> {
        let version = if is_ipv6 { "-6" } else { "-4" };
        let of_version = networks.iter().filter(|network| network.is_ipv6() == is_ipv6);
        let shown =
            of_version.filter_map(|network| answer(&format!("ip {version} route show root {network}"), None).ok());
        let lines: Vec<String> = shown.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let ways = lines.iter().filter(|line| !line.starts_with("fe80:")).map(|line| Self::read(line));
        ways.into_iter().find(|way| !way.device.is_empty() && way.device != "lo" && way.device != clients)
    }

    /// Reads the first route that `ip` shows.
    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
        let behind = |word: &str| words.windows(2).find(|pair| pair[0] == word).map(|pair| pair[1].to_owned());
        Self { device: behind("dev").unwrap_or_default(), router: behind("via") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(destinations: &str, more: &str) -> Config {
        let text = format!(
            "[allow]\nsources = [\"10.0.0.0/8\", \"2001:db8::/32\"]\ndestinations = {destinations}\n\
             [transparent]\ninterfaces = [\"lan0\"]\n{more}"
        );
        Config::parse(&text, "pep.toml", 1).unwrap()
    }

    #[test]
    fn a_network_is_told_by_where_clients_arrive_and_packets_leave_to_servers() {
        let way = |text: &str| Way::read(text);
        let (far, near) =
            (way("default via 192.0.2.1 dev sat0 proto dhcp\n"), way("10.9.9.9 via 10.1.0.1 dev lan0 src 10.1.0.2\n"));
        let said = |to_servers: &Way, destinations: &str, translates: bool| {
            let place = Place { clients: "lan0".to_owned(), to_servers: to_servers.clone(), ..Place::default() };
            place.in_words(&config(destinations, ""), &[], translates)
        };
        let some = "[\"192.0.2.0/24\"]";
        assert_eq!(said(&far, some, false), "IPv4, router: clients at lan0, servers at sat0 by 192.0.2.1");
        assert_eq!(said(&near, some, false), "IPv4, one-armed: both directions come to lan0 by 10.1.0.1");
        assert_eq!(said(&Way::default(), some, false), "IPv4, router: clients at lan0, no way to servers");
        let all = "[\"0.0.0.0/0\"]";
        assert!(said(&far, all, true).ends_with("; this host translates addresses"));
        assert!(said(&far, all, false)
            .ends_with("; addresses of clients are private: a router behind this one translates them"));
    }

    #[test]
    fn what_a_bridge_lacks_is_said_with_the_command() {
        let links = "4: lan0: <UP> master br0 state UP\\    link/ether 02:00:00:00:00:0a brd ff:ff:ff:ff:ff:ff\n";
        let port = &Port::read(links, &["lan0".to_owned()])[0];
        let rule = "[legs.a]\n[[rules]]\nname = \"a\"\ninterfaces = [\"lan0\"]\nclient = \"a\"\nserver = \"a\"\n";
        let config = config("[\"192.0.2.0/24\"]", &format!("hide_clients = true\n{rule}"));
        let place = Place { clients: "br0".to_owned(), ..Place::default() };
        let of = |value: &str| {
            let transparent = config.transparent.as_ref().unwrap();
            of_bridge(port, &config, transparent, std::slice::from_ref(&place), |_| value.to_owned())
        };
        let ports = std::slice::from_ref(port);
        let said: Vec<String> = of("1")
            .into_iter()
            .chain(place.lacking_forwarding(|_| "0".to_owned()))
            .chain(place.lacking_routes(&config, ports))
            .map(|one| one.to_string())
            .collect();
        for words in [
            "sysctl -w net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.br0.send_redirects=0",
            "`interfaces = [\"br0\"]` in the rule",
            "`hide_clients = false`, or give it one",
            "lan0 is its only port; servers are at none of its ports: ip link set PORT master br0",
            "sysctl -w net.ipv4.ip_forward=1",
            "route: IPv4 has no route to 10.0.0.0/8; ip -4 route add 10.0.0.0/8 dev br0",
            "route: IPv4 has no route to servers; ip -4 route add default via ROUTER dev br0 onlink",
        ] {
            assert!(said.iter().any(|line| line.ends_with(words)), "{words}: {said:#?}");
        }
    }
    #[test]
    fn an_interface_where_no_packet_of_clients_comes_to_ip_is_named() {
        let way = Way { device: "lan1".to_owned(), router: None };
        let places = [Place { to_clients: way, ..Place::default() }];
        let there = |name: &str| Interface { name: name.to_owned(), is_there: true, ..Interface::default() };
        let said = |interface: Interface| of_interface(&interface, &[], &places).map(|finding| finding.to_string());
        let gone = said(Interface { is_there: false, ..there("lan9") }).unwrap();
        assert!(gone.starts_with("interface: lan9 is not there; "), "{gone}");
        let ports = vec!["lan0".to_owned(), "sat0".to_owned()];
        let bridge = said(Interface { ports, ..there("br0") }).unwrap();
        assert!(bridge.contains("name the ports where clients arrive, of lan0, sat0, in `interfaces`"), "{bridge}");
        assert!(said(there("lan0")).unwrap().contains("ip link set lan0 master BRIDGE"));
        assert_eq!(said(Interface { has_address: true, ..there("lan0") }), None);
        assert_eq!(said(there("lan1")), None);
    }

    #[test]
    fn an_interface_that_does_not_lead_to_the_shared_link_is_named() {
        let link = |name: &str| {
            let text = "[legs.sky]\n[legs.lan]\n[[rules]]\nname = \"all\"\nclient = \"lan\"\nserver = \"sky\"\n";
            let link = format!("[link]\nleg = \"sky\"\ninterface = \"{name}\"\nsend = \"2 Mbit/s\"\n");
            of_link(&config("[\"192.0.2.0/24\"]", &format!("{text}{link}"))).map(|finding| finding.to_string())
        };
        assert!(link("no0").unwrap().starts_with("link: no0: No such device (os error 19); what passes by"));
        assert_eq!(link("lo"), None);
        let servers_at = |device: &str| {
            let to_servers = Way { device: device.to_owned(), router: None };
            leads_to_clients("lan0", &[Place { to_servers, ..Place::default() }])
        };
        assert!(servers_at("sat0")
            .unwrap()
            .to_string()
            .contains("clients arrive at lan0; the link leads to servers, which are at sat0"));
        // With one arm both arrive there.
        assert!(servers_at("lan0").or(servers_at("")).is_none());
    }
}
