//! The UDP sockets of a flow over QUIC: one at the server, and one for each connection at the client.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::OwnedFd;

use noq_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use perigee_quic::Ecn;
use perigee_sim::quic::Place;
use perigee_study::{FlowSpec, Opener};
use perigee_traffic::End;
use perigee_units::Time;
use perigee_wire::Ports;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size_force, set_socket_reuseaddr, set_socket_send_buffer_size_force,
};
use rustix::net::{socket_with, SocketFlags, SocketType};

use crate::os::clock::{timespec, RunClock};
use crate::os::udp::date_arrivals;
use crate::run::sockets::{bind_to, family};

/// The addresses of a flow's ends.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    flow: u32,
    /// The end of connections that opens them.
    opener: End,
    /// The address of the client's first connection.
    client: SocketAddr,
    pub(crate) server: SocketAddr,
}

pub(crate) struct Sockets {
    places: Places,
    server: Udp,
    clients: Vec<Udp>,
    epoll: OwnedFd,
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; AT_ONCE],
}

/// Datagrams that have arrived, in order of their arrival.
#[derive(Default)]
pub(crate) struct Arrived {
    bytes: Vec<u8>,
    each: Vec<Arrival>,
}

/// A datagram that has arrived.
pub(crate) struct Arrival {
    /// When the kernel had it, in the run's time: long before it is read where this thread comes late.
    pub(crate) at: Time,
    pub(crate) place: Place,
    pub(crate) ecn: Ecn,
    range: Range<usize>,
}

impl Arrived {
    /// Each with its bytes.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Arrival, &[u8])> {
        self.each.iter().map(|arrival| (arrival, &self.bytes[arrival.range.clone()]))
    }
}

struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Places {
    /// The places of the flow of this number.
    pub(crate) fn of(flow: u32, spec: &FlowSpec) -> Self {
        let (from, to) = spec.ports(flow);
        let (from, to) = (SocketAddr::new(spec.address(spec.from), from), SocketAddr::new(spec.address(spec.to), to));
        let is_from = spec.traffic.quic().is_some_and(|quic| quic.opened_by == Opener::Sender);
        let (opener, client, server) = if is_from { (End::From, from, to) } else { (End::To, to, from) };
        Self { flow, opener, client, server }
    }

    /// The end that accepts connections.
    fn acceptor(self) -> End {
        if self.opener == End::From {
            End::To
        } else {
            End::From
        }
    }

    /// The address of the client of this connection.
    fn client_of(self, connection: u32) -> SocketAddr {
        SocketAddr::new(self.client.ip(), Ports::of(self.flow + connection * Ports::DISTINCT).client)
    }

    /// A socket for the client of this connection, in the calling thread's namespace. Clients of several flows may have one address:
    /// each is connected to its server, and hears that one alone.
    pub(crate) fn open(self, connection: u64) -> io::Result<UdpSocket> {
        if connection >= Ports::DISTINCT.into() {
            return Err(io::Error::other("there are no more ports; let the flow open fewer connections"));
        }
        let socket = open(self.client_of(connection as u32), true)?;
        socket.connect(self.server)?;
        Ok(socket)
    }
}

impl Sockets {
    /// Sockets of a flow: of its first client, and of its server.
    pub(crate) fn new(places: Places, [client, server]: [UdpSocket; 2]) -> io::Result<Self> {
        let (first, server) = (Udp::new(client)?, Udp::new(server)?);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &server.socket, EventData::new_u64(SERVER), EventFlags::IN)?;
        epoll::add(&epoll, &first.socket, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Self {
            places,
            server,
            clients: vec![first],
            epoll,
            buffers: vec![vec![0; LARGEST]; AT_ONCE],
            metas: [RecvMeta::default(); AT_ONCE],
        })
    }

    /// Whether the connection of this number has a socket.
    pub(crate) fn has_client(&self, number: u32) -> bool {
        (number as usize) < self.clients.len()
    }

    /// Adds the socket of the next connection's client.
    pub(crate) fn add_client(&mut self, socket: UdpSocket) -> io::Result<()> {
        let client = Udp::new(socket)?;
        let number = EventData::new_u64(self.clients.len() as u64);
        epoll::add(&self.epoll, &client.socket, number, EventFlags::IN)?;
        self.clients.push(client);
        Ok(())
    }

    /// Sends a datagram of an end.
    pub(crate) fn send(&self, from: Place, datagram: &[u8], ecn: Ecn) -> io::Result<()> {
        let (udp, destination) = if from.end == self.places.opener {
            // Without a socket there is trouble already.
            let Some(client) = self.clients.get(from.leg as usize) else { return Ok(()) };
            (client, self.places.server)
        } else {
            (&self.server, self.places.client_of(from.leg))
        };
        let ecn = in_ip(ecn);
        let transmit = Transmit { destination, ecn, contents: datagram, segment_size: None, src_ip: None };
        loop {
            match udp.state.try_send(UdpSockRef::from(&udp.socket), &transmit) {
                // The device's queue is full, and the driver empties it.
                Err(error) if is_full(&error) => {
                    poll(&mut [PollFd::new(&udp.socket, PollFlags::OUT)], Some(&timespec(PATIENCE)))?;
                }
                // There is no way to the other end at the moment: a lost datagram.
                Err(error) if is_lost(&error) => return Ok(()),
                done => return done,
            }
        }
    }

    /// Waits for datagrams, for at most `longest`.
    pub(crate) fn wait(&self, longest: Time) -> io::Result<()> {
        // epoll_wait(2) counts in milliseconds.
        match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timespec(longest))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads all that has arrived, in place of what `into` had.
    pub(crate) fn read(&mut self, clock: RunClock, into: &mut Arrived) -> io::Result<()> {
        into.bytes.clear();
        into.each.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Ready sockets take turns, so that this visits each; one that is ready again is read the next time.
        let mut turns = self.clients.len() / EVENTS + 1;
        while turns > 0 {
            let mut events = [const { MaybeUninit::uninit() }; EVENTS];
            let (ready, _) = match epoll::wait(&self.epoll, &mut events, Some(&at_once)) {
                Err(Errno::INTR) => continue,
                done => done?,
            };
            for event in &*ready {
                while self.read_some(event.data.u64(), clock, into)? {}
            }
            turns = if ready.len() < EVENTS { 0 } else { turns - 1 };
        }
        into.each.sort_by_key(|arrival| arrival.at);
        Ok(())
    }

    /// Reads some of a socket's datagrams; false if there are no more. Those of no connection of the flow are passed over.
    fn read_some(&mut self, socket: u64, clock: RunClock, into: &mut Arrived) -> io::Result<bool> {
        let udp = if socket == SERVER { &self.server } else { &self.clients[socket as usize] };
        let mut slices = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect::<Vec<_>>();
        let count = match udp.state.recv(UdpSockRef::from(&udp.socket), &mut slices, &mut self.metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted || is_lost(&error) => 0,
            Err(error) => return Err(error),
        };
        for (meta, buffer) in self.metas.iter().zip(&self.buffers).take(count) {
            let Some(place) = self.place_of(socket, meta.addr.port()) else { continue };
            let at = meta.timestamp.map_or_else(|| clock.now(), |stamp| clock.at(stamp));
            let begin = into.bytes.len();
            into.bytes.extend_from_slice(&buffer[..meta.len]);
            into.each.push(Arrival { at, place, ecn: of_ip(meta.ecn), range: begin..into.bytes.len() });
        }
        Ok(true)
    }

    /// Where a datagram from this port has arrived.
    fn place_of(&self, socket: u64, port: u16) -> Option<Place> {
        if socket != SERVER {
            return Some(Place { leg: socket as u32, end: self.places.opener });
        }
        let leg = Ports::flow([self.places.server.port(), port])? / Ports::DISTINCT;
        ((leg as usize) < self.clients.len()).then_some(Place { leg, end: self.places.acceptor() })
    }
}

/// A socket of the calling thread's namespace, bound to an address, which others may have where it is `shared`.
pub(crate) fn open(address: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
    let socket = socket_with(family(address.ip()), SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, shared)?;
    bind_to(&socket, address)?;
    // Without the privilege for more, the kernel's own limit applies.
    let _ = set_socket_recv_buffer_size_force(&socket, BUFFER);
    let _ = set_socket_send_buffer_size_force(&socket, BUFFER);
    Ok(socket.into())
}

impl Udp {
    fn new(socket: UdpSocket) -> io::Result<Self> {
        // It reads the ECN field, forbids fragments, and does not block.
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        date_arrivals(&socket)?;
        Ok(Self { socket, state })
    }
}

fn is_full(error: &io::Error) -> bool {
    let kind = Errno::from_io_error(error);
    error.kind() == io::ErrorKind::WouldBlock || matches!(kind, Some(Errno::NOBUFS | Errno::INTR))
}

fn is_lost(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::MSGSIZE)
    )
}

fn in_ip(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

fn of_ip(field: Option<EcnCodepoint>) -> Ecn {
    match field {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

/// The server's socket among those that are ready.
const SERVER: u64 = u64::MAX;
/// Datagrams read at a time.
const AT_ONCE: usize = 8;
/// Sockets that are ready, looked at at a time.
const EVENTS: usize = 64;
/// Room for the largest datagram, bytes.
const LARGEST: usize = 1 << 16;
/// Bytes of a socket's buffers: more than a window of the fastest long path, so that only links drop datagrams.
const BUFFER: usize = 64 << 20;
/// How long a full device is waited for at a time.
const PATIENCE: Time = Time::from_millis(1);
