//! The calendar of a link: the packets that it will deliver, in the order of delivery.
//!
//! A path of a hundred thousand packets is larger than the caches next to the core, and the cost of a packet is the wait for
//! memory. So a packet is kept in forty bytes, and the options that few segments have (those of SYN, and SACK blocks) in a
//! ring of their own, in the same order.

use perigee_link::Ecn;
use perigee_tcp::{Header, Segment, MAX_SACK_BLOCKS};
use perigee_units::Time;

use crate::packet::{Datagram, NetPacket, Payload};
use crate::ring::Ring;

/// Packets with their instants of delivery, first in, first out.
#[derive(Debug)]
pub(crate) struct Calendar {
    packets: Ring<Compact>,
    options: Ring<RareOptions>,
}

/// A packet without rare options. Of a datagram, the header's `seq` is its number, `ack` and `window` the instant it was sent.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Compact {
    at: Time,
    header: Header,
    way: u32,
    bytes: u16,
    ecn: Ecn,
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

/// A segment taken out of a calendar.
#[derive(Clone, Copy)]
pub(crate) enum Taken {
    /// It has no rare options and no congestion mark: this is all of it.
    Header(Header),
    /// It is in the place for a packet that was given for it.
    InPlace,
}

/// Options that few segments have.
#[derive(Clone, Copy, Debug, Default)]
struct RareOptions {
    sack: [(u32, u32); MAX_SACK_BLOCKS],
    mss: u16,
    sack_count: u8,
    window_scale: Option<u8>,
    sack_permitted: bool,
}

impl Calendar {
    pub(crate) const fn new() -> Self {
        Self { packets: Ring::new(), options: Ring::new() }
    }

    /// Whether no packet waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// When the first packet is due.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.packets.front().map(|packet| packet.at)
    }

    /// Adds a packet that is due no earlier than the last one.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn push(&mut self, at: Time, packet: &NetPacket) {
        let (way, bytes, ecn) = (packet.way, packet.bytes, packet.ecn);
        if let Payload::Tcp(s) = &packet.payload {
            if !s.is_plain() {
                self.push_options(s);
            }
        }
        *self.packets.place() = match &packet.payload {
            Payload::Tcp(s) => {
                let transport = if s.is_plain() { Transport::Tcp } else { Transport::TcpWithOptions };
                Compact { at, header: s.header, way, bytes, ecn, transport }
            }
            Payload::Udp(datagram) => {
                let Datagram { number, sent: [high, low], len } = *datagram;
                let header = Header { seq: number, ack: high, window: low, len, ..Header::default() };
                Compact { at, header, way, bytes, ecn, transport: Transport::Udp }
            }
        };
    }

    /// [`Calendar::push`] of the packet of a segment without rare options, whose sender does not take part in ECN.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each packet that waits")]
    pub(crate) fn push_plain(&mut self, at: Time, (way, bytes): (u32, u16), header: &Header) {
        let (ecn, transport) = (Ecn::NotCapable, Transport::Tcp);
        *self.packets.place() = Compact { at, header: *header, way, bytes, ecn, transport };
    }

    /// The first packet, if it is one without rare options and without a congestion mark: its instant, its way and its size, and its
    /// header.
    #[inline]
    pub(crate) fn first_plain(&self) -> Option<(Time, (u32, u16), Header)> {
        let first = self.packets.front()?;
        let is_plain = first.transport == Transport::Tcp && first.ecn != Ecn::Marked;
        is_plain.then_some((first.at, (first.way, first.bytes), first.header))
    }

    /// Takes the first packet away, which is one of [`Calendar::first_plain`].
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        self.packets.drop_front();
    }

    /// Takes the first packet, if it is an acknowledgement of a way; `packet` is a place for it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for each acknowledgement")]
    pub(crate) fn take_acknowledgement(&mut self, way: u32, packet: &mut NetPacket) -> Option<Taken> {
        let first = self.packets.front()?;
        if first.way != way || first.transport == Transport::Udp || !first.header.is_acknowledgement() {
            return None;
        }
        if first.transport == Transport::Tcp && first.ecn != Ecn::Marked {
            let header = first.header;
            self.packets.drop_front();
            return Some(Taken::Header(header));
        }
        self.pop(packet);
        Some(Taken::InPlace)
    }

    /// Takes the first packet, and puts it into `packet`; whether there is one.
    #[inline]
    pub(crate) fn pop(&mut self, packet: &mut NetPacket) -> bool {
        let Some(p) = self.packets.front() else { return false };
        (packet.way, packet.bytes, packet.ecn) = (p.way, p.bytes, p.ecn);
        let (header, transport) = (p.header, p.transport);
        packet.payload = match transport {
            Transport::Udp => {
                Payload::Udp(Datagram { number: header.seq, sent: [header.ack, header.window], len: header.len })
            }
            Transport::Tcp | Transport::TcpWithOptions => Payload::Tcp(header.into()),
        };
        self.packets.drop_front();
        if transport == Transport::TcpWithOptions {
            self.pop_options(packet);
        }
        true
    }

    #[inline(never)]
    fn push_options(&mut self, s: &Segment) {
        let Segment { sack, mss, sack_count, window_scale, sack_permitted, .. } = *s;
        *self.options.place() = RareOptions { sack, mss, sack_count, window_scale, sack_permitted };
    }

    #[inline(never)]
    fn pop_options(&mut self, packet: &mut NetPacket) {
        if let (Some(options), Payload::Tcp(s)) = (self.options.pop(), &mut packet.payload) {
            s.sack = options.sack;
            s.mss = options.mss;
            s.sack_count = options.sack_count;
            s.window_scale = options.window_scale;
            s.sack_permitted = options.sack_permitted;
        }
    }
}

const _: () = assert!(size_of::<Compact>() <= 40);

#[cfg(test)]
mod tests {
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

    fn packets() -> impl Strategy<Value = NetPacket> {
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

    proptest! {
        #[test]
        fn packets_come_back_as_they_were(sent in prop::collection::vec(packets(), 0..60), early in 0usize..60) {
            let mut calendar = Calendar::new();
            let (mut back, mut taken) = (Vec::new(), NetPacket::NONE);
            for (at, packet) in (0..).zip(&sent) {
                calendar.push(Time::from_nanos(at), packet);
                // Some are taken while others are still put.
                if back.len() < early && at % 2 == 1 {
                    prop_assert_eq!(calendar.next(), Some(Time::from_nanos(back.len() as u64)));
                    prop_assert!(calendar.pop(&mut taken));
                    back.push(taken);
                }
            }
            while calendar.pop(&mut taken) {
                back.push(taken);
            }
            prop_assert_eq!(format!("{sent:?}"), format!("{back:?}"));
        }
    }
}
