//! The network that the service is put into, as this host's links, routes and rules show it, and what it lacks there.

use std::fs;
use std::net::IpAddr;

use super::bridge::Port;
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

/// Returns the networks that the service is put into, one for each version of IP that it serves, in words.
pub(crate) fn deployments(config: &Config) -> Vec<String> {
    let Some(transparent) = &config.transparent else { return Vec::new() };
    let ports = Port::all(transparent);
    let rules = answer("nft -t list ruleset", None).unwrap_or_default();
    let translates = ["masquerade", "snat "].iter().any(|word| rules.contains(word));
    Place::all(config, transparent, &ports).iter().map(|place| place.in_words(config, &ports, translates)).collect()
}

/// Returns what this host lacks for the network that the service is put into. `transparent` is the interception as the owner wrote it.
pub(super) fn lacking(config: &Config, transparent: &Transparent, ports: &[Port]) -> Vec<Finding> {
    let places = Place::all(config, transparent, ports);
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap_or_default().trim().to_owned();
    let mut findings = Vec::new();
    for port in ports {
        findings.extend(places.iter().flat_map(|place| place.lacking_routes(config)));
        findings.extend(of_bridge(port, config, transparent, &places, read));
    }
    findings
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
    for place in places {
        let key = if place.is_ipv6 { "ipv6/conf/all/forwarding" } else { "ipv4/ip_forward" };
        if read(key) == "0" {
            let shown = format!("net.{}", key.replace('/', "."));
            let fix = format!("what the service does not take is lost without it: sysctl -w {shown}=1");
            add(format!("{shown} = 0"), fix);
        }
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
        let to_clients = Way::to(&config.allow.sources, is_ipv6);
        let named = transparent.interfaces.first();
        let port = ports.iter().find(|port| Some(&port.name) == named);
        let clients = port.map(|port| &port.bridge).or(named).cloned().unwrap_or_else(|| to_clients.device.clone());
        Self { is_ipv6, clients, to_clients, to_servers: Way::to(&config.allow.destinations, is_ipv6) }
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

    /// Routes that a bridge lacks: other hosts have theirs without the service.
    fn lacking_routes(&self, config: &Config) -> Vec<Finding> {
        let version = if self.is_ipv6 { "-6" } else { "-4" };
        let mut findings = Vec::new();
        let mut add = |found: &str, fix: String| {
            let found = format!("IPv{} has no route to {found}", &version[1..]);
            findings.push(Finding::new("route", found, fix));
        };
        let sources = config.allow.sources.iter().filter(|network| network.is_ipv6() == self.is_ipv6);
        let source = sources.into_iter().find(|network| !network.is_all());
        if let Some(source) = source.filter(|_| self.to_clients.device.is_empty()) {
            add(&source.to_string(), format!("ip {version} route add {source} dev {}", self.clients));
        }
        if self.to_servers.device.is_empty() {
            add("servers", format!("ip {version} route add default via ROUTER dev {} onlink", self.clients));
        }
        findings
    }
}

impl Way {
    /// The way to hosts of the first network of a version; the default route for all hosts.
    fn to(networks: &[Network], is_ipv6: bool) -> Self {
        let version = if is_ipv6 { "-6" } else { "-4" };
        let Some(network) = networks.iter().find(|network| network.is_ipv6() == is_ipv6) else {
            return Self::default();
        };
        if network.is_all() {
            return Self::read(&answer(&format!("ip {version} route show default"), None).unwrap_or_default());
        }
        // The first address of a network is nobody's, and one of the next may be this host's.
        let ways = network.hosts(3).map(|host| answer(&format!("ip {version} route get {host}"), None));
        let ways = ways.flatten().map(|text| Self::read(&text));
        ways.into_iter().find(|way| way.device != "lo").unwrap_or_default()
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
        let said: Vec<String> = of("1")
            .into_iter()
            .chain(of("0"))
            .chain(place.lacking_routes(&config))
            .map(|one| one.to_string())
            .collect();
        for words in [
            "sysctl -w net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.br0.send_redirects=0",
            "`interfaces = [\"br0\"]` in the rule",
            "`hide_clients = false`, or give it one",
            "sysctl -w net.ipv4.ip_forward=1",
            "route: IPv4 has no route to 10.0.0.0/8; ip -4 route add 10.0.0.0/8 dev br0",
            "route: IPv4 has no route to servers; ip -4 route add default via ROUTER dev br0 onlink",
        ] {
            assert!(said.iter().any(|line| line.ends_with(words)), "{words}: {said:#?}");
        }
    }
}
