//! A thread that carries connections: its listening sockets, and the connections that it has accepted.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::Arc;

use perigee_units::Time;
use rustix::event::epoll::EventFlags;

use super::accept::Redial;
use super::listener::Listener;
use crate::config::{Config, Rule};
use crate::error::ServiceError;
use crate::event_loop::{EventLoop, Handler, Key, Readiness, Task, Thread, Turn};
use crate::host::sys;
use crate::legs::carrier::Memory;
use crate::legs::connection::SplitConnection;
use crate::legs::socket::switch_congestion;
use crate::relay::Side;
use crate::shared::account::Outcome;
use crate::shared::{Carried, Shared};

/// A new configuration for a thread.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) config: Arc<Config>,
    /// The listening sockets that it adds; those of removed addresses are closed.
    pub(crate) added: Vec<Listener>,
    /// Gets an answer once it applies to the next client.
    pub(crate) done: Sender<()>,
}

/// The state of the thread.
pub(crate) struct Worker {
    pub(super) event_loop: EventLoop<SplitConnection, Configuration>,
    pub(super) shared: Arc<Shared>,
    pub(super) config: Arc<Config>,
    pub(super) listeners: Vec<Listener>,
    pub(super) redials: Vec<Redial>,
    memory: Memory,
    /// Its bytes in the gauge of all workers.
    gauged: usize,
    /// When listening resumes after a limit was reached.
    paused: Option<Time>,
}

impl Worker {
    /// Starts a worker with these listening sockets, in the network namespace of the calling thread.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        config: &Arc<Config>,
        listeners: Vec<Listener>,
    ) -> Result<Thread<Configuration>, ServiceError> {
        let (shared, config) = (shared.clone(), config.clone());
        let memory = Memory::new(share(&config), config.splice);
        let make = |event_loop| {
            let redials = Vec::new();
            let worker = Self { event_loop, shared, config, listeners, redials, memory, gauged: 0, paused: None };
            worker.listen()?;
            Ok(worker)
        };
        Thread::start::<Self>("pep-worker", make).map_err(ServiceError::system("event loop"))
    }

    /// Adds a connection.
    pub(super) fn add(&mut self, connection: SplitConnection) {
        self.shared.watch(|| Carried::new(connection.account.ends, connection.sockets.watched()));
        let key = self.event_loop.insert(connection);
        self.begin(key);
    }

    /// Stops listening for [`PAUSE`]: connections wait in the queues of the sockets.
    pub(super) fn pause(&mut self, reason: &str) {
        if self.paused.is_none() {
            self.shared.stats.paused.add(1);
            self.shared.log.once(format!("paused reason=\"{reason}\""));
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
    type Order = Configuration;
    type Outcome = Outcome;

    fn event_loop(&mut self) -> &mut EventLoop<SplitConnection, Configuration> {
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
        self.shared.log.line(connection.close(outcome, self.event_loop.now()));
    }

    fn obey(&mut self, order: Configuration) -> io::Result<()> {
        let Configuration { config, added, done } = order;
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
    /// new ones.
    fn drain(&mut self) -> io::Result<()> {
        for index in 0..self.listeners.len() {
            self.accept(index);
        }
        self.unlisten();
        self.listeners.retain(|listener| listener.is_transparent);
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

/// Bytes of a direction per turn.
const BUDGET: usize = 512 << 10;
/// Time without listening at a limit.
const PAUSE: Time = Time::from_millis(20);
