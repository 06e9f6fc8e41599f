//! The tunnel between the boxes at the two ends of a satellite link: one QUIC connection that carries each client's TCP
//! connection as a stream.
//!
//! The terminal accepts the client; a new stream needs no handshake over the satellite, and a lost packet delays only the streams
//! whose bytes it carried. The gateway dials the server by its own rules. One thread beside the workers does all of this.

mod carrier;
mod handshakes;
mod identity;
mod link;
mod passage;
mod record;
mod room;
mod transport;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::{channel, Receiver, TryRecvError};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::{Bytes, BytesMut};
use perigee_units::Time;
use quinn_proto::{ConnectionError, ConnectionHandle, Dir, Event, StreamEvent, StreamId};
use rustix::event::{epoll, eventfd, EventfdFlags};

use self::carrier::{next_chunk, release, Ends};
use self::identity::Identity;
pub(crate) use self::link::Link;
use self::passage::Passage;
use self::record::{Failure, Opening};
use self::room::Room;
use self::transport::stream_window;
use crate::config::{Config, Request, Transparent};
use crate::error::ServiceError;
use crate::event_loop::agenda::{self, Agenda};
use crate::event_loop::slab::{Key, Slab};
use crate::host::clock::{instant, monotonic};
use crate::host::sys;
use crate::legs::connection::Readiness;
use crate::legs::socket::dial;
use crate::relay::{Progress, Side};
use crate::shared::account::{in_words, Account, Outcome};
use crate::shared::handover::{Accepted, Order, Orders};
use crate::shared::Shared;

/// The tunnel's thread.
#[derive(Debug)]
pub(crate) struct Tunnel {
    thread: Option<JoinHandle<io::Result<()>>>,
    pub(crate) orders: Orders,
}

/// Checks that the certificates and the key of a configuration's tunnel exist and match.
pub(crate) fn check(config: &Config) -> Result<(), ServiceError> {
    config.tunnel.as_ref().map_or(Ok(()), |tunnel| Identity::read(tunnel).map(drop))
}

impl Tunnel {
    /// Starts the thread in the network namespace of the calling one.
    pub(crate) fn start(shared: &Arc<Shared>, config: &Arc<Config>, link: Link) -> Result<Self, ServiceError> {
        let (sender, received) = channel();
        let wake = Arc::new(
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
                .map_err(|error| ServiceError::system("tunnel")(error.into()))?,
        );
        let orders = Orders::new(sender, wake.clone());
        let work =
            Work::new(shared.clone(), config.clone(), link, received, wake).map_err(ServiceError::system("tunnel"))?;
        let thread = thread::Builder::new().name("pep-tunnel".to_owned()).spawn(move || work.run());
        Ok(Self { thread: Some(thread.map_err(ServiceError::system("thread"))?), orders })
    }

    /// The result of the thread, once it has ended.
    pub(crate) fn result(&mut self) -> Option<io::Result<()>> {
        if !self.thread.as_ref()?.is_finished() {
            return None;
        }
        let panicked = || Err(io::Error::other("the tunnel panicked"));
        Some(self.thread.take()?.join().unwrap_or_else(|_| panicked()))
    }

    /// Whether the thread's result was not taken yet.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.is_some()
    }
}

/// The event loop of the thread.
struct Work {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    orders: Receiver<Order>,
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
    /// Streams whose opening is incomplete, with its bytes so far.
    greetings: HashMap<(ConnectionHandle, StreamId), BytesMut>,
    passages: Slab<Passage>,
    streams: BTreeMap<(ConnectionHandle, StreamId), Key>,
    agenda: Agenda,
    room: Room,
    is_draining: bool,
    now: Time,
}

impl Work {
    fn new(
        shared: Arc<Shared>,
        config: Arc<Config>,
        link: Link,
        orders: Receiver<Order>,
        wake: Arc<OwnedFd>,
    ) -> io::Result<Self> {
        use epoll::EventFlags as Flags;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), Flags::IN)?;
        epoll::add(&epoll, link.socket(), epoll::EventData::new_u64(LINK), Flags::IN | Flags::OUT | Flags::ET)?;
        let now = monotonic();
        let held = config.limits.held.as_u64();
        let window = config.tunnel.as_ref().map_or(0, |tunnel| stream_window(tunnel, held));
        let room = Room::new(held, window);
        Ok(Self {
            epoll,
            wake,
            orders,
            shared,
            config,
            link,
            is_readable: false,
            gateway: None,
            redial: (Some(now), FIRST_PAUSE),
            waiting: VecDeque::new(),
            greetings: HashMap::new(),
            passages: Slab::default(),
            streams: BTreeMap::new(),
            agenda: Agenda::default(),
            room,
            is_draining: false,
            now,
        })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            self.wait(&mut events)?;
            self.now = monotonic();
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
                    }
                    LINK => self.is_readable = true,
                    data => self.on_socket(data, event.flags),
                }
            }
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
            for _ in 0..self.agenda.ready() {
                if let Some(key) = self.agenda.pop_ready() {
                    self.turn(key);
                }
            }
            self.fire_timers();
            self.make_room();
            // Sends bytes that the turns wrote.
            self.drive();
            if self.obey() {
                self.link.close();
                self.drive();
                return Ok(());
            }
        }
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let own =
            [self.agenda.first_timer(), self.redial.0, self.room.next(), self.waiting.iter().map(|(at, _)| *at).min()];
        let own = own.into_iter().flatten().min().map(|at| at - monotonic());
        let link = self.link.next().map(|at| at.saturating_duration_since(instant()));
        let link = link.map(|wait| Time::from_nanos(wait.as_nanos() as u64));
        let timeout = match own.into_iter().chain(link).min() {
            _ if self.is_readable || self.agenda.ready() > 0 => Some(Time::ZERO),
            other => other,
        };
        agenda::wait(&self.epoll, events, timeout)
    }

    /// Executes orders; true: the thread ends.
    fn obey(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Carry(accepted)) => {
                    self.waiting.push_back((self.now + accepted.rule.connect_timeout, accepted));
                    self.open_streams();
                }
                Ok(Order::Configure(config)) => self.config = config,
                Ok(Order::Drain) => {
                    self.is_draining = true;
                    self.link.accept_no_more();
                }
                Ok(Order::Abort) | Err(TryRecvError::Disconnected) => {
                    for key in self.passages.keys() {
                        self.end(key, &Outcome::aborted("the service was stopped"));
                    }
                    for (_, accepted) in std::mem::take(&mut self.waiting) {
                        self.refuse(&accepted, "the service was stopped");
                    }
                    return true;
                }
                Err(TryRecvError::Empty) => {
                    return self.is_draining && self.passages.len() == 0 && self.waiting.is_empty();
                }
            }
        }
    }

    /// Connects the terminal to its gateway when a retry is due.
    fn dial(&mut self) -> io::Result<()> {
        if self.redial.0.is_some_and(|at| at <= self.now) {
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
                Event::ConnectionLost { reason } => self.on_lost(handle, &reason),
                Event::Stream(event) => self.on_stream(handle, &event),
                _ => {}
            }
        }
        if let Some(to) = self.link.too_large() {
            let reason = "the MTU of the device there is too small";
            self.shared.log.once(format!("tunnel: datagrams do not reach {to}: {reason}; {MTU}"));
        }
        self.look_at_gateway();
        let given_up = self.link.given_up();
        if given_up > 0 {
            self.shared.stats.refused.add(given_up);
            self.shared
                .log
                .once("tunnel: a handshake was not completed in time; refused_total counts more of them".to_owned());
        }
        // Timeouts differ by rule, so the queue is not in order of deadlines.
        let now = self.now;
        let (late, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now);
        self.waiting = waiting;
        let is_up = self.gateway.is_some_and(|(_, is_up)| is_up);
        let reason = if is_up { "all streams of the tunnel are in use" } else { "the tunnel is down" };
        for (_, accepted) in Vec::from(late) {
            self.refuse(&accepted, reason);
        }
    }

    /// Checks whether the gateway has confirmed the terminal's handshake.
    fn look_at_gateway(&mut self) {
        let Some((handle, false)) = self.gateway else { return };
        if self.link.get_mut(handle).is_some_and(|gateway| gateway.stats().frame_rx.handshake_done > 0) {
            self.gateway = Some((handle, true));
            self.redial.1 = FIRST_PAUSE;
            self.on_up(handle);
            self.open_streams();
        }
    }

    fn on_up(&mut self, handle: ConnectionHandle) {
        let Some(connection) = self.link.get_mut(handle) else { return };
        let (remote, round_trip) = (connection.remote_address(), connection.rtt());
        self.shared.log.line(format!("tunnel up peer={remote} rtt_us={}", round_trip.as_micros()));
    }

    fn on_lost(&mut self, handle: ConnectionHandle, reason: &ConnectionError) {
        let was_up = self.gateway.is_none_or(|(gateway, is_up)| gateway != handle || is_up);
        let hint = if !was_up && *reason == ConnectionError::TimedOut { format!("; {MTU}") } else { String::new() };
        self.shared.log.line(format!("tunnel down reason=\"{reason}{hint}\""));
        if self.gateway.is_some_and(|(gateway, _)| gateway == handle) {
            self.gateway = None;
            // A gateway that resets a connection was restarted, and is up.
            let is_back = *reason == ConnectionError::Reset;
            let pause = if is_back { Time::ZERO } else { self.redial.1 };
            self.redial = (Some(self.now + pause), (self.redial.1 * 2).min(LAST_PAUSE));
        }
        self.greetings.retain(|(peer, _), _| *peer != handle);
        let lost: Vec<Key> =
            self.streams.iter().filter(|((peer, _), _)| *peer == handle).map(|(_, key)| *key).collect();
        self.streams.retain(|(peer, _), _| *peer != handle);
        for key in lost {
            if let Some(passage) = self.passages.get_mut(key) {
                passage.on_lost();
            }
            self.queue(key);
        }
    }

    fn on_stream(&mut self, handle: ConnectionHandle, event: &StreamEvent) {
        let id = match *event {
            StreamEvent::Opened { .. } => {
                while let Some(id) = self.link.get_mut(handle).and_then(|peer| peer.streams().accept(Dir::Bi)) {
                    self.greetings.insert((handle, id), BytesMut::new());
                    self.greet(handle, id);
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
        if let Some(passage) = self.passages.get_mut(key) {
            match event {
                StreamEvent::Finished { .. } => passage.on_delivered(),
                StreamEvent::Stopped { error_code, .. } => {
                    passage.on_stopped(Failure::of_code(error_code.into_inner()));
                }
                _ => passage.on_stream(),
            }
        }
        self.queue(key);
    }

    fn on_socket(&mut self, data: u64, flags: epoll::EventFlags) {
        let key = Key::from_data(data).0;
        let Some(passage) = self.passages.get_mut(key) else { return };
        passage.on_socket(Readiness::of(flags), self.now);
        self.queue(key);
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
            let Accepted { client, source, destination, rule, permit } = accepted;
            let first = Opening { source, destination }.encode();
            let ends = Ends::new(client, Side::Client, stream, first, Bytes::new());
            let stats = self.shared.stats.rule(&rule.name);
            let account = Account::open([source, destination], rule, stats, self.now).with_place(permit);
            self.begin(handle, stream, ends, account);
        }
    }

    /// Reads the opening of a stream, and dials the server once it is complete.
    fn greet(&mut self, handle: ConnectionHandle, id: StreamId) {
        let Some(mut bytes) = self.greetings.remove(&(handle, id)) else { return };
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
                    self.greetings.insert((handle, id), bytes);
                    return;
                }
                Err(error) => break Err(error.to_string()),
            }
        };
        let remote = peer.remote_address();
        let refused = match done {
            Ok((opening, rest)) => match self.serve(handle, id, opening, rest.freeze()) {
                Ok(()) => return,
                Err((failure, reason)) => {
                    let Opening { source, destination } = opening;
                    (failure, format!("client={source} server={destination} reason=\"{reason}\""))
                }
            },
            Err(reason) => (Failure::Other, format!("reason=\"{reason}\"")),
        };
        let (failure, words) = refused;
        self.shared.stats.refused.add(1);
        self.shared.log.line(format!("refused terminal={remote} {words}"));
        if let Some(peer) = self.link.get_mut(handle) {
            release(peer, id, failure);
        }
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
        if self.is_draining {
            return Err(refuse("the gateway is being stopped"));
        }
        let is_own = |address| sys::is_own(address).unwrap_or(true);
        if !self.link.has_client(handle, source.ip()) {
            return Err(refuse("the source is not one of this terminal"));
        }
        if let Some(reason) = self.config.allow.refusal(source.ip(), destination.ip(), is_own) {
            return Err(refuse(reason));
        }
        if self.config.leads_back(destination, is_own) {
            return Err(refuse("it leads back to this service"));
        }
        let request = Request { source, destination, interface: None, dscp: 0 };
        let rule = self.config.rule(&request).cloned().ok_or_else(|| refuse("no rule"))?;
        if self.shared.stats.open.get() >= self.shared.connections() as u64 {
            return Err(refuse("the limit of connections is reached"));
        }
        let permit = self.shared.clients.permit(source.ip(), self.config.limits.per_client);
        let permit = permit.ok_or_else(|| refuse("the limit of connections of the client is reached"))?;
        let transparent = self.config.transparent.as_ref();
        let seen = transparent.filter(|transparent| !transparent.hide_clients).map(|_| source);
        let dialled = dial(&rule.server, seen, destination, transparent.map(Transparent::own_mark), 0);
        let (server, notes) = dialled
            .map_err(|error| (Failure::of_kind(error.kind()), format!("server {}: {error}", in_words(error.kind()))))?;
        for line in notes {
            self.shared.log.once(line);
        }
        let ends = Ends::new(server, Side::Server, stream, Vec::new(), arrived);
        let stats = self.shared.stats.rule(&rule.name);
        let account = Account::open([source, destination], rule, stats, self.now).with_place(permit);
        self.begin(handle, stream, ends, account);
        Ok(())
    }

    /// Adds a connection with its socket and stream.
    fn begin(&mut self, handle: ConnectionHandle, stream: StreamId, ends: Ends, account: Account) {
        use epoll::EventFlags as Flags;
        let socket = ends.socket.clone();
        let key = self.passages.insert(Passage::new(ends, handle, account));
        self.streams.insert((handle, stream), key);
        let data = epoll::EventData::new_u64(key.with_bit(false));
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        match epoll::add(&self.epoll, socket.as_fd(), data, flags) {
            Ok(()) => self.turn(key),
            Err(error) => self.end(key, &Outcome::aborted(&error.to_string())),
        }
    }

    fn turn(&mut self, key: Key) {
        let Some(passage) = self.passages.get_mut(key) else { return };
        passage.is_queued = false;
        let before = passage.timer;
        let tunnel = passage.place().and_then(|(peer, _)| self.link.get_mut(peer));
        let progress = passage.advance(tunnel, BUDGET, self.now);
        self.agenda.move_timer(key, before, passage.timer);
        let held = passage.ends.held();
        self.shared.stats.held.change(&mut passage.gauged, self.room.count(held, passage.ends.is_behind(), self.now));
        match progress {
            Ok(Progress::OutOfBudget) => self.queue(key),
            Ok(_) => {}
            Err(outcome) => self.end(key, &outcome),
        }
    }

    fn queue(&mut self, key: Key) {
        if let Some(passage) = self.passages.get_mut(key) {
            self.agenda.queue(key, &mut passage.is_queued);
        }
    }

    fn fire_timers(&mut self) {
        while let Some(key) = self.agenda.pop_due(self.now) {
            if let Some(passage) = self.passages.get_mut(key) {
                passage.timer = None;
                self.turn(key);
            }
        }
    }

    /// Ends connections of silent readers when their unread bytes may exhaust the memory.
    fn make_room(&mut self) {
        if self.room.next().is_none_or(|at| at > self.now) {
            return;
        }
        let mut behind = Vec::new();
        for key in self.passages.keys() {
            let Some(passage) = self.passages.get_mut(key) else { continue };
            if let Some((silence, (peer, _))) = passage.silence(self.now).zip(passage.place()) {
                behind.push((peer, silence, key));
            }
        }
        for key in self.room.victims(behind, self.now) {
            self.end(key, &Outcome::aborted("its reader was silent, and the memory of the tunnel is nearly used"));
        }
    }

    fn end(&mut self, key: Key, outcome: &Outcome) {
        let Some(mut passage) = self.passages.remove(key) else { return };
        self.agenda.move_timer(key, passage.timer, None);
        self.shared.stats.held.change(&mut passage.gauged, 0);
        let place = passage.place();
        place.map(|place| self.streams.remove(&place));
        let tunnel = place.and_then(|(peer, _)| self.link.get_mut(peer));
        let line = passage.close(outcome, tunnel.as_deref(), self.now);
        self.shared.log.line(line);
        if let Some(tunnel) = tunnel {
            release(tunnel, passage.ends.stream, Failure::Other);
        }
    }

    /// Resets a client without a stream.
    fn refuse(&mut self, accepted: &Accepted, reason: &str) {
        self.shared.stats.refused.add(1);
        let Accepted { source, destination, .. } = accepted;
        self.shared.log.line(format!("refused client={source} server={destination} reason=\"{reason}\""));
    }
}

/// Event data of the wake descriptor and of the UDP socket, which no [`Key`] has.
const WAKE: u64 = u64::MAX;
const LINK: u64 = u64::MAX - 1;
/// Events that are fetched at a time.
const EVENTS: usize = 256;
/// Reads of the UDP socket per turn.
const READS: usize = 16;
/// Bytes of a direction per turn.
const BUDGET: usize = 256 << 10;
/// Hint for users about packet sizes.
const MTU: &str = "QUIC needs an MTU of 1228 bytes all the way (IPv6: 1248)";
/// Pauses between attempts to connect to the gateway: each is twice the one before.
const FIRST_PAUSE: Time = Time::from_secs(1);
const LAST_PAUSE: Time = Time::from_secs(30);
