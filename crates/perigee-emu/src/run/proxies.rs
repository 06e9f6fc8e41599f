//! The proxies of a run: the service of `perigee-pep` at each node with a proxy, in a thread in the node's namespace.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use perigee_link::RateSpec;
use perigee_pep::{
    Allow, AtLimit, Carried, Config, Embedded, Leg as Settings, Limits, Origin, Portion, Ports, RateSource, Rates,
    Rule, SatelliteLink, Transparent,
};
use perigee_results::{Proxies as Rows, ProxyRow};
use perigee_study::{FlowSpec, Handshake, Leg, LegEnd, LinkQueue, Opener, ProxySpec, Run, Scenario, Traffic};
use perigee_units::{Bytes, Rate, Ratio, Time};
use perigee_wire::Ports as Plan;
use rustix::io::ioctl_fionread;

use crate::os::namespace::Namespace;
use crate::os::tcp_info::{unacknowledged, TcpInfo};
use crate::os::tun::device_of;
use crate::run::controls::Controls;
use crate::run::error::{failed, RunError};
use crate::run::sockets::IP_AND_TCP;

/// The services of a run.
pub(crate) struct Proxies<'a> {
    run: &'a Run,
    /// The service of each proxy; `None` if it splits nothing.
    services: Vec<Option<Arc<Embedded>>>,
    /// The last rate that each has learned of the link whose queue it owns.
    told: Vec<Option<Rate>>,
    /// The most bytes that each proxy has held so far.
    most: Vec<u64>,
}

/// The socket of a proxy that sends the data of a leg.
pub(crate) struct ProxySocket {
    service: Arc<Embedded>,
    source: SocketAddr,
    destination: SocketAddr,
    /// Which of the connection's two sockets: 0 towards the client, 1 towards the server.
    index: usize,
    /// The connection, once it was found.
    found: Option<Carried>,
}

impl<'a> Proxies<'a> {
    /// Starts the services in the nodes' namespaces; packets of `mtu` fit the devices.
    pub(crate) fn start(
        run: &'a Run,
        namespaces: &[Namespace],
        mtu: u32,
        controls: &Controls,
    ) -> Result<Self, RunError> {
        let mut services = Vec::new();
        for (number, proxy) in (0..).zip(&run.scenario.proxies) {
            let config = configuration(&run.scenario, number, mtu, controls);
            let namespace = &namespaces[proxy.node as usize];
            services.push(config.map(|config| embed(proxy, namespace, config)).transpose()?.map(Arc::new));
        }
        let told = run.scenario.proxies.iter().map(|proxy| rate_told(&run.scenario, proxy.queues.first()?, Time::ZERO));
        Ok(Self { run, told: told.collect(), most: vec![0; services.len()], services })
    }

    /// The socket that sends the data of a leg, whose sender is the proxy of the leg before.
    pub(crate) fn sender(&self, flow: (u32, &FlowSpec), before: &Leg) -> Option<ProxySocket> {
        let service = self.services[before.proxy? as usize].clone()?;
        let (opener, [source, destination]) = (flow.1.traffic.tcp()?.opened_by, connection(flow)?);
        let index = usize::from(opener == Opener::Sender);
        Some(ProxySocket { service, source, destination, index, found: None })
    }

    /// Tells the services the rates of the links whose queues they own, each `told` after a change.
    pub(crate) fn tell(&mut self, now: Time) {
        let proxies = self.run.scenario.proxies.iter().zip(&self.services).zip(&mut self.told);
        for ((proxy, service), told) in proxies {
            let Some((queue, service)) = proxy.queues.first().zip(service.as_ref()) else { continue };
            let rate = rate_told(&self.run.scenario, queue, now - queue.told);
            if *told != rate {
                *told = rate;
                service.tell(Rates { send: rate, receive: None });
            }
        }
    }

    /// Samples the held bytes.
    pub(crate) fn look(&mut self) {
        for (service, most) in self.services.iter().zip(&mut self.most) {
            *most = (*most).max(service.as_ref().map_or(0, |service| held(service)));
        }
    }

    /// The states of the proxies at the end of an interval.
    pub(crate) fn sample(&mut self, now: Time, rows: &mut Rows) {
        self.look();
        for ((spec, service), most) in self.run.scenario.proxies.iter().zip(&self.services).zip(&self.most) {
            let carried = service.as_ref().map_or_else(Vec::new, |service| service.carried());
            let unread = carried.iter().filter_map(|one| one.with(|ends| ends.map(unread).iter().sum::<u64>()));
            rows.push(ProxyRow {
                run: self.run.index,
                proxy: spec.name.clone(),
                t_s: now.as_secs_f64(),
                connections: carried.len() as u32,
                unread_bytes: unread.sum(),
                held_bytes: service.as_ref().map_or(0, |service| held(service)),
                held_max_bytes: *most,
            });
        }
    }

    /// The first setting that the kernel refused, or limit that was reached: a deviation from the study.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.run.scenario.proxies.iter().zip(&self.services).find_map(|(spec, service)| {
            let note = service.as_ref()?.notes().into_iter().next()?;
            Some(format!("the proxy `{}`: {note}", spec.name))
        })
    }
}

impl ProxySocket {
    /// The state of the socket; `None` before the connection and after it.
    pub(crate) fn info(&mut self) -> Option<TcpInfo> {
        if self.found.as_ref().is_none_or(|found| !found.is_open()) {
            let ends = (self.source, self.destination);
            self.found = self.service.carried().into_iter().find(|one| (one.source, one.destination) == ends);
        }
        self.found.as_ref()?.with(|sockets| TcpInfo::of(&sockets[self.index]).ok())?
    }
}

/// Why the emulator does not support the proxies of a study; `None` if it does.
pub(crate) fn impossible(scenario: &Scenario) -> Option<String> {
    for (number, proxy) in (0..).zip(&scenario.proxies) {
        let mut split = splits(scenario, number).peekable();
        if split.peek().is_none() {
            continue;
        }
        let name = &proxy.name;
        if let Some(what) = impossible_queue(scenario, proxy) {
            return Some(format!("the proxy `{name}` {what}"));
        }
        if proxy.buffer < LEAST_BUFFER {
            return Some(format!(
                "the proxy `{name}` has a buffer of {}, and the service holds up to {LEAST_BUFFER} beside its sockets; give it \
                 more, or use --engine sim",
                proxy.buffer
            ));
        }
        let mut ends = split.flat_map(|(_, _, [before, after])| [&before.receiver, &after.sender]);
        if ends.any(|end| end.config.pacing) {
            return Some(format!(
                "the proxy `{name}` has `pacing`, which the service has not; leave it to the congestion control, or use \
                 --engine sim"
            ));
        }
    }
    let is_split = |flow: &&FlowSpec| flow.traffic.tcp().is_some_and(|tcp| !tcp.legs.is_empty());
    let flow = scenario.flows.iter().find(is_split).filter(|_| scenario.measure.events)?;
    let name = &flow.name;
    Some(format!(
        "`measure.events`: flow `{name}` is split, whose legs are not logged; leave it out, or use --engine sim"
    ))
}

/// Why the service cannot own the queue of a link; `None` if it can, or need not.
fn impossible_queue(scenario: &Scenario, proxy: &ProxySpec) -> Option<String> {
    let links = &scenario.links;
    if let [first, second, ..] = &proxy.queues[..] {
        let [first, second] = [first, second].map(|queue| &links[queue.link as usize].name);
        return Some(format!(
            "owns the queues of `{first}` and `{second}`, and the service that of one link; set `enabled = false` in the `link` \
             of the other side, or use --engine sim"
        ));
    }
    let queue = proxy.queues.first()?;
    rate_told(scenario, queue, Time::ZERO).is_none().then(|| {
        format!(
            "owns the queue of `{}`, whose rate changes at random, and the service is told those of a timeline or a trace here; set \
             `enabled = false` in the `link` of that side, or use --engine sim",
            links[queue.link as usize].name
        )
    })
}

/// The rate at an instant of a link whose queue a proxy owns, if it is known ahead.
fn rate_told(scenario: &Scenario, queue: &LinkQueue, at: Time) -> Option<Rate> {
    let spec = &scenario.links[queue.link as usize].spec;
    let rate = match &spec.rate {
        RateSpec::Constant(rate) => *rate,
        RateSpec::Trace(steps) => steps.at(at),
        _ => return None,
    };
    let mut states = spec.states.iter().flat_map(|states| states.iter());
    states.all(|state| state.rate == Ratio::ONE).then_some(rate)
}

/// The link whose queue a proxy owns, as the service has it; its legs are named after links.
fn owned(scenario: &Scenario, queue: &LinkQueue) -> Option<SatelliteLink> {
    let spec = &scenario.links[queue.link as usize].spec;
    Some(SatelliteLink {
        leg: leg_name(scenario, queue.link),
        interface: device_of(queue.link as usize),
        source: RateSource::Fixed(Rates { send: Some(rate_told(scenario, queue, Time::ZERO)?), receive: None }),
        source_at: Origin::place("the study"),
        oldest: Time::MAX,
        share: queue.share.as_f64(),
        overhead: u64::from(spec.overhead),
        bypass: queue.bypass.as_f64(),
        policy: queue.policy,
        subscribers: Vec::new(),
        other: Portion { weight: 1, floor: queue.floor, ceiling: queue.ceiling },
    })
}

/// The name of the legs over a link.
fn leg_name(scenario: &Scenario, link: u32) -> String {
    let name = &*scenario.links[link as usize].name;
    name.rsplit_once('.').map_or(name, |(both, _)| both).to_owned()
}

/// Starts the services with the rules of a run in temporary namespaces, and ends them.
pub(crate) fn check(run: &Run, mtu: u32) -> Result<(), RunError> {
    let controls = Controls::new(std::iter::empty())?;
    for (number, proxy) in (0..).zip(&run.scenario.proxies) {
        if let Some(config) = configuration(&run.scenario, number, mtu, &controls) {
            let namespace = Namespace::new().map_err(failed("making a namespace"))?;
            embed(proxy, &namespace, config)?;
        }
    }
    Ok(())
}

fn embed(proxy: &ProxySpec, namespace: &Namespace, config: Config) -> Result<Embedded, RunError> {
    let started = namespace.enter(|| Embedded::start(config).map_err(io::Error::other));
    started.map_err(|error| {
        let name = &proxy.name;
        RunError::Impossible(format!(
            "the proxy `{name}`: {error}; install nftables and iproute2 with a kernel that has TPROXY, or use --engine sim"
        ))
    })
}

/// The flows that a proxy splits, with their numbers and the legs before and behind it.
fn splits(scenario: &Scenario, proxy: u32) -> impl Iterator<Item = (u32, &FlowSpec, [&Leg; 2])> {
    (0..).zip(&scenario.flows).filter_map(move |(number, flow)| {
        let legs = &flow.traffic.tcp()?.legs;
        let at = legs.iter().position(|leg| leg.proxy == Some(proxy))?;
        Some((number, flow, [&legs[at], legs.get(at + 1)?]))
    })
}

/// The addresses and ports of a flow's connection: those of the opener, and of the other end.
fn connection((number, flow): (u32, &FlowSpec)) -> Option<[SocketAddr; 2]> {
    let (from_port, to_port) = flow.ports(number);
    let from = SocketAddr::new(flow.address(flow.from), from_port);
    let to = SocketAddr::new(flow.address(flow.to), to_port);
    Some(match flow.traffic.tcp()?.opened_by {
        Opener::Receiver => [to, from],
        Opener::Sender => [from, to],
    })
}

/// The rule for a flow that a proxy splits into these legs; `None` without TCP.
fn rule(
    scenario: &Scenario,
    proxy: &ProxySpec,
    (number, flow): (u32, &FlowSpec),
    [before, after]: [&Leg; 2],
    (mtu, controls): (u32, &Controls),
) -> Option<Rule> {
    let [source, destination] = connection((number, flow))?;
    let settings = |end: &LegEnd, leg: &Leg, link: u32| {
        let mss = leg.sender.config.mss.min(leg.receiver.config.mss);
        Settings {
            name: leg_name(scenario, link),
            congestion: vec![controls.name_of(&end.cc).to_owned()],
            // The kernel doubles it to include its own overhead.
            send_buffer: Some(proxy.buffer.as_u64() / 2),
            mss: (u32::from(mss) + IP_AND_TCP < mtu).then(|| flow.ip.segment(mss)),
            ..Settings::default()
        }
    };
    let sender_side = settings(&before.receiver, before, *before.back.first()?);
    let receiver_side = settings(&after.sender, after, *after.forward.first()?);
    let (client, server) = match flow.traffic.tcp()?.opened_by {
        Opener::Receiver => (receiver_side, sender_side),
        Opener::Sender => (sender_side, receiver_side),
    };
    Some(Rule {
        name: flow.name.to_string(),
        sources: vec![source.ip().into()],
        destinations: vec![destination.ip().into()],
        ports: vec![Ports(destination.port(), destination.port())],
        client,
        server,
        connects_first: proxy.handshake == Handshake::Connect,
        connect_timeout: scenario.time_limit.min(CONNECT_TIMEOUT),
        ..Rule::default()
    })
}

/// Configuration of a proxy's service, with a rule for each flow that it splits; `None` if it splits nothing.
fn configuration(scenario: &Scenario, number: u32, mtu: u32, controls: &Controls) -> Option<Config> {
    let proxy = &scenario.proxies[number as usize];
    let rule = |(number, flow, legs)| rule(scenario, proxy, (number, flow), legs, (mtu, controls)).map(Arc::new);
    let rules: Vec<_> = splits(scenario, number).filter_map(rule).collect();
    let populations =
        splits(scenario, number).filter(|(_, flow, _)| matches!(flow.traffic, Traffic::Population { .. }));
    let connections = rules.len() + 1 + populations.count() * Plan::DISTINCT as usize;
    (!rules.is_empty()).then(|| Config {
        workers: 1,
        // The process does more than the service.
        confine: false,
        control: None,
        metrics: None,
        drain: Time::ZERO,
        upgrade_drain: Time::ZERO,
        accounting: None,
        metrics_subscribers: 0,
        splice: true,
        limits: Limits { connections, per_client: usize::MAX, held: proxy.memory, at_limit: AtLimit::Wait },
        allow: Allow {
            sources: rules.iter().flat_map(|rule| rule.sources.clone()).collect(),
            destinations: rules.iter().flat_map(|rule| rule.destinations.clone()).collect(),
            local: false,
        },
        transparent: Some(Transparent {
            port: PORT,
            interfaces: Vec::new(),
            ports: rules.iter().flat_map(|rule| rule.ports.clone()).collect(),
            hide_clients: false,
            through_forward: false,
            mark: MARK,
            table: TABLE,
        }),
        forwards: Vec::new(),
        tunnel: None,
        link: proxy.queues.first().and_then(|queue| owned(scenario, queue)).map(Arc::new),
        rules,
    })
}

/// Unread payload in a receive buffer.
fn unread(socket: impl AsFd) -> u64 {
    ioctl_fionread(socket).unwrap_or(0)
}

/// Written but unacknowledged payload of a service, and its own buffers in use.
fn held(service: &Embedded) -> u64 {
    let carried = service.carried();
    let waiting = |ends: [BorrowedFd<'_>; 2]| ends.map(|end| unacknowledged(&end)).iter().sum::<u64>();
    carried.iter().filter_map(|one| one.with(waiting)).sum::<u64>() + service.held()
}

/// Below this size the buffers of the service itself limit, not those of its sockets.
const LEAST_BUFFER: Bytes = Bytes::new(1_000_000);
/// Longer than the kernel retries SYNs.
const CONNECT_TIMEOUT: Time = Time::from_secs(3600);
/// The port at which the service listens, the mark of its packets and its routing table: a node's namespace has no others.
const PORT: u16 = 3129;
const MARK: u32 = 1;
const TABLE: u32 = 100;
