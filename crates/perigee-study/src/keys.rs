//! Every key of a study file: what it takes, what it is without it, what it means.
//!
//! This one table drives the reader's "unknown key" errors, the key paths of `--set` and `vary`, the JSON schema that
//! editors use, and the tables of `docs/reference/study.md`; a test asks the reader for each key, so none goes stale.

use perigee_units::{Bytes, Time};

/// A table of the study file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// Its name in documents.
    pub(crate) name: &'static str,
    /// Its keys, in the order they are best written.
    pub(crate) keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What holds without it, as it would be written; empty: nothing does (see `required`), or something said in `about`.
    pub(crate) default: &'static str,
    pub(crate) required: bool,
    /// Of a flow: the kinds that have it; empty: all.
    pub(crate) only: &'static [&'static str],
    pub(crate) about: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Free text.
    Text,
    /// A name: letters, digits, `-`, `_`.
    Name,
    /// Names, each once.
    Names,
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds.
    Integer { min: u64, max: u64 },
    /// A time within bounds.
    Time { min: Time, max: Time },
    /// A time within bounds, or `"off"`.
    TimeOrOff { min: Time, max: Time },
    /// A size within bounds.
    Size { min: Bytes, max: Bytes },
    /// Three sizes that do not fall: minimum, initial, maximum.
    ThreeSizes,
    /// A rate above zero.
    Rate,
    /// A share above zero, or `"off"`.
    ShareOrOff,
    /// A size or a time above zero, or `"off"`.
    SizeOrTimeOrOff,
    /// One of some words.
    Word(&'static [&'static str]),
    /// `true` (all nodes), `false` (none), or names of nodes.
    Nodes,
    /// A congestion control: its name, or a table of name and parameters.
    Cc,
    /// A table of this section.
    Table(&'static Section),
    /// Tables of this section, one per `[[key]]`.
    Tables(&'static Section),
    /// A table of this section that may hold further tables of it, named after nodes.
    TablePerNode(&'static Section),
    /// One process of a link, or a table of them, as profiles have them.
    Link,
    /// Key paths with a value each, in a table `set`.
    Set,
    /// Key paths with a list of values each.
    Vary,
    /// Names with a text each.
    Inputs,
}

impl Section {
    /// The key of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The names of all keys.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name)
    }
}

/// The study file itself.
pub(crate) static STUDY: Section = Section {
    name: "the study",
    keys: &[
        required("name", Kind::Name, "Short name; results carry it."),
        key("title", Kind::Text, "\"\"", "One line for reports."),
        key("about", Kind::Text, "\"\"", "What is asked, and where the numbers come from."),
        key("seed", Kind::Integer { min: 0, max: i64::MAX as u64 }, "1", "Seed of every random draw of the study."),
        key(
            "rounds",
            Kind::Integer { min: 1, max: MAX_RUNS },
            "1",
            "How often the whole of `vary` is carried out. Rounds are interlaced: every point once, then every point again. A round's seed is the same for all its points.",
        ),
        key(
            "time_limit",
            Kind::Time { min: Time::from_millis(1), max: DAYS_30 },
            "1 h",
            "A run ends here even where flows have not completed.",
        ),
        required("nodes", Kind::Names, "Hosts and routers; every node can be either."),
        key("inputs", Kind::Inputs, "", "Files that the user must name: a name and a text that says what is wanted. A link refers to one as `\"${inputs.NAME}\"`; `--set inputs.NAME=PATH` gives it."),
        key("measure", Kind::Table(&MEASURE), "", "What a run writes down."),
        key("hosts", Kind::TablePerNode(&TCP), "", "TCP settings of all nodes; `[hosts.NODE]` overrides them for one."),
        required("links", Kind::Tables(&LINK), "Links between two nodes."),
        key("routes", Kind::Tables(&ROUTE), "", "Exceptions from the shortest path (fewest links; of equals, the one written first)."),
        required("flows", Kind::Tables(&FLOW), "Traffic."),
        key(
            "vary",
            Kind::Vary,
            "",
            "What varies: `\"KEY PATH\" = [values]`; several keys make every combination, the last changing fastest. `linked = [{ \"PATH\" = value, ... }, ...]` varies several keys together.",
        ),
        key("live", Kind::Table(&LIVE), "", "Real hosts for the nodes, and when runs begin: for `--engine live` only."),
        key("reduced", Kind::Table(&REDUCED), "", "`set = { \"KEY PATH\" = value, ... }`: what makes the study small enough for a test (`--reduced`)."),
    ],
};

/// `[measure]`.
pub(crate) static MEASURE: Section = Section {
    name: "measure",
    keys: &[
        key(
            "series",
            Kind::TimeOrOff { min: Time::from_millis(1), max: Time::from_secs(3600) },
            "1 s",
            "Interval of the tables `series` and `links`; `\"off\"`: neither is written.",
        ),
        key(
            "startup",
            Kind::SizeOrTimeOrOff,
            "off",
            "End of the startup phase: after so many delivered bytes, or so long after the flow began.",
        ),
        key(
            "steady",
            Kind::ShareOrOff,
            "50 %",
            "The steady phase: this last share of the bytes of a flow with a `size`, of the time of a flow with a `duration`.",
        ),
        key(
            "goodput_bin",
            Kind::Time { min: Time::from_millis(1), max: Time::from_secs(3600) },
            "1 s",
            "Bin of the goodput whose percentiles are taken.",
        ),
        key("rtt", Kind::Bool, "true", "Whether to write the distributions of round trips."),
        key(
            "rtt_bin",
            Kind::Time { min: Time::from_micros(1), max: Time::from_secs(1) },
            "1 ms",
            "Width of the bins of the round trips.",
        ),
        key("milestones", Kind::Table(&MILESTONES), "", "Delivered sizes whose times are written (download time against size)."),
        key("events", Kind::Bool, "false", "Whether to write the TCP log: a row per segment sent, acknowledgement and timeout."),
        key("pcap", Kind::Nodes, "false", "Nodes that capture their packets: `true` for all, or a list of names."),
    ],
};

/// `measure.milestones`.
pub(crate) static MILESTONES: Section = Section {
    name: "measure.milestones",
    keys: &[
        required("every", Kind::Size { min: Bytes::new(1), max: LARGEST }, "Between two sizes."),
        required("upto", Kind::Size { min: Bytes::new(1), max: LARGEST }, "The last one."),
    ],
};

/// `[hosts]`, `[hosts.NODE]`, and `tcp` of a flow.
pub(crate) static TCP: Section = Section {
    name: "hosts",
    keys: &[
        key(
            "mss",
            Kind::Size { min: Bytes::new(88), max: Bytes::new(65_495) },
            "1460 B",
            "Largest payload of a segment, options not counted (MTU - 40); timestamps take 12 of it.",
        ),
        key(
            "initial_window",
            Kind::Integer { min: 1, max: 1000 },
            "10",
            "Initial congestion window, segments (RFC 6928).",
        ),
        key(
            "rmem",
            Kind::ThreeSizes,
            "[\"4096 B\", \"131072 B\", \"6291456 B\"]",
            "Receive buffer: minimum, initial, maximum (`tcp_rmem`).",
        ),
        key(
            "wmem",
            Kind::ThreeSizes,
            "[\"4096 B\", \"16384 B\", \"4194304 B\"]",
            "Send buffer: minimum, initial, maximum (`tcp_wmem`).",
        ),
        key(
            "receive_autotuning",
            Kind::Bool,
            "true",
            "Grow the receive buffer with the measured rate (`tcp_moderate_rcvbuf`).",
        ),
        key(
            "segment_memory",
            Kind::Size { min: Bytes::new(256), max: Bytes::new(1 << 20) },
            "2304 B",
            "Memory that a full segment takes in the receive queue (`truesize`). Drivers that take a page for each need \
             4352 B; the window then ends at a quarter of the largest buffer instead of half (a third with `window_share = \"measured\"`).",
        ),
        key(
            "window_share",
            Kind::Word(SHARES),
            "half",
            "How much of the receive buffer is advertised: `half` (`tcp_adv_win_scale` = 1, Linux before 6.6), or `measured`, \
             the payload of a full segment by its memory (6.6 and later; the buffer grows as in 6.18).",
        ),
        key("timestamps", Kind::Bool, "true", "Timestamps option (RFC 7323)."),
        key("window_scaling", Kind::Bool, "true", "Window scaling option (RFC 7323)."),
        key("sack", Kind::Bool, "true", "Selective acknowledgements (RFC 2018)."),
        key("dsack", Kind::Bool, "true", "Duplicate SACK reports, and undo by them (RFC 2883, RFC 3708)."),
        key("rack", Kind::Bool, "true", "RACK loss detection (RFC 8985); off: the duplicate threshold of RFC 6675."),
        key("tlp", Kind::Bool, "true", "Tail loss probe (RFC 8985, section 7)."),
        key("frto", Kind::Bool, "true", "Forward RTO recovery (RFC 5682)."),
        key(
            "prr",
            Kind::Bool,
            "true",
            "Proportional rate reduction (RFC 6937); off: the window is halved at once (RFC 6582).",
        ),
        key(
            "delayed_acks",
            Kind::Bool,
            "true",
            "Delay acknowledgements (RFC 5681, 4.2); off: acknowledge each segment.",
        ),
        key(
            "delayed_ack_max",
            Kind::Time { min: Time::from_millis(1), max: Time::from_millis(500) },
            "40 ms",
            "Longest delay of an acknowledgement.",
        ),
        key(
            "ack_compression",
            Kind::Bool,
            "true",
            "Compress acknowledgements while a gap is open (`tcp_comp_sack_nr`, Linux 4.18 and later).",
        ),
        key(
            "quick_acks",
            Kind::Bool,
            "true",
            "Acknowledge at once in the beginning of a connection (Linux's quick ACK mode).",
        ),
        key(
            "slow_start_after_idle",
            Kind::Bool,
            "true",
            "Collapse the window after an idle time of one RTO (`tcp_slow_start_after_idle`).",
        ),
        key(
            "pacing",
            Kind::Bool,
            "false",
            "Pace every flow at its window's rate, as below Linux's fq queue; algorithms that need pacing always have it.",
        ),
        key(
            "rto_min",
            Kind::Time { min: Time::from_millis(1), max: Time::from_secs(120) },
            "200 ms",
            "Smallest retransmission timeout.",
        ),
        key(
            "rto_max",
            Kind::Time { min: Time::from_millis(1), max: Time::from_secs(3600) },
            "120 s",
            "Largest retransmission timeout.",
        ),
        key(
            "syn_retries",
            Kind::Integer { min: 1, max: 127 },
            "6",
            "Retransmissions of a SYN before the connection fails (`tcp_syn_retries`): after 127 s with the default.",
        ),
        key(
            "syn_linear_timeouts",
            Kind::Integer { min: 0, max: 127 },
            "0",
            "Retransmissions of a SYN, in addition, before its timeout doubles (`tcp_syn_linear_timeouts`): none before Linux 6.5, 4 since.",
        ),
        key(
            "synack_retries",
            Kind::Integer { min: 0, max: 255 },
            "5",
            "Retransmissions of a SYN-ACK before the connection request is dropped (`tcp_synack_retries`).",
        ),
        key(
            "retries2",
            Kind::Integer { min: 1, max: 255 },
            "15",
            "How long data are retransmitted without an acknowledgement before the connection fails (`tcp_retries2`), as a number \
             of timeouts that double from 200 ms to `rto_max`: 924.6 s with the default. As many window probes may stay unanswered.",
        ),
        key(
            "reordering",
            Kind::Integer { min: 1, max: 300 },
            "3",
            "Duplicate threshold and initial reordering degree, segments.",
        ),
        key(
            "cwnd_clamp",
            Kind::Integer { min: 2, max: u32::MAX as u64 },
            "4294967295",
            "Upper bound of the congestion window, segments (`snd_cwnd_clamp`).",
        ),
        key("ecn", Kind::Bool, "false", "Explicit congestion notification (RFC 3168)."),
    ],
};

/// `[[links]]`.
pub(crate) static LINK: Section = Section {
    name: "links",
    keys: &[
        required("name", Kind::Name, "Its name; its directions are `NAME.down` (first node to second) and `NAME.up` (back)."),
        required("between", Kind::Names, "The two nodes."),
        key("profile", Kind::Text, "", "A link as data: a name (`viasat2` is `profiles/viasat2.toml`) or the path of a file, which has a `/` in it."),
        key("mtu", Kind::Size { min: Bytes::new(576), max: Bytes::new(65_535) }, "", "Largest IP packet of both directions. TCP's segments are smaller then: in the simulator from the beginning, on real hosts once a router has said so. Not given: as large as any."),
        key("rate", Kind::Link, "", "Rate process of both directions."),
        key("delay", Kind::Link, "", "Delay process of both directions."),
        key("queue", Kind::Link, "", "Queue of each direction."),
        key("loss", Kind::Link, "", "Loss process of both directions."),
        key("timeline", Kind::Link, "", "A recording of several processes in one file."),
        key("loaded", Kind::Link, "", "Delay that is added while a direction is loaded."),
        key("burst", Kind::Link, "", "Token bucket of both directions."),
        key("overhead", Kind::Link, "", "Bytes that each packet takes beyond its own, both directions."),
        key("down", Kind::Link, "", "Processes of the direction from the first node to the second; each replaces the profile's and the common one."),
        key("up", Kind::Link, "", "Processes of the direction from the second node to the first."),
    ],
};

/// `[[routes]]`.
pub(crate) static ROUTE: Section = Section {
    name: "routes",
    keys: &[
        required("node", Kind::Name, "Where the packet is."),
        required("to", Kind::Name, "The node it is for."),
        required("via", Kind::Name, "The link it takes, one of the node's own."),
    ],
};

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
            "`bulk`: one transfer over TCP. `request`: requests and responses in turn over one TCP connection. `udp`: packets at a constant rate. `ping`: packets that are answered.",
        ),
        key("start", Kind::Time { min: Time::ZERO, max: DAYS_30 }, "0 s", "When it begins."),
        key("start_jitter", Kind::Time { min: Time::ZERO, max: DAYS_30 }, "0 s", "Largest random delay of the beginning, uniform, drawn per flow and round."),
        key("count", Kind::Integer { min: 0, max: MAX_FLOWS as u64 }, "1", "How many such flows, named `NAME.1`, `NAME.2` ... where they are several; 0 leaves it out."),
        key("ip", Kind::Word(IP_VERSIONS), "v4", "Version of its packets, `v4` or `v6`. Headers of `v6` are 20 bytes longer; a segment carries 20 bytes less than `mss`, so that no packet is larger."),
        key("cc", Kind::Cc, "cubic", "Congestion control of both ends: a name, or `{ name = \"hybla\", rtt0 = \"25 ms\" }` with parameters. A name with a `/` in it, or that ends in `.c`, is an author's own file, relative to the study's folder (of `--set`: to the working directory); see the guide.").of(TCP_KINDS),
        key("tcp", Kind::Table(&TCP), "", "TCP settings of both ends of this flow, over those of `[hosts]`.").of(TCP_KINDS),
        key("opened_by", Kind::Word(OPENERS), "receiver", "The end that opens the connection: `receiver`, as a client that downloads; `sender`, as one that uploads. The first round trip that the sender measures, and with it its first window, may depend on it.").of(&["bulk"]),
        key("size", Kind::Size { min: Bytes::new(1), max: LARGEST }, "", "How much to send; or `duration`.").of(&["bulk"]),
        key("duration", Kind::Time { min: Time::from_millis(1), max: DAYS_30 }, "", "How long to send; of `bulk`, this or `size`.").of(&["bulk", "udp"]),
        key("request", Kind::Size { min: Bytes::new(1), max: LARGEST }, "", "Size of a request.").of(&["request"]),
        key("response", Kind::Size { min: Bytes::new(1), max: LARGEST }, "", "Size of a response.").of(&["request"]),
        key("think", Kind::Time { min: Time::ZERO, max: DAYS_30 }, "0 s", "From the end of a response to the next request.").of(&["request"]),
        key("rate", Kind::Rate, "", "Rate of the IP packets.").of(&["udp"]),
        key("packet", Kind::Size { min: Bytes::new(28), max: Bytes::new(65_535) }, "", "Size of an IP packet (headers take 28 B, with `ip = \"v6\"` 48 B).").of(&["udp", "ping"]),
        key("interval", Kind::Time { min: Time::from_micros(1), max: DAYS_30 }, "", "Between two pings.").of(&["ping"]),
        key("repeat", Kind::Integer { min: 1, max: MAX_EXCHANGES }, "", "How many requests or pings.").of(&["request", "ping"]),
    ],
};

/// `[live]`.
pub(crate) static LIVE: Section = Section {
    name: "live",
    keys: &[
        key("here", Kind::Name, "", "The node that this host is. Without it: the one node with flows that has no server."),
        key("servers", Kind::Inputs, "", "The iperf3 servers of the other nodes: `NODE = \"HOST:PORT\"`, port 5201 where none is said. Flows that go on at the same time take this port and the next ones."),
        key("cc_names", Kind::Inputs, "", "What a congestion control is called on the host that sends, where the study has another name or sets parameters: `bbr = \"bbr415\"`."),
        key("tcp", Kind::Word(&["study", "hosts"]), "study", "`study`: a TCP setting of the study that cannot be carried to the hosts is an error. `hosts`: what the hosts have is taken."),
        key("bind", Kind::Text, "", "Address or device of this host to measure from."),
        key("pause", Kind::Time { min: Time::ZERO, max: DAYS_30 }, "0 s", "From the end of a run to the next."),
        key("every", Kind::TimeOrOff { min: Time::from_secs(1), max: DAYS_30 }, "off", "Runs begin when the clock (UTC) is at a multiple of this: `\"15 min\"` is at 0, 15, 30 and 45 minutes past. `\"off\"`: one after the other."),
        key("slot", Kind::Word(&["run", "round"]), "run", "What begins at each `every`: a run; or a round, whose runs then follow one another."),
        key("for", Kind::TimeOrOff { min: Time::from_secs(1), max: DAYS_30 }, "off", "No run begins so long after the first, or later; what is left of the study is left out."),
        key("retries", Kind::Integer { min: 0, max: 1000 }, "3", "How often a run that failed is tried again, after 2 s, 4 s, 8 s and so on."),
        key("backoff", Kind::Time { min: Time::from_secs(1), max: DAYS_30 }, "5 min", "Longest pause before it is tried again; pauses grow, from run to run too, until one comes through."),
        key("failed", Kind::Word(&["skip", "again"]), "skip", "A run that keeps failing: `skip` keeps its flows as failed and goes on; `again` leaves it for the next time that the same command is given."),
        key("timeout", Kind::Time { min: Time::from_secs(1), max: DAYS_30 }, "30 s", "A run is given up so long after its flows should have ended; of flows with a `size`, `time_limit` ends it."),
        key("connect_timeout", Kind::Time { min: Time::from_millis(100), max: Time::from_secs(3600) }, "10 s", "Longest wait for a server to answer."),
    ],
};

/// `[reduced]`.
pub(crate) static REDUCED: Section =
    Section { name: "reduced", keys: &[required("set", Kind::Set, "Key paths and values, as of `--set`.")] };

/// The kinds of flows.
pub(crate) const KINDS: &[&str] = &["bulk", "request", "udp", "ping"];
/// The ends that may open a connection.
pub(crate) const OPENERS: &[&str] = &["receiver", "sender"];
/// Versions of the Internet Protocol.
pub(crate) const IP_VERSIONS: &[&str] = &["v4", "v6"];
/// What the window's part of the receive buffer is taken from.
const SHARES: &[&str] = &["half", "measured"];
/// Those that run over TCP.
const TCP_KINDS: &[&str] = &["bulk", "request"];

/// Most runs of a plan.
pub(crate) const MAX_RUNS: u64 = 1_000_000;
/// Most flows of a scenario.
pub(crate) const MAX_FLOWS: usize = 10_000;
/// Most requests or pings of a flow: each is a row of results.
const MAX_EXCHANGES: u64 = 10_000_000;
/// Largest size of anything, so that sums of sizes cannot overflow.
const LARGEST: Bytes = Bytes::new(1_000_000_000_000_000);
/// Longest time of anything, so that sums of times cannot overflow.
const DAYS_30: Time = Time::from_secs(30 * 86_400);

const fn key(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { name, kind, default, required: false, only: &[], about }
}
const fn required(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, default: "", required: true, only: &[], about }
}

impl Key {
    /// The same key, for these kinds of flows only.
    const fn of(mut self, kinds: &'static [&'static str]) -> Self {
        self.only = kinds;
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::reader::value;
    use crate::{Overrides, Study};
    use perigee_link::strict::Origin;

    /// A valid value of a key that is not its default; `None` for tables and for names that must fit the rest.
    fn another(key: &Key) -> Option<String> {
        let unlike_default = |a: String, b: String| if key.default == a { b } else { a };
        Some(match key.kind {
            Kind::Text => "other".into(),
            Kind::Bool => unlike_default("true".into(), "false".into()),
            Kind::Integer { min, max } => unlike_default(max.to_string(), min.to_string()),
            Kind::Time { min, max } | Kind::TimeOrOff { min, max } => unlike_default(max.to_string(), min.to_string()),
            Kind::Size { min, max } => unlike_default(max.to_string(), min.to_string()),
            Kind::ThreeSizes => "[\"5 kB\", \"6 kB\", \"7 kB\"]".into(),
            Kind::Rate => "3 Mbit/s".into(),
            Kind::ShareOrOff => "17 %".into(),
            Kind::SizeOrTimeOrOff => "17 s".into(),
            Kind::Nodes => "[\"a\"]".into(),
            Kind::Cc => "hybla".into(),
            Kind::Word(words) if words.len() == 2 => unlike_default(words[0].into(), words[1].into()),
            _ => return None,
        })
    }

    /// Two nodes, a link, and a flow of each kind.
    fn study() -> Study {
        let mut text = String::from(
            "name = \"s\"\ntime_limit = \"1 min\"\nnodes = [\"a\", \"b\"]\n[measure]\nmilestones = { every = \"1 MB\", upto = \"2 MB\" }\n[[links]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n",
        );
        let flows = [
            ("bulk", "size = \"2 B\""),
            ("request", "request = \"2 B\"\nresponse = \"2 B\"\nrepeat = 2"),
            ("udp", "rate = \"1 Mbit/s\"\npacket = \"99 B\"\nduration = \"1 s\""),
            ("ping", "interval = \"1 s\"\npacket = \"99 B\"\nrepeat = 2"),
        ];
        text.extend(flows.map(|(kind, keys)| {
            format!("[[flows]]\nname = \"{kind}\"\nfrom = \"a\"\nto = \"b\"\nkind = \"{kind}\"\n{keys}\n")
        }));
        Study::parse(&text, "s.toml").unwrap()
    }

    fn fingerprint(settings: &[String]) -> u64 {
        let overrides = Overrides::new(settings, false).unwrap();
        let plan = study().plan(&overrides, &mut |_: &str| Err("no files".into()));
        plan.unwrap_or_else(|error| panic!("{error}"))[0].scenario.fingerprint
    }

    #[test]
    fn every_key_changes_the_plan() {
        let plain = fingerprint(&[]);
        let changes = |path: String, key: &Key| {
            if let Some(value) = another(key) {
                assert_ne!(fingerprint(&[format!("{path}.{}={value}", key.name)]), plain, "{path}.{}", key.name);
            }
        };
        for (path, section) in [("measure", &MEASURE), ("hosts", &TCP), ("hosts.b", &TCP), ("flows.bulk.tcp", &TCP)] {
            let keys = section.keys.iter().filter(|key| !matches!(key.name, "series" | "goodput_bin"));
            keys.for_each(|key| changes(path.into(), key));
        }
        for kind in KINDS {
            let keys = FLOW.keys.iter().filter(|key| key.only.is_empty() || key.only.contains(kind));
            let keys = keys.filter(|key| key.name != "count");
            keys.for_each(|key| changes(format!("flows.{kind}"), key));
        }
        for setting in [
            "measure.series=2 s",
            "measure.goodput_bin=2 s",
            "measure.milestones.every=2 MB",
            "measure.milestones.upto=1 MB",
            "seed=2",
            "flow.count=2",
            "rounds=2",
            "time_limit=2 min",
            "links.l.rate=2 Mbit/s",
            "links.l.up.delay=2 ms",
            "links.l.loss=1 %",
        ] {
            assert_ne!(fingerprint(&[setting.into()]), plain, "{setting}");
        }
    }

    #[test]
    fn every_key_of_live_changes_how_it_is_carried_out_and_not_what() {
        let live = |settings: &[String]| study().live(&Overrides::new(settings, false).unwrap()).unwrap();
        for key in LIVE.keys {
            let value = match key.name {
                "here" => "a".into(),
                "servers" => "{ b = \"host\" }".into(),
                "cc_names" => "{ bbr = \"other\" }".into(),
                _ => another(key).unwrap(),
            };
            let setting = [format!("live.{}={value}", key.name)];
            assert_ne!(live(&setting), live(&[]), "{}", key.name);
            assert_eq!(fingerprint(&setting), fingerprint(&[]), "{}", key.name);
        }
    }

    #[test]
    fn every_default_is_what_its_key_takes() {
        for section in [&STUDY, &MEASURE, &MILESTONES, &TCP, &LINK, &ROUTE, &FLOW, &LIVE] {
            for key in
                section.keys.iter().filter(|key| !key.default.is_empty() && key.name != "title" && key.name != "about")
            {
                let node = value(key.default, &Origin::place("default"));
                crate::reader::check(&node, key.name, key.kind).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    #[test]
    fn tcp_defaults_are_those_of_the_endpoint() {
        let all: Vec<String> = TCP.keys.iter().map(|key| format!("hosts.{}={}", key.name, key.default)).collect();
        assert_eq!(fingerprint(&all), fingerprint(&[]));
    }

    #[test]
    fn no_key_is_declared_twice() {
        for section in [&STUDY, &MEASURE, &MILESTONES, &TCP, &LINK, &ROUTE, &FLOW, &LIVE, &REDUCED] {
            assert_eq!(section.names().collect::<BTreeSet<_>>().len(), section.keys.len(), "{}", section.name);
        }
    }
}
