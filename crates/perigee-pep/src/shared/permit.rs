//! Counts connections in all and by client, by a value that each connection holds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::stats::Stats;

/// Counts of open connections.
#[derive(Debug)]
pub(crate) struct Clients {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    stats: Arc<Stats>,
}

/// A connection's place among those of the service and of its client, until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    client: IpAddr,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    stats: Arc<Stats>,
}

impl Clients {
    pub(crate) fn new(stats: Arc<Stats>) -> Self {
        Self { counts: Arc::default(), stats }
    }

    /// Whether a client has `most` connections already.
    pub(crate) fn is_full(&self, client: IpAddr, most: usize) -> bool {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).get(&client).is_some_and(|count| *count >= most)
    }

    /// A place for a connection of a client; `None` if the client has `most` already.
    pub(crate) fn permit(&self, client: IpAddr, most: usize) -> Option<Permit> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(client).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        self.stats.open.add(1);
        Some(Permit { client, counts: self.counts.clone(), stats: self.stats.clone() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
        self.stats.open.subtract(1);
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
        assert!(first.is_some() && clients.permit(one, 1).is_none() && clients.is_full(one, 1));
        let second = clients.permit(other, 1);
        assert_eq!(stats.open.get(), 2);
        drop((first, second));
        assert_eq!(stats.open.get(), 0);
        assert!(clients.counts.lock().unwrap().is_empty() && clients.permit(one, 1).is_some());
    }
}
