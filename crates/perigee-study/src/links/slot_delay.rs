//! The delay of a link with slots: its keys, their reading, and what reports say of it.

use std::sync::Arc;

use perigee_link::{DelaySpec, LogNormal, SlotDelay, SlotJitter, Spike};
use perigee_text::{key, required, Content, Form, Kind, Node, Process, Reader, Section, StrictError};
use perigee_units::{Ratio, Time};

use super::body::{self, body, BODIES};
use super::process::{inside, process, table_of, ANY_TIME, DELAY_VALUE, INTERVAL, MEMORY};
use super::slots::{
    clock, clock_in_words, fits, log_normal, per_slot, per_slot_in_words, LONG_PERIOD, PER_SLOT, PHASE,
};

pub(super) static SLOT_DELAY: Section = Section {
    name: "delay, slots",
    keys: &[
        required("mean", DELAY_VALUE, "Mean over slots, before `min` and `max` cut it."),
        required("sd", DELAY_VALUE, "Standard deviation between slots."),
        key("min", DELAY_VALUE, "0 s", "A slot's delay is never shorter."),
        key("max", DELAY_VALUE, "3600 s", "A slot's delay is never longer."),
        MEMORY,
        process("jitter", &JITTERS, "What moves within a slot; of each direction alone, where the rest is of both."),
        process("spikes", &SPIKES, "Longer delays around the begin of a slot: one table, or several in brackets."),
        LONG_PERIOD,
        PHASE,
    ],
};
pub(super) static JITTERS: Process =
    Process { name: "jitter", plain: None, forms: &[Form { kind: None, section: &SLOT_JITTER }], is_list: false };
static SLOT_JITTER: Section = Section {
    name: "jitter of a slot",
    keys: &[
        required("body", Kind::Process(&BODIES), "Distribution of what is added to the slot's delay."),
        key("every", INTERVAL, "20 ms", "Interval between new values."),
        MEMORY,
        key("floor", DELAY_VALUE, "0 s", "Both together are never shorter."),
    ],
};
pub(super) static SPIKES: Process =
    Process { name: "spikes", plain: None, forms: &[Form { kind: None, section: &SPIKE }], is_list: true };
static SPIKE: Section = Section {
    name: "spike",
    keys: &[
        required("length", Kind::Process(&PER_SLOT), "How long."),
        required("height", Kind::Process(&PER_SLOT), "How much is added, at the peak."),
        key(
            "begin",
            Kind::Share,
            "100 %",
            "Share of the height at its begin; from there it rises in a straight line to the peak.",
        ),
        key(
            "peak",
            Kind::Share,
            "100 %",
            "Where in its length the peak is; from there it falls in a straight line to nothing at its end. With \
             both at 100 % it has its height throughout.",
        ),
        key(
            "with_outage",
            Kind::Bool,
            "false",
            "Its place, length and height follow the length of the slot's outage: their normal values are the same, \
             so equal values of sigma keep the peak at the end of the outage. Without such an outage, of `both` \
             directions and with the same `period`, the three follow each other.",
        ),
        key("share", Kind::Share, "100 %", "Share of the slots that have it."),
        key("after", Kind::Process(&PER_SLOT), "0 s", "Its begin after that of the slot."),
        key("before", ANY_TIME, "", "Its begin before that of the slot, instead of `after`."),
    ],
};

pub(super) fn slot_delay(table: &Reader<'_>) -> Result<DelaySpec, StrictError> {
    let clock = clock(table)?;
    let max: Time = table.get("max")?;
    let min = table.table.get_in("min", Time::ZERO..=max)?.unwrap_or_default();
    let spec = SlotDelay {
        clock,
        mean: table.table.require_in("mean", min..=max)?,
        sd: table.get("sd")?,
        min,
        max,
        memory: table.get("memory")?,
        jitter: inside(table, "jitter", jitter)?,
        spikes: inside(table, "spikes", |node, what| spikes(node, what, clock.period))?.unwrap_or_default(),
    };
    Ok(DelaySpec::Slots(Arc::new(spec)))
}

pub(super) fn jitter(node: &Node, what: &str) -> Result<SlotJitter, StrictError> {
    let (_, table) = table_of(&JITTERS, node, what)?;
    Ok(SlotJitter {
        body: inside(&table, "body", body)?.ok_or_else(|| table.table.missing("body"))?,
        every: table.get("every")?,
        memory: table.get("memory")?,
        floor: table.get("floor")?,
    })
}

pub(super) fn spikes(node: &Node, what: &str, period: Time) -> Result<Vec<Spike>, StrictError> {
    match &node.content {
        Content::Array(nodes) => nodes.iter().map(|node| spike(node, what, period)).collect(),
        _ => Ok(vec![spike(node, what, period)?]),
    }
}

fn spike(node: &Node, what: &str, period: Time) -> Result<Spike, StrictError> {
    let (_, table) = table_of(&SPIKES, node, what)?;
    let before: Option<Time> = table.table.get("before")?;
    if before.is_some() && table.table.has("after") {
        let message = format!("`{}` stands beside `after`", table.dotted("before"));
        return Err(table.error("before", message, "keep one of them: a spike has one begin"));
    }
    let spike = Spike {
        before: before.unwrap_or_default(),
        after: inside(&table, "after", log_normal)?.unwrap_or(LogNormal::constant(Time::ZERO)),
        share: table.get("share")?,
        length: per_slot(&table, "length")?,
        height: per_slot(&table, "height")?,
        begin: table.get("begin")?,
        peak: table.get("peak")?,
        with_outage: table.get("with_outage")?,
    };
    fits(&table, "length", spike.after.max + spike.length.max, period)?;
    fits(&table, "before", spike.before, period)?;
    Ok(spike)
}

/// The delay of slots in words.
pub(super) fn delay_in_words(slots: &SlotDelay) -> String {
    let SlotDelay { clock, mean, sd, min, max, memory, jitter, spikes } = slots;
    let mut words = vec![format!("{}: mean {mean}, sd {sd}, {min} to {max}, memory {memory}", clock_in_words(clock))];
    words.extend(overlay_in_words(jitter.as_ref(), spikes));
    words.join("; ")
}

/// Describes the movement within slots.
pub(super) fn overlay_in_words(jitter: Option<&SlotJitter>, spikes: &[Spike]) -> Vec<String> {
    let jitter = jitter.map(|jitter| {
        format!(
            "within a slot {}, redrawn each {}, memory {}",
            body::in_words(&jitter.body),
            jitter.every,
            jitter.memory
        )
    });
    let spikes = spikes.iter().map(|Spike { before, after, share, length, height, begin, peak, with_outage }| {
        let (by, when) =
            if *before > Time::ZERO { (before.to_string(), "before") } else { (per_slot_in_words(after), "after") };
        let (height, length) = (per_slot_in_words(height), per_slot_in_words(length));
        let one = Ratio::ONE;
        let shape = if (*begin, *peak) == (one, one) {
            String::new()
        } else {
            format!(", {begin} of it at its begin, the peak after {peak} of its length")
        };
        let with = if *with_outage { ", all of it as long as the outage" } else { "" };
        format!("{height} more for {length} from {by} {when} the begin of {share} of the slots{shape}{with}")
    });
    jitter.into_iter().chain(spikes).collect()
}
