//! The queue of a link and its management: their keys, and how they are read.

use perigee_link::{AqmSpec, QueueSpec};
use perigee_units::{Bytes, Time};

use super::process::{inside, process, table_of, ANY_SIZE, ANY_TIME, INTERVAL, MOST_INTERVAL};
use crate::section::{key, required, Form, Key, Kind, Process, Section, LARGEST};
use crate::strict::{Node, Read, StrictError};

pub(crate) const QUEUE: Key = process(
    "queue",
    &QUEUES,
    "How much may wait, and which packets are dropped before that. Not given: without limit.",
);

static QUEUES: Process = Process {
    name: "queue",
    plain: Some(&ANY_SIZE),
    forms: &[Form { kind: None, section: &QUEUE_LIMITS }],
    is_list: false,
};
static QUEUE_LIMITS: Section = Section {
    name: "queue",
    keys: &[
        key("bytes", ANY_SIZE, "", "Limit in bytes, the packet in service and `overhead` counted."),
        key("packets", Kind::Integer { min: 1, max: u32::MAX as u64 }, "", "Limit in packets."),
        key("time", ANY_TIME, "", "Limit on the time an arrival would wait before its service begins; not with CoDel."),
        key("aqm", Kind::Process(&AQMS), "", "Active queue management. Not given: drop-tail."),
    ],
};
static AQMS: Process = Process {
    name: "aqm",
    plain: None,
    forms: &[
        Form { kind: Some("viasat2"), section: &VIASAT2 },
        Form { kind: Some("red"), section: &RED },
        Form { kind: Some("codel"), section: &CODEL },
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
        required("min", ANY_SIZE, "Average backlog from which on packets are dropped."),
        required(
            "max",
            Kind::Size { min: Bytes::new(1), max: LARGEST },
            "Average backlog at which the probability has reached `max_probability`.",
        ),
        required("max_probability", Kind::Share, "Drop probability at `max`; it rises to one at twice `max`."),
        required("weight", Kind::Share, "Weight of a new sample in the average."),
        ECN,
    ],
};
static CODEL: Section = Section {
    name: "aqm, codel",
    keys: &[
        key("target", Kind::Time { min: Time::from_micros(1), max: MOST_INTERVAL }, "5 ms", "Wait that is acceptable as a standing one."),
        key("interval", INTERVAL, "100 ms", "Time for which waits may be above the target before packets are dropped; about the largest usual round trip."),
        ECN,
    ],
};

const ECN: Key =
    key("ecn", Kind::Bool, "false", "Mark packets that can be marked instead of dropping them (RFC 3168).");

pub(super) fn queue(node: &Node, what: &str) -> Result<QueueSpec, StrictError> {
    let Some((_, table)) = QUEUES.open(node, what)? else {
        return Ok(QueueSpec { bytes: Some(Bytes::read(node, what)?), ..QueueSpec::default() });
    };
    let queue = QueueSpec {
        bytes: table.table.get("bytes")?,
        packets: table.table.get("packets")?,
        time: table.table.get("time")?,
        aqm: inside(&table, "aqm", aqm)?.unwrap_or_default(),
        bytes_over_time: None,
    };
    match queue.aqm {
        AqmSpec::Viasat2 { .. } if queue.bytes.is_none() => Err(table.table.missing("bytes")),
        AqmSpec::Codel { .. } if queue.time.is_some() => {
            let message =
                format!("`{}` cannot be held by CoDel, which decides when packets leave", table.dotted("time"));
            Err(table.error("time", message, "limit the queue by `bytes` or `packets`"))
        }
        _ => Ok(queue),
    }
}

fn aqm(node: &Node, what: &str) -> Result<AqmSpec, StrictError> {
    let (kind, table) = table_of(&AQMS, node, what)?;
    Ok(match kind {
        Some("viasat2") => AqmSpec::Viasat2 { threshold: table.get("threshold")?, drop: table.get("drop")? },
        Some("red") => {
            let max: Bytes = table.get("max")?;
            AqmSpec::Red {
                min: table.table.require_in("min", Bytes::ZERO..=max)?,
                max,
                max_probability: table.get("max_probability")?,
                weight: table.get("weight")?,
                ecn: table.get("ecn")?,
            }
        }
        _ => AqmSpec::Codel { target: table.get("target")?, interval: table.get("interval")?, ecn: table.get("ecn")? },
    })
}
