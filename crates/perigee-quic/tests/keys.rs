//! Real keys: TLS 1.3 by rustls, with a certificate made for the test.

use std::sync::Arc;

use perigee_quic::rustls::crypto::ring::default_provider;
use perigee_quic::rustls::pki_types::PrivateKeyDer;
use perigee_quic::rustls::version::TLS13;
use perigee_quic::rustls::{ClientConfig, RootCertStore, ServerConfig};
use perigee_quic::{Config, Keys};
use perigee_units::{Bytes, Rate, Time};

use crate::common::{download, unbounded, Path, CLIENT, SERVER};

fn keys() -> [Keys; 2] {
    let made = rcgen::generate_simple_self_signed(["server".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let provider = Arc::new(default_provider());
    let client = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13]);
    let client = client.expect("TLS 1.3").with_root_certificates(roots).with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
    let server = server.expect("TLS 1.3").with_no_client_auth().with_single_cert(vec![certificate], key);
    [
        Keys::client(client, "server").expect("a cipher suite"),
        Keys::server(server.expect("the key is the certificate's")).expect("a cipher suite"),
    ]
}

#[test]
fn a_download_with_real_keys_takes_the_packets_and_the_time_of_one_without() {
    let path = Path {
        rate: Rate::from_mbps(20.0),
        delay: Time::from_millis(20),
        queue: Bytes::new(200_000),
        silence: Time::MAX..Time::MAX,
        loses: |_| false,
    };
    let [client, server] = keys().map(|keys| Config { keys, ..unbounded("reno") });
    let null = unbounded("reno");
    let [real, null] = [[&client, &server], [&null, &null]].map(|ends| {
        let download = download(&path, ends, 2_000_000, Time::from_secs(60));
        let sent = [CLIENT, SERVER].map(|end| download.departures[end].len() as f64);
        (download.done.expect("it completes").as_secs_f64(), sent[CLIENT], sent[SERVER])
    });
    for (real, null) in [(real.0, null.0), (real.1, null.1), (real.2, null.2)] {
        assert!((0.99..1.01).contains(&(real / null)), "{real} for {null}");
    }
}
