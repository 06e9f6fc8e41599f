//! QUIC flows: the key `quic`, what is refused on them, and their settings in words.

use std::fmt::{self, Display, Formatter};

use perigee_cc::Selected;
use perigee_results::Name;
use perigee_text::{key, text_of, Kind, Node, Read, Reader, Section, Special, StrictError, DAYS_30, LARGEST};
use perigee_traffic::{Http, Population, Visitors};
use perigee_units::{Bytes, Encode, Time};
use serde_json::json;

use crate::packets::Packets;
use crate::run::{FlowSpec, QuicLoad, Scenario, Traffic};
use crate::transport::{Opener, Quic, QuicHandshake, StreamWindow};

/// `quic` of a flow.
pub(crate) static QUIC: Section = Section {
    name: "flows.quic",
    keys: &[
        key(
            "handshake",
            Kind::Word(QuicHandshake::WORDS),
            "1-rtt",
            "`1-rtt`: data follow the handshake, which takes one round trip. `0-rtt`: they leave with the client's \
             first packets, with keys of an earlier connection (RFC 9001, section 4.6). `0-rtt-rejected`: the server \
             rejects these data, which are sent again after the handshake.",
        ),
        key(
            "retry",
            Kind::Bool,
            "false",
            "Whether the server validates the client's address by a Retry packet, a round trip before the handshake \
             (RFC 9000, section 8.1.2).",
        ),
        key(
            "server_version",
            Kind::Word(SERVER_VERSIONS),
            "v1",
            "The version of QUIC that the server has; the client has `v1`. With `draft-29` it answers by Version \
             Negotiation, and the connection fails (RFC 9000, section 6).",
        ),
        key(
            "streams",
            Kind::Word(&["per-response", "one"]),
            "per-response",
            "`per-response`: each request and its response have a stream of their own, as in HTTP/3. `one`: a stream \
             for all of a connection, on which a lost packet holds up all that follows, as in TCP.",
        ),
        key(
            "initial_max_stream_data",
            Kind::Special(&WINDOW),
            "default",
            "Flow-control window of a stream (RFC 9000, section 4). `default`: 1.25 MB, as several stacks have it. \
             `tuned`: twice the bandwidth-delay product of the flow's path, and no less than `default`. It is the \
             window for the whole connection.",
        ),
        key(
            "initial_max_data",
            Kind::Size { min: Bytes::new(1), max: LARGEST },
            "",
            "Flow-control window of a connection. Not given: no limit but those of its streams.",
        ),
        key(
            "ack_eliciting_threshold",
            Kind::Integer { min: 0, max: 1000 },
            "1",
            "How many ack-eliciting packets the receiver takes without an acknowledgement at once \
             (draft-ietf-quic-ack-frequency): 0 acknowledges each packet, 1 every second one (RFC 9000, section \
             13.2.2).",
        ),
        key(
            "max_ack_delay",
            Kind::Time { min: Time::from_millis(1), max: Time::from_secs(1) },
            "25 ms",
            "Longest delay of an acknowledgement.",
        ),
        key(
            "max_idle_timeout",
            Kind::Time { min: Time::from_millis(100), max: DAYS_30 },
            "30 s",
            "A connection on which nothing arrives for so long, or for three probe timeouts where they are longer, \
             is given up (RFC 9000, section 10.1).",
        ),
        key(
            "max_datagram_size",
            Kind::Size { min: Bytes::new(1200), max: Bytes::new(65_000) },
            "",
            "Payload of a full UDP datagram. Not given: 1472 B, with `ip = \"v6\"` 1452 B, which fill a packet of \
             1500 B. It is fixed: there is no discovery of the path's MTU (RFC 8899), and a \
             datagram whose packet is larger than a link's `mtu` is lost.",
        ),
        key(
            "initial_window",
            Kind::Integer { min: 2, max: 1000 },
            "10",
            "First congestion window, in datagrams (RFC 9002, section 7.2).",
        ),
        key(
            "ecn",
            Kind::Bool,
            "false",
            "Whether datagrams carry ECT(0), with the validation of RFC 9000, section 13.4: where the path clears the \
             field, the sender marks no more.",
        ),
    ],
};

/// A size, or how it is found.
static WINDOW: Special = Special {
    takes: "size, `default` or `tuned`",
    check: |node, what| StreamWindow::read(node, what).map(drop),
    schema: Some(|| json!({ "type": "string" })),
};

impl Scenario {
    /// The smaller one of the two windows of flow control of this flow, in words that reports look for.
    pub(crate) fn tightest_window(&self, flow: &FlowSpec, quic: &Quic) -> &'static str {
        let stream = self.stream_window(flow, quic.stream_window);
        if quic.window.is_some_and(|window| window.as_u64() < stream) {
            "by the connection"
        } else {
            "by streams"
        }
    }

    /// The flow-control window of a stream of this flow, bytes.
    pub fn stream_window(&self, flow: &FlowSpec, window: StreamWindow) -> u64 {
        match window {
            StreamWindow::Default => DEFAULT_STREAM_WINDOW,
            StreamWindow::Size(size) => size.as_u64(),
            StreamWindow::Tuned => {
                let links = |path: &[u32]| path.iter().map(|link| &self.links[*link as usize].spec).collect::<Vec<_>>();
                let (forward, back) = (links(&flow.forward), links(&flow.back));
                let rate = forward.iter().map(|link| link.rate.mean_bps()).fold(f64::INFINITY, f64::min);
                let round_trip: Time = forward.iter().chain(&back).map(|link| link.delay.typical()).sum();
                let product = rate * round_trip.as_secs_f64() / 8.0;
                // Without a limit of rate, the product has none.
                let twice = if product.is_finite() { (2.0 * product) as u64 } else { UNLIMITED };
                twice.clamp(DEFAULT_STREAM_WINDOW, UNLIMITED)
            }
        }
    }
}

impl QuicHandshake {
    const WORDS: &'static [&'static str] = &["1-rtt", "0-rtt", "0-rtt-rejected"];

    fn parse(word: &str) -> Self {
        match word {
            "0-rtt" => Self::ZeroRtt,
            "0-rtt-rejected" => Self::ZeroRttRejected,
            // The reader has refused all other words.
            _ => Self::OneRtt,
        }
    }
}

impl Display for QuicHandshake {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS[*self as usize])
    }
}

impl Read for StreamWindow {
    fn read(node: &Node, what: &str) -> Result<Self, StrictError> {
        match text_of(node) {
            Some("default") => Ok(Self::Default),
            Some("tuned") => Ok(Self::Tuned),
            _ => {
                let size = Bytes::read(node, what).map_err(|error| StrictError {
                    fix: "write a size such as \"6 MB\", \"default\" or \"tuned\"".into(),
                    ..error
                })?;
                Kind::Size { min: Bytes::new(1), max: LARGEST }.check(node, what)?;
                Ok(Self::Size(size))
            }
        }
    }
}

impl Display for StreamWindow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "{}, the default", Bytes::new(DEFAULT_STREAM_WINDOW)),
            Self::Tuned => f.write_str("twice the bandwidth-delay product"),
            Self::Size(size) => size.fmt(f),
        }
    }
}

/// The traffic of a QUIC flow.
pub(crate) fn traffic(
    table: &Reader<'_>,
    packets: Packets<'_>,
    mut load: QuicLoad,
    (cc, cc_params): (Selected, Name),
    opened_by: Opener,
) -> Result<Traffic, StrictError> {
    let flow = packets.flow;
    refuse_others(table, flow)?;
    let settings = table.inner_or_defaults("quic")?;
    let (algorithm, ecn) = (cc.algorithm(), settings.get("ecn")?);
    if algorithm.needs_ecn() || (ecn && algorithm.counts_marks()) {
        let name = algorithm.name();
        let message = format!("flow `{flow}`: `{name}` counts CE marks, which QUIC's stack does not report");
        return Err(if algorithm.needs_ecn() {
            table.error("cc", message, "choose another `cc`, or transport = \"tcp\"")
        } else {
            settings.error("ecn", message, "set quic.ecn = false, or choose another `cc`")
        });
    }
    let quic = Quic {
        cc,
        cc_params,
        opened_by,
        handshake: QuicHandshake::parse(&settings.get::<String>("handshake")?),
        retry: settings.get("retry")?,
        same_version: settings.get::<String>("server_version")? == SERVER_VERSIONS[0],
        stream_per_response: settings.get::<String>("streams")? != "one",
        stream_window: settings.get("initial_max_stream_data")?,
        window: settings.table.get("initial_max_data")?,
        ack_threshold: settings.get("ack_eliciting_threshold")?,
        max_ack_delay: settings.get("max_ack_delay")?,
        idle_timeout: settings.get("max_idle_timeout")?,
        datagram: settings
            .table
            .get::<Bytes>("max_datagram_size")?
            .map_or(ETHERNET_MTU - packets.ip.header_bytes() - UDP_HEADER, |size| size.as_u64() as u16),
        initial_window: settings.get("initial_window")?,
        ecn,
        passed: 0,
    };
    if let QuicLoad::Population(Population { source: Visitors::Pages(pages), .. }) = &mut load {
        // The handshake of QUIC has that of TLS in it.
        pages.tls = 0;
        pages.http = if quic.stream_per_response { Http::Streams } else { Http::Multiplexed };
    }
    Ok(Traffic::Quic { quic: Box::new(quic), load })
}

/// Refuses the keys of TCP, and those that name protocols above it.
fn refuse_others(table: &Reader<'_>, flow: &str) -> Result<(), StrictError> {
    let Some((key, why, fix)) = REFUSED.iter().find(|(key, ..)| table.table.has(key)) else { return Ok(()) };
    Err(table.error(key, format!("flow `{flow}`: `{key}` {why}"), *fix))
}

/// Refuses QUIC's settings on a flow over TCP.
pub(crate) fn refuse_on_tcp(table: &Reader<'_>, flow: &str) -> Result<(), StrictError> {
    if table.table.has("quic") {
        let message = format!("flow `{flow}`: `quic` is without effect while transport = \"tcp\"");
        return Err(table.error("quic", message, "add transport = \"quic\", or remove it"));
    }
    Ok(())
}

/// Whether a flow of these is over QUIC.
pub(crate) fn is_asked(table: &Reader<'_>) -> Result<bool, StrictError> {
    Ok(table.get::<String>("transport")? == QUIC_WORD)
}

/// The settings of a QUIC flow in words.
pub(crate) fn in_words(quic: &Quic) -> Vec<(&'static str, String)> {
    let version = if quic.same_version { "1" } else { "not that of the server" };
    let (streams, retry) =
        (if quic.stream_per_response { "one a response" } else { "one" }, if quic.retry { "on" } else { "off" });
    vec![
        ("transport", "QUIC; without encryption where it is simulated".to_owned()),
        ("QUIC's version", version.to_owned()),
        ("handshake", quic.handshake.to_string()),
        ("address validation by Retry", retry.to_owned()),
        ("streams", streams.to_owned()),
        ("window of a stream", quic.stream_window.to_string()),
        ("window of a connection", quic.window.map_or_else(|| "unlimited".to_owned(), |window| window.to_string())),
        ("packets before an acknowledgement", (quic.ack_threshold + 1).to_string()),
        ("longest delay of an acknowledgement", quic.max_ack_delay.to_string()),
        ("idle timeout", quic.idle_timeout.to_string()),
        ("datagrams", format!("{}, without discovery of the path's MTU", Bytes::new(quic.datagram.into()))),
        ("initial window", format!("{} datagrams", quic.initial_window)),
        ("ECN", if quic.ecn { "on" } else { "off" }.to_owned()),
    ]
}

impl Encode for QuicHandshake {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// Values of `transport`.
pub(crate) const TRANSPORTS: &[&str] = &["tcp", QUIC_WORD];
const QUIC_WORD: &str = "quic";
/// Values of `server_version`; the first is the client's.
const SERVER_VERSIONS: &[&str] = &["v1", "draft-29"];
/// Keys that a QUIC flow cannot have, each with the reason and what to do.
const REFUSED: [(&str, &str, &str); 3] = [
    ("tcp", "has settings of TCP, which QUIC has not", "remove it; the settings of QUIC are in `quic`"),
    ("protocol", "is HTTP/3 over QUIC", "remove it; `quic.streams` says whether responses have streams of their own"),
    ("tls", "is part of QUIC's own handshake", "remove it; set `quic.handshake`"),
];
/// Largest packet of Ethernet, and length of a UDP header, bytes.
const ETHERNET_MTU: u16 = 1500;
const UDP_HEADER: u16 = 8;
/// Window of a stream in stacks that do not tune it: 100 ms at 100 Mbit/s (the default of quinn and noq).
const DEFAULT_STREAM_WINDOW: u64 = 1_250_000;
/// Largest flow-control window (RFC 9000, section 16), bytes.
const UNLIMITED: u64 = (1 << 62) - 1;
