//! Devices, addresses and routes of the calling thread's namespace, by rtnetlink.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;

use libc::{
    AF_INET, AF_INET6, IFA_ADDRESS, IFA_F_NODAD, IFA_LOCAL, IFF_UP, IFLA_MTU, IFLA_TXQLEN, NLMSG_ERROR, NLM_F_ACK,
    NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, RTA_DST, RTA_METRICS, RTA_OIF, RTA_PREFSRC, RTM_NEWADDR,
    RTM_NEWROUTE, RTM_SETLINK, RTN_UNICAST, RTPROT_STATIC, RT_SCOPE_LINK, RT_TABLE_MAIN,
};
use perigee_units::Time;
use rustix::net::netdevice::name_to_index;
use rustix::net::{
    recv, send, socket, socket_with, AddressFamily as Domain, RecvFlags, SendFlags, SocketFlags, SocketType,
};

use crate::os::clock::{monotonic, sleep};

/// An address with its prefix length.
pub(crate) type Prefixed = (IpAddr, u8);

/// An rtnetlink socket.
pub(crate) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub(crate) fn new() -> io::Result<Self> {
        // The protocol of rtnetlink is 0, and what is sent without an address goes to the kernel.
        Ok(Self { socket: socket_with(Domain::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)? })
    }

    /// Sets a device up; `settings` are its MTU and queue length, if they change.
    pub(crate) fn up(&mut self, index: u32, settings: Option<(u32, u32)>) -> io::Result<()> {
        let up = IFF_UP as u32;
        // ifinfomsg: family and type are zero; its flags, and which of them change.
        let mut message = [0, index, up, up].map(u32::to_ne_bytes).concat();
        if let Some((mtu, queue)) = settings {
            attribute(&mut message, IFLA_MTU, &mtu.to_ne_bytes());
            attribute(&mut message, IFLA_TXQLEN, &queue.to_ne_bytes());
        }
        self.ask(RTM_SETLINK, 0, &message)
    }

    /// Adds an address to a device.
    pub(crate) fn address(&mut self, index: u32, (address, prefix): Prefixed) -> io::Result<()> {
        // IPv6: usable at once, without duplicate address detection.
        let flags = if address.is_ipv6() { IFA_F_NODAD as u8 } else { 0 };
        // ifaddrmsg; the scope is zero.
        let mut message = vec![family(address), prefix, flags, 0];
        message.extend(index.to_ne_bytes());
        attribute(&mut message, IFA_LOCAL, &octets(address));
        attribute(&mut message, IFA_ADDRESS, &octets(address));
        self.ask(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &message)
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
        self.ask(RTM_NEWROUTE, NLM_F_CREATE | flag, &point_to_point(index, network, source, window))
    }

    /// Sends a message (RFC 3549, 2.3.2), and waits for the kernel's answer.
    fn ask(&mut self, kind: u16, flags: i32, message: &[u8]) -> io::Result<()> {
        let mut packet = ((HEADER + message.len()) as u32).to_ne_bytes().to_vec();
        packet.extend([kind, (NLM_F_REQUEST | NLM_F_ACK | flags) as u16].map(u16::to_ne_bytes).concat());
        // The number and the port of one that has no other question open.
        packet.extend([0; 8]);
        packet.extend(message);
        send(&self.socket, &packet, SendFlags::empty())?;
        let mut answer = [0; 4096];
        let (length, _) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
        let told = &answer[..length];
        match (told.get(4..6), told.get(HEADER..HEADER + 4).and_then(|code| code.try_into().ok())) {
            (Some(kind), Some(code)) if kind == (NLMSG_ERROR as u16).to_ne_bytes() => match i32::from_ne_bytes(code) {
                0 => Ok(()),
                code => Err(io::Error::from_raw_os_error(-code)),
            },
            _ => Err(io::Error::other(format!("the kernel answered {} bytes that are no acknowledgement", told.len()))),
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

/// A route of a network to a point-to-point device, as an rtmsg and its attributes.
fn point_to_point(index: u32, (network, prefix): Prefixed, source: IpAddr, window: Option<u32>) -> Vec<u8> {
    let mut message = vec![family(network), prefix, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_LINK, RTN_UNICAST];
    message.extend([0; 4]);
    attribute(&mut message, RTA_OIF, &index.to_ne_bytes());
    attribute(&mut message, RTA_PREFSRC, &octets(source));
    if prefix > 0 {
        attribute(&mut message, RTA_DST, &octets(network));
    }
    if let Some(window) = window {
        let mut metric = Vec::new();
        attribute(&mut metric, RTAX_INITCWND, &window.to_ne_bytes());
        attribute(&mut message, RTA_METRICS, &metric);
    }
    message
}

/// Appends an attribute of a message: its length, its kind, and its value, filled up to four bytes.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend([4 + value.len() as u16, kind].map(u16::to_ne_bytes).concat());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
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

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    family as u8
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Bytes of the header of a message.
const HEADER: usize = 16;
/// Attribute of a route's metrics: the initial congestion window, packets.
const RTAX_INITCWND: u16 = 11;
/// Longest time in which the kernel adds a local route.
const LOCAL_ROUTE: Time = Time::from_secs(5);
/// Any port: nothing is sent to it.
const DISCARD_PORT: u16 = 9;
