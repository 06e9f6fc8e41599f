//! Runs and schedules of a study, for an engine that asks other programs to carry them out. Times in ns, sizes in bytes.

use std::collections::BTreeMap;

use perigee_results::Amount;
use perigee_settings::{Config, Value};
use perigee_study::{FlowSpec, IpVersion, Live, Opener, Run, Traffic};
use perigee_traffic::{App, Constant, Datagrams};
use perigee_units::{Bytes, Time};
use pyo3::prelude::*;

use crate::observe::Measure;

/// `[live]` of a study, see `perigee_study::Live`; `servers` has of other nodes the host and the port, `agents` the name and the
/// address.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct LiveSettings {
    here: Option<String>,
    servers: BTreeMap<String, (String, u16)>,
    agents: BTreeMap<String, (String, Option<String>)>,
    cc_names: BTreeMap<String, String>,
    own_tcp: bool,
    bind: Option<String>,
    pause_ns: u64,
    every_ns: Option<u64>,
    by_round: bool,
    span_ns: Option<u64>,
    retries: u32,
    backoff_ns: u64,
    again: bool,
    timeout_ns: u64,
    connect_timeout_ns: u64,
}

impl From<&Live> for LiveSettings {
    fn from(live: &Live) -> Self {
        let servers = live.servers.iter().map(|(node, host, port)| (node.clone(), (host.clone(), *port)));
        let agents = live
            .agents
            .iter()
            .map(|(node, name, address)| (node.clone(), (name.clone(), address.map(|address| address.to_string()))));
        Self {
            here: live.here.clone(),
            servers: servers.collect(),
            agents: agents.collect(),
            cc_names: live.cc_names.iter().cloned().collect(),
            own_tcp: live.own_tcp,
            bind: live.bind.clone(),
            pause_ns: live.pause.as_nanos(),
            every_ns: live.every.map(Time::as_nanos),
            by_round: live.by_round,
            span_ns: live.span.map(Time::as_nanos),
            retries: live.retries,
            backoff_ns: live.backoff.as_nanos(),
            again: live.again,
            timeout_ns: live.timeout.as_nanos(),
            connect_timeout_ns: live.connect_timeout.as_nanos(),
        }
    }
}

/// A run for other programs. `events` and `states` say whether the study asks for them, `pcap` has the nodes that capture their packets.
#[pyclass(frozen, get_all, module = "perigee._core")]
pub(crate) struct LiveRun {
    point: String,
    time_limit_ns: u64,
    measure: Measure,
    events: bool,
    states: bool,
    pcap: Vec<String>,
    split_flows: Vec<String>,
    routes_change: bool,
    flows: Vec<LiveFlow>,
}

impl From<&Run> for LiveRun {
    fn from(run: &Run) -> Self {
        let (scenario, measure) = (&run.scenario, &run.scenario.measure);
        Self {
            point: scenario.point.to_string(),
            time_limit_ns: scenario.time_limit.as_nanos(),
            measure: Measure(measure.clone()),
            events: measure.events,
            states: measure.states.is_some(),
            pcap: measure.pcap.iter().map(|node| scenario.nodes[*node as usize].to_string()).collect(),
            split_flows: split(&scenario.flows),
            routes_change: !scenario.reroutes.is_empty(),
            flows: scenario.flows.iter().map(|flow| LiveFlow::new(flow, run)).collect(),
        }
    }
}

/// The names of the flows that proxies of the study split.
fn split(flows: &[FlowSpec]) -> Vec<String> {
    let is_split = |flow: &&FlowSpec| flow.traffic.tcp().is_some_and(|tcp| !tcp.legs.is_empty());
    flows.iter().filter(is_split).map(|flow| flow.name.to_string()).collect()
}

/// A flow of a run. `size` and `length_ns` are its extent, of TCP either; `rate_bps` and `packet` are those of UDP, otherwise 0, and
/// `tos` the byte of its headers with DSCP and ECN field. `has_rate`: the application of a bulk flow offers data at a rate. Of TCP:
/// the congestion control and its parameters as JSON, and the settings of both hosts that are not Linux's defaults; of UDP those of the
/// sender that act on any packet.
#[pyclass(frozen, get_all, module = "perigee._core")]
#[derive(Clone)]
pub(crate) struct LiveFlow {
    name: String,
    kind: &'static str,
    from_node: String,
    to_node: String,
    v6: bool,
    start_ns: u64,
    cc: String,
    cc_params: String,
    opened_by_sender: bool,
    size: Option<u64>,
    length_ns: Option<u64>,
    rate_bps: u64,
    has_rate: bool,
    packet: u64,
    tos: u8,
    sender_tcp: BTreeMap<&'static str, SettingValue>,
    receiver_tcp: BTreeMap<&'static str, SettingValue>,
}

impl LiveFlow {
    fn new(flow: &FlowSpec, run: &Run) -> Self {
        let node = |number: u32| run.scenario.nodes[number as usize].to_string();
        let blank = Self {
            name: flow.name.to_string(),
            // iperf3 carries none over QUIC, whatever their kind.
            kind: if flow.traffic.quic().is_some() { "quic" } else { flow.traffic.kind() },
            from_node: node(flow.from),
            to_node: node(flow.to),
            v6: flow.ip == IpVersion::V6,
            start_ns: flow.start_in(run.seed).as_nanos(),
            cc: String::new(),
            cc_params: "{}".to_owned(),
            opened_by_sender: false,
            size: None,
            length_ns: None,
            rate_bps: 0,
            has_rate: false,
            packet: 0,
            tos: flow.traffic_class(),
            sender_tcp: BTreeMap::new(),
            receiver_tcp: BTreeMap::new(),
        };
        match &flow.traffic {
            Traffic::Tcp { tcp, app } => {
                // iperf3 has no other applications.
                let amount = if let App::Bulk(bulk) = app { Some(bulk.amount) } else { None };
                let (size, length_ns) = match amount {
                    Some(Amount::Size(size)) => (Some(size.as_u64()), None),
                    Some(Amount::Duration(length)) => (None, Some(length.as_nanos())),
                    None => (None, None),
                };
                Self {
                    has_rate: matches!(app, App::Bulk(bulk) if !bulk.offered.is_empty()),
                    cc: tcp.cc.algorithm().name().to_owned(),
                    cc_params: tcp.cc_params.to_string(),
                    opened_by_sender: tcp.opened_by == Opener::Sender,
                    size,
                    length_ns,
                    sender_tcp: differences(&tcp.from),
                    receiver_tcp: differences(&tcp.to),
                    ..blank
                }
            }
            Traffic::Datagrams(Datagrams::Constant(Constant { rate, packet, duration })) => {
                let processing_time = run.scenario.processing[flow.from as usize];
                Self {
                    rate_bps: rate.as_bps(),
                    packet: packet.as_u64(),
                    length_ns: Some(duration.as_nanos()),
                    sender_tcp: differences(&Config { processing_time, ..Config::default() }),
                    ..blank
                }
            }
            Traffic::Population { .. } | Traffic::Quic { .. } | Traffic::Datagrams(_) => blank,
        }
    }
}

/// The value of a TCP setting: in Python a `bool`, an `int`, a list of three, or a `str`.
#[derive(Clone, IntoPyObject)]
pub(crate) enum SettingValue {
    Switch(bool),
    Number(u64),
    Sizes(Vec<u64>),
    Choice(&'static str),
}

/// The settings that are not Linux's defaults, by the names that studies have for them.
fn differences(config: &Config) -> BTreeMap<&'static str, SettingValue> {
    config.differences().map(|(setting, value)| (setting.name, value.into())).collect()
}

impl From<Value> for SettingValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Switch(on) => Self::Switch(on),
            Value::Count(count) => Self::Number(count.into()),
            Value::Duration(time) => Self::Number(time.as_nanos()),
            Value::Size(size) => Self::Number(size.as_u64()),
            Value::Sizes(sizes) => Self::Sizes(sizes.map(Bytes::as_u64).to_vec()),
            Value::Choice(word) => Self::Choice(word),
        }
    }
}
