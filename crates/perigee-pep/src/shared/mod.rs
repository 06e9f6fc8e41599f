//! State shared by all workers of a service.

pub(crate) mod account;
mod carried;
pub(crate) mod counts;
pub(crate) mod handover;
mod line;
pub(crate) mod log;
pub(crate) mod permit;
pub(crate) mod records;
pub(crate) mod silence;
pub(crate) mod stats;
pub(crate) mod tap;
pub(crate) mod usage;
pub(crate) mod waits;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use perigee_units::Time;

use self::account::{Account, Legs, Outcome};
pub use self::carried::Carried;
use self::handover::{Accepted, Dialled, Left, TunnelOrder};
use self::log::{quoted, Caused, Log};
use self::permit::{Clients, Permit};
use self::records::Records;
use self::silence::Silence;
use self::stats::Stats;
use self::tap::{Crossing, ForLink, Tap};
use crate::config::{Config, Rule};
use crate::event_loop::{Command, Orders};
use crate::relay::Side;

/// Counters, log, and the connections of each client.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) stats: Arc<Stats>,
    pub(crate) log: Log,
    /// Connections at a time.
    most: AtomicUsize,
    pub(crate) clients: Clients,
    pub(crate) silence: Silence,
    /// List of the connections, if an observer needs it.
    watched: Option<Mutex<Vec<Carried>>>,
    /// Orders to the tunnel, for its clients.
    tunnel: OnceLock<Arc<Orders<TunnelOrder>>>,
    /// Messages to the thread that divides the link, if there is one.
    link: OnceLock<Sender<ForLink>>,
    /// The lines of accounting, if they are kept.
    pub(crate) records: Option<Records>,
    /// Servers that have answered before their clients' handshakes, by client and server.
    dialled: Mutex<HashMap<[SocketAddr; 2], Dialled>>,
    /// Clients that wait for their server, while no thread has them.
    left: Mutex<Vec<Left>>,
}

impl Shared {
    pub(crate) fn new(stats: Arc<Stats>, log: Log, connections: usize) -> Self {
        Self {
            clients: Clients::new(stats.clone()),
            silence: Silence::default(),
            stats,
            log,
            most: AtomicUsize::new(connections),
            watched: None,
            tunnel: OnceLock::new(),
            link: OnceLock::new(),
            records: None,
            dialled: Mutex::default(),
            left: Mutex::default(),
        }
    }

    /// Keeps lines of accounting.
    pub(crate) fn with_records(self, records: Option<Records>) -> Self {
        Self { records, ..self }
    }

    /// Keeps a list of the connections.
    pub(crate) fn watched(self) -> Self {
        Self { watched: Some(Mutex::default()), ..self }
    }

    /// Counts and logs a refused client.
    pub(crate) fn refuse(&self, words: &str) {
        self.stats.refused.add(1);
        self.log.limited(Caused::ByClients, format!("refused {words}"));
    }

    /// Counts and logs a client that is refused its server.
    pub(crate) fn refuse_client(&self, [client, server]: [SocketAddr; 2], reason: &str) {
        self.refuse(&format!("client={client} server={server} reason={}", quoted(reason)));
    }

    /// The account of a new connection, which holds its place until this is dropped.
    pub(crate) fn account(
        &self,
        config: &Config,
        ends: [SocketAddr; 2],
        rule: Arc<Rule>,
        began: Time,
        permit: Option<Permit>,
    ) -> Account {
        let counts = self.stats.usage.of(&rule.name, config.subscriber(ends[0].ip()));
        Account::open(ends, rule, counts, began, permit)
    }

    /// Counts, logs and tells the end of a connection.
    pub(crate) fn close(&self, account: &Account, outcome: &Outcome, legs: Legs<'_>, now: Time) {
        account.end(outcome, legs);
        self.log.line(account.line(outcome, legs, now));
        if let Some(records) = &self.records {
            records.connection(&self.stats, || account.record(outcome, legs, now));
        }
    }

    /// Adds the tunnel.
    pub(crate) fn connect_tunnel(&self, orders: Arc<Orders<TunnelOrder>>) {
        // There is one tunnel, which the service starts once.
        let _ = self.tunnel.set(orders);
    }

    pub(crate) fn connect_link(&self, messages: Sender<ForLink>) {
        // There is one thread at most.
        let _ = self.link.set(messages);
    }

    /// The link's view of a connection; `None` if it crosses no link that is divided.
    pub(crate) fn tap(&self, config: &Config, account: &Account, sockets: Weak<[OwnedFd; 2]>) -> Option<Arc<Tap>> {
        let (link, messages) = config.link.as_ref().zip(self.link.get())?;
        let legs = [(Side::Client, &account.rule.client), (Side::Server, &account.rule.server)];
        let (side, leg) = legs.into_iter().find(|(_, leg)| leg.name == link.leg)?;
        let headers = if account.ends[side as usize].ip().to_canonical().is_ipv6() { 60 } else { 40 };
        let crossing = Crossing { leg: side, client: account.ends[0].ip(), headers, unsent: leg.unsent };
        Some(Arc::new(Tap::new(sockets, crossing, messages.clone())))
    }

    /// Hands a client over to the tunnel. Configurations with rules for a missing tunnel are refused.
    pub(crate) fn carry(&self, accepted: Accepted) {
        if let Some(tunnel) = self.tunnel.get() {
            tunnel.give(Command::Do(TunnelOrder::Carry(accepted)));
        }
    }

    /// Keeps a server that has answered for the worker that accepts its client.
    pub(crate) fn keep_dialled(&self, ends: [SocketAddr; 2], dialled: Dialled) {
        self.dialled.lock().unwrap_or_else(PoisonError::into_inner).insert(ends, dialled);
    }

    /// Whether an answered server still waits for its client.
    pub(crate) fn has_dialled(&self, ends: [SocketAddr; 2]) -> bool {
        self.dialled.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&ends)
    }

    /// Takes the answered server of a client, if any.
    pub(crate) fn take_dialled(&self, ends: [SocketAddr; 2]) -> Option<Dialled> {
        self.dialled.lock().unwrap_or_else(PoisonError::into_inner).remove(&ends)
    }

    /// Leaves clients that wait to the next thread.
    pub(crate) fn leave(&self, left: Vec<Left>) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = left;
    }

    /// Takes the clients that a thread has left.
    pub(crate) fn take_left(&self) -> Vec<Left> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a connection to the list.
    pub(crate) fn watch(&self, connection: impl FnOnce() -> Carried) {
        if let Some(watched) = &self.watched {
            let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.retain(Carried::is_open);
            watched.push(connection());
        }
    }

    /// The open connections, if they are listed.
    pub(crate) fn carried(&self) -> Vec<Carried> {
        let watched = self.watched.as_ref().map(|watched| watched.lock().unwrap_or_else(PoisonError::into_inner));
        watched.map_or_else(Vec::new, |watched| watched.iter().filter(|one| one.is_open()).cloned().collect())
    }

    /// Maximum number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Changes [`Shared::connections`].
    pub(crate) fn allow(&self, connections: usize) {
        self.most.store(connections, Ordering::Relaxed);
    }
}
