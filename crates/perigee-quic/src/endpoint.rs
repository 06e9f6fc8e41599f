//! One end of a connection, driven by its host.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use noq_proto::{
    Connection, ConnectionHandle, ConnectionIdGenerator, DatagramEvent, Dir, EndpointConfig, FourTuple, Incoming,
    PathId, StreamEvent, VarInt,
};
use perigee_cc::Socket;
use perigee_units::{Stream, Time};

use crate::cids::Cids;
use crate::clock::{self, Calendar};
use crate::config::{AddressValidation, Config, Control, Factory, Keys};
use crate::control::{Counters, Made, Sender, Shared};
use crate::events::{Closed, Ecn, Event, StreamId};
use crate::info::{Chronograph, Info, Limit, Limits};
use crate::null::{NullKey, Ticket};
use crate::qlog::{self, Qlog};
use crate::setup;
use crate::streams::Streams;

/// One end of a QUIC connection.
///
/// Report events with [`Endpoint::open`], [`Endpoint::on_datagram`], [`Endpoint::on_timer`] and those of streams, then call
/// [`Endpoint::poll_transmit`] until it returns `None`, take what [`Endpoint::poll_event`] reports, and come back at
/// [`Endpoint::next_timer`].
///
/// ```
/// use perigee_cc::Selected;
/// use perigee_quic::{Config, Endpoint, Event};
/// use perigee_units::Time;
///
/// let config = Config::with(Selected::parse("reno", &[]).unwrap());
/// let mut ends = [Endpoint::client(&config, 1), Endpoint::server(&config, 2)];
/// ends[0].open(Time::ZERO);
/// let (mut now, mut datagram, mut got) = (Time::ZERO, Vec::new(), 0);
/// while got < 100_000 {
///     now += Time::from_millis(10);
///     for (from, to) in [(0, 1), (1, 0)] {
///         ends[from].on_timer(now);
///         while let Some(ecn) = ends[from].poll_transmit(now, &mut datagram) {
///             ends[to].on_datagram(now, &datagram, ecn);
///         }
///     }
///     while let Some(event) = ends[1].poll_event() {
///         if event == Event::Connected {
///             let stream = ends[1].open_stream().unwrap();
///             ends[1].write(stream, 100_000);
///             ends[1].finish(stream);
///         }
///     }
///     while let Some(event) = ends[0].poll_event() {
///         if let Event::Received(stream) = event {
///             got = ends[0].received(stream);
///         }
///     }
/// }
/// ```
pub struct Endpoint {
    config: Config,
    is_server: bool,
    seed: u64,
    stack: noq_proto::Endpoint,
    calendar: Arc<Calendar>,
    connection: Option<(ConnectionHandle, Connection)>,
    /// `None`: the stack's own congestion control.
    control: Option<Shared>,
    streams: Streams,
    /// Datagrams that belong to no connection: Retry, version negotiation, refusals.
    responses: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    closed: Option<Closed>,
    is_connected: bool,
    /// A client that sends data with its first flight.
    sends_early: bool,
    chronograph: Chronograph,
    now: Time,
    /// Probe timeouts of the handshake.
    handshake_probes: u64,
    /// The handshake's state when a timer fired in it, until all has left for which the timer is the reason.
    at_timer: Option<HandshakeFrames>,
    /// The keys of the handshake are of no more use (RFC 9001, section 4.1.2).
    is_confirmed: bool,
    /// The pacer holds a packet back.
    is_held: bool,
    qlog: Option<Box<Qlog>>,
}

impl Endpoint {
    /// A client, which [`Endpoint::open`] connects.
    ///
    /// # Panics
    /// Where the algorithm is only described, or keys are those of a server.
    pub fn client(config: &Config, seed: u64) -> Self {
        Self::new(config, seed, false)
    }

    /// A server, which accepts one connection.
    ///
    /// # Panics
    /// Where the algorithm is only described, or keys are those of a client.
    pub fn server(config: &Config, seed: u64) -> Self {
        Self::new(config, seed, true)
    }

    fn new(config: &Config, seed: u64, is_server: bool) -> Self {
        let control = match &config.control {
            Control::Algorithm(selected) => {
                let socket = Socket::new(selected, u32::from(config.datagram_bytes), config.initial_window, seed);
                Some(Shared::new(Sender::new(socket, config.pacing)))
            }
            Control::Stack(_) => None,
        };
        let calendar = Arc::new(Calendar::default());
        let mut stack = EndpointConfig::new(NullKey::shared());
        stack
            .rng_seed(Some(seed_of_stack(seed)))
            .cid_generator(Arc::new(move || Box::new(Cids::new(seed)) as Box<dyn ConnectionIdGenerator>))
            .supported_versions(vec![config.version])
            .grease_quic_bit(false);
        // Announced to the peer, which sends no larger one.
        let largest = config.datagram_bytes.max(stack.get_max_udp_payload_size() as u16);
        stack.max_udp_payload_size(largest).expect("a datagram has 1200 to 65527 bytes");
        let mut endpoint = Self {
            config: config.clone(),
            is_server,
            seed,
            stack: noq_proto::Endpoint::new(Arc::new(stack), None, false),
            calendar,
            connection: None,
            control,
            streams: Streams::default(),
            responses: VecDeque::new(),
            events: VecDeque::new(),
            closed: None,
            is_connected: false,
            sends_early: false,
            chronograph: Chronograph::default(),
            now: Time::ZERO,
            handshake_probes: 0,
            at_timer: None,
            is_confirmed: false,
            is_held: false,
            qlog: config.qlog.then(|| Box::new(Qlog::new(config, is_server))),
        };
        if let (Some(_), Some(control)) = (&endpoint.qlog, &endpoint.control) {
            control.lock().lost_numbers = Some(Vec::new());
        }
        if is_server {
            let server = setup::server(config, endpoint.factory(), endpoint.calendar.clone());
            endpoint.stack.set_server_config(Some(Arc::new(server)));
        }
        endpoint
    }

    /// Opens the connection of a client.
    pub fn open(&mut self, now: Time) {
        self.set_now(now);
        self.chronograph.open(now);
        let (config, name) = setup::client(&self.config, self.factory(), self.seed);
        match self.stack.connect(clock::instant(now), config, SERVER, &name) {
            Ok(connection) => {
                self.sends_early = connection.1.has_0rtt();
                self.connection = Some(connection);
            }
            Err(error) => self.end(Closed::Error(error.to_string())),
        }
    }

    /// A datagram of the peer has arrived with this ECN field.
    pub fn on_datagram(&mut self, now: Time, datagram: &[u8], ecn: Ecn) {
        self.set_now(now);
        self.at_timer = None;
        self.log_datagram(false, datagram);
        let ecn = if self.config.ecn { ecn.to_stack() } else { None };
        let from = FourTuple::from_remote(if self.is_server { CLIENT } else { SERVER });
        let mut answer = Vec::new();
        let arrived = self.stack.handle(clock::instant(now), from, ecn, BytesMut::from(datagram), &mut answer);
        match arrived {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming),
            Some(DatagramEvent::Response(_)) => self.responses.push_back(answer),
            None => {}
        }
        self.take_reports();
        self.log_state();
    }

    /// Fires the timers that are due.
    pub fn on_timer(&mut self, now: Time) {
        self.set_now(now);
        let Some((_, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_none_or(|at| clock::time(at) > now) {
            return;
        }
        self.at_timer = (!self.is_confirmed && !self.is_held).then(|| HandshakeFrames::of(connection));
        connection.handle_timeout(clock::instant(now));
        self.take_reports();
        self.log_state();
    }

    /// When [`Endpoint::on_timer`] is due next, at least 1 us ahead.
    pub fn next_timer(&self) -> Option<Time> {
        let (_, connection) = self.connection.as_ref()?;
        let at = clock::time(connection.poll_timeout()?);
        Some(at.max(self.now + Time::from_micros(1)))
    }

    /// Writes the next datagram to send into `datagram`, and returns its ECN field. Call until it returns `None`.
    pub fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        self.set_now(now);
        datagram.clear();
        if let Some(response) = self.responses.pop_front() {
            *datagram = response;
            self.log_datagram(true, datagram);
            return Some(Ecn::NotEct);
        }
        let (_, connection) = self.connection.as_mut()?;
        let before = self.control.as_ref().map(|control| control.lock().begin_poll());
        let Some(transmit) = connection.poll_transmit(clock::instant(now), NonZeroUsize::MIN, datagram) else {
            self.end_turn();
            return None;
        };
        if let (Some(control), Some(since)) = (&self.control, before)
            && datagram.first().is_some_and(|first| first & LONG_HEADER != 0)
        {
            control.lock().set_kinds(since, qlog::kinds(datagram));
        }
        self.log_datagram(true, datagram);
        Some(if self.config.ecn { Ecn::from_stack(transmit.ecn) } else { Ecn::NotEct })
    }

    /// The next event, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Opens a stream of two directions; `None` while the peer allows no more, or before the handshake without early data.
    pub fn open_stream(&mut self) -> Option<StreamId> {
        let (_, connection) = self.connection.as_mut()?;
        connection.streams().open(Dir::Bi).map(StreamId)
    }

    /// Writes bytes to a stream; those beyond the peer's credit wait here.
    pub fn write(&mut self, stream: StreamId, bytes: u64) {
        if let Some(control) = &self.control {
            control.lock().on_write();
        }
        if let Some((_, connection)) = &mut self.connection {
            self.streams.write(connection, stream, bytes);
        }
    }

    /// Ends a stream after what has been written to it.
    pub fn finish(&mut self, stream: StreamId) {
        if let Some((_, connection)) = &mut self.connection {
            self.streams.finish(connection, stream);
        }
    }

    /// Abandons a stream: what has not arrived is not sent again, and the peer sees [`Event::Reset`].
    pub fn reset(&mut self, stream: StreamId) {
        self.streams.abandon(stream);
        if let Some((_, connection)) = &mut self.connection {
            // An error says that it has ended before.
            let _ = connection.send_stream(stream.0).reset(VarInt::from_u32(0));
        }
    }

    /// Closes the connection with a code of the application; a last datagram says so to the peer.
    pub fn close(&mut self, now: Time, code: u32) {
        self.set_now(now);
        if let Some((_, connection)) = &mut self.connection {
            connection.close(clock::instant(now), VarInt::from_u32(code), Bytes::new());
        }
        self.closed.get_or_insert(Closed::Here);
        self.take_reports();
    }

    /// Bytes of a stream that have arrived in order.
    pub fn received(&self, stream: StreamId) -> u64 {
        self.streams.received(stream)
    }

    /// Bytes written to a stream that wait for the peer's credit or for the send window.
    pub fn waiting(&self, stream: StreamId) -> u64 {
        self.streams.waiting(stream)
    }

    /// Takes back the bytes of a stream that wait.
    pub fn withdraw(&mut self, stream: StreamId) {
        self.streams.withdraw(stream);
    }

    /// Takes the latest round trip measured since the last call; none with the stack's own controls.
    pub fn take_rtt(&mut self) -> Option<Time> {
        self.control.as_ref().and_then(|control| control.lock().latest_rtt.take())
    }

    /// Whether the handshake is complete.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Why the connection has ended, if it has.
    pub fn closed(&self) -> Option<&Closed> {
        self.closed.as_ref()
    }

    /// The ticket with which a later connection to this peer may send early data; with [`Keys::Null`] only.
    pub fn ticket(&self) -> Option<Ticket> {
        let (_, connection) = self.connection.as_ref()?;
        connection.crypto_session().handshake_data()?.downcast().ok().map(|ticket| *ticket)
    }

    /// Writes the algorithm's watched values into `values`, as [`Socket::watch`] does; none of the stack's own controls.
    pub fn watch(&mut self, values: &mut Vec<u64>) {
        values.clear();
        if let Some(control) = &self.control {
            control.lock().sk.watch(values);
        }
    }

    /// The times until `now` during which something limited what this end sends; all zero with the stack's own controls.
    pub fn limits(&self, now: Time) -> Limits {
        self.chronograph.limits(now)
    }

    /// The state now.
    pub fn info(&mut self) -> Info {
        let stats = self.connection.as_mut().and_then(|(_, connection)| connection.path_stats(PathId::ZERO));
        let stats = stats.unwrap_or_default();
        let common = Info {
            cwnd: (stats.cwnd / u64::from(self.config.datagram_bytes)) as u32,
            ssthresh: None,
            srtt: clock::span(stats.rtt),
            rtt_min: None,
            inflight: None,
            delivered: None,
            lost: stats.lost_packets,
            app_limited: None,
            pacing_rate_bps: None,
            ca_state: None,
            sent_datagrams: stats.udp_tx.datagrams,
            received_datagrams: stats.udp_rx.datagrams,
            spurious_losses: stats.spurious_congestion_events,
            probe_timeouts: self.probe_timeouts(stats.frame_tx.immediate_ack),
            counters: Counters::default(),
            limit: None,
        };
        match &self.control {
            None => common,
            Some(control) => self.info_of(&control.lock(), &common),
        }
    }

    /// The log so far as a qlog file (JSON-SEQ), with which it ends; `None` without [`Config::qlog`].
    pub fn take_qlog(&mut self) -> Option<Vec<u8>> {
        self.log_state();
        self.qlog.take().map(|log| log.into_file())
    }

    /// Bytes of memory that this end holds for the algorithm's view of its packets.
    pub fn ledger_bytes(&self) -> usize {
        self.control.as_ref().map_or(0, |control| control.lock().memory())
    }

    /// Probe timeouts. After the handshake only probes ask a peer of this crate for an acknowledgement at once, two for each timeout
    /// (RFC 9002, section 6.2.4); other peers may not understand the question.
    fn probe_timeouts(&self, asked: u64) -> Option<u64> {
        let can_tell = self.control.is_some() && matches!(self.config.keys, Keys::Null);
        can_tell.then(|| self.handshake_probes + asked.div_ceil(PROBES))
    }

    fn info_of(&self, sender: &Sender, common: &Info) -> Info {
        let sk = &sender.sk;
        Info {
            cwnd: sk.snd_cwnd,
            ssthresh: (sk.snd_ssthresh < perigee_cc::INFINITE_SSTHRESH).then_some(sk.snd_ssthresh),
            srtt: Time::from_micros(u64::from(sk.srtt_us >> 3)),
            rtt_min: (sk.rtt_min_us != u32::MAX).then(|| Time::from_micros(u64::from(sk.rtt_min_us))),
            inflight: Some(sk.packets_out),
            delivered: Some(u64::from(sk.delivered)),
            lost: u64::from(sk.lost),
            app_limited: Some(sk.app_limited != 0),
            pacing_rate_bps: sender.pacing_rate().map(|rate| rate.saturating_mul(8)),
            ca_state: Some(sender.state()),
            counters: sender.counters,
            limit: Some(self.chronograph.limit()),
            ..common.clone()
        }
    }

    fn log_datagram(&mut self, is_sent: bool, datagram: &[u8]) {
        if let Some(log) = &mut self.qlog {
            log.datagram(self.now, is_sent, datagram, &self.config);
        }
    }

    /// Logs what the event that has just been processed has changed.
    fn log_state(&mut self) {
        let Some(mut log) = self.qlog.take() else { return };
        let lost = self.control.as_ref().and_then(|control| control.lock().lost_numbers.as_mut().map(std::mem::take));
        if let Some(Ticket(theirs)) = self.ticket() {
            log.peer(self.now, &theirs);
        }
        log.lost(self.now, &lost.unwrap_or_default());
        let info = self.info();
        log.state(self.now, &info, self.closed.as_ref());
        self.qlog = Some(log);
    }

    fn factory(&self) -> Option<Factory> {
        self.control.clone().map(|control| Arc::new(Made(control)) as Factory)
    }

    fn set_now(&mut self, now: Time) {
        self.now = now;
        self.calendar.set(now);
    }

    fn accept(&mut self, incoming: Incoming) {
        if self.connection.is_some() {
            return self.stack.ignore(incoming);
        }
        let mut answer = Vec::new();
        let asks = self.config.address_validation == AddressValidation::Retry && !incoming.remote_address_validated();
        if asks && incoming.may_retry() {
            if self.stack.retry(incoming, &mut answer).is_ok() {
                self.responses.push_back(answer);
            }
            return;
        }
        match self.stack.accept(incoming, clock::instant(self.now), &mut answer, None) {
            Ok(connection) => {
                self.chronograph.open(self.now);
                self.connection = Some(connection);
            }
            Err(error) => {
                if error.response.is_some() {
                    self.responses.push_back(answer);
                }
                self.end(Closed::from_stack(&error.cause));
            }
        }
    }

    /// Takes what the connection reports to its endpoint and to the application.
    fn take_reports(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.stack.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        while let Some((_, connection)) = &mut self.connection
            && let Some(event) = connection.poll()
        {
            self.take_report(event);
        }
    }

    fn take_report(&mut self, event: noq_proto::Event) {
        let Some((_, connection)) = &mut self.connection else { return };
        let events = &mut self.events;
        match event {
            noq_proto::Event::Connected => {
                self.is_connected = true;
                if self.sends_early && !connection.accepted_0rtt() {
                    self.streams.forget();
                    events.push_back(Event::EarlyDataRefused);
                }
                events.push_back(Event::Connected);
            }
            noq_proto::Event::HandshakeConfirmed => self.is_confirmed = true,
            noq_proto::Event::ConnectionLost { reason } => self.end(Closed::from_stack(&reason)),
            noq_proto::Event::Stream(event) => match event {
                StreamEvent::Opened { dir } => self.streams.accept(connection, dir, |event| events.push_back(event)),
                StreamEvent::Readable { id } => {
                    self.streams.read(connection, StreamId(id), |event| events.push_back(event));
                }
                StreamEvent::Writable { id } => self.streams.offer(connection, StreamId(id)),
                StreamEvent::Finished { id } => events.push_back(Event::Acknowledged(StreamId(id))),
                StreamEvent::Stopped { id, .. } => {
                    self.streams.abandon(StreamId(id));
                    events.push_back(Event::Reset(StreamId(id)));
                }
                StreamEvent::Available { .. } => events.push_back(Event::MoreStreams),
            },
            _ => {}
        }
    }

    fn end(&mut self, closed: Closed) {
        if self.closed.is_none() {
            self.closed = Some(closed.clone());
            self.events.push_back(Event::Closed(closed));
        }
    }

    /// Nothing more leaves now: records why.
    fn end_turn(&mut self) {
        if let (Some(before), Some((_, connection))) = (self.at_timer.take(), &mut self.connection) {
            self.handshake_probes += u64::from(HandshakeFrames::of(connection).are_probes_since(&before));
        }
        self.take_reports();
        let Some(control) = &self.control else { return };
        let mut sender = control.lock();
        let (is_held, is_waiting) = (sender.is_held_by_pacer(), self.streams.are_waiting());
        let window_full = sender.end_turn(self.now, !is_held && !is_waiting);
        self.is_held = is_held;
        let limit = match () {
            () if !self.is_connected => Limit::Handshake,
            () if window_full => Limit::Window,
            () if is_held => Limit::Pacing,
            () if is_waiting => Limit::FlowControl,
            () if sender.sk.packets_out == 0 => Limit::Idle,
            () => Limit::Application,
        };
        self.chronograph.note(limit, self.now);
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("config", &self.config).field("closed", &self.closed).finish_non_exhaustive()
    }
}

/// Counts by which a probe of the handshake shows.
struct HandshakeFrames {
    messages: u64,
    lost: u64,
}

impl HandshakeFrames {
    fn of(connection: &mut Connection) -> Self {
        let stats = connection.path_stats(PathId::ZERO).unwrap_or_default();
        Self { messages: stats.frame_tx.crypto + stats.frame_tx.ping, lost: stats.lost_packets }
    }

    /// Messages have left again, or a PING, since a timer fired that has found no loss.
    fn are_probes_since(&self, before: &Self) -> bool {
        self.messages > before.messages && self.lost == before.lost
    }
}

fn seed_of_stack(seed: u64) -> [u8; 32] {
    let (mut stream, mut bytes) = (Stream::new(seed, "quic"), [0; 32]);
    for word in bytes.chunks_exact_mut(size_of::<u64>()) {
        word.copy_from_slice(&stream.next_u64().to_be_bytes());
    }
    bytes
}

/// Bit of a packet with a long header (RFC 9000, section 17.2): datagrams with packets of the handshake, or before it, begin with one.
const LONG_HEADER: u8 = 0x80;
/// Packets that the stack sends after a probe timeout.
const PROBES: u64 = 2;
/// Addresses of the ends (RFC 5737): the host routes, so all connections may have the same.
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 49152);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 443);
