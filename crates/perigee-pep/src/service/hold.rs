//! Handshakes that wait for their server, so that the answer to a client's SYN is the server's.
//!
//! The rules route the SYN into a TUN device, where the service reads it and dials the server. Once that answers, the same SYN goes
//! back into the kernel through the device, and from there to the listening socket. A refusal is answered by a reset
//! (RFC 9293, section 3.10.7.1), an unreachable server by ICMP, and silence by silence. Device and route end with this process,
//! if no other one has the device: SYNs then bypass the service.
//!
//! Packets to the device pass the host's `forward` chain. With `transparent.through_forward` all SYNs take this way; those that
//! need not wait are returned at once.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use perigee_units::Time;
use perigee_wire::{unreachable, Packet, Tcp, Transport};
use rustix::event::epoll::EventFlags;
use rustix::net::{ipproto, sendto, socket_with, sockopt, AddressFamily, SendFlags, SocketFlags, SocketType};

use super::worker::Configuration;
use crate::config::{AtLimit, Config, Request, Rule};
use crate::error::ServiceError;
use crate::event_loop::{EventLoop, Handler, Key, Orders, Readiness, Task, Thread, Turn};
use crate::host::sys;
use crate::host::tools::{execute, DEVICE};
use crate::legs::socket::{dial, is_exhausted};
use crate::service::own::OwnAddresses;
use crate::shared::account::{in_words, Legs, Outcome};
use crate::shared::counts::End;
use crate::shared::handover::{Dialled, Left};
use crate::shared::permit::Reservation;
use crate::shared::Shared;

/// The thread that holds handshakes; it takes new configurations.
#[derive(Debug)]
pub(crate) struct Hold {
    thread: Thread<Configuration>,
    device: Arc<File>,
}

/// Device and clients that a thread leaves to the next one, which may be another process's.
#[derive(Debug, Default)]
pub(crate) struct Waited {
    pub(crate) device: Option<Arc<File>>,
    pub(crate) clients: Vec<Left>,
}

impl Hold {
    /// The means to give it configurations.
    pub(crate) fn orders(&self) -> &Orders<Configuration> {
        self.thread.orders()
    }

    pub(crate) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Ends the thread; its device holds packets that come next.
    pub(crate) fn stop(self, shared: &Shared) -> Waited {
        let Self { thread, device } = self;
        drop(thread);
        Waited { device: Some(device), clients: shared.take_left() }
    }
}

/// Starts the thread if the configuration needs it. If the system does not allow it, the returned configuration accepts clients
/// first, and the log says why.
///
/// # Errors
/// If the system does not allow it, and connections must not bypass the firewall.
pub(crate) fn start_if_needed(
    shared: &Arc<Shared>,
    config: Arc<Config>,
    waited: Waited,
) -> Result<(Arc<Config>, Option<Hold>), ServiceError> {
    let Some(transparent) = config.transparent.as_ref().filter(|_| config.uses_device()) else {
        return Ok((config, None));
    };
    Ok(match start(shared, &config, waited) {
        Ok(hold) => (config, Some(hold)),
        Err(error) if transparent.through_forward => {
            return Err(ServiceError::system("transparent.through_forward")(error));
        }
        Err(error) => {
            shared.log.line(format!("connect_first is not possible, clients are accepted first: {error}"));
            (Arc::new((*config).clone().accepting_first()), None)
        }
    })
}

/// Starts the thread; an error if the system does not allow it.
pub(crate) fn start(shared: &Arc<Shared>, config: &Arc<Config>, waited: Waited) -> io::Result<Hold> {
    let device = waited.device.map_or_else(|| open_device().map(Arc::new), Ok)?;
    let (shared, config, own) = (shared.clone(), config.clone(), device.clone());
    let make = |event_loop| {
        let mut holding = Holding::new(event_loop, shared, config, own)?;
        waited.clients.into_iter().for_each(|left| holding.go_on(left));
        Ok(holding)
    };
    Ok(Hold { thread: Thread::start("pep-hold", make)?, device })
}

fn open_device() -> io::Result<File> {
    let device = sys::tun(DEVICE).map_err(|error| io::Error::new(error.kind(), format!("/dev/net/tun: {error}")))?;
    // Fails without IPv6, where nothing is to be switched off.
    let _ = execute(&format!("ip link set dev {DEVICE} addrgenmode none"), None);
    execute(&format!("ip link set dev {DEVICE} mtu {MTU} up"), None)?;
    Ok(device)
}

/// A client that waits for its server.
#[derive(Debug)]
struct Waiting {
    /// Its last SYN, as bytes and parsed.
    syn: Vec<u8>,
    packet: Packet,
    tcp: Tcp,
    ends: [SocketAddr; 2],
    rule: Arc<Rule>,
    dscp: u8,
    /// The dialled server, and the client's place; `None` once it has answered and both are a worker's.
    server: Option<(OwnedFd, Reservation)>,
    began: Time,
    deadline: Time,
}

/// The state of the thread.
struct Holding {
    event_loop: EventLoop<Waiting, Configuration>,
    device: Arc<File>,
    /// Raw sockets for ICMP, over IPv4 and IPv6.
    icmp: [Option<OwnedFd>; 2],
    shared: Arc<Shared>,
    config: Arc<Config>,
    keys: HashMap<[SocketAddr; 2], Key>,
    own: OwnAddresses,
}

impl Holding {
    fn new(
        event_loop: EventLoop<Waiting, Configuration>,
        shared: Arc<Shared>,
        config: Arc<Config>,
        device: Arc<File>,
    ) -> io::Result<Self> {
        for name in ["all", DEVICE] {
            let filter = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter")).unwrap_or_default();
            if filter.trim() == "1" {
                let message =
                    format!("net.ipv4.conf.{name}.rp_filter = 1 drops SYNs that come back; set `all` to 0 or 2");
                return Err(io::Error::other(message));
            }
        }
        let raw = |family, protocol| {
            socket_with(family, SocketType::RAW, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, Some(protocol)).ok()
        };
        let icmp = [raw(AddressFamily::INET, ipproto::ICMP), raw(AddressFamily::INET6, ipproto::ICMPV6)];
        if icmp[0].is_none() {
            return Err(io::Error::other("a raw socket for ICMP is refused: the service needs CAP_NET_RAW"));
        }
        event_loop.watch(&device, 0, EventFlags::IN)?;
        Ok(Self { event_loop, device, icmp, shared, config, keys: HashMap::new(), own: OwnAddresses::default() })
    }

    /// Reads SYNs of clients.
    fn read(&mut self) {
        let mut buffer = [0; MTU];
        for _ in 0..PACKETS {
            let Ok(length) = self.device.read(&mut buffer) else { return };
            self.on_packet(&buffer[..length]);
        }
    }

    fn on_packet(&mut self, bytes: &[u8]) {
        let Some(packet) = Packet::read(bytes) else { return };
        let tcp = match packet.transport {
            Transport::Tcp(tcp) => tcp,
            // Behind headers that are not passed over, as one with further stops: the client is accepted
            // first, as far as the kernel takes it.
            Transport::Other => return self.put_back(bytes),
            Transport::Udp { .. } | Transport::Echo { .. } => return,
        };
        if !tcp.syn || tcp.rst || tcp.acknowledgement.is_some() {
            return;
        }
        let ends = ends_of(&packet, &tcp);
        let key = self.keys.get(&ends).copied();
        match key.and_then(|key| self.event_loop.get_mut(key)) {
            Some(waiting) if waiting.server.is_some() => {
                // A retransmission, or a new attempt with the same port.
                (waiting.packet, waiting.tcp) = (packet, tcp);
                waiting.syn.clear();
                waiting.syn.extend(bytes);
                return;
            }
            // The listening socket had no room for the SYN.
            Some(_) if self.shared.has_dialled(ends) => return self.put_back(bytes),
            // A new connection after an accepted one.
            Some(_) => drop(key.and_then(|key| self.remove(key))),
            None => {}
        }
        self.dial(bytes, packet, tcp, ends);
    }

    /// Dials the server of a client, if that is allowed and has to be waited for.
    fn dial(&mut self, bytes: &[u8], packet: Packet, tcp: Tcp, ends: [SocketAddr; 2]) {
        let [source, destination] = ends;
        let (now, own) = (self.event_loop.now(), &mut self.own);
        let is_own = |address| own.contain(address, now);
        if let Some(reason) = self.config.allow.refusal(source.ip(), destination.ip(), is_own) {
            self.refuse(&packet, &tcp, &format!("client={source} reason=\"{destination}: {reason}\""));
            return;
        }
        let dscp = code_point(bytes);
        let request = Request { source, destination, interface: None, dscp };
        let Some(rule) = self.config.rule(&request).filter(|rule| rule.connects_first).cloned() else {
            // It need not wait: it only had to pass the `forward` chain, or a new configuration has no such rule any more.
            self.put_back(bytes);
            return;
        };
        let place = match self.reserve(source.ip()) {
            Ok(place) => place,
            Err(Some(reason)) => {
                self.refuse(&packet, &tcp, &format!("client={source} server={destination} reason=\"{reason}\""));
                return;
            }
            // Its next SYN tries again.
            Err(None) => return self.shared.stats.no_room.add(1),
        };
        let began = self.event_loop.now();
        let deadline = began + rule.connect_timeout;
        let (seen, own_mark) = (self.config.seen(source), self.config.own_mark());
        let dialled = dial(&rule.server, seen, destination, own_mark, dscp, &self.shared.log);
        let mut waiting = Waiting { syn: bytes.to_vec(), packet, tcp, ends, rule, dscp, server: None, began, deadline };
        match dialled {
            Ok(server) => {
                waiting.server = Some((server, place));
                let key = self.event_loop.insert(waiting);
                self.keys.insert(ends, key);
                self.begin(key);
            }
            // Its next SYN tries again.
            Err(error) if is_exhausted(&error) => self.shared.stats.no_room.add(1),
            // The worker waits for the end of the older connection between the same addresses.
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => self.put_back(bytes),
            // The kernel's own answer when it forwards, over IPv6 (RFC 4443, section 3.1: no route to destination).
            Err(error) if error.kind() == ErrorKind::HostUnreachable && destination.is_ipv6() => {
                self.fail(&waiting, ErrorKind::NetworkUnreachable);
            }
            Err(error) => self.fail(&waiting, error.kind()),
        }
    }

    /// Goes on with a client of an earlier thread, if its rule still has it wait.
    fn go_on(&mut self, left: Left) {
        let Left { syn, server, began, deadline, connected } = left;
        let Some(packet) = Packet::read(&syn) else { return };
        let Transport::Tcp(tcp) = packet.transport else { return };
        let (ends, dscp) = (ends_of(&packet, &tcp), code_point(&syn));
        let request = Request { source: ends[0], destination: ends[1], interface: None, dscp };
        let Some(rule) = self.config.rule(&request).filter(|rule| rule.connects_first).cloned() else { return };
        let Ok(place) = self.reserve(packet.source) else { return };
        let mut waiting = Waiting { syn, packet, tcp, ends, rule, dscp, server: None, began, deadline };
        match connected {
            None => waiting.server = Some((server, place)),
            Some(connected) => {
                let (rule, times) = (waiting.rule.clone(), [began, connected]);
                self.shared.keep_dialled(ends, Dialled { server, rule, place, dscp, times });
            }
        }
        let key = self.event_loop.insert(waiting);
        self.keys.insert(ends, key);
        self.begin(key);
    }

    /// Leaves a client to the next thread, unless a worker has it.
    fn leave(&mut self, key: Key) -> Option<Left> {
        let Waiting { syn, ends, server, began, deadline, .. } = self.event_loop.remove(key)?;
        let (server, connected) = match server {
            Some((server, _)) => (server, None),
            None => self.shared.take_dialled(ends).map(|dialled| (dialled.server, Some(dialled.times[1])))?,
        };
        Some(Left { syn, server, began, deadline, connected })
    }

    /// A place for a client, before anything is spent on it. The error says why it is refused; `None`: it is not, but has to wait.
    fn reserve(&self, client: IpAddr) -> Result<Reservation, Option<&'static str>> {
        let limits = self.config.limits;
        if self.shared.stats.open.get() >= self.shared.connections() as u64 {
            let is_refused = limits.at_limit == AtLimit::Refuse;
            return Err(is_refused.then_some("the limit of connections is reached"));
        }
        let permit = self.shared.clients.permit(self.config.allow.counted_as(client), limits.per_client);
        permit.map(Reservation::new).ok_or(Some("the limit of connections of the client is reached"))
    }

    /// Removes a client; resets its server if that has answered and no worker has it.
    fn remove(&mut self, key: Key) -> Option<Waiting> {
        let waiting = self.event_loop.remove(key)?;
        self.keys.remove(&waiting.ends);
        if waiting.server.is_none() {
            drop(self.shared.take_dialled(waiting.ends));
        }
        Some(waiting)
    }

    /// Reports the failure of its server to a client.
    fn fail(&mut self, waiting: &Waiting, kind: ErrorKind) {
        self.log(waiting, &Outcome { end: End::Unreached, reason: format!("server {}", in_words(kind)) });
        match kind {
            // The client has its own timeout.
            ErrorKind::TimedOut => self.shared.silence.on_silence(waiting.ends),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
                let message = unreachable(&waiting.syn, kind == ErrorKind::NetworkUnreachable);
                let client = waiting.packet.source;
                if let Some(socket) = &self.icmp[usize::from(client.is_ipv6())] {
                    // If the message is lost, the client's next SYN follows.
                    let _ = sendto(socket, &message, SendFlags::empty(), &SocketAddr::new(client, 0));
                }
            }
            _ => self.put_back(&reset(&waiting.packet, &waiting.tcp)),
        }
    }

    fn refuse(&mut self, packet: &Packet, tcp: &Tcp, words: &str) {
        self.shared.refuse(words);
        self.put_back(&reset(packet, tcp));
    }

    fn log(&self, waiting: &Waiting, outcome: &Outcome) {
        let account = self.shared.account(&self.config, waiting.ends, waiting.rule.clone(), waiting.began, None);
        self.shared.close(&account, outcome, Legs::default(), self.event_loop.now());
    }

    /// Gives the kernel a packet as received from the device.
    fn put_back(&mut self, packet: &[u8]) {
        // A refused packet is lost, as on a link: the client retransmits its SYN.
        let _ = self.device.write(packet);
    }
}

impl Task for Waiting {
    fn sockets(&self) -> &[OwnedFd] {
        self.server.as_ref().map_or(&[], |(server, _)| std::slice::from_ref(server))
    }
}

impl Handler for Holding {
    type Task = Waiting;
    type Order = Configuration;
    type Outcome = Outcome;

    fn event_loop(&mut self) -> &mut EventLoop<Waiting, Configuration> {
        &mut self.event_loop
    }

    /// Reads SYNs of clients.
    fn on_source(&mut self, _number: u64) {
        self.read();
    }

    /// Handles the answer or failure of a dialled server.
    fn on_event(&mut self, key: Key, _socket: usize, event: Readiness) -> Result<(), Outcome> {
        let now = self.event_loop.now();
        let Some(waiting) = self.event_loop.get_mut(key) else { return Ok(()) };
        let Some((server, place)) = waiting.server.take() else { return Ok(()) };
        let failure = match sockopt::socket_error(&server) {
            Ok(Ok(())) if event.has_failed => Some(ErrorKind::Other),
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(io::Error::from(error).kind()),
        };
        if let Some(kind) = failure {
            // Its address is the client's: without it the reset would find this socket.
            drop((server, place));
            if let Some(waiting) = self.remove(key) {
                self.fail(&waiting, kind);
            }
            return Ok(());
        }
        waiting.deadline = now + ACCEPTED_WITHIN;
        let (ends, syn) = (waiting.ends, waiting.syn.clone());
        let (rule, times) = (waiting.rule.clone(), [waiting.began, now]);
        let dialled = Dialled { server, rule, place, dscp: waiting.dscp, times };
        // A worker watches it next, if at all.
        self.event_loop.unwatch(&dialled.server);
        self.shared.keep_dialled(ends, dialled);
        self.put_back(&syn);
        Ok(())
    }

    fn advance(&mut self, key: Key) -> Result<Turn, Outcome> {
        let now = self.event_loop.now();
        let Some(waiting) = self.event_loop.get_mut(key) else { return Ok(Turn::Wait(None)) };
        if now < waiting.deadline {
            return Ok(Turn::Wait(Some(waiting.deadline)));
        }
        let reason = format!("server did not answer within {}", waiting.rule.connect_timeout);
        Err(Outcome { end: End::Unreached, reason })
    }

    fn end(&mut self, key: Key, outcome: &Outcome) {
        let Some(waiting) = self.remove(key) else { return };
        if waiting.server.is_some() {
            // The client has its own timeout.
            self.shared.silence.on_silence(waiting.ends);
            self.log(&waiting, outcome);
        }
    }

    fn obey(&mut self, order: Configuration) -> io::Result<()> {
        self.config = order.config;
        // An error means that the service is ending.
        let _ = order.done.send(());
        Ok(())
    }

    fn close(&mut self, done: &io::Result<()>) {
        let left = self.event_loop.keys().into_iter().filter_map(|key| self.leave(key)).collect();
        match done {
            Ok(()) => self.shared.leave(left),
            Err(error) => self.shared.log.line(format!("connect_first: {error}")),
        }
    }
}

/// Client and server of a SYN.
fn ends_of(packet: &Packet, tcp: &Tcp) -> [SocketAddr; 2] {
    [SocketAddr::new(packet.source, tcp.source_port), SocketAddr::new(packet.destination, tcp.destination_port)]
}

/// The reset that refuses a SYN.
fn reset(packet: &Packet, tcp: &Tcp) -> Vec<u8> {
    let answer = Tcp {
        source_port: tcp.destination_port,
        destination_port: tcp.source_port,
        acknowledgement: Some(tcp.sequence.wrapping_add(1).wrapping_add(tcp.payload)),
        rst: true,
        ..Tcp::default()
    };
    let header = if matches!(packet.source, IpAddr::V4(_)) { IPV4_HEADER } else { IPV6_HEADER };
    let (source, destination) = (packet.destination, packet.source);
    let transport = Transport::Tcp(answer);
    let mut out = Vec::new();
    Packet { source, destination, bytes: header + TCP_HEADER, ecn: 0, identification: 0, transport }.write(&mut out);
    out
}

/// The differentiated services code point of a packet.
fn code_point(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 6 => (first << 4 | second >> 4) >> 2,
        [_, second, ..] => second >> 2,
        _ => 0,
    }
}

/// MTU of the device: more than any SYN with data.
const MTU: usize = 9216;
/// A client that does not complete its handshake within this time has gone.
const ACCEPTED_WITHIN: Time = Time::from_secs(10);
/// Packets that are read per turn.
const PACKETS: usize = 64;
/// Headers without options, bytes.
const IPV4_HEADER: u32 = 20;
const IPV6_HEADER: u32 = 40;
const TCP_HEADER: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_acknowledges_the_syn_that_it_refuses() {
        for (client, server) in [("10.1.0.2", "10.2.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let tcp = Tcp { source_port: 5, destination_port: 80, sequence: u32::MAX, syn: true, ..Tcp::default() };
            let packet = Packet {
                source: client.parse().unwrap(),
                destination: server.parse().unwrap(),
                bytes: 60,
                ecn: 0,
                identification: 0,
                transport: Transport::Tcp(tcp),
            };
            let answer = Packet::read(&reset(&packet, &tcp)).unwrap();
            let Transport::Tcp(told) = answer.transport else { panic!("{answer:?}") };
            assert_eq!((answer.source, answer.destination), (packet.destination, packet.source));
            assert_eq!((told.source_port, told.destination_port), (80, 5));
            assert_eq!((told.rst, told.syn, told.sequence, told.acknowledgement), (true, false, 0, Some(0)));
        }
    }

    #[test]
    fn code_points_are_read_of_both_versions() {
        assert_eq!(code_point(&[0x45, 46 << 2 | 1]), 46);
        assert_eq!(code_point(&[0x60 | 46 >> 2, (46 << 6) as u8 | 0x0f]), 46);
        assert_eq!(code_point(&[]), 0);
    }
}
