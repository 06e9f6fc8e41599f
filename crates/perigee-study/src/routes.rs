//! Routes of packets through the graph: shortest paths, exceptions from them, and changes during a run.

use std::collections::{BTreeMap, BTreeSet};

use perigee_link::{AqmSpec, Full, RateSpec};
use perigee_results::Name;
use perigee_text::{items_of, Node, Reader, StrictError};
use perigee_units::{suggestion, Time};

use crate::nodes::Nodes;
use crate::reroute::{Reroute, RouteChange, Waiting, Watch, When};
use crate::run::{FlowSpec, RunLink, Scenario};
use crate::topology::{self, Edge};

/// The routes of a study.
pub(crate) struct Routes {
    /// Indexed by `node * nodes + destination`; it holds while no [`Reroute`] does.
    pub(crate) next_hop: Vec<Option<u32>>,
    pub(crate) reroutes: Vec<Reroute>,
    /// Next hops for each set of reroutes that can hold together; the first is `next_hop`.
    pub(crate) tables: Vec<Vec<Option<u32>>>,
}

impl Routes {
    pub(crate) fn read(study: &Reader<'_>, nodes: &Nodes, links: &[&str], edges: &[Edge]) -> Result<Self, StrictError> {
        let count = nodes.names.len();
        let mut next_hop = topology::shortest_paths(count, edges);
        let (mut seen, mut reroutes) = (BTreeSet::new(), Vec::new());
        for route in study.each("routes")? {
            let route = route?;
            let (at, to) = (nodes.named(&route, "node")?, nodes.named(&route, "to")?);
            let link = named_link(&route, "via", links)?;
            let Some(edge) = [2 * link, 2 * link + 1].into_iter().find(|edge| edges[*edge].0 == at) else {
                let (via, node) = (links[link], &nodes.names[at as usize]);
                let message = format!("`routes.via`: link `{via}` does not touch `{node}`");
                return Err(route.error("via", message, "name a link of that node"));
            };
            let when = when(&route, links)?;
            let is_second = when.is_none() && !seen.insert((at, to));
            if at == to || is_second {
                let message = format!("a route from `{}` to `{}` ", nodes.names[at as usize], nodes.names[to as usize]);
                let why = if at == to { "leads nowhere" } else { "is there twice" };
                return Err(route.error("to", message + why, "remove it"));
            }
            let waiting = match &*route.get::<String>("waiting")? {
                "moved" => Waiting::Moved,
                "lost" => Waiting::Lost,
                _ => Waiting::Kept,
            };
            if when.is_none() && waiting != Waiting::Kept {
                let message = "`routes.waiting` is of a route that changes";
                return Err(route.error("waiting", message, "add `start`, `end` or `while_dark`, or remove it"));
            }
            match when {
                None => next_hop[at as usize * count + to as usize] = Some(edge as u32),
                Some(when) => reroutes.push(Reroute { node: at, to, link: edge as u32, when, waiting }),
            }
        }
        let tables = states(&reroutes).map_err(|many| {
            let message = format!("routes wait for {many} different conditions of links");
            study.error("routes", message, format!("use up to {MAX_WATCHES}"))
        })?;
        let table = |holding: BTreeSet<usize>| {
            let mut table = next_hop.clone();
            for number in holding {
                let Reroute { node, to, link, .. } = reroutes[number];
                table[node as usize * count + to as usize] = Some(link);
            }
            table
        };
        let tables = std::iter::once(BTreeSet::new()).chain(tables).map(table).collect();
        Ok(Self { next_hop, reroutes, tables })
    }

    /// Refuses routes that lead a flow past a proxy that splits it.
    pub(crate) fn keep_to_proxies(
        &self,
        study: &Reader<'_>,
        nodes: &Nodes,
        edges: &[Edge],
        flows: &[FlowSpec],
    ) -> Result<(), StrictError> {
        for flow in flows {
            let legs = flow.traffic.tcp().map_or(&[][..], |tcp| &tcp.legs);
            let split_at = || legs.iter().filter(|leg| leg.proxy.is_some()).map(|leg| leg.to);
            let passes = |table, ends, mut proxies: Vec<u32>| {
                let path = topology::path(nodes.names.len(), edges, table, ends).unwrap_or_default();
                for link in path {
                    if proxies.last() == Some(&edges[link as usize].1) {
                        proxies.pop();
                    }
                }
                proxies.pop()
            };
            for table in &self.tables {
                let missed = passes(table, (flow.from, flow.to), split_at().rev().collect())
                    .or_else(|| passes(table, (flow.to, flow.from), split_at().collect()));
                if let Some(node) = missed {
                    let node = &nodes.names[node as usize];
                    let message = format!("a route leads flow `{}` past its proxy at `{node}`", flow.name);
                    return Err(study.error("routes", message, "let all routes of the flow pass the proxy's node"));
                }
            }
        }
        Ok(())
    }
}

/// The index of the link named by the `key` of a route.
fn named_link(route: &Reader<'_>, key: &str, links: &[&str]) -> Result<usize, StrictError> {
    let name: String = route.get(key)?;
    links.iter().position(|link| *link == name).ok_or_else(|| {
        let known = links.iter().copied();
        route.error(key, format!("`routes.{key}`: there is no link `{name}`"), suggestion(&name, known))
    })
}

/// The times at which a route holds; `None`: always.
fn when(route: &Reader<'_>, links: &[&str]) -> Result<Option<When>, StrictError> {
    let start: Time = route.get("start")?;
    let end = route.table.get("end")?.unwrap_or(Time::MAX);
    if end <= start {
        let message = format!("the route ends at {end}, and begins at {start}");
        return Err(route.error("end", message, "write a later `end`"));
    }
    let dark = match route.table.node("while_dark") {
        Some(_) => Some(Watch {
            link: 2 * named_link(route, "while_dark", links)? as u32,
            detect: route.get("detect")?,
            restore: route.get("restore")?,
        }),
        None => None,
    };
    for key in ["detect", "restore"] {
        if dark.is_none() && route.table.node(key).is_some() {
            let message = format!("`routes.{key}` is of a route with `while_dark`");
            return Err(route.error(key, message, "add while_dark = \"LINK\", or remove it"));
        }
    }
    let when = When { start, end, dark };
    Ok((when != ALWAYS).then_some(when))
}

/// The sets of reroutes, by index, that can hold together; the error is the number of conditions of links if they are too many.
fn states(reroutes: &[Reroute]) -> Result<BTreeSet<BTreeSet<usize>>, usize> {
    let watches: BTreeSet<Watch> = reroutes.iter().filter_map(|reroute| reroute.when.dark).collect();
    if watches.len() > MAX_WATCHES {
        return Err(watches.len());
    }
    let instants: BTreeSet<Time> = reroutes.iter().flat_map(|one| [one.when.start, one.when.end]).collect();
    let mut states = BTreeSet::new();
    for dark in 0..1_u32 << watches.len() {
        let is_dark = |watch: Watch| watches.iter().position(|one| *one == watch).is_some_and(|n| dark >> n & 1 == 1);
        for now in &instants {
            let holds = |when: When| when.start <= *now && *now < when.end && when.dark.is_none_or(is_dark);
            states.insert((0..reroutes.len()).filter(|number| holds(reroutes[*number].when)).collect());
        }
    }
    Ok(states)
}

impl Scenario {
    /// The changes of routes in a run with this seed, in the order of time; those at time zero are the initial routes. A packet
    /// takes the route that a node has when it arrives there; packets on links stay there.
    pub fn route_changes(&self, seed: u64) -> Vec<RouteChange> {
        let mut times = BTreeMap::new();
        for Reroute { when, .. } in &self.reroutes {
            times.entry(*when).or_insert_with(|| self.times(*when, seed));
        }
        let places: BTreeSet<(u32, u32)> = self.reroutes.iter().map(|reroute| (reroute.node, reroute.to)).collect();
        let mut changes = Vec::new();
        for (node, to) in places {
            let routes = || self.reroutes.iter().filter(|reroute| (reroute.node, reroute.to) == (node, to));
            let always = self.next_hop(node, to);
            let ends = routes().flat_map(|route| times[&route.when].iter().flat_map(|(from, until)| [*from, *until]));
            let (mut last, mut left) = (always, Waiting::Kept);
            for at in ends.collect::<BTreeSet<_>>() {
                let holds = |when| times[when].iter().any(|(from, until): &(Time, Time)| (*from..*until).contains(&at));
                let held = routes().rfind(|route| holds(&route.when));
                let link = held.map(|route| route.link).or(always);
                // A route that ends takes its rule for waiting packets with it, unless another one follows.
                let waiting = held.map_or(left, |route| route.waiting);
                if let Some(link) = link.filter(|_| link != last) {
                    changes.push(RouteChange { at, node, to, link, from: last, waiting });
                }
                (last, left) = (link, held.map_or(Waiting::Kept, |route| route.waiting));
            }
        }
        changes.retain(|change| change.at <= self.time_limit);
        changes.sort_by_key(|change| change.at);
        changes
    }

    /// Whether packets that wait for a link may be moved or lost by a change of routes.
    pub fn gives_up_waiting(&self, link: u32) -> bool {
        self.reroutes.iter().filter(|route| route.waiting != Waiting::Kept).any(|Reroute { node, to, .. }| {
            let of_place = self.reroutes.iter().filter(|other| (other.node, other.to) == (*node, *to));
            of_place.map(|route| route.link).chain(self.next_hop(*node, *to)).any(|taken| taken == link)
        })
    }

    /// Refuses links that cannot give up waiting packets, and would have to.
    pub(crate) fn check_waiting(&self, root: &Node) -> Result<(), StrictError> {
        let numbers = (0..).zip(&self.links).filter(|(number, _)| self.gives_up_waiting(*number));
        for (_, RunLink { name, spec, .. }) in numbers {
            let what = match (&spec.rate, &spec.queue.aqm) {
                (RateSpec::Tdma(_), _) => "they wait at the terminals of a TDMA channel",
                _ if spec.queue.can_be_withdrawn() => continue,
                (_, AqmSpec::None) if spec.queue.full == Full::DropLow => "it has two classes",
                (_, AqmSpec::None) => "its queue has a limit in time",
                (_, AqmSpec::Viasat2 { .. } | AqmSpec::Red(_) | AqmSpec::Pie(_) | AqmSpec::Netem { .. }) => {
                    "its queue management decides on arrival"
                }
                (_, _) => "it has several queues",
            };
            let routes = root.get("routes").map_or(&[][..], items_of);
            let given = routes.iter().find_map(|route| route.get("waiting"));
            let origin = given.map_or(&root.origin, |node| &node.origin);
            let message = format!("packets that wait for `{name}` cannot be moved or lost: {what}");
            let fix = "let its queue be drop-tail with a limit in bytes or packets, drop-front, or CoDel; or use waiting = \"kept\"";
            return Err(StrictError::new(origin, message, fix));
        }
        Ok(())
    }

    /// The times at which a condition is met.
    fn times(&self, when: When, seed: u64) -> Vec<(Time, Time)> {
        let Some(watch) = when.dark else { return vec![(when.start, when.end)] };
        let directions = &self.links[watch.link as usize..][..2];
        let dark = |link: &RunLink| link.spec.dark_times(seed, &link.name, self.time_limit);
        let mut dark: Vec<_> = directions.iter().flat_map(dark).collect();
        dark.sort_unstable();
        let cut = |(from, until): (Time, Time)| (from.max(when.start), until.min(when.end));
        seen_dark(&dark, watch).into_iter().map(cut).filter(|(from, until)| from < until).collect()
    }
}

/// When a node considers a link dark, from the times when it is dark, which are sorted and may overlap.
fn seen_dark(dark: &[(Time, Time)], watch: Watch) -> Vec<(Time, Time)> {
    let mut whole: Vec<(Time, Time)> = Vec::new();
    for &(from, until) in dark {
        match whole.last_mut().filter(|last| from <= last.1) {
            Some(last) => last.1 = last.1.max(until),
            None => whole.push((from, until)),
        }
    }
    let mut seen: Vec<(Time, Time)> = Vec::new();
    for (from, until) in whole {
        // A link that is dark again before it counts as restored restarts the wait, for any duration.
        match seen.last_mut().filter(|last| from < last.1) {
            Some(last) => last.1 = until + watch.restore,
            None if until - from > watch.detect => seen.push((from + watch.detect, until + watch.restore)),
            None => {}
        }
    }
    seen
}

/// Routes that hold at times, in words: their nodes and conditions. Empty for a scenario that was read without its links, as for
/// real hosts.
pub(crate) fn in_words(scenario: &Scenario) -> Vec<(Name, Vec<(&'static str, String)>)> {
    let name = |node: u32| &scenario.nodes[node as usize];
    let link_of = |link: u32| {
        let link = scenario.links.get(link as usize)?;
        link.name.rsplit_once('.').map(|(link, _)| link)
    };
    let mut places: Vec<(Name, Vec<(&'static str, String)>)> = Vec::new();
    for Reroute { node, to, link, when, waiting } in &scenario.reroutes {
        let Some(via) = link_of(*link) else { continue };
        let start = (when.start > Time::ZERO).then(|| format!("from {}", when.start));
        let end = (when.end < Time::MAX).then(|| format!("until {}", when.end));
        let dark = when.dark.map(|Watch { link, detect, restore }| {
            let watched = link_of(link).unwrap_or_default();
            format!("while {watched} is dark, {detect} after it is and until {restore} after it was")
        });
        let waiting = match waiting {
            Waiting::Kept => None,
            Waiting::Moved => Some("with the packets that wait".to_owned()),
            Waiting::Lost => Some("without the packets that wait".to_owned()),
        };
        let words: Vec<String> = [Some(via.to_owned()), start, end, dark, waiting].into_iter().flatten().collect();
        let place: Name = format!("{} to {}", name(*node), name(*to)).into();
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, properties)) => properties[0].1 = format!("{}; {}", properties[0].1, words.join(" ")),
            None => places.push((place, vec![("via", words.join(" "))])),
        }
    }
    places
}

const ALWAYS: When = When { start: Time::ZERO, end: Time::MAX, dark: None };
/// Maximum conditions of links: each set of them has a table of routes.
const MAX_WATCHES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_taken_for_dark_late_and_for_restored_once_it_stays_so() {
        let s = Time::from_secs;
        let watch = Watch { link: 0, detect: s(2), restore: s(5) };
        let dark = [(10, 12), (20, 30), (25, 40), (43, 44), (60, 70)].map(|(from, until)| (s(from), s(until)));
        // Two seconds are no more than `detect`; 43 is before 40 + `restore`.
        assert_eq!(seen_dark(&dark, watch), [(s(22), s(49)), (s(62), s(75))]);
    }
}
