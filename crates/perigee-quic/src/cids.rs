//! Connection identifiers from a seed: the stack's own generator draws from the operating system.

use std::time::Duration;

use noq_proto::{ConnectionId, ConnectionIdGenerator};
use perigee_units::Stream;

/// Connection identifiers of 8 bytes in the order of a random stream.
pub(crate) struct Cids(Stream);

impl Cids {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Stream::new(seed, "quic connection identifiers"))
    }
}

impl ConnectionIdGenerator for Cids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.next_u64().to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        size_of::<u64>()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
