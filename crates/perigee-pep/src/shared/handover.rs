//! Messages between threads of the service.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use perigee_units::Time;

use super::permit::{Permit, Reservation};
use crate::config::{Config, Rule};
use crate::tunnel::Known;

/// Orders for the tunnel's thread.
#[derive(Debug)]
pub(crate) enum TunnelOrder {
    /// Carries a client that a worker has accepted.
    Carry(Accepted),
    /// Applies a new configuration, and the certificates that its files have now.
    Configure(Arc<Config>, Known),
}

/// A client that a worker has accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) client: OwnedFd,
    /// The addresses of client and server.
    pub(crate) ends: [SocketAddr; 2],
    pub(crate) rule: Arc<Rule>,
    pub(crate) permit: Permit,
}

/// A connected server, for a client whose handshake follows.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) server: OwnedFd,
    pub(crate) rule: Arc<Rule>,
    /// The client's place, taken when the server was dialled.
    pub(crate) place: Reservation,
    /// Code point of the client's SYN.
    pub(crate) dscp: u8,
    /// When it was dialled, and when it answered.
    pub(crate) times: [Time; 2],
}

/// A client that waits for its server, as a thread leaves it to the next one.
#[derive(Debug)]
pub(crate) struct Left {
    /// Its SYN.
    pub(crate) syn: Vec<u8>,
    /// Its server, which was dialled.
    pub(crate) server: OwnedFd,
    pub(crate) began: Time,
    pub(crate) deadline: Time,
    /// When the server answered; the client's handshake follows.
    pub(crate) connected: Option<Time>,
}
