//! Devices, addresses and routes of the calling thread's namespace.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::netdevice::name_to_index;
use rustix::net::{socket, AddressFamily as Domain, SocketType};

/// An address with the length of its network's prefix.
pub(crate) type Prefixed = (IpAddr, u8);

/// A socket by which the kernel is told.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub(crate) fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sets a device up; `settings` are its size of packets and length of queue, where they shall change.
    pub(crate) fn up(&mut self, index: u32, settings: Option<(u32, u32)>) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        if let Some((mtu, queue)) = settings {
            link.attributes = vec![LinkAttribute::Mtu(mtu), LinkAttribute::TxQueueLen(queue)];
        }
        self.ask(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Gives a device an address.
    pub(crate) fn address(&mut self, index: u32, (address, prefix): Prefixed) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = prefix;
        message.header.family = family(address);
        // IPv6: used at once, without asking whether a neighbour has it.
        message.header.flags = if address.is_ipv6() { AddressHeaderFlags::Nodad } else { AddressHeaderFlags::empty() };
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Routes a network into a device, which has another machine at its other end; `window` is the initial congestion
    /// window of connections over it, packets.
    pub(crate) fn route(
        &mut self,
        index: u32,
        (network, prefix): Prefixed,
        source: IpAddr,
        window: Option<u32>,
    ) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(network);
        message.header.destination_prefix_length = prefix;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Link;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![RouteAttribute::Oif(index), RouteAttribute::PrefSource(routed(source))];
        if prefix > 0 {
            message.attributes.push(RouteAttribute::Destination(routed(network)));
        }
        if let Some(window) = window {
            message.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::InitCwnd(window)]));
        }
        self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let mut packet = NetlinkMessage::from(message);
        packet.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        packet.header.sequence_number = self.sequence;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let (answer, _) = self.socket.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(error) => match error.code {
                None => Ok(()),
                Some(code) => Err(io::Error::from_raw_os_error(-code.get())),
            },
            other => Err(io::Error::other(format!("the kernel answered {other:?}"))),
        }
    }
}

/// The number of a device.
pub(crate) fn index(name: &str) -> io::Result<u32> {
    let any = socket(Domain::INET, SocketType::DGRAM, None)?;
    Ok(name_to_index(&any, name)?)
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

fn routed(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}
