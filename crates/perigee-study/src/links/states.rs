//! States of a link that change rate, delay and loss together: their keys, their reading, and what reports say of them.

use std::sync::Arc;

use perigee_link::{LinkState, RateSpec};
use perigee_text::{items_of, key, required, Content, Form, Key, Kind, Node, Process, Reader, Section, StrictError};
use perigee_units::{Rate, Ratio, Time};

use super::process::{process, table_of, DELAY_VALUE, LONG_INTERVAL};

pub(crate) const STATES: Key = process(
    "states",
    &STATES_OF_LINK,
    "States that follow each other and change rate, delay and loss together: `[{ stay = \"60 s\" }, { stay = \"3 s\", \
     loss = \"2 %\", delay = \"40 ms\", rate = \"50 %\" }]`. Two or more; both directions are in the same one where \
     both have the same states.",
);

static STATES_OF_LINK: Process =
    Process { name: "states", plain: None, forms: &[Form { kind: None, section: &STATE }], is_list: true };
static STATE: Section = Section {
    name: "state of a link",
    keys: &[
        required("stay", LONG_INTERVAL, "Mean of how long it lasts, which is exponential."),
        key(
            "weight",
            Kind::Number { min: 0.000_001, max: 1e6 },
            "1",
            "Of three and more states: how often it follows another one, beside the weights of the others.",
        ),
        key(
            "rate",
            Kind::Share,
            "100 %",
            "Share that is left of the direction's rate; not 0 %, and not with TDMA or an unlimited rate.",
        ),
        key("delay", DELAY_VALUE, "0 s", "Delay that it adds."),
        key("loss", Kind::Share, "0 %", "Packets lost in it, beside those of `loss`."),
    ],
};

/// Reads the states of a direction with this rate.
pub(super) fn states(node: &Node, what: &str, rate: &RateSpec) -> Result<Arc<Vec<LinkState>>, StrictError> {
    let states = match &node.content {
        Content::Array(nodes) => nodes.iter().map(|node| state(node, what, rate)).collect::<Result<Vec<_>, _>>()?,
        _ => Vec::new(),
    };
    if states.len() < 2 {
        let message = format!("`{what}` has fewer than two states");
        let fix =
            "give two or more, such as [{ stay = \"60 s\" }, { stay = \"3 s\", loss = \"2 %\", delay = \"40 ms\" }]";
        return Err(StrictError::new(&node.origin, message, fix));
    }
    let weighed = items_of(node).iter().find_map(|state| state.get("weight"));
    if let (2, Some(weight)) = (states.len(), weighed) {
        let message = format!("`{what}.weight` of two states is without effect: each follows the other one");
        return Err(StrictError::new(
            &weight.origin,
            message,
            "leave it out, and say by `stay` how much of the time is whose",
        ));
    }
    Ok(Arc::new(states))
}

fn state(node: &Node, what: &str, rate: &RateSpec) -> Result<LinkState, StrictError> {
    let (_, table) = table_of(&STATES_OF_LINK, node, what)?;
    let state = LinkState {
        stay: table.get("stay")?,
        weight: table.get("weight")?,
        rate: table.get("rate")?,
        delay: table.get("delay")?,
        loss: table.get("loss")?,
    };
    check_rate(&table, &state, rate)?;
    Ok(state)
}

fn check_rate(table: &Reader<'_>, state: &LinkState, rate: &RateSpec) -> Result<(), StrictError> {
    let name = table.dotted("rate");
    if state.rate == Ratio::ZERO {
        let message = format!("`{name}` = 0 % would keep packets for the whole state");
        return Err(table.error("rate", message, "use loss = \"100 %\" for an outage, or a rate above 0 %"));
    }
    let (message, fix) = match rate {
        _ if state.rate == Ratio::ONE => return Ok(()),
        RateSpec::Tdma(_) => (
            format!("`{name}` is given to a TDMA channel, whose slots have a rate of their own"),
            "leave it out; `delay` and `loss` are for a channel, too",
        ),
        RateSpec::Constant(Rate::UNLIMITED) => (
            format!("`{name}` is a share of a rate, and the direction's is unlimited"),
            "leave it out, or give the direction a rate",
        ),
        _ => return Ok(()),
    };
    Err(table.error("rate", message, fix))
}

/// The states in words, with the share of the time in each.
pub(super) fn in_words(states: &[LinkState]) -> String {
    let shares = LinkState::shares(states);
    let words = states.iter().zip(shares).map(|(state, share)| {
        let mut does = Vec::new();
        if state.rate != Ratio::ONE {
            does.push(format!("{} of the rate", state.rate));
        }
        if state.delay > Time::ZERO {
            does.push(format!("{} more delay", state.delay));
        }
        if state.loss > Ratio::ZERO {
            does.push(format!("{} lost", state.loss));
        }
        let does = if does.is_empty() { "unchanged".to_owned() } else { does.join(", ") };
        format!("{does} for {} on average, {:.1} % of the time", state.stay, 100.0 * share)
    });
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::direction::in_words;
    use crate::read_link_spec;

    fn read(states: &str, rate: &str) -> Result<String, String> {
        let text = format!("rate = {rate}\ndelay = \"300 ms\"\nstates = {states}");
        let tree = perigee_text::parse(&text, "f.toml").map_err(|error| error.to_string())?;
        let spec =
            read_link_spec(&tree, "", &mut |_| Err("no files here".into())).map_err(|error| error.to_string())?;
        let words = in_words(&spec).into_iter().find(|(what, _)| *what == "states");
        Ok(words.map(|(_, words)| words).unwrap_or_default())
    }

    #[test]
    fn states_are_read_and_told_with_their_shares_of_the_time() {
        let rain = "{ stay = \"3 s\", loss = \"2 %\", delay = \"40 ms\", rate = \"50 %\" }";
        assert_eq!(
            read(&format!("[{{ stay = \"57 s\" }}, {rain}]"), "\"10 Mbit/s\"").unwrap(),
            "unchanged for 57 s on average, 95.0 % of the time; \
             50 % of the rate, 40 ms more delay, 2 % lost for 3 s on average, 5.0 % of the time"
        );
    }

    #[test]
    fn states_that_cannot_be_name_their_line_and_their_fix() {
        let message = |states: &str| read(states, "\"10 Mbit/s\"").unwrap_err();
        let fix =
            "give two or more, such as [{ stay = \"60 s\" }, { stay = \"3 s\", loss = \"2 %\", delay = \"40 ms\" }]";
        assert_eq!(message("[{ stay = \"1 s\" }]"), format!("f.toml:3: `states` has fewer than two states; {fix}"));
        assert_eq!(
            message("[{ stay = \"1 s\" }, { stay = \"1 s\", rate = \"0 %\" }]"),
            "f.toml:3: `states.rate` = 0 % would keep packets for the whole state; \
             use loss = \"100 %\" for an outage, or a rate above 0 %"
        );
        assert_eq!(
            message("[{ stay = \"1 s\", weight = 3 }, { stay = \"1 s\" }]"),
            "f.toml:3: `states.weight` of two states is without effect: each follows the other one; \
             leave it out, and say by `stay` how much of the time is whose"
        );
        let tdma = "{ kind = \"tdma\", superframe = \"90 ms\", slots = 10, fixed = 1, payload = \"200 B\" }";
        assert_eq!(
            read("[{ stay = \"1 s\" }, { stay = \"1 s\", rate = \"9 %\" }]", tdma).unwrap_err(),
            "f.toml:3: `states.rate` is given to a TDMA channel, whose slots have a rate of their own; \
             leave it out; `delay` and `loss` are for a channel, too"
        );
        assert_eq!(
            read("[{ stay = \"1 s\" }, { stay = \"1 s\", rate = \"9 %\" }]", "\"unlimited\"").unwrap_err(),
            "f.toml:3: `states.rate` is a share of a rate, and the direction's is unlimited; \
             leave it out, or give the direction a rate"
        );
        read("[{ stay = \"1 s\" }, { stay = \"1 s\", loss = \"9 %\" }]", "\"unlimited\"").unwrap();
    }
}
