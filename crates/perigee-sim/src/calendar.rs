//! The calendar of a link: the packets that it will deliver, in the order of delivery.
//!
//! A path of a hundred thousand packets is larger than the caches next to the core, and the cost of a packet is the wait for
//! memory. So a packet is kept in forty bytes, and the options that few segments have (those of SYN, and SACK blocks) in a
//! ring of their own, in the same order.

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
#[derive(Clone, Copy, Debug)]
struct Compact {
    at: Time,
    way: u32,
    seq: u32,
    ack: u32,
    window: u32,
    tsval: u32,
    tsecr: u32,
    bytes: u16,
    len: u16,
    flags: Flags,
    ecn: Ecn,
    transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp { timestamps: bool, options: bool },
}

/// Options that few segments have.
#[derive(Clone, Copy, Debug)]
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
    #[inline]
    pub(crate) fn push(&mut self, at: Time, packet: &NetPacket) {
        let (way, bytes, ecn) = (packet.way, packet.bytes, packet.ecn);
        let compact = match &packet.payload {
            Payload::Tcp(s) => {
                let options = s.sack_count > 0 || s.flags.has(Flags::SYN);
                if options {
                    self.push_options(s);
                }
                Compact {
                    at,
                    way,
                    seq: s.seq,
                    ack: s.ack,
                    window: s.window,
                    tsval: s.tsval,
                    tsecr: s.tsecr,
                    bytes,
                    len: s.len,
                    flags: s.flags,
                    ecn,
                    transport: Transport::Tcp { timestamps: s.timestamps, options },
                }
            }
            Payload::Udp(datagram) => {
                let Datagram { number, sent: [high, low], len } = *datagram;
                let (transport, flags) = (Transport::Udp, Flags::default());
                Compact {
                    at,
                    way,
                    seq: number,
                    ack: high,
                    window: low,
                    tsval: 0,
                    tsecr: 0,
                    bytes,
                    len,
                    flags,
                    ecn,
                    transport,
                }
            }
        };
        self.packets.push(compact);
    }

    /// Takes the first packet.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<NetPacket> {
        let p = self.packets.pop()?;
        let payload = match p.transport {
            Transport::Tcp { timestamps, options } => {
                let mut segment = Segment {
                    seq: p.seq,
                    ack: p.ack,
                    window: p.window,
                    tsval: p.tsval,
                    tsecr: p.tsecr,
                    len: p.len,
                    flags: p.flags,
                    timestamps,
                    ..Segment::default()
                };
                if options {
                    self.pop_options(&mut segment);
                }
                Payload::Tcp(segment)
            }
            Transport::Udp => Payload::Udp(Datagram { number: p.seq, sent: [p.ack, p.window], len: p.len }),
        };
        Some(NetPacket { way: p.way, bytes: p.bytes, ecn: p.ecn, payload })
    }

    fn push_options(&mut self, s: &Segment) {
        let Segment { sack, mss, sack_count, window_scale, sack_permitted, .. } = *s;
        self.options.push(RareOptions { sack, mss, sack_count, window_scale, sack_permitted });
    }

    fn pop_options(&mut self, s: &mut Segment) {
        if let Some(options) = self.options.pop() {
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
            let mut back = Vec::new();
            for (at, packet) in (0..).zip(&sent) {
                calendar.push(Time::from_nanos(at), packet);
                // Some are taken while others are still put.
                if back.len() < early && at % 2 == 1 {
                    prop_assert_eq!(calendar.next(), Some(Time::from_nanos(back.len() as u64)));
                    back.extend(calendar.pop());
                }
            }
            back.extend(std::iter::from_fn(|| calendar.pop()));
            prop_assert_eq!(format!("{sent:?}"), format!("{back:?}"));
        }
    }
}
