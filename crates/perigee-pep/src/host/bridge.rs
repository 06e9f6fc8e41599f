//! Bridges: frames of intercepted connections are given to the host's own IP, which sees none of a bridge otherwise.
//!
//! A bridge passes a frame on by its destination address, and keeps those with an address of its own ports. A table of the family
//! `bridge` writes that of the clients' port into the frames that clients send to allowed servers, and into the answers. IP then routes
//! the packets: to the service those of its connections, on to where they were going all others, by the routes of this host. If the
//! service was killed, all of them are routed. Everything else stays the bridge's.

use std::fmt::Write as _;
use std::io;

use super::matches::{port_set, set};
use super::tools::{answer, execute, TABLE};
use crate::config::{Config, Transparent};

/// A port of a bridge at which clients arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) bridge: String,
    /// Its hardware address.
    address: String,
    /// The other ports of the bridge.
    pub(super) others: Vec<String>,
}

impl Port {
    /// The interfaces of clients that are ports of bridges.
    pub(crate) fn all(transparent: &Transparent) -> Vec<Self> {
        if transparent.interfaces.is_empty() {
            return Vec::new();
        }
        // A kernel without bridges has none.
        let links = answer("ip -o link show type bridge_slave", None).unwrap_or_default();
        Self::read(&links, &transparent.interfaces)
    }

    /// Reads them of what `ip` lists.
    pub(super) fn read(links: &str, interfaces: &[String]) -> Vec<Self> {
        let all: Vec<Self> = links.lines().filter_map(Self::of).collect();
        let with_others = |port: &Self| {
            let others = all.iter().filter(|other| other.bridge == port.bridge && other.name != port.name);
            Self { others: others.map(|other| other.name.clone()).collect(), ..port.clone() }
        };
        all.iter().filter(|port| interfaces.contains(&port.name)).map(with_others).collect()
    }

    fn of(line: &str) -> Option<Self> {
        // One end of a pair is listed as `lan0@if3`.
        let name = line.split(": ").nth(1)?.split('@').next()?.to_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        let behind = |word: &str| words.windows(2).find(|pair| pair[0] == word).map(|pair| pair[1].to_owned());
        Some(Self { name, bridge: behind("master")?, address: behind("link/ether")?, others: Vec::new() })
    }
}

/// The interception as IP sees it: clients arrive at the bridge of a port.
pub(super) fn at_ip(transparent: &Transparent, ports: &[Port]) -> Transparent {
    let mut names: Vec<String> = Vec::new();
    for name in &transparent.interfaces {
        let seen = ports.iter().find(|port| port.name == *name).map_or(name, |port| &port.bridge);
        if !names.contains(seen) {
            names.push(seen.clone());
        }
    }
    Transparent { interfaces: names, ..transparent.clone() }
}

/// The table of the bridge, which replaces an old one; empty without ports.
pub(super) fn table(config: &Config, transparent: &Transparent, ports: &[Port]) -> String {
    if ports.is_empty() {
        return String::new();
    }
    let mut rules = String::new();
    for port in ports {
        for (version, is_ipv6, errors) in
            [("ip", false, "icmp type { 3, 11, 12 }"), ("ip6", true, "icmpv6 type { 1, 2, 3, 4 }")]
        {
            let networks = |what: &str, of| set(&format!("{version} {what}"), of, is_ipv6);
            let (sources, destinations) = (&config.allow.sources, &config.allow.destinations);
            let [Some(from), Some(back), Some(to), Some(of)] = [
                networks("saddr", sources),
                networks("daddr", sources),
                networks("daddr", destinations),
                networks("saddr", destinations),
            ] else {
                continue;
            };
            let servers = port_set(&transparent.ports);
            let answers = servers.replace("dport", "sport");
            let kind = if is_ipv6 { "ether type ip6" } else { "ether type ip" };
            let taken = format!("meta pkttype set host ether daddr set {} accept", port.address);
            let at = format!("\t\tiifname \"{}\" {kind}", port.name);
            let _ = writeln!(rules, "{at} {from}{to}{servers}meta l4proto tcp {taken}");
            let _ = writeln!(rules, "{at} {to}{errors} {taken}");
            for other in &port.others {
                let at = format!("\t\tiifname \"{other}\" {kind}");
                let later = "tcp flags & (syn | ack) != syn";
                let _ = writeln!(rules, "{at} {of}{back}{answers}{later} {taken}");
                let _ = writeln!(rules, "{at} {back}{errors} {taken}");
            }
        }
    }
    format!(
        "table bridge {TABLE}\ndelete table bridge {TABLE}\ntable bridge {TABLE} {{\n\tchain prerouting {{\n\
         \t\ttype filter hook prerouting priority filter + 10; policy accept;\n{rules}\t}}\n}}\n"
    )
}

/// Removes the table of the bridge.
pub(super) fn remove() -> io::Result<()> {
    execute(&format!("nft delete table bridge {TABLE}"), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_client_s_port_and_the_answers_of_the_others_are_taken_and_nothing_else() {
        let links = "4: lan0@if3: <UP> mtu 1500 qdisc noqueue master br0 state UP\\    link/ether 02:00:00:00:00:0a brd ff:ff:ff:ff:ff:ff\n\
                     5: sat0: <UP> mtu 1500 qdisc noqueue master br0 state UP\\    link/ether 02:00:00:00:00:0b brd ff:ff:ff:ff:ff:ff\n\
                     6: eth5: <UP> mtu 1500 qdisc noqueue master br1 state UP\\    link/ether 02:00:00:00:00:0c brd ff:ff:ff:ff:ff:ff\n";
        let text = "[allow]\nsources = [\"10.0.0.0/8\"]\ndestinations = [\"0.0.0.0/0\", \"::/0\"]\n\
                    [transparent]\ninterfaces = [\"lan0\", \"lan1\"]\nports = [80]\n";
        let config = Config::parse(text, "pep.toml", 1).unwrap();
        let transparent = config.transparent.as_ref().unwrap();
        let ports = Port::read(links, &transparent.interfaces);
        assert_eq!(at_ip(transparent, &ports).interfaces, ["br0", "lan1"]);
        let written = table(&config, transparent, &ports);
        let rules: Vec<&str> = written.lines().filter(|line| line.contains("iifname")).map(str::trim).collect();
        let taken = "meta pkttype set host ether daddr set 02:00:00:00:00:0a accept";
        assert_eq!(
            rules,
            [
                format!("iifname \"lan0\" ether type ip ip saddr {{ 10.0.0.0/8 }} tcp dport {{ 80 }} meta l4proto tcp {taken}"),
                format!("iifname \"lan0\" ether type ip icmp type {{ 3, 11, 12 }} {taken}"),
                format!(
                    "iifname \"sat0\" ether type ip ip daddr {{ 10.0.0.0/8 }} tcp sport {{ 80 }} \
                     tcp flags & (syn | ack) != syn {taken}"
                ),
                format!("iifname \"sat0\" ether type ip ip daddr {{ 10.0.0.0/8 }} icmp type {{ 3, 11, 12 }} {taken}"),
            ]
        );
        assert_eq!(table(&config, transparent, &Port::read("", &transparent.interfaces)), "");
    }
}
