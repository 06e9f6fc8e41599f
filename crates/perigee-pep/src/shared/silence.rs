//! Servers that have not answered while others did.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use perigee_units::Time;

/// Clients and their silent servers, and when a server has answered last.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// In nanoseconds; 0: none ever.
    answered: AtomicU64,
    silent: Mutex<Vec<[IpAddr; 2]>>,
}

impl Silence {
    /// A server has answered.
    pub(crate) fn on_answer(&self, now: Time) {
        self.answered.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// A server that was dialled at `began` has not answered. In an outage of the link no server answers: that says nothing about this
    /// one, unless none ever did.
    pub(crate) fn on_silence(&self, [client, server]: [SocketAddr; 2], began: Time) {
        let answered = self.answered.load(Ordering::Relaxed);
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = [client.ip(), server.ip()];
        if (answered == 0 || answered >= began.as_nanos()) && silent.len() < MOST && !silent.contains(&ends) {
            silent.push(ends);
        }
    }

    /// Those since the last call.
    pub(crate) fn take(&self) -> Vec<[IpAddr; 2]> {
        std::mem::take(&mut *self.silent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Most of them a second; a client that is left out is noticed with its next server.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_silent_if_others_answered_meanwhile_or_none_ever_did() {
        let (silence, at) = (Silence::default(), Time::from_secs);
        let ends = |last| ["10.1.0.2:5".parse().unwrap(), SocketAddr::from(([10, 3, 0, last], 80))];
        silence.on_silence(ends(1), at(1));
        silence.on_silence(ends(1), at(2));
        silence.on_answer(at(40));
        silence.on_silence(ends(2), at(41));
        silence.on_silence(ends(3), at(39));
        let servers: Vec<_> = silence.take().into_iter().map(|[_, server]| server).collect();
        assert_eq!(servers, [ends(1)[1].ip(), ends(3)[1].ip()]);
        assert!(silence.take().is_empty());
    }
}
