//! Message authentication codes: proof of the token, and of an address that receives.

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Bytes of a message's authentication code.
pub(crate) const CODE: usize = 16;

/// A shared secret that makes codes: truncated HMAC-SHA256 (RFC 2104).
#[derive(Clone)]
pub struct Token(Hmac<Sha256>);

impl Token {
    /// From the shared secret, of any length.
    pub fn new(secret: &[u8]) -> Self {
        // HMAC takes keys of any length, so this cannot fail; the empty key satisfies the type.
        Self(Hmac::new_from_slice(secret).unwrap_or_else(|_| Hmac::new(&[0; 64].into())))
    }

    /// The first bytes of the HMAC of `message`.
    pub(crate) fn code<const N: usize>(&self, message: &[u8]) -> [u8; N] {
        let mut mac = self.0.clone();
        mac.update(message);
        let full = mac.finalize().into_bytes();
        let mut cut = [0; N];
        cut.copy_from_slice(&full[..N]);
        cut
    }

    /// Whether `code` is the code of `message`, compared in constant time.
    pub(crate) fn is_right(&self, message: &[u8], code: &[u8]) -> bool {
        let mut mac = self.0.clone();
        mac.update(message);
        mac.verify_truncated_left(code).is_ok()
    }

    /// The challenge of a session in a time slot, which only a host at `address` receives.
    pub(crate) fn challenge(&self, address: SocketAddr, session: u64, slot: u64) -> [u8; CODE] {
        let mut message = [0; 16 + 2 + 8 + 8];
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        message[..16].copy_from_slice(&ip.octets());
        message[16..18].copy_from_slice(&address.port().to_be_bytes());
        message[18..26].copy_from_slice(&session.to_be_bytes());
        message[26..].copy_from_slice(&slot.to_be_bytes());
        self.code(&message)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_that_of_the_published_example() {
        // RFC 4231, test case 2.
        let token = Token::new(b"Jefe");
        let code: [u8; 8] = token.code(b"what do ya want for nothing?");
        assert_eq!(code, [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
        assert!(token.is_right(b"what do ya want for nothing?", &code));
        assert!(!token.is_right(b"what do ya want for nothing!", &code));
        assert!(!token.is_right(b"what do ya want for nothing?", &[]));
    }

    #[test]
    fn a_challenge_is_for_one_address_one_session_and_one_slot() {
        let token = Token::new(b"secret");
        let here: SocketAddr = "192.0.2.1:5000".parse().unwrap();
        let base = token.challenge(here, 1, 1);
        assert_ne!(base, token.challenge("192.0.2.1:5001".parse().unwrap(), 1, 1));
        assert_ne!(base, token.challenge("192.0.2.2:5000".parse().unwrap(), 1, 1));
        assert_ne!(base, token.challenge(here, 2, 1));
        assert_ne!(base, token.challenge(here, 1, 2));
    }
}
