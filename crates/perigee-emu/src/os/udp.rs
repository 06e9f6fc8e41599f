//! Options of UDP sockets.

use std::io;
use std::os::fd::AsFd;

use super::tcp_info::set;

/// Has the kernel say when each datagram has arrived (`SO_TIMESTAMPNS`), by the wall clock, and hand each out by itself: those that it puts
/// together share an instant, and what it says of them does not fit into the room that `noq-udp` has for it.
pub(crate) fn date_arrivals(socket: &impl AsFd) -> io::Result<()> {
    set(socket, (libc::SOL_UDP, libc::UDP_GRO), 0)?;
    set(socket, (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), 1)
}
