//! The stack's configurations of a client and of a server, made of the settings of an endpoint.

use std::sync::Arc;

use noq_proto::ConnectionId;
use perigee_units::Stream;

use crate::clock::Calendar;
use crate::config::{Config, EarlyData, Factory, Keys};
use crate::null::{Handshake, NullKey};

/// The configuration of a client, and the name of its server.
pub(crate) fn client(settings: &Config, factory: Option<Factory>, seed: u64) -> (noq_proto::ClientConfig, String) {
    let (mut config, name) = match &settings.keys {
        Keys::Null => (noq_proto::ClientConfig::new(Arc::new(handshake(settings))), String::from("null")),
        #[cfg(feature = "tls")]
        Keys::Client(tls, name) => (noq_proto::ClientConfig::new(tls.clone()), name.clone()),
        #[cfg(feature = "tls")]
        Keys::Server(_) => panic!("keys of a server at a client"),
    };
    let first = Stream::new(seed, "quic first identifier").next_u64();
    let identifier = ConnectionId::new(&first.to_be_bytes());
    config
        .initial_dst_cid_provider(Arc::new(move || identifier))
        .transport_config(Arc::new(settings.transport(factory)))
        .token_store(Arc::new(noq_proto::NoneTokenStore))
        .version(settings.version);
    (config, name)
}

/// The configuration of a server.
pub(crate) fn server(settings: &Config, factory: Option<Factory>, calendar: Arc<Calendar>) -> noq_proto::ServerConfig {
    let mut config = match &settings.keys {
        Keys::Null => noq_proto::ServerConfig::new(Arc::new(handshake(settings)), NullKey::shared()),
        #[cfg(feature = "tls")]
        Keys::Server(tls) => noq_proto::ServerConfig::new(tls.clone(), NullKey::shared()),
        #[cfg(feature = "tls")]
        Keys::Client(..) => panic!("keys of a client at a server"),
    };
    config.transport_config(Arc::new(settings.transport(factory))).time_source(calendar).migration(false);
    config
}

fn handshake(settings: &Config) -> Handshake {
    let ticket = match &settings.early_data {
        EarlyData::Resumed(ticket) => Some((**ticket).clone()),
        EarlyData::Off | EarlyData::Accepted => None,
    };
    let accepts_early_data = matches!(settings.early_data, EarlyData::Accepted);
    Handshake { certificate_bytes: settings.certificate_bytes, ticket, accepts_early_data }
}
