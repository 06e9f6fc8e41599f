//! The browser: its page loads, connections and measurements.

use std::collections::{BTreeMap, VecDeque};

use perigee_results::{ExchangeRow, FlowId, PageRow, Tables};
use perigee_units::{Stream, Time};

use super::connection::BrowserConnection;
use super::kind::{Http, Pages};
use super::page::{Asked, Object};
use crate::populations::source::Visit;

/// A browser with its connections.
#[derive(Debug)]
pub(super) struct Browser {
    pub(super) pages: Pages,
    random: Stream,
    end: Time,
    /// Loads that begin earlier are not written.
    warm: Time,
    /// When the next load begins, if none is in progress.
    next_load: Time,
    load: Option<Load>,
    connections: BTreeMap<u32, BrowserConnection>,
    /// Servers that need a connection, each since an instant.
    to_open: VecDeque<(Time, u32)>,
    /// Connections that have work because of others.
    woken: VecDeque<u32>,
    opened: u32,
    loads: Vec<LoadRecord>,
    requests: Vec<Requested>,
}

/// The page being loaded.
#[derive(Debug)]
struct Load {
    number: u32,
    objects: Vec<Object>,
    /// For each server: known objects that are not requested yet.
    known: Vec<VecDeque<u32>>,
    /// Number of objects that have not arrived.
    left: usize,
    /// Number of failed connections.
    failures: u32,
}

/// Measurements of a load.
#[derive(Clone, Copy, Debug)]
struct LoadRecord {
    began: Time,
    objects: u32,
    bytes: u64,
    arrived: u32,
    connections: u32,
    document: Option<Time>,
    all: Option<Time>,
}

/// A request for an object.
#[derive(Clone, Copy, Debug)]
struct Requested {
    at: Time,
    bytes: u64,
    answered: Option<Time>,
}

impl Browser {
    pub(super) fn new(pages: Pages, [start, end]: [Time; 2], warm: Time, random: Stream) -> Self {
        Self {
            pages,
            random,
            end,
            warm,
            next_load: start,
            load: None,
            connections: BTreeMap::new(),
            to_open: VecDeque::new(),
            woken: VecDeque::new(),
            opened: 0,
            loads: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// When the next connection is due to be opened; [`Time::MAX`] if none is known.
    pub(super) fn next_at(&self) -> Time {
        let at = match (self.to_open.front(), &self.load) {
            (Some((since, _)), _) => *since,
            (None, Some(_)) => Time::MAX,
            (None, None) => self.next_load,
        };
        if at < self.end {
            at
        } else {
            Time::MAX
        }
    }

    /// The next connection that is due now.
    pub(super) fn open(&mut self, now: Time) -> Option<Visit> {
        if self.next_at() > now {
            return None;
        }
        if self.load.is_none() {
            self.begin(now);
        }
        let (_, server) = self.to_open.pop_front()?;
        let load = self.load.as_ref()?;
        let number = self.opened;
        self.opened += 1;
        if let Some(record) = self.loads.last_mut() {
            record.connections += 1;
        }
        self.connections.insert(number, BrowserConnection::new(load.number, server, self.pages.tls));
        // Its content is decided while it is open.
        Some(Visit { number, at: now, request: 0, response: u64::MAX, service: Time::ZERO, access: 0 })
    }

    /// Starts a load.
    fn begin(&mut self, now: Time) {
        let objects = self.pages.page.objects(self.pages.rounds, &mut self.random);
        let servers = objects.iter().map(|object| object.server as usize + 1).max().unwrap_or(1);
        self.loads.push(LoadRecord {
            began: now,
            objects: objects.len() as u32,
            bytes: objects.iter().map(|object| object.bytes).sum(),
            arrived: 0,
            connections: 0,
            document: None,
            all: None,
        });
        let left = objects.len();
        let mut known = vec![VecDeque::new(); servers];
        known[0].push_back(0);
        self.load = Some(Load { number: self.loads.len() as u32 - 1, objects, known, left, failures: 0 });
        self.provide(now, 0);
    }

    /// Wakes and opens connections for known objects of a server.
    fn provide(&mut self, now: Time, server: u32) {
        let Some(load) = &self.load else { return };
        let waiting = load.known[server as usize].len();
        let here = |connection: &&BrowserConnection| connection.is_of(load.number, server);
        let open = self.connections.values().filter(here).count();
        let opening = self.to_open.iter().filter(|(_, to)| *to == server).count();
        let idle: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| here(connection) && connection.takes(self.pages.http))
            .map(|(number, _)| *number)
            .collect();
        let starting = self.connections.values().filter(|one| here(one) && one.is_starting()).count() + opening;
        let (most, served) = match self.pages.http {
            Http::OneAtATime => (CONNECTIONS_PER_SERVER, idle.len() + starting),
            // One connection takes all objects.
            Http::Multiplexed | Http::Streams => {
                (1, if open + opening > 0 { waiting } else { waiting.saturating_sub(1) })
            }
        };
        let more = waiting.saturating_sub(served).min(most.saturating_sub(open + opening));
        self.to_open.extend(std::iter::repeat_n((now, server), more));
        self.woken.extend(idle);
    }

    /// The next connection that has work because of others.
    pub(super) fn woken(&mut self) -> Option<u32> {
        self.woken.pop_front()
    }

    /// The connection with this number.
    pub(super) fn connection(&mut self, number: u32) -> Option<&mut BrowserConnection> {
        self.connections.get_mut(&number)
    }

    /// Whether the load of a connection is still in progress.
    pub(super) fn goes_on(&self, load: u32) -> bool {
        self.load.as_ref().is_some_and(|current| current.number == load)
    }

    /// The next object for a free connection.
    pub(super) fn ask(&mut self, now: Time, server: u32) -> Option<Asked> {
        let load = self.load.as_mut()?;
        let object = load.known[server as usize].pop_front()?;
        let bytes = load.objects[object as usize].bytes;
        self.requests.push(Requested { at: now, bytes, answered: None });
        Some(Asked { object, bytes, request: self.requests.len() as u32 - 1 })
    }

    /// Handles a complete object of the current load.
    pub(super) fn arrived(&mut self, now: Time, asked: Asked) {
        self.requests[asked.request as usize].answered = Some(now);
        let Some(load) = &mut self.load else { return };
        let Some(record) = self.loads.last_mut() else { return };
        record.arrived += 1;
        if asked.object == 0 {
            record.document = Some(now);
        }
        load.left -= 1;
        let mut servers = Vec::new();
        for name in std::mem::take(&mut load.objects[asked.object as usize].names) {
            let server = load.objects[name as usize].server;
            load.known[server as usize].push_back(name);
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        if load.left == 0 {
            record.all = Some(now);
            return self.stop(now);
        }
        for server in servers {
            self.provide(now, server);
        }
    }

    /// Handles a closed or failed connection: its objects are requested again, unless too many connections have failed.
    pub(super) fn ended(&mut self, now: Time, number: u32) {
        let Some(gone) = self.connections.remove(&number) else { return };
        let Some(load) = self.load.as_mut().filter(|load| load.number == gone.load) else { return };
        load.failures += 1;
        if load.failures > MOST_FAILURES {
            return self.stop(now);
        }
        let known = &mut load.known[gone.server as usize];
        gone.unanswered().rev().for_each(|asked| known.push_front(asked.object));
        self.provide(now, gone.server);
    }

    /// Ends the load.
    fn stop(&mut self, now: Time) {
        self.load = None;
        self.to_open.clear();
        self.next_load = now + self.pages.pause;
        self.woken = self.connections.keys().copied().collect();
    }

    /// Adds a row for each load, and one for each request.
    pub(super) fn write(&self, id: FlowId<'_>, tables: &mut Tables) {
        let loads = (0u32..).zip(&self.loads).filter(|(_, load)| load.began >= self.warm);
        for (number, load) in loads {
            let since = |at: Time| (at - load.began).as_millis_f64();
            tables.pages.push(PageRow {
                run: id.run,
                flow: id.flow.clone(),
                number,
                start_s: load.began.as_secs_f64(),
                objects: load.objects,
                arrived_objects: load.arrived,
                bytes: load.bytes,
                connections: load.connections,
                document_ms: load.document.map(since),
                load_ms: load.all.map(since),
            });
        }
        for (number, request) in (0u32..).zip(&self.requests) {
            tables.exchanges.push(ExchangeRow {
                run: id.run,
                flow: id.flow.clone(),
                number,
                start_s: request.at.as_secs_f64(),
                request_bytes: self.pages.request.as_u64(),
                response_bytes: request.bytes,
                duration_ms: request.answered.map(|at| (at - request.at).as_millis_f64()),
            });
        }
    }
}

/// Failed connections after which a browser gives up a load, assumed.
const MOST_FAILURES: u32 = 20;
/// Limit with HTTP/1.1, as in Chromium and Firefox.
const CONNECTIONS_PER_SERVER: usize = 6;
