//! Classifies packets on a link by flow.

use std::net::IpAddr;

use perigee_study::{Scenario, Traffic};
use perigee_wire::{Packet, Ports, Tcp as Segment, Transport};

use crate::run::probes::PacketNumber;

/// The flows of a run by the addresses and ports of their packets.
pub(crate) struct Classifier {
    /// The address of the node that sends each flow's data.
    sources: Vec<IpAddr>,
    /// Whether each flow has many connections.
    is_population: Vec<bool>,
}

/// The flow of a packet, and its content for the observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classified {
    /// Number of the flow.
    pub(crate) flow: usize,
    /// Whether the packet travels in the direction of the data.
    pub(crate) is_forward: bool,
    /// Place of the connection, in a population.
    pub(crate) place: u32,
    pub(crate) content: Content,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Segment(Segment),
    Probe(PacketNumber),
}

impl Classifier {
    /// A classifier for a run's flows.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let flows = &scenario.flows;
        Self {
            sources: flows.iter().map(|flow| flow.address(flow.from)).collect(),
            is_population: flows.iter().map(|flow| matches!(flow.traffic, Traffic::Population { .. })).collect(),
        }
    }

    /// Classifies a packet; `None` if it belongs to no flow.
    pub(crate) fn classify(&self, packet: &[u8]) -> Option<Classified> {
        let packet = Packet::read(packet)?;
        let (connection, content) = match packet.transport {
            Transport::Tcp(segment) => {
                (Ports::flow([segment.source_port, segment.destination_port])?, Content::Segment(segment))
            }
            Transport::Udp { source_port, destination_port, number, .. } => {
                (Ports::flow([source_port, destination_port])?, Content::Probe(PacketNumber::Whole(number?)))
            }
            Transport::Echo { identifier, sequence, .. } => {
                (Ports::flow_of_echo(identifier)?, Content::Probe(PacketNumber::Low(sequence)))
            }
            Transport::Other => return None,
        };
        let (flow, place) = ((connection % Ports::DISTINCT) as usize, connection / Ports::DISTINCT);
        let is_forward = packet.source == *self.sources.get(flow)?;
        (place == 0 || self.is_population[flow]).then_some(Classified { flow, is_forward, place, content })
    }
}

#[cfg(test)]
mod tests {
    use perigee_wire::{address, IpVersion};

    use super::*;

    /// A packet between the first two nodes, `forward` or back.
    fn packet(ip: IpVersion, forward: bool, transport: Transport) -> Vec<u8> {
        let (source, destination) = if forward { (0, 1) } else { (1, 0) };
        let (source, destination) = (address(source, ip), address(destination, ip));
        let mut bytes = Vec::new();
        Packet { source, destination, bytes: 72, ecn: 0, identification: 0, transport }.write(&mut bytes);
        bytes
    }

    fn echo(identifier: u16, sequence: u16) -> Transport {
        Transport::Echo { is_reply: false, identifier, sequence, payload: 8 }
    }

    #[test]
    fn pings_and_datagrams_are_known_by_their_numbers() {
        let (v4, v6) = (IpVersion::V4, IpVersion::V6);
        let sources = vec![address(0, v4), address(0, v4), address(0, v6)];
        let classifier = Classifier { sources, is_population: vec![false; 3] };
        let ping = classifier.classify(&packet(v4, true, echo(49_152, 258)));
        assert_eq!(
            ping,
            Some(Classified { flow: 0, is_forward: true, place: 0, content: Content::Probe(PacketNumber::Low(258)) })
        );
        let datagram =
            Transport::Udp { source_port: 49_153, destination_port: 5202, payload: 44, number: Some(65_538) };
        let datagram = classifier.classify(&packet(v4, true, datagram));
        let content = Content::Probe(PacketNumber::Whole(65_538));
        assert_eq!(datagram, Some(Classified { flow: 1, is_forward: true, place: 0, content }));
        let back = classifier.classify(&packet(v6, false, echo(49_154, 9)));
        assert_eq!(
            back,
            Some(Classified { flow: 2, is_forward: false, place: 0, content: Content::Probe(PacketNumber::Low(9)) })
        );
        // Pings of others, a flow that does not exist, and ICMP errors of a kernel.
        assert_eq!(classifier.classify(&packet(v4, true, echo(7, 1))), None);
        assert_eq!(classifier.classify(&packet(v4, true, echo(49_155, 1))), None);
        assert_eq!(classifier.classify(&packet(v4, true, Transport::Other)), None);
    }
    #[test]
    fn connections_of_a_population_are_known_by_their_places_and_other_flows_have_one() {
        let v4 = IpVersion::V4;
        let classifier = Classifier { sources: vec![address(0, v4); 2], is_population: vec![false, true] };
        let segment = |flow: u32, place: u32| {
            let Ports { server, client } = Ports::of(flow + place * Ports::DISTINCT);
            let segment = Segment { source_port: server, destination_port: client, ..Segment::default() };
            classifier.classify(&packet(v4, true, Transport::Tcp(segment)))
        };
        for place in [0, 1, Ports::DISTINCT - 1] {
            let found = segment(1, place).expect("a connection");
            assert_eq!((found.flow, found.is_forward, found.place), (1, true, place));
        }
        assert!(segment(0, 0).is_some());
        assert_eq!((segment(0, 1), segment(2, 0)), (None, None));
    }
}
