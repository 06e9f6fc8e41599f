//! The losses of a link: their keys, their reading, and what reports say of them.

use std::sync::Arc;

use perigee_link::{CountedDrop, CountedSpan, LossSpec};
use perigee_text::{key, required, Content, Form, Key, Kind, Node, Process, Read, Reader, Section, StrictError};
use perigee_units::{Bytes, Ratio, Time};

use super::process::{process, recorded, table_of, traced, Load, ANY_TIME, LONG_INTERVAL};
use super::slots::{self, slot_loss, SLOT_LOSS};
use super::trace;

pub(crate) const LOSS: Key =
    process("loss", &LOSSES, "Packets lost in the air, by one process or several in brackets.");

static LOSSES: Process = Process {
    name: "loss",
    plain: Some(&Kind::Share),
    forms: &[
        Form { kind: None, section: &LOSS_TRACE },
        Form { kind: Some("gilbert-elliott"), section: &MEAN_BURST },
        Form { kind: Some("gilbert-elliott"), section: &GILBERT_ELLIOTT },
        Form { kind: Some("outages"), section: &OUTAGES },
        Form { kind: Some("trains"), section: &TRAINS },
        Form { kind: Some("frames"), section: &FRAMES },
        Form { kind: Some("periodic"), section: &PERIODIC },
        Form { kind: Some("bit-errors"), section: &BIT_ERRORS },
        Form { kind: Some("slots"), section: &SLOT_LOSS },
        Form { kind: Some("counted"), section: &COUNTED },
    ],
    is_list: true,
};
static COUNTED: Section = Section {
    name: "loss, counted",
    keys: &[
        required("drops", Kind::Process(&DROPS), "Which packets of the direction are lost; those of any entry."),
        key(
            "least",
            Kind::Size { min: Bytes::ZERO, max: Bytes::new(65_535) },
            "0 B",
            "Smallest packet that counts, with the link's overhead: smaller ones pass and have no number. `\"200 \
             B\"` leaves out handshakes and acknowledgements.",
        ),
    ],
};
static DROPS: Process =
    Process { name: "drops", plain: None, forms: &[Form { kind: None, section: &DROP }], is_list: true };
static DROP: Section = Section {
    name: "drops of counted losses",
    keys: &[
        key(
            "packet",
            NUMBER,
            "",
            "Number of a packet, counted from 1 in the order in which packets leave the direction's queue; \
             retransmissions have numbers of their own.",
        ),
        key("first", NUMBER, "", "Or the number of the first of several, up to `last`."),
        key("last", NUMBER, "", "Number of the last. Not given: all from `first` on."),
        key("from", ANY_TIME, "", "Or the time of the run from which packets leave, up to `to`."),
        key("to", ANY_TIME, "", "Before which they leave. Not given: all from `from` on."),
        key(
            "every",
            NUMBER,
            "1",
            "With 20, the 20th, the 40th, the 60th of these packets and so on are lost; with 1, all.",
        ),
    ],
};
/// A number of packets.
const NUMBER: Kind = Kind::Integer { min: 1, max: 1_000_000_000_000 };
static LOSS_TRACE: Section = Section {
    name: "loss, recorded",
    keys: &[required("trace", Kind::Text, "A timeline with a column `loss` or `loss_percent`.")],
};
static MEAN_BURST: Section = Section {
    name: "loss, gilbert-elliott by its burst",
    keys: &[
        required("burst", Kind::Number { min: 1.0, max: 1e6 }, "Mean number of packets lost in a row."),
        required("loss", Kind::Share, "Share of packets lost."),
    ],
};
static GILBERT_ELLIOTT: Section = Section {
    name: "loss, gilbert-elliott",
    keys: &[
        required("good_to_bad", Kind::Share, "Probability that the state turns bad before a packet."),
        required("bad_to_good", Kind::Share, "Probability that the state turns good before a packet."),
        key("good_loss", Kind::Share, "0 %", "Loss in the good state."),
        key("bad_loss", Kind::Share, "100 %", "Loss in the bad state."),
    ],
};
static OUTAGES: Section = Section {
    name: "loss, outages",
    keys: &[
        required("gap", LONG_INTERVAL, "Mean time between the end of an outage and the start of the next."),
        required("length", LONG_INTERVAL, "Mean length."),
        key("loss", Kind::Share, "100 %", "Loss during an outage."),
        key(
            "both",
            Kind::Bool,
            "false",
            "Both directions of the link are out at the same times, where both have outages of this `gap` and \
             `length`.",
        ),
    ],
};
static TRAINS: Section = Section {
    name: "loss, trains",
    keys: &[
        required("loss", Kind::Share, "Probability that a train of packets at one instant is lost."),
        required("packets", Kind::Integer { min: 1, max: 64 }, "Longest train."),
    ],
};
static FRAMES: Section = Section {
    name: "loss, frames",
    keys: &[
        required("loss", Kind::Share, "Share of frames lost, and with each the packets that are in it, or partly."),
        required(
            "frame",
            Kind::Size { min: Bytes::new(16), max: Bytes::new(1_000_000) },
            "Bytes of a frame that packets fill, with the link's overhead: in DVB-S2 374 to 7264 B (see the model).",
        ),
    ],
};
static PERIODIC: Section = Section {
    name: "loss, periodic",
    keys: &[
        required("period", LONG_INTERVAL, "From the start of an outage to the start of the next."),
        required("length", ANY_TIME, "Length of each, less than the period."),
        key("phase", ANY_TIME, "", "Start of the first. Not given: one period."),
        key("loss", Kind::Share, "100 %", "Loss during an outage."),
    ],
};
static BIT_ERRORS: Section = Section {
    name: "loss, bit-errors",
    keys: &[
        required(
            "loss",
            Kind::Share,
            "Probability that a packet of `size` is lost; of n bytes: 1 - (1 - `loss`)^(n / `size`).",
        ),
        key(
            "size",
            Kind::Size { min: Bytes::new(1), max: Bytes::new(65_535) },
            "1500 B",
            "Size of a packet, with the link's overhead, for which `loss` is given.",
        ),
    ],
};

/// One loss process, or an array of them.
pub(super) fn losses(node: &Node, what: &str, load: &mut Load<'_>) -> Result<Vec<LossSpec>, StrictError> {
    match &node.content {
        Content::Array(nodes) => nodes.iter().map(|node| loss(node, what, load)).collect(),
        _ => Ok(vec![loss(node, what, load)?]),
    }
}

fn loss(node: &Node, what: &str, load: &mut Load<'_>) -> Result<LossSpec, StrictError> {
    let Some((kind, table)) = LOSSES.open(node, what)? else {
        return Ratio::read(node, what).map(LossSpec::Bernoulli);
    };
    Ok(match kind {
        None => {
            let only_loss = |bytes: &[u8], file: &str| {
                let loss = trace::timeline(bytes, file)?.loss;
                loss.ok_or_else(|| table.error("trace", "the timeline has no loss", "add `loss`"))
            };
            LossSpec::Trace(Arc::new(traced(&table, load, only_loss)?))
        }
        Some("gilbert-elliott") if table.table.has("burst") => mean_burst(&table)?,
        Some("gilbert-elliott") => LossSpec::GilbertElliott {
            good_to_bad: table.get("good_to_bad")?,
            bad_to_good: table.get("bad_to_good")?,
            good_loss: table.get("good_loss")?,
            bad_loss: table.get("bad_loss")?,
        },
        Some("trains") => LossSpec::Trains { loss: table.get("loss")?, packets: table.get("packets")? },
        Some("frames") => LossSpec::Frames { loss: table.get("loss")?, frame: table.get("frame")? },
        Some("periodic") => periodic(&table)?,
        Some("bit-errors") => LossSpec::BitErrors { loss: table.get("loss")?, size: table.get("size")? },
        Some("slots") => slot_loss(&table)?,
        Some("counted") => counted(&table)?,
        Some(_) => LossSpec::Outages {
            gap: table.get("gap")?,
            length: table.get("length")?,
            loss: table.get("loss")?,
            both: table.get("both")?,
        },
    })
}

fn periodic(table: &Reader<'_>) -> Result<LossSpec, StrictError> {
    let (period, length): (Time, Time) = (table.get("period")?, table.get("length")?);
    if length >= period || length == Time::ZERO {
        let message = format!("losses of {length} every {period} are no periodic losses");
        return Err(table.error("length", message, "make `length` more than zero and less than `period`"));
    }
    let phase = table.table.get("phase")?.unwrap_or(period);
    Ok(LossSpec::Periodic { period, phase, length, loss: table.get("loss")? })
}

fn counted(table: &Reader<'_>) -> Result<LossSpec, StrictError> {
    let what = table.dotted("drops");
    let node = table.table.node("drops").ok_or_else(|| table.table.missing("drops"))?;
    let nodes = match &node.content {
        Content::Array(nodes) => &nodes[..],
        _ => std::slice::from_ref(node),
    };
    if nodes.is_empty() {
        return Err(table.error("drops", format!("`{what}` is empty"), "name packets: drops = [{ packet = 500 }]"));
    }
    let drops = nodes.iter().map(|node| counted_drop(&table_of(&DROPS, node, &what)?.1, &what));
    Ok(LossSpec::Counted { least: table.get("least")?, drops: drops.collect::<Result<_, _>>()? })
}

fn counted_drop(table: &Reader<'_>, what: &str) -> Result<CountedDrop, StrictError> {
    let named: Vec<&str> = ["packet", "first", "from"].into_iter().filter(|key| table.table.has(key)).collect();
    let [how] = named[..] else {
        let message = match named[..] {
            [] => format!("`{what}` has an entry that names no packets"),
            _ => format!("`{what}` has an entry that names packets by `{}`", named.join("` and by `")),
        };
        return Err(table.error(named.last().unwrap_or(&"every"), message, "give one of `packet`, `first` and `from`"));
    };
    for (key, beside) in [("last", "first"), ("to", "from")] {
        if table.table.has(key) && how != beside {
            let message = format!("`{}` has no `{beside}`", table.dotted(key));
            return Err(table.error(key, message, format!("add `{beside} = ...`, or remove it")));
        }
    }
    let backwards = |key: &str, of: &str, least: String| {
        let message = format!("`{}` is before `{of}` = {least}", table.dotted(key));
        table.error(key, message, format!("raise it, or lower `{of}`"))
    };
    let every = table.get("every")?;
    let span = match how {
        "packet" => {
            if every > 1 {
                let message = format!("`{}` of one packet loses none", table.dotted("every"));
                return Err(table.error("every", message, "remove it, or give `first` and `last`"));
            }
            let packet = table.get("packet")?;
            CountedSpan::Numbers { first: packet, last: packet }
        }
        "first" => {
            let (first, last) = (table.get("first")?, table.table.get("last")?.unwrap_or(u64::MAX));
            if last < first {
                return Err(backwards("last", "first", first.to_string()));
            }
            CountedSpan::Numbers { first, last }
        }
        _ => {
            let (from, to) = (table.get::<Time>("from")?, table.table.get("to")?.unwrap_or(Time::MAX));
            if to <= from {
                return Err(backwards("to", "from", from.to_string()));
            }
            CountedSpan::Times { from, to }
        }
    };
    Ok(CountedDrop { span, every })
}

/// Gilbert-Elliott that loses everything in the bad state, from the loss rate and the mean burst: a burst of mean length
/// L ends with probability r = 1/L, and the bad state has the stationary share p / (p + r).
fn mean_burst(table: &Reader<'_>) -> Result<LossSpec, StrictError> {
    let burst: f64 = table.get("burst")?;
    let share = table.get::<Ratio>("loss")?.as_f64();
    let recover = 1.0 / burst;
    let good_to_bad = Ratio::new(recover * share / (1.0 - share)).ok_or_else(|| {
        let message = format!("a loss of {} % in bursts of {burst} packets cannot be", share * 100.0);
        table.error("loss", message, "lower the loss or lengthen the burst")
    })?;
    let bad_to_good = Ratio::new(recover).unwrap_or(Ratio::ONE);
    Ok(LossSpec::GilbertElliott { good_to_bad, bad_to_good, good_loss: Ratio::ZERO, bad_loss: Ratio::ONE })
}

/// A loss process in words.
pub(super) fn in_words(spec: &LossSpec) -> String {
    match spec {
        LossSpec::Bernoulli(probability) => format!("{probability} of the packets"),
        LossSpec::Trains { loss, packets } => format!("{loss} of trains of up to {packets} packets"),
        LossSpec::Frames { loss, frame } => format!("{loss} of frames of {frame}"),
        LossSpec::BitErrors { loss, size } => format!("{loss} of packets of {size}, of others by their size"),
        LossSpec::GilbertElliott { good_to_bad, bad_to_good, good_loss, bad_loss } => {
            format!("Gilbert-Elliott: turns bad {good_to_bad}, good {bad_to_good}; loses {good_loss} and {bad_loss}")
        }
        LossSpec::Outages { gap, length, loss, both } => {
            let of = if *both { " of both directions" } else { "" };
            format!("{loss} in outages{of} of {length}, {gap} apart on average")
        }
        LossSpec::Periodic { period, phase, length, loss } => {
            format!("{loss} for {length} every {period}, from {phase} on")
        }
        LossSpec::Slots(slots) => slots::loss_in_words(slots),
        LossSpec::Trace(steps) => recorded(steps),
        LossSpec::Counted { least, drops } => {
            let drops: Vec<_> = drops.iter().map(drop_in_words).collect();
            let of = if least.as_u64() > 0 { format!(" of those of {least} or more") } else { String::new() };
            format!("by number{of}: {}", drops.join(", "))
        }
    }
}

fn drop_in_words(CountedDrop { span, every }: &CountedDrop) -> String {
    let each = if *every > 1 { format!("one in {every} of the packets") } else { "the packets".to_owned() };
    match *span {
        CountedSpan::Numbers { first, last } if first == last => format!("packet {first}"),
        CountedSpan::Numbers { first, last: u64::MAX } => format!("{each} from {first} on"),
        CountedSpan::Numbers { first, last } => format!("{each} {first} to {last}"),
        CountedSpan::Times { from, to: Time::MAX } => format!("{each} from {from} on"),
        CountedSpan::Times { from, to } => format!("{each} from {from} to {to}"),
    }
}
