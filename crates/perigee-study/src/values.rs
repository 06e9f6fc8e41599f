//! Values of key paths: those of the command line, and which values are equal.

use std::collections::BTreeMap;

use perigee_text::{clip, entries_of, json_of, parse_value, Content, Node, Origin, StrictError};
use perigee_units::{Bytes, Rate, Ratio, Time};

/// The value of a key path from the command line.
pub(crate) fn given(path: &str, text: &str, origin: &Origin) -> Node {
    let mut node = parse_value(text, origin);
    // The path of a file or the name of a host may look like a number.
    if ["inputs.", "live.servers.", "live.agents.", "live.cc_names."].iter().any(|table| path.starts_with(table))
        && !matches!(node.content, Content::Text(_))
    {
        node.content = Content::Text(text.to_owned());
    }
    node
}

/// The name of a variant from the command line, whatever it looks like.
pub(crate) fn named(text: &str, origin: &Origin) -> Node {
    let node = parse_value(text, origin);
    match node.content {
        Content::Text(_) => node,
        _ => Node { content: Content::Text(text.trim().to_owned()), ..node },
    }
}

/// Refuses a list with equal values: their runs would be the same, with the same seeds, and count as rounds of their own.
pub(crate) fn refuse_twice(values: &[Node], path: &str) -> Result<(), StrictError> {
    let mut seen: BTreeMap<String, &Node> = BTreeMap::new();
    for value in values {
        let Some(before) = seen.insert(meaning(value), value) else { continue };
        let (path, first, second) = (clip(path), clip(&written(before)), clip(&written(value)));
        let message = if first == second {
            format!("`{path}` has {first} twice")
        } else {
            format!("`{path}` has {first} and {second}, which are equal")
        };
        return Err(StrictError::new(&value.origin, message, "give it once"));
    }
    Ok(())
}

/// A value as it is written, a table of a name alone as that name.
fn written(value: &Node) -> String {
    match entries_of(value) {
        [(key, name)] if key == "name" => json_of(name).to_string(),
        _ => json_of(value).to_string(),
    }
}

/// Returns a value's normal form: quantities without their units, tables without their order.
fn meaning(value: &Node) -> String {
    match &value.content {
        Content::Text(text) => {
            let quantity = |kind: &str, amount: Option<u64>| amount.map(|amount| format!("{amount} {kind}"));
            quantity("ns", text.parse::<Time>().ok().map(Time::as_nanos))
                .or_else(|| quantity("B", text.parse::<Bytes>().ok().map(Bytes::as_u64)))
                .or_else(|| quantity("bit/s", text.parse::<Rate>().ok().map(Rate::as_bps)))
                .or_else(|| text.parse::<Ratio>().ok().map(|share| format!("{} of one", share.as_f64())))
                .unwrap_or_else(|| json(text))
        }
        Content::Integer(number) => (*number as f64).to_string(),
        Content::Float(number) => number.to_string(),
        Content::Boolean(_) => written(value),
        Content::Array(items) => format!("[{}]", items.iter().map(meaning).collect::<Vec<_>>().join(",")),
        Content::Table(entries) => match &entries[..] {
            [(key, name)] if key == "name" => meaning(name),
            _ => {
                let parts: BTreeMap<_, _> = entries.iter().map(|(key, value)| (json(key), meaning(value))).collect();
                format!("{parts:?}")
            }
        },
    }
}

/// A text as JSON.
pub(crate) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_equal_whatever_their_units_and_the_order_of_their_keys() {
        let equal = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| parse_value(text, &Origin::place("test")));
            refuse_twice(&[one, other], "a.b").is_err()
        };
        for (one, other) in [
            ("20 ms", "0.02 s"),
            ("20 ms", "20000 us"),
            ("1 kB", "1000 B"),
            ("1", "1.0"),
            ("{ name = \"bic\" }", "bic"),
            ("{ a = 1, b = \"1 s\" }", "{ b = \"1000 ms\", a = 1 }"),
            ("[\"1 s\"]", "[\"1000 ms\"]"),
        ] {
            assert!(equal(one, other), "{one} and {other}");
        }
        for (one, other) in [("20 ms", "20 us"), ("1 kB", "1 kbit/s"), ("off", "0 s"), ("1", "true"), ("bic", "bbr")] {
            assert!(!equal(one, other), "{one} and {other}");
        }
    }
}
