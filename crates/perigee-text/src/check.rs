//! Checks of a value against the kind of its key.

use std::collections::BTreeSet;
use std::fmt::Display;

use perigee_units::{suggestion, Bytes, Rate, Ratio, Time};

use crate::section::{Kind, LARGEST, MOST_RATES};
use crate::table::{is_too_large, out_of_range, Read};
use crate::tree::{clip, is_off, text_of, Content, Node, StrictError};

impl Kind {
    /// Whether `node` is what this kind takes; `what` names it in messages. Tables are checked when they are opened.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(self, node: &Node, what: &str) -> Result<(), StrictError> {
        match self {
            Self::Text => String::read(node, what).map(drop),
            Self::Name => name(node, what),
            Self::Bool => bool::read(node, what).map(drop),
            Self::Integer { min, max } => whole_number(node, what, min, max),
            Self::TimeOrOff { .. } | Self::ShareOrOff | Self::SizeOrTimeOrOff if is_off(node) => Ok(()),
            Self::Time { min, max } | Self::TimeOrOff { min, max } => {
                within(node, what, Time::read(node, what)?, min, max)
            }
            Self::Size { min, max } => within(node, what, Bytes::read(node, what)?, min, max),
            Self::Sizes => sizes(node, what),
            Self::ThreeSizes => three_sizes(node, what),
            Self::Rate => above_zero(node, what, Rate::read(node, what)? > Rate::ZERO),
            Self::Rates => rates(node, what),
            Self::RateFrom(min) => {
                let rate = Rate::read(node, what)?;
                if rate >= min {
                    return Ok(());
                }
                let message = format!("`{what}` = {rate} is out of range");
                Err(StrictError::new(&node.origin, message, format!("use {min} or more")))
            }
            Self::Share => Ratio::read(node, what).map(drop),
            Self::Number { min, max } => within(node, what, f64::read(node, what)?, min, max),
            Self::ShareOrOff => above_zero(node, what, Ratio::read(node, what)? > Ratio::ZERO),
            Self::SizeOrTimeOrOff => match (Bytes::read(node, what), Time::read(node, what)) {
                (Ok(size), _) => above_zero(node, what, size > Bytes::ZERO),
                (_, Ok(time)) => above_zero(node, what, time > Time::ZERO),
                _ => {
                    let message = format!("`{what}` is neither a size nor a time");
                    Err(StrictError::new(&node.origin, message, "write \"50 MB\", \"30 s\" or \"off\""))
                }
            },
            Self::Word(words) => {
                let word = String::read(node, what)?;
                if words.contains(&word.as_str()) {
                    return Ok(());
                }
                let message = format!("`{what}` cannot be `{}`", clip(&word));
                Err(StrictError::new(&node.origin, message, suggestion(&word, words.iter().copied())))
            }
            Self::Names => names(node, what),
            Self::Special(special) => (special.check)(node, what),
            Self::Table(_)
            | Self::Tables(_)
            | Self::TableAndOnePer { .. }
            | Self::TablePer { .. }
            | Self::Process(_)
            | Self::Texts => Ok(()),
        }
    }
}

fn within<T: Copy + PartialOrd + Display>(
    node: &Node,
    what: &str,
    value: T,
    min: T,
    max: T,
) -> Result<(), StrictError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(out_of_range(node, what, &value, &min, &max))
}

/// Names the key's own bounds, whatever TOML's integers and the simulator's are.
fn whole_number(node: &Node, what: &str, min: u64, max: u64) -> Result<(), StrictError> {
    match &node.content {
        Content::Integer(n) => within(node, what, i128::from(*n), min.into(), max.into()),
        Content::Text(text) if is_too_large(text) => Err(out_of_range(node, what, text, &min, &max)),
        _ => u64::read(node, what).map(drop),
    }
}

fn above_zero(node: &Node, what: &str, is: bool) -> Result<(), StrictError> {
    if is {
        return Ok(());
    }
    Err(StrictError::new(&node.origin, format!("`{what}` is zero"), "use a value above zero"))
}

/// A name is part of key paths, of results and of file names.
fn name(node: &Node, what: &str) -> Result<(), StrictError> {
    let text = String::read(node, what)?;
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if plain && (1..=LONGEST_NAME).contains(&text.len()) {
        return Ok(());
    }
    let message = format!("`{what}` = `{}` is not a name", clip(&text));
    Err(StrictError::new(&node.origin, message, format!("use 1 to {LONGEST_NAME} letters, digits, `-` or `_`")))
}

fn names(node: &Node, what: &str) -> Result<(), StrictError> {
    let Content::Array(nodes) = &node.content else {
        let message = format!("`{what}` is {}", node.kind());
        return Err(StrictError::new(&node.origin, message, "write names in brackets: [\"a\", \"b\"]"));
    };
    let mut seen = BTreeSet::new();
    for node in nodes {
        name(node, what)?;
        if !seen.insert(text_of(node)) {
            let message = format!("`{what}` has `{}` twice", text_of(node).unwrap_or_default());
            return Err(StrictError::new(&node.origin, message, "remove one, or rename it"));
        }
    }
    Ok(())
}

fn sizes(node: &Node, what: &str) -> Result<(), StrictError> {
    let sizes = Vec::<Bytes>::read(node, what)?;
    if sizes.is_empty() {
        return Err(StrictError::new(&node.origin, format!("`{what}` is empty"), "write one size or more: [\"1 kB\"]"));
    }
    sizes.into_iter().try_for_each(|size| within(node, what, size, Bytes::new(1), LARGEST))
}

fn rates(node: &Node, what: &str) -> Result<(), StrictError> {
    let rates = Vec::<Rate>::read(node, what)?;
    let finite = |rate: &Rate| (Rate::ZERO..Rate::UNLIMITED).contains(rate) && *rate > Rate::ZERO;
    if (1..=MOST_RATES).contains(&rates.len()) && rates.iter().all(finite) && rates.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    let message = format!("`{what}` is not a list of rates that rise");
    let fix = format!("write 1 to {MOST_RATES} rates, the lowest first: [\"1 Mbit/s\", \"3 Mbit/s\"]");
    Err(StrictError::new(&node.origin, message, fix))
}

fn three_sizes(node: &Node, what: &str) -> Result<(), StrictError> {
    let sizes = Vec::<Bytes>::read(node, what)?;
    let most = Bytes::new(1 << 40);
    match sizes[..] {
        [min, initial, max] if Bytes::ZERO < min && min <= initial && initial <= max && max <= most => Ok(()),
        _ => Err(StrictError::new(
            &node.origin,
            format!("`{what}` is not minimum, initial and maximum"),
            format!("write three sizes that do not fall, up to {most}: [\"4 KiB\", \"128 KiB\", \"6 MiB\"]"),
        )),
    }
}

/// Longest name of anything.
const LONGEST_NAME: usize = 64;
