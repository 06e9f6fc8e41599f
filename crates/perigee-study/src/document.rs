//! A study as a tree of values, and the key paths that change it: those of `--set`, `[vary]` and `[reduced]`.

use perigee_text::{clip, items_of, keys_of, parse_value, text_of, Content, Kind, Node, Section, StrictError};
use perigee_units::{is_near, suggestion};

use crate::flows::FLOW;
use crate::hosts::TCP;
use crate::keys::{LINK, LIVE, MEASURE, ROUTE, STUDY};
use crate::kinds::CC;
use crate::proxies::{PROXY, SIDE};

/// The tree of a study with its overrides.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The root table.
    pub(crate) root: Node,
    /// Values for links, in order: they apply after profiles are read, before which their keys do not exist.
    pub(crate) patches: Vec<Patch>,
    /// Values given for `[inputs]`.
    pub(crate) inputs: Vec<(String, Node)>,
}

/// One value for one link.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    /// Name of the link.
    pub(crate) link: String,
    /// Path within the link's table.
    pub(crate) path: Vec<String>,
    /// The value.
    pub(crate) value: Node,
}

impl Document {
    /// The document of this tree.
    pub(crate) fn new(root: Node) -> Self {
        Self { root, patches: Vec::new(), inputs: Vec::new() }
    }

    /// Sets `value` at a key path.
    pub(crate) fn assign(&mut self, path: &str, value: &Node) -> Result<(), StrictError> {
        for concrete in self.expand(path, value)? {
            self.assign_one(&concrete, value)?;
        }
        Ok(())
    }

    /// The paths that `path` stands for, in a canonical form: `flow.cc` is `flows.NAME.cc` of each flow, `link` is `links`.
    /// Errors refer to `value`.
    pub(crate) fn expand(&self, path: &str, value: &Node) -> Result<Vec<Vec<String>>, StrictError> {
        let segments: Vec<&str> = path.split('.').collect();
        let join = |table: &str, name: &str, rest: &[&str]| {
            let mut path = vec![table.to_owned(), name.to_owned()];
            path.extend(rest.iter().map(|s| (*s).to_owned()));
            path
        };
        let bad = |message: String, fix: String| Err(StrictError::new(&value.origin, message, fix));
        if segments.len() > DEEPEST {
            let fix = format!("use up to {DEEPEST}");
            return bad(format!("`{}` has {} parts", clip(path), segments.len()), fix);
        }
        if let Some(meant) = self.meant(&segments) {
            return bad(format!("`{}` cannot be set", clip(path)), format!("did you mean `{}`?", clip(&meant)));
        }
        match segments[..] {
            ["flow", ref rest @ ..] if !rest.is_empty() => {
                Ok(self.names_in("flows").iter().map(|name| join("flows", name, rest)).collect())
            }
            ["proxy", ref rest @ ..] if !rest.is_empty() => {
                Ok(self.names_in("proxies").iter().map(|name| join("proxies", name, rest)).collect())
            }
            [table @ ("flows" | "proxies" | "links" | "link"), name, ref rest @ ..] if !rest.is_empty() => {
                let table = if table == "link" { "links" } else { table };
                let names = self.names_in(table);
                if names.iter().any(|known| known == name) {
                    return Ok(vec![join(table, name, rest)]);
                }
                let fix = suggestion(name, names.iter().map(String::as_str));
                bad(format!("`{}`: there is no `{}` among the {table}", clip(path), clip(name)), fix)
            }
            ["inputs", name] => {
                let known = || self.root.get("inputs").into_iter().flat_map(keys_of);
                if known().any(|k| k == name) {
                    return Ok(vec![join("inputs", name, &[])]);
                }
                bad(format!("`{}`: there is no such input", clip(path)), suggestion(name, known()))
            }
            [table @ ("measure" | "hosts" | "live" | "route"), ref rest @ ..] if !rest.is_empty() => {
                Ok(vec![join(table, rest[0], &rest[1..])])
            }
            [scalar @ ("seed" | "rounds" | "independent" | "time_limit" | "carriage" | "kernel_hosts")] => {
                Ok(vec![vec![scalar.to_owned()]])
            }
            _ if matches!(value.content, Content::Table(_)) => {
                let fix = format!("write the whole path in quotes, one of {PATHS}");
                bad(format!("`{}` is no key path", clip(path)), fix)
            }
            _ => bad(format!("`{}` cannot be set", clip(path)), format!("use one of {PATHS}")),
        }
    }

    /// The key path that was probably meant by a name in the wrong place: `flow.NAME.cc`, `NAME.cc`, `host.rmem`.
    fn meant(&self, segments: &[&str]) -> Option<String> {
        let named = |table: &str, name: &str, rest: &[&str]| {
            let names = self.names_in(table);
            let meant = names.iter().find(|known| *known == name);
            let meant = meant.or_else(|| names.iter().find(|known| is_near(name, known)))?;
            Some(format!("{table}.{meant}.{}", rest.join(".")))
        };
        match *segments {
            // The rest is a key of every flow, or of every proxy; a flow may be called as one of them.
            [every @ ("flow" | "proxy"), name, ref rest @ ..] if !rest.is_empty() => {
                let (table, section) = if every == "flow" { ("flows", &FLOW) } else { ("proxies", &PROXY) };
                let is_key = match section.find(name).map(|key| key.kind) {
                    Some(kind) => kind.is(&CC) || matches!(kind, Kind::Texts | Kind::Table(_)),
                    None => section.names().any(|key| is_near(name, key)),
                };
                if is_key {
                    return None;
                }
                named(table, name, rest)
            }
            ["host", ref rest @ ..] if !rest.is_empty() => Some(format!("hosts.{}", rest.join("."))),
            [first, ..] if STARTS.contains(&first) => None,
            [name, ref rest @ ..] if !rest.is_empty() => {
                ["flows", "links", "proxies"].into_iter().find_map(|table| named(table, name, rest))
            }
            _ => None,
        }
    }

    fn assign_one(&mut self, path: &[String], value: &Node) -> Result<(), StrictError> {
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        match segments[..] {
            ["links", link, ref rest @ ..] => self.assign_to_link(link, rest, &segments, value),
            ["flows", flow, ref rest @ ..] => self.assign_to_flow(flow, rest, &segments, value),
            ["proxies", proxy, "sides", link, ref rest @ ..] if !rest.is_empty() => {
                let sides = self.table_named("proxies", proxy).and_then(|table| table.get_mut("sides"));
                set_key(sides.and_then(|sides| sides.get_mut(link)), &SIDE, rest, &segments, value)
            }
            ["proxies", proxy, ref rest @ ..] => {
                set_key(self.table_named("proxies", proxy), &PROXY, rest, &segments, value)
            }
            ["inputs", name] => {
                self.inputs.retain(|(known, _)| known != name);
                self.inputs.push((name.to_owned(), value.clone()));
                Ok(())
            }
            ["route", key, ..] => {
                known_key(&ROUTE, key, &segments, value)?;
                for route in self.changing_routes(matches!(key, "detect" | "restore")) {
                    set_key(Some(route), &ROUTE, &segments[1..], &segments, value)?;
                }
                Ok(())
            }
            ["measure", ref rest @ ..] => set_key(self.child("measure", value), &MEASURE, rest, &segments, value),
            ["live", ref rest @ ..] => set_key(self.child("live", value), &LIVE, rest, &segments, value),
            ["hosts", node, ref rest @ ..] if !rest.is_empty() && self.nodes().any(|name| name == node) => {
                if self.root.get("hosts").and_then(|hosts| hosts.get(node)).is_none() {
                    self.root.set(&["hosts", node], Node::empty_table(&value.origin));
                }
                let table = self.root.get_mut("hosts").and_then(|hosts| hosts.get_mut(node));
                set_key(table, &TCP, rest, &segments, value)
            }
            ["hosts", key, ..] if TCP.find(key).is_none() => {
                let what = clip(path.join(".").as_str());
                let message = format!("`{what}`: there is neither a TCP setting nor a node `{}`", clip(key));
                let mut known: Vec<&str> = TCP.names().collect();
                known.extend(self.nodes());
                Err(StrictError::new(&value.origin, message, suggestion(key, known.into_iter())))
            }
            ["hosts", ref rest @ ..] => set_key(self.child("hosts", value), &TCP, rest, &segments, value),
            [key] => set_key(Some(&mut self.root), &STUDY, &[key], &segments, value),
            _ => Ok(()),
        }
    }

    fn assign_to_link(&mut self, link: &str, rest: &[&str], path: &[&str], value: &Node) -> Result<(), StrictError> {
        known_key(&LINK, rest[0], path, value)?;
        if matches!(rest, ["name" | "between" | "profile" | "mtu"]) {
            return set_key(self.table_named("links", link), &LINK, rest, path, value);
        }
        let path = rest.iter().map(|s| (*s).to_owned()).collect();
        self.patches.push(Patch { link: link.to_owned(), path, value: value.clone() });
        Ok(())
    }

    fn assign_to_flow(&mut self, flow: &str, rest: &[&str], path: &[&str], value: &Node) -> Result<(), StrictError> {
        set_key(self.table_named("flows", flow), &FLOW, rest, path, value)?;
        // Size and duration exclude each other: a setting of one replaces the other.
        let replaced = match rest {
            ["size"] => "duration",
            ["duration"] => "size",
            _ => return Ok(()),
        };
        if let Some(Content::Table(entries)) = self.table_named("flows", flow).map(|t| &mut t.content) {
            entries.retain(|(name, _)| name != replaced);
        }
        Ok(())
    }

    /// The table `key` of the root, created if missing.
    fn child(&mut self, key: &str, like: &Node) -> Option<&mut Node> {
        if self.root.get(key).is_none() {
            self.root.set(&[key], Node::empty_table(&like.origin));
        }
        self.root.get_mut(key)
    }

    /// The routes that hold at times, or only those that watch a link.
    fn changing_routes(&mut self, watch: bool) -> impl Iterator<Item = &mut Node> {
        let routes = match self.root.get_mut("routes").map(|routes| &mut routes.content) {
            Some(Content::Array(routes)) => routes.as_mut_slice(),
            _ => &mut [],
        };
        let conditions: &[&str] = if watch { &["while_dark"] } else { &["start", "end", "while_dark"] };
        routes.iter_mut().filter(|route| conditions.iter().any(|key| route.get(key).is_some()))
    }

    fn nodes(&self) -> impl Iterator<Item = &str> {
        self.root.get("nodes").into_iter().flat_map(items_of).filter_map(text_of)
    }

    fn names_in(&self, table: &str) -> Vec<String> {
        let items = self.root.get(table).into_iter().flat_map(items_of);
        items.filter_map(|item| item.get("name").and_then(text_of)).map(str::to_owned).collect()
    }

    fn table_named(&mut self, table: &str, name: &str) -> Option<&mut Node> {
        match &mut self.root.get_mut(table)?.content {
            Content::Array(items) => items.iter_mut().find(|item| item.get("name").and_then(text_of) == Some(name)),
            _ => None,
        }
    }
}

/// Sets `rest` of a table that `section` describes; `whole` is the path from the root, for messages.
fn set_key(
    table: Option<&mut Node>,
    section: &Section,
    rest: &[&str],
    whole: &[&str],
    value: &Node,
) -> Result<(), StrictError> {
    let table = table.filter(|table| matches!(table.content, Content::Table(_)));
    let (Some((first, inner)), Some(table)) = (rest.split_first(), table) else {
        let message = format!("`{}` cannot be set: what is around it is not a table", clip(&whole.join(".")));
        return Err(StrictError::new(&value.origin, message, "correct the study first"));
    };
    match (known_key(section, first, whole, value)?, inner) {
        (_, []) => table.set(&[first], value.clone()),
        (kind, [parameter]) if kind.is(&CC) => {
            // A name alone becomes a table, to have a place for the parameter.
            let cc = table.get(first).cloned();
            if let Some(name) = cc.or_else(|| default_of(section, first, value)).filter(|cc| text_of(cc).is_some()) {
                table.set(&[first, "name"], name);
            }
            table.set(&[first, parameter], value.clone());
        }
        (Kind::Texts, [key]) => table.set(&[first, key], value.clone()),
        (Kind::Table(inside), [key]) => {
            known_key(inside, key, whole, value)?;
            table.set(&[first, key], value.clone());
        }
        _ => {
            let message = format!("`{}` goes too deep: `{first}` is one value", clip(&whole.join(".")));
            return Err(StrictError::new(&value.origin, message, format!("set `{first}` itself")));
        }
    }
    Ok(())
}

/// The kind of a key; the error lists the known keys.
fn known_key(section: &Section, name: &str, whole: &[&str], value: &Node) -> Result<Kind, StrictError> {
    section.find(name).map(|key| key.kind).ok_or_else(|| {
        let message = format!("`{}`: there is no key `{}` in {}", clip(&whole.join(".")), clip(name), section.name);
        StrictError::new(&value.origin, message, suggestion(name, section.names()))
    })
}

fn default_of(section: &Section, key: &str, like: &Node) -> Option<Node> {
    section.find(key).map(|key| parse_value(key.default, &like.origin))
}

/// Maximum parts of a key path: tables nest no deeper.
const DEEPEST: usize = 12;

/// First parts of key paths.
const STARTS: [&str; 17] = [
    "seed",
    "rounds",
    "independent",
    "time_limit",
    "carriage",
    "kernel_hosts",
    "flow",
    "flows",
    "link",
    "links",
    "proxy",
    "proxies",
    "route",
    "hosts",
    "measure",
    "live",
    "inputs",
];

/// The forms of key paths, for messages.
pub(crate) const PATHS: &str =
    "seed, rounds, independent, time_limit, carriage, kernel_hosts, flow.KEY (every flow), flows.NAME.KEY, links.NAME.KEY, \
    proxy.KEY (every proxy), proxies.NAME.KEY, proxies.NAME.sides.LINK.KEY, \
    route.KEY (every route that holds at times), hosts.KEY, hosts.NODE.KEY, measure.KEY, live.KEY, inputs.NAME";
