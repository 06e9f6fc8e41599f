//! The configuration, and its decisions for a connection.

mod keys;
mod kinds;
mod link;
mod link_reader;
pub(crate) mod network;
mod reader;
mod tunnel;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use perigee_text::Origin;
use perigee_units::{Bytes, Rate, Time};

pub use self::network::Network;
use self::network::{is_local_form, never};
pub use keys::reference;
pub use link::{Asking, Portion, RateSource, Rates, SatelliteLink, SubscriberClass};
pub use tunnel::{Terminal, Tunnel, TunnelControl, TunnelEnd};

/// A configuration, complete and consistent; [`Config::parse`] reads one.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Threads that carry connections, each with an event loop of its own.
    pub workers: usize,
    /// The socket that `status` connects to; `None`: no `status`.
    pub control: Option<PathBuf>,
    /// Where Prometheus metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Time for open connections to end after SIGTERM.
    pub drain: Time,
    /// Time for open connections to end in a process that a new one has replaced.
    pub upgrade_drain: Time,
    /// Whether bulk data are spliced instead of copied.
    pub splice: bool,
    /// Whether the service drops capabilities, files and system calls that it does not need.
    pub confine: bool,
    /// Limits of the service's resources.
    pub limits: Limits,
    /// Permitted clients and servers.
    pub allow: Allow,
    /// Interception of forwarded connections.
    pub transparent: Option<Transparent>,
    /// Listening addresses, each with its server.
    pub forwards: Vec<Forward>,
    /// The connection to the box at the other end of the satellite link.
    pub tunnel: Option<Tunnel>,
    /// The satellite link whose queue the service owns.
    pub link: Option<Arc<SatelliteLink>>,
    /// Lines of what each subscriber has used.
    pub accounting: Option<Accounting>,
    /// Addresses that metrics have by themselves; the others are one row.
    pub metrics_subscribers: usize,
    /// Settings by connection: the first that matches; the last matches all.
    pub rules: Vec<Arc<Rule>>,
}

/// Lines of what each subscriber has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounting {
    /// Where they go; `None`: into the log.
    pub file: Option<PathBuf>,
    /// Where the configuration says that.
    pub file_at: Origin,
    /// Time from one line of a subscriber to the next.
    pub every: Time,
    /// Whether each connection has a line, too, at its end.
    pub connections: bool,
}

/// Whose connections are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// Clients that a table of `[[link.subscribers]]` has together.
    Table(String),
    /// An address, or network of IPv6 ([`Allow::counted_as`]).
    Address(IpAddr),
}

/// Limits of the service's resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections at a time from one address, or network of IPv6 ([`Allow`]).
    pub per_client: usize,
    /// Bytes that the service itself holds, beside the buffers of sockets.
    pub held: Bytes,
    /// Treatment of a connection beyond `connections`.
    pub at_limit: AtLimit,
}

/// Treatment of a connection beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// It waits in the queue of the listening socket.
    Wait,
    /// It is reset.
    Refuse,
    /// New connections are not intercepted until there is room; those that arrived before wait.
    Pass,
}

/// Permitted clients and servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// Networks of clients.
    pub sources: Vec<Network>,
    /// Networks of servers.
    pub destinations: Vec<Network>,
    /// Whether servers may be this host, or hosts of its link by link-local addresses.
    pub local: bool,
}

/// Interception of forwarded connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transparent {
    /// The port that intercepted connections are given to.
    pub port: u16,
    /// Interfaces at which clients arrive; none: all.
    pub interfaces: Vec<String>,
    /// Ports of servers; none: all.
    pub ports: Vec<Ports>,
    /// Whether servers see this host's address instead of the client's.
    pub hide_clients: bool,
    /// Whether the first packet of a connection passes the host's `forward` chain before the connection is served.
    pub through_forward: bool,
    /// Firewall mark of packets that are delivered to the service; the next number marks packets that it sends, the one after it
    /// those held for the server.
    pub mark: u32,
    /// Routing table; the next number is that of packets held for the server.
    pub table: u32,
}

/// A listening address and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where the service connects.
    pub target: SocketAddr,
}

/// A rule: matching connections, and their settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// For logs and metrics.
    pub name: String,
    /// Networks of clients; none: all.
    pub sources: Vec<Network>,
    /// Networks of servers; none: all.
    pub destinations: Vec<Network>,
    /// Ports of servers; none: all.
    pub ports: Vec<Ports>,
    /// Interfaces at which clients arrive; none: all.
    pub interfaces: Vec<String>,
    /// Differentiated services code points of clients; none: all.
    pub dscp: Vec<u8>,
    /// The connection to the client.
    pub client: Leg,
    /// The connection to the server.
    pub server: Leg,
    /// Whether the gateway at the other end of the tunnel dials the server, by its own rules.
    pub is_tunnelled: bool,
    /// Whether an intercepted client's handshake waits for that of the server, so that the client sees its failure.
    pub connects_first: bool,
    /// Maximum time for the server to answer.
    pub connect_timeout: Time,
}

/// Settings of the sockets of a leg.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leg {
    /// Its name in the configuration.
    pub name: String,
    /// Rate of its path.
    pub bandwidth: Option<Rate>,
    /// Congestion controls in order of preference; none: that of the route or the host.
    pub congestion: Vec<String>,
    /// Send and receive buffers, bytes; none: the kernel tunes them.
    pub send_buffer: Option<u64>,
    /// As `send_buffer`.
    pub receive_buffer: Option<u64>,
    /// Largest segment.
    pub mss: Option<u16>,
    /// Maximum unsent bytes in the socket.
    pub unsent: Option<u64>,
    /// Whether Nagle's algorithm delays small segments.
    pub nagle: bool,
    /// How long the other end may be silent while data wait for it.
    pub outage_grace: Option<Time>,
    /// Idle time before the first keep-alive probe.
    pub keep_alive: Option<Time>,
}

/// Ports from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports(pub u16, pub u16);

/// Properties of a connection that are known before its server is dialled.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The client.
    pub source: SocketAddr,
    /// The server.
    pub destination: SocketAddr,
    /// The interface at which the client arrived, if known.
    pub interface: Option<&'a str>,
    /// Its code point.
    pub dscp: u8,
}

impl fmt::Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => out.write_str(name),
            Self::Address(address) => address.fmt(out),
        }
    }
}

impl Config {
    /// The first rule that matches.
    pub fn rule(&self, request: &Request<'_>) -> Option<&Arc<Rule>> {
        self.rules.iter().find(|rule| rule.matches(request))
    }

    /// The subscriber that a client is.
    pub(crate) fn subscriber(&self, client: IpAddr) -> Who {
        let client = self.allow.counted_as(client);
        let tables = self.link.as_ref().and_then(|link| Some(&link.subscribers[link.table_of(client)?]));
        match tables.filter(|table| !table.is_each) {
            Some(table) => Who::Table(table.name.clone()),
            None => Who::Address(client),
        }
    }

    /// Whether any rule makes clients wait for their server.
    pub(crate) fn connects_first(&self) -> bool {
        self.rules.iter().any(|rule| rule.connects_first)
    }

    /// Whether first packets of connections go through the device of the service.
    pub(crate) fn uses_device(&self) -> bool {
        self.connects_first() || self.transparent.as_ref().is_some_and(|transparent| transparent.through_forward)
    }

    /// Firewall mark of packets that the service sends to servers, if it intercepts connections.
    pub(crate) fn own_mark(&self) -> Option<u32> {
        self.transparent.as_ref().map(Transparent::own_mark)
    }

    /// The address of an intercepted client that its server sees; `None`: this host's.
    pub(crate) fn seen(&self, source: SocketAddr) -> Option<SocketAddr> {
        self.transparent.as_ref().filter(|transparent| !transparent.hide_clients).map(|_| source)
    }

    /// Whether a connection to this address would come back to the service.
    pub(crate) fn leads_back(&self, destination: SocketAddr, is_own: impl FnOnce(IpAddr) -> bool) -> bool {
        let ports = self.forwards.iter().map(|forward| forward.listen.port());
        let mut ports = ports.chain(self.transparent.iter().map(|transparent| transparent.port));
        ports.any(|port| port == destination.port()) && is_own(destination.ip())
    }

    /// Returns this configuration with clients accepted first in all rules.
    pub(crate) fn accepting_first(self) -> Self {
        let rules = self.rules.iter().map(|rule| Arc::new(Rule { connects_first: false, ..(**rule).clone() }));
        Self { rules: rules.collect(), ..self }
    }
}

impl Allow {
    /// Why a connection is refused, or `None`. `is_own` says whether an address is this host's.
    pub fn refusal(
        &self,
        source: IpAddr,
        destination: IpAddr,
        is_own: impl FnOnce(IpAddr) -> bool,
    ) -> Option<&'static str> {
        let within = |networks: &[Network], address| networks.iter().any(|network| network.contains(address));
        if !within(&self.sources, source) {
            return Some("source is not allowed");
        }
        if let Some(reason) = never(destination) {
            return Some(reason);
        }
        if !within(&self.destinations, destination) {
            return Some("destination is not allowed");
        }
        if self.local {
            return None;
        }
        (is_local_form(destination) || is_own(destination)).then_some("destination is local")
    }

    /// The address that a client's connections are counted with, for the limit of each client. A host has all addresses of a network of
    /// 64 bits over IPv6: they count as one, the network's, where more than that network is allowed.
    pub(crate) fn counted_as(&self, client: IpAddr) -> IpAddr {
        let of_client = self.sources.iter().filter(|network| network.contains(client));
        let is_wider = of_client.map(|network| network.prefix()).max().is_some_and(|prefix| prefix < OF_ONE_HOST);
        match client.to_canonical() {
            IpAddr::V6(address) if is_wider => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
            address => address,
        }
    }
}

impl Rule {
    /// Whether it matches whatever comes to it.
    pub(crate) fn matches_all(&self) -> bool {
        let Self { sources, destinations, ports, interfaces, dscp, .. } = self;
        sources.is_empty() && destinations.is_empty() && ports.is_empty() && interfaces.is_empty() && dscp.is_empty()
    }

    fn matches(&self, request: &Request<'_>) -> bool {
        let within = |networks: &[Network], address: SocketAddr| {
            networks.is_empty() || networks.iter().any(|network| network.contains(address.ip()))
        };
        within(&self.sources, request.source)
            && within(&self.destinations, request.destination)
            && (self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(request.destination.port())))
            && (self.interfaces.is_empty() || self.interfaces.iter().any(|name| Some(&**name) == request.interface))
            && (self.dscp.is_empty() || self.dscp.contains(&request.dscp))
    }
}

impl Ports {
    fn contains(self, port: u16) -> bool {
        (self.0..=self.1).contains(&port)
    }
}

impl Transparent {
    /// Whether connections to a port are intercepted.
    pub(crate) fn has_port(&self, port: u16) -> bool {
        self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(port))
    }

    /// Firewall mark of packets that the service sends to servers.
    pub(crate) fn own_mark(&self) -> u32 {
        self.mark + 1
    }

    /// Firewall mark of packets held for the server.
    pub(crate) fn hold_mark(&self) -> u32 {
        self.mark + 2
    }

    /// Routing table of packets held for the server.
    pub(crate) fn hold_table(&self) -> u32 {
        self.table + 1
    }
}

/// Where a process that is to replace the service connects: beside the control socket.
pub(crate) fn successors(control: &Path) -> PathBuf {
    let mut path = control.as_os_str().to_owned();
    path.push(".upgrade");
    path.into()
}

/// Bits of a network of IPv6 whose addresses a host may have all (RFC 4291, section 2.5.4).
const OF_ONE_HOST: u8 = 64;

#[cfg(test)]
mod tests;
