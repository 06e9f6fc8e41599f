//! Handshakes at the gateway with boxes whose certificates are not known yet. They are limited separately from the terminals, in
//! time, in all and per address. No handshake is refused because of others: the oldest one is dropped instead.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use perigee_quic::stack::ConnectionHandle;

/// Incomplete handshakes, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Handshakes(VecDeque<Handshake>);

#[derive(Debug)]
struct Handshake {
    handle: ConnectionHandle,
    network: IpAddr,
    deadline: Instant,
}

impl Handshakes {
    /// Whether new peers have to prove their address first, which costs a round trip (RFC 9000, section 8.1.2).
    pub(crate) fn ask_for_proof(&self) -> bool {
        self.0.len() >= UNPROVEN
    }

    /// Adds a handshake; returns the one that is dropped for it.
    pub(crate) fn begin(
        &mut self,
        handle: ConnectionHandle,
        address: IpAddr,
        now: Instant,
    ) -> Option<ConnectionHandle> {
        let network = network(address);
        let of_it = self.0.iter().filter(|one| one.network == network).count();
        let oldest = if of_it >= MOST_OF_ADDRESS {
            self.0.iter().position(|one| one.network == network)
        } else {
            (self.0.len() >= MOST).then_some(0)
        };
        let gives_way = oldest.and_then(|at| self.0.remove(at)).map(|one| one.handle);
        self.0.push_back(Handshake { handle, network, deadline: now + TIME });
        gives_way
    }

    /// Removes a handshake that is complete, or whose connection is lost.
    pub(crate) fn end(&mut self, handle: ConnectionHandle) {
        self.0.retain(|one| one.handle != handle);
    }

    /// Takes a handshake whose time is over.
    pub(crate) fn pop_late(&mut self, now: Instant) -> Option<ConnectionHandle> {
        self.0.front().filter(|one| one.deadline <= now)?;
        self.0.pop_front().map(|one| one.handle)
    }

    /// When the time of the first one is over.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.front().map(|one| one.deadline)
    }
}

/// The network whose addresses one host may have: the first 64 bits of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// Number of handshakes from which addresses have to be proven.
const UNPROVEN: usize = 8;
/// Maximum handshakes of an address: several terminals may share it behind NAT.
const MOST_OF_ADDRESS: usize = 32;
/// Maximum handshakes in all.
const MOST: usize = 256;
/// Time for a handshake: some round trips over a satellite, with losses.
const TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_an_address_makes_way_for_its_next() {
        let (mut all, now) = (Handshakes::default(), crate::host::clock::instant());
        let (peer, stranger) = (IpAddr::from([192, 0, 2, 1]), "2001:db8::".parse::<Ipv6Addr>().unwrap());
        assert_eq!(all.begin(ConnectionHandle(1_000), peer, now), None);
        for at in 0..MOST_OF_ADDRESS + 3 {
            // Each comes from another address of one network.
            let address = Ipv6Addr::from_bits(stranger.to_bits() + at as u128).into();
            let gives_way = all.begin(ConnectionHandle(at), address, now);
            assert_eq!(gives_way, at.checked_sub(MOST_OF_ADDRESS).map(ConnectionHandle));
        }
        assert!(all.ask_for_proof() && all.0.iter().any(|one| one.handle == ConnectionHandle(1_000)));
    }

    #[test]
    fn there_is_a_bound_in_all_and_a_time() {
        let (mut all, now) = (Handshakes::default(), crate::host::clock::instant());
        for at in 0..MOST {
            assert_eq!(all.begin(ConnectionHandle(at), IpAddr::from([10, 0, (at >> 8) as u8, at as u8]), now), None);
        }
        assert_eq!(all.begin(ConnectionHandle(MOST), IpAddr::from([10, 1, 0, 0]), now), Some(ConnectionHandle(0)));
        all.end(ConnectionHandle(1));
        assert_eq!((all.next(), all.pop_late(now)), (Some(now + TIME), None));
        assert_eq!(all.pop_late(now + TIME), Some(ConnectionHandle(2)));
    }
}
