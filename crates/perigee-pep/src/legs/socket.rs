//! Sockets of legs: settings, dialling and listening.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{bind, connect, listen, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};

use crate::config::Leg;
use crate::host::sys;
use crate::shared::log::Log;

/// Applies the settings of a leg, and the code point of its connection, to a socket that was accepted. The log has those that the kernel
/// refused: the connection works without them.
pub(crate) fn configure(leg: &Leg, socket: impl AsFd, is_ipv6: bool, dscp: u8, log: &Log) {
    let nagle = if leg.nagle { set_nagle(&socket, true).err() } else { None };
    let refused = nagle.map(|error| format!("leg {}: TCP_NODELAY: {error}", leg.name));
    let refused = refused.into_iter().chain(apply(leg, &socket));
    refused.chain(set_dscp(leg, &socket, is_ipv6, dscp)).for_each(|line| log.once(line));
}

/// Sets the options of all legs (Nagle's algorithm in some); accepted sockets inherit them from their listener: a close
/// resets the connection, an urgent byte keeps its place in the stream (RFC 6093, section 5), idle connections are
/// probed, small segments do not wait.
pub(crate) fn begin(socket: impl AsFd) -> io::Result<()> {
    reset_on_close(&socket);
    deliver_urgent_in_line(&socket)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    set_nagle(socket, false)
}

fn set_nagle(socket: impl AsFd, is_on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, !is_on)?)
}

/// Applies the settings of a leg to a socket of [`begin`]. Returns the settings that the kernel refused, in words.
fn apply(leg: &Leg, socket: impl AsFd) -> Vec<String> {
    let socket = socket.as_fd();
    let mut refused = Vec::new();
    let mut note = |what: &str, done: io::Result<()>| {
        if let Err(error) = done {
            refused.push(format!("leg {}: {what}: {error}", leg.name));
        }
    };
    if let Some(idle) = leg.keep_alive {
        let idle = std::time::Duration::from_nanos(idle.as_nanos());
        note("TCP_KEEPIDLE", sockopt::set_tcp_keepidle(socket, idle).map_err(Into::into));
        // The kernel's own interval is longer than most outage graces.
        note("TCP_KEEPINTVL", sockopt::set_tcp_keepintvl(socket, idle).map_err(Into::into));
    }
    if let Some(grace) = leg.outage_grace {
        note("TCP_USER_TIMEOUT", sockopt::set_tcp_user_timeout(socket, grace.as_millis() as u32).map_err(Into::into));
    }
    // The kernel doubles the size of a buffer for its own overhead.
    if let Some(bytes) = leg.send_buffer.map(|bytes| bytes as usize) {
        let forced = sockopt::set_socket_send_buffer_size_force(socket, bytes);
        let set = forced.or_else(|_| sockopt::set_socket_send_buffer_size(socket, bytes));
        note("send_buffer", set.map_err(Into::into));
    }
    if let Some(bytes) = leg.receive_buffer.map(|bytes| bytes as usize) {
        let forced = sockopt::set_socket_recv_buffer_size_force(socket, bytes);
        let set = forced.or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes));
        note("receive_buffer", set.map_err(Into::into));
    }
    if let Some(mss) = leg.mss {
        note("TCP_MAXSEG", sys::limit_segments(socket, mss));
    }
    if let Some(unsent) = leg.unsent {
        note("TCP_NOTSENT_LOWAT", sys::limit_unsent(socket, unsent as u32));
    }
    let chosen = leg.congestion.iter().position(|name| sockopt::set_tcp_congestion(socket, name).is_ok());
    if chosen != Some(0) && !leg.congestion.is_empty() {
        let used = sockopt::tcp_congestion(socket).unwrap_or_default();
        let missing = &leg.congestion[..chosen.unwrap_or(leg.congestion.len())];
        refused.push(format!("leg {}: no congestion control {}: {used} is used", leg.name, missing.join(" or ")));
    }
    refused
}

/// Sets the differentiated services code point of a socket's packets. Returns a refusal of the kernel, as [`apply`].
fn set_dscp(leg: &Leg, socket: impl AsFd, is_ipv6: bool, dscp: u8) -> Option<String> {
    let done = match (dscp, is_ipv6) {
        (0, _) => Ok(()),
        (_, true) => sockopt::set_ipv6_tclass(socket, u32::from(dscp) << 2),
        (_, false) => sockopt::set_ip_tos(socket, dscp << 2),
    };
    done.err().map(|error| format!("leg {}: code point {dscp}: {error}", leg.name))
}

/// The first of these connections that an error has ended, and the error. `SO_ERROR` alone would also tell of what passes: that a packet
/// found no route, which the kernel sends again.
pub(crate) fn fatal_error<const N: usize>(sockets: [BorrowedFd<'_>; N]) -> Option<(usize, io::Error)> {
    let mut polled = sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::empty()));
    poll(&mut polled, Some(&Timespec::default())).ok()?;
    let at = polled.iter().position(|socket| socket.revents().contains(PollFlags::ERR))?;
    Some((at, sockopt::socket_error(sockets[at]).ok()?.err()?.into()))
}

/// Whether a resource of the system is exhausted, so that another try at once is useless.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    error.is_some_and(|error| matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// Switches an open socket to the first congestion control of a leg that the kernel has; false if it has none.
pub(crate) fn switch_congestion(leg: &Leg, socket: impl AsFd) -> bool {
    let socket = socket.as_fd();
    leg.congestion.iter().any(|name| sockopt::set_tcp_congestion(socket, name).is_ok())
}

/// Starts to connect to a server; `source` is the address that the server sees, which need not be this host's, and `dscp` the
/// code point of the packets.
pub(crate) fn dial(
    leg: &Leg,
    source: Option<SocketAddr>,
    destination: SocketAddr,
    own_mark: Option<u32>,
    dscp: u8,
    log: &Log,
) -> io::Result<OwnedFd> {
    let socket = stream_socket(destination)?;
    begin(&socket)?;
    if let Some(mark) = own_mark {
        sys::mark(&socket, mark)?;
    }
    configure(leg, &socket, destination.is_ipv6(), dscp, log);
    if let Some(source) = source {
        sys::make_transparent(&socket, destination.is_ipv6())?;
        // The client may have the same port open towards another server.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &source)?;
    }
    match connect(&socket, &destination) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// A listening socket; each worker has one for the same address, and the kernel distributes connections to them. The first one is
/// bound before it shares the address, which fails if anybody else listens there, another service included.
pub(crate) fn listening(address: SocketAddr, is_transparent: bool, is_first: bool) -> io::Result<OwnedFd> {
    let socket = stream_socket(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, !is_first)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if is_transparent {
        sys::make_transparent(&socket, address.is_ipv6())?;
    }
    // Accepted sockets inherit it before any of their bytes is processed.
    begin(&socket)?;
    bind(&socket, &address)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Makes the kernel deliver written bytes after the close of a socket: the default.
pub(crate) fn close_in_order(socket: impl AsFd) {
    // It fails for no TCP socket.
    let _ = sockopt::set_socket_linger(socket, None);
}

/// Makes the close of a socket reset the connection.
pub(crate) fn reset_on_close(socket: impl AsFd) {
    // It fails for no TCP socket.
    let _ = sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO));
}

/// Keeps an urgent byte in its place in the stream (RFC 6093, section 5).
pub(crate) fn deliver_urgent_in_line(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_oobinline(socket, true)?)
}

/// A socket of TCP for the version of an address.
pub(crate) fn stream_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    Ok(socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?)
}

/// Connections that wait to be accepted; `net.core.somaxconn` may lower it.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use perigee_units::Time;

    use super::*;

    #[test]
    fn accepted_sockets_inherit_what_all_legs_have() {
        let listener = listening("127.0.0.1:0".parse().unwrap(), false, true).unwrap();
        let address = SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
        let _client = std::net::TcpStream::connect(address).unwrap();
        let accepted = rustix::net::accept(&listener).unwrap();
        assert_eq!(sockopt::socket_linger(&accepted).unwrap(), Some(std::time::Duration::ZERO));
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert!(sockopt::socket_oobinline(&accepted).unwrap());
        assert!(sockopt::tcp_nodelay(&accepted).unwrap());
        let (log, _) = Log::new(std::sync::Arc::default());
        configure(&Leg { nagle: true, ..Leg::default() }, &accepted, false, 0, &log);
        assert!(!sockopt::tcp_nodelay(&accepted).unwrap());
    }

    #[test]
    fn a_keep_alive_is_also_the_interval_between_its_probes() {
        let socket = stream_socket("127.0.0.1:1".parse().unwrap()).unwrap();
        let leg = Leg { keep_alive: Some(Time::from_secs(7)), ..Leg::default() };
        assert!(apply(&leg, &socket).is_empty());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap().as_secs(), 7);
        assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap().as_secs(), 7);
    }
}
