//! Servers that have not answered.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// Clients and their silent servers.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<Vec<[IpAddr; 2]>>);

impl Silence {
    /// A client's server has not answered.
    pub(crate) fn on_silence(&self, ends: [SocketAddr; 2]) {
        let mut silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = ends.map(|end| end.ip());
        if silent.len() < MOST && !silent.contains(&ends) {
            silent.push(ends);
        }
    }

    /// Those since the last call.
    pub(crate) fn take(&self) -> Vec<[IpAddr; 2]> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Most of them a second; a client that is left out is noticed with its next server.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_told_once_for_each_client_and_no_more_than_are_tried() {
        let silence = Silence::default();
        let ends = |client| [SocketAddr::from(([10, 1, 0, client], 5)), "10.3.0.1:80".parse().unwrap()];
        for client in (0..=u8::MAX).chain(0..9) {
            silence.on_silence(ends(client));
        }
        let clients: Vec<_> = silence.take().into_iter().map(|[client, _]| client).collect();
        assert_eq!(clients, (0..64).map(|client| ends(client)[0].ip()).collect::<Vec<_>>());
        assert!(silence.take().is_empty());
    }
}
