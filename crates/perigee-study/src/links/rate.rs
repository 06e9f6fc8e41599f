//! The rate of a link: its keys, their reading, and what reports say of it.

use std::sync::Arc;

use perigee_link::{Fluctuation, LossSpec, RateSpec};
use perigee_text::{key, required, Form, Key, Kind, Node, Process, Read, Reader, Section, StrictError};
use perigee_units::Rate;

use super::acm::{acm, ACM_FILE, ACM_RAIN};
use super::process::{process, recorded, Load, ANY_RATE, EVERY, LEAST_RATE, MEMORY, MOST_RATE};
use super::replay::{Recordings, TRACE};
use super::slots::{self, slot_rate, SLOT_RATE};
use super::tdma::{self, tdma, TDMA};
use super::trace;

pub(crate) const RATE: Key = process("rate", &RATES, "How fast it sends; or the timeline says so.");

static RATES: Process = Process {
    name: "rate",
    plain: Some(&Kind::RateFrom(LEAST_RATE)),
    forms: &[
        Form { kind: None, section: &RATE_TRACE },
        Form { kind: Some("fluctuating"), section: &FLUCTUATING },
        Form { kind: Some("slots"), section: &SLOT_RATE },
        Form { kind: Some("tdma"), section: &TDMA },
        Form { kind: Some("acm"), section: &ACM_FILE },
        Form { kind: Some("acm"), section: &ACM_RAIN },
    ],
    is_list: false,
};
static RATE_TRACE: Section = Section {
    name: "rate, recorded",
    keys: &[required(
        "trace",
        TRACE,
        "A delivery trace in the format of mahimahi: each line the millisecond at which a packet of 1500 bytes can \
         leave. An array has several, one after the other. `replay` says what follows.",
    )],
};
static FLUCTUATING: Section = Section {
    name: "rate, fluctuating",
    keys: &[
        required("mean", ANY_RATE, "Mean, before `min` and `max` cut it."),
        required("sd", ANY_RATE, "Standard deviation within a run."),
        required("min", ANY_RATE, "Never lower."),
        required("max", ANY_RATE, "Never higher."),
        EVERY,
        MEMORY,
        key("mood", ANY_RATE, "0 bit/s", "Standard deviation between runs of the mean of a run."),
    ],
};

/// A rate as it is written.
pub(super) enum WrittenRate {
    Recorded(Recordings<Rate>),
    Process(RateSpec),
    /// A rate, and the loss that adaptive modulation causes by sending too fast.
    Modulated(RateSpec, LossSpec),
}

pub(super) fn rate(node: &Node, what: &str, load: &mut Load<'_>) -> Result<WrittenRate, StrictError> {
    let Some((kind, table)) = RATES.open(node, what)? else {
        return Ok(WrittenRate::Process(RateSpec::Constant(Rate::read(node, what)?)));
    };
    Ok(match kind {
        None => WrittenRate::Recorded(Recordings::read(&table, load, trace::mahimahi)?),
        Some("slots") => WrittenRate::Process(slot_rate(&table)?),
        Some("tdma") => WrittenRate::Process(RateSpec::Tdma(Arc::new(tdma(&table)?))),
        Some("acm") => {
            let (rate, loss) = acm(&table, load)?;
            WrittenRate::Modulated(rate, loss)
        }
        Some(_) => WrittenRate::Process(fluctuating(&table)?),
    })
}

fn fluctuating(table: &Reader<'_>) -> Result<RateSpec, StrictError> {
    let max: Rate = table.table.require_in("max", LEAST_RATE..=MOST_RATE)?;
    let min: Rate = table.table.require_in("min", LEAST_RATE..=max)?;
    Ok(RateSpec::Fluctuating(Fluctuation {
        mean: table.table.require_in("mean", min..=max)?,
        sd: table.table.require_in("sd", Rate::ZERO..=max)?,
        min,
        max,
        every: table.get("every")?,
        memory: table.get("memory")?,
        mood: table.table.get_in("mood", Rate::ZERO..=max)?.unwrap_or_default(),
    }))
}

/// The rate in words.
pub(super) fn in_words(spec: &RateSpec) -> String {
    match spec {
        RateSpec::Constant(rate) => rate.to_string(),
        RateSpec::Trace(steps) => recorded(steps),
        RateSpec::Fluctuating(Fluctuation { mean, sd, min, max, every, memory, mood }) => format!(
            "mean {mean}, sd {sd} within a run and {mood} between runs, {min} to {max}; redrawn each {every}, \
             memory {memory}"
        ),
        RateSpec::Slots(slots) => slots::rate_in_words(slots),
        RateSpec::Tdma(tdma) => tdma::in_words(tdma),
    }
}
