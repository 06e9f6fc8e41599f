//! The delay of a link, and what is added while it is loaded: their keys, their reading, and what
//! reports say of them.

use perigee_link::{DelaySpec, Jitter, Loaded, Tail, TailShape};
use perigee_text::{key, required, Form, Key, Kind, Node, Process, Read, Reader, Section, StrictError};
use perigee_units::Time;

use super::body::{self, body, BODIES};
use super::orbit::{self, orbit_delay, ORBIT_DELAY};
use super::process::{
    inside, process, recorded, table_of, Load, ANY_RATE, ANY_TIME, DELAY_VALUE, EVERY, INTERVAL, MEDIAN, MEMORY, SIGMA,
};
use super::replay::{Recordings, TRACE};
use super::slot_delay::{self, slot_delay, SLOT_DELAY};
use super::trace;

pub(crate) const DELAY: Key = process("delay", &DELAYS, "How long the air takes, one way; or the timeline says so.");
pub(crate) const LOADED: Key = process("loaded", &LOADS, "Delay that is added while the direction is loaded.");

static DELAYS: Process = Process {
    name: "delay",
    plain: Some(&ANY_TIME),
    forms: &[
        Form { kind: None, section: &DELAY_TRACE },
        Form { kind: Some("jitter"), section: &JITTER },
        Form { kind: Some("slots"), section: &SLOT_DELAY },
        Form { kind: Some("orbit"), section: &ORBIT_DELAY },
    ],
    is_list: false,
};
static DELAY_TRACE: Section = Section {
    name: "delay, recorded",
    keys: &[required(
        "trace",
        TRACE,
        "Each line the delay in whole milliseconds during the next 10 ms. An array has several, one after the other. \
         `replay` says what follows.",
    )],
};
static JITTER: Section = Section {
    name: "delay, jitter",
    keys: &[
        required("base", DELAY_VALUE, "Centre of a normal body, floor of the others."),
        required("body", Kind::Process(&BODIES), "Distribution of what is added to the base."),
        EVERY,
        MEMORY,
        key("min", DELAY_VALUE, "0 s", "Base and body together are never shorter."),
        key("max", DELAY_VALUE, "3600 s", "Base and body together are never longer."),
        key("shape", Kind::Word(&["step", "linear"]), "step", "Between two values: a step, or a straight line."),
        key("tail", Kind::Process(&TAILS), "", "A heavy tail, which adds more delay in a share of its intervals."),
    ],
};
static TAILS: Process = Process {
    name: "tail",
    plain: None,
    forms: &[
        Form { kind: Some("pareto"), section: &PARETO_TAIL },
        Form { kind: Some("log-normal"), section: &LOG_NORMAL_TAIL },
    ],
    is_list: false,
};
static PARETO_TAIL: Section = Section {
    name: "tail, pareto",
    keys: &[
        TAIL_SHARE,
        TAIL_EVERY,
        TAIL_MAX,
        required("min", ANY_TIME, "Smallest value."),
        required("shape", Kind::Number { min: 0.1, max: 100.0 }, "P(X > x) = (min / x)^shape."),
    ],
};
static LOG_NORMAL_TAIL: Section =
    Section { name: "tail, log-normal", keys: &[TAIL_SHARE, TAIL_EVERY, TAIL_MAX, MEDIAN, SIGMA] };
static LOADS: Process =
    Process { name: "loaded", plain: None, forms: &[Form { kind: None, section: &LOADED_DELAY }], is_list: false };
static LOADED_DELAY: Section = Section {
    name: "loaded",
    keys: &[
        required("above", ANY_RATE, "Loaded above this rate of arrivals."),
        required("window", INTERVAL, "Window over which arrivals are counted."),
        required("delay", DELAY_VALUE, "Mean of what is added."),
        key("sd", DELAY_VALUE, "0 s", "Standard deviation of what is added; never below zero in sum."),
        EVERY,
        MEMORY,
    ],
};

const TAIL_SHARE: Key = required("share", Kind::Share, "Share of the intervals that have it.");
const TAIL_EVERY: Key = required("every", INTERVAL, "Length of an interval.");
const TAIL_MAX: Key = required("max", DELAY_VALUE, "Never more is added.");

/// A delay as it is written.
pub(super) enum WrittenDelay {
    Recorded(Recordings<Time>),
    Process(DelaySpec),
}

pub(super) fn delay(node: &Node, what: &str, load: &mut Load<'_>) -> Result<WrittenDelay, StrictError> {
    let Some((kind, table)) = DELAYS.open(node, what)? else {
        return Time::read(node, what).map(DelaySpec::Constant).map(WrittenDelay::Process);
    };
    Ok(match kind {
        None => WrittenDelay::Recorded(Recordings::read(&table, load, trace::delays)?),
        Some("slots") => WrittenDelay::Process(slot_delay(&table)?),
        Some("orbit") => WrittenDelay::Process(orbit_delay(&table, load)?),
        Some(_) => WrittenDelay::Process(jitter(&table)?),
    })
}

fn jitter(table: &Reader<'_>) -> Result<DelaySpec, StrictError> {
    let max: Time = table.get("max")?;
    Ok(DelaySpec::Jitter(Jitter {
        base: table.get("base")?,
        body: inside(table, "body", body)?.ok_or_else(|| table.table.missing("body"))?,
        min: table.table.get_in("min", Time::ZERO..=max)?.unwrap_or_default(),
        max,
        every: table.get("every")?,
        memory: table.get("memory")?,
        linear: table.get::<String>("shape")? == "linear",
        tail: inside(table, "tail", tail)?,
    }))
}

fn tail(node: &Node, what: &str) -> Result<Tail, StrictError> {
    let (kind, table) = table_of(&TAILS, node, what)?;
    Ok(Tail {
        share: table.get("share")?,
        every: table.get("every")?,
        shape: match kind {
            Some("pareto") => TailShape::Pareto { min: table.get("min")?, shape: table.get("shape")? },
            _ => TailShape::LogNormal { median: table.get("median")?, sigma: table.get("sigma")? },
        },
        max: table.get("max")?,
    })
}

pub(super) fn loaded(node: &Node, what: &str) -> Result<Loaded, StrictError> {
    let (_, table) = table_of(&LOADS, node, what)?;
    Ok(Loaded {
        above: table.get("above")?,
        window: table.get("window")?,
        delay: table.get("delay")?,
        sd: table.get("sd")?,
        every: table.get("every")?,
        memory: table.get("memory")?,
    })
}

/// The delay in words.
pub(super) fn in_words(spec: &DelaySpec) -> String {
    match spec {
        DelaySpec::Constant(delay) => delay.to_string(),
        DelaySpec::Trace(steps) => recorded(steps),
        DelaySpec::Jitter(jitter) => moving_delay(jitter),
        DelaySpec::Slots(slots) => slot_delay::delay_in_words(slots),
        DelaySpec::Orbit(orbit) => orbit::in_words(orbit),
        DelaySpec::PerPacket(most) => format!("uniform, up to {most}, drawn for each packet"),
    }
}

fn moving_delay(jitter: &Jitter) -> String {
    let Jitter { base, body, min, max, every, memory, .. } = jitter;
    let body = body::in_words(body);
    let bounds = if *min > Time::ZERO { format!(", {min} to {max}") } else { String::new() };
    let text = format!("{base} and a body ({body}){bounds}; redrawn each {every}, memory {memory}");
    if let Some(tail) = &jitter.tail {
        let shape = match tail.shape {
            TailShape::Pareto { min, shape } => format!("Pareto from {min}, shape {shape}"),
            TailShape::LogNormal { median, sigma } => format!("log-normal, median {median}, sigma {sigma}"),
        };
        let (share, every, max) = (tail.share, tail.every, tail.max);
        format!("{text}; in {share} of the intervals of {every} a tail ({shape}, at most {max})")
    } else {
        text
    }
}

/// Describes the delay that is added while loaded.
pub(super) fn loaded_in_words(loaded: &Loaded) -> String {
    let Loaded { above, window, delay, sd, every, .. } = loaded;
    format!("mean {delay}, sd {sd}, redrawn each {every}; loaded above {above} within {window}")
}
