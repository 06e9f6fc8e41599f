//! An end of a QUIC connection as its application sees it: messages on streams.
//!
//! The client opens the streams, and the server answers on them. With one stream, all of both ends is on it. With a stream per response,
//! each message of the client is on a stream of its own, which ends with it, and the server answers them in order of their arrival.

use perigee_quic::{Closed, Endpoint, Event, StreamId};
use perigee_units::Time;

use crate::application::Socket;

pub(crate) struct QuicEnd {
    pub(crate) endpoint: Endpoint,
    is_client: bool,
    stream_per_message: bool,
    /// A client that may write before its handshake is complete.
    sends_early: bool,
    streams: Vec<Stream>,
    /// The next message, from 0; the stream of all of them otherwise.
    next: usize,
    written: u64,
    received: u64,
    /// Streams on which the other end's message has arrived whole, in order of arrival; a server answers in this order.
    arrived: Vec<usize>,
    /// How many of them [`QuicEnd::take_arrived`] has told.
    told: usize,
    /// Early data were refused.
    pub(crate) was_refused: bool,
    /// Its application has closed its half.
    pub(crate) has_closed: bool,
    peer_closed: bool,
}

/// A stream, at its place among those of the connection.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Its identifier, once it is open.
    id: Option<StreamId>,
    written: u64,
    received: u64,
    is_finished: bool,
}

impl QuicEnd {
    pub(crate) fn new(endpoint: Endpoint, is_client: bool, stream_per_message: bool, sends_early: bool) -> Self {
        Self {
            endpoint,
            is_client,
            stream_per_message,
            sends_early,
            streams: Vec::new(),
            next: 0,
            written: 0,
            received: 0,
            arrived: Vec::new(),
            told: 0,
            was_refused: false,
            has_closed: false,
            peer_closed: false,
        }
    }

    /// Opens the connection of a client.
    pub(crate) fn open(&mut self, now: Time) {
        self.endpoint.open(now);
    }

    /// Asks without content: the server may answer on the stream.
    pub(crate) fn ask(&mut self) {
        self.put(0, 0, true);
    }

    /// Why the connection has ended, if it has.
    pub(crate) fn closed(&self) -> Option<&Closed> {
        self.endpoint.closed()
    }

    /// Streams that were opened.
    pub(crate) fn streams(&self) -> u64 {
        self.streams.iter().filter(|stream| stream.id.is_some()).count() as u64
    }

    /// Takes in what has happened at the endpoint.
    pub(crate) fn take_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Opened(id) => self.opened(id),
                Event::Received(id) => self.received_on(id),
                Event::Finished(_) if !self.stream_per_message => self.peer_closed = true,
                Event::EarlyDataRefused => self.refused(),
                Event::Closed(_) => self.peer_closed = true,
                Event::Connected | Event::MoreStreams => self.open_streams(),
                Event::Finished(id) => self.arrived.push(place_of(id)),
                Event::Acknowledged(_) | Event::Reset(_) => {}
            }
        }
    }

    /// The next stream on which a message has arrived whole.
    pub(crate) fn take_arrived(&mut self) -> Option<usize> {
        let stream = *self.arrived.get(self.told)?;
        self.told += 1;
        Some(stream)
    }

    /// Puts bytes on the stream at a place, and ends it after them if they are the last.
    fn put(&mut self, place: usize, bytes: u64, is_last: bool) {
        if self.streams.len() <= place {
            self.streams.resize(place + 1, Stream::default());
        }
        let stream = &mut self.streams[place];
        stream.written += bytes;
        stream.is_finished |= is_last;
        match stream.id {
            Some(id) => self.give(id, bytes, is_last),
            None => self.open_streams(),
        }
    }

    fn give(&mut self, id: StreamId, bytes: u64, is_last: bool) {
        if bytes > 0 {
            self.endpoint.write(id, bytes);
        }
        if is_last {
            self.endpoint.finish(id);
        }
    }

    /// Opens the streams of a client that wait for it, in order, as far as the peer allows.
    fn open_streams(&mut self) {
        if !self.is_client {
            return;
        }
        for place in 0..self.streams.len() {
            if self.streams[place].id.is_none() {
                let Some(id) = self.endpoint.open_stream() else { return };
                self.streams[place].id = Some(id);
                let Stream { written, is_finished, .. } = self.streams[place];
                self.give(id, written, is_finished);
            }
        }
    }

    /// The peer has opened a stream, the next one in order.
    fn opened(&mut self, id: StreamId) {
        let place = place_of(id);
        if self.streams.len() <= place {
            self.streams.resize(place + 1, Stream::default());
        }
        self.streams[place].id = Some(id);
        let Stream { written, is_finished, .. } = self.streams[place];
        self.give(id, written, is_finished);
    }

    fn received_on(&mut self, id: StreamId) {
        let (place, total) = (place_of(id), self.endpoint.received(id));
        if let Some(stream) = self.streams.get_mut(place) {
            self.received += total - stream.received;
            stream.received = total;
        }
    }

    /// The server has refused what was sent early: all of it is sent again.
    fn refused(&mut self) {
        self.was_refused = true;
        for stream in &mut self.streams {
            *stream = Stream { id: None, received: 0, ..*stream };
        }
        self.received = 0;
    }
}

impl Socket for QuicEnd {
    fn is_established(&self) -> bool {
        // A server answers early data, which come on a stream, before the handshake is complete.
        let may_write =
            self.endpoint.is_connected() || self.sends_early || !(self.is_client || self.streams.is_empty());
        may_write && self.endpoint.closed().is_none()
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
        let is_answer = self.stream_per_message && !self.is_client;
        let place = if is_answer { self.arrived.get(self.next).copied().unwrap_or(self.next) } else { self.next };
        self.put(place, bytes, self.stream_per_message);
        self.next += usize::from(self.stream_per_message);
    }

    fn withdraw(&mut self) {
        for stream in &mut self.streams {
            match stream.id {
                Some(id) => {
                    stream.written -= self.endpoint.waiting(id);
                    self.endpoint.withdraw(id);
                }
                None => stream.written = 0,
            }
        }
    }

    fn close(&mut self) {
        self.has_closed = true;
        // A stream per message ends with it.
        if !self.stream_per_message {
            self.put(0, 0, true);
        }
    }

    fn stop(&mut self) {
        self.withdraw();
        self.close();
    }
}

/// The place of a stream: identifiers of one kind are 4 apart (RFC 9000, section 2.1).
fn place_of(id: StreamId) -> usize {
    (id.number() / 4) as usize
}
