//! Devices, addresses and routes of the calling thread's namespace, by rtnetlink.

use std::io;
use std::net::{IpAddr, UdpSocket};

use netlink_packet_core::{
    NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use perigee_units::Time;
use rustix::net::netdevice::name_to_index;
use rustix::net::{socket, AddressFamily as Domain, SocketType};

use crate::os::clock::{monotonic, sleep};

/// An address with its prefix length.
pub(crate) type Prefixed = (IpAddr, u8);

/// An rtnetlink socket.
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

    /// Sets a device up; `settings` are its MTU and queue length, if they change.
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

    /// Adds an address to a device.
    pub(crate) fn address(&mut self, index: u32, (address, prefix): Prefixed) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = prefix;
        message.header.family = family(address);
        // IPv6: usable at once, without duplicate address detection.
        message.header.flags = if address.is_ipv6() { AddressHeaderFlags::Nodad } else { AddressHeaderFlags::empty() };
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Routes a network to a point-to-point device; `window` is the initial congestion window of connections over the
    /// route, packets.
    pub(crate) fn route(
        &mut self,
        index: u32,
        network: Prefixed,
        source: IpAddr,
        window: Option<u32>,
        place: Place,
    ) -> io::Result<()> {
        let flag = match place {
            Place::New => NLM_F_EXCL,
            Place::Taken => NLM_F_REPLACE,
        };
        self.ask(point_to_point(index, network, source, window), NLM_F_CREATE | flag)
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

/// Whether a route is new or replaces another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    New,
    /// The network has a route, which is replaced.
    Taken,
}

/// A route of a network to a point-to-point device.
fn point_to_point(index: u32, (network, prefix): Prefixed, source: IpAddr, window: Option<u32>) -> RouteNetlinkMessage {
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
    RouteNetlinkMessage::NewRoute(message)
}

/// Waits until the kernel delivers packets to an address of the calling thread's namespace. Linux adds the local route of an
/// IPv6 address later, from a work queue, and until then answers packets to it with destination unreachable.
///
/// # Errors
/// If that takes longer than [`LOCAL_ROUTE`]. No other route of the namespace may lead to the address.
pub(crate) fn await_local(address: IpAddr) -> io::Result<()> {
    let probe = UdpSocket::bind((address, 0))?;
    let until = monotonic() + LOCAL_ROUTE;
    // A datagram socket connects without a packet, if there is a route.
    while let Err(error) = probe.connect((address, DISCARD_PORT)) {
        if monotonic() >= until {
            return Err(io::Error::new(error.kind(), format!("no local route to {address}: {error}")));
        }
        sleep(Time::from_millis(1));
    }
    Ok(())
}

/// The index of a device.
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

/// Longest time in which the kernel adds a local route.
const LOCAL_ROUTE: Time = Time::from_secs(5);
/// Any port: nothing is sent to it.
const DISCARD_PORT: u16 = 9;
