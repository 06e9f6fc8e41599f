//! A study as the page draws it: its runs, and the network of one of them.

use std::collections::BTreeSet;

use perigee_study::{setup_json, FlowSpec, Run, Scenario, Study};
use perigee_units::Time;
use serde_json::{json, Map, Value};

/// The study with all its runs, and the network of `drawn`.
pub(crate) fn describe(study: &Study, runs: &[Run], drawn: &Run, is_reducible: bool) -> Value {
    let points: Vec<Map<String, Value>> = runs.iter().map(point_of).collect();
    let varies: Vec<&String> = points.first().into_iter().flat_map(Map::keys).collect();
    let short = short_names(&varies);
    let named = |(run, point): (&Run, &Map<String, Value>)| {
        let parts: Vec<String> = point.iter().map(|(key, value)| label(&short, key, value)).collect();
        json!({"index": run.index, "round": run.round, "label": parts.join(", "), "values": point})
    };
    let mut described = network(drawn);
    for (key, value) in [
        ("name", json!(study.name())),
        ("title", json!(study.title())),
        ("about", json!(study.about())),
        ("rounds", json!(runs.last().map_or(0, |run| run.round + 1))),
        ("reducible", json!(is_reducible)),
        ("varies", json!(varies)),
        ("runs", runs.iter().zip(&points).map(named).collect()),
    ] {
        described[key] = value;
    }
    described
}

/// The varied keys of a run's point with their values.
fn point_of(run: &Run) -> Map<String, Value> {
    serde_json::from_str(&run.scenario.point).unwrap_or_default()
}

/// Each key with its last part, or whole where others end in the same.
fn short_names<'a>(keys: &[&'a String]) -> Vec<(&'a str, &'a str)> {
    let last = |key: &'a str| key.rsplit('.').next().unwrap_or(key);
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<&str> = keys.iter().map(|key| last(key)).filter(|part| !seen.insert(*part)).collect();
    keys.iter().map(|key| (key.as_str(), if twice.contains(last(key)) { key.as_str() } else { last(key) })).collect()
}

fn label(short: &[(&str, &str)], key: &str, value: &Value) -> String {
    let name = short.iter().find(|(whole, _)| *whole == key).map_or(key, |(_, short)| short);
    match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    }
}

/// Nodes, links, flows and proxies of a run, with the words of reports.
fn network(run: &Run) -> Value {
    let scenario = &*run.scenario;
    let words: Value = serde_json::from_str(&setup_json(std::slice::from_ref(run))).unwrap_or_default();
    let node = |number: u32| scenario.nodes.get(number as usize).map_or("", |name| name);
    let links = scenario.links.iter().zip(0..).map(|(link, place)| {
        json!({
            "name": &*link.name,
            "from": node(link.from),
            "to": node(link.to),
            "mean_mbps": finite(link.spec.rate.mean_bps() / 1e6),
            "words": words_of(&words["links"], place),
        })
    });
    let flows = scenario
        .flows
        .iter()
        .zip(0..)
        .map(|(flow, place)| flow_json(scenario, flow, &words_of(&words["flows"], place)));
    let proxies = scenario
        .proxies
        .iter()
        .zip(0..)
        .map(|(proxy, place)| json!({"name": &*proxy.name, "words": words_of(&words["proxies"], place)}));
    json!({
        "time_limit_s": scenario.time_limit.as_secs_f64(),
        "series_s": scenario.measure.series.map(Time::as_secs_f64),
        "nodes": scenario.nodes.iter().map(|name| &**name).collect::<Vec<&str>>(),
        "links": links.collect::<Value>(),
        "flows": flows.collect::<Value>(),
        "proxies": proxies.collect::<Value>(),
    })
}

fn flow_json(scenario: &Scenario, flow: &FlowSpec, words: &Value) -> Value {
    let node = |number: u32| scenario.nodes.get(number as usize).map_or("", |name| name);
    let path = |links: &[u32]| -> Value {
        links.iter().filter_map(|number| scenario.links.get(*number as usize)).map(|link| json!(&*link.name)).collect()
    };
    json!({
        "name": &*flow.name,
        "kind": flow.traffic.kind(),
        "from": node(flow.from),
        "to": node(flow.to),
        "cc": flow.traffic.tcp().map_or("", |tcp| tcp.cc.algorithm().name()),
        "start_s": flow.start.as_secs_f64(),
        "path": path(&flow.forward),
        "back": path(&flow.back),
        "words": words,
    })
}

/// The properties of the thing at a place of a list.
fn words_of(things: &Value, place: usize) -> Value {
    things.get(place).and_then(|thing| thing.get("properties")).cloned().unwrap_or_else(|| json!([]))
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
