//! `[[proxies]]`: their keys, and the legs into which they split flows.

use std::collections::BTreeSet;

use perigee_settings::Config;
use perigee_text::{entries_of, items_of, key, required, Kind, Reader, Section, StrictError, LARGEST};
use perigee_units::{suggestion, Bytes};

use crate::ends::{apply_tcp, congestion_control};
use crate::hosts::TCP;
use crate::kinds::CC;
use crate::link_queue::{self, LINK_QUEUE};
use crate::nodes::Nodes;
use crate::outside::Outside;
use crate::run::{FlowSpec, Scenario, Traffic};
use crate::topology::Edge;
use crate::transport::{Handshake, Leg, LegEnd, ProxySpec, Tcp};

/// `[[proxies]]`.
pub(crate) static PROXY: Section = Section {
    name: "proxies",
    keys: &[
        required("name", Kind::Name, "Its name."),
        required(
            "node",
            Kind::Name,
            "The node that it is at, on the path of the flows that it splits, between their ends.",
        ),
        key(
            "enabled",
            Kind::Bool,
            "true",
            "Whether it splits anything: `vary` it, as `\"proxy.enabled\" = [false, true]`, to compare.",
        ),
        key(
            "flows",
            Kind::Names,
            "",
            "The flows that it splits, by name; of `pages`, `web` and `transactions` all their connections. Without \
             `flows` and `between`: all TCP flows that pass its node.",
        ),
        key("between", Kind::Names, "", "Two nodes: it splits the TCP flows between them, in either direction."),
        key(
            "handshake",
            Kind::Word(HANDSHAKES),
            "accept-first",
            "`accept-first`: the connection of the end that opens is accepted at once, and the next leg is opened \
             then; what is sent meanwhile waits. `connect-first`: the SYN is answered once the next leg is \
             established, and refused where that is refused.",
        ),
        key(
            "buffer",
            Kind::Size { min: Bytes::new(1), max: LARGEST },
            "64 MB",
            "Most payload of a connection, in one direction, that the proxy has read and the next leg has not \
             acknowledged. When it is full, the proxy reads no more, its receive buffer fills, and the window of \
             the leg before closes.",
        ),
        key(
            "memory",
            Kind::Size { min: Bytes::new(1), max: LARGEST },
            "4 GB",
            "Most such payload of all its connections together.",
        ),
        required(
            "sides",
            Kind::TablePer { of: "link", section: &SIDE },
            "Its sockets on each of its links: `[proxies.sides.LINK]` below the `[[proxies]]`.",
        ),
    ],
};

/// `[proxies.sides.LINK]`.
pub(crate) static SIDE: Section = Section {
    name: "proxies.sides",
    keys: &[
        required(
            "cc",
            Kind::Special(&CC),
            "Congestion control of what the proxy sends over this link: a name, or a table of name and parameters, \
             or a file, as of flows.",
        ),
        key("tcp", Kind::Table(&TCP), "", "TCP settings of the proxy's sockets on this link, over those of `[hosts]`."),
        key(
            "link",
            Kind::Table(&LINK_QUEUE),
            "",
            "The proxy owns the queue of this link: what it sends there stays below the link's rate, and waits in the \
             proxy, shared between subscribers, the hosts that open connections.",
        ),
    ],
};

/// The network around proxies.
pub(crate) struct Place<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) hosts: &'a [Config],
    /// Names; the directions of link `n` are the edges `2 n` and `2 n + 1`.
    pub(crate) links: &'a [&'a str],
    pub(crate) edges: &'a [Edge],
    /// Names of the flows of the study with a `count` of 0.
    pub(crate) left_out: &'a BTreeSet<String>,
}

/// A proxy of the study with its sockets by link.
struct Proxy<'a> {
    table: Reader<'a>,
    spec: ProxySpec,
    enabled: bool,
    sides: Vec<(usize, LegEnd)>,
}

/// Reads the proxies, and splits the flows at those that are enabled.
pub(crate) fn read(
    study: &Reader<'_>,
    place: &Place<'_>,
    flows: &mut [FlowSpec],
    outside: &mut Option<&mut dyn Outside>,
) -> Result<Vec<ProxySpec>, StrictError> {
    let (mut proxies, mut names) = (Vec::new(), BTreeSet::new());
    for table in study.each("proxies")? {
        proxies.push(proxy(table?, place, &mut names, outside)?);
    }
    // For each flow: its proxies by their place on the path.
    let mut splits: Vec<Vec<(usize, u32)>> = vec![Vec::new(); flows.len()];
    for (number, proxy) in (0..).zip(&proxies) {
        for flow in proxy.claims(place, flows)? {
            let at = proxy.position(place, &flows[flow])?;
            if !proxy.enabled {
                continue;
            }
            if let Some((_, other)) = splits[flow].iter().find(|(other, _)| *other == at) {
                let (name, other) = (&flows[flow].name, &proxies[*other as usize].spec.name);
                let message = format!("flow `{name}` is split at this node by the proxy `{other}` already");
                return Err(proxy.table.error("node", message, "remove one of them, or name the `flows` of each"));
            }
            splits[flow].push((at, number));
        }
    }
    for (flow, mut split) in flows.iter_mut().zip(splits) {
        split.sort_unstable();
        let at: Vec<(usize, u32, &Proxy<'_>)> = split.iter().map(|(at, n)| (*at, *n, &proxies[*n as usize])).collect();
        let legs = legs(flow, &at, place)?;
        let is_passed = |proxy: &&Proxy<'_>| proxy.enabled && proxy.is_on_path(place, flow);
        let passed = proxies.iter().filter(is_passed).count() as u32;
        match &mut flow.traffic {
            Traffic::Tcp { tcp, .. } | Traffic::Population { tcp, .. } => tcp.legs = legs,
            Traffic::Quic { quic, .. } => quic.passed = passed,
            Traffic::Datagrams(_) => {}
        }
    }
    Ok(proxies.into_iter().map(|proxy| proxy.spec).collect())
}

fn proxy<'a>(
    table: Reader<'a>,
    place: &Place<'_>,
    names: &mut BTreeSet<String>,
    outside: &mut Option<&mut dyn Outside>,
) -> Result<Proxy<'a>, StrictError> {
    let name = table.unique_name(names)?;
    let at = place.nodes.named(&table, "node")?;
    let handshake = match table.get::<String>("handshake")?.as_str() {
        "connect-first" => Handshake::Connect,
        _ => Handshake::Accept,
    };
    let mut spec = ProxySpec {
        name: name.into(),
        node: at,
        handshake,
        buffer: table.get("buffer")?,
        memory: table.get("memory")?,
        queues: Vec::new(),
    };
    let (mut sides, enabled) = (Vec::new(), table.get("enabled")?);
    for (link, node) in table.table.node("sides").map_or(&[][..], entries_of) {
        let number = place.links.iter().position(|known| known == link);
        let own = |number: &usize| {
            let (a, b) = place.edges[2 * number];
            a == at || b == at
        };
        let Some(number) = number.filter(own) else {
            let known = (0..place.links.len()).filter(|number| own(number)).map(|number| place.links[number]);
            let message = format!("`proxies.sides`: `{link}` is no link of `{}`", place.nodes.names[at as usize]);
            return Err(StrictError::new(&node.origin, message, suggestion(link, known)));
        };
        let side = Reader::open(node, &format!("proxies.sides.{link}"), &SIDE, &[])?;
        let mut config = place.hosts[at as usize].clone();
        if let Some(settings) = side.inner("tcp")? {
            apply_tcp(&settings, &mut config)?;
        }
        if let Some(queue) = side.inner("link")?.filter(|_| enabled) {
            let away = 2 * number + usize::from(place.edges[2 * number].0 != at);
            spec.queues.extend(link_queue::read(&queue, away as u32)?);
        }
        let (cc, cc_params) = congestion_control(&side, outside)?;
        sides.push((number, LegEnd { cc, cc_params, config }));
    }
    Ok(Proxy { table, spec, enabled, sides })
}

impl Proxy<'_> {
    /// The flows that it splits, by number.
    fn claims(&self, place: &Place<'_>, flows: &[FlowSpec]) -> Result<Vec<usize>, StrictError> {
        let table = &self.table;
        let tcp = |flow: &FlowSpec| flow.traffic.tcp().is_some();
        let named = table.table.get::<Vec<String>>("flows")?;
        let between = match table.table.node("between") {
            None => None,
            Some(node) => {
                let ends = items_of(node);
                let [a, b] = ends else {
                    let message = format!("`proxies.between` has {} nodes", ends.len());
                    return Err(table.error("between", message, "write two: between = [\"server\", \"client\"]"));
                };
                let what = table.dotted("between");
                Some([place.nodes.number(a, &what)?, place.nodes.number(b, &what)?])
            }
        };
        let claimed = |flow: &FlowSpec| match (&named, between) {
            (None, None) => tcp(flow) && self.is_on_path(place, flow),
            (named, between) => {
                let by_name = named.as_ref().is_some_and(|names| names.iter().any(|name| is_called(flow, name)));
                let by_ends = between.is_some_and(|ends| ends == [flow.from, flow.to] || ends == [flow.to, flow.from]);
                by_name || (by_ends && tcp(flow))
            }
        };
        for name in named.iter().flatten() {
            let Some(flow) = flows.iter().find(|flow| is_called(flow, name)) else {
                if place.left_out.contains(name) {
                    continue;
                }
                let known = flows.iter().map(|flow| &*flow.name);
                let message = format!("`proxies.flows`: there is no flow `{name}`");
                return Err(table.error("flows", message, suggestion(name, known)));
            };
            if let Traffic::Datagrams(_) = flow.traffic {
                let message = format!("flow `{name}` has no connection to split: it is a `{}`", flow.traffic.kind());
                return Err(table.error("flows", message, "remove it from `flows`"));
            }
        }
        let is_split = |number: &usize| tcp(&flows[*number]) && claimed(&flows[*number]);
        let claims: Vec<usize> = (0..flows.len()).filter(is_split).collect();
        // The flow that it splits may have a `count` of 0, or be of QUIC at this point of the study.
        let is_passed = |flow: &FlowSpec| flow.traffic.quic().is_some() && self.is_on_path(place, flow);
        if claims.is_empty() && place.left_out.is_empty() && !flows.iter().any(is_passed) {
            let node = &place.nodes.names[self.spec.node as usize];
            let message = format!("the proxy `{}` splits nothing: no TCP flow passes `{node}`", self.spec.name);
            return Err(table.error("node", message, "place it between the ends of a flow, or remove it"));
        }
        Ok(claims)
    }

    /// Whether its node is between the ends of a flow.
    fn is_on_path(&self, place: &Place<'_>, flow: &FlowSpec) -> bool {
        nodes_between(place, &flow.forward).any(|node| node == self.spec.node)
    }

    /// The number of links before its node on the path of a flow's data.
    fn position(&self, place: &Place<'_>, flow: &FlowSpec) -> Result<usize, StrictError> {
        let of = |path: &[u32]| nodes_between(place, path).position(|node| node == self.spec.node);
        match (of(&flow.forward), of(&flow.back)) {
            (Some(forward), Some(_)) => Ok(forward + 1),
            (forward, back) => {
                let node = &place.nodes.names[self.spec.node as usize];
                let which = match (forward, back) {
                    (None, None) => "does not pass",
                    (None, _) => "passes only on its way back",
                    _ => "does not pass on its way back",
                };
                let message = format!("the proxy `{}`: flow `{}` {which} `{node}`", self.spec.name, flow.name);
                Err(self.table.error("node", message, "place it on both ways of the flow, between its ends"))
            }
        }
    }

    /// Its sockets on a link.
    fn side(&self, edge: u32, place: &Place<'_>) -> Result<&LegEnd, StrictError> {
        let link = edge as usize / 2;
        self.sides.iter().find(|(number, _)| *number == link).map(|(_, side)| side).ok_or_else(|| {
            let (name, link) = (&self.spec.name, place.links[link]);
            let message = format!("the proxy `{name}` has a leg over `{link}`, and no congestion control for it");
            self.table.error("sides", message, format!("add [proxies.sides.{link}] with cc = \"cubic\""))
        })
    }
}

/// The legs of a flow that is split at these places; empty without places.
fn legs(flow: &FlowSpec, at: &[(usize, u32, &Proxy<'_>)], place: &Place<'_>) -> Result<Vec<Leg>, StrictError> {
    let Some(tcp) = flow.traffic.tcp().filter(|_| !at.is_empty()) else { return Ok(Vec::new()) };
    let Tcp { cc, cc_params, from, to, .. } = tcp;
    let end = |config: &Config| LegEnd { cc: cc.clone(), cc_params: cc_params.clone(), config: config.clone() };
    let (mut legs, mut before): (Vec<Leg>, Option<&Proxy<'_>>) = (Vec::new(), None);
    let (mut forward_at, mut back_until) = (0, flow.back.len());
    let last = (flow.forward.len(), None);
    for (position, proxy) in at.iter().map(|(at, n, proxy)| (*at, Some((*n, *proxy)))).chain([last]) {
        let forward = flow.forward[forward_at..position].to_vec();
        let back_from = match proxy {
            Some((_, proxy)) => 1 + nodes_between(place, &flow.back).position(|n| n == proxy.spec.node).unwrap_or(0),
            None => 0,
        };
        if back_from > back_until {
            let message = format!("flow `{}` passes its proxies in another order on its way back", flow.name);
            let table = proxy.map_or_else(|| &at[0].2.table, |(_, proxy)| &proxy.table);
            return Err(table.error("node", message, "correct the [[routes]], or remove a proxy"));
        }
        let back = flow.back[back_from..back_until].to_vec();
        let sender = match before {
            Some(proxy) => proxy.side(forward[0], place)?.clone(),
            None => end(from),
        };
        let receiver = match proxy {
            Some((_, proxy)) => proxy.side(back[0], place)?.clone(),
            None => end(to),
        };
        legs.push(Leg {
            from: before.map_or(flow.from, |proxy| proxy.spec.node),
            to: proxy.map_or(flow.to, |(_, proxy)| proxy.spec.node),
            forward,
            back,
            sender,
            receiver,
            proxy: proxy.map(|(number, _)| number),
        });
        (forward_at, back_until, before) = (position, back_from, proxy.map(|(_, proxy)| proxy));
    }
    Ok(legs)
}

/// The nodes between the ends of a path.
fn nodes_between<'a>(place: &'a Place<'_>, path: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    path.iter().skip(1).map(|edge| place.edges[*edge as usize].0)
}

/// Whether a flow has this name, or is one of several (`count`) with it.
pub(crate) fn is_called(flow: &FlowSpec, name: &str) -> bool {
    &*flow.name == name
        || flow.name.rsplit_once('.').is_some_and(|(before, number)| before == name && number.parse::<u32>().is_ok())
}

/// Values of `handshake`.
const HANDSHAKES: &[&str] = &["accept-first", "connect-first"];

/// A proxy in words; `number` is its place in the scenario.
pub(crate) fn in_words(number: u32, proxy: &ProxySpec, scenario: &Scenario) -> Vec<(&'static str, String)> {
    let handshake = match proxy.handshake {
        Handshake::Accept => "with the end that opens first",
        Handshake::Connect => "with the other end first",
    };
    let legs =
        |flow: &&FlowSpec| flow.traffic.tcp().is_some_and(|tcp| tcp.legs.iter().any(|leg| leg.proxy == Some(number)));
    let split = scenario.flows.iter().filter(legs).count();
    let queues = proxy.queues.iter().filter_map(|queue| link_queue::in_words(queue, scenario));
    vec![
        ("node", scenario.nodes[proxy.node as usize].to_string()),
        ("handshake", handshake.to_owned()),
        ("buffer per connection and direction", proxy.buffer.to_string()),
        ("memory", proxy.memory.to_string()),
        ("flows that it splits", split.to_string()),
    ]
    .into_iter()
    .chain(queues.map(|words| ("queue that it owns", words)))
    .collect()
}
