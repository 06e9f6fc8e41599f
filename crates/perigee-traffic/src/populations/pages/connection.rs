//! A connection of a browser: requests and responses at both of its ends.

use std::collections::VecDeque;

use perigee_units::Time;

use super::kind::Http;
use super::page::Asked;
use crate::conversation::{Action, Closing, End, Facts};

/// State of both ends of a connection.
#[derive(Debug)]
pub(super) struct BrowserConnection {
    /// Number of the load for which it was opened.
    pub(super) load: u32,
    pub(super) server: u32,
    /// Round trips of the TLS handshake that are not complete.
    pub(super) handshakes: u32,
    /// Whether a message of the TLS handshake is in flight.
    pub(super) greets: bool,
    /// Whether the client can send requests.
    pub(super) is_up: bool,
    /// Requested objects that have not arrived.
    pub(super) asked: Vec<Asked>,
    /// Bytes written by the client.
    client_bytes: u64,
    /// Messages of the client that the server has not read, each with the byte count at its end.
    requests: VecDeque<(u64, Item)>,
    /// Requests in progress at the server, with the instant of their answer.
    working: VecDeque<(Time, Item)>,
    /// Responses that the server interleaves, with their remaining bytes.
    writing: VecDeque<(Item, u64)>,
    /// Bytes written by the server.
    server_bytes: u64,
    /// The item of each stream, where each request has one of its own.
    streams: Vec<Item>,
    /// Ends of responses that the client has not read, each with its byte count.
    ends: VecDeque<(u64, Item)>,
    server_end: Closing,
    /// Whether the client has closed its half.
    pub(super) is_closed: bool,
}

/// The object of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Handshake,
    Object(Asked),
}

impl BrowserConnection {
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
            streams: Vec::new(),
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
        self.is_up && (http != Http::OneAtATime || self.asked.is_empty())
    }

    /// Whether its handshakes are not complete.
    pub(super) fn is_starting(&self) -> bool {
        !self.is_up
    }

    /// Requested objects that have not arrived.
    pub(super) fn unanswered(&self) -> impl DoubleEndedIterator<Item = &Asked> {
        self.asked.iter()
    }

    /// The client sends a request.
    pub(super) fn request(&mut self, bytes: u64, item: Item, http: Http) -> Action {
        self.client_bytes += bytes;
        if http == Http::Streams {
            self.streams.push(item);
        } else {
            self.requests.push_back((self.client_bytes, item));
        }
        Action::Write(bytes)
    }

    /// The message on a stream of its own has arrived whole.
    pub(super) fn message_arrived(&mut self, end: End, stream: usize) {
        let Some(item) = self.streams.get(stream) else { return };
        match end {
            End::From => self.requests.push_back((0, *item)),
            End::To => self.ends.push_back((0, *item)),
        }
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

    /// The next action of the server.
    pub(super) fn answer(&mut self, facts: Facts, service: Time, http: Http) -> Action {
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
            if http == Http::Streams {
                // The transport lets streams take turns, and says when one has arrived.
                return Action::Write(left);
            }
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

/// Removes the first of a queue, if it is wanted.
fn pop_if<T>(queue: &mut VecDeque<T>, is_wanted: impl FnOnce(&T) -> bool) -> Option<T> {
    if is_wanted(queue.front()?) {
        queue.pop_front()
    } else {
        None
    }
}

/// Bytes of the TLS handshake per round trip, assumed: from the client, and from the server with its certificates.
pub(super) const CLIENT_HANDSHAKE: u64 = 500;
const SERVER_HANDSHAKE: u64 = 4000;
/// Bytes of a response per turn of the server: a DATA frame of the default size (RFC 9113, section 6.5.2).
const FRAME: u64 = 16_384;
