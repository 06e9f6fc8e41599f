//! Datagrams of `perigee ping`, and the client of a ping session.
//!
//! A session opens as a probe does (`hello`, `challenge`, `open`, `welcome` of `protocol.rs`), which verifies the
//! client's address. A ping has 20 bytes or more, big-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | `PGa2`: a ping; `PGb2`: its answer; `PGc2`: it arrived, but over the server's limit |
//! | 4 | the session |
//! | 4 | a rising number; the server answers each number once |
//! | 8 | truncated HMAC-SHA256 of the above |
//! | | zero padding |

use crate::code::{Token, CODE};
use crate::protocol::{self, Message, Reader, Refusal, FILLED_HELLO};

/// Kind of a ping datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PingKind {
    Ask,
    Answer,
    TooMany,
}

impl PingKind {
    const ALL: [Self; 3] = [Self::Ask, Self::Answer, Self::TooMany];

    const fn magic(self) -> [u8; 4] {
        match self {
            Self::Ask => *b"PGa2",
            Self::Answer => *b"PGb2",
            Self::TooMany => *b"PGc2",
        }
    }
}

/// A parsed ping or answer, not yet authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ping {
    pub(crate) kind: PingKind,
    pub(crate) session: u32,
    pub(crate) number: u32,
}

impl Ping {
    pub(crate) fn read(datagram: &[u8]) -> Option<Self> {
        if !(PING_LEAST..=PING_MOST).contains(&datagram.len()) {
            return None;
        }
        let mut at = Reader(datagram);
        let magic = at.bytes(4)?;
        let kind = PingKind::ALL.into_iter().find(|kind| kind.magic() == magic)?;
        Some(Self { kind, session: at.u32()?, number: at.u32()? })
    }

    /// Whether the datagram has a valid code.
    pub(crate) fn is_right(datagram: &[u8], token: &Token) -> bool {
        token.is_right(&datagram[..PING_HEAD], &datagram[PING_HEAD..PING_LEAST])
    }

    /// Writes the datagram, padded to `size`, and returns its length.
    pub(crate) fn write(self, token: &Token, size: usize, out: &mut [u8]) -> usize {
        out[..4].copy_from_slice(&self.kind.magic());
        out[4..8].copy_from_slice(&self.session.to_be_bytes());
        out[8..PING_HEAD].copy_from_slice(&self.number.to_be_bytes());
        let code: [u8; PING_LEAST - PING_HEAD] = token.code(&out[..PING_HEAD]);
        out[PING_HEAD..PING_LEAST].copy_from_slice(&code);
        let size = size.clamp(PING_LEAST, PING_MOST);
        out[PING_LEAST..size].fill(0);
        size
    }
}

/// Client side of a ping session, without socket and clock.
#[derive(Clone, Debug)]
pub struct Pinger {
    token: Token,
    session: u32,
}

/// A server's message to a ping client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingReply {
    /// A challenge to return with [`Pinger::open`].
    Challenge([u8; CODE]),
    /// The session is open; the maximum number of pings per second that the server answers to one address.
    Welcome(u32),
    /// The server refused the session.
    Refused(Refusal),
    /// The answer to the ping of this number.
    Answer(u32),
    /// The ping of this number arrived, over the server's limit.
    TooMany(u32),
}

impl Pinger {
    /// A session with a random number.
    pub fn new(session: u32, token: Token) -> Self {
        Self { token, session }
    }

    /// Writes the request for a challenge.
    pub fn hello(&self, out: &mut [u8]) -> usize {
        Message::Hello.write(u64::from(self.session), &self.token, FILLED_HELLO, out)
    }

    /// Writes the request that opens the session; `first` is the number of the next ping.
    pub fn open(&self, challenge: [u8; CODE], first: u32, out: &mut [u8]) -> usize {
        Message::Open { challenge, first }.write(u64::from(self.session), &self.token, 0, out)
    }

    /// Writes a ping of `size` bytes, from [`PING_LEAST`] to [`PING_MOST`].
    pub fn ask(&self, number: u32, size: usize, out: &mut [u8]) -> usize {
        Ping { kind: PingKind::Ask, session: self.session, number }.write(&self.token, size, out)
    }

    /// Parses a datagram of the server; `None` if it belongs to another session or has no valid code.
    pub fn read(&self, datagram: &[u8]) -> Option<PingReply> {
        if let Some(ping) = Ping::read(datagram) {
            let own = ping.session == self.session && Ping::is_right(datagram, &self.token);
            return match ping.kind {
                PingKind::Answer if own => Some(PingReply::Answer(ping.number)),
                PingKind::TooMany if own => Some(PingReply::TooMany(ping.number)),
                _ => None,
            };
        }
        match protocol::read(datagram, &self.token)? {
            (session, _) if session != u64::from(self.session) => None,
            (_, Message::Challenge(challenge)) => Some(PingReply::Challenge(challenge)),
            (_, Message::Welcome { pings }) => Some(PingReply::Welcome(pings)),
            (_, Message::Answer(Some(refusal))) => Some(PingReply::Refused(refusal)),
            _ => None,
        }
    }
}

const PING_HEAD: usize = 12;
/// Smallest ping, bytes.
pub const PING_LEAST: usize = 20;
/// Largest ping, bytes.
pub const PING_MOST: usize = 1400;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ping_is_read_as_it_was_written_and_only_with_the_token() {
        let token = Token::new(b"secret");
        for kind in PingKind::ALL {
            let ping = Ping { kind, session: 0x0102_0304, number: u32::MAX };
            let mut out = [0xff; PING_MOST];
            let length = ping.write(&token, 500, &mut out);
            assert_eq!((length, Ping::read(&out[..length])), (500, Some(ping)));
            assert!(Ping::is_right(&out[..length], &token));
            assert!(!Ping::is_right(&out[..length], &Token::new(b"another")));
            out[9] ^= 1;
            assert!(!Ping::is_right(&out[..length], &token));
        }
    }

    #[test]
    fn a_client_takes_no_answer_of_another_session() {
        let token = Token::new(b"secret");
        let pinger = Pinger::new(7, token.clone());
        let mut out = [0; PING_MOST];
        for (session, expected) in [(7, Some(PingReply::TooMany(3))), (8, None)] {
            let length = Ping { kind: PingKind::TooMany, session, number: 3 }.write(&token, 20, &mut out);
            assert_eq!(pinger.read(&out[..length]), expected);
            let length = Message::Welcome { pings: 5 }.write(u64::from(session), &token, 0, &mut out);
            assert_eq!(pinger.read(&out[..length]), expected.map(|_| PingReply::Welcome(5)));
        }
    }

    proptest! {
        #[test]
        fn nothing_that_arrives_makes_the_client_panic(
            kind in prop::sample::select(vec![*b"PGa2", *b"PGb2", *b"PGc2", *b"PGp2"]),
            rest in prop::collection::vec(any::<u8>(), 0..1500),
        ) {
            let pinger = Pinger::new(7, Token::new(b"secret"));
            prop_assert_eq!(pinger.read(&[&kind[..], &rest[..]].concat()), None);
            pinger.read(&rest);
        }
    }
}
