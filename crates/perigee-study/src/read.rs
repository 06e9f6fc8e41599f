//! From a document to a scenario: everything but the links' processes, which need files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::strict::{Content, Node, StrictError};
use perigee_cc::{Algorithm, CcError, Selected};
use perigee_results::{Measure, Name, Startup};
use perigee_tcp::{Config, Domain, Setting, Value, SETTINGS};
use perigee_units::{encode_struct, suggestion, Bytes, Encode, Time};
use perigee_wire::IpVersion;

use crate::document::items_of;
use crate::flows::{workload, Packets, Workload, FLOW, MAX_FLOWS};
use crate::hosts::TCP;
use crate::keys::{LINK, MEASURE, MILESTONES, REDUCED, ROUTE, STUDY};
use crate::outside::{is_path, Outside, Place};
use crate::reader::{clip, entries_of, text_of, Reader};
use crate::run::{FlowSpec, Opener, Tcp, Traffic};
use crate::topology::{self, Edge, NoPath};

/// A scenario whose links are still tables.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) head: Head,
    pub(crate) nodes: Vec<Name>,
    pub(crate) links: Vec<LinkDraft>,
    pub(crate) flows: Vec<FlowSpec>,
    pub(crate) measure: Measure,
    pub(crate) next_hop: Vec<Option<u32>>,
}

/// The keys at the head of a study.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) name: Name,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
    pub(crate) time_limit: Time,
}

/// A link: its name, its ends, and its table, whose processes are read when files can be.
#[derive(Debug)]
pub(crate) struct LinkDraft {
    pub(crate) name: String,
    pub(crate) ends: (u32, u32),
    pub(crate) mtu: Option<u16>,
    pub(crate) table: Node,
}

encode_struct!(Draft { head, nodes, links, flows, measure, next_hop });
encode_struct!(Head { name, title, about, seed, rounds, time_limit });

/// Its processes have a fingerprint of their own, with the recordings in them.
impl Encode for LinkDraft {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { name, ends, mtu, table: _ } = self;
        ((name, ends), mtu).encode(out)
    }
}

/// Reads a document; authors' algorithms are left for later where there is no outside.
pub(crate) fn draft(root: &Node, outside: Option<&mut dyn Outside>) -> Result<Draft, StrictError> {
    let study = Reader::open(root, "", &STUDY, &[])?;
    let head = head(&study)?;
    let nodes = Nodes::read(&study)?;
    inputs(&study)?;
    if let Some(reduced) = study.table.node("reduced") {
        Reader::open(reduced, "reduced", &REDUCED, &[])?;
    }
    let links = links(&study, &nodes)?;
    let edges: Vec<Edge> = links.iter().flat_map(|link| [link.ends, (link.ends.1, link.ends.0)]).collect();
    let next_hop = routes(&study, &nodes, &links, &edges)?;
    let hosts = hosts(&study, &nodes)?;
    let mtus: Vec<_> = links.iter().flat_map(|link| [link.mtu; 2]).collect();
    let network = Network { nodes: &nodes, hosts: &hosts, edges: &edges, mtus: &mtus, next_hop: &next_hop };
    let flows = flows(&study, &network, outside)?;
    let measure = measure(&study, &nodes)?;
    limit_rows(&study, &head, &measure, flows.len() + edges.len())?;
    Ok(Draft { head, nodes: nodes.names, links, flows, measure, next_hop })
}

fn head(study: &Reader<'_>) -> Result<Head, StrictError> {
    Ok(Head {
        name: study.get::<String>("name")?.into(),
        title: study.get("title")?,
        about: study.get("about")?,
        seed: study.get("seed")?,
        rounds: study.get("rounds")?,
        time_limit: study.get("time_limit")?,
    })
}

/// The nodes and their numbers.
struct Nodes {
    names: Vec<Name>,
    numbers: BTreeMap<Name, u32>,
}

impl Nodes {
    fn read(study: &Reader<'_>) -> Result<Self, StrictError> {
        let names: Vec<Name> = study.get::<Vec<String>>("nodes")?.into_iter().map(Name::from).collect();
        if names.len() < 2 {
            return Err(study.error("nodes", "a study needs two nodes", "write nodes = [\"server\", \"client\"]"));
        }
        if names.len() > MAX_NODES {
            let message = format!("{} nodes are too many", names.len());
            return Err(study.error("nodes", message, format!("use up to {MAX_NODES}")));
        }
        if let Some(name) = names.iter().find(|name| TCP.find(name).is_some()) {
            let message =
                format!("the node `{name}` has the name of a TCP setting, so `[hosts]` could not tell them apart");
            return Err(study.error("nodes", message, "rename it"));
        }
        let numbers = names.iter().cloned().zip(0..).collect();
        Ok(Self { names, numbers })
    }

    fn number(&self, node: &Node, what: &str) -> Result<u32, StrictError> {
        let name = text_of(node).unwrap_or_default();
        self.numbers.get(name).copied().ok_or_else(|| {
            let message = format!("`{what}`: there is no node `{}`", clip(name));
            StrictError::new(&node.origin, message, suggestion(name, self.names.iter().map(|n| &**n)))
        })
    }

    /// The node that the `key` of a table names.
    fn named(&self, table: &Reader<'_>, key: &str) -> Result<u32, StrictError> {
        match table.table.node(key) {
            Some(node) => self.number(node, &table.dotted(key)),
            None => Err(table.table.missing(key)),
        }
    }
}

fn inputs(study: &Reader<'_>) -> Result<(), StrictError> {
    let Some(table) = study.table.table("inputs")? else { return Ok(()) };
    for name in table.names() {
        table.get::<String>(name)?;
    }
    Ok(())
}

fn links(study: &Reader<'_>, nodes: &Nodes) -> Result<Vec<LinkDraft>, StrictError> {
    let (mut links, mut names) = (Vec::new(), BTreeSet::new());
    for node in tables(study, "links", "[[links]]")? {
        let link = Reader::open(node, "links", &LINK, &[])?;
        let name = unique(&link, &mut names)?;
        let between = link.table.node("between").map_or(&[][..], items_of);
        let [first, second] = between else {
            let message = format!("`links.between` of `{name}` has {} nodes", between.len());
            return Err(link.error("between", message, "write the two nodes: between = [\"a\", \"b\"]"));
        };
        let what = link.dotted("between");
        let ends = (nodes.number(first, &what)?, nodes.number(second, &what)?);
        let mtu = link.table.get::<Bytes>("mtu")?.map(|mtu| mtu.as_u64() as u16);
        links.push(LinkDraft { name, ends, mtu, table: node.clone() });
    }
    if links.is_empty() {
        return Err(study.error("links", "a study needs a link", "add a [[links]] table"));
    }
    Ok(links)
}

fn routes(
    study: &Reader<'_>,
    nodes: &Nodes,
    links: &[LinkDraft],
    edges: &[Edge],
) -> Result<Vec<Option<u32>>, StrictError> {
    let count = nodes.names.len();
    let mut next_hop = topology::shortest_paths(count, edges);
    let mut seen = BTreeSet::new();
    for node in tables(study, "routes", "[[routes]]")? {
        let route = Reader::open(node, "routes", &ROUTE, &[])?;
        let (at, to) = (nodes.named(&route, "node")?, nodes.named(&route, "to")?);
        let via: String = route.get("via")?;
        let Some(link) = links.iter().position(|link| link.name == via) else {
            let known = links.iter().map(|link| link.name.as_str());
            let message = format!("`routes.via`: there is no link `{via}`");
            return Err(route.error("via", message, suggestion(&via, known)));
        };
        let Some(edge) = [2 * link, 2 * link + 1].into_iter().find(|edge| edges[*edge].0 == at) else {
            let message = format!("`routes.via`: link `{via}` does not touch `{}`", nodes.names[at as usize]);
            return Err(route.error("via", message, "name a link of that node"));
        };
        if at == to || !seen.insert((at, to)) {
            let message = format!("a route from `{}` to `{}` ", nodes.names[at as usize], nodes.names[to as usize]);
            let why = if at == to { "leads nowhere" } else { "is there twice" };
            return Err(route.error("to", message + why, "remove it"));
        }
        next_hop[at as usize * count + to as usize] = Some(edge as u32);
    }
    Ok(next_hop)
}

/// The TCP settings of each node.
fn hosts(study: &Reader<'_>, nodes: &Nodes) -> Result<Vec<Config>, StrictError> {
    let mut hosts = vec![Config::default(); nodes.names.len()];
    let Some(node) = study.table.node("hosts") else { return Ok(hosts) };
    let names: Vec<String> = nodes.names.iter().map(|name| (**name).to_owned()).collect();
    let table = Reader::open(node, "hosts", &TCP, &names)?;
    for (name, host) in names.iter().zip(&mut hosts) {
        apply_tcp(&table, host)?;
        if let Some(node) = table.table.node(name) {
            apply_tcp(&Reader::open(node, &format!("hosts.{name}"), &TCP, &[])?, host)?;
        }
    }
    Ok(hosts)
}

/// Lays the settings that a table has over `config`.
fn apply_tcp(table: &Reader<'_>, config: &mut Config) -> Result<(), StrictError> {
    for setting in SETTINGS {
        if let Some(value) = tcp_value(table, setting)? {
            setting.set(config, value);
        }
    }
    if config.rto_min > config.rto_max {
        let message =
            format!("`{}` = {} is above rto_max = {}", table.dotted("rto_min"), config.rto_min, config.rto_max);
        return Err(table.error("rto_min", message, "lower it, or raise rto_max"));
    }
    Ok(())
}

/// The value that a table has for a setting.
fn tcp_value(table: &Reader<'_>, setting: &Setting) -> Result<Option<Value>, StrictError> {
    let (table, key) = (&table.table, setting.name);
    Ok(match setting.domain {
        Domain::Switch => table.get(key)?.map(Value::Switch),
        Domain::Count { .. } => table.get(key)?.map(Value::Count),
        Domain::Duration { .. } => table.get(key)?.map(Value::Duration),
        Domain::Size { .. } => table.get(key)?.map(Value::Size),
        Domain::Sizes => table.get::<Vec<Bytes>>(key)?.and_then(|sizes| sizes.try_into().ok()).map(Value::Sizes),
        Domain::Choice(words) => {
            let word = table.get::<String>(key)?;
            words.iter().find(|known| Some(**known) == word.as_deref()).copied().map(Value::Choice)
        }
    })
}

/// What flows need to know of the network.
struct Network<'a> {
    nodes: &'a Nodes,
    hosts: &'a [Config],
    edges: &'a [Edge],
    /// Largest packet of each of them.
    mtus: &'a [Option<u16>],
    next_hop: &'a [Option<u32>],
}

fn flows(
    study: &Reader<'_>,
    network: &Network<'_>,
    mut outside: Option<&mut dyn Outside>,
) -> Result<Vec<FlowSpec>, StrictError> {
    let (mut flows, mut names) = (Vec::new(), BTreeSet::new());
    for node in tables(study, "flows", "[[flows]]")? {
        let table = Reader::open(node, "flows", &FLOW, &[])?;
        let name = unique(&table, &mut names)?;
        let count: usize = table.get::<u32>("count")? as usize;
        let flow = flow(&table, &name, network, &mut outside)?;
        if flows.len() + count > MAX_FLOWS {
            let message = format!("{} flows are too many", flows.len() + count);
            return Err(table.error("count", message, format!("use up to {MAX_FLOWS}")));
        }
        match count {
            1 => flows.push(flow),
            _ => flows.extend((1..=count).map(|n| FlowSpec { name: format!("{name}.{n}").into(), ..flow.clone() })),
        }
    }
    if flows.is_empty() {
        return Err(study.error("flows", "there is no flow", "add a [[flows]] table, with a `count` above 0"));
    }
    Ok(flows)
}

fn flow(
    table: &Reader<'_>,
    name: &str,
    network: &Network<'_>,
    outside: &mut Option<&mut dyn Outside>,
) -> Result<FlowSpec, StrictError> {
    let nodes = network.nodes;
    let hosts = |(from, to): (u32, u32)| (&network.hosts[from as usize], &network.hosts[to as usize]);
    let (from, to) = (nodes.named(table, "from")?, nodes.named(table, "to")?);
    if from == to {
        let message = format!("flow `{name}` leads from `{0}` to `{0}`", nodes.names[to as usize]);
        return Err(table.error("to", message, "name another node"));
    }
    let way = |ends: (u32, u32)| {
        topology::path(nodes.names.len(), network.edges, network.next_hop, ends).map_err(|why| {
            let name_of = |node: u32| &nodes.names[node as usize];
            let (message, fix) = match why {
                NoPath::Unreachable(at) => ("has no link onward from", format!("link `{}` to the others", name_of(at))),
                NoPath::Loop(at) => ("goes in circles through", format!("correct the [[routes]] of `{}`", name_of(at))),
            };
            let (NoPath::Unreachable(at) | NoPath::Loop(at)) = why;
            let (from, to) = (name_of(ends.0), name_of(ends.1));
            let message = format!("flow `{name}`: the way from `{from}` to `{to}` {message} `{}`", name_of(at));
            table.error("to", message, fix)
        })
    };
    let ip = match table.get::<String>("ip")?.as_str() {
        "v6" => IpVersion::V6,
        _ => IpVersion::V4,
    };
    let (forward, back) = (way((from, to))?, way((to, from))?);
    let path_mtu = forward.iter().chain(&back).filter_map(|edge| network.mtus[*edge as usize]).min();
    let least = ip.least_mtu();
    if let Some(mtu) = path_mtu.filter(|mtu| *mtu < least) {
        let message = format!("flow `{name}`: a link on its way has an mtu of {mtu} B, which `v6` does not know");
        return Err(table.error("ip", message, format!("raise it to {least} B, or use ip = \"v4\"")));
    }
    Ok(FlowSpec {
        name: name.into(),
        ip,
        path_mtu,
        from,
        to,
        forward,
        back,
        start: table.get("start")?,
        start_jitter: table.get("start_jitter")?,
        traffic: traffic(table, Packets { flow: name, ip, path_mtu }, hosts((from, to)), outside)?,
    })
}

fn traffic(
    table: &Reader<'_>,
    packets: Packets<'_>,
    hosts: (&Config, &Config),
    outside: &mut Option<&mut dyn Outside>,
) -> Result<Traffic, StrictError> {
    let app = match workload(table, packets)? {
        Workload::App(app) => app,
        Workload::Datagrams(datagrams) => return Ok(Traffic::Datagrams(datagrams)),
    };
    let (mut from, mut to) = (hosts.0.clone(), hosts.1.clone());
    if let Some(node) = table.table.node("tcp") {
        let settings = Reader::open(node, &table.dotted("tcp"), &TCP, &[])?;
        apply_tcp(&settings, &mut from)?;
        apply_tcp(&settings, &mut to)?;
    }
    let (cc, cc_params) = congestion_control(table, outside)?;
    let opened_by = match table.get::<String>("opened_by")?.as_str() {
        "sender" => Opener::Sender,
        _ => Opener::Receiver,
    };
    Ok(Traffic::Tcp { tcp: Box::new(Tcp { cc, cc_params, from, to, opened_by }), app })
}

/// The congestion control of a flow, and the parameters that the study set, as a JSON object.
fn congestion_control(
    table: &Reader<'_>,
    outside: &mut Option<&mut dyn Outside>,
) -> Result<(Selected, Name), StrictError> {
    let default = || {
        let error = |error: CcError| table.error("cc", error.to_string(), "name another in `cc`");
        let name = FLOW.find("cc").map_or("", |key| key.default);
        Selected::parse(name, &[]).map(|cc| (cc, "{}".into())).map_err(error)
    };
    let Some(node) = table.table.node("cc") else { return default() };
    let (name_node, params): (_, Vec<_>) = match &node.content {
        Content::Text(_) => (Some(node), Vec::new()),
        Content::Table(entries) => (node.get("name"), entries.iter().filter(|(key, _)| key != "name").collect()),
        _ => (None, Vec::new()),
    };
    let what = table.dotted("cc");
    let Some((name_node, name)) = name_node.and_then(|node| Some((node, text_of(node)?))) else {
        let message = format!("`{what}` names no congestion control");
        return Err(StrictError::new(&node.origin, message, "write \"cubic\" or { name = \"cubic\" }"));
    };
    let algorithm = match (is_path(name), outside) {
        (false, _) => built_in(name, name_node, &what)?,
        (true, Some(outside)) => authored(name, name_node, &what, &mut **outside)?,
        // What it is called and can be set is not known yet.
        (true, None) => return default(),
    };
    let (mut settings, mut json) = (Vec::new(), serde_json::Map::new());
    for (key, node) in params {
        if !algorithm.params().iter().any(|param| param.name == key) {
            let message = format!("`{what}`: `{}` has no parameter `{}`", algorithm.name(), clip(key));
            let known = algorithm.params().iter().map(|param| param.name);
            return Err(StrictError::new(&node.origin, message, suggestion(key, known)));
        }
        let text = match &node.content {
            Content::Text(text) => text.clone(),
            Content::Integer(n) => n.to_string(),
            Content::Float(x) => x.to_string(),
            Content::Boolean(b) => b.to_string(),
            Content::Array(_) | Content::Table(_) => {
                let message = format!("`{what}.{key}` is {}", node.kind());
                return Err(StrictError::new(&node.origin, message, "write one value"));
            }
        };
        // One at a time, so that an error stands at its own line.
        Selected::of(algorithm, &[(key, &text)]).map_err(|error| cc_error(&what, &error, node))?;
        json.insert(key.clone(), json_of(node));
        settings.push((key.as_str(), text));
    }
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, text)| (*key, text.as_str())).collect();
    let selected = Selected::of(algorithm, &settings).map_err(|error| cc_error(&what, &error, node))?;
    Ok((selected, serde_json::Value::Object(json).to_string().into()))
}

fn built_in(name: &str, node: &Node, what: &str) -> Result<&'static Algorithm, StrictError> {
    perigee_cc::find(name).ok_or_else(|| {
        let known = perigee_cc::algorithms().iter().map(Algorithm::name);
        let message = format!("`{what}`: there is no congestion control `{}`", clip(name));
        StrictError::new(&node.origin, message, suggestion(name, known))
    })
}

/// The algorithm of an author's file.
fn authored(path: &str, node: &Node, what: &str, outside: &mut dyn Outside) -> Result<&'static Algorithm, StrictError> {
    let place = if node.origin.has_lines() { Place::Study } else { Place::Setting };
    outside
        .algorithm(path, place)
        .map_err(|why| StrictError::new(&node.origin, format!("`{what}`: `{}` {}", clip(path), why.message), why.fix))
}

fn cc_error(what: &str, error: &CcError, node: &Node) -> StrictError {
    StrictError::new(&node.origin, format!("`{what}`: {}", error.message()), error.fix())
}

fn measure(study: &Reader<'_>, nodes: &Nodes) -> Result<Measure, StrictError> {
    let empty = Node::empty_table(study.table.origin);
    let node = study.table.node("measure").unwrap_or(&empty);
    let table = Reader::open(node, "measure", &MEASURE, &[])?;
    let bin: Time = table.get("rtt_bin")?;
    Ok(Measure {
        series: table.get_unless_off("series")?,
        startup: match table.get_unless_off::<String>("startup")? {
            None => None,
            Some(text) => match (text.parse().map(Startup::Bytes), text.parse().map(Startup::Time)) {
                (Ok(startup), _) | (_, Ok(startup)) => Some(startup),
                (_, Err(_)) => None,
            },
        },
        steady: table.get_unless_off("steady")?,
        goodput_bin: table.get("goodput_bin")?,
        rtt_bin: table.get::<bool>("rtt")?.then_some(bin),
        milestones: milestones(&table)?,
        events: table.get("events")?,
        pcap: match table.table.node("pcap").map(|node| (&node.content, node)) {
            None | Some((Content::Boolean(false), _)) => Vec::new(),
            Some((Content::Boolean(true), _)) => (0..nodes.names.len() as u32).collect(),
            Some((_, list)) => {
                let what = table.dotted("pcap");
                items_of(list).iter().map(|node| nodes.number(node, &what)).collect::<Result<_, _>>()?
            }
        },
    })
}

fn milestones(measure: &Reader<'_>) -> Result<Vec<Bytes>, StrictError> {
    let Some(node) = measure.table.node("milestones") else { return Ok(Vec::new()) };
    let table = Reader::open(node, "measure.milestones", &MILESTONES, &[])?;
    let (every, upto): (Bytes, Bytes) = (table.get("every")?, table.get("upto")?);
    let count = upto.as_u64() / every.as_u64();
    if !(1..=MAX_MILESTONES).contains(&count) {
        let message = format!("`measure.milestones` are {count} sizes");
        return Err(table.error("every", message, format!("make `upto` 1 to {MAX_MILESTONES} times `every`")));
    }
    Ok((1..=count).map(|n| Bytes::new(n * every.as_u64())).collect())
}

/// Refuses measures whose tables could outgrow any memory.
fn limit_rows(study: &Reader<'_>, head: &Head, measure: &Measure, sources: usize) -> Result<(), StrictError> {
    let bins = [measure.series, Some(measure.goodput_bin)].into_iter().flatten();
    let finest = bins.min().unwrap_or(head.time_limit).as_nanos();
    let rows = (head.time_limit.as_nanos() / finest).saturating_mul(sources as u64);
    if rows <= MAX_ROWS {
        return Ok(());
    }
    let interval = Time::from_nanos(finest);
    let message =
        format!("{sources} flows and link directions every {interval} over {} are {rows} rows", head.time_limit);
    let fix = format!("raise measure.series and measure.goodput_bin or lower time_limit, down to {MAX_ROWS} rows");
    Err(study.error("time_limit", message, fix))
}

/// A value as JSON.
pub(crate) fn json_of(node: &Node) -> serde_json::Value {
    match &node.content {
        Content::Boolean(b) => (*b).into(),
        Content::Integer(n) => (*n).into(),
        Content::Float(x) => (*x).into(),
        Content::Text(text) => text.as_str().into(),
        Content::Array(items) => items.iter().map(json_of).collect(),
        Content::Table(_) => {
            serde_json::Value::Object(entries_of(node).iter().map(|(key, v)| (key.clone(), json_of(v))).collect())
        }
    }
}

/// The tables of `[[key]]`.
fn tables<'a>(study: &Reader<'a>, key: &str, example: &str) -> Result<&'a [Node], StrictError> {
    match study.table.node(key).map(|node| (&node.content, node)) {
        None => Ok(&[]),
        Some((Content::Array(items), _)) => Ok(items),
        Some((_, node)) => {
            let message = format!("`{key}` is {}", node.kind());
            Err(StrictError::new(&node.origin, message, format!("write {example}")))
        }
    }
}

/// The name of a table, which no other of its kind may have.
fn unique(table: &Reader<'_>, names: &mut BTreeSet<String>) -> Result<String, StrictError> {
    let name: String = table.get("name")?;
    if names.insert(name.clone()) {
        return Ok(name);
    }
    let message = format!("`{}` = `{name}` is there twice", table.dotted("name"));
    Err(table.error("name", message, "rename one of them"))
}

/// Most nodes: the next hops of a scenario are a square of them.
const MAX_NODES: usize = 100;
/// Most sizes of `measure.milestones`.
const MAX_MILESTONES: u64 = 10_000;
/// Most rows of a run's series.
const MAX_ROWS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::value;
    use crate::strict::Origin;

    /// What a table of one setting makes of `config`.
    fn with(setting: &Setting, text: &str, mut config: Config) -> Config {
        let origin = Origin::place("test");
        let mut node = Node::empty_table(&origin);
        node.set(&[setting.name], value(text, &origin));
        let table = Reader::open(&node, "hosts", &TCP, &[]).unwrap_or_else(|error| panic!("{error}"));
        apply_tcp(&table, &mut config).unwrap_or_else(|error| panic!("{error}"));
        config
    }

    /// A value of a setting that is not its default, as a study would write it.
    fn another(setting: &Setting) -> String {
        let other = |a: String, b: String| if setting.default == a { b } else { a };
        match setting.domain {
            Domain::Switch => other("true".into(), "false".into()),
            Domain::Count { min, max } => other(max.to_string(), min.to_string()),
            // Within both `rto_min` and `rto_max` as they are by default.
            Domain::Duration { .. } => "201 ms".into(),
            Domain::Size { max, .. } => max.to_string(),
            Domain::Sizes => "[\"5 kB\", \"6 kB\", \"7 kB\"]".into(),
            Domain::Choice(words) => other(words[0].into(), words[1].into()),
        }
    }

    #[test]
    fn a_setting_changes_itself_alone_and_its_default_undoes_that() {
        for setting in SETTINGS {
            let changed = with(setting, &another(setting), Config::default());
            let different: Vec<_> = changed.differences().map(|(setting, _)| setting.name).collect();
            assert_eq!(different, [setting.name]);
            assert_eq!(with(setting, setting.default, changed), Config::default(), "{}", setting.name);
        }
    }
}
