//! One direction of a link: its keys, and how they are read.

use std::sync::Arc;

use perigee_link::{DelaySpec, LinkSpec, LossSpec, RateSpec};
use perigee_units::Bytes;

use super::delay::{delay, loaded, DELAY, LOADED};
use super::loss::{losses, LOSS};
use super::process::{inside, process, recording, Load};
use super::queue::{queue, QUEUE};
use super::rate::{rate, RATE};
use super::trace::{self, Timeline};
use crate::reader::Reader;
use crate::section::{Key, Kind, Process, Section};
use crate::strict::{Node, Read, StrictError};

/// One direction of a link.
pub(crate) static DIRECTION: Section =
    Section { name: "direction", keys: &[RATE, DELAY, QUEUE, LOSS, TIMELINE, LOADED, BURST, OVERHEAD] };

pub(crate) const TIMELINE: Key = process("timeline", &TIMELINES, "A file of comma-separated values with the columns `time_s` or `time_ms` and any of `rate_mbps`, `delay_ms`, `loss`, `limit_bytes` (other units: see the error).");
pub(crate) const BURST: Key =
    process("burst", &BURSTS, "Token bucket: so many bytes leave at once after an idle time.");
pub(crate) const OVERHEAD: Key =
    process("overhead", &OVERHEADS, "Bytes that each packet takes beyond its own (14 for Ethernet).");

static TIMELINES: Process = Process { name: "timeline", plain: Some(&Kind::Text), forms: &[], is_list: false };
static BURSTS: Process = Process {
    name: "burst",
    plain: Some(&Kind::Size { min: Bytes::ZERO, max: Bytes::new(1 << 30) }),
    forms: &[],
    is_list: false,
};
static OVERHEADS: Process = Process {
    name: "overhead",
    plain: Some(&Kind::Size { min: Bytes::ZERO, max: Bytes::new(1500) }),
    forms: &[],
    is_list: false,
};

/// Reads one direction of a link; `path` names it in messages.
///
/// # Errors
/// If a key is unknown, a value is missing, wrong, or contradicts another, or a recording cannot be read.
///
/// ```
/// use perigee_study::{read_link_spec, strict};
/// let text = "rate = \"10 Mbit/s\"\ndelay = \"300 ms\"\nqueue = \"375 kB\"\nloss = \"0.1 %\"\n";
/// let tree = strict::parse(text, "a.toml").unwrap();
/// let spec = read_link_spec(&tree, "", &mut |_| Err("no files here".into())).unwrap();
/// assert_eq!(spec.loss.len(), 1);
/// ```
pub fn read_link_spec(node: &Node, path: &str, load: &mut Load<'_>) -> Result<LinkSpec, StrictError> {
    let table = Reader::open(node, path, &DIRECTION, &[])?;
    let timeline = match value::<String>(&table, "timeline", &TIMELINES)? {
        Some(name) => recording(&table, "timeline", &name, load, trace::timeline)?,
        None => Timeline::default(),
    };
    let rate = match (beside_timeline(&table, "rate", timeline.rate.is_some())?, timeline.rate) {
        (Some(node), _) => rate(node, &table.dotted("rate"), load)?,
        (None, Some(steps)) => RateSpec::Trace(Arc::new(steps)),
        (None, None) => return Err(table.table.missing("rate")),
    };
    let delay = match (beside_timeline(&table, "delay", timeline.delay.is_some())?, timeline.delay) {
        (Some(node), _) => delay(node, &table.dotted("delay"), load)?,
        (None, Some(steps)) => DelaySpec::Trace(Arc::new(steps)),
        (None, None) => return Err(table.table.missing("delay")),
    };
    let mut loss = match beside_timeline(&table, "loss", timeline.loss.is_some())? {
        Some(node) => losses(node, &table.dotted("loss"), load)?,
        None => Vec::new(),
    };
    loss.extend(timeline.loss.map(|steps| LossSpec::Trace(Arc::new(steps))));
    let mut queue = inside(&table, "queue", queue)?.unwrap_or_default();
    queue.bytes_over_time = timeline.limit.map(Arc::new);
    Ok(LinkSpec {
        queue,
        rate,
        delay,
        loaded: inside(&table, "loaded", loaded)?,
        loss,
        burst: value(&table, "burst", &BURSTS)?.unwrap_or_default(),
        overhead: value::<Bytes>(&table, "overhead", &OVERHEADS)?.map_or(0, |bytes| bytes.as_u64() as u32),
    })
}

/// The value of a process that has no tables.
fn value<T: Read>(table: &Reader<'_>, key: &str, process: &Process) -> Result<Option<T>, StrictError> {
    if let Some(node) = table.table.node(key) {
        process.open(node, &table.dotted(key))?;
    }
    table.table.get(key)
}

/// A process that the timeline may have instead.
fn beside_timeline<'a>(table: &Reader<'a>, key: &str, in_timeline: bool) -> Result<Option<&'a Node>, StrictError> {
    match table.table.node(key) {
        Some(_) if in_timeline => {
            Err(table.error(key, format!("`{key}` is in the timeline too"), "remove it here or there"))
        }
        node => Ok(node),
    }
}

/// Every process of a direction and, after each, those inside it.
pub(crate) fn processes() -> Vec<&'static Process> {
    let mut processes = Vec::new();
    add_processes(&DIRECTION, &mut processes);
    processes
}

fn add_processes(section: &'static Section, processes: &mut Vec<&'static Process>) {
    for key in section.keys {
        let Kind::Process(process) = key.kind else { continue };
        processes.push(process);
        process.forms.iter().for_each(|form| add_processes(form.section, processes));
    }
}

/// Every table of a process, each once.
pub(crate) fn forms() -> Vec<&'static Section> {
    let mut sections: Vec<&'static Section> = Vec::new();
    for form in processes().into_iter().flat_map(|process| process.forms) {
        if !sections.iter().any(|known| known.name == form.section.name) {
            sections.push(form.section);
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use perigee_link::{AqmSpec, Jitter};
    use perigee_units::{Ratio, Time};

    use super::*;
    use crate::strict;

    fn read(text: &str) -> Result<LinkSpec, String> {
        let tree = strict::parse(text, "f.toml").map_err(|e| e.to_string())?;
        let mut load = |name: &str| match name {
            "bw" => Ok(b"1\n2\n".to_vec()),
            "csv" => Ok(b"time_s,rate_mbps,loss\n0,1,0\n".to_vec()),
            _ => Err("no such file".to_owned()),
        };
        read_link_spec(&tree, "", &mut load).map_err(|e| e.to_string())
    }

    #[test]
    fn every_process_can_be_written() {
        let spec = read(
            r#"
            rate = { kind = "fluctuating", mean = "130 Mbit/s", sd = "8 Mbit/s", min = "20 Mbit/s", max = "144 Mbit/s", every = "1 s", memory = "10 s", mood = "3 Mbit/s" }
            delay = { kind = "jitter", base = "280 ms", every = "200 ms", body = { kind = "normal", sd = "9 ms" }, tail = { kind = "pareto", share = "0.1 %", every = "200 ms", min = "30 ms", shape = 1.2, max = "1.2 s" } }
            loaded = { above = "50 kbit/s", window = "200 ms", delay = "80 ms", every = "100 ms" }
            queue = { bytes = "36 MB", aqm = { kind = "viasat2", threshold = "50 %", drop = "25 %" } }
            loss = ["0.01 %", { kind = "outages", gap = "400 s", length = "100 ms" }, { kind = "gilbert-elliott", loss = "0.1 %", burst = 4 }]
            overhead = "14 B"
            "#,
        )
        .unwrap();
        assert_eq!((spec.loss.len(), spec.overhead), (3, 14));
        assert!(matches!(spec.delay, DelaySpec::Jitter(Jitter { linear: false, tail: Some(_), .. })));
        assert!(matches!(read("rate = { trace = \"bw\" }\ndelay = \"1 ms\"").unwrap().rate, RateSpec::Trace(_)));
        assert!(matches!(read("timeline = \"csv\"\ndelay = \"1 ms\"").unwrap().loss[..], [LossSpec::Trace(_)]));
    }

    #[test]
    fn what_is_left_out_has_its_declared_default() {
        let with = |process: &str| read(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{process}")).unwrap();
        let (target, interval) = (Time::from_millis(5), Time::from_millis(100));
        let codel = AqmSpec::Codel { target, interval, ecn: false };
        assert_eq!(with("queue = { aqm = { kind = \"codel\" } }").queue.aqm, codel);
        let (period, length) = (Time::from_secs(15), Time::from_millis(20));
        let periodic = LossSpec::Periodic { period, phase: period, length, loss: Ratio::ONE };
        let text = "loss = { kind = \"periodic\", period = \"15 s\", length = \"20 ms\" }";
        assert_eq!(with(text).loss, [periodic], "the first comes after one period");
        let chain = "loss = { kind = \"gilbert-elliott\", good_to_bad = \"1 %\", bad_to_good = \"20 %\" }";
        assert!(matches!(
            with(chain).loss[..],
            [LossSpec::GilbertElliott { good_loss: Ratio::ZERO, bad_loss: Ratio::ONE, .. }]
        ));
    }

    #[test]
    fn each_mistake_in_a_link_names_its_line_and_its_fix() {
        let message = |text: &str| read(text).unwrap_err();
        assert_eq!(message("delay = \"1 ms\""), "f.toml:1: `rate` is missing; add `rate = ...` here");
        assert_eq!(
            message("rate = \"0 bit/s\"\ndelay = \"1 ms\""),
            "f.toml:1: `rate` = 0 bit/s is out of range; use 1 kbit/s or more"
        );
        assert_eq!(
            message("rate = { trace = \"none\" }\ndelay = \"1 ms\""),
            "f.toml:1: cannot read `none`: no such file; check the path"
        );
        assert_eq!(
            message("rate = { trace = \"\" }\ndelay = \"1 ms\""),
            "f.toml:1: `rate.trace` names no recording; give it the path of one"
        );
        assert_eq!(
            message("rate = { trace = \"bw\", mean = \"1 Mbit/s\" }\ndelay = \"1 ms\""),
            "f.toml:1: unknown key `rate.mean`; use one of trace"
        );
        assert_eq!(
            message("timeline = \"csv\"\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\""),
            "f.toml:2: `rate` is in the timeline too; remove it here or there"
        );
        assert_eq!(
            message("rate = { kind = \"fluctuatin\" }\ndelay = \"1 ms\""),
            "f.toml:1: `rate.kind` cannot be `fluctuatin`; did you mean `fluctuating`?"
        );
        let queue = "queue = { aqm = { kind = \"viasat2\", threshold = \"50 %\", drop = \"25 %\" } }";
        assert_eq!(
            message(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{queue}")),
            "f.toml:3: `queue.bytes` is missing; add `bytes = ...` here"
        );
        let queue = "queue = { time = \"9 ms\", aqm = { kind = \"codel\" } }";
        assert_eq!(
            message(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{queue}")),
            "f.toml:3: `queue.time` cannot be held by CoDel, which decides when packets leave; limit the queue by `bytes` or `packets`"
        );
        let unknown = "queue = { bytes = \"9 kB\", aqm = { kind = \"codel\", taget = \"5 ms\" } }";
        assert_eq!(
            message(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{unknown}")),
            "f.toml:3: unknown key `queue.aqm.taget`; did you mean `target`?"
        );
        let loss = "loss = { kind = \"periodic\", period = \"1 s\", length = \"1 s\" }";
        assert_eq!(
            message(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{loss}")),
            "f.toml:3: losses of 1 s every 1 s are no periodic losses; make `length` more than zero and less than `period`"
        );
        let loss = "loss = { kind = \"gilbert-elliott\", loss = \"90 %\", burst = 2 }";
        assert_eq!(
            message(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{loss}")),
            "f.toml:3: a loss of 90 % in bursts of 2 packets cannot be; lower the loss or lengthen the burst"
        );
    }
}
