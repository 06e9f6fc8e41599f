//! The forms of a packet in the simulator: stored in 32 bytes, with the options that few segments carry (those of SYN,
//! and SACK blocks) beside them, as the header that a sender has just written, and as a datagram.
//!
//! A path with a hundred thousand packets exceeds the inner caches, so memory access dominates the cost of a packet.

use perigee_link::Ecn;
use perigee_tcp::{Endpoint, Flags, Header, Segment, MAX_SACK_BLOCKS};
use perigee_units::Time;

/// A packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NetPacket {
    pub(crate) stored: Stored,
    /// Valid if the packet [has](Stored::has_options) any.
    pub(crate) options: RareOptions,
}

/// A packet without rare options. For a datagram, the header's `seq` is its number, and `ack` and `window` its send time.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Stored {
    pub(crate) header: Header,
    /// Twice the connection's number, plus one in reverse direction. A connection has the number of its flow; further legs of split flows
    /// are numbered after all flows.
    pub(crate) way: u32,
    /// Size of the IP packet.
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

/// The packet of a segment without rare options that is not ECN-capable.
#[derive(Clone, Copy)]
pub(crate) struct Bare<'a> {
    pub(crate) header: &'a Header,
    pub(crate) way: u32,
    pub(crate) bytes: u16,
    ecn: Ecn,
}

/// The content of a UDP packet: its number and its send time, as measurement tools write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) number: u32,
    /// Send time, as two halves of the nanoseconds: a 64-bit field would make every packet eight bytes larger.
    pub(crate) sent: [u32; 2],
    pub(crate) len: u16,
}

/// Puts the segments of an endpoint into packets.
#[derive(Clone, Copy)]
pub(crate) struct Outlet {
    pub(crate) way: u32,
    /// Length of the IP header, bytes.
    pub(crate) ip_header: u16,
}

/// A packet in a form that the network accepts.
pub(crate) trait Parcel {
    fn way(&self) -> u32;
    fn bytes(&self) -> u16;
    /// The ECN field, which a queue may mark.
    fn ecn(&mut self) -> &mut Ecn;
    /// The header, if the packet has neither options nor a congestion mark.
    fn header(&self) -> Option<&Header>;
    /// The packet without its rare options.
    fn stored(&self) -> Stored;
    fn options(&self) -> Option<RareOptions>;

    /// The whole packet.
    fn whole(&self) -> NetPacket {
        NetPacket { stored: self.stored(), options: self.options().unwrap_or_default() }
    }
}

impl NetPacket {
    /// The packet of a segment.
    #[inline]
    fn of(segment: &Segment, way: u32, bytes: u16, ecn: Ecn) -> Self {
        let Segment { header, sack, mss, sack_count, window_scale, sack_permitted, .. } = *segment;
        let (transport, options) = if segment.is_plain() {
            (Transport::Tcp, RareOptions::default())
        } else {
            (Transport::TcpWithOptions, RareOptions { sack, mss, sack_count, window_scale, sack_permitted })
        };
        Self { stored: Stored { header, way, bytes, ecn, transport }, options }
    }

    /// The datagram, unless it is a segment.
    pub(crate) fn datagram(&self) -> Option<Datagram> {
        let Header { seq, ack, window, len, .. } = self.stored.header;
        let is_datagram = self.stored.transport == Transport::Udp;
        is_datagram.then_some(Datagram { number: seq, sent: [ack, window], len })
    }

    /// The segment, unless it is a datagram.
    #[inline]
    pub(crate) fn segment(&self) -> Option<Segment> {
        let header = self.stored.header;
        match self.stored.transport {
            Transport::Udp => None,
            Transport::Tcp => Some(header.into()),
            Transport::TcpWithOptions => {
                let RareOptions { sack, mss, sack_count, window_scale, sack_permitted } = self.options;
                Some(Segment { header, sack, sack_count, ect: false, mss, window_scale, sack_permitted })
            }
        }
    }
}

impl Stored {
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

    /// Whether it has low priority.
    #[inline]
    pub(crate) fn is_low(&self) -> bool {
        self.header.flags.has(Flags::LOW)
    }

    /// Whether it is a segment with rare options.
    #[inline]
    pub(crate) fn has_options(&self) -> bool {
        self.transport == Transport::TcpWithOptions
    }
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

    pub(crate) fn packet(self, way: u32, headers: u16, ecn: Ecn, is_low: bool) -> NetPacket {
        let Self { number, sent: [high, low], len } = self;
        let flags = Flags(if is_low { Flags::LOW } else { 0 });
        let header = Header { seq: number, ack: high, window: low, len, flags, ..Header::default() };
        let stored = Stored { header, way, bytes: len + headers, ecn, transport: Transport::Udp };
        NetPacket { stored, options: RareOptions::default() }
    }
}

impl Outlet {
    /// The packet of a segment without rare options.
    #[inline]
    pub(crate) fn packet(self, header: &Header) -> Bare<'_> {
        let bytes = self.ip_header + header.plain_bytes() + header.len;
        Bare { header, way: self.way, bytes, ecn: Ecn::NotCapable }
    }

    /// The packet of any segment of an endpoint.
    #[inline(always)]
    pub(crate) fn packet_of(self, segment: &Segment, host: &Endpoint) -> NetPacket {
        let ecn = match segment.ect {
            true if host.sends_ect1() => Ecn::L4s,
            true => Ecn::Capable,
            false if segment.flags.has(Flags::SYN | Flags::ECE | Flags::CWR) => Ecn::AsksFor,
            false => Ecn::NotCapable,
        };
        let bytes = self.ip_header + (segment.header_bytes() as u16) + segment.len;
        NetPacket::of(segment, self.way, bytes, ecn)
    }
}

impl Parcel for Bare<'_> {
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
    #[inline(always)]
    fn header(&self) -> Option<&Header> {
        Some(self.header)
    }
    #[inline]
    fn stored(&self) -> Stored {
        let Self { header, way, bytes, ecn } = *self;
        Stored { header: *header, way, bytes, ecn, transport: Transport::Tcp }
    }
    #[inline]
    fn options(&self) -> Option<RareOptions> {
        None
    }
}

impl Parcel for NetPacket {
    #[inline]
    fn way(&self) -> u32 {
        self.stored.way
    }
    #[inline]
    fn bytes(&self) -> u16 {
        self.stored.bytes
    }
    #[inline]
    fn ecn(&mut self) -> &mut Ecn {
        &mut self.stored.ecn
    }
    #[inline(always)]
    fn header(&self) -> Option<&Header> {
        self.stored.is_header().then_some(&self.stored.header)
    }
    #[inline]
    fn stored(&self) -> Stored {
        self.stored
    }
    #[inline]
    fn options(&self) -> Option<RareOptions> {
        self.stored.has_options().then_some(self.options)
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
    #[inline(always)]
    fn header(&self) -> Option<&Header> {
        (**self).header()
    }
    #[inline]
    fn stored(&self) -> Stored {
        (**self).stored()
    }
    #[inline]
    fn options(&self) -> Option<RareOptions> {
        (**self).options()
    }
}

pub(crate) const UDP_HEADER: u16 = 8;

const _: () = assert!(size_of::<Stored>() <= 32);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
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
        let datagrams = any::<(u32, [u32; 2], u16)>().prop_map(|(number, sent, len)| Datagram { number, sent, len });
        let ecn = prop_oneof![Just(Ecn::NotCapable), Just(Ecn::Capable), Just(Ecn::L4s), Just(Ecn::Marked)];
        let tcp = (any::<u32>(), any::<u16>(), ecn.clone(), segments());
        let tcp = tcp.prop_map(|(way, bytes, ecn, segment)| NetPacket::of(&segment, way, bytes, ecn));
        let udp = (any::<u32>(), 0..100u16, ecn, datagrams).prop_map(|(way, headers, ecn, datagram)| {
            let len = datagram.len.min(u16::MAX - headers);
            Datagram { len, ..datagram }.packet(way, headers, ecn, false)
        });
        prop_oneof![tcp, udp]
    }

    proptest! {
        #[test]
        fn a_datagram_keeps_the_instant_it_was_sent(ns in any::<u64>()) {
            let datagram = Datagram::new(1, Time::from_nanos(ns), 100, 28);
            prop_assert_eq!(datagram.sent_at(), Time::from_nanos(ns));
            prop_assert_eq!(datagram.packet(2, 28, Ecn::Capable, true).datagram(), Some(datagram));
        }

        #[test]
        fn a_packet_keeps_its_segment(segment in segments()) {
            let kept = NetPacket::of(&segment, 1, 1500, Ecn::Capable).segment();
            prop_assert_eq!(format!("{:?}", kept), format!("{:?}", Some(segment)));
        }
    }
}
