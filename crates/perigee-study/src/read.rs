//! Reads a document as a scenario, except the links' processes, which need files.

use std::collections::BTreeSet;
use std::fmt;

use perigee_results::{CaptureRules, Measure, Name, Startup, StatesOf};
use perigee_settings::Config;
use perigee_text::{entries_of, items_of, text_of, Content, Node, Read, Reader, StrictError, Table};
use perigee_units::{encode_struct, Bytes, Encode, Time};
use perigee_wire::IpVersion;

use crate::ends::{apply_tcp, congestion_control, keep_to_kernel};
use crate::flows::{workload, Workload, MAX_FLOWS};
use crate::hosts::TCP;
use crate::keys::{PLAIN, STUDY};
use crate::nodes::Nodes;
use crate::outside::Outside;
use crate::packets::{ecn, Packets, LOW};
use crate::proxies;
use crate::quic;
use crate::reroute::Reroute;
use crate::routes::Routes;
use crate::run::{FlowSpec, QuicLoad, Traffic};
use crate::topology::{self, Edge, NoPath};
use crate::transport::{Opener, ProxySpec, Tcp};

/// A scenario whose links are still tables.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) head: Head,
    pub(crate) nodes: Vec<Name>,
    pub(crate) links: Vec<LinkDraft>,
    pub(crate) flows: Vec<FlowSpec>,
    pub(crate) proxies: Vec<ProxySpec>,
    pub(crate) measure: Measure,
    pub(crate) next_hop: Vec<Option<u32>>,
    pub(crate) reroutes: Vec<Reroute>,
    /// Processing times, indexed by node.
    pub(crate) processing: Vec<Time>,
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
    /// Whether `carriage` is `plain`.
    pub(crate) is_plain: bool,
}

/// A link: its name, its ends, and its table, whose processes are read later.
#[derive(Debug)]
pub(crate) struct LinkDraft {
    pub(crate) name: String,
    pub(crate) ends: (u32, u32),
    pub(crate) mtu: Option<u16>,
    pub(crate) table: Node,
}

encode_struct!(Draft { head, nodes, links, flows, proxies, measure, next_hop, reroutes, processing });
encode_struct!(Head { name, title, about, seed, rounds, time_limit, is_plain });

/// Its processes have a fingerprint of their own, with the recordings in them.
impl Encode for LinkDraft {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { name, ends, mtu, table: _ } = self;
        ((name, ends), mtu).encode(out)
    }
}

/// Reads a document; without an outside, authors' algorithms are not read.
pub(crate) fn draft(root: &Node, mut outside: Option<&mut dyn Outside>) -> Result<Draft, StrictError> {
    let study = Reader::open(root, "", &STUDY, &[])?;
    let head = head(&study)?;
    let nodes = Nodes::read(&study)?;
    inputs(&study)?;
    let links = links(&study, &nodes)?;
    let edges: Vec<Edge> = links.iter().flat_map(|link| [link.ends, (link.ends.1, link.ends.0)]).collect();
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let routes = Routes::read(&study, &nodes, &names, &edges)?;
    let hosts = hosts(&study, &nodes)?;
    let mtus: Vec<_> = links.iter().flat_map(|link| [link.mtu; 2]).collect();
    let network = Network { nodes: &nodes, hosts: &hosts, edges: &edges, mtus: &mtus, tables: &routes.tables };
    let mut flows = flows(&study, &network, &mut outside)?;
    refuse_lone_nodes(&study, &nodes, &edges)?;
    let left_out = left_out(&study, &flows);
    let place = proxies::Place { nodes: &nodes, hosts: &hosts, links: &names, edges: &edges, left_out: &left_out };
    let proxies = proxies::read(&study, &place, &mut flows, &mut outside)?;
    routes.keep_to_proxies(&study, &nodes, &edges, &flows)?;
    let measure = measure(&study, &nodes)?;
    limit_rows(&study, &head, &measure, flows.len() + edges.len())?;
    let Routes { next_hop, reroutes, .. } = routes;
    let mut processing: Vec<_> = hosts.iter().map(|host| host.processing_time).collect();
    if study.get("kernel_hosts")? {
        for flow in &mut flows {
            keep_to_kernel(&mut flow.traffic);
        }
        processing.fill(Config::default().processing_time);
    }
    Ok(Draft { head, nodes: nodes.names, links, flows, proxies, measure, next_hop, reroutes, processing })
}

fn head(study: &Reader<'_>) -> Result<Head, StrictError> {
    Ok(Head {
        name: study.get::<String>("name")?.into(),
        title: study.get("title")?,
        about: study.get("about")?,
        seed: study.get("seed")?,
        rounds: study.get("rounds")?,
        time_limit: study.get("time_limit")?,
        is_plain: study.get::<String>("carriage")? == PLAIN,
    })
}

/// The names of the flows of the study with a `count` of 0.
fn left_out(study: &Reader<'_>, flows: &[FlowSpec]) -> BTreeSet<String> {
    let declared = study.table.node("flows").into_iter().flat_map(items_of);
    let declared = declared.filter_map(|flow| text_of(flow.get("name")?));
    let is_there = |name: &str| flows.iter().any(|flow| proxies::is_called(flow, name));
    declared.filter(|name| !is_there(name)).map(str::to_owned).collect()
}

fn inputs(study: &Reader<'_>) -> Result<(), StrictError> {
    let Some(node) = study.table.node("inputs") else { return Ok(()) };
    let table = Table::named(node, &study.dotted("inputs"))?;
    entries_of(node).iter().try_for_each(|(name, about)| String::read(about, &table.dotted(name)).map(drop))
}

fn links(study: &Reader<'_>, nodes: &Nodes) -> Result<Vec<LinkDraft>, StrictError> {
    let (mut links, mut names) = (Vec::new(), BTreeSet::new());
    for link in study.each("links")? {
        let link = link?;
        let name = link.unique_name(&mut names)?;
        let between = link.table.node("between").map_or(&[][..], items_of);
        let [first, second] = between else {
            let message = format!("`links.between` of `{name}` has {} nodes", between.len());
            return Err(link.error("between", message, "write the two nodes: between = [\"a\", \"b\"]"));
        };
        let what = link.dotted("between");
        let ends = (nodes.number(first, &what)?, nodes.number(second, &what)?);
        let mtu = link.table.get::<Bytes>("mtu")?.map(|mtu| mtu.as_u64() as u16);
        links.push(LinkDraft { name, ends, mtu, table: link.table.to_node() });
    }
    if links.is_empty() {
        return Err(study.error("links", "a study needs a link", "add a [[links]] table"));
    }
    Ok(links)
}

/// Refuses a node that no link leads to.
fn refuse_lone_nodes(study: &Reader<'_>, nodes: &Nodes, edges: &[Edge]) -> Result<(), StrictError> {
    let is_lone = |number: &u32| edges.iter().all(|(from, _)| from != number);
    match (0..nodes.names.len() as u32).find(is_lone) {
        Some(lone) => {
            let message = format!("node `{}` has no link", nodes.names[lone as usize]);
            Err(study.error("nodes", message, "link it, or remove it"))
        }
        None => Ok(()),
    }
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

/// The network around flows.
struct Network<'a> {
    nodes: &'a Nodes,
    hosts: &'a [Config],
    edges: &'a [Edge],
    /// Largest packet of each of them.
    mtus: &'a [Option<u16>],
    /// Next hops for each state of the routes; the first is that without reroutes.
    tables: &'a [Vec<Option<u32>>],
}

fn flows(
    study: &Reader<'_>,
    network: &Network<'_>,
    outside: &mut Option<&mut dyn Outside>,
) -> Result<Vec<FlowSpec>, StrictError> {
    let (mut flows, mut names) = (Vec::new(), BTreeSet::new());
    for table in study.each("flows")? {
        let table = table?;
        let name = table.unique_name(&mut names)?;
        let count: usize = table.get::<u32>("count")? as usize;
        let stagger: Time = table.get("stagger")?;
        if stagger > Time::ZERO && !table.table.has("count") {
            let message = "`flows.stagger` is without effect without `count`";
            return Err(table.error("stagger", message, "add count = 2, or remove it"));
        }
        let flow = flow(&table, &name, network, outside)?;
        if flows.len() + count > MAX_FLOWS {
            let message = format!("{} flows are too many", flows.len() + count);
            return Err(table.error("count", message, format!("use up to {MAX_FLOWS}")));
        }
        match count {
            1 => flows.push(flow),
            _ => flows.extend((0..count).map(|n| FlowSpec {
                name: format!("{name}.{}", n + 1).into(),
                start: flow.start + stagger * n as u64,
                ..flow.clone()
            })),
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
    let way = |table_of: &[Option<u32>], ends: (u32, u32)| {
        topology::path(nodes.names.len(), network.edges, table_of, ends).map_err(|why| {
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
    let both = |table_of: &Vec<_>| Ok((way(table_of, (from, to))?, way(table_of, (to, from))?));
    let ways = network.tables.iter().map(both).collect::<Result<Vec<_>, _>>()?;
    let links = ways.iter().flat_map(|(forward, back)| forward.iter().chain(back));
    let path_mtu = links.filter_map(|edge| network.mtus[*edge as usize]).min();
    let (forward, back) = ways.into_iter().next().unwrap_or_default();
    let least = ip.least_mtu();
    if let Some(mtu) = path_mtu.filter(|mtu| *mtu < least) {
        let message = format!("flow `{name}`: a link on its way has an mtu of {mtu} B, which `v6` does not know");
        return Err(table.error("ip", message, format!("raise it to {least} B, or use ip = \"v4\"")));
    }
    Ok(FlowSpec {
        name: name.into(),
        ip,
        path_mtu,
        ecn: ecn(table)?,
        is_low: table.get::<String>("priority")? == LOW,
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
    let workload = workload(table, packets)?;
    let load = match workload {
        Workload::Datagrams(datagrams) => return Ok(Traffic::Datagrams(datagrams)),
        Workload::App(app) => QuicLoad::App(app),
        Workload::Population(population) => QuicLoad::Population(population),
    };
    let opened_by = match table.get::<String>("opened_by")?.as_str() {
        "sender" => Opener::Sender,
        _ => Opener::Receiver,
    };
    if quic::is_asked(table)? {
        return quic::traffic(table, packets, load, congestion_control(table, outside)?, opened_by);
    }
    quic::refuse_on_tcp(table, packets.flow)?;
    let (mut from, mut to) = (hosts.0.clone(), hosts.1.clone());
    if let Some(settings) = table.inner("tcp")? {
        apply_tcp(&settings, &mut from)?;
        apply_tcp(&settings, &mut to)?;
    }
    if [&from, &to].into_iter().any(|end| end.l4s && !end.ecn) {
        let message = format!("flow `{}`: `l4s` is without effect while ecn = false", packets.flow);
        return Err(table.error("tcp", message, "add ecn = true"));
    }
    let (cc, cc_params) = congestion_control(table, outside)?;
    let tcp = Box::new(Tcp { cc, cc_params, from, to, opened_by, legs: Vec::new() });
    Ok(match load {
        QuicLoad::App(app) => Traffic::Tcp { tcp, app },
        QuicLoad::Population(population) => Traffic::Population { tcp, population },
    })
}

fn measure(study: &Reader<'_>, nodes: &Nodes) -> Result<Measure, StrictError> {
    let table = study.inner_or_defaults("measure")?;
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
        capture: capture(&table)?,
        events: table.get("events")?,
        states: match table.get_unless_off::<String>("states")?.as_deref() {
            None => None,
            Some("changes") => Some(StatesOf::Changes),
            // The reader has refused all other words.
            Some(_) => Some(StatesOf::Acknowledgements),
        },
        pcap: named(&table, "pcap", nodes)?,
        qlog: named(&table, "qlog", nodes)?,
    })
}

/// The nodes that a key names, or all.
fn named(measure: &Reader<'_>, key: &str, nodes: &Nodes) -> Result<Vec<u32>, StrictError> {
    match measure.table.node(key).map(|node| (&node.content, node)) {
        None | Some((Content::Boolean(false), _)) => Ok(Vec::new()),
        Some((Content::Boolean(true), _)) => Ok((0..nodes.names.len() as u32).collect()),
        Some((_, list)) => {
            let what = measure.dotted(key);
            items_of(list).iter().map(|node| nodes.number(node, &what)).collect()
        }
    }
}

fn capture(measure: &Reader<'_>) -> Result<Option<CaptureRules>, StrictError> {
    let Some(table) = measure.inner("capture")? else { return Ok(None) };
    let (from, upto): (Bytes, Bytes) = (table.get("from")?, table.get("upto")?);
    if from >= upto {
        let message = format!("`measure.capture` has no byte from {from} up to {upto}");
        return Err(table.error("upto", message, "make `upto` larger than `from`"));
    }
    let (first, startup, least) = (table.get("first")?, table.get("startup")?, table.get("least")?);
    Ok(Some(CaptureRules { first, startup, from, upto, least }))
}

fn milestones(measure: &Reader<'_>) -> Result<Vec<Bytes>, StrictError> {
    let Some(table) = measure.inner("milestones")? else { return Ok(Vec::new()) };
    let (every, upto): (Bytes, Bytes) = (table.get("every")?, table.get("upto")?);
    let count = upto.as_u64() / every.as_u64();
    if !(1..=MAX_MILESTONES).contains(&count) {
        let message = format!("`measure.milestones` are {count} sizes");
        return Err(table.error("every", message, format!("make `upto` 1 to {MAX_MILESTONES} times `every`")));
    }
    Ok((1..=count).map(|n| Bytes::new(n * every.as_u64())).collect())
}

/// Refuses measurements whose tables could exceed any memory.
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

/// Maximum sizes of `measure.milestones`.
const MAX_MILESTONES: u64 = 10_000;
/// Maximum rows of a run's series.
const MAX_ROWS: u64 = 50_000_000;
