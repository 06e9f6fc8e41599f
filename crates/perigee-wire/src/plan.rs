//! The address and port plan of studies: every engine gives its nodes and flows these, so that captures of one study differ
//! by what happened only.
//!
//! | of | IPv4 | IPv6 | Ethernet |
//! |---|---|---|---|
//! | node n, from 0 | `10.71.0.1` + n | `fd70:6572:6967:6565::1` + n | `02:00` and the four bytes of its IPv4 address |
//!
//! Flow f, from 0, has the server's port 5201 + f at the end that listens (of datagrams: at their destination) and the
//! client's port 49152 + f at the other end. Pings have the client's port as their identifier. From flow 16384 on the
//! server's ports begin anew, and each client's port is one higher than it was with that server's port. In captures of the simulator the
//! client's ports begin elsewhere in each run, see [`Ports::in_run`], so that connections of two runs have different names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packet::IpVersion;

/// The address of a node.
///
/// ```
/// use perigee_wire::{address, IpVersion};
/// assert_eq!(address(0, IpVersion::V4).to_string(), "10.71.0.1");
/// assert_eq!(address(299, IpVersion::V4).to_string(), "10.71.1.44");
/// assert_eq!(address(1, IpVersion::V6).to_string(), "fd70:6572:6967:6565::2");
/// ```
pub fn address(node: u32, ip: IpVersion) -> IpAddr {
    match ip {
        IpVersion::V4 => ipv4(node).into(),
        IpVersion::V6 => Ipv6Addr::from(u128::from(FIRST_IPV6) + u128::from(node)).into(),
    }
}

/// The Ethernet address of a node: locally administered (IEEE 802c).
pub fn mac(node: u32) -> [u8; 6] {
    let [a, b, c, d] = ipv4(node).octets();
    [2, 0, a, b, c, d]
}

/// The ports of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// At the end that listens; of datagrams, at their destination.
    pub server: u16,
    /// At the other end; of pings, their identifier.
    pub client: u16,
}

impl Ports {
    /// Flows up to this number have a server's port and a client's port that no other flow has.
    pub const DISTINCT: u32 = 16_384;

    /// The ports of a flow.
    pub const fn of(flow: u32) -> Self {
        let (round, place) = (flow / Self::DISTINCT, flow % Self::DISTINCT);
        let client = FIRST_CLIENT + ((place + round) % Self::DISTINCT) as u16;
        Self { server: FIRST_SERVER + place as u16, client }
    }

    /// A port of a flow in a run whose clients' ports begin `places` further on; servers' ports stay.
    ///
    /// ```
    /// use perigee_wire::Ports;
    /// assert_eq!([5201, 49_152, 65_535].map(|port| Ports::in_run(port, 3)), [5201, 49_155, 49_154]);
    /// ```
    pub const fn in_run(port: u16, places: u16) -> u16 {
        if port < FIRST_CLIENT {
            return port;
        }
        FIRST_CLIENT + (((port - FIRST_CLIENT) as u32 + places as u32) % Self::DISTINCT) as u16
    }

    /// The flow of a packet by its two ports, whichever direction it has; `None`: of no flow.
    pub const fn flow(ports: [u16; 2]) -> Option<u32> {
        let [server, client] = if ports[0] < ports[1] { ports } else { [ports[1], ports[0]] };
        if server < FIRST_SERVER || client < FIRST_CLIENT {
            return None;
        }
        let (place, client) = ((server - FIRST_SERVER) as u32, (client - FIRST_CLIENT) as u32);
        if place >= Self::DISTINCT {
            return None;
        }
        Some((client + Self::DISTINCT - place) % Self::DISTINCT * Self::DISTINCT + place)
    }

    /// The flow of a ping by its identifier, of the first [`Ports::DISTINCT`] flows.
    pub const fn flow_of_echo(identifier: u16) -> Option<u32> {
        if identifier < FIRST_CLIENT {
            return None;
        }
        Some((identifier - FIRST_CLIENT) as u32)
    }
}

fn ipv4(node: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(FIRST_IPV4) + node)
}

/// Private (RFC 1918). There is room for 12 million nodes up to 10.255.255.255.
const FIRST_IPV4: Ipv4Addr = Ipv4Addr::new(10, 71, 0, 1);
/// Unique local (RFC 4193): its first eight bytes after 0xfd spell "perigee".
const FIRST_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd70, 0x6572, 0x6967, 0x6565, 0, 0, 0, 1);
/// The port of iperf3's servers.
const FIRST_SERVER: u16 = 5201;
/// The first of those that clients choose for themselves (RFC 6335, section 6).
const FIRST_CLIENT: u16 = 49_152;

// The server's ports end below the client's, so that a packet's lower port is the server's.
const _: () = assert!(FIRST_SERVER as u32 + Ports::DISTINCT <= FIRST_CLIENT as u32);
const _: () = assert!(FIRST_CLIENT as u32 + Ports::DISTINCT == 1 << 16);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_first_flows_have_ports_that_no_other_has_and_the_last_port_is_used() {
        let ports: Vec<_> = (0..Ports::DISTINCT).map(Ports::of).collect();
        let servers: BTreeSet<_> = ports.iter().map(|ports| ports.server).collect();
        let clients: BTreeSet<_> = ports.iter().map(|ports| ports.client).collect();
        assert_eq!((servers.len(), clients.len()), (ports.len(), ports.len()));
        assert!(servers.is_disjoint(&clients));
        assert_eq!((ports[0].server, ports[0].client), (5201, 49_152));
        assert_eq!(ports.last().map(|ports| ports.client), Some(u16::MAX));
    }

    #[test]
    fn ports_of_others_are_of_no_flow() {
        for ports in [[53, 49_152], [5200, 50_000], [5201, 40_000], [21_585, 49_152], [49_152, 49_153]] {
            assert_eq!(Ports::flow(ports), None, "{ports:?}");
        }
        assert_eq!((Ports::flow_of_echo(49_151), Ports::flow_of_echo(49_160)), (None, Some(8)));
    }

    #[test]
    fn nodes_have_addresses_of_their_own() {
        let nodes = [0, 254, 255, 65_534, 65_535, 1 << 20];
        for ip in [IpVersion::V4, IpVersion::V6] {
            assert_eq!(nodes.map(|node| address(node, ip)).into_iter().collect::<BTreeSet<_>>().len(), nodes.len());
        }
        assert_eq!(nodes.map(mac).into_iter().collect::<BTreeSet<_>>().len(), nodes.len());
        assert_eq!(mac(0), [2, 0, 10, 71, 0, 1]);
    }

    proptest::proptest! {
        #[test]
        fn two_ports_tell_the_flow_in_either_direction(flow in 0..Ports::DISTINCT * Ports::DISTINCT) {
            let Ports { server, client } = Ports::of(flow);
            proptest::prop_assert_eq!(Ports::flow([server, client]), Some(flow));
            proptest::prop_assert_eq!(Ports::flow([client, server]), Some(flow));
        }
    }
}
