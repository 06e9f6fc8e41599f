//! Hosts the congestion controls of `algorithms/` natively.
//!
//! Each C file there is compiled by the host's compiler and registered under its file name. A [`Socket`] holds the
//! kernel's view of a connection ([`TcpSock`]) and calls the algorithm's callbacks, which are those of Linux's
//! `tcp_congestion_ops`.

mod sock;

pub use sock::*;
