//! Real keys: TLS 1.3 by rustls, with a certificate that a run makes for itself.

use std::io;
use std::sync::Arc;

use perigee_quic::rustls::client::Resumption;
use perigee_quic::rustls::crypto::ring::default_provider;
use perigee_quic::rustls::pki_types::PrivateKeyDer;
use perigee_quic::rustls::version::TLS13;
use perigee_quic::rustls::{ClientConfig, RootCertStore, ServerConfig};
use perigee_quic::Keys;
use perigee_sim::quic::MakeKeys;

pub(crate) struct RealKeys {
    client: ClientConfig,
    /// A server that takes early data.
    taking: Keys,
    /// One that has the same sessions, and refuses early data.
    refusing: Keys,
}

impl RealKeys {
    /// A new certificate, and the keys of servers that have it.
    pub(crate) fn new() -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).map_err(io::Error::other)?;
        let provider = Arc::new(default_provider());
        let client = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13]);
        let mut client = client.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
        client.enable_early_data = true;
        let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
        let server = server.map_err(io::Error::other)?.with_no_client_auth().with_single_cert(vec![certificate], key);
        let mut server = server.map_err(io::Error::other)?;
        let refusing = Keys::server(server.clone()).map_err(io::Error::other)?;
        server.max_early_data_size = u32::MAX;
        let taking = Keys::server(server).map_err(io::Error::other)?;
        Ok(Self { client, taking, refusing })
    }
}

impl MakeKeys for RealKeys {
    fn keys(&self, takes_early_data: bool) -> [Keys; 2] {
        let mut client = self.client.clone();
        // Only what this client has visited itself is resumed.
        client.resumption = Resumption::in_memory_sessions(SESSIONS);
        let client = Keys::client(client, NAME).expect("ring has the cipher suite of QUIC's first packets");
        [client, if takes_early_data { &self.taking } else { &self.refusing }.clone()]
    }
}

/// The server's name in its certificate.
const NAME: &str = "server";
/// Sessions that a client keeps: of one server.
const SESSIONS: usize = 4;
