//! Messages between threads of the service.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use perigee_units::Time;

use super::permit::Permit;
use crate::config::{Config, Rule};

/// Commands for the tunnel's thread.
#[derive(Debug)]
pub(crate) enum Order {
    /// Carries a client that a worker has accepted.
    Carry(Accepted),
    Configure(Arc<Config>),
    /// Ends after the last connection.
    Drain,
    /// Resets all connections and ends.
    Abort,
}

/// A client that a worker has accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) client: OwnedFd,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) rule: Arc<Rule>,
    pub(crate) permit: Permit,
}

/// A connected server, for a client whose handshake follows.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) server: OwnedFd,
    pub(crate) rule: Arc<Rule>,
    /// Code point of the client's SYN.
    pub(crate) dscp: u8,
    /// When it was dialled, and when it answered.
    pub(crate) times: [Time; 2],
}

/// Sends orders to the tunnel's thread from any other.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    sender: Arc<Mutex<Sender<Order>>>,
    wake: Arc<OwnedFd>,
}

impl Orders {
    /// Orders for the receiver's thread, which reads them when `wake` is readable.
    pub(crate) fn new(sender: Sender<Order>, wake: Arc<OwnedFd>) -> Self {
        Self { sender: Arc::new(Mutex::new(sender)), wake }
    }

    /// Sends an order; it is dropped if the tunnel has ended.
    pub(crate) fn give(&self, order: Order) {
        let _ = self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(order);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}
