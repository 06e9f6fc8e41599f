//! What threads of the service hand over to each other.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use perigee_units::Time;

use crate::config::{Config, Rule};
use crate::permit::Permit;

/// What the tunnel is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// A client that a worker has accepted.
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

/// A server that has answered, for a client whose handshake begins.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) server: OwnedFd,
    pub(crate) rule: Arc<Rule>,
    /// Code point of the client's SYN.
    pub(crate) dscp: u8,
    /// When it was dialled, and when it answered.
    pub(crate) times: [Time; 2],
}

/// Gives orders to the tunnel's thread, from any other.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    sender: Arc<Mutex<Sender<Order>>>,
    wake: Arc<OwnedFd>,
}

impl Orders {
    /// Orders that the receiver's thread reads when `wake` is readable.
    pub(crate) fn new(sender: Sender<Order>, wake: Arc<OwnedFd>) -> Self {
        Self { sender: Arc::new(Mutex::new(sender)), wake }
    }

    /// Gives an order; one that comes after the end of the tunnel is dropped.
    pub(crate) fn give(&self, order: Order) {
        let _ = self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(order);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}
