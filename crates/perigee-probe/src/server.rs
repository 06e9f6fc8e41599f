//! Server side: authentication, limits, sessions.

use std::collections::VecDeque;
use std::net::{Ipv6Addr, SocketAddr};

use perigee_units::{Rate, Time};

use crate::bucket::{client, Shared};
use crate::code::{Token, CODE};
use crate::protocol::{self, Direction, Message, Refusal, Request, Sent, DATA_HEAD, MOST_BYTES, PART};
use crate::receiver::{Receiver, MOST_BLOCKS};
use crate::sender::ProbeSender;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rate per client.
    pub rate: Rate,
    /// Rate of all clients together.
    pub total: Rate,
    /// Duration of one probe.
    pub time: Time,
    /// Concurrent clients, those that fetch their reports included.
    pub clients: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rate: Rate::from_bps(200_000_000),
            total: Rate::from_bps(400_000_000),
            time: Time::from_secs(900),
            clients: 16,
        }
    }
}

/// Server of probes, without socket and clock.
///
/// It never sends more to an unverified address than it received from there: each datagram has at most one answer,
/// which is no larger. Only a client that returned its challenge gets data, and only as long as its keep-alives
/// arrive.
#[derive(Debug)]
pub struct Server {
    token: Token,
    /// Secret of the challenges, known to this server only.
    own: Token,
    limits: Limits,
    sessions: Vec<Session>,
    /// Past session names with client and time, kept as long as their challenges are valid, against replay.
    spent: VecDeque<(u64, Ipv6Addr, Time)>,
    /// Limits of answers to unverified addresses.
    strangers: Shared,
    /// Receiver of the last data packet.
    turn: usize,
}

#[derive(Debug)]
struct Session {
    name: u64,
    peer: SocketAddr,
    asked: Request,
    heard: Time,
    /// Last keep-alive number: a replayed keep-alive does not prolong the session.
    kept: u32,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Receiving { receiver: Box<Receiver>, status_at: Time, unanswered: usize },
    Sending(ProbeSender),
    Ended { reason: Option<Refusal>, sent: Sent, report: Vec<u8> },
}

impl Server {
    /// A server with a random `secret` of its own.
    pub fn new(token: Token, secret: [u8; 32], limits: Limits) -> Self {
        Self {
            token,
            strangers: Shared::new(Token::new(&secret), STRANGERS_PER_S),
            own: Token::new(&secret),
            limits,
            sessions: Vec::new(),
            spent: VecDeque::new(),
            turn: 0,
        }
    }

    /// Handles a datagram: writes the answer, at most as long, and returns its length; `None` without an answer.
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8], out: &mut [u8]) -> Option<usize> {
        let length = self.answer(now, from, datagram, out)?;
        (length <= datagram.len()).then_some(length)
    }

    /// Writes the next datagram that is due without a request: data, or a status of received data.
    pub fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<(SocketAddr, usize)> {
        self.expire(now);
        let count = self.sessions.len();
        for step in 1..=count {
            let at = (self.turn + step) % count;
            let session = &mut self.sessions[at];
            let written = match &mut session.work {
                Work::Sending(sender) => sender.transmit(now, &self.token, out),
                Work::Receiving { receiver, status_at, unanswered } => (now >= *status_at)
                    .then(|| {
                        *status_at = now + STATUS_EVERY;
                        let length = Message::Status(receiver.received()).write(session.name, &self.token, 0, out);
                        (std::mem::take(unanswered) >= length).then_some(length)
                    })
                    .flatten(),
                Work::Ended { .. } => None,
            };
            if let Some(length) = written {
                self.turn = at;
                return Some((session.peer, length));
            }
        }
        None
    }

    /// When [`Server::transmit`] has a datagram next.
    pub fn wake(&self) -> Option<Time> {
        let wake = |session: &Session| match &session.work {
            Work::Sending(sender) => sender.wake(),
            Work::Receiving { status_at, .. } => Some(*status_at),
            Work::Ended { .. } => None,
        };
        self.sessions.iter().filter_map(wake).min()
    }

    /// The socket did not accept the last datagram to `peer`: the send queue is full, or the datagram is `too_large`.
    pub fn refused(&mut self, peer: SocketAddr, too_large: bool) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.peer == peer) else { return };
        let Work::Sending(sender) = &mut session.work else { return };
        sender.refused();
        if too_large {
            let sent = sender.sent();
            session.work = Work::Ended { reason: Some(Refusal::TooLarge), sent, report: Vec::new() };
        }
    }

    /// Clients with a probe or a report in progress.
    pub fn clients(&self) -> usize {
        self.sessions.len()
    }

    fn answer(&mut self, now: Time, from: SocketAddr, datagram: &[u8], out: &mut [u8]) -> Option<usize> {
        let (name, message) = protocol::read(datagram, &self.token)?;
        let known = self.sessions.iter().position(|session| session.name == name && session.peer == from);
        let answer = match (message, known) {
            (Message::Hello, _) => {
                if !self.strangers.take(now, from) {
                    return None;
                }
                Message::Challenge(self.own.challenge(from, name, slot(now)))
            }
            (message, Some(at)) => self.sessions[at].answer(now, &message, datagram.len())?,
            (Message::Start(challenge, asked), None) => {
                if !self.has_seen(now, from, name, challenge) {
                    return None;
                }
                Message::Answer(self.begin(now, from, name, asked).err())
            }
            (Message::Stop { .. }, None) => {
                if !self.strangers.take(now, from) {
                    return None;
                }
                Message::Stopped { ended: Some(Refusal::Unknown), sent: Sent::default(), report: 0 }
            }
            _ => return None,
        };
        Some(answer.write(name, &self.token, 0, out))
    }

    /// Whether the challenge was sent to this address a short time ago.
    fn has_seen(&self, now: Time, from: SocketAddr, name: u64, challenge: [u8; CODE]) -> bool {
        let slot = slot(now);
        [slot, slot.saturating_sub(1)].into_iter().any(|slot| self.own.challenge(from, name, slot) == challenge)
    }

    fn begin(&mut self, now: Time, from: SocketAddr, name: u64, asked: Request) -> Result<(), Refusal> {
        self.expire(now);
        check(&asked, &self.limits)?;
        // A session name is used once, against replay.
        if self.spent.iter().any(|&(spent, ..)| spent == name) {
            return Err(Refusal::Unknown);
        }
        let own = client(from);
        let others = |session: &Session| client(session.peer) == own && session.is_at_work(now);
        if self.sessions.iter().any(others) {
            return Err(Refusal::AnotherSession);
        }
        if self.spent.iter().filter(|&&(_, whose, _)| whose == own).count() >= SPENT_OF_ONE {
            return Err(Refusal::TooMany(SPENT_OF_ONE as u64));
        }
        self.sessions.retain(|session| client(session.peer) != own);
        if self.sessions.len() >= self.limits.clients || self.spent.len() >= MOST_SPENT {
            return Err(Refusal::Busy);
        }
        let at_work = self.sessions.iter().filter(|session| session.is_at_work(now));
        let taken: u64 = at_work.map(|session| session.asked.rate_bps).sum();
        let left = self.limits.total.as_bps().saturating_sub(taken);
        if asked.rate_bps > left {
            return Err(Refusal::RateOfAll(left));
        }
        self.spent.push_back((name, own, now));
        let work = match asked.direction {
            Direction::Up => {
                let receiver = Box::new(Receiver::new(asked));
                Work::Receiving { receiver, status_at: now + STATUS_EVERY, unanswered: 0 }
            }
            Direction::Down => Work::Sending(ProbeSender::new(name, asked, now)),
        };
        self.sessions.push(Session { name, peer: from, asked, heard: now, kept: 0, work });
        Ok(())
    }

    /// Ends sessions without keep-alives, and drops reports that nobody fetches.
    fn expire(&mut self, now: Time) {
        for session in &mut self.sessions {
            if matches!(session.work, Work::Sending(_)) && now - session.heard > PATIENCE {
                session.end(Some(Refusal::Silence), 0);
            }
        }
        self.sessions.retain(|session| now - session.heard <= FORGOTTEN);
        while self.spent.front().is_some_and(|&(.., then)| now - then > SLOT * 2) {
            self.spent.pop_front();
        }
    }
}

impl Session {
    /// Handles a message of its client, in a datagram of `length` bytes; returns the answer.
    fn answer(&mut self, now: Time, message: &Message<'_>, length: usize) -> Option<Message<'_>> {
        match *message {
            Message::Start(..) => Some(Message::Answer(None)),
            Message::Data { number, sent_ns } => {
                let Work::Receiving { receiver, unanswered, .. } = &mut self.work else { return None };
                self.heard = now;
                *unanswered += length;
                receiver.on_packet(now, number, sent_ns);
                None
            }
            Message::KeepAlive(count) => {
                if count > self.kept {
                    (self.kept, self.heard) = (count, now);
                }
                None
            }
            Message::Stop { sent } => {
                self.heard = now;
                self.end(None, sent);
                let Work::Ended { reason, sent, report } = &self.work else { return None };
                Some(Message::Stopped { ended: *reason, sent: *sent, report: report.len() as u32 })
            }
            Message::Get(place) => {
                self.heard = now;
                let Work::Ended { report, .. } = &self.work else { return None };
                let rest = report.get(place as usize..)?;
                Some(Message::Part(place, &rest[..rest.len().min(PART)]))
            }
            _ => None,
        }
    }

    /// Whether the session uses the network, or still may.
    fn is_at_work(&self, now: Time) -> bool {
        match &self.work {
            Work::Sending(sender) => sender.wake().is_some(),
            Work::Receiving { .. } => now - self.heard <= PATIENCE,
            Work::Ended { .. } => false,
        }
    }

    /// Closes the probe; `sent` is the client's count of packets sent.
    fn end(&mut self, reason: Option<Refusal>, sent: u64) {
        let ended = Work::Ended { reason, sent: Sent::default(), report: Vec::new() };
        self.work = match std::mem::replace(&mut self.work, ended) {
            Work::Receiving { receiver, .. } => {
                Work::Ended { reason, sent: Sent::default(), report: receiver.finish(sent).to_bytes() }
            }
            Work::Sending(sender) => Work::Ended { reason, sent: sender.sent(), report: Vec::new() },
            ended @ Work::Ended { .. } => ended,
        };
    }
}

fn check(asked: &Request, limits: &Limits) -> Result<(), Refusal> {
    let payload = usize::from(asked.packet).saturating_sub(usize::from(asked.headers));
    let blocks = asked.packets.div_ceil(u64::from(asked.per_block.max(1)));
    let sizes = (DATA_HEAD..=MOST_BYTES).contains(&payload) && matches!(asked.headers, 28 | 48);
    if !sizes || asked.rate_bps == 0 || !(2..=MOST_PACKETS).contains(&asked.packets) || blocks > MOST_BLOCKS {
        return Err(Refusal::Malformed);
    }
    if asked.rate_bps > limits.rate.as_bps() {
        return Err(Refusal::RateOfOne(limits.rate.as_bps()));
    }
    if asked.time() > limits.time {
        return Err(Refusal::Time(limits.time.as_nanos() / 1_000_000_000));
    }
    Ok(())
}

fn slot(now: Time) -> u64 {
    now.as_nanos() / SLOT.as_nanos()
}

/// A challenge is valid for one to two of these.
const SLOT: Time = Time::from_secs(10);
/// Time after the last keep-alive until data stops.
const PATIENCE: Time = Time::from_secs(5);
/// Idle time after which a report is dropped.
const FORGOTTEN: Time = Time::from_secs(30);
/// Interval of the status of received data.
const STATUS_EVERY: Time = Time::from_millis(500);
/// Most packets of a probe.
const MOST_PACKETS: u64 = 1 << 31;
/// Past session names that are remembered.
const MOST_SPENT: usize = 512;
/// Past session names of one client that are remembered.
const SPENT_OF_ONE: usize = 32;
/// Challenges and notices of unknown sessions per address and second; a client asks once a second.
const STRANGERS_PER_S: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::FILLED_HELLO;
    use proptest::prelude::*;

    const TOKEN: &[u8] = b"correct-horse";

    /// A client that knows the token and sends anything.
    struct Stranger {
        server: Server,
        token: Token,
        now: Time,
        from: SocketAddr,
    }

    impl Stranger {
        fn new() -> Self {
            let server = Server::new(Token::new(TOKEN), [3; 32], Limits::default());
            let from = SocketAddr::from(([192, 0, 2, 1], 4000));
            Self { server, token: Token::new(TOKEN), now: Time::from_secs(50), from }
        }

        fn say(&mut self, message: Message<'_>, fill: usize) -> Option<Vec<u8>> {
            let (mut question, mut answer) = (vec![0; MOST_BYTES], vec![0; MOST_BYTES]);
            let length = message.write(1, &self.token, fill, &mut question);
            let length = self.server.receive(self.now, self.from, &question[..length], &mut answer)?;
            Some(answer[..length].to_vec())
        }

        fn begin(&mut self, asked: Request) {
            let answer = self.say(Message::Hello, FILLED_HELLO).unwrap();
            let Some((_, Message::Challenge(challenge))) = protocol::read(&answer, &self.token) else {
                panic!("a hello has a challenge")
            };
            self.say(Message::Start(challenge, asked), 0).unwrap();
        }
    }

    fn any_message() -> impl Strategy<Value = (Message<'static>, usize)> {
        let message = prop_oneof![
            (any::<u64>(), any::<u64>()).prop_map(|(number, sent_ns)| Message::Data { number, sent_ns }),
            (0u64..100_000, any::<u64>()).prop_map(|(number, sent_ns)| Message::Data { number, sent_ns }),
            any::<u32>().prop_map(Message::KeepAlive),
            any::<u64>().prop_map(|sent| Message::Stop { sent }),
            prop_oneof![any::<u32>(), 0u32..5000].prop_map(Message::Get),
            any::<u64>().prop_map(Message::Status),
        ];
        (message, 0usize..1300)
    }

    proptest! {
        #[test]
        fn no_request_with_the_token_makes_the_server_panic(
            down in any::<bool>(),
            packet in any::<u16>(),
            headers in prop_oneof![Just(28u8), Just(48), any::<u8>()],
            rate_bps in prop_oneof![Just(0u64), 1u64..1_000_000_000, any::<u64>()],
            packets in prop_oneof![0u64..20_000, any::<u64>()],
            per_block in prop_oneof![Just(0u32), 1u32..100, any::<u32>()],
            messages in prop::collection::vec((any_message(), 0u64..4_000_000_000), 0..60),
        ) {
            let mut stranger = Stranger::new();
            let direction = if down { Direction::Down } else { Direction::Up };
            stranger.begin(Request { direction, packet, headers, rate_bps, packets, per_block });
            let mut out = vec![0; MOST_BYTES];
            for ((message, fill), later) in messages {
                stranger.now += Time::from_nanos(later);
                stranger.say(message, fill);
                stranger.server.transmit(stranger.now, &mut out);
                stranger.server.wake();
            }
        }
    }

    const ASKED: Request = Request {
        direction: Direction::Down,
        packet: 1500,
        headers: 28,
        rate_bps: 1_000_000,
        packets: 100,
        per_block: 10,
    };

    #[test]
    fn one_address_that_begins_many_probes_is_told_so_and_others_begin_theirs() {
        let mut stranger = Stranger::new();
        let mut begin = |from: SocketAddr, name| {
            let begun = stranger.server.begin(stranger.now, from, name, ASKED);
            stranger.server.sessions.clear();
            begun
        };
        let begun = (0..1000).filter(|&name| begin(stranger.from, name).is_ok());
        assert_eq!(begun.count(), SPENT_OF_ONE);
        assert_eq!(begin(stranger.from, 1000), Err(Refusal::TooMany(SPENT_OF_ONE as u64)));
        assert_eq!(begin(SocketAddr::from(([192, 0, 2, 2], 4000)), 1001), Ok(()));
    }

    #[test]
    fn a_session_s_name_begins_one_session_only() {
        let mut stranger = Stranger::new();
        stranger.begin(ASKED);
        assert_eq!(stranger.server.clients(), 1);
        // Its client is gone, and its datagrams are replayed.
        stranger.now += PATIENCE + Time::from_secs(1);
        assert!(stranger.server.transmit(stranger.now, &mut vec![0; MOST_BYTES]).is_none());
        stranger.server.sessions.clear();
        stranger.begin(ASKED);
        assert_eq!(stranger.server.clients(), 0);
    }
}
