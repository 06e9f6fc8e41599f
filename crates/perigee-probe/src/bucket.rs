//! Rate limits by token buckets: a fixed number of them, which addresses share by a keyed hash.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use perigee_units::Time;

use crate::code::Token;

/// A token bucket of `per_s` tokens per second, with a depth of one second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    per_s: f64,
    left: f64,
    at: Time,
}

impl Bucket {
    pub(crate) fn new(per_s: u32) -> Self {
        let per_s = f64::from(per_s);
        Self { per_s, left: per_s, at: Time::ZERO }
    }

    /// Takes a token, if one is left at `now`.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        self.left = self.per_s.min(self.left + (now - self.at).as_secs_f64() * self.per_s);
        self.at = self.at.max(now);
        let has = self.left >= 1.0;
        self.left -= f64::from(u8::from(has));
        has
    }
}

/// Buckets for unverified addresses. Datagrams with forged sources cannot use more memory than this, and cannot choose
/// the bucket that a source shares, since the hash is keyed.
#[derive(Debug)]
pub(crate) struct Shared {
    key: Token,
    buckets: Vec<Bucket>,
}

impl Shared {
    pub(crate) fn new(key: Token, per_s: u32) -> Self {
        Self { key, buckets: vec![Bucket::new(per_s); SHARED] }
    }

    pub(crate) fn take(&mut self, now: Time, from: SocketAddr) -> bool {
        let hash = u64::from_be_bytes(self.key.code(&client(from).octets()));
        let at = hash as usize % self.buckets.len();
        self.buckets[at].take(now)
    }
}

/// The client that rate limits count an address as: an IPv4 address in either form, or an IPv6 /64, since one host may
/// hold any address of it.
pub(crate) fn client(peer: SocketAddr) -> Ipv6Addr {
    match peer.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)),
    }
}

/// Number of shared buckets.
const SHARED: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_as_many_as_a_second_has_at_once_and_then_at_its_rate() {
        let mut bucket = Bucket::new(10);
        let mut taken = |at_ms: u64| (0..100).filter(|_| bucket.take(Time::from_millis(at_ms))).count();
        assert_eq!((taken(5000), taken(5000), taken(5500), taken(65_500)), (10, 0, 5, 10));
    }

    #[test]
    fn a_client_is_an_address_of_ipv4_or_a_network_of_ipv6() {
        let of = |text: &str| client(text.parse().unwrap());
        assert_eq!(of("192.0.2.1:1000"), of("[::ffff:192.0.2.1]:2000"));
        assert_ne!(of("192.0.2.1:1000"), of("192.0.2.2:1000"));
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:1:2:3]:1"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
    }

    #[test]
    fn an_address_that_uses_its_share_up_leaves_the_others_theirs() {
        let mut shared = Shared::new(Token::new(&[3; 32]), 5);
        let now = Time::from_secs(9);
        let greedy = "192.0.2.1:1".parse().unwrap();
        assert_eq!((0..100).filter(|_| shared.take(now, greedy)).count(), 5);
        let others = (1..=200u8).filter(|&n| shared.take(now, SocketAddr::from(([198, 51, 100, n], 1)))).count();
        assert!(others >= 199, "{others} of 200");
    }
}
