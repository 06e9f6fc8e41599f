//! The records of an orbit mean-elements message as keys with their values, whichever way they are written.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::elements::ElementsError;

/// The keys of one satellite.
pub(crate) struct RawElements {
    /// The line that it begins in.
    pub(crate) line: u32,
    pub(crate) fields: BTreeMap<String, Field>,
}

/// A value and its line.
pub(crate) struct Field {
    pub(crate) text: String,
    pub(crate) line: u32,
}

/// JSON: an object, or an array of them. A value has the line in which its object begins.
pub(crate) fn json(text: &str) -> Result<Vec<RawElements>, ElementsError> {
    let tree: Value = serde_json::from_str(text).map_err(|error| {
        ElementsError::new(error.line() as u32, format!("not JSON: {error}"), "take the file as it was published")
    })?;
    let objects = match tree {
        Value::Array(objects) => objects,
        object => vec![object],
    };
    let lines = object_lines(text);
    let record = |(object, line): (Value, u32)| {
        let Value::Object(entries) = object else {
            return Err(ElementsError::new(line, "not an object", "give an array of objects, one per satellite"));
        };
        let fields = entries.into_iter().filter_map(|(key, value)| {
            let text = match value {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                _ => return None,
            };
            Some((key, Field { text, line }))
        });
        Ok(RawElements { line, fields: fields.collect() })
    };
    objects.into_iter().zip(lines.into_iter().chain(std::iter::repeat(1))).map(record).collect()
}

/// The lines in which the outermost objects begin.
fn object_lines(text: &str) -> Vec<u32> {
    let (mut lines, mut line, mut depth) = (Vec::new(), 1, 0);
    let (mut in_text, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            b'\n' => line += 1,
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' => {
                if depth == 0 {
                    lines.push(line);
                }
                depth += 1;
            }
            b'}' => depth -= 1,
            _ => {}
        }
    }
    lines
}

/// KVN: lines `KEY = VALUE`; a message begins with its version, or, where that stands once only, with a key that was there before.
pub(crate) fn key_values(text: &str) -> Result<Vec<RawElements>, ElementsError> {
    let mut records: Vec<RawElements> = Vec::new();
    for (line, row) in numbered(text) {
        if row.is_empty() || row.starts_with("COMMENT") {
            continue;
        }
        let Some((key, value)) = row.split_once('=') else {
            return Err(ElementsError::new(line, "a line without `=`", "write KEY = VALUE"));
        };
        let key = key.trim();
        let begins = key == "CCSDS_OMM_VERS" || records.last().is_none_or(|record| record.fields.contains_key(key));
        if begins {
            records.push(RawElements { line, fields: BTreeMap::new() });
        }
        // A unit in brackets may follow.
        let text = value.split_once('[').map_or(value, |(value, _)| value).trim().to_owned();
        if let Some(record) = records.last_mut() {
            record.fields.insert(key.to_owned(), Field { text, line });
        }
    }
    Ok(records)
}

/// CSV: a line of keys, and a line of values for each satellite.
pub(crate) fn comma_separated(text: &str) -> Result<Vec<RawElements>, ElementsError> {
    let mut lines = numbered(text).filter(|(_, row)| !row.is_empty());
    let keys = lines.next().map(|(_, row)| cells(row)).unwrap_or_default();
    let record = |(line, row): (u32, &str)| {
        let values = cells(row);
        if values.len() != keys.len() {
            let message = format!("{} values, where the first line has {} names", values.len(), keys.len());
            return Err(ElementsError::new(line, message, "take the file as it was published"));
        }
        let given = keys.iter().cloned().zip(values).filter(|(_, text)| !text.is_empty());
        Ok(RawElements { line, fields: given.map(|(key, text)| (key, Field { text, line })).collect() })
    };
    lines.map(record).collect()
}

/// The cells of a line, which may stand in quotes (RFC 4180).
fn cells(row: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for letter in row.chars() {
        match (letter, cells.last_mut()) {
            ('"', _) => is_quoted = !is_quoted,
            (',', _) if !is_quoted => cells.push(String::new()),
            (_, Some(cell)) => cell.push(letter),
            (_, None) => {}
        }
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

/// XML: elements without children are keys, and each `<omm>` is a satellite.
pub(crate) fn xml(text: &str) -> Result<Vec<RawElements>, ElementsError> {
    let mut records: Vec<RawElements> = Vec::new();
    let (mut line, mut open): (u32, Option<&str>) = (1, None);
    for (number, part) in text.split('<').enumerate() {
        let here = line;
        line += part.matches('\n').count() as u32;
        if number == 0 {
            continue;
        }
        let Some((tag, content)) = part.split_once('>') else {
            return Err(ElementsError::new(here, "a `<` without its `>`", "take the file as it was published"));
        };
        let name = tag.split_whitespace().next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(_) => open = None,
            None if name.starts_with(['?', '!']) || tag.ends_with('/') => {}
            None => {
                if name == "omm" {
                    records.push(RawElements { line: here, fields: BTreeMap::new() });
                }
                open = Some(name);
            }
        }
        if let (Some(key), Some(record), false) = (open, records.last_mut(), content.trim().is_empty()) {
            record.fields.insert(key.to_owned(), Field { text: unescaped(content.trim()), line: here });
        }
    }
    Ok(records)
}

fn unescaped(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
}

fn numbered(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.lines().enumerate().map(|(i, line)| (i as u32 + 1, line.trim()))
}
