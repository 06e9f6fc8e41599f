//! Counts connections in all and by client, by a value that each connection holds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stats::Stats;

/// Counts of open connections.
#[derive(Debug)]
pub(crate) struct Clients(Arc<Open>);

#[derive(Debug)]
struct Open {
    by_client: Mutex<HashMap<IpAddr, usize>>,
    stats: Arc<Stats>,
}

/// A connection's place among those of the service and of its client, until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    client: IpAddr,
    open: Arc<Open>,
}

/// The place of a client whose handshake waits for its server; it counts among those that wait until it is claimed or dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    permit: Permit,
    _waits: Waits,
}

/// One of the handshakes that wait.
#[derive(Debug)]
struct Waits(Arc<Stats>);

impl Clients {
    pub(crate) fn new(stats: Arc<Stats>) -> Self {
        Self(Arc::new(Open { by_client: Mutex::default(), stats }))
    }

    /// A place for a connection of a client; `None` if the client has `most` already.
    pub(crate) fn permit(&self, client: IpAddr, most: usize) -> Option<Permit> {
        let mut counts = self.0.counts();
        let count = counts.entry(client).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        self.0.stats.open.add(1);
        Some(Permit { client, open: self.0.clone() })
    }
}

impl Open {
    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.by_client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    pub(crate) fn new(permit: Permit) -> Self {
        permit.open.stats.waiting.add(1);
        Self { _waits: Waits(permit.open.stats.clone()), permit }
    }

    /// The place, for a connection whose client has completed its handshake.
    pub(crate) fn claim(self) -> Permit {
        self.permit
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.subtract(1);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.open.counts();
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
        self.open.stats.open.subtract(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_once_its_permit_is_dropped() {
        let stats = Arc::new(Stats::default());
        let clients = Clients::new(stats.clone());
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        let first = clients.permit(one, 1);
        assert!(first.is_some() && clients.permit(one, 1).is_none());
        let second = clients.permit(other, 1);
        assert_eq!(stats.open.get(), 2);
        drop((first, second));
        assert_eq!(stats.open.get(), 0);
        assert!(clients.0.counts().is_empty());
        let reserved = Reservation::new(clients.permit(one, 1).unwrap());
        assert_eq!((stats.open.get(), stats.waiting.get()), (1, 1));
        let claimed = reserved.claim();
        assert_eq!((stats.open.get(), stats.waiting.get()), (1, 0));
        drop(claimed);
        assert_eq!(stats.open.get(), 0);
    }
}
