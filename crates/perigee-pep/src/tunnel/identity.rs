//! Identity of the boxes: each has its own certificate and knows those of its peers, byte for byte.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use perigee_quic::stack::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use perigee_quic::stack::{ConnectionIdGenerator, EndpointConfig, HashedConnectionIdGenerator};
use ring::hmac;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::Resumption;
use rustls::crypto::{verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::NoServerSessionStorage;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::cryptography::{has_known_kind, provider};
use crate::config::{Network, Tunnel};
use crate::error::ServiceError;

/// The certificate of this box with its key, and those of its peers.
pub(crate) struct Identity {
    own: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    peers: Arc<Peers>,
}

/// Certificates of the boxes that this one speaks with; of a terminal perhaps with the networks of its clients.
#[derive(Debug)]
pub(crate) struct Known(Vec<(CertificateDer<'static>, Option<Vec<Network>>)>);

/// Accepts only known certificates, whatever their signature.
#[derive(Debug)]
pub(crate) struct Peers {
    known: RwLock<Known>,
    provider: Arc<CryptoProvider>,
}

impl Known {
    /// Reads the files that the configuration names.
    pub(crate) fn read(tunnel: &Tunnel) -> Result<Self, ServiceError> {
        let mut known = Vec::new();
        if let Some(peers) = &tunnel.peers {
            known.extend(certificates(peers)?.into_iter().map(|certificate| (certificate, None)));
        }
        for terminal in &tunnel.terminals {
            let all = certificates(&terminal.certificate)?;
            known.extend(all.into_iter().map(|certificate| (certificate, Some(terminal.sources.clone()))));
        }
        Ok(Self(known))
    }
}

impl Identity {
    /// Reads the files that the configuration names.
    pub(crate) fn read(tunnel: &Tunnel) -> Result<Self, ServiceError> {
        let own = certificates(&tunnel.certificate)?.swap_remove(0);
        let key = private_key(&tunnel.key)?;
        let provider = Arc::new(provider());
        provider.key_provider.load_private_key(key.clone_key()).map_err(|_| wrong(&tunnel.key, other_kind()))?;
        let known = RwLock::new(Known::read(tunnel)?);
        let identity = Self { own, key, peers: Arc::new(Peers { known, provider }) };
        identity.server().map_err(|error| {
            let what = format!("it does not belong to {} ({error})", tunnel.certificate.display());
            wrong(&tunnel.key, format!("{what}; name the key that was made with the certificate"))
        })?;
        Ok(identity)
    }

    /// The boxes that this one speaks with.
    pub(crate) fn peers(&self) -> Arc<Peers> {
        self.peers.clone()
    }

    /// QUIC settings of this box. Connection identifiers and reset tokens are derived from its key, so that a restarted box
    /// recognizes earlier ones: it resets them, and the other box does not wait for a timeout (RFC 9000, section 10.3).
    pub(crate) fn endpoint(&self) -> EndpointConfig {
        let own = hmac::Key::new(hmac::HMAC_SHA256, self.key.secret_der());
        let resets = hmac::sign(&own, b"perigee-pep stateless reset");
        let mut config = EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, resets.as_ref())));
        let mut identifiers = [0; 8];
        identifiers.copy_from_slice(&hmac::sign(&own, b"perigee-pep connection identifiers").as_ref()[..8]);
        let identifiers = u64::from_be_bytes(identifiers);
        let make =
            move || Box::new(HashedConnectionIdGenerator::from_key(identifiers)) as Box<dyn ConnectionIdGenerator>;
        config.cid_generator(Arc::new(make));
        config
    }

    /// TLS settings of the gateway.
    pub(crate) fn server(&self) -> Result<QuicServerConfig, Error> {
        let builder = rustls::ServerConfig::builder_with_provider(self.peers.provider.clone());
        let mut config = builder
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(self.peers.clone())
            .with_single_cert(vec![self.own.clone()], self.key.clone_key())?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A session that is resumed shows no certificate: that of a terminal may be known no more.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        QuicServerConfig::try_from(config).map_err(|error| Error::General(error.to_string()))
    }

    /// TLS settings of the terminal.
    pub(crate) fn client(&self) -> Result<QuicClientConfig, Error> {
        let builder = rustls::ClientConfig::builder_with_provider(self.peers.provider.clone());
        let mut config = builder
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(self.peers.clone())
            .with_client_auth_cert(vec![self.own.clone()], self.key.clone_key())?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        QuicClientConfig::try_from(config).map_err(|error| Error::General(error.to_string()))
    }
}

/// The certificates of a file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServiceError> {
    let bytes = fs::read(path).map_err(|error| ServiceError::File { path: path.to_owned(), error })?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match read {
        Ok(all) if !all.is_empty() && all.iter().all(has_known_kind) => Ok(all),
        Ok(all) if !all.is_empty() => Err(wrong(path, other_kind())),
        _ => Err(wrong(path, "it has no certificate; name a PEM file with one".to_owned())),
    }
}

/// The private key of a file that only its owner can read.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ServiceError> {
    let system = |error: io::Error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            let what =
                format!("this user cannot read it; make the service's user its owner: chown USER {}", path.display());
            return wrong(path, what);
        }
        ServiceError::File { path: path.to_owned(), error }
    };
    let mut file = File::open(path).map_err(system)?;
    let mode = file.metadata().map_err(system)?.permissions().mode();
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(system)?;
    let key = PrivateKeyDer::from_pem_slice(&content)
        .map_err(|_| wrong(path, "it has no private key; name a PEM file with one".to_owned()))?;
    if mode & OTHERS != 0 {
        let fix = format!("take that right away: chmod 600 {}", path.display());
        return Err(wrong(path, format!("other users of this machine can use it (mode {:04o}); {fix}", mode & 0o7777)));
    }
    Ok(key)
}

fn other_kind() -> String {
    "its key is not of Ed25519, the kind that the tunnel knows; make it anew: `openssl req -x509 -newkey ed25519 ...`"
        .to_owned()
}

fn wrong(path: &Path, what: String) -> ServiceError {
    ServiceError::Pem { path: path.to_owned(), what }
}

impl Peers {
    /// Whether a certificate is one of theirs.
    pub(crate) fn know(&self, certificate: &CertificateDer<'_>) -> bool {
        self.known().0.iter().any(|(known, _)| known == certificate)
    }

    /// Whether a client may be behind the terminal of a certificate: a terminal that is named with networks has clients of these only.
    pub(crate) fn has_client(&self, certificate: &CertificateDer<'_>, client: IpAddr) -> bool {
        let known = self.known();
        let own = known.0.iter().filter(|(known, _)| known == certificate);
        let mut networks = own.filter_map(|(_, sources)| sources.as_ref()).peekable();
        networks.peek().is_none() || networks.flatten().any(|network| network.contains(client))
    }

    /// Replaces them.
    pub(crate) fn replace(&self, known: Known) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        if self.know(certificate) {
            return Ok(());
        }
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }
}

impl ServerCertVerifier for Peers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC has TLS 1.3 only".to_owned()))
    }

    /// Whether the other box holds the key of its certificate.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Peers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }
}

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
/// Name of the protocol in QUIC's negotiation (ALPN).
const PROTOCOL: &[u8] = b"perigee-pep/1";
