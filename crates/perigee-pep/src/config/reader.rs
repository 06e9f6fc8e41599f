//! Reads the configuration as its keys declare it, and checks what several keys mean together.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use perigee_text::{entries_of, parse, Node, Read, Reader, StrictError, Table};
use perigee_units::{suggestion, Bytes, Rate, Time};

use super::keys::{CONFIGURATION, LARGEST_BUFFER, LEG};
use super::kinds::{one_or_several, Address};
use super::link::SatelliteLink;
use super::link_reader::read_link;
use super::network::{is_local_form, never};
use super::{
    Accounting, Allow, AtLimit, Config, Forward, Leg, Limits, Rule, Terminal, Transparent, Tunnel, TunnelControl,
    TunnelEnd,
};

impl Config {
    /// Reads a configuration; `file` names it in errors, and `workers` is the default number of threads.
    ///
    /// # Errors
    /// With the line and the fix, if it is not TOML, has an unknown key or a quantity without unit, or proxies nothing.
    pub fn parse(text: &str, file: &str, workers: usize) -> Result<Self, StrictError> {
        let root = parse(text, file)?;
        let top = Reader::open(&root, "", &CONFIGURATION, &[])?;
        let allow = read_allow(&top)?;
        let transparent = top.inner("transparent")?.map(|table| read_transparent(&table)).transpose()?;
        let forwards = top.each("forward")?.map(|table| read_forward(&table?, &allow)).collect::<Result<_, _>>()?;
        let tunnel = top.inner("tunnel")?.map(|table| read_tunnel(&table)).transpose()?;
        let mut rules = read_rules(&top, transparent.as_ref(), tunnel.as_ref(), &[OTHER])?;
        let other = parse(OTHER_RULE, OTHER)?;
        rules.extend(read_rules(&Reader::open(&other, "", &CONFIGURATION, &[])?, None, None, &[])?);
        let link = top.inner("link")?.map(|table| read_crossed(&table, &allow, &rules)).transpose()?;
        let limits = read_limits(&top.inner_or_defaults("limits")?)?;
        let service = top.inner_or_defaults("service")?;
        let config = Self {
            workers: service.table.get::<u32>("workers")?.map_or(workers.max(1), |workers| workers as usize),
            control: service.table.get::<String>("control")?.map(Into::into),
            metrics: read_metrics(&service)?,
            drain: service.get("drain")?,
            upgrade_drain: service.get("upgrade_drain")?,
            splice: service.get("splice")?,
            confine: service.get("confine")?,
            limits,
            allow,
            transparent,
            forwards,
            tunnel,
            link,
            accounting: top.inner("accounting")?.map(|table| read_accounting(&table)).transpose()?,
            metrics_subscribers: service.get::<u32>("metrics_subscribers")? as usize,
            rules,
        };
        let is_gateway = config.tunnel.as_ref().is_some_and(|tunnel| tunnel.listens().is_some());
        if config.transparent.is_none() && config.forwards.is_empty() && !is_gateway {
            let message = "`[transparent]` and `[[forward]]` are both missing, so that nothing is proxied";
            return Err(StrictError::new(&root.origin, message, "add one of them"));
        }
        Ok(config)
    }
}

/// `[link]`, which a leg of some rule crosses, and no rule twice.
fn read_crossed(table: &Reader<'_>, allow: &Allow, rules: &[Arc<Rule>]) -> Result<Arc<SatelliteLink>, StrictError> {
    let link = read_link(table, allow)?;
    let legs = |rule: &Rule| [rule.client.name == link.leg, rule.server.name == link.leg];
    if let Some(rule) = rules.iter().find(|rule| legs(rule) == [true; 2]) {
        let message = format!("both legs of rule `{}` are `{}`", rule.name, link.leg);
        return Err(table.error("leg", message, "give the leg that crosses the link a name of its own"));
    }
    if !rules.iter().any(|rule| legs(rule).contains(&true)) {
        let message = format!("no rule has the leg `{}`", link.leg);
        return Err(table.error("leg", message, "use it in `[[rules]]`, as `client` or `server`"));
    }
    Ok(Arc::new(link))
}

fn read_accounting(table: &Reader<'_>) -> Result<Accounting, StrictError> {
    let file = table.table.get::<String>("file")?.map(Into::into);
    let file_at = table.table.node("file").map_or(table.table.origin, |node| &node.origin).clone();
    Ok(Accounting { file, file_at, every: table.get("every")?, connections: table.get("connections")? })
}

fn read_metrics(table: &Reader<'_>) -> Result<Option<SocketAddr>, StrictError> {
    let metrics = address(table, "metrics")?;
    if metrics.is_some_and(|at| !at.ip().is_loopback()) && !table.get("metrics_remote")? {
        let message = "`service.metrics` is not a loopback address, so that others can read the metrics";
        return Err(table.error("metrics", message, "use 127.0.0.1, or add `metrics_remote = true`"));
    }
    Ok(metrics)
}

fn read_limits(table: &Reader<'_>) -> Result<Limits, StrictError> {
    let connections = table.get::<u32>("connections")? as usize;
    Ok(Limits {
        connections,
        per_client: table.table.get::<u32>("per_client")?.map_or(connections.div_ceil(2), |n| n as usize),
        held: table.get("held")?,
        at_limit: match table.get::<String>("at_limit")?.as_str() {
            "refuse" => AtLimit::Refuse,
            "pass" => AtLimit::Pass,
            _ => AtLimit::Wait,
        },
    })
}

fn read_allow(top: &Reader<'_>) -> Result<Allow, StrictError> {
    let Some(table) = top.inner("allow")? else {
        let message = "`[allow]` is missing: nobody may use the service";
        return Err(StrictError::new(top.table.origin, message, "add `[allow]` with `sources` and `destinations`"));
    };
    Ok(Allow { sources: table.get("sources")?, destinations: table.get("destinations")?, local: table.get("local")? })
}

fn read_transparent(table: &Reader<'_>) -> Result<Transparent, StrictError> {
    let read = Transparent {
        port: table.get("port")?,
        interfaces: list(table, "interfaces")?,
        ports: list(table, "ports")?,
        hide_clients: table.get("hide_clients")?,
        through_forward: table.get("through_forward")?,
        mark: table.get("mark")?,
        table: table.get("table")?,
    };
    if (252..=255).contains(&read.table) {
        let message = format!(
            "`transparent.table` = {}, or the next number, is one of the kernel's own routing tables",
            read.table
        );
        return Err(table.error("table", message, "use another number"));
    }
    Ok(read)
}

fn read_forward(table: &Reader<'_>, allow: &Allow) -> Result<Forward, StrictError> {
    let address = |key| table.get(key).map(|Address(address)| address);
    let read = Forward { listen: address("listen")?, target: address("target")? };
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
    Ok(read)
}

fn read_tunnel(table: &Reader<'_>) -> Result<Tunnel, StrictError> {
    let end = read_end(table)?;
    let path = bandwidth_and_round_trip(table)?;
    let control = table.get("cc")?;
    if control == TunnelControl::Fixed && path.is_none() {
        let message = "`tunnel.cc` = `fixed` needs to know the path";
        return Err(table.error("cc", message, "add `bandwidth` and `round_trip`"));
    }
    let terminals = read_terminals(table, end)?;
    let peers: Option<String> = table.table.get("peers")?;
    if peers.is_none() && terminals.is_empty() {
        return Err(table.table.missing("peers"));
    }
    Ok(Tunnel {
        end,
        certificate: table.get::<String>("certificate")?.into(),
        key: table.get::<String>("key")?.into(),
        peers: peers.map(Into::into),
        terminals,
        bandwidth: path.map(|(bandwidth, _)| bandwidth),
        round_trip: path.map(|(_, round_trip)| round_trip),
        control,
        outage_grace: table.get("outage_grace")?,
    })
}

/// Which end of the tunnel this box is.
fn read_end(table: &Reader<'_>) -> Result<TunnelEnd, StrictError> {
    match (address(table, "gateway")?, address(table, "listen")?) {
        (Some(gateway), None) => match never(gateway.ip()) {
            None => Ok(TunnelEnd::Terminal(gateway)),
            Some(reason) => Err(table.error("gateway", format!("`{gateway}` is an {reason}"), "name one host")),
        },
        (None, Some(listen)) => Ok(TunnelEnd::Gateway(listen)),
        (Some(_), Some(_)) => {
            let message = "`tunnel` has both `gateway` and `listen`";
            Err(table.error("listen", message, "keep `gateway` where the clients are, `listen` at the gateway"))
        }
        (None, None) => {
            let message = "`[tunnel]` has neither `gateway` nor `listen`";
            let fix = "add `gateway = \"192.0.2.1:4433\"` where the clients are, `listen` at the gateway";
            Err(StrictError::new(table.table.origin, message, fix))
        }
    }
}

/// `[[tunnel.terminals]]`.
fn read_terminals(table: &Reader<'_>, end: TunnelEnd) -> Result<Vec<Terminal>, StrictError> {
    let read = |terminal: Result<Reader<'_>, StrictError>| {
        let terminal = terminal?;
        Ok(Terminal { certificate: terminal.get::<String>("certificate")?.into(), sources: terminal.get("sources")? })
    };
    let terminals: Vec<Terminal> = table.each("terminals")?.map(read).collect::<Result<_, _>>()?;
    if !terminals.is_empty() && matches!(end, TunnelEnd::Terminal(_)) {
        let message = "a terminal has one gateway, and no terminals";
        return Err(table.error("terminals", message, "name the gateway's certificate in `peers`"));
    }
    Ok(terminals)
}

/// The rules of a configuration; none may have a name of `taken`.
fn read_rules(
    top: &Reader<'_>,
    transparent: Option<&Transparent>,
    tunnel: Option<&Tunnel>,
    taken: &[&str],
) -> Result<Vec<Arc<Rule>>, StrictError> {
    let legs = read_legs(top)?;
    let mut rules: Vec<Arc<Rule>> = Vec::new();
    for table in top.each("rules")? {
        let table = table?;
        let rule = read_rule(&table, &legs)?;
        if taken.contains(&&*rule.name) || rules.iter().any(|other| other.name == rule.name) {
            let message = format!("the name `{}` is taken", rule.name);
            return Err(table.error("name", message, "give each rule a name of its own"));
        }
        if rule.is_tunnelled && !tunnel.is_some_and(|tunnel| matches!(tunnel.end, TunnelEnd::Terminal(_))) {
            let message = "there is no tunnel to a gateway";
            return Err(table.error("through", message, "add `[tunnel]` with `gateway`"));
        }
        if rule.connects_first && transparent.is_none() {
            let message = "only intercepted clients can wait for their server";
            return Err(table.error("connect_first", message, "add `[transparent]`, or remove `connect_first`"));
        }
        if !rule.interfaces.is_empty() && transparent.is_some_and(|one| one.through_forward) {
            let message = "the interface of a client whose first packet was forwarded is not known";
            let fix = "name its networks in `sources` instead, or remove `transparent.through_forward`";
            return Err(table.error("interfaces", message, fix));
        }
        rules.push(Arc::new(rule));
    }
    Ok(rules)
}

fn read_legs(top: &Reader<'_>) -> Result<BTreeMap<String, Leg>, StrictError> {
    let Some(node) = top.table.node("legs") else { return Ok(BTreeMap::new()) };
    Table::named(node, "legs")?;
    let leg = |(name, node): &(String, Node)| {
        let table = Reader::open(node, &format!("legs.{name}"), &LEG, &[])?;
        Ok((name.clone(), read_leg(&table, name)?))
    };
    entries_of(node).iter().map(leg).collect()
}

fn read_leg(table: &Reader<'_>, name: &str) -> Result<Leg, StrictError> {
    let path = bandwidth_and_round_trip(table)?;
    let product = path.map(|(bandwidth, round_trip)| {
        // Twice the product: a window in flight, and one that waits for acknowledgements of losses.
        let twice = bandwidth.bytes_in(round_trip).as_u64().saturating_mul(2);
        twice.clamp(LEAST_BUFFER, LARGEST_BUFFER.as_u64())
    });
    let bytes = |key| -> Result<Option<u64>, StrictError> { Ok(table.table.get(key)?.map(Bytes::as_u64)) };
    let congestion = table.table.node("congestion").map(|node| one_or_several(node, &table.dotted("congestion")));
    Ok(Leg {
        name: name.to_owned(),
        bandwidth: path.map(|(bandwidth, _)| bandwidth),
        congestion: congestion.transpose()?.unwrap_or_default(),
        send_buffer: bytes("send_buffer")?.or(product),
        receive_buffer: bytes("receive_buffer")?.or(product),
        mss: table.table.get("mss")?,
        unsent: bytes("unsent")?,
        nagle: table.get("nagle")?,
        outage_grace: table.get("outage_grace").map(Some)?,
        keep_alive: table.table.get("keep_alive")?,
    })
}

fn read_rule(table: &Reader<'_>, legs: &BTreeMap<String, Leg>) -> Result<Rule, StrictError> {
    let leg = |key| -> Result<Leg, StrictError> {
        let name: String = table.get(key)?;
        legs.get(&name).cloned().ok_or_else(|| {
            let fix = if legs.is_empty() {
                format!("add `[legs.{name}]`")
            } else {
                suggestion(&name, legs.keys().map(String::as_str))
            };
            table.error(key, format!("there is no leg `{name}`"), fix)
        })
    };
    let is_tunnelled = table.table.has("through");
    if is_tunnelled && table.table.has("server") {
        let message = "a connection through the tunnel has no leg to the server here";
        return Err(table.error("server", message, "remove `server`: the gateway's rules choose its settings"));
    }
    let dscp: Vec<u16> = list(table, "dscp")?;
    let read = Rule {
        name: table.get("name")?,
        sources: list(table, "sources")?,
        destinations: list(table, "destinations")?,
        ports: list(table, "ports")?,
        interfaces: list(table, "interfaces")?,
        dscp: dscp.into_iter().map(|point| point as u8).collect(),
        client: leg("client")?,
        server: if is_tunnelled { Leg { name: "tunnel".to_owned(), ..Leg::default() } } else { leg("server")? },
        is_tunnelled,
        connects_first: table.get("connect_first")?,
        connect_timeout: table.get("connect_timeout")?,
    };
    if read.connects_first && is_tunnelled {
        let message = "a client of the tunnel does not wait for its server";
        return Err(table.error("connect_first", message, "remove `connect_first` or `through`"));
    }
    if read.connects_first && !read.interfaces.is_empty() {
        let message = "the interface of a client that waits for its server is not known";
        return Err(table.error("connect_first", message, "name its networks in `sources` instead of `interfaces`"));
    }
    Ok(read)
}

/// `bandwidth` and `round_trip`, which go together.
fn bandwidth_and_round_trip(table: &Reader<'_>) -> Result<Option<(Rate, Time)>, StrictError> {
    match (table.table.get("bandwidth")?, table.table.get("round_trip")?) {
        (Some(bandwidth), Some(round_trip)) => Ok(Some((bandwidth, round_trip))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(table.table.missing("round_trip")),
        (None, Some(_)) => Err(table.table.missing("bandwidth")),
    }
}

/// The address under `key`, where there is one.
fn address(table: &Reader<'_>, key: &str) -> Result<Option<SocketAddr>, StrictError> {
    Ok(table.table.get(key)?.map(|Address(address)| address))
}

/// The list under `key`, empty where it is not given.
fn list<T: Read>(table: &Reader<'_>, key: &str) -> Result<Vec<T>, StrictError> {
    table.table.get(key).map(Option::unwrap_or_default)
}

/// The name of the rule, and of its legs, of connections that no other rule matches.
const OTHER: &str = "other";
/// That rule: everything is at its default.
const OTHER_RULE: &str = "legs.other = {}\nrules = [{ name = \"other\", client = \"other\", server = \"other\" }]";
/// A buffer below this stalls even a path without delay, bytes.
const LEAST_BUFFER: u64 = 64 << 10;
