//! A thread that carries connections: it accepts clients, dials their servers, and relays between them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::Arc;

use perigee_units::Time;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use rustix::net::{acceptfrom_with, getsockname, SocketFlags};

use super::listener::Listener;
use super::own::OwnAddresses;
use crate::config::{AtLimit, Config, Request, Rule};
use crate::error::ServiceError;
use crate::event_loop::{EventLoop, Handler, Key, Readiness, Task, Thread, Turn};
use crate::host::sys;
use crate::legs::carrier::Memory;
use crate::legs::connection::SplitConnection;
use crate::legs::socket::{configure, dial, is_exhausted, reset_on_close, switch_congestion};
use crate::relay::Side;
use crate::shared::account::{in_words, Outcome};
use crate::shared::counts::End;
use crate::shared::handover::{Accepted, Dialled};
use crate::shared::log::quoted;
use crate::shared::{Carried, Shared};

/// Orders for a worker.
#[derive(Debug)]
pub(crate) enum Order {
    Configure(Configuration),
    /// Accepts no clients until [`Order::Resume`]; the sender gets an answer.
    Rest(Sender<()>),
    /// Accepts clients again.
    Resume,
}

/// A new configuration for a thread.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) config: Arc<Config>,
    /// The listening sockets that it adds; those of removed addresses are closed.
    pub(crate) added: Vec<Listener>,
    /// Gets an answer once it applies to the next client.
    pub(crate) done: Sender<()>,
}

/// A client whose server cannot be dialled yet: it reuses its port while the older leg has not ended, or a resource is exhausted.
struct Redial {
    accepted: Accepted,
    /// The address that the server sees.
    seen: Option<SocketAddr>,
    dscp: u8,
    began: Time,
    /// When the server is dialled next.
    due: Time,
    pause: Time,
}

/// The state of the thread.
pub(crate) struct Worker {
    event_loop: EventLoop<SplitConnection, Order>,
    shared: Arc<Shared>,
    config: Arc<Config>,
    listeners: Vec<Listener>,
    redials: Vec<Redial>,
    own: OwnAddresses,
    memory: Memory,
    /// Its bytes in the gauge of all workers.
    gauged: usize,
    /// When listening resumes after a limit was reached.
    paused: Option<Time>,
    /// Whether another process accepts clients, or is about to.
    is_resting: bool,
}

impl Worker {
    /// Starts a worker with these listening sockets, in the network namespace of the calling thread.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        config: &Arc<Config>,
        listeners: Vec<Listener>,
    ) -> Result<Thread<Order>, ServiceError> {
        let (shared, config) = (shared.clone(), config.clone());
        let memory = Memory::new(share(&config), config.splice);
        let make = |event_loop| {
            let (redials, own) = (Vec::new(), OwnAddresses::default());
            let (gauged, paused, is_resting) = (0, None, false);
            let worker =
                Self { event_loop, shared, config, listeners, redials, own, memory, gauged, paused, is_resting };
            worker.listen()?;
            Ok(worker)
        };
        Thread::start::<Self>("pep-worker", make).map_err(ServiceError::system("event loop"))
    }

    /// Adds a connection.
    fn add(&mut self, mut connection: SplitConnection) {
        connection.tap = self.shared.tap(&self.config, &connection.account, connection.sockets.watched());
        if let Some(tap) = &connection.tap {
            connection.sockets.put_on_link(tap.crossing.leg);
        }
        self.shared.watch(|| Carried::new(connection.account.ends, connection.sockets.watched()));
        let key = self.event_loop.insert(connection);
        self.begin(key);
    }

    /// Stops listening for [`PAUSE`]: connections wait in the queues of the sockets.
    fn pause(&mut self, reason: &str) {
        if self.paused.is_none() {
            self.shared.stats.paused.add(1);
            self.shared.log.once(format!("paused reason={}", quoted(reason)));
            self.unlisten();
        }
        self.paused = Some(self.event_loop.now() + PAUSE);
    }

    /// Stops watching the listening sockets.
    fn unlisten(&mut self) {
        if self.paused.take().is_none() {
            for listener in &self.listeners {
                self.event_loop.unwatch(&listener.socket);
            }
        }
    }

    /// Watches all listening sockets.
    fn listen(&self) -> io::Result<()> {
        for (index, listener) in self.listeners.iter().enumerate() {
            sys::report_arrival(&listener.socket, listener.address.is_ipv6())?;
            self.event_loop.watch(&listener.socket, index as u64, EventFlags::IN)?;
        }
        Ok(())
    }

    /// Gives an open connection the congestion controls that its rule now names.
    fn switch(&mut self, key: Key) {
        let Some(connection) = self.event_loop.get_mut(key) else { return };
        let is_its = |rule: &&Arc<Rule>| rule.name == connection.account.rule.name;
        let Some(rule) = self.config.rules.iter().find(is_its) else { return };
        for (side, before, leg) in [
            (Side::Client, &connection.account.rule.client, &rule.client),
            (Side::Server, &connection.account.rule.server, &rule.server),
        ] {
            let is_other = leg.congestion != before.congestion && !leg.congestion.is_empty();
            if is_other && !switch_congestion(leg, connection.sockets.of(side)) {
                let names = leg.congestion.join(" or ");
                self.shared.log.once(format!("leg {}: no congestion control {names}", leg.name));
            }
        }
        connection.account.rule = rule.clone();
    }

    /// Accepts connections that wait at a listening socket.
    fn accept(&mut self, index: usize) {
        let was_paused = self.paused.is_some();
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = self.listeners.get(index).filter(|_| !self.is_resting) else { return };
            let (address, is_transparent) = (listener.address, listener.is_transparent);
            let has_room = self.has_room();
            if !has_room && self.config.limits.at_limit != AtLimit::Refuse {
                self.pause("the limit of connections is reached");
                return;
            }
            let accepted = acceptfrom_with(&listener.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
            let (client, source) = match accepted {
                Ok((client, source)) => (client, source.and_then(|source| SocketAddr::try_from(source).ok())),
                Err(Errno::AGAIN) => return,
                // The client has gone, or a network error is pending: the next connection may succeed.
                Err(error) if !is_exhausted(&error.into()) => continue,
                Err(error) => {
                    self.pause(&format!("no more connections can be accepted: {error}"));
                    return;
                }
            };
            let Some(source) = source else { continue };
            let opened = if has_room {
                self.open(client, source, address, is_transparent)
            } else {
                Err("the limit of connections is reached".to_owned())
            };
            if let Err(reason) = opened {
                self.shared.refuse(&format!("client={source} listener={address} reason={}", quoted(reason)));
            }
            if self.paused.is_some() && !was_paused {
                return;
            }
        }
    }

    /// Whether the limit of connections allows another one. A client whose server has answered has its place already,
    /// and may be the next in the queue: those that wait do not count here.
    fn has_room(&self) -> bool {
        let stats = &self.shared.stats;
        stats.open.get().saturating_sub(stats.waiting.get()) < self.shared.connections() as u64
    }

    /// Serves an accepted client: its server has answered already, or is dialled, or the tunnel carries it. The error says why not.
    fn open(
        &mut self,
        client: OwnedFd,
        source: SocketAddr,
        address: SocketAddr,
        is_transparent: bool,
    ) -> Result<(), String> {
        let destination = self.destination(&client, address, is_transparent)?;
        let ends = [source, destination];
        if is_transparent
            && self.config.connects_first()
            && let Some(dialled) = self.shared.take_dialled(ends)
        {
            self.join(client, dialled, ends);
            return Ok(());
        }
        self.check(source, destination)?;
        let found = self.rule(&client, source, destination);
        let (rule, dscp) = found.map_err(|error| format!("its arrival is unknown: {error}"))?;
        let rule = rule.ok_or("no rule")?;
        let counted_as = self.config.allow.counted_as(source.ip());
        let permit = self.shared.clients.permit(counted_as, self.config.limits.per_client);
        let permit = permit.ok_or("the limit of connections of the client is reached")?;
        configure(&rule.client, &client, source.is_ipv6(), dscp, &self.shared.log);
        let accepted = Accepted { client, ends, rule, permit };
        if accepted.rule.is_tunnelled {
            self.shared.carry(accepted);
            return Ok(());
        }
        let seen = if is_transparent { self.config.seen(source) } else { None };
        let began = self.event_loop.now();
        match self.dial(&accepted.rule, seen, destination, dscp) {
            Ok(server) => self.connect(accepted, server, began),
            Err(error) if is_passing(&error, seen) => {
                if is_exhausted(&error) {
                    // The next client would take what this one's server needs.
                    self.pause(&format!("no more servers can be dialled: {error}"));
                }
                self.redials.push(Redial { accepted, seen, dscp, began, due: began, pause: FIRST_PAUSE });
            }
            Err(error) => return Err(format!("server {destination} {}: {error}", in_words(error.kind()))),
        }
        Ok(())
    }

    /// Adds the connection of a client whose server was dialled.
    fn connect(&mut self, accepted: Accepted, server: OwnedFd, began: Time) {
        let Accepted { client, ends, rule, permit } = accepted;
        let account = self.shared.account(&self.config, ends, rule, began, Some(permit));
        self.add(SplitConnection::new([client, server], account));
    }

    /// The server that a client asks for.
    fn destination(&self, client: &OwnedFd, address: SocketAddr, is_transparent: bool) -> Result<SocketAddr, String> {
        if is_transparent {
            let name = getsockname(client).map_err(|error| error.to_string())?;
            return SocketAddr::try_from(name).map_err(|error| error.to_string());
        }
        let forward = self.config.forwards.iter().find(|forward| forward.listen == address);
        Ok(forward.ok_or("it is no longer configured")?.target)
    }

    /// Serves a client whose server has answered already.
    fn join(&mut self, client: OwnedFd, dialled: Dialled, ends: [SocketAddr; 2]) {
        let Dialled { server, rule, place, dscp, times: [began, connected] } = dialled;
        let [source, _] = ends;
        let _ = sys::stop_reporting_arrival(&client, source.is_ipv6());
        configure(&rule.client, &client, source.is_ipv6(), dscp, &self.shared.log);
        let account = self.shared.account(&self.config, ends, rule, began, Some(place.claim()));
        self.add(SplitConnection::answered([client, server], account, connected));
    }

    /// Dials servers again, of clients that reuse their ports if the older connections have ended: at most [`REDIALLED_AT_ONCE`] per turn.
    fn redial(&mut self) {
        let now = self.event_loop.now();
        if self.redials.iter().all(|redial| redial.due > now) {
            return;
        }
        let all = std::mem::take(&mut self.redials).into_iter();
        let (mut due, mut later): (Vec<Redial>, Vec<Redial>) = all.partition(|redial| redial.due <= now);
        later.extend(due.drain(REDIALLED_AT_ONCE.min(due.len())..));
        self.redials = later;
        self.clear(&due.iter().map(|redial| (redial.accepted.ends, redial.began)).collect());
        for mut redial in due {
            let Accepted { ends: ends @ [_, destination], ref rule, .. } = redial.accepted;
            match self.dial(rule, redial.seen, destination, redial.dscp) {
                Ok(server) => self.connect(redial.accepted, server, redial.began),
                Err(error) if is_passing(&error, redial.seen) && now < redial.began + rule.connect_timeout => {
                    redial.due = now + redial.pause;
                    redial.pause = (redial.pause * 2).min(LAST_PAUSE);
                    self.redials.push(redial);
                }
                Err(error) => {
                    let reason = format!("server {destination} {}: {error}", in_words(error.kind()));
                    self.shared.refuse_client(ends, &reason);
                }
            }
        }
    }

    /// Ends the older connections between these addresses, whose clients are gone, as soon as none of their bytes can be lost: at
    /// once if all is acknowledged; if only the end of the stream is not, after the time for that since the client reused its port.
    fn clear(&mut self, ends: &HashMap<[SocketAddr; 2], Time>) {
        let now = self.event_loop.now();
        for key in self.event_loop.keys() {
            let Some(connection) = self.event_loop.get_mut(key) else { continue };
            let Some(began) = ends.get(&connection.account.ends) else { continue };
            self.turn(key);
            let Some(connection) = self.event_loop.get_mut(key) else { continue };
            if connection.awaits_last_acknowledgement().is_some_and(|patience| now >= *began + patience) {
                reset_on_close(connection.sockets.of(Side::Server));
                let reason = "complete; the client uses its port again".to_owned();
                self.end(key, &Outcome { end: End::Complete, reason });
            }
        }
    }

    /// Starts to connect to a server, which sees the address `seen`.
    fn dial(&self, rule: &Rule, seen: Option<SocketAddr>, destination: SocketAddr, dscp: u8) -> io::Result<OwnedFd> {
        dial(&rule.server, seen, destination, self.config.own_mark(), dscp, &self.shared.log)
    }

    /// Checks that the configuration allows the connection, and that it does not lead back here.
    fn check(&mut self, source: SocketAddr, destination: SocketAddr) -> Result<(), String> {
        let now = self.event_loop.now();
        let mut is_own = |address| self.own.contain(address, now);
        if let Some(reason) = self.config.allow.refusal(source.ip(), destination.ip(), &mut is_own) {
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

    fn gauge(&mut self) {
        self.shared.stats.held.change(&mut self.gauged, self.memory.used());
    }
}

impl Task for SplitConnection {
    fn sockets(&self) -> &[OwnedFd] {
        self.sockets.both()
    }
}

impl Handler for Worker {
    type Task = SplitConnection;
    type Order = Order;
    type Outcome = Outcome;

    fn event_loop(&mut self) -> &mut EventLoop<SplitConnection, Order> {
        &mut self.event_loop
    }

    fn on_source(&mut self, number: u64) {
        self.accept(number as usize);
    }

    fn on_event(&mut self, key: Key, socket: usize, event: Readiness) -> Result<(), Outcome> {
        let now = self.event_loop.now();
        let Some(connection) = self.event_loop.get_mut(key) else { return Ok(()) };
        connection.on_event([Side::Client, Side::Server][socket], event, now)
    }

    /// Moves at most [`BUDGET`] bytes in each direction.
    fn advance(&mut self, key: Key) -> Result<Turn, Outcome> {
        let now = self.event_loop.now();
        let Some(connection) = self.event_loop.get_mut(key) else { return Ok(Turn::Wait(None)) };
        connection.advance(&mut self.memory, BUDGET, now)
    }

    fn end(&mut self, key: Key, outcome: &Outcome) {
        let Some(mut connection) = self.event_loop.remove(key) else { return };
        connection.sockets.release(&mut self.memory);
        let (now, account) = (self.event_loop.now(), &connection.account);
        let has_timed_out = connection.relay.failure(Side::Server) == Some(io::ErrorKind::TimedOut);
        let is_late = now >= account.began + account.rule.connect_timeout;
        if outcome.end == End::Unreached && (is_late || has_timed_out) {
            self.shared.silence.on_silence(account.ends);
        }
        connection.close(outcome, &self.shared, now);
    }

    fn obey(&mut self, order: Order) -> io::Result<()> {
        let Configuration { config, added, done } = match order {
            Order::Configure(configuration) => configuration,
            Order::Rest(done) => {
                self.unlisten();
                self.is_resting = true;
                let _ = done.send(());
                return Ok(());
            }
            Order::Resume => {
                self.is_resting = false;
                return self.listen();
            }
        };
        self.unlisten();
        self.listeners.retain(|listener| listener.is_of(&config));
        self.listeners.extend(added);
        self.memory.allow(share(&config), config.splice);
        self.config = config;
        for key in self.event_loop.keys() {
            self.switch(key);
        }
        self.listen()?;
        // An error means that the service is ending.
        let _ = done.send(());
        Ok(())
    }

    /// Accepts waiting connections, then listens only for intercepted connections whose handshake has begun: the rules send it no
    /// new ones. Where another process accepts, it listens for none.
    fn drain(&mut self) -> io::Result<()> {
        for index in 0..self.listeners.len() {
            self.accept(index);
        }
        self.unlisten();
        self.listeners.retain(|listener| listener.is_transparent && !self.is_resting);
        self.listen()
    }

    fn is_idle(&self) -> bool {
        self.redials.is_empty()
    }

    fn next(&mut self) -> Option<Time> {
        self.redials.iter().map(|redial| redial.due).chain(self.paused).min()
    }

    fn after_turns(&mut self) -> io::Result<()> {
        self.redial();
        self.gauge();
        if self.paused.is_some_and(|until| until <= self.event_loop.now()) {
            self.paused = None;
            self.listen()?;
        }
        Ok(())
    }

    fn close(&mut self, _done: &io::Result<()>) {
        for key in self.event_loop.keys() {
            self.end(key, &Outcome::aborted("the service was stopped"));
        }
        self.gauge();
    }
}

/// A worker's share of the memory.
fn share(config: &Config) -> usize {
    config.limits.held.as_u64() as usize / config.workers
}

/// Whether a server may be dialled later: a connection between the same addresses and ports still exists, or a resource is exhausted.
fn is_passing(error: &io::Error, seen: Option<SocketAddr>) -> bool {
    is_exhausted(error) || (seen.is_some() && error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// Bytes of a direction per turn.
const BUDGET: usize = 512 << 10;
/// Time without listening at a limit.
const PAUSE: Time = Time::from_millis(20);
/// Connections accepted per turn.
const ACCEPTED_AT_ONCE: usize = 64;
/// Time to the second attempt of a client that reuses its port; it doubles up to [`LAST_PAUSE`].
const FIRST_PAUSE: Time = Time::from_millis(2);
const LAST_PAUSE: Time = Time::from_millis(100);
/// Servers redialled per turn.
const REDIALLED_AT_ONCE: usize = 32;
