//! The queue of a link: its keys, their reading, and what reports say of it.

use perigee_link::{AqmSpec, Full, LinkSpec, QueueSpec};
use perigee_text::{key, Form, Key, Kind, Node, Process, Read, Section, StrictError, LARGEST};
use perigee_units::{Bytes, Rate, Time};

use super::aqm::{self, aqm, AQMS};
use super::process::{inside, process, recorded, ANY_SIZE, ANY_TIME, MOST_INTERVAL};

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
        key(
            "kind",
            Kind::Word(KINDS),
            "drop-tail",
            "Packet that a full queue drops: `drop-tail`, the arrival; `drop-front`, the one at its head, so that \
             senders learn of the loss earlier. FQ-CoDel drops at the head of its longest queue anyway; \
             `drop-front` is not for other `aqm` than CoDel. `priority`: the newest packet of low priority, for an \
             arrival of normal priority; packets of low priority are served last. Flows of datagrams say which they have \
             (`priority`). Not with `aqm` and `time`.",
        ),
        key("bytes", ANY_SIZE, "", "Limit in bytes, the packet in service and `overhead` counted."),
        key(
            "bdp",
            Kind::Number { min: 0.000_001, max: 1000.0 },
            "",
            "In place of `bytes`: limit as a multiple of the bandwidth-delay product, the mean rate of this \
             direction times `round_trip`; at least one packet of 1500 bytes.",
        ),
        key(
            "round_trip",
            Kind::Time { min: Time::from_micros(1), max: MOST_INTERVAL },
            "",
            "Round trip for `bdp`. Not given: the typical delays of both directions of this link, without waits.",
        ),
        key("packets", Kind::Integer { min: 1, max: u32::MAX as u64 }, "", "Limit in packets."),
        key(
            "time",
            ANY_TIME,
            "",
            "Limit on the time that a packet waits before its service begins. With `drop-tail` an arrival that would \
             wait longer is dropped; with `drop-front` a packet that has waited longer, once its service could \
             begin. Not with CoDel.",
        ),
        key("aqm", Kind::Process(&AQMS), "", "Active queue management. Not given: drop-tail."),
    ],
};

const KINDS: &[&str] = &["drop-tail", "drop-front", PRIORITY];
const PRIORITY: &str = "priority";

/// A limit as a multiple of the bandwidth-delay product of a link, of which one direction has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BdpLimit {
    multiple: f64,
    /// The round trip; `None`: the sum of the typical delays of both directions.
    round_trip: Option<Time>,
}

impl BdpLimit {
    /// Sets the limit in bytes of a direction: multiple x rate x round trip, at least a packet; `back` is the typical delay of the
    /// other direction.
    pub(crate) fn apply(self, spec: &mut LinkSpec, back: Time) {
        let round_trip = self.round_trip.unwrap_or(spec.delay.typical() + back);
        let bytes = self.multiple * spec.rate.mean_bps() * round_trip.as_secs_f64() / 8.0;
        let least = 1500.0 + f64::from(spec.overhead);
        spec.queue.bytes = Some(Bytes::new(bytes.round().clamp(least, LARGEST.as_u64() as f64) as u64));
    }
}

/// Reads the queue of a link that sends at `rate` on average.
pub(super) fn queue(node: &Node, what: &str, rate: Rate) -> Result<(QueueSpec, Option<BdpLimit>), StrictError> {
    let Some((_, table)) = QUEUES.open(node, what)? else {
        return Ok((QueueSpec { bytes: Some(Bytes::read(node, what)?), ..QueueSpec::default() }, None));
    };
    let multiple = table.table.get("bdp")?;
    let round_trip = table.table.get("round_trip")?;
    let queue = QueueSpec {
        full: match &*table.get::<String>("kind")? {
            "drop-front" => Full::DropFront,
            PRIORITY => Full::DropLow,
            _ => Full::DropTail,
        },
        bytes: table.table.get("bytes")?,
        packets: table.table.get("packets")?,
        time: table.table.get("time")?,
        aqm: inside(&table, "aqm", |node, what| aqm(node, what, rate))?.unwrap_or_default(),
        bytes_over_time: None,
    };
    if multiple.is_some() && queue.bytes.is_some() {
        let message = format!("`{}` stands beside `bytes`", table.dotted("bdp"));
        return Err(table.error("bdp", message, "keep one of them"));
    }
    if multiple.is_none() && round_trip.is_some() {
        return Err(table.table.missing("bdp"));
    }
    if matches!(queue.aqm, AqmSpec::Viasat2 { .. }) && queue.bytes.is_none() && multiple.is_none() {
        return Err(table.table.missing("bytes"));
    }
    if let (Some(name), Some(_)) = (aqm::deciding_on_departure(&queue.aqm), queue.time) {
        let message = format!("`{}` cannot be held by {name}, which decides when packets leave", table.dotted("time"));
        return Err(table.error("time", message, "limit the queue by `bytes` or `packets`"));
    }
    let only_full = matches!(queue.aqm, AqmSpec::None | AqmSpec::Codel(_));
    if queue.full == Full::DropFront && !only_full {
        let message =
            format!("`{}` = `drop-front` stands beside `aqm` of another kind than CoDel", table.dotted("kind"));
        return Err(table.error("kind", message, "leave out one of them"));
    }
    let stands_beside = if queue.time.is_some() { Some("time") } else { (queue.aqm != AqmSpec::None).then_some("aqm") };
    if let (Full::DropLow, Some(key)) = (queue.full, stands_beside) {
        let message = format!("`{}` = `{PRIORITY}` stands beside `{key}`", table.dotted("kind"));
        return Err(table.error("kind", message, "leave out one of them; limit the queue by `bytes` or `packets`"));
    }
    Ok((queue, multiple.map(|multiple| BdpLimit { multiple, round_trip })))
}

/// The limits in words.
pub(super) fn in_words(spec: &QueueSpec) -> String {
    let limits: Vec<_> = [
        spec.bytes.map(|limit| limit.to_string()),
        spec.packets.map(|limit| format!("{limit} packets")),
        spec.time.map(|limit| limit.to_string()),
        spec.bytes_over_time.as_ref().map(|steps| recorded(steps)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let drops = match spec.full {
        Full::DropTail => "",
        Full::DropFront => ", drops from its front",
        Full::DropLow => ", serves low priority last and drops it first",
    };
    if limits.is_empty() {
        "without limit".to_owned() + drops
    } else {
        limits.join(", ") + drops
    }
}
