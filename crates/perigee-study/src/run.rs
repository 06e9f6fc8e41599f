//! A run: one point of a study in one round, with all settings resolved for an engine.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use perigee_cc::Selected;
use perigee_link::{Ecn, LinkSpec};
use perigee_results::{Amount, Measure, Name};
use perigee_traffic::{App, Datagrams, Ledger, Population, Schedule, Script, Visits};
use perigee_units::{encode_enum, encode_struct, Stream, Time};
use perigee_wire::{address, IpVersion, Ports, LOWER_EFFORT};

use crate::reroute::Reroute;
use crate::transport::{Leg, Opener, ProxySpec, Quic, Tcp};

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct Run {
    /// Number in the plan, from 0: all points of round 0, then all of round 1, and so on (interlaced).
    pub index: u32,
    /// Round, from 0.
    pub round: u32,
    /// Derived from the study's seed and the round only: all points of a round have the same random draws.
    pub seed: u64,
    /// The scenario, shared by all rounds of the same point.
    pub scenario: Arc<Scenario>,
}

impl Run {
    /// The flows with an author's congestion control: number, name, and the algorithm's file.
    pub fn authored_flows(&self) -> Vec<(u32, String, PathBuf)> {
        let flows = (0..).zip(&self.scenario.flows).flat_map(|(number, flow)| {
            let files = flow.traffic.congestion_controls().filter_map(|cc| cc.algorithm().file());
            files.map(move |file| (number, flow.name.to_string(), file.path.clone()))
        });
        let mut flows: Vec<_> = flows.collect();
        flows.dedup();
        flows
    }

    /// Returns the run with the flows' numbers in their congestion controls, which calls of authors' code are logged with.
    #[must_use]
    pub fn numbered(&self) -> Self {
        self.with_controls(|number, cc| cc.clone().of_flow(number))
    }

    /// Returns the run with other congestion controls, each in place of one of the flow of this number.
    #[must_use]
    pub fn with_controls(&self, other: impl Fn(u32, &Selected) -> Selected) -> Self {
        let mut scenario = (*self.scenario).clone();
        for (number, flow) in (0..).zip(&mut scenario.flows) {
            let controls: Vec<&mut Selected> = match &mut flow.traffic {
                Traffic::Tcp { tcp, .. } | Traffic::Population { tcp, .. } => {
                    let ends = tcp.legs.iter_mut().flat_map(|leg| [&mut leg.sender.cc, &mut leg.receiver.cc]);
                    ends.chain([&mut tcp.cc]).collect()
                }
                Traffic::Quic { quic, .. } => vec![&mut quic.cc],
                Traffic::Datagrams(_) => Vec::new(),
            };
            for cc in controls {
                *cc = other(number, cc);
            }
        }
        Self { scenario: scenario.into(), ..self.clone() }
    }
}

/// Nodes, links and flows with every setting resolved.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the study.
    pub study: Name,
    /// Varied keys and their values, as a JSON object.
    pub point: Name,
    /// Names of the nodes; a node's number is its place here.
    pub nodes: Vec<Name>,
    /// Directed links; a link's number is its place here. The two directions of one link are neighbours.
    pub links: Vec<RunLink>,
    /// Flows; a flow's number is its place here.
    pub flows: Vec<FlowSpec>,
    /// Proxies; a proxy's number is its place here.
    pub proxies: Vec<ProxySpec>,
    /// Settings of measurements.
    pub measure: Measure,
    /// The run ends here even if flows have not completed.
    pub time_limit: Time,
    /// Whether the simulator carries every packet on the slow path, as a reference for its fast paths.
    pub is_plain: bool,
    /// The link to take by `node * nodes.len() + destination`; see [`Scenario::next_hop`].
    pub next_hop: Vec<Option<u32>>,
    /// Routes that hold at times only; of several for one node and destination, the last one that holds applies.
    pub reroutes: Vec<Reroute>,
    /// The `processing_time` of each node's host; see [`Scenario::processing_times`].
    pub processing: Vec<Time>,
    /// Hash of all settings and recordings.
    pub fingerprint: u64,
    /// Hash of what the run carries: links, flows, hosts, proxies and routes, without names, measurements and the way packets are carried.
    pub traffic_fingerprint: u64,
}

impl Scenario {
    /// The links of the data's path and of the way back for each connection: for each flow (its first leg if proxies split it), then
    /// for each further leg.
    pub fn ways(&self) -> impl Iterator<Item = [&Vec<u32>; 2]> {
        let legs = |flow| -> &[Leg] { Traffic::tcp(flow).map_or(&[], |tcp| &tcp.legs) };
        let first = self.flows.iter().map(move |flow| match legs(&flow.traffic).first() {
            Some(leg) => [&leg.forward, &leg.back],
            None => [&flow.forward, &flow.back],
        });
        first.chain(self.further_legs().map(|(_, _, leg)| [&leg.forward, &leg.back]))
    }

    /// The destinations of the packets of [`Scenario::ways`]: behind proxies still those of the flow.
    pub fn destinations(&self) -> impl Iterator<Item = [u32; 2]> + use<'_> {
        let further = self.further_legs().map(|(flow, _, _)| &self.flows[flow as usize]);
        self.flows.iter().chain(further).map(|flow| [flow.to, flow.from])
    }

    /// Mean processing time of a packet at the first host of each of [`Scenario::ways`]: that of the connection, or of the node for
    /// datagrams.
    pub fn processing_times(&self) -> impl Iterator<Item = [Time; 2]> + use<'_> {
        let of_leg = |leg: &Leg| [&leg.sender, &leg.receiver].map(|end| end.config.processing_time);
        let first = self.flows.iter().map(move |flow| match flow.traffic.tcp() {
            Some(Tcp { legs, from, to, .. }) => legs.first().map_or([from.processing_time, to.processing_time], of_leg),
            None => [flow.from, flow.to].map(|node| self.processing[node as usize]),
        });
        first.chain(self.further_legs().map(move |(_, _, leg)| of_leg(leg)))
    }

    /// The legs after the first of each flow that is split: number of the flow, number of the leg from 0, the leg.
    pub fn further_legs(&self) -> impl Iterator<Item = (u32, u32, &Leg)> {
        (0..).zip(&self.flows).flat_map(|(number, flow)| {
            let legs = flow.traffic.tcp().map_or(&[][..], |tcp| &tcp.legs);
            (0..).zip(legs).skip(1).map(move |(leg, spec)| (number, leg, spec))
        })
    }

    /// The link that a packet at `node` for `destination` takes; `None` if there is no route, or it has arrived.
    pub fn next_hop(&self, node: u32, destination: u32) -> Option<u32> {
        self.next_hop.get(node as usize * self.nodes.len() + destination as usize).copied().flatten()
    }

    /// The links at a node, in order: the interfaces of its capture.
    pub fn links_at(&self, node: u32) -> impl Iterator<Item = LinkAt<'_>> {
        let pairs = (0..).step_by(2).zip(self.links.chunks(2));
        pairs.filter_map(move |(first, pair)| {
            let find = |end: fn(&RunLink) -> u32| (first..).zip(pair).find(|(_, link)| end(link) == node);
            let leaving = find(|link| link.from).map(|(number, _)| number);
            let entering = find(|link| link.to).map(|(number, _)| number);
            let name = pair[0].name.rsplit_once('.').map_or(&*pair[0].name, |(link, _)| link);
            (leaving.is_some() || entering.is_some()).then_some(LinkAt { name, leaving, entering })
        })
    }
}

/// A link at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAt<'a> {
    /// Its name, without a direction.
    pub name: &'a str,
    /// Number of the direction that leaves the node.
    pub leaving: Option<usize>,
    /// Number of the direction that enters the node.
    pub entering: Option<usize>,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct RunLink {
    /// Name and direction: `satellite.down` from the first node to the second, `satellite.up` back.
    pub name: Name,
    /// Number of the node it leaves.
    pub from: u32,
    /// Number of the node it enters.
    pub to: u32,
    /// Largest packet; `None`: as large as any.
    pub mtu: Option<u16>,
    /// The link model.
    pub spec: Arc<LinkSpec>,
}

/// A flow of packets between two nodes.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// Its name, with a number if it is one of several (`count`): `download.1`, `download.2`.
    pub name: Name,
    /// Number of the node that sends the data.
    pub from: u32,
    /// Number of the node that receives the data.
    pub to: u32,
    /// Links on the path of the data, `from` to `to`.
    pub forward: Vec<u32>,
    /// Links on the way back.
    pub back: Vec<u32>,
    /// Earliest start; see [`FlowSpec::start_in`].
    pub start: Time,
    /// Maximum random delay of the start.
    pub start_jitter: Time,
    /// IP version of its packets.
    pub ip: IpVersion,
    /// Largest packet of the links on both ways; `None`: as large as any.
    pub path_mtu: Option<u16>,
    /// ECN field of its datagrams; TCP negotiates it.
    pub ecn: Ecn,
    /// Its datagrams have low priority.
    pub is_low: bool,
    /// Its traffic.
    pub traffic: Traffic,
}

impl FlowSpec {
    /// The largest segment that fits on the path, for a host with this `mss`.
    pub fn segment(&self, mss: u16) -> u16 {
        let path = self.path_mtu.map_or(u16::MAX, |mtu| mtu - IP_AND_TCP);
        self.ip.segment(mss.min(path))
    }

    /// DSCP and ECN field of its datagrams, a byte: TOS of IPv4, traffic class of IPv6.
    pub fn traffic_class(&self) -> u8 {
        self.ecn.bits() | if self.is_low { LOWER_EFFORT << 2 } else { 0 }
    }

    /// The address of a node in the flow's packets.
    pub fn address(&self, node: u32) -> IpAddr {
        address(node, self.ip)
    }

    /// The ports at `from` and at `to` of the flow with this number: the listening end has the server's port. For datagrams
    /// that is `to`; for pings both are the identifier.
    pub fn ports(&self, number: u32) -> (u16, u16) {
        let Ports { server, client } = Ports::of(number);
        match &self.traffic {
            Traffic::Tcp { tcp, .. } if tcp.opened_by == Opener::Receiver => (server, client),
            Traffic::Quic { quic, .. } if quic.opened_by == Opener::Receiver => (server, client),
            Traffic::Datagrams(datagrams) if datagrams.is_answered() => (client, client),
            Traffic::Population { .. } => (server, client),
            Traffic::Tcp { .. } | Traffic::Quic { .. } | Traffic::Datagrams(_) => (client, server),
        }
    }

    /// The start of the flow in a run with this seed: `start` plus a uniform delay of up to `start_jitter`.
    pub fn start_in(&self, seed: u64) -> Time {
        self.start + Time::from_nanos(self.stream(seed, "start").below(self.start_jitter.as_nanos()))
    }

    /// The random stream of this flow for one purpose in a run with this seed.
    pub fn stream(&self, seed: u64, purpose: &str) -> Stream {
        Stream::new(seed, &format!("flow/{}/{purpose}", self.name))
    }

    /// The script of its application from `start` on.
    pub fn script(&self, app: &App, start: Time, seed: u64) -> Script {
        Script::new(app, start, self.stream(seed, TRAFFIC))
    }

    /// The schedule of its datagrams from `start` on.
    pub fn schedule(&self, datagrams: &Datagrams, start: Time, seed: u64) -> Schedule {
        datagrams.schedule(start, self.stream(seed, TRAFFIC))
    }

    /// The visits of its population from `start` on, and their ledger.
    pub fn visits(&self, population: &Population, start: Time, seed: u64, measure: &Measure) -> (Visits, Ledger) {
        let is_split = self.traffic.tcp().is_some_and(|tcp| !tcp.legs.is_empty());
        population.begin(start, [TRAFFIC, "sample"].map(|purpose| self.stream(seed, purpose)), measure, is_split)
    }
}

/// Name of the random stream of a flow's workload.
const TRAFFIC: &str = "traffic";
/// Bytes of the headers of IPv4 and TCP, without options.
const IP_AND_TCP: u16 = 40;

/// The traffic of a flow.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// An application over TCP.
    Tcp {
        /// The two endpoints.
        tcp: Box<Tcp>,
        /// The application.
        app: App,
    },
    /// Short connections of many users.
    Population {
        /// The two endpoints of each connection.
        tcp: Box<Tcp>,
        /// The users and their requests.
        population: Population,
    },
    /// An application or a browser over QUIC.
    Quic {
        /// The two endpoints of each connection.
        quic: Box<Quic>,
        /// Its application or browser.
        load: QuicLoad,
    },
    /// Packets without a connection.
    Datagrams(Datagrams),
}

/// The load of a QUIC flow.
#[derive(Clone, Debug)]
pub enum QuicLoad {
    /// An application over one connection.
    App(App),
    /// A browser with several connections.
    Population(Population),
}

impl Traffic {
    /// The endpoints of its connections; `None` without connections of TCP.
    pub fn tcp(&self) -> Option<&Tcp> {
        match self {
            Self::Tcp { tcp, .. } | Self::Population { tcp, .. } => Some(tcp),
            Self::Quic { .. } | Self::Datagrams(_) => None,
        }
    }

    /// The endpoints of its connections, if they are of QUIC.
    pub fn quic(&self) -> Option<&Quic> {
        if let Self::Quic { quic, .. } = self {
            Some(quic)
        } else {
            None
        }
    }

    /// The congestion control of its ends, and its parameters that the study set; `None` without connections.
    pub fn congestion_control(&self) -> Option<(&Selected, &Name)> {
        let of_tcp = self.tcp().map(|tcp| (&tcp.cc, &tcp.cc_params));
        of_tcp.or_else(|| self.quic().map(|quic| (&quic.cc, &quic.cc_params)))
    }

    /// The congestion controls of its ends, and of the ends of its legs.
    pub fn congestion_controls(&self) -> impl Iterator<Item = &Selected> {
        let of_quic = self.quic().map(|quic| &quic.cc);
        self.tcp().into_iter().flat_map(Tcp::congestion_controls).chain(of_quic)
    }

    /// The name of its kind in the study and the results.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tcp { app, .. } | Self::Quic { load: QuicLoad::App(app), .. } => app.name(),
            Self::Population { population, .. } | Self::Quic { load: QuicLoad::Population(population), .. } => {
                population.name()
            }
            Self::Datagrams(datagrams) => datagrams.name(),
        }
    }

    /// Maximum number of its exchanges that are rows of the results.
    pub fn exchanges(&self) -> u64 {
        match self {
            Self::Tcp { app, .. } | Self::Quic { load: QuicLoad::App(app), .. } => app.exchanges(),
            Self::Population { population, .. } | Self::Quic { load: QuicLoad::Population(population), .. }
                if population.writes_all() =>
            {
                population.expected() as u64 + 1
            }
            Self::Population { .. } | Self::Quic { .. } => perigee_results::SAMPLE as u64,
            Self::Datagrams(datagrams) => datagrams.exchanges(),
        }
    }

    /// The payload or the duration of the flow.
    pub fn amount(&self) -> Amount {
        match self {
            Self::Tcp { app, .. } | Self::Quic { load: QuicLoad::App(app), .. } => app.amount(),
            Self::Population { population, .. } | Self::Quic { load: QuicLoad::Population(population), .. } => {
                Amount::Duration(population.duration)
            }
            Self::Datagrams(datagrams) => Amount::Duration(datagrams.length()),
        }
    }

    /// The minimum duration over a path with this round trip and any rate, s.
    pub fn least_s(&self, round_trip_s: f64) -> f64 {
        match self {
            Self::Tcp { app, .. } | Self::Quic { load: QuicLoad::App(app), .. } => app.least_s(round_trip_s),
            Self::Population { population, .. } | Self::Quic { load: QuicLoad::Population(population), .. } => {
                population.duration.as_secs_f64()
            }
            Self::Datagrams(datagrams) => datagrams.least_s(round_trip_s),
        }
    }
}

impl Display for Traffic {
    /// Describes the traffic in a few words.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { app, .. } | Self::Quic { load: QuicLoad::App(app), .. } => app.fmt(f),
            Self::Population { population, .. } | Self::Quic { load: QuicLoad::Population(population), .. } => {
                population.fmt(f)
            }
            Self::Datagrams(datagrams) => datagrams.fmt(f),
        }
    }
}

encode_struct!(FlowSpec { name, from, to, forward, back, start, start_jitter, ip, path_mtu, ecn, is_low, traffic });
encode_enum!(Traffic { Tcp { tcp, app }, Population { tcp, population }, Quic { quic, load }, Datagrams(datagrams) });
encode_enum!(QuicLoad { App(app), Population(population) });
