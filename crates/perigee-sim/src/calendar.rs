//! The calendar of a link: the packets that it will deliver, in the order of delivery.
//!
//! A path of a hundred thousand packets is larger than the caches next to the core, and the cost of a packet is the wait for
//! memory. So a packet is kept in forty bytes, and the options that few segments have (those of SYN, and SACK blocks) in a
//! ring of their own, in the same order. Its fields stand in the order of those of a [`Segment`], so that a packet is put and
//! taken with a few wide moves.

use perigee_link::Ecn;
use perigee_tcp::{Flags, Segment, MAX_SACK_BLOCKS};
use perigee_units::Time;

use crate::packet::{Datagram, NetPacket, Payload};
use crate::ring::Ring;

/// Packets with their instants of delivery, first in, first out.
#[derive(Debug)]
pub(crate) struct Calendar {
    packets: Ring<Compact>,
    options: Ring<RareOptions>,
}

/// A packet without rare options. Of a datagram, `seq` is its number, `ack` and `window` the instant it was sent.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Compact {
    at: Time,
    seq: u32,
    ack: u32,
    window: u32,
    tsval: u32,
    tsecr: u32,
    len: u16,
    flags: Flags,
    timestamps: bool,
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
            if s.sack_count > 0 || s.flags.has(Flags::SYN) {
                self.push_options(s);
            }
        }
        *self.packets.place() = match &packet.payload {
            Payload::Tcp(s) => {
                let has_options = s.sack_count > 0 || s.flags.has(Flags::SYN);
                let transport = if has_options { Transport::TcpWithOptions } else { Transport::Tcp };
                let Segment { seq, ack, window, tsval, tsecr, len, flags, timestamps, .. } = *s;
                Compact { at, seq, ack, window, tsval, tsecr, len, flags, timestamps, way, bytes, ecn, transport }
            }
            Payload::Udp(datagram) => {
                let Datagram { number, sent: [high, low], len } = *datagram;
                Compact {
                    at,
                    seq: number,
                    ack: high,
                    window: low,
                    tsval: 0,
                    tsecr: 0,
                    len,
                    flags: Flags::default(),
                    timestamps: false,
                    way,
                    bytes,
                    ecn,
                    transport: Transport::Udp,
                }
            }
        };
    }

    /// Takes the first packet, and puts it into `packet`; whether there is one.
    #[inline]
    pub(crate) fn pop(&mut self, packet: &mut NetPacket) -> bool {
        let Some(p) = self.packets.front() else { return false };
        (packet.way, packet.bytes, packet.ecn) = (p.way, p.bytes, p.ecn);
        let transport = p.transport;
        if transport == Transport::Udp {
            packet.payload = Payload::Udp(Datagram { number: p.seq, sent: [p.ack, p.window], len: p.len });
        } else {
            let Compact { seq, ack, window, tsval, tsecr, len, flags, timestamps, .. } = *p;
            let plain = Segment { seq, ack, window, tsval, tsecr, len, flags, timestamps, ..Segment::default() };
            packet.payload = Payload::Tcp(plain);
        }
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
                let plain = Segment { seq, ack, window, tsval, tsecr, len, timestamps, ..Segment::default() };
                match (syn, sack_count) {
                    (true, _) => {
                        Segment { flags: Flags(Flags::SYN), mss, window_scale, sack_permitted: permitted, ..plain }
                    }
                    (false, 0) => Segment { flags: Flags(Flags::ACK | Flags::PSH), ..plain },
                    (false, _) => Segment { flags: Flags(Flags::ACK), sack, sack_count, ..plain },
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
