//! Names in a study that mean nothing: nodes of links, flows, proxies and routes; and settings of `[vary]`, `[reduced]` and experiments
//! whose key path or value is wrong. The reader ends at the first; these are all, whatever else is wrong.

use perigee_text::{clip, entries_of, items_of, survey, text_of, Content, Node, StrictError};
use perigee_units::suggestion;

use crate::document::{Document, Patch};
use crate::hosts::TCP;
use crate::keys::{LINK, STUDY};
use crate::plan::base_of;

/// The errors of names and settings, in the order of the tables.
pub(crate) fn references(root: &Node) -> Vec<StrictError> {
    let mut found = nodes(root);
    found.extend(hosts(root));
    found.extend(settings(root));
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

/// The errors of `[vary]` and `[reduced]`, those of the study and those of each experiment, which are laid over its `set`.
fn settings(root: &Node) -> Vec<StrictError> {
    let whole = Document::new(base_of(root));
    let most = MAX_VALUES / whole.root.size().max(1);
    let mut check = Check { found: Vec::new(), left: most };
    for part in std::iter::once(root).chain(root.get("experiments").into_iter().flat_map(items_of)) {
        let document = check.lay(&whole, part.get("set").map_or(&[], entries_of));
        check.vary(&document, part.get("vary").map_or(&[], entries_of));
        let reduced = part.get("reduced").and_then(|reduced| reduced.get("set")).map_or(&[][..], entries_of);
        let (lists, plain): (Vec<_>, Vec<_>) = reduced.iter().cloned().partition(|(path, _)| path.starts_with("vary."));
        check.lay(&document, &plain);
        let lists: Vec<_> = lists.into_iter().map(|(path, list)| (path["vary.".len()..].to_owned(), list)).collect();
        check.vary(&document, &lists);
    }
    check.found
}

/// The errors of settings so far, and how many more documents may be made for them.
struct Check {
    found: Vec<StrictError>,
    left: u64,
}

impl Check {
    /// Lays each value of lists, and each table of values that vary together, over the document by itself.
    fn vary(&mut self, document: &Document, lists: &[(String, Node)]) {
        for (path, item) in lists.iter().flat_map(|(path, list)| items_of(list).iter().map(move |item| (path, item))) {
            match &item.content {
                _ if path.contains('.') => drop(self.lay(document, &[(path.clone(), item.clone())])),
                Content::Table(entries) => drop(self.lay(document, entries)),
                // A key of the whole study, or the name of variants.
                _ => {}
            }
        }
    }

    /// The document with those of these settings that can be laid over it.
    fn lay(&mut self, document: &Document, settings: &[(String, Node)]) -> Document {
        let mut document = document.clone();
        if settings.is_empty() || self.left == 0 {
            return document;
        }
        self.left -= 1;
        let before = document.patches.len();
        for (path, value) in settings.iter().filter(|(path, _)| path != "name") {
            let error = document.assign(path, value).err();
            // The key of variants takes the name of one.
            self.found.extend(error.filter(|_| path.contains('.') || STUDY.find(path).is_some()));
        }
        self.found.extend(document.patches[before..].iter().flat_map(of_link));
        let is_here = |error: &StrictError| settings.iter().any(|(_, value)| value.origin == error.origin);
        self.found.extend(survey(&document.root, "", &STUDY).into_iter().filter(is_here));
        document
    }
}

/// The errors of a value for a link: what lies beneath it comes from a profile.
fn of_link(patch: &Patch) -> Vec<StrictError> {
    let path: Vec<&str> = patch.path.iter().map(String::as_str).collect();
    let mut link = Node::empty_table(&patch.value.origin);
    link.set(&path, patch.value.clone());
    survey(&link, &format!("links.{}", clip(&patch.link)), &LINK)
}

/// Tables whose keys name nodes.
const NAMING: [(&str, &[&str]); 4] =
    [("links", &["between"]), ("flows", &["from", "to"]), ("proxies", &["node"]), ("routes", &["node", "to"])];
/// Values in all documents that are made to check settings, so that a large study is read in good time.
const MAX_VALUES: u64 = 1_000_000;
