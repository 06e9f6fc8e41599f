//! An event loop: one thread, its listening sockets, and the connections that it has accepted.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::Arc;

use perigee_units::Time;
use rustix::event::{epoll, eventfd, EventfdFlags};
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use rustix::net::{acceptfrom_with, getsockname, SocketFlags};

use crate::config::{AtLimit, Config, Request, Rule, Transparent};
use crate::event_loop::agenda::{self, Agenda};
use crate::event_loop::slab::{Key, Slab};
use crate::host::clock::monotonic;
use crate::host::sys;
use crate::legs::carrier::Memory;
use crate::legs::connection::{Readiness, SplitConnection};
use crate::legs::socket::{apply, dial, reset_on_close, set_dscp, switch_congestion};
use crate::relay::{Progress, Side};
use crate::shared::account::{in_words, Account, Outcome};
use crate::shared::handover::{Accepted, Dialled};
use crate::shared::permit::Permit;
use crate::shared::stats::End;
use crate::shared::Carried;
use crate::shared::Shared;

/// Commands for a worker.
#[derive(Debug)]
pub(crate) enum Command {
    /// A new configuration, with the listening sockets that it adds; those of removed addresses are closed. The worker answers once
    /// it applies to the next accepted connection.
    Configure(Arc<Config>, Vec<Listener>, Sender<()>),
    /// Accepts waiting connections, closes the listening sockets, and ends after the last connection.
    Drain,
    /// Resets all connections and ends.
    Abort,
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
    /// Whether it receives intercepted connections to other hosts.
    pub(crate) is_transparent: bool,
}

/// An accepted connection that is served.
struct Opened {
    server: Reached,
    destination: SocketAddr,
    rule: Arc<Rule>,
    permit: Permit,
}

/// Outcome of dialling a client's server.
enum Reached {
    Dialled(OwnedFd),
    Tunnelled,
    /// An older connection between the same addresses has not ended; the code point of the client.
    Later(u8),
}

/// A client that reuses its port while the older leg to the server has not ended.
struct Redial {
    client: OwnedFd,
    ends: [SocketAddr; 2],
    dscp: u8,
    rule: Arc<Rule>,
    permit: Permit,
    began: Time,
    /// When the server is dialled next.
    due: Time,
    pause: Time,
}

/// An event loop with its state.
pub(crate) struct Worker {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command>,
    shared: Arc<Shared>,
    config: Arc<Config>,
    listeners: Vec<Listener>,
    connections: Slab<SplitConnection>,
    memory: Memory,
    /// Its bytes in the gauge of all workers.
    gauged: usize,
    agenda: Agenda,
    redials: Vec<Redial>,
    /// When listening resumes after a limit was reached.
    paused: Option<Time>,
    is_draining: bool,
    now: Time,
}

impl Worker {
    /// Creates a worker, with the descriptor that wakes it to read its commands.
    pub(crate) fn new(
        shared: Arc<Shared>,
        config: Arc<Config>,
        listeners: Vec<Listener>,
        commands: Receiver<Command>,
    ) -> io::Result<(Self, Arc<OwnedFd>)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let memory = Memory::new(share(&config), config.splice);
        let worker = Self {
            epoll,
            wake: wake.clone(),
            commands,
            shared,
            config,
            listeners,
            connections: Slab::default(),
            memory,
            gauged: 0,
            agenda: Agenda::default(),
            redials: Vec::new(),
            paused: None,
            is_draining: false,
            now: monotonic(),
        };
        worker.listen()?;
        Ok((worker, wake))
    }

    /// Carries connections until it is drained or aborted.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            self.wait(&mut events)?;
            self.now = monotonic();
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
                    }
                    data if data & LISTENER != 0 => self.accept((data & !LISTENER) as usize),
                    data => self.on_event(data, event.flags),
                }
            }
            for _ in 0..self.agenda.ready() {
                if let Some(key) = self.agenda.pop_ready() {
                    if let Some(connection) = self.connections.get_mut(key) {
                        connection.is_queued = false;
                        self.turn(key);
                    }
                }
            }
            self.fire_timers();
            self.redial();
            self.gauge();
            if self.paused.is_some_and(|until| until <= self.now) {
                self.paused = None;
                self.listen()?;
            }
            if self.obey()? {
                return Ok(());
            }
        }
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let redials = self.redials.iter().map(|redial| redial.due);
        let next = self.agenda.first_timer().into_iter().chain(self.paused).chain(redials).min();
        let timeout = match next {
            _ if self.agenda.ready() > 0 => Some(Time::ZERO),
            // Rounded up, so that the timer is due after the wait.
            Some(at) => Some(at - monotonic() + Time::from_micros(999)),
            None => None,
        };
        agenda::wait(&self.epoll, events, timeout)
    }

    fn on_event(&mut self, data: u64, flags: epoll::EventFlags) {
        let (key, is_server) = Key::from_data(data);
        let Some(connection) = self.connections.get_mut(key) else { return };
        let event = Readiness::of(flags);
        let side = if is_server { Side::Server } else { Side::Client };
        match connection.on_event(side, event, self.now) {
            Some(outcome) => self.end(key, &outcome),
            None => self.queue(key),
        }
    }

    /// Gives a connection its turn: at most [`BUDGET`] bytes in each direction.
    fn turn(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let before = connection.timer;
        let progress = connection.advance(&mut self.memory, BUDGET, self.now);
        self.agenda.move_timer(key, before, connection.timer);
        match progress {
            Ok(Progress::OutOfBudget) => self.queue(key),
            Ok(_) => {}
            Err(outcome) => self.end(key, &outcome),
        }
    }

    fn queue(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            self.agenda.queue(key, &mut connection.is_queued);
        }
    }

    fn fire_timers(&mut self) {
        while let Some(key) = self.agenda.pop_due(self.now) {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.timer = None;
                self.turn(key);
            }
        }
    }

    fn end(&mut self, key: Key, outcome: &Outcome) {
        let Some(mut connection) = self.connections.remove(key) else { return };
        self.agenda.move_timer(key, connection.timer, None);
        connection.sockets.release(&mut self.memory);
        self.shared.log.line(connection.close(outcome, self.now));
    }

    /// Accepts connections that wait at a listening socket.
    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = self.listeners.get(index) else { return };
            let has_room = self.shared.stats.open.get() < self.shared.connections() as u64;
            if !has_room && self.config.limits.at_limit != AtLimit::Refuse {
                self.pause("the limit of connections is reached");
                return;
            }
            let accepted = acceptfrom_with(&listener.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
            let (client, source) = match accepted {
                Ok((client, source)) => (client, source.and_then(|source| SocketAddr::try_from(source).ok())),
                Err(Errno::AGAIN) => return,
                // The client has gone, or a network error is pending: the next connection may succeed.
                Err(error) if !is_exhausted(error) => continue,
                Err(error) => {
                    self.pause(&format!("no more connections can be accepted: {error}"));
                    return;
                }
            };
            let Some(source) = source else { continue };
            reset_on_close(&client);
            let (address, is_transparent) = (listener.address, listener.is_transparent);
            let opened = if has_room {
                match self.take_dialled(&client, source, is_transparent) {
                    Ok(Some((dialled, destination))) => {
                        self.begin_dialled(client, dialled, [source, destination]);
                        continue;
                    }
                    Ok(None) => self.open(&client, source, address, is_transparent),
                    Err(error) => Err(error.to_string()),
                }
            } else {
                Err("the limit of connections is reached".to_owned())
            };
            match opened {
                Ok(Opened { server, destination, rule, permit }) => match server {
                    Reached::Dialled(server) => {
                        self.begin([client, server], [source, destination], rule, permit, self.now, None);
                    }
                    Reached::Tunnelled => {
                        self.shared.carry(Accepted { client, source, destination, rule, permit });
                    }
                    Reached::Later(dscp) => {
                        let (ends, began) = ([source, destination], self.now);
                        let redial = Redial { client, ends, dscp, rule, permit, began, due: began, pause: FIRST_PAUSE };
                        self.redials.push(redial);
                    }
                },
                Err(reason) => {
                    self.shared.stats.refused.add(1);
                    self.shared.log.line(format!("refused client={source} listener={address} reason=\"{reason}\""));
                }
            }
        }
    }

    /// The server that answered before this client's handshake, and its address.
    fn take_dialled(
        &self,
        client: &OwnedFd,
        source: SocketAddr,
        is_transparent: bool,
    ) -> io::Result<Option<(Dialled, SocketAddr)>> {
        if !is_transparent || !self.config.connects_first() {
            return Ok(None);
        }
        let destination = SocketAddr::try_from(getsockname(client)?)?;
        Ok(self.shared.take_dialled([source, destination]).map(|dialled| (dialled, destination)))
    }

    /// Adds a connection whose server has answered already.
    fn begin_dialled(&mut self, client: OwnedFd, dialled: Dialled, addresses: [SocketAddr; 2]) {
        let Dialled { server, rule, dscp, times } = dialled;
        let [source, destination] = addresses;
        let _ = sys::stop_reporting_arrival(&client, source.is_ipv6());
        let Some(permit) = self.shared.clients.permit(source.ip(), self.config.limits.per_client) else {
            self.shared.stats.refused.add(1);
            let reason = "the limit of connections of the client is reached";
            self.shared.log.line(format!("refused client={source} server={destination} reason=\"{reason}\""));
            return;
        };
        let refused = apply(&rule.client, &client);
        for line in refused.into_iter().chain(set_dscp(&rule.client, &client, source.is_ipv6(), dscp)) {
            self.shared.log.once(line);
        }
        self.begin([client, server], addresses, rule, permit, self.now, Some(times));
    }

    /// Dials the servers of clients that reuse their ports, if the older connections have ended: at most [`REDIALLED_AT_ONCE`]
    /// per turn.
    fn redial(&mut self) {
        if self.redials.iter().all(|redial| redial.due > self.now) {
            return;
        }
        let all = std::mem::take(&mut self.redials).into_iter();
        let (mut due, mut later): (Vec<Redial>, Vec<Redial>) = all.partition(|redial| redial.due <= self.now);
        later.extend(due.drain(REDIALLED_AT_ONCE.min(due.len())..));
        self.redials = later;
        self.clear(&due.iter().map(|redial| (redial.ends, redial.began)).collect());
        for mut redial in due {
            let [source, destination] = redial.ends;
            let Redial { rule, dscp, .. } = &redial;
            match self.dial(rule, Some(source), destination, *dscp) {
                Ok(server) => {
                    let Redial { client, ends, rule, permit, began, .. } = redial;
                    self.begin([client, server], ends, rule, permit, began, None);
                }
                Err(error) if is_taken(&error) && self.now < redial.began + rule.connect_timeout => {
                    redial.due = self.now + redial.pause;
                    redial.pause = (redial.pause * 2).min(LAST_PAUSE);
                    self.redials.push(redial);
                }
                Err(error) => {
                    self.shared.stats.refused.add(1);
                    let reason = format!("server {destination} {}: {error}", in_words(error.kind()));
                    self.shared.log.line(format!("refused client={source} server={destination} reason=\"{reason}\""));
                }
            }
        }
    }

    /// Ends the older connections between these addresses, whose clients are gone, as soon as none of their bytes can be lost: at
    /// once if all is acknowledged; if only the end of the stream is not, after the time for that since the client reused its port.
    fn clear(&mut self, ends: &HashMap<[SocketAddr; 2], Time>) {
        for key in self.connections.keys() {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let Account { source, destination, .. } = connection.account;
            let Some(began) = ends.get(&[source, destination]) else { continue };
            self.turn(key);
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if connection.awaits_last_acknowledgement().is_some_and(|patience| self.now >= *began + patience) {
                reset_on_close(connection.sockets.of(Side::Server));
                let reason = "complete; the client uses its port again".to_owned();
                self.end(key, &Outcome { end: End::Complete, reason });
            }
        }
    }

    /// Dials the server of an accepted connection, unless the tunnel carries it; the error says why not.
    fn open(
        &self,
        client: &OwnedFd,
        source: SocketAddr,
        address: SocketAddr,
        is_transparent: bool,
    ) -> Result<Opened, String> {
        let destination = if is_transparent {
            let name = getsockname(client).map_err(|error| error.to_string())?;
            SocketAddr::try_from(name).map_err(|error| error.to_string())?
        } else {
            let forward = self.config.forwards.iter().find(|forward| forward.listen == address);
            forward.ok_or("it is no longer configured")?.target
        };
        self.check(source, destination)?;
        let found = self.rule(client, source, destination);
        let (rule, dscp) = found.map_err(|error| format!("its arrival is unknown: {error}"))?;
        let rule = rule.ok_or("no rule")?;
        let permit = self.shared.clients.permit(source.ip(), self.config.limits.per_client);
        let permit = permit.ok_or("the limit of connections of the client is reached")?;
        let transparent = self.config.transparent.as_ref().filter(|_| is_transparent);
        let seen = transparent.filter(|transparent| !transparent.hide_clients).map(|_| source);
        let mut refused = apply(&rule.client, client);
        refused.extend(set_dscp(&rule.client, client, source.is_ipv6(), dscp));
        if rule.is_tunnelled {
            for line in refused {
                self.shared.log.once(line);
            }
            return Ok(Opened { server: Reached::Tunnelled, destination, rule, permit });
        }
        for line in refused {
            self.shared.log.once(line);
        }
        let server = match self.dial(&rule, seen, destination, dscp) {
            Ok(server) => Reached::Dialled(server),
            Err(error) if seen.is_some() && is_taken(&error) => Reached::Later(dscp),
            Err(error) => return Err(format!("server {destination} {}: {error}", in_words(error.kind()))),
        };
        Ok(Opened { server, destination, rule, permit })
    }

    /// Starts to connect to a server, which sees the address `seen`.
    fn dial(&self, rule: &Rule, seen: Option<SocketAddr>, destination: SocketAddr, dscp: u8) -> io::Result<OwnedFd> {
        let own_mark = self.config.transparent.as_ref().map(Transparent::own_mark);
        let (server, refused) = dial(&rule.server, seen, destination, own_mark, dscp)?;
        for line in refused {
            self.shared.log.once(line);
        }
        Ok(server)
    }

    /// Checks that the configuration allows the connection, and that it does not lead back here.
    fn check(&self, source: SocketAddr, destination: SocketAddr) -> Result<(), String> {
        let is_own = |address| sys::is_own(address).unwrap_or(true);
        if let Some(reason) = self.config.allow.refusal(source.ip(), destination.ip(), is_own) {
            return Err(format!("{destination}: {reason}"));
        }
        let listens = self.listeners.iter().any(|listener| listener.address.port() == destination.port());
        if listens && is_own(destination.ip()) {
            return Err(format!("{destination}: it leads back to this service"));
        }
        Ok(())
    }

    /// The rule of a connection, and the code point of its client.
    fn rule(
        &self,
        client: &OwnedFd,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> io::Result<(Option<Arc<Rule>>, u8)> {
        let arrival = sys::Arrival::of(client, source.is_ipv6())?;
        sys::stop_reporting_arrival(client, source.is_ipv6())?;
        let is_asked = arrival.interface > 0 && self.config.rules.iter().any(|rule| !rule.interfaces.is_empty());
        let interface = is_asked.then(|| index_to_name(client, arrival.interface).ok()).flatten();
        let request = Request { source, destination, interface: interface.as_deref(), dscp: arrival.dscp };
        Ok((self.config.rule(&request).cloned(), arrival.dscp))
    }

    /// Adds a connection that was accepted at `began` and whose server was dialled; `answered` has the times of dialling and answer, if
    /// the server has answered.
    fn begin(
        &mut self,
        sockets: [OwnedFd; 2],
        addresses: [SocketAddr; 2],
        rule: Arc<Rule>,
        permit: Permit,
        began: Time,
        answered: Option<[Time; 2]>,
    ) {
        let stats = self.shared.stats.rule(&rule.name);
        let mut connection =
            SplitConnection::new(sockets, Account::open(addresses, rule, stats, began).with_place(permit));
        if let Some([began, connected]) = answered {
            connection.on_answered(began, connected);
        }
        self.shared.watch(|| Carried::new(addresses, connection.sockets.watched()));
        let key = self.connections.insert(connection);
        match self.register(key) {
            Ok(()) => self.turn(key),
            Err(error) => self.end(key, &Outcome::aborted(&error.to_string())),
        }
    }

    fn register(&mut self, key: Key) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        let Some(connection) = self.connections.get_mut(key) else { return Ok(()) };
        for side in [Side::Client, Side::Server] {
            let data = epoll::EventData::new_u64(key.with_bit(side == Side::Server));
            let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
            epoll::add(&self.epoll, connection.sockets.of(side), data, flags)?;
        }
        Ok(())
    }

    /// Stops listening for [`PAUSE`]: connections wait in the queues of the sockets.
    fn pause(&mut self, reason: &str) {
        if self.paused.is_none() {
            self.shared.stats.paused.add(1);
            self.shared.log.once(format!("paused reason=\"{reason}\""));
            self.unlisten();
        }
        self.paused = Some(self.now + PAUSE);
    }

    /// Stops watching the listening sockets.
    fn unlisten(&mut self) {
        if self.paused.take().is_none() {
            for listener in &self.listeners {
                // Cannot fail: `listen` has added it.
                let _ = epoll::delete(&self.epoll, &listener.socket);
            }
        }
    }

    /// Watches all listening sockets.
    fn listen(&self) -> io::Result<()> {
        for (index, listener) in self.listeners.iter().enumerate() {
            sys::report_arrival(&listener.socket, listener.address.is_ipv6())?;
            let data = epoll::EventData::new_u64(LISTENER | index as u64);
            epoll::add(&self.epoll, &listener.socket, data, epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    /// Executes commands; true: the worker ends.
    fn obey(&mut self) -> io::Result<bool> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Configure(config, added, done)) => {
                    self.configure(config, added)?;
                    // An error means that the service is ending.
                    let _ = done.send(());
                }
                Ok(Command::Drain) => self.drain()?,
                Ok(Command::Abort) => {
                    for key in self.connections.keys() {
                        self.end(key, &Outcome::aborted("the service was stopped"));
                    }
                    self.gauge();
                    return Ok(true);
                }
                Err(TryRecvError::Empty) => {
                    return Ok(self.is_draining && self.connections.len() == 0 && self.redials.is_empty())
                }
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
    }

    fn configure(&mut self, config: Arc<Config>, added: Vec<Listener>) -> io::Result<()> {
        self.unlisten();
        self.listeners.retain(|listener| {
            let is_forward = config.forwards.iter().any(|forward| forward.listen == listener.address);
            let is_port = config.transparent.as_ref().is_some_and(|one| one.port == listener.address.port());
            if listener.is_transparent {
                is_port
            } else {
                is_forward
            }
        });
        self.listeners.extend(added);
        self.memory.allow(share(&config), config.splice);
        self.config = config;
        for key in self.connections.keys() {
            self.switch(key);
        }
        self.listen()
    }

    /// Gives an open connection the congestion controls that its rule now names.
    fn switch(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(rule) = self.config.rules.iter().find(|rule| rule.name == connection.account.rule.name) else {
            return;
        };
        for (side, before, leg) in [
            (Side::Client, &connection.account.rule.client, &rule.client),
            (Side::Server, &connection.account.rule.server, &rule.server),
        ] {
            let is_other = leg.congestion != before.congestion && !leg.congestion.is_empty();
            if is_other && !switch_congestion(leg, connection.sockets.of(side)) {
                self.shared.log.once(format!(
                    "leg {}: no congestion control {}",
                    leg.name,
                    leg.congestion.join(" or ")
                ));
            }
        }
        connection.account.rule = rule.clone();
    }

    /// Accepts waiting connections, then listens only for intercepted connections whose handshake has begun: the rules send it no
    /// new ones.
    fn drain(&mut self) -> io::Result<()> {
        for index in 0..self.listeners.len() {
            self.accept(index);
        }
        self.unlisten();
        self.listeners.retain(|listener| listener.is_transparent);
        self.is_draining = true;
        self.listen()
    }

    fn gauge(&mut self) {
        let used = self.memory.used();
        self.shared.stats.held.change(&mut self.gauged, used);
    }
}

/// A worker's share of the memory.
fn share(config: &Config) -> usize {
    config.limits.held.as_u64() as usize / config.workers
}

/// Whether a resource of the system is exhausted, so that accepting again at once is useless.
fn is_exhausted(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
}

/// Whether a connection between the same addresses and ports still exists.
fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
}

/// Event data of the wake descriptor, and the bit of listening sockets, which no [`Key`] has.
const WAKE: u64 = u64::MAX;
const LISTENER: u64 = 1 << 63;
/// Events that are fetched at a time.
const EVENTS: usize = 256;
/// Connections accepted per turn.
const ACCEPTED_AT_ONCE: usize = 64;
/// Bytes of a direction per turn.
const BUDGET: usize = 512 << 10;
/// Time without listening at a limit.
const PAUSE: Time = Time::from_millis(20);
/// Time to the second attempt of a client that reuses its port; it doubles up to [`LAST_PAUSE`].
const FIRST_PAUSE: Time = Time::from_millis(2);
const LAST_PAUSE: Time = Time::from_millis(100);
/// Servers redialled per turn.
const REDIALLED_AT_ONCE: usize = 32;
