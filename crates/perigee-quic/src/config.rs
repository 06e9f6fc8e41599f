//! The settings of an endpoint, and the stack's configuration made of them.

use std::sync::Arc;

use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq_proto::{AckFrequencyConfig, IdleTimeout, TransportConfig, VarInt};
use perigee_cc::Selected;
use perigee_units::Time;

use crate::clock;
use crate::null::Ticket;

/// Makes the congestion control of a connection.
pub(crate) type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// The settings of one endpoint. Both ends of a connection have their own.
#[derive(Clone, Debug)]
pub struct Config {
    /// Payload of the largest UDP datagram, bytes: 1200 to 65527. Path MTU discovery is off. An algorithm's packet has this size.
    pub datagram_bytes: u16,
    /// First congestion window, packets (RFC 9002, section 7.2).
    pub initial_window: u32,
    /// Flow control of a stream, bytes: how much the peer may send beyond what has been read of it.
    pub stream_window: u64,
    /// Flow control of the connection, bytes: how much the peer may send beyond what has been read.
    pub connection_window: u64,
    /// Most bytes that are written to streams and not yet acknowledged.
    pub send_window: u64,
    /// Most streams of each direction that the peer may have open.
    pub streams: u32,
    /// Waiting streams are served in turn; otherwise one after another.
    pub fair_streams: bool,
    /// Acknowledgements that this end asks of its peer; `None`: every second packet (RFC 9000, section 13.2.2).
    pub ack_frequency: Option<AckFrequency>,
    /// The connection ends after this time without a packet; `None`: never.
    pub idle_timeout: Option<Time>,
    /// How a server sees that its client is where it says.
    pub address_validation: AddressValidation,
    /// Data before the handshake is complete.
    pub early_data: EarlyData,
    /// Keys of packets.
    pub keys: Keys,
    /// Size of a server's certificates and what proves them, bytes; with [`Keys::Null`] only, others have their own.
    pub certificate_bytes: usize,
    /// Version on the wire: the only one that the endpoint speaks.
    pub version: u32,
    /// Packets are ECN-capable, and marks are echoed.
    pub ecn: bool,
    /// Packets are paced whatever the algorithm says, at Linux's rate for windows. Otherwise only algorithms that ask for it pace.
    pub pacing: bool,
    /// Who controls congestion.
    pub control: Control,
    /// Keeps a log, see [`crate::Endpoint::take_qlog`]. Packets and frames are in it with [`Keys::Null`] only: others have secrets.
    pub qlog: bool,
}

/// A request for fewer acknowledgements (draft-ietf-quic-ack-frequency).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckFrequency {
    /// Packets that may arrive before one is acknowledged at once: an acknowledgement for each `packets + 1`.
    pub packets: u32,
    /// Longest delay of an acknowledgement; `None`: the peer's, 25 ms.
    pub delay: Option<Time>,
}

/// How a server validates the address of a client (RFC 9000, section 8.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AddressValidation {
    /// The handshake does: the server sends at most three times what it has received before.
    #[default]
    Handshake,
    /// A Retry packet does, which costs a round trip.
    Retry,
}

/// Data of the first flight (RFC 9001, section 4.6).
#[derive(Clone, Debug, Default)]
pub enum EarlyData {
    /// None: a client waits for the handshake, and a server refuses.
    #[default]
    Off,
    /// A server accepts them.
    Accepted,
    /// A client sends them: it has the ticket of an earlier connection.
    Resumed(Box<Ticket>),
}

/// Keys of packets.
#[derive(Clone, Default)]
pub enum Keys {
    /// None: packets have their sizes and their handshake, and no secret. Runs of a seed are equal.
    #[default]
    Null,
    /// TLS 1.3 of a client, and the name of the server.
    #[cfg(feature = "tls")]
    Client(Arc<noq_proto::crypto::rustls::QuicClientConfig>, String),
    /// TLS 1.3 of a server.
    #[cfg(feature = "tls")]
    Server(Arc<noq_proto::crypto::rustls::QuicServerConfig>),
}

/// Who controls congestion.
#[derive(Clone, Debug)]
pub enum Control {
    /// An algorithm of `algorithms/` or of an author.
    Algorithm(Box<Selected>),
    /// The stack's own.
    Stack(StackControl),
}

/// The congestion controls of the stack itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackControl {
    /// RFC 9002, section 7.
    Reno,
    /// CUBIC, without HyStart.
    Cubic,
    /// `BBRv3`.
    Bbr3,
}

impl Config {
    /// [`Config::new`] with an algorithm of `algorithms/` or of an author.
    pub fn with(algorithm: Selected) -> Self {
        Self::new(Control::Algorithm(Box::new(algorithm)))
    }

    /// The defaults of the stack: 1.25 MB for each stream, 30 s of idleness, every second packet acknowledged; and a fixed datagram size
    /// that fills an IPv4 packet of 1500 bytes.
    pub fn new(control: Control) -> Self {
        Self {
            datagram_bytes: 1472,
            initial_window: 10,
            stream_window: 1_250_000,
            connection_window: VarInt::MAX.into_inner(),
            send_window: 10_000_000,
            streams: 100,
            fair_streams: true,
            ack_frequency: None,
            idle_timeout: Some(Time::from_secs(30)),
            address_validation: AddressValidation::default(),
            early_data: EarlyData::default(),
            keys: Keys::default(),
            certificate_bytes: 1000,
            version: 1,
            ecn: false,
            pacing: false,
            control,
            qlog: false,
        }
    }

    /// The stack's settings of a connection.
    pub(crate) fn transport(&self, factory: Option<Factory>) -> TransportConfig {
        let mut transport = TransportConfig::default();
        transport
            .initial_mtu(self.datagram_bytes)
            .min_mtu(self.datagram_bytes)
            .mtu_discovery_config(None)
            .stream_receive_window(var_int(self.stream_window))
            .receive_window(var_int(self.connection_window))
            .send_window(self.send_window)
            .send_fairness(self.fair_streams)
            .max_concurrent_bidi_streams(self.streams.into())
            .max_concurrent_uni_streams(self.streams.into())
            .max_idle_timeout(self.idle_timeout.map(idle_timeout))
            .ack_frequency_config(self.ack_frequency.map(ack_frequency))
            .datagram_receive_buffer_size(None)
            .allow_spin(false);
        match (&self.control, factory) {
            (Control::Algorithm(_), Some(factory)) => transport.congestion_controller_factory(factory),
            (Control::Stack(StackControl::Cubic), _) => {
                transport.congestion_controller_factory(Arc::new(CubicConfig::default()))
            }
            (Control::Stack(StackControl::Bbr3), _) => {
                transport.congestion_controller_factory(Arc::new(Bbr3Config::default()))
            }
            _ => transport.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        };
        transport
    }
}

#[cfg(feature = "tls")]
impl Keys {
    /// Real keys of a client, and the name of its server.
    ///
    /// # Errors
    /// If the configuration has no cipher suite for the first packets of QUIC.
    pub fn client(tls: noq_proto::rustls::ClientConfig, server: &str) -> Result<Self, String> {
        let tls = tls.try_into().map_err(|error: noq_proto::crypto::rustls::NoInitialCipherSuite| error.to_string())?;
        Ok(Self::Client(Arc::new(tls), server.to_owned()))
    }

    /// Real keys of a server.
    ///
    /// # Errors
    /// If the configuration has no cipher suite for the first packets of QUIC.
    pub fn server(tls: noq_proto::rustls::ServerConfig) -> Result<Self, String> {
        let tls = tls.try_into().map_err(|error: noq_proto::crypto::rustls::NoInitialCipherSuite| error.to_string())?;
        Ok(Self::Server(Arc::new(tls)))
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            #[cfg(feature = "tls")]
            Self::Client(..) => "Client",
            #[cfg(feature = "tls")]
            Self::Server(_) => "Server",
        })
    }
}

fn var_int(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

/// In milliseconds, the unit on the wire.
fn idle_timeout(timeout: Time) -> IdleTimeout {
    var_int(timeout.as_millis()).into()
}

fn ack_frequency(asked: AckFrequency) -> AckFrequencyConfig {
    let mut config = AckFrequencyConfig::default();
    config.ack_eliciting_threshold(asked.packets.into()).max_ack_delay(asked.delay.map(clock::duration));
    config
}
