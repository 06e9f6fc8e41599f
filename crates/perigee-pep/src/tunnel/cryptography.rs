//! The cryptography of the tunnel: what both boxes use, and nothing else of the libraries, which have RSA and two further curves.
//!
//! TLS 1.3 with the ciphers of QUIC (RFC 9001, section 5.3), keys agreed by X25519 (RFC 7748), and identities of Ed25519 (RFC 8410).

use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::ring::{kx_group, ALL_CIPHER_SUITES};
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms};
use rustls::pki_types::{alg_id, CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::SigningKey;
use rustls::{Error, SignatureScheme};

/// The algorithms for [`rustls`].
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: ALL_CIPHER_SUITES.to_vec(),
        kx_groups: vec![kx_group::X25519],
        signature_verification_algorithms: SIGNATURES,
        secure_random: &System,
        key_provider: &System,
    }
}

/// Whether the key of a certificate is of the known kind.
pub(super) fn has_known_kind(certificate: &CertificateDer<'_>) -> bool {
    // The key follows two bytes of each of two sequences: the whole, and its kind.
    let key = ParsedCertificate::try_from(certificate).map(|parsed| parsed.subject_public_key_info());
    key.is_ok_and(|key| key.get(4..).is_some_and(|kind| kind.starts_with(&alg_id::ED25519)))
}

/// The system's random numbers, and keys of the known kind.
#[derive(Debug)]
struct System;

impl SecureRandom for System {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        SystemRandom::new().fill(bytes).map_err(|_| GetRandomFailed)
    }
}

impl KeyProvider for System {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        match key {
            PrivateKeyDer::Pkcs8(key) => any_eddsa_type(&key),
            _ => Err(Error::General("no key of Ed25519".to_owned())),
        }
    }
}

static SIGNATURES: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[webpki::ring::ED25519],
    mapping: &[(SignatureScheme::ED25519, &[webpki::ring::ED25519])],
};
