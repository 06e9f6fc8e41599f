//! A study's flows as applications over sockets, each made before the first of them begins.

use std::io;
use std::net::IpAddr;

use perigee_study::{Amount, App, FlowSpec, Opener, Run, Tcp, Traffic};
use perigee_units::Bytes;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use crate::apps::{self, Application, Bulk, Ends, Wanted};
use crate::controls::Controls;
use crate::datagrams::{headers, Datagrams, Nodes, Pace, NUMBER};
use crate::hosts::address;
use crate::namespace::Namespace;
use crate::requests::{Requests, Talk};

/// Makes the sockets of a run's flows; packets of `mtu` fit on its devices.
pub(crate) fn applications(
    run: &Run,
    nodes: &[Namespace],
    mtu: u32,
    controls: &Controls,
) -> io::Result<Vec<Application>> {
    let make = |(spec, port): (&FlowSpec, u16)| {
        let start = spec.start_in(run.seed);
        let (tcp, app) = match Carried::of(&spec.traffic) {
            Carried::Connection(tcp, app) => (tcp, app),
            Carried::Packets(pace, packet) => {
                let (from, to) = (&nodes[spec.from as usize], &nodes[spec.to as usize]);
                let nodes = Nodes { from, to, address: address_of(spec, spec.to), port };
                return Datagrams::new(&nodes, start, pace, packet).map(Application::Datagrams);
            }
        };
        let sender_opens = tcp.opened_by == Opener::Sender;
        let (opener, other) = if sender_opens { (spec.from, spec.to) } else { (spec.to, spec.from) };
        let far = (address_of(spec, other), &nodes[other as usize]);
        let wanted =
            Wanted { cc: controls.name_of(&tcp.cc), paced: tcp.from.pacing, mss: smaller_segments(spec, tcp, mtu) };
        let ends = Ends::new(&nodes[opener as usize], far, port, sender_opens, wanted)?;
        Ok(match app {
            App::Bulk(amount) => {
                let amount = match amount {
                    Amount::Size(size) => apps::Amount::Bytes(size.as_u64()),
                    Amount::Duration(length) => apps::Amount::Until(start + length),
                };
                Application::Bulk(Bulk { start, amount, ends })
            }
            App::Request { request, response, think, count } => {
                let talk = Talk { request: request.as_u64(), response: response.as_u64(), think, count };
                Application::Requests(Requests { start, talk, ends })
            }
        })
    };
    make_room(run.scenario.flows.len() as u64);
    run.scenario.flows.iter().zip(FIRST_PORT..).map(make).collect()
}

/// Asks for as many descriptors as so many flows may need. Where there are not so many, making sockets says so.
fn make_room(flows: u64) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = flows * PER_FLOW + OTHERS;
    if limit.current.is_some_and(|current| current < wanted) {
        let current = limit.maximum.map_or(wanted, |most| most.min(wanted));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
    }
}

/// The address by which a flow knows a node.
pub(crate) fn address_of(flow: &FlowSpec, node: u32) -> IpAddr {
    address(node, flow.ip)
}

/// What carries a flow: a connection, or packets without one.
pub(crate) enum Carried<'a> {
    Connection(&'a Tcp, App),
    /// When they are due, and their size.
    Packets(Pace, Bytes),
}

impl<'a> Carried<'a> {
    pub(crate) fn of(traffic: &'a Traffic) -> Self {
        match traffic {
            Traffic::Tcp { tcp, app } => Self::Connection(tcp, *app),
            Traffic::Udp { rate, packet, duration } => Self::Packets(Pace::Constant(*rate, *duration), *packet),
            Traffic::Ping { interval, packet, count } => Self::Packets(Pace::Each(*interval, *count), *packet),
        }
    }
}

/// Why a run's flows cannot be carried.
pub(crate) fn impossible(run: &Run) -> Option<String> {
    let flows = &run.scenario.flows;
    if flows.len() > MOST_FLOWS {
        return Some(format!("{} flows are more than the {MOST_FLOWS} that are carried at a time", flows.len()));
    }
    flows.iter().find_map(|flow| match &flow.traffic {
        Traffic::Udp { packet, .. } => {
            let least = headers(address_of(flow, flow.to)) + NUMBER;
            (packet.as_u64() < least as u64).then(|| {
                let name = &flow.name;
                format!("flow `{name}` has packets of {packet}, which have no room for their number; give them {least} B or more")
            })
        }
        Traffic::Tcp { tcp, .. } if flow.ip.segment(tcp.from.mss.min(tcp.to.mss)) < LEAST_SEGMENT => {
            let least = flow.ip.header_bytes() - 20 + LEAST_SEGMENT;
            let name = &flow.name;
            Some(format!("flow `{name}` has smaller segments than Linux takes; set `mss` to {least} B or more"))
        }
        Traffic::Tcp { .. } | Traffic::Ping { .. } => None,
    })
}

/// The segments of a connection, where others' packets are larger.
fn smaller_segments(spec: &FlowSpec, tcp: &Tcp, mtu: u32) -> Option<u16> {
    let mss = tcp.from.mss.min(tcp.to.mss);
    (u32::from(mss) + IP_AND_TCP < mtu).then(|| spec.ip.segment(mss))
}

/// The node that listens for the first flow does so here; that for the second at the next port.
pub(crate) const FIRST_PORT: u16 = 10_000;
/// Descriptors of a flow: its sockets, and copies of them for those who look on.
const PER_FLOW: u64 = 5;
/// Descriptors of everything else.
const OTHERS: u64 = 500;
/// Each takes descriptors and threads.
const MOST_FLOWS: usize = 10_000;
/// Headers without options.
pub(crate) const IP_AND_TCP: u32 = 40;
/// Linux's `TCP_MIN_MSS`.
const LEAST_SEGMENT: u16 = 88;
