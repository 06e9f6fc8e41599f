//! The packets of the simulator: a TCP segment or a datagram, as one small value.

use perigee_link::Ecn;
use perigee_tcp::Segment;
use perigee_units::Time;

/// An IP packet in the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetPacket {
    /// Twice the connection's number, plus one in reverse direction. A connection has the number of its flow; further legs of split flows
    /// are numbered after all flows.
    pub(crate) way: u32,
    /// Size of the IP packet.
    pub(crate) bytes: u16,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Payload,
}

impl NetPacket {
    /// Storage for a packet.
    pub(crate) const NONE: Self = Self {
        way: 0,
        bytes: 0,
        ecn: Ecn::NotCapable,
        payload: Payload::Udp(Datagram { number: 0, sent: [0; 2], len: 0 }),
    };

    /// Storage for a packet with a segment.
    pub(crate) const SEGMENT: Self = Self { payload: Payload::Tcp(Segment::EMPTY), ..Self::NONE };
}

/// The content of an IP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload {
    Tcp(Segment),
    Udp(Datagram),
}

/// The content of a UDP packet: its number and its send time, as measurement tools write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) number: u32,
    /// Send time, as two halves of the nanoseconds: a 64-bit field would make every packet eight bytes larger.
    pub(crate) sent: [u32; 2],
    /// Payload bytes.
    pub(crate) len: u16,
}

impl Datagram {
    /// A datagram whose packet, with headers, has `packet_bytes`.
    pub(crate) fn new(number: u32, sent: Time, packet_bytes: u16, headers: u16) -> Self {
        let ns = sent.as_nanos();
        let len = packet_bytes.saturating_sub(headers);
        Self { number, sent: [(ns >> 32) as u32, ns as u32], len }
    }

    pub(crate) fn sent_at(self) -> Time {
        Time::from_nanos(u64::from(self.sent[0]) << 32 | u64::from(self.sent[1]))
    }

    pub(crate) fn packet(self, way: u32, headers: u16, ecn: Ecn) -> NetPacket {
        NetPacket { way, bytes: self.len + headers, ecn, payload: Payload::Udp(self) }
    }
}

/// Bytes of a UDP header.
pub(crate) const UDP_HEADER: u16 = 8;

// A packet fits one cache line, and the enum costs nothing: its tag uses the niche of the segment's flags.
const _: () = assert!(size_of::<NetPacket>() <= 64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_datagram_keeps_the_instant_it_was_sent(ns in any::<u64>()) {
            prop_assert_eq!(Datagram::new(1, Time::from_nanos(ns), 100, 28).sent_at(), Time::from_nanos(ns));
        }
    }
}
