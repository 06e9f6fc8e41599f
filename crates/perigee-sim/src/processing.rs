//! Hosts that take time for a packet: each has a link without a rate before the first link of its packets' ways. It is in no
//! table and in no capture, and a host that takes none has none.

use std::collections::BTreeMap;
use std::sync::Arc;

use perigee_link::{DelaySpec, LinkSpec};
use perigee_study::{RunLink, Scenario};
use perigee_units::{Rate, Time};

/// The links of hosts, and the ways over them.
pub(crate) struct Processing {
    /// Those of hosts, which lead from a node to itself; they are numbered after those of the study.
    pub(crate) links: Vec<RunLink>,
    /// By way: the links it takes.
    pub(crate) paths: Vec<Vec<u32>>,
}

impl Processing {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut links = Vec::new();
        let mut known = BTreeMap::new();
        let ways = scenario.ways().flatten().zip(scenario.processing_times().flatten());
        let paths = ways.map(|(path, time)| {
            let Some(first) = path.first().filter(|_| time > Time::ZERO) else { return path.clone() };
            let node = scenario.links[*first as usize].from;
            let own = *known.entry((node, time)).or_insert_with(|| {
                links.push(link_of_host(scenario, node, time));
                (scenario.links.len() + links.len() - 1) as u32
            });
            [&[own], &**path].concat()
        });
        let paths = paths.collect();
        Self { links, paths }
    }
}

/// The link of a host that takes this time on average. Its random stream is named after the host, so that points which differ in
/// the time draw alike; that of connections whose `tcp` has another time than their host, after both.
fn link_of_host(scenario: &Scenario, node: u32, mean: Time) -> RunLink {
    let host = &scenario.nodes[node as usize];
    let is_own = scenario.processing[node as usize] == mean;
    let name = if is_own { format!("host/{host}") } else { format!("host/{host}/{}", mean.as_nanos()) };
    let delay = DelaySpec::PerPacket(mean * 2);
    let spec = LinkSpec { delay, ..LinkSpec::constant(Rate::UNLIMITED, Time::ZERO) };
    RunLink { name: name.into(), from: node, to: node, mtu: None, spec: Arc::new(spec) }
}
