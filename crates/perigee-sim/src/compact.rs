//! A packet in 32 bytes, and separately the options that few segments carry: those of SYN, and SACK blocks.
//!
//! A path with a hundred thousand packets exceeds the inner caches, so memory access dominates the cost of a packet.

use perigee_link::Ecn;
use perigee_tcp::{Header, SackBlocks, Segment, MAX_SACK_BLOCKS};

use crate::packet::{Datagram, NetPacket, Payload};

/// A packet without rare options. For a datagram, the header's `seq` is its number, and `ack` and `window` its send time.
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

/// Options that few segments carry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RareOptions {
    sack: [(u32, u32); MAX_SACK_BLOCKS],
    mss: u16,
    sack_count: u8,
    window_scale: Option<u8>,
    sack_permitted: bool,
}

/// Storage for a packet that leaves a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    pub(crate) packet: Compact,
    /// Valid if the packet [has](Compact::has_options) any.
    pub(crate) options: RareOptions,
}

impl Arrived {
    /// The header, if the packet has neither options nor a congestion mark.
    #[inline]
    pub(crate) fn header(&self) -> Option<&Header> {
        self.packet.is_header().then_some(&self.packet.header)
    }

    /// The header and SACK blocks of a segment with rare options and without a congestion mark.
    #[inline]
    pub(crate) fn report(&self) -> Option<(&Header, SackBlocks<'_>)> {
        let has_options = self.packet.has_options() && self.packet.ecn != Ecn::Marked;
        has_options.then_some((&self.packet.header, (&self.options.sack, self.options.sack_count)))
    }

    /// The segment, unless it is a datagram.
    #[inline]
    pub(crate) fn segment(&self) -> Option<Segment> {
        let header = self.packet.header;
        match self.packet.transport {
            Transport::Udp => None,
            Transport::Tcp => Some(header.into()),
            Transport::TcpWithOptions => {
                let RareOptions { sack, mss, sack_count, window_scale, sack_permitted } = self.options;
                Some(Segment { header, sack, sack_count, ect: false, mss, window_scale, sack_permitted })
            }
        }
    }
}

impl Compact {
    /// A packet without its rare options; [`RareOptions::of`] returns these if it [has](Compact::has_options) any.
    #[inline(always)]
    fn of(packet: &NetPacket) -> Self {
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

    /// Whether it is a segment without rare options and congestion mark.
    #[inline]
    pub(crate) fn is_header(&self) -> bool {
        self.transport == Transport::Tcp && self.ecn != Ecn::Marked
    }

    /// Whether it is a pure ACK.
    #[inline]
    pub(crate) fn is_acknowledgement(&self) -> bool {
        self.transport != Transport::Udp && self.header.is_acknowledgement()
    }

    /// Whether it is a segment with rare options.
    #[inline]
    pub(crate) fn has_options(&self) -> bool {
        self.transport == Transport::TcpWithOptions
    }
}

impl RareOptions {
    /// The rare options of a packet, if it has any.
    #[inline]
    fn of(packet: &NetPacket) -> Option<Self> {
        let Payload::Tcp(segment) = &packet.payload else { return None };
        let Segment { sack, mss, sack_count, window_scale, sack_permitted, .. } = *segment;
        (!segment.is_plain()).then_some(Self { sack, mss, sack_count, window_scale, sack_permitted })
    }
}

/// The packet of a segment without rare options that is not ECN-capable.
#[derive(Clone, Copy)]
pub(crate) struct Bare<'a> {
    pub(crate) header: &'a Header,
    pub(crate) way: u32,
    pub(crate) bytes: u16,
    ecn: Ecn,
}

impl<'a> Bare<'a> {
    #[inline]
    pub(crate) fn new(header: &'a Header, way: u32, bytes: u16) -> Self {
        Self { header, way, bytes, ecn: Ecn::NotCapable }
    }
}

/// A packet in any form that the network accepts: complete, in 32 bytes, or as a borrowed header.
pub(crate) trait Parcel {
    fn way(&self) -> u32;
    fn bytes(&self) -> u16;
    /// The ECN field, which a queue may mark.
    fn ecn(&mut self) -> &mut Ecn;
    /// The packet without its rare options.
    fn compact(&self) -> Compact;
    fn options(&self) -> Option<RareOptions>;
    fn whole(&self) -> NetPacket;
}

/// The accessors that are the same for all forms.
macro_rules! own_fields {
    () => {
        #[inline]
        fn way(&self) -> u32 {
            self.way
        }
        #[inline]
        fn bytes(&self) -> u16 {
            self.bytes
        }
        #[inline]
        fn ecn(&mut self) -> &mut Ecn {
            &mut self.ecn
        }
    };
}

impl Parcel for Bare<'_> {
    own_fields!();
    #[inline]
    fn compact(&self) -> Compact {
        let Self { header, way, bytes, ecn } = *self;
        Compact { header: *header, way, bytes, ecn, transport: Transport::Tcp }
    }
    #[inline]
    fn options(&self) -> Option<RareOptions> {
        None
    }
    fn whole(&self) -> NetPacket {
        Arrived { packet: self.compact(), ..Arrived::default() }.whole()
    }
}

impl Parcel for Arrived {
    #[inline]
    fn way(&self) -> u32 {
        self.packet.way
    }
    #[inline]
    fn bytes(&self) -> u16 {
        self.packet.bytes
    }
    #[inline]
    fn ecn(&mut self) -> &mut Ecn {
        &mut self.packet.ecn
    }
    #[inline]
    fn compact(&self) -> Compact {
        self.packet
    }
    #[inline]
    fn options(&self) -> Option<RareOptions> {
        self.packet.has_options().then_some(self.options)
    }
    fn whole(&self) -> NetPacket {
        let Compact { header, way, bytes, ecn, .. } = self.packet;
        let datagram = || Datagram { number: header.seq, sent: [header.ack, header.window], len: header.len };
        let payload = self.segment().map_or_else(|| Payload::Udp(datagram()), Payload::Tcp);
        NetPacket { way, bytes, ecn, payload }
    }
}

impl Parcel for NetPacket {
    own_fields!();
    #[inline]
    fn compact(&self) -> Compact {
        Compact::of(self)
    }
    #[inline]
    fn options(&self) -> Option<RareOptions> {
        RareOptions::of(self)
    }
    fn whole(&self) -> Self {
        *self
    }
}

impl<P: Parcel> Parcel for &mut P {
    #[inline]
    fn way(&self) -> u32 {
        (**self).way()
    }
    #[inline]
    fn bytes(&self) -> u16 {
        (**self).bytes()
    }
    #[inline]
    fn ecn(&mut self) -> &mut Ecn {
        (**self).ecn()
    }
    #[inline]
    fn compact(&self) -> Compact {
        (**self).compact()
    }
    #[inline]
    fn options(&self) -> Option<RareOptions> {
        (**self).options()
    }
    fn whole(&self) -> NetPacket {
        (**self).whole()
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
