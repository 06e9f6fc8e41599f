//! The key that distinguishes connections.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use perigee_wire::{Packet, Transport};

/// Two ends and a protocol, the same for both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    addresses: [u128; 2],
    ports: [u16; 2],
    is_udp: bool,
}

impl Key {
    /// The key of a packet, and its way: 0 from the first end to the second, 1 back.
    #[inline]
    pub(crate) fn of(packet: &Packet) -> Option<(Self, usize)> {
        let (source, destination, is_udp) = match packet.transport {
            Transport::Tcp(tcp) => (tcp.source_port, tcp.destination_port, false),
            Transport::Udp { source_port, destination_port, .. } => (source_port, destination_port, true),
            Transport::Echo { .. } | Transport::Other => return None,
        };
        let (from, to) = ((number(packet.source), source), (number(packet.destination), destination));
        let way = usize::from(from > to);
        let (first, second) = if way == 0 { (from, to) } else { (to, from) };
        Some((Self { addresses: [first.0, second.0], ports: [first.1, second.1], is_udp }, way))
    }

    /// Whether it is UDP.
    pub(crate) fn is_udp(&self) -> bool {
        self.is_udp
    }

    /// Whether both ends are on one host.
    pub(crate) fn is_local(&self) -> bool {
        self.addresses[0] == self.addresses[1] || [0, 1].iter().all(|way| self.source(*way).ip().is_loopback())
    }

    /// The end that a way begins at.
    pub(crate) fn source(&self, way: usize) -> SocketAddr {
        let address = Ipv6Addr::from(self.addresses[way]);
        SocketAddr::new(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4), self.ports[way])
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}
