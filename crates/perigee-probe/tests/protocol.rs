//! Client and server over a simulated link with loss, delay and a full queue, on a simulated clock; and other hosts at the server.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::VecDeque;
use std::net::SocketAddr;

use perigee_probe::{Client, Direction, Failure, Limits, Outcome, ProbeSpec, Refusal, Server, Token, MOST_BYTES};
use perigee_units::{Rate, Stream, Time};
use proptest::prelude::*;

const TOKEN: &[u8] = b"correct-horse";

/// One direction of a link: a rate, a queue, a delay, and random losses.
struct Way {
    rate: Rate,
    queue: Time,
    delay: Time,
    loss: f64,
    stream: Stream,
    free: Time,
    flying: VecDeque<(Time, Vec<u8>)>,
}

impl Way {
    fn new(rate_mbps: f64, delay_ms: u64, loss: f64, name: &str) -> Self {
        Self {
            rate: Rate::from_mbps(rate_mbps),
            queue: Time::from_millis(200),
            delay: Time::from_millis(delay_ms),
            loss,
            stream: Stream::new(1, name),
            free: Time::ZERO,
            flying: VecDeque::new(),
        }
    }

    fn offer(&mut self, now: Time, datagram: &[u8]) {
        let begin = self.free.max(now);
        if begin - now > self.queue || self.stream.chance(self.loss) {
            return;
        }
        self.free = begin + self.rate.time_to_send(perigee_units::Bytes::new(datagram.len() as u64 + 28));
        self.flying.push_back((self.free + self.delay, datagram.to_vec()));
    }

    fn next(&self) -> Time {
        self.flying.front().map_or(Time::MAX, |&(at, _)| at)
    }
}

struct World {
    server: Server,
    up: Way,
    down: Way,
    now: Time,
    /// The client disappears at this instant.
    gone: Time,
    from_server: u64,
    /// Nothing passes the link from one instant to another.
    cut: (Time, Time),
}

impl World {
    fn new(up: Way, down: Way) -> Self {
        let server = Server::new(Token::new(TOKEN), [3; 32], Limits::default());
        Self { server, up, down, now: Time::from_secs(1), gone: Time::MAX, from_server: 0, cut: (Time::MAX, Time::MAX) }
    }

    fn probe(&mut self, name: u64, token: &[u8], spec: &ProbeSpec) -> Result<Outcome, Failure> {
        let here: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let mut client = Client::new(self.now, name, Token::new(token), spec);
        let mut out = vec![0; MOST_BYTES];
        loop {
            while let Some(length) = client.transmit(self.now, &mut out).filter(|_| self.now < self.gone) {
                if !(self.cut.0..self.cut.1).contains(&self.now) {
                    self.up.offer(self.now, &out[..length]);
                }
            }
            if let Some(outcome) = client.outcome() {
                return outcome.clone();
            }
            while self.up.next() <= self.now {
                let (_, datagram) = self.up.flying.pop_front().unwrap();
                if let Some(length) = self.server.receive(self.now, here, &datagram, &mut out) {
                    assert!(length <= datagram.len());
                    self.down.offer(self.now, &out[..length]);
                }
            }
            while let Some((to, length)) = self.server.transmit(self.now, &mut out) {
                assert_eq!(to, here);
                self.from_server += length as u64 + 28;
                if !(self.cut.0..self.cut.1).contains(&self.now) {
                    self.down.offer(self.now, &out[..length]);
                }
            }
            while self.down.next() <= self.now {
                let (_, datagram) = self.down.flying.pop_front().unwrap();
                client.receive(self.now, &datagram);
            }
            let due = [self.up.next(), self.down.next(), client.wake(), self.server.wake().unwrap_or(Time::MAX)];
            let next = due.into_iter().min().unwrap();
            self.now = next.max(self.now + Time::from_micros(1)).min(self.now + Time::from_millis(100));
        }
    }
}

fn spec(direction: Direction, rate_mbps: f64, seconds: u64) -> ProbeSpec {
    ProbeSpec {
        direction,
        rate: Rate::from_mbps(rate_mbps),
        packet: 1500,
        headers: 28,
        time: Time::from_secs(seconds),
        block: Time::from_millis(100),
    }
}

#[test]
fn below_the_rate_nothing_is_lost_and_at_twice_the_rate_half_is_and_the_rest_arrives_at_the_rate() {
    for direction in [Direction::Up, Direction::Down] {
        let mut world = World::new(Way::new(5.0, 300, 0.0, "up"), Way::new(5.0, 300, 0.0, "down"));
        let below = world.probe(1, TOKEN, &spec(direction, 4.0, 10)).unwrap();
        assert_eq!((below.report.lost, below.report.received), (0, 3333), "{direction:?}");
        let delays = below.report.blocks.iter().map(|block| block.most_us).max().unwrap();
        assert!(delays < 10_000, "{direction:?}: {delays} us");
        assert!(below.rtt >= Time::from_millis(600) && below.rtt < Time::from_millis(602));

        let above = world.probe(2, TOKEN, &spec(direction, 10.0, 10)).unwrap();
        let report = &above.report;
        let share = report.lost as f64 / above.sent.packets as f64;
        // At first the queue of 0.2 s takes the excess.
        assert!((0.48..0.5).contains(&share), "{direction:?}: {share}");
        let rate = (report.received - 1) as f64 * 12_000.0 / (report.last_ns - report.first_ns) as f64 * 1e3;
        assert!((rate - 5.0).abs() < 0.02, "{direction:?}: {rate} Mbit/s");
        let grown = report.blocks.iter().map(|block| block.most_us).max().unwrap();
        assert!((195_000..=205_000).contains(&grown), "{direction:?}: {grown} us");
        // Losses are single packets: every second packet finds the queue full.
        let single = report.runs.iter().find(|&&(length, _)| length == 1).map_or(0, |&(_, count)| count);
        assert!(f64::from(single) > 0.9 * report.lost as f64, "{direction:?}: {:?}", report.runs);
    }
}

#[test]
fn a_path_that_loses_a_fifth_of_everything_is_measured_all_the_same() {
    for direction in [Direction::Up, Direction::Down] {
        let mut world = World::new(Way::new(50.0, 300, 0.2, "up"), Way::new(50.0, 300, 0.2, "down"));
        let outcome = world.probe(1, TOKEN, &spec(direction, 2.0, 60)).unwrap();
        let share = outcome.report.lost as f64 / outcome.sent.packets as f64;
        // Four standard deviations of ten thousand packets.
        assert!((share - 0.2).abs() < 0.016, "{direction:?}: {share}");
        assert_eq!(outcome.report.received + outcome.report.lost, outcome.sent.packets);
    }
}

#[test]
fn a_path_that_is_cut_off_for_some_seconds_is_measured_to_the_end() {
    let mut world = World::new(Way::new(50.0, 20, 0.0, "up"), Way::new(50.0, 20, 0.0, "down"));
    world.cut = (Time::from_secs(5), Time::from_secs(9));
    let outcome = world.probe(1, TOKEN, &spec(Direction::Down, 2.0, 20)).unwrap();
    assert_eq!(outcome.sent.packets, 3333);
    // Four seconds of 167 packets each are lost, in one run.
    assert_eq!(outcome.report.runs.len(), 1);
    assert!((660..674).contains(&outcome.report.lost), "{}", outcome.report.lost);
}

#[test]
fn data_stops_within_seconds_after_a_client_has_disappeared() {
    let mut world = World::new(Way::new(50.0, 20, 0.0, "up"), Way::new(50.0, 20, 0.0, "down"));
    world.gone = Time::from_secs(4);
    let outcome = world.probe(1, TOKEN, &spec(Direction::Down, 8.0, 100));
    assert_eq!(outcome, Err(Failure::FellSilent));
    // Three seconds with the client, less the handshake and the last 0.2 s without packets, and the timeout of five seconds.
    assert!((7_600_000..8_000_000).contains(&world.from_server), "{}", world.from_server);
}

#[test]
fn a_refusal_names_the_limit_that_was_exceeded() {
    let ways = || World::new(Way::new(50.0, 20, 0.0, "up"), Way::new(50.0, 20, 0.0, "down"));
    let refused = |spec: &ProbeSpec| match ways().probe(1, TOKEN, spec) {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&spec(Direction::Up, 201.0, 1)), Refusal::RateOfOne(200_000_000));
    assert_eq!(refused(&spec(Direction::Down, 1.0, 901)), Refusal::Time(900));
    assert_eq!(refused(&ProbeSpec { packet: 40, ..spec(Direction::Up, 1.0, 1) }), Refusal::Malformed);
    let wrong = ways().probe(1, b"wrong-horse", &spec(Direction::Down, 1.0, 1));
    assert_eq!(wrong, Err(Failure::NoAnswer));
}

#[test]
fn one_address_has_one_session_and_all_together_no_more_than_the_limit() {
    let token = Token::new(TOKEN);
    let mut server = Server::new(token.clone(), [3; 32], Limits::default());
    let now = Time::from_secs(100);
    let mut begin = |address: &str, name: u64, rate_mbps: f64| {
        let mut world = Handshake { server: &mut server, now, from: address.parse().unwrap() };
        world.begin(name, &spec(Direction::Up, rate_mbps, 10))
    };
    assert_eq!(begin("192.0.2.1:1000", 1, 150.0), None);
    assert_eq!(begin("192.0.2.1:1001", 2, 1.0), Some(Refusal::AnotherSession));
    assert_eq!(begin("[::ffff:192.0.2.1]:1002", 3, 1.0), Some(Refusal::AnotherSession));
    assert_eq!(begin("192.0.2.2:1000", 4, 200.0), None);
    assert_eq!(begin("192.0.2.3:1000", 5, 51.0), Some(Refusal::RateOfAll(50_000_000)));
    for client in 3..17 {
        assert_eq!(begin(&format!("192.0.2.{client}:1"), 100 + client, 1.0), None);
    }
    assert_eq!(begin("192.0.2.99:1", 200, 1.0), Some(Refusal::Busy));
}

/// The first two questions and answers of a client.
struct Handshake<'s> {
    server: &'s mut Server,
    now: Time,
    from: SocketAddr,
}

impl Handshake<'_> {
    fn begin(&mut self, name: u64, spec: &ProbeSpec) -> Option<Refusal> {
        let mut client = Client::new(self.now, name, Token::new(TOKEN), spec);
        let (mut question, mut answer) = (vec![0; MOST_BYTES], vec![0; MOST_BYTES]);
        for _ in 0..2 {
            let length = client.transmit(self.now, &mut question).unwrap();
            let length = self.server.receive(self.now, self.from, &question[..length], &mut answer).unwrap();
            client.receive(self.now, &answer[..length]);
        }
        match client.outcome() {
            Some(Err(Failure::Refused(refusal))) => Some(*refusal),
            // A client whose address has another session asks again later; one that has begun sends.
            _ => client.transmit(self.now, &mut question).is_none().then_some(Refusal::AnotherSession),
        }
    }
}

#[test]
fn a_recorded_hello_has_few_answers_per_second_and_leaves_those_of_other_addresses() {
    let mut server = Server::new(Token::new(TOKEN), [3; 32], Limits::default());
    let (mut question, mut out) = (vec![0; MOST_BYTES], vec![0; MOST_BYTES]);
    let now = Time::from_secs(100);
    let spec = spec(Direction::Up, 1.0, 1);
    let length = Client::new(now, 7, Token::new(TOKEN), &spec).transmit(now, &mut question).unwrap();
    let victim = "203.0.113.7:4000".parse().unwrap();
    let answers = (0..10_000).filter(|_| server.receive(now, victim, &question[..length], &mut out).is_some());
    assert_eq!(answers.count(), 20);
    let mut other = Handshake { server: &mut server, now, from: "192.0.2.1:4000".parse().unwrap() };
    assert_eq!(other.begin(8, &spec), None);
}

#[test]
fn only_the_address_that_received_a_challenge_begins_a_probe_with_it_and_soon() {
    let mut server = Server::new(Token::new(TOKEN), [3; 32], Limits::default());
    let now = Time::from_secs(100);
    let here: SocketAddr = "192.0.2.1:4000".parse().unwrap();
    let (mut out, mut answer) = (vec![0; MOST_BYTES], vec![0; MOST_BYTES]);
    let mut client = Client::new(now, 7, Token::new(TOKEN), &spec(Direction::Down, 1.0, 1));
    let length = client.transmit(now, &mut out).unwrap();
    let length = server.receive(now, here, &out[..length], &mut answer).unwrap();
    client.receive(now, &answer[..length]);
    let length = client.transmit(now, &mut out).unwrap();
    let elsewhere = "192.0.2.1:4001".parse().unwrap();
    assert_eq!(server.receive(now, elsewhere, &out[..length], &mut answer), None);
    assert_eq!(server.receive(now + Time::from_secs(30), here, &out[..length], &mut answer), None);
    assert_eq!(server.clients(), 0);
    assert!(server.receive(now, here, &out[..length], &mut answer).is_some());
    assert_eq!(server.clients(), 1);
}

/// A datagram of an attacker, who has recorded others: one of them as it is, changed or cut, noise, or that of a client with the
/// right token.
fn hostile(server: &mut Server, now: Time, recorded: &[Vec<u8>], (kind, number): (u8, u16)) -> Vec<u8> {
    let mut datagram = recorded[usize::from(number) % recorded.len()].clone();
    let (mut out, mut answer) = (vec![0; MOST_BYTES], vec![0; MOST_BYTES]);
    let client = |name| Client::new(now, name, Token::new(TOKEN), &spec(Direction::Down, 100.0, 60));
    match kind {
        0 => datagram = vec![number as u8; usize::from(number) % 1500],
        1 => datagram.truncate(usize::from(number) % 100),
        2 => {
            let place = usize::from(number) % datagram.len().max(1);
            datagram.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1);
        }
        // A client with the right token at the victim's address, which does not receive the answers.
        3 => {
            let length = client(u64::from(number)).transmit(now, &mut out).unwrap();
            datagram = out[..length].to_vec();
        }
        // A client that gets a challenge at its own address and returns it from the victim's.
        4 => {
            let mut client = client(u64::from(number) + 2);
            let length = client.transmit(now, &mut out).unwrap();
            let elsewhere = SocketAddr::from(([203, 0, 113, 1], 4000));
            let length = server.receive(now, elsewhere, &out[..length], &mut answer).unwrap();
            client.receive(now, &answer[..length]);
            let length = client.transmit(now, &mut out).unwrap();
            datagram = out[..length].to_vec();
        }
        _ => {}
    }
    datagram
}

proptest! {
    /// The input is any mix of the datagrams of clients with right and wrong tokens, recorded and sent again from other
    /// addresses, cut, changed, and of noise. An address that does not receive answers cannot prove itself.
    #[test]
    fn an_address_that_does_not_receive_is_never_sent_more_than_came_from_it(
        events in prop::collection::vec((0u8..7, 0usize..4, any::<u16>(), 0u64..3_000), 1..200),
    ) {
        let mut server = Server::new(Token::new(TOKEN), [3; 32], Limits::default());
        let here: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let mut honest = Client::new(Time::ZERO, 1, Token::new(TOKEN), &spec(Direction::Down, 100.0, 60));
        let mut recorded: Vec<Vec<u8>> = vec![vec![0; 60]];
        let (mut came, mut went) = ([0u64; 4], [0u64; 4]);
        let (mut now, mut out, mut answer) = (Time::from_secs(50), vec![0; MOST_BYTES], vec![0; MOST_BYTES]);
        let victim = |at: usize| SocketAddr::from(([198, 51, 100, at as u8], 4000));
        for (kind, at, number, later_ms) in events {
            now += Time::from_millis(later_ms);
            // One client follows the protocol; an attacker records its packets.
            while let Some(length) = honest.transmit(now, &mut out) {
                recorded.push(out[..length].to_vec());
                if let Some(length) = server.receive(now, here, &out[..length], &mut answer) {
                    recorded.push(answer[..length].to_vec());
                    honest.receive(now, &answer[..length]);
                }
            }
            let datagram = hostile(&mut server, now, &recorded, (kind, number));
            came[at] += datagram.len() as u64;
            if let Some(length) = server.receive(now, victim(at), &datagram, &mut answer) {
                went[at] += length as u64;
            }
            for _ in 0..50 {
                let Some((to, length)) = server.transmit(now, &mut out) else { break };
                if to != here {
                    went[(0..4).find(|&at| victim(at) == to).unwrap()] += length as u64;
                }
            }
            for at in 0..4 {
                prop_assert!(went[at] <= came[at], "to {}: {} came, {} went", victim(at), came[at], went[at]);
            }
        }
    }
}
