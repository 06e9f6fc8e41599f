//! Simulated packets with the headers that Linux would write.
//!
//! TCP options have Linux's kinds, order, values and lengths. Payloads are zeros, except the numbers of datagrams and the bytes of QUIC:
//! the simulator counts bytes and carries no others.

use perigee_study::{FlowSpec, IpVersion, Traffic};
use perigee_tcp::{Flags, Segment};
use perigee_wire::{address, ethernet_header, mac, write_lower_effort, Opening, Packet, Ports, Sack, Tcp, Transport};

use crate::packet::{Datagram, NetPacket};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    source: u32,
    destination: u32,
    source_port: u16,
    destination_port: u16,
    ip: IpVersion,
    content: Content,
    /// Added to the sequence numbers of this direction, and to those that it acknowledges.
    numbers: [u32; 2],
}

/// Content of one direction's packets, besides segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Datagrams,
    Quic,
    EchoRequests,
    EchoReplies,
}

impl Endpoints {
    /// The endpoints of the flow with this number: of its data's way, and of the reverse way. `ports` is how many places further on the
    /// clients' ports of the run begin, and `numbers` is added to the sequence numbers of either way.
    pub(crate) fn of(flow: &FlowSpec, number: u32, ports: u16, numbers: [u32; 2]) -> [Self; 2] {
        let (source_port, destination_port) = flow.ports(number);
        let [source_port, destination_port] = [source_port, destination_port].map(|port| Ports::in_run(port, ports));
        let is_ping = matches!(&flow.traffic, Traffic::Datagrams(datagrams) if datagrams.is_answered());
        let is_quic = flow.traffic.quic().is_some();
        let datagrams = if is_quic { Content::Quic } else { Content::Datagrams };
        let content = if is_ping { Content::EchoRequests } else { datagrams };
        let (source, destination, ip) = (flow.from, flow.to, flow.ip);
        let forward = Self { source, destination, source_port, destination_port, ip, content, numbers };
        let back = Self {
            source: destination,
            destination: source,
            source_port: destination_port,
            destination_port: source_port,
            content: if is_ping { Content::EchoReplies } else { datagrams },
            numbers: [numbers[1], numbers[0]],
            ..forward
        };
        [forward, back]
    }

    /// Whether its datagrams have bytes, of QUIC.
    pub(crate) fn is_quic(self) -> bool {
        self.content == Content::Quic
    }

    /// The headers of a packet, starting with Ethernet. `window_shift` is the sender's window scale, 0 for none.
    pub(crate) fn headers(self, packet: &NetPacket, window_shift: u8) -> Vec<u8> {
        let mut headers = ethernet_header(mac(self.source), mac(self.destination), self.ip).to_vec();
        let (ip_at, is_low) = (headers.len(), packet.stored.is_low());
        let segment = packet.segment().map(|segment| Transport::Tcp(self.segment(&segment, window_shift)));
        let transport = segment.or_else(|| packet.datagram().map(|datagram| self.datagram(datagram)));
        let packet = Packet {
            source: address(self.source, self.ip),
            destination: address(self.destination, self.ip),
            bytes: packet.stored.bytes.into(),
            ecn: packet.stored.ecn.bits(),
            identification: 0,
            transport: transport.expect("a packet is a segment or a datagram"),
        };
        packet.write(&mut headers);
        if is_low {
            write_lower_effort(&mut headers[ip_at..]);
        }
        headers
    }

    fn segment(self, segment: &Segment, window_shift: u8) -> Tcp {
        let has = |flag| segment.flags.has(flag);
        // RFC 7323, section 2.2: the window of a SYN is never scaled.
        let window = if has(Flags::SYN) { segment.window } else { segment.window >> window_shift };
        let opening = Opening {
            mss: Some(segment.mss),
            window_scale: segment.window_scale,
            sack_permitted: segment.sack_permitted,
        };
        let moved = |edge: u32| edge.wrapping_add(self.numbers[1]);
        let sack = segment.sack.map(|(start, end)| (moved(start), moved(end)));
        Tcp {
            source_port: self.source_port,
            destination_port: self.destination_port,
            sequence: segment.seq.wrapping_add(self.numbers[0]),
            acknowledgement: has(Flags::ACK).then_some(moved(segment.ack)),
            syn: has(Flags::SYN),
            fin: has(Flags::FIN),
            rst: has(Flags::RST),
            psh: has(Flags::PSH),
            ece: has(Flags::ECE),
            cwr: has(Flags::CWR),
            payload: segment.len.into(),
            window: window.min(u32::from(u16::MAX)) as u16,
            opening: if has(Flags::SYN) { opening } else { Opening::default() },
            sack: Sack::of(&sack[..usize::from(segment.sack_count)]),
            timestamps: segment.timestamps.then_some((segment.tsval, segment.tsecr)),
        }
    }

    fn datagram(self, Datagram { number, len, .. }: Datagram) -> Transport {
        let payload = u32::from(len);
        let echo = |is_reply| Transport::Echo {
            is_reply,
            identifier: self.source_port,
            // The last 16 bits, as in Linux's `ping`.
            sequence: number as u16,
            payload,
        };
        match self.content {
            Content::EchoRequests => echo(false),
            Content::EchoReplies => echo(true),
            Content::Datagrams | Content::Quic => Transport::Udp {
                source_port: self.source_port,
                destination_port: self.destination_port,
                payload,
                number: (payload >= 4 && !self.is_quic()).then_some(number),
            },
        }
    }
}
