//! Matches of nftables for networks, interfaces and ports of a configuration; each ends with a space.

use crate::config::{Network, Ports};

/// A match of networks of one version; empty if all match, `None` if none does.
pub(super) fn set(what: &str, networks: &[Network], is_ipv6: bool) -> Option<String> {
    let own: Vec<Network> = networks.iter().copied().filter(|network| network.is_ipv6() == is_ipv6).collect();
    if own.is_empty() {
        return None;
    }
    if own.iter().any(|network| network.is_all()) {
        return Some(String::new());
    }
    // Intervals of a set may not overlap.
    let mut kept: Vec<Network> = Vec::new();
    for network in own {
        if !kept.iter().any(|other| other.covers(network)) {
            kept.retain(|other| !network.covers(*other));
            kept.push(network);
        }
    }
    let texts: Vec<String> = kept.iter().map(Network::to_string).collect();
    Some(format!("{what} {{ {} }} ", texts.join(", ")))
}

/// A match of interfaces; empty if all match.
pub(super) fn names(interfaces: &[String]) -> String {
    if interfaces.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = interfaces.iter().map(|name| format!("\"{name}\"")).collect();
    format!("iifname {{ {} }} ", quoted.join(", "))
}

/// A match of servers' ports; empty if all match.
pub(super) fn port_set(ports: &[Ports]) -> String {
    let mut sorted: Vec<(u16, u16)> = ports.iter().map(|ports| (ports.0, ports.1)).collect();
    sorted.sort_unstable();
    let mut joined: Vec<(u16, u16)> = Vec::new();
    for (first, last) in sorted {
        match joined.last_mut() {
            Some(before) if u32::from(first) <= u32::from(before.1) + 1 => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    if joined.is_empty() {
        return String::new();
    }
    let text = |(first, last): &(u16, u16)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    let texts: Vec<String> = joined.iter().map(text).collect();
    format!("tcp dport {{ {} }} ", texts.join(", "))
}
