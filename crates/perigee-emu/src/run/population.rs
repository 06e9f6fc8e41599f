//! The sockets of a population: one thread opens, serves and closes all its connections.
//!
//! A connection has a place, which determines its ports (`perigee_wire::Ports`). Places are used in turn, so that a port is reused
//! as late as possible.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::Arc;

use perigee_results::Name;
use perigee_traffic::{End, Visit, Visits};
use perigee_units::Time;
use perigee_wire::Ports;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{connect, listen};

use crate::os::clock::{timespec, wake_precisely, RunClock};
use crate::run::access::AccessLevels;
use crate::run::population_report::PopulationReport;
use crate::run::sockets::{tcp_socket, FlowEnd, SocketOptions, PRIORITY};
use crate::run::tcp_report::outcome_of;
use crate::run::transaction::{Step, TransactionSockets};

/// The application of a population.
pub(crate) struct PopulationSockets<'a> {
    /// Number and name of its flow.
    flow: (u32, Name),
    start: Time,
    end: Time,
    visits: Visits,
    listener: TcpListener,
    server: SocketAddr,
    /// The users' node.
    users: FlowEnd<'a>,
    options: SocketOptions<'a>,
    levels: Arc<AccessLevels>,
    reports: Sender<PopulationReport>,
}

impl<'a> PopulationSockets<'a> {
    /// A population of this flow from `start` to `end`, with the place of its servers and that of its users.
    pub(crate) fn new(
        flow: (u32, Name),
        [server, users]: [FlowEnd<'a>; 2],
        (start, end, visits): (Time, Time, Visits),
        options: SocketOptions<'a>,
        (levels, reports): (Arc<AccessLevels>, Sender<PopulationReport>),
    ) -> io::Result<Self> {
        let listener = server.node.enter(|| {
            // Many connections open at once over a long round trip.
            fs::write("/proc/sys/net/core/somaxconn", Ports::DISTINCT.to_string())?;
            let socket = tcp_socket(server.address.ip(), options)?;
            server.bind(&socket)?;
            listen(&socket, Ports::DISTINCT as i32)?;
            Ok(TcpListener::from(socket))
        })?;
        Ok(Self { flow, start, end, visits, listener, server: server.address, users, options, levels, reports })
    }

    /// Opens and serves connections until the flow is over or stopped.
    pub(crate) fn carry(self, clock: RunClock, stop: &AtomicBool) -> io::Result<()> {
        if !clock.sleep_until(self.start, stop) {
            return Ok(());
        }
        // New sockets belong to the namespace of this thread.
        self.users.node.join()?;
        wake_precisely(PRIORITY);
        let name = self.flow.1.clone();
        EventLoop::new(self)?.run(clock, stop).map_err(|error| shortage(&name, &error))
    }
}

/// The open connections and their timers.
struct EventLoop<'a> {
    population: PopulationSockets<'a>,
    epoll: OwnedFd,
    /// The open connections, indexed by place.
    connections: Vec<Option<Box<TransactionSockets>>>,
    /// Free places, the least recently used first.
    free: VecDeque<u32>,
    /// Servers that compute an answer until an instant, by place and number.
    working: BinaryHeap<Reverse<(Time, u32, u32)>>,
    buffer: Vec<u8>,
}

impl<'a> EventLoop<'a> {
    fn new(population: PopulationSockets<'a>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &population.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self {
            population,
            epoll,
            connections: (0..Ports::DISTINCT).map(|_| None).collect(),
            free: (0..Ports::DISTINCT).collect(),
            working: BinaryHeap::new(),
            buffer: vec![0; BUFFER],
        })
    }

    fn run(&mut self, clock: RunClock, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        while !stop.load(Ordering::Relaxed) {
            let now = clock.now();
            self.react(now, clock)?;
            while let Some((place, number)) = self.next_answer(now) {
                let is_same = |open: &TransactionSockets| open.number == number;
                if self.connections[place as usize].as_deref().is_some_and(is_same) {
                    self.attend(place, End::From, clock)?;
                }
            }
            let opens = self.population.visits.next_at();
            if now >= self.population.end && opens == Time::MAX {
                for (place, open) in (0..).zip(&self.connections) {
                    if let Some(open) = open {
                        self.tell_timeouts(place, open);
                    }
                }
                self.tell(PopulationReport::Over);
                return Ok(());
            }
            let working = self.working.peek().map_or(Time::MAX, |working| working.0 .0);
            let opens = if opens == Time::MAX { self.population.end } else { opens };
            self.wait(&mut events, opens.min(working).min(now + LOOK).checked_sub(clock.now()).unwrap_or_default())?;
            for event in events.drain(..) {
                self.on_event(event, clock)?;
            }
        }
        Ok(())
    }

    /// Opens due connections, and advances those that others have woken.
    fn react(&mut self, now: Time, clock: RunClock) -> io::Result<()> {
        loop {
            if let Some(visit) = self.population.visits.open(now) {
                self.open(&visit, clock)?;
            } else if let Some(woken) = self.population.visits.woken() {
                let is_woken = |open: &Option<Box<_>>| {
                    open.as_deref().is_some_and(|open: &TransactionSockets| open.number == woken)
                };
                if let Some(place) = self.connections.iter().position(is_woken) {
                    self.attend(place as u32, End::To, clock)?;
                }
            } else {
                return Ok(());
            }
        }
    }

    /// The next connection whose server has finished its answer.
    fn next_answer(&mut self, now: Time) -> Option<(u32, u32)> {
        let due = self.working.peek_mut().filter(|working| working.0 .0 <= now)?;
        let Reverse((_, place, number)) = PeekMut::pop(due);
        Some((place, number))
    }

    /// Waits for sockets, for at most `longest`.
    fn wait(&self, events: &mut Vec<epoll::Event>, longest: Time) -> io::Result<()> {
        // epoll_wait(2) counts in milliseconds.
        match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timespec(longest))) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            done => done?,
        };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn on_event(&mut self, event: epoll::Event, clock: RunClock) -> io::Result<()> {
        let data = event.data.u64();
        if data == LISTENER {
            return self.accept(clock);
        }
        let end = if data % 2 == End::From as u64 { End::From } else { End::To };
        self.attend((data / 2) as u32, end, clock)
    }

    /// Opens the connection of a user.
    fn open(&mut self, visit: &Visit, clock: RunClock) -> io::Result<()> {
        let Some(place) = self.free.pop_front() else {
            let places = Ports::DISTINCT;
            return Err(io::Error::other(format!(
                "{places} connections are open, and there are no more ports; let it open fewer"
            )));
        };
        let population = &self.population;
        let user = tcp_socket(self.population.server.ip(), population.options)?;
        let address = SocketAddr::new(population.users.address.ip(), self.ports(place).client);
        FlowEnd { address, ..population.users }.bind(&user)?;
        population.levels.set(place, visit.access);
        let at = clock.now();
        self.tell(PopulationReport::Opened { at, place, visit: *visit });
        let connected = match connect(&user, &population.server) {
            Ok(()) | Err(Errno::INPROGRESS) => self.watch(&user, place, End::To),
            Err(error) => Err(error.into()),
        };
        let script = population.visits.script(visit, at);
        self.connections[place as usize] = Some(Box::new(TransactionSockets::new(visit.number, script, user)));
        self.check(place, connected, clock)
    }

    /// Accepts connections at the servers.
    fn accept(&mut self, clock: RunClock) -> io::Result<()> {
        loop {
            let (stream, user) = match self.population.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The connection is gone already.
                Err(error) if outcome_of(&error).is_some() || error.kind() == io::ErrorKind::ConnectionAborted => {
                    continue
                }
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            let server = OwnedFd::from(stream);
            let Some(place) = self.place_of(user.port()) else { continue };
            // The user may have given up, and another one may have come.
            let open = self.connections[place as usize].as_deref_mut();
            if let Some(open) = open.filter(|open| open.server().is_none()) {
                let watched = watch(&self.epoll, &server, place, End::From);
                open.accepted(server);
                watched?;
                self.attend(place, End::From, clock)?;
            }
        }
    }

    /// Advances one end of a connection.
    fn attend(&mut self, place: u32, end: End, clock: RunClock) -> io::Result<()> {
        let Some(open) = self.connections[place as usize].as_deref_mut() else { return Ok(()) };
        let number = open.number;
        let step = open.attend(end, clock.now(), &mut self.buffer);
        if let Ok(Step::Until(instant)) = step {
            self.working.push(Reverse((instant, place, number)));
        }
        self.check(place, step.map(drop), clock)
    }

    /// Ends a connection that is closed or has failed.
    fn check(&mut self, place: u32, done: io::Result<()>, clock: RunClock) -> io::Result<()> {
        let has_failed = match done {
            Err(error) if outcome_of(&error).is_none() => return Err(error),
            done => done.is_err(),
        };
        let open = &mut self.connections[place as usize];
        if let Some(ended) = open.take_if(|open| has_failed || open.is_closed()) {
            self.free.push_back(place);
            self.population.visits.ended(clock.now(), ended.number);
            self.tell_timeouts(place, &ended);
            self.tell(PopulationReport::Ended { place, has_failed });
        }
        Ok(())
    }

    fn watch(&self, socket: &OwnedFd, place: u32, end: End) -> io::Result<()> {
        watch(&self.epoll, socket, place, end)
    }

    /// The ports of a place.
    fn ports(&self, place: u32) -> Ports {
        Ports::of(self.population.flow.0 + place * Ports::DISTINCT)
    }

    fn place_of(&self, user: u16) -> Option<u32> {
        Ports::flow([self.population.server.port(), user]).map(|connection| connection / Ports::DISTINCT)
    }

    fn tell_timeouts(&self, place: u32, connection: &TransactionSockets) {
        self.tell(PopulationReport::Timeouts { place, timeouts: connection.timeouts() });
    }

    fn tell(&self, report: PopulationReport) {
        // The observer listens until the run ends.
        let _ = self.population.reports.send(report);
    }
}

/// Watches the socket of an end of a connection.
fn watch(epoll: &OwnedFd, socket: &OwnedFd, place: u32, end: End) -> io::Result<()> {
    let data = EventData::new_u64(2 * u64::from(place) + end as u64);
    Ok(epoll::add(epoll, socket.as_fd(), data, EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET)?)
}

/// The error of a population, with the fix if descriptors have run out.
fn shortage(name: &Name, error: &io::Error) -> io::Error {
    let is_short = matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE));
    let fix = if is_short {
        "; a connection takes two descriptors: raise the limit (ulimit -n), or let it open fewer"
    } else {
        ""
    };
    io::Error::new(error.kind(), format!("flow `{name}`: {error}{fix}"))
}

const LISTENER: u64 = u64::MAX;
/// Events fetched at a time.
const EVENTS: usize = 256;
/// Bytes written or read at a time.
const BUFFER: usize = 1 << 18;
/// Interval of checks of `stop`.
const LOOK: Time = Time::from_millis(100);
