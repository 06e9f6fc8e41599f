//! The tunnel between the boxes at the two ends of a satellite link: one QUIC connection that carries each client's TCP
//! connection as a stream.
//!
//! The terminal accepts the client; a new stream needs no handshake over the satellite, and a lost packet delays only the streams
//! whose bytes it carried. The gateway dials the server by its own rules. One thread beside the workers does all of this.

mod carrier;
#[cfg(test)]
mod cells;
mod cryptography;
mod handshakes;
mod identity;
mod link;
mod passage;
mod record;
mod room;
mod transport;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use perigee_quic::stack::{ConnectionError, ConnectionHandle, Dir, Event, StreamEvent, StreamId, TransportErrorCode};
use perigee_units::Time;
use rustix::event::epoll::EventFlags;

use self::carrier::{next_chunk, release, Ends};
use self::identity::Identity;
pub(crate) use self::identity::Known;
pub(crate) use self::link::Link;
use self::passage::Passage;
use self::record::{Failure, Opening};
use self::room::Room;
use self::transport::stream_window;
use crate::config::{Config, Request};
use crate::error::ServiceError;
use crate::event_loop::{EventLoop, Handler, Key, Readiness, Task, Thread, Turn};
use crate::host::clock::{instant, monotonic};
use crate::host::sys;
use crate::legs::socket::dial;
use crate::relay::Side;
use crate::shared::account::{in_words, Account, Outcome};
use crate::shared::handover::{Accepted, TunnelOrder};
use crate::shared::log::{quoted, Caused};
use crate::shared::Shared;

/// Checks that the certificates and the key of a configuration's tunnel exist and match.
pub(crate) fn check(config: &Config) -> Result<(), ServiceError> {
    config.tunnel.as_ref().map_or(Ok(()), |tunnel| Identity::read(tunnel).map(drop))
}

/// Starts the tunnel's thread in the network namespace of the calling one.
pub(crate) fn start(
    shared: &Arc<Shared>,
    config: &Arc<Config>,
    link: Link,
) -> Result<Thread<TunnelOrder>, ServiceError> {
    let (shared, config) = (shared.clone(), config.clone());
    let make = |event_loop| TunnelHandler::new(event_loop, shared, config, link);
    Thread::start("pep-tunnel", make).map_err(ServiceError::system("tunnel"))
}

/// The state of the thread.
struct TunnelHandler {
    event_loop: EventLoop<Passage, TunnelOrder>,
    shared: Arc<Shared>,
    config: Arc<Config>,
    link: Link,
    /// Whether the socket of the link may have more datagrams.
    is_readable: bool,
    /// The terminal's connection to its gateway, and whether the gateway has confirmed the handshake: it receives the terminal's
    /// certificate last (TLS 1.3).
    gateway: Option<(ConnectionHandle, bool)>,
    /// When the terminal dials again, and the pause after that.
    redial: (Option<Time>, Time),
    /// Clients without a stream, since the tunnel is down or all its streams are in use, with their deadlines.
    waiting: VecDeque<(Time, Accepted)>,
    /// Streams whose opening is incomplete. Each has a place among the connections from its first byte on.
    greetings: HashMap<(ConnectionHandle, StreamId), Greeting>,
    /// This thread's share of the gauges of those that wait.
    gauged: [usize; 2],
    streams: BTreeMap<(ConnectionHandle, StreamId), Key>,
    room: Room,
}

/// A stream whose opening is incomplete.
#[derive(Debug)]
struct Greeting {
    /// Its bytes so far.
    bytes: BytesMut,
    /// When it is given up.
    deadline: Time,
}

impl TunnelHandler {
    fn new(
        event_loop: EventLoop<Passage, TunnelOrder>,
        shared: Arc<Shared>,
        config: Arc<Config>,
        link: Link,
    ) -> io::Result<Self> {
        event_loop.watch(link.socket(), 0, EventFlags::IN | EventFlags::OUT | EventFlags::ET)?;
        let held = config.limits.held.as_u64();
        let window = config.tunnel.as_ref().map_or(0, |tunnel| stream_window(tunnel, held));
        Ok(Self {
            redial: (Some(event_loop.now()), FIRST_PAUSE),
            event_loop,
            shared,
            config,
            link,
            is_readable: false,
            gateway: None,
            waiting: VecDeque::new(),
            greetings: HashMap::new(),
            gauged: [0; 2],
            streams: BTreeMap::new(),
            room: Room::new(held, window),
        })
    }

    /// Connects the terminal to its gateway when a retry is due.
    fn dial(&mut self) -> io::Result<()> {
        if self.redial.0.is_some_and(|at| at <= self.event_loop.now()) {
            self.redial.0 = None;
            self.gateway = self.link.dial()?.map(|handle| (handle, false));
        }
        Ok(())
    }

    /// Makes the link send, and handles its events.
    fn drive(&mut self) {
        for (handle, event) in self.link.drive() {
            match event {
                // The terminal waits for the gateway's confirmation.
                Event::Connected if self.gateway.is_none() => self.on_up(handle),
                Event::HandshakeConfirmed => self.on_confirmed(handle),
                Event::ConnectionLost { reason } => self.on_lost(handle, &reason),
                Event::Stream(event) => self.on_stream(handle, &event),
                _ => {}
            }
        }
        if let Some(to) = self.link.too_large() {
            let reason = "the MTU of the device there is too small";
            self.shared.log.once(format!("tunnel: datagrams do not reach {to}: {reason}; {MTU}"));
        }
        let given_up = self.link.given_up();
        if given_up > 0 {
            self.shared.stats.refused.add(given_up);
            let line = "tunnel: a handshake was not completed in time; refused_total counts more of them";
            self.shared.log.once(line.to_owned());
        }
        let now = self.event_loop.now();
        self.end_greetings(now);
        // Timeouts differ by rule, so the queue is not in order of deadlines.
        let (late, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now);
        self.waiting = waiting;
        let is_up = self.gateway.is_some_and(|(_, is_up)| is_up);
        let reason = if is_up { "all streams of the tunnel are in use" } else { "the tunnel is down" };
        for (_, accepted) in Vec::from(late) {
            self.refuse(&accepted, reason);
        }
    }

    /// The gateway has confirmed the terminal's handshake.
    fn on_confirmed(&mut self, handle: ConnectionHandle) {
        if self.gateway == Some((handle, false)) {
            self.gateway = Some((handle, true));
            self.redial.1 = FIRST_PAUSE;
            self.on_up(handle);
            self.open_streams();
        }
    }

    fn on_up(&mut self, handle: ConnectionHandle) {
        if !self.link.is_known(handle) {
            return;
        }
        let Some((remote, round_trip)) = self.link.path(handle) else { return };
        self.shared.log.line(format!("tunnel up peer={remote} rtt_us={}", round_trip.as_micros()));
    }

    fn on_lost(&mut self, handle: ConnectionHandle, reason: &ConnectionError) {
        let is_gateway = self.gateway.is_some_and(|(gateway, _)| gateway == handle);
        let was_up = self.gateway.is_none_or(|(_, is_up)| !is_gateway || is_up);
        let is_known = self.link.is_known(handle);
        if !is_known && !is_gateway {
            self.shared.stats.refused.add(1);
            let peer = self.link.path(handle).map(|(stranger, _)| format!(" peer={stranger}"));
            self.shared.log.limited(Caused::ByStrangers, format!("tunnel refused{}", peer.unwrap_or_default()));
            return;
        }
        let words = match reason {
            ConnectionError::TimedOut if !was_up => format!("timed out; {MTU}"),
            reason if is_known => reason.to_string(),
            reason => of_stranger(reason).to_owned(),
        };
        // A gateway that resets a connection was restarted, and is up.
        self.down(handle, &words, *reason == ConnectionError::Reset);
    }

    /// Gives up what a connection to another box has carried; a terminal dials its gateway again, at once where it is back.
    fn down(&mut self, handle: ConnectionHandle, words: &str, is_back: bool) {
        self.shared.log.line(format!("tunnel down reason={}", quoted(words)));
        if self.gateway.is_some_and(|(gateway, _)| gateway == handle) {
            self.gateway = None;
            let pause = if is_back { Time::ZERO } else { self.redial.1 };
            self.redial = (Some(self.event_loop.now() + pause), (self.redial.1 * 2).min(LAST_PAUSE));
        }
        self.greetings.retain(|(peer, _), _| *peer != handle);
        let lost: Vec<Key> =
            self.streams.iter().filter(|((peer, _), _)| *peer == handle).map(|(_, key)| *key).collect();
        self.streams.retain(|(peer, _), _| *peer != handle);
        for key in lost {
            if let Some(passage) = self.event_loop.get_mut(key) {
                passage.on_lost();
            }
            self.event_loop.queue(key);
        }
    }

    fn on_stream(&mut self, handle: ConnectionHandle, event: &StreamEvent) {
        let id = match *event {
            StreamEvent::Opened { .. } => {
                while let Some(id) = self.link.get_mut(handle).and_then(|peer| peer.streams().accept(Dir::Bi)) {
                    self.welcome(handle, id);
                }
                return;
            }
            StreamEvent::Available { .. } => {
                self.open_streams();
                return;
            }
            StreamEvent::Readable { id }
            | StreamEvent::Writable { id }
            | StreamEvent::Finished { id }
            | StreamEvent::Stopped { id, .. } => id,
        };
        let Some(key) = self.streams.get(&(handle, id)).copied() else {
            self.greet(handle, id);
            return;
        };
        if let Some(passage) = self.event_loop.get_mut(key) {
            match event {
                StreamEvent::Finished { .. } => passage.on_delivered(),
                StreamEvent::Stopped { error_code, .. } => {
                    passage.on_stopped(Failure::of_code(error_code.into_inner()));
                }
                _ => passage.on_stream(),
            }
        }
        self.event_loop.queue(key);
    }

    /// Opens streams for clients that wait.
    fn open_streams(&mut self) {
        while let Some((handle, true)) = self.gateway {
            if self.waiting.is_empty() {
                return;
            }
            // A client without a stream stays first in the queue.
            let Some(stream) = self.link.get_mut(handle).and_then(|peer| peer.streams().open(Dir::Bi)) else { return };
            let Some((_, accepted)) = self.waiting.pop_front() else { return };
            let Accepted { client, ends: [source, destination], rule, permit } = accepted;
            let first = Opening { source, destination }.encode();
            let ends = Ends::new((client, Side::Client), stream, first, Bytes::new(), &self.shared.stats);
            let (config, now) = (&self.config, self.event_loop.now());
            let account = self.shared.account(config, [source, destination], rule, now, Some(permit));
            self.add(handle, ends, account);
        }
    }

    /// Gives a new stream its place, which counts before its opening is read.
    fn welcome(&mut self, handle: ConnectionHandle, id: StreamId) {
        if self.stands_full() {
            self.refuse_stream(handle, id, Failure::NotServed, &format!("reason={}", quoted(FULL)));
            return;
        }
        let grace = self.config.tunnel.as_ref().map_or(Time::ZERO, |tunnel| tunnel.outage_grace);
        let greeting = Greeting { bytes: BytesMut::new(), deadline: self.event_loop.now() + grace };
        self.greetings.insert((handle, id), greeting);
        self.greet(handle, id);
    }

    /// Whether connections and streams that are about to be some have all places.
    fn stands_full(&self) -> bool {
        self.shared.stats.open.get() + self.greetings.len() as u64 >= self.shared.connections() as u64
    }

    /// Ends streams whose terminals have not said in time what they are for.
    fn end_greetings(&mut self, now: Time) {
        let is_late = |greeting: &Greeting| greeting.deadline <= now;
        let late: Vec<_> = self.greetings.iter().filter(|(_, one)| is_late(one)).map(|(place, _)| *place).collect();
        for (handle, id) in late {
            self.greetings.remove(&(handle, id));
            self.refuse_stream(handle, id, Failure::TimedOut, "reason=\"the opening was not completed in time\"");
        }
    }

    fn refuse_stream(&mut self, handle: ConnectionHandle, id: StreamId, failure: Failure, words: &str) {
        let Some((remote, _)) = self.link.path(handle) else { return };
        self.shared.refuse(&format!("terminal={remote} {words}"));
        if let Some(peer) = self.link.get_mut(handle) {
            release(peer, id, failure);
        }
    }

    /// Reads the opening of a stream, and dials the server once it is complete.
    fn greet(&mut self, handle: ConnectionHandle, id: StreamId) {
        let Some(Greeting { mut bytes, deadline }) = self.greetings.remove(&(handle, id)) else { return };
        let Some(peer) = self.link.get_mut(handle) else { return };
        let done = loop {
            match Opening::decode(&bytes) {
                Ok(None) => {}
                Ok(Some((opening, length))) => break Ok((opening, bytes.split_off(length))),
                Err(reason) => break Err(reason.to_owned()),
            }
            match next_chunk(peer, id) {
                Ok(chunk) => bytes.extend_from_slice(&chunk),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.greetings.insert((handle, id), Greeting { bytes, deadline });
                    return;
                }
                Err(error) => break Err(error.to_string()),
            }
        };
        let (failure, words) = match done {
            Ok((opening, rest)) => match self.serve(handle, id, opening, rest.freeze()) {
                Ok(()) => return,
                Err((failure, reason)) => {
                    let Opening { source, destination } = opening;
                    (failure, format!("client={source} server={destination} reason={}", quoted(reason)))
                }
            },
            Err(reason) => (Failure::Other, format!("reason={}", quoted(reason))),
        };
        self.refuse_stream(handle, id, failure, &words);
    }

    /// Dials the server of an opening; the error says why not.
    fn serve(
        &mut self,
        handle: ConnectionHandle,
        stream: StreamId,
        opening: Opening,
        arrived: Bytes,
    ) -> Result<(), (Failure, String)> {
        let Opening { source, destination } = opening;
        let refuse = |reason: &str| (Failure::NotServed, reason.to_owned());
        if self.event_loop.is_draining() {
            return Err(refuse("the gateway is being stopped"));
        }
        if !self.link.has_client(handle, source.ip()) {
            return Err(refuse("the source is not one of this terminal"));
        }
        if let Some(reason) = self.config.allow.refusal(source.ip(), destination.ip(), sys::is_own) {
            return Err(refuse(reason));
        }
        if self.config.leads_back(destination, sys::is_own) {
            return Err(refuse("it leads back to this service"));
        }
        let request = Request { source, destination, interface: None, dscp: 0 };
        let rule = self.config.rule(&request).cloned().ok_or_else(|| refuse("no rule"))?;
        if self.stands_full() {
            return Err(refuse(FULL));
        }
        let permit =
            self.shared.clients.permit(self.config.allow.counted_as(source.ip()), self.config.limits.per_client);
        let permit = permit.ok_or_else(|| refuse("the limit of connections of the client is reached"))?;
        let (seen, own_mark) = (self.config.seen(source), self.config.own_mark());
        let server = dial(&rule.server, seen, destination, own_mark, 0, &self.shared.log)
            .map_err(|error| (Failure::of_kind(error.kind()), format!("server {}: {error}", in_words(error.kind()))))?;
        let ends = Ends::new((server, Side::Server), stream, Vec::new(), arrived, &self.shared.stats);
        let (config, now) = (&self.config, self.event_loop.now());
        let account = self.shared.account(config, [source, destination], rule, now, Some(permit));
        self.add(handle, ends, account);
        Ok(())
    }

    /// Adds a connection with its socket and stream.
    fn add(&mut self, handle: ConnectionHandle, ends: Ends, account: Account) {
        let stream = ends.stream;
        let key = self.event_loop.insert(Passage::new(ends, handle, account));
        self.streams.insert((handle, stream), key);
        self.begin(key);
    }

    /// Ends connections of silent readers when their unread bytes may exhaust the memory.
    fn make_room(&mut self) {
        let now = self.event_loop.now();
        if self.room.next().is_none_or(|at| at > now) {
            return;
        }
        let mut behind = Vec::new();
        for key in self.event_loop.keys() {
            let Some(passage) = self.event_loop.get_mut(key) else { continue };
            if let Some((silence, (peer, _))) = passage.silence(now).zip(passage.place()) {
                behind.push((peer, silence, key));
            }
        }
        for key in self.room.victims(behind, now) {
            self.end(key, &Outcome::aborted("its reader was silent, and the memory of the tunnel is nearly used"));
        }
    }

    fn gauge(&mut self) {
        let [waiting, handshakes] = &mut self.gauged;
        let stats = &self.shared.stats;
        stats.tunnel_waiting.change(waiting, self.waiting.len() + self.greetings.len());
        stats.tunnel_handshakes.change(handshakes, self.link.strangers());
    }

    /// Resets a client without a stream.
    fn refuse(&self, accepted: &Accepted, reason: &str) {
        self.shared.refuse_client(accepted.ends, reason);
    }
}

impl Task for Passage {
    fn sockets(&self) -> &[OwnedFd] {
        std::slice::from_ref(&self.ends.socket)
    }
}

impl Handler for TunnelHandler {
    type Task = Passage;
    type Order = TunnelOrder;
    type Outcome = Outcome;

    fn event_loop(&mut self) -> &mut EventLoop<Passage, TunnelOrder> {
        &mut self.event_loop
    }

    fn on_source(&mut self, _number: u64) {
        self.is_readable = true;
    }

    fn on_event(&mut self, key: Key, _socket: usize, event: Readiness) -> Result<(), Outcome> {
        let now = self.event_loop.now();
        if let Some(passage) = self.event_loop.get_mut(key) {
            passage.on_socket(event, now);
        }
        Ok(())
    }

    /// Moves at most [`BUDGET`] bytes in each direction.
    fn advance(&mut self, key: Key) -> Result<Turn, Outcome> {
        let now = self.event_loop.now();
        let Some(passage) = self.event_loop.get_mut(key) else { return Ok(Turn::Wait(None)) };
        let tunnel = passage.place().and_then(|(peer, _)| self.link.get_mut(peer));
        let turn = passage.advance(tunnel, BUDGET, now);
        let held = self.room.count(passage.ends.held(), passage.ends.is_behind(), now);
        self.shared.stats.held.change(&mut passage.gauged, held);
        turn
    }

    fn end(&mut self, key: Key, outcome: &Outcome) {
        let Some(mut passage) = self.event_loop.remove(key) else { return };
        self.shared.stats.held.change(&mut passage.gauged, 0);
        let place = passage.place();
        place.map(|place| self.streams.remove(&place));
        let tunnel = place.and_then(|(peer, _)| self.link.get_mut(peer));
        passage.close(outcome, tunnel.as_deref(), &self.shared, self.event_loop.now());
        if let Some(tunnel) = tunnel {
            release(tunnel, passage.ends.stream, Failure::Other);
        }
    }

    fn obey(&mut self, order: TunnelOrder) -> io::Result<()> {
        match order {
            TunnelOrder::Carry(accepted) => {
                self.waiting.push_back((self.event_loop.now() + accepted.rule.connect_timeout, accepted));
                self.open_streams();
            }
            TunnelOrder::Configure(config, known) => {
                self.config = config;
                for handle in self.link.replace_known(known) {
                    self.down(handle, "its certificate is no longer among the known ones", false);
                }
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        self.link.accept_no_more();
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    fn next(&mut self) -> Option<Time> {
        if self.is_readable {
            return Some(Time::ZERO);
        }
        let link = self.link.next().map(|at| at.saturating_duration_since(instant()));
        let link = link.map(|wait| monotonic() + Time::from_nanos(wait.as_nanos() as u64));
        let waiting = self.waiting.iter().map(|(at, _)| *at).min();
        let greeting = self.greetings.values().map(|greeting| greeting.deadline).min();
        [link, waiting, greeting, self.redial.0, self.room.next()].into_iter().flatten().min()
    }

    /// Reads datagrams, and handles what they bring.
    fn before_turns(&mut self) -> io::Result<()> {
        for _ in 0..READS {
            if !self.is_readable {
                break;
            }
            self.is_readable = self.link.receive().unwrap_or_else(|error| {
                self.shared.log.once(format!("tunnel: {error}"));
                false
            });
        }
        self.dial()?;
        self.drive();
        Ok(())
    }

    /// Sends bytes that the turns wrote.
    fn after_turns(&mut self) -> io::Result<()> {
        self.make_room();
        self.drive();
        self.gauge();
        Ok(())
    }

    fn close(&mut self, _done: &io::Result<()>) {
        for key in self.event_loop.keys() {
            self.end(key, &Outcome::aborted("the service was stopped"));
        }
        for (_, accepted) in std::mem::take(&mut self.waiting) {
            self.refuse(&accepted, "the service was stopped");
        }
        self.link.close();
        self.drive();
    }
}

/// Why a box whose certificate is not known is not connected, in words of our own: what it says may be anybody's.
fn of_stranger(reason: &ConnectionError) -> &'static str {
    match reason {
        ConnectionError::TransportError(error) if error.code == TransportErrorCode::crypto(UNKNOWN_CA) => {
            "the certificate of what answers there is not known"
        }
        ConnectionError::TransportError(_) | ConnectionError::VersionMismatch => "what answers there is no gateway",
        ConnectionError::TimedOut => "timed out",
        _ => "what answers there has closed the connection",
    }
}

/// Why a client has no place.
const FULL: &str = "the limit of connections is reached";
/// The alert of TLS for a certificate that is not known (RFC 8446, section 6).
const UNKNOWN_CA: u8 = 48;
/// Reads of the UDP socket per turn.
const READS: usize = 16;
/// Bytes of a direction per turn.
const BUDGET: usize = 256 << 10;
/// Hint for users about packet sizes.
const MTU: &str = "QUIC needs an MTU of 1228 bytes all the way (IPv6: 1248)";
/// Pauses between attempts to connect to the gateway: each is twice the one before.
const FIRST_PAUSE: Time = Time::from_secs(1);
const LAST_PAUSE: Time = Time::from_secs(30);
