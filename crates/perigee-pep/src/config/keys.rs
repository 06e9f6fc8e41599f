//! Every key of the configuration: what it takes, its default, its meaning.
//!
//! The reader checks each table against these, and `docs/reference/pep.md` has its tables of keys from here:
//! `cargo run -p perigee-pep --example reference -- docs/reference/pep.md`.

use perigee_share::{BYPASS, MEMORY, SAVINGS, SHARE, SHORT};
use perigee_text::{key, key_table, page_markdown, required, Kind, Section};
use perigee_units::{Bytes, Rate, Time};

use super::kinds::{
    ADDRESS, CODE_POINTS, COMMAND, CONGESTION_CONTROLS, DAY_TIME, INTERFACE, INTERFACES, LEG_NAME, LINK_RATE, NETWORKS,
    PATH, PORTS, SOME_NETWORKS, TUNNEL_CONTROL, URL,
};

/// A page of the reference with its tables of keys brought up to date; see [`page_markdown`].
pub fn reference(page: &str) -> Option<String> {
    page_markdown(page, |name| SECTIONS.iter().find(|section| section.name == name).map(|one| key_table(one, None)))
}

pub(super) static CONFIGURATION: Section = Section {
    name: "the configuration",
    keys: &[
        key("allow", Kind::Table(&ALLOW), "", "Who may use the service, and for which servers; always needed."),
        key("transparent", Kind::Table(&TRANSPARENT), "", "Interception of connections that this host forwards."),
        key("forward", Kind::Tables(&FORWARD), "", "Listening addresses, each with its server."),
        key("tunnel", Kind::Table(&TUNNEL), "", "The connection to the box at the other end of the satellite link."),
        key("legs", Kind::TablePer { of: "leg", section: &LEG }, "", "Settings of the sockets of one side, by a name."),
        key("rules", Kind::Tables(&RULE), "", "Settings by connection: the first rule that matches applies."),
        key("link", Kind::Table(&LINK), "", "The satellite link whose queue the service owns. Not given: the modem's."),
        key(
            "accounting",
            Kind::Table(&ACCOUNTING),
            "",
            "Lines of what each subscriber has used; comes and goes with an upgrade or a restart. Not given: none.",
        ),
        key("limits", Kind::Table(&LIMITS), "", "What the service may use at most."),
        key("service", Kind::Table(&SERVICE), "", "The service itself: threads, metrics, its end."),
    ],
};

pub(super) static ALLOW: Section = Section {
    name: "allow",
    keys: &[
        required("sources", SOME_NETWORKS, "Clients: `[\"10.1.0.0/24\", \"2001:db8:1::/48\"]`."),
        required("destinations", SOME_NETWORKS, "Servers."),
        key("local", Kind::Bool, "false", "Servers may also be this host, or have loopback or link-local addresses."),
    ],
};

pub(super) static TRANSPARENT: Section = Section {
    name: "transparent",
    keys: &[
        key(
            "interfaces",
            INTERFACES,
            "",
            "Interfaces at which clients arrive; a port of a bridge: of what passes it. Not given: all.",
        ),
        key("ports", PORTS, "", "Ports of servers: `[80, 443, \"8000-8100\"]`. Not given: all."),
        key("hide_clients", Kind::Bool, "false", "Servers see the address of this host instead of the client's."),
        key(
            "through_forward",
            Kind::Bool,
            "false",
            "A connection's first packet passes the host's `forward` chain, from its interface to the device \
             `perigee_pep`, before it is served; not with `interfaces` in a rule.",
        ),
        key(
            "port",
            Kind::Integer { min: 1, max: 65_535 },
            "3129",
            "Port of loopback addresses at which the service listens.",
        ),
        key(
            "mark",
            Kind::Integer { min: 1, max: LAST - 2 },
            "7366000",
            "Firewall mark of packets for the service; the next number marks its own, the one after it those that \
             wait.",
        ),
        key(
            "table",
            Kind::Integer { min: 1, max: LAST - 1 },
            "7065",
            "Routing table of packets for the service; `connect_first` and `through_forward` use the next number too.",
        ),
    ],
};

pub(super) static FORWARD: Section = Section {
    name: "forward",
    keys: &[
        required("listen", ADDRESS, "Where clients connect."),
        required("target", ADDRESS, "Their server, within `allow.destinations`."),
    ],
};

pub(super) static TUNNEL: Section = Section {
    name: "tunnel",
    keys: &[
        key("gateway", ADDRESS, "", "At the terminal: where the gateway listens."),
        key("listen", ADDRESS, "", "At the gateway: its UDP address. One of the two keys is required."),
        required("certificate", PATH, "The certificate of this box, PEM."),
        required("key", PATH, "Its private key, PEM."),
        key(
            "peers",
            PATH,
            "",
            "The certificates of the boxes that it speaks with, PEM, one after the other; required without \
             `terminals`.",
        ),
        key("terminals", Kind::Tables(&TERMINAL), "", "At the gateway: terminals that have certain clients only."),
        key(
            "bandwidth",
            Kind::RateFrom(Rate::ZERO),
            "",
            "Rate of the satellite link, beside `round_trip`: both set the windows of streams, and what is under way \
             at first.",
        ),
        key(
            "round_trip",
            Kind::Time { min: Time::from_millis(1), max: Time::from_secs(60) },
            "",
            "Round trip of the satellite link, beside `bandwidth`.",
        ),
        key(
            "cc",
            TUNNEL_CONTROL,
            "cubic",
            "Congestion control of what this box sends: an [algorithm](../models/congestion-control.md) with its defaults, \
             or `fixed`, which needs `bandwidth` and `round_trip`.",
        ),
        key(
            "outage_grace",
            GRACE,
            "60 s",
            "Longest silence of the other box; the shorter one of the two boxes counts.",
        ),
    ],
};

pub(super) static TERMINAL: Section = Section {
    name: "tunnel.terminals",
    keys: &[
        required("certificate", PATH, "The certificate of the terminal, PEM."),
        required("sources", NETWORKS, "Where its clients are, within `allow.sources`."),
    ],
};

pub(super) static LEG: Section = Section {
    name: "legs",
    keys: &[
        key(
            "congestion",
            CONGESTION_CONTROLS,
            "",
            "Congestion control; of several, the first that the kernel has. Not given: the route's or the host's.",
        ),
        key(
            "bandwidth",
            Kind::RateFrom(Rate::ZERO),
            "",
            "Rate of the path, beside `round_trip`: buffers are twice the product of both, at least 64 KiB.",
        ),
        key("round_trip", Kind::Time { min: Time::ZERO, max: DAY }, "", "Round trip of the path, beside `bandwidth`."),
        key(
            "send_buffer",
            Kind::Size { min: Bytes::new(4096), max: LARGEST_BUFFER },
            "",
            "Fixed send buffer, instead of that. With neither the kernel tunes it.",
        ),
        key(
            "receive_buffer",
            Kind::Size { min: Bytes::new(4096), max: LARGEST_BUFFER },
            "",
            "Fixed receive buffer, likewise.",
        ),
        key("mss", Kind::Integer { min: 88, max: 32_767 }, "", "Largest segment, bytes. Not given: the route's."),
        key(
            "unsent",
            Kind::Size { min: Bytes::new(1), max: LARGEST_BUFFER },
            "",
            "Unsent bytes in the socket (`TCP_NOTSENT_LOWAT`). Not given: as the kernel is set.",
        ),
        key("nagle", Kind::Bool, "false", "Whether small segments wait for others."),
        key(
            "outage_grace",
            GRACE,
            "1 h",
            "How long a leg may be dark, or its reader keep the window closed (`TCP_USER_TIMEOUT`).",
        ),
        key(
            "keep_alive",
            Kind::Time { min: Time::from_secs(1), max: Time::from_secs(32_767) },
            "",
            "Idle time before the other end is probed, and between probes. Not given: as the kernel is set.",
        ),
    ],
};

pub(super) static RULE: Section = Section {
    name: "rules",
    keys: &[
        required("name", Kind::Name, "Its name in log and metrics."),
        required("client", LEG_NAME, "Settings towards the client."),
        key("server", LEG_NAME, "", "Settings towards the server; required without `through`."),
        key(
            "through",
            Kind::Word(&["tunnel"]),
            "",
            "The gateway dials the server, by its own rules; `server` is then not given.",
        ),
        key("sources", NETWORKS, "", "Clients. Not given: all."),
        key("destinations", NETWORKS, "", "Servers. Not given: all."),
        key("ports", PORTS, "", "Ports of servers. Not given: all."),
        key("interfaces", INTERFACES, "", "Interfaces at which clients arrive. Not given: all."),
        key(
            "dscp",
            CODE_POINTS,
            "",
            "Differentiated services code points of the client's first packet. Not given: all.",
        ),
        key(
            "connect_first",
            Kind::Bool,
            "false",
            "An intercepted client's SYN is answered once the server has answered; not with `interfaces` or `through`.",
        ),
        key(
            "connect_timeout",
            Kind::Time { min: Time::from_secs(1), max: Time::from_secs(600) },
            "30 s",
            "How long a server may take to answer.",
        ),
    ],
};

pub(super) static LINK: Section = Section {
    name: "link",
    keys: &[
        required("leg", LEG_NAME, "The leg that crosses the link."),
        required("interface", INTERFACE, "The interface that leads to it: what else passes there leaves its share."),
        key(
            "send",
            LINK_RATE,
            "",
            "Rate of the link for what this host sends. Not given: that direction is not shared out.",
        ),
        key(
            "receive",
            LINK_RATE,
            "",
            "Rate for what it receives, likewise; limited by windows, which hold from the round trip that `status` says.",
        ),
        key("schedule", Kind::Tables(&SCHEDULE), "", "Instead of these: rates by the time of day."),
        key(
            "slots",
            PATH,
            "",
            "Instead: a file with lines `SECONDS, SEND, RECEIVE`, in the order of time, from which second since 1970 on which \
             rates hold; read at the start and with SIGHUP.",
        ),
        key(
            "command",
            COMMAND,
            "",
            "Instead: a program that prints two rates, `20 Mbit/s, 2 Mbit/s` or bit/s as numbers, one that is sent, \
             or JSON. It is confined as the service is: it executes nothing but the interpreter of its first line.",
        ),
        key("modem", URL, "", "Instead: an address that answers GET of HTTP/1.1 likewise; text without Content-Length ends with its line."),
        key("send_key", Kind::Text, "", "Where an answer of JSON has the rate: `\"link.uplink_bps\"`."),
        key("receive_key", Kind::Text, "", "As `send_key`, for what is received."),
        key(
            "every",
            Kind::Time { min: Time::from_millis(50), max: DAY },
            "1 s",
            "Time from an answer to the next question, less than `oldest`.",
        ),
        key(
            "within",
            Kind::Time { min: Time::from_millis(10), max: Time::from_secs(60) },
            "1 s",
            "Longest time for an answer; the program is then ended.",
        ),
        key(
            "oldest",
            Kind::Time { min: Time::from_millis(100), max: DAY },
            "10 s",
            "Age at which a rate that was told, or the last slot, is no longer used: nothing is then held back.",
        ),
        SHARE,
        key("overhead", Kind::Integer { min: 0, max: 1000 }, "0", "Bytes that the link adds to each packet of IP."),
        BYPASS,
        SHORT,
        MEMORY,
        SAVINGS,
        key(
            "subscribers",
            Kind::Tables(&SUBSCRIBER),
            "",
            "Subscribers with parts of their own; the first that has a client.",
        ),
        key("floor", Kind::RateFrom(Rate::ZERO), "", "Floor of each other address, see subscribers."),
        key("ceiling", LINK_RATE, "", "Ceiling of each other address; of what is received as `receive` holds."),
    ],
};

pub(super) static SCHEDULE: Section = Section {
    name: "link.schedule",
    keys: &[
        required(
            "at",
            DAY_TIME,
            "From when on, in UTC: `\"06:30\"`, each once; the last one of a day holds until the first.",
        ),
        key("send", LINK_RATE, "", "As `link.send`."),
        key("receive", LINK_RATE, "", "As `link.receive`."),
    ],
};

pub(super) static SUBSCRIBER: Section = Section {
    name: "link.subscribers",
    keys: &[
        required("name", Kind::Name, "Its name in status and metrics, not `others`."),
        required("sources", SOME_NETWORKS, "Its clients, within `allow.sources`: together one subscriber."),
        key("each", Kind::Bool, "false", "Each of its addresses is a subscriber; over IPv6 each network of 64 bits."),
        key("weight", Kind::Integer { min: 1, max: 10_000 }, "1", "Its share relative to others'."),
        key("floor", Kind::RateFrom(Rate::ZERO), "", "Rate that it gets before others get more than their floors."),
        key("ceiling", LINK_RATE, "", "Rate that it does not exceed; of what is received as `receive` holds."),
    ],
};

pub(super) static ACCOUNTING: Section = Section {
    name: "accounting",
    keys: &[
        key(
            "file",
            PATH,
            "",
            "File that lines are added to; opened at the start, and again with SIGHUP, after it was moved away. Not given: the log.",
        ),
        key(
            "every",
            Kind::Time { min: Time::from_secs(1), max: DAY },
            "60 s",
            "Time from one line of a subscriber to the next; changes with SIGHUP.",
        ),
        key("connections", Kind::Bool, "false", "Each connection has a line, too, at its end; changes with SIGHUP."),
    ],
};

pub(super) static LIMITS: Section = Section {
    name: "limits",
    keys: &[
        key(
            "connections",
            Kind::Integer { min: 1, max: LAST },
            "10000",
            "Connections at a time; fewer where the limit of descriptors is lower.",
        ),
        key(
            "per_client",
            Kind::Integer { min: 1, max: LAST },
            "",
            "Connections at a time of one address, handshakes that wait among them; more are reset. Over IPv6 a \
             network of 64 bits counts as one address where `sources` allow more than it. Not given: half of \
             `connections`.",
        ),
        key(
            "held",
            Kind::Size { min: Bytes::new(1 << 20), max: Bytes::new(1 << 40) },
            "256 MiB",
            "Memory for bytes that a receiving socket does not take yet, beside the sockets' own; each of `workers` \
             has its share, at least 512 KiB. Beyond it each connection still has 4 KiB each way, which others \
             cannot take. Each connection between boxes has as much, both ways, where [readers that do not \
             read](../guide/two-boxes.md#what-to-know) lose their streams from half of it on.",
        ),
        key(
            "at_limit",
            Kind::Word(&["wait", "refuse", "pass"]),
            "wait",
            "Beyond `connections`: they wait in the listening queue, are reset, or are not intercepted until a tenth \
             is free.",
        ),
    ],
};

pub(super) static SERVICE: Section = Section {
    name: "service",
    keys: &[
        key(
            "workers",
            Kind::Integer { min: 1, max: 256 },
            "",
            "Threads; changes with an upgrade or a restart. Not given: as many as there are processors.",
        ),
        key(
            "control",
            PATH,
            "",
            "Unix socket that `perigee-pep status` asks, for its owner only; `reload` and `upgrade` ask the one beside it, \
             with `.upgrade` after its name; changes with a restart only. Not given: none.",
        ),
        key(
            "metrics",
            ADDRESS,
            "",
            "HTTP address of `/metrics`, in Prometheus's text format or OpenMetrics, and of a page that draws them, `/`; \
             changes with an upgrade or a restart. Not given: none.",
        ),
        key("metrics_remote", Kind::Bool, "false", "Allows `metrics` at an address that is not loopback."),
        key(
            "metrics_subscribers",
            Kind::Integer { min: 0, max: 1000 },
            "20",
            "Addresses with metrics of their own, those that move most; the others are `others` together. Tables of \
             `[[link.subscribers]]` always have theirs.",
        ),
        key("drain", Kind::Time { min: Time::ZERO, max: DAY }, "30 s", "Time for connections to end after SIGTERM."),
        key(
            "upgrade_drain",
            Kind::Time { min: Time::ZERO, max: DAY },
            "10 min",
            "Time for the connections of a process to end that `upgrade` has replaced.",
        ),
        key("splice", Kind::Bool, "true", "Bulk is spliced through pipes instead of copied."),
        key(
            "confine",
            Kind::Bool,
            "true",
            "After the start, rights, files and system calls that are not needed are given up; changes with an \
             upgrade or a restart.",
        ),
    ],
};

/// Every table of the configuration.
pub(super) static SECTIONS: [&Section; 14] = [
    &CONFIGURATION,
    &ALLOW,
    &TRANSPARENT,
    &FORWARD,
    &TUNNEL,
    &TERMINAL,
    &LEG,
    &RULE,
    &LINK,
    &SCHEDULE,
    &SUBSCRIBER,
    &ACCOUNTING,
    &LIMITS,
    &SERVICE,
];
/// How long an end may be silent.
const GRACE: Kind = Kind::Time { min: Time::from_secs(1), max: DAY };
const DAY: Time = Time::from_secs(86_400);
/// Largest buffer of a socket.
pub(super) const LARGEST_BUFFER: Bytes = Bytes::new(1 << 30);
/// The last number of 32 bits.
const LAST: u64 = u32::MAX as u64;
