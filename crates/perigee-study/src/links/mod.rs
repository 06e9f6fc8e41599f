//! The links of a scenario: a profile, overlaid by the study's own values and then by those of a point.

pub(crate) mod acm;
pub(crate) mod aqm;
pub(crate) mod body;
pub(crate) mod delay;
pub(crate) mod direction;
pub(crate) mod loss;
pub(crate) mod orbit;
pub(crate) mod process;
pub mod profile;
pub(crate) mod queue;
pub(crate) mod rate;
pub(crate) mod replay;
mod slot_delay;
pub(crate) mod slots;
pub(crate) mod states;
pub(crate) mod tdma;
pub mod trace;

use std::collections::BTreeMap;
use std::sync::Arc;

use perigee_link::LinkSpec;
use perigee_text::{clip, entries_of, json_of, keys_of, text_of, Content, Kind, Node, StrictError, Table};
use perigee_units::{fingerprint, suggestion};

use crate::document::Document;
use crate::keys::LINK;
use crate::read::LinkDraft;
use direction::read_direction;
use process::Load;

/// One direction of a link, and a fingerprint of all its inputs.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) spec: Arc<LinkSpec>,
    pub(crate) fingerprint: u64,
}

impl Built {
    fn new(spec: LinkSpec) -> Self {
        Self { fingerprint: fingerprint(&spec), spec: Arc::new(spec) }
    }
}

/// Reads links, each distinct one once.
#[derive(Default)]
pub(crate) struct Workshop {
    profiles: BTreeMap<String, Node>,
    /// Links built so far, by the folder of the profile and both directions as written.
    built: BTreeMap<[String; 3], [Built; 2]>,
}

impl Workshop {
    /// Both directions of a link, down and up; profiles and recordings come from `load`.
    pub(crate) fn build(
        &mut self,
        link: &LinkDraft,
        document: &Document,
        load: &mut Load<'_>,
    ) -> Result<[Built; 2], StrictError> {
        let mut given = link.table.get("profile").cloned();
        if let Some(node) = &mut given {
            fill_inputs(node, document)?;
        }
        let base = match &given {
            Some(node) => Some(self.profile(node, load)?),
            None => None,
        };
        let folder = base.as_ref().map_or("", |(file, _)| folder_of(file));
        let base = base.as_ref().map(|(_, tree)| tree);
        let node_of = |direction| {
            let mut node = layered(direction, link, base, document)?;
            fill_inputs(&mut node, document)?;
            Ok::<_, StrictError>(node)
        };
        let nodes = [node_of("down")?, node_of("up")?];
        let [down, up] = [0, 1].map(|number| json_of(&nodes[number]).to_string());
        let key = [folder.to_owned(), down, up];
        if let Some(built) = self.built.get(&key) {
            return Ok(built.clone());
        }
        let mut read = |direction: &str, node| {
            read_direction(node, &format!("links.{}.{direction}", link.name), &mut beside(load, folder))
        };
        let built = direction::link(read("down", &nodes[0])?, read("up", &nodes[1])?)?.map(Built::new);
        self.built.insert(key, built.clone());
        Ok(built)
    }

    /// The file of a profile, and its tree with `down` and `up`.
    fn profile(&mut self, given: &Node, load: &mut Load<'_>) -> Result<(String, Node), StrictError> {
        let name = text_of(given).unwrap_or_default();
        let file = if name.contains('/') { name.to_owned() } else { format!("profiles/{name}.toml") };
        if let Some(tree) = self.profiles.get(&file) {
            return Ok((file, tree.clone()));
        }
        let error = |message: String, fix: &str| StrictError::new(&given.origin, message, fix);
        let bytes = match load(&file) {
            Ok(bytes) => bytes,
            Err(why) => {
                let message = format!("the profile `{}` cannot be read: {why}", clip(name));
                return Err(error(message, &others(name, load)));
            }
        };
        let text = String::from_utf8(bytes)
            .map_err(|_| error(format!("the profile `{}` is not text", clip(&file)), "name a TOML file"))?;
        let tree = profile::split(perigee_text::parse(&text, &file)?)?;
        // The links themselves are read with what the study lays over them: a profile may leave recordings open.
        profile::open(&tree)?;
        self.profiles.insert(file.clone(), tree.clone());
        Ok((file, tree))
    }
}

/// The fix for a missing profile: the name that was probably meant, if `load` can list the profiles.
fn others(name: &str, load: &mut Load<'_>) -> String {
    let listing = load("profiles/").unwrap_or_default();
    let names = String::from_utf8_lossy(&listing);
    let mut known: Vec<&str> = names.lines().filter_map(|file| file.strip_suffix(".toml")).collect();
    known.sort_unstable();
    known.dedup();
    match known[..] {
        [] => "name one that is there".to_owned(),
        _ => suggestion(name, known.into_iter()),
    }
}

/// A loader that also looks beside a profile, whose recordings are relative to its own folder.
fn beside<'a, 'l: 'a>(
    load: &'a mut Load<'l>,
    folder: &'a str,
) -> impl FnMut(&str) -> Result<Vec<u8>, String> + use<'a, 'l> {
    move |name: &str| match load(name) {
        Err(_) if !folder.is_empty() && !name.starts_with('/') => load(&format!("{folder}/{name}")),
        answer => answer,
    }
}

fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The table of one direction. Each process comes from the last of these that has it: the profile, the link's common keys,
/// the link's table for the direction; the values of the point are laid over that, and may reach into a process.
fn layered(direction: &str, link: &LinkDraft, base: Option<&Node>, document: &Document) -> Result<Node, StrictError> {
    let base = base.and_then(|tree| tree.get(direction));
    let mut node = base.map_or_else(|| Node::empty_table(&link.table.origin), Node::clone);
    let common = LINK.keys.iter().filter(|key| matches!(key.kind, Kind::Process(_)));
    for key in common {
        if let Some(process) = link.table.get(key.name) {
            node.set(&[key.name], process.clone());
        }
    }
    if let Some(own) = link.table.get(direction) {
        Table::named(own, &format!("links.{direction}"))?;
        for (key, process) in entries_of(own) {
            node.set(&[key], process.clone());
        }
    }
    for patch in document.patches.iter().filter(|patch| patch.link == link.name) {
        let path: Vec<&str> = patch.path.iter().map(String::as_str).collect();
        match path[..] {
            [first, ref rest @ ..] if first == direction => node.set(rest, patch.value.clone()),
            [first, ..] if is_direction(first) => {}
            _ => node.set(&path, patch.value.clone()),
        }
    }
    Ok(node)
}

fn is_direction(key: &str) -> bool {
    matches!(key, "down" | "up")
}

/// Replaces each `"${inputs.NAME}"` by its given value.
fn fill_inputs(node: &mut Node, document: &Document) -> Result<(), StrictError> {
    match &mut node.content {
        Content::Array(items) => items.iter_mut().try_for_each(|item| fill_inputs(item, document)),
        Content::Table(entries) => entries.iter_mut().try_for_each(|(_, value)| fill_inputs(value, document)),
        Content::Text(text) => {
            let Some(path) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else { return Ok(()) };
            let declared = document.root.get("inputs");
            let Some(name) =
                path.strip_prefix("inputs.").filter(|name| declared.is_some_and(|d| d.get(name).is_some()))
            else {
                let message = format!("there is no `{}`", clip(path));
                let known = declared.into_iter().flat_map(keys_of);
                let fix = suggestion(path.trim_start_matches("inputs."), known);
                return Err(StrictError::new(&node.origin, message, format!("write \"${{inputs.NAME}}\"; {fix}")));
            };
            let given = |name: &str| document.inputs.iter().find(|(known, _)| known == name);
            let Some((_, value)) = given(name) else {
                let missing = declared.map_or(&[][..], entries_of).iter().filter(|(name, _)| given(name).is_none());
                let (what, pass): (Vec<String>, Vec<String>) = missing
                    .map(|(name, about)| {
                        let about = text_of(about).unwrap_or_default();
                        (format!("`{name}` ({about})"), format!("--set inputs.{name}=PATH"))
                    })
                    .unzip();
                let message = format!("not given: {}", what.join(", "));
                return Err(StrictError::new(&node.origin, message, format!("pass {}", pass.join(" "))));
            };
            *node = value.clone();
            Ok(())
        }
        _ => Ok(()),
    }
}
