//! All errors of a file that concern one key each: unknown keys, and values that their keys do not take.

use crate::reader::wrong_value;
use crate::section::{unknown, Kind, Process, Section};
use crate::table::Table;
use crate::tree::{clip, entries_of, items_of, text_of, Content, Node, StrictError};

/// The errors of a table and of the tables in it, in the order of the text. Each holds whatever the others are, and whether or not the
/// value is used in the end; missing keys, which a setting may add, are none.
pub fn survey(node: &Node, path: &str, section: &'static Section) -> Vec<StrictError> {
    let mut found = Vec::new();
    table(node, path, section, &[], &mut found);
    found
}

fn table(node: &Node, path: &str, section: &'static Section, also: &[&str], found: &mut Vec<StrictError>) {
    let Ok(named) = Table::named(node, path) else {
        found.extend(Table::named(node, path).err());
        return;
    };
    for (name, node) in entries_of(node) {
        let what = named.dotted(name);
        match section.find(name) {
            Some(key) => match key.kind.check(node, &what) {
                Err(error) => found.push(wrong_value(error, node, key, section)),
                Ok(()) => inside(node, &what, key.kind, found),
            },
            None if also.contains(&name.as_str()) => {}
            None => found.push(named.error(name, unknown(&what), section.instead_of(name, also))),
        }
    }
}

fn inside(node: &Node, what: &str, kind: Kind, found: &mut Vec<StrictError>) {
    match kind {
        Kind::Table(section) => table(node, what, section, &[], found),
        Kind::Tables(section) => items_of(node).iter().for_each(|item| {
            let name = item.get("name").and_then(text_of).map_or_else(String::new, |name| format!(".{}", clip(name)));
            table(item, &format!("{what}{name}"), section, &[], found);
        }),
        Kind::TablePer { section, .. } => per_name(entries_of(node), what, section, found),
        Kind::TableAndOnePer { section, .. } => {
            let is_named = |(_, node): &&(String, Node)| matches!(node.content, Content::Table(_));
            let (named, own): (Vec<_>, Vec<_>) = entries_of(node).iter().cloned().partition(|entry| is_named(&entry));
            let own = Node { content: Content::Table(own), ..node.clone() };
            // A plain value may be meant for something of this name, which the reader knows.
            found.extend(survey(&own, what, section).into_iter().filter(|error| !error.message.starts_with("unknown")));
            per_name(&named, what, section, found);
        }
        Kind::Process(described) => match &node.content {
            Content::Array(items) if described.is_list => {
                for item in items {
                    process(item, what, described, found);
                }
            }
            _ => process(node, what, described, found),
        },
        _ => {}
    }
}

fn per_name(entries: &[(String, Node)], what: &str, section: &'static Section, found: &mut Vec<StrictError>) {
    for (name, node) in entries {
        table(node, &format!("{what}.{name}"), section, &[], found);
    }
}

fn process(node: &Node, what: &str, described: &Process, found: &mut Vec<StrictError>) {
    // The value of an input is not known.
    if text_of(node).is_some_and(|text| text.starts_with("${")) {
        return;
    }
    let is_table = matches!(&node.content, Content::Table(entries) if !entries.is_empty());
    if !is_table {
        found.extend(described.open(node, what).err());
        return;
    }
    // A table without its kind may be laid over another one.
    let form = Table::named(node, what).and_then(|table| described.form(&table));
    match form {
        Ok(form) => table(node, what, form.section, &["kind"], found),
        Err(error) if node.get("kind").is_some() => found.push(error),
        Err(_) => {}
    }
}
