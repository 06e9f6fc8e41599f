//! Fuzz target of probes. The plain tests of `perigee-probe` replay the corpus
//! through the same function.

use std::net::SocketAddr;

use hmac::{Hmac, Mac as _};
use perigee_probe::{Client, Direction, Limits, ProbeSpec, Server, Token, MOST_BYTES};
use perigee_units::{Rate, Time};
use sha2::Sha256;

/// A sequence of events at a server and a client: a byte that says which event, one that says from which
/// address, the number of bytes that belong to it, and these.
pub(crate) fn probe(data: &[u8]) {
    let mut world = World::new();
    let mut rest = data;
    for _ in 0..MOST_EVENTS {
        let [event, from, length, after @ ..] = rest else { break };
        let (bytes, after) = after.split_at(usize::from(*length).min(after.len()));
        world.happen(*event, usize::from(*from) % ADDRESSES, bytes);
        rest = after;
    }
}

struct World {
    server: Server,
    client: Client,
    now: Time,
    /// Bytes that came from each address, and that went there before it had shown that it receives.
    came: [usize; ADDRESSES],
    went: [usize; ADDRESSES],
}

impl World {
    fn new() -> Self {
        let token = Token::new(TOKEN);
        let now = Time::from_secs(50);
        Self {
            server: Server::new(token.clone(), [3; 32], Limits::default()),
            client: Client::new(now, 1, token, &spec(Direction::Down)),
            now,
            came: [0; ADDRESSES],
            went: [0; ADDRESSES],
        }
    }

    fn happen(&mut self, event: u8, from: usize, bytes: &[u8]) {
        match event % 6 {
            0 => self.ask(from, bytes),
            1 => self.ask(from, &signed(bytes)),
            2 => self.ask(from, &signed(bytes).into_iter().chain([0; 1200]).collect::<Vec<_>>()),
            3 => self.client.receive(self.now, &signed(bytes)),
            4 => self.speak(),
            _ => self.now += Time::from_millis(bytes.iter().map(|&byte| u64::from(byte)).sum()),
        }
    }

    /// A datagram comes from an address; whoever is there tells nobody what is answered.
    fn ask(&mut self, from: usize, datagram: &[u8]) {
        let mut out = vec![0; MOST_BYTES];
        self.came[from] += datagram.len();
        if let Some(length) = self.server.receive(self.now, address(from), datagram, &mut out) {
            assert!(length <= datagram.len(), "an answer of {length} bytes to {}", datagram.len());
            self.went[from] += length;
        }
        self.send();
    }

    /// The client of probes at its own address does what is due, and hears the answers.
    fn speak(&mut self) {
        let (mut out, mut answer) = (vec![0; MOST_BYTES], vec![0; MOST_BYTES]);
        for _ in 0..20 {
            let Some(length) = self.client.transmit(self.now, &mut out) else { break };
            if let Some(length) = self.server.receive(self.now, honest(), &out[..length], &mut answer) {
                self.client.receive(self.now, &answer[..length]);
            }
        }
        self.send();
    }

    /// The server sends nothing unasked to an address that has shown nothing.
    fn send(&mut self) {
        let mut out = vec![0; MOST_BYTES];
        for _ in 0..20 {
            let Some((to, length)) = self.server.transmit(self.now, &mut out) else { break };
            if to == honest() {
                self.client.receive(self.now, &out[..length]);
                continue;
            }
            let at = (0..ADDRESSES).find(|&at| address(at) == to).expect("nobody else was heard");
            self.went[at] += length;
        }
        for at in 0..ADDRESSES {
            assert!(self.went[at] <= self.came[at], "{} bytes came, {} went", self.came[at], self.went[at]);
        }
        assert!(self.server.clients() <= Limits::default().clients);
    }
}

/// Bytes with their code behind them, as one who knows the token makes it.
fn signed(bytes: &[u8]) -> Vec<u8> {
    let mut datagram = bytes.to_vec();
    let mut mac = Hmac::<Sha256>::new_from_slice(TOKEN).expect("a key of any length");
    mac.update(&datagram);
    datagram.extend(&mac.finalize().into_bytes()[..16]);
    datagram
}

fn spec(direction: Direction) -> ProbeSpec {
    ProbeSpec {
        direction,
        rate: Rate::from_bps(100_000_000),
        packet: 1500,
        headers: 28,
        time: Time::from_secs(60),
        block: Time::from_millis(100),
    }
}

fn address(at: usize) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, at as u8], 4000))
}

fn honest() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 4000))
}

const TOKEN: &[u8] = b"correct-horse";
const ADDRESSES: usize = 4;
const MOST_EVENTS: usize = 200;
