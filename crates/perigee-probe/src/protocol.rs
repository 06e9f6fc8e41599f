//! Datagrams of the probe.
//!
//! | message | from | content |
//! |---|---|---|
//! | `Hello` | client | padding, so that the answer is no larger |
//! | `Challenge` | server | 16 bytes that only the client's address receives |
//! | `Start` | client | the challenge, and the request: direction, packet, rate, packets, packets per block |
//! | `Answer` | server | nothing, or the reason of a refusal and the limit |
//! | `Data` | both | number, send time, padding |
//! | `KeepAlive` | client | a rising number |
//! | `Status` | server | packets received so far |
//! | `Stop` | client | packets sent, padding |
//! | `Stopped` | server | reason of the end, the sender's counts, length of the report |
//! | `Get`, `Part` | client, server | an offset in the report, and the bytes from there; the request is padded |
//!
//! A datagram is `MAGIC`, the session and the message in the encoding of postcard (1.0 of its wire format), then, but for
//! `Data`, an authentication code of these bytes, then padding. A data packet is identified by its session, 64 random bits
//! that only the two ends know, and by its address.

use perigee_units::Time;
use serde::{Deserialize, Serialize};

use crate::code::{Token, CODE};

/// Direction of the data, as seen by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// Why a server refuses or ends a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Over the limit of one client, bit/s.
    RateOfOne(u64),
    /// Over what is left for all clients together, bit/s.
    RateOfAll(u64),
    /// Over the longest duration of a probe, s.
    Time(u64),
    /// The client's address already runs a session.
    AnotherSession,
    /// The server has its largest number of clients.
    Busy,
    /// The packet exceeds the MTU of the server's network.
    #[serde(rename = "too_large_there")]
    TooLarge,
    /// The client's keep-alives stopped.
    Silence,
    /// The session is not known.
    Unknown,
    /// The numbers of the request are invalid.
    Malformed,
    /// The address began too many probes in a short time.
    TooMany(u64),
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) direction: Direction,
    /// Bytes of a packet with its IP and UDP headers, which the rate counts.
    pub(crate) packet: u16,
    /// Bytes of these headers.
    pub(crate) headers: u8,
    pub(crate) rate_bps: u64,
    pub(crate) packets: u64,
    pub(crate) per_block: u32,
}

impl Request {
    /// Duration of all packets.
    pub(crate) fn time(&self) -> Time {
        let bit_ns = u128::from(self.packets) * u128::from(self.packet) * 8_000_000_000;
        Time::from_nanos(u64::try_from(bit_ns / u128::from(self.rate_bps.max(1))).unwrap_or(u64::MAX))
    }
}

/// The sender's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Packets accepted by the socket.
    pub packets: u64,
    /// Send time of the first packet, on the sender's clock.
    pub first_ns: u64,
    /// Send time of the last packet.
    pub last_ns: u64,
    /// Times at which the socket accepted no packet (its queue was full).
    pub refused: u64,
    /// How often the schedule was shifted because the sender was late.
    pub slips: u64,
    /// Sum of these shifts.
    pub slipped_ns: u64,
    /// Largest lateness of a packet against the schedule.
    pub late_max_ns: u64,
}

/// A parsed datagram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Message<'d> {
    Hello,
    Challenge([u8; CODE]),
    Start([u8; CODE], Request),
    Answer(Option<Refusal>),
    Data { number: u64, sent_ns: u64 },
    KeepAlive(u32),
    Status(u64),
    Stop { sent: u64 },
    Stopped { ended: Option<Refusal>, sent: Sent, report: u32 },
    Get(u32),
    Part(u32, &'d [u8]),
}

impl Message<'_> {
    /// Writes the datagram and returns its length; it is padded with zeros to `fill` bytes. `out` has [`MOST_BYTES`].
    pub(crate) fn write(&self, session: u64, token: &Token, fill: usize, out: &mut [u8]) -> usize {
        // No message is longer than a part of a report, so that there is room; nothing would be sent otherwise.
        let Ok(written) = postcard::to_slice(&(MAGIC, session, self), out) else { return 0 };
        let mut at = written.len();
        if !matches!(self, Self::Data { .. }) {
            let code: [u8; CODE] = token.code(&out[..at]);
            out[at..at + CODE].copy_from_slice(&code);
            at += CODE;
        }
        let length = at.max(fill);
        out[at..length].fill(0);
        length
    }
}

/// Parses a datagram with a valid code; `None` otherwise.
pub(crate) fn read<'d>(datagram: &'d [u8], token: &Token) -> Option<(u64, Message<'d>)> {
    // Anything else is not parsed.
    datagram.starts_with(&MAGIC).then_some(())?;
    let ((_, session, message), rest) = postcard::take_from_bytes::<([u8; 4], u64, Message<'d>)>(datagram).ok()?;
    let is_right = matches!(message, Message::Data { .. })
        || token.is_right(&datagram[..datagram.len() - rest.len()], rest.get(..CODE)?);
    is_right.then_some((session, message))
}

/// First bytes of each datagram of this version of the probe.
const MAGIC: [u8; 4] = *b"PGp3";
/// The longest begin of a data packet, and its smallest payload: session, kind, number and send time.
pub(crate) const DATA_HEAD: usize = MAGIC.len() + 10 + 1 + 10 + 10;
/// Requests that have a larger answer are padded to this.
pub(crate) const FILLED_HELLO: usize = 64;
/// Length of the padded request that ends a session, bytes.
pub(crate) const FILLED_STOP: usize = 160;
/// Length of the padded request for a part of a report, bytes.
pub(crate) const FILLED_GET: usize = 1200;
/// Bytes of the report in one part: the datagram is no larger than its request.
pub(crate) const PART: usize = FILLED_GET - MAGIC.len() - 10 - 1 - 5 - 2 - CODE;
/// Largest datagram sent or read.
pub const MOST_BYTES: usize = 9216;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ASKED: Request = Request {
        direction: Direction::Down,
        packet: 1500,
        headers: 28,
        rate_bps: 2_000_000,
        packets: 100_000,
        per_block: 17,
    };

    #[test]
    fn every_message_is_read_as_it_was_written() {
        let token = Token::new(b"secret");
        let sent = Sent { packets: 7, first_ns: 1, last_ns: 2, refused: 3, slips: 4, slipped_ns: 5, late_max_ns: 6 };
        let messages = [
            Message::Hello,
            Message::Challenge([7; CODE]),
            Message::Start([7; CODE], ASKED),
            Message::Answer(None),
            Message::Answer(Some(Refusal::RateOfOne(5))),
            Message::Data { number: 1 << 40, sent_ns: 99 },
            Message::KeepAlive(3),
            Message::Status(12),
            Message::Stop { sent: 5 },
            Message::Stopped { ended: Some(Refusal::Silence), sent, report: 77 },
            Message::Get(1176),
            Message::Part(1176, b"what there is"),
            Message::Answer(Some(Refusal::TooMany(32))),
        ];
        for message in messages {
            let mut out = [0xff; 2000];
            let fill = if matches!(message, Message::Part(..)) { 0 } else { 1000 };
            let length = message.write(0x0123_4567_89ab_cdef, &token, fill, &mut out);
            assert_eq!(read(&out[..length], &token), Some((0x0123_4567_89ab_cdef, message)));
            if !matches!(message, Message::Data { .. }) {
                assert_eq!(read(&out[..length], &Token::new(b"another")), None);
            }
        }
    }

    #[test]
    fn no_answer_is_larger_than_its_question() {
        let token = Token::new(b"secret");
        // The largest numbers have the longest encoding.
        let size = |message: Message<'_>, fill| message.write(u64::MAX, &token, fill, &mut [0; 2000]);
        let most = u64::MAX;
        let sent = Sent {
            packets: most,
            first_ns: most,
            last_ns: most,
            refused: most,
            slips: most,
            slipped_ns: most,
            late_max_ns: most,
        };
        let least = Request { packet: 0, headers: 0, rate_bps: 0, packets: 0, per_block: 0, ..ASKED };
        assert!(size(Message::Challenge([0; CODE]), 0) <= size(Message::Hello, FILLED_HELLO));
        assert!(size(Message::Answer(Some(Refusal::TooMany(most))), 0) <= size(Message::Start([0; CODE], least), 0));
        let stopped = Message::Stopped { ended: Some(Refusal::TooMany(most)), sent, report: u32::MAX };
        assert!(size(stopped, 0) <= size(Message::Stop { sent: 0 }, FILLED_STOP));
        assert!(size(Message::Part(u32::MAX, &[0; PART]), 0) <= size(Message::Get(0), FILLED_GET));
        let data = Message::Data { number: most, sent_ns: most };
        assert_eq!(size(data, 0), DATA_HEAD);
    }

    proptest! {
        #[test]
        fn nothing_that_arrives_makes_the_reader_panic(
            kind in 0u8..13,
            rest in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let token = Token::new(b"secret");
            let mut datagram = MAGIC.to_vec();
            datagram.extend([1, kind]);
            datagram.extend(&rest);
            let found = read(&datagram, &token);
            // Without the token only data parse, since they carry no code.
            let is_data = matches!(found, Some((_, Message::Data { .. })));
            prop_assert!(found.is_none() || is_data);
            read(&rest, &token);
        }
    }
}
