//! Links, hosts and flows in words, for the report.

use std::collections::BTreeSet;

use perigee_link::{
    AqmSpec, Body, CodelSpec, DelaySpec, Fluctuation, Jitter, LinkSpec, LogNormal, LossSpec, OrbitDelay, QueueSpec,
    RateSpec, RedThresholds, Requests, SlotClock, SlotDelay, SlotJitter, SlotRate, Spike, Steps, TailShape, TdmaSpec,
};
use perigee_orbit::Place;
use perigee_results::Name;
use perigee_settings::{Config, Value as Setting, SETTINGS};
use perigee_units::{Bytes, Rate, Time};
use serde_json::{json, Map, Value};

use crate::routes;
use crate::{FlowSpec, Handshake, IpVersion, Opener, ProxySpec, Run, Scenario};

/// The setup of a study's runs, for its report, as JSON: links, hosts, flows and proxies of all points in words, each with a name and
/// properties in order, and the networks of the points. A property that varies between points has all its values. `experiments` has
/// the same of each experiment's points, by name.
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
type Thing = (Name, Vec<Property>);

fn node(scenario: &Scenario, number: u32) -> Name {
    scenario.nodes.get(number as usize).map_or_else(|| "".into(), Name::clone)
}

fn links_of(scenario: &Scenario) -> Vec<Thing> {
    let links = scenario.links.iter().map(|link| {
        let ends = format!("{} to {}", node(scenario, link.from), node(scenario, link.to));
        let mut properties = vec![("way", ends)];
        properties.extend(link_in_words(&link.spec));
        (link.name.clone(), properties)
    });
    links.collect()
}

fn hosts_of(scenario: &Scenario) -> Vec<Thing> {
    let mut hosts: Vec<Thing> = Vec::new();
    for flow in &scenario.flows {
        if let Some(tcp) = flow.traffic.tcp() {
            for (number, config) in [(flow.from, &tcp.from), (flow.to, &tcp.to)] {
                let host = (node(scenario, number), host_in_words(config));
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
        }
    }
    let datagrams = scenario.flows.iter().filter(|flow| flow.traffic.tcp().is_none());
    for number in datagrams.flat_map(|flow| [flow.from, flow.to]) {
        // Of a host without connections what acts on any packet is all that there is to say.
        let config = Config { processing_time: scenario.processing[number as usize], ..Config::default() };
        let words: Vec<_> =
            config.differences().map(|(setting, value)| (setting.report, setting_in_words(value))).collect();
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
        properties.extend(flow_in_words(flow));
        (flow.name.clone(), properties)
    });
    flows.collect()
}

fn proxies_of(scenario: &Scenario) -> Vec<Thing> {
    let proxies = (0..).zip(&scenario.proxies);
    proxies.map(|(number, proxy)| (proxy.name.clone(), proxy_in_words(number, proxy, scenario))).collect()
}

/// The things of all points as JSON. Those of the same name are one thing, and in points that have several of a name, those
/// of the same place among them.
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

    /// One value as it is; several with the unit once where they have the same.
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

/// More values of a property are counted only.
const MOST_VALUES: usize = 12;
/// What a property is at points that do not have it.
const NONE: &str = "none";

/// The networks of a study's points, for what the report computes: of each link the bytes it adds to a packet, of each flow
/// the links that its data takes. Where points differ in these, each network names its `points`.
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

type Property = (&'static str, String);

fn link_in_words(spec: &LinkSpec) -> Vec<Property> {
    let mut words = vec![("rate", rate(&spec.rate)), ("delay", delay(&spec.delay))];
    if let Some(loaded) = &spec.loaded {
        let text = format!(
            "mean {}, sd {}, redrawn each {}; loaded above {} within {}",
            loaded.delay, loaded.sd, loaded.every, loaded.above, loaded.window
        );
        words.push(("more delay while loaded", text));
    }
    words.push(("queue", queue(&spec.queue)));
    if let Some(text) = management(&spec.queue.aqm) {
        words.push(("queue management", text));
    }
    let losses: Vec<_> = spec.loss.iter().map(loss).collect();
    words.push(("loss", if losses.is_empty() { "none".to_owned() } else { losses.join("; ") }));
    if spec.burst.as_u64() > 0 {
        words.push(("burst", spec.burst.to_string()));
    }
    if spec.overhead > 0 {
        words.push(("overhead per packet", format!("{} B", spec.overhead)));
    }
    words
}

fn recorded<T: Copy + PartialEq>(steps: &Steps<T>) -> String {
    let repeats = steps.period().map_or_else(String::new, |period| format!(", repeats after {period}"));
    format!("recorded, {} steps{repeats}", steps.iter().count())
}

fn rate(spec: &RateSpec) -> String {
    match spec {
        RateSpec::Constant(rate) => rate.to_string(),
        RateSpec::Trace(steps) => recorded(steps),
        RateSpec::Fluctuating(Fluctuation { mean, sd, min, max, every, memory, mood }) => format!(
            "mean {mean}, sd {sd} within a run and {mood} between runs, {min} to {max}; redrawn each {every}, \
             memory {memory}"
        ),
        RateSpec::Slots(slots) => rate_of_slots(slots),
        RateSpec::Tdma(tdma) => channel(tdma),
    }
}

/// A TDMA channel in words.
fn channel(tdma: &TdmaSpec) -> String {
    let requests = match tdma.requests {
        Requests::None => "nothing",
        Requests::Rate => "rates",
        Requests::Volume => "volumes",
        Requests::RateAndVolume => "rates and volumes",
    };
    let free = if tdma.free { ", the rest shared freely" } else { "" };
    let drain = tdma.drain.map_or_else(String::new, |drain| format!(" that drain what waits in {drain}"));
    let background = match tdma.background {
        Rate::ZERO => String::new(),
        rate => format!("; the others request {rate} each"),
    };
    format!(
        "TDMA, {} units of {} per super-frame of {}, at most {}; {} terminals with {} fixed each, requests of {requests}{drain} \
         granted {} later{free}{background}",
        tdma.slots,
        tdma.unit(),
        tdma.superframe,
        tdma.most_rate(),
        tdma.terminals,
        tdma.fixed,
        tdma.allocation_delay(),
    )
}

fn delay(spec: &DelaySpec) -> String {
    match spec {
        DelaySpec::Constant(delay) => delay.to_string(),
        DelaySpec::Trace(steps) => recorded(steps),
        DelaySpec::Jitter(jitter) => moving_delay(jitter),
        DelaySpec::Slots(slots) => delay_of_slots(slots),
        DelaySpec::Orbit(orbit) => delay_of_orbit(orbit),
        DelaySpec::PerPacket(most) => format!("uniform, up to {most}, drawn for each packet"),
    }
}

fn moving_delay(jitter: &Jitter) -> String {
    let Jitter { base, body, min, max, every, memory, .. } = jitter;
    let body = distribution(body);
    let bounds = if *min > Time::ZERO { format!(", {min} to {max}") } else { String::new() };
    let text = format!("{base} and a body ({body}){bounds}; redrawn each {every}, memory {memory}");
    if let Some(tail) = &jitter.tail {
        let shape = match tail.shape {
            TailShape::Pareto { min, shape } => format!("Pareto from {min}, shape {shape}"),
            TailShape::LogNormal { median, sigma } => format!("log-normal, median {median}, sigma {sigma}"),
        };
        let (share, every, max) = (tail.share, tail.every, tail.max);
        format!("{text}; in {share} of the intervals of {every} a tail ({shape}, at most {max})")
    } else {
        text
    }
}

fn distribution(body: &Body) -> String {
    match body {
        Body::Normal { sd } => format!("normal, sd {sd}"),
        Body::Uniform { width } => format!("uniform, up to {width} more"),
        Body::Triangular { width } => format!("triangular, up to {width} more"),
        Body::LogNormal { median, sigma } => format!("log-normal, median {median}, sigma {sigma}"),
    }
}

fn rate_of_slots(slots: &SlotRate) -> String {
    let SlotRate { clock, mean, sd, min, max, memory, every, ripple, outage, busy, shaping } = slots;
    let mut words = vec![
        format!("{}: mean {mean}, sd {sd}, {min} to {max}, memory {memory}", slots_of(clock)),
        format!("within a slot sd {ripple} each {every}"),
    ];
    words.extend(outage.map(|outage| {
        format!("each begins with {} without capacity, then rises over {}", per_slot(&outage.length), outage.rise)
    }));
    words.extend(busy.map(|busy| format!("{} of it from {} to {} of the day", busy.share, busy.from, busy.to)));
    words.extend(
        shaping.map(|shaping| format!("{} of it for {} from {} on", shaping.share, shaping.length, shaping.after)),
    );
    words.join("; ")
}

fn delay_of_slots(slots: &SlotDelay) -> String {
    let SlotDelay { clock, mean, sd, min, max, memory, jitter, spikes } = slots;
    let mut words = vec![format!("{}: mean {mean}, sd {sd}, {min} to {max}, memory {memory}", slots_of(clock))];
    words.extend(overlay(jitter.as_ref(), spikes));
    words.join("; ")
}

fn overlay(jitter: Option<&SlotJitter>, spikes: &[Spike]) -> Vec<String> {
    let jitter = jitter.map(|jitter| {
        format!("within a slot {}, redrawn each {}, memory {}", distribution(&jitter.body), jitter.every, jitter.memory)
    });
    let spikes = spikes.iter().map(|Spike { before, after, share, length, height }| {
        let (by, when) = if *before > Time::ZERO { (before, "before") } else { (after, "after") };
        let (height, length) = (per_slot(height), per_slot(length));
        format!("{height} more for {length} from {by} {when} the begin of {share} of the slots")
    });
    jitter.into_iter().chain(spikes).collect()
}

fn delay_of_orbit(orbit: &OrbitDelay) -> String {
    let OrbitDelay { clock, path, extra, jitter, spikes } = orbit;
    let spec = path.spec();
    let place = |place: &Place| format!("{} N {} E", place.lat_deg, place.lon_deg);
    let gateways: Vec<String> =
        spec.gateways.iter().map(|gateway| format!("{} ({})", gateway.name, place(&gateway.place))).collect();
    let day = spec.date.to_string();
    let mut words = vec![
        format!(
            "{} satellites on {}",
            path.constellation().satellites.len(),
            day.split('T').next().unwrap_or_default()
        ),
        format!("user at {} above {} degrees", place(&spec.user), spec.elevation_deg),
        format!("gateways {} above {} degrees", gateways.join(", "), spec.gateway_elevation_deg),
        if spec.isl { "over lasers".to_owned() } else { "one satellite".to_owned() },
        format!("weights elevation {}, age {}, load {}", spec.weights.elevation, spec.weights.age, spec.weights.load),
        slots_of(clock),
        format!("light and {extra}"),
    ];
    words.extend(overlay(jitter.as_ref(), spikes));
    words.extend(path.warnings().into_iter().map(|warning| format!("warning: {warning}")));
    words.join("; ")
}

fn slots_of(clock: &SlotClock) -> String {
    let when = clock.time_of_day.map_or_else(|| "drawn per run".to_owned(), |time| time.to_string());
    format!("slots of {} from second {} of a minute, time of day {when}", clock.period, clock.phase.as_secs_f64())
}

fn per_slot(value: &LogNormal) -> String {
    format!("{} (log-normal, sigma {}, at most {})", value.median, value.sigma, value.max)
}

fn queue(spec: &QueueSpec) -> String {
    let limits: Vec<_> = [
        spec.bytes.map(|limit| limit.to_string()),
        spec.packets.map(|limit| format!("{limit} packets")),
        spec.time.map(|limit| limit.to_string()),
        spec.bytes_over_time.as_ref().map(|steps| recorded(steps)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if limits.is_empty() {
        "without limit".to_owned()
    } else {
        limits.join(", ")
    }
}

fn management(spec: &AqmSpec) -> Option<String> {
    match spec {
        AqmSpec::None => None,
        AqmSpec::Viasat2 { threshold, drop } => Some(format!("drops {drop} of arrivals over {threshold} of the limit")),
        AqmSpec::Red(red) => {
            let adaptive = if red.adaptive { "adaptive " } else { "" };
            let thresholds = match red.thresholds {
                RedThresholds::Bytes { min, max } => format!("{min} to {max}"),
                RedThresholds::Packets { min, max } => format!("{min} to {max} packets"),
            };
            let probability = red.max_probability;
            Some(format!("{adaptive}RED, {thresholds}, at most {probability}{}", marks(red.ecn)))
        }
        AqmSpec::Pie(pie) => Some(format!("PIE, target {}, updated each {}{}", pie.target, pie.update, marks(pie.ecn))),
        AqmSpec::Codel(codel) => Some(format!("CoDel, {}", controlled_delay(codel))),
        AqmSpec::DualPi2(dual) => {
            let (target, coupling, share) = (dual.target, dual.coupling, dual.classic_share);
            Some(format!("DualPI2 (L4S), target {target}, coupling {coupling}, classic share {share}"))
        }
        AqmSpec::FqCodel { queues, codel, .. } => {
            Some(format!("FQ-CoDel, {queues} queues, {}", controlled_delay(codel)))
        }
    }
}

fn controlled_delay(codel: &CodelSpec) -> String {
    format!("target {}, interval {}{}", codel.target, codel.interval, marks(codel.ecn))
}

fn marks(ecn: bool) -> &'static str {
    if ecn {
        ", marks"
    } else {
        ""
    }
}

fn loss(spec: &LossSpec) -> String {
    match spec {
        LossSpec::Bernoulli(probability) => format!("{probability} of the packets"),
        LossSpec::Trains { loss, packets } => format!("{loss} of trains of up to {packets} packets"),
        LossSpec::GilbertElliott { good_to_bad, bad_to_good, good_loss, bad_loss } => {
            format!("Gilbert-Elliott: turns bad {good_to_bad}, good {bad_to_good}; loses {good_loss} and {bad_loss}")
        }
        LossSpec::Outages { gap, length, loss } => {
            format!("{loss} in outages of {length}, {gap} apart on average")
        }
        LossSpec::Periodic { period, phase, length, loss } => {
            format!("{loss} for {length} every {period}, from {phase} on")
        }
        LossSpec::Slots(slots) => format!(
            "{} from {} before to {} after the begin of {} of the {}",
            slots.loss,
            slots.before,
            slots.after,
            slots.share,
            slots_of(&slots.clock)
        ),
        LossSpec::Trace(steps) => recorded(steps),
    }
}

fn host_in_words(config: &Config) -> Vec<Property> {
    let settings = SETTINGS.iter().map(|setting| (setting.report, setting_in_words(setting.get(config))));
    settings.chain([("largest receive window", size(config.largest_window()))]).collect()
}

fn setting_in_words(value: Setting) -> String {
    match value {
        Setting::Switch(true) => "on".to_owned(),
        Setting::Switch(false) => "off".to_owned(),
        Setting::Count(u32::MAX) => "unlimited".to_owned(),
        Setting::Count(count) => count.to_string(),
        Setting::Duration(time) => time.to_string(),
        Setting::Size(bytes) => size(bytes),
        Setting::Sizes(sizes) => sizes.map(size).join(", "),
        Setting::Choice(word) => word.to_owned(),
    }
}

/// A size, in bytes up to 9999 B: in decimal units where it is a whole number of kilobytes, in binary ones where it is a
/// quarter of one, otherwise rounded to 1 kB.
fn size(bytes: Bytes) -> String {
    let exact = bytes.as_u64();
    if exact < 10_000 {
        return format!("{exact} B");
    }
    if exact % 1000 == 0 {
        return bytes.to_string();
    }
    let binary = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match binary.into_iter().find(|&(_, unit)| exact >= unit && exact % (unit / 4) == 0) {
        Some((name, unit)) => format!("{} {name}", exact as f64 / unit as f64),
        None => Bytes::new((exact + 500) / 1000 * 1000).to_string(),
    }
}

fn proxy_in_words(number: u32, proxy: &ProxySpec, scenario: &Scenario) -> Vec<Property> {
    let handshake = match proxy.handshake {
        Handshake::Accept => "with the end that opens first",
        Handshake::Connect => "with the other end first",
    };
    let legs =
        |flow: &&FlowSpec| flow.traffic.tcp().is_some_and(|tcp| tcp.legs.iter().any(|leg| leg.proxy == Some(number)));
    let split = scenario.flows.iter().filter(legs).count();
    vec![
        ("node", scenario.nodes[proxy.node as usize].to_string()),
        ("handshake", handshake.to_owned()),
        ("buffer per connection and direction", proxy.buffer.to_string()),
        ("memory", proxy.memory.to_string()),
        ("flows that it splits", split.to_string()),
    ]
}

fn flow_in_words(flow: &FlowSpec) -> Vec<Property> {
    let mut words = vec![("kind", flow.traffic.kind().to_owned())];
    words.push(("amount", flow.traffic.to_string()));
    if flow.ip == IpVersion::V6 {
        words.push(("packets", "IPv6".to_owned()));
    }
    if let Some(tcp) = flow.traffic.tcp() {
        let opener = if tcp.opened_by == Opener::Sender { "the sender" } else { "the receiver" };
        words.push(("opened by", opener.to_owned()));
        if !tcp.legs.is_empty() {
            words.push(("legs", format!("{}, split by proxies", tcp.legs.len())));
        }
        let parameters = if matches!(&*tcp.cc_params, "" | "{}") { "" } else { &*tcp.cc_params };
        words.push(("congestion control", format!("{} {parameters}", tcp.cc.algorithm().name()).trim_end().to_owned()));
    }
    words.push(("start", flow.start.to_string()));
    words
}
