//! Datagrams at a constant rate, and pings: who sends them.
//!
//! A datagram carries its number; a ping is an ICMP echo, so that the far node's kernel answers it at once.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use perigee_units::{Bytes, Rate, Time};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_timeout, Timeout};
use rustix::net::{bind, connect, ipproto, send, socket_with, SendFlags, SocketFlags, SocketType};

use crate::apps::{family, Told, LOOK};
use crate::clock::{sleep_until, wake_precisely};
use crate::namespace::Namespace;

/// When packets are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// At a rate, for so long.
    Constant(Rate, Time),
    /// So many, one each interval.
    Each(Time, u32),
}

/// Packets to be sent.
pub(crate) struct Datagrams {
    /// When the first is due.
    pub(crate) start: Time,
    pace: Pace,
    socket: OwnedFd,
    /// Where they go to: nobody reads there, and the kernel does not say so to the sender.
    sink: Option<OwnedFd>,
    /// Size of the packet, its headers included.
    packet: Bytes,
    content: Content,
}

/// What a packet has inside of IP, ready but for its number.
struct Content {
    bytes: Vec<u8>,
    /// The identifier of pings over IPv4, whose checksum is made here.
    echo: Option<u16>,
    /// Where the number is: its last 16 bits in an echo, all of it in a datagram.
    at: usize,
    width: usize,
}

/// The nodes of a flow of packets.
pub(crate) struct Nodes<'a> {
    pub(crate) from: &'a Namespace,
    pub(crate) to: &'a Namespace,
    pub(crate) address: IpAddr,
    /// By which its packets are known: both ports, or an echo's identifier.
    pub(crate) port: u16,
}

impl Datagrams {
    /// Sockets for a flow that begins at `start`, of packets of this size.
    pub(crate) fn new(nodes: &Nodes<'_>, start: Time, pace: Pace, packet: Bytes) -> io::Result<Self> {
        let Nodes { from, to, address, port } = *nodes;
        let there = SocketAddr::new(address, port);
        let inside = (packet.as_u64() as usize).saturating_sub(headers(address));
        let (socket, sink, content) = match pace {
            Pace::Constant(..) => {
                let sink = to.enter(|| {
                    let sink = socket_with(family(address), SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
                    // The kernel makes it the least that it can be; what does not fit in is dropped.
                    set_socket_recv_buffer_size(&sink, 1)?;
                    bind(&sink, &there)?;
                    Ok(sink)
                })?;
                let socket = from.enter(|| {
                    let socket = socket_with(family(address), SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
                    let any = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
                    bind(&socket, &SocketAddr::new(any, port))?;
                    connect(&socket, &there)?;
                    Ok(socket)
                })?;
                (socket, Some(sink), Content { bytes: vec![0; inside], echo: None, at: 0, width: 4 })
            }
            Pace::Each(..) => {
                let protocol = if address.is_ipv4() { ipproto::ICMP } else { ipproto::ICMPV6 };
                let socket = from.enter(|| {
                    let socket = socket_with(family(address), SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))?;
                    set_socket_recv_buffer_size(&socket, 1)?;
                    connect(&socket, &SocketAddr::new(address, 0))?;
                    Ok(socket)
                })?;
                let mut bytes = vec![0; ECHO_HEADER + inside];
                bytes[0] = if address.is_ipv4() { ECHO_REQUEST } else { ECHO_REQUEST_V6 };
                bytes[4..6].copy_from_slice(&port.to_be_bytes());
                (socket, None, Content { bytes, echo: address.is_ipv4().then_some(port), at: 6, width: 2 })
            }
        };
        set_socket_timeout(&socket, Timeout::Send, Some(LOOK))?;
        Ok(Self { start, pace, socket, sink, packet, content })
    }

    /// Sends them all, each when it is due or, where this thread is woken late, as soon as it can.
    pub(crate) fn carry(mut self, told: &Told, stop: &AtomicBool) -> io::Result<()> {
        wake_precisely(PRIORITY);
        if let Some(sink) = self.sink.take() {
            let _ = told.sink.set(sink);
        }
        let (mut due, mut remainder, mut number) = (self.start, 0, 0u32);
        loop {
            if !sleep_until(due, stop) {
                return Ok(());
            }
            let next = match self.pace {
                Pace::Constant(rate, length) => {
                    let next = due + rate.send_with_remainder(self.packet, &mut remainder);
                    Some(next).filter(|next| *next < self.start + length)
                }
                Pace::Each(interval, count) => Some(due + interval).filter(|_| number + 1 < count),
            };
            if next.is_none() {
                let _ = told.sent.set(number + 1);
            }
            self.content.number(number);
            while !stop.load(Ordering::Relaxed) {
                match send(&self.socket, &self.content.bytes, SendFlags::empty()) {
                    Ok(_) => break,
                    // The device's queue is full, or a note of another packet's fate came.
                    Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::CONNREFUSED) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let Some(next) = next else { return Ok(()) };
            (due, number) = (next, number.wrapping_add(1));
        }
    }
}

impl Content {
    fn number(&mut self, number: u32) {
        let number = &number.to_be_bytes()[4 - self.width..];
        self.bytes[self.at..self.at + self.width].copy_from_slice(number);
        if let Some(identifier) = self.echo {
            let words = [u16::from_be_bytes([ECHO_REQUEST, 0]), identifier, u16::from_be_bytes([number[0], number[1]])];
            let sum: u32 = words.iter().map(|word| u32::from(*word)).sum();
            let folded = (sum & 0xffff) + (sum >> 16);
            let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
            self.bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// Bytes of the headers of datagrams and of pings alike.
pub(crate) fn headers(address: IpAddr) -> usize {
    let ip = if address.is_ipv4() { 20 } else { 40 };
    ip + ECHO_HEADER
}

/// What a datagram has room for at the least: its number.
pub(crate) const NUMBER: usize = 4;
const ECHO_HEADER: usize = 8;
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
/// Below that of the thread that moves packets.
const PRIORITY: i32 = 9;
