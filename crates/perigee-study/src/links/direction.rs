//! One direction of a link: its keys, their reading, and what reports say of it.

use std::sync::Arc;

use perigee_link::{AqmSpec, DelaySpec, EcnTreatment, Full, LinkSpec, LossSpec, QueueSpec, RateSpec};
use perigee_text::{text_of, Content, Key, Kind, Node, Process, Read, Reader, Section, StrictError};
use perigee_units::{Bytes, Rate, Time};

use super::aqm;
use super::delay::{self, delay, loaded, WrittenDelay, DELAY, LOADED};
use super::loss::{self, losses, LOSS};
use super::process::{inside, process, recording, Load};
use super::queue::{self, queue, BdpLimit, QUEUE};
use super::rate::{self, rate, WrittenRate, RATE};
use super::replay::{settle, Recorded, REPLAY};
use super::slots::{begin_at, TIMES_OF_DAY, TIME_OF_DAY};
use super::states::{self, STATES};
use super::trace::{self, Timeline};

/// One direction of a link.
pub(crate) static DIRECTION: Section = Section {
    name: "direction",
    keys: &[RATE, DELAY, REPLAY, QUEUE, LOSS, STATES, TIMELINE, LOADED, BURST, OVERHEAD, ECN, TIME_OF_DAY],
};

pub(crate) const TIMELINE: Key = process(
    "timeline",
    &TIMELINES,
    "A file of comma-separated values with the columns `time_s` or `time_ms` and any of `rate_mbps`, `delay_ms`, \
     `loss`, `limit_bytes` (other units: see the error). An array has the lines themselves: `[\"time_s, \
     delay_ms\", \"0, 20\", \"30, 300\"]`.",
);
pub(crate) const BURST: Key =
    process("burst", &BURSTS, "Token bucket: so many bytes leave at once after an idle time.");
pub(crate) const OVERHEAD: Key =
    process("overhead", &OVERHEADS, "Bytes that each packet takes beyond its own (14 for Ethernet).");
pub(crate) const ECN: Key = process(
    "ecn",
    &ECNS,
    "What it does to the ECN field, as a tunnel or a middlebox (RFC 6040). `pass`: its queue may mark. \
     `compatibility`: its queue sees Not-ECT and drops instead; the field leaves as it came. `ignore-outer`: its \
     queue marks, and the marks are lost where the tunnel ends. `bleach`: the field is cleared before the queue. \
     `drop`: a firewall before the queue drops ECN-capable packets and the SYNs that ask for ECN.",
);

static TIMELINES: Process = Process { name: "timeline", plain: Some(&Kind::Text), forms: &[], is_list: true };
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
static ECNS: Process = Process { name: "ecn", plain: Some(&Kind::Word(ECN_TREATMENTS)), forms: &[], is_list: false };
const ECN_TREATMENTS: &[&str] = &["pass", "compatibility", "ignore-outer", "bleach", "drop"];

/// Reads one direction of a link; `path` names it in messages. A queue limit in bandwidth-delay products assumes that the other
/// direction has the same delay.
///
/// # Errors
/// If a key is unknown, a value is missing, wrong, or contradicts another, or a recording cannot be read.
///
/// ```
/// use perigee_study::read_link_spec;
/// let text = "rate = \"10 Mbit/s\"\ndelay = \"300 ms\"\nqueue = \"375 kB\"\nloss = \"0.1 %\"\n";
/// let tree = perigee_text::parse(text, "a.toml").unwrap();
/// let spec = read_link_spec(&tree, "", &mut |_| Err("no files here".into())).unwrap();
/// assert_eq!(spec.loss.len(), 1);
/// ```
pub fn read_link_spec(node: &Node, path: &str, load: &mut Load<'_>) -> Result<LinkSpec, StrictError> {
    let Draft { mut spec, limit, .. } = read_direction(node, path, load)?;
    if let Some(limit) = limit {
        let back = spec.delay.typical();
        limit.apply(&mut spec, back);
    }
    Ok(spec)
}

/// One direction of a link, and what depends on the other one: a queue limit, and how recordings are cut.
pub(super) struct Draft {
    spec: LinkSpec,
    limit: Option<BdpLimit>,
    recorded: Recorded,
}

/// Reads one direction of a link.
pub(super) fn read_direction(node: &Node, path: &str, load: &mut Load<'_>) -> Result<Draft, StrictError> {
    let table = Reader::open(node, path, &DIRECTION, &[])?;
    let timeline = written_timeline(&table, load)?;
    let mut spec = LinkSpec::constant(Rate::ZERO, Time::ZERO);
    let (mut recorded_rate, mut recorded_delay, mut lagging) = (None, None, None);
    match (beside_timeline(&table, "rate", timeline.rate.is_some())?, timeline.rate) {
        (Some(node), _) => match rate(node, &table.dotted("rate"), load)? {
            WrittenRate::Recorded(rate) => recorded_rate = Some(rate),
            WrittenRate::Process(rate) => spec.rate = rate,
            WrittenRate::Modulated(rate, loss) => (spec.rate, lagging) = (rate, Some(loss)),
        },
        (None, Some(steps)) => spec.rate = RateSpec::Trace(Arc::new(steps)),
        (None, None) => return Err(table.table.missing("rate")),
    }
    match (beside_timeline(&table, "delay", timeline.delay.is_some())?, timeline.delay) {
        (Some(node), _) => match delay(node, &table.dotted("delay"), load)? {
            WrittenDelay::Recorded(delay) => recorded_delay = Some(delay),
            WrittenDelay::Process(delay) => spec.delay = delay,
        },
        (None, Some(steps)) => spec.delay = DelaySpec::Trace(Arc::new(steps)),
        (None, None) => return Err(table.table.missing("delay")),
    }
    let recorded = Recorded::new(&table, recorded_rate, recorded_delay)?;
    settle(&mut [(&mut spec, &recorded)])?;
    if let Some(node) = beside_timeline(&table, "loss", timeline.loss.is_some())? {
        spec.loss = losses(node, &table.dotted("loss"), load)?;
    }
    spec.loss.extend(lagging);
    spec.loss.extend(timeline.loss.map(|steps| LossSpec::Trace(Arc::new(steps))));
    spec.states = inside(&table, "states", |node, what| states::states(node, what, &spec.rate))?;
    let mean = Rate::from_bps(spec.rate.mean_bps() as u64);
    let limit = match inside(&table, "queue", |node, what| queue(node, what, mean))? {
        Some((queue, limit)) => {
            spec.queue = queue;
            limit
        }
        None => None,
    };
    spec.queue.bytes_over_time = timeline.limit.map(Arc::new);
    if let RateSpec::Tdma(_) = spec.rate {
        check_beside_tdma(&table, &spec.queue)?;
    }
    spec.loaded = inside(&table, "loaded", loaded)?;
    spec.burst = value(&table, "burst", &BURSTS)?.unwrap_or_default();
    spec.overhead = value::<Bytes>(&table, "overhead", &OVERHEADS)?.map_or(0, |bytes| bytes.as_u64() as u32);
    spec.ecn = value::<String>(&table, "ecn", &ECNS)?.map_or_else(EcnTreatment::default, |word| treatment(&word));
    begin_at(&mut spec, &table, value(&table, "time_of_day", &TIMES_OF_DAY)?)?;
    Ok(Draft { spec, limit, recorded })
}

/// Both directions of a link, down and up: their recordings are cut alike, and each has its limit.
pub(super) fn link(mut down: Draft, mut up: Draft) -> Result<[LinkSpec; 2], StrictError> {
    settle(&mut [(&mut down.spec, &down.recorded), (&mut up.spec, &up.recorded)])?;
    let delays = [&up, &down].map(|draft| draft.spec.delay.typical());
    let limited = |mut draft: Draft, back| {
        if let Some(limit) = draft.limit {
            limit.apply(&mut draft.spec, back);
        }
        draft.spec
    };
    Ok([limited(down, delays[0]), limited(up, delays[1])])
}

/// The processes of a direction in words.
pub(crate) fn in_words(spec: &LinkSpec) -> Vec<(&'static str, String)> {
    let mut words = vec![("rate", rate::in_words(&spec.rate)), ("delay", delay::in_words(&spec.delay))];
    words.extend(spec.loaded.as_ref().map(|loaded| ("more delay while loaded", delay::loaded_in_words(loaded))));
    words.push(("queue", queue::in_words(&spec.queue)));
    words.extend(aqm::in_words(&spec.queue.aqm).map(|text| ("queue management", text)));
    let losses: Vec<_> = spec.loss.iter().map(loss::in_words).collect();
    words.push(("loss", if losses.is_empty() { "none".to_owned() } else { losses.join("; ") }));
    words.extend(spec.states.as_ref().map(|states| ("states", states::in_words(states))));
    if spec.burst.as_u64() > 0 {
        words.push(("burst", spec.burst.to_string()));
    }
    if spec.overhead > 0 {
        words.push(("overhead per packet", format!("{} B", spec.overhead)));
    }
    words.extend(ecn_in_words(spec.ecn).map(|text| ("ECN field", text.to_owned())));
    words
}

/// The treatment of the ECN field that a study names, one of [`ECN_TREATMENTS`].
fn treatment(word: &str) -> EcnTreatment {
    match word {
        "compatibility" => EcnTreatment::Compatibility,
        "ignore-outer" => EcnTreatment::IgnoreOuter,
        "bleach" => EcnTreatment::Bleach,
        "drop" => EcnTreatment::Drop,
        _ => EcnTreatment::Pass,
    }
}

fn ecn_in_words(treatment: EcnTreatment) -> Option<&'static str> {
    match treatment {
        EcnTreatment::Pass => None,
        EcnTreatment::Compatibility => Some("hidden from the queue (tunnel in compatibility mode)"),
        EcnTreatment::IgnoreOuter => Some("marks are lost (tunnel whose end ignores the outer field)"),
        EcnTreatment::Bleach => Some("cleared before the queue"),
        EcnTreatment::Drop => Some("packets that use it are dropped before the queue"),
    }
}

/// Nothing that needs a server of its own stands beside a TDMA channel, which sends in slots.
fn check_beside_tdma(table: &Reader<'_>, queue: &QueueSpec) -> Result<(), StrictError> {
    let (what, key) = match queue {
        QueueSpec { time: Some(_), .. } => ("limit in time", "queue"),
        QueueSpec { bytes_over_time: Some(_), .. } => ("limit that changes over time", "timeline"),
        QueueSpec { full: Full::DropFront, .. } => ("queue that drops from its front", "queue"),
        QueueSpec { full: Full::DropLow, .. } => ("queue of two classes", "queue"),
        QueueSpec { aqm, .. } if *aqm != AqmSpec::None => ("queue management", "queue"),
        _ if table.table.has("burst") => ("token bucket", "burst"),
        _ => return Ok(()),
    };
    let message =
        format!("`{}` gives a {what} to a TDMA channel, whose packets wait at its terminals", table.dotted(key));
    Err(table.error(key, message, "limit the queue by `bytes` or `packets`; put anything else on a link before it"))
}

/// The timeline, in a file or as an array of its lines.
fn written_timeline(table: &Reader<'_>, load: &mut Load<'_>) -> Result<Timeline, StrictError> {
    let Some(Node { content: Content::Array(rows), .. }) = table.table.node("timeline") else {
        return match value::<String>(table, "timeline", &TIMELINES)? {
            Some(name) => recording(table, "timeline", &name, load, trace::timeline),
            None => Ok(Timeline::default()),
        };
    };
    let what = table.dotted("timeline");
    for row in rows {
        Kind::Text.check(row, &what)?;
    }
    let lines: Vec<&str> = rows.iter().filter_map(text_of).collect();
    trace::timeline(lines.join("\n").as_bytes(), "row").map_err(|error| {
        let row = error.origin.to_string().replace(':', " ");
        table.error("timeline", format!("`{what}`, {row}: {}", error.message), error.fix)
    })
}

/// The value of a process without tables.
fn value<T: Read>(table: &Reader<'_>, key: &str, process: &Process) -> Result<Option<T>, StrictError> {
    if let Some(node) = table.table.node(key) {
        process.open(node, &table.dotted(key))?;
    }
    table.table.get(key)
}

/// A process, unless the timeline has it.
fn beside_timeline<'a>(table: &Reader<'a>, key: &str, in_timeline: bool) -> Result<Option<&'a Node>, StrictError> {
    match table.table.node(key) {
        Some(_) if in_timeline => {
            Err(table.error(key, format!("`{key}` is in the timeline too"), "remove it here or there"))
        }
        node => Ok(node),
    }
}

#[cfg(test)]
mod tests {
    use perigee_link::{CodelSpec, DualPi2Spec, Jitter, PieSpec, RedSpec, RedThresholds};
    use perigee_units::Ratio;

    use super::*;

    fn read(text: &str) -> Result<LinkSpec, String> {
        let tree = perigee_text::parse(text, "f.toml").map_err(|e| e.to_string())?;
        let mut load = |name: &str| match name {
            "bw" => Ok(b"1\n2\n".to_vec()),
            "fade" => Ok(b"time_s,attenuation_db\n0,0\n10,9\n".to_vec()),
            "csv" => Ok(b"time_s,rate_mbps,loss\n0,1,0\n".to_vec()),
            _ => Err("no such file".to_owned()),
        };
        read_link_spec(&tree, "", &mut load).map_err(|e| e.to_string())
    }

    #[test]
    fn every_process_can_be_written() {
        let spec = read(
            r#"
            rate.kind = "fluctuating"
            rate.mean = "130 Mbit/s"
            rate.sd = "8 Mbit/s"
            rate.min = "20 Mbit/s"
            rate.max = "144 Mbit/s"
            rate.every = "1 s"
            rate.memory = "10 s"
            rate.mood = "3 Mbit/s"
            delay.kind = "jitter"
            delay.base = "280 ms"
            delay.every = "200 ms"
            delay.body = { kind = "normal", sd = "9 ms" }
            delay.tail = { kind = "pareto", share = "0.1 %", every = "200 ms", min = "30 ms", shape = 1.2, max = "1.2 s" }
            loaded = { above = "50 kbit/s", window = "200 ms", delay = "80 ms", every = "100 ms" }
            queue = { bytes = "36 MB", aqm = { kind = "viasat2", threshold = "50 %", drop = "25 %" } }
            loss = ["0.01 %", { kind = "outages", gap = "400 s", length = "100 ms" },
                    { kind = "gilbert-elliott", loss = "0.1 %", burst = 4 }]
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
    fn a_timeline_is_a_file_or_its_lines() {
        let written = |timeline: &str| read(&format!("rate = \"1 Mbit/s\"\ntimeline = {timeline}"));
        let spec = written(r#"["time_s, delay_ms", "0, 20", "30, 300"]"#).unwrap();
        let DelaySpec::Trace(steps) = spec.delay else { panic!("{:?}", spec.delay) };
        let expected = [(Time::ZERO, Time::from_millis(20)), (Time::from_secs(30), Time::from_millis(300))];
        assert_eq!(steps.iter().collect::<Vec<_>>(), expected);
        assert_eq!(
            written(r#"["time_s, delay_ms", "0, 20", "0, 300"]"#).unwrap_err(),
            "f.toml:2: `timeline`, row 3: 0 s comes after 0 s; let the time rise from row to row"
        );
        assert_eq!(
            written("[]").unwrap_err(),
            "f.toml:2: `timeline`, row 1: the recording is empty; check that this is the file you meant"
        );
        assert_eq!(written("[1]").unwrap_err(), "f.toml:2: `timeline` is an integer; write a string in quotes");
    }

    #[test]
    fn each_treatment_of_the_ecn_field_has_its_word() {
        let with = |ecn: &str| read(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{ecn}"));
        let treatments: Vec<_> =
            ECN_TREATMENTS.iter().map(|word| with(&format!("ecn = \"{word}\"")).unwrap().ecn).collect();
        let [pass, others @ ..] = &treatments[..] else { panic!("{treatments:?}") };
        assert_eq!((*pass, with("").unwrap().ecn), (EcnTreatment::Pass, EcnTreatment::Pass));
        let words: std::collections::BTreeSet<_> = others.iter().map(|each| ecn_in_words(*each)).collect();
        assert!(words.len() == 4 && !words.contains(&None), "each is another one, and named: {words:?}");
        assert_eq!(with("ecn = \"bleech\"").unwrap_err(), "f.toml:3: `ecn` cannot be `bleech`; did you mean `bleach`?");
    }

    #[test]
    fn what_is_left_out_has_its_declared_default() {
        let with = |process: &str| read(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{process}")).unwrap();
        let (target, interval) = (Time::from_millis(5), Time::from_millis(100));
        let codel = AqmSpec::Codel(CodelSpec { target, interval, ecn: false, ce_threshold: None });
        assert_eq!(with("queue = { aqm = { kind = \"codel\" } }").queue.aqm, codel);
        let codel = CodelSpec { target, interval, ecn: false, ce_threshold: Some(Time::from_micros(1500)) };
        let step = with("queue = { aqm = { kind = \"codel\", ce_threshold = \"1.5 ms\" } }").queue.aqm;
        assert_eq!(step, AqmSpec::Codel(codel));
        let codel = CodelSpec { target, interval, ecn: true, ce_threshold: None };
        let front = with("queue = { kind = \"drop-front\", packets = 50, time = \"30 ms\" }").queue;
        assert_eq!((front.full, front.packets), (Full::DropFront, Some(50)));
        let front = with("queue = { kind = \"drop-front\", packets = 50, aqm = { kind = \"codel\" } }").queue;
        assert_eq!(
            (front.full, front.aqm),
            (Full::DropFront, with("queue = { aqm = { kind = \"codel\" } }").queue.aqm)
        );
        let fq_codel = AqmSpec::FqCodel { queues: 1024, quantum: 1514, codel };
        assert_eq!(with("queue = { aqm = { kind = \"fq-codel\" } }").queue.aqm, fq_codel);
        let dual = AqmSpec::DualPi2(DualPi2Spec::default());
        assert_eq!(with("queue = { aqm = { kind = \"dualpi2\" } }").queue.aqm, dual);
        let (target, burst, mark_below) = (Time::from_millis(15), Time::from_millis(150), share(0.1));
        let pie = PieSpec { target, update: target, burst, alpha: 0.125, beta: 1.25, ecn: false, mark_below };
        assert_eq!(with("queue = { aqm = { kind = \"pie\" } }").queue.aqm, AqmSpec::Pie(pie));
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
    fn adaptive_modulation_is_a_rate_with_the_losses_of_its_lag() {
        let link = |keys: &str| {
            read(&format!("rate = {{ kind = \"acm\", symbol_rate_mbaud = 10, {keys} }}\ndelay = \"1 ms\""))
        };
        let fade = "margin_db = 0, signalling = \"1 s\", fade = \"fade\"";
        let spec = link(&format!("clear_sky_db = 10.5, {fade}")).unwrap();
        let (RateSpec::Trace(rate), [LossSpec::Trace(loss)]) = (&spec.rate, &spec.loss[..]) else { panic!("{spec:?}") };
        let at = |s: u64| (rate.at(Time::from_secs(s)).as_bps(), loss.at(Time::from_secs(s)));
        // 16APSK 3/4 at 10.5 dB, and QPSK 1/2 at 1.5 dB.
        assert_eq!(
            [at(9), at(10), at(11)],
            [(29_667_280, Ratio::ZERO), (29_667_280, Ratio::ONE), (9_888_580, Ratio::ZERO)]
        );
        let rain = "clear_sky_db = 12, median_db = 1, sigma = 1, length = \"60 s\"";
        assert_eq!(link(rain).unwrap().loss.len(), 1);
        assert_eq!(link(fade).unwrap_err(), "f.toml:1: `rate.clear_sky_db` is missing; add `clear_sky_db = ...` here");
    }

    fn share(share: f64) -> Ratio {
        Ratio::new(share).unwrap()
    }

    #[test]
    fn red_takes_its_thresholds_in_bytes_in_packets_or_from_the_rate() {
        let with = |aqm: &str| -> Result<RedSpec, String> {
            let text =
                format!("rate = \"240 Mbit/s\"\ndelay = \"1 ms\"\nqueue = {{ aqm = {{ kind = \"red\"{aqm} }} }}");
            match read(&text)?.queue.aqm {
                AqmSpec::Red(red) => Ok(red),
                other => panic!("{other:?}"),
            }
        };
        let automatic = with("").unwrap();
        assert_eq!(automatic.thresholds, RedThresholds::Packets { min: 50, max: 150 });
        assert!((automatic.weight.as_f64() - 5e-5).abs() < 1e-8, "{}", automatic.weight);
        assert_eq!((automatic.max_probability, automatic.adaptive, automatic.ecn), (share(0.1), false, false));
        let (min, max) = ("1 kB".parse().unwrap(), "3 kB".parse().unwrap());
        let bytes = with(", min = \"1 kB\", max = \"3 kB\", weight = \"0.2 %\", adaptive = true").unwrap();
        assert_eq!((bytes.thresholds, bytes.weight), (RedThresholds::Bytes { min, max }, share(0.002)));
        assert!(bytes.adaptive);
        let packets = with(", min_packets = 5, max_packets = 15").unwrap();
        assert_eq!(packets.thresholds, RedThresholds::Packets { min: 5, max: 15 });
        let message = |aqm: &str| with(aqm).unwrap_err();
        assert_eq!(
            message(", min = \"1 kB\", max = \"3 kB\", max_packets = 15"),
            "f.toml:3: `queue.aqm.min_packets` stands beside `min`; give the thresholds in bytes or in packets"
        );
        assert_eq!(message(", max = \"3 kB\""), "f.toml:3: `queue.aqm.min` is missing; add `min = ...` here");
        assert_eq!(
            message(", min_packets = 5"),
            "f.toml:3: `queue.aqm.max_packets` is missing; add `max_packets = ...` here"
        );
        assert_eq!(
            message(", min_packets = 16, max_packets = 15"),
            "f.toml:3: `queue.aqm.min_packets` = 16 is out of range; use a value from 0 to 15"
        );
    }

    #[test]
    fn a_limit_in_bandwidth_delay_products_is_rate_times_round_trip() {
        let limit = |queue: &str| read(&format!("rate = \"155 Mbit/s\"\ndelay = \"500 ms\"\nqueue = {queue}"));
        let bytes = |queue: &str| limit(queue).unwrap().queue.bytes.unwrap().as_u64();
        assert_eq!(bytes("{ bdp = 1 }"), 19_375_000, "the other direction is as long");
        assert_eq!(bytes("{ bdp = 0.02 }"), 387_500);
        assert_eq!(bytes("{ bdp = 0.5, round_trip = \"2 s\" }"), 19_375_000);
        assert_eq!(bytes("{ bdp = 0.000001 }"), 1500, "a packet has room");
        let message = |queue: &str| limit(queue).unwrap_err();
        assert_eq!(
            message("{ bdp = 1, bytes = \"1 MB\" }"),
            "f.toml:3: `queue.bdp` stands beside `bytes`; keep one of them"
        );
        assert_eq!(message("{ round_trip = \"1 s\" }"), "f.toml:3: `queue.bdp` is missing; add `bdp = ...` here");
        assert_eq!(
            message("{ bdp = 0 }"),
            "f.toml:3: `queue.bdp` = 0 is out of range; use a value from 0.000001 to 1000"
        );
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
        let front = "queue = { kind = \"drop-front\", aqm = { kind = \"red\" } }";
        assert_eq!(
            message(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{front}")),
            "f.toml:3: `queue.kind` = `drop-front` stands beside `aqm` of another kind than CoDel; leave out one of them"
        );
        let classes = "queue = { kind = \"priority\", time = \"9 ms\" }";
        assert_eq!(
            message(&format!("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{classes}")),
            "f.toml:3: `queue.kind` = `priority` stands beside `time`; leave out one of them; limit the queue by `bytes` or `packets`"
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
