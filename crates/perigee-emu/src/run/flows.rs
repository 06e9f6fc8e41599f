//! Creates a study's flows before the run starts: applications over sockets, and their observers.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use perigee_study::{FlowSpec, Opener, Run, Tcp, Traffic};
use perigee_wire::Ports;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use crate::os::clock::RunClock;
use crate::os::namespace::Namespace;
use crate::run::connection::Connection;
use crate::run::controls::Controls;
use crate::run::datagrams::{headers, DatagramSender, NUMBER};
use crate::run::observers::FlowObserver;
use crate::run::probes::Probes;
use crate::run::sockets::{FlowEnd, SocketOptions, SocketPair};
use crate::run::tcp_application::TcpApplication;
use crate::run::tcp_report::TcpReport;

/// The application of a flow, ready to start.
pub(crate) enum Application {
    Tcp(TcpApplication),
    Datagrams(DatagramSender),
}

impl Application {
    /// Carries the flow until it is complete or stopped.
    pub(crate) fn carry(self, clock: RunClock, stop: &AtomicBool) -> io::Result<()> {
        match self {
            Self::Tcp(application) => application.carry(clock, stop),
            Self::Datagrams(datagrams) => datagrams.carry(clock, stop),
        }
    }
}

/// Creates sockets and observers of a run's flows; packets of `mtu` fit the devices.
pub(crate) fn make(
    run: &Run,
    nodes: &[Namespace],
    mtu: u32,
    controls: &Controls,
) -> io::Result<(Vec<Application>, Vec<FlowObserver>)> {
    let measure = &run.scenario.measure;
    let make = |(number, spec): (u32, &FlowSpec)| {
        let start = spec.start_in(run.seed);
        let (from_port, to_port) = spec.ports(number);
        let place = |node: u32, port| FlowEnd {
            node: &nodes[node as usize],
            address: SocketAddr::new(spec.address(node), port),
        };
        let places = [place(spec.from, from_port), place(spec.to, to_port)];
        let (tcp, app) = match &spec.traffic {
            Traffic::Tcp { tcp, app } => (tcp, app),
            Traffic::Population { .. } => {
                return Err(io::Error::other(format!("flow `{}` is a population", spec.name)))
            }
            Traffic::Datagrams(datagrams) => {
                let schedule = spec.schedule(datagrams, start, run.seed);
                let sender = DatagramSender::new(places, datagrams, schedule.clone())?;
                let address = spec.address(spec.to);
                let probes = Probes::new((start, schedule), datagrams, address, measure, Arc::clone(&sender.report));
                return Ok((Application::Datagrams(sender), FlowObserver::Probes(Box::new(probes))));
            }
        };
        let sender_opens = tcp.opened_by == Opener::Sender;
        let options = SocketOptions {
            cc: controls.name_of(&tcp.cc),
            paced: tcp.from.pacing,
            mss: smaller_segments(spec, tcp, mtu),
        };
        let sockets = SocketPair::new(places, sender_opens, options)?;
        let report = Arc::new(TcpReport::new(spec.script(app, start, run.seed)));
        let connection = Connection::new(start, (tcp, app), measure, Arc::clone(&report));
        Ok((
            Application::Tcp(TcpApplication { start, sockets, report }),
            FlowObserver::Connection(Box::new(connection)),
        ))
    };
    make_room(run.scenario.flows.len() as u64);
    (0..).zip(&run.scenario.flows).map(make).collect()
}

/// Raises the limit of descriptors for so many flows, as far as allowed; creating sockets reports a shortage.
fn make_room(flows: u64) {
    let limit = getrlimit(Resource::Nofile);
    let options = flows * PER_FLOW + OTHERS;
    if limit.current.is_some_and(|current| current < options) {
        let current = limit.maximum.map_or(options, |most| most.min(options));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
    }
}

/// Why a run's flows cannot be carried.
pub(crate) fn impossible(run: &Run) -> Option<String> {
    let flows = &run.scenario.flows;
    if flows.len() > MOST_FLOWS {
        return Some(format!("{} flows are more than the {MOST_FLOWS} that are carried at a time", flows.len()));
    }
    flows.iter().find_map(|flow| match &flow.traffic {
        Traffic::Population { population, .. } => Some(format!(
            "flow `{0}`: the emulator does not have `{1}` flows yet; run it with --engine sim, or without it: \
             --set flows.{0}.count=0",
            flow.name,
            population.name()
        )),
        Traffic::Datagrams(datagrams) if !datagrams.is_answered() => {
            let packet = datagrams.smallest_packet();
            let least = headers(flow.address(flow.to)) + NUMBER;
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
        Traffic::Tcp { .. } | Traffic::Datagrams(_) => None,
    })
}

/// The MSS of a connection, if other flows have larger packets.
fn smaller_segments(spec: &FlowSpec, tcp: &Tcp, mtu: u32) -> Option<u16> {
    let mss = tcp.from.mss.min(tcp.to.mss);
    (u32::from(mss) + IP_AND_TCP < mtu).then(|| spec.ip.segment(mss))
}

/// Descriptors of a flow: its sockets, and copies for its observer.
const PER_FLOW: u64 = 5;
/// Descriptors of everything else.
const OTHERS: u64 = 500;
/// Most flows: each takes descriptors, threads and ports of its own.
const MOST_FLOWS: usize = 10_000;
const _: () = assert!(MOST_FLOWS <= Ports::DISTINCT as usize);
/// Headers without options.
pub(crate) const IP_AND_TCP: u32 = 40;
/// Linux's `TCP_MIN_MSS`.
const LEAST_SEGMENT: u16 = 88;
