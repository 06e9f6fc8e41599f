//! A study as the page draws it: its runs, and the network of one of them.

use std::collections::BTreeSet;

use perigee_link::{Course, DelaySpec, LinkSpec};
use perigee_results::Name;
use perigee_study::{setup_json, FlowSpec, Layout, Run, Scenario, Study};
use perigee_units::Time;
use serde_json::{json, Map, Value};

/// The study with the first `most` of its runs, and the network of `drawn`.
pub(crate) fn describe(study: &Study, layout: &Layout, drawn: &Run, most: u32, is_reducible: bool) -> Value {
    let first = values_of(&layout.point(0).1);
    let varies: Vec<&String> = first.keys().collect();
    let short = short_names(&varies);
    let named = |index| {
        let (round, point) = layout.point(index);
        let values = values_of(&point);
        let parts: Vec<String> = values.iter().map(|(key, value)| label(&short, key, value)).collect();
        json!({"index": index, "round": round, "label": parts.join(", "), "values": values})
    };
    let mut described = network(drawn);
    for (key, value) in [
        ("name", json!(study.name())),
        ("title", json!(study.title())),
        ("about", json!(study.about())),
        ("rounds", json!(layout.rounds())),
        ("reducible", json!(is_reducible)),
        ("varies", json!(varies)),
        ("count", json!(layout.runs())),
        ("runs", (0..layout.runs().min(most)).map(named).collect()),
    ] {
        described[key] = value;
    }
    described
}

/// The varied keys of a point with their values.
fn values_of(point: &Name) -> Map<String, Value> {
    serde_json::from_str(point).unwrap_or_default()
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
            "delays": delays(&link.spec, run.seed, &link.name, scenario.time_limit),
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

/// The delay of a link over time, where it changes: an interval, and the delay at the begin of each in ms, `null` without a path.
fn delays(spec: &LinkSpec, seed: u64, name: &str, length: Time) -> Option<Value> {
    if let DelaySpec::Constant(_) | DelaySpec::PerPacket(_) = spec.delay {
        return None;
    }
    let every = Time::from_nanos((length.as_nanos() / MOST_DELAYS).max(1));
    let course = Course::new(spec, seed, name, [length, every], length)?;
    let ms: Vec<_> = course.delays.iter().map(|delay| delay.map(Time::as_millis_f64)).collect();
    Some(json!({"every_s": every.as_secs_f64(), "ms": ms}))
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
        "cc": flow.traffic.congestion_control().map_or("", |(cc, _)| cc.algorithm().name()),
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

/// Values of a delay over time that a page is given at most.
const MOST_DELAYS: u64 = 1200;
