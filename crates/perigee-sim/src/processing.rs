//! Hosts with processing time: each has a link of unlimited rate before the first link of its packets. This link is in no table or capture,
//! and hosts without processing time have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use perigee_link::{DelaySpec, LinkSpec};
use perigee_study::{RunLink, Scenario};
use perigee_units::{Rate, Time};

/// The links inside hosts, and the paths over them.
pub(crate) struct Processing {
    /// Links inside hosts, from a node to itself, numbered after those of the study.
    pub(crate) links: Vec<RunLink>,
    /// Each way's links.
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

/// The link of a host with this mean processing time. Its random stream is named after the host, so that points with different times use
/// the same draws; for connections whose `tcp` overrides the time, the stream is named after both.
fn link_of_host(scenario: &Scenario, node: u32, mean: Time) -> RunLink {
    let host = &scenario.nodes[node as usize];
    let is_own = scenario.processing[node as usize] == mean;
    let name = if is_own { format!("host/{host}") } else { format!("host/{host}/{}", mean.as_nanos()) };
    let delay = DelaySpec::PerPacket(mean * 2);
    let spec = LinkSpec { delay, ..LinkSpec::constant(Rate::UNLIMITED, Time::ZERO) };
    RunLink { name: name.into(), from: node, to: node, mtu: None, spec: Arc::new(spec) }
}
