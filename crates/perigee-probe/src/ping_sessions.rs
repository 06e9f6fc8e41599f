//! Server side of pings: open sessions, answered numbers, and the rate limit of each client.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};

use perigee_units::Time;

use crate::bucket::{client, Bucket};
use crate::code::Token;
use crate::ping::{Ping, PingKind};
use crate::protocol::Refusal;

/// Ping sessions, in memory bounded by [`MOST_SESSIONS`]. Only a verified address has one.
#[derive(Debug)]
pub(crate) struct PingSessions {
    limit: u32,
    sessions: BTreeMap<(SocketAddr, u32), Session>,
    clients: BTreeMap<Ipv6Addr, Account>,
    all: Bucket,
    all_refused: Bucket,
    answered: u64,
}

#[derive(Debug)]
struct Session {
    seen: Window,
    heard: Time,
}

/// Limits shared by the sessions of one client.
#[derive(Debug)]
struct Account {
    sessions: u64,
    answers: Bucket,
    refused: Bucket,
}

impl PingSessions {
    /// `limit`: pings per second answered to one client.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            limit,
            sessions: BTreeMap::new(),
            clients: BTreeMap::new(),
            all: Bucket::new(limit.saturating_mul(CLIENTS_AT_THE_LIMIT)),
            all_refused: Bucket::new(REFUSED_PER_S.saturating_mul(CLIENTS_AT_THE_LIMIT)),
            answered: 0,
        }
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Opens a session with first number `first`; a session that is open stays as it is.
    pub(crate) fn open(&mut self, now: Time, from: SocketAddr, session: u32, first: u32) -> Result<u32, Refusal> {
        if let Some(open) = self.sessions.get_mut(&(from, session)) {
            open.heard = now;
            return Ok(self.limit);
        }
        self.expire(now);
        if self.sessions.len() >= MOST_SESSIONS {
            return Err(Refusal::Busy);
        }
        let account = self.clients.entry(client(from)).or_insert_with(|| Account {
            sessions: 0,
            answers: Bucket::new(self.limit),
            refused: Bucket::new(REFUSED_PER_S),
        });
        if account.sessions >= MOST_OF_ONE {
            return Err(Refusal::TooMany(MOST_OF_ONE));
        }
        account.sessions += 1;
        self.sessions.insert((from, session), Session { seen: Window::from(first), heard: now });
        Ok(self.limit)
    }

    /// Writes the answer to a ping and returns its length; `None` if there is no session or the number was answered
    /// before.
    pub(crate) fn answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        (ping, datagram): (Ping, &[u8]),
        token: &Token,
        out: &mut [u8],
    ) -> Option<usize> {
        let session = self.sessions.get_mut(&(from, ping.session)).filter(|_| ping.kind == PingKind::Ask)?;
        // A replayed ping has no answer, and takes nothing from its client's limit.
        if !Ping::is_right(datagram, token) || !session.seen.is_new(ping.number) {
            return None;
        }
        session.heard = now;
        let account = self.clients.get_mut(&client(from))?;
        let kind = if Bucket::take([&mut account.answers, &mut self.all], now) {
            self.answered += 1;
            PingKind::Answer
        } else if Bucket::take([&mut account.refused, &mut self.all_refused], now) {
            PingKind::TooMany
        } else {
            return None;
        };
        // The notice of the limit has the least size: its round trip is not that of a ping.
        let size = if kind == PingKind::Answer { datagram.len() } else { 0 };
        Some(Ping { kind, ..ping }.write(token, size, out))
    }

    fn expire(&mut self, now: Time) {
        let clients = &mut self.clients;
        self.sessions.retain(|&(peer, _), session| {
            let stays = now - session.heard <= IDLE;
            if let Some(account) = clients.get_mut(&client(peer)).filter(|_| !stays) {
                account.sessions -= 1;
            }
            stays
        });
        clients.retain(|_, account| account.sessions > 0);
    }
}

/// Numbers received: the newest, and the 64 before it as a bit map. Older numbers count as answered.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// One more than the newest number.
    next: u64,
    /// Bit `n`: number `next - 1 - n` has arrived.
    came: u64,
}

impl Window {
    /// Numbers below `first` are not of this session.
    fn from(first: u32) -> Self {
        Self { next: u64::from(first), came: u64::MAX }
    }

    fn is_new(&mut self, number: u32) -> bool {
        let number = u64::from(number);
        if number >= self.next {
            let ahead = number - self.next + 1;
            self.came = if ahead >= 64 { 0 } else { self.came << ahead } | 1;
            self.next = number + 1;
            return true;
        }
        let behind = self.next - 1 - number;
        let bit = 1u64.checked_shl(behind as u32).filter(|_| behind < 64).unwrap_or(0);
        let new = bit != 0 && self.came & bit == 0;
        self.came |= bit;
        new
    }
}

/// Most sessions.
pub(crate) const MOST_SESSIONS: usize = 1024;
/// Most sessions of one client.
pub(crate) const MOST_OF_ONE: u64 = 32;
/// Idle time after which a session may be closed for another. Longer than a challenge is valid, so that a recorded
/// `open` cannot reopen it.
const IDLE: Time = Time::from_secs(15 * 60);
/// The limit of all clients together, as a multiple of one client's.
const CLIENTS_AT_THE_LIMIT: u32 = 16;
/// Notices of the limit per client and second: enough for ten of the fastest clients behind one address.
const REFUSED_PER_S: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NOW: Time = Time::from_secs(100);

    struct World {
        sessions: PingSessions,
        token: Token,
    }

    impl World {
        fn new(limit: u32) -> Self {
            Self { sessions: PingSessions::new(limit), token: Token::new(b"secret") }
        }

        fn ask(&mut self, now: Time, from: &str, session: u32, number: u32) -> Option<PingKind> {
            let (mut question, mut answer) = ([0; 100], [0; 100]);
            let ping = Ping { kind: PingKind::Ask, session, number };
            let length = ping.write(&self.token, 40, &mut question);
            let question = &question[..length];
            let from = from.parse().unwrap();
            let length = self.sessions.answer(now, from, (ping, question), &self.token, &mut answer)?;
            assert!(length <= question.len());
            Ping::read(&answer[..length]).map(|ping| ping.kind)
        }

        fn open(&mut self, now: Time, from: &str, session: u32, first: u32) -> Result<u32, Refusal> {
            self.sessions.open(now, from.parse().unwrap(), session, first)
        }
    }

    #[test]
    fn one_address_that_asks_too_much_is_told_so_and_takes_nothing_from_another() {
        let mut world = World::new(100);
        for from in ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.9:1"] {
            assert_eq!(world.open(NOW, from, 7, 0), Ok(100));
        }
        let mut said = [0; 3];
        for number in 0..1000 {
            for from in ["192.0.2.1:1", "192.0.2.1:2"] {
                match world.ask(NOW, from, 7, number) {
                    Some(PingKind::Answer) => said[0] += 1,
                    Some(PingKind::TooMany) => said[1] += 1,
                    _ => said[2] += 1,
                }
            }
        }
        assert_eq!(said, [100, 1900, 0]);
        let honest = (0..100).filter(|&number| world.ask(NOW, "192.0.2.9:1", 7, number) == Some(PingKind::Answer));
        assert_eq!(honest.count(), 100);
    }

    #[test]
    fn a_recorded_ping_has_no_answer_from_anywhere_and_costs_its_client_nothing() {
        let mut world = World::new(100);
        world.open(NOW, "192.0.2.1:1", 7, 0).unwrap();
        assert_eq!(world.ask(NOW, "192.0.2.1:1", 7, 0), Some(PingKind::Answer));
        for _ in 0..31_000 {
            assert_eq!(world.ask(NOW, "192.0.2.1:2", 7, 0), None);
            assert_eq!(world.ask(NOW, "203.0.113.1:1", 7, 0), None);
            assert_eq!(world.ask(NOW, "192.0.2.1:1", 7, 0), None);
        }
        let rest = (1..100).filter(|&number| world.ask(NOW, "192.0.2.1:1", 7, number) == Some(PingKind::Answer));
        assert_eq!(rest.count(), 99);
    }

    #[test]
    fn a_session_that_is_opened_again_answers_nothing_that_was_before() {
        let mut world = World::new(100);
        world.open(NOW, "192.0.2.1:1", 7, 500).unwrap();
        assert_eq!(world.ask(NOW, "192.0.2.1:1", 7, 499), None);
        assert_eq!(world.ask(NOW, "192.0.2.1:1", 7, 501), Some(PingKind::Answer));
        world.open(NOW, "192.0.2.1:1", 7, 0).unwrap();
        assert_eq!(world.ask(NOW, "192.0.2.1:1", 7, 501), None);
        assert_eq!(world.ask(NOW, "192.0.2.1:1", 7, 500), Some(PingKind::Answer));
    }

    #[test]
    fn one_address_has_a_part_of_the_sessions_and_idle_ones_make_room() {
        let mut world = World::new(100);
        let opened = (0..100).filter(|&session| world.open(NOW, "192.0.2.1:1", session, 0).is_ok()).count();
        assert_eq!(opened as u64, MOST_OF_ONE);
        assert_eq!(world.open(NOW, "192.0.2.1:1", 99, 0), Err(Refusal::TooMany(MOST_OF_ONE)));
        for client in 1..=31 {
            for session in 0..32 {
                world.open(NOW, &format!("198.51.100.{client}:1"), session, 0).unwrap();
            }
        }
        assert_eq!(world.open(NOW, "203.0.113.1:1", 0, 0), Err(Refusal::Busy));
        // All sessions but one are idle.
        let later = NOW + IDLE;
        world.ask(later, "192.0.2.1:1", 3, 0);
        let after = later + Time::from_secs(1);
        assert_eq!(world.open(after, "203.0.113.1:1", 0, 0), Ok(100));
        assert_eq!((world.sessions.sessions.len(), world.sessions.clients.len()), (2, 2));
    }

    proptest! {
        #[test]
        fn each_number_is_new_once_and_none_is_new_that_is_far_behind(
            first in 0u32..100,
            numbers in prop::collection::vec(prop_oneof![0u32..300, Just(u32::MAX)], 1..400),
        ) {
            let (mut window, mut known) = (Window::from(first), BTreeSet::new());
            for number in numbers {
                let newest = known.last().copied().unwrap_or(0).max(first);
                let expected = number >= first && !known.contains(&number);
                let far = known.last().is_some() && u64::from(number) + 64 <= u64::from(newest);
                prop_assert_eq!(window.is_new(number), expected && !far, "{}", number);
                if number >= first {
                    known.insert(number);
                }
            }
        }
    }
}
