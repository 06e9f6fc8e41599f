//! Queue management: its keys, their reading, and what reports say of it.

use perigee_link::{red_weight, AqmSpec, CodelSpec, DualPi2Spec, PieSpec, RedSpec, RedThresholds};
use perigee_text::{key, required, Form, Key, Kind, Node, Process, Reader, Section, StrictError, LARGEST};
use perigee_units::{Bytes, Rate, Time};

use super::process::{table_of, ANY_SIZE, INTERVAL, MOST_INTERVAL};

pub(super) static AQMS: Process = Process {
    name: "aqm",
    plain: None,
    forms: &[
        Form { kind: Some("viasat2"), section: &VIASAT2 },
        Form { kind: Some("red"), section: &RED },
        Form { kind: Some("pie"), section: &PIE },
        Form { kind: Some("codel"), section: &CODEL },
        Form { kind: Some("fq-codel"), section: &FQ_CODEL },
        Form { kind: Some("dualpi2"), section: &DUALPI2 },
        Form { kind: Some("netem"), section: &NETEM },
    ],
    is_list: false,
};
static VIASAT2: Section = Section {
    name: "aqm, viasat2",
    keys: &[
        required("threshold", Kind::Share, "Share of the byte limit from which on arrivals are dropped."),
        required("drop", Kind::Share, "Probability that an arrival is then dropped."),
    ],
};
static RED: Section = Section {
    name: "aqm, red",
    keys: &[
        key(
            "min",
            ANY_SIZE,
            "",
            "Average backlog from which on packets are dropped. Without thresholds: see `target_delay`.",
        ),
        key(
            "max",
            Kind::Size { min: Bytes::new(1), max: LARGEST },
            "",
            "Average backlog at which the probability has reached `max_probability`.",
        ),
        key(
            "min_packets",
            Kind::Integer { min: 0, max: MOST_PACKETS },
            "",
            "As `min`, and then packets are averaged, not bytes.",
        ),
        key("max_packets", Kind::Integer { min: 1, max: MOST_PACKETS }, "", "As `max`, beside `min_packets`."),
        key(
            "target_delay",
            TARGET,
            "5 ms",
            "Average delay that sets the thresholds where none are given: `min_packets` is half of what the link \
             sends in this time, in packets of 1500 bytes, and at least 5; `max_packets` is three times as much.",
        ),
        key(
            "max_probability",
            Kind::Share,
            "10 %",
            "Drop probability at the upper threshold; it rises to one at twice that threshold. With `adaptive`, the \
             one to begin with.",
        ),
        key(
            "weight",
            Kind::Share,
            "",
            "Weight of a new sample in the average. Not given: that of a time constant of one second at the link's \
             rate.",
        ),
        key(
            "adaptive",
            Kind::Bool,
            "false",
            "Adapt `max_probability` so that the average stays in the middle fifth between the thresholds (Adaptive \
             RED).",
        ),
        ECN,
    ],
};
static PIE: Section = Section {
    name: "aqm, pie",
    keys: &[
        key("target", TARGET, "15 ms", "Wait that it aims at."),
        key("update", INTERVAL, "15 ms", "Time between two updates of the drop probability."),
        key(
            "burst",
            Kind::Time { min: Time::ZERO, max: MOST_INTERVAL },
            "150 ms",
            "Time for which a burst is let through after a quiet time.",
        ),
        key("alpha", GAIN, "0.125", "Gain on the distance of the wait from the target, 1/s."),
        key("beta", GAIN, "1.25", "Gain on the change of the wait, 1/s."),
        ECN,
        key(
            "mark_below",
            Kind::Share,
            "10 %",
            "With `ecn`: drop probability from which on all packets are dropped instead of marked.",
        ),
    ],
};
static CODEL: Section = Section { name: "aqm, codel", keys: &[WAIT, WAIT_INTERVAL, ECN, STEP] };
static FQ_CODEL: Section = Section {
    name: "aqm, fq-codel",
    keys: &[
        WAIT,
        WAIT_INTERVAL,
        key("queues", Kind::Integer { min: 1, max: 65_536 }, "1024", "Number of queues that flows are hashed into."),
        key(
            "quantum",
            Kind::Size { min: Bytes::new(64), max: Bytes::new(1 << 20) },
            "1514 B",
            "Bytes that a queue may send before it is another's turn.",
        ),
        key("ecn", Kind::Bool, "true", "Mark packets that can be marked instead of dropping them (RFC 3168)."),
        STEP,
    ],
};
static DUALPI2: Section = Section {
    name: "aqm, dualpi2",
    keys: &[
        key("target", TARGET, "15 ms", "Wait that the classic queue aims at."),
        key("update", INTERVAL, "15 ms", "Time between two updates of the base probability."),
        key("alpha", GAIN, "0.15", "Gain on the distance of the wait from the target, 1/s."),
        key("beta", GAIN, "3", "Gain on the change of the wait, 1/s."),
        key(
            "coupling",
            Kind::Number { min: 0.1, max: 100.0 },
            "2",
            "By how much more the low-latency queue marks than the base probability, whose square the classic queue \
             drops with.",
        ),
        key(
            "ramp_from",
            Kind::Time { min: Time::ZERO, max: MOST_INTERVAL },
            "800 us",
            "Wait of a low-latency packet from which on it may be marked.",
        ),
        key(
            "ramp_width",
            Kind::Time { min: Time::ZERO, max: MOST_INTERVAL },
            "400 us",
            "From there to the wait at which each one is marked; zero: a step.",
        ),
        key(
            "classic_share",
            Kind::Share,
            "6.25 %",
            "Share of the bytes that the classic queue has while both are busy.",
        ),
    ],
};
static NETEM: Section = Section {
    name: "aqm, netem",
    keys: &[key(
        "packets",
        Kind::Integer { min: 1, max: u32::MAX as u64 },
        "1000",
        "Packets that may wait or be in the air. A path that holds more in flight is as slow as this many a delay.",
    )],
};

const ECN: Key =
    key("ecn", Kind::Bool, "false", "Mark packets that can be marked instead of dropping them (RFC 3168).");
const WAIT: Key = key("target", TARGET, "5 ms", "Wait that is acceptable as a standing one.");
const WAIT_INTERVAL: Key = key(
    "interval",
    INTERVAL,
    "100 ms",
    "Time for which waits may be above the target before packets are dropped; about the largest usual round trip.",
);
const STEP: Key = key(
    "ce_threshold",
    Kind::Time { min: Time::ZERO, max: MOST_INTERVAL },
    "",
    "Wait above which each packet that can be marked is marked, with `ecn` or without: a step, for congestion \
     controls that answer the share of marks, as `dctcp` (RFC 8257). Not given: no step.",
);
const TARGET: Kind = Kind::Time { min: Time::from_micros(1), max: MOST_INTERVAL };
const GAIN: Kind = Kind::Number { min: 0.0, max: 1000.0 };
/// Largest threshold, packets.
const MOST_PACKETS: u64 = 1_000_000_000;

/// Reads the queue management of a link that sends at `rate` on average.
pub(super) fn aqm(node: &Node, what: &str, rate: Rate) -> Result<AqmSpec, StrictError> {
    let (kind, table) = table_of(&AQMS, node, what)?;
    Ok(match kind {
        Some("viasat2") => AqmSpec::Viasat2 { threshold: table.get("threshold")?, drop: table.get("drop")? },
        Some("red") => AqmSpec::Red(RedSpec {
            thresholds: thresholds(&table, rate)?,
            max_probability: table.get("max_probability")?,
            weight: table.table.get("weight")?.unwrap_or_else(|| red_weight(rate)),
            adaptive: table.get("adaptive")?,
            ecn: table.get("ecn")?,
        }),
        Some("pie") => AqmSpec::Pie(PieSpec {
            target: table.get("target")?,
            update: table.get("update")?,
            burst: table.get("burst")?,
            alpha: table.get("alpha")?,
            beta: table.get("beta")?,
            ecn: table.get("ecn")?,
            mark_below: table.get("mark_below")?,
        }),
        Some("fq-codel") => AqmSpec::FqCodel {
            queues: table.get::<u64>("queues")? as u32,
            quantum: table.get::<Bytes>("quantum")?.as_u64() as u32,
            codel: codel(&table)?,
        },
        Some("dualpi2") => AqmSpec::DualPi2(DualPi2Spec {
            target: table.get("target")?,
            update: table.get("update")?,
            alpha: table.get("alpha")?,
            beta: table.get("beta")?,
            coupling: table.get("coupling")?,
            ramp_from: table.get("ramp_from")?,
            ramp_width: table.get("ramp_width")?,
            classic_share: table.get("classic_share")?,
        }),
        Some("netem") => AqmSpec::Netem { packets: table.get::<u64>("packets")? as u32 },
        _ => AqmSpec::Codel(codel(&table)?),
    })
}

fn codel(table: &Reader<'_>) -> Result<CodelSpec, StrictError> {
    Ok(CodelSpec {
        target: table.get("target")?,
        interval: table.get("interval")?,
        ecn: table.get("ecn")?,
        ce_threshold: table.table.get("ce_threshold")?,
    })
}

/// The thresholds of RED, in bytes, in packets, or derived from the rate.
fn thresholds(table: &Reader<'_>, rate: Rate) -> Result<RedThresholds, StrictError> {
    let (bytes, packets) = (["min", "max"], ["min_packets", "max_packets"]);
    let has = |keys: [&str; 2]| keys.map(|key| table.table.has(key));
    for (pair, other) in [(bytes, packets), (packets, bytes)] {
        match (has(pair), has(other)) {
            ([true, _] | [_, true], [true, _] | [_, true]) => {
                let message = format!("`{}` stands beside `{}`", table.dotted(packets[0]), bytes[0]);
                return Err(table.error(packets[0], message, "give the thresholds in bytes or in packets"));
            }
            ([true, false], _) => return Err(table.table.missing(pair[1])),
            ([false, true], _) => return Err(table.table.missing(pair[0])),
            _ => {}
        }
    }
    if has(bytes)[0] {
        let max: Bytes = table.get("max")?;
        return Ok(RedThresholds::Bytes { min: table.table.require_in("min", Bytes::ZERO..=max)?, max });
    }
    if has(packets)[0] {
        let max: u64 = table.get("max_packets")?;
        let min = table.table.require_in("min_packets", 0..=max)?;
        return Ok(RedThresholds::Packets { min: min as u32, max: max as u32 });
    }
    Ok(RedThresholds::automatic(rate, table.get("target_delay")?))
}

/// The name of queue management that decides when packets leave, and not whether they may come.
pub(super) fn deciding_on_departure(spec: &AqmSpec) -> Option<&'static str> {
    match spec {
        AqmSpec::Codel(_) => Some("CoDel"),
        AqmSpec::DualPi2(_) => Some("DualPI2"),
        AqmSpec::FqCodel { .. } => Some("FQ-CoDel"),
        AqmSpec::None | AqmSpec::Viasat2 { .. } | AqmSpec::Red(_) | AqmSpec::Pie(_) | AqmSpec::Netem { .. } => None,
    }
}

/// Queue management in words.
pub(super) fn in_words(spec: &AqmSpec) -> Option<String> {
    match spec {
        AqmSpec::None => None,
        AqmSpec::Viasat2 { threshold, drop } => Some(format!("drops {drop} of arrivals over {threshold} of the limit")),
        AqmSpec::Red(red) => {
            let adaptive = if red.adaptive { "adaptive " } else { "" };
            let thresholds = match red.thresholds {
                RedThresholds::Bytes { min, max } => format!("{min} to {max}"),
                RedThresholds::Packets { min, max } => format!("{min} to {max} packets"),
            };
            let probability = red.max_probability;
            Some(format!("{adaptive}RED, {thresholds}, at most {probability}{}", marks(red.ecn)))
        }
        AqmSpec::Pie(pie) => Some(format!("PIE, target {}, updated each {}{}", pie.target, pie.update, marks(pie.ecn))),
        AqmSpec::Codel(codel) => Some(format!("CoDel, {}", codel_in_words(codel))),
        AqmSpec::DualPi2(dual) => {
            let (target, coupling, share) = (dual.target, dual.coupling, dual.classic_share);
            Some(format!("DualPI2 (L4S), target {target}, coupling {coupling}, classic share {share}"))
        }
        AqmSpec::Netem { packets } => Some(format!("netem, {packets} packets with those in the air")),
        AqmSpec::FqCodel { queues, codel, .. } => Some(format!("FQ-CoDel, {queues} queues, {}", codel_in_words(codel))),
    }
}

fn codel_in_words(codel: &CodelSpec) -> String {
    let step =
        codel.ce_threshold.map_or_else(String::new, |threshold| format!(", marks all that waits over {threshold}"));
    format!("target {}, interval {}{}{step}", codel.target, codel.interval, marks(codel.ecn))
}

fn marks(ecn: bool) -> &'static str {
    if ecn {
        ", marks"
    } else {
        ""
    }
}
