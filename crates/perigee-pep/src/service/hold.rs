//! Handshakes that wait for their server, so that the answer to a client's SYN is the server's.
//!
//! The rules route the SYN into a TUN device, where the service reads it and dials the server. Once that answers, the same SYN goes
//! back into the kernel through the device, and from there to the listening socket. A refusal is answered by a reset
//! (RFC 9293, section 3.10.7.1), an unreachable server by ICMP, and silence by silence. Device and route end with this process:
//! SYNs then bypass the service.
//!
//! Packets to the device pass the host's `forward` chain. With `transparent.through_forward` all SYNs take this way; those that
//! need not wait are returned at once.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use perigee_units::Time;
use perigee_wire::{unreachable, Packet, Tcp, Transport};
use rustix::event::{epoll, eventfd, EventfdFlags};
use rustix::net::{ipproto, sendto, socket_with, sockopt, AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::config::{AtLimit, Config, Request, Rule, Transparent};
use crate::error::ServiceError;
use crate::event_loop::agenda::{self, Agenda};
use crate::event_loop::slab::{Key, Slab};
use crate::host::clock::monotonic;
use crate::host::intercept::{execute, DEVICE};
use crate::host::sys;
use crate::legs::connection::Readiness;
use crate::legs::socket::dial;
use crate::shared::account::{in_words, Account, Outcome};
use crate::shared::handover::Dialled;
use crate::shared::stats::End;
use crate::shared::Shared;

/// The thread that holds handshakes, until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    thread: Option<JoinHandle<()>>,
    orders: Arc<HoldOrders>,
}

/// Commands for the thread.
#[derive(Debug)]
struct HoldOrders {
    config: Mutex<Arc<Config>>,
    has_ended: AtomicBool,
    wake: OwnedFd,
}

impl Hold {
    /// Starts the thread if the configuration needs it. If the system does not allow it, the returned configuration accepts clients
    /// first, and the log says why.
    ///
    /// # Errors
    /// If the system does not allow it, and connections must not bypass the firewall.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        config: Arc<Config>,
    ) -> Result<(Arc<Config>, Option<Self>), ServiceError> {
        let Some(transparent) = config.transparent.as_ref().filter(|_| config.uses_device()) else {
            return Ok((config, None));
        };
        Ok(match Self::begin(shared, &config) {
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
    pub(crate) fn begin(shared: &Arc<Shared>, config: &Arc<Config>) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let orders =
            Arc::new(HoldOrders { config: Mutex::new(config.clone()), has_ended: AtomicBool::new(false), wake });
        let work = Work::new(shared.clone(), orders.clone())?;
        let thread = thread::Builder::new().name("pep-hold".to_owned()).spawn(move || work.run())?;
        Ok(Self { thread: Some(thread), orders })
    }

    /// Applies a new configuration.
    pub(crate) fn configure(&self, config: Arc<Config>) {
        *self.orders.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.orders.has_ended.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&self.orders.wake, &1u64.to_ne_bytes());
        // A panic was printed where it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
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
    /// The dialled server; `None` once it has answered and is a worker's.
    server: Option<OwnedFd>,
    began: Time,
    timer: Time,
}

/// The event loop of the thread.
struct Work {
    epoll: OwnedFd,
    device: File,
    /// Raw sockets for ICMP, over IPv4 and IPv6.
    icmp: [Option<OwnedFd>; 2],
    shared: Arc<Shared>,
    orders: Arc<HoldOrders>,
    waiting: Slab<Waiting>,
    keys: HashMap<[SocketAddr; 2], Key>,
    agenda: Agenda,
}

impl Work {
    fn new(shared: Arc<Shared>, orders: Arc<HoldOrders>) -> io::Result<Self> {
        let device =
            sys::tun(DEVICE).map_err(|error| io::Error::new(error.kind(), format!("/dev/net/tun: {error}")))?;
        for name in ["all", DEVICE] {
            let filter = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter")).unwrap_or_default();
            if filter.trim() == "1" {
                let message =
                    format!("net.ipv4.conf.{name}.rp_filter = 1 drops SYNs that come back; set `all` to 0 or 2");
                return Err(io::Error::other(message));
            }
        }
        // Fails without IPv6, where nothing is to be switched off.
        let _ = execute(&format!("ip link set dev {DEVICE} addrgenmode none"), None);
        execute(&format!("ip link set dev {DEVICE} mtu {MTU} up"), None)?;
        let raw = |family, protocol| {
            socket_with(family, SocketType::RAW, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, Some(protocol)).ok()
        };
        let icmp = [raw(AddressFamily::INET, ipproto::ICMP), raw(AddressFamily::INET6, ipproto::ICMPV6)];
        if icmp[0].is_none() {
            return Err(io::Error::other("a raw socket for ICMP is refused: the service needs CAP_NET_RAW"));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (descriptor, data) in [(device.as_fd(), TUN), (orders.wake.as_fd(), WAKE)] {
            epoll::add(&epoll, descriptor, epoll::EventData::new_u64(data), epoll::EventFlags::IN)?;
        }
        let (waiting, keys, agenda) = (Slab::default(), HashMap::new(), Agenda::default());
        Ok(Self { epoll, device, icmp, shared, orders, waiting, keys, agenda })
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        while !self.orders.has_ended.load(Ordering::Relaxed) {
            let timeout = self.agenda.first_timer().map(|at| at - monotonic() + Time::from_micros(999));
            if let Err(error) = agenda::wait(&self.epoll, &mut events, timeout) {
                self.shared.log.line(format!("connect_first: {error}"));
                break;
            }
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        let _ = rustix::io::read(&self.orders.wake, &mut [0; 8]);
                    }
                    TUN => self.read(),
                    data => self.on_server(Key::from_data(data).0, event.flags),
                }
            }
            while let Some(key) = self.agenda.pop_due(monotonic()) {
                self.on_timer(key);
            }
        }
        for key in self.waiting.keys() {
            self.remove(key);
        }
    }

    /// Reads SYNs of clients.
    fn read(&mut self) {
        let mut buffer = [0; MTU];
        for _ in 0..EVENTS {
            match self.device.read(&mut buffer) {
                Ok(length) => self.on_packet(&buffer[..length]),
                Err(_) => return,
            }
        }
    }

    fn on_packet(&mut self, bytes: &[u8]) {
        let Some(packet) = Packet::read(bytes) else { return };
        let Transport::Tcp(tcp) = packet.transport else { return };
        if !tcp.syn || tcp.rst || tcp.acknowledgement.is_some() {
            return;
        }
        let source = SocketAddr::new(packet.source, tcp.source_port);
        let ends = [source, SocketAddr::new(packet.destination, tcp.destination_port)];
        let key = self.keys.get(&ends).copied();
        match key.and_then(|key| self.waiting.get_mut(key)) {
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

    /// Dials the server of a client.
    fn dial(&mut self, bytes: &[u8], packet: Packet, tcp: Tcp, ends: [SocketAddr; 2]) {
        let [source, destination] = ends;
        let config = self.orders.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_own = |address| sys::is_own(address).unwrap_or(true);
        if let Some(reason) = config.allow.refusal(source.ip(), destination.ip(), is_own) {
            self.refuse(&packet, &tcp, &format!("refused client={source} reason=\"{destination}: {reason}\""));
            return;
        }
        let dscp = code_point(bytes);
        let request = Request { source, destination, interface: None, dscp };
        let Some(rule) = config.rule(&request).filter(|rule| rule.connects_first).cloned() else {
            // It need not wait: it only had to pass the `forward` chain, or a new configuration has no such rule any more.
            self.put_back(bytes);
            return;
        };
        if self.shared.clients.is_full(source.ip(), config.limits.per_client) {
            let reason = "the limit of connections of the client is reached";
            self.refuse(&packet, &tcp, &format!("refused client={source} server={destination} reason=\"{reason}\""));
            return;
        }
        if self.shared.stats.open.get() + self.waiting.len() as u64 >= self.shared.connections() as u64 {
            if config.limits.at_limit == AtLimit::Refuse {
                let reason = "the limit of connections is reached";
                let line = format!("refused client={source} server={destination} reason=\"{reason}\"");
                self.refuse(&packet, &tcp, &line);
            }
            // Otherwise its next SYN tries again.
            return;
        }
        let seen = config.transparent.as_ref().filter(|transparent| !transparent.hide_clients).map(|_| source);
        let mark = config.transparent.as_ref().map(Transparent::own_mark);
        let began = monotonic();
        let timer = began + rule.connect_timeout;
        let dialled = dial(&rule.server, seen, destination, mark, dscp);
        let mut waiting = Waiting { syn: bytes.to_vec(), packet, tcp, ends, rule, dscp, server: None, began, timer };
        match dialled {
            Ok((server, refused)) => {
                for line in refused {
                    self.shared.log.once(line);
                }
                waiting.server = Some(server);
            }
            // The worker waits for the end of the older connection between the same addresses.
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => return self.put_back(bytes),
            Err(error) => {
                let kind = match error.kind() {
                    // The kernel's own answer when it forwards, over IPv6 (RFC 4443, section 3.1: no route to destination).
                    ErrorKind::HostUnreachable if destination.is_ipv6() => ErrorKind::NetworkUnreachable,
                    kind => kind,
                };
                self.fail(&waiting, kind);
                return;
            }
        }
        let key = self.waiting.insert(waiting);
        self.keys.insert(ends, key);
        self.agenda.move_timer(key, None, Some(timer));
        let server = self.waiting.get_mut(key).and_then(|waiting| waiting.server.as_ref());
        let data = epoll::EventData::new_u64(key.with_bit(false));
        let added = server.map(|server| epoll::add(&self.epoll, server, data, epoll::EventFlags::OUT));
        if let Some(Err(error)) = added {
            self.shared.log.line(format!("connect_first: {error}"));
            self.remove(key);
        }
    }

    /// Handles the answer or failure of a dialled server.
    fn on_server(&mut self, key: Key, flags: epoll::EventFlags) {
        let Some(waiting) = self.waiting.get_mut(key) else { return };
        let Some(server) = waiting.server.take() else { return };
        let failure = match sockopt::socket_error(&server) {
            Ok(Ok(())) if Readiness::of(flags).has_failed => Some(ErrorKind::Other),
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(io::Error::from(error).kind()),
        };
        // A worker watches it next, if at all.
        let _ = epoll::delete(&self.epoll, &server);
        if let Some(kind) = failure {
            // Its address is the client's: without it the reset would find this socket.
            drop(server);
            if let Some(waiting) = self.remove(key) {
                self.fail(&waiting, kind);
            }
            return;
        }
        let now = monotonic();
        let before = std::mem::replace(&mut waiting.timer, now + ACCEPTED_WITHIN);
        self.agenda.move_timer(key, Some(before), Some(waiting.timer));
        let (rule, times) = (waiting.rule.clone(), [waiting.began, now]);
        self.shared.keep_dialled(waiting.ends, Dialled { server, rule, dscp: waiting.dscp, times });
        let syn = std::mem::take(&mut waiting.syn);
        self.put_back(&syn);
    }

    fn on_timer(&mut self, key: Key) {
        let Some(waiting) = self.remove(key) else { return };
        if waiting.server.is_some() {
            // The client has its own timeout.
            self.log(&waiting, &format!("server did not answer within {}", waiting.rule.connect_timeout));
        }
    }

    /// Removes a client; resets its server if that has answered and no worker has it.
    fn remove(&mut self, key: Key) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        self.keys.remove(&waiting.ends);
        self.agenda.move_timer(key, Some(waiting.timer), None);
        if waiting.server.is_none() {
            drop(self.shared.take_dialled(waiting.ends));
        }
        Some(waiting)
    }

    /// Reports the failure of its server to a client.
    fn fail(&mut self, waiting: &Waiting, kind: ErrorKind) {
        self.log(waiting, &format!("server {}", in_words(kind)));
        match kind {
            // The client has its own timeout.
            ErrorKind::TimedOut => {}
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

    fn refuse(&mut self, packet: &Packet, tcp: &Tcp, line: &str) {
        self.shared.stats.refused.add(1);
        self.shared.log.line(line.to_owned());
        self.put_back(&reset(packet, tcp));
    }

    fn log(&self, waiting: &Waiting, reason: &str) {
        let stats = self.shared.stats.rule(&waiting.rule.name);
        let account = Account::open(waiting.ends, waiting.rule.clone(), stats, waiting.began);
        let outcome = Outcome { end: End::Unreached, reason: reason.to_owned() };
        self.shared.log.line(account.close(&outcome, "", "", monotonic()));
    }

    /// Gives the kernel a packet as received from the device.
    fn put_back(&mut self, packet: &[u8]) {
        // A refused packet is lost, as on a link: the client retransmits its SYN.
        let _ = self.device.write(packet);
    }
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
/// Data of events of the TUN device and of wake-ups, not of a server.
const TUN: u64 = u64::MAX - 1;
const WAKE: u64 = u64::MAX;
/// Events, and packets, that are fetched at a time.
const EVENTS: usize = 64;
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
