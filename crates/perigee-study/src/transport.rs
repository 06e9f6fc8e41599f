//! Connections of flows over TCP and QUIC, the proxies that split them, and the end that opens a connection.

use std::fmt;

use perigee_cc::Selected;
use perigee_results::Name;
use perigee_settings::Config;
use perigee_share::Policy;
use perigee_units::{encode_enum, encode_struct, Bytes, Encode, Rate, Ratio, Time};

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
    /// The connections into which proxies split it, in the direction of the data; empty if it is not split.
    pub legs: Vec<Leg>,
}

/// The two ends of a QUIC connection.
#[derive(Clone, Debug)]
pub struct Quic {
    /// Congestion control of both ends.
    pub cc: Selected,
    /// Parameters of the congestion control that the study set: a JSON object.
    pub cc_params: Name,
    /// The end that opens the connection.
    pub opened_by: Opener,
    /// When data may leave.
    pub handshake: QuicHandshake,
    /// Whether the server validates addresses by Retry packets.
    pub retry: bool,
    /// Whether the server has the client's version.
    pub same_version: bool,
    /// Whether each response has a stream of its own.
    pub stream_per_response: bool,
    /// Flow-control window of a stream.
    pub stream_window: StreamWindow,
    /// Flow-control window of a connection; `None`: that of its streams.
    pub window: Option<Bytes>,
    /// Ack-eliciting packets that may arrive without an acknowledgement at once.
    pub ack_threshold: u32,
    /// Longest delay of an acknowledgement.
    pub max_ack_delay: Time,
    /// Time without packets after which the connection is given up.
    pub idle_timeout: Time,
    /// Payload of a full datagram.
    pub datagram: u16,
    /// First congestion window, in datagrams.
    pub initial_window: u32,
    /// Whether datagrams are ECN-capable.
    pub ecn: bool,
    /// Enabled proxies on the way of its data, which pass it by.
    pub passed: u32,
}

/// When the data of a connection may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicHandshake {
    /// After the handshake.
    OneRtt,
    /// With the client's first packets.
    ZeroRtt,
    /// With the client's first packets, and again after the handshake, since the server rejects them.
    ZeroRttRejected,
}

/// The flow-control window of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamWindow {
    /// As stacks have it by default.
    Default,
    /// Twice the bandwidth-delay product of the path.
    Tuned,
    /// A size.
    Size(Bytes),
}

/// One of the connections into which proxies split a flow.
#[derive(Clone, Debug)]
pub struct Leg {
    /// Number of the node that sends the data.
    pub from: u32,
    /// Number of the node that receives it.
    pub to: u32,
    /// Links on the path of the data.
    pub forward: Vec<u32>,
    /// Links on the way back.
    pub back: Vec<u32>,
    /// The end that sends the data.
    pub sender: LegEnd,
    /// The end that receives it.
    pub receiver: LegEnd,
    /// Number of the proxy at `to`; `None`: the flow's own receiver is there.
    pub proxy: Option<u32>,
}

/// An end of a leg.
#[derive(Clone, Debug)]
pub struct LegEnd {
    /// Congestion control.
    pub cc: Selected,
    /// Parameters of the congestion control that the study set: a JSON object.
    pub cc_params: Name,
    /// TCP settings.
    pub config: Config,
}

/// A node that splits TCP connections.
#[derive(Clone, Debug)]
pub struct ProxySpec {
    /// Its name.
    pub name: Name,
    /// Number of its node.
    pub node: u32,
    /// The handshake that it completes first.
    pub handshake: Handshake,
    /// Maximum payload of a connection, in one direction, that it has read but the next leg has not acknowledged.
    pub buffer: Bytes,
    /// Maximum of such payload of all its connections.
    pub memory: Bytes,
    /// The links whose queues it owns.
    pub queues: Vec<LinkQueue>,
}

/// A link whose queue a proxy owns, in the direction away from it: what it sends there stays below the link's rate.
#[derive(Clone, Debug)]
pub struct LinkQueue {
    /// Number of the directed link.
    pub link: u32,
    /// Share of the link's rate that is used.
    pub share: Ratio,
    /// Largest share of it that is left to what bypasses the proxy.
    pub bypass: Ratio,
    /// How long after a change the proxy learns the link's rate.
    pub told: Time,
    /// Transfers that are short, and how much a subscriber saves for them.
    pub policy: Policy,
    /// Rate that a subscriber gets, if it has so much to send, before others get more than that.
    pub floor: Rate,
    /// Rate that a subscriber never exceeds.
    pub ceiling: Rate,
}

/// The handshake that a proxy completes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The handshake with the opener, whose data waits.
    Accept,
    /// The handshake with the other end; the opener's SYN is answered after it, or refused as the other end refuses.
    Connect,
}

/// The end that opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    /// The end that receives the data, as a client that downloads or sends a request.
    Receiver,
    /// The end that sends the data, as a client that uploads.
    Sender,
}

impl Tcp {
    /// The congestion controls of its ends, and of the ends of its legs.
    pub fn congestion_controls(&self) -> impl Iterator<Item = &Selected> {
        [&self.cc].into_iter().chain(self.legs.iter().flat_map(|leg| [&leg.sender.cc, &leg.receiver.cc]))
    }
}

impl Encode for LinkQueue {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { link, share, bypass, told, policy: Policy { short, memory, savings }, floor, ceiling } = self;
        ((((link, share), (bypass, told)), ((short, memory), (savings, floor))), ceiling).encode(out)
    }
}

encode_struct!(Tcp { cc, cc_params, from, to, opened_by, legs });
encode_struct!(Leg { from, to, forward, back, sender, receiver, proxy });
encode_struct!(LegEnd { cc, cc_params, config });
encode_struct!(ProxySpec { name, node, handshake, buffer, memory, queues });
encode_enum!(Handshake { Accept, Connect });
encode_enum!(Opener { Receiver, Sender });
encode_struct!(Quic {
    cc,
    cc_params,
    opened_by,
    handshake,
    retry,
    same_version,
    stream_per_response,
    stream_window,
    window,
    ack_threshold,
    max_ack_delay,
    idle_timeout,
    datagram,
    initial_window,
    ecn,
    passed,
});
encode_enum!(StreamWindow { Default, Tuned, Size(size) });
