//! `[[flows]]`: its keys, and the workload of each kind of flow.

use perigee_results::{Amount, Talk};
use perigee_text::{
    key, required, Content, Form, Key, Kind, Node, Process, Read, Reader, Section, StrictError, DAYS_30, LARGEST,
};
use perigee_traffic::{
    Access, Adaptation, App, Bulk, Call, Constant, Datagrams, Http, Offered, PageKind, Pages, Ping, Population,
    Requests, Transactions, Video, Visitors, Voice, Web,
};
use perigee_units::{Bytes, Rate, Time};

use crate::hosts::TCP;
use crate::kinds::CC;
use crate::media::{call, pages, video};
use crate::packets::{fits, packet, Packets, LOW};
use crate::quic::{QUIC, TRANSPORTS};

/// `[[flows]]`.
pub(crate) static FLOW: Section = Section {
    name: "flows",
    keys: &[
        required("name", Kind::Name, "Its name."),
        required("from", Kind::Name, "The node that sends the data (of a request: that answers)."),
        required("to", Kind::Name, "The node that receives the data."),
        key(
            "kind",
            Kind::Word(KINDS),
            "bulk",
            "`bulk`: one transfer over TCP. `request`: requests and responses in turn over one TCP connection. \
             `transactions`: one request and one response at each `interval`, on a TCP connection of its own. \
             `web`: users of the web, each with such a connection, at random. `pages`: a browser that loads page \
             after page, each of many objects over several connections. `video`: adaptive video, segment by \
             segment over one TCP connection. `udp`: packets at a constant rate. `voice`: packets of speech, in \
             talk spurts. `call`: the frames of a video call. `ping`: packets that are answered.",
        ),
        key("start", Kind::Time { min: Time::ZERO, max: DAYS_30 }, "0 s", "When it begins."),
        key(
            "start_jitter",
            Kind::Time { min: Time::ZERO, max: DAYS_30 },
            "0 s",
            "Largest random delay of the beginning, uniform, drawn per flow and round.",
        ),
        key(
            "stagger",
            Kind::Time { min: Time::ZERO, max: DAYS_30 },
            "0 s",
            "Of several (`count`): how much later each begins than the one before it.",
        ),
        key(
            "count",
            Kind::Integer { min: 0, max: MAX_FLOWS as u64 },
            "1",
            "How many such flows, named `NAME.1`, `NAME.2` ... where they are several; 0 leaves it out.",
        ),
        key(
            "ip",
            Kind::Word(IP_VERSIONS),
            "v4",
            "Version of its packets, `v4` or `v6`. Headers of `v6` are 20 bytes longer; a segment carries 20 bytes \
             less than `mss`, so that no packet is larger.",
        ),
        key(
            "cc",
            Kind::Special(&CC),
            "cubic",
            "Congestion control of both ends: a name, or `{ name = \"hybla\", rtt0 = \"25 ms\" }` with parameters. A \
             name with a `/` in it, or that ends in `.c`, is an author's own file, relative to the study's folder \
             (of `--set`: to the working directory); see the guide.",
        )
        .of(TCP_KINDS),
        key("tcp", Kind::Table(&TCP), "", "TCP settings of both ends of this flow, over those of `[hosts]`.")
            .of(TCP_KINDS),
        key(
            "transport",
            Kind::Word(TRANSPORTS),
            "tcp",
            "`tcp`, or `quic`: connections of QUIC (RFC 9000), which no proxy splits: simulated, or over sockets with `--engine emu`.",
        )
        .of(QUIC_KINDS),
        key("quic", Kind::Table(&QUIC), "", "QUIC settings of both ends of this flow, with `transport = \"quic\"`.")
            .of(QUIC_KINDS),
        key(
            "opened_by",
            Kind::Word(OPENERS),
            "receiver",
            "The end that opens the connection: `receiver`, as a client that downloads; `sender`, as one that \
             uploads. The first round trip that the sender measures, and with it its first window, may depend on \
             it.",
        )
        .of(&[Bulk::NAME]),
        key("size", Kind::Size { min: Bytes::new(1), max: LARGEST }, "", "How much to send; or `duration`.")
            .of(&[Bulk::NAME]),
        key(
            "duration",
            Kind::Time { min: Time::from_millis(1), max: DAYS_30 },
            "",
            "How long to send; of `bulk`, this or `size`; of `video` its length.",
        )
        .of(&[
            Bulk::NAME,
            Transactions::NAME,
            Web::NAME,
            Pages::NAME,
            Video::NAME,
            Constant::NAME,
            Voice::NAME,
            Call::NAME,
        ]),
        key(
            "offered",
            Kind::Process(&OFFERED),
            "",
            "How fast its application writes; what it cannot write waits. Not given: as fast as the send buffer \
             takes it. With a `duration` also a list of rates that follow one another: where one ends, what the \
             buffer has not taken is dropped.",
        )
        .of(&[Bulk::NAME]),
        key(
            "request",
            Kind::Size { min: Bytes::new(1), max: LARGEST },
            "",
            "Size of a request; of `video` and `pages` by default 400 \
             B.",
        )
        .of(&[Requests::NAME, Transactions::NAME, Pages::NAME, Video::NAME]),
        key(
            "responses",
            Kind::Sizes,
            "",
            "Sizes of the responses, in turn. Of `pages` those of the objects of each page, instead of `page`: the \
             document first, which names all others; all at one server.",
        )
        .of(&[Transactions::NAME, Pages::NAME]),
        key(
            "connections_per_s",
            Kind::Number { min: 0.01, max: 100_000.0 },
            "",
            "New connections per second, in the mean.",
        )
        .of(&[Web::NAME]),
        key(
            "page",
            Kind::Word(PageKind::WORDS),
            "median",
            "What its pages are made of, by the percentiles of desktop pages in 2024 (see the model): `small`, the \
             10th; `median`; `heavy`, the 90th; `mix`, one of the three at random.",
        )
        .of(&[Pages::NAME]),
        key(
            "rounds",
            Kind::Integer { min: 0, max: 10 },
            "0",
            "Serial rounds of a page beyond its own: this number of its last objects become known one after the \
             other, each once the object before it has arrived, as where scripts load data that name more. Sizes \
             and servers stay the same.",
        )
        .of(&[Pages::NAME]),
        key(
            "protocol",
            Kind::Word(Http::WORDS),
            "h2",
            "How its connections carry requests, by the name of ALPN. `http/1.1`: one request at a time on a \
             connection, and up to six connections to a server. `h2`: one connection to a server, on which all \
             responses take turns.",
        )
        .of(&[Pages::NAME]),
        key(
            "tls",
            Kind::Integer { min: 0, max: 2 },
            "1",
            "Round trips of the TLS handshake of each connection: 1 of TLS 1.3, 2 of TLS 1.2, 0 without \
             TLS.",
        )
        .of(&[Pages::NAME]),
        key(
            "service",
            Kind::Time { min: Time::ZERO, max: MINUTE },
            "1 ms",
            "From the arrival of a request to the response.",
        )
        .of(&[Pages::NAME]),
        key(
            "pause",
            Kind::Time { min: Time::ZERO, max: DAYS_30 },
            "5 s",
            "From the end of a load to the beginning of the next.",
        )
        .of(&[Pages::NAME]),
        key(
            "access_least",
            Kind::Time { min: Time::ZERO, max: MINUTE },
            "0 s",
            "Shortest one-way delay between a user and the node `to`.",
        )
        .of(POPULATIONS),
        key(
            "access_most",
            Kind::Time { min: Time::ZERO, max: MINUTE },
            "",
            "Longest such delay: each connection has one at random between the two, uniform, of 16 levels. By \
             default all have `access_least`.",
        )
        .of(POPULATIONS),
        key("response", Kind::Size { min: Bytes::new(1), max: LARGEST }, "", "Size of a response.")
            .of(&[Requests::NAME]),
        key(
            "think",
            Kind::Time { min: Time::ZERO, max: DAYS_30 },
            "0 s",
            "From the end of a response to the next request.",
        )
        .of(&[Requests::NAME]),
        key(
            "ladder",
            Kind::Rates,
            "",
            "Bit rates at which the video is encoded, the lowest first. By default the ten of Netflix before 2015, \
             235 kbit/s to 5.8 Mbit/s (see the model).",
        )
        .of(&[Video::NAME]),
        key(
            "algorithm",
            Kind::Word(Adaptation::WORDS),
            "bola",
            "What chooses the bit rate of the next segment: `bola`, by what is in the buffer; `rate`, by the rates \
             of the latest downloads.",
        )
        .of(&[Video::NAME]),
        key(
            "segment",
            Kind::Time { min: Time::from_millis(100), max: Time::from_secs(30) },
            "4 s",
            "Length of a segment of the video; the last one may be shorter.",
        )
        .of(&[Video::NAME]),
        key(
            "buffer",
            Kind::Time { min: Time::from_millis(200), max: DAYS_30 },
            "60 s",
            "How much video the playout buffer holds; two segments or more.",
        )
        .of(&[Video::NAME]),
        key(
            "startup",
            Kind::Time { min: Time::ZERO, max: MINUTE },
            "0 s",
            "How much is in the buffer before playback begins, and before it resumes after a stall; one segment at \
             the least.",
        )
        .of(&[Video::NAME]),
        key("rate", Kind::Rate, "", "Rate of the IP packets.").of(&[Constant::NAME, Call::NAME]),
        key("frames_per_s", Kind::Integer { min: 1, max: 240 }, "30", "Frames per second, of one size.")
            .of(&[Call::NAME]),
        key(
            "deadline",
            Kind::Time { min: Time::from_millis(1), max: MINUTE },
            "150 ms",
            "How long after it was sent a frame may arrive whole and still be seen.",
        )
        .of(&[Call::NAME]),
        key(
            "packet",
            Kind::Size { min: Bytes::new(28), max: Bytes::new(65_535) },
            "",
            "Size of an IP packet (headers take 28 B, with `ip = \"v6\"` 48 B); of `voice` by default 218 B; of \
             `call` its largest, by default 1200 B.",
        )
        .of(&[Constant::NAME, Ping::NAME, Voice::NAME, Call::NAME]),
        key(
            "ecn",
            Kind::Bool,
            "false",
            "Whether its packets carry ECT(0), so that a queue may mark them instead of dropping them (RFC 3168). \
             Nothing answers the marks: the rate stays what it is. TCP has this in its settings \
             (`tcp`).",
        )
        .of(DATAGRAM_KINDS),
        key(
            "l4s",
            Kind::Bool,
            "false",
            "With `ecn`: they carry ECT(1), the identifier of L4S (RFC 9331), and a dual queue gives them its low \
             latency.",
        )
        .of(DATAGRAM_KINDS),
        key(
            "priority",
            Kind::Word(&["normal", LOW]),
            "normal",
            "`low`: queues of `kind = \"priority\"` serve its packets last and drop them first; no other queue heeds it. They carry the \
             lower-effort DSCP (RFC 8622).",
        )
        .of(DATAGRAM_KINDS),
        key(
            "interval",
            Kind::Time { min: Time::from_micros(1), max: DAYS_30 },
            "",
            "Between two pings or transactions; between two packets of a talk spurt, by default 20 \
             ms.",
        )
        .of(&[Transactions::NAME, Ping::NAME, Voice::NAME]),
        key(
            "on",
            Kind::Time { min: Time::from_millis(1), max: DAYS_30 },
            "400 ms",
            "Mean length of a talk spurt; exponential.",
        )
        .of(&[Voice::NAME]),
        key(
            "off",
            Kind::Time { min: Time::ZERO, max: DAYS_30 },
            "600 ms",
            "Mean length of the silence after a talk spurt; exponential. Zero: the speaker never \
             pauses.",
        )
        .of(&[Voice::NAME]),
        key(
            "playout",
            Kind::Time { min: Time::ZERO, max: DAYS_30 },
            "60 ms",
            "How long the playout buffer holds the first packet of a talk spurt; packets that come too late for it \
             are not played.",
        )
        .of(&[Voice::NAME]),
        key(
            "concealment",
            Kind::Bool,
            "true",
            "Whether the receiver conceals losses (G.711, Appendix I); the E-model counts them less \
             then.",
        )
        .of(&[Voice::NAME]),
        key(
            "warmup",
            Kind::Time { min: Time::ZERO, max: DAYS_30 },
            "0 s",
            "What is sent, or opened, in so long a time from the beginning of the flow is left out of the tables \
             `voice`, `calls`, `pages` and \
             `responses`.",
        )
        .of(&[Transactions::NAME, Web::NAME, Pages::NAME, Voice::NAME, Call::NAME]),
        key("repeat", Kind::Integer { min: 1, max: MAX_EXCHANGES }, "", "How many requests or pings.")
            .of(&[Requests::NAME, Ping::NAME]),
    ],
};

static OFFERED: Process = Process {
    name: "offered",
    plain: Some(&Kind::RateFrom(LEAST_OFFERED)),
    forms: &[Form { kind: None, section: &OFFERED_FROM }],
    is_list: true,
};
static OFFERED_FROM: Section = Section {
    name: "offered",
    keys: &[
        required(
            "rate",
            Kind::RateFrom(Rate::ZERO),
            "Payload per second, written every millisecond, or 1448 B at a time where that takes longer. Zero: the \
             application is silent. `unlimited`: as fast as the send buffer takes it.",
        ),
        key(
            "at",
            Kind::Time { min: Time::ZERO, max: DAYS_30 },
            "0 s",
            "From when, counted from the start of the flow; the first from `0 s`.",
        ),
    ],
};

/// The workload of a flow.
pub(crate) enum Workload {
    /// An application over one connection.
    App(App),
    /// Many connections.
    Population(Population),
    /// Datagrams without a connection.
    Datagrams(Datagrams),
}

/// Reads the workload of a flow by its kind. A key that its kind does not have is an error.
pub(crate) fn workload(table: &Reader<'_>, packets: Packets<'_>) -> Result<Workload, StrictError> {
    let (kind, flow): (String, _) = (table.get("kind")?, packets.flow);
    let foreign = |key: &&Key| !key.only.is_empty() && !key.only.contains(&kind.as_str());
    if let Some(key) = FLOW.keys.iter().filter(foreign).find(|key| table.table.has(key.name)) {
        let message = format!("flow `{flow}`: a `{kind}` flow has no `{}`", key.name);
        let fix = format!("remove it, or set kind = \"{}\"", key.only.join("\" or \""));
        return Err(table.error(key.name, message, fix));
    }
    Ok(match &*kind {
        Requests::NAME => Workload::App(App::Requests(Requests {
            request: table.get("request")?,
            response: table.get("response")?,
            think: table.get("think")?,
            count: table.get("repeat")?,
        })),
        Transactions::NAME => {
            let (interval, request) = (table.get("interval")?, table.get("request")?);
            let transactions = Transactions { interval, request, responses: table.get("responses")? };
            Workload::Population(population(table, Visitors::Transactions(transactions), flow)?)
        }
        Web::NAME => {
            let web = Web { connections_per_s: table.get("connections_per_s")? };
            Workload::Population(population(table, Visitors::Web(web), flow)?)
        }
        Pages::NAME => Workload::Population(population(table, Visitors::Pages(pages(table, flow)?), flow)?),
        Constant::NAME => {
            let (rate, duration) = (table.get("rate")?, table.get("duration")?);
            Workload::Datagrams(Datagrams::Constant(Constant { rate, packet: packet(table, packets)?, duration }))
        }
        Ping::NAME => {
            let (interval, count) = (table.get("interval")?, table.get("repeat")?);
            Workload::Datagrams(Datagrams::Ping(Ping { interval, packet: packet(table, packets)?, count }))
        }
        Voice::NAME => Workload::Datagrams(Datagrams::Voice(voice(table, packets)?)),
        Video::NAME => Workload::App(App::Video(video(table, flow)?)),
        Call::NAME => Workload::Datagrams(Datagrams::Call(call(table, packets)?)),
        // The reader has refused all words but the kinds.
        _ => {
            let amount = amount(table, flow)?;
            Workload::App(App::Bulk(Bulk { amount, offered: offered(table, flow, amount)? }))
        }
    })
}

/// A population; its connections are limited, since each takes memory while it is open.
fn population(table: &Reader<'_>, source: Visitors, flow: &str) -> Result<Population, StrictError> {
    // A browser is at the node `to` itself.
    let least = if matches!(source, Visitors::Pages(_)) { Time::ZERO } else { table.get("access_least")? };
    let most = table.table.get("access_most")?.unwrap_or(least);
    if most < least {
        let message = format!("flow `{flow}`: `access_most` = {most} is below access_least = {least}");
        return Err(table.error("access_most", message, "raise it, or lower access_least"));
    }
    let access = Access { least, most };
    let population = Population { source, duration: table.get("duration")?, warmup: table.get("warmup")?, access };
    if population.expected() > MAX_EXCHANGES as f64 {
        let message = format!("flow `{flow}` opens {:.0} connections", population.expected());
        return Err(table.error("duration", message, format!("shorten it, down to {MAX_EXCHANGES} connections")));
    }
    Ok(population)
}

/// Speech; the defaults are G.711 with 20 ms of speech in a packet, on Ethernet.
fn voice(table: &Reader<'_>, packets: Packets<'_>) -> Result<Voice, StrictError> {
    let interval = table.table.get("interval")?.unwrap_or(Time::from_millis(20));
    Ok(Voice {
        packet: if table.table.has("packet") {
            packet(table, packets)?
        } else {
            fits(table, Bytes::new(218), packets)?
        },
        on: table.get("on")?,
        off: table.get("off")?,
        duration: table.get("duration")?,
        talk: Talk {
            interval,
            playout: table.get("playout")?,
            concealment: table.get("concealment")?,
            warmup: table.get("warmup")?,
        },
    })
}

/// The rates that the application of a bulk flow offers.
fn offered(table: &Reader<'_>, flow: &str, amount: Amount) -> Result<Vec<Offered>, StrictError> {
    let Some(node) = table.table.node("offered") else { return Ok(Vec::new()) };
    let what = table.dotted("offered");
    let nodes = match &node.content {
        Content::Array(nodes) => &nodes[..],
        _ => std::slice::from_ref(node),
    };
    let one = |node: &Node| match OFFERED.open(node, &what)? {
        Some((_, table)) => Ok(Offered { at: table.get("at")?, rate: table.get("rate")? }),
        None => Ok(Offered { at: Time::ZERO, rate: Rate::read(node, &what)? }),
    };
    let offered = nodes.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let wrong = |message: String, fix: &str| Err(table.error("offered", message, fix));
    if offered.first().is_none_or(|first| first.at > Time::ZERO) {
        let message = format!("flow `{flow}`: `offered` says nothing about the start of the flow");
        return wrong(message, "begin it with { at = \"0 s\", rate = \"0 bit/s\" }, or another rate");
    }
    if !offered.is_sorted_by(|one, next| one.at < next.at) {
        return wrong(format!("flow `{flow}`: `offered` is not in order of time"), "sort it by `at`, each once");
    }
    let is_plain = matches!(offered[..], [Offered { rate, .. }] if rate > Rate::ZERO);
    if matches!(amount, Amount::Size(_)) && !is_plain {
        let message = format!("flow `{flow}`: `offered` changes, and the flow has a size");
        return wrong(message, "replace `size` by `duration`, or offer one rate above zero");
    }
    Ok(offered)
}

fn amount(table: &Reader<'_>, flow: &str) -> Result<Amount, StrictError> {
    match (table.table.get("size")?, table.table.get("duration")?) {
        (Some(size), None) => Ok(Amount::Size(size)),
        (None, Some(duration)) => Ok(Amount::Duration(duration)),
        (Some(_), Some(_)) => {
            let message = format!("flow `{flow}` has both a size and a duration");
            Err(table.error("duration", message, "remove one of them"))
        }
        (None, None) => {
            let message = format!("flow `{flow}` has neither a size nor a duration");
            Err(table.error("name", message, "add size = \"1 GB\" or duration = \"60 s\""))
        }
    }
}

/// The kinds of flows.
pub(crate) const KINDS: &[&str] = &[
    Bulk::NAME,
    Requests::NAME,
    Transactions::NAME,
    Web::NAME,
    Pages::NAME,
    Video::NAME,
    Constant::NAME,
    Voice::NAME,
    Call::NAME,
    Ping::NAME,
];
/// Kinds over TCP.
const TCP_KINDS: &[&str] = &[Bulk::NAME, Requests::NAME, Transactions::NAME, Web::NAME, Pages::NAME, Video::NAME];
/// Kinds over QUIC.
const QUIC_KINDS: &[&str] = &[Bulk::NAME, Requests::NAME, Pages::NAME, Video::NAME];
/// Kinds of datagrams without answers.
const DATAGRAM_KINDS: &[&str] = &[Constant::NAME, Voice::NAME, Call::NAME];
/// Kinds with users, each with a connection.
const POPULATIONS: &[&str] = &[Transactions::NAME, Web::NAME];
/// Least rate of an application that offers one: a segment of 1448 B takes 12 s.
const LEAST_OFFERED: Rate = Rate::from_bps(1_000);
/// Longest access delay.
const MINUTE: Time = Time::from_secs(60);
/// Values of `opened_by`.
const OPENERS: &[&str] = &["receiver", "sender"];
/// Versions of the Internet Protocol.
const IP_VERSIONS: &[&str] = &["v4", "v6"];
/// Maximum flows of a scenario.
pub(crate) const MAX_FLOWS: usize = 10_000;
/// Maximum requests or pings of a flow: each is a row of results.
const MAX_EXCHANGES: u64 = 10_000_000;
