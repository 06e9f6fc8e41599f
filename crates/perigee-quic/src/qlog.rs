//! The log of an endpoint in qlog (draft-ietf-quic-qlog-main-schema, draft-ietf-quic-qlog-quic-events): JSON texts in sequence (RFC 7464).
//!
//! Packets and frames are read off the datagrams, which have no secrets with [`crate::Keys::Null`], and are absent with others; losses,
//! window and round trips are the adapter's. The stack has a writer of its own, whose library switches the order of keys in all JSON of
//! the workspace.

mod frames;
mod packets;

use std::fmt;

use noq_proto::transport_parameters::TransportParameters;
use perigee_units::Time;

use crate::events::Closed;
use crate::info::Info;
use crate::{Config, Keys};
use frames::put;
pub(crate) use packets::Kind;
use packets::{Bytes, Hex, Packet, SPACES};

/// The log of one endpoint.
pub(crate) struct Qlog {
    text: String,
    is_server: bool,
    datagram_bytes: u64,
    /// The packet numbers that come next, of packets sent and received.
    next: [[u64; SPACES]; 2],
    is_begun: bool,
    knows_peer: bool,
    is_closed: bool,
    probes: u64,
    last: Metrics,
}

/// Kinds and lengths of the packets of a datagram, which real keys do not hide.
pub(crate) fn kinds(datagram: &[u8]) -> impl Iterator<Item = (Kind, usize)> + '_ {
    let mut rest = Bytes(datagram);
    std::iter::from_fn(move || packets::take(&mut rest, &[0; SPACES]).map(|packet| (packet.kind, packet.length)))
}

/// The values of an event of metrics, as its text; an event has those that have changed.
#[derive(Clone, Default, PartialEq)]
struct Metrics([Option<String>; NAMES.len()]);

impl Qlog {
    pub(crate) fn new(config: &Config, is_server: bool) -> Self {
        Self {
            text: String::new(),
            is_server,
            datagram_bytes: config.datagram_bytes.into(),
            next: [[0; SPACES]; 2],
            is_begun: false,
            knows_peer: false,
            is_closed: false,
            probes: 0,
            last: Metrics::default(),
        }
    }

    /// The file.
    pub(crate) fn into_file(self) -> Vec<u8> {
        self.text.into_bytes()
    }

    /// A datagram was sent, or has arrived.
    pub(crate) fn datagram(&mut self, now: Time, is_sent: bool, datagram: &[u8], config: &Config) {
        let mut rest = Bytes(datagram);
        while let Some(packet) = packets::take(&mut rest, &self.next[usize::from(is_sent)]) {
            if !self.is_begun {
                self.begin(now, is_sent, &packet, config);
            }
            if !matches!(config.keys, Keys::Null) {
                return;
            }
            if let (Some(space), Some(number)) = (packet.kind.space(), packet.number) {
                let next = &mut self.next[usize::from(is_sent)][space];
                *next = (*next).max(number + 1);
            }
            self.packet(now, is_sent, &packet);
        }
    }

    /// The peer's transport parameters are known.
    pub(crate) fn peer(&mut self, now: Time, parameters: &TransportParameters) {
        if self.knows_peer {
            return;
        }
        self.knows_peer = true;
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let (mut bytes, mut found) = (Bytes(&encoded), Vec::new());
        while let (Some(id), Some(value)) = (bytes.number(), bytes.block()) {
            let name = PARAMETERS.iter().find(|(known, _)| *known == id);
            if let Some(((_, name), value)) = name.zip(Bytes(value).number()) {
                found.push((*name, value));
            }
        }
        self.parameters(now, "remote", &found);
    }

    /// The stack has declared packets with these numbers lost.
    pub(crate) fn lost(&mut self, now: Time, numbers: &[u64]) {
        let [initial, handshake, _] = self.next[1];
        let in_handshake = initial.max(handshake);
        for number in numbers {
            // The stack does not name the space: numbers beyond those of the handshake, if they are known, are data's.
            let kind = if in_handshake > 0 && *number >= in_handshake { "1RTT" } else { "unknown" };
            self.event(now, "packet_lost");
            put(&mut self.text, format_args!(r#"{{"header":{{"packet_type":"{kind}","packet_number":{number}}}}}"#));
            self.end();
        }
    }

    /// The state after an event: what has changed in it is written.
    pub(crate) fn state(&mut self, now: Time, info: &Info, closed: Option<&Closed>) {
        let metrics = Metrics::of(info, self.datagram_bytes);
        if metrics != self.last {
            self.event(now, "recovery_metrics_updated");
            let mut separator = '{';
            for ((name, value), before) in NAMES.iter().zip(&metrics.0).zip(&self.last.0) {
                if let Some(value) = value.as_ref().filter(|_| value != before) {
                    put(&mut self.text, format_args!(r#"{separator}"{name}":{value}"#));
                    separator = ',';
                }
            }
            self.text.push_str(if separator == '{' { "{}" } else { "}" });
            self.end();
            self.last = metrics;
        }
        let probes = info.probe_timeouts.unwrap_or_default();
        if probes > self.probes {
            self.probes = probes;
            self.event(now, "timer_updated");
            self.text.push_str(r#"{"timer_type":"pto","event_type":"expired"}"#);
            self.end();
        }
        if let Some(closed) = closed.filter(|_| !self.is_closed) {
            self.is_closed = true;
            self.event(now, "connection_closed");
            let (initiator, trigger) = match closed {
                Closed::Here => ("local", "application"),
                Closed::ByPeer(_) => ("remote", "application"),
                Closed::TimedOut => ("local", "idle_timeout"),
                Closed::VersionMismatch => ("local", "version_mismatch"),
                Closed::Reset => ("remote", "stateless_reset"),
                Closed::Error(_) => ("local", "error"),
            };
            put(&mut self.text, format_args!(r#"{{"initiator":"{initiator}","trigger":"{trigger}"}}"#));
            self.end();
        }
    }

    /// The head of the file and the events of a beginning, whose connection is named after the client's first packet.
    fn begin(&mut self, now: Time, is_sent: bool, packet: &Packet<'_>, config: &Config) {
        self.is_begun = true;
        let side = if self.is_server { "server" } else { "client" };
        let group = Hex(packet.destination);
        put(
            &mut self.text,
            format_args!(
                "\u{1e}{{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\
                 \"serialization_format\":\"application/qlog+json-seq\",\"trace\":{{\
                 \"common_fields\":{{\"group_id\":\"{group}\",\"time_format\":\"relative_to_epoch\",\
                 \"reference_time\":{{\"clock_type\":\"monotonic\",\"epoch\":\"unknown\"}}}},\
                 \"vantage_point\":{{\"name\":\"perigee\",\"type\":\"{side}\"}},\
                 \"event_schemas\":[\"urn:ietf:params:qlog:events:quic-12\"]}}}}\n"
            ),
        );
        let ends = [packet.source.unwrap_or_default(), packet.destination];
        let [local, remote] = if is_sent { ends } else { [ends[1], ends[0]] };
        self.event(now, "connection_started");
        let (local, remote) = (Hex(local), Hex(remote));
        put(
            &mut self.text,
            format_args!(r#"{{"local":{{"connection_ids":["{local}"]}},"remote":{{"connection_ids":["{remote}"]}}}}"#),
        );
        self.end();
        let (stream, streams) = (config.stream_window, config.streams.into());
        let idle = config.idle_timeout.unwrap_or(Time::ZERO).as_millis();
        let own = [
            ("max_idle_timeout", idle),
            ("initial_max_data", config.connection_window.min(LARGEST)),
            ("initial_max_stream_data_bidi_local", stream),
            ("initial_max_stream_data_bidi_remote", stream),
            ("initial_max_stream_data_uni", stream),
            ("initial_max_streams_bidi", streams),
            ("initial_max_streams_uni", streams),
        ];
        self.parameters(now, "local", &own);
    }

    fn parameters(&mut self, now: Time, initiator: &str, values: &[(&str, u64)]) {
        self.event(now, "parameters_set");
        put(&mut self.text, format_args!(r#"{{"initiator":"{initiator}""#));
        for (name, value) in values {
            put(&mut self.text, format_args!(r#","{name}":{value}"#));
        }
        self.text.push('}');
        self.end();
    }

    fn packet(&mut self, now: Time, is_sent: bool, packet: &Packet<'_>) {
        self.event(now, if is_sent { "packet_sent" } else { "packet_received" });
        put(&mut self.text, format_args!(r#"{{"header":{{"packet_type":"{}""#, packet.kind.name()));
        if let Some(number) = packet.number {
            put(&mut self.text, format_args!(r#","packet_number":{number}"#));
        }
        if let Some(version) = packet.version {
            put(&mut self.text, format_args!(r#","version":"{version:08x}""#));
        }
        if let Some(source) = packet.source {
            put(&mut self.text, format_args!(r#","scid":"{}""#, Hex(source)));
        }
        let (destination, length) = (Hex(packet.destination), packet.length);
        put(&mut self.text, format_args!(r#","dcid":"{destination}"}},"raw":{{"length":{length}}}"#));
        if packet.number.is_some() {
            self.text.push_str(r#","frames":["#);
            frames::write(packet.frames, &mut self.text);
            self.text.push(']');
        }
        self.text.push('}');
        self.end();
    }

    /// Begins a record of QUIC's events up to its data.
    fn event(&mut self, now: Time, name: &str) {
        let time = Millis(now);
        put(&mut self.text, format_args!("\u{1e}{{\"time\":{time},\"name\":\"quic:{name}\",\"data\":"));
    }

    fn end(&mut self) {
        self.text.push_str("}\n");
    }
}

impl Metrics {
    fn of(info: &Info, datagram_bytes: u64) -> Self {
        let time = |time: Time| (time > Time::ZERO).then(|| Millis(time).to_string());
        let bytes = |packets: u32| (u64::from(packets) * datagram_bytes).to_string();
        Self([
            time(info.srtt),
            info.rtt_min.and_then(time),
            Some(bytes(info.cwnd)),
            info.ssthresh.map(bytes),
            info.inflight.map(|packets| packets.to_string()),
            info.pacing_rate_bps.map(|rate| rate.to_string()),
        ])
    }
}

/// A time in milliseconds.
struct Millis(Time);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        write!(f, "{}.{:06}", ns / 1_000_000, ns % 1_000_000)
    }
}

/// The largest number that QUIC can say (RFC 9000, section 16).
const LARGEST: u64 = (1 << 62) - 1;
const NAMES: [&str; 6] =
    ["smoothed_rtt", "min_rtt", "congestion_window", "ssthresh", "packets_in_flight", "pacing_rate"];
/// Transport parameters that are numbers (RFC 9000, section 18.2).
const PARAMETERS: [(u64, &str); 11] = [
    (0x01, "max_idle_timeout"),
    (0x03, "max_udp_payload_size"),
    (0x04, "initial_max_data"),
    (0x05, "initial_max_stream_data_bidi_local"),
    (0x06, "initial_max_stream_data_bidi_remote"),
    (0x07, "initial_max_stream_data_uni"),
    (0x08, "initial_max_streams_bidi"),
    (0x09, "initial_max_streams_uni"),
    (0x0a, "ack_delay_exponent"),
    (0x0b, "max_ack_delay"),
    (0x0e, "active_connection_id_limit"),
];
