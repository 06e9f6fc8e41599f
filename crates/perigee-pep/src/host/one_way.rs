//! Paths whose answers do not pass this host: their connections pass by the service.
//!
//! The service dials with the client's address. Where the server's answer goes to the client by another router, the service waits in
//! vain, as for a server that does not run, or in an outage. What a client does without the service tells them apart:
//!
//! 1. A server has not answered within `connect_timeout`: new connections of that client to it pass by, until a packet of the server
//!    passes here, for [`TRIAL`] at most. If it does not run, nothing is lost; after an outage its first answer ends the trial.
//! 2. Of each such connection the first packet is noted, until a packet of the server passes here.
//! 3. If the client completes the handshake while it is noted, it has the server's answer, which has not passed here.
//! 4. The client's connections to the servers of that network pass by for [`KEPT`]; then the path is tried again.
//!
//! The second and third step are the kernel's, in sets that hold a bounded number of paths and forget them by themselves. Another program
//! may remove them with the table: paths that were found are then put back with it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;

use perigee_units::Time;

use super::tools::{answer, change, TABLE};

/// A client, and the network of servers whose answers to it do not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    client: IpAddr,
    servers: IpAddr,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client={} servers={}/{}", self.client, self.servers, version(self.client).prefix)
    }
}

/// The paths that are known, and when they are looked for.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// Each until it is tried again.
    known: BTreeMap<Path, Time>,
    /// When the next trials may begin.
    due: Time,
    /// Until when trials may find one, and when known ones are looked for again: at first, those of an earlier process.
    tried_until: Time,
    next: Time,
}

impl Paths {
    /// Number of known paths.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Has the next connections between clients and `silent` servers pass by, once a second, and returns paths that were found.
    pub(crate) fn follow(&mut self, silent: impl FnOnce() -> Vec<[IpAddr; 2]>, now: Time) -> io::Result<Vec<Path>> {
        if now >= self.due {
            let silent = silent();
            if !silent.is_empty() {
                self.due = now + OFTEN;
                change("nft -f -", Some(&trials(&silent)))?;
                // The last first packet, and the client's patience.
                self.tried_until = now + TRIAL * 2;
                self.next = self.next.min(self.due);
            }
        }
        if now < self.next {
            return Ok(Vec::new());
        }
        let is_often = now < self.tried_until;
        self.next = now + if is_often { OFTEN } else { SELDOM };
        // Without the table, what is known stays known.
        let found = one_ways().map(|listed| self.learn(listed, now)).unwrap_or_default();
        if self.known.is_empty() && !is_often {
            self.next = Time::MAX;
        }
        Ok(found)
    }

    /// Knows the paths of the table from now on; returns the new ones.
    fn learn(&mut self, listed: Vec<Path>, now: Time) -> Vec<Path> {
        let before = std::mem::take(&mut self.known);
        let until = |path: &Path| before.get(path).copied().unwrap_or(now + KEPT);
        self.known = listed.into_iter().map(|path| (path, until(&path))).collect();
        self.known.keys().filter(|path| !before.contains_key(path)).copied().collect()
    }

    /// Commands that add those that are known to a table that another program had removed, for the rest of their time.
    pub(super) fn again(&self, now: Time) -> String {
        let lines = self.known.iter().filter(|(_, until)| **until > now + Time::from_secs(1)).map(|(path, until)| {
            let (Path { client, servers }, Version { name, .. }) = (path, version(path.client));
            let seconds = (*until - now).as_nanos() / 1_000_000_000;
            format!("add element inet {TABLE} one_way_{name} {{ {client} . {servers} timeout {seconds}s }}\n")
        });
        lines.collect()
    }
}

/// The paths in the service's table: clients and servers; `None` without the table.
pub(crate) fn one_ways() -> Option<Vec<Path>> {
    let listed = |Version { name, .. }: &Version| {
        answer(&format!("nft list set inet {TABLE} one_way_{name}"), None).ok().map(|text| elements(&text))
    };
    VERSIONS.iter().map(listed).collect::<Option<Vec<_>>>().map(|each| each.concat())
}

/// The elements of a set, as `nft` lists it.
fn elements(text: &str) -> Vec<Path> {
    let inner =
        text.split_once("elements = {").and_then(|(_, rest)| rest.split_once('}')).map_or("", |(inner, _)| inner);
    let pairs = inner.split(',').filter_map(|element| {
        let words: Vec<&str> = element.split_whitespace().collect();
        let [client, ".", servers, ..] = *words else { return None };
        Some(Path { client: client.parse().ok()?, servers: servers.parse().ok()? })
    });
    pairs.collect()
}

/// Commands that add trials.
fn trials(silent: &[[IpAddr; 2]]) -> String {
    let lines = silent.iter().map(|ends| {
        let [client, server] = ends.map(|address| address.to_canonical());
        format!("add element inet {TABLE} tried_{} {{ {client} . {server} }}\n", version(client).name)
    });
    lines.collect()
}

/// The sets of the table.
pub(super) fn sets() -> String {
    let each = VERSIONS.map(|Version { name, kind, .. }| {
        let set = |set: &str, of: String, time: Time, size: usize| {
            let seconds = time.as_nanos() / 1_000_000_000;
            format!(
                "\tset {set}_{name} {{\n\t\ttype {of}\n\t\tflags dynamic,timeout\n\t\ttimeout {seconds}s\n\t\tsize {size}\n\t}}\n"
            )
        };
        let ends = format!("{kind} . {kind}");
        let connection = format!("{kind} . inet_service . {kind} . inet_service");
        set("tried", ends.clone(), TRIAL, MOST) + &set("noted", connection, TRIAL, MOST) + &set("one_way", ends, KEPT, MOST)
    });
    each.concat()
}

/// Rules for packets of connections that pass by: they find out whether answers pass here.
pub(super) fn observed() -> String {
    let each = VERSIONS.map(|Version { name, servers, .. }| {
        let [there, back] = [["s", "d"], ["d", "s"]]
            .map(|[one, other]| format!("{name} {one}addr . tcp {one}port . {name} {other}addr . tcp {other}port"));
        format!(
            "\t\t{back} @noted_{name} delete @noted_{name} {{ {back} }} delete @tried_{name} {{ {name} daddr . {name} saddr }} \
             return comment \"answered\"\n\
             \t\ttcp flags & (fin | syn | rst | ack) == ack {there} @noted_{name} \
             add @one_way_{name} {{ {name} saddr . {servers} }} return comment \"answered elsewhere\"\n"
        )
    });
    each.concat()
}

/// Rules for first packets of connections that pass by.
pub(super) fn passed() -> String {
    let each = VERSIONS.map(|Version { name, servers, .. }| {
        format!(
            "\t\t{name} saddr . {servers} @one_way_{name} return comment \"one way\"\n\
             \t\t{name} saddr . {name} daddr @tried_{name} \
             update @noted_{name} {{ {name} saddr . tcp sport . {name} daddr . tcp dport }} return comment \"tried\"\n"
        )
    });
    each.concat()
}

/// A version of IP, in words of nftables.
struct Version {
    name: &'static str,
    kind: &'static str,
    /// The network of a server, as an expression, and the length of its prefix.
    servers: &'static str,
    prefix: u8,
}

fn version(address: IpAddr) -> &'static Version {
    &VERSIONS[usize::from(address.is_ipv6())]
}

/// Networks are the smallest that have routes of their own between providers: all servers of one are answered by the same way.
const VERSIONS: [Version; 2] = [
    Version { name: "ip", kind: "ipv4_addr", servers: "ip daddr & 255.255.255.0", prefix: 24 },
    Version { name: "ip6", kind: "ipv6_addr", servers: "ip6 daddr & ffff:ffff:ffff::", prefix: 48 },
];
/// Longer than the pause before the sixth packet of a client that begins a connection (RFC 6298: it doubles, from 1 s).
const TRIAL: Time = Time::from_secs(60);
const KEPT: Time = Time::from_secs(3600);
/// Paths and connections of each version: more than the trials of [`TRIAL`], of which a second has 64 at most.
const MOST: usize = 4096;
/// Pauses between two looks, during trials and while paths are known.
const OFTEN: Time = Time::from_secs(1);
const SELDOM: Time = Time::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_set_are_read_as_nft_lists_them() {
        let text = "table inet perigee_pep {\n\tset one_way_ip {\n\t\ttype ipv4_addr . ipv4_addr\n\t\tsize 4096\n\
                    \t\tflags dynamic,timeout\n\t\ttimeout 1h\n\
                    \t\telements = { 10.1.0.2 . 10.3.0.0 expires 59m57s980ms,\n\t\t\t     10.1.0.3 . 10.3.0.0 expires 8s }\n\t}\n}\n";
        let said = |text: &str| elements(text).iter().map(Path::to_string).collect::<Vec<_>>();
        assert_eq!(said(text), ["client=10.1.0.2 servers=10.3.0.0/24", "client=10.1.0.3 servers=10.3.0.0/24"]);
        assert!(said(text.split("elements").next().unwrap()).is_empty());
        assert!(said("").is_empty());
    }

    #[test]
    fn known_paths_are_added_again_for_the_rest_of_their_hour() {
        let (mut paths, at) = (Paths::default(), Time::from_secs);
        let path =
            |client: &str, servers: &str| Path { client: client.parse().unwrap(), servers: servers.parse().unwrap() };
        let (four, six) = (path("10.1.0.2", "10.3.0.0"), path("2001:db8:1::2", "2001:db8:3::"));
        assert_eq!(paths.learn(vec![four], at(100)), [four]);
        assert_eq!(paths.learn(vec![four, six], at(160)), [six]);
        assert_eq!(
            paths.again(at(1100)),
            "add element inet perigee_pep one_way_ip { 10.1.0.2 . 10.3.0.0 timeout 2600s }\n\
             add element inet perigee_pep one_way_ip6 { 2001:db8:1::2 . 2001:db8:3:: timeout 2660s }\n"
        );
        assert_eq!(paths.again(at(3700)).lines().count(), 1);
    }
}
