//! `[tunnel]`: the connection between the boxes at the two ends of a satellite link.

use std::net::SocketAddr;
use std::path::PathBuf;

use perigee_cc::{Algorithm, Selected};
use perigee_quic::refusal;
use perigee_text::{Node, Read, StrictError};
use perigee_units::{Rate, Time};

use super::network::Network;

/// The connection between the boxes at the two ends of a satellite link.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    /// Which end this box is.
    pub end: TunnelEnd,
    /// The certificate of this box, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The certificates of its peers, PEM.
    pub peers: Option<PathBuf>,
    /// At the gateway: terminals that are restricted to their own clients.
    pub terminals: Vec<Terminal>,
    /// Capacity of the satellite link.
    pub bandwidth: Option<Rate>,
    /// The round trip between the boxes.
    pub round_trip: Option<Time>,
    /// Congestion control of what this box sends.
    pub control: TunnelControl,
    /// How long the other box may be silent before its connections are given up.
    pub outage_grace: Time,
}

/// A terminal whose clients the gateway knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Terminal {
    /// Its certificate, PEM.
    pub certificate: PathBuf,
    /// Networks of its clients.
    pub sources: Vec<Network>,
}

/// An end of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelEnd {
    /// It has the clients, and connects to the gateway at this address.
    Terminal(SocketAddr),
    /// It dials the servers, and terminals connect to it at this address.
    Gateway(SocketAddr),
}

/// The congestion control of the tunnel.
#[derive(Clone, Copy, Debug)]
pub enum TunnelControl {
    /// A constant window of 1.1 times the bandwidth-delay product, regardless of losses.
    Fixed,
    /// An algorithm of `algorithms/`, with its defaults.
    Algorithm(&'static Algorithm),
}

impl TunnelControl {
    fn name(self) -> &'static str {
        match self {
            Self::Fixed => FIXED,
            Self::Algorithm(algorithm) => algorithm.name(),
        }
    }
}

impl PartialEq for TunnelControl {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Read for TunnelControl {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        let name = String::read(node, what)?;
        if name == FIXED {
            return Ok(Self::Fixed);
        }
        let selected = Selected::parse(&name, &[])
            .map_err(|error| StrictError::new(&node.origin, format!("`{what}`: {}", error.message()), error.fix()))?;
        // Packets that are not ECN-capable have no marks to be counted.
        if refusal(&selected, false).is_some() {
            let message = format!("`{name}` counts CE marks, which the QUIC stack of the tunnel does not report");
            return Err(StrictError::new(&node.origin, message, "use another one"));
        }
        Ok(Self::Algorithm(selected.algorithm()))
    }
}

impl Tunnel {
    /// The bandwidth-delay product, bytes.
    pub(crate) fn product(&self) -> Option<u64> {
        Some(self.bandwidth?.bytes_in(self.round_trip?).as_u64())
    }

    /// Where the gateway listens, if this box is one.
    pub(crate) fn listens(&self) -> Option<SocketAddr> {
        match self.end {
            TunnelEnd::Terminal(_) => None,
            TunnelEnd::Gateway(address) => Some(address),
        }
    }
}

/// The name of [`TunnelControl::Fixed`].
const FIXED: &str = "fixed";
