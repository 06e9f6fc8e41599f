//! Names in a study that mean nothing: nodes of links, flows, proxies and routes, and key paths that vary. The reader ends at the first;
//! these are all, whatever else is wrong.

use perigee_text::{clip, entries_of, items_of, text_of, Content, Node, StrictError};
use perigee_units::suggestion;

use crate::document::Document;
use crate::hosts::TCP;

/// The errors of names, in the order of the tables.
pub(crate) fn references(root: &Node) -> Vec<StrictError> {
    let mut found = nodes(root);
    found.extend(hosts(root));
    found.extend(varied(root));
    found
}

/// Names of nodes that `nodes` lacks; none where that is no list of names.
fn nodes(root: &Node) -> Vec<StrictError> {
    let known: Vec<&str> = root.get("nodes").into_iter().flat_map(items_of).filter_map(text_of).collect();
    let mut found = Vec::new();
    if known.len() < 2 {
        return found;
    }
    for (table, keys) in NAMING {
        for item in root.get(table).into_iter().flat_map(items_of) {
            for (key, node) in keys.iter().filter_map(|key| Some((key, item.get(key)?))) {
                let named = if text_of(node).is_some() { std::slice::from_ref(node) } else { items_of(node) };
                let strange = named.iter().filter_map(|one| Some((one, text_of(one)?)));
                found.extend(strange.filter(|(_, name)| !known.contains(name)).map(|(one, name)| {
                    let message = format!("`{table}.{key}`: there is no node `{}`", clip(name));
                    StrictError::new(&one.origin, message, suggestion(name, known.iter().copied()))
                }));
            }
        }
    }
    found
}

/// Values under `[hosts]` that are neither TCP settings nor tables of nodes.
fn hosts(root: &Node) -> Vec<StrictError> {
    let known: Vec<&str> = root.get("nodes").into_iter().flat_map(items_of).filter_map(text_of).collect();
    let is_strange = |(name, node): &&(String, Node)| {
        !matches!(node.content, Content::Table(_)) && TCP.find(name).is_none() && !known.contains(&name.as_str())
    };
    let strange = root.get("hosts").into_iter().flat_map(entries_of).filter(is_strange);
    let told = strange.map(|(name, node)| {
        let mut words: Vec<&str> = TCP.names().collect();
        words.extend(&known);
        let fix = suggestion(name, words.into_iter());
        StrictError::new(&node.origin, format!("unknown key `hosts.{}`", clip(name)), fix)
    });
    told.collect()
}

/// Key paths under `[vary]` that cannot be set. A name of the author's own has none.
fn varied(root: &Node) -> Vec<StrictError> {
    let Some(Node { content: Content::Table(entries), .. }) = root.get("vary") else { return Vec::new() };
    let document = Document::new(root.clone());
    let wrong = |(path, list): &(String, Node)| {
        let value = items_of(list).first().filter(|_| path.contains('.'))?;
        document.clone().assign(path, value).err()
    };
    entries.iter().filter_map(wrong).collect()
}

/// Tables whose keys name nodes.
const NAMING: [(&str, &[&str]); 4] =
    [("links", &["between"]), ("flows", &["from", "to"]), ("proxies", &["node"]), ("routes", &["node", "to"])];
