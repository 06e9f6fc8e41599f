//! Reads the configuration's TOML: every key known, every quantity with its unit, every error with line and fix.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use perigee_text::{parse, Content, Node, Read, StrictError, Table};
use perigee_units::{suggestion, Bytes, Rate, Time};

use super::{
    Allow, AtLimit, Config, Forward, Leg, Limits, Ports, Rule, Terminal, Transparent, Tunnel, TunnelCongestion,
    TunnelEnd,
};
use crate::network::{is_local_form, never, Network};

impl Config {
    /// Reads a configuration; `file` names it in errors, and `workers` is the number of threads where it does not say.
    ///
    /// # Errors
    /// With the line and the fix, if it is not TOML, has an unknown key, a quantity without unit, or says nothing to do.
    pub fn parse(text: &str, file: &str, workers: usize) -> Result<Self, StrictError> {
        let root = parse(text, file)?;
        let top = Table::named(&root, "")?;
        let allow = read_allow(&top)?;
        let transparent = top.table("transparent")?.map(|table| read_transparent(&table)).transpose()?;
        let forwards = tables(&top, "forward")?;
        let forwards = forwards.iter().map(|table| read_forward(table, &allow)).collect::<Result<Vec<_>, _>>()?;
        let tunnel = top.table("tunnel")?.map(|table| read_tunnel(&table)).transpose()?;
        let legs = read_legs(&top)?;
        let mut rules = Vec::new();
        for table in tables(&top, "rules")? {
            let rule = read_rule(&table, &legs)?;
            if rules.iter().any(|other: &Arc<Rule>| other.name == rule.name) || rule.name == OTHER {
                let message = format!("the name `{}` is taken", rule.name);
                return Err(table.error("name", message, "give each rule a name of its own"));
            }
            if rule.is_tunnelled && !tunnel.as_ref().is_some_and(|tunnel| matches!(tunnel.end, TunnelEnd::Terminal(_)))
            {
                let message = "there is no tunnel to a gateway";
                return Err(table.error("through", message, "add `[tunnel]` with `gateway`"));
            }
            if rule.connects_first && transparent.is_none() {
                let message = "only intercepted clients can wait for their server";
                return Err(table.error("connect_first", message, "add `[transparent]`, or remove `connect_first`"));
            }
            if !rule.interfaces.is_empty() && transparent.as_ref().is_some_and(|one| one.through_forward) {
                let message = "the interface of a client whose first packet was forwarded is not known";
                let fix = "name its networks in `sources` instead, or remove `transparent.through_forward`";
                return Err(table.error("interfaces", message, fix));
            }
            rules.push(Arc::new(rule));
        }
        let leg = || Leg { name: OTHER.to_owned(), outage_grace: Some(LEG_OUTAGE_GRACE), ..Leg::default() };
        rules.push(Arc::new(Rule {
            name: OTHER.to_owned(),
            client: leg(),
            server: leg(),
            connect_timeout: CONNECT_TIMEOUT,
            ..Rule::default()
        }));
        let limits = top.table("limits")?.map_or(Ok(DEFAULT_LIMITS), |table| read_limits(&table))?;
        let config = Self {
            workers: workers.max(1),
            control: None,
            metrics: None,
            drain: Time::from_secs(30),
            splice: true,
            confine: true,
            limits,
            allow,
            transparent,
            forwards,
            tunnel,
            rules,
        };
        let config = match top.table("service")? {
            Some(table) => read_service(&table, config)?,
            None => config,
        };
        top.refuse_unknown()?;
        let is_gateway = config.tunnel.as_ref().is_some_and(|tunnel| tunnel.listens().is_some());
        if config.transparent.is_none() && config.forwards.is_empty() && !is_gateway {
            let message = "neither `[transparent]` nor `[[forward]]` is there, so that nothing is proxied";
            return Err(StrictError::new(top.origin, message, "add one of them"));
        }
        Ok(config)
    }
}

fn read_service(table: &Table<'_>, config: Config) -> Result<Config, StrictError> {
    let read = Config {
        workers: table.get_in("workers", 1..=256u32)?.map_or(config.workers, |workers| workers as usize),
        control: table.get::<String>("control")?.map(Into::into),
        metrics: parsed(table, "metrics", ADDRESS)?,
        drain: table.get_in("drain", Time::ZERO..=DAY)?.unwrap_or(config.drain),
        splice: table.get("splice")?.unwrap_or(config.splice),
        confine: table.get("confine")?.unwrap_or(config.confine),
        ..config
    };
    let remote = read.metrics.is_some_and(|at| !at.ip().is_loopback());
    if remote && !table.get("metrics_remote")?.unwrap_or(false) {
        let message = "`service.metrics` is not a loopback address, so that others can read the metrics";
        return Err(table.error("metrics", message, "use 127.0.0.1, or add `metrics_remote = true`"));
    }
    table.get::<bool>("metrics_remote")?;
    table.refuse_unknown()?;
    Ok(read)
}

fn read_limits(table: &Table<'_>) -> Result<Limits, StrictError> {
    let most = u32::MAX;
    let at_limit = match table.get::<String>("at_limit")?.as_deref() {
        None | Some("wait") => AtLimit::Wait,
        Some("refuse") => AtLimit::Refuse,
        Some("pass") => AtLimit::Pass,
        Some(other) => {
            let fix = suggestion(other, ["wait", "refuse", "pass"].into_iter());
            return Err(table.error("at_limit", format!("`limits.at_limit` = `{other}` is unknown"), fix));
        }
    };
    let connections = table.get_in("connections", 1..=most)?.map_or(DEFAULT_LIMITS.connections, |n| n as usize);
    let read = Limits {
        connections,
        per_client: table.get_in("per_client", 1..=most)?.map_or(connections.div_ceil(2), |n| n as usize),
        held: table.get_in("held", Bytes::new(1 << 20)..=Bytes::new(1 << 40))?.unwrap_or(DEFAULT_LIMITS.held),
        at_limit,
    };
    table.refuse_unknown()?;
    Ok(read)
}

fn read_allow(top: &Table<'_>) -> Result<Allow, StrictError> {
    let Some(table) = top.table("allow")? else {
        let message = "`[allow]` is missing: nobody may use the service";
        return Err(StrictError::new(top.origin, message, "add `[allow]` with `sources` and `destinations`"));
    };
    let read = Allow {
        sources: networks(&table, "sources")?,
        destinations: networks(&table, "destinations")?,
        local: table.get("local")?.unwrap_or(false),
    };
    for (key, networks) in [("sources", &read.sources), ("destinations", &read.destinations)] {
        if networks.is_empty() {
            if table.has(key) {
                return Err(table.error(key, format!("`allow.{key}` is empty"), "name a network"));
            }
            return Err(table.missing(key));
        }
    }
    table.refuse_unknown()?;
    Ok(read)
}

fn read_transparent(table: &Table<'_>) -> Result<Transparent, StrictError> {
    let read = Transparent {
        port: table.get_in("port", 1..=u16::MAX)?.unwrap_or(3129),
        interfaces: interfaces(table)?,
        ports: ports(table)?,
        hide_clients: table.get("hide_clients")?.unwrap_or(false),
        through_forward: table.get("through_forward")?.unwrap_or(false),
        mark: table.get_in("mark", 1..=u32::MAX - 2)?.unwrap_or(0x0070_6570),
        table: table.get_in("table", 1..=u32::MAX - 1)?.unwrap_or(7065),
    };
    if (252..=255).contains(&read.table) {
        let message = format!(
            "`transparent.table` = {}, or the next number, is one of the kernel's own routing tables",
            read.table
        );
        return Err(table.error("table", message, "use another number"));
    }
    table.refuse_unknown()?;
    Ok(read)
}

fn read_forward(table: &Table<'_>, allow: &Allow) -> Result<Forward, StrictError> {
    let address = |key| parsed(table, key, ADDRESS)?.ok_or_else(|| table.missing(key));
    let read: Forward = Forward { listen: address("listen")?, target: address("target")? };
    let target = read.target.ip();
    if let Some(reason) = never(target) {
        return Err(table.error("target", format!("`{}` is an {reason}", read.target), "name one host"));
    }
    if !allow.destinations.iter().any(|network| network.contains(target)) {
        let message = format!("`{}` is not within `allow.destinations`", read.target);
        return Err(table.error("target", message, "allow it there, or use another target"));
    }
    if is_local_form(target) && !allow.local {
        let message = format!("`{}` is a loopback or link-local address", read.target);
        return Err(table.error("target", message, "add `local = true` to `[allow]`, or use another target"));
    }
    table.refuse_unknown()?;
    Ok(read)
}

fn read_tunnel(table: &Table<'_>) -> Result<Tunnel, StrictError> {
    let path = |key| -> Result<PathBuf, StrictError> {
        Ok(table.get::<String>(key)?.ok_or_else(|| table.missing(key))?.into())
    };
    let end = match (parsed(table, "gateway", ADDRESS)?, parsed(table, "listen", ADDRESS)?) {
        (Some(gateway), None) => match never(gateway.ip()) {
            None => TunnelEnd::Terminal(gateway),
            Some(reason) => {
                return Err(table.error("gateway", format!("`{gateway}` is an {reason}"), "name one host"));
            }
        },
        (None, Some(listen)) => TunnelEnd::Gateway(listen),
        (Some(_), Some(_)) => {
            let message = "`tunnel` has both `gateway` and `listen`";
            return Err(table.error(
                "listen",
                message,
                "keep `gateway` where the clients are, `listen` at the gateway",
            ));
        }
        (None, None) => {
            let message = "`[tunnel]` has neither `gateway` nor `listen`";
            let fix = "add `gateway = \"192.0.2.1:4433\"` where the clients are, `listen` at the gateway";
            return Err(StrictError::new(table.origin, message, fix));
        }
    };
    let bandwidth: Option<Rate> = table.get("bandwidth")?;
    let round_trip: Option<Time> = table.get_in("round_trip", Time::from_millis(1)..=Time::from_secs(60))?;
    match (bandwidth, round_trip) {
        (Some(_), None) => return Err(table.missing("round_trip")),
        (None, Some(_)) => return Err(table.missing("bandwidth")),
        _ => {}
    }
    let congestion = match table.get::<String>("congestion")? {
        None => TunnelCongestion::Cubic,
        Some(name) => {
            let named = CONGESTION.iter().find(|(known, _)| *known == name).map(|(_, congestion)| *congestion);
            named.ok_or_else(|| {
                let fix = suggestion(&name, CONGESTION.iter().map(|(known, _)| *known));
                table.error("congestion", format!("`tunnel.congestion` = `{name}` is unknown"), fix)
            })?
        }
    };
    if congestion == TunnelCongestion::Fixed && bandwidth.is_none() {
        let message = "`tunnel.congestion` = `fixed` needs to know the path";
        return Err(table.error("congestion", message, "add `bandwidth` and `round_trip`"));
    }
    let terminals = read_terminals(table, end)?;
    let read = Tunnel {
        end,
        certificate: path("certificate")?,
        key: path("key")?,
        peers: if terminals.is_empty() {
            Some(path("peers")?)
        } else {
            table.get::<String>("peers")?.map(PathBuf::from)
        },
        terminals,
        bandwidth,
        round_trip,
        congestion,
        outage_grace: table.get_in("outage_grace", Time::from_secs(1)..=DAY)?.unwrap_or(OUTAGE_GRACE),
    };
    table.refuse_unknown()?;
    Ok(read)
}

/// `[[tunnel.terminals]]`.
fn read_terminals(table: &Table<'_>, end: TunnelEnd) -> Result<Vec<Terminal>, StrictError> {
    let tables = tables(table, "terminals")?;
    if !tables.is_empty() && matches!(end, TunnelEnd::Terminal(_)) {
        let message = "a terminal has one gateway, and no terminals";
        return Err(table.error("terminals", message, "name the gateway's certificate in `peers`"));
    }
    let read = |table: &Table<'_>| {
        let certificate: String = table.get("certificate")?.ok_or_else(|| table.missing("certificate"))?;
        if !table.has("sources") {
            return Err(table.missing("sources"));
        }
        let sources = networks(table, "sources")?;
        table.refuse_unknown()?;
        Ok(Terminal { certificate: certificate.into(), sources })
    };
    tables.iter().map(read).collect()
}

fn read_legs(top: &Table<'_>) -> Result<BTreeMap<String, Leg>, StrictError> {
    let Some(table) = top.table("legs")? else { return Ok(BTreeMap::new()) };
    let names: Vec<&str> = table.names().collect();
    let mut legs = BTreeMap::new();
    for name in names {
        if let Some(leg) = table.table(name)? {
            legs.insert(name.to_owned(), read_leg(&leg, name)?);
        }
    }
    Ok(legs)
}

fn read_leg(table: &Table<'_>, name: &str) -> Result<Leg, StrictError> {
    let buffers = Bytes::new(4096)..=Bytes::new(1 << 30);
    let bandwidth: Option<Rate> = table.get("bandwidth")?;
    let round_trip: Option<Time> = table.get_in("round_trip", Time::ZERO..=DAY)?;
    let product = match (bandwidth, round_trip) {
        (Some(bandwidth), Some(round_trip)) => {
            // Twice the product: a window in flight, and one that waits for acknowledgements of losses.
            let twice = bandwidth.bytes_in(round_trip).as_u64().saturating_mul(2);
            Some(twice.clamp(LEAST_BUFFER, buffers.end().as_u64()))
        }
        (None, None) => None,
        (Some(_), None) => return Err(table.missing("round_trip")),
        (None, Some(_)) => return Err(table.missing("bandwidth")),
    };
    let buffer = |key| -> Result<Option<u64>, StrictError> {
        Ok(table.get_in(key, buffers.clone())?.map(Bytes::as_u64).or(product))
    };
    let read = Leg {
        name: name.to_owned(),
        bandwidth,
        congestion: congestion(table)?,
        send_buffer: buffer("send_buffer")?,
        receive_buffer: buffer("receive_buffer")?,
        mss: table.get_in("mss", 88..=32767u16)?,
        unsent: table.get_in("unsent", Bytes::new(1)..=Bytes::new(1 << 30))?.map(Bytes::as_u64),
        nagle: table.get("nagle")?.unwrap_or(false),
        outage_grace: table.get_in("outage_grace", Time::from_secs(1)..=DAY)?.or(Some(LEG_OUTAGE_GRACE)),
        keep_alive: table.get_in("keep_alive", Time::from_secs(1)..=Time::from_secs(32767))?,
    };
    table.refuse_unknown()?;
    Ok(read)
}

fn congestion(table: &Table<'_>) -> Result<Vec<String>, StrictError> {
    let names = match table.node("congestion") {
        Some(Node { content: Content::Text(name), .. }) => vec![name.clone()],
        _ => table.get::<Vec<String>>("congestion")?.unwrap_or_default(),
    };
    match names.iter().find(|name| name.is_empty() || name.len() > 15 || name.contains(|c: char| !c.is_ascii_graphic()))
    {
        Some(name) => Err(table.error(
            "congestion",
            format!("`{name}` cannot be the name of a congestion control"),
            "use a name that `perigee cc status` or `sysctl net.ipv4.tcp_available_congestion_control` shows",
        )),
        None => Ok(names),
    }
}

fn read_rule(table: &Table<'_>, legs: &BTreeMap<String, Leg>) -> Result<Rule, StrictError> {
    let leg = |key| -> Result<Leg, StrictError> {
        let name: String = table.get(key)?.ok_or_else(|| table.missing(key))?;
        legs.get(&name).cloned().ok_or_else(|| {
            let fix = if legs.is_empty() {
                format!("add `[legs.{name}]`")
            } else {
                suggestion(&name, legs.keys().map(String::as_str))
            };
            table.error(key, format!("there is no leg `{name}`"), fix)
        })
    };
    let is_tunnelled = match table.get::<String>("through")?.as_deref() {
        None => false,
        Some("tunnel") if table.has("server") => {
            let message = "a connection through the tunnel has no leg to the server here";
            return Err(table.error("server", message, "remove `server`: the gateway's rules choose its settings"));
        }
        Some("tunnel") => true,
        Some(other) => {
            let fix = suggestion(other, ["tunnel"].into_iter());
            return Err(table.error("through", format!("`through` = `{other}` is unknown"), fix));
        }
    };
    let read = Rule {
        name: table.get("name")?.ok_or_else(|| table.missing("name"))?,
        sources: networks(table, "sources")?,
        destinations: networks(table, "destinations")?,
        ports: ports(table)?,
        interfaces: interfaces(table)?,
        dscp: code_points(table)?,
        client: leg("client")?,
        server: if is_tunnelled { Leg { name: "tunnel".to_owned(), ..Leg::default() } } else { leg("server")? },
        is_tunnelled,
        connects_first: table.get("connect_first")?.unwrap_or(false),
        connect_timeout: table
            .get_in("connect_timeout", Time::from_secs(1)..=Time::from_secs(600))?
            .unwrap_or(CONNECT_TIMEOUT),
    };
    if !is_name(&read.name) {
        let message = format!("`{}` is not a name", read.name);
        return Err(table.error("name", message, "use letters, digits, `-` and `_`"));
    }
    if read.connects_first && is_tunnelled {
        let message = "a client of the tunnel does not wait for its server";
        return Err(table.error("connect_first", message, "remove `connect_first` or `through`"));
    }
    if read.connects_first && !read.interfaces.is_empty() {
        let message = "the interface of a client that waits for its server is not known";
        return Err(table.error("connect_first", message, "name its networks in `sources` instead of `interfaces`"));
    }
    table.refuse_unknown()?;
    Ok(read)
}

fn code_points(table: &Table<'_>) -> Result<Vec<u8>, StrictError> {
    let points: Vec<u16> = table.get("dscp")?.unwrap_or_default();
    match points.iter().find(|point| **point > 63) {
        Some(point) => Err(table.error("dscp", format!("{point} is not a code point"), "use numbers from 0 to 63")),
        None => Ok(points.into_iter().map(|point| point as u8).collect()),
    }
}

fn interfaces(table: &Table<'_>) -> Result<Vec<String>, StrictError> {
    let names: Vec<String> = table.get("interfaces")?.unwrap_or_default();
    // They become part of firewall rules.
    let is_wrong = |name: &&String| {
        name.is_empty() || name.len() > 15 || name.contains(|c: char| !c.is_ascii_alphanumeric() && !"-_.@".contains(c))
    };
    match names.iter().find(is_wrong) {
        Some(name) => Err(table.error(
            "interfaces",
            format!("`{name}` cannot be the name of an interface"),
            "use names that `ip link` shows",
        )),
        None => Ok(names),
    }
}

/// Ports and ranges: `[80, 443, "8000-8100"]`.
fn ports(table: &Table<'_>) -> Result<Vec<Ports>, StrictError> {
    let Some(node) = table.node("ports") else { return Ok(Vec::new()) };
    let wrong = |node: &Node| {
        StrictError::new(&node.origin, "`ports` has what is not a port", "write `ports = [80, 443, \"8000-8100\"]`")
    };
    let Content::Array(nodes) = &node.content else { return Err(wrong(node)) };
    let port = |node: &Node| match &node.content {
        Content::Integer(port) => u16::try_from(*port).ok().filter(|port| *port > 0).map(|port| Ports(port, port)),
        Content::Text(range) => {
            let (first, last) = range.split_once('-')?;
            let ends: (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (ends.0 > 0 && ends.0 <= ends.1).then_some(Ports(ends.0, ends.1))
        }
        _ => None,
    };
    nodes.iter().map(|node| port(node).ok_or_else(|| wrong(node))).collect()
}

fn networks(table: &Table<'_>, key: &str) -> Result<Vec<Network>, StrictError> {
    let Some(node) = table.node(key) else { return Ok(Vec::new()) };
    let texts: Vec<String> = Vec::read(node, &table.dotted(key))?;
    let network = |text: &String| {
        text.parse()
            .map_err(|message: String| table.error(key, message, "write `[\"192.0.2.0/24\", \"2001:db8::/32\"]`"))
    };
    texts.iter().map(network).collect()
}

fn parsed(table: &Table<'_>, key: &str, example: &str) -> Result<Option<SocketAddr>, StrictError> {
    let Some(text) = table.get::<String>(key)? else { return Ok(None) };
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() > 0 => Ok(Some(address)),
        _ => Err(table.error(key, format!("`{text}` is not an address with a port"), format!("write `\"{example}\"`"))),
    }
}

/// The tables of `[[key]]`.
fn tables<'t>(top: &Table<'t>, key: &str) -> Result<Vec<Table<'t>>, StrictError> {
    let Some(node) = top.node(key) else { return Ok(Vec::new()) };
    match &node.content {
        Content::Array(nodes) => nodes.iter().map(|node| Table::named(node, key)).collect(),
        _ => Err(top.error(key, format!("`{key}` is {}", node.kind()), format!("write `[[{key}]]`"))),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// The rule, and its legs, of connections that no other rule matches.
const OTHER: &str = "other";
const ADDRESS: &str = "192.0.2.1:8080";
const DAY: Time = Time::from_secs(86_400);
/// As long as most clients would wait themselves.
const CONNECT_TIMEOUT: Time = Time::from_secs(30);
/// A buffer below this stalls even a path without delay, bytes.
const LEAST_BUFFER: u64 = 64 << 10;
const DEFAULT_LIMITS: Limits =
    Limits { connections: 10_000, per_client: 5_000, held: Bytes::new(256 << 20), at_limit: AtLimit::Wait };
const CONGESTION: [(&str, TunnelCongestion); 4] = [
    ("fixed", TunnelCongestion::Fixed),
    ("cubic", TunnelCongestion::Cubic),
    ("newreno", TunnelCongestion::NewReno),
    ("bbr", TunnelCongestion::Bbr),
];
/// Longer than pauses of a reader, and longer than the quarter of an hour for which the kernel itself sends again.
const LEG_OUTAGE_GRACE: Time = Time::from_secs(3600);
/// Longer than most showers take the link away.
const OUTAGE_GRACE: Time = Time::from_secs(60);
