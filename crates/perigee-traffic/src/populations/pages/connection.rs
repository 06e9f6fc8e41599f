//! A connection of a browser: what has been asked for and written on it, by both of its ends.

use std::collections::VecDeque;

use perigee_units::Time;

use super::kind::Http;
use super::page::Asked;
use crate::conversation::{Action, Closing, Facts};

/// What both ends of a connection have done.
#[derive(Debug)]
pub(super) struct Connection {
    /// Number of the load it was opened for.
    pub(super) load: u32,
    pub(super) server: u32,
    /// Round trips of the TLS handshake that are not complete.
    pub(super) handshakes: u32,
    /// Whether a message of the TLS handshake is out.
    pub(super) greets: bool,
    /// Whether the client has what it needs for requests.
    pub(super) is_up: bool,
    /// What the client has asked for and has not got.
    pub(super) asked: Vec<Asked>,
    /// Bytes that the client has written.
    client_bytes: u64,
    /// What the client has written and the server has not read, each with the count of bytes at its end.
    requests: VecDeque<(u64, Item)>,
    /// What the server works on, until when.
    working: VecDeque<(Time, Item)>,
    /// Responses that the server writes in turn, with their bytes that are left.
    writing: VecDeque<(Item, u64)>,
    /// Bytes that the server has written.
    server_bytes: u64,
    /// Ends of responses that the client has not read, each with the count of bytes there.
    ends: VecDeque<(u64, Item)>,
    server_end: Closing,
    /// Whether the client has closed its half.
    pub(super) is_closed: bool,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Handshake,
    Object(Asked),
}

impl Connection {
    pub(super) fn new(load: u32, server: u32, handshakes: u32) -> Self {
        Self {
            load,
            server,
            handshakes,
            greets: false,
            is_up: false,
            asked: Vec::new(),
            client_bytes: 0,
            requests: VecDeque::new(),
            working: VecDeque::new(),
            writing: VecDeque::new(),
            server_bytes: 0,
            ends: VecDeque::new(),
            server_end: Closing::default(),
            is_closed: false,
        }
    }

    /// Whether it was opened for this load and to this server.
    pub(super) fn is_of(&self, load: u32, server: u32) -> bool {
        self.load == load && self.server == server
    }

    /// Whether it can take another request now.
    pub(super) fn takes(&self, http: Http) -> bool {
        self.is_up && (http == Http::Multiplexed || self.asked.is_empty())
    }

    /// Whether its handshakes are not complete.
    pub(super) fn is_starting(&self) -> bool {
        !self.is_up
    }

    /// Objects that were asked for and have not arrived.
    pub(super) fn unanswered(&self) -> impl DoubleEndedIterator<Item = &Asked> {
        self.asked.iter()
    }

    /// The client sends a request.
    pub(super) fn request(&mut self, bytes: u64, item: Item) -> Action {
        self.client_bytes += bytes;
        self.requests.push_back((self.client_bytes, item));
        Action::Write(bytes)
    }

    /// The next response that the client has read whole, of `received` bytes.
    pub(super) fn read(&mut self, received: u64) -> Option<Item> {
        let (_, item) = pop_if(&mut self.ends, |(end, _)| *end <= received)?;
        match item {
            Item::Handshake => {
                self.handshakes -= 1;
                self.greets = false;
            }
            Item::Object(object) => self.asked.retain(|asked| *asked != object),
        }
        Some(item)
    }

    /// What the server does next.
    pub(super) fn answer(&mut self, facts: Facts, service: Time) -> Action {
        while let Some((_, item)) = pop_if(&mut self.requests, |(end, _)| *end <= facts.received) {
            // A handshake takes no more than the round trip.
            let work = if item == Item::Handshake { Time::ZERO } else { service };
            self.working.push_back((facts.now + work, item));
        }
        while let Some((_, item)) = pop_if(&mut self.working, |(until, _)| *until <= facts.now) {
            let bytes = match item {
                Item::Handshake => SERVER_HANDSHAKE,
                Item::Object(asked) => asked.bytes,
            };
            self.writing.push_back((item, bytes));
        }
        if let Some((item, left)) = self.writing.pop_front() {
            let bytes = left.min(FRAME);
            self.server_bytes += bytes;
            if bytes < left {
                self.writing.push_back((item, left - bytes));
            } else {
                self.ends.push_back((self.server_bytes, item));
            }
            return Action::Write(bytes);
        }
        match self.working.front() {
            Some((until, _)) => Action::Wait(*until),
            None if facts.closed => self.server_end.next(facts),
            None => Action::Await(facts.received + 1),
        }
    }
}

/// The first of a queue, where it is one that is wanted.
fn pop_if<T>(queue: &mut VecDeque<T>, is_wanted: impl FnOnce(&T) -> bool) -> Option<T> {
    if is_wanted(queue.front()?) {
        queue.pop_front()
    } else {
        None
    }
}

/// Of the TLS handshake, assumed: what the client sends in a round trip, and what the server answers, with its certificates.
pub(super) const CLIENT_HANDSHAKE: u64 = 500;
const SERVER_HANDSHAKE: u64 = 4000;
/// Bytes of a response that the server writes before it is another one's turn: a DATA frame of the default size (RFC 9113, 6.5.2).
const FRAME: u64 = 16_384;
