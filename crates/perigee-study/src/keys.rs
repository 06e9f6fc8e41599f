//! Every key of a study file: the values it takes, its default, its meaning.
//!
//! This table is the source of the reader's "unknown key" errors, the key paths of `--set` and `vary`, the JSON schema for
//! editors, and the tables of `docs/reference/study.md`; a test reads each key, so that none is stale.

use perigee_text::{key, required, Kind, Section, DAYS_30, LARGEST};
use perigee_units::{Bytes, Time};

use crate::flows::FLOW;
use crate::hosts::TCP;
use crate::kinds::{NODES, SET, VARIED, VARY};
use crate::links::delay::{DELAY, LOADED};
use crate::links::direction::{BURST, DIRECTION, ECN, OVERHEAD, TIMELINE};
use crate::links::loss::LOSS;
use crate::links::queue::QUEUE;
use crate::links::rate::RATE;
use crate::links::replay::REPLAY;
use crate::links::slots::TIME_OF_DAY;
use crate::links::states::STATES;
use crate::proxies::PROXY;

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
            "How often the whole of `vary` is carried out. Rounds are interlaced: every point once, then every point \
             again. A round's seed is the same for all its points, unless `independent` names a key.",
        ),
        key(
            "independent",
            Kind::Special(&VARIED),
            "[]",
            "Keys of `vary` whose values draw independently: the runs of a round then have a seed for each \
             combination of these values, and comparisons between them are of independent samples. Otherwise runs \
             of a round share their draws, and comparisons are paired.",
        ),
        key(
            "time_limit",
            Kind::Time { min: Time::from_millis(1), max: DAYS_30 },
            "1 h",
            "A run ends here even where flows have not completed.",
        ),
        key(
            "carriage",
            Kind::Word(CARRIAGES),
            "fast",
            "How the simulator carries packets, on which no result depends. `fast`: usual packets and \
             acknowledgements by fast paths, in batches and ahead of time where that is safe. `plain`: every \
             packet by itself on the slow path, hop by hop, as a reference; a run takes several times as long. \
             `perigee run --verify` compares the two. Other engines ignore it.",
        ),
        key(
            "kernel_hosts",
            Kind::Bool,
            "false",
            "Settings of hosts, flows and proxies for which Linux has nothing have their defaults, whatever the study \
             says of them. It brings a study to what `--engine emu` can carry out where another system of hosts is not \
             enough; `--nearest` sets it then, and says what it replaces.",
        ),
        required("nodes", Kind::Names, "Hosts and routers; every node can be either."),
        key(
            "inputs",
            Kind::Texts,
            "",
            "Files that the user must name: a name and a text that says what is wanted. A link refers to one as \
             `\"${inputs.NAME}\"`; `--set inputs.NAME=PATH` gives it.",
        ),
        key("measure", Kind::Table(&MEASURE), "", "What a run writes down."),
        key(
            "hosts",
            Kind::TableAndOnePer { of: "node", section: &TCP },
            "",
            "TCP settings of all nodes; `[hosts.NODE]` overrides them for one.",
        ),
        required("links", Kind::Tables(&LINK), "Links between two nodes."),
        key(
            "routes",
            Kind::Tables(&ROUTE),
            "",
            "Exceptions from the shortest path (fewest links; of equals, the one written first).",
        ),
        required("flows", Kind::Tables(&FLOW), "Traffic."),
        key("proxies", Kind::Tables(&PROXY), "", "Performance enhancing proxies: nodes that split TCP connections."),
        key(
            "vary",
            Kind::Special(&VARY),
            "",
            "What varies: `\"KEY PATH\" = [values]`; several keys make every combination, the last changing fastest. \
             `linked = [{ \"PATH\" = value, ... }, ...]` varies several keys together.",
        ),
        key(
            "experiments",
            Kind::Tables(&EXPERIMENT),
            "",
            "Parts of the study with settings of their own that vary different things. Without them the study is one \
             experiment.",
        ),
        key("live", Kind::Table(&LIVE), "", "Real hosts for the nodes, and when runs begin: for `--engine live` only."),
        key(
            "reduced",
            Kind::Table(&REDUCED),
            "",
            "`set = { \"KEY PATH\" = value, ... }`: what makes the study small enough for a test (`--reduced`).",
        ),
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
            "Width of the bins of the round trips. A flow takes up to 4 MB of memory for each second over which its \
             round trips spread in bins of 1 us.",
        ),
        key("milestones", Kind::Table(&MILESTONES), "", "Delivered sizes whose times are written (download time against size)."),
        key("capture", Kind::Table(&CAPTURE), "",
            "How captures at both ends of each TCP flow's data are read, for the columns `capture_...` of `flows`."),
        key("events", Kind::Bool, "false", "Whether to write the TCP log: a row per segment sent, acknowledgement and timeout."),
        key("states", Kind::Word(&["off", "changes", "every"]), "off",
            "Whether to write what the congestion control of each `bulk`, `request` and `video` flow knows, in the \
             table `states`: `changes`, a row whenever its `state` has changed (of an algorithm that shows none, \
             that of TCP); `every`, a row per processed acknowledgement. Emulated over QUIC alone."),
        key("pcap", Kind::Special(&NODES), "false", "Nodes that capture their packets: `true` for all, or a list of names."),
        key(
            "qlog",
            Kind::Special(&NODES),
            "false",
            "Nodes whose ends of QUIC connections keep a log in qlog, which `perigee analyze` reads: `true` for all, or a \
             list of names. A file for each connection and end is beside the captures. Emulated ones lack packets.",
        ),
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

/// `measure.capture`.
pub(crate) static CAPTURE: Section = Section {
    name: "measure.capture",
    keys: &[
        required(
            "startup",
            Kind::Time { min: Time::from_millis(1), max: Time::from_secs(3600) },
            "Time from the first data in which measured round trips are those of start-up; later ones are those of the steady state.",
        ),
        key("first", Kind::Size { min: Bytes::new(0), max: LARGEST }, "0 B", "Bytes whose throughput is that of start-up; 0 B: none."),
        required("from", Kind::Size { min: Bytes::new(0), max: LARGEST }, "First byte of the steady state's frames."),
        required("upto", Kind::Size { min: Bytes::new(1), max: LARGEST }, "First byte behind the steady state's frames."),
        key(
            "least",
            Kind::Time { min: Time::ZERO, max: Time::from_secs(3600) },
            "0 s",
            "Shorter round trips are left out.",
        ),
    ],
};

/// `[[links]]`.
pub(crate) static LINK: Section = Section {
    name: "links",
    keys: &[
        required(
            "name",
            Kind::Name,
            "Its name; its directions are `NAME.down` (first node to second) and `NAME.up` (back).",
        ),
        required("between", Kind::Names, "The two nodes."),
        key(
            "profile",
            Kind::Text,
            "",
            "A link as data: a name (`viasat2` is `profiles/viasat2.toml`) or the path of a file, which has a `/` in \
             it.",
        ),
        key(
            "mtu",
            Kind::Size { min: Bytes::new(576), max: Bytes::new(65_535) },
            "",
            "Largest IP packet of both directions. TCP's segments are smaller then: in the simulator from the \
             beginning, on real hosts once a router has said so. Not given: as large as any.",
        ),
        RATE,
        DELAY,
        REPLAY,
        QUEUE,
        LOSS,
        STATES,
        TIMELINE,
        LOADED,
        BURST,
        OVERHEAD,
        ECN,
        TIME_OF_DAY,
        key(
            "down",
            Kind::Table(&DIRECTION),
            "",
            "Processes of the direction from the first node to the second; each replaces the profile's and the \
             common one.",
        ),
        key("up", Kind::Table(&DIRECTION), "", "Processes of the direction from the second node to the first."),
    ],
};

/// `[[routes]]`.
pub(crate) static ROUTE: Section = Section {
    name: "routes",
    keys: &[
        required("node", Kind::Name, "Where the packet is."),
        required("to", Kind::Name, "The node it is for."),
        required("via", Kind::Name, "The link it takes, one of the node's own."),
        key(
            "start",
            Kind::Time { min: Time::ZERO, max: DAYS_30 },
            "0 s",
            "From when the route holds. A packet takes the route that its node has when it arrives there.",
        ),
        key(
            "end",
            Kind::Time { min: Time::from_nanos(1), max: DAYS_30 },
            "",
            "Until when it holds. Not given: to the end of the run.",
        ),
        key(
            "while_dark",
            Kind::Name,
            "",
            "A link: the route holds only while that carries nothing in one of its directions (a rate of zero, \
             losses of 100 %, or no satellite of a computed path in view).",
        ),
        key(
            "detect",
            Kind::Time { min: Time::ZERO, max: Time::from_secs(3600) },
            "3 s",
            "With `while_dark`: how long the link is dark before the node takes the route.",
        ),
        key(
            "restore",
            Kind::Time { min: Time::ZERO, max: Time::from_secs(3600) },
            "3 s",
            "With `while_dark`: how long the link has carried packets again before the node leaves the route.",
        ),
        key(
            "waiting",
            Kind::Word(&["kept", "moved", "lost"]),
            "kept",
            "Packets for `to` that wait for the old link when the route begins to hold, and when it ends: `kept`, \
             that link sends them; `moved`, they join the new link's queue in their order, as arrivals; `lost`. \
             The packet in service and those in the air stay on their link. Links that give packets up have one \
             queue: drop-tail in bytes or packets, `drop-front`, or CoDel.",
        ),
    ],
};

/// `[live]`.
pub(crate) static LIVE: Section = Section {
    name: "live",
    keys: &[
        key(
            "here",
            Kind::Name,
            "",
            "The node that this host is. Without it: the one node with flows that has no server.",
        ),
        key(
            "servers",
            Kind::Texts,
            "",
            "The iperf3 servers of the other nodes: `NODE = \"HOST:PORT\"`, port 5201 where none is said. Flows that \
             go on at the same time take this port and the next ones.",
        ),
        key(
            "agents",
            Kind::Texts,
            "",
            "The agents of a laboratory that are nodes: `NODE = \"AGENT\"`, or `\"AGENT@ADDRESS\"` where the host of \
             the agent has several addresses. Flows between agents need no server.",
        ),
        key(
            "cc_names",
            Kind::Texts,
            "",
            "What a congestion control is called on the host that sends, where the study has another name or sets \
             parameters: `bbr = \"bbr415\"`.",
        ),
        key(
            "tcp",
            Kind::Word(&["study", "hosts"]),
            "study",
            "`study`: a TCP setting of the study that cannot be carried to the hosts is an error. `hosts`: what the \
             hosts have is taken.",
        ),
        key("bind", Kind::Text, "", "Address or device of this host to measure from."),
        key("pause", Kind::Time { min: Time::ZERO, max: DAYS_30 }, "0 s", "From the end of a run to the next."),
        key(
            "every",
            Kind::TimeOrOff { min: Time::from_secs(1), max: DAYS_30 },
            "off",
            "Runs begin when the clock (UTC) is at a multiple of this: `\"15 min\"` is at 0, 15, 30 and 45 minutes \
             past. `\"off\"`: one after the other.",
        ),
        key(
            "slot",
            Kind::Word(&["run", "round"]),
            "run",
            "What begins at each `every`: a run; or a round, whose runs then follow one another.",
        ),
        key(
            "for",
            Kind::TimeOrOff { min: Time::from_secs(1), max: DAYS_30 },
            "off",
            "No run begins so long after the first, or later; what is left of the study is left out.",
        ),
        key(
            "retries",
            Kind::Integer { min: 0, max: 1000 },
            "3",
            "How often a run that failed is tried again, after 2 s, 4 s, 8 s and so on.",
        ),
        key(
            "backoff",
            Kind::Time { min: Time::from_secs(1), max: DAYS_30 },
            "5 min",
            "Longest pause before it is tried again; pauses grow, from run to run too, until one comes through.",
        ),
        key(
            "failed",
            Kind::Word(&["skip", "again"]),
            "skip",
            "A run that keeps failing: `skip` keeps its flows as failed and goes on; `again` leaves it for the next \
             time that the same command is given.",
        ),
        key(
            "timeout",
            Kind::Time { min: Time::from_secs(1), max: DAYS_30 },
            "30 s",
            "A run is given up so long after its flows should have ended; of flows with a `size`, `time_limit` ends \
             it.",
        ),
        key(
            "connect_timeout",
            Kind::Time { min: Time::from_millis(100), max: Time::from_secs(3600) },
            "10 s",
            "Longest wait for a server to answer.",
        ),
    ],
};

/// `[reduced]`.
pub(crate) static REDUCED: Section = Section {
    name: "reduced",
    keys: &[required(
        "set",
        Kind::Special(&SET),
        "Key paths and values, as of `--set`; `\"vary.KEY PATH\" = [...]` varies one over these values.",
    )],
};

/// `[[experiments]]`.
pub(crate) static EXPERIMENT: Section = Section {
    name: "experiments",
    keys: &[
        required("name", Kind::Name, "Its name; in results it is what varies under the key `experiment`."),
        key("title", Kind::Text, "\"\"", "One line for reports."),
        key("about", Kind::Text, "\"\"", "What is asked in it."),
        key(
            "set",
            Kind::Special(&SET),
            "",
            "Key paths and values, as of `--set`, that this experiment has beside those of the study.",
        ),
        key("vary", Kind::Special(&VARY), "", "What varies in it, beside what varies in all."),
        key(
            "reduced",
            Kind::Table(&REDUCED),
            "",
            "What makes it small enough for a test, beside the `[reduced]` of the study.",
        ),
    ],
};

/// Values of `carriage`.
const CARRIAGES: &[&str] = &["fast", PLAIN];
/// The value without fast paths.
pub(crate) const PLAIN: &str = "plain";
/// Maximum runs of a plan.
pub(crate) const MAX_RUNS: u64 = 1_000_000;
#[cfg(test)]
mod tests {
    use perigee_text::{parse_value, Key, Origin};

    use std::collections::BTreeSet;

    use super::*;
    use crate::flows::KINDS;
    use crate::kinds::CC;
    use crate::quic::QUIC;
    use crate::schema::all_sections;
    use crate::{Overrides, Study};

    /// A valid value of a key that is not its default; `None` for tables and for names that must fit the rest.
    fn another(key: &Key) -> Option<String> {
        let unlike_default = |a: String, b: String| if key.default == a { b } else { a };
        Some(match key.kind {
            Kind::Text => "other".into(),
            Kind::Bool => unlike_default("true".into(), "false".into()),
            Kind::Integer { min, max } => unlike_default(max.to_string(), min.to_string()),
            Kind::Time { min, max } | Kind::TimeOrOff { min, max } => unlike_default(max.to_string(), min.to_string()),
            Kind::Size { min, max } => unlike_default(max.to_string(), min.to_string()),
            Kind::Sizes => "[\"5 kB\"]".into(),
            Kind::ThreeSizes => "[\"5 kB\", \"6 kB\", \"7 kB\"]".into(),
            Kind::Rate => "3 Mbit/s".into(),
            Kind::Rates => "[\"1 Mbit/s\", \"3 Mbit/s\"]".into(),
            Kind::ShareOrOff => "17 %".into(),
            Kind::SizeOrTimeOrOff => "17 s".into(),
            kind if kind.is(&NODES) => "[\"a\"]".into(),
            kind if kind.is(&CC) => "hybla".into(),
            Kind::Word(words) if words.len() == 2 => unlike_default(words[0].into(), words[1].into()),
            _ => return None,
        })
    }

    /// Two nodes, a link, and a flow of each kind.
    fn study() -> Study {
        let mut text = String::from(
            "name = \"s\"\ntime_limit = \"1 min\"\nnodes = [\"a\", \"b\"]\n[measure]\n\
             milestones = { every = \"1 MB\", upto = \"2 MB\" }\n[[links]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n\
             rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n",
        );
        let flows = [
            ("bulk", "size = \"2 B\""),
            ("request", "request = \"2 B\"\nresponse = \"2 B\"\nrepeat = 2"),
            ("transactions", "interval = \"1 s\"\nrequest = \"2 B\"\nresponses = [\"2 B\"]\nduration = \"1 s\""),
            ("web", "connections_per_s = 3\nduration = \"1 s\""),
            ("pages", "duration = \"1 s\"\npause = \"1 min\""),
            ("udp", "rate = \"1 Mbit/s\"\npacket = \"99 B\"\nduration = \"1 s\""),
            ("video", "duration = \"1 min\""),
            ("voice", "duration = \"1 s\""),
            ("call", "rate = \"1 Mbit/s\"\nduration = \"1 s\""),
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
            let keys = section.keys.iter().filter(|key| !matches!(key.name, "series" | "goodput_bin" | "l4s"));
            keys.for_each(|key| changes(path.into(), key));
        }
        for kind in KINDS {
            let keys = FLOW.keys.iter().filter(|key| key.only.is_empty() || key.only.contains(kind));
            let keys = keys.filter(|key| !matches!(key.name, "count" | "stagger" | "l4s"));
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
        let quic =
            |setting: &str| fingerprint(&["flows.bulk.transport=quic".into(), format!("flows.bulk.quic.{setting}")]);
        let of_quic = QUIC.keys.iter().filter_map(|key| Some(format!("{}={}", key.name, another(key)?)));
        let others = ["handshake=0-rtt", "initial_max_stream_data=tuned", "initial_max_data=1 MB"];
        for setting in of_quic.chain(others.map(String::from)) {
            assert_ne!(quic(&setting), quic("retry=false"), "{setting}");
        }
        // Packets can be L4S only if they are ECN-capable.
        let marked = ["flows.udp", "flows.voice", "flows.call", "hosts", "hosts.b", "flows.bulk.tcp"].map(|path| {
            let setting = |key: &str| format!("{path}.{key}=true");
            [fingerprint(&[setting("ecn")]), fingerprint(&[setting("ecn"), setting("l4s")])]
        });
        assert!(marked.iter().all(|[ecn, l4s]| ecn != l4s));
    }

    #[test]
    fn every_key_of_live_changes_how_it_is_carried_out_and_not_what() {
        let live = |settings: &[String]| study().live(&Overrides::new(settings, false).unwrap()).unwrap();
        for key in LIVE.keys {
            let value = match key.name {
                "here" => "a".into(),
                "servers" => "{ b = \"host\" }".into(),
                "agents" => "{ a = \"first\" }".into(),
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
        for section in all_sections() {
            for key in
                section.keys.iter().filter(|key| !key.default.is_empty() && key.name != "title" && key.name != "about")
            {
                let node = parse_value(key.default, &Origin::place("default"));
                key.kind.check(&node, key.name).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    #[test]
    fn no_key_is_declared_twice() {
        for section in all_sections() {
            assert_eq!(section.names().collect::<BTreeSet<_>>().len(), section.keys.len(), "{}", section.name);
        }
    }
}
