//! The parts of Linux that the emulator uses: namespaces, devices, routes, sockets, clocks and signals.

pub(crate) mod clock;
pub(crate) mod namespace;
pub(crate) mod netlink;
pub(crate) mod rcvlowat;
pub(crate) mod signals;
pub(crate) mod tcp_info;
pub(crate) mod tun;
pub(crate) mod udp;
