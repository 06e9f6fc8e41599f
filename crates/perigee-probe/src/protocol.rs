//! Datagrams of the probe, and those that open ping sessions at the same server. All numbers are big-endian.
//!
//! | kind | from | content after kind and session |
//! |---|---|---|
//! | `hello` | client | padding, so that the answer is no larger |
//! | `challenge` | server | 16 bytes that only the client's address receives |
//! | `start` | client | the challenge, and the request: direction, packet, rate, packets, packets per block |
//! | `answer` | server | 0, or the reason of a refusal and the limit |
//! | `data` | both | number, send time, padding |
//! | `keep-alive` | client | a rising number |
//! | `status` | server | packets received so far |
//! | `stop` | client | packets sent, padding |
//! | `stopped` | server | reason of the end, the sender's counts, length of the report |
//! | `get`, `part` | client, server | an offset in the report, and the bytes from there; the request is padded |
//! | `open` | client | the challenge, and the number of the first ping: opens a ping session |
//! | `welcome` | server | pings per second answered to one address |
//!
//! Pings themselves are smaller: `ping.rs`.
//!
//! Each datagram but `data` ends with an authentication code (before the padding). A data packet is identified by its
//! session, 64 random bits that only the two ends know, and by its address.

use perigee_units::Time;

use crate::code::{Token, CODE};

/// Direction of the data, as seen by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// Why a server refuses or ends a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    TooLarge,
    /// The client's keep-alives stopped.
    Silence,
    /// The session is not known.
    Unknown,
    /// The numbers of the request are invalid.
    Malformed,
    /// The address has its largest number of sessions, or began too many in a short time.
    TooMany(u64),
}

impl Refusal {
    fn parts(self) -> (u8, u64) {
        match self {
            Self::RateOfOne(limit) => (1, limit),
            Self::RateOfAll(limit) => (2, limit),
            Self::Time(limit) => (3, limit),
            Self::AnotherSession => (4, 0),
            Self::Busy => (5, 0),
            Self::TooLarge => (6, 0),
            Self::Silence => (7, 0),
            Self::Unknown => (8, 0),
            Self::Malformed => (9, 0),
            Self::TooMany(limit) => (10, limit),
        }
    }

    fn read(kind: u8, limit: u64) -> Option<Self> {
        Some(match kind {
            1 => Self::RateOfOne(limit),
            2 => Self::RateOfAll(limit),
            3 => Self::Time(limit),
            4 => Self::AnotherSession,
            5 => Self::Busy,
            6 => Self::TooLarge,
            7 => Self::Silence,
            8 => Self::Unknown,
            9 => Self::Malformed,
            10 => Self::TooMany(limit),
            _ => return None,
        })
    }
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl Sent {
    pub(crate) const NUMBERS: usize = 7;

    pub(crate) fn numbers(&self) -> [u64; Self::NUMBERS] {
        [self.packets, self.first_ns, self.last_ns, self.refused, self.slips, self.slipped_ns, self.late_max_ns]
    }

    pub(crate) fn from_numbers(numbers: [u64; Self::NUMBERS]) -> Self {
        let [packets, first_ns, last_ns, refused, slips, slipped_ns, late_max_ns] = numbers;
        Self { packets, first_ns, last_ns, refused, slips, slipped_ns, late_max_ns }
    }
}

/// A parsed datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    Open { challenge: [u8; CODE], first: u32 },
    Welcome { pings: u32 },
}

impl Message<'_> {
    const fn kind(&self) -> u8 {
        match self {
            Self::Hello => b'H',
            Self::Challenge(_) => b'C',
            Self::Start(..) => b'S',
            Self::Answer(_) => b'A',
            Self::Data { .. } => b'D',
            Self::KeepAlive(_) => b'K',
            Self::Status(_) => b'T',
            Self::Stop { .. } => b'E',
            Self::Stopped { .. } => b'F',
            Self::Get(_) => b'G',
            Self::Part(..) => b'P',
            Self::Open { .. } => b'O',
            Self::Welcome { .. } => b'W',
        }
    }

    /// Writes the datagram and returns its length; it is padded with zeros to `fill` bytes.
    pub(crate) fn write(&self, session: u64, token: &Token, fill: usize, out: &mut [u8]) -> usize {
        let mut at = Writer { out, at: 0 };
        at.bytes(&MAGIC).bytes(&[self.kind()]).u64(session);
        match *self {
            Self::Hello => &mut at,
            Self::Challenge(challenge) => at.bytes(&challenge),
            Self::Start(challenge, asked) => {
                let direction = u8::from(asked.direction == Direction::Down);
                at.bytes(&challenge).bytes(&[direction, asked.headers]).bytes(&asked.packet.to_be_bytes());
                at.u64(asked.rate_bps).u64(asked.packets).u32(asked.per_block)
            }
            Self::Answer(refusal) => at.refusal(refusal),
            Self::Data { number, sent_ns } => at.u64(number).u64(sent_ns),
            Self::KeepAlive(count) => at.u32(count),
            Self::Status(received) => at.u64(received),
            Self::Stop { sent } => at.u64(sent),
            Self::Stopped { ended, sent, report } => {
                let at = at.refusal(ended).u32(report);
                sent.numbers().into_iter().fold(at, |at, number| at.u64(number))
            }
            Self::Get(place) => at.u32(place),
            Self::Part(place, bytes) => at.u32(place).bytes(bytes),
            Self::Open { challenge, first } => at.bytes(&challenge).u32(first),
            Self::Welcome { pings } => at.u32(pings),
        };
        if !matches!(self, Self::Data { .. }) {
            let code: [u8; CODE] = token.code(&at.out[..at.at]);
            at.bytes(&code);
        }
        let length = at.at.max(fill);
        at.out[at.at..length].fill(0);
        length
    }
}

/// Parses a datagram with a valid code; `None` otherwise.
pub(crate) fn read<'d>(datagram: &'d [u8], token: &Token) -> Option<(u64, Message<'d>)> {
    let mut at = Reader(datagram);
    if at.bytes(MAGIC.len())? != MAGIC {
        return None;
    }
    let kind = at.u8()?;
    let session = at.u64()?;
    let message = match kind {
        b'H' => Message::Hello,
        b'C' => Message::Challenge(at.array()?),
        b'S' => Message::Start(at.array()?, at.request()?),
        b'A' => Message::Answer(at.refusal()?),
        b'D' => return Some((session, Message::Data { number: at.u64()?, sent_ns: at.u64()? })),
        b'K' => Message::KeepAlive(at.u32()?),
        b'T' => Message::Status(at.u64()?),
        b'E' => Message::Stop { sent: at.u64()? },
        b'F' => {
            let (ended, report) = (at.refusal()?, at.u32()?);
            let mut numbers = [0; Sent::NUMBERS];
            for number in &mut numbers {
                *number = at.u64()?;
            }
            Message::Stopped { ended, sent: Sent::from_numbers(numbers), report }
        }
        b'G' => Message::Get(at.u32()?),
        // A part has no padding: its content ends where the code begins.
        b'P' => Message::Part(at.u32()?, at.bytes(at.0.len().checked_sub(CODE)?)?),
        b'O' => Message::Open { challenge: at.array()?, first: at.u32()? },
        b'W' => Message::Welcome { pings: at.u32()? },
        _ => return None,
    };
    let (covered, code) = (datagram.len() - at.0.len(), at.bytes(CODE)?);
    token.is_right(&datagram[..covered], code).then_some((session, message))
}

/// Whether a datagram is of an older version of the probe or the ping.
pub(crate) fn is_older(datagram: &[u8]) -> bool {
    OLDER.iter().any(|magic| datagram.starts_with(magic))
}

struct Writer<'o> {
    out: &'o mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn refusal(&mut self, refusal: Option<Refusal>) -> &mut Self {
        let (kind, limit) = refusal.map_or((0, 0), Refusal::parts);
        self.bytes(&[kind]).u64(limit)
    }
}

pub(crate) struct Reader<'d>(pub(crate) &'d [u8]);

impl<'d> Reader<'d> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'d [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// `Some(None)`: not refused.
    #[allow(clippy::option_option, reason = "nothing read, nothing refused, and a refusal are three things")]
    fn refusal(&mut self) -> Option<Option<Refusal>> {
        match (self.u8()?, self.u64()?) {
            (0, _) => Some(None),
            (kind, limit) => Refusal::read(kind, limit).map(Some),
        }
    }

    fn request(&mut self) -> Option<Request> {
        let direction = match self.u8()? {
            0 => Direction::Up,
            1 => Direction::Down,
            _ => return None,
        };
        let headers = self.u8()?;
        let packet = self.array().map(u16::from_be_bytes)?;
        Some(Request {
            direction,
            packet,
            headers,
            rate_bps: self.u64()?,
            packets: self.u64()?,
            per_block: self.u32()?,
        })
    }
}

/// First bytes of each datagram of this version of the probe.
const MAGIC: [u8; 4] = *b"PGp2";
/// First bytes of version 1, with codes of the unstretched token: probes, pings.
const OLDER: [&[u8]; 2] = [b"PGp1", b"PGa1"];
/// Kind, session, number and send time of a data packet: its smallest payload.
pub(crate) const DATA_HEAD: usize = MAGIC.len() + 1 + 8 + 8 + 8;
/// Requests that have a larger answer are padded to this.
pub(crate) const FILLED_HELLO: usize = 64;
/// Length of the padded request that ends a session, bytes.
pub(crate) const FILLED_STOP: usize = 160;
/// Length of the padded request for a part of a report, bytes.
pub(crate) const FILLED_GET: usize = 1200;
/// Bytes of the report in one part: the datagram is no larger than its request.
pub(crate) const PART: usize = FILLED_GET - MAGIC.len() - 1 - 8 - 4 - CODE;
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
            Message::Open { challenge: [9; CODE], first: 77 },
            Message::Welcome { pings: 1000 },
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
        let size = |message: Message<'_>, fill| message.write(1, &token, fill, &mut [0; 2000]);
        let sent = Sent::default();
        assert!(size(Message::Challenge([0; CODE]), 0) <= size(Message::Hello, FILLED_HELLO));
        assert!(size(Message::Answer(Some(Refusal::Busy)), 0) <= size(Message::Start([0; CODE], ASKED), 0));
        let open = size(Message::Open { challenge: [0; CODE], first: 0 }, 0);
        assert!(size(Message::Welcome { pings: 0 }, 0) <= open);
        assert!(size(Message::Answer(Some(Refusal::TooMany(1))), 0) <= open);
        let stopped = Message::Stopped { ended: None, sent, report: 0 };
        assert!(size(stopped, 0) <= size(Message::Stop { sent: 0 }, FILLED_STOP));
        assert_eq!(size(Message::Part(0, &[0; PART]), 0), size(Message::Get(0), FILLED_GET));
    }

    proptest! {
        #[test]
        fn nothing_that_arrives_makes_the_reader_panic(
            kind in prop::sample::select(b"HCSADKTEFGPOWX".to_vec()),
            rest in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let token = Token::new(b"secret");
            let mut datagram = MAGIC.to_vec();
            datagram.push(kind);
            datagram.extend(&rest);
            let found = read(&datagram, &token);
            // Without the token only data parse, since they carry no code.
            let is_data = matches!(found, Some((_, Message::Data { .. })));
            prop_assert!(found.is_none() || is_data);
            read(&rest, &token);
        }
    }
}
