//! The connections of QUIC at this box: their UDP socket, timers and events.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use perigee_quic::stack::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, Event, FourTuple, Incoming,
    PathId, ServerConfig, Transmit, VarInt,
};
use rustix::net::sockopt;
use rustls::pki_types::CertificateDer;

use super::handshakes::Handshakes;
use super::identity::{Identity, Known, Peers};
use super::transport::{control_of, is_marked, number, transport, Questions, SendingTurn};
use crate::config::{Config, Tunnel, TunnelEnd};
use crate::error::ServiceError;
use crate::host::clock::instant;

/// The UDP socket of a box with its connections.
pub(crate) struct Link {
    socket: UdpSocket,
    state: UdpSocketState,
    endpoint: Endpoint,
    /// Settings and address by which a terminal connects.
    dials: Option<(ClientConfig, SocketAddr)>,
    connections: BTreeMap<ConnectionHandle, Connection>,
    /// The gateway's connections whose peer is not known yet.
    handshakes: Handshakes,
    /// Boxes that have shown a known certificate.
    boxes: BTreeMap<ConnectionHandle, KnownBox>,
    peers: Arc<Peers>,
    /// Connections that have ended; their boxes are known until the events of the end are handled.
    drained: Vec<ConnectionHandle>,
    /// When silent boxes are asked next.
    asks: Instant,
    questions: Questions,
    /// Whether datagrams may be marked by routers.
    is_marked: bool,
    /// Maximum concurrent streams of a terminal.
    streams: VarInt,
    /// Handshakes that were given up since the last [`Link::given_up`].
    given_up: u64,
    /// The destination of a datagram of minimum size that exceeded the MTU of this host's own device.
    too_large: Option<SocketAddr>,
    /// A datagram that the full socket refused.
    unsent: Option<(Transmit, Vec<u8>)>,
    /// A reused buffer for datagrams to be sent.
    scratch: Vec<u8>,
    buffers: Vec<Vec<u8>>,
    accepts: bool,
}

/// A box whose certificate is known.
#[derive(Debug)]
struct KnownBox {
    certificate: CertificateDer<'static>,
    /// Datagrams that it had acknowledged, and frames that it had been sent to acknowledge, when the last one was.
    heard: u64,
    told: u64,
}

impl KnownBox {
    /// Whether it has acknowledged nothing since the last call although it was sent what it has to acknowledge. Other datagrams of its do
    /// not count: the path may be dark in one direction.
    fn is_silent(&mut self, connection: &mut Connection) -> bool {
        let sent = connection.stats().frame_tx;
        let heard = control_of(connection).map_or(0, |control| control.acknowledged());
        // Data, and the two frames by which QUIC asks itself.
        let told = sent.stream + sent.ping + sent.immediate_ack;
        if heard != self.heard {
            (self.heard, self.told) = (heard, told);
        }
        told > self.told
    }
}

impl Link {
    /// Opens the socket in the network namespace of the calling thread.
    pub(crate) fn open(config: &Config, tunnel: &Tunnel) -> Result<Self, ServiceError> {
        let identity = Identity::read(tunnel)?;
        let system = |error: io::Error| ServiceError::system("tunnel")(error);
        let wrong = |error: rustls::Error| system(io::Error::other(error));
        let questions = Questions::default();
        let settings = Arc::new(transport(tunnel, config.limits.held.as_u64(), &questions));
        let (local, server, dials) = match tunnel.end {
            TunnelEnd::Gateway(address) => {
                let mut server = ServerConfig::with_crypto(Arc::new(identity.server().map_err(wrong)?));
                server.transport_config(settings);
                (address, Some(Arc::new(server)), None)
            }
            TunnelEnd::Terminal(gateway) => {
                let mut client = ClientConfig::new(Arc::new(identity.client().map_err(wrong)?));
                client.transport_config(settings);
                let any = if gateway.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                (any.parse().map_err(|error| system(io::Error::other(error)))?, None, Some((client, gateway)))
            }
        };
        let socket = UdpSocket::bind(local).map_err(ServiceError::system(&format!("tunnel: listening at {local}")))?;
        // Without the privilege for more, the kernel's own limit applies.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER);
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER);
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).map_err(system)?;
        let own = Arc::new(identity.endpoint());
        let size = own.get_max_udp_payload_size() as usize * state.gro_segments().get();
        let endpoint = Endpoint::new(own, server, !state.may_fragment());
        let buffers = vec![vec![0; size]; RECEIVED_AT_ONCE];
        Ok(Self {
            socket,
            state,
            endpoint,
            dials,
            connections: BTreeMap::new(),
            handshakes: Handshakes::default(),
            boxes: BTreeMap::new(),
            peers: identity.peers(),
            drained: Vec::new(),
            asks: instant(),
            questions,
            is_marked: is_marked(tunnel.control),
            streams: number(config.limits.connections as u64),
            given_up: 0,
            too_large: None,
            unsent: None,
            scratch: Vec::new(),
            buffers,
            accepts: true,
        })
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    pub(crate) fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        self.connections.get_mut(&handle)
    }

    /// Address and round trip of another box.
    pub(crate) fn path(&self, handle: ConnectionHandle) -> Option<(SocketAddr, Duration)> {
        let connection = self.connections.get(&handle)?;
        Some((connection.network_path(PathId::ZERO).ok()?.remote(), connection.rtt(PathId::ZERO)?))
    }

    /// Whether a box has shown a certificate that is known.
    pub(crate) fn is_known(&self, handle: ConnectionHandle) -> bool {
        self.boxes.contains_key(&handle)
    }

    /// Whether a client may be behind a terminal.
    pub(crate) fn has_client(&self, handle: ConnectionHandle, client: IpAddr) -> bool {
        self.boxes.get(&handle).is_some_and(|terminal| self.peers.has_client(&terminal.certificate, client))
    }

    /// Replaces the known certificates, and closes the connections to boxes that are no longer known.
    pub(crate) fn replace_known(&mut self, known: Known) -> Vec<ConnectionHandle> {
        self.peers.replace(known);
        let is_gone = |one: &KnownBox| !self.peers.know(&one.certificate);
        let gone: Vec<_> = self.boxes.iter().filter(|(_, one)| is_gone(one)).map(|(handle, _)| *handle).collect();
        self.boxes.retain(|handle, _| !gone.contains(handle));
        for handle in &gone {
            if let Some(connection) = self.connections.get_mut(handle) {
                connection.close(instant(), VarInt::from_u32(0), Bytes::from_static(UNKNOWN));
            }
        }
        gone
    }

    /// Connections with boxes that are not known, those that are being closed among them.
    pub(crate) fn strangers(&self) -> usize {
        self.connections.len().saturating_sub(self.boxes.len())
    }

    /// Connects to the gateway.
    pub(crate) fn dial(&mut self) -> io::Result<Option<ConnectionHandle>> {
        let Some((config, gateway)) = &self.dials else { return Ok(None) };
        let done = self.endpoint.connect(instant(), config.clone(), *gateway, NAME);
        let (handle, connection) = done.map_err(io::Error::other)?;
        self.connections.insert(handle, connection);
        Ok(Some(handle))
    }

    /// Accepts no new connections of terminals.
    pub(crate) fn accept_no_more(&mut self) {
        self.accepts = false;
    }

    /// Closes the connections to the other boxes.
    pub(crate) fn close(&mut self) {
        for connection in self.connections.values_mut() {
            connection.close(instant(), VarInt::from_u32(0), Bytes::from_static(b"stopped"));
        }
    }

    /// When [`Link::drive`] has to be called at the latest.
    pub(crate) fn next(&self) -> Option<Instant> {
        let timers = self.connections.values().filter_map(Connection::poll_timeout);
        let asks = (!self.boxes.is_empty()).then_some(self.asks);
        timers.chain(self.handshakes.next()).chain(asks).min()
    }

    /// Reads arrived datagrams; true if more may wait. An error is one of the network, and its datagram is retransmitted.
    pub(crate) fn receive(&mut self) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); RECEIVED_AT_ONCE];
        let mut slices: Vec<_> = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let count = match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        // Handling a datagram borrows `self`.
        let buffers = std::mem::take(&mut self.buffers);
        for (buffer, meta) in buffers.iter().zip(&metas).take(count) {
            // Each in memory of its own: what a stream leaves unread would otherwise hold the whole train, most of which is of others.
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                self.on_datagram(meta, datagram.into());
            }
        }
        self.buffers = buffers;
        Ok(true)
    }

    fn on_datagram(&mut self, meta: &RecvMeta, datagram: BytesMut) {
        let (now, mut answer) = (instant(), Vec::new());
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        // QUIC answers from where datagrams arrive, which only a gateway may want: the address of a terminal may change.
        let way = FourTuple::new(meta.addr, meta.dst_ip.filter(|_| self.dials.is_none()));
        match self.endpoint.handle(now, way, ecn, datagram, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                if let Some(transmit) = self.accept(incoming, now, &mut answer) {
                    self.send(transmit, answer);
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.send(transmit, answer),
            None => {}
        }
    }

    /// Starts a handshake, or returns the datagram to send instead.
    fn accept(&mut self, incoming: Incoming, now: Instant, answer: &mut Vec<u8>) -> Option<Transmit> {
        if !self.accepts {
            return Some(self.endpoint.refuse(incoming, answer));
        }
        if self.handshakes.ask_for_proof() && !incoming.remote_address_validated() {
            return self.endpoint.retry(incoming, answer).ok();
        }
        let address = incoming.remote_address().ip();
        match self.endpoint.accept(incoming, now, answer, None) {
            Ok((handle, connection)) => {
                self.connections.insert(handle, connection);
                if let Some(oldest) = self.handshakes.begin(handle, address, now) {
                    self.give_up(oldest, now);
                }
                None
            }
            Err(error) => error.response,
        }
    }

    /// Ends a handshake that has no more time, or gives way to another. Nothing is kept of it: the state that QUIC has for late
    /// packets of a closed connection would be a place beyond those of [`Handshakes`].
    fn give_up(&mut self, handle: ConnectionHandle, now: Instant) {
        let Some(mut connection) = self.connections.remove(&handle) else { return };
        self.given_up += 1;
        connection.close(now, VarInt::from_u32(0), Bytes::from_static(b"the handshake was not completed in time"));
        let mut contents = Vec::new();
        if let Some(transmit) = connection.poll_transmit(now, NonZeroUsize::MIN, &mut contents) {
            self.send(transmit, contents);
        }
        connection.handle_timeout(now + DRAINED);
        while let Some(event) = connection.poll_endpoint_events() {
            // The endpoint's answer is for a connection that goes on.
            let _ = self.endpoint.handle_event(handle, event);
        }
    }

    /// Number of handshakes that were given up since the last call.
    pub(crate) fn given_up(&mut self) -> u64 {
        std::mem::take(&mut self.given_up)
    }

    /// A destination, since the last call, of datagrams that exceed the MTU of the device, which is below QUIC's minimum.
    pub(crate) fn too_large(&mut self) -> Option<SocketAddr> {
        self.too_large.take()
    }

    /// Registers a box that has shown its certificate: the gateway allows it streams, unless it has the maximum number of terminals.
    fn on_connected(&mut self, handle: ConnectionHandle, connection: &mut Connection, now: Instant) {
        self.handshakes.end(handle);
        let identity = connection.crypto_session().peer_identity();
        let identity = identity.and_then(|one| one.downcast::<Vec<CertificateDer<'static>>>().ok());
        let certificate = identity.and_then(|chain| chain.into_iter().next());
        // It was known when the handshake began.
        let Some(certificate) = certificate.filter(|one| self.peers.know(one)) else {
            connection.close(now, VarInt::from_u32(0), Bytes::from_static(UNKNOWN));
            return;
        };
        if self.dials.is_none() {
            if self.boxes.len() >= MOST_TERMINALS {
                connection.close(now, VarInt::from_u32(0), Bytes::from_static(b"the gateway has too many terminals"));
                return;
            }
            connection.set_max_concurrent_streams(Dir::Bi, self.streams);
        }
        self.boxes.insert(handle, KnownBox { certificate, heard: 0, told: 0 });
    }

    /// Asks each second the boxes that have acknowledged nothing: QUIC asks in pauses that double, and after an outage of a minute would
    /// learn half a minute late that the path is back. A full window does not stop the question.
    fn ask(&mut self, now: Instant) {
        if now < self.asks {
            return;
        }
        self.asks = now + ASK;
        let known = self.boxes.iter_mut().map(|(handle, known)| (*handle, known));
        let is_silent = |(handle, known): (ConnectionHandle, &mut KnownBox)| {
            known.is_silent(self.connections.get_mut(&handle)?).then_some(handle)
        };
        let silent: Vec<_> = known.filter_map(is_silent).collect();
        for handle in silent {
            let Some(connection) = self.connections.get_mut(&handle) else { continue };
            connection.ping();
            if self.unsent.is_none() {
                let mut contents = std::mem::take(&mut self.scratch);
                contents.clear();
                match self.questions.ask(|| connection.poll_transmit(now, NonZeroUsize::MIN, &mut contents)) {
                    Some(transmit) => self.send(transmit, contents),
                    None => self.scratch = contents,
                }
            }
        }
    }

    /// Sends due datagrams, and returns the events of connections.
    pub(crate) fn drive(&mut self) -> Vec<(ConnectionHandle, Event)> {
        let now = instant();
        let mut events = Vec::new();
        if let Some((transmit, contents)) = self.unsent.take() {
            self.send(transmit, contents);
        }
        while let Some(late) = self.handshakes.pop_late(now) {
            self.give_up(late, now);
        }
        for handle in std::mem::take(&mut self.drained) {
            self.boxes.remove(&handle);
        }
        self.ask(now);
        let handles: Vec<_> = self.connections.keys().copied().collect();
        for handle in handles {
            // Removed meanwhile, since sending borrows `self`.
            let Some(mut connection) = self.connections.remove(&handle) else { continue };
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            loop {
                self.transmit(&mut connection, now);
                let mut has_changed = false;
                while let Some(event) = connection.poll_endpoint_events() {
                    if let Some(event) = self.endpoint.handle_event(handle, event) {
                        connection.handle_event(event);
                        has_changed = true;
                    }
                }
                while let Some(event) = connection.poll() {
                    if matches!(event, Event::Connected) {
                        self.on_connected(handle, &mut connection, now);
                        has_changed = true;
                    }
                    events.push((handle, event));
                }
                if !has_changed {
                    break;
                }
            }
            if connection.is_drained() {
                self.handshakes.end(handle);
                self.drained.push(handle);
            } else {
                self.connections.insert(handle, connection);
            }
        }
        events
    }

    /// Sends what a connection has to send, until it has no more or the socket is full.
    fn transmit(&mut self, connection: &mut Connection, now: Instant) {
        let turn = SendingTurn::begin(connection);
        while self.unsent.is_none() {
            let mut contents = std::mem::take(&mut self.scratch);
            contents.clear();
            let most = segments(connection.current_mtu(), self.state.max_gso_segments().get());
            let Some(transmit) = connection.poll_transmit(now, most, &mut contents) else {
                self.scratch = contents;
                turn.end(now);
                return;
            };
            self.send(transmit, contents);
        }
    }

    /// Sends one or several datagrams of one size; keeps them if the socket is full.
    fn send(&mut self, transmit: Transmit, contents: Vec<u8>) {
        let sent = self.state.try_send(
            UdpSockRef::from(&self.socket),
            &noq_udp::Transmit {
                destination: transmit.destination,
                ecn: transmit
                    .ecn
                    .filter(|_| self.is_marked)
                    .and_then(|ecn| noq_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: &contents[..transmit.size],
                segment_size: transmit.segment_size,
                src_ip: transmit.src_ip,
            },
        );
        if let Err(error) = sent {
            if error.kind() == io::ErrorKind::WouldBlock {
                self.unsent = Some((transmit, contents));
                return;
            }
            // Larger ones probe the path's MTU, and that of several is not the device's. Any other error is a lost datagram, which QUIC
            // retransmits.
            if error.raw_os_error() == Some(libc::EMSGSIZE) && transmit.size <= LEAST_DATAGRAM {
                self.too_large = Some(transmit.destination);
            }
        }
        self.scratch = contents;
    }
}

/// Datagrams of this size that the kernel takes at once: together they are no longer than one of UDP may be.
fn segments(size: u16, most: usize) -> NonZeroUsize {
    let fitting = LONGEST_DATAGRAM / usize::from(size).max(LEAST_DATAGRAM);
    NonZeroUsize::new(fitting.min(most)).unwrap_or(NonZeroUsize::MIN)
}

/// The gateway's name in TLS; only its certificate identifies it.
const NAME: &str = "gateway";
/// Maximum terminals of a gateway.
const MOST_TERMINALS: usize = 1_000;
/// Datagram size that each path has to carry, bytes (RFC 9000, section 14).
const LEAST_DATAGRAM: usize = 1_200;
/// Most bytes of a UDP datagram over IPv4.
const LONGEST_DATAGRAM: usize = 65_507;
/// Bytes of the UDP socket's buffers: a burst of a satellite link's window.
const SOCKET_BUFFER: usize = 4 << 20;
/// Datagrams, or trains of them, that are read at a time.
const RECEIVED_AT_ONCE: usize = 8;
/// Time between questions to a silent box.
const ASK: Duration = Duration::from_secs(1);
/// Longer than QUIC keeps the state of a closed connection.
const DRAINED: Duration = Duration::from_secs(3600);
/// Why a connection to a box is closed whose certificate is not known.
const UNKNOWN: &[u8] = b"the certificate is not known";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_as_many_segments_as_are_sent_at_once() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
        let most = state.max_gso_segments().get();
        let send = |size: u16, count: usize| {
            let contents = &vec![0; usize::from(size) * count];
            let (destination, segment_size) = (socket.local_addr().unwrap(), Some(usize::from(size)));
            let transmit = noq_udp::Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
            state.try_send(UdpSockRef::from(&socket), &transmit)
        };
        for size in [1_200, 1_452, 9_000] {
            let count = segments(size, most).get();
            send(size, count).unwrap();
            if count < most {
                assert_eq!(send(size, count + 1).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE), "{size}");
            }
        }
    }
}
