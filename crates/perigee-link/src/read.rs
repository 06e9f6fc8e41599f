//! Reads the description of a link from TOML.

use std::sync::Arc;

use perigee_units::{Bytes, Rate, Ratio, Time};

use crate::spec::{
    AqmSpec, Body, DelaySpec, Fluctuation, Jitter, LinkSpec, Loaded, LossSpec, QueueSpec, RateSpec, Tail, TailShape,
};
use crate::strict::{Content, Node, Read, StrictError, Table};
use crate::trace;

/// Gives the bytes of a recording by the name a profile or study has for it, or says why it cannot.
pub type Load<'l> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'l;

impl LinkSpec {
    /// Reads one direction of a link out of `table`. Keys that do not belong to a link are left for the caller, who
    /// ends with [`Table::finish`].
    ///
    /// # Errors
    /// Where a value is missing, wrong, or contradicts another, or a recording cannot be read.
    ///
    /// ```
    /// use perigee_link::{strict, LinkSpec};
    /// let text = "rate = \"10 Mbit/s\"\ndelay = \"300 ms\"\nqueue = \"375 kB\"\nloss = \"0.1 %\"\n";
    /// let tree = strict::parse(text, "a.toml").unwrap();
    /// let table = strict::Table::root(&tree).unwrap();
    /// let spec = LinkSpec::read(&table, &mut |_| Err("no files here".into())).unwrap();
    /// table.finish().unwrap();
    /// assert_eq!(spec.loss.len(), 1);
    /// ```
    pub fn read(table: &Table<'_>, load: &mut Load<'_>) -> Result<Self, StrictError> {
        let timeline = match table.get::<String>("timeline")? {
            Some(name) => recording(table, "timeline", &name, load, trace::timeline)?,
            None => trace::Timeline::default(),
        };
        let only_once = |key: &str, in_timeline: bool| match table.node(key) {
            Some(_) if in_timeline => {
                Err(table.error(key, format!("`{key}` is in the timeline too"), "remove it here or there"))
            }
            None if !in_timeline && matches!(key, "rate" | "delay") => Err(table.missing(key)),
            node => Ok(node),
        };
        let rate = match (only_once("rate", timeline.rate.is_some())?, timeline.rate) {
            (Some(node), _) => rate(node, &table.dotted("rate"), load)?,
            (None, Some(steps)) => RateSpec::Trace(Arc::new(steps)),
            (None, None) => return Err(table.missing("rate")),
        };
        let delay = match (only_once("delay", timeline.delay.is_some())?, timeline.delay) {
            (Some(node), _) => delay(node, &table.dotted("delay"), load)?,
            (None, Some(steps)) => DelaySpec::Trace(Arc::new(steps)),
            (None, None) => return Err(table.missing("delay")),
        };
        let mut loss = match only_once("loss", timeline.loss.is_some())? {
            Some(node) => losses(node, &table.dotted("loss"), load)?,
            None => Vec::new(),
        };
        loss.extend(timeline.loss.map(|steps| LossSpec::Trace(Arc::new(steps))));
        let mut queue = match table.node("queue") {
            Some(node) => queue(node, &table.dotted("queue"))?,
            None => QueueSpec::default(),
        };
        queue.bytes_over_time = timeline.limit.map(Arc::new);
        let spec = Self {
            queue,
            rate,
            delay,
            loaded: table.table("loaded")?.map(|t| loaded(&t)).transpose()?,
            loss,
            burst: table.get_in("burst", Bytes::ZERO..=Bytes::new(MAX_BURST))?.unwrap_or_default(),
            overhead: match table.get_in("overhead", Bytes::ZERO..=Bytes::new(MAX_OVERHEAD))? {
                Some(bytes) => bytes.as_u64() as u32,
                None => 0,
            },
        };
        Ok(spec)
    }
}

fn rate(node: &Node, what: &str, load: &mut Load<'_>) -> Result<RateSpec, StrictError> {
    let Content::Table(_) = node.content else {
        let rate = Rate::read(node, what)?;
        if rate < LEAST_RATE {
            let message = format!("`{what}` = {rate} is out of range");
            return Err(StrictError::new(&node.origin, message, format!("use {LEAST_RATE} or more")));
        }
        return Ok(RateSpec::Constant(rate));
    };
    let table = Table::named(node, what)?;
    if let Some(steps) = traced(&table, load, trace::mahimahi)? {
        return Ok(RateSpec::Trace(Arc::new(steps)));
    }
    kind(&table, &["fluctuating"])?;
    let max = table.require_in("max", LEAST_RATE..=MOST_RATE)?;
    let min = table.require_in("min", LEAST_RATE..=max)?;
    let mean = table.require_in("mean", min..=max)?;
    let (every, memory) = interval(&table)?;
    let fluctuation = Fluctuation {
        mean,
        sd: table.require_in("sd", Rate::ZERO..=max)?,
        min,
        max,
        every,
        memory,
        mood: table.get_in("mood", Rate::ZERO..=max)?.unwrap_or_default(),
    };
    table.finish()?;
    Ok(RateSpec::Fluctuating(fluctuation))
}

fn delay(node: &Node, what: &str, load: &mut Load<'_>) -> Result<DelaySpec, StrictError> {
    let Content::Table(_) = node.content else {
        return Time::read(node, what).map(DelaySpec::Constant);
    };
    let table = Table::named(node, what)?;
    if let Some(steps) = traced(&table, load, trace::delays)? {
        return Ok(DelaySpec::Trace(Arc::new(steps)));
    }
    kind(&table, &["jitter"])?;
    let body = table.table("body")?.ok_or_else(|| table.missing("body"))?;
    let (every, memory) = interval(&table)?;
    let max = table.get_in("max", Time::ZERO..=MOST_DELAY)?.unwrap_or(MOST_DELAY);
    let jitter = Jitter {
        base: table.require_in("base", Time::ZERO..=MOST_DELAY)?,
        body: match kind(&body, &["normal", "uniform", "triangular", "log-normal"])? {
            0 => Body::Normal { sd: body.require_in("sd", Time::ZERO..=MOST_DELAY)? },
            1 => Body::Uniform { width: body.require_in("width", Time::ZERO..=MOST_DELAY)? },
            2 => Body::Triangular { width: body.require_in("width", Time::ZERO..=MOST_DELAY)? },
            _ => Body::LogNormal { median: median(&body)?, sigma: sigma(&body)? },
        },
        min: table.get_in("min", Time::ZERO..=max)?.unwrap_or_default(),
        max,
        every,
        memory,
        linear: table.choice("shape", &["step", "linear"])? == Some(1),
        tail: table.table("tail")?.map(|t| tail(&t)).transpose()?,
    };
    body.finish()?;
    table.finish()?;
    Ok(DelaySpec::Jitter(jitter))
}

fn tail(table: &Table<'_>) -> Result<Tail, StrictError> {
    let tail = Tail {
        share: table.require("share")?,
        every: table.require_in("every", LEAST_INTERVAL..=MOST_INTERVAL)?,
        shape: match kind(table, &["pareto", "log-normal"])? {
            0 => TailShape::Pareto { min: table.require("min")?, shape: table.require_in("shape", 0.1..=100.0)? },
            _ => TailShape::LogNormal { median: median(table)?, sigma: sigma(table)? },
        },
        max: table.require_in("max", Time::ZERO..=MOST_DELAY)?,
    };
    table.finish()?;
    Ok(tail)
}

fn loaded(table: &Table<'_>) -> Result<Loaded, StrictError> {
    let (every, memory) = interval(table)?;
    let loaded = Loaded {
        above: table.require("above")?,
        window: table.require_in("window", LEAST_INTERVAL..=MOST_INTERVAL)?,
        delay: table.require_in("delay", Time::ZERO..=MOST_DELAY)?,
        sd: table.get_in("sd", Time::ZERO..=MOST_DELAY)?.unwrap_or_default(),
        every,
        memory,
    };
    table.finish()?;
    Ok(loaded)
}

fn queue(node: &Node, what: &str) -> Result<QueueSpec, StrictError> {
    let Content::Table(_) = node.content else {
        return Ok(QueueSpec { bytes: Some(Bytes::read(node, what)?), ..QueueSpec::default() });
    };
    let table = Table::named(node, what)?;
    let mut queue = QueueSpec {
        bytes: table.get("bytes")?,
        packets: table.get_in("packets", 1..=u32::MAX)?,
        time: table.get("time")?,
        ..QueueSpec::default()
    };
    if let Some(aqm) = table.table("aqm")? {
        queue.aqm = match kind(&aqm, &["viasat2", "red"])? {
            0 if queue.bytes.is_none() => return Err(table.missing("bytes")),
            0 => AqmSpec::Viasat2 { threshold: aqm.require("threshold")?, drop: aqm.require("drop")? },
            _ => red(&aqm)?,
        };
        aqm.finish()?;
    }
    table.finish()?;
    Ok(queue)
}

fn red(table: &Table<'_>) -> Result<AqmSpec, StrictError> {
    let max = table.require_in("max", Bytes::new(1)..=Bytes::new(u64::MAX / 2))?;
    Ok(AqmSpec::Red {
        min: table.require_in("min", Bytes::ZERO..=max)?,
        max,
        max_probability: table.require("max_probability")?,
        weight: table.require("weight")?,
        ecn: table.get("ecn")?.unwrap_or(false),
    })
}

/// One loss process, or an array of them.
fn losses(node: &Node, what: &str, load: &mut Load<'_>) -> Result<Vec<LossSpec>, StrictError> {
    match &node.content {
        Content::Array(nodes) => nodes.iter().map(|n| loss(n, what, load)).collect(),
        _ => Ok(vec![loss(node, what, load)?]),
    }
}

fn loss(node: &Node, what: &str, load: &mut Load<'_>) -> Result<LossSpec, StrictError> {
    let Content::Table(_) = node.content else {
        return Ratio::read(node, what).map(LossSpec::Bernoulli);
    };
    let table = Table::named(node, what)?;
    let only_loss = |bytes: &[u8], file: &str| {
        trace::timeline(bytes, file)?.loss.ok_or_else(|| table.error("trace", "the timeline has no loss", "add `loss`"))
    };
    if let Some(steps) = traced(&table, load, only_loss)? {
        return Ok(LossSpec::Trace(Arc::new(steps)));
    }
    let spec = match kind(&table, &["gilbert-elliott", "outages", "trains", "periodic"])? {
        0 if table.has("burst") => mean_burst(&table)?,
        0 => LossSpec::GilbertElliott {
            good_to_bad: table.require("good_to_bad")?,
            bad_to_good: table.require("bad_to_good")?,
            good_loss: table.get("good_loss")?.unwrap_or(Ratio::ZERO),
            bad_loss: table.get("bad_loss")?.unwrap_or(Ratio::ONE),
        },
        2 => LossSpec::Trains { loss: table.require("loss")?, packets: table.require_in("packets", 1..=64)? },
        3 => periodic(&table)?,
        _ => LossSpec::Outages {
            gap: table.require_in("gap", LEAST_INTERVAL..=MOST_GAP)?,
            length: table.require_in("length", LEAST_INTERVAL..=MOST_GAP)?,
            loss: table.get("loss")?.unwrap_or(Ratio::ONE),
        },
    };
    table.finish()?;
    Ok(spec)
}

fn periodic(table: &Table<'_>) -> Result<LossSpec, StrictError> {
    let period: Time = table.require_in("period", LEAST_INTERVAL..=MOST_GAP)?;
    let length: Time = table.require("length")?;
    if length >= period || length == Time::ZERO {
        let message = format!("losses of {length} every {period} are no periodic losses");
        return Err(table.error("length", message, "make `length` more than zero and less than `period`"));
    }
    Ok(LossSpec::Periodic {
        period,
        phase: table.get("phase")?.unwrap_or(period),
        length,
        loss: table.get("loss")?.unwrap_or(Ratio::ONE),
    })
}

/// Gilbert-Elliott that loses everything in the bad state, from the loss rate and the mean burst: a burst of mean length
/// L ends with probability r = 1/L, and the bad state has the stationary share p / (p + r).
fn mean_burst(table: &Table<'_>) -> Result<LossSpec, StrictError> {
    let burst = table.require_in("burst", 1.0..=1e6)?;
    let share = table.require::<Ratio>("loss")?.as_f64();
    let recover = 1.0 / burst;
    let good_to_bad = Ratio::new(recover * share / (1.0 - share)).ok_or_else(|| {
        let message = format!("a loss of {} % in bursts of {burst} packets cannot be", share * 100.0);
        table.error("loss", message, "lower the loss or lengthen the burst")
    })?;
    let bad_to_good = Ratio::new(recover).unwrap_or(Ratio::ONE);
    Ok(LossSpec::GilbertElliott { good_to_bad, bad_to_good, good_loss: Ratio::ZERO, bad_loss: Ratio::ONE })
}

/// The recording under `trace`, where the table has one; it then has nothing else.
fn traced<T>(
    table: &Table<'_>,
    load: &mut Load<'_>,
    read: impl Fn(&[u8], &str) -> Result<T, StrictError>,
) -> Result<Option<T>, StrictError> {
    let Some(name) = table.get::<String>("trace")? else { return Ok(None) };
    table.finish()?;
    recording(table, "trace", &name, load, read).map(Some)
}

fn recording<T>(
    table: &Table<'_>,
    key: &str,
    name: &str,
    load: &mut Load<'_>,
    read: impl Fn(&[u8], &str) -> Result<T, StrictError>,
) -> Result<T, StrictError> {
    if name.is_empty() {
        let message = format!("`{}` names no recording", table.dotted(key));
        return Err(table.error(key, message, "give it the path of one"));
    }
    let bytes = load(name).map_err(|why| table.error(key, format!("cannot read `{name}`: {why}"), "check the path"))?;
    read(&bytes, name)
}

fn kind(table: &Table<'_>, kinds: &[&str]) -> Result<usize, StrictError> {
    table.choice("kind", kinds)?.ok_or_else(|| {
        let fix = format!("add `kind = ...`, one of {}", kinds.join(", "));
        table.error("kind", format!("`{}` is missing", table.dotted("kind")), fix)
    })
}

fn interval(table: &Table<'_>) -> Result<(Time, Time), StrictError> {
    let every = table.require_in("every", LEAST_INTERVAL..=MOST_INTERVAL)?;
    Ok((every, table.get_in("memory", Time::ZERO..=MOST_GAP)?.unwrap_or_default()))
}

fn median(table: &Table<'_>) -> Result<Time, StrictError> {
    table.require_in("median", Time::ZERO..=MOST_DELAY)
}

fn sigma(table: &Table<'_>) -> Result<f64, StrictError> {
    table.require_in("sigma", 0.0..=5.0)
}

/// Slowest rate of a link: a full packet takes twelve seconds.
const LEAST_RATE: Rate = Rate::from_bps(1_000);
/// Fastest rate that fluctuates.
const MOST_RATE: Rate = Rate::from_bps(10_000_000_000_000);
/// Shortest interval between two values of a process, so that an idle time is cheap to pass.
const LEAST_INTERVAL: Time = Time::from_millis(1);
/// Longest interval between two values of a process.
const MOST_INTERVAL: Time = Time::from_secs(3600);
/// Longest delay: the sun is eight light minutes away.
const MOST_DELAY: Time = Time::from_secs(3600);
/// Longest gap between two outages.
const MOST_GAP: Time = Time::from_secs(30 * 24 * 3600);
/// Largest token bucket, bytes.
const MAX_BURST: u64 = 1 << 30;
/// Largest overhead per packet, bytes.
const MAX_OVERHEAD: u64 = 1500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strict;

    fn read(text: &str) -> Result<LinkSpec, String> {
        let tree = strict::parse(text, "f.toml").map_err(|e| e.to_string())?;
        let table = Table::root(&tree).map_err(|e| e.to_string())?;
        let mut load = |name: &str| match name {
            "bw" => Ok(b"1\n2\n".to_vec()),
            "csv" => Ok(b"time_s,rate_mbps,loss\n0,1,0\n".to_vec()),
            _ => Err("no such file".to_owned()),
        };
        let spec = LinkSpec::read(&table, &mut load).and_then(|spec| table.finish().map(|()| spec));
        spec.map_err(|e| e.to_string())
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
