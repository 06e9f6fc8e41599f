//! A packet in thirty-two bytes, and apart from it the options that few segments have: those of SYN, and SACK blocks.
//!
//! A path of a hundred thousand packets is larger than the caches next to the core, and the cost of a packet is the wait for
//! memory.

use perigee_link::Ecn;
use perigee_tcp::{Header, Segment, MAX_SACK_BLOCKS};

use crate::packet::{Datagram, NetPacket, Payload};

/// A packet without rare options. Of a datagram, the header's `seq` is its number, `ack` and `window` the instant it was sent.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Compact {
    pub(crate) header: Header,
    pub(crate) way: u32,
    pub(crate) bytes: u16,
    pub(crate) ecn: Ecn,
    transport: Transport,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transport {
    #[default]
    Udp,
    Tcp,
    /// A segment with rare options.
    TcpWithOptions,
}

/// Options that few segments have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RareOptions {
    sack: [(u32, u32); MAX_SACK_BLOCKS],
    mss: u16,
    sack_count: u8,
    window_scale: Option<u8>,
    sack_permitted: bool,
}

impl Compact {
    /// A packet without its rare options, which [`RareOptions::of`] gives where it [has](Compact::has_options) any.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn of(packet: &NetPacket) -> Self {
        let (way, bytes, ecn) = (packet.way, packet.bytes, packet.ecn);
        match &packet.payload {
            Payload::Tcp(s) => {
                let transport = if s.is_plain() { Transport::Tcp } else { Transport::TcpWithOptions };
                Self { header: s.header, way, bytes, ecn, transport }
            }
            Payload::Udp(datagram) => {
                let Datagram { number, sent: [high, low], len } = *datagram;
                let header = Header { seq: number, ack: high, window: low, len, ..Header::default() };
                Self { header, way, bytes, ecn, transport: Transport::Udp }
            }
        }
    }

    /// The packet of a segment without rare options, whose sender does not take part in ECN: its way, its size, and its header.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn plain((way, bytes): (u32, u16), header: &Header) -> Self {
        Self { header: *header, way, bytes, ecn: Ecn::NotCapable, transport: Transport::Tcp }
    }

    /// Whether it is a segment without rare options and without a congestion mark.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.transport == Transport::Tcp && self.ecn != Ecn::Marked
    }

    /// Whether it is a segment that acknowledges, and does nothing else.
    #[inline]
    pub(crate) fn is_acknowledgement(&self) -> bool {
        self.transport != Transport::Udp && self.header.is_acknowledgement()
    }

    /// Whether it is a segment with rare options.
    #[inline]
    pub(crate) fn has_options(&self) -> bool {
        self.transport == Transport::TcpWithOptions
    }

    /// Puts it into `packet`, without rare options.
    #[inline]
    pub(crate) fn put_into(&self, packet: &mut NetPacket) {
        (packet.way, packet.bytes, packet.ecn) = (self.way, self.bytes, self.ecn);
        let header = self.header;
        packet.payload = match self.transport {
            Transport::Udp => {
                Payload::Udp(Datagram { number: header.seq, sent: [header.ack, header.window], len: header.len })
            }
            Transport::Tcp | Transport::TcpWithOptions => Payload::Tcp(header.into()),
        };
    }

    /// Puts a segment with these rare options into `packet`.
    #[inline]
    pub(crate) fn put_with(&self, options: &RareOptions, packet: &mut NetPacket) {
        let RareOptions { sack, mss, sack_count, window_scale, sack_permitted } = *options;
        (packet.way, packet.bytes, packet.ecn) = (self.way, self.bytes, self.ecn);
        let header = self.header;
        packet.payload =
            Payload::Tcp(Segment { header, sack, sack_count, ect: false, mss, window_scale, sack_permitted });
    }
}

impl RareOptions {
    /// Those of a packet, of which only a segment has any.
    #[inline]
    pub(crate) fn of(packet: &NetPacket) -> Self {
        let Payload::Tcp(segment) = &packet.payload else { return Self::default() };
        let Segment { sack, mss, sack_count, window_scale, sack_permitted, .. } = *segment;
        Self { sack, mss, sack_count, window_scale, sack_permitted }
    }
}

const _: () = assert!(size_of::<Compact>() <= 32);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use perigee_tcp::Flags;
    use proptest::prelude::*;

    fn segments() -> impl Strategy<Value = Segment> {
        let numbers = any::<[u32; 5]>();
        let (blocks, sizes) = (any::<[(u32, u32); MAX_SACK_BLOCKS]>(), any::<(u16, u16, Option<u8>)>());
        (numbers, blocks, sizes, 0..=MAX_SACK_BLOCKS as u8, any::<(bool, bool, bool)>()).prop_map(
            |(
                [seq, ack, window, tsval, tsecr],
                sack,
                (len, mss, window_scale),
                sack_count,
                (syn, timestamps, permitted),
            )| {
                let header = Header { seq, ack, window, tsval, tsecr, len, timestamps, ..Header::default() };
                let with = |flags| Segment::from(Header { flags: Flags(flags), ..header });
                match (syn, sack_count) {
                    (true, _) => Segment { mss, window_scale, sack_permitted: permitted, ..with(Flags::SYN) },
                    (false, 0) => with(Flags::ACK | Flags::PSH),
                    (false, _) => Segment { sack, sack_count, ..with(Flags::ACK) },
                }
            },
        )
    }

    /// Packets of any kind.
    pub(crate) fn packets() -> impl Strategy<Value = NetPacket> {
        let tcp = segments().prop_map(Payload::Tcp);
        let udp =
            any::<(u32, [u32; 2], u16)>().prop_map(|(number, sent, len)| Payload::Udp(Datagram { number, sent, len }));
        let ecn = prop_oneof![Just(Ecn::NotCapable), Just(Ecn::Capable), Just(Ecn::L4s), Just(Ecn::Marked)];
        (any::<u32>(), any::<u16>(), ecn, prop_oneof![tcp, udp]).prop_map(|(way, bytes, ecn, payload)| NetPacket {
            way,
            bytes,
            ecn,
            payload,
        })
    }
}
