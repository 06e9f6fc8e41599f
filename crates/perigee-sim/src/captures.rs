//! The captures requested by a study: the packets at each of its nodes as a pcapng file in memory.
//!
//! Each link at a node is an interface of the file. A packet is recorded when it arrives over a link and when it is offered to one
//! (before its queue), so a router shows it twice, on two interfaces. The file contains the headers, the number of a datagram and the
//! original length, without the zeros of the payload; of QUIC all bytes.

use std::time::Duration;

use perigee_study::{FlowSpec, LinkAt, Scenario};
use perigee_tcp::Flags;
use perigee_units::{Stream, Time};
use perigee_wire::{append_payload, CaptureWriter, Direction, LinkType, Ports, ETHERNET_HEADER_BYTES};

use crate::packet::NetPacket;
use crate::payloads::Payloads;
use crate::wire::Endpoints;

/// One capture per node of `measure.pcap`, with the state that its packets need.
pub(crate) struct Captures {
    /// Node and capture.
    files: Vec<(u32, Capture)>,
    /// Interface of each link, if it leaves a captured node.
    leaving: Vec<Option<InterfaceAt>>,
    /// Interface of each link, if it enters a captured node.
    entering: Vec<Option<InterfaceAt>>,
    /// Each way's endpoints.
    endpoints: Vec<Endpoints>,
    /// The window scale announced by each way's sender.
    window_shift: Vec<u8>,
    identity: Identity,
}

/// An interface of a captured node.
#[derive(Clone, Copy)]
struct InterfaceAt {
    /// Index of the capture.
    file: usize,
    interface: u32,
}

/// The start of clients' ports and the sequence numbers, which distinguish the connections of the runs of a study. They
/// are drawn from the run's seed and its traffic. All points of a round share the seed, and with it the sequence
/// numbers of the endpoints; measurements and the way packets are carried change no packet.
struct Identity {
    ports: u16,
    numbers: Stream,
}

impl Identity {
    fn of(scenario: &Scenario, seed: u64) -> Self {
        let mut numbers = Stream::new(seed, &format!("captures/{:016x}", scenario.traffic_fingerprint));
        Self { ports: numbers.below(Ports::DISTINCT.into()) as u16, numbers }
    }

    /// The two ways of the next connection, whose ports are those of a flow with this number.
    fn endpoints(&mut self, flow: &FlowSpec, number: u32) -> [Endpoints; 2] {
        let drawn = self.numbers.next_u64();
        Endpoints::of(flow, number, self.ports, [drawn as u32, (drawn >> 32) as u32])
    }
}

impl Captures {
    /// Captures at the nodes of `measure.pcap` with `payload` bytes of each payload, in a run with this seed; `None` without such nodes.
    pub(crate) fn new(scenario: &Scenario, seed: u64, payload: usize) -> Option<Self> {
        let nodes = &scenario.measure.pcap;
        if nodes.is_empty() {
            return None;
        }
        let links = scenario.links.len();
        let has_quic = scenario.flows.iter().any(|flow| flow.traffic.quic().is_some());
        let (mut leaving, mut entering) = (vec![None; links], vec![None; links]);
        let mut files = Vec::new();
        for node in nodes {
            let interfaces: Vec<LinkAt<'_>> = scenario.links_at(*node).collect();
            for (interface, link) in (0..).zip(&interfaces) {
                let at = Some(InterfaceAt { file: files.len(), interface });
                link.leaving.into_iter().for_each(|number| leaving[number] = at);
                link.entering.into_iter().for_each(|number| entering[number] = at);
            }
            let names = interfaces.iter().map(|link| link.name);
            files.push((*node, Capture::new(names, payload, has_quic)));
        }
        let mut identity = Identity::of(scenario, seed);
        let of_flow = |number: u32| identity.endpoints(&scenario.flows[number as usize], number);
        let further = scenario.further_legs().map(|(flow, ..)| flow);
        let endpoints: Vec<Endpoints> = (0..scenario.flows.len() as u32).chain(further).flat_map(of_flow).collect();
        Some(Self { files, leaving, entering, window_shift: vec![0; endpoints.len()], endpoints, identity })
    }

    /// Adds the two ways of a connection, whose ports are those of a flow with its number.
    pub(crate) fn add_connection(&mut self, spec: &FlowSpec, number: u32) {
        self.endpoints.extend(self.identity.endpoints(spec, number));
        self.window_shift.extend([0; 2]);
    }

    /// A packet is offered to `link`.
    pub(crate) fn outbound(&mut self, now: Time, link: u32, packet: &NetPacket, payloads: &Payloads) {
        self.learn_window_scale(packet);
        self.write(now, interface_at(&self.leaving, link), Direction::Outbound, packet, payloads);
    }

    /// A packet arrives over `link`.
    pub(crate) fn inbound(&mut self, now: Time, link: u32, packet: &NetPacket, payloads: &Payloads) {
        self.write(now, interface_at(&self.entering, link), Direction::Inbound, packet, payloads);
    }

    /// Node number and pcapng file of each.
    pub(crate) fn into_files(self) -> impl Iterator<Item = (u32, Vec<u8>)> {
        self.files.into_iter().map(|(node, capture)| (node, capture.into_bytes()))
    }

    fn learn_window_scale(&mut self, packet: &NetPacket) {
        if let Some(segment) = packet.segment().filter(|segment| segment.flags.has(Flags::SYN)) {
            self.window_shift[packet.stored.way as usize] = segment.window_scale.unwrap_or(0);
        }
    }

    fn write(
        &mut self,
        now: Time,
        at: Option<InterfaceAt>,
        direction: Direction,
        packet: &NetPacket,
        payloads: &Payloads,
    ) {
        let Some(InterfaceAt { file, interface }) = at else { return };
        let way = packet.stored.way as usize;
        let (capture, endpoints) = (&mut self.files[file].1, self.endpoints[way]);
        let headers = endpoints.headers(packet, self.window_shift[way]);
        let datagram = packet.datagram().filter(|_| endpoints.is_quic());
        let payload = datagram.map(|datagram| payloads.get(datagram.number));
        capture.packet(now, (interface, direction), packet, headers, payload);
    }
}

/// The interface of a link. Links inside hosts, which are not part of the study, have none.
fn interface_at(by_link: &[Option<InterfaceAt>], link: u32) -> Option<InterfaceAt> {
    by_link.get(link as usize).copied().flatten()
}

/// The file of a node.
struct Capture {
    writer: CaptureWriter<Vec<u8>>,
    /// Payload bytes recorded per packet.
    payload: usize,
}

impl Capture {
    /// An empty capture with one interface per name that records `payload` bytes of each packet's payload, and all bytes of QUIC.
    fn new<'a>(interfaces: impl IntoIterator<Item = &'a str>, payload: usize, has_quic: bool) -> Self {
        let comment = has_quic.then(|| NULL_KEYS.to_owned());
        let writer = CaptureWriter::new(Vec::new(), LinkType::Ethernet, interfaces, comment).expect(IN_MEMORY);
        Self { writer, payload }
    }

    /// Records a packet at an interface.
    fn packet(
        &mut self,
        now: Time,
        (interface, direction): (u32, Direction),
        packet: &NetPacket,
        headers: Vec<u8>,
        payload: Option<&[u8]>,
    ) {
        let original_len = u32::from(packet.stored.bytes) + ETHERNET_HEADER_BYTES as u32;
        let mut data = headers;
        match payload {
            Some(payload) => append_payload(&mut data, payload),
            None => data.resize((data.len() + self.payload).min(original_len as usize), 0),
        }
        let at = Duration::from_nanos(now.as_nanos());
        self.writer.packet(at, interface, direction, original_len, &data).expect(IN_MEMORY);
    }

    /// The file.
    fn into_bytes(self) -> Vec<u8> {
        self.writer.into_inner()
    }
}

/// The comment on a capture with packets of QUIC.
const NULL_KEYS: &str =
    "The QUIC packets were simulated without keys: their frames are not encrypted, their headers not protected, and \
    their tags are zeros. Programs that decrypt Initial packets find them damaged.";
const IN_MEMORY: &str = "writing to memory cannot fail, and every interface was described";
