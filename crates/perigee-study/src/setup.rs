//! The set-up of all points of a study, for the report: what is the same, what varies, and between which values. The words are
//! beside the keys of each process, host, flow and proxy.

use std::collections::BTreeSet;

use perigee_results::Name;
use perigee_settings::Config;
use serde_json::{json, Map, Value};

use crate::links::direction;
use crate::{flow_row, hosts, proxies, routes};
use crate::{FlowSpec, Run, Scenario};

/// The setup of a study's runs, for its report, as JSON: links, hosts, flows and proxies of all points in words, each with a name and
/// properties in order, and the networks of the points. A property that varies between points has all its values. `experiments` has
/// the same for each experiment's points, by name.
pub fn setup_json(runs: &[Run]) -> String {
    let Some(first) = runs.first() else { return "{}".to_owned() };
    let points: Vec<_> = runs.iter().take_while(|run| run.round == first.round).map(|run| &*run.scenario).collect();
    let mut setup = setup_of(&points);
    let named: Vec<_> = points.iter().map(|point| experiment_of(point)).collect();
    let mut names: Vec<&String> = named.iter().flatten().collect();
    names.dedup();
    let of = |name: &String| {
        let own: Vec<_> =
            points.iter().zip(&named).filter(|(_, of)| of.as_ref() == Some(name)).map(|(point, _)| *point).collect();
        (name.clone(), setup_of(&own))
    };
    if !names.is_empty() {
        setup["experiments"] = Value::Object(names.into_iter().map(of).collect());
    }
    setup.to_string()
}

fn setup_of(points: &[&Scenario]) -> Value {
    let points = || points.iter().copied();
    json!({
        "links": of_all_points(points().map(links_of)),
        "hosts": of_all_points(points().map(hosts_of)),
        "flows": of_all_points(points().map(flows_of)),
        "proxies": of_all_points(points().map(proxies_of)),
        "routes": of_all_points(points().map(routes::in_words)),
        "networks": networks(points()),
    })
}

/// The name of the experiment that a point belongs to.
fn experiment_of(point: &Scenario) -> Option<String> {
    let point: Value = serde_json::from_str(&point.point).ok()?;
    Some(point.get("experiment")?.as_str()?.to_owned())
}

/// A link, a host, a flow or a proxy: its name and its properties.
type Thing = (Name, Vec<(&'static str, String)>);

fn node(scenario: &Scenario, number: u32) -> Name {
    scenario.nodes.get(number as usize).map_or_else(|| "".into(), Name::clone)
}

fn links_of(scenario: &Scenario) -> Vec<Thing> {
    let links = scenario.links.iter().map(|link| {
        let ends = format!("{} to {}", node(scenario, link.from), node(scenario, link.to));
        let mut properties = vec![("way", ends)];
        properties.extend(direction::in_words(&link.spec));
        (link.name.clone(), properties)
    });
    links.collect()
}

fn hosts_of(scenario: &Scenario) -> Vec<Thing> {
    let mut hosts: Vec<Thing> = Vec::new();
    for flow in &scenario.flows {
        if let Some(tcp) = flow.traffic.tcp() {
            for (number, config) in [(flow.from, &tcp.from), (flow.to, &tcp.to)] {
                let host = (node(scenario, number), hosts::in_words(config));
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
        }
    }
    let datagrams = scenario.flows.iter().filter(|flow| flow.traffic.tcp().is_none());
    for number in datagrams.flat_map(|flow| [flow.from, flow.to]) {
        // A host without connections has only the settings that act on any packet.
        let config = Config { processing_time: scenario.processing[number as usize], ..Config::default() };
        let words: Vec<_> =
            config.differences().map(|(setting, value)| (setting.report, hosts::setting_in_words(value))).collect();
        let name = node(scenario, number);
        if !words.is_empty() && hosts.iter().all(|(known, _)| *known != name) {
            hosts.push((name, words));
        }
    }
    hosts
}

fn flows_of(scenario: &Scenario) -> Vec<Thing> {
    let flows = scenario.flows.iter().map(|flow| {
        let ends = format!("{} to {}", node(scenario, flow.from), node(scenario, flow.to));
        let mut properties = vec![("way", ends)];
        properties.extend(flow_row::in_words(scenario, flow));
        (flow.name.clone(), properties)
    });
    flows.collect()
}

fn proxies_of(scenario: &Scenario) -> Vec<Thing> {
    let proxies = (0..).zip(&scenario.proxies);
    proxies.map(|(number, proxy)| (proxy.name.clone(), proxies::in_words(number, proxy, scenario))).collect()
}

/// The things of all points as JSON. Things of the same name are one thing; if points have several of a name, so are those with
/// the same position among them.
fn of_all_points(points: impl Iterator<Item = Vec<Thing>>) -> Value {
    let mut found: Vec<(Name, Vec<(&'static str, Values)>)> = Vec::new();
    for (earlier, things) in points.enumerate() {
        let mut taken = vec![false; found.len()];
        for (name, properties) in things {
            let same = (0..taken.len()).find(|&place| !taken[place] && found[place].0 == name);
            let Some(place) = same else {
                let first = properties.into_iter().map(|(key, text)| (key, Values::of(text)));
                found.push((name, first.collect()));
                continue;
            };
            taken[place] = true;
            let known = &mut found[place].1;
            for (key, values) in known.iter_mut() {
                let text = properties.iter().find(|(other, _)| other == key).map(|(_, text)| text.as_str());
                values.add(text.unwrap_or(NONE));
            }
            for (key, text) in properties {
                if known.iter().all(|(other, _)| *other != key) {
                    let mut values = Values::of(if earlier > 0 { NONE.to_owned() } else { text.clone() });
                    values.add(&text);
                    known.push((key, values));
                }
            }
        }
    }
    let things = found.into_iter().map(|(name, properties)| {
        let properties: Vec<_> = properties.into_iter().map(|(key, values)| (key, values.in_words())).collect();
        json!({"name": &*name, "properties": properties})
    });
    things.collect()
}

/// The values of a property at the points of a study, each once.
struct Values {
    /// The first ones, in the order of the points.
    first: Vec<String>,
    all: BTreeSet<String>,
}

impl Values {
    fn of(text: String) -> Self {
        Self { first: vec![text.clone()], all: BTreeSet::from([text]) }
    }

    fn add(&mut self, text: &str) {
        if !self.all.contains(text) {
            self.all.insert(text.to_owned());
            if self.first.len() < MOST_VALUES {
                self.first.push(text.to_owned());
            }
        }
    }

    /// One value as it is; several with the unit once if they share it.
    fn in_words(&self) -> String {
        if let [only] = &*self.first {
            return only.clone();
        }
        let units: Option<Vec<_>> = self.first.iter().map(|text| number_and_unit(text)).collect();
        let words = match &units.as_deref() {
            Some([(_, unit), others @ ..]) if others.iter().all(|(_, other)| other == unit) => {
                let numbers: Vec<_> = units.iter().flatten().map(|(number, _)| *number).collect();
                format!("{} {unit}", numbers.join(", "))
            }
            _ if self.first.iter().any(|text| text.contains(", ")) => self.first.join("; "),
            _ => self.first.join(", "),
        };
        match self.all.len() {
            few if few == self.first.len() => format!("{words} (varied)"),
            many => format!("{words} and others (varied, {many} values)"),
        }
    }
}

fn number_and_unit(text: &str) -> Option<(&str, &str)> {
    let (number, unit) = text.split_once(' ')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_unit = !unit.contains(|letter: char| letter == ',' || letter.is_ascii_digit());
    (is_number && is_unit).then_some((number, unit))
}

/// Maximum values of a property that are listed; more are counted.
const MOST_VALUES: usize = 12;
/// The value of a property at points without it.
const NONE: &str = "none";

/// The networks of a study's points, for computations of the report: the bytes that each link adds to a packet, and the links of
/// each flow's data. If points differ in these, each network lists its `points`.
fn networks<'a>(points: impl Iterator<Item = &'a Scenario>) -> Value {
    let mut found: Vec<(Value, Value, Vec<&str>)> = Vec::new();
    for scenario in points {
        let links: Map<_, _> =
            scenario.links.iter().map(|link| (link.name.to_string(), json!(link.spec.overhead))).collect();
        let path = |flow: &FlowSpec| -> Vec<_> {
            flow.forward
                .iter()
                .filter_map(|&number| scenario.links.get(number as usize))
                .map(|link| &*link.name)
                .collect()
        };
        let paths: Map<_, _> = scenario.flows.iter().map(|flow| (flow.name.to_string(), json!(path(flow)))).collect();
        let (links, paths) = (Value::Object(links), Value::Object(paths));
        match found.iter_mut().find(|(others, ways, _)| *others == links && *ways == paths) {
            Some((.., points)) => points.push(&scenario.point),
            None => found.push((links, paths, vec![&scenario.point])),
        }
    }
    let is_one = found.len() == 1;
    let networks = found.into_iter().map(|(overhead_bytes, paths, points)| {
        let mut network = json!({"overhead_bytes": overhead_bytes, "paths": paths});
        if !is_one {
            network["points"] = json!(points);
        }
        network
    });
    Value::Array(networks.collect())
}
