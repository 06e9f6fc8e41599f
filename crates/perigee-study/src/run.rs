//! A run: one point of a study in one round, resolved to what an engine carries out.

use std::sync::Arc;

use perigee_cc::Selected;
use perigee_link::LinkSpec;
use perigee_tcp::Config;
use perigee_units::{Bytes, Rate, Ratio, Stream, Time};

use crate::results::Name;

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct Run {
    /// Number in the plan, from 0: all points of round 0, then all of round 1, and so on (interlaced).
    pub index: u32,
    /// Round, from 0.
    pub round: u32,
    /// Made of the study's seed and the round only: every point of a round meets the same moods of the links.
    pub seed: u64,
    /// What to carry out; shared by all rounds of the same point.
    pub scenario: Arc<Scenario>,
}

/// Nodes, links and flows with every setting resolved.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the study.
    pub study: Name,
    /// What varied, and its values here: a JSON object.
    pub point: Name,
    /// Names of the nodes; a node's number is its place here.
    pub nodes: Vec<Name>,
    /// Directed links; a link's number is its place here. The two directions of one link are neighbours.
    pub links: Vec<RunLink>,
    /// Flows; a flow's number is its place here.
    pub flows: Vec<FlowSpec>,
    /// What to write down.
    pub measure: Measure,
    /// The run ends here even where flows have not completed.
    pub time_limit: Time,
    /// The link to take by `node * nodes.len() + destination`; see [`Scenario::next_hop`].
    pub next_hop: Vec<Option<u32>>,
    /// Differs where any setting or any byte of a recording differs.
    pub fingerprint: u64,
}

impl Scenario {
    /// The link that a packet at `node` for `destination` takes; `None` where there is no way, or it is there.
    pub fn next_hop(&self, node: u32, destination: u32) -> Option<u32> {
        self.next_hop.get(node as usize * self.nodes.len() + destination as usize).copied().flatten()
    }
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
    /// How it treats packets.
    pub spec: Arc<LinkSpec>,
}

/// A flow of packets between two nodes.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// Its name; of several (`count`), with its number: `download.1`, `download.2`.
    pub name: Name,
    /// Number of the node that sends the data.
    pub from: u32,
    /// Number of the node that receives the data.
    pub to: u32,
    /// Links on the way of the data, `from` to `to`.
    pub forward: Vec<u32>,
    /// Links on the way back.
    pub back: Vec<u32>,
    /// Earliest instant it begins; see [`FlowSpec::start_in`].
    pub start: Time,
    /// Largest random delay of the beginning.
    pub start_jitter: Time,
    /// The version of its packets.
    pub ip: IpVersion,
    /// Largest packet of the links on both ways; `None`: as large as any.
    pub path_mtu: Option<u16>,
    /// What it carries.
    pub traffic: Traffic,
}

impl FlowSpec {
    /// The largest segment that arrives, of a host whose setting is `mss`.
    pub fn segment(&self, mss: u16) -> u16 {
        let path = self.path_mtu.map_or(u16::MAX, |mtu| mtu - IP_AND_TCP);
        self.ip.segment(mss.min(path))
    }

    /// When the flow begins in a run with this seed: `start`, and up to `start_jitter` more, uniform.
    pub fn start_in(&self, seed: u64) -> Time {
        let mut stream = Stream::new(seed, &format!("flow/{}/start", self.name));
        self.start + Time::from_nanos(stream.below(self.start_jitter.as_nanos()))
    }
}

/// Bytes of the headers of IPv4 and TCP, without options.
const IP_AND_TCP: u16 = 40;

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

impl IpVersion {
    /// Size of a packet's header, without options, bytes.
    pub const fn header_bytes(self) -> u16 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    /// The largest segment of a host whose setting is `mss`: its packets are no larger than those of IPv4.
    pub const fn segment(self, mss: u16) -> u16 {
        mss.saturating_sub(self.header_bytes() - Self::V4.header_bytes())
    }
}

/// What a flow carries.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// An application over TCP.
    Tcp {
        /// The two endpoints.
        tcp: Box<Tcp>,
        /// What runs over them.
        app: App,
    },
    /// Packets at a constant rate, `from` to `to`.
    Udp {
        /// Rate of the IP packets.
        rate: Rate,
        /// Size of an IP packet.
        packet: Bytes,
        /// From the first packet to the end.
        duration: Time,
    },
    /// Small packets from `from`, each answered by `to`.
    Ping {
        /// Between two of them.
        interval: Time,
        /// Size of an IP packet, either way.
        packet: Bytes,
        /// How many.
        count: u32,
    },
}

impl Traffic {
    /// As the study and the results name it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Tcp { app: App::Bulk(_), .. } => "bulk",
            Self::Tcp { app: App::Request { .. }, .. } => "request",
            Self::Udp { .. } => "udp",
            Self::Ping { .. } => "ping",
        }
    }
}

/// The two ends of a TCP connection.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// Congestion control of both ends.
    pub cc: Selected,
    /// Parameters of the congestion control that the study set: a JSON object.
    pub cc_params: Name,
    /// Settings of the end that sends the data.
    pub from: Config,
    /// Settings of the end that receives it.
    pub to: Config,
    /// The end that opens the connection.
    pub opened_by: Opener,
}

/// The end that opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    /// The one that receives the data, as a client that downloads; of a request, the one that asks.
    Receiver,
    /// The one that sends the data, as a client that uploads.
    Sender,
}

/// What an application does over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// `from` sends at once and all it can.
    Bulk(Amount),
    /// `to` asks, `from` answers, over one connection; the next request follows the response after a pause.
    Request {
        /// Size of a request.
        request: Bytes,
        /// Size of a response.
        response: Bytes,
        /// From the end of a response to the next request.
        think: Time,
        /// How many requests.
        count: u32,
    },
}

/// When a bulk flow is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// After so many bytes.
    Size(Bytes),
    /// After so long.
    Duration(Time),
}

/// What a run writes down.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Interval of `series` and `links`; none: neither is written.
    pub series: Option<Time>,
    /// Where a flow's startup phase ends; none: it has no such phase.
    pub startup: Option<Startup>,
    /// The steady phase: this last share of the bytes of a flow with a size, of the time of a flow with a duration.
    pub steady: Option<Ratio>,
    /// Bin of the goodput's percentiles.
    pub goodput_bin: Time,
    /// Width of the round trip bins; none: no `rtt` table.
    pub rtt_bin: Option<Time>,
    /// Delivered sizes whose times are written, growing.
    pub milestones: Vec<Bytes>,
    /// Whether to write the TCP log.
    pub events: bool,
    /// Numbers of the nodes that capture their packets.
    pub pcap: Vec<u32>,
}

/// Where a startup phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup {
    /// When so much has been delivered.
    Bytes(Bytes),
    /// So long after the flow began.
    Time(Time),
}
