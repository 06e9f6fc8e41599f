//! `[live]`: the real hosts of the nodes of a study, and the schedule of its runs.

use std::net::IpAddr;

use perigee_text::{clip, entries_of, items_of, text_of, Content, Node, Reader, StrictError};
use perigee_units::{suggestion, Time};

use crate::keys::LIVE;

/// Settings of a study between real hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The node of this host.
    pub here: Option<String>,
    /// Servers of other nodes: node, host, port.
    pub servers: Vec<(String, String, u16)>,
    /// Agents of nodes: node, agent, address of its host.
    pub agents: Vec<(String, String, Option<IpAddr>)>,
    /// Names of congestion controls on the sending host: the study's name, and the host's.
    pub cc_names: Vec<(String, String)>,
    /// Whether the hosts' own TCP settings stand for the study's.
    pub own_tcp: bool,
    /// Address or device of this host.
    pub bind: Option<String>,
    /// Pause between two runs.
    pub pause: Time,
    /// Grid of the wall clock at which runs start.
    pub every: Option<Time>,
    /// Whether rounds instead of runs start at the grid, and their runs follow one another.
    pub by_round: bool,
    /// Time after the first run from which no run starts.
    pub span: Option<Time>,
    /// Maximum retries of a failed run.
    pub retries: u32,
    /// Maximum pause before a retry.
    pub backoff: Time,
    /// Whether a run that keeps failing is left to the next call of the command.
    pub again: bool,
    /// Time by which a run may exceed its expected end.
    pub timeout: Time,
    /// Maximum wait for a connection.
    pub connect_timeout: Time,
}

/// Reads `[live]` of a document.
pub(crate) fn live(root: &Node) -> Result<Live, StrictError> {
    let empty = Node::empty_table(&root.origin);
    let table = Reader::open(root.get("live").unwrap_or(&empty), "live", &LIVE, &[])?;
    let nodes: Vec<&str> = root.get("nodes").map_or(&[][..], items_of).iter().filter_map(text_of).collect();
    let here: Option<String> = table.table.get("here")?;
    if let Some(name) = here.as_deref().filter(|name| !nodes.contains(name)) {
        let message = format!("`live.here`: there is no node `{}`", clip(name));
        return Err(table.error("here", message, suggestion(name, nodes.into_iter())));
    }
    let mut servers = Vec::new();
    for (node, value) in named(&table, "servers")? {
        node_of("servers", &node, value, &nodes)?;
        let address = text_of(value).unwrap_or_default();
        let Some((host, port)) = server(address) else {
            let message = format!("`live.servers.{node}`: `{}` is no host and port", clip(address));
            return Err(StrictError::new(
                &value.origin,
                message,
                "write \"HOST\", \"HOST:5201\" or \"[ADDRESS]:5201\"",
            ));
        };
        servers.push((node, host, port));
    }
    let mut agents: Vec<(String, String, Option<IpAddr>)> = Vec::new();
    for (node, value) in named(&table, "agents")? {
        node_of("agents", &node, value, &nodes)?;
        let text = text_of(value).unwrap_or_default();
        let refused = |why: &str, fix: &str| {
            Err(StrictError::new(&value.origin, format!("`live.agents.{node}`: `{}` {why}", clip(text)), fix))
        };
        let Some((name, address)) = agent(text) else {
            return refused("is no agent", "write \"AGENT\" or \"AGENT@ADDRESS\", with an address of that host");
        };
        if servers.iter().any(|(other, ..)| *other == node) {
            return refused("stands beside a server of the node", "leave one of the two out");
        }
        if agents.iter().any(|(_, other, _)| *other == name) {
            return refused("is another node already", "give each node an agent of its own");
        }
        agents.push((node, name, address));
    }
    let text = |(name, node): (String, &Node)| (name, text_of(node).unwrap_or_default().to_owned());
    Ok(Live {
        here,
        servers,
        agents,
        cc_names: named(&table, "cc_names")?.into_iter().map(text).collect(),
        own_tcp: table.get::<String>("tcp")? == "hosts",
        bind: table.table.get("bind")?,
        pause: table.get("pause")?,
        every: table.get_unless_off("every")?,
        by_round: table.get::<String>("slot")? == "round",
        span: table.get_unless_off("for")?,
        retries: table.get("retries")?,
        backoff: table.get("backoff")?,
        again: table.get::<String>("failed")? == "again",
        timeout: table.get("timeout")?,
        connect_timeout: table.get("connect_timeout")?,
    })
}

/// Names and their texts.
fn named<'a>(table: &Reader<'a>, key: &str) -> Result<Vec<(String, &'a Node)>, StrictError> {
    let Some(node) = table.table.node(key) else { return Ok(Vec::new()) };
    if !matches!(node.content, Content::Table(_)) {
        let message = format!("`live.{key}` is {}", node.kind());
        return Err(StrictError::new(&node.origin, message, "write a table: { NAME = \"...\" }"));
    }
    let entries = entries_of(node).iter();
    let read = |(name, value): &'a (String, Node)| match text_of(value) {
        Some(text) if !text.trim().is_empty() => Ok((name.clone(), value)),
        _ => {
            let message = format!("`live.{key}.{}` is no text", clip(name));
            Err(StrictError::new(&value.origin, message, "write it in quotes"))
        }
    };
    entries.map(read).collect()
}

/// Refuses the name of an unknown node.
fn node_of(key: &str, node: &str, value: &Node, nodes: &[&str]) -> Result<(), StrictError> {
    if nodes.contains(&node) {
        return Ok(());
    }
    let message = format!("`live.{key}`: there is no node `{}`", clip(node));
    Err(StrictError::new(&value.origin, message, suggestion(node, nodes.iter().copied())))
}

/// Name and address of `AGENT` or `AGENT@ADDRESS`.
fn agent(text: &str) -> Option<(String, Option<IpAddr>)> {
    let (name, address) = match text.split_once('@') {
        Some((name, address)) => (name, Some(address.parse().ok()?)),
        None => (text, None),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_name = name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain);
    is_name.then(|| (name.to_owned(), address))
}

/// Host and port of `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`; an IPv6 address alone has no port.
fn server(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest
            .split_once(']')
            .map(|(host, after)| (host, after.strip_prefix(':').or(after.is_empty().then_some(""))))?,
        None if text.matches(':').count() > 1 => (text, Some("")),
        None => text.split_once(':').map_or((text, Some("")), |(host, port)| (host, Some(port))),
    };
    let port = match port? {
        "" if !text.ends_with(':') || host == text => PORT,
        port => port.parse().ok().filter(|port| *port > 0)?,
    };
    let plain =
        !host.is_empty() && !host.starts_with('-') && !host.contains(|c: char| c.is_whitespace() || c.is_control());
    plain.then(|| (host.to_owned(), port))
}

/// Default port of iperf3.
const PORT: u16 = 5201;

#[cfg(test)]
mod tests {
    use super::{agent, server};

    #[test]
    fn an_agent_is_a_name_and_where_it_is_said_an_address() {
        let read = |text: &str| agent(text).map(|(name, address)| (name, address.map(|found| found.to_string())));
        assert_eq!(read("moon-1"), Some(("moon-1".into(), None)));
        assert_eq!(read("moon@10.0.0.2"), Some(("moon".into(), Some("10.0.0.2".into()))));
        assert_eq!(read("moon@2001:db8::1"), Some(("moon".into(), Some("2001:db8::1".into()))));
        for text in ["", "@10.0.0.2", "moon@", "moon@example.org", "-x", "a b", "../a"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_server_is_a_host_with_a_port_or_the_usual_one() {
        let read = |text: &str| server(text).map(|(host, port)| format!("{host} {port}"));
        for (text, expected) in [
            ("a.example", "a.example 5201"),
            ("10.0.0.2:5301", "10.0.0.2 5301"),
            ("2001:db8::1", "2001:db8::1 5201"),
            ("[2001:db8::1]", "2001:db8::1 5201"),
            ("[2001:db8::1]:99", "2001:db8::1 99"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "a:", "a:0", "a:99999", "a:x", "[::1", "[::1]x", ":5201", "-x", "a b"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
