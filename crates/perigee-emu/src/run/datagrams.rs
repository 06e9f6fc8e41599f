//! Senders of datagrams at a constant rate, and of pings.
//!
//! A datagram carries its number; a ping is an ICMP echo, so that the far node's kernel answers it at once.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use perigee_study::FlowSpec;
use perigee_traffic::{Datagrams, Schedule};
use perigee_units::Bytes;
use perigee_wire::{echo_header, IpVersion};
use rustix::io::Errno;
use rustix::net::sockopt::{set_ip_tos, set_ipv6_tclass, set_socket_recv_buffer_size, set_socket_timeout, Timeout};
use rustix::net::{connect, ipproto, send, socket_with, SendFlags, SocketFlags, SocketType};

use crate::os::clock::{wake_precisely, RunClock};
use crate::run::sockets::{family, FlowEnd, LOOK};

/// The sender of a flow's packets.
pub(crate) struct DatagramSender {
    schedule: Schedule,
    socket: OwnedFd,
    /// The socket at which they arrive, which nothing reads; the kernel reports no error for it to the sender.
    sink: Option<OwnedFd>,
    /// The largest packet, its headers included.
    largest: Bytes,
    content: Content,
    pub(crate) report: Arc<DatagramReport>,
}

/// Reports of the sender of datagrams to their observer.
#[derive(Default)]
pub(crate) struct DatagramReport {
    /// The number of datagrams, once the last one is sent.
    pub(crate) sent: OnceLock<u32>,
    /// The socket at which they arrive, kept open so that the kernel does not answer with ICMP port unreachable.
    pub(crate) sink: OnceLock<OwnedFd>,
}

/// The content of the IP packets, complete except for the number.
struct Content {
    bytes: Vec<u8>,
    /// IP version and identifier, if it is a ping.
    echo: Option<(IpVersion, u16)>,
}

impl DatagramSender {
    /// Sockets for a flow between two places, with this schedule.
    pub(crate) fn new(
        places: [FlowEnd<'_>; 2],
        (spec, datagrams): (&FlowSpec, &Datagrams),
        schedule: Schedule,
    ) -> io::Result<Self> {
        let largest = datagrams.largest_packet();
        let inside = (largest.as_u64() as usize).saturating_sub(headers(places[1].address.ip()));
        let (socket, sink, content) =
            if datagrams.is_answered() { echo_socket(places, inside)? } else { udp_sockets(places, inside)? };
        set_socket_timeout(&socket, Timeout::Send, Some(LOOK))?;
        let class = spec.traffic_class();
        match spec.ip {
            IpVersion::V4 => set_ip_tos(&socket, class)?,
            IpVersion::V6 => set_ipv6_tclass(&socket, class.into())?,
        }
        Ok(Self { schedule, socket, sink, largest, content, report: Arc::default() })
    }

    /// Sends all packets, each when it is due or, if this thread wakes late, as soon as possible.
    pub(crate) fn carry(mut self, clock: RunClock, stop: &AtomicBool) -> io::Result<()> {
        wake_precisely(PRIORITY);
        if let Some(sink) = self.sink.take() {
            let _ = self.report.sink.set(sink);
        }
        while let Some(datagram) = self.schedule.next() {
            if !clock.sleep_until(datagram.at, stop) {
                return Ok(());
            }
            if self.schedule.is_over() {
                let _ = self.report.sent.set(datagram.number + 1);
            }
            self.content.number(datagram.number);
            self.send(datagram.packet, stop)?;
        }
        Ok(())
    }

    /// Sends the content as a packet of this size.
    fn send(&self, packet: Bytes, stop: &AtomicBool) -> io::Result<()> {
        let shorter = (self.largest.as_u64() - packet.as_u64()) as usize;
        let content = &self.content.bytes[..self.content.bytes.len() - shorter];
        while !stop.load(Ordering::Relaxed) {
            match send(&self.socket, content, SendFlags::empty()) {
                Ok(_) => break,
                // The device's queue is full, or the kernel reports the error of an earlier packet.
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::CONNREFUSED) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Content {
    /// Writes the number: all of it into a datagram, its last 16 bits into an echo.
    fn number(&mut self, number: u32) {
        match self.echo {
            Some((ip, identifier)) => {
                self.bytes[..ECHO_HEADER].copy_from_slice(&echo_header(ip, false, identifier, number as u16));
            }
            None => self.bytes[..NUMBER].copy_from_slice(&number.to_be_bytes()),
        }
    }
}

/// A socket for datagrams with `inside` bytes of payload, the socket at which they arrive, and their content.
fn udp_sockets([from, to]: [FlowEnd<'_>; 2], inside: usize) -> io::Result<(OwnedFd, Option<OwnedFd>, Content)> {
    let udp = || socket_with(family(to.address.ip()), SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let sink = to.node.enter(|| {
        let sink = udp()?;
        // The kernel raises it to its minimum; datagrams that do not fit are dropped.
        set_socket_recv_buffer_size(&sink, 1)?;
        to.bind(&sink)?;
        Ok(sink)
    })?;
    let socket = from.node.enter(|| {
        let socket = udp()?;
        from.bind(&socket)?;
        connect(&socket, &to.address)?;
        Ok(socket)
    })?;
    Ok((socket, Some(sink), Content { bytes: vec![0; inside], echo: None }))
}

/// A socket for pings with `inside` bytes after their headers, and their content.
fn echo_socket([from, to]: [FlowEnd<'_>; 2], inside: usize) -> io::Result<(OwnedFd, Option<OwnedFd>, Content)> {
    let address = to.address.ip();
    let (ip, protocol) =
        if address.is_ipv4() { (IpVersion::V4, ipproto::ICMP) } else { (IpVersion::V6, ipproto::ICMPV6) };
    let socket = from.node.enter(|| {
        let socket = socket_with(family(address), SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))?;
        set_socket_recv_buffer_size(&socket, 1)?;
        connect(&socket, &SocketAddr::new(address, 0))?;
        Ok(socket)
    })?;
    Ok((socket, None, Content { bytes: vec![0; ECHO_HEADER + inside], echo: Some((ip, from.address.port())) }))
}

/// Length of the headers of datagrams and of pings, bytes.
pub(crate) fn headers(address: IpAddr) -> usize {
    let ip = if address.is_ipv4() { 20 } else { 40 };
    ip + ECHO_HEADER
}

/// Smallest payload of a datagram: its number, bytes.
pub(crate) const NUMBER: usize = 4;
const ECHO_HEADER: usize = 8;
/// Real-time priority, below that of the thread that moves packets.
const PRIORITY: i32 = 9;
