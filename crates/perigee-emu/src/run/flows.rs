//! Creates a study's flows before the run starts: applications over sockets, and their observers.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::Arc;

use perigee_pep::Channel;
use perigee_study::{FlowSpec, Opener, QuicLoad, Run, Tcp, Traffic};
use perigee_traffic::Population;
use perigee_wire::Ports;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use crate::os::clock::RunClock;
use crate::os::namespace::Namespace;
use crate::run::access::{AccessLevels, UserAccess};
use crate::run::connection::ConnectionObserver;
use crate::run::controls::Controls;
use crate::run::datagrams::{headers, DatagramSender, NUMBER};
use crate::run::legs::{Legs, SenderSocket};
use crate::run::observers::FlowObserver;
use crate::run::population::PopulationSockets;
use crate::run::population_observer::PopulationObserver;
use crate::run::probes::Probes;
use crate::run::proxies::Proxies;
use crate::run::quic::{Carrying, QuicApplication, RealKeys};
use crate::run::sockets::{FlowEnd, SocketOptions, SocketPair, IP_AND_TCP};
use crate::run::tcp_application::TcpApplication;
use crate::run::tcp_report::TcpReport;

/// The application of a flow, before its start.
pub(crate) enum Application<'a> {
    Tcp(TcpApplication),
    Population(Box<PopulationSockets<'a>>),
    Datagrams(DatagramSender),
    Quic(Box<QuicApplication<'a>>),
}

impl Application<'_> {
    /// Runs the application until it is complete or stopped.
    pub(crate) fn carry(self, clock: RunClock, stop: &AtomicBool) -> io::Result<()> {
        match self {
            Self::Tcp(application) => application.carry(clock, stop),
            Self::Population(population) => population.carry(clock, stop),
            Self::Datagrams(datagrams) => datagrams.carry(clock, stop),
            Self::Quic(quic) => quic.carry(clock, stop),
        }
    }
}

/// A run's flows.
pub(crate) struct Flows<'a> {
    pub(crate) applications: Vec<Application<'a>>,
    pub(crate) observers: Vec<FlowObserver>,
    /// Users behind access delays.
    pub(crate) users: Vec<Option<UserAccess>>,
}

/// Creates sockets and observers of a run's flows; packets of `mtu` fit the devices. `apart` are channels to processes that carry
/// flows, by the flows' numbers.
pub(crate) fn make<'a>(
    run: &'a Run,
    nodes: &'a [Namespace],
    mtu: u32,
    controls: &'a Controls,
    proxies: &Proxies<'_>,
    mut apart: BTreeMap<u32, OwnedFd>,
) -> io::Result<Flows<'a>> {
    let measure = &run.scenario.measure;
    let mut flows = Flows { applications: Vec::new(), observers: Vec::new(), users: Vec::new() };
    make_room(run);
    let mut keys: Option<Arc<RealKeys>> = None;
    for (number, spec) in (0..).zip(&run.scenario.flows) {
        let start = spec.start_in(run.seed);
        let (from_port, to_port) = spec.ports(number);
        let place = |node: u32, port| FlowEnd {
            node: &nodes[node as usize],
            address: SocketAddr::new(spec.address(node), port),
        };
        let places = [place(spec.from, from_port), place(spec.to, to_port)];
        let options = |tcp: &Tcp| SocketOptions {
            cc: controls.name_of(&tcp.cc),
            paced: tcp.from.pacing,
            mss: smaller_segments(spec, tcp, mtu),
        };
        let mut users = None;
        let (application, observer) = match &spec.traffic {
            Traffic::Tcp { tcp, app } => {
                let sockets = SocketPair::new(places, tcp.opened_by == Opener::Sender, options(tcp))?;
                let report = Arc::new(TcpReport::new(spec.script(app, start, run.seed)));
                let legs = Legs::new(&tcp.legs, senders((number, spec), tcp, &report, proxies), app.amount(), measure);
                let connection = ConnectionObserver::new(start, (tcp, app), measure, Arc::clone(&report), legs);
                (
                    Application::Tcp(TcpApplication { start, sockets, report }),
                    FlowObserver::Connection(Box::new(connection)),
                )
            }
            Traffic::Population { tcp, population } => {
                let (sockets, observer, access) = populate(run, (number, spec), population, places, options(tcp))?;
                users = access;
                (Application::Population(Box::new(sockets)), FlowObserver::Population(Box::new(observer)))
            }
            Traffic::Quic { quic, .. } => {
                let carried = match (apart.remove(&number), &keys) {
                    (Some(process), _) => Carrying::Apart(Channel::of(process)?),
                    (None, Some(made)) => Carrying::Here(made.clone()),
                    (None, None) => Carrying::Here(keys.insert(Arc::new(RealKeys::new()?)).clone()),
                };
                let ends = [spec.from, spec.to].map(|node| &nodes[node as usize]);
                let application = QuicApplication::new(run, (number, quic), ends, carried)?;
                let observer = FlowObserver::Quic(application.report());
                (Application::Quic(Box::new(application)), observer)
            }
            Traffic::Datagrams(datagrams) => {
                let schedule = spec.schedule(datagrams, start, run.seed);
                let sender = DatagramSender::new(places, (spec, datagrams), schedule.clone())?;
                let address = spec.address(spec.to);
                let probes = Probes::new((start, schedule), datagrams, address, measure, Arc::clone(&sender.report));
                (Application::Datagrams(sender), FlowObserver::Probes(Box::new(probes)))
            }
        };
        flows.applications.push(application);
        flows.observers.push(observer);
        flows.users.push(users);
    }
    Ok(flows)
}

/// The sockets and the observer of a population, and its users if they are behind access delays.
fn populate<'a>(
    run: &Run,
    (number, spec): (u32, &FlowSpec),
    population: &Population,
    places: [FlowEnd<'a>; 2],
    options: SocketOptions<'a>,
) -> io::Result<(PopulationSockets<'a>, PopulationObserver, Option<UserAccess>)> {
    let start = spec.start_in(run.seed);
    let levels = Arc::new(AccessLevels::new(population.access));
    let (reports, listener) = channel();
    let users = population.has_access_delays().then(|| {
        let (levels, reports) = (Arc::clone(&levels), reports.clone());
        UserAccess { node: spec.to, address: spec.address(spec.to), levels, reports }
    });
    let (visits, ledger) = spec.visits(population, start, run.seed, &run.scenario.measure);
    let (flow, span) = ((number, spec.name.clone()), (start, ledger.end(), visits));
    let is_split = spec.traffic.tcp().is_some_and(|tcp| !tcp.legs.is_empty());
    let observer = PopulationObserver::new(population, is_split, ledger, listener);
    let sockets = PopulationSockets::new(flow, places, span, options, (levels, reports))?;
    Ok((sockets, observer, users))
}

/// The sockets that send the data of a flow's legs.
fn senders(flow: (u32, &FlowSpec), tcp: &Tcp, report: &Arc<TcpReport>, proxies: &Proxies<'_>) -> Vec<SenderSocket> {
    let own = tcp.legs.first().map(|_| SenderSocket::Flow(Arc::clone(report)));
    let of_proxies = tcp.legs.iter().filter_map(|leg| proxies.sender(flow, leg)).map(SenderSocket::Proxy);
    own.into_iter().chain(of_proxies).collect()
}

/// Raises the limit of descriptors for a run's flows, as far as allowed; creating sockets reports a shortage.
fn make_room(run: &Run) {
    let limit = getrlimit(Resource::Nofile);
    let of_flow = |flow: &FlowSpec| match flow.traffic {
        Traffic::Population { .. } => 2 * u64::from(Ports::DISTINCT),
        Traffic::Quic { load: QuicLoad::Population(_), .. } => u64::from(Ports::DISTINCT),
        Traffic::Tcp { .. } | Traffic::Quic { .. } | Traffic::Datagrams(_) => PER_FLOW,
    };
    let needed = run.scenario.flows.iter().map(of_flow).sum::<u64>() + OTHERS;
    if limit.current.is_some_and(|current| current < needed) {
        let current = limit.maximum.map_or(needed, |most| most.min(needed));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
    }
}

/// Why a run's flows are not supported; `None` if they are.
pub(crate) fn impossible(run: &Run) -> Option<String> {
    let flows = &run.scenario.flows;
    if flows.len() > MOST_FLOWS {
        return Some(format!("{} flows are more than the {MOST_FLOWS} that are carried at a time", flows.len()));
    }
    if let Err(refused) = perigee_sim::quic::check(run) {
        return Some(refused.to_string());
    }
    flows.iter().find_map(|flow| match &flow.traffic {
        Traffic::Datagrams(datagrams) if !datagrams.is_answered() => {
            let packet = datagrams.smallest_packet();
            let least = headers(flow.address(flow.to)) + NUMBER;
            (packet.as_u64() < least as u64).then(|| {
                let name = &flow.name;
                format!("flow `{name}` has packets of {packet}, which have no room for their number; give them {least} B or more")
            })
        }
        Traffic::Tcp { tcp, .. } | Traffic::Population { tcp, .. }
            if flow.ip.segment(tcp.from.mss.min(tcp.to.mss)) < LEAST_SEGMENT =>
        {
            let least = flow.ip.header_bytes() - 20 + LEAST_SEGMENT;
            let name = &flow.name;
            Some(format!("flow `{name}` has smaller segments than Linux takes; set `mss` to {least} B or more"))
        }
        Traffic::Tcp { .. } | Traffic::Population { .. } | Traffic::Quic { .. } | Traffic::Datagrams(_) => None,
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
/// Linux's `TCP_MIN_MSS`.
const LEAST_SEGMENT: u16 = 88;
