//! The UDP sockets of a flow over QUIC: one at the server, and one for each connection at the client.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::OwnedFd;

use noq_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use perigee_quic::Ecn;
use perigee_sim::quic::Place;
use perigee_traffic::End;
use perigee_units::Time;
use perigee_wire::Ports;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use rustix::net::{socket_with, SocketFlags, SocketType};

use crate::os::clock::{timespec, RunClock};
use crate::os::udp::date_arrivals;
use crate::run::sockets::{family, FlowEnd};

pub(crate) struct Sockets<'a> {
    flow: u32,
    /// The end of connections that opens them.
    client: End,
    /// The places of the client's first connection, and of the server.
    ends: [FlowEnd<'a>; 2],
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

impl<'a> Sockets<'a> {
    /// Sockets of a flow between the places of its client and its server; `client` is the end that opens.
    pub(crate) fn new(flow: u32, client: End, ends: [FlowEnd<'a>; 2]) -> io::Result<Self> {
        let [of_client, of_server] = ends;
        let server = of_server.node.enter(|| Udp::at(of_server))?;
        let first = of_client.node.enter(|| Udp::at(of_client))?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &server.socket, EventData::new_u64(SERVER), EventFlags::IN)?;
        epoll::add(&epoll, &first.socket, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Self {
            flow,
            client,
            ends,
            server,
            clients: vec![first],
            epoll,
            buffers: vec![vec![0; LARGEST]; AT_ONCE],
            metas: [RecvMeta::default(); AT_ONCE],
        })
    }

    /// Moves the calling thread to the clients' node, where it opens sockets.
    pub(crate) fn join_clients(&self) -> io::Result<()> {
        self.ends[0].node.join()
    }

    /// A socket for the connection of this number, if it has none.
    pub(crate) fn add_client(&mut self, number: u32) -> io::Result<()> {
        if number < self.clients.len() as u32 {
            return Ok(());
        }
        if number >= Ports::DISTINCT {
            return Err(io::Error::other("there are no more ports; let the flow open fewer connections"));
        }
        let client = Udp::at(FlowEnd { address: self.address_of(number), ..self.ends[0] })?;
        epoll::add(&self.epoll, &client.socket, EventData::new_u64(number.into()), EventFlags::IN)?;
        self.clients.push(client);
        Ok(())
    }

    /// Sends a datagram of an end.
    pub(crate) fn send(&self, from: Place, datagram: &[u8], ecn: Ecn) -> io::Result<()> {
        let (udp, destination) = if from.end == self.client {
            (&self.clients[from.leg as usize], self.ends[1].address)
        } else {
            (&self.server, self.address_of(from.leg))
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
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let (ready, _) = match epoll::wait(&self.epoll, &mut events, Some(&at_once)) {
            Err(Errno::INTR) => return Ok(()),
            done => done?,
        };
        for event in ready {
            while self.read_some(event.data.u64(), clock, into)? {}
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
            return Some(Place { leg: socket as u32, end: self.client });
        }
        let end = if self.client == End::From { End::To } else { End::From };
        let leg = Ports::flow([self.ends[1].address.port(), port])? / Ports::DISTINCT;
        ((leg as usize) < self.clients.len()).then_some(Place { leg, end })
    }

    /// The address of the client of this connection.
    fn address_of(&self, connection: u32) -> SocketAddr {
        let port = Ports::of(self.flow + connection * Ports::DISTINCT).client;
        SocketAddr::new(self.ends[0].address.ip(), port)
    }
}

impl Udp {
    /// A socket of the calling thread's namespace, bound to a place.
    fn at(place: FlowEnd<'_>) -> io::Result<Self> {
        let socket = socket_with(family(place.address.ip()), SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        place.bind(&socket)?;
        // Without the privilege for more, the kernel's own limit applies.
        let _ = set_socket_recv_buffer_size_force(&socket, BUFFER);
        let _ = set_socket_send_buffer_size_force(&socket, BUFFER);
        let socket = UdpSocket::from(socket);
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
